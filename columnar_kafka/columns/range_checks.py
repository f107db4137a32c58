"""Values that Arrow accepts and changes, or that no reader could read back.

pyarrow stores 1e300 as an infinite float32, and 25 hours as a time of day. A segment that holds
such a time cannot be read.
"""

from __future__ import annotations

import datetime
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "DECIMAL_DIGITS",
    "fits_float",
    "has_distinct_keys",
    "has_time_out_of_day",
    "has_times_of_day",
    "integer_range",
    "is_narrow_float",
    "surely_fits",
]

DECIMAL_DIGITS: Final = {32: 9, 64: 18, 128: 38, 256: 76}
"""The most digits of a decimal, by its bits."""

_DISTINCT: Final = ("string", "integer", "boolean", "binary")
_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def has_distinct_keys(arrow: pa.DataType) -> bool:
    """Say whether keys that differ in Python differ in a column too; also of what is no map."""
    return not pa.types.is_map(arrow) or family(arrow.key_type) in _DISTINCT


def integer_range(arrow: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    if pa.types.is_unsigned_integer(arrow):
        return 0, 2**arrow.bit_width - 1
    return -(2 ** (arrow.bit_width - 1)), 2 ** (arrow.bit_width - 1) - 1


def is_narrow_float(arrow: pa.DataType) -> bool:
    """Say whether `arrow` is a float of fewer bits than Python's."""
    return bool(pa.types.is_float16(arrow) or pa.types.is_float32(arrow))


def surely_fits(arrow: pa.DataType) -> Callable[[Any], bool]:
    """Return a quick test of values whose Python type fits; False: only conversion can tell."""
    if pa.types.is_integer(arrow):
        least, most = integer_range(arrow)
        return lambda value: bool(least <= value <= most)
    if is_narrow_float(arrow):
        return lambda value: type(value) is float and fits_float(arrow, [value])
    exact: type | None = None
    if pa.types.is_floating(arrow):
        exact = float
    elif pa.types.is_date32(arrow):
        exact = datetime.date
    elif pa.types.is_timestamp(arrow) and arrow.unit == "us":
        exact = datetime.datetime
    elif not pa.types.is_decimal(arrow) and not pa.types.is_temporal(arrow):
        return lambda _: True
    return lambda value: type(value) is exact


def fits_float(arrow: pa.DataType, values: Sequence[Any]) -> bool:
    """Say whether all numbers stay finite as `arrow`, which must be a narrow float."""
    code = "e" if pa.types.is_float16(arrow) else "f"
    try:
        struct.pack(f"<{len(values)}{code}", *values)  # native sizes do not overflow
    except OverflowError:
        return False
    return True


def has_times_of_day(arrow: pa.DataType) -> bool:
    """Say whether a column of this type holds times of day, at any depth."""
    if pa.types.is_nested(arrow):
        return any(has_times_of_day(arrow.field(i).type) for i in range(arrow.num_fields))
    return bool(pa.types.is_time(arrow))


def has_time_out_of_day(column: pa.Array) -> bool:
    """Say whether a column holds, at any depth, a time of day below 0 or of 24 hours or more."""
    arrow = column.type
    if pa.types.is_map(arrow):
        return any(has_time_out_of_day(child) for child in (column.keys, column.items))
    if pa.types.is_struct(arrow):
        return any(map(has_time_out_of_day, column.flatten()))
    if pa.types.is_nested(arrow):
        return has_time_out_of_day(column.flatten())
    if not pa.types.is_time(arrow):
        return False
    ends = pc.min_max(column.view(pa.int32() if pa.types.is_time32(arrow) else pa.int64()))
    least, most = ends["min"].as_py(), ends["max"].as_py()
    return least is not None and not 0 <= least <= most < _DAY[arrow.unit]
