"""`Segment`: one Kafka message that holds a Parquet file, and the records in it.

A segment reads its message's headers when it is created. Its bytes are left alone until columns or
records are asked for; then a `Decoder` verifies and decodes them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka import native, position
from columnar_kafka.columns.columns_to_rows import (
    DictionaryValues,
    Unions,
    dictionary_values,
    has_map,
    to_rows,
)
from columnar_kafka.columns.kafka_column import RecordHeaders, read_headers
from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.schema.canonical import children
from columnar_kafka.segment.decoder import MALFORMED, RawSegment, default_decoder, undecodable
from columnar_kafka.segment.headers import parse_headers
from columnar_kafka.segment.json_layout import JSON_KEY, JsonLayout
from columnar_kafka.segment.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from columnar_kafka.segment.decoder import Decoder, SegmentFile
    from columnar_kafka.segment.headers import MessageHeaders
    from columnar_kafka.segment.native_decoder import Form
    from columnar_kafka.segment.parquet.statistics import Bounds, ColumnPath
    from columnar_kafka.segment.verification import Verification

__all__ = [
    "RecordColumns",
    "Segment",
    "SegmentRecord",
    "ValueForm",
    "decoded_columns",
    "record_slices",
]

_SLICE_ROWS: Final = 4096
_NATIVE_SLICE_ROWS: Final = 512
"""Fewer where a slice costs little and few are wanted: Python's garbage collector visits what lives
long."""
_SLICE_BYTES: Final = 4 << 20
"""The most that becomes Python objects at once. A row of 19 columns takes 0.16 KB in Arrow and
1.2 KB as a message."""

_NO_DICT: Final = (
    "a Python dict cannot hold that: read the segment as columns, with to_table or consume_arrow"
)


class SegmentRecord(NamedTuple):
    """One record of a segment; `timestamp` is in milliseconds since the epoch."""

    row: int
    value: dict[str, Any]
    key: bytes | None
    timestamp: int
    headers: RecordHeaders | None


class ValueForm(NamedTuple):
    """What the values of records are, where they are not the usual rows.

    Attributes:
        name: as the native core's reader knows it.
        maker: takes a file's columns, what its footer says of values, and the most bytes of one;
            returns what makes a value of a dict. Without the core, values are made so. It and what
            it returns raise SegmentError. None: values are rows.
        unions: what they are in these rows.
    """

    name: Form
    maker: (
        Callable[[pa.Schema, Mapping[bytes, bytes], int], Callable[[dict[str, Any]], bytes]] | None
    )
    unions: Unions = "members"


class RecordColumns(NamedTuple):
    """Consecutive records of a segment, one list for each of their parts."""

    values: list[Any]
    keys: list[bytes | None]
    timestamps: list[int]
    headers: list[RecordHeaders | None]


class Segment:
    """One segment as it came from Kafka: where it was, what its headers say, and its bytes.

    Creating one reads the headers only. Nothing is decoded before it is verified. Not thread-safe.
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
        """Read the headers of the message at Kafka offset `offset`.

        Without a `decoder` the bytes are decoded in this process, under the default limits.

        Raises:
            SegmentError: these are not the headers of a segment that this release can read.
        """
        self.topic = topic
        self.partition = partition
        self.kafka_offset = offset
        self._data = value
        self._decoder = decoder or default_decoder()
        self._file: SegmentFile | None = None
        try:
            self.header, self._crc32 = parse_headers(headers)
        except SegmentError as error:
            raise self._located_error(error) from error

    def __repr__(self) -> str:
        return (
            f"<Segment {self.address} "
            f"{self.header.segment}: {self.rows} rows, {len(self._data)} bytes>"
        )

    @property
    def rows(self) -> int:
        """The number of records; at least one."""
        return self.header.rows

    @property
    def id(self) -> str:
        """The producer's id and sequence number, unique for ever."""
        return self.header.segment

    @property
    def offset(self) -> int:
        """The position of the first record."""
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

    def statistics(self, columns: Collection[str]) -> dict[ColumnPath, Bounds] | None:
        """Return the bounds that the footer states for these columns and for members in them.

        The keys are the names of column and members. A column without usable statistics is left
        out. The result is None where the producer is not trusted (``columnar.decode=isolated``).

        Raises:
            SegmentError: the bytes are not what the headers say.
        """
        with self._located():
            return self._open().statistics(columns)

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes, in hex."""
        return hashlib.sha256(self._data).hexdigest()

    def verify(self, how: Verification = "headers") -> bool:
        """Check the bytes: all that needs no decoding, or also the pages, or every value.

        With ``headers`` these are checksum, footer, number of rows and schema. ``pages`` and
        ``decode`` may block while a child process decodes; see `verification`.

        Returns:
            Whether its rows may share a file with others.

        Raises:
            SegmentError: naming topic, partition, offset and what disagrees.
            ColumnarError: no child process could be started.
        """
        with self._located():
            return verify(self._raw, how, self._open)

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows as an Arrow table of `rows` rows.

        With `columns` only these are decoded, and the table has them in this order; a member of a
        struct is named as in ``_kafka.key``. The table is valid: text is UTF-8, and lists end where
        their offsets say. Required values under a null are zeros, empty texts and empty lists, not
        nulls, which pyarrow could not cast. The native core decodes in the calling thread, without
        the GIL. Otherwise that thread waits for Arrow's, which decode columns in parallel.

        Raises:
            SegmentError: the bytes are not what the headers say, or cannot be decoded.
            SchemaError: a column does not exist.
        """
        if columns is None:
            return self._read(None)
        types = {field.name: field.type for field in self.schema}
        tops = [self._top_level(name, types) for name in columns]
        return self._read(columns).select(list(dict.fromkeys(tops)))

    def _read(self, columns: Sequence[str] | None) -> pa.Table:
        with self._located():
            return self._open().read(columns)

    def _top_level(self, name: str, types: Mapping[str, pa.DataType]) -> str:
        """Return the top-level column that `name` names, or whose member it names."""
        if name in types:
            return name
        top, _, member = name.partition(".")
        arrow: Any = types.get(top)
        if arrow is not None and pa.types.is_struct(arrow) and arrow.get_field_index(member) >= 0:
            return top
        raise SchemaError(
            f"segment at {self.address}: no column {name!r}; there are {', '.join(types)}"
        )

    def records(self, start: int = 0) -> Iterator[SegmentRecord]:
        """Yield the records from row `start` on. The first one asked for decodes the segment.

        Raises:
            SegmentError: as `to_table`; or a record could not be a dict: a map has a key twice, a
                struct has a name twice, or a map's keys are structs or lists. It is raised before
                the first record.
        """
        for row, columns in self._slices(start):
            for number, record in enumerate(zip(*columns, strict=True), row):
                yield SegmentRecord(number, *record)

    def _slices(
        self, start: int, wanted: int = 0, form: ValueForm | None = None
    ) -> Iterator[tuple[int, RecordColumns]]:
        """See `record_slices`."""
        rows = min(max(wanted, _NATIVE_SLICE_ROWS), _SLICE_ROWS)
        name: Form = "rows" if form is None else form.name
        with self._located():
            records = self._decoder.read_records(self._raw, start, self._open, name)
        if records is None:
            yield from self._slices_of_table(start, form)
            return
        while records:
            try:
                lists = records.next(rows, _SLICE_BYTES, self.header.timestamp_max)
            except native.core.PanicError:
                lists = None
            if lists is None:
                yield from self._slices_of_table(start, form)
                return
            columns = RecordColumns(*lists)
            yield start, columns
            start += len(columns.values)

    def _slices_of_table(
        self, start: int, form: ValueForm | None
    ) -> Iterator[tuple[int, RecordColumns]]:
        with self._located():
            opened = self._open()
            table = opened.read(None, encoded=True)
            _check_records(table)
            make = None
            unions: Unions = "values" if form is None else form.unions
            if form is not None and form.maker is not None:
                most = self._decoder.options.max_decoded_bytes
                make = form.maker(opened.schema, opened.said, most)
        for batch, dictionaries in _slices(table.slice(start)):
            with self._located():
                columns = _record_columns(batch, dictionaries, self.header.timestamp_max, unions)
            if make is None:
                yield start, columns
                start += batch.num_rows
                continue
            for made in self._made(columns, make):
                yield start, made
                start += len(made.values)

    def _made(
        self, columns: RecordColumns, make: Callable[[dict[str, Any]], Any]
    ) -> Iterator[RecordColumns]:
        """Yield records with values made of dicts, as many at a time as take little memory."""
        values: list[Any] = []
        first = nbytes = 0
        for end, row in enumerate(columns.values, 1):
            with self._located():
                values.append(make(row))
            nbytes += len(values[-1])
            if nbytes >= _SLICE_BYTES or end == len(columns.values):
                some = slice(first, end)
                keys, times, headers = columns.keys, columns.timestamps, columns.headers
                yield RecordColumns(values, keys[some], times[some], headers[some])
                values, first, nbytes = [], end, 0

    @property
    def address(self) -> str:
        """Where the segment is, for errors: ``topic[partition]@offset``, with Kafka's offset."""
        return position.address(self.topic, self.partition, self.kafka_offset)

    def _open(self) -> SegmentFile:
        if self._file is None:
            self._file = self._decoder.open(self._raw)
        return self._file

    @property
    def _raw(self) -> RawSegment:
        return RawSegment(self.header, self._crc32, self._data)

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Add topic, partition and offset to whatever is wrong with the bytes."""
        try:
            yield
        except (SegmentError, *MALFORMED) as error:
            raise self._located_error(error) from error

    def _located_error(self, error: Exception) -> SegmentError:
        reason = error.reason if isinstance(error, SegmentError) else undecodable(error)
        return SegmentError(f"segment at {self.address}: {reason}")


def record_slices(
    segment: Segment, start: int, wanted: int, form: ValueForm | None = None
) -> Iterator[tuple[int, RecordColumns]]:
    """Yield a segment's records from row `start` on, a slice at a time, with its first row.

    If many are `wanted` together, a slice has as many, and no few are left for the next call.
    Cheaper than `Segment.records` for a consumer, which makes messages of the lists. Without a
    `form` values are dicts. Raises as `Segment.records`; with a form, also if the records cannot
    have it.
    """
    return segment._slices(start, wanted, form)  # noqa: SLF001 - beside its class


def decoded_columns(segment: Segment, columns: Sequence[str]) -> pa.Table:
    """Return a segment's rows in columns that exist, in the order of its schema.

    A name may stand for more than one column here, as Arrow's reader has it: ``a.b`` for the column
    and for the member. Raises as `Segment.to_table`, but for the names.
    """
    return segment._read(columns)  # noqa: SLF001 - beside its class


def json_layout(segment: Segment) -> JsonLayout | None:
    """Return what a segment's footer says of JSON; None: its records were produced as rows.

    Raises:
        SegmentError: the bytes are not what the headers say, or the footer is malformed.
    """
    with segment._located():  # noqa: SLF001 - beside its class
        opened = segment._open()  # noqa: SLF001
        text = opened.said.get(JSON_KEY)
        return None if text is None else JsonLayout.parse(text, opened.schema)


def said_of_values(segment: Segment) -> Mapping[bytes, bytes]:
    """Return what a segment's footer says of values, not parsed. Raises SegmentError."""
    with segment._located():  # noqa: SLF001 - as above
        return segment._open().said  # noqa: SLF001


def _check_records(table: pa.Table) -> None:
    """Refuse a table that has a record no dict can hold, before any record is handed out."""
    for field in table.schema:
        _check_names(field.type, field.name)
    with_maps = [field.name for field in table.schema if has_map(field.type)]
    if with_maps:
        for batch, dictionaries in _slices(table.select(with_maps)):
            to_rows(batch, dictionaries)


def _check_names(arrow: pa.DataType, path: str) -> None:
    """Refuse structs with two fields of one name, and maps whose keys are structs or lists."""
    if not pa.types.is_nested(arrow):
        return
    if pa.types.is_map(arrow) and pa.types.is_nested(arrow.key_type):
        raise SegmentError(f"field {path!r} has map keys of type {arrow.key_type}; {_NO_DICT}")
    inner = children(arrow)
    counts = Counter(name for name, _ in inner)
    for name, field in inner:
        if counts[name] > 1:
            repeated = f"{path}.{name}"
            raise SegmentError(f"field {repeated!r} occurs {counts[name]} times; {_NO_DICT}")
        _check_names(field.type, f"{path}.{name}")


def _slices(table: pa.Table) -> Iterator[tuple[pa.RecordBatch, DictionaryValues]]:
    """Yield a table's rows in slices whose Python objects take little memory."""
    for batch in table.to_batches():
        dictionaries = dictionary_values(batch)
        shared = sum(batch[name].dictionary.nbytes for name in dictionaries)
        for part in _halved(batch, _SLICE_BYTES + shared):
            yield part, dictionaries


def _halved(batch: pa.RecordBatch, nbytes: int) -> Iterator[pa.RecordBatch]:
    """Yield slices of at most `nbytes` and `_SLICE_ROWS`; one row is never cut."""
    rows = batch.num_rows
    if rows < 2 or batch.nbytes <= nbytes:  # noqa: PLR2004 - one row has no halves
        for start in range(0, rows, _SLICE_ROWS):
            yield batch.slice(start, _SLICE_ROWS)
    else:
        yield from _halved(batch.slice(0, rows // 2), nbytes)
        yield from _halved(batch.slice(rows // 2), nbytes)


def _record_columns(
    batch: pa.RecordBatch, dictionaries: DictionaryValues, timestamp: int, unions: Unions
) -> RecordColumns:
    """Return a batch's records; `timestamp` stands in for a missing timestamp member."""
    names = batch.schema.names
    users = batch.select([name for name in names if name != KAFKA_COLUMN])
    values = to_rows(users, dictionaries, unions)
    members = _kafka_members(batch)
    nulls: list[Any] = [None] * len(values)
    keys = members["key"].to_pylist() if "key" in members else nulls
    headers = read_headers(members["headers"]) if "headers" in members else nulls
    timestamps = [timestamp] * len(values)
    if "timestamp" in members:
        timestamps = members["timestamp"].cast(pa.int64()).to_pylist()
    return RecordColumns(values, keys, timestamps, headers)


def _kafka_members(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    if KAFKA_COLUMN not in batch.schema.names:
        return {}
    column = batch.column(KAFKA_COLUMN)
    return {field.name: column.field(field.name) for field in column.type}
