"""One column's values to an Arrow array; what pyarrow would change is an error."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from columnar_kafka.columns import older_arrow, range_checks
from columnar_kafka.columns.from_rows.accepted_types import show
from columnar_kafka.errors import RowError
from columnar_kafka.runtime.interruptions import raise_if_once

__all__ = ["Convert", "converter", "misfit"]

Convert = Callable[[Sequence[Any]], pa.Array]
"""Converts values whose Python types fit; raises any exception if the type cannot hold a value."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_DATETIMES: Final = {datetime.datetime, type(None)}


def converter(arrow: pa.DataType) -> Convert:
    """Return the function that turns values into an array, and changes none of them."""
    if range_checks.is_narrow_float(arrow):
        return _narrow_floats(arrow)
    if pa.types.is_decimal(arrow):
        return _decimals(arrow)
    if range_checks.has_times_of_day(arrow):
        return _times_of_day(arrow)
    if pa.types.is_timestamp(arrow):
        return _timestamps(arrow)
    return partial(older_arrow.array, type=arrow)


def misfit(path: str, convert: Convert, value: Any) -> RowError | None:
    """Return why a column cannot hold a value; None if it can."""
    try:
        convert([value])
    except Exception as error:  # noqa: BLE001 - Arrow raises many kinds
        raise_if_once(error, partial(convert, [value]))
        return RowError(f"field {path!r}: {show(value)}: {error}")
    return None


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


def _timestamps(arrow: pa.DataType) -> Convert:
    """Subtract 1970 in Python: pyarrow is wrong where a zone's offset has parts of a second."""

    def convert(values: Sequence[Any]) -> pa.Array:
        if set(map(type, values)) <= _DATETIMES:  # a subclass may redefine subtraction
            zone = next((value.tzinfo for value in values if value is not None), None)
            epoch = _EPOCH if zone is not None else _EPOCH.replace(tzinfo=None)
            try:
                durations = [None if value is None else value - epoch for value in values]
                return pa.array(durations, pa.duration(arrow.unit)).view(arrow)
            except (TypeError, ValueError, OverflowError):
                pass  # some have a zone and some do not, or pyarrow has the better error
        return older_arrow.array(values, type=arrow)

    return convert
