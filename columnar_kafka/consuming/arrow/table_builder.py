"""Rows of segments and plain messages → one Arrow table, of one topic and one schema.

Nothing is copied that can be a slice: a segment's decoded columns become chunks of the table. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError

from columnar_kafka import position
from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.kafka_column import HEADERS, TIMESTAMP, header_array
from columnar_kafka.columns.layouts import (
    cast_to_grown,
    fill_hidden_nulls,
    fill_hidden_nulls_in_table,
    one_array,
)
from columnar_kafka.columns.older_arrow import arange
from columnar_kafka.consuming.arrow.projection import (
    KAFKA_MEMBERS,
    LOCATION_FIELDS,
    SelectedRows,
)
from columnar_kafka.consuming.arrow.pruning import can_skip
from columnar_kafka.consuming.feed.kafka_message import address_of
from columnar_kafka.errors import RowError, SchemaError
from columnar_kafka.plain.base import decode, leading
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema, check_growth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from columnar_kafka.config import ReadOptions
    from columnar_kafka.consuming.arrow.fetched_rows import FetchedRows
    from columnar_kafka.consuming.arrow.projection import Projection, ReadPlan
    from columnar_kafka.plain.base import Formats
    from columnar_kafka.segment.segment import Segment

__all__ = [
    "TOPIC",
    "MismatchError",
    "TableBuilder",
    "fetched_rows",
    "plain_rows",
    "segment_rows",
]

TOPIC: Final = "columnar.topic"
"""The key of the topic's name in a table's metadata; the schema's are those of a segment."""

_PLAIN: Final = (pa.field("timestamp", TIMESTAMP), pa.field("headers", HEADERS), *LOCATION_FIELDS)
_PLAIN_MEMBERS: Final = frozenset(["key", *(field.name for field in _PLAIN)])

_SHARED_ROWS: Final = 20_000
"""In a longer segment, a column of one value takes memory of its own."""

_SHOWN: Final = 10
"""The most differing fields that an error names."""

_HINT: Final = (
    "Choose columns= that both have, or give promote=True and a schema= that both can be promoted "
    "to. With on_schema_change= the stream ends here instead, and another reader begins with it"
)


class MismatchError(SchemaError):
    """The next rows do not fit the schema that a reader has."""


# --- segments -------------------------------------------------------------------------------------


def segment_rows(
    segment: Segment,
    start: int,
    most: int,
    projection: Projection,
    read: Callable[[list[str]], pa.Table],
) -> SelectedRows:
    """Return up to `most` selected rows of a segment, from row `start` on.

    `read` returns the segment's rows in some of its columns, as `decoded_columns` does. Where no
    row matches a filter, only the filter's columns are decoded; of a segment that can be skipped,
    nothing is.

    Raises:
        SegmentError: the segment cannot be trusted, or not decoded.
        SchemaError: as `Projection.plan`; the text names the segment.
    """
    try:
        plan = projection.segment_plan(segment.schema)
        rows = segment.rows - start
        if plan.condition is None:
            rows = min(rows, most)
            columns = _SegmentColumns(segment, start, rows, read)
            return SelectedRows(plan.project(columns.all_at_once(plan)), rows)
        if not start and can_skip(segment, plan):
            return SelectedRows(None, rows)
        columns = _SegmentColumns(segment, start, rows, read)
        matching, examined = plan.matching(columns.table(plan.for_filter), most)
        if not len(matching):
            return SelectedRows(None, examined)
        return SelectedRows(plan.project(columns.table(plan), matching), examined)
    except SchemaError as error:
        where = position.address(segment.topic, segment.partition, segment.kafka_offset)
        raise SchemaError(f"segment at {where}: {error.reason}") from error


class _SegmentColumns:
    """Some rows of a segment, whose columns are decoded when they are first needed."""

    def __init__(
        self, segment: Segment, start: int, rows: int, read: Callable[[list[str]], pa.Table]
    ) -> None:
        self._start, self._rows, self._read = start, rows, read
        self._is_whole = rows == segment.rows
        first = segment.offset + start
        self._columns: dict[str, Any] = {}
        self._members: dict[str, pa.Array] = {
            "topic": _shared(_topics, segment.topic, pa.string(), rows),
            "partition": _shared(_partitions, segment.partition, pa.int32(), rows),
            "offset": arange(first, first + rows),
        }

    def all_at_once(self, plan: ReadPlan) -> pa.Table:
        """Return the rows in the columns of a plan, of which nothing was decoded before."""
        if plan.segment_schema is not None:
            table = self._decode(plan.segment_names)
            # What Arrow reads by names may be more than they mean here.
            if table.schema.equals(plan.segment_schema):
                return plan.locate(table, self._members)
        return self.table(plan)

    def table(self, plan: ReadPlan) -> pa.Table:
        """Return the rows in the columns of a plan."""
        if names := plan.to_read(self._columns, self._members):
            table = self._decode(names)
            self._columns |= dict(zip(table.schema.names, table.columns, strict=True))
            kafka = self._columns.pop(KAFKA_COLUMN, None)
            if kafka is not None:
                kafka = one_array(kafka)
                self._members |= {member.name: kafka.field(member.name) for member in kafka.type}
        return plan.assemble(self._columns, self._members, self._rows)

    def _decode(self, names: list[str]) -> pa.Table:
        table = self._read(names)
        return table if self._is_whole else table.slice(self._start, self._rows)


def _repeated(value: Any, arrow: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, arrow), rows)


_topics = lru_cache(maxsize=4)(_repeated)
_partitions = lru_cache(maxsize=64)(_repeated)


def _shared(make: Callable[..., pa.Array], value: Any, arrow: pa.DataType, rows: int) -> pa.Array:
    """Return an array of one value; those of up to a few thousand rows share their memory."""
    if rows > _SHARED_ROWS:
        return _repeated(value, arrow, rows)
    return make(value, arrow, 1 << (rows - 1).bit_length()).slice(0, rows)


# --- plain messages -------------------------------------------------------------------------------


def plain_rows(
    messages: Sequence[Message], formats: Formats, projection: Projection, options: ReadOptions
) -> SelectedRows:
    """Return the selected rows of plain messages of one topic; `examined` counts messages.

    They end before the first message that cannot be decoded, or does not go with those before it.
    Where the format is of tables, there is one message.

    Raises:
        RowError: the first message cannot be decoded.
        SchemaError: as `Projection.plan`; the text names the message.
    """
    first, given = messages[0], len(messages)
    topic = first.topic() or ""
    is_table = formats.are_tables(topic)
    if is_table and first.value() is None:
        return SelectedRows(None, 1)  # a tombstone: not even columns
    key_format, messages = leading(formats.key(topic), messages, is_key=True)
    value_format, messages = leading(formats.value(topic), messages, is_key=False)
    of_one_format = len(messages)
    decoded = decode(key_format, [message.key() for message in messages])
    keys = fill_hidden_nulls(decoded.array, pa.field("key", decoded.array.type))
    if not len(keys):
        raise _undecodable(first, "key", decoded.error)
    if is_table:
        values, good = _table_of(value_format, first, options), 1
    else:
        decoded = decode(value_format, [message.value() for message in messages[: len(keys)]])
        good = len(decoded.array)
        if not good:
            raise _undecodable(first, "value", decoded.error)
        values = _columns(decoded.array)
    messages = messages[:good]
    key_column = keys.slice(0, good)

    def members(wanted: Iterable[str]) -> dict[str, pa.Array]:
        made = _plain_members(messages, key_column, wanted)
        if is_table:
            same = pa.repeat(0, values.num_rows)
            made = {name: member.take(same) for name, member in made.items()}
        return made

    table = _selected(values, keys.type, members, projection, first).table
    return SelectedRows(table, good, changes=good == of_one_format < given)


def fetched_rows(
    rows: FetchedRows, formats: Formats, projection: Projection, most: int
) -> SelectedRows:
    """Return up to `most` of the rows that `plain_rows` returns; the values are no tables.

    Raises:
        UnusualError: not every message can be decoded, or not this way: `plain_rows` tells.
        SchemaError: as `plain_rows`.
    """
    value_format: Any = formats.value(rows.topic)
    keys = rows.keys(formats.key(rows.topic))
    keys = fill_hidden_nulls(keys, pa.field("key", keys.type))
    values = _columns(rows.values(value_format))

    def members(wanted: Iterable[str]) -> dict[str, pa.Array]:
        return {name: keys if name == "key" else rows.member(name) for name in wanted}

    first: Any = rows.first
    return _selected(values, keys.type, members, projection, first, most)


_Members = Callable[[Iterable[str]], dict[str, pa.Array]]


def _selected(
    values: pa.Table,
    key: pa.DataType,
    members: _Members,
    projection: Projection,
    first: Message,
    most: int | None = None,
) -> SelectedRows:
    """Return selected rows, up to `most`, of plain messages that have these values."""
    values = fill_hidden_nulls_in_table(values)
    kafka = pa.field(KAFKA_COLUMN, pa.struct([pa.field("key", key), *_PLAIN]), nullable=False)
    try:
        plan = projection.plan(values.schema.remove_metadata().append(kafka))
        columns = dict(zip(values.schema.names, values.columns, strict=True))
        known = [member for member in plan.members if member in _PLAIN_MEMBERS]
        table = plan.assemble(columns, members(known), values.num_rows)
        if plan.condition is None:
            return SelectedRows(plan.project(table) if table.num_rows else None, table.num_rows)
        matching, examined = plan.matching(table, table.num_rows if most is None else most)
        return SelectedRows(plan.project(table, matching) if len(matching) else None, examined)
    except SchemaError as error:
        raise SchemaError(f"plain message at {address_of(first)}: {error.reason}") from error


def _table_of(value_format: Any, message: Message, options: ReadOptions) -> pa.Table:
    try:
        return value_format.read(message.value(), options)
    except (ValueError, pa.ArrowException) as error:
        raise _undecodable(message, "value", str(error)) from error


def _columns(values: pa.Array) -> pa.Table:
    """Return records' fields as nullable columns; of values that are no records, one column."""
    if not pa.types.is_struct(values.type):
        return pa.table({"value": values})
    fields = [field.with_nullable(True) for field in values.type]
    return pa.Table.from_arrays(values.flatten(), schema=pa.schema(fields))


def _undecodable(message: Message, what: str, why: str | None) -> RowError:
    codes = {"key": KafkaError._KEY_DESERIALIZATION, "value": KafkaError._VALUE_DESERIALIZATION}
    at = position.pack(message.offset() or 0)
    where = f"plain message at {address_of(message)} (position {at})"
    return RowError(f"{where}: its {what} cannot be decoded: {why}", code=codes[what])


def _plain_members(
    messages: Sequence[Message], keys: pa.Array, wanted: Iterable[str]
) -> dict[str, pa.Array]:
    make: dict[str, Callable[[], pa.Array]] = {
        "key": lambda: keys,
        "timestamp": lambda: _times([message.timestamp() for message in messages]),
        "headers": lambda: _headers([message.headers() for message in messages]),
        "topic": lambda: pa.repeat(messages[0].topic(), len(messages)),
        "partition": lambda: pa.array([message.partition() for message in messages], pa.int32()),
        "offset": lambda: _positions([message.offset() for message in messages]),
    }
    return {member: make[member]() for member in wanted}


def _times(timestamps: list[tuple[int, int]]) -> pa.Array:
    times = [None if kind == TIMESTAMP_NOT_AVAILABLE else time for kind, time in timestamps]
    return pa.array(times, pa.int64()).cast(TIMESTAMP)


def _positions(offsets: list[int | None]) -> pa.Array:
    """Return the positions of plain messages, as `position.pack`."""
    after = pc.multiply(pc.add(pa.array(offsets, pa.int64()), 1), position.MAX_ROWS)
    return pc.subtract(after, 1)


def _headers(headers: list[Any]) -> pa.Array:
    return header_array(headers) if any(headers) else pa.nulls(len(headers), HEADERS)


# --- together -------------------------------------------------------------------------------------


class TableBuilder:
    """One table of rows of one topic, in the order in which they are added."""

    def __init__(
        self, projection: Projection, *, most: int, nbytes: int, schema: pa.Schema | None = None
    ) -> None:
        """Begin a table of up to `most` rows and about `nbytes`; a `schema` given here is fixed."""
        self.projection = projection
        self.rows = 0
        self.topic = ""
        self._most = most
        self._nbytes_left = nbytes
        self._fixed = schema is not None
        self._schema = schema
        self._tables: list[pa.Table] = []
        self._names: dict[str, dict[str, None]] = {}

    @property
    def left(self) -> int:
        """How many rows may be added; 0 also when they take too much memory."""
        return max(0, self._most - self.rows) if self._nbytes_left > 0 else 0

    def add(self, table: pa.Table, topic: str, names: dict[str, str], where: str) -> bool:
        """Add rows of a topic; False if they do not go with those that are there.

        `names` are metadata of the table: what the rows' schema is called. Errors say `where` the
        rows come from.

        Raises:
            MismatchError: they are the first, and do not fit the fixed schema.
        """
        schema = table.schema if self._schema is None else self._common_schema(table.schema)
        if schema is None and not self._tables:
            assert self._schema is not None
            differences = _differences(self._schema, table.schema)
            raise MismatchError(f"{where} does not fit the stream's schema: {differences}. {_HINT}")
        if schema is None or topic != (self.topic or topic):
            return False
        if schema is not self._schema and self._tables:
            self._tables = [_promoted(earlier, schema) for earlier in self._tables]
        self._tables.append(_promoted(table, schema))
        self._schema, self.topic = schema, topic
        self.rows += table.num_rows
        # Not `nbytes`, which ends the process where an empty chunk has a union in it.
        self._nbytes_left -= table.get_total_buffer_size()
        for key, name in names.items():
            self._names.setdefault(key, {})[name] = None
        return True

    def _common_schema(self, other: pa.Schema) -> pa.Schema | None:
        """Return a schema for these rows and for those of `other`; None if there is none."""
        assert self._schema is not None
        if self._schema.equals(other):
            return self._schema
        if not self.projection.promote:
            return None
        if _can_hold(self._schema, other):
            return self._schema
        return None if self._fixed else _grown(self._schema, other)

    def table(self) -> pa.Table | None:
        """Return the rows; None where there are none."""
        if not self._tables:
            return None
        names = {key: ",".join(seen) for key, seen in self._names.items()}
        table = pa.concat_tables(self._tables)
        return table.replace_schema_metadata({TOPIC: self.topic, **names})


def _grown(one: pa.Schema, other: pa.Schema) -> pa.Schema | None:
    """Return one of these schemas, with the members of `_kafka` that either has, for rows of both.

    None: neither can hold the other's rows. Plain messages have no `segment` and `row`, which are
    null then; nor have segments members that their producer left out.
    """
    members = _joined_members(one, other)
    for schema in (other, _with_members(other, members), _with_members(one, members)):
        if _can_hold(schema, one) and _can_hold(schema, other):
            return schema
    return None


def _joined_members(one: pa.Schema, other: pa.Schema) -> list[pa.Field]:
    """Return the members of `_kafka` that either schema has, nullable if not both require them."""
    both = [
        {field.name: field for field in schema.field(KAFKA_COLUMN).type}
        if KAFKA_COLUMN in schema.names
        else {}
        for schema in (one, other)
    ]
    required = {
        name
        for name in both[0].keys() & both[1].keys()
        if not (both[0][name].nullable or both[1][name].nullable)
    }
    known = {**both[1], **both[0]}
    return [
        known[name].with_nullable(name not in required) for name in KAFKA_MEMBERS if name in known
    ]


def _with_members(schema: pa.Schema, members: Sequence[pa.Field]) -> pa.Schema:
    index = schema.get_field_index(KAFKA_COLUMN)
    if index < 0:
        return schema
    return schema.set(index, schema.field(index).with_type(pa.struct(members)))


def _can_hold(grown: pa.Schema, other: pa.Schema) -> bool:
    """Say whether rows with the schema `other` can be promoted to the schema `grown`."""
    theirs = {column.name: column for column in other}
    same = {
        column.name for column in grown if column.name in theirs and column == theirs[column.name]
    }
    # Columns that were asked for and are not there are of type null.
    before = [
        column for column in other if column.name not in same and not pa.types.is_null(column.type)
    ]
    after = [column for column in grown if column.name not in same]
    try:
        check_growth(RecordSchema(pa.schema(before)), RecordSchema(pa.schema(after)))
        for column in after:
            pa.nulls(1, column.type).validate()  # of some types pyarrow makes none, or wrong ones
    except (SchemaError, pa.ArrowException):
        return False  # also of a type that no segment has: it can only be the same
    return True


def _promoted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table promoted to a schema that can hold its rows."""
    if table.schema.equals(schema):
        return table
    present = {
        name: column
        for name, column in zip(table.schema.names, table.columns, strict=True)
        if not pa.types.is_null(column.type)  # of which pyarrow casts to few types
    }
    columns = [
        pa.chunked_array(
            [cast_to_grown(chunk, field.type) for chunk in present[field.name].chunks], field.type
        )
        if field.name in present
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return fill_hidden_nulls_in_table(pa.Table.from_arrays(columns, schema=schema))


def _differences(stream: pa.Schema, record: pa.Schema) -> str:
    """Return which fields differ between the schemas of a stream and of a record, and how."""
    both = KAFKA_COLUMN in stream.names and KAFKA_COLUMN in record.names
    ours, theirs = _fields(stream, members=both), _fields(record, members=both)
    differences = [
        f"{name} is {_type_of(ours.get(name))} in the stream and {_type_of(theirs.get(name))} here"
        for name in {**ours, **theirs}
        if _type_of(ours.get(name)) != _type_of(theirs.get(name))
    ]
    more = [f"and {len(differences) - _SHOWN} more differ"] if len(differences) > _SHOWN else []
    return "; ".join(differences[:_SHOWN] + more) or "its columns are in another order"


def _fields(schema: pa.Schema, *, members: bool) -> dict[str, pa.Field]:
    """Return fields by name; with `members`, those of `_kafka` in its place."""
    fields: dict[str, pa.Field] = {}
    for field in schema:
        if members and field.name == KAFKA_COLUMN and pa.types.is_struct(field.type):
            fields |= {f"{KAFKA_COLUMN}.{member.name}": member for member in field.type}
        else:
            fields[field.name] = field
    return fields


def _type_of(field: pa.Field | None) -> str:
    return "missing" if field is None else f"{field.type}{'' if field.nullable else ' not null'}"
