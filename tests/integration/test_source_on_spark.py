"""The source in a real Spark, beside Spark's own. What it asks of Kafka: `test_spark_source`."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

import spark_sink

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


def test_a_stream_of_limited_batches_reads_everything_once_and_says_how_far_it_is(
    spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(2)
    send(kafka, name, 12)
    spark_sink.register(spark)
    source = (
        spark.readStream.format("columnar_kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "4")
    )
    progress: list[Any] = []

    def run() -> None:
        query = (
            source.load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress.extend(query.recentProgress)

    on_spark(run)
    found = rows(spark.read.parquet(str(tmp_path / "rows")))
    whole = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    whole = whole.option("subscribe", name).option("includeHeaders", "true")
    assert found == rows(whole.load())
    batches = [each["sources"][0] for each in progress if each["numInputRows"]]
    assert [each["numInputRows"] for each in batches] == [4, 4, 4]
    ends = [_next(each["endOffset"], name) for each in batches]
    assert ends == [{"0": 2, "1": 2}, {"0": 4, "1": 4}, {"0": 6, "1": 6}]
    assert {str(_next(each["latestOffset"], name)) for each in batches} == {str(ends[-1])}


def _next(offsets: Any, topic: str) -> Any:
    return (json.loads(offsets) if isinstance(offsets, str) else offsets)[topic]["next"]
