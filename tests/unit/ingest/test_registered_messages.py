"""Plain messages that land by the schemas that a registry has for their ids."""

from __future__ import annotations

import json
import pickle
import random
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from ingest_fakes import ingest_from
from lakes import DeltaLake, IcebergLake, compared

from columnar_kafka import ConfigError, LakeError, RegistryError
from columnar_kafka.ingest import (
    Decoding,
    Ingestor,
    IngestSettings,
    IngestStats,
    Rules,
    open_dead_letters,
    replay,
)
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = {"bootstrap.servers": "memory"}


def record(**types: Any) -> dict[str, Any]:
    fields = []
    for name, avro in types.items():
        default = {"default": None} if isinstance(avro, list) else {}
        fields.append({"name": name, "type": avro, **default})
    return {"type": "record", "name": "Row", "fields": fields}


FIRST = record(n="int", text="string")
GROWN = record(n="int", text="string", more=["null", {"type": "array", "items": "string"}])
OTHER = record(n="int", at=["null", {"type": "long", "logicalType": "timestamp-micros"}])
CONTRARY = record(n="string")
WIDER = record(n="long", text="string")


class Client:
    """A registry's client that counts what it is asked for, and may not answer."""

    def __init__(self) -> None:
        self.inner = SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4().hex}"})
        self.asked: list[Any] = []
        self.is_up = True

    def get_schema(self, number: int) -> Any:
        self.asked.append(number)
        if not self.is_up:
            raise ConnectionError("Connection refused")
        return self.inner.get_schema(number)

    def get_schema_by_guid(self, guid: str) -> Any:
        self.asked.append(guid)
        return self.inner.get_schema_by_guid(guid)

    def get_version(self, *place: Any) -> Any:
        return self.inner.get_version(*place)

    def config(self) -> dict[str, str]:
        return {"url": "https://user:secret@registry.example"}


class World:
    """A topic, a registry, and a table that the topic lands in."""

    def __init__(self, root: Path) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 1)
        self.client = Client()
        self.root = root
        self.lake = DeltaLake(root / "lake")
        self.rules = self.decoding()

    def decoding(self, **more: Any) -> Rules:
        return Rules(plain="decode", decoding=Decoding(registry=self.client), **more)

    def send(self, schema: Any, row: Any, *, in_header: bool = False, **to: Any) -> None:
        conf = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
        serializer = AvroSerializer(self.client.inner, json.dumps(schema), conf=conf)
        headers: list[Any] = [("other", b"x")] if in_header else []
        value = serializer(row, SerializationContext("t", MessageField.VALUE, headers))
        self.kafka.append("t", 0, value, headers=headers or None, **to)

    def ingest(self, **settings: Any) -> IngestStats:
        chosen = {"partitions": (0,), "stop_at_end": True, "topic_generation": "g", **settings}
        ingestor = Ingestor(
            CONFIG | {"group.id": "g"},
            "t",
            self.lake.table(),
            IngestSettings(rules=self.rules, **chosen),
        )
        return ingestor.run()

    def rows(self) -> list[dict[str, Any]]:
        table = self.lake.read()
        order = table["_kafka"].combine_chunks()
        table = table.append_column("_order", order.field("row")).drop_columns("_kafka")
        rows = table.sort_by("_order").drop_columns("_order").to_pylist()
        return [{name: part for name, part in row.items() if part is not None} for row in rows]

    def sent(self) -> list[SourceMessage]:
        return [
            SourceMessage(
                topic="t",
                partition=0,
                offset=message.offset(),
                headers=message.headers(),
                value=message.value(),
                key=message.key(),
                timestamp=message.timestamp()[1],
            )
            for message in self.kafka.messages("t")
        ]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(tmp_path)
    ingest_from(world.kafka, monkeypatch)
    yield world
    world.kafka.close()


def test_messages_of_several_schemas_are_rows_of_one_table(world) -> None:
    rng, expected = random.Random(5), []
    kinds: list[tuple[Any, Any]] = [
        (FIRST, lambda n: {"n": n, "text": "a"}),
        (GROWN, lambda n: {"n": n, "text": "b", "more": ["x"]}),
        (OTHER, lambda n: {"n": n}),
    ]
    for number in range(400):
        schema, make = kinds[0 if number < 100 else rng.randrange(3)]
        row = make(number)
        world.send(schema, row, in_header=number > 300 and rng.random() < 0.3)
        expected.append(row)
    stats = world.ingest()
    assert (stats.decoded, stats.dead_letters) == (400, 0)
    assert world.rows() == expected
    assert len(list(world.lake.root.rglob("*.parquet"))) <= 3


def test_each_id_is_asked_for_once_in_a_process(world) -> None:
    for number in range(30):
        world.send((FIRST, GROWN)[number % 2], {"n": number, "text": "t"})
        if number in (10, 20):
            world.ingest()
    world.ingest()
    assert world.client.asked == [1, 2]
    assert len(world.rows()) == 30


def test_segments_stand_between_them(world) -> None:
    expected = []
    with world.kafka.Producer(CONFIG | {"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", GROWN, registry=world.client.inner)
        for n in range(9):
            row = {"n": n, "text": "t"}
            if n % 3:
                world.send(FIRST, row)
            else:
                producer.produce("t", row, partition=0)
                producer.flush()
            expected.append(row)
    stats = world.ingest()
    assert (stats.segments, stats.decoded) == (3, 6)
    found = world.lake.read().drop_columns("_kafka").to_pylist()
    assert sorted(row["n"] for row in found) == list(range(9))
    assert audited(world) == []


def audited(world: World, sent: list[SourceMessage] | None = None) -> list[Any]:
    """Return what an audit finds."""
    decoding = Decoding(registry=world.client)
    return list(compared(world.lake, sent or world.sent(), decoding=decoding).findings)


@pytest.mark.parametrize("layout", ["alternating", "one after the other"])
def test_an_audit_agrees(world, layout) -> None:
    kinds = [(FIRST, {"n": 1, "text": "a"}), (GROWN, {"n": 2, "text": "b", "more": []})]
    kinds.append((OTHER, {"n": 3, "at": None}))
    for number in range(60):
        world.send(*kinds[number % 3 if layout == "alternating" else number // 20])
    world.ingest(roll_bytes=100)
    assert audited(world) == []
    sent = world.sent()
    sent[30] = replace(sent[30], value=(sent[31] if layout == "alternating" else sent[0]).value)
    [finding] = audited(world, sent)
    assert (finding.kind, finding.first) == ("different", 30)


def test_schemas_that_contradict_the_table_are_dead_letters_which_land_nowhere(world) -> None:
    letters = open_dead_letters(str(world.root / "letters"))
    world.rules = world.decoding(dead_letters=letters)
    for number in range(20):
        if number % 5 == 3:
            world.send(CONTRARY, {"n": "x"})
        else:
            world.send(FIRST, {"n": number, "text": "t"})
    stats = world.ingest()
    assert (stats.decoded, stats.dead_letters) == (16, 4)
    assert [row["n"] for row in world.rows()] == [n for n in range(20) if n % 5 != 3]
    for again in range(2):  # the first message of an attempt leads it, but not the table
        world.send(CONTRARY, {"n": "y"})
        world.send(FIRST, {"n": 20 + again, "text": "t"})
        assert world.ingest().dead_letters == 1
    assert [row["n"] for row in world.rows()][-2:] == [20, 21]


def test_what_cannot_be_decoded_is_set_aside_and_lands_once_it_can(world) -> None:
    letters = open_dead_letters(str(world.root / "letters"))
    world.rules = world.decoding(dead_letters=letters)
    world.send(FIRST, {"n": 0, "text": "t"})
    [first] = world.sent()
    for value in b"\0\0\0\0\2\2\2a\0", first.value[5:], None, first.value[:6]:
        world.kafka.append("t", 0, value)
    world.send(FIRST, {"n": 5, "text": "t"})
    stats = world.ingest()
    assert (stats.decoded, stats.dead_letters) == (2, 4)
    world.client.inner.register_schema("more", Schema(json.dumps(GROWN), "AVRO"))
    others = open_dead_letters(str(world.root / "others"))
    replayed = replay(letters, world.lake.table(), rules=world.decoding(dead_letters=others))
    assert (replayed.decoded, replayed.dead_letters) == (1, 3)
    assert sorted(world.lake.read()["n"].to_pylist()) == [0, 1, 5]


def test_without_a_place_for_dead_letters_an_unknown_id_ends_it(world) -> None:
    world.send(FIRST, {"n": 0, "text": "t"})
    world.kafka.append("t", 0, b"\0\0\0\0\7\2")
    with pytest.raises(LakeError) as raised:
        world.ingest()
    reason = "the registry at https://registry.example has no schema 7"
    assert str(raised.value) == f"plain message at t[0]@1: {reason}"
    assert not [path for path in world.lake.root.rglob("*") if path.is_file()]


def test_while_the_registry_does_not_answer_nothing_is_skipped(world) -> None:
    letters = open_dead_letters(str(world.root / "letters"))
    world.rules = world.decoding(dead_letters=letters)
    for number in range(5):
        world.send(FIRST, {"n": number, "text": "t"})
    world.ingest()
    world.client.is_up = False
    world.send(FIRST, {"n": 5, "text": "t"})
    assert world.ingest().decoded == 1  # its schema is known
    world.send(FIRST, {"n": 6, "text": "t"})
    world.send(GROWN, {"n": 7, "text": "t"})
    with pytest.raises(RegistryError) as raised:
        world.ingest()
    assert str(raised.value) == (
        "the registry at https://registry.example was asked for schema 2: "
        "ConnectionError: Connection refused"
    )
    world.client.is_up = True
    assert world.ingest().decoded == 2
    assert [row["n"] for row in world.rows()] == list(range(8))


def test_schemas_may_refer_to_others_and_be_json(world) -> None:
    city = {"type": "record", "name": "a.City", "fields": [{"name": "name", "type": "string"}]}
    home = record(n="int", city="a.City")
    world.client.inner.register_schema("city", Schema(json.dumps(city), "AVRO"))
    references = [SchemaReference("a.City", "city", 1)]
    schema: Any = Schema(json.dumps(home), "AVRO", references)
    serializer = AvroSerializer(world.client.inner, schema)
    context = SerializationContext("t", MessageField.VALUE)
    world.kafka.append("t", 0, serializer({"n": 1, "city": {"name": "A"}}, context))
    text = {"type": "object", "properties": {"m": {"type": "number"}, "k": {"type": "integer"}}}
    number = world.client.inner.register_schema("j", Schema(json.dumps(text), "JSON"))
    world.kafka.append("t", 0, b"\0" + number.to_bytes(4, "big") + b'{"k": 1, "m": 2.5}')
    world.ingest()
    assert world.rows() == [{"n": 1, "city": {"name": "A"}}, {"k": 1, "m": 2.5}]
    assert audited(world) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"registry": {"url": 5}}, "the settings of the registry: url must be a str"),
        ({"registry": {"url": "http://x", "timeout": "y"}}, "the settings of the registry: "),
        ({"registry": {"url": "mock://x"}, "format": "avro"}, "a registry has the schema of each"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments, reason) -> None:
    with pytest.raises(ConfigError, match=reason):
        Decoding(**arguments)


def test_settings_are_pickled_and_not_shown() -> None:
    settings = {"url": "mock://x", "basic.auth.user.info": "user:secret", "max.retries": "2"}
    decoding = Decoding(registry=settings)
    assert pickle.loads(pickle.dumps(decoding)) == decoding
    assert "secret" not in repr(decoding)


def test_rows_are_what_confluents_deserializer_returns(world) -> None:
    for number in range(50):
        world.send(GROWN, {"n": number, "text": f"t{number}", "more": ["a"] * (number % 3)})
    world.ingest()
    deserializer = AvroDeserializer(world.client.inner)
    context = SerializationContext("t", MessageField.VALUE)
    assert world.rows() == [deserializer(sent.value, context) for sent in world.sent()]


def test_a_wider_schema_that_the_table_cannot_take_harms_only_its_own_messages(world) -> None:
    letters = open_dead_letters(str(world.root / "letters"))
    world.rules = world.decoding(dead_letters=letters)
    world.send(FIRST, {"n": 0, "text": "t"})
    world.ingest()
    for number in range(1, 9):
        world.send(WIDER if number % 2 else GROWN, {"n": number, "text": "t", "more": None})
    stats = world.ingest()
    assert (stats.decoded, stats.dead_letters) == (4, 4)
    assert [row["n"] for row in world.rows()] == [0, 2, 4, 6, 8]


def test_a_table_that_can_widens_a_column(world) -> None:
    world.lake = IcebergLake(world.root / "iceberg")
    for number in range(6):
        world.send(WIDER if number % 2 else FIRST, {"n": number, "text": "t"})
    assert world.ingest().decoded == 6
    assert [row["n"] for row in world.rows()] == list(range(6))
    assert world.lake.read().schema.field("n").type == pa.int64()
    assert audited(world) == []


def test_unions_of_several_schemas_are_records_of_members(world) -> None:
    either = ["null", "string", "long", {"type": "record", "name": "P", "fields": []}]
    either[3]["fields"].append({"name": "x", "type": "int"})  # type: ignore[index]
    older = record(n="int", u=either)
    newer = record(n="int", u=either, more=["null", "string"])
    for number, value in enumerate(("a", 1, {"x": 5}, None, "b", 2, {"x": 6}, "c")):
        world.send(newer if number in (0, 5) else older, {"n": number, "u": value})
    assert world.ingest().decoded == 8
    found = [list((row.get("u") or {}).values()) for row in world.rows()]
    present = [[part for part in members if part is not None] for members in found]
    assert present == [["a"], [1], [{"x": 5}], [], ["b"], [2], [{"x": 6}], ["c"]]
    assert audited(world) == []


def test_of_contradicting_schemas_a_new_table_takes_the_first(world) -> None:
    letters = open_dead_letters(str(world.root / "letters"))
    world.rules = world.decoding(dead_letters=letters)
    for number in range(6):
        world.send(*((CONTRARY, {"n": "x"}) if number == 3 else (FIRST, {"n": number, "text": ""})))
    stats = world.ingest()
    assert (stats.decoded, stats.dead_letters) == (5, 1)
    assert [row["n"] for row in world.rows()] == [0, 1, 2, 4, 5]
