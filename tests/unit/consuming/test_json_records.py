"""`columnar.value.format=json`: a record's value is JSON; in all else it is the record it was."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import KafkaError, TopicPartition
from json_segments import json_rows, json_segment

from columnar_kafka import native, position
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from columnar_kafka.lake.model import SourceMessage

CONFIG = {"group.id": "g", "columnar.encoding": "parquet", "auto.offset.reset": "earliest"}
JSON = {**CONFIG, "columnar.value.format": "json"}
FIELDS = [("n", pa.int64()), ("s", pa.string()), ("_rest", pa.string())]
SAID = {"rest": "_rest", "nulls": ["s"]}


@pytest.fixture(params=["core", "python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the native core, and without it."""
    name: str = request.param
    if name == "python":
        monkeypatch.setattr(native, "enabled", False)
    elif not native.enabled:
        pytest.skip("the native core is off")
    return name


def three(first: int = 0, **place: Any) -> SourceMessage:
    """Return a segment of three records."""
    rows = [(first, "x", None), (first + 1, None, '{"r":[]}'), (None, None, '{"s":null}')]
    return json_rows(FIELDS, rows, SAID, **place)


def expected(first: int = 0) -> list[bytes]:
    """Return the values of the three."""
    return [b'{"n":%d,"s":"x"}' % first, b'{"n":%d,"s":null,"r":[]}' % (first + 1), b"{}"]


def topic_of(*messages: SourceMessage | bytes | None) -> FakeKafka:
    """Return a cluster with these segments and plain values in topic "t"."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    for message in messages:
        if message is None or isinstance(message, bytes):
            kafka.append("t", 0, message, key=b"k", headers=[("h", b"v")])
        else:
            kafka.append("t", 0, message.value, headers=[*message.headers])
    return kafka


def reading(kafka: FakeKafka, at: int = 0, **config: Any) -> Any:
    consumer = kafka.Consumer({**JSON, **config})
    consumer.assign([TopicPartition("t", 0, at)])
    return consumer


def polled(consumer: Any) -> list[Any]:
    return list(iter(lambda: consumer.poll(0), None))


def taken(messages: list[Any]) -> list[Any]:
    assert all(message.error() is None for message in messages)
    return [message.value() for message in messages]


def test_a_records_value_is_json() -> None:
    kafka = topic_of(three())
    assert taken(polled(reading(kafka))) == expected()
    assert taken(reading(kafka).consume(10, 0)) == expected()


def test_its_length_is_that_of_the_bytes() -> None:
    [first, *_] = polled(reading(topic_of(three())))
    assert (type(first.value()), len(first)) == (bytes, 15)
    assert first.deserialized_value() is first.value()


def test_plain_messages_are_handed_through() -> None:
    values = [b'{ "n" : 1 }', None, b"\xff", b""]
    messages = polled(reading(topic_of(values[0], three(), *values[1:], three(5))))
    assert taken(messages) == [values[0], *expected(), *values[1:], *expected(5)]
    assert [message.row() for message in messages] == [0, 0, 1, 2, 0, 0, 0, 0, 1, 2]
    assert (messages[0].key(), messages[0].headers()) == (b"k", [("h", b"v")])


def test_records_that_were_rows_are_json_too() -> None:
    kafka = FakeKafka()
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", pa.schema([("at", pa.timestamp("ms", "UTC")), ("n", pa.int64())]))
        producer.produce("t", {"at": 0, "n": 1}, key=b"k", headers=[("h", b"v")], timestamp=7)
        producer.produce("t", {"at": None, "n": None}, timestamp=8)
    one, two = polled(reading(kafka))
    assert one.value() == b'{"at":"1970-01-01T00:00:00Z","n":1}'
    assert (one.key(), one.headers(), one.timestamp()[1]) == (b"k", [("h", b"v")], 7)
    assert two.value() == b'{"at":null,"n":null}'


def test_by_default_values_are_rows() -> None:
    kafka = topic_of(three())
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", 0, 0)])
    assert taken(polled(consumer))[1] == {"n": 1, "s": None, "_rest": '{"r":[]}'}


def test_it_continues_inside_a_segment() -> None:
    kafka = topic_of(three(), b"plain", three(5))
    consumer = kafka.Consumer({**JSON, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    first = consumer.poll(10)
    consumer.commit(first, asynchronous=False)
    consumer.close()
    consumer = kafka.Consumer(JSON)
    consumer.subscribe(["t"])
    second = consumer.poll(10)
    assert [second.value(), *taken(polled(consumer))] == [*expected()[1:], b"plain", *expected(5)]
    assert second.offset() == first.offset() + 1 == position.pack(0, 1, 3)


def test_it_seeks_inside_a_segment() -> None:
    consumer = reading(topic_of(three(), three(5)))
    before = polled(consumer)
    consumer.seek(TopicPartition("t", 0, before[4].offset()))
    assert taken(polled(consumer)) == expected(5)[1:]


def test_a_paused_partition_keeps_its_records() -> None:
    consumer = reading(topic_of(three(), b"plain"))
    assert consumer.poll(0).value() == expected()[0]
    consumer.pause([TopicPartition("t", 0)])
    assert consumer.poll(0) is None
    consumer.resume([TopicPartition("t", 0)])
    assert taken(polled(consumer)) == [*expected()[1:], b"plain"]


def test_tables_are_as_without_it() -> None:
    consumer = reading(topic_of(three(), three(5)))
    assert consumer.poll(0).value() == expected()[0]
    table = consumer.consume_arrow(1, 0)
    assert table.select(["n", "s", "_rest"]).to_pylist() == [
        {"n": 1, "s": None, "_rest": '{"r":[]}'}
    ]
    assert consumer.poll(0).value() == expected()[2]
    table = consumer.consume_arrow(10, 0, columns=["n"], filter=pc.field("n") > 5)
    assert table.to_pylist() == [{"n": 6}]


def test_a_segment_that_a_table_has_begun_goes_on_as_json() -> None:
    consumer = reading(topic_of(three()))
    assert consumer.consume_arrow(1, 0).num_rows == 1
    assert taken(polled(consumer)) == expected()[1:]


def test_a_segment_is_handed_out_whole_as_rows() -> None:
    consumer = reading(topic_of(three()))
    assert consumer.poll(0).value() == expected()[0]
    segment = consumer.poll_segment(0)
    assert segment.to_table(["n"]).to_pylist() == [{"n": 0}, {"n": 1}, {"n": None}]
    assert next(segment.records()).value == {"n": 0, "s": "x", "_rest": None}


def test_a_malformed_footer_is_one_error() -> None:
    bad = json_rows(FIELDS, [(1, None, None)] * 3, {"nulls": 5})
    consumer = reading(topic_of(three(), bad, three(5)))
    messages = polled(consumer)
    assert taken([*messages[:3], *messages[4:]]) == [*expected(), *expected(5)]
    error = messages[3].error()
    assert error.code() == KafkaError._BAD_MSG
    assert "segment at t[0]@1: columnar.json is" in error.str()
    assert "nulls must be a list" in error.str()
    assert messages[3].value() == bad.value
    consumer = kafka_rows(bad)
    assert [row["n"] for row in taken(polled(consumer))] == [1, 1, 1]


def kafka_rows(*messages: SourceMessage) -> Any:
    return reading(topic_of(*messages), **{"columnar.value.format": "rows"})


def test_a_malformed_footer_does_not_concern_whole_segments() -> None:
    bad = json_rows(FIELDS, [(1, None, None)], {"nulls": 5})
    segment = reading(topic_of(bad)).poll_segment(0)
    segment.verify("decode")
    assert segment.to_table(["n"]).to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_a_message_can_be_pickled(protocol: int) -> None:
    messages = polled(reading(topic_of(three())))
    again = pickle.loads(pickle.dumps(messages, protocol))
    assert again == messages
    assert taken(again) == expected()
    assert [message.offset() for message in again] == [message.offset() for message in messages]


def test_a_process_of_its_own_decodes() -> None:
    bad = json_rows(FIELDS, [(1, None, None)], b"[]")
    consumer = reading(topic_of(three(), bad, three(5)), **{"columnar.decode": "isolated"})
    messages = polled(consumer)
    assert taken([*messages[:3], *messages[4:]]) == [*expected(), *expected(5)]
    assert "columnar.json is [] in the file" in messages[3].error().str()
    consumer.close()


def test_records_that_fit_no_object_are_the_segments_error() -> None:
    twice = pa.struct([pa.field("x", pa.int64()), pa.field("x", pa.int64())])
    column = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], fields=[*twice])
    [message] = polled(reading(topic_of(json_segment(pa.table({"o": column})))))
    assert "field 'o.x' occurs 2 times" in message.error().str()


def test_many_records_at_once() -> None:
    rows = [(n, None, f'{{"r":{n}}}' if n % 7 == 0 else None) for n in range(3000)]
    consumer = reading(topic_of(json_rows(FIELDS, rows, SAID)))
    found = taken(consumer.consume(5, 0)) + taken(consumer.consume(5000, 0))
    assert [json.loads(value) for value in found] == [
        {"n": n, "s": None, **({"r": n} if n % 7 == 0 else {})} for n in range(3000)
    ]
