"""Copies values that nest or can change, checking and measuring them in the same pass."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns import older_arrow, range_checks
from columnar_kafka.columns.columns_to_rows import to_values
from columnar_kafka.columns.from_rows.accepted_types import AcceptedTypes, show
from columnar_kafka.columns.from_rows.converters import converter, misfit
from columnar_kafka.columns.from_rows.row_objects import ROW_TYPES, RowReader
from columnar_kafka.columns.from_rows.union_values import UnionReader
from columnar_kafka.errors import RowError
from columnar_kafka.schema.unions import is_union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.schema import RecordSchema

__all__ = ["copier", "element", "union"]

_VALUE_BYTES: Final = 40  # a value's object, or later its bytes in the column, whichever is more

Copy = Callable[[Any], tuple[Any, int]]
"""Copies a value that is not None: returns one that cannot be changed, and the bytes inside it."""


def copier(field: pa.Field, path: str, schema: RecordSchema) -> Copy | None:
    """Return the function that copies and checks a field's non-null values, or None if none must.

    Args:
        field: the field.
        path: its path, for messages and to look it up in `schema`.
        schema: of the record that holds the field.
    """
    arrow = field.type
    if path in schema.symbols:
        return _enum(path, schema.symbols[path])
    if path in schema.uuids:
        return _uuid_text if pa.types.is_string(arrow) else _uuid_bytes
    if pa.types.is_nested(arrow):
        return _nested(arrow, path, schema)
    return _binary if AcceptedTypes(field, path).is_binary else None


def _nested(arrow: pa.DataType, path: str, schema: RecordSchema) -> Copy:
    if pa.types.is_struct(arrow):
        return union(list(arrow), path, schema) if is_union(arrow) else _struct(arrow, path, schema)
    return (_map if pa.types.is_map(arrow) else _list)(arrow, path, schema)


def _utf8_bytes(text: str, path: str) -> int:
    """Return the most bytes that a text takes, as Python's object or in its column."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RowError(f"field {path!r}: {show(text)}: {error}") from None
    return 4 * len(text)


def _binary(value: Any) -> tuple[Any, int]:
    """Copy a buffer that can change; the type check judges everything else."""
    return (bytes(value) if isinstance(value, bytearray | memoryview) else value), 0


def _uuid_text(value: Any) -> tuple[Any, int]:
    return (str(value) if isinstance(value, uuid.UUID) else value), 0


def _uuid_bytes(value: Any) -> tuple[Any, int]:
    return _binary(value.bytes if isinstance(value, uuid.UUID) else value)


def _enum(path: str, symbols: frozenset[str]) -> Copy:
    def copy(value: Any) -> tuple[Any, int]:
        if not isinstance(value, str) or value not in symbols:
            allowed = ", ".join(sorted(symbols))
            raise RowError(f"field {path!r} is {show(value)}; its enum has {allowed}")
        return str.__str__(value), 0  # the symbol, not Python's enum member for it

    return copy


def element(field: pa.Field, path: str, schema: RecordSchema) -> Copy:
    """Return the function that copies, checks and measures a field's values, also null."""
    accepted = AcceptedTypes(field, path)
    inner = copier(field, path, schema)
    judge = _judge(field, accepted, inner)
    if inner is None:
        return _common(accepted, range_checks.surely_fits(field.type), judge)
    if not pa.types.is_nested(field.type):
        return judge

    def copy(value: Any) -> tuple[Any, int]:
        if value is None:
            return judge(value)
        value, nbytes = inner(value)
        return value, nbytes + _VALUE_BYTES

    return copy


def _common(accepted: AcceptedTypes, surely_fits: Callable[[Any], bool], judge: Copy) -> Copy:
    """Return a function that takes the common values of a field at once, and has others judged."""
    exact = accepted.exact - {type(None)}
    if accepted.is_text:
        return lambda value: (
            (value, _VALUE_BYTES + len(value))
            if type(value) is str and value.isascii()
            else judge(value)
        )
    if accepted.is_binary or accepted.is_local:
        return judge
    return lambda value: (
        (value, _VALUE_BYTES) if type(value) in exact and surely_fits(value) else judge(value)
    )


def _judge(field: pa.Field, accepted: AcceptedTypes, inner: Copy | None) -> Copy:
    path = accepted.path
    surely_fits = range_checks.surely_fits(field.type)
    convert = converter(field.type)

    def copy(value: Any) -> tuple[Any, int]:
        nbytes = _VALUE_BYTES
        if inner is not None and value is not None:
            value, more = inner(value)
            nbytes += more
        if type(value) not in accepted.exact and not accepted.accepts(type(value)):
            raise accepted.mismatch(value)
        if value is None:
            return value, nbytes
        if accepted.is_text:
            nbytes += len(value) if value.isascii() else _utf8_bytes(value, path)
        elif accepted.is_binary:
            nbytes += len(value)
        elif accepted.is_local:
            accepted.check_zone(value)
        if not surely_fits(value) and (error := misfit(path, convert, value)):
            raise error
        return value, nbytes

    return copy


def _list(arrow: pa.DataType, path: str, schema: RecordSchema) -> Copy:
    copy_item = element(arrow.value_field, f"{path}.item", schema)

    def copy(value: Any) -> tuple[Any, int]:
        if type(value) is not list and not _is_list(value):
            raise RowError(f"field {path!r} is {show(value)}; its schema wants a list")
        values, nbytes = [], _VALUE_BYTES
        for original in value:
            item, more = copy_item(original)
            values.append(item)
            nbytes += more
        return values, nbytes

    return copy


def _is_list(value: Any) -> bool:
    # An iterator would be exhausted if the record had to be produced again.
    return isinstance(value, Iterable) and not isinstance(
        value, str | bytes | bytearray | Mapping | Iterator
    )


def _map(arrow: pa.DataType, path: str, schema: RecordSchema) -> Copy:
    copy_key = element(arrow.key_field, f"{path}.key", schema)
    copy_item = element(arrow.item_field, f"{path}.value", schema)
    has_distinct_keys = range_checks.has_distinct_keys(arrow)
    is_zoned = pa.types.is_timestamp(arrow.key_type) and arrow.key_type.tz is not None

    def count_distinct(keys: list[Any]) -> int:
        if has_distinct_keys:
            return len(set(keys))
        values = to_values(older_arrow.array(keys, type=arrow.key_type))
        if is_zoned:
            # pytz, which is pyarrow 17's, tells apart the instants of an hour that repeats.
            # Integers are times that Python does not have.
            values = [
                value if isinstance(value, int) else value.replace(tzinfo=None) for value in values
            ]
        return len(set(values))

    def copy(value: Any) -> tuple[Any, int]:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise RowError(f"field {path!r} is {show(value)}; its schema wants a dict")
        keys, items, nbytes = [], [], _VALUE_BYTES
        for original_key, original in value.items():
            key, key_bytes = copy_key(original_key)
            item, item_bytes = copy_item(original)
            keys.append(key)
            items.append(item)
            nbytes += key_bytes + item_bytes
        # A map with two keys that are read as equal ones could not be read back as a dict.
        if count_distinct(keys) < len(keys):
            raise RowError(f"field {path!r} has two keys that are equal as {arrow.key_type}")
        return list(zip(keys, items, strict=True)), nbytes

    return copy


def _struct(arrow: pa.DataType, path: str, schema: RecordSchema) -> Copy:
    fields = list(arrow)
    reader = RowReader([field.name for field in fields], f"{path}.", schema.defaults)
    copiers = [element(field, f"{path}.{field.name}", schema) for field in fields]

    def copy(value: Any) -> tuple[Any, int]:
        originals = reader.values(value)
        if originals is None:
            raise RowError(
                f"field {path!r} is {show(value)}; its schema wants a record: {ROW_TYPES}"
            )
        values, nbytes = [], _VALUE_BYTES
        for copy_field, original in zip(copiers, originals, strict=True):
            value, more = copy_field(original)
            values.append(value)
            nbytes += more
        return tuple(values), nbytes

    return copy


def _branch(field: pa.Field, path: str, schema: RecordSchema) -> Copy:
    """Return what copies a branch's values: its bytes must have their length to be of this one."""
    copy = element(field, path, schema)
    if not pa.types.is_fixed_size_binary(field.type):
        return copy
    convert = converter(field.type)

    def copy_fixed(value: Any) -> tuple[Any, int]:
        copied, nbytes = copy(value)
        if (error := misfit(path, convert, copied)) is not None:
            raise error
        return copied, nbytes

    return copy_fixed


def union(fields: Sequence[pa.Field], path: str, schema: RecordSchema) -> Copy:
    """Return the function that copies, checks and measures values of a union with these members."""
    prefix = f"{path}." if path else ""
    reader = UnionReader(
        fields,
        path,
        [_branch(field.with_nullable(False), f"{prefix}{field.name}", schema) for field in fields],
    )
    nulls = _VALUE_BYTES * len(fields)

    def copy(value: Any) -> tuple[Any, int]:
        members, nbytes = reader.copy(value)
        return members, nbytes + nulls

    return copy
