"""Our classes as Spark uses them, in processes that are killed at a point of their work.

The environment says which: `KILL_POINT` is the point, and whoever comes there second is killed.
`KILL_COUNT` is a file whose size counts. `KILL_DRIVER` is the process group of the driver, which is
killed too; if it is empty, only the worker is killed. Spark runs all this in several processes.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from columnar_kafka import Producer
from spark_sink import sink, source, writer

if TYPE_CHECKING:
    from collections.abc import Iterator

LANDING = (
    *("before a file", "in a file", "before the commit", "before the swap", "after the swap"),
    *("before the checkpoint", "between batches"),
)
SENDING = ("before a transaction", "while sending", "before its end", "after its end")


def reach(point: str) -> bool:
    """Return whether to kill here; say so once."""
    if not point or point != os.environ["KILL_POINT"]:
        return False
    with Path(os.environ["KILL_COUNT"]).open("ab") as file:
        file.write(b".")
        file.flush()
        return file.tell() == 2


def kill() -> None:
    if driver := os.environ["KILL_DRIVER"]:
        os.killpg(int(driver), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def around(before: str, after: str = "") -> Iterator[None]:
    """Have two points: at the beginning and at the end of the block."""
    if reach(before):
        kill()
    yield
    if reach(after):
        kill()


# --- landing --------------------------------------------------------------------------------------


@dataclass
class Table:
    """A `LakeTable` around another one."""

    inner: Any

    def fences(self) -> Any:
        return self.inner.fences()

    def fit(self, schema: Any) -> Any:
        return self.inner.fit(schema)

    def create(self, *arguments: Any) -> FileWriter:
        with around("before a file"):
            return FileWriter(self.inner.create(*arguments))

    def commit(self, staged: Any) -> Any:
        swap = self.inner.swap

        def killed(*arguments: Any) -> Any:
            with around("before the swap", "after the swap"):
                return swap(*arguments)

        self.inner.swap = killed
        with around("before the commit", "before the checkpoint"):
            return self.inner.commit(staged)

    def discard(self, staged: Any) -> None:
        self.inner.discard(staged)


class FileWriter:
    """A `FileWriter` around another one."""

    def __init__(self, inner: Any) -> None:
        self.path, self.field_ids = inner.path, inner.field_ids
        self.finish, self.discard = inner.finish, inner.discard
        self._write = inner.write

    def write(self, data: Any) -> int:
        if reach("in a file"):
            self._write(memoryview(data)[: len(data) // 2])
            kill()
        return int(self._write(data))


class Sink(sink.LakeSink):
    @classmethod
    def name(cls) -> str:
        return "killed_lake"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        settings = super().streamWriter(schema, overwrite)._settings
        return sink.StreamWriter(replace(settings, table=Table(settings.table)))


class Reader(source.StreamReader):
    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802 - Spark's name
        with around("between batches"):
            return super().latestOffset(start, limit)


# --- sending --------------------------------------------------------------------------------------


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


class Writer(writer.StreamWriter):
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
