"""Partitions of Iceberg tables: transforms of columns whose values stand in the manifests."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg import types as ice
from pyiceberg.transforms import (
    BucketTransform,
    IdentityTransform,
    TruncateTransform,
    parse_transform,
)

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.arrow_types import FIELD_ID, zoned_columns
from columnar_kafka.lake.model import PartitionColumn
from columnar_kafka.lake.partition import is_filled
from columnar_kafka.lake.tables.iceberg.schema import (
    check_fits,
    column_type,
    field_ids,
    were_renamed,
)
from columnar_kafka.schema import FILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update.spec import UpdateSpec

    from columnar_kafka.lake.model import StagedFile
    from columnar_kafka.lake.partition import PartitionTerm

__all__ = [
    "add_terms",
    "check_file",
    "check_partition",
    "check_terms",
    "shown_terms",
    "spec_columns",
    "spec_terms",
    "with_filled",
    "without_filled",
]

_TRANSFORMS: Final = ("identity", "year", "month", "day", "hour", "truncate", "bucket")
"""The transforms of one column; all but `bucket` keep the order of its values."""
_WITH_WIDTH: Final[dict[str, Any]] = {"truncate": TruncateTransform, "bucket": BucketTransform}
_UNSEEN: Final = "readers would not see the column's value"
_TYPES: Final = (
    ice.BooleanType,
    ice.IntegerType,
    ice.LongType,
    ice.StringType,
    ice.DateType,
    ice.TimestampType,
    ice.TimestamptzType,
)


def spec_columns(metadata: TableMetadata, schema: pa.Schema) -> tuple[PartitionColumn, ...]:
    """Return the columns by which a table is partitioned now, for segments of a schema.

    Raises:
        LakeError: one is not supported.
    """
    paths = {field_id: path for path, field_id in field_ids(metadata.schema().as_struct()).items()}
    return tuple(_column(field, paths, metadata, schema) for field in metadata.spec().fields)


def _column(
    field: PartitionField,
    paths: Mapping[int, tuple[str, ...]],
    metadata: TableMetadata,
    schema: pa.Schema,
) -> PartitionColumn:
    transform, kind = field.transform, metadata.schema().find_field(field.source_id).field_type
    path = paths[field.source_id]
    shown = f"partition {field.name!r}, {transform} of {'.'.join(path)!r}"
    if str(transform).partition("[")[0] not in _TRANSFORMS:
        raise LakeError(f"{shown}: only {', '.join(_TRANSFORMS)} are supported")
    if not isinstance(kind, _TYPES) or not transform.can_transform(kind):
        raise LakeError(f"{shown}: its type {kind} is not supported")
    if is_filled(path[0], schema):
        if not isinstance(transform, IdentityTransform):
            raise LakeError(f"{shown}: {_UNSEEN}")
        if column_type(FILLED[path[0]]) != kind:
            raise LakeError(f"{shown}: it must be {column_type(FILLED[path[0]])} in the table")
    is_ordered = not isinstance(transform, BucketTransform)
    return PartitionColumn(str(field), path, _value(transform, kind), is_ordered)


def _value(transform: Any, kind: ice.IcebergType) -> Callable[[Any], Any]:
    """Return a transform that raises if pyiceberg has no text for the result.

    It names the partition by that in the snapshot's summary, and has none for days outside the
    years 1 to 9999. It also raises for the least integers, whose truncation is below what the type
    has: readers look for them in partitions that differ, or in none.
    """
    transformed = transform.transform(kind)
    result = transform.result_type(kind)
    check = lru_cache(maxsize=1024)(partial(transform.to_human_string, result))
    least = getattr(result, "min", None)

    def value(plain: Any) -> Any:
        partition = transformed(plain)
        check(partition)
        if least is not None and partition < least:
            raise ValueError(f"{transform} of it is less than {least}, the least {result}")
        return partition

    return value


def check_file(path: str, schema: pa.Schema, metadata: TableMetadata) -> None:
    """Check a file's columns against the table as it is now.

    Raises:
        LakeError: its columns' names or field ids are not the table's.
    """
    check_fits(schema, without_filled(metadata, schema))
    if zoned := zoned_columns(schema):
        raise LakeError(
            f"{path}: column {zoned[0]!r} has a time zone, which Iceberg's readers refuse, and the "
            "file cannot be stitched: write it in UTC"
        )
    has_ids = FIELD_ID in (schema.field(0).metadata or {})
    if not has_ids and were_renamed(metadata):
        raise LakeError(
            f"{path} has no field ids, so readers would go by column names, which have changed in "
            "this table: land with table.layout=stitched"
        )


def check_partition(file: StagedFile, metadata: TableMetadata) -> None:
    """Check that a file was staged for the partitioning that the table has now.

    Raises:
        LakeError: it was not.
    """
    if [name for name, _ in file.table_partition or ()] != [str(e) for e in metadata.spec().fields]:
        raise LakeError(f"{file} was staged for another partitioning: stage the input again")


def without_filled(metadata: TableMetadata, schema: pa.Schema) -> ice.StructType:
    """Return a table's columns but those for partitions that segments need not have."""
    sources = {field.source_id for field in metadata.spec().fields}
    return ice.StructType(
        *(
            field
            for field in metadata.schema().fields
            if field.field_id not in sources or not is_filled(field.name, schema)
        )
    )


# --- new tables -----------------------------------------------------------------------------------


def with_filled(columns: pa.Schema, terms: Iterable[PartitionTerm]) -> pa.Schema:
    """Return a new table's columns with those for partitions that segments do not have."""
    names = dict.fromkeys(term.column for term in terms)
    more = [pa.field(name, FILLED[name]) for name in names if is_filled(name, columns)]
    return pa.schema([*columns, *more])


def check_terms(terms: Iterable[PartitionTerm], columns: pa.Schema, segments: pa.Schema) -> None:
    """Check what a new table with these columns, for these segments, is to be partitioned by.

    Raises:
        LakeError: a column does not exist, or its type or the transform is not supported.
    """
    for term in terms:
        field: pa.Field | None = None
        fields = list(columns)
        for name in term.column.split("."):
            field = next((child for child in fields if child.name == name), None)
            fields = list(field.type) if field and pa.types.is_struct(field.type) else []
        if field is None:
            raise LakeError(f"partition column {term.column!r} does not exist")
        if term.transform not in _TRANSFORMS or (term.width is None) == (
            term.transform in _WITH_WIDTH
        ):
            raise LakeError(
                f"partition {term.transform}({term.column}): the transforms are "
                f"{', '.join(_TRANSFORMS)}, and the last two have a width"
            )
        if is_filled(term.column, segments) and term.transform != "identity":
            raise LakeError(f"partition {term.transform}({term.column}): {_UNSEEN}")
        kind = column_type(field.type)
        if not isinstance(kind, _TYPES) or not _transform(term).can_transform(kind):
            raise LakeError(
                f"partition {term.transform} of {term.column!r}: its type {field.type} is not "
                "supported"
            )


def add_terms(spec: UpdateSpec, terms: Iterable[PartitionTerm]) -> None:
    """Partition a new table."""
    for term in terms:
        spec.add_field(term.column, _transform(term))


def spec_terms(metadata: TableMetadata) -> list[str]:
    """Return what a table is partitioned by, as the user would say it."""
    find = metadata.schema().find_column_name
    return [_shown(f"{find(field.source_id)}", field.transform) for field in metadata.spec().fields]


def shown_terms(terms: Iterable[PartitionTerm]) -> list[str]:
    """Return what a new table would be partitioned by, as `spec_terms` does."""
    return [_shown(term.column, _transform(term)) for term in terms]


def _transform(term: PartitionTerm) -> Any:
    if term.width:
        return _WITH_WIDTH[term.transform](term.width)
    return parse_transform(term.transform)


def _shown(column: str, transform: Any) -> str:
    return column if isinstance(transform, IdentityTransform) else f"{transform}({column})"
