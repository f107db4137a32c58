"""Values whose schemas are in a registry → columns that hold the values of several schemas."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.layouts import cast_to_grown, repeat
from columnar_kafka.columns.native_format import NotNativeError, row_format
from columnar_kafka.errors import RowError, SchemaError
from columnar_kafka.plain.avro_rows import AvroRows
from columnar_kafka.plain.json_rows import JsonRows
from columnar_kafka.plain.registry_client import ByRegistry
from columnar_kafka.plain.rows import PlainRows
from columnar_kafka.plain.schemas_by_id import HEADERS, Said, SchemasById, said_of
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.growth import merged
from columnar_kafka.schema.json_schema import read_json_schema
from columnar_kafka.schema.leading import of_columns
from columnar_kafka.schema.unions import without_unions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.native import _core as core
    from columnar_kafka.segment.headers import MessageHeaders

__all__ = ["RegisteredRows", "RegisteredValue", "registered_rows"]

_asked: Final = ByRegistry(SchemasById)  # of this process


def registered_rows(registry: Any) -> RegisteredRows:
    """Return rows of values by the schemas of a registry: a client, or its settings.

    A process asks each registry once for a schema, whoever needs it.

    Raises:
        ConfigError: see `RegistryClient`.
    """
    return RegisteredRows(_asked.of(registry))


class RegisteredValue(NamedTuple):
    """A value, and what it says of its schema."""

    said: Said
    datum: bytes


class RegisteredRows(PlainRows):
    """Values each of which says its schema, as rows of columns that all of these fit.

    It begins without columns. `holding` gives rows with those that more schemas need.
    """

    id_header = HEADERS[False]

    def __init__(
        self,
        schemas: SchemasById,
        columns: pa.Schema | None = None,
        known: dict[Said, PlainRows | str] | None = None,
    ) -> None:
        """Decode with these columns; `known` are the rows of each schema, or why it has none."""
        super().__init__(of_columns(columns) if columns else RecordSchema(pa.schema([])))
        self._schemas = schemas
        self._known = {} if known is None else known
        # Datums are read with the members of unions.
        plain, defaults = without_unions(self.columns)
        defaults = {**self.records.defaults, **defaults}
        self._rows = RowColumns(replace(self.records, arrow=plain, defaults=defaults))

    def value(self, data: bytes, headers: MessageHeaders | None) -> RegisteredValue:
        """See `PlainRows.value`."""
        said = said_of(data, headers)
        return RegisteredValue(said, data[said.length :])

    def holding(
        self, messages: Sequence[Any], fits: Callable[[PlainRows], bool]
    ) -> tuple[RegisteredRows, int, bool]:
        """See `PlainRows.holding`: columns grow as those of segments may.

        A message without a schema fits any columns.

        Raises:
            RegistryError: see `SchemasById.find`. Blocks while that asks.
        """
        rows, count = self, 0
        held = set[Said]()
        for said in map(_said, messages):
            own = "" if said in held else self._rows_of(said)
            if not isinstance(own, str):
                wider = rows._wider(own.columns, fits)
                if wider is None:
                    if count:
                        break
                    alone = RegisteredRows(self._schemas, own.columns, self._known)
                    return alone, _length_of(messages, said), True
                rows = wider
            held.add(said)
            count += 1
        return rows, count, False

    def _wider(
        self, columns: pa.Schema, fits: Callable[[PlainRows], bool]
    ) -> RegisteredRows | None:
        """Return rows that have some columns too; None if these contradict, or do not fit."""
        try:
            wider = merged(self.columns, columns) if len(self.columns) else columns
        except SchemaError:
            return None
        if wider.equals(self.columns):
            return self
        rows = RegisteredRows(self._schemas, wider, self._known)
        return rows if fits(rows) else None

    def decode(self, values: Sequence[RegisteredValue]) -> tuple[pa.Table, dict[int, str]]:
        """See `PlainRows.decode`. The columns must be `holding` the values."""
        by_schema: dict[Said, list[int]] = {}
        for index, value in enumerate(values):
            by_schema.setdefault(value.said, []).append(index)
        errors: dict[int, str] = {}
        tables, order = [self.columns.empty_table()], list[int]()
        for said, indices in by_schema.items():
            own = self._rows_of(said)
            if isinstance(own, str):
                errors.update(dict.fromkeys(indices, own))
                continue
            table, wrong = own.decode([values[index].datum for index in indices])
            errors.update({indices[number]: reason for number, reason in wrong.items()})
            order += [index for number, index in enumerate(indices) if number not in wrong]
            tables.append(self._as_columns(table))
        table = pa.concat_tables(tables)
        if len(by_schema) > 1:
            places = sorted(range(len(order)), key=order.__getitem__)
            table = table.combine_chunks().take(pa.array(places, pa.int64()))
        return table, errors

    def native_format(self) -> core.PlainFormat:
        """See `PlainRows.native_format`: that of the schema that all columns come from."""
        for said, own in self._known.items():
            if (
                said.stands_before
                and isinstance(own, AvroRows)
                and own.columns.equals(self.columns)
            ):
                fields = own.avro.fields
                return native.core.PlainFormat.avro(row_format(own.records), fields, said.data)
        raise NotNativeError("no schema has all columns")

    def row(self, value: RegisteredValue) -> RowValues | None:
        """See `PlainRows.row`."""
        own = self._rows_of(value.said)
        if not isinstance(own, AvroRows) or self._wider(own.columns, lambda _: False) is None:
            return None
        try:
            return self._rows.builtin(self._rows.take(own.avro.read_one(value.datum))[0])
        except (RowError, ValueError):
            return None

    def _rows_of(self, said: Said) -> PlainRows | str:
        """Return the rows of a schema, or why there are none. Raises RegistryError."""
        known = self._known.get(said)
        if known is None:
            known = self._known[said] = self._made(said)
        return known

    def _made(self, said: Said) -> PlainRows | str:
        try:
            found = self._schemas.find(said)
        except SchemaError as error:  # it may be registered later: for another attempt
            return error.reason
        try:
            if found.kind == "JSON":
                return JsonRows(read_json_schema(found.schema))
            return AvroRows(found.schema)
        except SchemaError as error:
            return self._schemas.refusal(said, error).reason

    def _as_columns(self, table: pa.Table) -> pa.Table:
        if table.schema.equals(self.columns):
            return table
        table = table.combine_chunks()
        arrays = [
            cast_to_grown(table[field.name].chunk(0), field.type)
            if field.name in table.column_names and table.num_rows
            else repeat(None, field.type, table.num_rows)
            for field in self.columns
        ]
        return pa.Table.from_arrays(arrays, schema=self.columns)


def _said(message: Any) -> Said:
    return said_of(message.value or b"", message.headers)


def _length_of(messages: Sequence[Any], said: Said) -> int:
    """Return how many of the first messages say this."""
    return sum(1 for _ in takewhile(lambda one: one == said, map(_said, messages)))
