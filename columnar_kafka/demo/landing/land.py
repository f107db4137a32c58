"""Kafka → lake → readers, twice: the second time with more records."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from columnar_kafka.demo import servers
from columnar_kafka.demo.figures import Stage
from columnar_kafka.demo.landing import lake, with_spark, without_spark
from columnar_kafka.demo.screen import Clock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from columnar_kafka.demo.landing.lake import Lander
    from columnar_kafka.demo.story import Story


def land(story: Story) -> None:
    """Land the produced records and compare; send more, land them too, compare again.

    Raises:
        Exception: the landing failed. A difference is part of the stages instead.
    """
    with tempfile.TemporaryDirectory(prefix="columnar-kafka-demo-") as name:
        root = Path(name)
        with _lander(story, root) as lander:
            _land(story, lander, story.expected, f"landed {lander.how}")
            _compare(story, lander, story.expected)
            story.produce(story.more, f"{story.more.num_rows:,} more, while it goes on")
            _land(story, lander, story.everything, "landed with them, without a restart")
            _compare(story, lander, story.everything)


def _lander(story: Story, root: Path) -> AbstractContextManager[Lander]:
    if servers.has_java():
        return with_spark.running(story, root)
    story.screen.say("No Java 17+ here: landing without Spark, in this process.")
    return without_spark.running(story, root)


def _land(story: Story, lander: Lander, wanted: pa.Table, name: str) -> None:
    clock = Clock()
    with story.screen.progress("landing", wanted.num_rows) as advance:
        lander.land(wanted.num_rows, advance)
    rows, detail = lake.rows(lander.folder), lake.describe(lander.folder)
    story.done(Stage(name, rows, clock(), detail))


def _compare(story: Story, lander: Lander, expected: pa.Table) -> None:
    for name, read in lander.readers.items():
        clock = Clock()
        with story.screen.progress(f"comparing what {name} sees"):
            seen = read(lander.folder)
            comparison = lake.check(expected, seen)
        story.done(Stage(f"seen by {name}", seen.num_rows, clock(), "", comparison))
