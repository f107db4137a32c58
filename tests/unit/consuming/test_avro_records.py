"""`columnar.value.format=avro`: a record's value is Avro; in all else it is the record it was."""

from __future__ import annotations

import datetime
import decimal
import io
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition
from segments import segment

from columnar_kafka import native
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from columnar_kafka.lake.model import SourceMessage

CONFIG = {"group.id": "g", "columnar.encoding": "parquet", "auto.offset.reset": "earliest"}
AVRO = {**CONFIG, "columnar.value.format": "avro"}
UTC = datetime.timezone.utc


@pytest.fixture(params=["core", "python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the native core, and without it."""
    name: str = request.param
    if name == "python":
        monkeypatch.setattr(native, "enabled", False)
    elif not native.enabled:
        pytest.skip("the native core is off")
    return name


def said(table: pa.Table, text: bytes | None = None, key: str = "columnar.avro") -> SourceMessage:
    """Return a segment whose footer says this."""
    return segment(table, footer={} if text is None else {key: text})


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def topic_of(*messages: SourceMessage | bytes | None) -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    for message in messages:
        if message is None or isinstance(message, bytes):
            kafka.append("t", 0, message)
        else:
            kafka.append("t", 0, message.value, headers=[*message.headers])
    return kafka


def read(*messages: SourceMessage | bytes | None, **config: Any) -> list[Any]:
    consumer = topic_of(*messages).Consumer({**AVRO, **config})
    consumer.assign([TopicPartition("t", 0, 0)])
    return list(iter(lambda: consumer.poll(0), None))


def values(messages: list[Any]) -> list[Any]:
    assert [message.error() for message in messages] == [None] * len(messages)
    return [message.value() for message in messages]


def test_records_that_were_rows_have_the_types_of_their_columns() -> None:
    assert values(read(said(numbers(0, -1, 64, None)))) == [b"\2\0", b"\2\1", b"\2\x80\1", b"\0"]


def test_the_footer_says_what_stands_in_front_and_how_a_union_is() -> None:
    text = b'{"id":513,"types":{"n":["int","null","long"]}}'
    header = b"\0\0\0\2\1"
    assert values(read(said(numbers(5, None, 2**31), text))) == [
        header + b"\0\x0a",
        header + b"\2",
        header + b"\4\x80\x80\x80\x80\x10",
    ]


def test_its_length_is_that_of_the_bytes() -> None:
    [message] = read(said(numbers(64)))
    assert (type(message.value()), len(message)) == (bytes, 3)


def test_plain_messages_are_handed_through_in_their_places() -> None:
    messages = read(b"\0", said(numbers(1)), None, b"", said(numbers(2)))
    assert values(messages) == [b"\0", b"\2\2", None, b"", b"\2\4"]


def test_many_at_once() -> None:
    consumer = topic_of(said(numbers(*range(50))), b"x").Consumer(AVRO)
    consumer.assign([TopicPartition("t", 0, 0)])
    assert values(consumer.consume(100, 0)) == [*(bytes([2, 2 * n]) for n in range(50)), b"x"]


def test_it_begins_inside_a_segment() -> None:
    consumer = topic_of(said(numbers(1, None, 3))).Consumer(AVRO)
    consumer.assign([TopicPartition("t", 0, 0)])
    first = consumer.poll(0)
    consumer.seek(TopicPartition("t", 0, first.offset() + 1))
    assert values([consumer.poll(0), consumer.poll(0)]) == [b"\0", b"\2\6"]


def test_times_dates_and_decimals_are_numbers() -> None:
    at = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)
    columns = {
        "at": pa.array([at], pa.timestamp("ms", "UTC")),
        "local": pa.array([at.replace(tzinfo=None)], pa.timestamp("us")),
        "nanos": pa.array([-1], pa.int64()).cast(pa.timestamp("ns", "UTC")),
        "day": pa.array([-1], pa.int32()).cast(pa.date32()),
        "millis": pa.array([1], pa.int32()).cast(pa.time32("ms")),
        "micros": pa.array([64], pa.int64()).cast(pa.time64("us")),
        "price": pa.array([decimal.Decimal("-1.28")], pa.decimal128(9, 2)),
        "far": pa.array([2**62], pa.int64()).cast(pa.timestamp("ms", "UTC")),
    }
    schema = pa.schema([pa.field(name, array.type, False) for name, array in columns.items()])
    [value] = values(read(said(pa.table(columns, schema))))
    sink = io.BytesIO()
    for avro, number in [
        *[("long", -1), ("long", -1000), ("long", -1), ("int", -1), ("int", 1), ("long", 64)],
        *[("bytes", b"\xff\x80"), ("long", 2**62)],
    ]:
        fastavro.schemaless_writer(sink, avro, number)
    assert value == sink.getvalue()


def test_a_columns_type_that_avro_does_not_have_is_the_segments_error() -> None:
    bad = said(pa.table({"n": pa.array([1], pa.uint8())}))
    messages = read(said(numbers(1)), bad, said(numbers(2)))
    assert values([messages[0], messages[2]]) == [b"\2\2", b"\2\4"]
    error = messages[1].error()
    assert error.code() == KafkaError._BAD_MSG
    assert "segment at t[0]@1: field 'n' is uint8, which Avro does not have" in error.str()
    assert messages[1].value() == bad.value


def test_records_that_were_json_are_the_segments_error() -> None:
    [message] = read(said(numbers(1), b"{}", "columnar.json"))
    assert "its records were JSON" in message.error().str()


@pytest.mark.parametrize("decode", ["inline", "isolated"])
def test_a_malformed_footer_is_one_error(decode: str) -> None:
    messages = read(said(numbers(1), b"[]"), said(numbers(2)), **{"columnar.decode": decode})
    assert "columnar.avro is [] in the file" in messages[0].error().str()
    assert values(messages[1:]) == [b"\2\4"]


def test_a_value_that_its_type_does_not_have_is_the_segments_error() -> None:
    table = pa.table({"s": pa.array(["A", "C"])})
    bad = said(table, b'{"types":{"s":["null",{"enum":["A","B"]}]}}')
    messages = read(bad, said(numbers(2)))
    assert "'C' is no symbol of its enum" in messages[0].error().str()
    assert values(messages[1:]) == [b"\2\4"]


@pytest.mark.parametrize(
    ("array", "form"),
    [
        (pa.array([decimal.Decimal(200)], pa.decimal128(9, 0)), b'{"fixed":1}'),
        (pa.array([2**31]), b'"int"'),
        (pa.array([0.5]), b'"float"'),
        (pa.array([b"abc"]), b'{"fixed":2}'),
    ],
)
def test_a_value_that_no_type_has(array: pa.Array, form: bytes) -> None:
    table = pa.table([array], schema=pa.schema([pa.field("f", array.type, nullable=False)]))
    [message] = read(said(table, b'{"types":{"f":%s}}' % form))
    assert "segment at t[0]@0: a record has no form in Avro: " in message.error().str()


def test_a_record_that_is_too_large_is_the_segments_error() -> None:
    many = pa.array([["x" * 1000] * 3000], pa.list_(pa.string()))
    messages = read(said(pa.table({"l": many})), **{"columnar.max.decoded.bytes": 2_000_000})
    assert "2000000" in messages[0].error().str()


def test_a_table_and_rows_are_as_without_it() -> None:
    consumer = topic_of(said(numbers(1, 2), b'{"id":7}')).Consumer(AVRO)
    consumer.assign([TopicPartition("t", 0, 0)])
    assert consumer.consume_arrow(10, 0).select(["n"]).to_pylist() == [{"n": 1}, {"n": 2}]
    assert values(read(said(numbers(1), b"[]"), **{"columnar.value.format": "rows"})) == [{"n": 1}]
    as_json = {"columnar.value.format": "json"}
    assert values(read(said(numbers(1, None), b'{"id":7}'), **as_json)) == [
        b'{"n":1}',
        b'{"n":null}',
    ]
