"""Columns to rows: Python objects for the values of a `RecordBatch`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.layouts import as_lists
from columnar_kafka.columns.older_arrow import HAS_FAST_PYLIST, HAS_HALF_FLOATS
from columnar_kafka.runtime.interruptions import raise_if_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Build = Callable[[Iterable[tuple[Any, ...]]], list[dict[str, Any]]]

__all__ = ["DictionaryValues", "dictionary_values", "has_map", "to_rows", "to_values"]

DictionaryValues = Mapping[str, list[Any]]
"""The values of each dictionary column by its name, with None added as the last."""

_NO_DICTIONARIES: Final[DictionaryValues] = {}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MAX_SHARED_KEYS: Final = 29
"""The most attributes with which objects of one class share their keys: from 30 on, CPython 3.11 to
3.13 gives each object a dict that takes twice the memory of a usual one."""
_LOOP: Final = """
def build(rows):
    dicts = []
    for values in rows:
        row = Row()
        {attributes}, = values
        dicts.append(row.__dict__)
    return dicts
"""


def to_rows(
    batch: pa.RecordBatch, dictionaries: DictionaryValues = _NO_DICTIONARIES
) -> list[dict[str, Any]]:
    """Return the rows of `batch` as dicts; maps are dicts too, and UTC times have Python's `utc`.

    A time for which Python has no exact object is a number, which `produce` accepts as well.

    Args:
        batch: the columns.
        dictionaries: the values of dictionary columns; other columns need none.

    Raises:
        ValueError: a map holds the same key twice.
    """
    names = batch.schema.names
    columns = [
        _look_up(column, dictionaries[name]) if name in dictionaries else to_values(column)
        for name, column in zip(names, batch.columns, strict=True)
    ]
    return _builder(tuple(names))(zip(*columns, strict=True))


def dictionary_values(batch: pa.RecordBatch) -> DictionaryValues:
    """Return the values of dictionary columns, so that rows share one object for each value."""
    return {
        name: [*column.dictionary.to_pylist(), None]
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if pa.types.is_dictionary(column.type)
    }


def _look_up(column: pa.DictionaryArray, values: list[Any]) -> list[Any]:
    indices = column.indices
    if indices.null_count:
        indices = indices.fill_null(-1)
    return [values[index] for index in indices.to_pylist()]


@lru_cache(maxsize=100)
def _builder(names: tuple[str, ...]) -> Build:
    """Return the function that makes dicts with these keys of tuples of values.

    The dicts are the attributes of objects of one class, which share their keys. That takes a third
    of the time of `dict`, and half of the memory.
    """

    class Row:
        """Has these attributes."""

    if not 0 < len(names) <= _MAX_SHARED_KEYS or any(hasattr(Row, name) for name in names):
        return lambda rows: [dict(zip(names, values, strict=True)) for values in rows]
    # A name can be any string, so none goes into the code: it has a0, a1, … in their place.
    names_of = {f"a{number}": name for number, name in enumerate(names)}
    scope: dict[str, Any] = {"Row": Row}
    text = _LOOP.format(attributes=", ".join(f"row.{variable}" for variable in names_of))
    exec(text, scope)  # noqa: S102 - no part comes from outside
    build: Any = scope["build"]
    code = build.__code__
    build.__code__ = code.replace(
        co_names=tuple(names_of.get(name, name) for name in code.co_names)
    )
    return build  # type: ignore[no-any-return]


def to_values(column: pa.Array) -> list[Any]:
    """Return a column's values as `to_rows` does; several times faster than pyarrow is for some.

    Raises:
        ValueError: a map holds the same key twice.
    """
    arrow = column.type
    if pa.types.is_temporal(arrow):
        # Times repeat, and each costs microseconds: convert distinct ones only.
        encoded = column.dictionary_encode()
        return _look_up(encoded, [*_times(encoded.dictionary), None])
    if not HAS_HALF_FLOATS and pa.types.is_float16(arrow):
        column = column.cast(pa.float64())
    if not pa.types.is_nested(arrow) or (HAS_FAST_PYLIST and not _has_times_or_maps(arrow)):
        return list(column.to_pylist())
    if pa.types.is_struct(arrow):
        return _structs(column)
    if pa.types.is_map(arrow):
        return _maps(column)
    items = iter(to_values(column.flatten()))
    return [None if n is None else list(islice(items, n)) for n in _lengths(column)]


def _has_times_or_maps(arrow: pa.DataType) -> bool:
    """Say whether pyarrow is slow with a type, or has other objects for it than `to_rows`."""
    return (
        pa.types.is_temporal(arrow)
        or pa.types.is_map(arrow)
        or any(_has_times_or_maps(arrow.field(i).type) for i in range(arrow.num_fields))
    )


def _structs(column: pa.StructArray) -> list[Any]:
    names = tuple(field.name for field in column.type)
    fields = [to_values(column.field(i)) for i in range(len(names))]
    rows = _builder(names)(zip(*fields, strict=True))
    if not column.null_count:
        return rows
    valid = column.is_valid().to_pylist()
    return [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]


def _maps(column: pa.MapArray) -> list[Any]:
    lists = as_lists(column)
    entries = lists.flatten()
    pairs = zip(to_values(entries.field(0)), to_values(entries.field(1)), strict=True)
    lengths = _lengths(lists)
    rows = [None if n is None else dict(islice(pairs, n)) for n in lengths]
    if any(row is not None and len(row) < n for row, n in zip(rows, lengths, strict=True)):
        raise ValueError("a map has the same key twice")
    return rows


def _lengths(lists: pa.Array) -> list[Any]:
    """Return how many items of `lists.flatten()` each list has; None for null."""
    return list(pc.list_value_length(lists).to_pylist())


def _times(column: pa.Array) -> list[Any]:
    arrow = column.type
    if not pa.types.is_timestamp(arrow) or arrow.tz != "UTC":
        return list(map(_time, column))
    ticks, scale = column.cast(pa.int64()).to_pylist(), _MICROS.get(arrow.unit)
    if scale is None:
        return [tick if tick % 1000 else _utc(tick // 1000, tick) for tick in ticks]
    try:
        return [_EPOCH + datetime.timedelta(0, 0, tick * scale) for tick in ticks]
    except OverflowError:
        return [_utc(tick * scale, tick) for tick in ticks]


_MICROS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}


def _utc(micros: int, otherwise: int) -> Any:
    try:
        return _EPOCH + datetime.timedelta(0, 0, micros)
    except OverflowError:
        return otherwise


def _time(scalar: pa.Scalar) -> Any:
    """Return Python's object for any other time, or its number if none is exact."""
    arrow = scalar.type
    if getattr(arrow, "unit", None) == "ns":
        if scalar.value % 1000:
            return scalar.value
        # pyarrow would return a pandas object, or fail without pandas.
        return _time(scalar.cast(_MICROSECONDS[type(arrow)](arrow)))
    try:
        return scalar.as_py()
    except Exception as error:  # noqa: BLE001 - from any module that knows time zones
        raise_if_once(error, scalar.as_py)
        return scalar.value


_MICROSECONDS: Final[dict[type, Callable[[Any], pa.DataType]]] = {
    pa.TimestampType: lambda arrow: pa.timestamp("us", arrow.tz),
    pa.Time64Type: lambda _: pa.time64("us"),
    pa.DurationType: lambda _: pa.duration("us"),
}


def has_map(arrow: pa.DataType) -> bool:
    """Say whether a type is a map, or has one at any depth."""
    return pa.types.is_map(arrow) or any(
        has_map(arrow.field(i).type) for i in range(arrow.num_fields)
    )
