"""Parquet bytes to Arrow columns, trusting nothing: verified before Arrow decodes them, and after.

A `Decoder` opens the file of a segment. `InlineDecoder` decodes it in this process, `isolated` in
another one. Errors do not say where the segment is: `Segment` adds that.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.layouts import fill_hidden_nulls_in_table
from columnar_kafka.config import METADATA_MEMBERS, ReadOptions
from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema, fingerprint, is_kafka_member
from columnar_kafka.schema.canonical import user_metadata
from columnar_kafka.segment import pyarrow_parquet as pq
from columnar_kafka.segment.avro_layout import said_of
from columnar_kafka.segment.declared_types import (
    declared_schema,
    file_with_lists,
    needs_help,
    projected,
    with_declared_types,
    younger_types,
)
from columnar_kafka.segment.headers import ROWS_HEADER, SCHEMA_HEADER, SegmentHeader, check_value
from columnar_kafka.segment.native_decoder import NativeDecoder
from columnar_kafka.segment.parquet.page_checks import (
    check_arrow_schema,
    check_decoded,
    check_depth,
    exceeds,
    footer_bytes,
    max_list_elements,
    walk,
)
from columnar_kafka.segment.parquet.statistics import bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from columnar_kafka.native._core import RecordReader
    from columnar_kafka.segment.native_decoder import Form, KnownFile
    from columnar_kafka.segment.parquet.page_checks import DecodedSize
    from columnar_kafka.segment.parquet.statistics import Bounds, ColumnPath

__all__ = [
    "MALFORMED",
    "Decoder",
    "InlineDecoder",
    "RawSegment",
    "SegmentFile",
    "default_decoder",
    "fingerprint_of",
    "undecodable",
]

MALFORMED: Final = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError)
"""The exceptions that pyarrow raises for malformed files; UnicodeDecodeError is a ValueError."""

_KAFKA_FIELDS: Final = [
    KafkaColumn(chosen).field
    for count in range(1, len(METADATA_MEMBERS) + 1)
    for chosen in itertools.combinations(METADATA_MEMBERS, count)
]
"""Every `_kafka` column that version 1 allows: one for each choice of its members."""


class RawSegment(NamedTuple):
    """A segment before it is decoded: its parsed headers, its checksum, and its bytes."""

    header: SegmentHeader
    crc32: int
    value: Any


class SegmentFile(Protocol):
    """The Parquet file of a segment, opened by a decoder.

    `schema`, `said`, `read` and `check` raise SegmentError, without saying where: bytes and headers
    disagree, or the bytes cannot be decoded. The schema and the tables have passed every check.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        ...

    @property
    def said(self) -> Mapping[bytes, bytes]:
        """What the footer says of the values of records, not parsed: see `said_of`."""
        ...

    def statistics(self, columns: Collection[str]) -> dict[ColumnPath, Bounds] | None:
        """Return the bounds that the footer states for columns; None for an untrusted producer.

        Raises nothing: statistics that are missing or malformed are left out.
        """
        ...

    def read(self, columns: Sequence[str] | None, *, encoded: bool = False) -> pa.Table:
        """Return all rows, decoded, of all columns or of these.

        With `encoded`, text columns whose values repeat may come as dictionaries.
        """
        ...

    def check(self, *, decode: bool) -> None:
        """Walk the headers of all pages, and scan the pages; with `decode`, decode every value.

        A scan reads levels and encoded values, and looks each one up in its dictionary. It checks
        no text, and makes no columns.
        """
        ...


class Decoder(Protocol):
    """Decodes segments, for any thread."""

    options: ReadOptions
    """The limits."""

    def open(self, raw: RawSegment) -> SegmentFile:
        """Check everything that needs no decoding: now, or when the file is first used.

        Raises:
            SegmentError: as `SegmentFile`.
        """
        ...

    def read_records(
        self, raw: RawSegment, start: int, opened: Callable[[], SegmentFile], form: Form
    ) -> RecordReader | None:
        """Check and decode a segment; return its records from row `start` on.

        The result is None if its table has to be read instead. `opened` returns the segment's file,
        and `form` says what the records' values are.

        Raises:
            SegmentError: as `SegmentFile`; or the records have no such form.
        """
        ...

    def close(self) -> None:
        """Release what the decoder holds."""


class InlineDecoder:
    """Decodes in this process, which is exposed to what Arrow does with foreign bytes.

    Sizes and counts are compared with the limits in `options` before anything is decoded.
    """

    def __init__(self, options: ReadOptions | None = None) -> None:
        self.options = options or ReadOptions()
        self.core = NativeDecoder(self.options) if native.enabled else None
        """What reads a file of a known schema; None where the native core is off."""

    def open(self, raw: RawSegment) -> SegmentFile:
        """Check everything that needs no decoding, except the pages.

        Raises:
            SegmentError: bytes and headers disagree, or a limit is exceeded.
        """
        return InlineFile(raw, self.options, self.core)

    def read_records(
        self, raw: RawSegment, start: int, opened: Callable[[], SegmentFile], form: Form
    ) -> RecordReader | None:
        """Read the records with the native core, where it is on and knows all of their types.

        Raises:
            SegmentError: as `open`; or the records have no such form.
        """
        if self.core is None:
            return None
        known = self.core.open(*raw, schema=lambda: opened().schema)
        return None if known is None else known.records(start, form)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def default_decoder() -> InlineDecoder:
    """Return the decoder of all segments that come with none: it remembers their schemas."""
    return decoder_with(native.enabled)


@cache
def decoder_with(_has_core: bool) -> InlineDecoder:
    """Return the decoder with default options; the argument is the cache's."""
    return InlineDecoder()


class InlineFile:
    """A `SegmentFile` decoded in this process: by the native core, or by Arrow."""

    def __init__(
        self, raw: RawSegment, options: ReadOptions, core: NativeDecoder | None = None
    ) -> None:
        self._raw = raw
        self._options = options
        self._opened: ArrowFile | None = None
        self._known: KnownFile | None = None
        if core is not None:
            self._known = core.open(*raw, schema=lambda: self._by_arrow().schema)
        self.schema = self._known.schema if self._known else self._by_arrow().schema

    @property
    def said(self) -> Mapping[bytes, bytes]:
        return self._known.said if self._known else self._by_arrow().said

    def statistics(self, columns: Collection[str]) -> dict[ColumnPath, Bounds]:
        return bounds(footer_bytes(bytes(self._raw.value)), self.schema, columns)

    def read(self, columns: Sequence[str] | None, *, encoded: bool = False) -> pa.Table:
        """Decode natively what the core knows; the rest, and what it may not judge, by Arrow."""
        if self._known is not None and not encoded:
            table = self._known.table(columns)
            if table is not None:
                return table
        return self._by_arrow().read(columns, encoded=encoded)

    def check(self, *, decode: bool) -> None:
        self._by_arrow().check(decode=decode)

    def _by_arrow(self) -> ArrowFile:
        """Open the file with Arrow, which takes longer than a small one takes to decode."""
        if self._opened is None:
            with _as_segment_errors():
                self._opened = ArrowFile(self._raw, self._options)
        return self._opened


class ArrowFile:
    """A file decoded by Arrow."""

    def __init__(self, raw: RawSegment, options: ReadOptions) -> None:
        header, crc32, value = raw
        check_value(value, crc32)
        if header.rows > options.max_rows:
            raise exceeds("the segment", header.rows, "rows", "rows", options.max_rows)
        self._data = bytes(value)  # copies only what is not bytes
        self._options = options
        self._rows = header.rows
        self._elements = max_list_elements(self._data, options)
        check_arrow_schema(self._data, options)
        check_depth(self._data)
        self._file = self._parquet_file(thrift_container_size_limit=self._elements)
        self._decoded_size: DecodedSize | None = None
        header.check_footer(self._file.metadata.metadata)
        if self._file.metadata.num_rows != header.rows:
            raise SegmentError(
                f"{ROWS_HEADER} is {header.rows} in the headers and "
                f"{self._file.metadata.num_rows} in the file"
            )
        self.said = said_of(self._file.metadata.metadata)
        self.schema = _without_file_metadata(self._file.schema_arrow)
        _check_columns(self.schema)
        self._needs_help = needs_help(self.schema)
        if self._needs_help:
            self.schema = declared_schema(footer_bytes(self._data), self.schema)
        actual = _fingerprint(self.schema)
        if actual != header.schema:
            raise SegmentError(
                f"{SCHEMA_HEADER} is {header.schema} in the headers, "
                f"and the columns have the fingerprint {actual}"
            )

    def _parquet_file(self, **options: Any) -> pq.ParquetFile:
        source = pa.BufferReader(self._data)
        return pq.ParquetFile(source, page_checksum_verification=True, **options)

    def read(self, columns: Sequence[str] | None, *, encoded: bool = False) -> pa.Table:
        """Walk the pages, decode, and check the result."""
        names = None if columns is None else list(columns)
        with _as_segment_errors(self.schema):
            size = self._walked()
            if size.dictionaries or self._needs_help:
                table = self._read_dictionaries(names, size, encoded=encoded)
            else:
                table = self._file.read(columns=names, use_threads=self._fits(size))
                table.validate(full=True)
                table = table.replace_schema_metadata(self.schema.metadata)
                table = fill_hidden_nulls_in_table(table)
            self._check_rows(table.num_rows)
            return table

    def check(self, *, decode: bool) -> None:
        if decode:
            self.read(None)
            return
        with _as_segment_errors(self.schema):
            self._walked()
            self._check_rows(self._file.scan_contents())

    def _walked(self) -> DecodedSize:
        if self._decoded_size is None:
            self._decoded_size = walk(self._data, self._file, self._options)
        return self._decoded_size

    def _check_rows(self, rows: int) -> None:
        if rows != self._rows:
            raise SegmentError(f"{rows} rows decoded; {ROWS_HEADER} is {self._rows} in the headers")

    def _fits(self, size: DecodedSize) -> bool:
        """Return whether columns may be decoded in parallel, which takes more memory meanwhile."""
        return size.parallel_nbytes <= self._options.max_decoded_bytes

    def _read_dictionaries(
        self, names: list[str] | None, size: DecodedSize, *, encoded: bool
    ) -> pa.Table:
        """Read all rows with their dictionaries, and expand these once their size is known.

        One dictionary value may stand for a million rows. Expanding here is also faster than in
        Arrow's reader, which cannot read nested dictionaries of several row groups at once. With
        `encoded`, dictionaries whose values repeat are kept.
        """
        metadata = self._metadata_with_lists() if self._needs_help else self._file.metadata
        file = self._parquet_file(metadata=metadata, read_dictionary=size.dictionaries)
        use_threads = self._fits(size)
        tables = [
            file.read_row_groups([number], columns=names, use_threads=use_threads)
            for number in range(metadata.num_row_groups)
        ]
        for table in tables:
            table.validate(full=True)
        schema = self.schema
        if names is not None:
            schema = projected(schema, tables[0].schema).with_metadata(schema.metadata)
        if self._needs_help:
            tables = [with_declared_types(table, schema) for table in tables]
        _check_expanded(tables, size.nbytes, self._options)
        if encoded:
            schema = _with_dictionaries(schema, tables)
        return pa.concat_tables([fill_hidden_nulls_in_table(table, schema) for table in tables])

    def _metadata_with_lists(self) -> pq.FileMetaData:
        file = file_with_lists(footer_bytes(self._data))
        limit = self._elements
        return pq.ParquetFile(pa.BufferReader(file), thrift_container_size_limit=limit).metadata


def _without_file_metadata(schema: pa.Schema) -> pa.Schema:
    """Remove the file's own entries, which pyarrow adds where there is no Arrow schema."""
    kept = user_metadata(schema.metadata)
    return schema.with_metadata(kept) if kept else schema.remove_metadata()


def _with_dictionaries(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Schema:
    """Return a schema with dictionaries for the columns whose values repeat in all tables."""
    for index, field in enumerate(tables[0].schema):
        chunks = [chunk for table in tables for chunk in table.column(index).chunks]
        if pa.types.is_dictionary(field.type) and all(
            2 * len(chunk.dictionary) <= len(chunk) for chunk in chunks
        ):
            schema = schema.set(index, field)
    return schema


def _check_expanded(tables: Sequence[pa.Table], nbytes: int, options: ReadOptions) -> None:
    """Refuse tables whose expanded dictionaries exceed the limit, of which `nbytes` are used."""
    arrays = [
        (name, array)
        for table in tables
        for name, column in zip(table.schema.names, table.columns, strict=True)
        for array in itertools.chain.from_iterable(map(_dictionaries, column.chunks))
    ]
    # Usually the longest value would fit in every row: then the lengths need not be added up.
    longest = (pc.max(pc.binary_length(array.dictionary)).as_py() or 0 for _, array in arrays)
    at_most = sum(size * len(array) for size, (_, array) in zip(longest, arrays, strict=True))
    if nbytes + at_most <= options.max_decoded_bytes:
        return
    for name, array in arrays:
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        nbytes += pc.sum(lengths).as_py() or 0
        check_decoded(f"column {name}", nbytes, options)


def _dictionaries(array: pa.Array) -> Iterator[pa.DictionaryArray]:
    """Yield the dictionary arrays in an array."""
    arrow = array.type
    if pa.types.is_dictionary(arrow):
        yield array
    elif pa.types.is_struct(arrow):
        for i in range(arrow.num_fields):
            yield from _dictionaries(array.field(i))
    elif pa.types.is_nested(arrow):  # a map's values are structs of key and value
        yield from _dictionaries(array.values)


@contextmanager
def _as_segment_errors(schema: pa.Schema | None = None) -> Iterator[None]:
    """Turn pyarrow's exceptions into SegmentErrors that also say what is wrong with `schema`."""
    try:
        yield
    except SegmentError:
        raise
    except MALFORMED as error:
        raise SegmentError(undecodable(error) + _schema_trouble(schema)) from error


def undecodable(error: BaseException) -> str:
    """Return the text for an exception of pyarrow's."""
    return f"cannot be decoded: {type(error).__name__}: {error}{younger_types(error)}"


def _schema_trouble(schema: pa.Schema | None) -> str:
    """Return why our producer would refuse a schema; empty where it would take it."""
    try:
        if schema is not None:
            RecordSchema.parse(pa.schema([field for field in schema if field.name != KAFKA_COLUMN]))
    except SchemaError as error:
        return f"; {error.reason}"
    return ""


def fingerprint_of(file: bytes) -> str:
    """Return the fingerprint of the columns of a Parquet file, of which the footer is read.

    Raises:
        SchemaError: a column's type cannot be stored.
        ArrowException, OSError: the footer cannot be read.
    """
    return fingerprint(pq.read_schema(pa.BufferReader(file)))


def _fingerprint(schema: pa.Schema) -> str:
    try:
        return fingerprint(schema)
    except SchemaError as error:
        otherwise = (
            ": its producer has to store another type; "
            "with fetch.raw.bytes=true the consumer hands out the file as it is"
        )
        raise SegmentError(f"{error.reason}{younger_types(error) or otherwise}") from None


def _check_columns(schema: pa.Schema) -> None:
    """Refuse columns whose names are not unique, and a `_kafka` that version 1 does not allow."""
    names = schema.names
    if len(set(names)) < len(names):
        raise SegmentError("two columns of the file have the same name")
    for name in filter(is_kafka_member, names):
        raise SegmentError(f"column {name!r} is named as a member of {KAFKA_COLUMN}")
    if KAFKA_COLUMN in names:
        field = schema.field(KAFKA_COLUMN)
        if field not in _KAFKA_FIELDS:
            raise SegmentError(
                f"column {KAFKA_COLUMN} is {field.type}, which version 1 does not allow"
            )
