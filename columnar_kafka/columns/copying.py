"""Taking values by value: what nests or can change is copied, checked and measured at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import range_checks
from columnar_kafka.columns.accepted_types import AcceptedTypes, show
from columnar_kafka.columns.row_objects import ROWS, RowReader
from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from columnar_kafka.schema import RecordSchema

__all__ = ["VALUE_BYTES", "Freeze", "freezer", "measure"]

VALUE_BYTES: Final = 40  # a value's object, or later its bytes in the column, whichever is more

Freeze = Callable[[Any], tuple[Any, int]]
"""Takes a value that is not None; returns what cannot be changed, and the bytes inside it."""


def freezer(each: pa.Field, path: str, schema: RecordSchema) -> Freeze | None:
    """Return what copies and checks a field's non-null values, or None where none is needed."""
    arrow = each.type
    if path in schema.symbols:
        return _enum(path, schema.symbols[path])
    if path in schema.uuids:
        return _uuid_text if pa.types.is_string(arrow) else _uuid_bytes
    if pa.types.is_struct(arrow):
        return _struct(arrow, path, schema)
    if pa.types.is_map(arrow):
        return _map(arrow, path, schema)
    if pa.types.is_nested(arrow):
        return _list(arrow, path, schema)
    return _binary if AcceptedTypes(each, path).is_binary else None


def measure(text: str) -> int:
    """Return the bytes that a text may hold: a character is up to 4, how many is known later."""
    return len(text) if text.isascii() else 4 * len(text)


def _binary(value: Any) -> tuple[Any, int]:
    """Copy what can still change; anything else is judged by its type."""
    return (bytes(value) if isinstance(value, bytearray | memoryview) else value), 0


def _uuid_text(value: Any) -> tuple[Any, int]:
    return (str(value) if isinstance(value, uuid.UUID) else value), 0


def _uuid_bytes(value: Any) -> tuple[Any, int]:
    return _binary(value.bytes if isinstance(value, uuid.UUID) else value)


def _enum(path: str, symbols: frozenset[str]) -> Freeze:
    def freeze(value: Any) -> tuple[Any, int]:
        if not isinstance(value, str) or value not in symbols:
            allowed = ", ".join(sorted(symbols))
            raise RowError(f"field {path!r} is {show(value)}; its enum has {allowed}")
        return str.__str__(value), 0  # the symbol, not Python's member for it

    return freeze


def _element(each: pa.Field, path: str, schema: RecordSchema) -> Freeze:
    """Return what copies, checks and measures any value inside a nested field, null included."""
    taken = AcceptedTypes(each, path)
    inner = freezer(each, path, schema)
    narrow = range_checks.narrows(each.type)

    def freeze(value: Any) -> tuple[Any, int]:
        nbytes = VALUE_BYTES
        if inner is not None and value is not None:
            value, more = inner(value)
            nbytes += more
        if not taken.accepts(type(value)):
            raise taken.wrong(value)
        if value is None:
            return value, nbytes
        if taken.is_text:
            nbytes += measure(value)
        elif taken.is_binary:
            nbytes += len(value)
        elif taken.is_local:
            taken.check_zone(value)
        elif narrow and not range_checks.fit(each.type, [value]):
            raise taken.wrong(value)
        return value, nbytes

    return freeze


def _sum(pairs: Iterable[tuple[Any, int]]) -> tuple[list[Any], int]:
    values = []
    nbytes = VALUE_BYTES
    for value, more in pairs:
        values.append(value)
        nbytes += more
    return values, nbytes


def _list(arrow: pa.DataType, path: str, schema: RecordSchema) -> Freeze:
    item = _element(arrow.value_field, f"{path}.item", schema)

    def freeze(value: Any) -> tuple[Any, int]:
        # An iterator would be empty when the record has to be produced again.
        if isinstance(value, str | bytes | bytearray | Mapping | Iterator) or not isinstance(
            value, Iterable
        ):
            raise RowError(f"field {path!r} is {show(value)}; its schema wants a list")
        return _sum(map(item, value))

    return freeze


def _map(arrow: pa.DataType, path: str, schema: RecordSchema) -> Freeze:
    take_key = _element(arrow.key_field, f"{path}.key", schema)
    take_item = _element(arrow.item_field, f"{path}.value", schema)
    merges = range_checks.narrows(arrow.key_type) or pa.types.is_temporal(arrow.key_type)

    def distinct(keys: list[Any]) -> int:
        if not merges:
            return len(set(keys))
        try:
            return len(pa.array(keys, type=arrow.key_type).unique())
        except Exception as error:  # Arrow raises many kinds
            raise RowError(f"field {path!r} has a key that does not fit: {error}") from error

    def pair(key: Any, item: Any) -> tuple[tuple[Any, Any], int]:
        (key, more), (item, most) = take_key(key), take_item(item)
        return (key, item), more + most

    def freeze(value: Any) -> tuple[Any, int]:
        if not isinstance(value, Mapping):
            raise RowError(f"field {path!r} is {show(value)}; its schema wants a dict")
        pairs, nbytes = _sum(starmap(pair, value.items()))
        # Two keys that are one key in the column could not be read back as a dict.
        if distinct([key for key, _ in pairs]) < len(pairs):
            raise RowError(f"field {path!r} has two keys that are equal as {arrow.key_type}")
        return pairs, nbytes

    return freeze


def _struct(arrow: pa.DataType, path: str, schema: RecordSchema) -> Freeze:
    fields = list(arrow)
    record = RowReader([each.name for each in fields], f"{path}.", schema.defaults)
    takers = [_element(each, f"{path}.{each.name}", schema) for each in fields]

    def freeze(value: Any) -> tuple[Any, int]:
        given = record.values(value)
        if given is None:
            raise RowError(f"field {path!r} is {show(value)}; its schema wants a record: {ROWS}")
        values, nbytes = _sum(take(each) for take, each in zip(takers, given, strict=True))
        return tuple(values), nbytes

    return freeze
