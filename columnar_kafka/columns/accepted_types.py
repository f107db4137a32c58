"""Which Python types a field takes, and how a message shows a value that it does not."""

from __future__ import annotations

import datetime
import decimal
import numbers
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import RowError
from columnar_kafka.schema.families import family

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.schema.families import Family

__all__ = ["AcceptedTypes", "show"]

_SHOWN: Final = 80

_PYTHON: Final[dict[Family | None, frozenset[type]]] = {
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "float": frozenset({float, int}),
    "decimal": frozenset({decimal.Decimal, int}),
    "date": frozenset({datetime.date, int}),
    "time": frozenset({datetime.time, int}),
    "local timestamp": frozenset({datetime.datetime, int}),
    "timestamp": frozenset({datetime.datetime, int}),
    "duration": frozenset({datetime.timedelta, int}),
    "string": frozenset({str}),
    "binary": frozenset({bytes}),
}
_NESTED: Final = frozenset({tuple, list})
_KIN: Final[dict[Family | None, tuple[type, ...]]] = {
    "integer": (numbers.Integral,),
    "float": (numbers.Real,),
    "decimal": (decimal.Decimal,),
    "time": (datetime.time,),
    "local timestamp": (datetime.datetime,),
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
        kind = family(each.type)
        self.exact = _PYTHON.get(kind, _NESTED) | ({type(None)} if each.nullable else set())
        """The types that are accepted most often."""
        self._kin = _KIN.get(kind, ())
        self.is_text = kind == "string"
        self.is_binary = kind == "binary"
        self.is_local = kind in ("time", "local timestamp")
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
                "no time zone: drop the value's zone, or give the field one"
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
