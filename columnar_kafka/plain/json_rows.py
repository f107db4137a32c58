"""JSON objects → columns, by the rules of produced rows.

pyarrow's reader, for consumers, leaves out the fields that it does not know, and missing ones are
null (`plain.json`). Here the schema decides what a row is.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.from_rows.accepted_types import show
from columnar_kafka.columns.from_rows.rows_to_columns import CHUNK_ROWS, RowColumns
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.errors import RowError, SchemaError
from columnar_kafka.plain.rows import PlainRows
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from columnar_kafka.native import _core as core
    from columnar_kafka.schema import RecordSchema

__all__ = ["JsonRows"]

_Read = Callable[[Any], Any]
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


class JsonRows(PlainRows):
    """JSON objects, each of them a row of a schema, as `Producer.produce` would take it.

    A field that the schema does not have, a missing one without a default, a value of another type
    or out of range is an error. What JSON does not have is read from text or numbers: bytes from
    base64, dates and times from ISO 8601 or from a number in the column's unit, decimals from text
    or from a number, whose digits count. An integer is a float where the column has floats.
    """

    def __init__(self, schema: Any, schema_id: int | None = None) -> None:
        super().__init__(schema)
        self._rows = RowColumns(self.records)
        self._is_exact = any(map(_has_decimals, self.columns.types))
        self._readers = dict(_readers(self.columns, "", self.records))
        self._decoder = json.JSONDecoder(
            parse_float=_exact if self._is_exact else _finite, parse_constant=_refuse
        )

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
        """See `PlainRows.decode`."""
        errors: dict[int, str] = {}
        batches = []
        for first in range(0, len(values), CHUNK_ROWS):
            rows, numbers = [], []
            for number, value in enumerate(values[first : first + CHUNK_ROWS], first):
                try:
                    rows.append(self._rows.take(self._row(value))[0])
                    numbers.append(number)
                except RowError as error:
                    errors[number] = error.reason
            converted = self._rows.convert(rows)
            for index, rejected in converted.rejected.items():
                errors[numbers[index]] = rejected.error.reason
            batches.append(converted.batch)
        return pa.Table.from_batches(batches, self._rows.schema), errors

    def native_format(self) -> core.PlainFormat:
        """See `PlainRows.native_format`."""
        return native.core.PlainFormat.json(row_format(self.records), self._is_exact)

    def row(self, value: bytes) -> tuple[Any, ...] | None:
        """See `PlainRows.row`."""
        try:
            return self._rows.builtin(self._rows.take(self._row(value))[0])
        except RowError:
            return None

    def _row(self, value: bytes) -> dict[str, Any]:
        try:
            row: Any = self._decoder.decode(value.decode())
        except (ValueError, RecursionError) as error:
            raise RowError(f"it is not JSON: {error}") from error
        if type(row) is not dict:
            raise RowError(f"it is {show(row)}, not a JSON object")
        for name, read in self._readers.items():
            if (member := row.get(name)) is not None:
                row[name] = read(member)
        return row


def _exact(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:  # is no ValueError
        raise ValueError(f"{text[:40]} has an exponent that no decimal has") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is larger than every float")
    return number


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _has_decimals(arrow: pa.DataType) -> bool:
    inner = (arrow.field(i).type for i in range(arrow.num_fields))
    return pa.types.is_decimal(arrow) or any(map(_has_decimals, inner))


def _readers(
    fields: Sequence[pa.Field], prefix: str, schema: RecordSchema
) -> Iterator[tuple[str, _Read]]:
    """Yield the fields whose values JSON has in another form, each with what reads them."""
    for field in fields:
        path = f"{prefix}{field.name}"
        if (read := _reader(field.type, path, schema)) is not None:
            yield field.name, read


def _reader(arrow: pa.DataType, path: str, schema: RecordSchema) -> _Read | None:
    """Return what reads the values of a type; None if they are as a row has them."""
    kind = family(arrow)
    if kind == "struct":
        return _record(dict(_readers(list(arrow), f"{path}.", schema)))
    if kind == "map":
        if family(arrow.key_type) != "string":
            raise SchemaError(
                f"field {path!r} is a map with keys of type {arrow.key_type}; the names in a JSON "
                "object are texts"
            )
        return _map(_reader(arrow.item_type, f"{path}.value", schema))
    if kind == "list":
        return _list(_reader(arrow.value_type, f"{path}.item", schema))
    if kind == "binary":
        return _uuid(path) if path in schema.uuids else _binary(path)
    return _LEAVES[kind](arrow, path) if kind in _LEAVES else None


def _record(readers: Mapping[str, _Read]) -> _Read | None:
    if not readers:
        return None

    def read(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {
            name: readers[name](member) if member is not None and name in readers else member
            for name, member in value.items()
        }

    return read


def _map(inner: _Read | None) -> _Read | None:
    if inner is None:
        return None

    def read(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {name: None if member is None else inner(member) for name, member in value.items()}

    return read


def _list(inner: _Read | None) -> _Read | None:
    if inner is None:
        return None

    def read(value: Any) -> Any:
        if type(value) is not list:
            return value
        return [None if element is None else inner(element) for element in value]

    return read


def _text(path: str, parse: Callable[[str], Any], what: str) -> _Read:
    """Return what reads texts with `parse`, which may raise a ValueError."""

    def read(value: Any) -> Any:
        if type(value) is not str:
            return value
        try:
            return parse(value)
        except ValueError as error:
            raise RowError(f"field {path!r} is {show(value)}, not {what}: {error}") from error

    return read


def _binary(path: str) -> _Read:
    return _text(path, lambda text: base64.b64decode(text, validate=True), "base64")


def _uuid(path: str) -> _Read:
    return _text(path, uuid.UUID, "a UUID")


def _float(_: pa.DataType, path: str) -> _Read:
    def read(value: Any) -> Any:
        if type(value) not in (decimal.Decimal, int):  # JSON's 1 and 1.0 are one number
            return value
        try:
            return _finite(str(value))
        except ValueError as error:
            raise RowError(f"field {path!r}: {error}") from error

    return read


def _decimal(_: pa.DataType, path: str) -> _Read:
    def parse(text: str) -> decimal.Decimal:
        if not _DECIMAL.fullmatch(text):
            raise ValueError("it needs digits")
        return _exact(text)

    return _text(path, parse, "a decimal")


def _date(_: pa.DataType, path: str) -> _Read:
    def parse(text: str) -> datetime.date:
        if not _DATE.fullmatch(text):  # Python 3.11 knows more forms than 3.10
            raise ValueError("it needs the form 2026-01-31")
        return datetime.date.fromisoformat(text)

    return _text(path, parse, "a date in ISO 8601")


def _time(arrow: pa.DataType, path: str) -> _Read:
    return _text(path, lambda text: _time_of_day(text, arrow.unit), "a time of day in ISO 8601")


def _timestamp(arrow: pa.TimestampType, path: str) -> _Read:
    def parse(text: str) -> int:
        if not (match := _TIMESTAMP.fullmatch(text)):
            raise ValueError("it needs the form 2026-01-31T12:00:00.000Z")
        if match[3] and arrow.tz is None:
            raise ValueError(f"its time zone would be lost in {arrow}")
        day = datetime.date.fromisoformat(match[1])
        seconds = (day - _EPOCH).days * _DAY - _zone_seconds(match[3] or "Z")
        scale: int = 10 ** _DIGITS[arrow.unit]
        return seconds * scale + _time_of_day(match[2], arrow.unit)

    return _text(path, parse, "a time in ISO 8601")


_LEAVES: Final[Mapping[str | None, Callable[[Any, str], _Read]]] = {
    "float": _float,
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "local timestamp": _timestamp,
}


def _time_of_day(text: str, unit: str) -> int:
    """Return a time of day in a unit; finer digits are cut off, as of a row's times."""
    if not (match := _TIME.fullmatch(text)):
        raise ValueError("it needs the form 12:00:00.000")
    time = datetime.time(int(match[1]), int(match[2]), int(match[3] or 0))
    seconds = time.hour * 3600 + time.minute * 60 + time.second
    digits = _DIGITS[unit]
    fraction = (match[4] or "").ljust(9, "0")[:digits]
    scale: int = 10**digits
    return seconds * scale + int(fraction or 0)


def _zone_seconds(text: str) -> int:
    """Return how far a time zone is ahead of UTC."""
    if not (match := _ZONE.fullmatch(text)):
        raise ValueError("its time zone needs the form +01:00")
    if match[1] is None:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3]) * 60
    return -seconds if match[1] == "-" else seconds
