"""`SerializingProducer` and `DeserializingConsumer`: confluent-kafka's, and what differs."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.error import (
    ConsumeError,
    KeyDeserializationError,
    KeySerializationError,
    ValueDeserializationError,
    ValueSerializationError,
)
from confluent_kafka.serialization import SerializationError

import columnar_kafka
from columnar_kafka import DeserializingConsumer, RowError, SerializingProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
PARQUET = {"columnar.encoding": "parquet", "columnar.linger.ms": 10}
RAW = {"columnar.encoding": "parquet", "fetch.raw.bytes": True}
PRODUCERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "confluent": (confluent_kafka.SerializingProducer, {}),
    "ours, none": (SerializingProducer, {}),
    "ours, no schema": (SerializingProducer, PARQUET),
}
CONSUMERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "confluent": (confluent_kafka.DeserializingConsumer, {}),
    "ours, none": (DeserializingConsumer, {}),
    "ours, parquet": (DeserializingConsumer, {"columnar.encoding": "parquet"}),
    "ours, raw": (DeserializingConsumer, RAW),
}
IS_2_16 = hasattr(confluent_kafka.Consumer, "cluster_id")
since_2_16 = pytest.mark.skipif(not IS_2_16, reason="confluent-kafka before 2.16 has no such thing")
_numbers = itertools.count(1)


class Serde:
    """Serializes `x` to b"name:x" or back, and remembers what it was called with."""

    def __init__(self, name: str, *, fails: bool = False) -> None:
        self.name = name
        self.fails = fails
        self.calls: list[Any] = []
        self.closed = 0

    def __call__(self, data: Any, ctx: Any) -> Any:
        self.calls.append((data, ctx.topic, str(ctx.field), ctx.headers))
        if self.fails:
            raise LookupError(f"{self.name} is broken")
        if data is None:
            return None
        if isinstance(data, bytes):
            return data.decode().removeprefix(f"{self.name}:")
        return f"{self.name}:{data}".encode()

    def close(self) -> None:
        self.closed += 1


class Builder:
    """Builds a `Serde`, and consumes a key of the configuration."""

    def __init__(self, serde: Serde) -> None:
        self.serde = serde

    def build(self, conf: dict[str, Any], is_key: bool) -> Any:
        assert is_key == (self.serde.name == "key")
        return self.serde, {key: value for key, value in conf.items() if key != "registry"}


@pytest.fixture
def topic(embedded: Any) -> str:
    name = f"serializing-{next(_numbers)}"
    embedded.create_topic(name, 1)
    return name


@pytest.fixture
def send(embedded: Any) -> Iterator[Callable[..., Any]]:
    """A factory of producers, closed in the end."""
    made: list[Any] = []

    def make(kind: str = "ours, no schema", **config: Any) -> Any:
        cls, own = PRODUCERS[kind]
        named = {name.replace("__", "."): value for name, value in config.items()}
        made.append(cls({"bootstrap.servers": embedded.bootstrap_servers, **own, **named}))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def receive(embedded: Any) -> Iterator[Callable[..., Any]]:
    """A factory of consumers that read a topic from its start, closed in the end."""
    made: list[Any] = []

    def make(topic: str, kind: str = "ours, parquet", **config: Any) -> Any:
        cls, own = CONSUMERS[kind]
        named = {name.replace("__", "."): value for name, value in config.items()}
        settings = {"bootstrap.servers": embedded.bootstrap_servers, "group.id": "g"}
        consumer = cls(
            {**settings, "enable.auto.commit": False, "log_level": 0, **own, **named},
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close()


def stored(embedded: Any, topic: str, count: int) -> list[Any]:
    """Return the first messages of a topic as Kafka has them."""
    with confluent_kafka.Consumer(
        {"bootstrap.servers": embedded.bootstrap_servers, "group.id": "stored"}
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(count, 20)


# --- the producer, as confluent-kafka's -----------------------------------------------------------


@pytest.mark.parametrize("kind", PRODUCERS)
def test_keys_and_values_of_plain_messages_are_serialized(embedded, topic, send, kind: str) -> None:
    key, value = Serde("key"), Serde("value")
    producer = send(kind, key__serializer=key, value__serializer=value)
    reports: list[Any] = []
    producer.produce(
        topic,
        "k",
        {"n": 1},
        0,
        lambda error, message: reports.append((error, message.key())),
        7,
        {"h": b"1"},
    )
    producer.produce(topic=topic, value="v")
    assert producer.flush(20) == 0
    one, two = stored(embedded, topic, 2)
    assert (one.key(), one.value(), one.timestamp()[1]) == (b"key:k", b"value:{'n': 1}", 7)
    assert one.headers() == [("h", b"1")]
    assert (two.key(), two.value()) == (None, b"value:v")
    assert reports == [(None, b"key:k")]
    assert key.calls == [("k", topic, "key", {"h": b"1"}), (None, topic, "key", None)]
    assert value.calls == [({"n": 1}, topic, "value", {"h": b"1"}), ("v", topic, "value", None)]


@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_serializers_error_is_raised_as_confluent_kafkas(topic, send, kind: str) -> None:
    for field, error, code in (
        ("key", KeySerializationError, KafkaError._KEY_SERIALIZATION),
        ("value", ValueSerializationError, KafkaError._VALUE_SERIALIZATION),
    ):
        producer = send(kind, **{f"{field}__serializer": Serde(field, fails=True)})
        with pytest.raises(error, match=f"{field} is broken") as raised:
            producer.produce(topic, "k", "v")
        assert isinstance(raised.value, SerializationError)
        assert raised.value.code == code
        assert isinstance(raised.value.exception, LookupError)
        assert producer.flush(20) == 0


@since_2_16
@pytest.mark.parametrize("kind", PRODUCERS)
def test_what_cannot_be_produced_is_not_serialized(topic, send, kind: str) -> None:
    key = Serde("key")
    producer = send(kind, key__serializer=key)
    with pytest.raises(TypeError):
        producer.produce(7, "k")
    producer.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce(topic, "k")
    assert key.calls == []


@since_2_16
@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_producer_closes_the_serializers_it_built(topic, send, kind: str) -> None:
    key, value = Serde("key"), Serde("value")
    config = {"registry": "x", "key.serializer.builder": Builder(key), "value.serializer": value}
    with send(kind, **config) as producer:
        producer.produce(topic, "k", "v")
    producer.close()
    assert (key.closed, value.closed) == (1, 0)
    assert len(key.calls) == 1


@since_2_16
@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_serializer_and_its_builder_are_one_too_many(send, kind: str) -> None:
    key = Serde("key")
    with pytest.raises(ValueError, match="Cannot configure both"):
        send(kind, **{"key.serializer": key, "key.serializer.builder": Builder(key)})


@since_2_16
@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_producer_that_cannot_be_made_closes_what_it_built(send, kind: str) -> None:
    key = Serde("key")
    with pytest.raises(confluent_kafka.KafkaException):
        send(kind, **{"key.serializer.builder": Builder(key), "no.such.key": 1})
    assert key.closed == 1


# --- topics with a schema -------------------------------------------------------------------------


def test_values_for_a_topic_with_a_schema_are_not_serialized(topic, send, receive) -> None:
    key, value = Serde("key"), Serde("value")
    producer = send(key__serializer=key, value__serializer=value)
    producer.set_schema(topic, SCHEMA)
    reports: list[Any] = []
    for n in range(3):
        producer.produce(
            topic,
            f"k{n}",
            {"n": n},
            on_delivery=lambda _, message: reports.append((message.key(), message.value())),
            timestamp=100 + n,
            headers=[("h", b"1")],
        )
    producer.produce(topic, key="k", value=b"as it is")
    producer.produce(topic, "k", None)
    assert producer.flush(20) == 0
    assert value.calls == []
    assert [call[0] for call in key.calls] == ["k0", "k1", "k2", "k", "k"]
    assert key.calls[0] == ("k0", topic, "key", [("h", b"1")])
    assert reports == [(b"key:k%d" % n, {"n": n}) for n in range(3)]
    consumer = receive(topic)
    messages = [consumer.poll(20) for _ in range(5)]
    assert [message.value() for message in messages] == [
        *({"n": n} for n in range(3)),
        b"as it is",
        None,
    ]
    assert [message.key() for message in messages] == [
        *(b"key:k%d" % n for n in range(3)),
        *[b"key:k"] * 2,
    ]
    assert [message.timestamp()[1] for message in messages[:3]] == [100, 101, 102]


def test_a_topic_of_json_has_what_the_serializer_makes(topic, send, receive) -> None:
    producer = send(value__serializer=lambda value, _: json.dumps(value))
    producer.set_schema(topic, SCHEMA, value_format="json")
    reports: list[Any] = []
    producer.produce(
        topic, "k", {"n": 1, "more": [None]}, on_delivery=lambda _, m: reports.append(m)
    )
    assert producer.flush(20) == 0
    assert [report.value() for report in reports] == [b'{"n": 1, "more": [null]}']
    message = receive(topic).poll(20)
    assert (message.key(), message.value()) == (b"k", {"n": 1, "_rest": '{"more":[null]}'})


def test_a_topic_of_avro_has_what_the_serializer_makes(topic, send, receive) -> None:
    producer = send(value__serializer=lambda value, _: b"\0\0\0\0\7" + bytes([2 * value]))
    fields = [{"name": "n", "type": "long"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    producer.set_schema(topic, schema, value_format="avro")
    for n in range(3):
        producer.produce(topic, "k", n)
    assert producer.flush(20) == 0
    assert receive(topic).poll(20).value() == {"n": 0}
    config = {"columnar.value.format": "avro", "value.deserializer": lambda value, _: value[5] // 2}
    consumer = receive(topic, **config)
    assert [consumer.poll(20).value() for _ in range(3)] == [0, 1, 2]


def test_a_key_that_cannot_be_serialized_is_an_error_there_too(topic, send) -> None:
    producer = send(key__serializer=Serde("key", fails=True), value__serializer=Serde("value"))
    producer.set_schema(topic, SCHEMA)
    with pytest.raises(KeySerializationError, match="key is broken"):
        producer.produce(topic, "k", {"n": 1})
    assert len(producer) == 0


def test_a_row_that_does_not_fit_is_a_row_error(topic, send) -> None:
    producer = send(value__serializer=Serde("value"))
    producer.set_schema(topic, SCHEMA)
    with pytest.raises(RowError):
        producer.produce(topic, value={"m": 1})


def test_other_topics_are_serialized_all_the_same(embedded, topic, send) -> None:
    value = Serde("value")
    producer = send(value__serializer=value)
    producer.set_schema("another", SCHEMA)
    producer.produce(topic, value={"n": 1})
    assert producer.flush(20) == 0
    assert [message.value() for message in stored(embedded, topic, 1)] == [b"value:{'n': 1}"]


@pytest.mark.parametrize("schema", [True, False])
def test_a_batch_is_not_serialized_as_in_confluent_kafka(
    topic, send, receive, schema: bool
) -> None:
    key, value = Serde("key"), Serde("value")
    producer = send(key__serializer=key, value__serializer=value)
    if schema:
        producer.set_schema(topic, SCHEMA)
    rows = [{"n": n} if schema else b"%d" % n for n in range(2)]
    batch = [{"value": row, "key": b"k"} for row in rows]
    assert producer.produce_batch(topic, batch) == 2
    assert producer.flush(20) == 0
    assert key.calls == value.calls == []
    consumer = receive(topic)
    messages = [consumer.poll(20) for _ in rows]
    assert [(message.key(), message.value()) for message in messages] == [
        (b"k", row) for row in rows
    ]


# --- the consumer, as confluent-kafka's -----------------------------------------------------------


@pytest.mark.parametrize("kind", CONSUMERS)
def test_keys_and_values_of_plain_messages_are_deserialized(
    topic, send, receive, kind: str
) -> None:
    producer = send()
    producer.produce(topic, b"key:k", b"value:v", headers=[("h", b"1")])
    producer.produce(topic)
    assert producer.flush(20) == 0
    key, value = Serde("key"), Serde("value")
    consumer = receive(topic, kind, key__deserializer=key, value__deserializer=value)
    one, two = consumer.poll(20), consumer.poll(20)
    assert (one.key(), one.value()) == ("k", "v")
    if IS_2_16:
        assert (one.deserialized_key(), one.deserialized_value()) == ("k", "v")
    assert (two.key(), two.value()) == (None, None)
    assert consumer.poll(0) is None
    assert key.calls == [(b"key:k", topic, "key", [("h", b"1")]), (None, topic, "key", None)]
    assert value.calls[0] == (b"value:v", topic, "value", [("h", b"1")])


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_deserializers_error_is_raised_as_confluent_kafkas(
    topic, send, receive, kind: str
) -> None:
    producer = send()
    producer.produce(topic, b"key:k", b"value:1")
    producer.produce(topic, b"key:k", b"value:2")
    assert producer.flush(20) == 0
    for field, error, code in (
        ("key", KeyDeserializationError, KafkaError._KEY_DESERIALIZATION),
        ("value", ValueDeserializationError, KafkaError._VALUE_DESERIALIZATION),
    ):
        serde = Serde(field, fails=True)
        consumer = receive(topic, kind, **{f"{field}__deserializer": serde})
        with pytest.raises(error, match=f"{field} is broken") as raised:
            consumer.poll(20)
        assert raised.value.code == code
        assert raised.value.kafka_message.value() == b"value:1"
        serde.fails = False
        assert consumer.poll(20).value() in (b"value:2", "2")  # the next one


@pytest.mark.parametrize("kind", CONSUMERS)
def test_an_error_event_is_raised(topic, receive, kind: str) -> None:
    consumer = receive(topic, kind, enable__partition__eof=True)
    with pytest.raises(ConsumeError) as raised:
        consumer.poll(20)
    assert raised.value.code == KafkaError._PARTITION_EOF
    assert raised.value.kafka_message.topic() == topic


@pytest.mark.parametrize("kind", CONSUMERS)
def test_consume_is_not_implemented(topic, receive, kind: str) -> None:
    with pytest.raises(NotImplementedError):
        receive(topic, kind).consume()


@since_2_16
@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_consumer_closes_the_deserializers_it_built(topic, receive, kind: str) -> None:
    key, value = Serde("key"), Serde("value")
    config = {
        "registry": "x",
        "key.deserializer": key,
        "value.deserializer.builder": Builder(value),
    }
    with receive(topic, kind, **config) as consumer:
        pass
    consumer.close()
    assert (key.closed, value.closed) == (0, 1)


# --- segments -------------------------------------------------------------------------------------


@pytest.fixture
def mixed(topic, send) -> str:
    """A topic with a plain message, a segment of two records, and a plain message."""
    producer = send()
    producer.set_schema(topic, SCHEMA)
    producer.produce(topic, b"key:a", b"value:a")
    for n in range(2):
        producer.produce(topic, b"key:%d" % n, {"n": n}, headers=[("h", b"%d" % n)])
    producer.produce(topic, b"key:z", b"value:z")
    assert producer.flush(20) == 0
    return topic


def test_values_of_segments_records_are_not_deserialized(mixed, receive) -> None:
    key, value = Serde("key"), Serde("value")
    consumer = receive(mixed, key__deserializer=key, value__deserializer=value)
    messages = [consumer.poll(20) for _ in range(4)]
    assert [message.value() for message in messages] == ["a", {"n": 0}, {"n": 1}, "z"]
    assert [message.key() for message in messages] == ["a", "0", "1", "z"]
    assert [call[0] for call in value.calls] == [b"value:a", b"value:z"]
    assert key.calls[1] == (b"key:0", mixed, "key", [("h", b"0")])
    assert [(message.kafka_offset(), message.row()) for message in messages] == [
        (0, 0),
        (1, 0),
        (1, 1),
        (2, 0),
    ]
    done = consumer.commit(message=messages[1], asynchronous=False)
    assert [place.offset for place in done] == [messages[2].offset()]


def test_json_of_segments_records_is_deserialized(mixed, receive) -> None:
    key, value = Serde("key"), Serde("value")
    config = {"columnar.value.format": "json", "value.deserializer": value}
    consumer = receive(mixed, key__deserializer=key, **config)
    messages = [consumer.poll(20) for _ in range(4)]
    assert [message.key() for message in messages] == ["a", "0", "1", "z"]
    assert [call[0] for call in value.calls] == [b"value:a", b'{"n":0}', b'{"n":1}', b"value:z"]
    assert value.calls[1] == (b'{"n":0}', mixed, "value", [("h", b"0")])


def test_a_records_key_that_cannot_be_deserialized_is_an_error(mixed, receive) -> None:
    consumer = receive(mixed, key__deserializer=Serde("key", fails=True))
    consumer.seek(TopicPartition(mixed, 0, columnar_kafka.position.start(1)))
    with pytest.raises(KeyDeserializationError, match="key is broken") as raised:
        consumer.poll(20)
    assert raised.value.kafka_message.value() == {"n": 0}


def test_raw_segments_are_not_deserialized(mixed, receive) -> None:
    value = Serde("value")
    consumer = receive(mixed, "ours, raw", value__deserializer=value)
    values = [consumer.poll(20).value() for _ in range(3)]
    assert (values[0], values[2]) == ("a", "z")
    assert values[1][:4] == b"PAR1"
    assert len(value.calls) == 2


@pytest.mark.parametrize("kind", ["confluent", "ours, none"])
def test_with_encoding_none_a_segments_bytes_are_deserialized(mixed, receive, kind: str) -> None:
    """As everywhere where nothing is known of segments."""
    consumer = receive(mixed, kind, value__deserializer=Serde("value"))
    assert consumer.poll(20).value() == "a"
    with pytest.raises(ValueDeserializationError) as raised:
        consumer.poll(20)
    assert raised.value.kafka_message.value()[:4] == b"PAR1"
    assert consumer.poll(20).value() == "z"


def test_segments_can_be_taken_whole(mixed, receive) -> None:
    consumer = receive(mixed, value__deserializer=Serde("value"))
    assert consumer.poll(20).value() == "a"
    assert consumer.poll_segment(20).to_table().column("n").to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("ours", "stock"),
    [
        (SerializingProducer, confluent_kafka.SerializingProducer),
        (DeserializingConsumer, confluent_kafka.DeserializingConsumer),
    ],
)
def test_they_are_confluent_kafkas_and_take_types(ours: Any, stock: Any) -> None:
    assert issubclass(ours, stock)
    assert issubclass(ours, columnar_kafka.Producer | columnar_kafka.Consumer)
    assert ours[str, dict]
