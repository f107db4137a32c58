"""Unions as records: what a consumer gets of them in each format, with the core and without."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.serialization import MessageField, SerializationContext

from columnar_kafka import RowError, SchemaError, native
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.plain import Json, Registry
from columnar_kafka.plain.row_formats import ROW_FORMATS
from columnar_kafka.segment.avro_layout import AVRO_KEY
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Sequence


def record(name: str, **types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": avro} for name, avro in types.items()]
    return {"type": "record", "name": name, "namespace": "x", "fields": fields}


LINE = record("Line", of=["int", "string"])
SCHEMA = [
    record("Order", id="long", lines={"type": "array", "items": ["null", LINE, "string"]}),
    record("Paid", id="long", by=["string", {"type": "map", "values": "long"}, "null"]),
    record("Moved", id="long", by=["string", "int"]),
]
ROWS: list[Any] = [
    {"id": 1, "lines": [{"of": 2}, None, "text", ("x.Line", {"of": "three"})]},
    ("x.Paid", {"id": 1, "by": "card"}),
    ("x.Moved", {"id": 2, "by": 3}),
    {"-type": "x.Paid", "id": 3, "by": None},
    {"id": 4, "by": {"a": 5}},
    ("x.Order", {"id": 5, "lines": []}),
]
NAMED = [
    (
        "x.Order",
        {"id": 1, "lines": [("x.Line", {"of": 2}), None, "text", ("x.Line", {"of": "three"})]},
    ),
    ("x.Paid", {"id": 1, "by": "card"}),
    ("x.Moved", {"id": 2, "by": 3}),
    ("x.Paid", {"id": 3, "by": None}),
    ("x.Paid", {"id": 4, "by": {"a": 5}}),
    ("x.Order", {"id": 5, "lines": []}),
]  # fmt: skip
PARSED: Any = fastavro.parse_schema(SCHEMA)


def datum(row: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, PARSED, row)
    return sink.getvalue()


def read(data: bytes, **options: bool) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), PARSED, None, **options)


DATUMS = list(map(datum, ROWS))
PLAIN = list(map(read, DATUMS))


@pytest.fixture(params=[True, False] if native.enabled else [False])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the core is on."""
    monkeypatch.setattr(native, "enabled", request.param)
    is_on: bool = request.param
    return is_on


def produced(values: Sequence[Any], **more: Any) -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer({"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}) as producer:
        producer.set_schema("t", SCHEMA, **more)
        for value in values:
            producer.produce("t", value)
    assert kafka.count("t") == 1
    return kafka


def consumed(kafka: FakeKafka, form: str) -> list[Any]:
    consumer = kafka.Consumer(
        {"columnar.encoding": "parquet", "group.id": "g", "columnar.value.format": form}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    messages = consumer.consume(len(ROWS) + 1, 0)
    assert [message.error() for message in messages] == [None] * len(messages)
    return [message.value() for message in messages]


@pytest.mark.usefixtures("way")
def test_rows_come_back_as_fastavro_reads_them() -> None:
    """They are in one segment, in the order in which they were produced."""
    assert consumed(produced(ROWS), "rows") == PLAIN


@pytest.mark.usefixtures("way")
def test_named_rows_are_those_of_fastavros_record_names() -> None:
    found = consumed(produced(ROWS), "named-rows")
    assert found == NAMED
    assert found == [read(data, return_record_name=True) for data in DATUMS]
    assert consumed(produced(found), "rows") == PLAIN


@pytest.mark.usefixtures("way")
def test_datums_come_back_byte_for_byte_also_where_null_is_last() -> None:
    kafka = produced(DATUMS, value_format="avro")
    assert consumed(kafka, "avro") == DATUMS
    assert consumed(kafka, "rows") == PLAIN
    [message] = kafka.messages("t")
    said = (pq.read_metadata(io.BytesIO(message.value())).metadata or {})[AVRO_KEY]
    types = json.loads(said)["types"]
    assert types["member1.by"] == ["member0", "member1", "null"]
    # Whoever knows no unions refuses members that may be null, but are not so in Avro.
    assert types["member1"] == "record"
    assert "member0.lines.item" not in types


@pytest.mark.usefixtures("way")
def test_rows_become_datums_in_which_null_is_first() -> None:
    rows = [row for row in NAMED if row != NAMED[3]]
    first = json.loads(json.dumps(SCHEMA))
    first[1]["fields"][1]["type"].insert(0, first[1]["fields"][1]["type"].pop())
    parsed: Any = fastavro.parse_schema(first)
    assert [
        fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
        for value in consumed(produced(rows), "avro")
    ] == [row[1] if row != NAMED[0] else PLAIN[0] for row in rows]


@pytest.mark.usefixtures("way")
def test_json_has_the_members() -> None:
    [value] = consumed(produced(ROWS[2:3]), "json")
    moved = {"id": 2, "by": {"member0": None, "member1": 3}}
    assert json.loads(value) == {"member0": None, "member1": None, "member2": moved}


@pytest.mark.usefixtures("way")
def test_a_report_has_the_row_as_a_consumer_reads_it() -> None:
    kafka = FakeKafka()
    told = []
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", SCHEMA)
        for row in ROWS:
            producer.produce("t", row, on_delivery=lambda error, m: told.append((error, m.value())))
    assert told == [(None, row) for row in PLAIN]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("row", [{"id": 5, "by": "x"}, {"id": 5}, ("Order", {}), ("x.Order", None)])
def test_a_row_that_is_of_none_or_of_two_fails_alone(row: Any) -> None:
    kafka = FakeKafka()
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", SCHEMA)
        batch = [{"value": ROWS[0]}, {"value": row}, {"value": ROWS[1]}]
        assert producer.produce_batch("t", batch) == 2
        with pytest.raises(RowError, match=r"union|null"):
            producer.produce("t", row)
    assert consumed(kafka, "rows") == PLAIN[:2]


@pytest.mark.usefixtures("way")
def test_a_branch_is_told_by_its_fields_in_any_order_of_the_rows() -> None:
    schema = [record("A", n="long"), record("B", n="long", s="string"), record("C", s="string")]
    rows = [{"n": 1}, {"s": "x", "n": 2}, {"s": "y"}, {"n": 3, "s": "z"}, {"n": 4}]
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", schema)
        for row in rows * 3:
            producer.produce("t", row)
    found = kafka.Consumer({"columnar.encoding": "parquet", "group.id": "g"})
    found.assign([TopicPartition("t", 0, 0)])
    assert [message.value() for message in found.consume(16, 0)] == rows * 3


@pytest.mark.usefixtures("way")
def test_of_two_members_with_values_the_first_counts() -> None:
    """No producer of ours writes such a file."""
    field = pa.field("f", pa.struct([
        pa.field("member0", pa.int32(), metadata={"columnar.branch": "int"}),
        pa.field("member1", pa.string(), metadata={"columnar.branch": "string"}),
    ]))  # fmt: skip
    schema = pa.schema([field])
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    values = [{"member0": 1, "member1": "a"}, {"member0": None, "member1": None}, None,
              {"member0": None, "member1": "b"}]  # fmt: skip
    plain = pa.schema(
        [field.with_type(pa.struct([("member0", pa.int32()), ("member1", pa.string())]))]
    )
    producer = kafka.Producer({"columnar.encoding": "parquet", "columnar.linger.ms": 60_000})
    with pytest.MonkeyPatch.context() as patch, producer:
        patch.setattr("columnar_kafka.columns.from_arrow.cast.check_branches", lambda *_: None)
        producer.set_schema("t", schema)
        producer.produce_arrow("t", pa.Table.from_pylist([{"f": value} for value in values], plain))
    assert consumed(kafka, "rows") == [{"f": 1}, {"f": None}, {"f": None}, {"f": "b"}]


def test_json_is_not_read_into_unions() -> None:
    row = record("R", u=["int", "string"])
    why = "^field '.*' is a branch of a union, and JSON does not say of which branch a value is"
    for schema in (SCHEMA, row):
        with pytest.raises(SchemaError, match=why):
            ROW_FORMATS["json"].open(schema)
        with pytest.raises(SchemaError, match=why):
            Json(schema, fields="lenient")
        producer = FakeKafka().Producer({"columnar.encoding": "parquet"})
        with producer, pytest.raises(SchemaError, match=why):
            producer.set_schema("t", schema, value_format="json")


def test_a_union_grows_by_branches_behind_the_others() -> None:
    order, paid, moved = SCHEMA
    with FakeKafka().Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", [order, paid])
        producer.set_schema("t", [order, paid, moved])
        for wrong in ([paid, order, moved], [order, paid, {**moved, "name": "Z"}]):
            with pytest.raises(SchemaError, match="keep a union's branches and their order"):
                producer.set_schema("t", wrong)
        with pytest.raises(SchemaError, match="is missing, but earlier records have it"):
            producer.set_schema("t", [order, paid])


@pytest.mark.usefixtures("way")
def test_a_union_in_a_registry_may_refer_to_its_records() -> None:
    registry = pytest.importorskip("confluent_kafka.schema_registry")
    serdes = pytest.importorskip("confluent_kafka.schema_registry.avro")
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    references = []
    for avro in (LINE, record("Note", on="x.Line", text=["string", "int"])):
        kept = registry.Schema(json.dumps(avro), "AVRO", references[:1])
        kafka.registry.register_schema(avro["name"], kept)
        references.append(registry.SchemaReference(f"x.{avro['name']}", avro["name"], 1))
    union = registry.Schema('["x.Line", "x.Note"]', "AVRO", references)
    kafka.registry.register_schema("t-value", union)
    serialize = serdes.AvroSerializer(kafka.registry, union, conf={"auto.register.schemas": False})
    rows: list[Any] = [{"of": 5}, {"on": {"of": "a"}, "text": 7}]
    context = SerializationContext("t", MessageField.VALUE)
    values = [serialize(row, context) for row in rows]
    with kafka.Producer({"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}) as producer:
        producer.set_schema("t", registry=kafka.registry, value_format="avro")
        for value in values:
            producer.produce("t", value)
    assert consumed(kafka, "rows") == rows
    assert consumed(kafka, "avro") == values
    with kafka.Producer({}) as plain:
        for value in values:
            plain.produce("p", value)
    consumer = kafka.Consumer({"columnar.encoding": "parquet", "group.id": "g"})
    consumer.assign([TopicPartition("p", 0, 0)])
    table = consumer.consume_arrow(5, 1, value=Registry(kafka.registry))
    assert [to_rows(batch) for batch in table.drop_columns(["_kafka"]).to_batches()] == [rows]


def test_a_union_that_is_registered_is_the_one_that_is_given() -> None:
    pytest.importorskip("confluent_kafka.schema_registry")
    kafka = FakeKafka()
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", SCHEMA, registry=kafka.registry)
    kept = kafka.registry.get_latest_version("t-value").schema.schema_str
    assert fastavro.parse_schema(json.loads(kept)) == PARSED
