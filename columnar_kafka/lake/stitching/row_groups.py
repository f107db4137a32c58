"""Row groups for another file: a footer's entries, copied with the positions in them shifted.

Only bytes are copied, around the few integers that change; there is no tree of objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from columnar_kafka.errors import LakeError
from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.field_ids import (
    MAGIC,
    ColumnChunkField,
    ColumnMetaDataField,
    RowGroupField,
)
from columnar_kafka.segment.parquet.thrift import STRUCT, Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Container

__all__ = ["START", "RowGroupCopier", "StitchError", "without_statistics"]

START: Final = len(MAGIC)  # where every body begins

# The Thrift types of the fields that are read. Those after LAST are cut off.
_ROW_GROUP: Final = RowGroupField.types(
    RowGroupField.COLUMNS,
    RowGroupField.NUM_ROWS,
    RowGroupField.FILE_OFFSET,
    RowGroupField.TOTAL_COMPRESSED_SIZE,
    RowGroupField.ORDINAL,
)
_CHUNK: Final = ColumnChunkField.types(
    ColumnChunkField.FILE_PATH, ColumnChunkField.FILE_OFFSET, ColumnChunkField.META_DATA
)
_ENCRYPTION: Final = (
    ColumnChunkField.CRYPTO_METADATA,
    ColumnChunkField.ENCRYPTED_COLUMN_METADATA,
)
_META_DATA: Final = ColumnMetaDataField.types(
    ColumnMetaDataField.TOTAL_COMPRESSED_SIZE,
    ColumnMetaDataField.DATA_PAGE_OFFSET,
    ColumnMetaDataField.INDEX_PAGE_OFFSET,
    ColumnMetaDataField.DICTIONARY_PAGE_OFFSET,
    ColumnMetaDataField.BLOOM_FILTER_OFFSET,
)
_STATISTICS: Final = (ColumnMetaDataField.STATISTICS, ColumnMetaDataField.ENCODING_STATS)


class StitchError(LakeError):
    """A file that cannot be stitched, or not to the files before it; the message says why."""


class RowGroupCopier:
    """Copies the row groups of one footer, in which a cursor moves from one to the next.

    Positions are increased by `shift` and must lie in the file's body, which ends at `body_end`.
    """

    __slots__ = ("_body_end", "_copied_to", "_cursor", "_misplaced", "_out", "_shift")

    def __init__(self, cursor: Cursor, *, shift: int, body_end: int) -> None:
        self._cursor = cursor
        self._shift = shift
        self._body_end = body_end
        self._out = bytearray()  # the copy so far, of what stood before _copied_to
        self._copied_to = 0
        self._misplaced = ""

    def copy(self, *, columns: int, ordinal: int) -> tuple[int, bytes]:
        """Return the number of rows and the copy of the row group at the cursor, and pass it.

        The schema has `columns` leaf columns, and the copy gets the number `ordinal`.

        Raises:
            StitchError: it is encrypted, or not all in this file's body.
            ThriftError, IndexError: it is damaged.
        """
        cursor, field = self._cursor, RowGroupField
        self._out, self._copied_to, self._misplaced = bytearray(), cursor.pos, ""
        rows, offset, kept = -1, START, cursor.pos
        for field_id, field_type in cursor.fields(_ROW_GROUP):
            if field_id == field.COLUMNS:
                self._copy_chunks(columns)
            elif field_id == field.NUM_ROWS:
                rows = cursor.integer()
            elif field_id == field.FILE_OFFSET:
                offset = self._shift_position()
            elif field_id == field.TOTAL_COMPRESSED_SIZE:
                # Spark gives a row group to the task that has its middle: a size that reaches
                # past the file's end does no harm in a small file and loses rows in a big one.
                self._check_within(offset, cursor.integer())
            elif field_id == field.ORDINAL:
                self._replace(ordinal)
            else:
                cursor.skip(field_type)
            kept = cursor.pos if field_id <= field.LAST else kept
        self._end_struct(kept)
        if rows < 0:
            raise StitchError(f"a row group of {rows} rows")
        if rows and self._misplaced:
            raise StitchError(self._misplaced)
        return rows, bytes(self._out + cursor.buf[self._copied_to : cursor.pos])

    def _copy_chunks(self, columns: int) -> None:
        count = self._cursor.struct_count()
        if count != columns:
            raise StitchError(f"a row group of {count} columns, where the schema has {columns}")
        for _ in range(count):
            self._copy_chunk()

    def _copy_chunk(self) -> None:
        cursor, field = self._cursor, ColumnChunkField
        kept, has_meta_data = cursor.pos, False
        for field_id, field_type in cursor.fields(_CHUNK):
            if field_id == field.FILE_OFFSET:
                self._replace(0)
            elif field_id == field.META_DATA:
                self._copy_meta_data()
                has_meta_data = True
            elif field_id == field.FILE_PATH:
                raise StitchError("a column chunk that lies in another file (file_path)")
            elif field_id in _ENCRYPTION:
                raise StitchError("an encrypted column")
            else:  # the page indexes
                cursor.skip(field_type)
            kept = cursor.pos if field_id <= field.META_DATA else kept
        self._end_struct(kept)
        if not has_meta_data:
            raise StitchError("a column chunk without metadata")

    def _copy_meta_data(self) -> None:
        cursor, field = self._cursor, ColumnMetaDataField
        kept, size, start = cursor.pos, -1, 0
        for field_id, field_type in cursor.fields(_META_DATA):
            if field_id not in _META_DATA:
                cursor.skip(field_type)
            elif field_id == field.DATA_PAGE_OFFSET:
                start = self._shift_position()
            elif field_id == field.DICTIONARY_PAGE_OFFSET:
                start = min(start, self._shift_position(optional=True) or start)
            elif field_id == field.TOTAL_COMPRESSED_SIZE:
                size = cursor.integer()
            else:
                self._shift_position(optional=True)
            kept = cursor.pos if field_id <= field.LAST else kept
        self._end_struct(kept)
        self._check_within(start, size)

    def _shift_position(self, *, optional: bool = False) -> int:
        """Shift the position at the cursor and return the old one.

        With `optional` 0 stays, by which some writers mean that there is none.
        """
        start = self._cursor.pos
        position = self._cursor.integer()
        if position or not optional:
            self._check_within(position, 1)
            self._put(start, position + self._shift)
        return position

    def _check_within(self, start: int, size: int) -> None:
        """Remember bytes outside the body: an error, unless the row group turns out to be empty."""
        if start < START or size < 0 or start + size > self._body_end:
            self._misplaced = f"{size} bytes at {start} are not within the file's body"

    def _replace(self, value: int) -> None:
        start = self._cursor.pos
        self._cursor.integer()
        self._put(start, value)

    def _put(self, start: int, value: int) -> None:
        """Put `value` in the place of the integer between `start` and the cursor."""
        self._out += self._cursor.buf[self._copied_to : start] + thrift.encode_integer(value)
        self._copied_to = self._cursor.pos

    def _end_struct(self, kept: int) -> None:
        """Cut off the fields after `kept` of the struct just read."""
        if self._cursor.pos > kept + 1:
            self._out += self._cursor.buf[self._copied_to : kept] + thrift.STOP
            self._copied_to = self._cursor.pos


_Fields = list[tuple[int, int, bytes]]


def without_statistics(row_group: bytes, columns: Container[int]) -> bytes:
    """Return an encoded row group in which the columns with these numbers have no statistics.

    Nor do they say which encodings their pages have, for a reader might conclude from that that the
    dictionary holds all of their values, and look there.
    """
    cursor = Cursor(row_group)

    def column(number: int) -> bytes:
        if number not in columns:
            return cursor.span(STRUCT)
        return _edited(cursor, ColumnChunkField.META_DATA, meta_data)

    def meta_data() -> bytes:
        fields = _fields(cursor)
        left = [field for field in fields if field[0] not in _STATISTICS]
        return thrift.encode_struct(left)

    def chunks() -> bytes:
        return thrift.encode_list(STRUCT, [column(n) for n in range(cursor.struct_count())])

    return _edited(cursor, RowGroupField.COLUMNS, chunks)


def _edited(cursor: Cursor, changed: int, change: Callable[[], bytes]) -> bytes:
    """Return the struct at the cursor with one field as `change` reads it."""
    return thrift.encode_struct(_fields(cursor, changed, change))


def _fields(cursor: Cursor, changed: int = 0, change: Callable[[], bytes] = bytes) -> _Fields:
    return [
        (field_id, field_type, change() if field_id == changed else cursor.span(field_type))
        for field_id, field_type in cursor.fields({})
    ]
