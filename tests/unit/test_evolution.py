"""Schemas that grow while a topic is written and read: every record is read as it was produced."""

from __future__ import annotations

import io
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError
from tables import record_decoded_columns

from columnar_kafka import Segment
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.position import pack
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("place", pa.struct([pa.field("x", pa.float32(), nullable=False)])),
        pa.field("tags", pa.list_(pa.int8())),
    ]
)
OLD_ROW = {"n": 1, "text": "old", "place": {"x": 0.5}, "tags": [1, 2]}


def grown(**fields: pa.DataType | pa.Field) -> pa.Schema:
    """Return the old schema with fields of other types, and new ones."""
    given = {name: field if isinstance(field, pa.Field) else pa.field(name, field)
             for name, field in fields.items()}  # fmt: skip
    known = [given.pop(field.name, field) for field in OLD]
    return pa.schema([*known, *given.values()])


def not_null(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


X64 = pa.struct([not_null("x", pa.float64())])
XY = pa.struct([pa.field("y", pa.string()), not_null("x", pa.float32())])
GROWTHS: dict[str, tuple[pa.Schema, dict[str, Any]]] = {
    "added": (grown(more=pa.string()), {"more": "m"}),
    "added inside": (grown(place=XY), {"place": {"y": "y", "x": 1.5}}),
    "widened": (
        grown(n=not_null("n", pa.int64()), tags=pa.list_(pa.int16())),
        {"n": 1 << 40, "tags": [1000]},
    ),
    "widened inside": (grown(place=X64), {"place": {"x": 0.1}}),
    "made nullable": (grown(text=pa.string()), {"text": None}),
    "reordered": (pa.schema(list(reversed(OLD))), {}),
    "all at once": (
        pa.schema(reversed(grown(n=not_null("n", pa.int64()), text=pa.string(), more=pa.int8()))),
        {"n": 1 << 40, "text": None, "more": 1},
    ),
}
growths = pytest.mark.parametrize("growth", GROWTHS)


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    with FakeKafka() as made:
        made.create_topic("t", 1)
        yield made


def producer(kafka: FakeKafka, schema: pa.Schema, **config: Any) -> Any:
    made = kafka.Producer({"columnar.encoding": "parquet", **config})
    made.set_schema("t", schema)
    return made


def consumer(kafka: FakeKafka, **config: Any) -> Any:
    made = kafka.Consumer(
        {
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "columnar.encoding": "parquet",
            "enable.auto.commit": False,
            **config,
        }
    )
    made.subscribe(["t"])
    return made


def interleave(kafka: FakeKafka, growth: str, turns: int = 3) -> list[dict[str, Any]]:
    """Let a service of each version write segments of two rows in turns; return the rows."""
    schema, changed = GROWTHS[growth]
    old, new = producer(kafka, OLD), producer(kafka, schema)
    rows: list[dict[str, Any]] = []
    for _ in range(turns):
        for made, row in ((old, OLD_ROW), (new, OLD_ROW | changed)):
            for _ in range(2):
                made.produce("t", row)
                rows.append(row)
            made.flush()
    old.close()
    new.close()
    return rows


def segments(kafka: FakeKafka) -> list[Segment]:
    return [
        Segment(topic="t", partition=0, offset=at, headers=message.headers(), value=message.value())
        for at, message in enumerate(kafka.messages("t"))
    ]


# --- records --------------------------------------------------------------------------------------


@growths
def test_records_of_interleaved_versions_come_in_order_and_unchanged(
    kafka: FakeKafka, growth: str
) -> None:
    """Old code finds its fields in new records; old records lack the fields that are new."""
    rows = interleave(kafka, growth)
    with consumer(kafka) as reader:
        messages = reader.consume(len(rows), 10)
    assert [message.error() for message in messages] == [None] * len(rows)
    assert [message.value() for message in messages] == rows
    assert [message.offset() for message in messages] == [
        pack(n // 2, n % 2, 2) for n in range(len(rows))
    ]


@growths
def test_a_reader_resumes_where_it_was_across_versions(kafka: FakeKafka, growth: str) -> None:
    rows = interleave(kafka, growth)
    values: list[Any] = []
    for _ in rows:
        with consumer(kafka) as reader:
            message = reader.poll(60)
            values.append(message.value())
            reader.commit(message, asynchronous=False)
    assert values == rows


def test_interleaved_versions_are_decoded_once_each(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = interleave(kafka, "all at once", turns=20)
    decoded = record_decoded_columns(monkeypatch)
    with consumer(kafka) as reader:
        assert len(reader.consume(len(rows), 10)) == len(rows)
    assert decoded == [None] * 40


@growths
def test_a_service_grows_its_schema_while_it_runs(kafka: FakeKafka, growth: str) -> None:
    """Records produced before keep their schema and their place."""
    schema, changed = GROWTHS[growth]
    with producer(kafka, OLD, **{"columnar.linger.ms": 60_000}) as made:
        for _ in range(3):
            made.produce("t", OLD_ROW)
        made.set_schema("t", schema)
        for _ in range(3):
            made.produce("t", OLD_ROW | changed)
    assert [record.value() for record in kafka.records("t")] == [
        *[OLD_ROW] * 3,
        *[OLD_ROW | changed] * 3,
    ]
    assert [segment.rows for segment in segments(kafka)] == [3, 3]


def test_schemas_of_two_producers_that_do_not_fit_together_stall_nobody(kafka: FakeKafka) -> None:
    """Producers know only their own schemas; a reader gets what each producer has written."""
    other = pa.schema([pa.field("n", pa.string()), pa.field("own", pa.bool_())])
    for schema, row in ((OLD, OLD_ROW), (other, {"n": "one", "own": True}), (OLD, OLD_ROW)):
        with producer(kafka, schema) as made:
            made.produce("t", row)
    with consumer(kafka) as reader:
        values = [message.value() for message in reader.consume(3, 60)]
    assert values == [OLD_ROW, {"n": "one", "own": True}, OLD_ROW]


def test_a_segment_of_a_newer_format_is_reported_and_passed(kafka: FakeKafka) -> None:
    interleave(kafka, "added", turns=1)
    [message, _] = kafka.messages("t")
    newer = [(k, b"2" if k == "columnar.version" else v) for k, v in message.headers() or ()]
    kafka.append("t", 0, message.value(), headers=newer)
    with producer(kafka, OLD) as made:
        made.produce("t", OLD_ROW)
    with consumer(kafka) as reader:
        *_, bad, good = reader.consume(6, 60)
    assert bad.error().code() == KafkaError._BAD_MSG
    assert "t[0]@2" in bad.error().str()
    assert "columnar.version is 2" in bad.error().str()
    assert good.value() == OLD_ROW


# --- tables ---------------------------------------------------------------------------------------


def refusal(growth: str) -> Any:
    """Expect that pyarrow up to 18 adds no fields to records; `promote=True` does on each."""
    if growth == "added inside" and VERSION < (19, 0):
        return pytest.raises(pa.ArrowTypeError, match="struct fields don't match")
    return nullcontext()


@growths
def test_one_table_promotes_both_versions(kafka: FakeKafka, growth: str) -> None:
    schema, changed = GROWTHS[growth]
    interleave(kafka, growth, turns=1)
    with consumer(kafka) as reader:
        table = reader.consume_arrow(4, 60, schema.names, promote=True)
    assert table.to_pylist() == (
        pa.Table.from_pylist([OLD_ROW] * 2 + [OLD_ROW | changed] * 2, schema).to_pylist()
    )


@growths
def test_tables_of_both_versions_are_one_table_of_the_grown_schema(
    kafka: FakeKafka, growth: str
) -> None:
    schema, changed = GROWTHS[growth]
    interleave(kafka, growth, turns=1)
    old, new = (segment.to_table().drop_columns("_kafka") for segment in segments(kafka))
    with refusal(growth):
        both = pa.concat_tables([new, old], promote_options="permissive").replace_schema_metadata()
        expected = [OLD_ROW | changed] * 2 + [OLD_ROW] * 2
        assert both.cast(schema) == pa.Table.from_pylist(expected, schema)


@growths
def test_a_parquet_reader_with_the_new_schema_reads_old_segments(
    kafka: FakeKafka, growth: str
) -> None:
    """New fields are null, and narrower types are widened."""
    schema, _ = GROWTHS[growth]
    interleave(kafka, growth, turns=1)
    old = segments(kafka)[0]
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    with refusal(growth):
        table = pq.read_table(io.BytesIO(old.bytes), schema=nullable)
        assert table == pa.Table.from_pylist([OLD_ROW] * 2, nullable)


@growths
def test_a_parquet_reader_that_knows_the_old_names_only_reads_new_segments(
    kafka: FakeKafka, growth: str
) -> None:
    _, changed = GROWTHS[growth]
    interleave(kafka, growth, turns=1)
    new = segments(kafka)[1]
    table = pq.read_table(io.BytesIO(new.bytes), columns=OLD.names)
    row = OLD_ROW | changed
    assert table.to_pylist() == [{name: row[name] for name in OLD.names}] * 2
