"""Values in Avro that become records: what Kafka has, in which order, and what reports say."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inside import pipeline_of

from columnar_kafka import RowError, SchemaError
from columnar_kafka.errors import ConfigError
from columnar_kafka.segment.avro_layout import AVRO_KEY
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DECIMAL = {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9}


def of(**types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": avro} for name, avro in types.items()]
    return {"type": "record", "name": "R", "fields": fields}


SCHEMA = of(n="long", e=ENUM, s=["null", "string"])
ROWS = [{"n": n, "e": "AB"[n % 2], "s": None if n % 3 else f"text {n}"} for n in range(5)]
CONFIG = {
    "columnar.encoding": "parquet",
    "columnar.linger.ms": 60_000,
    "columnar.value.format": "avro",
}
HEADER = b"\0\0\0\0\7"


def datum(row: Any, schema: Any = SCHEMA) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), row)
    return sink.getvalue()


VALUES = [datum(row) for row in ROWS]


class World:
    """A topic, a producer of values in Avro, and what the producer was told."""

    def __init__(self, schema: Any = SCHEMA, **config: Any) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 1)
        keys = {name.replace("_", "."): value for name, value in config.items()}
        self.producer = self.kafka.Producer(CONFIG | keys)
        self.producer.set_schema("t", schema)
        self.told: list[tuple[Any, Any, int]] = []

    def report(self, error: Any, message: Any) -> None:
        self.told.append((error, message.value(), len(message)))

    def produce(self, *values: Any, **given: Any) -> None:
        for value in values:
            self.producer.produce("t", value, **given)

    def stored(self) -> list[Any]:
        """What the topic has: the rows of segments, and the bytes of plain messages."""
        self.producer.flush()
        made: list[Any] = []
        for message in self.kafka.messages("t"):
            if is_segment(message.headers()):
                table = pq.read_table(io.BytesIO(message.value()))
                made += table.drop_columns(["_kafka"]).to_pylist()
            else:
                made.append(message.value())
        return made

    def said(self) -> list[Any]:
        """What the segments' footers say of Avro."""
        self.producer.flush()
        files = [
            message.value() for message in self.kafka.messages("t") if is_segment(message.headers())
        ]
        texts = [
            (pq.read_metadata(io.BytesIO(file)).metadata or {}).get(AVRO_KEY) for file in files
        ]
        return [None if text is None else json.loads(text) for text in texts]

    @property
    def misfits(self) -> int:
        return pipeline_of(self.producer).stats().misfits


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.producer:
        yield made


@pytest.mark.parametrize("cls", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("header", [b"", HEADER])
def test_datums_are_rows(world: World, cls: Any, header: bytes) -> None:
    world.produce(*(cls(header + value) for value in VALUES))
    assert world.stored() == ROWS
    assert world.misfits == 0


@pytest.mark.parametrize(("header", "said"), [(b"", {}), (HEADER, {"id": 7})])
def test_the_footer_says_what_columns_do_not(
    world: World, header: bytes, said: dict[str, Any]
) -> None:
    world.produce(*(header + value for value in VALUES))
    assert world.said() == [{**said, "types": {"e": {"enum": ["A", "B"]}}}]


def test_what_columns_say_is_not_in_the_footer() -> None:
    made = World(of(n="long", s=["null", "string"], l={"type": "array", "items": "int"}))
    with made.producer:
        made.produce({"n": 1, "s": None, "l": []})
        assert made.said() == [{}]


def test_a_topic_of_rows_says_nothing_of_avro() -> None:
    made = World(columnar_value_format="rows")
    with made.producer:
        made.produce(ROWS[0], VALUES[0])
        assert made.stored() == [ROWS[0], VALUES[0]]
        assert made.said() == [None]


def test_rows_go_on_as_rows(world: World) -> None:
    world.produce(ROWS[0], HEADER + VALUES[1], ROWS[2])
    world.producer.produce_arrow("t", pa.table({"n": [9], "e": ["A"], "s": ["x"]}))
    assert world.stored() == [*ROWS[:3], {"n": 9, "e": "A", "s": "x"}]
    assert world.said() == [{"id": 7, "types": {"e": {"enum": ["A", "B"]}}}] * 2
    with pytest.raises(RowError, match="'e'"):
        world.produce({**ROWS[0], "e": "C"})


MISFITS = [b"", VALUES[0][:-1], VALUES[0] + b"\0", b"\x80\0" + VALUES[0][1:], b"\0\0\0\0\x08"]


@pytest.mark.parametrize("header", [b"", HEADER])
def test_what_does_not_fit_is_the_message_it_is_at_its_place(world: World, header: bytes) -> None:
    misfits = [*(header + value for value in MISFITS), b"\0\0\0\0\x08" + VALUES[0], b"\1" + HEADER]
    values = [part for misfit in misfits for part in (header + VALUES[1], misfit)]
    world.produce(*values, on_delivery=world.report)
    assert world.stored() == [part for misfit in misfits for part in (ROWS[1], misfit)]
    assert world.misfits == len(misfits)
    assert world.told == [(None, value, len(value)) for value in values]


def test_the_first_that_does_not_fit_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        world.produce(VALUES[0], HEADER + VALUES[0], b"")
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("topic 't': a value does not fit the schema, and is sent as a plain")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (VALUES[0][:-1], "not an Avro value of this schema: EOFError"),
        (VALUES[0] + b"\0", "not an Avro value of this schema: is longer than"),
        (b"\x80\0" + VALUES[0][1:], "its writer has encoded it otherwise than fastavro"),
    ],
)
def test_what_does_not_fit_can_be_refused(value: bytes, why: str) -> None:
    made = World(columnar_value_misfit="raise")
    with made.producer:
        made.produce(VALUES[0])
        with pytest.raises(RowError, match=why):
            made.produce(value)
        made.produce(VALUES[1])
        assert made.stored() == ROWS[:2]
        assert made.misfits == 0


def test_another_id_is_another_schema() -> None:
    made = World(columnar_value_misfit="raise")
    with made.producer:
        made.produce(HEADER + VALUES[0])
        with pytest.raises(RowError, match=r"begins with b'\\x00\\x00\\x00\\x00\\x08', and the"):
            made.produce(b"\0\0\0\0\x08" + VALUES[0])


def test_a_value_that_leaves_doubt_of_its_header_settles_nothing() -> None:
    """As a guess, the first would be the wrong row."""
    schema = of(n="int", l={"type": "array", "items": "int"})
    doubtful = b"\0\x08\2\2\2\2\0"
    assert datum({"n": 0, "l": [1] * 4}, schema) == doubtful
    assert doubtful[5:] == datum({"n": 1, "l": []}, schema)
    made = World(schema)
    with made.producer:
        made.produce(doubtful, b"\2\0", doubtful)
        assert made.stored() == [doubtful, {"n": 1, "l": []}, {"n": 0, "l": [1] * 4}]


def test_a_tombstone_is_a_plain_message(world: World) -> None:
    world.produce(VALUES[0], None, VALUES[1])
    assert world.stored() == [ROWS[0], None, ROWS[1]]


def test_key_headers_time_and_partition_are_the_records(world: World) -> None:
    world.produce(VALUES[0], key="k", headers={"h": b"v"}, timestamp=5, partition=0)
    world.producer.flush()
    [record] = world.kafka.records("t")
    assert (record.key(), record.headers(), record.timestamp()[1]) == (b"k", [("h", b"v")], 5)


# --- schemas --------------------------------------------------------------------------------------


def test_an_arrow_schema_does_not_say_how_values_are_written(world: World) -> None:
    arrow = pa.schema([("n", pa.int64())])
    with pytest.raises(SchemaError, match="no Avro schema does not say how values are"):
        world.producer.set_schema("u", arrow)
    world.producer.set_schema("u", arrow, value_format="rows")


def test_a_topics_format_is_checked(world: World) -> None:
    with pytest.raises(ConfigError, match="value_format='avr0': must be one of rows, json, avro"):
        world.producer.set_schema("t", SCHEMA, value_format="avr0")


def test_a_topic_may_have_the_format_for_itself() -> None:
    made = World(columnar_value_format="rows")
    with made.producer:
        made.producer.set_schema("t", json.dumps(SCHEMA), value_format="avro")
        made.produce(VALUES[0])
        assert made.stored() == [ROWS[0]]
        made.producer.set_schema("t", SCHEMA, value_format="rows")
        made.produce(VALUES[0])
        assert made.stored() == [ROWS[0], VALUES[0]]


def test_a_schema_that_grows_settles_its_own_id(world: World) -> None:
    world.produce(HEADER + VALUES[0])
    grown = of(n="long", e=ENUM, s=["null", "string"], more=["null", "int"])
    world.producer.set_schema("t", grown)
    world.produce(b"\0\0\0\0\x08" + datum({**ROWS[1], "more": 5}, grown), HEADER + VALUES[2])
    assert world.stored() == [ROWS[0], {**ROWS[1], "more": 5}, HEADER + VALUES[2]]
    assert [said["id"] for said in world.said()] == [7, 8]


def test_an_equal_schema_keeps_the_id_and_one_with_other_words_does_not(world: World) -> None:
    world.produce(HEADER + VALUES[0])
    world.producer.set_schema("t", json.dumps(SCHEMA))
    world.produce(b"\0\0\0\0\x08" + VALUES[0])
    world.producer.set_schema("t", {**SCHEMA, "doc": "A new version."})
    world.produce(b"\0\0\0\0\x08" + VALUES[0])
    assert world.stored() == [ROWS[0], b"\0\0\0\0\x08" + VALUES[0], ROWS[0]]


def test_a_decimal_of_many_bytes_is_refused() -> None:
    with pytest.raises(SchemaError, match="'d' is decimal128"):
        World(of(d={**DECIMAL, "size": 257}))


def test_a_list_of_types_is_its_record() -> None:
    made = World([DECIMAL, of(d="D")])
    with made.producer:
        made.produce(b"\0\0\0\5")
        assert made.said() == [{"types": {"d": {"fixed": 4}}}]
