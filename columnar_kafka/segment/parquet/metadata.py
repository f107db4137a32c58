"""What a Parquet footer states about row groups, column chunks and the Arrow schema.

Read from the bytes: pyarrow's own metadata ends the process on some malformed values, such as a
codec that does not exist.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from columnar_kafka.segment.parquet.field_ids import (
    ColumnChunkField,
    ColumnMetaDataField,
    FileMetaDataField,
    KeyValueField,
    RowGroupField,
    SchemaElementField,
)
from columnar_kafka.segment.parquet.thrift import I32, LIST, Cursor, ThriftError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ARROW_SCHEMA",
    "ColumnChunk",
    "RowGroup",
    "arrow_schemas",
    "has_encrypted_columns",
    "row_groups",
    "schema_depth",
]

# The Thrift types of the fields that are read.
_FILE: Final = FileMetaDataField.types(FileMetaDataField.SCHEMA, FileMetaDataField.ROW_GROUPS)
_SCHEMA: Final = FileMetaDataField.types(FileMetaDataField.SCHEMA)
_NUM_CHILDREN: Final = SchemaElementField.types(SchemaElementField.NUM_CHILDREN)
_ENCRYPTION: Final = FileMetaDataField.types(FileMetaDataField.ENCRYPTION_ALGORITHM)
_KEY_VALUES: Final = FileMetaDataField.types(FileMetaDataField.KEY_VALUE_METADATA)
_ROW_GROUP: Final = RowGroupField.types(RowGroupField.COLUMNS, RowGroupField.NUM_ROWS)
_CHUNK: Final = ColumnChunkField.types(ColumnChunkField.META_DATA)
_META_DATA: Final = ColumnMetaDataField.types(
    ColumnMetaDataField.TYPE,
    ColumnMetaDataField.ENCODINGS,
    ColumnMetaDataField.CODEC,
    ColumnMetaDataField.NUM_VALUES,
    ColumnMetaDataField.TOTAL_COMPRESSED_SIZE,
    ColumnMetaDataField.DATA_PAGE_OFFSET,
    ColumnMetaDataField.DICTIONARY_PAGE_OFFSET,
)


class ColumnChunk(NamedTuple):
    """One column chunk: `size` bytes from `start` in the file, with `values`, nulls included.

    Codec and encodings are parquet.thrift's numbers. A number that the footer does not state is -1.
    """

    encodings: tuple[int, ...]
    codec: int
    values: int
    start: int
    size: int


class RowGroup(NamedTuple):
    """One row group: its number of rows, and its column chunks in the schema's order."""

    rows: int
    chunks: list[ColumnChunk]


def row_groups(footer: bytes) -> Iterator[RowGroup]:
    """Yield the row groups of a footer.

    Raises:
        ThriftError, IndexError: it is damaged.
    """
    cursor = Cursor(footer)
    for field_id, field_type in cursor.fields(_FILE):
        if field_id == FileMetaDataField.ROW_GROUPS:
            for _ in range(cursor.struct_count()):
                yield _read_row_group(cursor)
        else:
            cursor.skip(field_type)


def schema_depth(footer: bytes) -> int:
    """Return the most levels of a footer's schema, its root among them.

    Raises:
        ThriftError, IndexError: the footer is damaged.
    """
    cursor, depth = Cursor(footer), 0
    left: list[int] = []  # children to come of each node above
    for field_id, field_type in cursor.fields(_SCHEMA):
        if field_id != FileMetaDataField.SCHEMA:
            cursor.skip(field_type)
            continue
        for _ in range(cursor.struct_count()):
            while left and not left[-1]:
                left.pop()
            if left:
                left[-1] -= 1
            depth = max(depth, len(left) + 1)
            left.append(_read_num_children(cursor))
        break
    return depth


def _read_num_children(cursor: Cursor) -> int:
    count = 0
    for field_id, field_type in cursor.fields(_NUM_CHILDREN):
        if field_id == SchemaElementField.NUM_CHILDREN:
            count = max(0, cursor.i32())
        else:
            cursor.skip(field_type)
    return count


def has_encrypted_columns(footer: bytes) -> bool:
    """Return whether a footer, itself not encrypted, says that columns are. Raises nothing."""
    cursor = Cursor(footer)
    try:
        for field_id, field_type in cursor.fields(_ENCRYPTION):
            if field_id == FileMetaDataField.ENCRYPTION_ALGORITHM:
                return True
            cursor.skip(field_type)
    except (ThriftError, IndexError):
        pass
    return False


ARROW_SCHEMA: Final = b"ARROW:schema"
"""The key of the metadata that say which Arrow types the columns have."""


def arrow_schemas(footer: bytes) -> list[bytes]:
    """Return the Arrow schemas in a footer, still encoded; normally there is one.

    Raises:
        ThriftError, IndexError: the footer is damaged.
    """
    if ARROW_SCHEMA not in footer:  # which may be no footer at all: Arrow says so
        return []
    return [value for key, value in _key_values(footer) if key == ARROW_SCHEMA]


def _key_values(footer: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a footer's metadata."""
    cursor = Cursor(footer)
    for field_id, field_type in cursor.fields(_KEY_VALUES):
        if field_id == FileMetaDataField.KEY_VALUE_METADATA:
            for _ in range(cursor.struct_count()):
                yield _read_key_value(cursor)
        else:
            cursor.skip(field_type)


def _read_key_value(cursor: Cursor) -> tuple[bytes, bytes]:
    pair = {KeyValueField.KEY: b"", KeyValueField.VALUE: b""}
    for field_id, field_type in cursor.fields(KeyValueField.TYPES):
        if field_id in pair:
            pair[field_id] = cursor.binary()
        else:
            cursor.skip(field_type)
    return pair[KeyValueField.KEY], pair[KeyValueField.VALUE]


def _read_row_group(cursor: Cursor) -> RowGroup:
    rows, chunks = 0, []
    for field_id, field_type in cursor.fields(_ROW_GROUP):
        if field_id == RowGroupField.COLUMNS:
            chunks = [_read_chunk(cursor) for _ in range(cursor.struct_count())]
        elif field_id == RowGroupField.NUM_ROWS:
            rows = cursor.integer()
        else:
            cursor.skip(field_type)
    return RowGroup(rows, chunks)


def _read_chunk(cursor: Cursor) -> ColumnChunk:
    chunk = None
    for field_id, field_type in cursor.fields(_CHUNK):
        if field_id == ColumnChunkField.META_DATA:
            chunk = _read_meta_data(cursor)
        else:
            cursor.skip(field_type)
    if chunk is None:
        raise ThriftError("a column chunk without metadata")
    return chunk


def _read_meta_data(cursor: Cursor) -> ColumnChunk:
    numbers: dict[int, int] = {}
    encodings = b"\0"
    for field_id, field_type in cursor.fields(_META_DATA):
        if field_id == ColumnMetaDataField.ENCODINGS:
            encodings = cursor.span(LIST)
        elif field_id in _META_DATA:
            numbers[field_id] = cursor.i32() if field_type == I32 else cursor.integer()
        else:
            cursor.skip(field_type)
    data = numbers.get(ColumnMetaDataField.DATA_PAGE_OFFSET, -1)
    dictionary = numbers.get(ColumnMetaDataField.DICTIONARY_PAGE_OFFSET, 0)
    return ColumnChunk(
        encodings=_encodings(encodings),
        codec=numbers.get(ColumnMetaDataField.CODEC, -1),
        values=numbers.get(ColumnMetaDataField.NUM_VALUES, -1),
        start=min(data, dictionary) if dictionary > 0 else data,  # Arrow's rule
        size=numbers.get(ColumnMetaDataField.TOTAL_COMPRESSED_SIZE, -1),
    )


@lru_cache
def _encodings(encoded: bytes) -> tuple[int, ...]:
    cursor = Cursor(encoded)
    element_type, count = cursor.list_head()
    if element_type != I32:
        raise ThriftError(f"encodings of the Thrift type {element_type}")
    return tuple([cursor.i32() for _ in range(count)])
