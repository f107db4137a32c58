"""`set_schema` with a registry: what is registered, what is sent, and what each refuses."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from columnar_kafka import ConfigError, RegistryError, SchemaError
from columnar_kafka.plain import registering
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka import Producer

CONFIG = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
ARROW = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
POINT: dict[str, Any] = {
    "type": "record",
    "name": "geo.Point",
    "fields": [{"name": "x", "type": "long"}],
}
GROWN = {**POINT, "fields": [*POINT["fields"], {"name": "y", "type": ["null", "long"]}]}
TEXT = json.dumps(POINT)


@pytest.fixture
def kafka() -> FakeKafka:
    return FakeKafka()


@pytest.fixture
def producer(kafka: FakeKafka) -> Producer:
    return kafka.Producer(CONFIG)


def ids(kafka: FakeKafka, topic: str = "t") -> list[bytes | None]:
    """Return the schema ids of a topic's segments."""
    found = []
    for message in kafka.messages(topic):
        number = dict(message.headers()).get("columnar.schema.id")
        footer = pq.read_metadata(io.BytesIO(message.value())).metadata
        assert footer.get(b"columnar.schema.id") == number
        found.append(number)
    return found


def latest(kafka: FakeKafka, subject: str) -> Any:
    return json.loads(kafka.registry.get_latest_version(subject).schema.schema_str)


# --- what is registered and sent -----------------------------------------------------------------


def test_an_avro_schema_is_registered_as_it_is_and_segments_say_its_id(kafka, producer) -> None:
    kafka.registry.register_schema("other", Schema('"long"', "AVRO"))
    for schema in POINT, TEXT, [POINT], Schema(TEXT, "AVRO"), fastavro.parse_schema(dict(POINT)):
        producer.set_schema("t", schema, registry=kafka.registry)
        producer.produce("t", {"x": 1})
        producer.flush()
    [version] = kafka.registry.get_versions("t-value")
    assert latest(kafka, "t-value") == POINT
    assert (version, ids(kafka)) == (1, [b"2"] * 5)


def test_arrow_data_has_the_id_too(kafka, producer) -> None:
    producer.set_schema("t", POINT, registry=kafka.registry)
    producer.produce_arrow("t", pa.table({"x": [1, 2]}))
    producer.flush()
    assert ids(kafka) == [b"1"]


def test_an_arrow_schema_is_registered_as_the_avro_that_gives_it_back(kafka, producer) -> None:
    producer.set_schema("my.orders-2", ARROW, registry=kafka.registry)
    assert latest(kafka, "my.orders-2-value") == {
        "type": "record",
        "name": "my_orders_2",
        "fields": [
            {"name": "id", "type": ["null", "long"], "default": None},
            {
                "name": "at",
                "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
                "default": None,
            },
        ],
    }
    other = kafka.Producer(CONFIG)
    other.set_schema("my.orders-2", registry=kafka.registry)
    for each in producer, other:
        each.produce("my.orders-2", {"id": 1, "at": None})
        each.flush()
    [one, same] = kafka.messages("my.orders-2")
    assert dict(one.headers())["columnar.schema"] == dict(same.headers())["columnar.schema"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (pa.schema([("a", pa.int8())]), "field 'a' is int8, which Avro does not have"),
        (
            pa.schema([("a", pa.list_(pa.struct([("b", pa.decimal256(5, 2))])))]),
            "field 'a.item.b' is decimal256[5,2], which Avro gives back as decimal128[5,2]",
        ),
        (
            pa.schema([pa.field("a", pa.int32(), metadata={"k": "v"})]),
            "field 'a' has metadata (k), which Avro does not keep",
        ),
        (
            pa.schema([("a", pa.int32())], metadata={"pandas": "x"}),
            "the schema has metadata (pandas), which Avro does not keep",
        ),
    ],
)
def test_an_arrow_schema_that_no_avro_gives_back_is_refused_by_field(
    kafka, producer, schema, reason
) -> None:
    with pytest.raises(SchemaError) as raised:
        producer.set_schema("t", schema, registry=kafka.registry)
    assert str(raised.value) == f"{reason}: change it, or set the schema without a registry"
    assert kafka.registry.get_subjects() == []


def test_without_a_schema_the_latest_one_is_used_each_time(kafka, producer) -> None:
    for schema, row in (POINT, {"x": 1}), (GROWN, {"x": 2, "y": 3}):
        kafka.registry.register_schema("t-value", Schema(json.dumps(schema), "AVRO"))
        producer.set_schema("t", registry=kafka.registry)
        producer.produce("t", row)
        producer.flush()
    assert ids(kafka) == [b"1", b"2"]
    assert [record.value() for record in kafka.records("t")] == [{"x": 1}, {"x": 2, "y": 3}]


def test_records_before_a_schema_grows_keep_its_id(kafka, producer) -> None:
    producer.set_schema("t", POINT, registry=kafka.registry)
    producer.produce("t", {"x": 1})
    producer.set_schema("t", GROWN, registry=kafka.registry)
    producer.produce("t", {"x": 2, "y": None})
    producer.set_schema("t", GROWN)  # of nobody's registry
    producer.produce("t", {"x": 3, "y": None})
    producer.flush()
    assert ids(kafka) == [b"1", b"2", None]


def test_a_schema_may_refer_to_others(kafka, producer) -> None:
    line = {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "a", "type": "geo.Point"}, {"name": "b", "type": "geo.Point"}],
    }
    kafka.registry.register_schema("point", Schema(TEXT, "AVRO"))
    references = [SchemaReference("geo.Point", "point", 1)]
    schema: Any = Schema(json.dumps(line), "AVRO", references)
    producer.set_schema("t", schema, registry=kafka.registry)
    other = kafka.Producer(CONFIG)
    other.set_schema("t", registry=kafka.registry)
    for each in producer, other:
        each.produce("t", {"a": {"x": 1}, "b": {"x": 2}})
        each.flush()
    assert ids(kafka) == [b"2", b"2"]
    assert kafka.registry.get_latest_version("t-value").schema.references == references


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "conf"),
    [
        (TEXT, {}),
        (TEXT, {"auto.register.schemas": False}),
        (TEXT, {"auto.register.schemas": False, "use.latest.version": True}),
        (TEXT, {"use.schema.id": 2}),
        (None, {"use.schema.id": 2}),
        (TEXT, {"use.schema.id": 77}),
        (TEXT, {"use.latest.version": True}),
        (TEXT, {"use.schema.id": "2"}),
        (TEXT, {"normalize.schemas": True}),
        (TEXT, {"normalize.schemas": 1}),
        (TEXT, {"auto.register.schemas": None}),
        (TEXT, {"subject.name.strategy": record_subject_name_strategy}),
        (TEXT, {"subject.name.strategy": topic_record_subject_name_strategy}),
        (TEXT, {"subject.name.strategy": "TOPIC"}),
        (TEXT, {"subject.name.strategy.type": "RECORD"}),
        (TEXT, {"subject.name.strategy.type": "x"}),
        (TEXT, {"nonsense": 1}),
    ],
)
def test_options_do_what_they_do_for_the_serializer(kafka, producer, schema, conf) -> None:
    other = SchemaRegistryClient.new_client({"url": "mock://other"})
    for client in kafka.registry, other:
        client.register_schema("first", Schema('"long"', "AVRO"))
        client.register_schema("t-value", Schema(json.dumps(GROWN), "AVRO"))

    def serialize() -> None:
        serializer = AvroSerializer(other, schema, conf=conf)
        serializer({"x": 1, "y": None}, SerializationContext("t", MessageField.VALUE))

    def send() -> None:
        producer.set_schema("t", schema, registry=kafka.registry, conf=conf)

    expected, done = outcome(serialize), outcome(send)
    if expected is None:
        assert done is None
    elif isinstance(expected, SchemaRegistryError):
        assert isinstance(done, RegistryError)
        assert str(done).endswith(str(expected))
    else:
        assert (type(done), str(done)) == (type(expected), str(expected))
    subjects = [
        {name: sorted(client.get_versions(name)) for name in client.get_subjects()}
        for client in (kafka.registry, other)
    ]
    assert subjects[0] == subjects[1]


def outcome(call: Callable[[], None]) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - it is compared
        return error
    return None


def test_the_schema_of_an_id_is_used(kafka, producer) -> None:
    for schema in POINT, GROWN:
        kafka.registry.register_schema("t-value", Schema(json.dumps(schema), "AVRO"))
    producer.set_schema("t", registry=kafka.registry, conf={"use.schema.id": 1})
    producer.produce("t", {"x": 1})
    producer.flush()
    assert ids(kafka) == [b"1"]
    assert [record.value() for record in kafka.records("t")] == [{"x": 1}]


def test_a_subject_may_be_named(kafka, producer) -> None:
    producer.set_schema("t", POINT, registry=kafka.registry, subject=":.sales:points")
    assert kafka.registry.get_subjects() == [":.sales:points"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            {"subject": "s", "conf": {"subject.name.strategy.type": "RECORD"}, "registry": {}},
            "the settings of the registry: Missing required configuration property url",
        ),
        ({"subject": "s"}, "subject is for a schema in a registry: pass registry"),
        ({"conf": {}}, "conf is for a schema in a registry: pass registry"),
        (
            {
                "subject": "s",
                "conf": {"subject.name.strategy.type": "RECORD"},
                "registry": {"url": "mock://"},
            },
            "subject='s' and subject.name.strategy.type: leave one of them out",
        ),
        (
            {"conf": {"subject.name.strategy": lambda *_: None}, "registry": {"url": "mock://x"}},
            (
                "topic 't': no subject of the registry at mock://x follows from the options: "
                "pass subject"
            ),
        ),
    ],
)
def test_arguments_that_are_wrong_are_refused(producer, arguments, reason) -> None:
    with pytest.raises(ConfigError) as raised:
        producer.set_schema("t", POINT, **arguments)
    assert str(raised.value) == reason


# --- who refuses ---------------------------------------------------------------------------------


class Unwilling:
    """A client that raises an error, or blocks, in place of registering."""

    def __init__(self, client: Any, error: Exception | None = None) -> None:
        self._client = client
        self.error = error
        self.release = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def config(self) -> dict[str, str]:
        return {"url": "https://user:secret@registry.example/apis"}

    def register_schema_full_response(self, *arguments: Any, **more: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.release.wait()
        return self._client.register_schema_full_response(*arguments, **more)


INCOMPATIBLE = SchemaRegistryError(409, 409, "The new schema is incompatible")


def test_what_we_refuse_is_not_registered(kafka, producer) -> None:
    producer.set_schema("t", GROWN, registry=kafka.registry)
    with pytest.raises(SchemaError) as raised:
        producer.set_schema("t", POINT, registry=kafka.registry)
    assert str(raised.value) == (
        "field 'y' (int64 or null) is missing, but earlier records have it: keep it, nullable if "
        "it may be empty, or use another topic (the registry was not asked)"
    )
    kafka.create_topic("compacted", compacted=True)
    with pytest.raises(SchemaError, match=r"cleanup\.policy=compact"):
        producer.set_schema("compacted", POINT, registry=kafka.registry)
    assert kafka.registry.get_subjects() == ["t-value"]
    assert kafka.registry.get_versions("t-value") == [1]


def test_what_the_registry_refuses_is_not_used(kafka, producer) -> None:
    producer.set_schema("t", POINT, registry=kafka.registry)
    with pytest.raises(RegistryError) as raised:
        producer.set_schema("t", GROWN, registry=Unwilling(kafka.registry, INCOMPATIBLE))
    assert str(raised.value) == (
        "the registry at https://registry.example/apis was asked to register the schema as "
        "'t-value': SchemaRegistryError: The new schema is incompatible (HTTP status code 409, "
        "SR code 409)"
    )
    assert raised.value.kafka_error.code() == KafkaError._INVALID_ARG
    producer.produce("t", {"x": 1})
    producer.flush()
    assert ids(kafka) == [b"1"]


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ('"long"', "AVRO", "a topic's Avro schema must be one record, or a union of records"),
        ("{}", "JSON", "its type is JSON, and rows are produced by Avro schemas alone"),
    ],
)
def test_a_registrys_schema_that_cannot_be_used_is_refused(
    kafka, producer, text, kind, reason
) -> None:
    kafka.registry.register_schema("t-value", Schema(text, kind))
    with pytest.raises(SchemaError) as raised:
        producer.set_schema("t", registry=kafka.registry)
    assert str(raised.value) == f"schema 1 of the registry at mock://memory: {reason}"


def test_a_registry_that_is_down_fails_what_is_new_by_itself(kafka, producer) -> None:
    producer.set_schema("t", POINT, registry=kafka.registry)
    down = {"url": "http://user:secret@127.0.0.1:9", "max.retries": 0}
    for topic, schema in ("new", POINT), ("t", GROWN):
        with pytest.raises(RegistryError) as raised:
            producer.set_schema(topic, schema, registry=down)
        asked, _, error = str(raised.value).partition(": ")
        assert asked.startswith("the registry at http://127.0.0.1:9 was asked ")
        assert f"'{topic}" in asked
        assert error.startswith("ConnectError: ")
        assert raised.value.kafka_error.code() == KafkaError._TRANSPORT
    producer.produce("t", {"x": 1})
    producer.flush()
    assert ids(kafka) == [b"1"]


def test_what_was_answered_is_not_asked_again(kafka, producer) -> None:
    unwilling = Unwilling(kafka.registry)
    unwilling.release.set()
    conf = {"normalize.schemas": True}
    producer.set_schema("t", POINT, registry=unwilling, conf=conf)
    unwilling.error = INCOMPATIBLE
    producer.set_schema("t", POINT, registry=unwilling, conf=conf)
    for again in {"conf": {}}, {"conf": conf, "subject": "s"}:
        with pytest.raises(RegistryError):
            producer.set_schema("t", POINT, registry=unwilling, **again)


def test_a_wait_is_bounded_and_logged(kafka, producer, monkeypatch, caplog) -> None:
    monkeypatch.setattr(registering, "_SILENCE", 0.01)
    monkeypatch.setattr(registering, "_PATIENCE", 0.02)
    slow = Unwilling(kafka.registry)
    with pytest.raises(RegistryError) as raised:
        producer.set_schema("t", POINT, registry=slow)
    slow.release.set()
    assert str(raised.value).startswith("the registry at https://registry.example/apis was asked ")
    assert str(raised.value).endswith(" and did not answer within 0 s")
    assert raised.value.kafka_error.code() == KafkaError._TIMED_OUT
    [logged] = [record.getMessage() for record in caplog.records]
    assert logged.startswith("topic 't': waiting for the registry at https://registry.example/apis")


def test_equal_settings_share_a_client_which_keeps_what_is_known(producer) -> None:
    settings = {"url": "mock://shared"}
    producer.set_schema("t", POINT, registry=settings)
    producer.set_schema("t", registry={**settings})
    with pytest.raises(RegistryError):
        producer.set_schema("t", registry={"url": "mock://another"})


def test_who_asks_no_registry_loads_nothing_of_it() -> None:
    code = (
        "import sys, pyarrow as pa; from columnar_kafka.testing import FakeKafka; "
        "producer = FakeKafka().Producer({'columnar.encoding': 'parquet'}); "
        "producer.set_schema('t', pa.schema([('x', pa.int64())])); "
        "producer.produce('t', {'x': 1}); producer.flush(); "
        "print([name for name in sys.modules if 'registr' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['columnar_kafka.plain.registry_client']\n"


# --- values that are Avro already ----------------------------------------------------------------


def serialized(kafka: FakeKafka, schema: Any, row: Any) -> bytes:
    serializer = AvroSerializer(kafka.registry, json.dumps(schema))
    value = serializer(row, SerializationContext("t", MessageField.VALUE))
    assert value is not None
    return value


def test_values_in_avro_have_the_id_of_their_schema(kafka, producer) -> None:
    kafka.registry.register_schema("other", Schema('"long"', "AVRO"))
    values = [serialized(kafka, POINT, {"x": n}) for n in range(3)]
    producer.set_schema("t", POINT, registry=kafka.registry, value_format="avro")
    for value in values:
        producer.produce("t", value)
    producer.flush()
    assert ids(kafka) == [b"2"]
    settings = {"columnar.value.format": "avro", "columnar.encoding": "parquet", "group.id": "g"}
    consumer = kafka.Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    assert [consumer.poll(10).value() for _ in values] == values


def test_a_value_with_another_id_is_a_misfit(kafka, producer) -> None:
    first, second = (
        serialized(kafka, schema, row) for schema, row in ((POINT, {"x": 1}), (GROWN, GROWN_ROW))
    )
    producer.set_schema("t", POINT, registry=kafka.registry, value_format="avro")
    for value in second, first:
        producer.produce("t", value)
    producer.set_schema("t", GROWN, registry=kafka.registry)
    for value in first, second:
        producer.produce("t", value)
    producer.flush()
    sent = [message.value() for message in kafka.messages("t")]
    assert [value[:4] == b"PAR1" for value in sent] == [False, True, False, True]
    assert (sent[0], sent[2]) == (second, first)


GROWN_ROW = {"x": 2, "y": 3}


def test_values_without_ids_are_taken_too(kafka, producer) -> None:
    producer.set_schema("t", POINT, registry=kafka.registry, value_format="avro")
    producer.produce("t", serialized(kafka, POINT, {"x": 1})[5:])
    producer.flush()
    assert ids(kafka) == [b"1"]
