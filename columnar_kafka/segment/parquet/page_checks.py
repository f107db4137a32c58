"""Checks of a Parquet file's pages before Arrow decodes any of them.

Arrow allocates what a header claims before it looks for the bytes: 45 bytes can claim 680 MB, 504
bytes 200,000,000 values, 2 KB a terabyte. So every page is found and counted first, and its header
is compared with the footer and the reader's limits.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.columns.decoded_size import leaf_sizes
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.errors import SegmentError
from columnar_kafka.schema.flatbuffer import described_bytes, messages
from columnar_kafka.segment.parquet import delta, metadata
from columnar_kafka.segment.parquet.field_ids import CODECS, MAGIC, TAIL, Encoding, PageType
from columnar_kafka.segment.parquet.page_header import read_page_header
from columnar_kafka.segment.parquet.thrift import Cursor, ThriftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from columnar_kafka.columns.decoded_size import LeafSize
    from columnar_kafka.config import ReadOptions
    from columnar_kafka.segment.parquet.metadata import ColumnChunk, RowGroup
    from columnar_kafka.segment.parquet.page_header import PageHeader

__all__ = [
    "DecodedSize",
    "check_arrow_schema",
    "check_decoded",
    "check_depth",
    "exceeds",
    "footer_bytes",
    "max_list_elements",
    "walk",
]

_MAX_DEPTH: Final = 100

_DATA_PAGES: Final = (PageType.DATA_PAGE, PageType.DATA_PAGE_V2)
_DICTIONARY_INDICES: Final = (Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY)
_DELTA_BYTES: Final = (Encoding.DELTA_LENGTH_BYTE_ARRAY, Encoding.DELTA_BYTE_ARRAY)

# Bytes that Arrow needs beside those of the values.
_ENTRY: Final = 16  # of a dictionary
_LENGTHS: Final = 24  # of a value in one of the delta encodings of bytes


class DecodedSize(NamedTuple):
    """What the columns of a file take in memory once decoded, at most.

    `nbytes` holds while columns are decoded one after the other, `parallel_nbytes` while they are
    decoded in parallel. Neither counts the values in `dictionaries`: the numbers of those leaf
    columns of bytes in which one stored value may stand for a million.
    """

    nbytes: int
    parallel_nbytes: int
    dictionaries: list[int]


def max_list_elements(data: bytes, options: ReadOptions) -> int:
    """Return how many elements a list in the footer may have, which Arrow must be told.

    An element takes at least one byte, and those that take much memory more than eight.

    Raises:
        SegmentError: the footer is larger than ``columnar.max.footer.bytes``.
    """
    size = _footer_size(data)
    if (
        options.max_footer_bytes < size < len(data)
    ):  # Arrow refuses one that is longer than the file
        raise exceeds("the footer", size, "bytes", "footer.bytes", options.max_footer_bytes)
    return max(1000, size // 8)


def check_arrow_schema(data: bytes, options: ReadOptions) -> None:
    """Check the Arrow schema in the footer, which Arrow builds before anything else.

    Raises:
        SegmentError: it would take more memory than the limits allow, or it is damaged.
    """
    try:
        for encoded in metadata.arrow_schemas(footer_bytes(data)):
            for message in messages(memoryview(base64.b64decode(encoded, validate=True))):
                check_decoded(
                    "its schema", described_bytes(message, options.max_decoded_bytes), options
                )
    except (ThriftError, IndexError, struct.error, binascii.Error) as error:
        raise SegmentError(f"the Parquet metadata is damaged: {error}") from None


def check_depth(data: bytes) -> None:
    """Check the depth of the Parquet schema: up to pyarrow 25 a deep one ends the process.

    Raises:
        SegmentError: it has more levels than later versions read, or it is damaged.
    """
    footer = footer_bytes(data)
    if VERSION >= (26, 0) or not footer:
        return
    try:
        is_deep = metadata.schema_depth(footer) > _MAX_DEPTH
    except (ThriftError, IndexError) as error:
        raise SegmentError(f"the Parquet metadata is damaged: {error}") from None
    if is_deep:
        raise SegmentError("cannot be decoded: Parquet schema too deeply nested")


def exceeds(what: str, value: int, unit: str, key: str, limit: int) -> SegmentError:
    """Return the error that names what exceeds a limit, the limit, and how to raise it."""
    return SegmentError(
        f"{what} has {value} {unit}; columnar.max.{key} is {limit}: only a consumer can raise it"
    )


def walk(data: bytes, file: pq.ParquetFile, options: ReadOptions) -> DecodedSize:
    """Walk the pages of all column chunks of a file, whose columns version 1 allows.

    Raises:
        SegmentError: pages, footer and file disagree; a page has no checksum, or is of a type or
            encoding that version 1 does not allow; or a limit is exceeded.
        pa.ArrowException, OSError: a page cannot be decompressed, or its lengths are damaged.
    """
    leaves = [leaf for column_type in file.schema_arrow.types for leaf in leaf_sizes(column_type)]
    schemas = [file.metadata.schema.column(i) for i in range(file.metadata.num_columns)]
    footer = footer_bytes(data)
    body = _Body(data, len(data) - TAIL - len(footer), options)
    try:
        for row_group in metadata.row_groups(footer):
            body.add_row_group(row_group, leaves, schemas)
        return body.decoded_size(file.metadata.num_rows)
    except (ThriftError, IndexError) as error:
        raise SegmentError(f"the Parquet metadata is damaged: {error}") from None


def footer_bytes(data: bytes) -> bytes:
    """Return the encoded footer of a complete file."""
    return data[-TAIL - _footer_size(data) : -TAIL]


def _footer_size(data: bytes) -> int:
    return int.from_bytes(data[-TAIL:-4], "little") if data[-4:] == MAGIC else 0


def check_decoded(what: str, nbytes: int, options: ReadOptions) -> None:
    """Refuse a segment whose columns, `what` included, take more memory than the limits allow."""
    if nbytes > options.max_decoded_bytes:
        what = f"decoded up to {what}, the segment"
        raise exceeds(what, nbytes, "bytes", "decoded.bytes", options.max_decoded_bytes)


class _Body:
    """The part of a file before its footer: the size of its columns, added up chunk by chunk."""

    def __init__(self, data: bytes, end: int, options: ReadOptions) -> None:
        self._data = data
        self._position, self._end = len(MAGIC), end
        self._options = options
        self._rows = 0
        self._kept_nbytes = 0  # in the decoded columns
        self._passing_nbytes = self._parallel_passing_nbytes = 0  # and while they are decoded
        self._prefix_lengths: list[delta.PackedIntegers] = []
        self._dictionaries: set[int] = set()

    def add_row_group(
        self, row_group: RowGroup, leaves: Sequence[LeafSize], schemas: Sequence[Any]
    ) -> None:
        """Walk the pages of a row group."""
        rows, chunks = row_group
        if rows < 0 or not len(leaves) == len(schemas) == len(chunks):
            raise ThriftError(f"{rows} rows and {len(chunks)} columns in a row group")
        self._rows += rows
        columns = map(_Column, chunks, schemas)
        for number, (column, leaf) in enumerate(zip(columns, leaves, strict=True)):
            self._add(column, leaf, number, rows)

    def _add(self, column: _Column, leaf: LeafSize, number: int, rows: int) -> None:
        values, options = column.values, self._options
        if values > options.max_values:
            raise exceeds(column.what, values, "values", "values", options.max_values)
        if not column.repeats and values != rows:
            raise column.wrong(f"has {values} values in {rows} rows")
        if not values:  # Arrow reads no page of it
            return
        self._position = column.walk(self._data, self._position, self._end, options)
        self._kept_nbytes += column.kept_nbytes + rows * leaf.per_row + values * leaf.per_slot
        self._passing_nbytes = max(self._passing_nbytes, column.passing_nbytes)
        self._parallel_passing_nbytes += column.passing_nbytes
        check_decoded(column.what, self._kept_nbytes + self._passing_nbytes, options)
        self._prefix_lengths += column.prefix_lengths
        if column.is_dictionary:
            self._dictionaries.add(number)

    def decoded_size(self, rows: int) -> DecodedSize:
        """Return the size of all columns; `rows` is the footer's number of rows."""
        if rows != self._rows:
            raise ThriftError(f"{rows} rows in the footer, {self._rows} in its row groups")
        if self._prefix_lengths:
            # Once in the column, and once while it is decoded.
            self._kept_nbytes += 2 * delta.total(self._prefix_lengths)
            nbytes = self._kept_nbytes + self._passing_nbytes
            check_decoded("the columns that have prefixes", nbytes, self._options)
        return DecodedSize(
            self._kept_nbytes + self._passing_nbytes,
            self._kept_nbytes + self._parallel_passing_nbytes,
            sorted(self._dictionaries),
        )


class _Column:
    """One column chunk: what the footer states about it, and what its pages add up to.

    `kept_nbytes` are bytes in the decoded column that its number of values does not tell.
    `passing_nbytes` are the most that are needed besides at any time while it is decoded.
    """

    def __init__(self, chunk: ColumnChunk, schema: Any) -> None:
        """Take the footer's entry, and pyarrow's schema of the column."""
        self._chunk = chunk
        self._codec = CODECS.get(chunk.codec, "")
        self._optional = schema.max_definition_level > 0
        self._is_text = schema.physical_type == "BYTE_ARRAY"
        self._page_values = -1  # until the first page
        self.values = chunk.values
        self.repeats = schema.max_repetition_level > 0
        self.what = f"column {schema.path}"
        self.kept_nbytes = self.passing_nbytes = 0
        self.prefix_lengths: list[delta.PackedIntegers] = []
        self.is_dictionary = False

    def wrong(self, reason: str) -> SegmentError:
        return SegmentError(f"{self.what} {reason}")

    def walk(self, data: bytes, after: int, end: int, options: ReadOptions) -> int:
        """Walk the pages, which must lie between `after` and `end`; return where they end."""
        chunk = self._chunk
        stop = chunk.start + chunk.size
        if not after <= chunk.start <= stop <= end:
            raise self.wrong(
                f"has pages of {chunk.size} bytes at {chunk.start}, not between {after} and {end}"
            )
        if self._codec == "":
            raise self.wrong(
                f"is compressed with codec {chunk.codec}, which version 1 does not allow"
            )
        cursor = Cursor(data, chunk.start)
        try:
            while cursor.pos < stop:
                self._add_page(cursor, stop, options)
        except (ThriftError, IndexError) as error:
            raise self.wrong(f"has a damaged page before {cursor.pos}: {error}") from None
        if self._page_values != self.values:
            raise self.wrong(
                f"has {self._page_values} values in its pages, {self.values} in the footer"
            )
        return stop

    def _add_page(self, cursor: Cursor, end: int, options: ReadOptions) -> None:
        at = cursor.pos
        page = read_page_header(cursor)
        start = cursor.pos
        cursor.pos += page.compressed_size
        if page.size < 0 or not start <= cursor.pos <= end:
            raise self.wrong(f"has a page at {at} that ends after the column chunk")
        if not page.has_checksum:
            raise self.wrong(f"has a page at {at} without a checksum")
        if self._codec is None and page.size != page.compressed_size:
            raise self.wrong(
                f"has an uncompressed page at {at} whose compressed and uncompressed sizes differ"
            )
        self.passing_nbytes = max(self.passing_nbytes, page.size)
        if page.type == PageType.DICTIONARY_PAGE:
            self._add_dictionary(page)
        elif page.type in _DATA_PAGES:
            self._add_data(page)
            # Before the page is decompressed.
            check_decoded(self.what, self.kept_nbytes + self.passing_nbytes, options)
            if page.encoding in _DELTA_BYTES:
                self._add_lengths(page, memoryview(cursor.buf)[start : cursor.pos])
        else:
            raise self.wrong(f"has a page at {at} of the unknown type {page.type}")

    def _add_dictionary(self, page: PageHeader) -> None:
        if self._page_values >= 0:
            raise self.wrong("has a dictionary that is not its first page")
        if not 0 <= page.values <= self.values:
            raise self.wrong(f"has {self.values} values and a dictionary of {page.values} entries")
        if page.encoding not in (Encoding.PLAIN, Encoding.PLAIN_DICTIONARY):
            raise self.wrong("has a dictionary that is not plain")
        self._page_values = 0
        self.kept_nbytes += page.size + page.values * _ENTRY

    def _add_data(self, page: PageHeader) -> None:
        if page.values < 0 or page.encoding not in self._chunk.encodings:
            raise self.wrong(f"has a page of {page.values} values in encoding {page.encoding}")
        self._page_values = max(self._page_values, 0) + page.values
        levels = [page.repetition] * self.repeats + [page.definition] * self._optional
        if page.type == PageType.DATA_PAGE and levels.count(Encoding.RLE) < len(levels):
            raise self.wrong(f"has a page whose levels have the encodings {levels}, not RLE")
        if page.encoding in _DICTIONARY_INDICES:
            self.is_dictionary = self._is_text
        elif self._is_text:
            self.kept_nbytes += page.size
        if page.encoding in _DELTA_BYTES:
            self.passing_nbytes = max(self.passing_nbytes, page.size + page.values * _LENGTHS)

    def _add_lengths(self, page: PageHeader, data: memoryview) -> None:
        is_v2 = page.type == PageType.DATA_PAGE_V2
        stream = self._v2_stream(page, data) if is_v2 else self._stream(page, data)
        has_prefixes = page.encoding == Encoding.DELTA_BYTE_ARRAY
        if lengths := delta.prefix_lengths(stream, page.values, has_prefixes=has_prefixes):
            self.prefix_lengths.append(lengths)

    def _stream(self, page: PageHeader, data: memoryview) -> Cursor:
        """Return where a page's values begin: after its levels, each with its length before it."""
        cursor = Cursor(self._decompressed(data, page.size))
        for _ in range(self.repeats + self._optional):
            length = int.from_bytes(cursor.buf[cursor.pos : cursor.pos + 4], "little")
            cursor.pos += 4 + length
        return cursor

    def _v2_stream(self, page: PageHeader, data: memoryview) -> Cursor:
        """Return where a page's values begin: after its levels, which are never compressed."""
        levels = page.repetition + page.definition
        if not 0 <= page.repetition <= levels <= len(data):
            raise self.wrong(f"has a page of {len(data)} bytes whose levels have {levels}")
        if not page.is_compressed:
            return Cursor(bytes(data[levels:]))
        return Cursor(self._decompressed(data[levels:], page.size - levels))

    def _decompressed(self, data: memoryview, size: int) -> bytes:
        if self._codec is None:
            return bytes(data)
        return bytes(pa.decompress(data, size, self._codec, asbytes=True))
