"""Bytes → Segment: verify, columns, records. Pure, and trusts nothing it was given."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka import position, wire
from columnar_kafka.columns.kafka import Headers, KafkaColumn, read_headers
from columnar_kafka.columns.rows import to_rows
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.errors import SegmentError
from columnar_kafka.schema import KAFKA_COLUMN, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Segment", "SegmentRecord"]

_SLICE_ROWS: Final = 1024
"""Rows turned into objects at once: a row of 19 fields is 0.16 KB as columns, 2.5 as a dict."""

# What pyarrow raises for malformed files; UnicodeDecodeError is a ValueError.
_MALFORMED: Final = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError)

_KAFKA_FIELDS: Final = [
    KafkaColumn(chosen).field
    for count in range(1, len(METADATA_MEMBERS) + 1)
    for chosen in combinations(METADATA_MEMBERS, count)
]
"""Every `_kafka` column that version 1 knows: one for each choice of its members."""


class SegmentRecord(NamedTuple):
    """One record of a segment; `timestamp` in milliseconds since the epoch."""

    row: int
    value: dict[str, Any]
    key: bytes | None
    timestamp: int
    headers: Headers | None


class Segment:
    """One segment as it came from Kafka: which message, what it says of itself, its bytes.

    Made from a message's parts; making one reads its headers only. Nothing is decoded before it
    is verified. Not thread-safe.
    """

    def __init__(
        self, *, topic: str, partition: int, offset: int, headers: wire.Headers | None, value: Any
    ) -> None:
        """Read the headers.

        Raises:
            SegmentError: they are not those of a segment that this release can read.
        """
        self.topic = topic
        self.partition = partition
        self.kafka_offset = offset
        self._data = value
        self._file: pq.ParquetFile | None = None
        with self._located():
            self.header, self._crc32 = wire.parse(headers)

    def __repr__(self) -> str:
        return (
            f"<Segment {self.topic}[{self.partition}]@{self.kafka_offset} "
            f"{self.header.segment}: {self.rows} rows, {len(self._data)} bytes>"
        )

    @property
    def rows(self) -> int:
        """How many records it holds; at least one."""
        return self.header.rows

    @property
    def id(self) -> str:
        """Its producer's id and sequence number, unique for ever."""
        return self.header.segment

    @property
    def offset(self) -> int:
        """The position of its first record."""
        return position.pack(self.kafka_offset, 0, self.rows)

    @property
    def bytes(self) -> memoryview:
        """The Parquet file, not copied."""
        return memoryview(self._data)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file.

        Raises:
            SegmentError: the bytes are not what the headers say.
        """
        return self._open().schema_arrow

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes, in hex."""
        return hashlib.sha256(self._data).hexdigest()

    def verify(self) -> None:
        """Check everything that needs no decoding: checksum, footer, number of rows, schema.

        Raises:
            SegmentError: naming topic, partition, offset and what disagrees.
        """
        self._open()

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows as an Arrow table of `rows` rows, only `columns` decoded when given.

        What is returned is valid: text is UTF-8, lists end where they say.

        Raises:
            SegmentError: the bytes are not what the headers say, or cannot be decoded.
        """
        file = self._open()
        with self._located():
            table = file.read(columns=None if columns is None else list(columns), use_threads=False)
            if table.num_rows != self.rows:
                raise SegmentError(f"{table.num_rows} rows decoded, its header says {self.rows}")
            table.validate(full=True)
            return table

    def records(self, start: int = 0) -> Iterator[SegmentRecord]:
        """Yield the records from row `start` on. Decoding is done when the first is asked for.

        Raises:
            SegmentError: as `to_table`, before the first record; or, at a record, a value for
                which Python has no object.
        """
        table = self.to_table()
        for batch in table.slice(start).to_batches(max_chunksize=_SLICE_ROWS):
            with self._located():
                found = _records(batch, self.header.timestamp_max)
            for row, record in enumerate(found, start):
                yield SegmentRecord(row, *record)
            start += batch.num_rows

    def _open(self) -> pq.ParquetFile:
        if self._file is None:
            with self._located():
                wire.check_value(self._data, self._crc32)
                file = pq.ParquetFile(pa.BufferReader(self._data), page_checksum_verification=True)
                self.header.check_footer(file.metadata.metadata)
                if file.metadata.num_rows != self.rows:
                    raise SegmentError(
                        f"{wire.ROWS} is {self.rows} in the headers and "
                        f"{file.metadata.num_rows} in the file"
                    )
                _check_columns(file.schema_arrow)
                found = fingerprint(file.schema_arrow)
                if found != self.header.schema:
                    raise SegmentError(
                        f"{wire.SCHEMA} is {self.header.schema} in the headers and the columns' "
                        f"is {found}"
                    )
                self._file = file
        return self._file

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Say where, for anything that is wrong with the bytes."""
        where = f"{self.topic}[{self.partition}]@{self.kafka_offset}"
        try:
            yield
        except SegmentError as error:
            raise SegmentError(f"segment at {where}: {error.reason}") from error
        except _MALFORMED as error:
            raise SegmentError(
                f"segment at {where} cannot be decoded: {type(error).__name__}: {error}"
            ) from error


def _check_columns(schema: pa.Schema) -> None:
    """Refuse columns that cannot be told apart, and a `_kafka` that is not version 1's."""
    names = schema.names
    if len(set(names)) < len(names):
        raise SegmentError("two columns of the file have the same name")
    if KAFKA_COLUMN in names:
        found = schema.field(KAFKA_COLUMN)
        if found not in _KAFKA_FIELDS:
            raise SegmentError(f"column {KAFKA_COLUMN} is {found.type}: not that of version 1")


def _records(
    batch: pa.RecordBatch, timestamp: int
) -> Iterator[tuple[dict[str, Any], bytes | None, int, Headers | None]]:
    """Return value, key, timestamp and headers; `timestamp` stands in where records have none."""
    names = batch.schema.names
    rows = to_rows(batch.select([name for name in names if name != KAFKA_COLUMN]))
    members = _members(batch)
    nothing: list[None] = [None] * len(rows)
    keys = members["key"].to_pylist() if "key" in members else nothing
    headers = read_headers(members["headers"]) if "headers" in members else nothing
    times = [timestamp] * len(rows)
    if "timestamp" in members:
        times = members["timestamp"].cast(pa.int64()).to_pylist()
    return zip(rows, keys, times, headers, strict=True)


def _members(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    if KAFKA_COLUMN not in batch.schema.names:
        return {}
    column = batch.column(KAFKA_COLUMN)
    return {each.name: column.field(each.name) for each in column.type}
