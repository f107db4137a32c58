"""Values that Arrow takes and changes: they would be other values to whoever reads them.

pyarrow stores 1e300 as an infinite float32, and a time of day of 25 hours as such: nobody can read
the segment that holds it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fit", "has_times_of_day", "narrows", "strays"]

_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def narrows(arrow: pa.DataType) -> bool:
    """Say whether `arrow` is a float that holds less than Python's."""
    return bool(pa.types.is_float16(arrow) or pa.types.is_float32(arrow))


def fit(arrow: pa.DataType, values: Sequence[Any]) -> bool:
    """Say whether numbers stay finite as `arrow`, a type that `narrows`."""
    code = "e" if pa.types.is_float16(arrow) else "f"
    try:
        struct.pack(f"<{len(values)}{code}", *values)  # native sizes have no overflow
    except OverflowError:
        return False
    return True


def has_times_of_day(arrow: pa.DataType) -> bool:
    """Say whether there are times of day in a column of this type, however deep."""
    if pa.types.is_nested(arrow):
        return any(has_times_of_day(arrow.field(i).type) for i in range(arrow.num_fields))
    return bool(pa.types.is_time(arrow))


def strays(column: pa.Array) -> bool:
    """Say whether a column holds a time of day that no day has, however deep."""
    arrow = column.type
    if pa.types.is_map(arrow):
        return any(strays(each) for each in (column.keys, column.items))
    if pa.types.is_struct(arrow):
        return any(map(strays, column.flatten()))
    if pa.types.is_nested(arrow):
        return strays(column.flatten())
    if not pa.types.is_time(arrow):
        return False
    found = pc.min_max(column.view(pa.int32() if pa.types.is_time32(arrow) else pa.int64()))
    least, most = found["min"].as_py(), found["max"].as_py()
    return least is not None and not 0 <= least <= most < _DAY[arrow.unit]
