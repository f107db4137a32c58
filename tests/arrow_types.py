"""Arrow types that older versions of pyarrow lack: tests leave them out there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import types

from columnar_kafka.columns.older_arrow import VERSION

WRITES_NARROW_DECIMALS = VERSION >= (22, 0)


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
