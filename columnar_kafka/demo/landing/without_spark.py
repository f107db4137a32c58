"""Kafka → lake without Spark: an ingestor in a thread of this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from columnar_kafka.demo.landing import lake
from columnar_kafka.ingest import Ingestor, IngestSettings, open_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from columnar_kafka.demo.story import Story
    from columnar_kafka.ingest import IngestStats

_ROLL_SECONDS = 0.5


@contextmanager
def running(story: Story, root: Path) -> Iterator[lake.Lander]:
    """An ingestor that lands the story's topic; it ends with the block."""
    servers = {"bootstrap.servers": story.cluster.bootstrap_servers}
    table = open_table("parquet", str(root / "lake"))
    settings = IngestSettings(
        partitions=tuple(range(story.partitions)),  # no group, which takes seconds to join
        roll_seconds=_ROLL_SECONDS,
        # This topic was made for this run. Named so, because not every broker knows topic ids.
        topic_generation=story.topic,
    )
    ingestor = Ingestor(servers, story.topic, table, settings)
    folder = root / "lake" / story.topic
    with ThreadPoolExecutor(1, "ingest") as executor:
        run = executor.submit(ingestor.run)
        try:
            yield lake.Lander(
                how="without Spark",
                folder=folder,
                land=partial(lake.wait_for_rows, folder, check=partial(check, run)),
                readers={"polars": lake.by_polars},
            )
        finally:
            ingestor.stop()


def check(run: Future[IngestStats]) -> None:
    """Raise what ended the ingestor, if anything did."""
    if run.done():
        run.result()
        raise RuntimeError("the ingestor stopped by itself")
