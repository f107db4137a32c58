"""Two schemas of the same rows: the columns of one lead, and the other one adds to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.schema.canonical import children
from columnar_kafka.schema.record_schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["led_by", "nullable", "number_of_columns", "of_columns", "texts_of"]


def of_columns(columns: pa.Schema, json_texts: Iterable[str] = ()) -> RecordSchema:
    """Return the schema of rows for a table, in which what may be null is null where it is missing.

    Raises:
        SchemaError: a column cannot be stored.
    """
    parsed = RecordSchema.parse(
        pa.schema([field.with_type(_small(field.type)) for field in columns])
    )
    defaults = {path: None for path, field in _paths(parsed.arrow, "") if field.nullable}
    return RecordSchema(parsed.arrow, defaults, json_texts=frozenset(json_texts))


def nullable(columns: pa.Schema) -> pa.Schema:
    """Return columns of which each may be null, as may be what is inside them."""
    return pa.schema(map(_nullable, columns))


def _nullable(field: pa.Field) -> pa.Field:
    arrow = field.type
    if pa.types.is_struct(arrow):
        arrow = pa.struct(map(_nullable, arrow))
    elif pa.types.is_map(arrow):
        arrow = pa.map_(arrow.key_field, _nullable(arrow.item_field))
    elif pa.types.is_list(arrow):
        arrow = pa.list_(_nullable(arrow.value_field))
    elif pa.types.is_large_list(arrow):
        arrow = pa.large_list(_nullable(arrow.value_field))
    return pa.field(field.name, arrow, metadata=field.metadata)


def _small(arrow: pa.DataType) -> pa.DataType:
    """Return a type without the large layouts, in which some libraries have all columns."""
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(_small(field.type)) for field in arrow])
    if pa.types.is_map(arrow):
        value = arrow.item_field
        return pa.map_(_small(arrow.key_type), value.with_type(_small(value.type)))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        item = arrow.value_field
        return pa.list_(item.with_type(_small(item.type)))
    return _SMALL.get(arrow, arrow)


_SMALL: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def led_by(schema: RecordSchema, leading: RecordSchema) -> RecordSchema:
    """Return the leading columns, and after them those that only `schema` has.

    So it is in records too, also in those of lists and maps. What is added may be null. A name that
    differs from a leading one in case only is not added.
    """
    union = _Union()
    arrow = pa.schema(union.fields(schema.arrow, leading.arrow, ""), leading.arrow.metadata)
    added = union.has_added
    return RecordSchema(
        arrow,
        dict.fromkeys(union.added)
        | {path: value for path, value in schema.defaults.items() if added(path)}
        | dict(leading.defaults),
        {path: symbols for path, symbols in schema.symbols.items() if added(path)}
        | dict(leading.symbols),
        frozenset(filter(added, schema.uuids)) | leading.uuids,
        frozenset(filter(added, schema.json_texts)) | leading.json_texts,
    )


class _Union:
    """Unites columns, and knows the paths of those that it has added."""

    def __init__(self) -> None:
        self.added: set[str] = set()

    def has_added(self, path: str) -> bool:
        """Return whether the column at a path was added, or is in one that was."""
        ends = (at for at, letter in enumerate(f"{path}.") if letter == ".")
        return any(path[:end] in self.added for end in ends)

    def fields(
        self, more: Iterable[pa.Field], leading: Iterable[pa.Field], prefix: str
    ) -> list[pa.Field]:
        others = {field.name: field for field in more}
        united = []
        for field in leading:
            other = others.pop(field.name, None)
            arrow = field.type
            if other is not None:
                arrow = self._type(other.type, arrow, f"{prefix}{field.name}")
            united.append(field.with_type(arrow))
        taken = {field.name.casefold() for field in united}
        for field in others.values():
            if field.name.casefold() not in taken:
                taken.add(field.name.casefold())
                self.added.add(f"{prefix}{field.name}")
                united.append(field.with_nullable(True))
        return united

    def _type(self, more: pa.DataType, leading: pa.DataType, path: str) -> pa.DataType:
        if pa.types.is_struct(more) and pa.types.is_struct(leading):
            return pa.struct(self.fields(more, leading, f"{path}."))
        if pa.types.is_map(more) and pa.types.is_map(leading):
            value = leading.item_field
            inner = self._type(more.item_type, value.type, f"{path}.value")
            return pa.map_(leading.key_field, value.with_type(inner))
        if pa.types.is_list(more) and pa.types.is_list(leading):
            item = leading.value_field
            return pa.list_(item.with_type(self._type(more.value_type, item.type, f"{path}.item")))
        return leading


def number_of_columns(fields: Iterable[pa.Field]) -> int:
    """Return how many columns of values there are, those inside others among them."""
    return sum(number_of_columns(_value_fields(field.type)) or 1 for field in fields)


def _value_fields(arrow: pa.DataType) -> list[pa.Field]:
    inner = [field for _, field in children(arrow)]
    return inner[1:] if pa.types.is_map(arrow) else inner  # keys are names


def texts_of(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    """Yield the paths of columns of text, also of those inside others."""
    for field in fields:
        yield from _texts(field.type, f"{prefix}{field.name}")


def _texts(arrow: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_string(arrow):
        yield path
    for name, inner in children(arrow):
        yield from _texts(inner.type, f"{path}.{name}")


def _paths(fields: Iterable[pa.Field], prefix: str) -> Iterator[tuple[str, pa.Field]]:
    """Yield the fields of records, at all levels, with their paths."""
    for field in fields:
        yield f"{prefix}{field.name}", field
        yield from _inner(field.type, f"{prefix}{field.name}")


def _inner(arrow: pa.DataType, path: str) -> Iterator[tuple[str, pa.Field]]:
    if pa.types.is_struct(arrow):
        yield from _paths(arrow, f"{path}.")
        return
    for name, inner in children(arrow):
        yield from _inner(inner.type, f"{path}.{name}")
