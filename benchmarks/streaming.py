"""The measured processes that run a stream of Spark's to the end of what is there."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import spark_sink
from benchmarks import data
from benchmarks.bare import Bare
from benchmarks.child import Clock, tree_cpu
from benchmarks.landing import Landing, rows_in
from benchmarks.sending import end_of
from benchmarks.spark import Spark, source_options, unless_late

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from benchmarks.child import Cost
    from benchmarks.landing import Landed


class Streaming(Landing):
    """A stream with `availableNow`, whose Java stays warm between rounds.

    It lands the last messages of the topic, and not the first: a stream is told where to begin.
    """

    def __init__(
        self, encoding: str, servers: str, topic: str, per_trigger: int | None = None
    ) -> None:
        """Start Spark.

        Args:
            encoding: of the messages: "json" or "avro", or else for segments how they are verified.
            servers: the `bootstrap.servers`.
            topic: what is in it now will land.
            per_trigger: the most messages of a micro-batch; all of them without it.
        """
        super().__init__(servers, topic)
        self._spark, self._verify = Spark(self.avro, encoding), encoding
        self._end = end_of(servers, topic)
        self._limit = {} if per_trigger is None else {"maxOffsetsPerTrigger": str(per_trigger)}

    def land(self, end: int, folder: str) -> None:
        """Land so many messages."""
        run(self._spark.stream(self._source(end) | self._limit, self._verify), folder)

    def measure(self, ends: tuple[int, int]) -> Landed:
        """As `Landing.measure`, with Python warm: Spark ends workers that idled for a minute."""
        self._measured(ends[0])
        return super().measure(ends)

    def costs(self, ends: tuple[int, int]) -> tuple[Cost, Cost]:
        """Measure one round; return what landing so many messages, and so many, took."""
        (few, _), (many, _) = map(self._measured, ends)
        return few, many

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


class Triggered:
    """Streams of log lines with a `processingTime`, one at a time; Java stays warm between them."""

    def __init__(self, encoding: str, servers: str) -> None:
        """Start Spark. The arguments are as those of `Streaming`."""
        self._spark, self._verify = Spark(data.load("log").avro, encoding), encoding
        self._servers = servers
        self._query: StreamingQuery
        self._clock: Clock

    def start(self, topic: str, folder: str, interval: str) -> None:
        """Begin to land; return after the first trigger."""
        source = source_options(self._servers, topic)
        writer = self._spark.stream(source, self._verify).options(**_places(folder))
        self._query = spark_sink.start(writer.trigger(processingTime=interval), attempts=5)
        self._clock = Clock(tree_cpu)

    def stop(self) -> float:
        """End; return the CPU in percent of a core."""
        cost = self._clock.stop()
        self._query.stop()
        return 100 * cost.cpu / cost.wall


class Empty:
    """A stream of micro-batches with hardly anything in them, which go nowhere."""

    def __init__(self, language: str) -> None:
        """Start Spark; `language` is that of source and sink: "Java" or "Python"."""
        self._spark = Spark({}, "json")
        self._spark.session.dataSource.register(Bare)
        self._is_python = language == "Python"

    def costs(self, batches: tuple[int, int]) -> tuple[Cost, Cost]:
        """Measure one round: a query of so many micro-batches, and one of so many."""
        few, many = (unless_late(partial(self._measured, each)) for each in batches)
        return few, many

    def _measured(self, batches: int) -> Cost:
        with tempfile.TemporaryDirectory() as root:
            texts = Path(root, "texts")
            texts.mkdir()
            for number in range(batches):
                (texts / f"{number}.txt").write_text(f"{number}\n")
            clock = Clock(tree_cpu)
            read = self._spark.session.readStream
            if self._is_python:
                frame = read.format("bare").option("batches", batches).load()
            else:
                frame = read.format("text").option("maxFilesPerTrigger", 1).load(str(texts))
            run(frame.writeStream.format("bare" if self._is_python else "noop"), f"{root}/nowhere")
            return clock.stop()


def run(writer: DataStreamWriter, folder: str) -> None:
    """Write a stream to a folder, with its checkpoint beside it, and wait for its end."""
    query = writer.options(**_places(folder)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _places(folder: str) -> dict[str, str]:
    return {"path": folder, "checkpointLocation": f"{folder}-checkpoint"}
