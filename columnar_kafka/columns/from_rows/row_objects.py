"""Rows, and records inside rows: dicts, other mappings, and objects with fields."""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka import native
from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ROW_TYPES", "RowReader", "is_row", "tuple_getter"]

ROW_TYPES: Final = (
    "a dict or other mapping, a namedtuple, or an object of a dataclass, attrs, msgspec or "
    "pydantic class"
)

_Read = Callable[[Any], Mapping[str, Any]]


class RowReader:
    """Reads the fields of rows, or of a record inside rows; fills in defaults for missing ones."""

    def __init__(self, names: Sequence[str], prefix: str, defaults: Mapping[str, Any]) -> None:
        """Set up a reader of one record type.

        Args:
            names: its fields.
            prefix: what the fields' paths begin with: empty, or a path and a dot.
            defaults: the schema's, by path.
        """
        self.names = tuple(map(sys.intern, names))  # faster to look up in dict literals
        self._prefix = prefix
        self._defaults = {
            name: defaults[prefix + name] for name in self.names if prefix + name in defaults
        }
        self.get = tuple_getter(self.names)

    def values(self, row: Any) -> tuple[Any, ...] | None:
        """Return a row's values in the order of the names, or None if the object is not a row.

        Raises:
            RowError: a field is missing or unknown.
        """
        if type(row) is not dict:
            cls: Any = type(row)
            read = _reader(cls)
            if read is None:
                return None
            if native.enabled:
                native.core.learn_class(cls, _layout)
            row = read(row)
        if len(row) == len(self.names):
            try:
                return self.get(row)
            except KeyError:
                pass
        return self._with_defaults(row)

    def _with_defaults(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        fields = {**self._defaults, **row}
        for name in self.names:
            if name not in fields:
                raise RowError(f"field {self._prefix + name!r} is missing, and has no default")
        names = set(self.names)
        for name in fields:
            if name not in names:
                raise RowError(
                    f"field {f'{self._prefix}{name}'!r} is not in the topic's schema, which has "
                    f"{', '.join(self._prefix + known for known in self.names)}"
                )
        return self.get(fields)


def tuple_getter(keys: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads the values of keys as a tuple."""
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    return lambda row: tuple(row[key] for key in keys)


def is_row(value: Any) -> bool:
    """Say whether a value's class has fields."""
    cls: Any = type(value)
    return _reader(cls) is not None


@lru_cache(maxsize=256)
def _reader(cls: Any) -> _Read | None:
    """Return the function that reads a class's objects as mappings; None if it has no fields."""
    if issubclass(cls, Mapping):
        return dict  # a defaultdict must not make up missing fields
    names = _names(cls)
    if names is None:
        return None
    if _is_pydantic(cls):
        return _pydantic(names)
    if issubclass(cls, tuple):  # which may be too short
        return _attributes(names, (AttributeError, IndexError))
    return _attributes(names)


def _names(cls: Any) -> Sequence[str] | None:
    """Return the fields of a class, recognised by the marks that each library leaves on it."""
    if _is_pydantic(cls):
        return list(cls.model_fields)
    if hasattr(cls, "__attrs_attrs__"):
        return [attribute.name for attribute in cls.__attrs_attrs__]
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    names: Sequence[str] | None = None
    if hasattr(cls, "__struct_fields__"):  # msgspec
        names = cls.__struct_fields__
    elif issubclass(cls, tuple):
        names = getattr(cls, "_fields", None)  # a namedtuple
    return names


def _is_pydantic(cls: Any) -> bool:
    return isinstance(getattr(cls, "model_fields", None), Mapping)


def _attributes(
    names: Sequence[str], unset: tuple[type[Exception], ...] = (AttributeError,)
) -> _Read:
    """Return what reads attributes; one that raises `unset` is missing."""

    def read(row: Any) -> Mapping[str, Any]:
        try:
            return {name: getattr(row, name) for name in names}
        except unset:
            fields = {}
            for name in names:
                with suppress(*unset):
                    fields[name] = getattr(row, name)
            return fields

    return read


def _pydantic(names: Sequence[str]) -> _Read:
    fields = _attributes(names)

    def read(row: Any) -> Mapping[str, Any]:
        return {**fields(row), **(row.model_extra or {})}

    return read


# --- what the native core may read ----------------------------------------------------------------


class _One(NamedTuple):
    field: Any


_ITEM: Final = type(vars(_One)["field"])
"""What a namedtuple's class has for a field."""


def _layout(cls: Any) -> tuple[list[str], list[Any], list[Any]] | None:
    """Say where a class's objects have their fields, if to read them runs no code but Python's own.

    Returns:
        The names, and the place of each: a slot's descriptor, the index of a tuple's item, or None
        for an attribute in ``__dict__``. Then the slots for fields that the class does not declare.
    """
    names = _names(cls)
    reads = _in_class(cls, "__getattribute__")
    if not names or issubclass(cls, Mapping | bytes | str) or reads not in _PLAIN:
        return None
    more = []
    if _is_pydantic(cls):
        owners = [_owner(cls, name) for name in ("model_extra", "__pydantic_extra__")]
        if owners[0] is not owners[1]:  # not pydantic's own
            return None
        more = [_in_class(cls, "__pydantic_extra__")]
    places = [_in_class(cls, name) for name in names]
    for i, place in enumerate(places):
        if type(place) is _ITEM:
            places[i] = place.__reduce__()[1][0]
        elif type(place) is not MemberDescriptorType:
            if hasattr(type(place), "__set__") or hasattr(type(place), "__delete__"):
                return None  # a property, or the like
            places[i] = None
    if None in places and not cls.__dictoffset__:
        return None
    return list(names), places, more


_PLAIN: Final = (object.__getattribute__, tuple.__getattribute__)


def _owner(cls: Any, name: str) -> Any:
    """Return the class itself, or the base, in which a name is found."""
    return next((base for base in cls.__mro__ if name in vars(base)), None)


def _in_class(cls: Any, name: str) -> Any:
    """Return what a class has under a name, as it stands there; None if nothing."""
    owner = _owner(cls, name)
    return None if owner is None else vars(owner)[name]
