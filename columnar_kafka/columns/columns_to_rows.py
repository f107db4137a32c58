"""Columns to rows: Python objects for the values of a `RecordBatch`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.layouts import as_lists
from columnar_kafka.columns.older_arrow import HAS_FAST_PYLIST, HAS_HALF_FLOATS
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema.unions import branches, is_union, is_union_of_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["DictionaryValues", "Unions", "dictionary_values", "has_map", "to_rows", "to_values"]

Unions = Literal["values", "named", "members"]
"""What a union is: the value of its branch, of a record with its name, ``(name, record)``, as
fastavro's `return_record_name` has it; or the record of its members."""

DictionaryValues = Mapping[str, list[Any]]
"""The values of each dictionary column by its name, with None added as the last."""

_NO_DICTIONARIES: Final[DictionaryValues] = {}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def to_rows(
    batch: pa.RecordBatch,
    dictionaries: DictionaryValues = _NO_DICTIONARIES,
    unions: Unions = "values",
) -> list[Any]:
    """Return the rows of `batch` as dicts; maps are dicts too, and UTC times have Python's `utc`.

    A time for which Python has no exact object is a number, which `produce` accepts as well.

    Args:
        batch: the columns.
        dictionaries: the values of dictionary columns; other columns need none.
        unions: what they are.

    Raises:
        ValueError: a map holds the same key twice.
    """
    names = batch.schema.names
    columns = [
        _look_up(column, dictionaries[name]) if name in dictionaries else to_values(column, unions)
        for name, column in zip(names, batch.columns, strict=True)
    ]
    if unions != "members" and is_union_of_rows(batch.schema):
        return _of_branches(batch.schema, columns, unions)
    return _records(names, columns)


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


def _records(names: Sequence[str], columns: Sequence[list[Any]]) -> list[dict[str, Any]]:
    """Return dicts with these keys, of columns of values."""
    return list(map(dict, map(zip, repeat(names), zip(*columns, strict=True))))


def _of_branches(
    members: Iterable[pa.Field], columns: Sequence[list[Any]], unions: Unions
) -> list[Any]:
    """Return a union's values, of those of its members."""
    if unions == "named":
        fields = list(members)
        columns = [
            [value if value is None else (name, value) for value in column]
            if pa.types.is_struct(field.type)
            else column
            for name, field, column in zip(branches(fields) or (), fields, columns, strict=True)
        ]
    rows = zip(*columns, strict=True)
    return [next((value for value in row if value is not None), None) for row in rows]


def to_values(column: pa.Array, unions: Unions = "values") -> list[Any]:
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
    if not pa.types.is_nested(arrow) or (HAS_FAST_PYLIST and not _has_own_objects(arrow)):
        return list(column.to_pylist())
    if pa.types.is_struct(arrow):
        return _structs(column, unions)
    if pa.types.is_map(arrow):
        return _maps(column, unions)
    items = iter(to_values(column.flatten(), unions))
    return [None if n is None else list(islice(items, n)) for n in _lengths(column)]


def _has_own_objects(arrow: pa.DataType) -> bool:
    """Say whether pyarrow is slow with a type, or has other objects for it than `to_rows`."""
    return (
        pa.types.is_temporal(arrow)
        or pa.types.is_map(arrow)
        or is_union(arrow)
        or any(_has_own_objects(arrow.field(i).type) for i in range(arrow.num_fields))
    )


def _structs(column: pa.StructArray, unions: Unions) -> list[Any]:
    arrow = column.type
    parts = [to_values(column.field(i), unions) for i in range(arrow.num_fields)]
    if unions != "members" and is_union(arrow):
        rows = _of_branches(arrow, parts, unions)
    else:
        rows = _records([field.name for field in arrow], parts)
    if not column.null_count:
        return rows
    valid = column.is_valid().to_pylist()
    return [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]


def _maps(column: pa.MapArray, unions: Unions) -> list[Any]:
    lists = as_lists(column)
    entries = lists.flatten()
    pairs = zip(to_values(entries.field(0)), to_values(entries.field(1), unions), strict=True)
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
