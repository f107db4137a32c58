"""A real schema registry: readers and landings read by it, and `set_schema` registers in it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from support import eventually
from tables import assigned_consumer

from columnar_kafka import RegistryError, SchemaError
from columnar_kafka.plain import Registry
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apicurio import Apicurio

pytestmark = pytest.mark.kafka

POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": ["null", "long"]}],
}
GROWN = {**POINT, "fields": [*POINT["fields"], {"name": "z", "type": "string", "default": ""}]}
BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}
QUICK = {"max.retries": 0, "timeout": 100}


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


class Counting:
    """A client that counts what it asks for."""

    def __init__(self, client: SchemaRegistryClient) -> None:
        self._client = client
        self.asked: list[Any] = []

    def config(self) -> Any:
        return self._client.config()

    def get_schema(self, number: int) -> Any:
        self.asked.append(number)
        return self._client.get_schema(number)

    def get_version(self, *place: Any) -> Any:
        self.asked.append(place)
        return self._client.get_version(*place)


@pytest.fixture
def client(apicurio: Apicurio) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": apicurio.url, **QUICK}) as made:
        yield made


@pytest.fixture
def counting(apicurio: Apicurio) -> Iterator[Counting]:
    with SchemaRegistryClient({"url": apicurio.url, **QUICK}) as made:  # with a cache of its own
        yield Counting(made)


def avro(client: Any, subject: str, schema: Any, rows: list[dict[str, Any]]) -> list[bytes]:
    serializer = AvroSerializer(client, json.dumps(schema), conf=BY_TOPIC)
    return serialized(serializer, subject, rows)


def serialized(serializer: Any, subject: str, rows: list[Any]) -> list[bytes]:
    context = SerializationContext(subject, MessageField.VALUE)
    return [serializer(row, context) for row in rows]


def read(values: list[bytes], format_: Registry) -> list[dict[str, Any]]:
    kafka = FakeKafka()
    kafka.create_topic("t")
    for value in values:
        kafka.append("t", 0, value)
    table = assigned_consumer(kafka).consume_arrow(100, 0, value=format_, promote=True)
    rows: list[dict[str, Any]] = table.drop_columns("_kafka").to_pylist()
    return rows


def test_values_of_several_schemas_are_read_and_each_is_asked_for_once(
    counting, client, subject
) -> None:
    values = avro(client, subject, POINT, [{"x": 1, "y": None}])
    values += avro(client, subject, GROWN, [{"x": 2, "y": 3, "z": "z"}])
    format_ = Registry(counting)
    for _ in range(2):
        assert read([*values, values[0]], format_) == [
            {"x": 1, "y": None, "z": None},
            {"x": 2, "y": 3, "z": "z"},
            {"x": 1, "y": None, "z": None},
        ]
    assert counting.asked == [int.from_bytes(value[1:5], "big") for value in values]


def test_many_threads_ask_once(counting, client, subject) -> None:
    [value] = avro(client, subject, POINT, [{"x": 1, "y": None}])
    begin, found = threading.Barrier(8), []
    format_ = Registry(counting)

    def ask() -> None:
        begin.wait(30)
        made = format_.of_all([value])
        assert made is not None
        found.extend(made.decode([value]).to_pylist())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"x": 1, "y": None}] * 8
    assert len(counting.asked) == 1


def test_a_schema_may_refer_to_others(counting, client, subject) -> None:
    city = {"type": "record", "name": "a.City", "fields": [{"name": "name", "type": "string"}]}
    home = {"type": "record", "name": "Home", "fields": [{"name": "city", "type": "a.City"}]}
    client.register_schema(f"{subject}-city", Schema(json.dumps(city), "AVRO"))
    to_city = SchemaReference("a.City", f"{subject}-city", 1)
    schema: Any = Schema(json.dumps(home), "AVRO", [to_city])
    serializer = AvroSerializer(client, schema, conf=BY_TOPIC)
    rows = [{"city": {"name": "A"}}, {"city": {"name": "B"}}]
    assert read(serialized(serializer, subject, rows), Registry(counting)) == rows
    assert len(counting.asked) == 2


def test_json_is_read_by_its_schema(apicurio, client, subject) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string"}}}
    number = client.register_schema(subject, Schema(json.dumps(schema), "JSON"))
    value = b"\0" + number.to_bytes(4, "big") + b'{"n": 1, "t": "a"}'
    assert read([value], Registry({"url": apicurio.url})) == [{"n": 1, "t": "a", "_rest": None}]


@pytest.mark.parametrize("harm", ["kill", "suspend"])
def test_while_it_does_not_answer_what_is_known_is_read(apicurio, client, subject, harm) -> None:
    known = avro(client, subject, POINT, [{"x": 1, "y": 2}])
    new = avro(client, subject, GROWN, [{"x": 3, "y": 4, "z": "z"}])
    format_ = Registry({"url": apicurio.url, "max.retries": 0, "timeout": 1})

    def tried(values: list[bytes]) -> Any:
        with suppress(RegistryError):  # the machine is busy
            return read(values, format_)

    assert eventually(lambda: tried(known)) == [{"x": 1, "y": 2}]
    getattr(apicurio, harm)()
    try:
        assert read(known, format_) == [{"x": 1, "y": 2}]
        with pytest.raises(RegistryError, match=f"at {apicurio.url} was asked for schema "):
            read(new, format_)
    finally:
        apicurio.mend()
    assert eventually(lambda: tried(new)) == [{"x": 3, "y": 4, "z": "z"}]


# --- producing -----------------------------------------------------------------------------------

CONFIG = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
NARROWER = {**POINT, "fields": [*POINT["fields"], {"name": "z", "type": "long"}]}


def sent_ids(kafka: FakeKafka, topic: str) -> list[bytes]:
    return [dict(message.headers())["columnar.schema.id"] for message in kafka.messages(topic)]


def test_what_is_registered_has_the_id_that_segments_say(client, subject) -> None:
    kafka = FakeKafka()
    producer = kafka.Producer(CONFIG)
    arrow = pa.schema([("x", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    for schema, row in (
        (arrow, {"x": 1, "at": None}),
        (arrow.append(pa.field("more", pa.list_(pa.string()))), {"x": 2, "at": None, "more": []}),
    ):
        producer.set_schema(subject, schema, registry=client)
        producer.produce(subject, row)
        producer.flush()
    versions = [client.get_version(f"{subject}-value", number) for number in (1, 2)]
    assert sent_ids(kafka, subject) == [b"%d" % version.schema_id for version in versions]
    other = kafka.Producer(CONFIG)
    other.set_schema(subject, registry=client)
    other.produce(subject, {"x": 3, "at": None, "more": None})
    other.flush()
    *_, before, last = [dict(message.headers()) for message in kafka.messages(subject)]
    for name in "columnar.schema", "columnar.schema.id":
        assert last[name] == before[name]


def test_an_incompatible_schema_is_refused_by_the_registry(apicurio, client, subject) -> None:
    kafka = FakeKafka()
    producer = kafka.Producer(CONFIG)
    producer.set_schema(subject, POINT, registry=client)
    client.set_compatibility(f"{subject}-value", "BACKWARD")
    with pytest.raises(RegistryError) as raised:  # others may have produced before: not so we
        kafka.Producer(CONFIG).set_schema(subject, NARROWER, registry=client)
    asked = f"{apicurio.url} was asked to register the schema as '{subject}-value': Schema"
    assert asked in str(raised.value)
    assert raised.value.kafka_error.code() == KafkaError._INVALID_ARG
    with pytest.raises(SchemaError, match="the registry was not asked"):
        producer.set_schema(subject, NARROWER, registry=client)
    producer.produce(subject, {"x": 1, "y": None})
    producer.flush()
    assert len(sent_ids(kafka, subject)) == 1


def test_references_are_registered_and_used(client, subject) -> None:
    city = {"type": "record", "name": "a.City", "fields": [{"name": "name", "type": "string"}]}
    home = {"type": "record", "name": "Home", "fields": [{"name": "city", "type": "a.City"}]}
    client.register_schema(f"{subject}-city", Schema(json.dumps(city), "AVRO"))
    to_city = SchemaReference("a.City", f"{subject}-city", 1)
    kafka = FakeKafka()
    for schema in Schema(json.dumps(home), "AVRO", [to_city]), None:
        producer = kafka.Producer(CONFIG)
        producer.set_schema(subject, schema, registry=client)
        producer.produce(subject, {"city": {"name": "A"}})
        producer.flush()
    one, same = sent_ids(kafka, subject)
    assert one == same


@pytest.mark.parametrize("harm", ["kill", "suspend"])
def test_while_it_does_not_answer_topics_with_a_schema_go_on(
    apicurio, client, subject, harm
) -> None:
    kafka = FakeKafka()
    producer = kafka.Producer(CONFIG)
    producer.set_schema(subject, POINT, registry=client)
    settings = {"url": apicurio.url, "max.retries": 0, "timeout": 1}
    getattr(apicurio, harm)()
    try:
        with pytest.raises(RegistryError) as raised:
            producer.set_schema(f"{subject}-new", POINT, registry=settings)
        assert raised.value.kafka_error.code() == KafkaError._TRANSPORT
        producer.set_schema(subject, POINT, registry=client)  # which it keeps
        for n in range(3):
            producer.produce(subject, {"x": n, "y": None})
        producer.flush()
    finally:
        apicurio.mend()

    def tried() -> bool:
        with suppress(RegistryError):  # it is slow at first
            producer.set_schema(f"{subject}-new", POINT, registry=settings)
            return True
        return False

    eventually(tried)
    producer.produce(f"{subject}-new", {"x": 1, "y": None})
    producer.flush()
    assert sent_ids(kafka, subject) == sent_ids(kafka, f"{subject}-new")
    assert [record.value()["x"] for record in kafka.records(subject)] == [0, 1, 2]


# --- landing -------------------------------------------------------------------------------------


def command(*words: str) -> Any:
    """Run a command of `columnar-kafka`."""
    line = [sys.executable, "-m", "columnar_kafka.cli", *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)


def test_messages_of_several_schemas_land_and_are_verified_by_the_command(
    apicurio, client, kafka, topic, tmp_path
) -> None:
    name = topic(1)
    servers = ("--bootstrap-servers", kafka.bootstrap_servers, "--topic", name)
    lake, dead = str(tmp_path / "lake"), str(tmp_path / "dead")
    quick = ("--registry-key", "max.retries=0", "--registry-key", "timeout=100")
    registry = ("--registry", apicurio.url, *quick)
    ingest = ("ingest", *servers, "--to", lake, "--format", "delta", "--stop-at-end", *registry)
    ingest += ("--plain", "decode", "--dead-letters", dead)
    older = [{"x": n, "y": n} for n in range(50)]
    newer = [row | {"z": "z"} for row in older]
    values = avro(client, name, POINT, older), avro(client, name, GROWN, newer)
    with confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for value in values[0]:
            producer.produce(name, value)
        producer.produce(name, b"none")
        producer.flush()
        landed = command(*ingest)
        assert landed.stdout.endswith(" 50 plain messages decoded, 1 dead letters\n"), landed.stderr
        for pair in zip(*values, strict=True):
            for value in pair:
                producer.produce(name, value)
        producer.flush()
    apicurio.kill()
    try:
        failed = command(*ingest)
    finally:
        apicurio.mend()
    assert failed.returncode == 1
    assert f"RegistryError: the registry at {apicurio.url} was asked for schema" in failed.stderr
    assert command(*ingest).stdout.endswith(" 100 plain messages decoded\n")
    table = DeltaTable(lake).to_pyarrow_table()
    found = [(row["x"], row["z"]) for row in table.select(["x", "z"]).to_pylist()]
    expected = [(row["x"], row.get("z")) for row in [*older, *older, *newer]]
    assert sorted(found, key=str) == sorted(expected, key=str)
    verify = ("verify", lake, *servers, "--format", "delta", "--dead-letters", dead, *registry)
    verified = command(*verify, "--json")
    report = json.loads(verified.stdout)
    assert (report["decoded"], report["dead_letters"], report["findings"]) == (150, 1, [])
