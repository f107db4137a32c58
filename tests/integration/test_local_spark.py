"""The local Spark reads Kafka with Spark's own source and runs this interpreter as its worker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support import OnSpark, TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_spark_reads_a_topic(spark: SparkSession, kafka: LocalKafka, topic: TopicFactory) -> None:
    name = topic(2)
    with Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}) as producer:
        for value in (b"a", b"b", b"c"):
            producer.produce(name, value)
    source = spark.read.format("kafka").option("subscribe", name)
    rows = source.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load().collect()
    assert sorted(bytes(row.value) for row in rows) == [b"a", b"b", b"c"]


def test_spark_workers_are_this_interpreter(spark: SparkSession, on_spark: OnSpark) -> None:
    def interpreter(_: int) -> str:
        return sys.executable

    numbers = spark.sparkContext.parallelize([1])
    assert on_spark(lambda: numbers.map(interpreter).collect()) == [sys.executable]
