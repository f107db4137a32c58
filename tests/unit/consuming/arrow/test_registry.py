"""Values whose schemas are in a registry, as Confluent's serializers write them, as tables."""

from __future__ import annotations

import json
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    header_schema_id_serializer,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tables import assigned_consumer, next_position

from columnar_kafka import ConfigError, RegistryError, RowError, position
from columnar_kafka.plain import Registry, registry_client
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": ["null", "long"]}],
}
GROWN = {**POINT, "fields": [*POINT["fields"], {"name": "z", "type": ["null", "string"]}]}


@pytest.fixture
def kafka() -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic("t")
    return kafka


@pytest.fixture
def client() -> Iterator[Any]:
    made = SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4().hex}"})
    yield made
    made.clear_caches()


def send(
    kafka: FakeKafka, client: Any, schema: Any, value: Any, *, in_header: bool = False
) -> None:
    """Append a message as `AvroSerializer` makes it."""
    headers: list[Any] = []
    conf: dict[str, Any] = {"subject.name.strategy": topic_subject_name_strategy}
    if in_header:
        conf["schema.id.serializer"] = header_schema_id_serializer
    serializer = AvroSerializer(client, json.dumps(schema), conf=conf)
    data = serializer(value, SerializationContext("t", MessageField.VALUE, headers))
    kafka.append("t", 0, data, headers=headers or None)


def read(kafka: FakeKafka, client: Any, **options: Any) -> list[list[dict[str, Any]]]:
    """Return the rows of all tables, without `_kafka`."""
    consumer, value, tables = assigned_consumer(kafka), Registry(client), []
    while (table := consumer.consume_arrow(100, 0, value=value, **options)) is not None:
        tables.append(table.drop_columns("_kafka").to_pylist())
    return tables


@pytest.mark.parametrize("in_header", [False, True])
def test_values_become_columns_by_the_schema_that_they_name(kafka, client, in_header) -> None:
    rows = [{"x": n, "y": None if n % 2 else -n} for n in range(20)]
    for row in rows:
        send(kafka, client, POINT, row, in_header=in_header)
    assert read(kafka, client) == [rows]


def test_values_of_several_schemas_are_promoted_as_segments_are(kafka, client) -> None:
    rows = [{"x": n, "y": n} | ({"z": f"z{n}"} if n in (3, 4, 7) else {}) for n in range(9)]
    for row in rows:
        send(kafka, client, GROWN if "z" in row else POINT, row)
    assert [len(table) for table in read(kafka, client)] == [3, 2, 2, 1, 1]
    [table] = read(kafka, client, promote=True)
    assert table == [{"z": None} | row for row in rows]


def test_tombstones_stand_between_values(kafka, client) -> None:
    send(kafka, client, POINT, {"x": 1, "y": 2})
    kafka.append("t", 0, None, key=b"k")
    send(kafka, client, POINT, {"x": 3, "y": 4})
    assert read(kafka, client) == [[{"x": 1, "y": 2}, {"x": None, "y": None}, {"x": 3, "y": 4}]]


def test_keys_name_their_schemas_too(kafka, client) -> None:
    number = client.register_schema("t-key", Schema('"long"', "AVRO"))
    kafka.append("t", 0, b"a", key=prefixed(number, b"\x02"))
    table = assigned_consumer(kafka).consume_arrow(9, 0, key=Registry(client))
    assert table["_kafka"].combine_chunks().field("key").to_pylist() == [1]


def prefixed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def test_json_is_read_by_its_schema_and_the_rest_is_kept(kafka, client) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string"}}}
    number = client.register_schema("t-value", Schema(json.dumps(schema), "JSON"))
    kafka.append("t", 0, prefixed(number, b'{"n": 1, "t": "a"}'))
    kafka.append("t", 0, prefixed(number, b'{"n": "x", "more": [1]}'))
    assert read(kafka, client) == [
        [
            {"n": 1, "t": "a", "_rest": None},
            {"n": None, "t": None, "_rest": '{"n":"x","more":[1]}'},
        ]
    ]


def test_a_schema_may_refer_to_others(kafka, client) -> None:
    city = {"type": "record", "name": "a.City", "fields": [{"name": "name", "type": "string"}]}
    place = {
        "type": "record",
        "name": "a.Place",
        "fields": [{"name": "city", "type": "a.City"}, {"name": "zip", "type": "int"}],
    }
    person = {
        "type": "record",
        "name": "b.Person",
        "fields": [{"name": "home", "type": "a.Place"}, {"name": "born", "type": "a.City"}],
    }
    client.register_schema("city", Schema(json.dumps(city), "AVRO"))
    to_city = SchemaReference("a.City", "city", 1)
    client.register_schema("place", Schema(json.dumps(place), "AVRO", [to_city]))
    references = [SchemaReference("a.Place", "place", 1), to_city]
    number = client.register_schema("t-value", Schema(json.dumps(person), "AVRO", references))
    kafka.append("t", 0, prefixed(number, b"\x02A\x0e\x02B"))
    assert read(kafka, client) == [
        [{"home": {"city": {"name": "A"}, "zip": 7}, "born": {"name": "B"}}]
    ]


def test_what_cannot_be_decoded_harms_only_itself(kafka, client) -> None:
    proto = client.register_schema("p", Schema('syntax = "proto3";', "PROTOBUF"))
    recursive = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    endless = client.register_schema("r", Schema(json.dumps(recursive), "AVRO"))
    wrong = {
        1: (b"", "it has no id of a schema"),
        2: (b"{}", "it has no id of a schema"),
        3: (prefixed(77, b""), "has no schema 77"),
        4: (
            prefixed(proto, b""),
            f"schema {proto} of the registry cannot be used: its type is PROTOBUF",
        ),
        5: (prefixed(endless, b"\0"), f"schema {endless} of the registry cannot be used: "),
        7: (prefixed(1, b"\x02"), "its value cannot be decoded"),
    }
    for n in range(9):
        if n in wrong:
            kafka.append("t", 0, wrong[n][0])
        else:
            send(kafka, client, POINT, {"x": n, "y": n})
    consumer, value, found, errors = assigned_consumer(kafka), Registry(client), [], []
    while True:
        try:
            table = consumer.consume_arrow(100, 0, value=value)
        except RowError as error:
            errors.append(error)
            continue
        if table is None:
            break
        found += table["x"].to_pylist()
    assert found == [0, 6, 8]
    assert {error.kafka_error.code() for error in errors} == {KafkaError._VALUE_DESERIALIZATION}
    for (number, (_, reason)), error in zip(wrong.items(), errors, strict=True):
        assert str(error).startswith(f"plain message at t[0]@{number} ")
        assert reason in str(error)


class Unsteady:
    """A registry that does not always answer; counts what it is asked for."""

    def __init__(self, client: Any, error: Exception | None = None) -> None:
        self._client = client
        self._error = error or ConnectionError("Connection refused")
        self.is_up = True
        self.asked = 0

    def get_schema(self, number: int) -> Any:
        self.asked += 1
        if not self.is_up:
            raise self._error
        return self._client.get_schema(number)

    def config(self) -> dict[str, str]:
        return {"url": "https://user:secret@registry.example:8081/apis, http://other"}


def test_a_registry_that_does_not_answer_loses_nothing(kafka, client) -> None:
    send(kafka, client, POINT, {"x": 1, "y": 1})
    registry, consumer = Unsteady(client), assigned_consumer(kafka)
    value = Registry(registry)  # type: ignore[arg-type]
    assert consumer.consume_arrow(100, 0, value=value)["x"].to_pylist() == [1]
    registry.is_up = False
    send(kafka, client, GROWN, {"x": 2, "y": 2, "z": "z"})
    for _ in range(2):
        with pytest.raises(RegistryError) as raised:
            consumer.consume_arrow(100, 0, value=value)
        assert str(raised.value) == (
            "the registry at https://registry.example:8081/apis, http://other was asked for "
            "schema 2: ConnectionError: Connection refused"
        )
        assert raised.value.kafka_error.code() == KafkaError._TRANSPORT
        assert next_position(consumer) == position.start(1)
    send(kafka, client, POINT, {"x": 3, "y": 3})  # whose schema is known
    registry.is_up = True
    assert consumer.consume_arrow(100, 0, value=value)["x"].to_pylist() == [2]
    assert consumer.consume_arrow(100, 0, value=value)["x"].to_pylist() == [3]
    assert registry.asked == 4
    assert "secret" not in repr(value)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, KafkaError._AUTHENTICATION),
        (403, KafkaError._AUTHENTICATION),
        (422, KafkaError._INVALID_ARG),
        (503, KafkaError._TRANSPORT),
    ],
)
def test_an_error_says_by_its_code_whether_to_try_again(kafka, client, status, code) -> None:
    send(kafka, client, POINT, {"x": 1, "y": 1})
    refusing = Unsteady(client, SchemaRegistryError(status, 0, "no"))
    refusing.is_up = False
    with pytest.raises(RegistryError) as raised:
        assigned_consumer(kafka).consume_arrow(9, 0, value=Registry(refusing))
    assert raised.value.kafka_error.code() == code


def test_many_threads_ask_once(client) -> None:
    number = client.register_schema("s", Schema(json.dumps(POINT), "AVRO"))
    registry = Unsteady(client)
    format_, begin = Registry(registry), threading.Barrier(8)  # type: ignore[arg-type]

    def ask() -> None:
        begin.wait(10)
        made = format_.of_all([prefixed(number, b"\2\0")])
        assert made is not None
        assert made.decode([prefixed(number, b"\2\0")]).to_pylist() == [{"x": 1, "y": None}]

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.asked == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "Missing required configuration property url"),
        ({"url": "http://x", "nonsense": 1}, "Unrecognized properties: nonsense"),
        ({"url": 5}, "url must be a str"),
    ],
)
def test_settings_that_are_wrong_are_refused(settings, reason) -> None:
    with pytest.raises(ConfigError, match=reason):
        Registry(settings)


def test_without_the_extra_it_says_what_to_install(monkeypatch) -> None:
    def no_module(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(registry_client, "import_module", no_module)
    with pytest.raises(ConfigError, match=r"pip install 'columnar-kafka\[registry\]'"):
        Registry({"url": "mock://"})


def test_settings_make_a_client(kafka) -> None:
    kafka.append("t", 0, prefixed(5, b""))
    value = Registry({"url": "mock://registry"})
    with pytest.raises(RowError, match=r"the registry at mock://registry has no schema 5"):
        assigned_consumer(kafka).consume_arrow(9, 0, value=value)
