"""Regular expressions for the column chunks and page headers that Arrow writes, encoded in Thrift.

Nearly all files come from Arrow, and walking a struct field by field is most of the cost of
stitching and of reading page headers. One match of an expression passes a whole struct. What does
not match is walked, with the same result, several times slower.

An expression is put together from fields, as Thrift's compact protocol has them. A field begins
with one byte: how much its id exceeds the last one's, and its type. Lengths and counts are spelled
out, so a longer list or text does not match. No value's encoding begins another's, so a match ends
where the struct does.

At each byte at most one way leads on: alternatives begin with different bytes, and so do a
repeated part and what follows it. Repetitions are bounded. So an expression that does not match
fails after one step back at each place, not after trying many ways. Possessive quantifiers and
atomic groups save these steps too, which is faster; Python 3.10 does not have them.
"""

from __future__ import annotations

import re
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Final

from columnar_kafka.segment.parquet.field_ids import (
    ColumnChunkField,
    ColumnMetaDataField,
    DataPageHeaderField,
    DictionaryPageHeaderField,
    PageHeaderField,
    PageType,
)
from columnar_kafka.segment.parquet.thrift import (
    BINARY,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    encode_integer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["ARROW_COLUMN_CHUNK", "ARROW_PAGE_HEADER"]


class _Pattern:
    """A regular expression. It is put together when it is first used, which takes 10 ms."""

    def __init__(self, source: Callable[[], bytes]) -> None:
        self._source = source

    @cached_property
    def match(self) -> Callable[[bytes, int], re.Match[bytes] | None]:
        return re.compile(self._source(), re.DOTALL).match


_POSSESSIVE, _ATOMIC = (b"+", b"(?>") if sys.version_info >= (3, 11) else (b"", b"(?:")
_STOP: Final = rb"\x00"


def _either(options: Iterable[bytes]) -> bytes:
    return _ATOMIC + b"|".join(options) + b")"


def _optional(pattern: bytes) -> bytes:
    return b"(?:" + pattern + b")?"


def _named(name: bytes, pattern: bytes) -> bytes:
    return b"(?P<%b>%b)" % (name, pattern)


def _head(types: Mapping[int, int], field_id: int, after: int) -> bytes:
    """Match the first byte of a field that comes after the field `after`."""
    return rb"\x%x%x" % (field_id - after, types[field_id])


def _any_head(*types: int, deltas: int = 15) -> bytes:
    """Match the first byte of any field of one of these types."""
    heads = (rb"\x%x%x" % (delta, each) for delta in range(1, deltas + 1) for each in types)
    return b"[" + b"".join(heads) + b"]"


def _fields(types: Mapping[int, int], values: Mapping[int, bytes], after: int = 0) -> bytes:
    """Match fields with these values, by id, one after the other."""
    pattern = b""
    for field_id, value in values.items():
        pattern += _head(types, field_id, after) + value
        after = field_id
    return pattern


def _integer(most: int) -> bytes:
    """Match an integer of at most `most` bytes and a last one."""
    return rb"[\x80-\xff]{0,%d}%b[\x00-\x7f]" % (most, _POSSESSIVE)


def _struct(*fields: bytes) -> bytes:
    """Match a struct with any of these fields, in any order, up to fifteen."""
    return b"(?:%b){0,15}%b" % (b"|".join(fields), _POSSESSIVE) + _STOP


def _lists(element_types: Iterable[int], element: bytes, counts: Iterable[int]) -> bytes:
    """Match a list whose elements have one of these types."""
    return _either(
        b"".join([_list_head(element_types, count), b"(?:%b){%d}" % (element, count)])
        for count in counts
    )


def _list_head(element_types: Iterable[int], count: int) -> bytes:
    heads = [rb"\x%x%x" % (count, each) for each in element_types]
    return heads[0] if len(heads) == 1 else b"[" + b"".join(heads) + b"]"


def _texts(sizes: Iterable[int]) -> bytes:
    """Match a text of one of these sizes in bytes."""
    return b"|".join(rb"\x%02x.{%d}" % (size, size) for size in sizes)


# --- a column chunk -------------------------------------------------------------------------------

_INTEGER: Final = _integer(8)
_NAME: Final = _either([_texts(range(64))])
_TEXT: Final = _either([_texts(range(128))])
_NAMES: Final = _lists([BINARY], _NAME, range(1, 7))
_INTEGERS: Final = _lists([I32, I64], _INTEGER, range(15))
_INTEGER_FIELD: Final = _any_head(I16, I32, I64) + _INTEGER
_STATISTICS: Final = _struct(_INTEGER_FIELD, _any_head(TRUE, FALSE), _any_head(BINARY) + _TEXT)
_ENCODING_STATS: Final = _lists([STRUCT], _struct(_INTEGER_FIELD), range(15))
_SIZE_STATISTICS: Final = _struct(_INTEGER_FIELD, _any_head(LIST) + _INTEGERS)


def _column_chunk() -> bytes:
    """Spell the column chunk that Arrow writes without page index and bloom filter."""
    field = ColumnMetaDataField
    values = {
        field.TYPE: _INTEGER,
        field.ENCODINGS: _named(b"encodings", _INTEGERS),
        field.PATH_IN_SCHEMA: _NAMES,
        field.CODEC: _named(b"codec", _INTEGER),
        field.NUM_VALUES: _named(b"values", _INTEGER),
        field.TOTAL_UNCOMPRESSED_SIZE: _INTEGER,
        field.TOTAL_COMPRESSED_SIZE: _named(b"size", _INTEGER),
        field.DATA_PAGE_OFFSET: _named(b"data", _INTEGER),
    }
    dictionary = {field.DICTIONARY_PAGE_OFFSET: _named(b"dictionary", _INTEGER)}
    sizes = {field.SIZE_STATISTICS: _SIZE_STATISTICS}
    meta_data = (
        _fields(field.TYPES, values)
        + _optional(_fields(field.TYPES, dictionary, after=field.DATA_PAGE_OFFSET))
        + b"(?:%b|%b)" % (_after_pages(field.STATISTICS), _after_pages(field.ENCODING_STATS))
        + _ENCODING_STATS
        + _optional(_fields(field.TYPES, sizes, after=field.ENCODING_STATS))
        + _STOP
    )
    chunk = ColumnChunkField
    file_offset = _named(b"file_offset", _INTEGER)  # 0, but by pyarrow 17
    return (
        _fields(chunk.TYPES, {chunk.FILE_OFFSET: file_offset, chunk.META_DATA: meta_data}) + _STOP
    )


def _after_pages(field_id: int) -> bytes:
    """Match what leads from the page offsets to the encoding statistics.

    The head of the next field, `field_id`, depends on whether the offset of a dictionary came
    before it. If that field is the statistics, they are passed too.
    """
    field = ColumnMetaDataField
    head = b"(?(dictionary)%b|%b)" % (
        _head(field.TYPES, field_id, after=field.DICTIONARY_PAGE_OFFSET),
        _head(field.TYPES, field_id, after=field.DATA_PAGE_OFFSET),
    )
    if field_id == field.ENCODING_STATS:
        return head
    return head + _STATISTICS + _head(field.TYPES, field.ENCODING_STATS, after=field_id)


ARROW_COLUMN_CHUNK: Final = _Pattern(_column_chunk)
"""Its groups are encoded: file_offset, encodings, codec, values, size, data; dictionary or None."""


# --- a page header --------------------------------------------------------------------------------

_INTEGER_32: Final = _either([rb"[\x80-\xff]{4}[\x00-\x0f]", _integer(3)])
_NUMBER: Final = b"(%b)" % _INTEGER_32
_PAGE_STATISTICS: Final = _struct(
    _any_head(I64, deltas=7) + _integer(9),
    _any_head(BINARY, deltas=7) + _TEXT,
    _any_head(TRUE, deltas=7),
)


def _page_header() -> bytes:
    """Spell the page header that Arrow writes: with a checksum, and levels in RLE."""
    field = PageHeaderField
    types = (_spelled(PageType.DATA_PAGE), _spelled(PageType.DICTIONARY_PAGE))
    values = {
        field.TYPE: b"(?:(?P<data>%b)|%b)" % types,
        field.UNCOMPRESSED_PAGE_SIZE: _NUMBER,
        field.COMPRESSED_PAGE_SIZE: _NUMBER,
        field.CRC: _INTEGER_32,
    }
    of_data = {field.DATA_PAGE_HEADER: _data_page_header()}
    of_dictionary = {field.DICTIONARY_PAGE_HEADER: _dictionary_page_header()}
    by_type = b"(?(data)%b|%b)" % (
        _fields(field.TYPES, of_data, after=field.CRC),
        _fields(field.TYPES, of_dictionary, after=field.CRC),
    )
    return _fields(field.TYPES, values) + by_type + _STOP


def _data_page_header() -> bytes:
    field = DataPageHeaderField
    values = {
        field.NUM_VALUES: _NUMBER,
        field.ENCODING: _NUMBER,
        field.DEFINITION_LEVEL_ENCODING: _NUMBER,
        field.REPETITION_LEVEL_ENCODING: _NUMBER,
    }
    statistics = _fields(
        field.TYPES,
        {field.STATISTICS: _PAGE_STATISTICS},
        after=field.REPETITION_LEVEL_ENCODING,
    )
    return _fields(field.TYPES, values) + _optional(statistics) + _STOP


def _dictionary_page_header() -> bytes:
    field = DictionaryPageHeaderField
    values = {field.NUM_VALUES: _NUMBER, field.ENCODING: _NUMBER}
    is_sorted = _any_head(TRUE, FALSE, deltas=1) + b"?"
    return _fields(field.TYPES, values) + is_sorted + _STOP


def _spelled(value: int) -> bytes:
    return b"".join(rb"\x%02x" % byte for byte in encode_integer(value))


ARROW_PAGE_HEADER: Final = _Pattern(_page_header)
"""Its groups are encoded: `data`, None for a dictionary page; both sizes; the struct's numbers."""
