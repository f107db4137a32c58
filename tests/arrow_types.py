"""Arrow types: which an older pyarrow lacks, so that tests leave them out; how they are nested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyarrow import types

from columnar_kafka.columns.older_arrow import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

WRITES_NARROW_DECIMALS = VERSION >= (22, 0)


NESTED: Final[dict[str, tuple[Callable[[pa.DataType], pa.DataType], Callable[[Any], Any]]]] = {
    "alone": (lambda kind: kind, lambda value: value),
    "struct": (lambda kind: pa.struct([("a", kind)]), lambda value: {"a": value}),
    "list": (pa.list_, lambda value: [value]),
    "large list": (pa.large_list, lambda value: [value]),
    "fixed-size list": (lambda kind: pa.list_(kind, 1), lambda value: [value]),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: {"k": value}),
}
"""How to nest a type, and how to nest a value of it."""


def optional(name: str, *arguments: Any) -> list[pa.DataType]:
    """Return the type that `pa.name(*arguments)` makes, alone in a list; or an empty list."""
    return [getattr(pa, name)(*arguments)] if hasattr(pa, name) else []


def storable(name: str, *arguments: Any) -> list[pa.DataType]:
    """As `optional`, without the narrow decimals of pyarrow 19 to 21, which cannot write them."""
    is_narrow = name in ("decimal32", "decimal64")
    return optional(name, *arguments) if not is_narrow or WRITES_NARROW_DECIMALS else []


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where pyarrow does not have this name."""
    return pytest.mark.skipif(
        not hasattr(pa, name), reason=f"pyarrow {pa.__version__} has no {name}"
    )


def to_pylist(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column's values, and maps as dicts; pyarrow's own `to_pylist` can since 22."""
    if VERSION >= (22, 0):  # 20 and 21 return maps inside maps as lists
        return list(column.to_pylist(maps_as_pydicts="strict"))
    return [_with_dicts(value, column.type) for value in column.to_pylist()]


def _with_dicts(value: Any, arrow: pa.DataType) -> Any:
    if value is None or not types.is_nested(arrow):
        return value
    if types.is_map(arrow):
        return {key: _with_dicts(item, arrow.item_type) for key, item in value}
    if types.is_struct(arrow):
        return {field.name: _with_dicts(value[field.name], field.type) for field in arrow}
    return [_with_dicts(item, arrow.value_type) for item in value]
