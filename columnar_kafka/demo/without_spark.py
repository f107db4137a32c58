"""Kafka → lake without Spark: the same plan, stage and commit, in this process."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from columnar_kafka import Consumer
from columnar_kafka.demo import lake
from columnar_kafka.demo.lake import Lander
from columnar_kafka.lake.directory import ParquetDirectory
from columnar_kafka.lake.model import SourceMessage, TopicGeneration
from columnar_kafka.lake.stage import land

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from columnar_kafka.demo.story import Story

_POLL_SECONDS = 0.5
_SILENCE_SECONDS = 30.0


@contextmanager
def running(story: Story, root: Path) -> Iterator[Lander]:
    """A consumer whose segments land in this process, in one commit for each `land`."""
    landing = _Landing(story.cluster.bootstrap_servers, story.topic, root)
    try:
        yield Lander(
            how="without Spark",
            folder=root / "lake" / story.topic,
            land=landing.up_to,
            readers={"polars": lake.by_polars},
        )
    finally:
        landing.close()


class _Landing:
    """Each landing goes on where the one before ended. Not thread-safe."""

    def __init__(self, bootstrap_servers: str, topic: str, root: Path) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": topic,
                "enable.auto.commit": False,  # the table itself knows what has landed
                "columnar.encoding": "parquet",
                "fetch.raw.bytes": True,  # whole segments, which land as they are
            }
        )
        partitions = self._consumer.list_topics(topic).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in partitions])
        self._topic = topic
        self._table = ParquetDirectory(root / "lake")
        self._rows = 0

    def up_to(self, wanted: int, advance: Callable[[int], None]) -> None:
        """Land segments until the table has that many rows.

        Raises:
            LakeError, SegmentError: they cannot land.
            KafkaException: Kafka cannot be read.
            TimeoutError: no segment came for 30 s.
        """
        generation = TopicGeneration(
            "demo", self._topic
        )  # a topic of this run, on whatever cluster
        messages = self._messages(wanted - self._rows)
        done = land(messages, table=self._table, generations={self._topic: generation})
        self._rows += done.landed.rows
        advance(self._rows)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _messages(self, rows: int) -> Iterator[SourceMessage]:
        last = time.monotonic()
        while rows > 0:
            found = self._consumer.poll(_POLL_SECONDS)
            if found is None:
                if time.monotonic() > last + _SILENCE_SECONDS:
                    raise TimeoutError(f"{rows:,} rows did not come in {_SILENCE_SECONDS:.0f} s")
                continue
            if (error := found.error()) is not None:
                raise KafkaException(error)
            last = time.monotonic()
            rows -= int(dict(found.headers())["columnar.rows"])
            yield SourceMessage(
                topic=found.topic(),
                partition=found.partition(),
                offset=found.offset(),
                headers=found.headers(),
                value=found.value(),
            )
