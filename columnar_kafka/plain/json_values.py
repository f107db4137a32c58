"""Rows and their rest → the JSON of the objects of which they were made, equal to the messages'.

It tells an absent field from null, as a segment's footer says, where `restoring` has no nulls. The
native core writes the same (``native/src/values/json/``).
"""

from __future__ import annotations

import base64
import datetime
import math
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.columns.range_checks import is_narrow_float
from columnar_kafka.errors import RowError, SegmentError
from columnar_kafka.plain.json_leaves import PER_SECOND
from columnar_kafka.plain.json_text import Number, parse, parse_value, text_of
from columnar_kafka.plain.lenient_leaves import shortest
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.schema.type_families import family
from columnar_kafka.segment.json_layout import JSON_KEY, JsonLayout

if TYPE_CHECKING:
    import decimal
    from collections.abc import Iterable

    import pyarrow as pa

    from columnar_kafka.segment.time_form import TimeForm

__all__ = ["JsonValues"]

_ABSENT: Final[Any] = object()
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - of a column without a zone
_UTC_EPOCH: Final = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_NO_EXPONENT: Final = -5
"""Python writes it, and orjson zeros."""

_Make = Callable[[Any, Any], Any]
"""Takes a value that is not null, and what is left of it; returns it as `json_text` parses JSON."""


class JsonValues:
    """Makes the JSON of rows of some columns, as `columns_to_rows.to_rows` returns them."""

    def __init__(self, columns: pa.Schema, layout: JsonLayout, most: int) -> None:
        """Make objects of at most `most` bytes, which is ``columnar.max.decoded.bytes``."""
        self._rest = layout.rest
        self._most = most
        fields = [field for field in columns if field.name not in (KAFKA_COLUMN, self._rest)]
        self._object = _Makers(layout).record(fields, "")

    @classmethod
    def of(cls, columns: pa.Schema, said: Mapping[bytes, bytes], most: int) -> JsonValues:
        """Make those of a file whose footer says this of values. Raises SegmentError."""
        return cls(columns, JsonLayout.parse(said.get(JSON_KEY), columns), most)

    def __call__(self, row: Mapping[str, Any]) -> bytes:
        """Return a row's object, as orjson would write it.

        Raises:
            SegmentError: the object is too large, or Python's stack ends before it does.
        """
        try:
            made = self._object(row, self._left(row))
            # A file's few bytes may be many, where each item of a list repeats long names.
            text = text_of(made).encode() if _room_after(made, self._most) >= 0 else None
        except (RowError, RecursionError) as error:
            raise SegmentError("Python's stack ends before the JSON of a record does") from error
        if text is None or len(text) > self._most:
            raise SegmentError(
                f"a record takes more than {self._most} bytes as JSON, which is "
                "columnar.max.decoded.bytes: raise it, or set columnar.value.format=rows"
            )
        return text

    def _left(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is left of the object; a rest that no writer of ours made is a field."""
        if self._rest is None or (text := row[self._rest]) is None:
            return {}
        try:
            return parse(text.encode())
        except RowError:
            return {self._rest: text}


def _room_after(made: Any, room: int) -> int:
    """Return what is left of so many bytes after a value of at least its characters; or negative.

    It looks no further then.
    """
    if type(made) is dict:
        for name, value in made.items():
            room = _room_after(value, room - len(name))
            if room < 0:
                break
    elif type(made) is list:
        for value in made:
            room = _room_after(value, room - 1)
            if room < 0:
                break
    elif isinstance(made, str):
        room -= len(made)
    return room


class _Makers:
    """Makes the functions that make parsed JSON of the values of fields."""

    def __init__(self, layout: JsonLayout) -> None:
        self._layout = layout

    def record(self, fields: Iterable[pa.Field], prefix: str) -> _Make:
        """Return what makes an object of fields; what is left has more members, and misfits."""
        makers = {field.name: self._make(field.type, f"{prefix}{field.name}") for field in fields}
        says_null = {name: self._layout.says_null(f"{prefix}{name}") for name in makers}

        def make(members: Mapping[str, Any], left: Any) -> dict[str, Any]:
            left, made = _members(left), {}
            for name, make_value in makers.items():
                value, more = members[name], left.get(name, _ABSENT)
                if value is not None:
                    made[name] = make_value(value, more)
                elif more is not _ABSENT and more is not None:
                    made[name] = more
                elif says_null[name] == (more is _ABSENT):  # a null that is left says the opposite
                    made[name] = None
            return made | {name: more for name, more in left.items() if name not in makers}

        return make

    def _make(self, arrow: pa.DataType, path: str) -> _Make:
        kind = family(arrow)
        if kind == "struct":
            return self.record(arrow, f"{path}.")
        if kind == "map":
            return self._map(arrow, path)
        if kind == "list":
            return self._list(arrow, path)
        make_leaf = self._leaf(arrow, path)
        return lambda value, _: make_leaf(value)

    def _map(self, arrow: pa.MapType, path: str) -> _Make:
        make_name = self._leaf(arrow.key_type, f"{path}.key")
        make_value = _or_left(self._make(arrow.item_type, f"{path}.value"))

        def make(pairs: Mapping[Any, Any], left: Any) -> dict[str, Any]:
            left, made = _members(left), {}
            for key, value in pairs.items():
                name = make_name(key)
                name = name if type(name) is str else text_of(name)
                made[name] = make_value(value, left.get(name, _ABSENT))
            return made | {name: more for name, more in left.items() if name not in made}

        return make

    def _list(self, arrow: Any, path: str) -> _Make:
        make_item = _or_left(self._make(arrow.value_type, f"{path}.item"))

        def make(items: Iterable[Any], left: Any) -> list[Any]:
            left = _members(left)
            return [
                make_item(item, left.get(str(index), _ABSENT)) for index, item in enumerate(items)
            ]

        return make

    def _leaf(self, arrow: pa.DataType, path: str) -> Callable[[Any], Any]:
        kind = family(arrow)
        if kind == "string":
            return _json if path in self._layout.texts else _as_it_is
        if kind == "binary" and path in self._layout.uuids:
            return _uuid
        if kind in _TIMES:
            has_date, has_zone = kind != "time", kind == "timestamp"
            form = self._layout.time_form(path, has_date=has_date, has_zone=has_zone)
            return _TIMES[kind](arrow, form)
        return _LEAVES[kind](arrow)


def _or_left(make: _Make) -> _Make:
    """Return what makes an item, or takes what is left where there is none."""

    def make_or_take(value: Any, left: Any) -> Any:
        if value is not None:
            return make(value, left)
        return None if left is _ABSENT else left

    return make_or_take


def _members(left: Any) -> dict[str, Any]:
    return left if type(left) is dict else {}


# --- leaves ---------------------------------------------------------------------------------------


def _as_it_is(value: Any) -> Any:
    return value


def _number(value: Any) -> Number:
    return Number(str(value))


def _json(text: str) -> Any:
    """Return a value of JSON text, or the text that is none."""
    try:
        return parse_value(text.encode())
    except RowError:
        return text


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _uuid(value: bytes) -> str:
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else _bytes(value)  # noqa: PLR2004


def _float(arrow: pa.DataType) -> Callable[[float], Any]:
    is_narrow = is_narrow_float(arrow)

    def make(value: float) -> Number | None:
        if not math.isfinite(value):
            return None
        return _shortest(float(shortest(value, arrow)) if is_narrow else value)

    return make


def _shortest(value: float) -> Number:
    """Return the fewest digits that are this number, in the form that orjson uses."""
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return Number(digits)
    if int(exponent) == _NO_EXPONENT:
        sign, digits = "-" * (value < 0), digits.strip("-").replace(".", "")
        return Number(f"{sign}0.0000{digits}")
    return Number(f"{digits}e{int(exponent):+}")


def _decimal(_: pa.DataType) -> Callable[[decimal.Decimal], Number]:
    return lambda value: Number(f"{value:f}")


def _date(_: pa.DataType) -> Callable[[Any], Any]:
    return lambda value: _number(value) if type(value) is int else value.isoformat()


def _timestamp(arrow: pa.TimestampType, form: TimeForm) -> Callable[[Any], Any]:
    per_second = PER_SECOND[arrow.unit]
    epoch = _EPOCH if arrow.tz is None else _UTC_EPOCH

    def make(value: Any) -> Any:
        ticks = value
        if type(value) is not int:
            ticks = (value - epoch) // _MICROSECOND * per_second // 10**6
        seconds, fraction = divmod(ticks, per_second)
        try:
            whole = _EPOCH + datetime.timedelta(seconds=seconds)
        except OverflowError:
            return _number(ticks)
        nanos = fraction * 10**9 // per_second
        return f"{whole.isoformat(form.separator)}{form.fraction(nanos)}{form.zone}"

    return make


def _time(arrow: pa.DataType, form: TimeForm) -> Callable[[Any], Any]:
    per_second = PER_SECOND[arrow.unit]

    def make(value: Any) -> str:
        if type(value) is not int:
            whole, nanos = value.replace(microsecond=0), value.microsecond * 1000
        else:
            seconds, fraction = divmod(value, per_second)
            whole = (_EPOCH + datetime.timedelta(seconds=seconds)).time()
            nanos = fraction * 10**9 // per_second
        return f"{whole.isoformat()}{form.fraction(nanos)}"

    return make


def _duration(arrow: pa.DurationType) -> Callable[[Any], Any]:
    per_second = PER_SECOND[arrow.unit]

    def make(value: Any) -> Number:
        return _number(value if type(value) is int else value // _MICROSECOND * per_second // 10**6)

    return make


_LEAVES: Final[Mapping[str | None, Callable[[Any], Callable[[Any], Any]]]] = {
    "boolean": lambda _: _as_it_is,
    "integer": lambda _: _number,
    "float": _float,
    "decimal": _decimal,
    "date": _date,
    "duration": _duration,
    "binary": lambda _: _bytes,
}
_TIMES: Final[Mapping[str | None, Callable[[Any, TimeForm], Callable[[Any], Any]]]] = {
    "time": _time,
    "timestamp": _timestamp,
    "local timestamp": _timestamp,
}
