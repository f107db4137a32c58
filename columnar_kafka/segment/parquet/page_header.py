"""Page headers, read from the bytes before a page: pyarrow has no way to show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.field_ids import (
    DataPageHeaderField,
    DataPageHeaderV2Field,
    DictionaryPageHeaderField,
    PageHeaderField,
    PageType,
)
from columnar_kafka.segment.parquet.thrift import I32, STRUCT, ThriftError

if TYPE_CHECKING:
    from columnar_kafka.segment.parquet.thrift import Cursor

__all__ = ["PageHeader", "read_page_header"]

# By page type: the struct that describes the page, and the fields of it that are read, in the order
# of `PageHeader`.
_DESCRIPTIONS: Final = {
    PageType.DATA_PAGE: (
        PageHeaderField.DATA_PAGE_HEADER,
        (
            DataPageHeaderField.NUM_VALUES,
            DataPageHeaderField.ENCODING,
            DataPageHeaderField.DEFINITION_LEVEL_ENCODING,
            DataPageHeaderField.REPETITION_LEVEL_ENCODING,
        ),
    ),
    PageType.DICTIONARY_PAGE: (
        PageHeaderField.DICTIONARY_PAGE_HEADER,
        (DictionaryPageHeaderField.NUM_VALUES, DictionaryPageHeaderField.ENCODING),
    ),
    PageType.DATA_PAGE_V2: (
        PageHeaderField.DATA_PAGE_HEADER_V2,
        (
            DataPageHeaderV2Field.NUM_VALUES,
            DataPageHeaderV2Field.ENCODING,
            DataPageHeaderV2Field.DEFINITION_LEVELS_BYTE_LENGTH,
            DataPageHeaderV2Field.REPETITION_LEVELS_BYTE_LENGTH,
            DataPageHeaderV2Field.IS_COMPRESSED,
        ),
    ),
}
_UNKNOWN: Final = (-1, (1, 2))


class PageHeader(NamedTuple):
    """A page's header; what it does not state is -1. `type` is one of `PageType`.

    `size` bytes are stored in `compressed_size` bytes. `definition` and `repetition` are the
    encodings of the levels, in a page of type DATA_PAGE_V2 the number of their bytes.
    """

    type: int
    size: int
    compressed_size: int
    has_checksum: bool
    values: int
    encoding: int
    definition: int = -1
    repetition: int = -1
    is_compressed: int = -1


def read_page_header(cursor: Cursor) -> PageHeader:
    """Read a page header, and leave the cursor behind it.

    Raises:
        ThriftError, IndexError: it is damaged.
    """
    numbers: dict[int, int] = {}
    structs: dict[int, dict[int, int]] = {}
    for field_id, field_type in cursor.fields(PageHeaderField.TYPES):
        if field_id not in PageHeaderField.TYPES:
            cursor.skip(field_type)
        elif field_type == STRUCT:
            structs[field_id] = _read_description(cursor, field_id)
        else:
            numbers[field_id] = cursor.i32()
    page_type = numbers.get(PageHeaderField.TYPE, -1)
    struct_id, wanted = _DESCRIPTIONS.get(page_type, _UNKNOWN)
    description = structs.get(struct_id, {})
    if page_type == PageType.DATA_PAGE_V2:
        description.setdefault(
            DataPageHeaderV2Field.IS_COMPRESSED, True
        )  # as parquet.thrift has it
    return PageHeader(
        page_type,
        numbers.get(PageHeaderField.UNCOMPRESSED_PAGE_SIZE, -1),
        numbers.get(PageHeaderField.COMPRESSED_PAGE_SIZE, -1),
        PageHeaderField.CRC in numbers,
        *(description.get(field_id, -1) for field_id in wanted),
    )


def _read_description(cursor: Cursor, struct_id: int) -> dict[int, int]:
    """Read the numbers and booleans of the struct in field `struct_id`, which describes a page."""
    is_v2 = struct_id == PageHeaderField.DATA_PAGE_HEADER_V2
    values: dict[int, int] = {}
    for field_id, field_type in cursor.fields({}):
        if field_type in (thrift.TRUE, thrift.FALSE):
            values[field_id] = field_type == thrift.TRUE
        elif is_v2 and field_id == DataPageHeaderV2Field.IS_COMPRESSED:
            # Arrow would take the default.
            raise ThriftError(f"field {field_id} has the Thrift type {field_type}, not a boolean")
        elif field_type == I32:
            values[field_id] = cursor.i32()
        else:
            cursor.skip(field_type)
    return values
