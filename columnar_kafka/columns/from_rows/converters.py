"""One column's values to an Arrow array: with pyarrow's result, and faster where it is slow."""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from columnar_kafka.columns import older_arrow, range_checks
from columnar_kafka.columns.from_rows.accepted_types import show
from columnar_kafka.errors import RowError
from columnar_kafka.runtime.interruptions import raise_if_once

__all__ = ["Convert", "converter", "misfit"]

_CODES: Final = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.uint8(): "B",
    pa.uint16(): "H",
    pa.uint32(): "I",
    pa.uint64(): "Q",
}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_DATETIMES: Final = {datetime.datetime, type(None)}

Convert = Callable[[Sequence[Any]], pa.Array]
"""Converts values whose Python types fit; raises any exception if the type cannot hold a value."""


def converter(arrow: pa.DataType) -> Convert:
    """Return the function that turns values into an array, and changes none of them."""
    if arrow in _CODES:
        return _integers(arrow)
    if pa.types.is_timestamp(arrow):
        return _timestamps(arrow)
    if range_checks.is_narrow_float(arrow):
        return _narrow_floats(arrow)
    if pa.types.is_decimal(arrow):
        return _decimals(arrow)
    if range_checks.has_times_of_day(arrow):
        return _times_of_day(arrow)
    return partial(older_arrow.array, type=arrow)


def misfit(path: str, convert: Convert, value: Any) -> RowError | None:
    """Return why a column cannot hold a value; None if it can."""
    try:
        convert([value])
    except Exception as error:  # noqa: BLE001 - Arrow raises many kinds
        raise_if_once(error, partial(convert, [value]))
        return RowError(f"field {path!r}: {show(value)}: {error}")
    return None


def _integers(arrow: pa.DataType) -> Convert:
    """Pack them with `struct`, in a third of pyarrow's time."""

    def convert(values: Sequence[Any]) -> pa.Array:
        try:
            data = struct.pack(f"={len(values)}{_CODES[arrow]}", *values)
        except struct.error:  # a null, or a number for which pyarrow has the better error
            return older_arrow.array(values, type=arrow)
        return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(data)])

    return convert


def _timestamps(arrow: pa.DataType) -> Convert:
    """Subtract 1970 from them, in a quarter of pyarrow's time.

    pyarrow asks each value's time zone for its offset.
    """

    def convert(values: Sequence[Any]) -> pa.Array:
        if set(map(type, values)) <= _DATETIMES:  # a subclass may redefine subtraction
            epoch = _epoch(values)
            try:
                durations = [None if value is None else value - epoch for value in values]
                return pa.array(durations, type=pa.duration(arrow.unit)).view(arrow)
            except (TypeError, ValueError, OverflowError):
                pass  # some have a zone and some do not, or pyarrow has the better error
        return older_arrow.array(values, type=arrow)

    return convert


def _narrow_floats(arrow: pa.DataType) -> Convert:
    def convert(values: Sequence[Any]) -> pa.Array:
        if not range_checks.fits_float(arrow, [value for value in values if value is not None]):
            raise OverflowError(f"too large for {arrow}")
        return older_arrow.array(values, type=arrow)

    return convert


def _decimals(arrow: pa.DataType) -> Convert:
    """Refuse what Arrow would look up behind its table of powers of ten: it may make 0 of 1E-41."""
    least = -range_checks.DECIMAL_DIGITS[arrow.bit_width] - arrow.scale

    def convert(values: Sequence[Any]) -> pa.Array:
        for value in values:
            if isinstance(value, decimal.Decimal) and value.is_finite():
                exponent = value.as_tuple().exponent
                if isinstance(exponent, int) and exponent < least:
                    raise ValueError(f"it has more than {-least} decimal places")
        return older_arrow.array(values, type=arrow)

    return convert


def _times_of_day(arrow: pa.DataType) -> Convert:
    def convert(values: Sequence[Any]) -> pa.Array:
        array = older_arrow.array(values, type=arrow)
        if range_checks.has_time_out_of_day(array):
            raise ValueError("a time of day is outside its 24 hours")
        return array

    return convert


def _epoch(values: Sequence[datetime.datetime | None]) -> datetime.datetime:
    """Return 1970 in the values' own zone if that has a fixed offset, else in UTC.

    Python subtracts the wall times of two datetimes that share a tzinfo, and asks it for nothing.
    That is fast, but wrong for a zone whose offset has changed between the two.
    """
    zone = next((value.tzinfo for value in values if value is not None), None)
    if zone is None:
        return _EPOCH.replace(tzinfo=None)
    import zoneinfo  # noqa: PLC0415 - 2 ms, for times with a zone only

    # Asked for no time, a zone of these classes returns the offset that it always has.
    is_fixed = (
        type(zone) in (datetime.timezone, zoneinfo.ZoneInfo) and zone.utcoffset(None) is not None
    )
    return _EPOCH.astimezone(zone) if is_fixed else _EPOCH
