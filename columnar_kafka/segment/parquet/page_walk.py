"""The pages of a Parquet file, walked and capped before Arrow decodes any of them.

Arrow makes room for what a header claims before it looks for the bytes: in 45 bytes there can be
680 MB, in 504 bytes 200,000,000 values, in 2 KB a terabyte. Here every page is found and counted
first, and what its header says is held against the footer and the limits.
"""

from __future__ import annotations

import base64
import binascii
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.errors import SegmentError
from columnar_kafka.schema.canonical import children
from columnar_kafka.schema.flatbuffer import described_bytes, messages
from columnar_kafka.segment.parquet import delta, metadata
from columnar_kafka.segment.parquet.thrift import Cursor, ThriftError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from columnar_kafka.config import DecodeLimits
    from columnar_kafka.segment.parquet.metadata import Chunk, Group, Page

__all__ = [
    "Walked",
    "check_arrow_schema",
    "check_decoded",
    "exceeds",
    "footer",
    "footer_elements",
    "walk",
]

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8  # bytes: the footer's length and the magic

# Numbers of parquet.thrift.
_PLAIN, _PLAIN_DICTIONARY, _RLE, _DELTA_LENGTH, _DELTA_BYTES, _RLE_DICTIONARY = 0, 2, 3, 6, 7, 8
_CODECS: Final = {0: None, 1: "snappy", 2: "gzip", 6: "zstd", 7: "lz4_raw"}

# What Arrow needs beside the values' own bytes.
_OFFSET: Final = 8  # of a list or a text
_LEVELS: Final = 4  # of a list's element: definition and repetition
_ENTRY: Final = 16  # of a dictionary
_LENGTHS: Final = 24  # of a value in one of the delta encodings of bytes


class Walked(NamedTuple):
    """What the pages of a file come to.

    `nbytes` is what all columns take in memory when they are decoded one after the other, at most,
    and `at_once` when they are side by side; but for the values in `dictionaries`: the leaf
    columns, by number, of bytes of which one may stand for a million.
    """

    nbytes: int
    at_once: int
    dictionaries: list[int]


def footer_elements(data: bytes, limits: DecodeLimits) -> int:
    """Return how many elements a list in the footer may have, to be told to Arrow.

    An element takes a byte at least, and one that takes much room in memory more than eight.

    Raises:
        SegmentError: the footer is larger than ``columnar.max.footer.bytes``.
    """
    size = _footer_bytes(data)
    if limits.footer_bytes < size < len(data):  # if it is longer than the file, Arrow says so
        raise exceeds("the footer", size, "bytes", "footer.bytes", limits.footer_bytes)
    return max(1000, size // 8)


def check_arrow_schema(data: bytes, limits: DecodeLimits) -> None:
    """Refuse a file whose Arrow schema takes more memory than is allowed, which Arrow makes first.

    Raises:
        SegmentError: it does, or is none.
    """
    try:
        for encoded in metadata.arrow_schemas(footer(data)):
            for message in messages(memoryview(base64.b64decode(encoded, validate=True))):
                check_decoded("its schema", described_bytes(message, limits.decoded_bytes), limits)
    except (ThriftError, IndexError, struct.error, binascii.Error) as error:
        raise SegmentError(f"the Parquet metadata is damaged: {error}") from None


def exceeds(what: str, value: int, unit: str, key: str, limit: int) -> SegmentError:
    """Return the error that says which limit was hit, by what, and how to raise it."""
    return SegmentError(
        f"{what} has {value} {unit}; columnar.max.{key} is {limit}: raise it if that is right"
    )


def walk(data: bytes, file: pq.ParquetFile, limits: DecodeLimits) -> Walked:
    """Walk the pages of all column chunks of a file whose columns version 1 knows.

    Raises:
        SegmentError: pages, footer and file disagree; a page has no checksum, or is of a kind that
            version 1 does not have; or a limit is exceeded.
    """
    leaves = [leaf for kind in file.schema_arrow.types for leaf in _leaves_of(kind)]
    schemas = [file.metadata.schema.column(i) for i in range(file.metadata.num_columns)]
    said = footer(data)
    body = _Body(data, len(data) - _TAIL - len(said), limits)
    try:
        for group in metadata.groups(said):
            body.add_group(group, leaves, schemas)
        return body.walked(file.metadata.num_rows)
    except (ThriftError, IndexError) as error:
        raise SegmentError(f"the Parquet metadata is damaged: {error}") from None


def footer(data: bytes) -> bytes:
    """Return the footer of a file that Arrow has opened."""
    return data[-_TAIL - _footer_bytes(data) : -_TAIL]


def _footer_bytes(data: bytes) -> int:
    return int.from_bytes(data[-_TAIL:-4], "little") if data[-4:] == _MAGIC else 0


def check_decoded(what: str, nbytes: int, limits: DecodeLimits) -> None:
    """Refuse a segment whose columns take more memory than is allowed; `what` was one too many."""
    if nbytes > limits.decoded_bytes:
        what = f"decoded up to {what}, the segment"
        raise exceeds(what, nbytes, "bytes", "decoded.bytes", limits.decoded_bytes)


class _Body:
    """The part of a file before its footer: what its columns come to, one after the other."""

    def __init__(self, data: bytes, end: int, limits: DecodeLimits) -> None:
        self._data = data
        self._position, self._end = len(_MAGIC), end
        self._limits = limits
        self._kept = self._passing = self._passing_at_once = self._rows = 0
        self._prefixes: list[delta.Packed] = []
        self._dictionaries: set[int] = set()

    def add_group(self, group: Group, leaves: Sequence[_Leaf], schemas: Sequence[Any]) -> None:
        """Walk the pages of a row group."""
        if group.rows < 0 or not len(leaves) == len(schemas) == len(group.chunks):
            raise ThriftError(f"{group.rows} rows and {len(group.chunks)} columns in a row group")
        self._rows += group.rows
        columns = map(_Column, group.chunks, schemas)
        for number, (column, leaf) in enumerate(zip(columns, leaves, strict=True)):
            self._add(column, leaf, number, group.rows)

    def _add(self, column: _Column, leaf: _Leaf, number: int, rows: int) -> None:
        values, limits = column.values, self._limits
        if values > limits.values:
            raise exceeds(column.what, values, "values", "values", limits.values)
        if not column.repeats and values != rows:
            raise column.wrong(f"has {values} values in {rows} rows")
        if not values:  # Arrow reads no page of it
            return
        self._position = column.walk(self._data, self._position, self._end, limits)
        self._kept += column.kept + rows * leaf.per_row + values * leaf.per_value
        self._passing = max(self._passing, column.passing)
        self._passing_at_once += column.passing
        check_decoded(column.what, self._kept + self._passing, limits)
        self._prefixes += column.prefixes
        if column.is_dictionary:
            self._dictionaries.add(number)

    def walked(self, rows: int) -> Walked:
        """Return what it comes to; the footer says that there are so many rows."""
        if rows != self._rows:
            raise ThriftError(f"{rows} rows in the footer, {self._rows} in its row groups")
        if self._prefixes:
            self._kept += 2 * delta.total(self._prefixes)  # in the column, and on the way there
            nbytes = self._kept + self._passing
            check_decoded("the columns that have prefixes", nbytes, self._limits)
        return Walked(
            self._kept + self._passing,
            self._kept + self._passing_at_once,
            sorted(self._dictionaries),
        )


class _Leaf(NamedTuple):
    """What a leaf column takes in Arrow: bytes for each row, and for each of its values."""

    per_row: int = 0
    per_value: int = 0


_NOTHING: Final = _Leaf()


@lru_cache
def _leaves_of(kind: pa.DataType) -> list[_Leaf]:
    return list(_leaves(kind))


def _leaves(
    kind: pa.DataType, slots: int = 1, above: _Leaf = _NOTHING, *, listed: bool = False
) -> Iterator[_Leaf]:
    """Yield the leaves of a type that has `slots` for each row, or for each value when `listed`.

    A null list of fixed size is one value in the file and all of its slots in memory.
    """
    inner = children(kind)
    if pa.types.is_fixed_size_list(kind):
        slots *= 2 * kind.list_size  # Arrow fills the places of nulls in a copy
    elif not pa.types.is_struct(kind):
        nbytes = slots * (_OFFSET if inner else _width(kind))
        if listed:
            above = above._replace(per_value=above.per_value + nbytes)
        else:
            above = above._replace(per_row=above.per_row + nbytes)
        if inner:
            above = above._replace(per_value=above.per_value + _LEVELS)
            slots, listed = 1, True
    if not inner:
        yield above
    for _, child in inner:
        yield from _leaves(child.type, slots, above, listed=listed)


def _width(kind: pa.DataType) -> int:
    """Return the bytes of one slot, without those of text."""
    if pa.types.is_fixed_size_binary(kind):
        return int(kind.byte_width)
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _OFFSET


class _Column:
    """One column chunk: what the footer says of it, and what its pages come to.

    `kept` are the bytes in Arrow that its number of values does not tell, `passing` those needed
    at some time while it is decoded.
    """

    def __init__(self, said: Chunk, schema: Any) -> None:
        """Take the footer's entry, and pyarrow's schema of the column."""
        self._said = said
        self._codec = _CODECS.get(said.codec, "")
        self._optional = schema.max_definition_level > 0
        self._is_text = schema.physical_type == "BYTE_ARRAY"
        self._counted = -1  # until the first page
        self.values = said.values
        self.repeats = schema.max_repetition_level > 0
        self.what = f"column {schema.path}"
        self.kept = self.passing = 0
        self.prefixes: list[delta.Packed] = []
        self.is_dictionary = False

    def wrong(self, reason: str) -> SegmentError:
        return SegmentError(f"{self.what} {reason}")

    def walk(self, data: bytes, after: int, end: int, limits: DecodeLimits) -> int:
        """Walk the pages, which lie between two places in the file; return where they end."""
        said = self._said
        stop = said.start + said.size
        if not after <= said.start <= stop <= end:
            raise self.wrong(f"is {said.size} bytes at {said.start}, not from {after} to {end}")
        if self._codec == "":
            raise self.wrong(f"is compressed with codec {said.codec}, unknown to version 1")
        cursor = Cursor(data, said.start)
        try:
            while cursor.pos < stop:
                self._page(cursor, stop, limits)
        except (ThriftError, IndexError) as error:
            raise self.wrong(f"has a damaged page before {cursor.pos}: {error}") from None
        if self._counted != self.values:
            raise self.wrong(
                f"has {self._counted} values in its pages, {self.values} in the footer"
            )
        return stop

    def _page(self, cursor: Cursor, end: int, limits: DecodeLimits) -> None:
        at = cursor.pos
        page = metadata.page(cursor)
        start = cursor.pos
        cursor.pos += page.compressed
        if page.size < 0 or not start <= cursor.pos <= end:
            raise self.wrong(f"has a page at {at} that ends behind the column")
        if not page.has_checksum:
            raise self.wrong(f"has a page at {at} without a checksum")
        if self._codec is None and page.size != page.compressed:
            raise self.wrong(f"has a page at {at}, not compressed, of two sizes")
        self.passing = max(self.passing, page.size)
        if page.type == metadata.DICTIONARY:
            self._dictionary(page)
        elif page.type in (metadata.DATA, metadata.DATA_V2):
            self._data(page)
            check_decoded(self.what, self.kept + self.passing, limits)  # before it is unpacked
            if page.encoding in (_DELTA_LENGTH, _DELTA_BYTES):
                self._delta(page, memoryview(cursor.buf)[start : cursor.pos])
        else:
            raise self.wrong(f"has a page at {at} of the unknown type {page.type}")

    def _dictionary(self, page: Page) -> None:
        if self._counted >= 0:
            raise self.wrong("has a dictionary that is not its first page")
        if not 0 <= page.values <= self.values:
            raise self.wrong(f"has {self.values} values and a dictionary of {page.values}")
        if page.encoding not in (_PLAIN, _PLAIN_DICTIONARY):
            raise self.wrong("has a dictionary that is not plain")
        self._counted = 0
        self.kept += page.size + page.values * _ENTRY

    def _data(self, page: Page) -> None:
        if page.values < 0 or page.encoding not in self._said.encodings:
            raise self.wrong(f"has a page of {page.values} values in encoding {page.encoding}")
        self._counted = max(self._counted, 0) + page.values
        levels = [page.repetition] * self.repeats + [page.definition] * self._optional
        if page.type == metadata.DATA and levels.count(_RLE) < len(levels):
            raise self.wrong(f"has a page with levels in encodings {levels}")
        if page.encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
            self.is_dictionary = self._is_text
        elif self._is_text:
            self.kept += page.size
        if page.encoding in (_DELTA_LENGTH, _DELTA_BYTES):
            self.passing = max(self.passing, page.size + page.values * _LENGTHS)

    def _delta(self, page: Page, data: memoryview) -> None:
        is_v2 = page.type == metadata.DATA_V2
        stream = self._v2_stream(page, data) if is_v2 else self._stream(page, data)
        has_prefixes = page.encoding == _DELTA_BYTES
        if found := delta.prefixes(stream, page.values, has_prefixes=has_prefixes):
            self.prefixes.append(found)

    def _stream(self, page: Page, data: memoryview) -> Cursor:
        """Return where a page's values begin, behind its levels and their lengths."""
        cursor = Cursor(self._decompressed(data, page.size))
        for _ in range(self.repeats + self._optional):
            length = int.from_bytes(cursor.buf[cursor.pos : cursor.pos + 4], "little")
            cursor.pos += 4 + length
        return cursor

    def _v2_stream(self, page: Page, data: memoryview) -> Cursor:
        """Return where a page's values begin: levels stand before them, not compressed."""
        levels = page.repetition + page.definition
        if not 0 <= page.repetition <= levels <= len(data):
            raise self.wrong(f"has a page whose levels have {levels} bytes")
        if not page.is_compressed:
            return Cursor(bytes(data[levels:]))
        return Cursor(self._decompressed(data[levels:], page.size - levels))

    def _decompressed(self, data: memoryview, size: int) -> bytes:
        if self._codec is None:
            return bytes(data)
        return bytes(pa.decompress(data, size, self._codec, asbytes=True))
