"""The columns and rows that a call asks for, and the plan for reading them. Pure.

A name is that of a column, or of a member of `_kafka`, as ``_kafka.offset``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.layouts import fill_hidden_nulls_in_table, one_array, take
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import KAFKA_COLUMN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

__all__ = ["KAFKA_MEMBERS", "LOCATION_FIELDS", "Projection", "ReadPlan", "SelectedRows"]

LOCATION_FIELDS: Final = (
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
)
"""The members of `_kafka` that locate a record; `offset` is its position."""

_LOCATION: Final = frozenset(member.name for member in LOCATION_FIELDS)
_MEMBER: Final = f"{KAFKA_COLUMN}."
_KAFKA: Final[Any] = KafkaColumn(METADATA_MEMBERS).field
_ALL_MEMBERS: Final[list[pa.Field]] = [*_KAFKA.type, *LOCATION_FIELDS]
KAFKA_MEMBERS: Final = tuple(member.name for member in _ALL_MEMBERS)
"""The members that `_kafka` may have, in order."""
_PLANS: Final = 100


class SelectedRows(NamedTuple):
    """The selected rows, None for none, of so many that were examined.

    `changes` says that what comes next is of another format, and may go on in the same table.
    """

    table: pa.Table | None
    examined: int
    changes: bool = False


class Projection:
    """The columns and rows that a call asks for."""

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        condition: pc.Expression | None = None,
        *,
        promote: bool = False,
    ) -> None:
        """Check the arguments of a call.

        Raises:
            TypeError: `columns` is no list of names, or `condition` no expression.
            ValueError: no column is named, or one twice.
        """
        if isinstance(columns, str) or not all(isinstance(column, str) for column in columns or ()):
            raise TypeError(f"columns must be a list of names, not {columns!r}")
        if condition is not None and not isinstance(condition, pc.Expression):
            raise TypeError(f"filter must be a pyarrow.compute.Expression, not {condition!r}")
        self.columns = None if columns is None else tuple(columns)
        if columns is not None and not 0 < len(columns) == len(set(columns)):
            raise ValueError(f"columns must be names, each once, not {columns!r}")
        self.condition = condition
        self.promote = promote
        self._plans: dict[pa.Schema, ReadPlan] = {}
        self._last: tuple[pa.Schema, ReadPlan] | None = None  # of a segment

    def is_like(self, other: Projection) -> bool:
        """Say whether `other` asks for the same: then its plans can be used again."""
        if (self.columns, self.promote) != (other.columns, other.promote):
            return False
        if self.condition is None or other.condition is None:
            return self.condition is other.condition
        return bool(self.condition.equals(other.condition))

    def segment_plan(self, schema: pa.Schema) -> ReadPlan:
        """Return the plan for segments with this schema, which is not hashed if it is the last one.

        Raises:
            SchemaError: as `plan`.
        """
        last = self._last
        if last is None or last[0] is not schema:
            last = self._last = schema, self.plan(_with_location(schema.remove_metadata()))
        return last[1]

    def plan(self, schema: pa.Schema) -> ReadPlan:
        """Return the plan for columns of this schema, whose `_kafka` has the location fields.

        The schema has no metadata: with it, pyarrow up to 21 cannot hash it.

        Raises:
            SchemaError: the schema lacks a column that is asked for, or does not fit the filter.
        """
        plan = self._plans.get(schema)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[schema] = self._make_plan(schema)
        return plan

    def _make_plan(self, schema: pa.Schema) -> ReadPlan:
        names = list(schema.names if self.columns is None else self.columns)
        available = set(_available_names(schema))
        absent = [name for name in names if name not in available]
        if absent and not self.promote:
            raise SchemaError(
                f"no column {', '.join(map(repr, absent))}; there are {', '.join(schema.names)}. "
                "With promote=True it would be null"
            )
        schema = _with_absent(schema, absent)
        used = [] if self.condition is None else _filter_columns(self.condition, schema)
        return ReadPlan(schema, names, used, absent, self.condition)


class ReadPlan:
    """What to read of columns with one schema, and how to make the output of it."""

    def __init__(
        self,
        schema: pa.Schema,
        output: Sequence[str],
        filter_columns: Sequence[str],
        absent: Sequence[str],
        condition: pc.Expression | None,
    ) -> None:
        """The `output` columns come out; those that are `absent` from the data are null."""
        self.schema = schema
        self.condition = condition
        self.filter_columns = filter_columns
        self._absent = set(absent)
        self._names = list(dict.fromkeys(map(_top_level, output)))
        members = [member.name for member in schema.field(KAFKA_COLUMN).type]
        self._output_members = members if KAFKA_COLUMN in output else _members(output)
        filtered = members if KAFKA_COLUMN in filter_columns else _members(filter_columns)
        needed = {*self._output_members, *filtered}
        self.members = [member for member in members if member in needed]
        chosen = {*output, *filter_columns} - {KAFKA_COLUMN}
        self._fields = [field for field in schema if field.name in chosen]

    @cached_property
    def for_filter(self) -> ReadPlan:
        """The plan that reads the filter's columns and no others."""
        used = self.filter_columns
        return ReadPlan(self.schema, used, used, list(self._absent), self.condition)

    @cached_property
    def casts(self) -> bool:
        """Whether the filter says how values are cast, or has the word for it in a text.

        Where Arrow reasons, casts of whole numbers keep their order: those that overflow do not.
        """
        return "cast(" in str(self.condition)

    def to_read(self, columns: Collection[str], members: Collection[str]) -> list[str]:
        """Return the names to decode, without the columns and members of `_kafka` given here."""
        names = [field.name for field in self._fields if field.name not in columns]
        names += [_MEMBER + member for member in self.members if member not in members]
        return [name for name in names if name not in self._absent]

    @cached_property
    def segment_names(self) -> list[str]:
        """The names to decode of a segment of which nothing is decoded."""
        return self.to_read((), _LOCATION)

    @cached_property
    def segment_schema(self) -> pa.Schema | None:
        """The columns with these names, in order; None if they are not all that is asked for."""
        if self._absent or not self.segment_names:
            return None
        members = [field for field in self._member_fields if field.name not in _LOCATION]
        return pa.schema([*self._fields, _kafka_field(members)] if members else self._fields)

    def locate(self, table: pa.Table, members: Mapping[str, pa.Array]) -> pa.Table:
        """Return rows that have the `segment_schema` with the `members` that locate them."""
        if not self.members:
            return table
        place = len(self._fields)
        has_members = table.num_columns > place
        read: Any = one_array(table.column(place)) if has_members else None
        parts = [
            members[member] if member in members else read.field(member) for member in self.members
        ]
        kafka = pa.StructArray.from_arrays(parts, fields=self._member_fields)
        field = self._assembled.field(place)
        if has_members:
            return table.set_column(place, field, kafka)
        return table.append_column(field, kafka)

    def assemble(
        self, columns: Mapping[str, Any], members: Mapping[str, pa.Array], rows: int
    ) -> Any:
        """Return one table of the columns and of the members of `_kafka` that were read."""
        arrays = [
            pa.nulls(rows, field.type) if field.name in self._absent else columns[field.name]
            for field in self._fields
        ]
        if self.members:
            parts = [
                pa.nulls(rows, field.type) if _MEMBER + field.name in self._absent
                else members[field.name]
                for field in self._member_fields
            ]  # fmt: skip
            arrays.append(pa.StructArray.from_arrays(parts, fields=self._member_fields))
        return pa.Table.from_arrays(arrays, schema=self._assembled)

    @cached_property
    def _member_fields(self) -> list[pa.Field]:
        kafka = self.schema.field(KAFKA_COLUMN).type
        return [kafka.field(member) for member in self.members]

    @cached_property
    def _assembled(self) -> pa.Schema:
        """The schema of an assembled table."""
        kafka = _kafka_field(self._member_fields)
        return pa.schema([*self._fields, kafka] if self.members else self._fields)

    @cached_property
    def _is_in_order(self) -> bool:
        """Whether an assembled table has the output columns and no others."""
        return bool(self._names == self._assembled.names)

    def matching(self, table: pa.Table, most: int) -> tuple[pa.Array, int]:
        """Return the indices of up to `most` rows that match, and how many were examined."""
        assert self.condition is not None
        indices = _matching(table, self.condition)
        if len(indices) <= most:
            return indices, table.num_rows
        indices = indices.slice(0, most)
        return indices, indices[-1].as_py() + 1

    def project(self, table: pa.Table, rows: pa.Array | None = None) -> pa.Table:
        """Return all or some rows of an assembled table, in the output columns."""
        if rows is not None:
            count = len(rows)
            is_first = rows[-1].as_py() == count - 1
            table = (
                table.slice(0, count)
                if is_first
                else fill_hidden_nulls_in_table(_take_rows(table, rows))
            )
        if self._output_members != self.members:
            kafka = one_array(table[KAFKA_COLUMN])
            table = table.drop_columns(KAFKA_COLUMN)
            if self._output_members:
                fields = [kafka.type.field(member) for member in self._output_members]
                parts = [kafka.field(member) for member in self._output_members]
                made = pa.StructArray.from_arrays(parts, fields=fields)
                table = table.append_column(_kafka_field(fields), made)
        return table if self._is_in_order else table.select(self._names)


def _take_rows(table: pa.Table, rows: pa.Array) -> pa.Table:
    columns = [take(column, rows) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


# --- names ----------------------------------------------------------------------------------------


def _top_level(name: str) -> str:
    return KAFKA_COLUMN if name.startswith(_MEMBER) else name


def _members(names: Iterable[str]) -> list[str]:
    return [name.removeprefix(_MEMBER) for name in names if name.startswith(_MEMBER)]


def _available_names(schema: pa.Schema) -> list[str]:
    """Return the names that can be asked for."""
    return [*schema.names, *(_MEMBER + member.name for member in schema.field(KAFKA_COLUMN).type)]


def _kafka_field(members: Sequence[pa.Field]) -> pa.Field:
    return pa.field(KAFKA_COLUMN, pa.struct(members), nullable=False)


def _with_members(schema: pa.Schema, members: Sequence[pa.Field]) -> pa.Schema:
    return schema.set(schema.get_field_index(KAFKA_COLUMN), _kafka_field(members))


def _with_location(schema: pa.Schema) -> pa.Schema:
    """Return a segment's schema, with the location fields in its `_kafka`."""
    index = schema.get_field_index(KAFKA_COLUMN)
    if index < 0:
        return schema.append(_kafka_field(LOCATION_FIELDS))
    return _with_members(schema, [*schema.field(index).type, *LOCATION_FIELDS])


def _with_absent(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return a schema with columns of nulls, and with members that are null.

    Raises:
        SchemaError: `_kafka` has no such member in any segment.
    """
    known = {_MEMBER + member.name: member.with_nullable(True) for member in _ALL_MEMBERS}
    columns = [pa.field(name, pa.null()) for name in names if not name.startswith(_MEMBER)]
    members = [name for name in names if name.startswith(_MEMBER)]
    for member in members:
        if member not in known:
            there_are = ", ".join(member.name for member in _ALL_MEMBERS)
            name = member.removeprefix(_MEMBER)
            raise SchemaError(f"`{KAFKA_COLUMN}` has no member {name!r}; it has {there_are}")
    if members:
        present = schema.field(KAFKA_COLUMN).type
        schema = _with_members(schema, [*present, *(known[member] for member in members)])
    return pa.schema([*schema, *columns], metadata=schema.metadata)


# --- filters --------------------------------------------------------------------------------------


def _filter_columns(condition: pc.Expression, schema: pa.Schema) -> list[str]:
    """Return the columns that a filter names: those it cannot be evaluated without.

    For a filter that names none it is a column that takes no decoding: a table without columns has
    no rows, so Arrow would find none that match.

    Raises:
        SchemaError: it cannot be evaluated on all of them either.
    """
    if error := binding_error(condition, schema):
        raise SchemaError(f"the filter {condition} does not fit: {error}")
    used = _narrow(_available_names(schema), condition, list(schema))
    if _members(used):  # which cannot do without the column either
        used.remove(KAFKA_COLUMN)
    return used or [_MEMBER + "offset"]


def _narrow(names: list[str], condition: pc.Expression, fields: Sequence[pa.Field]) -> list[str]:
    """Return which of these names a filter uses, by halving: mostly few of many are used."""
    if not binding_error(condition, _without(fields, set(names))):
        return []
    if len(names) == 1:
        return names
    half = len(names) // 2
    parts = names[:half], names[half:]
    return [name for part in parts for name in _narrow(part, condition, fields)]


def _without(fields: Sequence[pa.Field], names: set[str]) -> pa.Schema:
    schema = pa.schema([field for field in fields if field.name not in names])
    if schema.get_field_index(KAFKA_COLUMN) < 0:
        return schema
    members = schema.field(KAFKA_COLUMN).type
    return _with_members(
        schema, [member for member in members if _MEMBER + member.name not in names]
    )


def binding_error(condition: pc.Expression, schema: pa.Schema) -> str:
    """Return why a filter cannot be evaluated on columns; empty where it can."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - 50 ms, for filters only

    # No files: there are types of which Arrow can make no empty table.
    nothing = ds.FileSystemDataset([], schema, ds.IpcFileFormat())
    try:
        scanner = nothing.scanner(columns={"it": condition})
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        return str(error).partition("\n")[0]
    arrow = scanner.projected_schema.field("it").type
    return "" if pa.types.is_boolean(arrow) else f"it is {arrow}, and must be true or false"


def _matching(table: pa.Table, condition: pc.Expression) -> pa.Array:
    """Return the indices of the rows that match, ascending.

    Raises:
        SchemaError: the filter fails on a row.
    """
    from pyarrow import acero  # noqa: PLC0415 - 20 ms, for filters only

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions([condition], ["it"]))
    try:
        mask = acero.Declaration.from_sequence([source, project]).to_table(use_threads=False)["it"]
    except (pa.ArrowException, UnicodeDecodeError) as error:  # which shows the bytes it failed on
        raise SchemaError(f"the filter {condition} fails: {error}") from error
    return pc.indices_nonzero(one_array(mask))  # up to pyarrow 25 no chunk ends the process
