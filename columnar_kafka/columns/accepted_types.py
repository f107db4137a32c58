"""Which Python types a field takes, and how a message shows a value that it does not."""

from __future__ import annotations

import datetime
import decimal
import numbers
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AcceptedTypes", "show"]

_SHOWN: Final = 80

_KINDS: Final[dict[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "boolean": (pa.types.is_boolean,),
    "integer": (pa.types.is_integer,),
    "float": (pa.types.is_floating,),
    "decimal": (pa.types.is_decimal,),
    "date": (pa.types.is_date,),
    "time": (pa.types.is_time,),
    "timestamp": (pa.types.is_timestamp,),
    "duration": (pa.types.is_duration,),
    "string": (pa.types.is_string, pa.types.is_large_string),
    "binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
}
_PYTHON: Final[dict[str, frozenset[type]]] = {
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "float": frozenset({float, int}),
    "decimal": frozenset({decimal.Decimal, int}),
    "date": frozenset({datetime.date, int}),
    "time": frozenset({datetime.time, int}),
    "timestamp": frozenset({datetime.datetime, int}),
    "duration": frozenset({datetime.timedelta, int}),
    "string": frozenset({str}),
    "binary": frozenset({bytes}),
    "nested": frozenset({tuple, list}),
}
_KIN: Final[dict[str, tuple[type, ...]]] = {
    "integer": (numbers.Integral,),
    "float": (numbers.Real,),
    "decimal": (decimal.Decimal,),
    "time": (datetime.time,),
    "timestamp": (datetime.datetime,),
    "duration": (datetime.timedelta,),
    "string": (str,),
    "binary": (bytes,),
}
"""What is a kin of a type, as numpy's numbers and enums of text are, and is taken as well."""


class AcceptedTypes:
    """The Python types that one field takes, top-level or nested, once its value is frozen."""

    def __init__(self, each: pa.Field, path: str) -> None:
        self.path = path
        self._arrow = each.type
        self._nullable = each.nullable
        kind = _kind(each.type)
        self.exact = _PYTHON[kind] | ({type(None)} if each.nullable else set())
        """The types that are accepted most often."""
        self._kin = _KIN.get(kind, ())
        self.is_text = kind == "string"
        self.is_binary = kind == "binary"
        self.is_local = kind == "time" or (kind == "timestamp" and each.type.tz is None)
        """Whether its times have no zone, so that one which has would lose it."""

    def accepts(self, kind: type) -> bool:
        """Say whether values of a Python type fit, as far as the type can tell."""
        if kind in self.exact:
            return True
        return kind is not bool and issubclass(kind, self._kin)

    def check_zone(self, value: Any) -> None:
        """Raise RowError where a value of a field that `is_local` has a time zone."""
        if getattr(value, "tzinfo", None) is not None:
            raise RowError(
                f"field {self.path!r} is {show(value)}; its schema wants {self._arrow}, which has "
                "no zone: drop the value's, or give the field one"
            )

    def wrong(self, value: Any) -> RowError:
        """Return the error of a value that does not fit."""
        if value is None:
            return RowError(f"field {self.path!r} is null, and its schema does not allow null")
        want = f"{self._arrow}" + (" or null" if self._nullable else "")
        return RowError(f"field {self.path!r} is {show(value)}; its schema wants {want}")


def show(value: Any) -> str:
    """Return a value's type and value, however long or broken, as messages have it."""
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str | bytes) else value)
    except Exception:  # noqa: BLE001 - the value is wrong, and so is its class
        text = "(its repr() fails)"
    return f"{type(value).__name__} {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"


def _kind(arrow: pa.DataType) -> str:
    """Return the family whose Python types a type of value shares."""
    for kind, tests in _KINDS.items():
        if any(test(arrow) for test in tests):
            return kind
    return "nested"
