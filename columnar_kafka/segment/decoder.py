"""Bytes → Segment: verify, columns, records. Pure, and trusts nothing it was given.

`Segment` is what users see. A `Decoder` does the part that reads foreign bytes: here in this
process, in `isolated` in another one.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from columnar_kafka import position
from columnar_kafka.columns.columns_to_rows import Texts, read_texts, to_rows
from columnar_kafka.columns.kafka_column import Headers, KafkaColumn, read_headers
from columnar_kafka.columns.layouts import filled_table
from columnar_kafka.config import METADATA_MEMBERS, DecodeLimits
from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema, fingerprint
from columnar_kafka.schema.canonical import children
from columnar_kafka.segment.headers import (
    ROWS_HEADER,
    SCHEMA_HEADER,
    MessageHeaders,
    SegmentHeader,
    check_value,
    parse_headers,
)
from columnar_kafka.segment.parquet.page_walk import (
    check_arrow_schema,
    check_decoded,
    exceeds,
    footer,
    footer_elements,
    walk,
)
from columnar_kafka.segment.parquet.statistics import bounds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from columnar_kafka.segment.parquet.page_walk import Walked
    from columnar_kafka.segment.parquet.statistics import Bounds, Path

__all__ = ["Decoder", "InlineDecoder", "Opened", "Sealed", "Segment", "SegmentRecord"]

_SLICE_ROWS: Final = 4096
_SLICE_BYTES: Final = 4 << 20
"""Turned into objects at once, at most: 19 fields are 0.16 KB in columns, 1.2 as a message."""

# What pyarrow raises for malformed files; UnicodeDecodeError is a ValueError.
_MALFORMED: Final = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError)

_COLUMNS: Final = "as no dict can: read it as columns, with to_table or consume_arrow"

_KAFKA_FIELDS: Final = [
    KafkaColumn(chosen).field
    for count in range(1, len(METADATA_MEMBERS) + 1)
    for chosen in itertools.combinations(METADATA_MEMBERS, count)
]
"""Every `_kafka` column that version 1 knows: one for each choice of its members."""


class SegmentRecord(NamedTuple):
    """One record of a segment; `timestamp` in milliseconds since the epoch."""

    row: int
    value: dict[str, Any]
    key: bytes | None
    timestamp: int
    headers: Headers | None


class Sealed(NamedTuple):
    """What a decoder gets of a segment: what its headers say, and its bytes."""

    header: SegmentHeader
    crc32: int
    value: Any


class Opened(Protocol):
    """A segment that a decoder has opened.

    Both raise SegmentError, without saying where: bytes and headers disagree, or the bytes cannot
    be decoded. What they return is checked in full.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        ...

    def statistics(self, columns: Collection[str]) -> dict[Path, Bounds] | None:
        """Return between which values columns are said to lie; None if the producer is not trusted.

        Nothing is raised: what is not said right is not in it.
        """
        ...

    def read(self, columns: Sequence[str] | None, *, encoded: bool = False) -> pa.Table:
        """Return all rows, decoded, of all columns or these.

        With `encoded`, columns of text that repeats may come as dictionaries.
        """
        ...


class Decoder(Protocol):
    """Decodes segments, for any thread."""

    def open(self, sealed: Sealed) -> Opened:
        """Check what needs no decoding, now (raises as `Opened`) or when the result is used."""
        ...

    def close(self) -> None:
        """Give back what it holds."""


class Segment:
    """One segment as it came from Kafka: which message, what it says of itself, its bytes.

    Made from a message's parts; making one reads its headers only. Nothing is decoded before it
    is verified. Not thread-safe.
    """

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        offset: int,
        headers: MessageHeaders | None,
        value: Any,
        decoder: Decoder | None = None,
    ) -> None:
        """Read the headers. Without a `decoder` bytes are decoded here, under the usual limits.

        Raises:
            SegmentError: they are not those of a segment that this release can read.
        """
        self.topic = topic
        self.partition = partition
        self.kafka_offset = offset
        self._data = value
        self._decoder = decoder or InlineDecoder()
        self._opened: Opened | None = None
        with self._located():
            self.header, self._crc32 = parse_headers(headers)

    def __repr__(self) -> str:
        return (
            f"<Segment {self._where} "
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
        with self._located():
            return self._open().schema

    def statistics(self, columns: Collection[str]) -> dict[Path, Bounds] | None:
        """Return between which values the footer says that columns, and members in them, lie.

        By their names; those of which it says nothing are left out. None where the producer is not
        trusted (``columnar.decode=isolated``).

        Raises:
            SegmentError: the bytes are not what the headers say.
        """
        with self._located():
            return self._open().statistics(columns)

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes, in hex."""
        return hashlib.sha256(self._data).hexdigest()

    def verify(self) -> None:
        """Check everything that needs no decoding: checksum, footer, number of rows, schema.

        Raises:
            SegmentError: naming topic, partition, offset and what disagrees.
        """
        with self._located():
            self._open().schema  # noqa: B018 - asking for it checks

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows as an Arrow table of `rows` rows.

        With `columns` only these are decoded, and come in this order; a member of a struct is
        called as in ``_kafka.key``. What is returned is valid: text is UTF-8, lists end where
        they say. Required values under a null are zeros, empty texts and empty lists, not nulls:
        pyarrow could not cast those. Decoding takes 20 ms for 100,000 rows of 19 columns; the
        thread that calls waits for Arrow's, which decode columns side by side.

        Raises:
            SegmentError: the bytes are not what the headers say, or cannot be decoded.
            SchemaError: there is no such column.
        """
        if columns is None:
            with self._located():
                return self._open().read(None)
        there = {each.name: each.type for each in self.schema}
        tops = [self._top_of(each, there) for each in columns]
        with self._located():
            return self._open().read(columns).select(list(dict.fromkeys(tops)))

    def _top_of(self, name: str, there: Mapping[str, pa.DataType]) -> str:
        """Return the column that a name is of, or a member of."""
        if name in there:
            return name
        top, _, member = name.partition(".")
        kind: Any = there.get(top)
        if kind is not None and pa.types.is_struct(kind) and kind.get_field_index(member) >= 0:
            return top
        raise SchemaError(
            f"segment at {self._where}: no column {name!r}; there are {', '.join(there)}"
        )

    def records(self, start: int = 0) -> Iterator[SegmentRecord]:
        """Yield the records from row `start` on. Decoding is done when the first is asked for.

        Raises:
            SegmentError: as `to_table`, or there is what no dict can hold: a key of a map or a
                field's name twice, or keys that are records or lists; before the first record.
        """
        for row, found in self._slices(start):
            for number, record in enumerate(zip(*found, strict=True), row):
                yield SegmentRecord(number, *record)

    def _slices(self, start: int) -> Iterator[tuple[int, _Records]]:
        """Yield the records from row `start` on, some at a time, with the first one's row."""
        with self._located():
            table = self._open().read(None, encoded=True)
            _check_records(table)
        for batch, texts in _slices(table.slice(start)):
            with self._located():
                found = _records(batch, texts, self.header.timestamp_max)
            yield start, found
            start += batch.num_rows

    @property
    def _where(self) -> str:
        return position.address(self.topic, self.partition, self.kafka_offset)

    def _open(self) -> Opened:
        if self._opened is None:
            self._opened = self._decoder.open(Sealed(self.header, self._crc32, self._data))
        return self._opened

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Say where, for anything that is wrong with the bytes."""
        try:
            yield
        except SegmentError as error:
            raise SegmentError(f"segment at {self._where}: {error.reason}") from error
        except _MALFORMED as error:
            raise SegmentError(f"segment at {self._where}: {_undecodable(error)}") from error


class InlineDecoder:
    """Decodes in this process, which lives with what Arrow does on foreign bytes.

    Sizes and counts are held against `limits` before anything is decoded.
    """

    def __init__(self, limits: DecodeLimits | None = None) -> None:
        self._limits = limits or DecodeLimits()

    def open(self, sealed: Sealed) -> Opened:
        """Check everything that needs no decoding, but for the pages."""
        with _as_segment_errors():
            return _File(sealed, self._limits)

    def close(self) -> None:
        """It holds nothing."""


class _File:
    """The Parquet file of one segment, opened."""

    def __init__(self, sealed: Sealed, limits: DecodeLimits) -> None:
        header, crc32, value = sealed
        check_value(value, crc32)
        if header.rows > limits.rows:
            raise exceeds("the segment", header.rows, "rows", "rows", limits.rows)
        self._data = bytes(value)  # copies only what is not bytes
        self._limits = limits
        self._rows = header.rows
        elements = footer_elements(self._data, limits)
        check_arrow_schema(self._data, limits)
        self._file = self._parquet_file(thrift_container_size_limit=elements)
        self._walked: Walked | None = None
        header.check_footer(self._file.metadata.metadata)
        if self._file.metadata.num_rows != header.rows:
            raise SegmentError(
                f"{ROWS_HEADER} is {header.rows} in the headers and "
                f"{self._file.metadata.num_rows} in the file"
            )
        self.schema = self._file.schema_arrow
        _check_columns(self.schema)
        found = _fingerprint(self.schema)
        if found != header.schema:
            raise SegmentError(
                f"{SCHEMA_HEADER} is {header.schema} in the headers and the columns' is {found}"
            )

    def statistics(self, columns: Collection[str]) -> dict[Path, Bounds]:
        return bounds(footer(self._data), self.schema, columns)

    def _parquet_file(self, **options: Any) -> pq.ParquetFile:
        source = pa.BufferReader(self._data)
        return pq.ParquetFile(source, page_checksum_verification=True, **options)

    def read(self, columns: Sequence[str] | None, *, encoded: bool = False) -> pa.Table:
        """Walk the pages, decode, and check what came out."""
        names = None if columns is None else list(columns)
        with _as_segment_errors(self.schema):
            if self._walked is None:
                self._walked = walk(self._data, self._file, self._limits)
            if self._walked.dictionaries:
                table = self._read_dictionaries(names, self._walked, encoded=encoded)
            else:
                table = self._file.read(columns=names, use_threads=self._fits(self._walked))
                table.validate(full=True)
                table = filled_table(table)
            if table.num_rows != self._rows:
                raise SegmentError(f"{table.num_rows} rows decoded, its header says {self._rows}")
            return table

    def _fits(self, walked: Walked) -> bool:
        """Say whether columns may be decoded side by side, which takes more memory on the way."""
        return walked.at_once <= self._limits.decoded_bytes

    def _read_dictionaries(
        self, names: list[str] | None, walked: Walked, *, encoded: bool
    ) -> pa.Table:
        """Read all rows, and expand dictionaries when it is known what that takes.

        One value of them may stand for a million. It is also faster than to let Arrow expand them,
        which cannot read nested ones of several row groups at once. With `encoded` those of which
        the values repeat stay.
        """
        schema = self.schema
        if names is not None:
            schema = self._file.read_row_groups([], columns=names).schema
        metadata = self._file.metadata
        file = self._parquet_file(metadata=metadata, read_dictionary=walked.dictionaries)
        use_threads = self._fits(walked)
        tables = [
            file.read_row_groups([number], columns=names, use_threads=use_threads)
            for number in range(metadata.num_row_groups)
        ]
        for each in tables:
            each.validate(full=True)
        _check_expanded(tables, walked.nbytes, self._limits)
        if encoded:
            schema = _with_dictionaries(schema, tables)
        return pa.concat_tables([filled_table(each, schema) for each in tables])


def _with_dictionaries(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Schema:
    """Return a schema with dictionaries for the columns whose values repeat in all tables."""
    for index, field in enumerate(tables[0].schema):
        chunks = [chunk for table in tables for chunk in table.column(index).chunks]
        if pa.types.is_dictionary(field.type) and all(
            2 * len(each.dictionary) <= len(each) for each in chunks
        ):
            schema = schema.set(index, field)
    return schema


def _check_expanded(tables: Sequence[pa.Table], nbytes: int, limits: DecodeLimits) -> None:
    """Refuse tables whose dictionaries, expanded, take more than is left of the limit."""
    found = [
        (name, each)
        for table in tables
        for name, column in zip(table.schema.names, table.columns, strict=True)
        for each in itertools.chain.from_iterable(map(_dictionaries, column.chunks))
    ]
    # Mostly there is room for the longest value in every place: then it need not be added up.
    longest = (pc.max(pc.binary_length(each.dictionary)).as_py() or 0 for _, each in found)
    at_most = sum(size * len(each) for size, (_, each) in zip(longest, found, strict=True))
    if nbytes + at_most <= limits.decoded_bytes:
        return
    for name, each in found:
        lengths = pc.binary_length(each.dictionary).take(each.indices)
        nbytes += pc.sum(lengths).as_py() or 0
        check_decoded(f"column {name}", nbytes, limits)


def _dictionaries(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield array
    elif pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _dictionaries(array.field(i))
    elif pa.types.is_nested(kind):  # a map's are structs of key and value
        yield from _dictionaries(array.values)


@contextmanager
def _as_segment_errors(schema: pa.Schema | None = None) -> Iterator[None]:
    try:
        yield
    except SegmentError:
        raise
    except _MALFORMED as error:
        raise SegmentError(_undecodable(error) + _why(schema)) from error


def _undecodable(error: BaseException) -> str:
    return f"cannot be decoded: {type(error).__name__}: {error}"


def _why(schema: pa.Schema | None) -> str:
    """Return what a producer of ours would have said of a schema, empty where it takes it."""
    try:
        if schema is not None:
            RecordSchema.parse(pa.schema([each for each in schema if each.name != KAFKA_COLUMN]))
    except SchemaError as error:
        return f"; {error.reason}"
    return ""


def _fingerprint(schema: pa.Schema) -> str:
    try:
        return fingerprint(schema)
    except SchemaError as error:
        raise SegmentError(
            f"{error.reason}: its producer has to store another type; "
            "with fetch.raw.bytes=true the file can be had as it is"
        ) from None


def _check_columns(schema: pa.Schema) -> None:
    """Refuse columns that cannot be told apart, and a `_kafka` that is not version 1's."""
    names = schema.names
    if len(set(names)) < len(names):
        raise SegmentError("two columns of the file have the same name")
    if KAFKA_COLUMN in names:
        found = schema.field(KAFKA_COLUMN)
        if found not in _KAFKA_FIELDS:
            raise SegmentError(f"column {KAFKA_COLUMN} is {found.type}: not that of version 1")


def _check_records(table: pa.Table) -> None:
    """Refuse what no dict can hold, before any record is handed out: a key or a name twice."""
    for each in table.schema:
        _check_names(each.type, each.name)
    mapped = [each.name for each in table.schema if _has_a_map(each.type)]
    if mapped:
        for batch, texts in _slices(table.select(mapped)):
            to_rows(batch, texts)


def _check_names(kind: pa.DataType, path: str) -> None:
    """Refuse records with two fields of one name, and maps whose keys are records or lists."""
    if not pa.types.is_nested(kind):
        return
    if pa.types.is_map(kind) and pa.types.is_nested(kind.key_type):
        raise SegmentError(f"field {path!r} has keys of type {kind.key_type}, {_COLUMNS}")
    inner = children(kind)
    counts = Counter(name for name, _ in inner)
    for name, each in inner:
        if counts[name] > 1:
            twice = f"field {f'{path}.{name}'!r} occurs {counts[name]} times"
            raise SegmentError(f"{twice}, {_COLUMNS}")
        _check_names(each.type, f"{path}.{name}")


def _has_a_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(
        _has_a_map(kind.field(i).type) for i in range(kind.num_fields)
    )


def _slices(table: pa.Table) -> Iterator[tuple[pa.RecordBatch, Texts]]:
    """Yield a table's rows, so few at once that their objects take little memory."""
    for batch in table.to_batches():
        texts = read_texts(batch)
        shared = sum(batch[name].dictionary.nbytes for name in texts)
        for each in _sliced(batch, _SLICE_BYTES + shared):
            yield each, texts


def _sliced(batch: pa.RecordBatch, nbytes: int) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    if rows < 2 or batch.nbytes <= nbytes:  # noqa: PLR2004 - one row has no halves
        for start in range(0, rows, _SLICE_ROWS):
            yield batch.slice(start, _SLICE_ROWS)
    else:
        yield from _sliced(batch.slice(0, rows // 2), nbytes)
        yield from _sliced(batch.slice(rows // 2), nbytes)


class _Records(NamedTuple):
    """The parts of some records, each in one list."""

    values: list[dict[str, Any]]
    keys: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers | None]


def _records(batch: pa.RecordBatch, texts: Texts, timestamp: int) -> _Records:
    """Return a batch's records; `timestamp` stands in where they have none."""
    names = batch.schema.names
    rows = to_rows(batch.select([name for name in names if name != KAFKA_COLUMN]), texts)
    members = _members(batch)
    nothing: list[Any] = [None] * len(rows)
    keys = members["key"].to_pylist() if "key" in members else nothing
    headers = read_headers(members["headers"]) if "headers" in members else nothing
    times = [timestamp] * len(rows)
    if "timestamp" in members:
        times = members["timestamp"].cast(pa.int64()).to_pylist()
    return _Records(rows, keys, times, headers)


def _members(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    if KAFKA_COLUMN not in batch.schema.names:
        return {}
    column = batch.column(KAFKA_COLUMN)
    return {each.name: column.field(each.name) for each in column.type}
