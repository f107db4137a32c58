"""Columns to rows: Python objects for what a `RecordBatch` holds."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Build = Callable[[Iterable[tuple[Any, ...]]], list[dict[str, Any]]]

__all__ = ["Texts", "read_texts", "to_rows"]

Texts = Mapping[str, list[Any]]
"""The values of columns that are dictionaries, and None as the last."""

_NO_TEXTS: Final[Texts] = {}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SHARED: Final = 30
"""So many attributes objects of one class keep by keys that they share; with more it is slow."""
_LOOP: Final = """
def build(rows):
    found = []
    for values in rows:
        row = Row()
        {attributes}, = values
        found.append(row.__dict__)
    return found
"""


def to_rows(batch: pa.RecordBatch, texts: Texts = _NO_TEXTS) -> list[dict[str, Any]]:
    """Return the rows of `batch` as dicts; maps are dicts too, UTC times have `datetime.UTC`.

    A time that Python has no exact object for is its number, as a row that is produced may have it.
    Of columns that are dictionaries `texts` has the values.
    """
    names = batch.schema.names
    columns = [
        _looked_up(column, texts[name]) if name in texts else _to_list(column)
        for name, column in zip(names, batch.columns, strict=True)
    ]
    return _builder(tuple(names))(zip(*columns, strict=True))


def read_texts(batch: pa.RecordBatch) -> Texts:
    """Return the values of columns that are dictionaries, each as one object for all its rows."""
    return {
        name: [*column.dictionary.to_pylist(), None]
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if pa.types.is_dictionary(column.type)
    }


def _looked_up(column: pa.DictionaryArray, values: list[Any]) -> list[Any]:
    indices = column.indices
    if indices.null_count:
        indices = indices.fill_null(-1)
    return [values[index] for index in indices.to_pylist()]


@lru_cache(maxsize=100)
def _builder(names: tuple[str, ...]) -> Build:
    """Return what makes dicts with these keys of their values, given as tuples.

    They are attributes of objects of one class, which share their keys: to make them takes a third
    of the time that it takes `dict`, and they take half of the memory.
    """

    class Row:
        """Has these attributes."""

    if not 0 < len(names) <= _SHARED or any(hasattr(Row, name) for name in names):
        return lambda rows: [dict(zip(names, values, strict=True)) for values in rows]
    # Any string may be a name: none is put into the text, which has a0, a1, … for them.
    given = {f"a{number}": name for number, name in enumerate(names)}
    scope: dict[str, Any] = {"Row": Row}
    text = _LOOP.format(attributes=", ".join(f"row.{each}" for each in given))
    exec(text, scope)  # noqa: S102 - nothing of it comes from outside
    build: Any = scope["build"]
    code = build.__code__
    build.__code__ = code.replace(co_names=tuple(given.get(each, each) for each in code.co_names))
    return build  # type: ignore[no-any-return]


def _to_list(column: pa.Array) -> list[Any]:
    """Return a column's values; the same as pyarrow's, several times faster where it is slow."""
    if pa.types.is_temporal(column.type):
        # Times repeat, and each costs pyarrow microseconds: convert the distinct ones.
        encoded = column.dictionary_encode()
        return _looked_up(encoded, [*_times(encoded.dictionary), None])
    # Asking for dicts costs every type of column pyarrow's fast path.
    if not pa.types.is_nested(column.type):
        return list(column.to_pylist())
    if not _has_nanoseconds(column.type):
        try:
            return list(column.to_pylist(maps_as_pydicts="strict"))
        except (ValueError, OverflowError):  # a time in it that Python has no object for
            pass
    return list(map(_value, column))


def _times(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz == "UTC" and kind.unit in ("ms", "us"):
        scale = 1000 if kind.unit == "ms" else 1
        ticks = column.cast(pa.int64()).to_pylist()
        try:
            return [_EPOCH + datetime.timedelta(0, 0, tick * scale) for tick in ticks]
        except OverflowError:
            pass
    return list(map(_time, column))


def _time(scalar: pa.Scalar) -> Any:
    """Return Python's object for a time, or its number where none is exact."""
    kind = scalar.type
    if _has_nanoseconds(kind):
        if scalar.value % 1000:
            return scalar.value
        # pyarrow would return a pandas object, or nothing where there is no pandas.
        return _time(scalar.cast(_MICROSECONDS[type(kind)](kind)))
    try:
        return scalar.as_py()
    except Exception:  # noqa: BLE001 - of whatever module knows the zones
        return scalar.value


_MICROSECONDS: Final[dict[type, Callable[[Any], pa.DataType]]] = {
    pa.TimestampType: lambda kind: pa.timestamp("us", kind.tz),
    pa.Time64Type: lambda _: pa.time64("us"),
    pa.DurationType: lambda _: pa.duration("us"),
}


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_nanoseconds(kind.field(i).type) for i in range(kind.num_fields))
    return getattr(kind, "unit", None) == "ns"


def _value(scalar: pa.Scalar) -> Any:
    """Return a value as `to_rows` has it, whatever is inside: slowly."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_map(kind):
        pairs = [(_value(each[0]), _value(each[1])) for each in scalar.values]
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a map has the same key twice")
        return found
    if pa.types.is_struct(kind):
        return {kind.field(i).name: _value(scalar[i]) for i in range(kind.num_fields)}
    if pa.types.is_nested(kind):
        return [_value(each) for each in scalar.values]
    return _time(scalar) if pa.types.is_temporal(kind) else scalar.as_py()
