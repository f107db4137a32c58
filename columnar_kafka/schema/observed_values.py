"""The values seen at one path of many JSON objects, and the type of the column that holds them."""

from __future__ import annotations

import datetime
import decimal
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["JSON_TEXT", "MOST_LEVELS", "Names", "ObservedValues"]

JSON_TEXT: Final = "JSON text"
"""Stands for the type of a column of texts, each of which is a value in JSON."""

MOST_LEVELS: Final = 16
"""Of objects and lists in each other; what lies deeper stays JSON text."""

_SILENT: Final = ("null", "empty list", "empty object")
_NUMBERS: Final = {"integer", "fraction"}
_DIGITS: Final = 38
_MOST_IN_DOUBLE: Final = 1 << 53
"""Arrow takes no larger integer for a double, also if it is one."""

_DATE: Final = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME: Final = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"
_ZONE: Final = r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_TIMES: Final = {
    "date": (re.compile(_DATE, re.ASCII), pa.date32()),
    "local time": (re.compile(f"{_DATE}T{_TIME}", re.ASCII), pa.timestamp("us")),
    "time": (re.compile(f"{_DATE}T{_TIME}{_ZONE}", re.ASCII), pa.timestamp("us", "UTC")),
}
_FRACTION: Final = re.compile(r"\.\d+")
_DATA: Final = re.compile(
    rf"\d+|{_DATE}(?:[T ].*)?|[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}"
    r"|[0-9a-fA-F]{16,}",
    re.ASCII,
)
"""Names of fields that are data: numbers, dates, UUIDs, digests."""

_MERGED_NAMES: Final = 10_000
"""So many names are told apart in the values of a map."""

_MANY_NAMES: Final = 32
"""So many names of one object's fields may be open-ended, if a quarter still came late."""


class Names:
    """How many more names of fields are told apart, of all objects together: memory is bounded."""

    def __init__(self, left: int, spare: Names | None = None) -> None:
        """`spare` is for names in the values of those that are not told apart."""
        self.left = left
        self.spare = spare or self


class ObservedValues:
    """The values at one path: how many of each JSON type, and whatever chooses their column."""

    __slots__ = (
        *("counts", "fields", "others", "item", "born", "_times", "_names", "_level"),
        *("_text_kinds", "_are_int64", "_are_doubles", "_digits"),
    )

    def __init__(self, *, times: bool, names: Names, level: int = 0, born: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self.fields: dict[str, ObservedValues] = {}
        self.others: ObservedValues | None = None
        """The values of all fields whose names are not told apart."""
        self.item: ObservedValues | None = None
        self.born = born
        """How many objects the parent had when this field was first seen."""
        self._times = times
        self._names = names
        self._level = level
        self._text_kinds: frozenset[str | None] = frozenset()
        self._are_int64 = self._are_doubles = True
        self._digits = (1, 0)  # the most before and after the point

    @property
    def objects(self) -> int:
        """How many values were objects."""
        return self.counts["object"] + self.counts["empty object"]

    def add(self, value: Any) -> None:
        """Count a value, with all that it holds.

        Raises:
            TypeError: JSON has no such value.
        """
        if value is None:
            self.counts["null"] += 1
        elif isinstance(value, bool):
            self.counts["boolean"] += 1
        elif isinstance(value, str):
            self._add_text(value)
        elif isinstance(value, int):
            self._add_number("integer", decimal.Decimal(value))
            self._are_int64 &= -(1 << 63) <= value < 1 << 63
            self._are_doubles &= abs(value) <= _MOST_IN_DOUBLE
        elif isinstance(value, float | decimal.Decimal):
            self._add_number(
                "fraction", decimal.Decimal(repr(value) if isinstance(value, float) else value)
            )
        elif isinstance(value, Mapping):
            self._add_object(value)
        elif isinstance(value, list | tuple):
            self._add_list(value)
        else:
            raise TypeError(f"JSON has no value of type {type(value).__name__}")

    def _add_text(self, text: str) -> None:
        self.counts["text"] += 1
        if self._times:
            kinds = (kind for kind, (form, _) in _TIMES.items() if form.fullmatch(text))
            self._text_kinds |= {next(kinds, None) if _is_time(text) else None}

    def _add_number(self, kind: str, number: decimal.Decimal) -> None:
        if not number.is_finite():
            raise TypeError(f"JSON has no number {number}")
        self.counts[kind] += 1
        try:
            as_double = decimal.Decimal(repr(float(number)))
        except OverflowError:
            as_double = decimal.Decimal("Infinity")
        self._are_doubles &= as_double == number
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        shown = len(digits)
        while shown > 1 and exponent < 0 and digits[shown - 1] == 0:
            shown, exponent = shown - 1, exponent + 1
        before, after = self._digits
        self._digits = max(before, shown + exponent), max(after, -exponent)

    def _add_object(self, value: Mapping[Any, Any]) -> None:
        for name, member in value.items() if self._level < MOST_LEVELS else ():
            if not isinstance(name, str):
                raise TypeError(f"the names in a JSON object are texts, not {name!r}")
            self._field(name, self.objects).add(member)
        self.counts["object" if value else "empty object"] += 1

    def _add_list(self, value: Iterable[Any]) -> None:
        self.counts["list" if value else "empty list"] += 1
        if value and self._level < MOST_LEVELS:
            self.item = self.item or self._inner()
            for item in value:
                self.item.add(item)

    def _field(self, name: str, born: int) -> ObservedValues:
        if name in self.fields:
            return self.fields[name]
        if self._names.left:
            self._names.left -= 1
            self.fields[name] = field = self._inner(born=born)
            return field
        self.others = self.others or self._inner(names=self._names.spare)
        return self.others

    def _inner(self, *, names: Names | None = None, born: int = 0) -> ObservedValues:
        return ObservedValues(
            times=self._times, names=names or self._names, level=self._level + 1, born=born
        )

    def kind(self) -> str | pa.DataType | None:
        """Return the column's type, if it has no fields or items; else "object", "map" or "list".

        JSON_TEXT where the values contradict each other, or lie too deep; None where nothing is
        known yet: all values are null, or empty.
        """
        kinds = {kind for kind, count in self.counts.items() if count and kind not in _SILENT}
        if not kinds:
            return None
        if kinds <= _NUMBERS:
            return self._number(kinds)
        if len(kinds) > 1 or (self._level == MOST_LEVELS and kinds & {"object", "list"}):
            return JSON_TEXT
        [kind] = kinds
        if kind == "object":
            return "map" if self._is_open_ended() else kind
        if kind == "text":
            return self._text()
        return pa.bool_() if kind == "boolean" else kind

    def _number(self, kinds: set[str]) -> pa.DataType | str:
        """Return the narrowest type that keeps all digits."""
        if kinds == {"integer"} and self._are_int64:
            return pa.int64()
        if "fraction" in kinds and self._are_doubles:
            return pa.float64()
        before, after = self._digits
        return pa.decimal128(_DIGITS, after) if before + after <= _DIGITS else JSON_TEXT

    def _text(self) -> pa.DataType:
        kinds = self._text_kinds
        [kind] = kinds if len(kinds) == 1 else [None]
        return pa.string() if kind is None else _TIMES[kind][1]

    def _is_open_ended(self) -> bool:
        """Whether the names of the fields are data, such as ids, and more will come."""
        if all(map(_DATA.fullmatch, self.fields)):
            return True
        late = sum(2 * field.born >= self.objects for field in self.fields.values())
        late += 0 if self.others is None else sum(self.others.counts.values())
        return len(self.fields) >= _MANY_NAMES and 4 * late >= len(self.fields)

    def merged_fields(self) -> ObservedValues:
        """Return the values of all fields as those of one: of a map."""
        merged = self._inner(names=Names(_MERGED_NAMES))
        for field in self.fields.values():
            merged.merge(field)
        if self.others is not None:
            merged.merge(self.others)
        return merged

    def merge(self, other: ObservedValues) -> None:
        """Count all values that another place has."""
        before = self.objects
        self.counts += other.counts
        self._text_kinds |= other._text_kinds
        self._are_int64 &= other._are_int64
        self._are_doubles &= other._are_doubles
        before_point, after_point = map(max, self._digits, other._digits)
        self._digits = before_point, after_point
        if other.item is not None:
            self.item = self.item or self._inner()
            self.item.merge(other.item)
        for name, field in other.fields.items():
            self._field(name, before + field.born).merge(field)
        if other.others is not None:
            self.others = self.others or self._inner(names=self._names.spare)
            self.others.merge(other.others)


def _is_time(text: str) -> bool:
    """Return whether there is such a day, of a year from 1 to 9999, in UTC too."""
    try:
        time = datetime.datetime.fromisoformat(_FRACTION.sub("", text).replace("Z", "+00:00"))
        if time.tzinfo is not None:
            time.astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):
        return False
    return True
