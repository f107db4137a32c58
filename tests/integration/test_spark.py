"""Segments through Spark into a table, from our source and from Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from landing import lander, numbers, run
from pyspark.errors import StreamingQueryException
from sending import SCHEMA, send

import spark_sink
from columnar_kafka import Producer

if TYPE_CHECKING:
    from pathlib import Path

    from landing import Land
    from pyspark.sql import SparkSession
    from support import OnSpark

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def land(spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, tmp_path: Path) -> Land:
    return lander(spark, kafka, on_spark, tmp_path)


def test_ranges_land_each_row_once_and_go_on_without_their_checkpoint(
    spark, kafka, land, topic, tmp_path
) -> None:
    name = topic(2)
    send(kafka, name, range(50))
    land(name, "ranges")
    assert numbers(spark, tmp_path, name) == list(range(50))
    send(kafka, name, range(50, 60))
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    land(name, "ranges")
    assert numbers(spark, tmp_path, name) == list(range(60))


def test_ranges_take_no_more_tasks_than_there_are_cores(spark, kafka, on_spark, topic) -> None:
    name = topic(5)
    with confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for partition in range(5):
            producer.produce(name, b"", partition=partition)
    spark_sink.register(spark)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": name}
    reader = spark.read.format("columnar_kafka").options(**options, mode="ranges")

    def count(**more: str) -> tuple[int, int]:
        frame = reader.options(**more).load()
        return frame.rdd.getNumPartitions(), frame.count()

    assert on_spark(count) == (spark.sparkContext.defaultParallelism, 5)
    assert on_spark(lambda: count(minPartitions="4")) == (4, 5)
    assert on_spark(lambda: count(maxRecordsPerPartition="1")) == (5, 5)


def test_batch_queries_and_batches_of_a_stream_land_as_a_stream_does(
    spark, kafka, on_spark, topic, tmp_path
) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    spark_sink.register(spark)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": name,
        "startingOffsets": "earliest",
    }
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}

    def write(frame: Any, _: int = 0) -> None:
        writer = frame.write.format("columnar_lake").mode("append").options(**servers)
        writer.save(str(tmp_path / "lake"))

    ranges = spark.read.format("columnar_kafka").options(**options, mode="ranges")
    on_spark(lambda: write(ranges.load()))
    send(kafka, name, range(20, 30))
    stream = spark.readStream.format("columnar_kafka").options(**options).load().writeStream
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    on_spark(
        lambda: stream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
    )
    assert numbers(spark, tmp_path, name) == list(range(30))


def test_a_stream_lands_in_a_delta_table(kafka, land, topic, tmp_path) -> None:
    name = topic(2)
    send(kafka, name, range(50))
    land(name, **{"table.format": "delta"})
    assert sorted(polars.read_delta(str(tmp_path / "lake"))["n"]) == list(range(50))


def test_sparks_own_source_feeds_the_sink(spark, kafka, land, on_spark, topic, tmp_path) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "table.source.isolation": "read_committed",
    }
    on_spark(lambda: run(rows, tmp_path, **options))
    send(kafka, name, range(20, 25))
    # The same table goes on with our own source: both name the topic's generation alike.
    (tmp_path / "checkpoint").rename(tmp_path / "sparks")
    land(name)
    assert numbers(spark, tmp_path, name) == list(range(25))


def test_what_lands_keeps_key_time_headers_and_identity(
    spark, kafka, land, topic, tmp_path
) -> None:
    name = topic()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(name, SCHEMA)
        producer.produce(
            name,
            {"n": 1, "text": "a"},
            key=b"k",
            timestamp=5000,
            headers=[("h", b"v"), ("h", None)],
        )
    land(name)
    [row] = spark.read.parquet(str(tmp_path / "lake" / name)).collect()
    assert (row.n, row.text, bytes(row._kafka.key), row._kafka.row) == (1, "a", b"k", 0)
    assert row._kafka.timestamp.timestamp() == 5
    assert [(h.key, h.value and bytes(h.value)) for h in row._kafka.headers] == [
        ("h", b"v"),
        ("h", None),
    ]


def test_a_plain_message_stops_the_stream_and_says_where(kafka, land, topic, tmp_path) -> None:
    name = topic()
    send(kafka, name, range(3))
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(name, b"plain")
    plain.flush()
    with pytest.raises(StreamingQueryException, match=rf"{name}\[0\]@1"):
        land(name)
    assert not list((tmp_path / "lake").glob("*/*.parquet"))


def test_segments_of_two_schemas_land_side_by_side(kafka, land, topic, tmp_path) -> None:
    name = topic()
    send(kafka, name, range(4))
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(name, SCHEMA.append(pa.field("more", pa.int32())))
        producer.produce(name, {"n": 4, "text": None, "more": 7})
    land(name)
    files = sorted((tmp_path / "lake" / name).iterdir())
    assert [pq.read_metadata(path).num_rows for path in files] == [4, 1]
