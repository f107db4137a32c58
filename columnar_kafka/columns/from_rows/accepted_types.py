"""Which Python types a field accepts, and how an error message shows a value it rejects."""

from __future__ import annotations

import datetime
import decimal
import numbers
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import RowError
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.schema.type_families import Family

__all__ = ["AcceptedTypes", "show"]

_MAX_SHOWN: Final = 80

_EXACT: Final[dict[Family | None, frozenset[type]]] = {
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
_BASES: Final[dict[Family | None, tuple[type, ...]]] = {
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
"""Classes whose subclasses are accepted too, such as numpy's numbers and enums of text."""


class AcceptedTypes:
    """The Python types that one field, top-level or nested, accepts of a value already copied."""

    def __init__(self, field: pa.Field, path: str) -> None:
        self.path = path
        self._arrow = field.type
        self._nullable = field.nullable
        name = family(field.type)
        self.exact = _EXACT.get(name, _NESTED) | ({type(None)} if field.nullable else set())
        """The most common types; `accepts` knows all."""
        self._bases = _BASES.get(name, ())
        self.is_text = name == "string"
        self.is_binary = name == "binary"
        self.is_local = name in ("time", "local timestamp")
        """Whether its times have no zone, so that a value's zone would be lost."""

    def accepts(self, python: type) -> bool:
        """Say whether values of a Python type fit, as far as the type alone can tell."""
        if python in self.exact:
            return True
        return python is not bool and issubclass(python, self._bases)

    def check_zone(self, value: Any) -> None:
        """Check that a value of a field that `is_local` has no time zone.

        Raises:
            RowError: it has one.
        """
        if getattr(value, "tzinfo", None) is not None:
            raise RowError(
                f"field {self.path!r} is {show(value)}; its schema wants {self._arrow}, which has "
                "no time zone: drop the value's zone, or give the field one"
            )

    def mismatch(self, value: Any) -> RowError:
        """Return the error for a value that does not fit."""
        if value is None:
            return RowError(f"field {self.path!r} is null, and its schema does not allow null")
        want = f"{self._arrow}" + (" or null" if self._nullable else "")
        return RowError(f"field {self.path!r} is {show(value)}; its schema wants {want}")


def show(value: Any) -> str:
    """Return a value's type and value for a message, however long or broken the value is."""
    try:
        text = repr(value[: _MAX_SHOWN + 1] if isinstance(value, str | bytes) else value)
    except Exception as error:  # noqa: BLE001 - a wrong value may have any class
        raise_if_once(error, partial(repr, value))
        text = "(its repr() fails)"
    shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
    return f"{type(value).__name__} {shown}"
