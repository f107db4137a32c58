"""What older versions of pyarrow lack. Each part says until which version, and can go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "HAS_FAST_PYLIST",
    "HAS_HALF_FLOATS",
    "HAS_PAGE_ROWS",
    "HAS_RECORD_CASTS",
    "VERSION",
    "arange",
    "array",
    "with_fields",
]

VERSION: Final = tuple(map(int, pa.__version__.split(".")[:2]))
"""The major and minor version of the pyarrow that is installed."""

HAS_FAST_PYLIST: Final = VERSION >= (26, 0)
"""Whether `to_pylist` is fast for nested columns; before, one call for each leaf is faster."""

HAS_PAGE_ROWS: Final = VERSION >= (23, 0)
"""Whether a Parquet page has a bound on its rows, and `ParquetWriter` takes it."""

HAS_RECORD_CASTS: Final = VERSION >= (21, 0)
"""Whether a cast finds the fields of records by name; before, they must stand in the same order.

Before 19 it also adds none.
"""


def _arange(start: int, stop: int) -> pa.Array:
    """Return the integers from `start` up to but not including `stop`."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), stop - start), start=start - 1)


def _array(values: Any, type: pa.DataType) -> pa.Array:  # noqa: A002 - as pyarrow names it
    """Return an array of values, which may be Python's floats where the type has half floats."""
    wide = _with_doubles(type)
    array = pa.array(values, type=wide)
    if wide == type:
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_cast_leaves(chunk, type) for chunk in array.chunks], type)
    return _cast_leaves(array, type)


def _cast_leaves(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return an array in a type of the same structure with other leaves.

    Unlike pyarrow's cast, it accepts nulls of required values under nulls.
    """
    if not pa.types.is_nested(to):
        return array.cast(to)
    inner = [to.field(i).type for i in range(to.num_fields)]
    offset, buffers = 0, [array.is_valid().buffers()[1] if array.null_count else None]
    if pa.types.is_struct(to):
        children = [array.field(i) for i in range(to.num_fields)]
    elif pa.types.is_fixed_size_list(to):
        children = [array.values.slice(array.offset * to.list_size, len(array) * to.list_size)]
    else:
        children, offset, buffers = [array.values], array.offset, array.buffers()[:2]
    cast = [
        _cast_leaves(child, child_type) for child, child_type in zip(children, inner, strict=True)
    ]
    for child in cast:
        child.null_count  # noqa: B018 - a map ends the process where its keys' nulls are not counted
    return pa.Array.from_buffers(to, len(array), buffers, offset=offset, children=cast)


def _with_doubles(arrow: pa.DataType) -> pa.DataType:
    """Return a type with doubles for the half floats in it."""
    inner = [arrow.field(i) for i in range(arrow.num_fields)]
    fields = [field.with_type(_with_doubles(field.type)) for field in inner]
    if fields == inner:
        return pa.float64() if pa.types.is_float16(arrow) else arrow
    return with_fields(arrow, fields)


def with_fields(arrow: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    """Return a struct, list or map as `arrow`; a map's only field is a struct of key and value."""
    if pa.types.is_struct(arrow):
        return pa.struct(fields)
    [item] = fields
    if pa.types.is_map(arrow):
        return pa.map_(item.type.field(0), item.type.field(1), arrow.keys_sorted)
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(item, arrow.list_size)
    return (pa.large_list if pa.types.is_large_list(arrow) else pa.list_)(item)


HAS_HALF_FLOATS: Final = VERSION >= (21, 0)
"""Whether half floats are made of Python's floats and become such; before, of numpy's alone."""

array: Callable[..., Any] = pa.array if HAS_HALF_FLOATS else _array
arange: Callable[[int, int], Any] = getattr(pa, "arange", _arange)  # since 21
