"""How the values of columns are encoded in Avro, of which Arrow's types say most.

What they do not say is a *form*, by a field's path: of a column of text that its values are the
symbols of an enum, of one that may be null where null stands in the union, and so on. A form is
``"int"`` or another type's name, ``{"enum": [symbols]}``, ``{"fixed": bytes}``, or a list of these,
which is a union. Of several types that a column can hold, a value is encoded as the first that has
it, but as a double, not as a float. That is what fastavro does, too.

The form of a column that is a union itself, with a member for each branch, is the list of its
members' names, with ``"null"`` where that stands. Each member has a form of its own, without null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.to_avro import AVRO_TYPES
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import is_union, is_union_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["AvroType", "Form", "avro_types", "described", "forms"]

AvroType = tuple[str, Any]
"""A type as the native core reads it: its name, and what there is to say of it."""
Form = Any
"""See above; as JSON has it."""

_USUAL: Final = {
    arrow: avro if isinstance(avro, str) else avro["type"] for arrow, avro in AVRO_TYPES.items()
}
_NULL: Final = ("null", None)
_NARROW: Final = (("int", "long"), ("float", "double"))
_MOST_BRANCHES: Final = 32
_MOST_DECIMAL: Final = 256
"""The bytes of a decimal: a file of few bytes must not become a value of many."""
_NESTED: Final = {"struct": "record", "map": "map", "list": "array"}
_INNER: Final = {"array": "items", "map": "values"}


def described(avro: Any) -> AvroType:
    """Return an expanded Avro type as the native core reads it."""
    if isinstance(avro, list):
        return "union", list(map(described, avro))
    if not isinstance(avro, dict):
        return avro, None
    name = avro["type"]
    if name == "fixed":
        return name, avro["size"]
    if name == "enum":
        return name, list(avro["symbols"])
    if name in ("record", "error"):
        return "record", [described(field["type"]) for field in avro["fields"]]
    return name, described(avro[_INNER[name]]) if name in _INNER else None


def forms(
    columns: Iterable[pa.Field], types: Iterable[AvroType], prefix: str = ""
) -> Iterator[tuple[str, Form]]:
    """Yield the paths and forms of fields that are not encoded as their Arrow types say.

    Args:
        columns: the fields of a record.
        types: theirs, in the same order.
        prefix: what stands in front of their paths.

    Raises:
        SchemaError: Avro does not have a column's type.
    """
    for field, avro in zip(columns, types, strict=True):
        yield from _forms(field, avro, f"{prefix}{field.name}")


def _forms(field: pa.Field, avro: AvroType, path: str) -> Iterator[tuple[str, Form]]:
    arrow = field.type
    if avro[0] == "union" and is_union(arrow):
        members = dict(zip(arrow, (branch for branch in avro[1] if branch != _NULL), strict=True))
        names = (member.name for member in arrow)
        form = ["null" if branch == _NULL else next(names) for branch in avro[1]]
        if form != _usual_union(field):
            yield path, form
        yield from forms(members, members.values(), f"{path}.")
        return
    form = _form(avro)
    if form != _usual_of(field, path):
        yield path, form
    branches = avro[1] if avro[0] == "union" else [avro]
    for name, inner in branches:
        if name == "record":
            yield from forms(arrow, inner, f"{path}.")
        elif name == "array":
            yield from _forms(arrow.value_field, inner, f"{path}.item")
        elif name == "map":
            yield from _forms(arrow.item_field, inner, f"{path}.value")


def _form(avro: AvroType) -> Form:
    name, details = avro
    if name == "union":
        return list(map(_form, details))
    return {name: details} if name in ("enum", "fixed") else name


def avro_types(
    columns: Iterable[pa.Field], said: Mapping[str, Form], prefix: str = ""
) -> list[AvroType]:
    """Return the types of a record's fields, of which forms are `said` by their paths.

    Raises:
        SchemaError: Avro does not have a column's type, or the column cannot have a form.
    """
    fields = list(columns)
    if not prefix and is_union_of_rows(fields):
        return _members(fields, said, prefix)
    return [_avro_type(field, f"{prefix}{field.name}", said) for field in fields]


def _members(members: Iterable[pa.Field], said: Mapping[str, Form], prefix: str) -> list[AvroType]:
    """Return the types of a union's members: each is null where another one is not."""
    return [
        _avro_type(member.with_nullable(False), f"{prefix}{member.name}", said)
        for member in members
    ]


def _union_type(field: pa.Field, path: str, said: Mapping[str, Form]) -> AvroType:
    usual = _usual_union(field)
    form = said.get(path, usual)
    if type(form) is not list or sorted(map(str, form)) != sorted(usual):
        raise SchemaError(f"field {path!r} is a union, which cannot be {form!r} in Avro")
    types = iter(_members(field.type, said, f"{path}."))
    return "union", [_NULL if branch == "null" else next(types) for branch in form]


def _usual_union(field: pa.Field) -> list[str]:
    names = [member.name for member in field.type]
    return ["null", *names] if field.nullable else names


def _avro_type(field: pa.Field, path: str, said: Mapping[str, Form]) -> AvroType:
    if is_union(field.type):
        return _union_type(field, path, said)
    form = said[path] if path in said else _usual_of(field, path)
    branches = form if type(form) is list else [form]
    if len(branches) > _MOST_BRANCHES:
        raise SchemaError(f"field {path!r} is a union of more than {_MOST_BRANCHES} types in Avro")
    usual = _usual(field.type, path)
    types: list[AvroType] = []
    for branch in branches:
        if branch == "null":
            types.append(("null", None))
        elif branch == usual and type(branch) is str:
            types.append((branch, _inside(field.type, branch, path, said)))
        elif _may_be(branch, usual, field.type):
            types.append((branch, None) if type(branch) is str else next(iter(branch.items())))
        else:
            raise SchemaError(f"field {path!r} is {field.type}, which cannot be {branch!r} in Avro")
    nulls = sum(name == "null" for name, _ in types)
    if nulls != field.nullable or nulls == len(types):
        may = "may" if field.nullable else "may not"
        raise SchemaError(f"field {path!r} {may} be null, which {form!r} in Avro does not say")
    return ("union", types) if type(form) is list else types[0]


def _inside(arrow: Any, name: str, path: str, said: Mapping[str, Form]) -> Any:
    if name == "record":
        return avro_types(arrow, said, f"{path}.")
    if name == "array":
        return _avro_type(arrow.value_field, f"{path}.item", said)
    if name == "map":
        return _avro_type(arrow.item_field, f"{path}.value", said)
    return None


def _may_be(form: Form, usual: Form, arrow: pa.DataType) -> bool:
    """Say whether a form that is not a type's usual one has some of its values."""
    if type(form) is dict and len(form) == 1:
        [(name, details)] = form.items()
        if name == "enum":
            is_list = type(details) is list and all(type(symbol) is str for symbol in details)
            return usual == "string" and is_list
        if name == "fixed" and type(details) is int:
            is_short = arrow == pa.binary() or 0 < details <= _MOST_DECIMAL
            return form == usual or (usual == "bytes" and is_short)
    return (form, usual) in _NARROW and arrow in (pa.int64(), pa.float64())


def _usual_of(field: pa.Field, path: str) -> Form:
    usual = _usual(field.type, path)
    return ["null", usual] if field.nullable else usual


def _usual(arrow: Any, path: str) -> Form:
    if arrow in _USUAL:
        return _USUAL[arrow]
    kind = family(arrow)
    if pa.types.is_fixed_size_binary(arrow):
        return {"fixed": arrow.byte_width}
    if kind == "decimal":
        return "bytes"
    is_text = kind != "map" or arrow.key_type == pa.string()
    if kind in _NESTED and is_text and (kind != "list" or pa.types.is_list(arrow)):
        return _NESTED[kind]
    raise SchemaError(f"field {path!r} is {arrow}, which Avro does not have")
