"""How a topic's schema may grow: its segments stay one table, whichever schema each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.canonical import children, type_name
from columnar_kafka.schema.unions import BRANCH, branch_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.schema.record_schema import RecordSchema

__all__ = ["check_growth", "merged"]

_LARGE: Final = {"string": "large_string", "binary": "large_binary", "list": "large_list"}


def check_growth(old: RecordSchema, new: RecordSchema) -> None:
    """Check that records of `new` may follow records of `old` on one topic.

    Fields may move, become nullable, and be added as nullable. A type may become one that holds
    every value of the old: a wider integer (also from unsigned to signed), a wider float or decimal
    of the same scale, or the large layout of text, bytes or lists. The same holds inside records,
    lists and maps. A union may get branches behind those that it has. Other metadata, and Avro's
    enums and defaults, may change freely.

    Raises:
        SchemaError: a field changes otherwise; names the first one, and what to do.
    """
    _check_fields(list(old.arrow), list(new.arrow), "")


def merged(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return the columns that both schemas' records fit, whichever came first.

    Of each field it is the wider type; what only one has, or may have null, may be null.

    Raises:
        SchemaError: neither type of a field is a wider form of the other; names the first one.
    """
    return pa.schema(_merged_fields(list(one), list(other), ""))


def _merged_fields(one: list[pa.Field], other: list[pa.Field], prefix: str) -> list[pa.Field]:
    left = {field.name: field for field in other}
    names = {field.name for field in one}
    alone = [field.with_nullable(True) for field in other if field.name not in names]
    return [
        _merged_field(field, left[field.name], f"{prefix}{field.name}")
        if field.name in left
        else field.with_nullable(True)
        for field in one
    ] + alone


def _merged_field(one: pa.Field, other: pa.Field, path: str) -> pa.Field:
    if not _widens(one.type, other.type):
        if not _widens(other.type, one.type):
            raise SchemaError(
                f"field {path!r} is {_shown(one)} and {_shown(other)}, and neither is a wider form"
            )
        one, other = other, one
    if branch_of(one) != branch_of(other):
        raise SchemaError(
            f"field {path!r} is the branch {branch_of(one)!r} of a union, and "
            f"{branch_of(other)!r}: a union's branches keep their order"
        )
    arrow = _merged_type(one.type, other.type, path)
    metadata = None if branch_of(other) is None else {BRANCH: (other.metadata or {})[BRANCH]}
    return pa.field(other.name, arrow, one.nullable or other.nullable, metadata)


def _merged_type(narrow: pa.DataType, wide: pa.DataType, path: str) -> pa.DataType:
    """Return a type for the values of both, of which `wide` is the wider one."""
    if pa.types.is_struct(wide):
        return pa.struct(_merged_fields(list(narrow), list(wide), f"{path}."))
    inner = [
        _merged_field(before, after, f"{path}.{name}")
        for (name, before), (_, after) in zip(children(narrow), children(wide), strict=True)
    ]
    if not inner:
        return wide
    if pa.types.is_map(wide):
        return pa.map_(inner[0], inner[1])
    return pa.list_(inner[0]) if pa.types.is_list(wide) else pa.large_list(inner[0])


def _check_fields(old: Iterable[pa.Field], new: Iterable[pa.Field], prefix: str) -> None:
    left = {field.name: field for field in new}
    for field in old:
        path = f"{prefix}{field.name}"
        if field.name not in left:
            raise SchemaError(
                f"field {path!r} ({_shown(field)}) is missing, but earlier records have it: "
                "keep it, nullable if it may be empty, or use another topic"
            )
        _check_field(field, left.pop(field.name), path)
    for field in left.values():
        if not field.nullable:
            raise SchemaError(
                f"field {f'{prefix}{field.name}'!r} ({_shown(field)}) is new and cannot be null, "
                "but earlier records lack it: make it nullable, or use another topic"
            )


def _check_field(old: pa.Field, new: pa.Field, path: str) -> None:
    if old.nullable and not new.nullable:
        raise SchemaError(
            f"field {path!r} was {_shown(old)} and is {_shown(new)}, but earlier records may "
            "have null: keep it nullable, or use another topic"
        )
    if branch_of(old) != branch_of(new):
        was, now = (
            f"a union's {name!r}" if name else "none" for name in map(branch_of, (old, new))
        )
        raise SchemaError(
            f"field {path!r} was {was} and is {now}, as which earlier records would be read: keep "
            "a union's branches and their order, and add others behind them, or use another topic"
        )
    if not _widens(old.type, new.type):
        raise SchemaError(
            f"field {path!r} was {_shown(old)} and is {_shown(new)}, which is not a wider form: "
            f"keep {type_name(old.type)} or widen it, add a nullable field beside it, "
            "or use another topic"
        )
    prefix = f"{path}."
    if pa.types.is_struct(old.type):
        _check_fields(list(old.type), list(new.type), prefix)
        return
    pairs = zip(children(old.type), children(new.type), strict=True)
    for (name, before), (_, after) in pairs:
        _check_field(before, after, f"{prefix}{name}")


def _shown(field: pa.Field) -> str:
    return type_name(field.type) + (" or null" if field.nullable else "")


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Say whether `new` is `old` or holds all of its values, types inside them aside."""
    if type_name(old) == type_name(new) or _LARGE.get(type_name(old)) == type_name(new):
        return True
    is_unsigned = pa.types.is_unsigned_integer
    if pa.types.is_integer(old) and pa.types.is_integer(new):
        return new.bit_width > old.bit_width and bool(is_unsigned(old) or not is_unsigned(new))
    if pa.types.is_floating(old) and pa.types.is_floating(new):
        return bool(new.bit_width > old.bit_width)
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        more = new.precision > old.precision and new.bit_width >= old.bit_width
        return bool(more and new.scale == old.scale)
    return False
