"""A union's value: which of the branches it is of.

A value says it as fastavro's writer has it said: ``(name, value)``, or for a record its name under
``-type``. Otherwise it is of the branch that it fits. Of numbers, texts and bytes that fit several,
it is the first one, but a double rather than a float, as with fastavro. A mapping or object must
fit one only: fastavro would guess which record is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from columnar_kafka.columns.from_rows.accepted_types import show
from columnar_kafka.errors import RowError
from columnar_kafka.schema.unions import branches

__all__ = ["TYPE_KEY", "UnionReader"]

TYPE_KEY: Final = "-type"
_PAIR: Final = 2

_Copy = Callable[[Any], tuple[Any, int]]


class UnionReader:
    """Copies the values of one union: as members, of which one is not None. Thread-safe."""

    def __init__(self, fields: Sequence[pa.Field], path: str, copiers: Sequence[_Copy]) -> None:
        """Set up a reader.

        Args:
            fields: the members.
            path: the union's, for messages; empty for rows.
            copiers: copy and check a value of each branch, and raise RowError.
        """
        self._names = branches(fields) or []
        self._where = f"field {path!r}" if path else "the row"
        self._copiers = copiers
        self._places = {name: place for place, name in enumerate(self._names)}
        self._records = {
            name
            for name, field in zip(self._names, fields, strict=True)
            if pa.types.is_struct(field.type)
        }
        self._takes_keys = [
            pa.types.is_struct(field.type) or pa.types.is_map(field.type) for field in fields
        ]
        self._has_map = any(pa.types.is_map(field.type) for field in fields)
        self._order = _order(fields)

    def copy(self, value: Any) -> tuple[tuple[Any, ...], int]:
        """Return a value's members and the bytes that they may hold; it is not None.

        Raises:
            RowError: it fits no branch or two, or not the one that it names.
        """
        name, given = self._named(value)
        if name is None:
            place, (copied, nbytes) = self._fitting(value)
        else:
            place = self._places[name]
            copied, nbytes = self._copiers[place](given)
        members = [None] * len(self._names)
        members[place] = copied
        return tuple(members), nbytes

    def _named(self, value: Any) -> tuple[str | None, Any]:
        """Return the name of the branch that a value gives, None if it does not, and the value."""
        if type(value) is tuple:
            if len(value) != _PAIR or type(value[0]) is not str:
                raise RowError(
                    f"{self._where} is {show(value)}; of a union a tuple is (branch, value)"
                )
            name, given = value
        elif isinstance(value, Mapping) and TYPE_KEY in value:
            name = value[TYPE_KEY]
            if self._has_map and (type(name) is not str or name not in self._records):
                return None, value
            given = {key: inner for key, inner in value.items() if key != TYPE_KEY}
        else:
            return None, value
        if type(name) is not str or name not in self._places:
            raise RowError(f"{self._where} is of {name!r}; its union has {self._shown()}")
        return name, given

    def _fitting(self, value: Any) -> tuple[int, tuple[Any, int]]:
        """Return the place of the branch that a value fits, and its copy."""
        fitting: list[tuple[int, tuple[Any, int]]] = []
        why: list[str] = []
        for place in self._order:
            try:
                copied = self._copiers[place](value)
            except RowError as error:
                if self._takes_keys[place]:
                    why.append(f"; not {self._names[place]}: {error.reason}")
                continue
            fitting.append((place, copied))
            if not self._takes_keys[place]:
                break
        if len(fitting) == 1:
            return fitting[0]
        shown = f"{self._where} is {show(value)}"
        if not fitting:
            reasons = "".join(why) if isinstance(value, Mapping) else ""
            raise RowError(f"{shown}, and fits none of its union: {self._shown()}{reasons}")
        several = " and ".join(self._names[place] for place, _ in fitting)
        name = self._names[fitting[0][0]]
        raise RowError(
            f"{shown}, and fits {several} of its union: name the branch, as in "
            f"({name!r}, {{...}}) or {{{TYPE_KEY!r}: {name!r}, ...}}"
        )

    def _shown(self) -> str:
        return ", ".join(self._names)


def _order(fields: Sequence[pa.Field]) -> list[int]:
    """Return the order in which branches are tried: a double in the place of a float before it.

    Decimals are the last, because they would take integers.
    """
    order = sorted(range(len(fields)), key=lambda place: pa.types.is_decimal(fields[place].type))
    floats = [at for at, place in enumerate(order) if fields[place].type == pa.float32()]
    doubles = [at for at, place in enumerate(order) if fields[place].type == pa.float64()]
    for a, b in zip(floats, doubles, strict=False):  # a union has one of each at most
        if a < b:
            order[a], order[b] = order[b], order[a]
    return order
