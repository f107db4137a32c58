"""Iceberg's schemas against Arrow's: what fits, and the field ids that a table's files must have.

Readers of Iceberg find columns by field id. A file without ids is read by the names of the table's
name mapping, which a later renaming can make wrong in silence; with foreign ids it reads as null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg import types as ice

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.arrow_types import FIELD_ID, is_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata

__all__ = [
    "check_fits",
    "column_type",
    "field_ids",
    "millisecond_columns",
    "new_columns",
    "refuse_features",
    "were_renamed",
]

ParquetPath = tuple[str, ...]

_TYPES: Final = {
    pa.bool_(): ice.BooleanType(),
    pa.int8(): ice.IntegerType(),
    pa.int16(): ice.IntegerType(),
    pa.int32(): ice.IntegerType(),
    pa.int64(): ice.LongType(),
    pa.float32(): ice.FloatType(),
    pa.float64(): ice.DoubleType(),
    pa.string(): ice.StringType(),
    pa.large_string(): ice.StringType(),
    pa.binary(): ice.BinaryType(),
    pa.large_binary(): ice.BinaryType(),
    pa.date32(): ice.DateType(),
    pa.time64("us"): ice.TimeType(),
    pa.timestamp("ms"): ice.TimestampType(),
    pa.timestamp("us"): ice.TimestampType(),
}
_PROMOTED: Final = {
    ("int", "long"),
    ("float", "double"),
}
_FORMAT_VERSIONS: Final = (1, 2)


def new_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a new table for files of this schema; everything may be null.

    Raises:
        LakeError: Iceberg has no type for a column, or a column brings a field id of its own.
    """
    return pa.schema([_nullable(field, field.name) for field in schema])


def _nullable(field: pa.Field, path: str) -> pa.Field:
    if FIELD_ID in (field.metadata or {}):
        raise LakeError(f"column {path!r} has a field id of another table: write it without one")
    return pa.field(field.name, _nullable_type(field.type, path))


def _nullable_type(arrow: pa.DataType, path: str) -> pa.DataType:
    if pa.types.is_struct(arrow):
        return pa.struct([_nullable(field, f"{path}.{field.name}") for field in arrow])
    if is_list(arrow):
        return pa.list_(_nullable(arrow.value_field, f"{path}[]"))
    if pa.types.is_map(arrow):
        _nullable(arrow.key_field, f"{path}.key")
        return pa.map_(arrow.key_type, _nullable(arrow.item_field, f"{path}.value"))
    if column_type(arrow) is None:
        raise LakeError(f"column {path!r}: Iceberg has no type for {arrow}")
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return pa.timestamp(arrow.unit, "UTC")  # pyiceberg knows no other zone
    return arrow


def column_type(arrow: pa.DataType) -> ice.PrimitiveType | None:
    """Return the type of a column that is not nested; None if Iceberg has none."""
    if pa.types.is_decimal128(arrow):
        return ice.DecimalType(arrow.precision, arrow.scale) if arrow.scale >= 0 else None
    if pa.types.is_fixed_size_binary(arrow):
        return ice.FixedType(arrow.byte_width)
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:  # an instant, whatever the zone
        return ice.TimestamptzType() if arrow.unit in ("ms", "us") else None
    return _TYPES.get(arrow)


def check_fits(
    columns: Iterable[pa.Field], table: ice.StructType, path: str = "", *, may_grow: bool = False
) -> None:
    """Check that files with these columns can be read as a table, or as one that has grown.

    A table grows by columns that it lacks, and by wider types of those that it has.

    Raises:
        LakeError: they cannot, or would put null where the table has none, or have field ids that
            are not the table's; it names the column.
    """
    fields = {field.name: field for field in table.fields}
    for column in columns:
        place = f"{path}{column.name}"
        if (field := fields.pop(column.name, None)) is not None:
            _check_field(column, field, place, may_grow=may_grow)
        elif not may_grow:
            raise LakeError(
                f"column {place!r} is not in the table. Add it, or have it added with "
                "table.growth=allow"
            )
    for name, field in fields.items():
        if field.required:
            raise LakeError(
                f"column {path + name!r} is missing in Kafka, but is required in the table"
            )


def _check_field(file: pa.Field, field: ice.NestedField, path: str, *, may_grow: bool) -> None:
    if field.required and file.nullable:
        raise LakeError(f"column {path!r} may be null in Kafka, but is required in the table")
    field_id = (file.metadata or {}).get(FIELD_ID)
    if field_id is not None and int(field_id) != field.field_id:
        raise LakeError(
            f"column {path!r} of a staged file has field id {int(field_id)}, but the table's is "
            f"now {field.field_id}: stage the input again"
        )
    arrow, table = file.type, field.field_type
    if pa.types.is_struct(arrow) and isinstance(table, ice.StructType):
        check_fits(list(arrow), table, f"{path}.", may_grow=may_grow)
    elif isinstance(table, ice.ListType) and is_list(arrow):
        _check_field(arrow.value_field, table.element_field, f"{path}[]", may_grow=may_grow)
    elif pa.types.is_map(arrow) and isinstance(table, ice.MapType):
        _check_field(arrow.key_field, table.key_field, f"{path}.key", may_grow=False)
        _check_field(arrow.item_field, table.value_field, f"{path}.value", may_grow=may_grow)
    else:
        kind = column_type(arrow)
        if not (_reads_as(kind, table) or (may_grow and _reads_as(table, kind))):
            raise LakeError(f"column {path!r}: {arrow} in Kafka, {table} in the table")


def _reads_as(file: ice.IcebergType | None, table: ice.IcebergType | None) -> bool:
    """Return whether a column of files can be read as a column of the table, promoted perhaps."""
    if isinstance(file, ice.DecimalType) and isinstance(table, ice.DecimalType):
        return bool(file.scale == table.scale and file.precision <= table.precision)
    return file == table or (str(file), str(table)) in _PROMOTED


def field_ids(table: ice.StructType) -> dict[ParquetPath, int]:
    """Return the field id of each column and nested column, by its path in a Parquet schema."""
    return dict(_ids(table, ()))


def _ids(table: ice.IcebergType, path: ParquetPath) -> Iterator[tuple[ParquetPath, int]]:
    if isinstance(table, ice.StructType):
        for field in table.fields:
            yield (*path, field.name), field.field_id
            yield from _ids(field.field_type, (*path, field.name))
    elif isinstance(table, ice.ListType):
        yield (*path, "list", "element"), table.element_id
        yield from _ids(table.element_type, (*path, "list", "element"))
    elif isinstance(table, ice.MapType):
        yield (*path, "key_value", "key"), table.key_id
        yield from _ids(table.key_type, (*path, "key_value", "key"))
        yield (*path, "key_value", "value"), table.value_id
        yield from _ids(table.value_type, (*path, "key_value", "value"))


def millisecond_columns(schema: pa.Schema) -> frozenset[int]:
    """Return the numbers of the leaf columns with times in milliseconds.

    Iceberg has microseconds. Its Java library reads such values right, but takes bounds in a file
    for microseconds, and skips row groups that have what was asked for.
    """
    leaves = [leaf for field in schema for leaf in _leaves(field.type)]
    return frozenset(
        number
        for number, leaf in enumerate(leaves)
        if pa.types.is_timestamp(leaf) and leaf.unit == "ms"
    )


def _leaves(arrow: pa.DataType) -> Iterator[pa.DataType]:
    if not arrow.num_fields:
        yield arrow
    for number in range(arrow.num_fields):
        yield from _leaves(arrow.field(number).type)


def were_renamed(metadata: TableMetadata) -> bool:
    """Return whether a name or a field id has ever meant two columns in this table."""
    ids: dict[ParquetPath, int] = {}
    paths: dict[int, ParquetPath] = {}
    for schema in metadata.schemas:
        for path, field_id in field_ids(schema.as_struct()).items():
            if ids.setdefault(path, field_id) != field_id:
                return True
            if paths.setdefault(field_id, path) != path:
                return True
    return False


def refuse_features(metadata: TableMetadata) -> None:
    """Refuse a table to which files cannot be added as they are.

    Raises:
        LakeError: naming what the table has.
    """
    if metadata.format_version not in _FORMAT_VERSIONS:
        raise LakeError(f"Iceberg's format version {metadata.format_version} is not supported yet")
