"""JSON objects that may differ from their schema → its columns, and one more for the rest.

A value that does not fit its column takes along what holds it, up to the nearest field that may be
null: that one is null, and the rest has its whole value. So the rest at a path is that of what is
inside if the row has something there, and else the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.from_rows.copying import element
from columnar_kafka.columns.native_format import NotNativeError, row_format
from columnar_kafka.errors import RowError, SchemaError
from columnar_kafka.plain.json_leaves import check_names
from columnar_kafka.plain.json_text import parse, shown, text_of
from columnar_kafka.plain.lenient import tokens_of
from columnar_kafka.plain.lenient_leaves import leaf_fit
from columnar_kafka.plain.restoring import restored
from columnar_kafka.plain.rows import RowsOneByOne
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import refuse_unions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.native import _core as core
    from columnar_kafka.plain.lenient import Lenient

__all__ = ["Fit", "Fits", "LenientRows", "leaf_paths", "with_rest"]

Fit = Callable[[Any], tuple[Any, Any]]
"""Takes a parsed value, which is not null; returns what a row has for it, and what is left.

That is None if nothing is. Raises RowError: the value does not fit.
"""


class LenientRows(RowsOneByOne):
    """JSON objects, each of them a row of a schema and a rest, by the rules of a `Lenient`.

    What fits a column is as in `JsonRows`, but that 7.0 is an integer where it is one, and that no
    digit of a number may be lost.
    """

    def __init__(self, schema: Any, lenient: Lenient) -> None:
        records = RecordSchema.parse(schema)
        refuse_unions(records.arrow, "JSON")
        super().__init__(with_rest(records, lenient.rest_column) if lenient.has_rest else records)
        self._lenient = lenient
        self._row = Fits(records, lenient).record(list(records.arrow), "")
        self._tokens = tokens_of(lenient.path)

    def native_format(self) -> core.PlainFormat:
        """See `PlainRows.native_format`."""
        rules, paths = self._lenient, list(leaf_paths(self.columns))
        if "\\" in "".join([*paths, *self._tokens]):
            raise NotNativeError("it compares names as they are written, with their escapes")
        texts = [place for place, path in enumerate(paths) if path in self.records.json_texts]
        keeps = rules.unknown != "ignore", rules.misfit == "rest"
        return native.core.PlainFormat.lenient_json(
            row_format(self.records),
            self._tokens,
            keeps,
            rules.unknown == "grow",
            rules.coerce,
            texts,
        )

    def taken(self, value: bytes) -> RowValues:
        """See `RowsOneByOne.taken`."""
        values, left = self._below(parse(value), 0)
        if not self._lenient.has_rest:
            return tuple(values)
        return (*values, None if left is None else text_of(left))

    def row(self, value: bytes) -> RowValues | None:
        """See `PlainRows.row`; a table is to grow by what `decode` shows."""
        return None if self._lenient.unknown == "grow" else super().row(value)

    def restored(self, row: dict[str, Any]) -> dict[str, Any]:
        """See `PlainRows.restored`."""
        lenient = self._lenient
        return restored(row, self.records, rest_column=lenient.rest_column, path=lenient.path)

    def again(self, restored: dict[str, Any]) -> dict[str, Any] | None:
        """See `PlainRows.again`."""
        table, _ = self.decode([text_of(restored).encode()])
        return self.restored(table.to_pylist()[0]) if len(table) else None

    def _below(self, members: Any, depth: int) -> tuple[Any, Any]:
        """Return the row in an object that is so deep on the path, and what is left of it all."""
        if type(members) is not dict:
            raise RowError(f"it has no object at {self._lenient.path!r}")
        if depth == len(self._tokens):
            return self._row(members)
        token = self._tokens[depth]
        values, inner = self._below(members.get(token), depth + 1)
        keeps_others = self._lenient.unknown != "ignore"
        left = {}
        for name, member in members.items():
            more = inner if name == token else member if keeps_others else None
            if more is not None:
                left[name] = more
        return values, left or None


def with_rest(records: RecordSchema, name: str) -> RecordSchema:
    """Return the columns of a schema, and the one of the rest. Raises SchemaError."""
    if name.lower() in map(str.lower, records.arrow.names):  # engines ignore case
        raise SchemaError(
            f"the column of the rest is {name!r}, and so is a field of the schema: choose another "
            "name for the rest"
        )
    rest = RecordSchema.parse(pa.schema([(name, pa.string())])).arrow.field(0)
    return replace(records, arrow=records.arrow.append(rest))


def leaf_paths(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all leaves, in their order."""
    for field in fields:
        yield from _paths(field.type, f"{prefix}{field.name}")


def _paths(arrow: pa.DataType, path: str) -> Iterator[str]:
    kind = family(arrow)
    if kind == "struct":
        yield from leaf_paths(arrow, f"{path}.")
    elif kind == "map":
        yield f"{path}.key"
        yield from _paths(arrow.item_type, f"{path}.value")
    elif kind == "list":
        yield from _paths(arrow.value_type, f"{path}.item")
    else:
        yield path


class Fits:
    """Makes the functions that fit values to the fields of a schema."""

    def __init__(self, schema: RecordSchema, lenient: Lenient) -> None:
        self._schema = schema
        self._lenient = lenient
        self._keeps_unknown = lenient.unknown != "ignore"
        self._keeps_misfits = lenient.misfit == "rest"

    def record(self, fields: Sequence[pa.Field], prefix: str) -> Fit:
        """Return what fits an object to fields."""
        fits = {field.name: self._field(field, f"{prefix}{field.name}") for field in fields}
        absent = {field.name: self._absent(field, f"{prefix}{field.name}") for field in fields}
        keeps_unknown = self._keeps_unknown

        def fit(members: dict[str, Any]) -> tuple[Any, Any]:
            values: dict[str, Any] = {}
            left: dict[str, Any] = {}
            for name, member in members.items():
                if member is None:
                    continue  # as if it were not there
                if name in fits:
                    values[name], more = fits[name](member)
                else:
                    more = member if keeps_unknown else None
                if more is not None:
                    left[name] = more
            row = (
                values[name] if name in values else missing(name in members)
                for name, missing in absent.items()
            )
            return tuple(row), left or None

        return fit

    def _absent(self, field: pa.Field, path: str) -> Callable[[bool], Any]:
        """Return what returns the value of a field that an object does not have, or has as null."""
        default = None
        if not field.nullable and path in self._schema.defaults:
            default = element(field, path, self._schema)(self._schema.defaults[path])[0]

        def value(is_null: bool) -> Any:
            if default is None and not field.nullable:
                why = (
                    "null, and its schema does not allow null"
                    if is_null
                    else "missing, and has no default"
                )
                raise RowError(f"field {path!r} is {why}")
            return default

        return value

    def _field(self, field: pa.Field, path: str) -> Fit:
        """Return what fits a value to a field, or leaves it whole where the field may be null."""
        fit = self._type(field, path)
        if not (self._keeps_misfits and field.nullable):
            return fit

        def fit_or_leave(value: Any) -> tuple[Any, Any]:
            try:
                return fit(value)
            except RowError:
                return None, value

        return fit_or_leave

    def _type(self, field: pa.Field, path: str) -> Fit:
        arrow = field.type
        if path in self._schema.json_texts:
            return lambda value: (text_of(value), None)
        kind = family(arrow)
        if kind == "struct":
            return self._struct(arrow, path)
        if kind == "map":
            return self._map(arrow, path)
        if kind == "list":
            return self._list(arrow, path)
        fit_leaf = self.leaf(field, path)
        return lambda value: (fit_leaf(value), None)

    def leaf(self, field: pa.Field, path: str) -> Callable[[Any], Any]:
        """Return what returns what a row has for the value of a leaf; it raises RowError."""
        return leaf_fit(field, path, self._schema, coerce=self._lenient.coerce)

    def _struct(self, arrow: pa.StructType, path: str) -> Fit:
        fit_members = self.record(list(arrow), f"{path}.")

        def fit(value: Any) -> tuple[Any, Any]:
            if type(value) is not dict:
                raise RowError(f"field {path!r} is {shown(value)}; its schema wants an object")
            return fit_members(value)

        return fit

    def _map(self, arrow: pa.MapType, path: str) -> Fit:
        check_names(arrow, path)
        take_name = element(arrow.key_field, f"{path}.key", self._schema)
        fit_item = self._field(arrow.item_field, f"{path}.value")
        absent = self._absent(arrow.item_field, f"{path}.value")

        def fit(value: Any) -> tuple[Any, Any]:
            if type(value) is not dict:
                raise RowError(f"field {path!r} is {shown(value)}; its schema wants an object")
            pairs, left = [], {}
            for name, member in value.items():
                try:
                    take_name(name)
                except RowError:  # a name that is no UTF-8
                    if not self._keeps_misfits:
                        raise
                    left[name] = member
                    continue
                item, more = (absent(True), None) if member is None else fit_item(member)
                pairs.append((name, item))
                if more is not None:
                    left[name] = more
            return pairs, left or None

        return fit

    def _list(self, arrow: Any, path: str) -> Fit:
        fit_item = self._field(arrow.value_field, f"{path}.item")
        absent = self._absent(arrow.value_field, f"{path}.item")
        size: int | None = arrow.list_size if pa.types.is_fixed_size_list(arrow) else None

        def fit(value: Any) -> tuple[Any, Any]:
            if type(value) is not list:
                raise RowError(f"field {path!r} is {shown(value)}; its schema wants a list")
            if size is not None and size != len(value):
                raise RowError(f"field {path!r} has {len(value)} items; its schema wants {arrow}")
            items, left = [], {}
            for index, member in enumerate(value):
                item, more = (absent(True), None) if member is None else fit_item(member)
                items.append(item)
                if more is not None:
                    left[str(index)] = more
            return items, left or None

        return fit
