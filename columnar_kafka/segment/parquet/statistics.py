"""Bounds of columns, from the statistics in a Parquet footer.

Read from the bytes: Arrow ends the process on some malformed statistics. Whatever is not as
parquet.thrift defines it counts as missing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.schema.canonical import children
from columnar_kafka.schema.type_families import family
from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.field_ids import (
    ColumnChunkField,
    ColumnMetaDataField,
    ColumnOrderField,
    FileMetaDataField,
    PhysicalType,
    RowGroupField,
    StatisticsField,
)
from columnar_kafka.segment.parquet.thrift import BINARY, STRUCT, Cursor, ThriftError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

__all__ = ["Bounds", "ColumnPath", "bounds"]

# The Thrift types of the fields that are read.
_FILE: Final = FileMetaDataField.types(FileMetaDataField.COLUMN_ORDERS)
_ROW_GROUPS: Final = FileMetaDataField.types(FileMetaDataField.ROW_GROUPS)
_ROW_GROUP: Final = RowGroupField.types(RowGroupField.COLUMNS)
_CHUNK: Final = ColumnChunkField.types(ColumnChunkField.META_DATA)
_META_DATA: Final = ColumnMetaDataField.types(
    ColumnMetaDataField.TYPE,
    ColumnMetaDataField.PATH_IN_SCHEMA,
    ColumnMetaDataField.NUM_VALUES,
    ColumnMetaDataField.STATISTICS,
)
_TYPE_ORDER: Final = ColumnOrderField.encode(
    {ColumnOrderField.TYPE_ORDER: thrift.encode_struct([])}
)


ColumnPath = tuple[str, ...]
"""The name of a top-level column, then the names of struct members down to a leaf."""


class Bounds(NamedTuple):
    """The least and the greatest value of a column, of its type; both None where all are null."""

    least: pa.Scalar | None
    greatest: pa.Scalar | None
    has_nulls: bool


class _ChunkStatistics(NamedTuple):
    """What the footer states about one column chunk; a number that it does not state is -1."""

    type: int = -1
    path: ColumnPath = ()
    values: int = -1
    nulls: int = -1
    least: bytes | None = None
    greatest: bytes | None = None


def bounds(footer: bytes, schema: pa.Schema, names: Collection[str]) -> dict[ColumnPath, Bounds]:
    """Return the bounds of these columns, and of members of structs in them.

    Only integers, dates, times, text and bytes have bounds, and only outside lists and maps.
    """
    leaves = _all_leaves(schema.remove_metadata())  # with it, pyarrow up to 21 cannot hash it
    wanted = {
        number: (path, order)
        for number, (path, order) in enumerate(leaves)
        if order is not None and path[0] in names
    }
    if not wanted:
        return {}
    try:
        row_groups = list(_row_groups(footer, len(leaves), wanted))
    except (ThriftError, IndexError, UnicodeDecodeError):
        return {}
    result = {}
    for number, (path, order) in wanted.items() if row_groups else ():
        column = _bounds([row_group[number] for row_group in row_groups], path, order)
        if column is not None:
            result[path] = column
    return result


# --- types ----------------------------------------------------------------------------------------


class _ValueOrder(NamedTuple):
    """How the values of an Arrow type are stored in statistics, and how they compare."""

    arrow: pa.DataType
    physical: int
    width: int = 0
    signed: bool = True

    def comparable(self, data: bytes) -> Any:
        """Return what compares as the encoded value does.

        Raises:
            ValueError: it has another width.
        """
        if self.physical == PhysicalType.BYTE_ARRAY:
            return data
        if len(data) != self.width:
            raise ValueError(data)
        return int.from_bytes(data, "little", signed=self.signed)

    def scalar(self, comparable: Any) -> pa.Scalar:
        """Return the value itself.

        Raises:
            ValueError, OverflowError: it is not of this type.
        """
        is_text = pa.types.is_string(self.arrow) or pa.types.is_large_string(self.arrow)
        return pa.scalar(comparable.decode() if is_text else comparable, self.arrow)


def _order(arrow: pa.DataType) -> _ValueOrder | None:
    """Return the order of a type's values; None where it has none, or writers differ on it."""
    is_time = pa.types.is_date32(arrow) or pa.types.is_time(arrow) or pa.types.is_timestamp(arrow)
    if is_time or pa.types.is_integer(arrow):
        signed = not pa.types.is_unsigned_integer(arrow)
        if arrow.bit_width == 64:  # noqa: PLR2004
            return _ValueOrder(arrow, PhysicalType.INT64, 8, signed)
        return _ValueOrder(arrow, PhysicalType.INT32, 4, signed)
    if family(arrow) in ("string", "binary") and not pa.types.is_fixed_size_binary(arrow):
        return _ValueOrder(arrow, PhysicalType.BYTE_ARRAY)
    return None


@lru_cache(maxsize=100)
def _all_leaves(schema: pa.Schema) -> list[tuple[ColumnPath, _ValueOrder | None]]:
    return [leaf for field in schema for leaf in _leaves(field, ())]


def _leaves(field: pa.Field, above: ColumnPath) -> Iterator[tuple[ColumnPath, _ValueOrder | None]]:
    """Yield the leaf columns of a field; those in lists and maps have no order."""
    path = (*above, field.name)
    inner = children(field.type)
    if not inner:
        yield path, _order(field.type)
    for _, child in inner:
        for below, order in _leaves(child, path):
            yield below, order if pa.types.is_struct(field.type) else None


# --- the footer -----------------------------------------------------------------------------------


def _row_groups(
    footer: bytes, columns: int, wanted: Collection[int]
) -> Iterator[dict[int, _ChunkStatistics]]:
    """Yield the statistics of the wanted columns, by number, for one row group after the other.

    Raises:
        ThriftError, IndexError, UnicodeDecodeError: the footer is damaged, or values are in another
            order than that of their types.
    """
    orders = thrift.encode_list(STRUCT, [_TYPE_ORDER] * columns)
    # Most footers end with the column orders. What is encrypted comes after them, and a signature.
    if not footer.endswith(orders + thrift.STOP) and _column_orders(footer) != orders:
        raise ThriftError("no column orders")
    cursor = Cursor(footer)
    for field_id, field_type in cursor.fields(_ROW_GROUPS):
        if field_id == FileMetaDataField.ROW_GROUPS:
            for left in reversed(range(cursor.struct_count())):
                yield _read_row_group(cursor, columns, wanted, to_end=left > 0)
            return
        cursor.skip(field_type)


def _column_orders(footer: bytes) -> bytes:
    cursor = Cursor(footer)
    for field_id, field_type in cursor.fields(_FILE):
        if field_id == FileMetaDataField.COLUMN_ORDERS:
            return cursor.span(field_type)
        cursor.skip(field_type)
    return b""


def _read_row_group(
    cursor: Cursor, columns: int, wanted: Collection[int], *, to_end: bool
) -> dict[int, _ChunkStatistics]:
    """Return the statistics of the wanted columns; with `to_end`, leave the cursor behind them all.

    Nothing is read after the last row group's last wanted column: a segment has one row group.
    """
    chunks = {}
    for field_id, field_type in cursor.fields(_ROW_GROUP):
        if field_id != RowGroupField.COLUMNS:
            cursor.skip(field_type)
        elif (count := cursor.struct_count()) != columns:
            raise ThriftError(f"{count} columns in a row group, {columns} in the schema")
        else:
            for number in range(columns if to_end else max(wanted) + 1):
                if number in wanted:
                    chunks[number] = _read_chunk(cursor)
                else:
                    cursor.skip(STRUCT)
            if not to_end:
                break
    if len(chunks) < len(wanted):
        raise ThriftError("a row group without columns")
    return chunks


def _read_chunk(cursor: Cursor) -> _ChunkStatistics:
    chunk = _ChunkStatistics()
    for field_id, field_type in cursor.fields(_CHUNK):
        if field_id == ColumnChunkField.META_DATA:
            chunk = _read_meta_data(cursor)
        else:
            cursor.skip(field_type)
    return chunk


def _read_meta_data(cursor: Cursor) -> _ChunkStatistics:
    chunk = _ChunkStatistics()
    for field_id, field_type in cursor.fields(_META_DATA):
        if field_id not in _META_DATA:
            cursor.skip(field_type)
        elif field_id == ColumnMetaDataField.TYPE:
            chunk = chunk._replace(type=cursor.integer())
        elif field_id == ColumnMetaDataField.PATH_IN_SCHEMA:
            chunk = chunk._replace(path=_read_path(cursor))
        elif field_id == ColumnMetaDataField.NUM_VALUES:
            chunk = chunk._replace(values=cursor.integer())
        else:
            chunk = _read_statistics(cursor, chunk)
    return chunk


def _read_path(cursor: Cursor) -> ColumnPath:
    element_type, count = cursor.list_head()
    if element_type != BINARY:
        raise ThriftError(f"a path of the Thrift type {element_type}")
    return tuple([cursor.binary().decode() for _ in range(count)])


def _read_statistics(cursor: Cursor, chunk: _ChunkStatistics) -> _ChunkStatistics:
    for field_id, field_type in cursor.fields(StatisticsField.TYPES):
        if field_id == StatisticsField.NULL_COUNT:
            chunk = chunk._replace(nulls=cursor.integer())
        elif field_id == StatisticsField.MAX_VALUE:
            chunk = chunk._replace(greatest=cursor.binary())
        elif field_id == StatisticsField.MIN_VALUE:
            chunk = chunk._replace(least=cursor.binary())
        else:
            # A greatest value that is cut short must be increased: not all writers do that.
            if (field_id, field_type) == (StatisticsField.IS_MAX_VALUE_EXACT, thrift.FALSE):
                chunk = chunk._replace(greatest=None)
            elif (field_id, field_type) == (StatisticsField.IS_MIN_VALUE_EXACT, thrift.FALSE):
                chunk = chunk._replace(least=None)
            cursor.skip(field_type)
    return chunk


# --- one column -----------------------------------------------------------------------------------


def _bounds(
    chunks: Sequence[_ChunkStatistics], path: ColumnPath, order: _ValueOrder
) -> Bounds | None:
    """Return the bounds of a column in all its chunks; None where one states too little."""
    stated: list[tuple[Any, Any]] = []
    for chunk in chunks:
        if (chunk.path, chunk.type) != (path, order.physical):
            return None
        if chunk.nulls == chunk.values >= 0:
            continue
        if chunk.least is None or chunk.greatest is None:
            return None
        stated.append((chunk.least, chunk.greatest))
    has_nulls = any(chunk.nulls for chunk in chunks)
    if not stated:
        return Bounds(None, None, has_nulls)
    try:
        pairs = [
            (order.comparable(least), order.comparable(greatest)) for least, greatest in stated
        ]
        if any(least > greatest for least, greatest in pairs):
            return None
        least, greatest = min(least for least, _ in pairs), max(greatest for _, greatest in pairs)
        return Bounds(order.scalar(least), order.scalar(greatest), has_nulls)
    except (ValueError, OverflowError):  # pa.ArrowInvalid and UnicodeDecodeError are ValueErrors
        return None
