"""Values that `RowColumns.take` has returned: a record is a tuple, and a map a list of pairs."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns.columns_to_rows import to_values
from columnar_kafka.columns.from_rows.accepted_types import AcceptedTypes
from columnar_kafka.columns.from_rows.converters import converter
from columnar_kafka.schema.unions import branches, is_union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Change = Callable[[Any], Any]
    Values = Iterable[Any]

__all__ = ["to_builtin", "to_produced"]

_CONVERTED: Final = {datetime.datetime, decimal.Decimal}
"""Their zones and digits may be such as the native core leaves to Python."""


def to_builtin(field: pa.Field) -> Change:
    """Return the function that turns a field's values into those that the native core takes.

    They are of builtin types, and equal in the column; times are their numbers. The function raises
    any exception where the column cannot hold a value.
    """
    return _each(field, _builtin, lambda _: tuple, list)


def to_produced(field: pa.Field) -> Change:
    """Return the function that turns a field's values into those that `take` accepts again.

    Records and maps are dicts, and a union's value is a tuple of its branch's name and itself.
    """
    return _each(field, lambda _: _as_it_is, _record, dict)


def _record(arrow: pa.StructType) -> Callable[[Values], Any]:
    names = [field.name for field in arrow]
    if is_union(arrow):
        return lambda values: _branch(branches(arrow) or names, values)
    return lambda values: dict(zip(names, values, strict=True))


def _branch(names: list[str], values: Values) -> tuple[str, Any] | None:
    members = zip(names, values, strict=True)
    return next(((name, value) for name, value in members if value is not None), None)


def _as_it_is(value: Any) -> Any:
    return value


def _builtin(field: pa.Field) -> Change:
    arrow, convert = field.type, converter(field.type)
    builtin = AcceptedTypes(field, field.name).exact - _CONVERTED

    def change(value: Any) -> Any:
        if type(value) in builtin:
            return value
        array = convert([value])
        return array[0].value if pa.types.is_temporal(arrow) else to_values(array)[0]

    return change


def _each(
    field: pa.Field,
    leaf: Callable[[pa.Field], Change],
    record: Callable[[pa.StructType], Callable[[Values], Any]],
    pairs: Callable[[Values], Any],
) -> Change:
    """Return the function that changes every leaf of a field's values, and puts them together.

    Args:
        field: the field.
        leaf: returns the function for a field that is not nested.
        record: returns what puts a record of a type together, of its values.
        pairs: puts a map together.
    """
    arrow = field.type
    if not pa.types.is_nested(arrow):
        return leaf(field)
    if pa.types.is_struct(arrow):
        make = record(arrow)
        parts = [_each(child, leaf, record, pairs) for child in arrow]
        return _unless_null(
            lambda value: make(part(v) for part, v in zip(parts, value, strict=True))
        )
    if pa.types.is_map(arrow):
        key = _each(arrow.key_field, leaf, record, pairs)
        item = _each(arrow.item_field, leaf, record, pairs)
        return _unless_null(lambda value: pairs((key(k), item(v)) for k, v in value))
    inner = _each(arrow.value_field, leaf, record, pairs)
    return _unless_null(lambda value: list(map(inner, value)))


def _unless_null(change: Change) -> Change:
    return lambda value: None if value is None else change(value)
