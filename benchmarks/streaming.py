"""The measured processes that run a stream of Spark's to the end of what is there."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import spark_sink
from benchmarks.bare import Bare
from benchmarks.child import Clock, tree_cpu
from benchmarks.landing import Landing
from benchmarks.sending import end_of
from benchmarks.spark import Spark, unless_late

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from benchmarks.child import Cost


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
        self._spark = Spark(self.avro)
        spark_sink.register(self._spark.session)
        self._encoding, self._end = encoding, end_of(servers, topic)
        self._limit = {} if per_trigger is None else {"maxOffsetsPerTrigger": str(per_trigger)}

    def land(self, end: int, folder: str) -> None:
        """Land so many messages."""
        is_ours = self._encoding not in ("json", "avro")
        frame = (
            self._spark.session.readStream.format("columnar_kafka" if is_ours else "kafka")
            .options(**self._source(end), **({"mode": "ranges"} if is_ours else {}))
            .load()
        )
        run(self._ours(frame) if is_ours else self._theirs(frame), folder)

    def timed(self, end: int, folder: str) -> Cost:
        """Land so many messages in a new folder; return what it took."""

        def landed() -> Cost:
            shutil.rmtree(Path(folder).parent)
            Path(folder).parent.mkdir()
            return super(Streaming, self).timed(end, folder)

        return unless_late(landed)

    def _source(self, count: int) -> dict[str, str]:
        return {**self.source(self._end - count), **self._limit}

    def _ours(self, frame: DataFrame) -> DataStreamWriter:
        options = {"kafka.bootstrap.servers": self.servers, "table.verify": self._encoding}
        return frame.writeStream.format("columnar_lake").options(**options)

    def _theirs(self, frame: DataFrame) -> DataStreamWriter:
        return self._spark.rows(frame, self._encoding).writeStream.format("parquet")


class Empty:
    """A stream of micro-batches with hardly anything in them, which go nowhere."""

    def __init__(self, language: str) -> None:
        """Start Spark; `language` is that of source and sink: "Java" or "Python"."""
        self._spark = Spark({})
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
    place = {"path": folder, "checkpointLocation": f"{folder}-checkpoint"}
    query = writer.options(**place).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
