"""Arrow types: which a segment stores unchanged, which in another layout, and which not at all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema.canonical import user_metadata
from columnar_kafka.schema.type_families import NESTED, family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["FILLED", "KAFKA_COLUMN", "MAX_NESTING", "is_kafka_member", "json_texts", "normalise"]

KAFKA_COLUMN: Final = "_kafka"
FILLED: Final = {
    "_kafka_topic": pa.string(),
    "_kafka_partition": pa.int32(),
    "_ingest_date": pa.date32(),
}
"""Columns of a table that segments do not have: their values are those of the partition."""
MAX_NESTING: Final = 100
"""Levels of a Parquet schema, root and leaf included; Arrow cannot read a file with more."""
_BELOW_ROOT: Final = 2
_LIST_LEVELS: Final = 2  # also a map's: the repeated group and its element

_FIELD_ID: Final = b"PARQUET:field_id"


def is_kafka_member(name: str) -> bool:
    """Return whether a column's name is one for a member of `_kafka`, as `flatten` makes them.

    Iceberg, Spark and `consume_arrow` could not tell the two apart.
    """
    return name.startswith(f"{KAFKA_COLUMN}.")


def normalise(schema: pa.Schema) -> pa.Schema:
    """Return `schema` as a segment stores it.

    Raises:
        SchemaError: a field cannot be stored; says which and why.
    """
    if not len(schema):
        raise SchemaError("the schema has no fields; a record needs at least one")
    for name, count in Counter(schema.names).items():
        # Spark, duckdb and Delta compare names without case: tables could not hold both.
        if name.lower() == KAFKA_COLUMN:
            why = "" if name == KAFKA_COLUMN else ": Spark ignores case"
            raise SchemaError(
                f"field {name!r} is reserved for each record's key, time and headers{why}"
            )
        if is_kafka_member(name.lower()):
            raise SchemaError(
                f"field {name!r} is reserved: it would be a member of `{KAFKA_COLUMN}`. Rename it"
            )
        if count > 1:
            raise SchemaError(f"field {name!r} occurs {count} times; names must be unique")
    fields = [_field(field, field.name, _BELOW_ROOT) for field in schema]
    return pa.schema(fields, metadata=user_metadata(schema.metadata))


def json_texts(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    """Yield the paths of fields of JSON text, as Arrow has them, among some that can be stored."""
    for field in fields:
        yield from _json_texts(field.type, f"{prefix}{field.name}")


def _json_texts(arrow: pa.DataType, path: str) -> Iterator[str]:
    if _is_json_text(arrow):
        yield path
    elif pa.types.is_map(arrow):
        yield from _json_texts(arrow.item_type, f"{path}.value")
    elif pa.types.is_struct(arrow):
        yield from json_texts(arrow, f"{path}.")
    elif pa.types.is_nested(arrow):
        yield from _json_texts(arrow.value_type, f"{path}.item")


def _is_json_text(arrow: pa.DataType) -> bool:
    return isinstance(arrow, pa.BaseExtensionType) and arrow.extension_name == "arrow.json"


def _field(field: pa.Field, path: str, depth: int) -> pa.Field:
    metadata = {k: v for k, v in (field.metadata or {}).items() if k != _FIELD_ID}
    return pa.field(field.name, _type(field.type, path, depth), field.nullable, metadata or None)


# Another layout is no coercion: the values are the same.
_LAYOUTS: Final = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
_NOT_IN_PARQUET: Final = (
    ("timestamp[s]", lambda t: pa.types.is_timestamp(t) and t.unit == "s", "timestamp[ms]"),
    ("time32[s]", pa.time32("s").equals, "time32[ms]"),
    ("date64", pa.types.is_date64, "date32"),
)


def _type(  # noqa: PLR0911 - one return for each family
    arrow: pa.DataType, path: str, depth: int
) -> pa.DataType:
    """Return the type that a segment stores, or raise SchemaError with the path of its field."""
    if depth > MAX_NESTING:
        raise SchemaError(
            f"field {path.partition('.')[0]!r} is nested deeper than the {MAX_NESTING} levels of a "
            "Parquet file, of which a list or a map takes two"
        )
    arrow = arrow.storage_type if _is_json_text(arrow) else arrow
    arrow = _LAYOUTS.get(arrow, arrow)
    _check_time(arrow, path)
    _check_size(arrow, path)
    if pa.types.is_dictionary(arrow):
        return _type(arrow.value_type, path, depth)
    if family(arrow) is not None and family(arrow) not in NESTED:
        return arrow
    if pa.types.is_struct(arrow):
        return _struct(arrow, path, depth)
    if pa.types.is_map(arrow):
        return _map(arrow, path, depth)
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(
            _field(arrow.value_field, f"{path}.item", depth + _LIST_LEVELS), arrow.list_size
        )
    if pa.types.is_large_list(arrow) or pa.types.is_large_list_view(arrow):
        return pa.large_list(_field(arrow.value_field, f"{path}.item", depth + _LIST_LEVELS))
    if pa.types.is_list(arrow) or pa.types.is_list_view(arrow):
        return pa.list_(_field(arrow.value_field, f"{path}.item", depth + _LIST_LEVELS))
    raise SchemaError(f"field {path!r} has type {arrow}, which a segment cannot store")


def _map(arrow: pa.DataType, path: str, depth: int) -> pa.DataType:
    if pa.types.is_nested(arrow.key_type):
        raise SchemaError(
            f"field {path!r}: map keys of type {arrow.key_type} are not supported (a Python dict "
            "cannot hold them)"
        )
    item = _field(arrow.item_field, f"{path}.value", depth + _LIST_LEVELS)
    return pa.map_(_type(arrow.key_type, f"{path}.key", depth + _LIST_LEVELS), item)


def _check_size(arrow: pa.DataType, path: str) -> None:
    """Refuse values of fixed size 0, and decimals whose point Parquet cannot place."""
    if pa.types.is_decimal(arrow) and not 0 <= arrow.scale <= arrow.precision:
        raise SchemaError(
            f"field {path!r} has type {arrow}; in Parquet a decimal's scale is from 0 to its "
            "precision"
        )
    if pa.types.is_fixed_size_binary(arrow) and not arrow.byte_width:
        raise SchemaError(f"field {path!r} is fixed to 0 bytes, which Parquet cannot store")
    if pa.types.is_fixed_size_list(arrow) and not arrow.list_size:
        raise SchemaError(
            f"field {path!r} is a fixed-size list of 0 elements, which Arrow writes but cannot read"
        )


def _check_time(arrow: pa.DataType, path: str) -> None:
    """Refuse a time unit that Parquet would store as another, and an unknown time zone."""
    for name, matches, instead in _NOT_IN_PARQUET:
        if matches(arrow):
            raise SchemaError(
                f"field {path!r} has type {name}, which Parquet does not have: use {instead}"
            )
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        scalar = pa.scalar(0, pa.timestamp("us", arrow.tz))
        try:
            scalar.as_py()
        except Exception as error:
            raise_if_once(error, scalar.as_py)
            raise SchemaError(
                f"field {path!r} has the unknown time zone {arrow.tz!r}: {error}"
            ) from error


def _struct(arrow: pa.DataType, path: str, depth: int) -> pa.DataType:
    fields = [arrow.field(i) for i in range(arrow.num_fields)]
    if not fields:
        raise SchemaError(f"field {path!r} is a record without fields, which Parquet cannot store")
    for name, count in Counter(field.name for field in fields).items():
        if count > 1:
            raise SchemaError(f"field {f'{path}.{name}'!r} occurs {count} times")
    for field in fields:
        # Arrow writes such a column, but cannot read it back where the record is null.
        if pa.types.is_fixed_size_list(field.type) and not field.nullable:
            raise SchemaError(
                f"field {f'{path}.{field.name}'!r} is a fixed-size list that cannot be null, "
                "inside a record: make it nullable, or a list"
            )
    return pa.struct([_field(field, f"{path}.{field.name}", depth + 1) for field in fields])
