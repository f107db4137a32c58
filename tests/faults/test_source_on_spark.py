"""The source in a real Spark, beside Spark's own. What it asks of Kafka: `test_spark_source`."""

from __future__ import annotations

import ast
import datetime as dt
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import spark_sink
from columnar_kafka import Consumer, Producer
from spark_sink.older_spark import HAS_LIMITS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from support import OnSpark, TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def send(kafka: LocalKafka, topic: str, count: int) -> None:
    """Send messages to a topic's two partitions in turn."""
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n in range(count):
        headers = [("n", str(n).encode())] if n % 3 else None
        producer.produce(
            topic, str(n), f"k{n}", partition=n % 2, timestamp=1000 + n, headers=headers
        )
    producer.flush()


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(str, frame.select(*COLUMNS).collect()))


def test_a_batch_query_reads_what_sparks_own_source_reads(
    spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, topic: TopicFactory
) -> None:
    name = topic(2)
    send(kafka, name, 20)
    spark_sink.register(spark)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribePattern": f"{name}.*",
        "startingOffsets": json.dumps({name: {"0": 3, "1": -2}}),
        "endingTimestamp": "1015",
        "minPartitions": "3",
        "includeHeaders": "true",
    }

    def read(source: str) -> Counter[str]:
        return rows(spark.read.format(source).options(**options).load())

    theirs = read("kafka")
    assert theirs.total() == 5 + 7
    assert on_spark(lambda: read("columnar_kafka")) == theirs
    ranges = spark.read.format("columnar_kafka").options(**options, mode="ranges").load()
    collected = on_spark(ranges.collect)
    assert sum(row.end - row.start for row in collected) == 5 + 7
    assert {(row.topic, row.partition) for row in collected} == {(name, 0), (name, 1)}


def test_a_stream_of_sparks_source_goes_on_in_limited_batches_and_says_how_far_it_is(
    spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(2)
    send(kafka, name, 4)
    spark_sink.register(spark)
    progress: list[Any] = []

    def run(source: str) -> None:
        """Append what is new to the folder."""
        reader = spark.readStream.format(source)
        reader = reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        reader = reader.option("subscribe", name).option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", "true")
        if HAS_LIMITS:
            reader = reader.option("maxOffsetsPerTrigger", "4")
        writer = (
            reader.load()
            .select(*COLUMNS)
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        query = spark_sink.start(writer)
        query.awaitTermination()
        progress.extend(entry for entry in query.recentProgress if entry["numInputRows"])

    run("kafka")
    send(kafka, name, 12)
    progress.clear()
    on_spark(lambda: run("columnar_kafka"))
    whole = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    whole = whole.option("subscribe", name).option("includeHeaders", "true")
    assert rows(spark.read.parquet(str(tmp_path / "rows"))) == rows(whole.load())
    batches = [entry["sources"][0] for entry in progress]
    assert [batch["numInputRows"] for batch in batches] == ([4, 4, 4] if HAS_LIMITS else [12])
    ends = [_next(batch["endOffset"], name) for batch in batches]
    expected = [{"0": 4, "1": 4}, {"0": 6, "1": 6}, {"0": 8, "1": 8}]
    assert ends == expected[-len(batches) :]
    assert {str(_next(batch["latestOffset"], name)) for batch in batches} == {str(ends[-1])}


def test_records_are_rows_until_their_columns_grow(
    spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    schema = pa.schema([("n", pa.int32()), ("at", pa.timestamp("ms", "UTC"))])
    at = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
    spark_sink.register(spark)
    with Producer(config) as producer:
        producer.set_schema(name, schema)
        for n in range(3):
            producer.produce(name, {"n": n, "at": at}, key=f"k{n}")
        producer.flush()
        source = spark.readStream.format("columnar_kafka").options(
            **{"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": name},
            mode="records",
            startingOffsets="earliest",
            # Not waited for: the query ends when it is done.
            **({"minOffsetsPerTrigger": "9"} if HAS_LIMITS else {}),
        )
        frame = on_spark(source.load)

        def run() -> None:
            query = (
                frame.writeStream.format("parquet")
                .option("path", str(tmp_path / "rows"))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        on_spark(run)
        rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("n").collect()
        assert [(row.n, row.at.timestamp(), bytes(row._kafka.key)) for row in rows] == [
            (n, at.timestamp(), f"k{n}".encode()) for n in range(3)
        ]
        producer.set_schema(name, schema.append(pa.field("more", pa.string())))
        producer.produce(name, {"n": 3, "at": None, "more": "x"})
        producer.flush()
    with pytest.raises(StreamingQueryException, match=r"'more' \(string\) is new"):
        on_spark(run)


def test_rows_are_written_as_segments_and_a_stream_copies_them_to_another_topic(
    spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, topic: TopicFactory, tmp_path: Path
) -> None:
    one, other = topic(2), topic(2)
    spark_sink.register(spark)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    frame = spark.range(200).selectExpr("id AS n", "array(cast(id % 3 AS string)) AS texts")
    rows = frame.selectExpr("*", "cast(n AS string) AS key", "timestamp_millis(n + 1) AS timestamp")
    on_spark(
        lambda: (
            rows.write.format("columnar_kafka").mode("append").options(**servers, topic=one).save()
        )
    )
    source = spark.readStream.format("columnar_kafka").options(**servers, subscribe=one)
    source = source.option("mode", "records").option("startingOffsets", "earliest")
    records = on_spark(source.load)
    copied = records.selectExpr("n", "texts", "_kafka.key AS key", "_kafka.timestamp AS timestamp")

    def copy() -> None:
        query = (
            copied.writeStream.format("columnar_kafka")
            .options(**servers, topic=other, checkpointLocation=str(tmp_path / "checkpoint"))
            .option("kafka.transactional.id", other)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    on_spark(copy)
    config = {**servers, "group.id": other, "auto.offset.reset": "earliest"}
    config = {key.removeprefix("kafka."): value for key, value in config.items()}
    with Consumer(config | {"columnar.encoding": "parquet"}) as consumer:
        consumer.subscribe([other])
        messages = consumer.consume(200, 120)
    values = [(message.value(), message.key(), message.timestamp()[1]) for message in messages]
    assert sorted(values, key=lambda value: value[2]) == [
        ({"n": n, "texts": [str(n % 3)]}, str(n).encode(), n + 1) for n in range(200)
    ]


def _next(offsets: Any, topic: str) -> Any:
    # A dict; JSON; or, in Spark 4.1, how Python writes a dict.
    return ast.literal_eval(str(offsets))[topic]["next"]
