"""Values that Arrow takes and changes, or that Python could not read back: they harm a segment.

pyarrow stores 1e300 as an infinite float32, and the year 300,000 as a timestamp that no `datetime`
can show: its whole segment could not be read as rows. So such values are found before they ship.
"""

from __future__ import annotations

import datetime
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fit", "has_times", "narrows", "strays"]

_SECONDS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY: Final = 86_400
_DAYS: Final = {  # the last day that Python has, and the first, counted from 1970
    side: (day - datetime.date(1970, 1, 1)).days
    for side, day in {"first": datetime.date.min, "last": datetime.date.max}.items()
}


# --- floats -------------------------------------------------------------------------------------


def fit(arrow: pa.DataType, values: Sequence[Any]) -> bool:
    """Say whether numbers stay finite as `arrow`, a type that `narrows`."""
    code = "e" if pa.types.is_float16(arrow) else "f"
    try:
        struct.pack(f"<{len(values)}{code}", *values)  # native sizes have no overflow
    except OverflowError:
        return False
    return True


def narrows(arrow: pa.DataType) -> bool:
    """Say whether `arrow` holds less than Python's float."""
    return bool(pa.types.is_float16(arrow) or pa.types.is_float32(arrow))


# --- times --------------------------------------------------------------------------------------


def has_times(arrow: pa.DataType) -> bool:
    """Say whether there are times in a column of this type, however deep."""
    if pa.types.is_nested(arrow):
        return any(has_times(arrow.field(i).type) for i in range(arrow.num_fields))
    return bool(pa.types.is_temporal(arrow))


def strays(column: pa.Array) -> bool:
    """Say whether a column that `has_times` holds one for which Python has no object."""
    arrow = column.type
    if pa.types.is_map(arrow):
        return any(strays(each) for each in (column.keys, column.items))
    if pa.types.is_struct(arrow):
        return any(map(strays, column.flatten()))
    if pa.types.is_nested(arrow):
        return strays(column.flatten())
    if not pa.types.is_temporal(arrow):
        return False
    found = pc.min_max(column.view(pa.int32() if arrow.bit_width == 32 else pa.int64()))  # noqa: PLR2004 - bits
    low, high = _range(arrow)
    least, most = found["min"].as_py(), found["max"].as_py()
    return least is not None and not low <= least <= most <= high


def _range(arrow: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest number of a type of time that Python has an object for."""
    if pa.types.is_date(arrow):
        day = 1 if pa.types.is_date32(arrow) else _DAY * 1000
        return _DAYS["first"] * day, _DAYS["last"] * day
    second = _SECONDS[arrow.unit]
    if pa.types.is_time(arrow):
        return 0, _DAY * second - 1
    if pa.types.is_duration(arrow):
        most = 999_999_999 * _DAY * second
        return -most, most
    # In another zone the first and the last day may lie outside.
    margin = 0 if arrow.tz in (None, "UTC") else 1
    first, last = _DAYS["first"] + margin, _DAYS["last"] + 1 - margin
    return first * _DAY * second, last * _DAY * second - 1
