"""What JSON does not have, read from its texts: bytes, decimals, dates, times and UUIDs."""

from __future__ import annotations

import base64
import datetime
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.columns.from_rows.accepted_types import show
from columnar_kafka.errors import RowError, SchemaError
from columnar_kafka.plain.json_text import exact
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    import decimal
    from collections.abc import Mapping

    import pyarrow as pa

    from columnar_kafka.schema import RecordSchema

__all__ = ["PER_SECOND", "Read", "check_names", "text_reader"]

Read = Callable[[Any], Any]
"""Turns a JSON value, which is not null, into what a row has for it.

It leaves a value of another kind as it is: the row's rules refuse it, and name the field.
"""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", re.ASCII)
_ZONE: Final = re.compile(r"[Zz]|([+-])([01]\d|2[0-3]):?([0-5]\d)", re.ASCII)
_TIMESTAMP: Final = re.compile(
    rf"({_DATE.pattern})[Tt ](\d{{2}}:[\d:.]+)([Zz]|[+-][\d:]+)?", re.ASCII
)
_DECIMAL: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_EPOCH: Final = datetime.date(1970, 1, 1)
_DAY: Final = 86_400
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
PER_SECOND: Final[dict[str, int]] = {unit: 10**digits for unit, digits in _DIGITS.items()}
"""The units of times, as Arrow names them."""


def check_names(arrow: pa.MapType, path: str) -> None:
    """Check that a map can be an object. Raises SchemaError."""
    if family(arrow.key_type) != "string":
        raise SchemaError(
            f"field {path!r} is a map with keys of type {arrow.key_type}; the names in a JSON "
            "object are texts"
        )


def text_reader(
    arrow: pa.DataType, path: str, schema: RecordSchema, *, is_lossless: bool = False
) -> Read | None:
    """Return what reads a leaf's values from texts; None: a row has them as they are.

    With `is_lossless` it refuses a text that the value does not tell, but for the form of a time.
    """
    kind = family(arrow)
    if kind == "binary":
        return (_uuid if path in schema.uuids else _binary)(path, is_lossless)
    return _LEAVES[kind](arrow, path, is_lossless) if kind in _LEAVES else None


def _text(path: str, parse: Callable[[str], Any], what: str) -> Read:
    """Return what reads texts with `parse`, which may raise a ValueError."""

    def read(value: Any) -> Any:
        if type(value) is not str:
            return value
        try:
            return parse(value)
        except ValueError as error:
            raise RowError(f"field {path!r} is {show(value)}, not {what}: {error}") from error

    return read


def _binary(path: str, is_lossless: bool) -> Read:
    def parse(text: str) -> bytes:
        value = base64.b64decode(text, validate=True)
        if is_lossless and base64.b64encode(value).decode() != text:
            raise ValueError("its last bits would be lost")
        return value

    return _text(path, parse, "base64")


def _uuid(path: str, is_lossless: bool) -> Read:
    def parse(text: str) -> uuid.UUID:
        value = uuid.UUID(text)
        if is_lossless and str(value) != text:
            raise ValueError(f"it is not written as {value}")
        return value

    return _text(path, parse, "a UUID")


def _decimal(_: pa.DataType, path: str, __: bool) -> Read:
    def parse(text: str) -> decimal.Decimal:
        if not _DECIMAL.fullmatch(text):
            raise ValueError("it needs digits")
        return exact(text)

    return _text(path, parse, "a decimal")


def _date(_: pa.DataType, path: str, __: bool) -> Read:
    def parse(text: str) -> datetime.date:
        if not _DATE.fullmatch(text):  # Python 3.11 knows more forms than 3.10
            raise ValueError("it needs the form 2026-01-31")
        return datetime.date.fromisoformat(text)

    return _text(path, parse, "a date in ISO 8601")


def _time(arrow: pa.DataType, path: str, is_lossless: bool) -> Read:
    def parse(text: str) -> int:
        return _time_of_day(text, arrow.unit, is_lossless)

    return _text(path, parse, "a time of day in ISO 8601")


def _timestamp(arrow: pa.TimestampType, path: str, is_lossless: bool) -> Read:
    def parse(text: str) -> int:
        if not (match := _TIMESTAMP.fullmatch(text)):
            raise ValueError("it needs the form 2026-01-31T12:00:00.000Z")
        if match[3] and arrow.tz is None:
            raise ValueError(f"its time zone would be lost in {arrow}")
        day = datetime.date.fromisoformat(match[1])
        seconds = (day - _EPOCH).days * _DAY - _zone_seconds(match[3] or "Z")
        return seconds * PER_SECOND[arrow.unit] + _time_of_day(match[2], arrow.unit, is_lossless)

    return _text(path, parse, "a time in ISO 8601")


_LEAVES: Final[Mapping[str | None, Callable[[Any, str, bool], Read]]] = {
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "local timestamp": _timestamp,
}


def _time_of_day(text: str, unit: str, is_lossless: bool) -> int:
    """Return a time of day in a unit; finer digits are refused, or cut off as of a row's times."""
    if not (match := _TIME.fullmatch(text)):
        raise ValueError("it needs the form 12:00:00.000")
    time = datetime.time(int(match[1]), int(match[2]), int(match[3] or 0))
    seconds = time.hour * 3600 + time.minute * 60 + time.second
    digits = _DIGITS[unit]
    fraction = (match[4] or "").ljust(9, "0")
    if is_lossless and fraction[digits:].strip("0"):
        raise ValueError(f"its digits finer than {unit} would be lost")
    return seconds * PER_SECOND[unit] + int(fraction[:digits] or 0)


def _zone_seconds(text: str) -> int:
    """Return how far a time zone is ahead of UTC."""
    if not (match := _ZONE.fullmatch(text)):
        raise ValueError("its time zone needs the form +01:00")
    if match[1] is None:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3]) * 60
    return -seconds if match[1] == "-" else seconds
