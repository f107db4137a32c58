"""The source's mode ``records``: its readers, called as Spark calls them, on a real Kafka."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from spark_tasks import close_kept_clients

import spark_sink
from columnar_kafka import Consumer, Producer
from columnar_kafka.errors import ConfigError, SchemaError, SegmentError
from spark_sink.reading import reading, records
from spark_sink.reading.source_options import SourceOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

N = pa.field("n", pa.int32(), nullable=False)
SCHEMA = pa.schema([N, ("text", pa.string())])
GROWN = pa.schema([("text", pa.string()), pa.field("n", pa.int64()), ("more", pa.int8())])


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_kept_clients()


def send(kafka: LocalKafka, topic: str, schema: pa.Schema, *rows: Any, **where: Any) -> None:
    """Send rows as one segment."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(topic, schema)
        for row in rows:
            producer.produce(topic, row, **where)


def query(kafka: LocalKafka, topic: str, **options: str) -> spark_sink.KafkaSource:
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    named = servers | {"subscribe": topic, "mode": "records"} | options
    return spark_sink.KafkaSource(CaseInsensitiveDict(named))


def read(source: spark_sink.KafkaSource, schema: StructType | None = None) -> list[dict[str, Any]]:
    reader = source.reader(schema or source.schema())
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != "_kafka"} for row in rows]


def test_a_row_is_a_record_with_its_place_key_time_and_headers(kafka, topic) -> None:
    name = topic(2)
    send(kafka, name, SCHEMA, {"n": 1, "text": "a"}, {"n": 2, "text": None}, partition=1, key="k")
    extras = {"partition": 0, "timestamp": 5000, "headers": [("h", b"v")]}
    send(kafka, name, SCHEMA, {"n": 3, "text": "c"}, **extras)
    rows = read(query(kafka, name))
    assert values(rows) == [
        {"n": 3, "text": "c"},
        {"n": 1, "text": "a"},
        {"n": 2, "text": None},
    ]
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": name}
    config |= {"auto.offset.reset": "earliest", "columnar.encoding": "parquet"}
    with Consumer(config) as consumer:
        consumer.subscribe([name])
        sent = sorted(
            (message.value()["n"], message.partition(), message.offset())
            for message in consumer.consume(3, 60)
        )
    places = [(row["n"], row["_kafka"]["partition"], row["_kafka"]["offset"]) for row in rows]
    assert sorted(places) == sent
    first = rows[0]["_kafka"]
    assert (first["topic"], first["key"]) == (name, None)
    assert first["timestamp"] == dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.timezone.utc)
    assert first["headers"] == [{"key": "h", "value": b"v"}]
    assert rows[1]["_kafka"]["key"] == b"k"
    assert "headers" not in read(query(kafka, name, includeHeaders="false"))[0]["_kafka"]


def test_a_segment_without_metadata_has_a_place_and_nothing_else(kafka, topic) -> None:
    name = topic()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config | {"columnar.metadata": "none"}) as producer:
        producer.set_schema(name, SCHEMA)
        producer.produce(name, {"n": 1, "text": "a"}, timestamp=5000)
    [row] = read(query(kafka, name))
    assert row["_kafka"] == {
        "topic": name,
        "partition": 0,
        "offset": (1 << 20) - 1,
        "key": None,
        "timestamp": dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.timezone.utc),
        "headers": None,
    }


def test_types_that_spark_lacks_become_those_that_hold_them(kafka, topic) -> None:
    name = topic()
    inner = pa.struct([("b", pa.uint8()), pa.field("t", pa.large_string(), nullable=False)])
    zoned = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
    at = zoned.replace(tzinfo=None)
    schema = pa.schema(
        [
            ("u8", pa.uint8()),
            ("u64", pa.uint64()),
            ("f16", pa.float16()),
            ("d64", pa.decimal64(9, 2)),
            ("fixed", pa.binary(2)),
            ("ns", pa.timestamp("ns", "Europe/Berlin")),
            ("local", pa.timestamp("ms")),
            ("list", pa.list_(inner)),
            ("map", pa.map_(pa.string(), inner)),
            ("pair", pa.list_(pa.int16(), 2)),
        ]
    )
    row = {
        "u8": 255,
        "u64": (1 << 64) - 1,
        "f16": 1.5,
        "d64": Decimal("1.25"),
        "fixed": b"ab",
        "ns": zoned,
        "local": at,
        "list": [{"b": 1, "t": "x"}, None],
        "map": {"k": {"b": None, "t": "y"}},
        "pair": [1, 2],
    }
    send(kafka, name, schema, row)
    source = query(kafka, name)
    assert [field.dataType.simpleString() for field in source.schema()][:-1] == [
        *("smallint", "decimal(20,0)", "float", "decimal(9,2)", "binary"),
        *("timestamp", "timestamp_ntz", "array<struct<b:smallint,t:string>>"),
        *("map<string,struct<b:smallint,t:string>>", "array<smallint>"),
    ]
    [value] = values(read(source))
    assert value == row | {"map": [("k", {"b": None, "t": "y"})]}


@pytest.mark.parametrize("arrow", [pa.time64("us"), pa.decimal256(50, 0)])
def test_a_type_that_spark_cannot_hold_is_named(kafka, topic, arrow) -> None:
    name = topic()
    send(kafka, name, pa.schema([("a", pa.struct([("b", arrow)]))]), {"a": None})
    with pytest.raises(ConfigError, match=r"column 'a\.b' is .*, a type that Spark does not have"):
        query(kafka, name).schema()


def test_older_segments_are_read_in_the_newest_columns(kafka, topic) -> None:
    name = topic(2)
    send(kafka, name, SCHEMA, {"n": 1, "text": "a"}, partition=0)
    send(kafka, name, GROWN, {"n": 1 << 40, "text": "b", "more": 7}, partition=1)
    source = query(kafka, name)
    assert source.schema().names == ["text", "n", "more", "_kafka"]
    assert values(read(source)) == [
        {"text": "a", "n": 1, "more": None},
        {"text": "b", "n": 1 << 40, "more": 7},
    ]


def test_columns_that_grow_stop_the_query_and_are_named(kafka, topic) -> None:
    name = topic()
    send(kafka, name, SCHEMA, {"n": 1, "text": "a"})
    source = query(kafka, name)
    schema = source.schema()
    send(kafka, name, GROWN, {"n": 2, "text": "b", "more": 7})
    with pytest.raises(
        SchemaError,
        match=rf"{name}\[0\]@1 has .*: 'n' is int64, and was int32, 'more' \(int8\) is new\.",
    ):
        read(source, schema)
    assert len(read(source)) == 2


def test_where_the_newest_segment_has_fewer_columns_the_user_names_them(kafka, topic) -> None:
    name = topic()
    send(kafka, name, GROWN, {"text": "a", "n": 1, "more": 7})
    send(kafka, name, SCHEMA, {"n": 2, "text": "b"})
    source = query(kafka, name)
    with pytest.raises(SchemaError, match=r"'more' \(int8\) is new\..*has fewer, .*\.schema\("):
        read(source)
    wanted = StructType().add("n", "long").add("text", "string").add("more", "byte")
    assert read(source, wanted) == [
        {"n": 1, "text": "a", "more": 7},
        {"n": 2, "text": "b", "more": None},
    ]


def test_a_user_may_name_the_columns(kafka, topic) -> None:
    name = topic()
    wanted = StructType().add("n", "long").add("text", "string").add("later", "double")
    assert read(query(kafka, name), wanted) == []
    send(kafka, name, SCHEMA, {"n": 1, "text": "a"})
    assert read(query(kafka, name), wanted) == [{"n": 1, "text": "a", "later": None}]
    place = StructType().add("offset", "long")
    [row] = read(query(kafka, name), wanted.add("_kafka", place))
    assert row["_kafka"] == {"offset": (1 << 20) - 1}


def test_the_columns_of_other_modes_are_fixed(kafka, topic) -> None:
    for mode in ("segments", "ranges"):
        with pytest.raises(ConfigError, match=f"columns of mode {mode} are fixed"):
            query(kafka, topic(), mode=mode).reader(StructType().add("n", "long"))


def test_a_topic_without_segments_has_no_columns(kafka, topic) -> None:
    with pytest.raises(ConfigError, match=r"no segment .*\.schema\("):
        query(kafka, topic()).schema()


def test_topics_whose_columns_do_not_go_together_are_refused(kafka, topic) -> None:
    one, other = sorted([topic(), topic()])
    send(kafka, one, SCHEMA, {"n": 1, "text": "a"})
    send(kafka, other, pa.schema([("x", pa.string())]), {"x": "b"})
    with pytest.raises(ConfigError, match=rf"{other}\[0\]@0 does not fit .*'x' \(string\)"):
        query(kafka, f"{one},{other}").schema()


def test_a_plain_message_stops_the_query_and_columns_are_those_of_the_last_segment(
    kafka, topic
) -> None:
    name = topic()
    send(kafka, name, SCHEMA, {"n": 1, "text": "a"})
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(20):
        plain.produce(name, b"x")
    plain.flush()
    source = query(kafka, name)
    assert source.schema().names == ["n", "text", "_kafka"]
    with pytest.raises(SegmentError, match=rf"{name}\[0\]@1 is a plain message"):
        read(source)


def test_the_last_segments_of_all_partitions_are_searched_together(
    kafka, topic, monkeypatch
) -> None:
    name = topic(4)
    send(kafka, name, SCHEMA, {"n": 1, "text": "a"}, partition=0)
    send(kafka, name, SCHEMA, {"n": 1, "text": "a"}, partition=1)
    send(kafka, name, GROWN, {"n": 1, "text": "a", "more": 7}, partition=2)
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for partition in (2, 2, 3):
        plain.produce(name, b"x", partition=partition)
    plain.flush()
    searched = []

    def noted(ranges: Any, *settings: Any, **more: Any) -> Any:
        searched.append([part[1:4] for part in ranges])
        return reading.read(ranges, *settings, **more)

    monkeypatch.setattr(records, "read", noted)
    segments = records.newest_segments(
        SourceOptions.parse(query(kafka, name).options, streaming=None)
    )
    assert [segment.schema.names[:-1] for segment in segments] == [SCHEMA.names, GROWN.names]
    assert searched == [[(0, 0, 1), (1, 0, 1), (2, 2, 3), (3, 0, 1)], [(2, 0, 3)]]


def test_many_records_come_in_batches(kafka, topic) -> None:
    name = topic()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(name, SCHEMA)
        rows = pa.table({"n": pa.array(range(25_000), pa.int32())}).append_column(
            "text", pa.nulls(25_000, pa.string())
        )
        producer.produce_arrow(name, rows)
    source = query(kafka, name)
    reader = source.reader(source.schema())
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert max(batch.num_rows for batch in batches) <= 10_000
    assert sorted(n for batch in batches for n in batch["n"].to_pylist()) == list(range(25_000))
