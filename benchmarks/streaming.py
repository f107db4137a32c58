"""The measured processes that run a stream of Spark's to the end of what is there."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.child import Clock, tree_cpu
from benchmarks.landing import Landing, rows_in
from benchmarks.sending import end_of
from benchmarks.spark import Spark, source_options, unless_late

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from benchmarks.child import Cost
    from benchmarks.landing import Landed


class Streaming(Landing):
    """A stream with `availableNow`, whose Java stays warm between rounds.

    It lands the last messages of the topic, and not the first: a stream is told where to begin.
    """

    def __init__(self, encoding: str, servers: str, topic: str) -> None:
        """Start Spark.

        Args:
            encoding: of the messages: "json" or "avro", or else for segments how they are verified.
            servers: the `bootstrap.servers`.
            topic: what is in it now will land.
        """
        super().__init__(servers, topic)
        self._spark, self._verify = Spark(self.avro, encoding), encoding
        self._end = end_of(servers, topic)

    def land(self, end: int, folder: str) -> None:
        """Land so many messages."""
        run(self._spark.stream(self._source(end), self._verify), folder)

    def measure(self, ends: tuple[int, int]) -> Landed:
        """As `Landing.measure`, with Python warm: Spark ends workers that idled for a minute."""
        self._measured(ends[0])
        return super().measure(ends)

    def batch(self, end: int) -> tuple[Cost, int]:
        """Measure a batch query that lands so many messages; also return how many rows they are."""
        return unless_late(partial(self._in_batch, end))

    def timed(self, end: int, folder: str) -> Cost:
        """Land so many messages in a new folder; return what it took."""

        def landed() -> Cost:
            shutil.rmtree(Path(folder).parent)
            Path(folder).parent.mkdir()
            return super(Streaming, self).timed(end, folder)

        return unless_late(landed)

    def _in_batch(self, end: int) -> tuple[Cost, int]:
        with tempfile.TemporaryDirectory() as root:
            clock = Clock(tree_cpu)
            self._spark.batch(self._source(end), self._verify).save(f"{root}/lake")
            return clock.stop(), rows_in(f"{root}/lake")

    def _source(self, end: int) -> dict[str, str]:
        return source_options(self.servers, self.topic, self._end - end)


def run(writer: DataStreamWriter, folder: str) -> None:
    """Write a stream to a folder, with its checkpoint beside it, and wait for its end."""
    query = writer.options(**_places(folder)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _places(folder: str) -> dict[str, str]:
    return {"path": folder, "checkpointLocation": f"{folder}-checkpoint"}
