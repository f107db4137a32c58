"""A schema as the native core reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.range_checks import has_distinct_keys
from columnar_kafka.schema.families import family

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from columnar_kafka.native._core import Described, RowFormat
    from columnar_kafka.schema import RecordSchema

__all__ = ["native_columns", "row_format"]

_NUMBERS: Final = {
    pa.bool_(): "bool",
    pa.int8(): "int8",
    pa.int16(): "int16",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.uint8(): "uint8",
    pa.uint16(): "uint16",
    pa.uint32(): "uint32",
    pa.uint64(): "uint64",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.date32(): "date32",
}


class _Unsupported(Exception):  # noqa: N818 - nobody else sees it
    """A field that the native core has no columns for."""


def row_format(schema: RecordSchema) -> RowFormat | None:
    """Return the native core's columns; None if it is off, or does not know one of the types."""
    if not native.enabled:
        return None
    columns = native_columns(schema.arrow, schema.symbols)
    return None if columns is None else native.core.RowFormat(columns)


def native_columns(
    schema: pa.Schema, symbols: Mapping[str, Collection[str]] | None = None
) -> list[Described] | None:
    """Return columns as the native core reads them; None if it does not know one of the types.

    Args:
        schema: the columns.
        symbols: the only texts of some columns, by their paths.
    """
    if b"ARROW:extension:" in schema.serialize().to_pybytes():  # which Arrow may know later
        return None
    try:
        return [_described(field, field.name, symbols or {}) for field in schema]
    except _Unsupported:
        return None


def _described(field: pa.Field, path: str, symbols: Mapping[str, Collection[str]]) -> Described:
    arrow = field.type
    details: Any = None
    children: tuple[Described, ...] = ()
    values = family(arrow)
    if arrow in _NUMBERS:
        name = _NUMBERS[arrow]
    elif values == "string":
        name = "string"
        details = sorted(symbols[path]) if path in symbols else None
    elif pa.types.is_fixed_size_binary(arrow):
        name, details = "fixed_size_binary", arrow.byte_width
    elif values == "binary":
        name = "binary"
    elif values in ("timestamp", "local timestamp") and arrow.tz in (None, "UTC"):
        name, details = "timestamp", (arrow.unit, arrow.tz is not None)
    elif values == "struct" and len({child.name for child in arrow}) == arrow.num_fields:
        name = "struct"
        children = tuple(_described(child, f"{path}.{child.name}", symbols) for child in arrow)
    elif values == "map" and has_distinct_keys(arrow):
        name = "map"
        children = (
            _described(arrow.key_field, f"{path}.key", symbols),
            _described(arrow.item_field, f"{path}.value", symbols),
        )
    elif values == "list" and not pa.types.is_fixed_size_list(arrow):
        name = "list"
        children = (_described(arrow.value_field, f"{path}.item", symbols),)
    else:
        raise _Unsupported
    return field.name, field.nullable, name, details, children
