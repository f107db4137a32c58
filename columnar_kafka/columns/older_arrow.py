"""What older versions of pyarrow lack. Each part says until which version, and can go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "HAS_HALF_FLOATS",
    "HAS_MAPS_AS_DICTS",
    "HAS_PAGE_ROWS",
    "HAS_RECORD_CASTS",
    "VERSION",
    "arange",
    "array",
    "with_doubles",
]

VERSION: Final = tuple(map(int, pa.__version__.split(".")[:2]))
"""The major and minor version of the pyarrow that is installed."""

HAS_MAPS_AS_DICTS: Final = VERSION >= (20, 0)
"""Whether `to_pylist` takes `maps_as_pydicts`."""

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
    wide = with_doubles(type)
    return pa.array(values, type=wide).cast(type) if wide != type else pa.array(values, type=type)


def with_doubles(arrow: pa.DataType) -> pa.DataType:
    """Return a type with doubles for the half floats in it."""
    inner = [arrow.field(i) for i in range(arrow.num_fields)]
    fields = [field.with_type(with_doubles(field.type)) for field in inner]
    if fields == inner:
        return pa.float64() if pa.types.is_float16(arrow) else arrow
    if pa.types.is_struct(arrow):
        return pa.struct(fields)
    if pa.types.is_map(arrow):
        return pa.map_(fields[0].type.field(0), fields[0].type.field(1), arrow.keys_sorted)
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(fields[0], arrow.list_size)
    return pa.large_list(fields[0]) if pa.types.is_large_list(arrow) else pa.list_(fields[0])


HAS_HALF_FLOATS: Final = VERSION >= (21, 0)
"""Whether half floats are made of Python's floats and become such; before, of numpy's alone."""

array: Callable[..., Any] = pa.array if HAS_HALF_FLOATS else _array
arange: Callable[[int, int], Any] = getattr(pa, "arange", _arange)  # since 21
