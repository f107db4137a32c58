"""Our classes as Spark uses them, in processes that are killed at a point; see `killing`."""

# ruff: noqa: SLF001 - what Spark is given is made anew, with other classes

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from killing import Table, around

from columnar_kafka import Producer
from spark_sink import sink, source, writer

MEANWHILE = "TEST_MEANWHILE"
"""A variable of the environment with a folder: a stream's start is held up there, see `_wait`."""

SENDING = ("before a transaction", "while sending", "before its end", "after its end")


class Sink(sink.LakeSink):
    @classmethod
    def name(cls) -> str:
        return "killed_lake"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        settings = super().streamWriter(schema, overwrite).settings
        return sink.LakeStreamWriter(replace(settings, table=Table(settings.table)))


class Reader(source.StreamReader):
    def initialOffset(self) -> Any:  # noqa: N802 - Spark's name
        offset = super().initialOffset()
        if meanwhile := os.environ.get(MEANWHILE):
            _wait(Path(meanwhile))
        return offset

    def partitions(self, start: Any, end: Any) -> Any:
        with around("after the log"):
            return super().partitions(start, end)

    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802 - Spark's name
        with around("between batches"):
            return super().latestOffset(start, limit)


def _wait(folder: Path) -> None:
    """Say that the start was asked for, and wait until more was sent."""
    (folder / "asked").touch()
    while not (folder / "sent").exists():
        time.sleep(0.02)


class KilledProducer(Producer):
    def begin_transaction(self) -> None:
        with around("before a transaction"):
            super().begin_transaction()

    def flush(self, *arguments: Any) -> int:
        remaining = super().flush(*arguments)
        with around("while sending"):
            return remaining

    def commit_transaction(self, *arguments: Any) -> None:
        with around("before its end", "after its end"):
            super().commit_transaction(*arguments)


class Writer(writer.TopicStreamWriter):
    def write(self, iterator: Any) -> Any:
        writer.Producer = KilledProducer  # type: ignore[misc]
        return super().write(iterator)


class Source(source.KafkaSource):
    @classmethod
    def name(cls) -> str:
        return "killed_kafka"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        reader = super().streamReader(schema)
        return Reader(reader._options, reader._schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return Writer(super().streamWriter(schema, overwrite)._options)
