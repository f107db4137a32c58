"""Rows, and records inside them: dicts, other mappings, and objects with fields."""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ROWS", "RowReader", "getter", "is_row"]

ROWS: Final = (
    "a dict or other mapping, a namedtuple, or an object of a dataclass, attrs, msgspec or "
    "pydantic class"
)

_Read = Callable[[Any], Mapping[str, Any]]


class RowReader:
    """The fields of a row, or of a record inside one; a field that is left out has its default."""

    def __init__(self, names: Sequence[str], prefix: str, defaults: Mapping[str, Any]) -> None:
        """Know the fields by their `names`, and by their paths, which begin with `prefix`."""
        self.names = tuple(map(sys.intern, names))  # found faster, in rows written as literals
        self._prefix = prefix
        self._defaults = {
            name: defaults[prefix + name] for name in self.names if prefix + name in defaults
        }
        self.get = getter(self.names)

    def values(self, row: Any) -> tuple[Any, ...] | None:
        """Return the values of a row in the order of the names, or None where it is no row.

        Raises:
            RowError: a field is missing, or is one too many.
        """
        if type(row) is not dict:
            kind: Any = type(row)
            read = _reader(kind)
            if read is None:
                return None
            row = read(row)
        if len(row) == len(self.names):
            try:
                return self.get(row)
            except KeyError:
                pass
        return self._pick(row)

    def _pick(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        found = {**self._defaults, **row}
        for name in self.names:
            if name not in found:
                raise RowError(f"field {self._prefix + name!r} is missing, and has no default")
        names = set(self.names)
        for name in found:
            if name not in names:
                raise RowError(
                    f"field {f'{self._prefix}{name}'!r} is not in the topic's schema, which has "
                    f"{', '.join(self._prefix + each for each in self.names)}"
                )
        return self.get(found)


def getter(keys: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads the values of one or more keys as a tuple."""
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    (only,) = keys
    return lambda row: (row[only],)


def is_row(value: Any) -> bool:
    """Say whether a value is of a kind that has fields."""
    kind: Any = type(value)
    return _reader(kind) is not None


@lru_cache(maxsize=256)
def _reader(kind: Any) -> _Read | None:
    """Return what reads an object of a class as a mapping, or None where it has no fields."""
    if issubclass(kind, Mapping):
        return dict  # a defaultdict must not make up what is missing
    if isinstance(getattr(kind, "model_fields", None), Mapping):
        return _pydantic(list(kind.model_fields))
    names = _names(kind)
    return None if names is None else _attributes(names)


def _names(kind: Any) -> Sequence[str] | None:
    """Return the fields of a class, known by what each library leaves on its classes."""
    found: Sequence[str] | None = None
    if hasattr(kind, "__attrs_attrs__"):
        found = [each.name for each in kind.__attrs_attrs__]
    elif dataclasses.is_dataclass(kind):
        found = [each.name for each in dataclasses.fields(kind)]
    elif hasattr(kind, "__struct_fields__"):  # msgspec
        found = kind.__struct_fields__
    elif issubclass(kind, tuple):
        found = getattr(kind, "_fields", None)  # a namedtuple
    return found


def _attributes(names: Sequence[str]) -> _Read:
    def read(row: Any) -> Mapping[str, Any]:
        try:
            return {name: getattr(row, name) for name in names}
        except AttributeError:  # a field that was never set is missing
            return {name: getattr(row, name) for name in names if hasattr(row, name)}

    return read


def _pydantic(names: Sequence[str]) -> _Read:
    fields = _attributes(names)

    def read(row: Any) -> Mapping[str, Any]:
        return {**fields(row), **(row.model_extra or {})}

    return read
