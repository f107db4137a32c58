"""What the bytes of a segment's file are for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from columnar_kafka.segment.parquet.field_ids import (
    ColumnChunkField,
    ColumnMetaDataField,
    FileMetaDataField,
    RowGroupField,
)
from columnar_kafka.segment.parquet.metadata import row_groups
from columnar_kafka.segment.parquet.page_checks import footer_bytes
from columnar_kafka.segment.parquet.page_header import read_page_header
from columnar_kafka.segment.parquet.thrift import STRUCT, Cursor

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_FILE: Final = {
    FileMetaDataField.SCHEMA: "footer: schema",
    FileMetaDataField.KEY_VALUE_METADATA: "footer: key-values",
    FileMetaDataField.COLUMN_ORDERS: "footer: column orders",
}
_OF_CHUNK: Final = {
    ColumnMetaDataField.PATH_IN_SCHEMA: "footer: column paths",
    ColumnMetaDataField.STATISTICS: "footer: statistics",
    ColumnMetaDataField.ENCODING_STATS: "footer: encodings of pages",
}


def parts(file: bytes) -> dict[str, int]:
    """Return the bytes of each part of a file with one row group; all of them are the file's."""
    footer = footer_bytes(file)
    sizes: Counter[str] = Counter()
    for row_group in row_groups(footer):
        for chunk in row_group.chunks:
            headers = sum(_page_headers(file, chunk.start, chunk.start + chunk.size))
            sizes["page headers"] += headers
            sizes["pages"] += chunk.size - headers
    for field, value in _fields(footer):
        if field in _OF_FILE:
            sizes[_OF_FILE[field]] += len(value)
        elif field == FileMetaDataField.ROW_GROUPS:
            sizes += _of_row_groups(value)
    sizes["footer: the rest"] = len(footer) - sum(sizes[part] for part in sizes if ":" in part)
    sizes["magic and length"] = len(file) - sizes.total()
    return dict(sizes)


def _page_headers(file: bytes, start: int, end: int) -> Iterator[int]:
    cursor = Cursor(file, start)
    while cursor.pos < end:
        before = cursor.pos
        page = read_page_header(cursor)
        yield cursor.pos - before
        cursor.pos += page.compressed_size


def _of_row_groups(encoded: bytes) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for row_group in _structs(encoded):
        for chunk in _structs(dict(_fields(row_group))[RowGroupField.COLUMNS]):
            for field, value in _fields(dict(_fields(chunk))[ColumnChunkField.META_DATA]):
                if field in _OF_CHUNK:
                    sizes[_OF_CHUNK[field]] += len(value)
    return sizes


def _fields(encoded: bytes) -> Iterator[tuple[int, bytes]]:
    cursor = Cursor(encoded)
    for field, kind in cursor.fields({}):
        yield field, cursor.span(kind)


def _structs(encoded: bytes) -> Iterator[bytes]:
    cursor = Cursor(encoded)
    for _ in range(cursor.struct_count()):
        yield cursor.span(STRUCT)
