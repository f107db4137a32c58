"""Rows to columns in Python and pyarrow: rows are buffered in chunks and converted a chunk at once.

pyarrow converts more than a producer may: it stores 1.5 as the integer 1 and b"x" as a string.
So the Python types of a chunk are looked at, a column at a time, before Arrow sees them.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import bounds
from columnar_kafka.columns.base import Converted, Refusal
from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from columnar_kafka.schema import RecordSchema

__all__ = ["CHUNK_ROWS", "PureColumns"]

CHUNK_ROWS: Final = 1024
"""Rows converted at once: enough for Arrow's speed, few enough to find a bad one early."""

_SHOWN: Final = 80

_ROW_BYTES: Final = 256  # a record's own objects: the tuple of values, its place in the lists
_VALUE_BYTES: Final = 40  # a value's object, or later its bytes in the column, whichever is more

_NONE: Final = type(None)

Freeze = Callable[[Any], tuple[Any, int]]


class PureColumns:
    """Implements `Columns` for one schema."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema.arrow
        self._names = schema.arrow.names
        self._defaults = schema.defaults
        self._get = _getter(self._names)
        self._struct = pa.struct(list(schema.arrow))
        self._base = _ROW_BYTES + _VALUE_BYTES * len(self._names)
        self._allowed = [_allowed_types(each.type, each.nullable) for each in schema.arrow]
        self._narrow = [i for i, each in enumerate(schema.arrow) if bounds.narrows(each.type)]
        self._timed = [
            i for i, each in enumerate(schema.arrow) if bounds.has_times_of_day(each.type)
        ]
        self._sized = [i for i, each in enumerate(schema.arrow) if _is_text(each.type)]
        self._frozen = [
            (i, freeze)
            for i, each in enumerate(schema.arrow)
            if (freeze := _freezer(each, each.name, schema.symbols)) is not None
        ]

    def take(self, row: Any) -> tuple[tuple[Any, ...], int]:
        """See `Columns.take`."""
        try:
            values = self._get(row)
        except (KeyError, TypeError):
            values = self._fill(row)
        else:
            if len(row) != len(self._names):
                self._refuse_extra(row)
        nbytes = self._base
        for i in self._sized:
            value = values[i]
            if value is not None:
                try:
                    # A character is up to 4 bytes; how many is known when the chunk is converted.
                    ascii_only = type(value) is not str or value.isascii()
                    nbytes += len(value) if ascii_only else 4 * len(value)
                except TypeError:  # of a wrong type: found when its chunk is converted
                    continue
        if self._frozen:
            values, more = self._freeze(values)
            nbytes += more
        return values, nbytes

    def builder(self) -> PureBuilder:
        """See `Columns.builder`."""
        return PureBuilder(self)

    def _fill(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of a row that leaves fields to their defaults."""
        if not isinstance(row, Mapping):
            raise TypeError(f"a row is a dict, not {type(row).__name__}")
        values = []
        for name in self._names:
            if name in row:
                values.append(row[name])
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                raise RowError(f"field {name!r} is missing, and has no default")
        self._refuse_extra(row)
        return tuple(values)

    def _refuse_extra(self, row: Mapping[str, Any]) -> None:
        extra = [name for name in row if name not in self._names]
        if extra:
            raise RowError(
                f"field {extra[0]!r} is not in the topic's schema, which has "
                f"{', '.join(map(str, self._names))}"
            )

    def _freeze(self, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], int]:
        frozen = list(values)
        nbytes = 0
        for i, freeze in self._frozen:
            if frozen[i] is not None:
                frozen[i], more = freeze(frozen[i])
                nbytes += more
        return tuple(frozen), nbytes

    def convert(self, rows: Sequence[tuple[Any, ...]]) -> Converted:
        """Return the columns of `rows`; a row that does not fit is refused alone."""
        errors = self._mistyped(rows)
        try:
            batch = self._to_batch(_without(rows, errors))
        except Exception as error:  # noqa: BLE001 - whatever it is, it must take no other along
            found = self._unconvertible(rows, errors)
            errors |= found or dict.fromkeys(range(len(rows)), RowError(str(error)))
            batch = self._to_batch(_without(rows, errors))
        if any(bounds.strays(batch.column(i)) for i in self._timed):
            errors |= self._strayed(rows, errors)
            batch = self._to_batch(_without(rows, errors))
        refused = {
            i: Refusal(error, dict(zip(self._names, rows[i], strict=True)))
            for i, error in errors.items()
        }
        return Converted(batch, refused)

    def _to_batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        struct = pa.array(rows, type=self._struct, size=len(rows))
        batch = pa.RecordBatch.from_struct_array(struct)
        return batch.replace_schema_metadata(self.schema.metadata)

    def _mistyped(self, rows: Sequence[tuple[Any, ...]]) -> dict[int, RowError]:
        """Return the rows in which a value's Python type is not one its field takes."""
        refused: dict[int, RowError] = {}
        columns = zip(*rows, strict=True)
        for each, allowed, column in zip(self.schema, self._allowed, columns, strict=False):
            if not set(map(type, column)) <= allowed:
                for i, value in enumerate(column):
                    if i not in refused and not _is_allowed(value, allowed, each.type):
                        refused[i] = _wrong(each.name, each.type, each.nullable, value)
        for index in self._narrow:
            refused |= self._too_large(index, rows, refused)
        return refused

    def _too_large(
        self, column: int, rows: Sequence[tuple[Any, ...]], refused: Mapping[int, RowError]
    ) -> dict[int, RowError]:
        """Return the rows whose number a narrow float would make infinite."""
        each = self.schema.field(column)
        values = {
            i: row[column]
            for i, row in enumerate(rows)
            if i not in refused and row[column] is not None
        }
        if bounds.fit(each.type, list(values.values())):
            return {}
        return {
            i: _wrong(each.name, each.type, each.nullable, value)
            for i, value in values.items()
            if not bounds.fit(each.type, [value])
        }

    def _strayed(
        self, rows: Sequence[tuple[Any, ...]], refused: Mapping[int, RowError]
    ) -> dict[int, RowError]:
        """Return the rows, besides those refused already, with a time that no day has."""
        found = {}
        for i, row in enumerate(rows):
            if i not in refused:
                batch = self._to_batch([row])
                for column in self._timed:
                    if bounds.strays(batch.column(column)):
                        name = self.schema.field(column).name
                        found[i] = RowError(
                            f"field {name!r} is {_show(row[column])}: no day has such a time"
                        )
                        break
        return found

    def _unconvertible(
        self, rows: Sequence[tuple[Any, ...]], refused: Mapping[int, RowError]
    ) -> dict[int, RowError]:
        """Return the rows, besides those refused already, that Arrow cannot convert."""
        found = {}
        for i, row in enumerate(rows):
            if i not in refused:
                error = self._first_error(row)
                if error is not None:
                    found[i] = error
        return found

    def _first_error(self, row: tuple[Any, ...]) -> RowError | None:
        for each, value in zip(self.schema, row, strict=True):
            try:
                pa.array([value], type=each.type)
            except Exception as error:  # noqa: BLE001 - Arrow raises many kinds
                return RowError(f"field {each.name!r}: {_show(value)}: {error}")
        return None


class PureBuilder:
    """Buffers one chunk of rows."""

    def __init__(self, columns: PureColumns) -> None:
        self._columns = columns
        self._rows: list[tuple[Any, ...]] = []
        self.append = self._rows.append
        self.capacity = CHUNK_ROWS

    def __len__(self) -> int:
        return len(self._rows)

    def finish(self) -> Converted:
        """See `Builder.finish`."""
        return self._columns.convert(self._rows)


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return operator.itemgetter(*names)
    only = names[0]
    return lambda row: (row[only],)


def _without(
    rows: Sequence[tuple[Any, ...]], refused: Mapping[int, RowError]
) -> Sequence[tuple[Any, ...]]:
    return [row for i, row in enumerate(rows) if i not in refused] if refused else rows


# --- which Python types a field takes -----------------------------------------------------------


def _is_text(arrow: pa.DataType) -> bool:
    return _kind(arrow) in ("string", "binary")


def _kind(arrow: pa.DataType) -> str:
    """Return the family whose Python types a type of value shares."""
    for kind, tests in _KINDS.items():
        if any(test(arrow) for test in tests):
            return kind
    return "nested"


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
    "nested": frozenset({tuple, list, dict}),
}
_ABSTRACT: Final[dict[str, tuple[type, ...]]] = {
    "integer": (numbers.Integral,),
    "float": (numbers.Real,),
    "decimal": (decimal.Decimal,),
    "time": (datetime.time,),
    "timestamp": (datetime.datetime, numbers.Integral),
    "duration": (datetime.timedelta,),
    "string": (str,),
    "binary": (bytes,),
}


def _allowed_types(arrow: pa.DataType, nullable: bool) -> frozenset[type]:
    return _PYTHON[_kind(arrow)] | ({_NONE} if nullable else set())


def _is_allowed(value: Any, allowed: frozenset[type], arrow: pa.DataType) -> bool:
    """Say whether a field takes `value`: a type of `allowed`, or a kin of one (numpy, enum)."""
    if type(value) in allowed:
        return True
    if value is None or isinstance(value, bool):
        return False
    return isinstance(value, _ABSTRACT.get(_kind(arrow), ()))


def _wrong(path: str, arrow: pa.DataType, nullable: bool, value: Any) -> RowError:
    if value is None:
        return RowError(f"field {path!r} is null, and its schema does not allow null")
    want = f"{arrow}" + (" or null" if nullable else "")
    return RowError(f"field {path!r} is {_show(value)}; its schema wants {want}")


def _show(value: Any) -> str:
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str | bytes) else value)
    except Exception:  # noqa: BLE001 - the value is wrong, and so is its class
        text = "(its repr() fails)"
    return f"{type(value).__name__} {text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}"


# --- taking nested values by value --------------------------------------------------------------


def _freezer(each: pa.Field, path: str, symbols: Mapping[str, frozenset[str]]) -> Freeze | None:
    """Return what copies and checks a field's non-null values, or None where none is needed."""
    arrow = each.type
    if path in symbols:
        return _enum(path, symbols[path])
    if pa.types.is_struct(arrow):
        return _struct_freezer(arrow, path, symbols)
    if pa.types.is_map(arrow):
        return _map_freezer(arrow, path, symbols)
    if pa.types.is_nested(arrow):
        return _list_freezer(arrow, path, symbols)
    return _binary if _kind(arrow) == "binary" else None


def _binary(value: Any) -> tuple[Any, int]:
    """Copy what can still change; anything else is judged with its chunk."""
    return (bytes(value) if isinstance(value, bytearray | memoryview) else value), 0


def _enum(path: str, symbols: frozenset[str]) -> Freeze:
    def freeze(value: Any) -> tuple[Any, int]:
        if not isinstance(value, str) or value not in symbols:
            allowed = ", ".join(sorted(symbols))
            raise RowError(f"field {path!r} is {_show(value)}; its enum has {allowed}")
        return value, 0

    return freeze


def _element(each: pa.Field, path: str, symbols: Mapping[str, frozenset[str]]) -> Freeze:
    """Return what copies, checks and measures any value inside a nested field, null included."""
    allowed = _allowed_types(each.type, each.nullable)
    inner = _freezer(each, path, symbols)
    sized = _is_text(each.type)
    narrow = bounds.narrows(each.type)

    def freeze(value: Any) -> tuple[Any, int]:
        nbytes = _VALUE_BYTES
        if inner is not None and value is not None:
            value, more = inner(value)
            nbytes += more
        if not _is_allowed(value, allowed, each.type):
            raise _wrong(path, each.type, each.nullable, value)
        if narrow and value is not None and not bounds.fit(each.type, [value]):
            raise _wrong(path, each.type, each.nullable, value)
        return value, nbytes + (len(value) if sized and value is not None else 0)

    return freeze


def _sum(pairs: Iterable[tuple[Any, int]]) -> tuple[list[Any], int]:
    values = []
    nbytes = _VALUE_BYTES
    for value, more in pairs:
        values.append(value)
        nbytes += more
    return values, nbytes


def _list_freezer(arrow: pa.DataType, path: str, symbols: Mapping[str, frozenset[str]]) -> Freeze:
    item = _element(arrow.value_field, f"{path}.item", symbols)

    def freeze(value: Any) -> tuple[Any, int]:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise RowError(f"field {path!r} is {_show(value)}; its schema wants a list")
        return _sum(map(item, value))

    return freeze


def _map_freezer(arrow: pa.DataType, path: str, symbols: Mapping[str, frozenset[str]]) -> Freeze:
    take_key = _element(arrow.key_field, f"{path}.key", symbols)
    take_item = _element(arrow.item_field, f"{path}.value", symbols)
    merges = bounds.narrows(arrow.key_type) or pa.types.is_temporal(arrow.key_type)

    def pair(key: Any, item: Any) -> tuple[tuple[Any, Any], int]:
        (key, more), (item, most) = take_key(key), take_item(item)
        return (key, item), more + most

    def freeze(value: Any) -> tuple[Any, int]:
        if not isinstance(value, Mapping):
            raise RowError(f"field {path!r} is {_show(value)}; its schema wants a dict")
        pairs, nbytes = _sum(starmap(pair, value.items()))
        if merges:
            # Two keys that are one key in the column could not be read back as a dict.
            keys = pa.array([key for key, _ in pairs], type=arrow.key_type)
            if len(keys.unique()) < len(keys):
                raise RowError(f"field {path!r} has two keys that are equal as {arrow.key_type}")
        return pairs, nbytes

    return freeze


def _struct_freezer(arrow: pa.DataType, path: str, symbols: Mapping[str, frozenset[str]]) -> Freeze:
    fields = [arrow.field(i) for i in range(arrow.num_fields)]
    names = [each.name for each in fields]
    takers = [_element(each, f"{path}.{each.name}", symbols) for each in fields]

    def freeze(value: Any) -> tuple[Any, int]:
        if not isinstance(value, Mapping):
            raise RowError(f"field {path!r} is {_show(value)}; its schema wants a dict")
        for name in names:
            if name not in value:
                raise RowError(f"field {f'{path}.{name}'!r} is missing")
        for name in value:
            if name not in names:
                raise RowError(f"field {f'{path}.{name}'!r} is not in the topic's schema")
        values, nbytes = _sum(take(value[name]) for name, take in zip(names, takers, strict=True))
        return tuple(values), nbytes

    return freeze
