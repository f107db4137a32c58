"""Kafka messages as rows of a table, as they came: dead letters, and plain messages.

They are written into files for a `LakeTable`, which commits them behind fences of its own.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import SourceMessage, StagedFile
from columnar_kafka.lake.plan import message_nbytes
from columnar_kafka.lake.stitching.stitch import Stitcher
from columnar_kafka.lake.tables.files import new_file
from columnar_kafka.segment.headers import header_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.lake.model import FileWriter, SourcePartition
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = [
    "DEAD_LETTERS",
    "PLAIN_MESSAGES",
    "MessageWriter",
    "as_bytes",
    "headers_in_bytes",
    "memory_of",
    "read_messages",
    "read_offsets",
]

PLAIN_MESSAGES: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)
"""The columns of a table of plain messages."""
DEAD_LETTERS: Final = PLAIN_MESSAGES.append(pa.field("reason", pa.string()))
"""Those of a place of dead letters."""

_FILE_BYTES: Final = 32 << 20
_MESSAGE_BYTES: Final = 512
_HEADER_BYTES: Final = 150
"""What a message, and each of its headers, takes in memory at least besides the bytes that came."""


class MessageWriter:
    """Writes the messages of one attempt, at most 32 MB of them to a file. For one thread."""

    def __init__(self, table: LakeTable, columns: pa.Schema) -> None:
        """Write to files of `table`; without a column ``reason`` reasons are left out."""
        self._table = table
        self._columns = columns
        self._offsets: dict[SourcePartition, array[int]] = {}  # ascending
        self._waiting: dict[SourcePartition, list[tuple[SourceMessage, str]]] = {}
        self._waiting_nbytes = 0
        self._writers: list[FileWriter] = []
        self._staged: list[StagedFile] = []

    def add(self, source: SourcePartition, message: SourceMessage, reason: str) -> None:
        """Take a message, unless it was taken before.

        Raises:
            LakeError, OSError: its file cannot be written.
        """
        offsets = self._offsets.setdefault(source, array("q"))
        at = bisect_left(offsets, message.offset)
        if at < len(offsets) and offsets[at] == message.offset:
            return
        offsets.insert(at, message.offset)
        self._waiting.setdefault(source, []).append((message, reason))
        self._waiting_nbytes += memory_of(message)
        if self._waiting_nbytes >= _FILE_BYTES:
            self._write()

    def finish(self) -> tuple[StagedFile, ...]:
        """Make all files durable, and return them. Raises as `add`."""
        self._write()
        return tuple(self._staged)

    def discard(self) -> None:
        """Remove all files. Raises nothing."""
        for writer in self._writers:
            writer.discard()

    def _write(self) -> None:
        for source, messages in self._waiting.items():
            messages.sort(key=lambda waiting: waiting[0].offset)
            self._staged.append(self._file(source, messages))
        self._waiting = {}
        self._waiting_nbytes = 0

    def _file(
        self, source: SourcePartition, messages: list[tuple[SourceMessage, str]]
    ) -> StagedFile:
        first, last = messages[0][0], messages[-1][0]
        rows = [_row(message) | {"reason": reason} for message, reason in messages]
        fitting = self._table.fit(self._columns)
        if fitting.partitioning:
            raise LakeError(f"{self._table}: messages cannot land in a partitioned table")
        sink = pa.BufferOutputStream()
        columns = fitting.cast_to or self._columns
        pq.write_table(pa.Table.from_pylist(rows, columns), sink, compression="zstd")
        writer = new_file(self._table, source, first.offset, self._columns, ())
        self._writers.append(writer)
        stitcher = Stitcher(writer, writer.field_ids, fitting.unstated)
        stitcher.append(sink.getvalue())
        stitcher.finish({})
        digest = hashlib.sha256()
        for row in rows:
            digest.update(f"{row['offset']} {_size(row['value'])}\n".encode())
        return StagedFile(
            fence=source.fence,
            topic=source.topic,
            partition=source.partition,
            first=first.offset,
            last=last.offset,
            messages=len(rows),
            rows=len(rows),
            nbytes=writer.finish(),
            segment=f"{last}",
            schema="",
            digest=digest.hexdigest(),
            path=writer.path,
        )


def read_offsets(data: bytes) -> array[int]:
    """Return the offsets in a file of messages, ascending."""
    table = pq.read_table(pa.BufferReader(data), columns=["offset"])
    return array("q", table["offset"].to_pylist())


def read_messages(data: bytes, start: int) -> Iterator[SourceMessage]:
    """Yield the messages in a file from offset `start` on, with the bytes that came from Kafka."""
    table = pq.read_table(pa.BufferReader(data))
    milliseconds = table["timestamp"].cast(pa.int64())  # Python's own times end with the year 9999
    table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", milliseconds)
    for batch in table.to_batches(max_chunksize=64):
        for row in batch.to_pylist():
            if row["offset"] >= start:
                yield _message(row)


def memory_of(message: SourceMessage) -> int:
    """Return about what a message takes in memory."""
    headers = _HEADER_BYTES * len(message.headers or ())
    return _MESSAGE_BYTES + headers + message_nbytes(message)


def headers_in_bytes(message: SourceMessage) -> list[tuple[str, bytes | None]]:
    """Return the headers of a message; an empty list if it has none."""
    return [(key, as_bytes(value)) for key, value in header_pairs(message.headers)]


def as_bytes(data: Any) -> bytes | None:
    """Return a key, a value or a header's value as bytes; it may be a text or any buffer."""
    return data.encode() if isinstance(data, str) else None if data is None else bytes(data)


def _row(message: SourceMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": as_bytes(message.key),
        "value": as_bytes(message.value),
        "headers": [{"key": key, "value": value} for key, value in headers_in_bytes(message)],
    }


def _message(row: dict[str, Any]) -> SourceMessage:
    return SourceMessage(
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        headers=[(header["key"], header["value"]) for header in row["headers"]],
        value=row["value"],
        key=row["key"],
        timestamp=row["timestamp"],
    )


def _size(data: Any) -> int:
    return 0 if data is None else memoryview(data).nbytes
