"""JSON values that are no objects and no lists → what a row has for them, if nothing is lost."""

from __future__ import annotations

import decimal
import math
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns.from_rows.copying import element
from columnar_kafka.columns.range_checks import is_narrow_float
from columnar_kafka.errors import RowError
from columnar_kafka.plain.json_leaves import PER_SECOND, text_reader
from columnar_kafka.plain.json_text import Number, exact
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.schema import RecordSchema

__all__ = ["leaf_fit", "shortest"]

_NUMBER: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_NUMBERS: Final = ("integer", "float", "decimal")
_WHOLE: Final = ("integer", "date", "time", "timestamp", "local timestamp", "duration")
_PLACES: Final = 40  # more than an integer of any column has
_DAYS: Final = range(-719_162, 2_932_897)
_NARROW: Final = {16: ("<e", 5), 32: ("<f", 9)}
"""The format of floats by their bits, and the most digits that tell one from all others."""


def leaf_fit(
    field: pa.Field, path: str, schema: RecordSchema, *, coerce: bool
) -> Callable[[Any], Any]:
    """Return the function that returns what a row has for a value; it raises RowError."""
    arrow = field.type
    kind = family(arrow)
    take = element(field, path, schema)
    read_text = None
    if kind != "decimal":
        read_text = text_reader(arrow, path, schema, is_lossless=not coerce)
    times = _readable(arrow)
    size = arrow.byte_width if pa.types.is_fixed_size_binary(arrow) else None

    def fit(value: Any) -> Any:
        if coerce:
            value = _coerced(value, kind)
        if type(value) is Number:
            value = _number(value, arrow, path)
        elif read_text is not None:
            value = read_text(value)
        if times is not None and type(value) is int and value not in times:
            raise RowError(f"field {path!r} is {value}, which is in no year from 1 to 9999")
        taken, _ = take(value)
        if size is not None and size != len(taken):
            raise RowError(f"field {path!r} has {len(taken)} bytes; its schema wants {arrow}")
        return taken

    return fit


def shortest(number: float, arrow: pa.DataType) -> decimal.Decimal:
    """Return the number of the fewest digits that is this one in a column of floats."""
    if not is_narrow_float(arrow):
        return decimal.Decimal(repr(number))
    code, most = _NARROW[arrow.bit_width]
    texts = (f"{number:.{digits}g}" for digits in range(1, most + 1))
    return decimal.Decimal(next(text for text in texts if _narrow(float(text), code) == number))


def _readable(arrow: pa.DataType) -> range | None:
    """Return the dates or times that Python and most engines can read; None for other types."""
    if pa.types.is_date(arrow):
        return _DAYS
    if not pa.types.is_timestamp(arrow):
        return None
    day = 86_400 * PER_SECOND[arrow.unit]
    return range(_DAYS.start * day, _DAYS.stop * day)


def _coerced(value: Any, kind: str | None) -> Any:
    if type(value) is Number:
        return str(value) if kind == "string" else value
    if type(value) is str:
        if kind in _NUMBERS and _NUMBER.fullmatch(value):
            return Number(value)
        if kind == "boolean":
            return {"true": True, "false": False}.get(value, value)
    return value


def _number(number: Number, arrow: pa.DataType, path: str) -> Any:
    """Return what a row has for a number, if it loses no digit; else the row's rules refuse it."""
    kind = family(arrow)
    if kind in _WHOLE:
        return _whole(number)
    if kind == "decimal":
        return _exact(number, path)
    if kind != "float":
        return number.python
    value = float(number) + 0.0 if number.is_whole else float(number)  # as JSON's -0 is 0
    if is_narrow_float(arrow):
        value = _narrow(value, _NARROW[arrow.bit_width][0])
    if not math.isfinite(value) or shortest(value, arrow) != _exact(number, path):
        raise RowError(f"field {path!r} is {number[:40]}, which would lose digits as {arrow}")
    return value


def _whole(number: Number) -> Any:
    """Return an integer, if the number is one that any column may have."""
    value = _exact(number, "")
    if not value:
        return 0
    if value.adjusted() < _PLACES and value == value.to_integral_value():
        return int(value)
    return number.python


def _exact(number: Number, path: str) -> decimal.Decimal:
    try:
        return exact(number)
    except ValueError as error:
        raise RowError(f"field {path!r}: {error}") from error


def _narrow(value: float, code: str) -> float:
    """Return a number as a narrow float has it."""
    try:
        narrow: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.inf
    return narrow
