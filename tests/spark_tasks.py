"""Queries in mode `ranges` whose readers and writers are called as Spark calls them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import to_arrow_schema

import spark_sink
from columnar_kafka import Producer
from spark_sink import writer
from spark_sink.reading import reading

if TYPE_CHECKING:
    from columnar_kafka.local import LocalKafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


class Query:
    """A query from a topic into a table, as far as Spark leaves it to Python."""

    def __init__(self, kafka: LocalKafka, topic: str, path: str, **options: str) -> None:
        self.servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        self.topic = topic
        source = self._source()
        self._schema = source.schema()
        sink = spark_sink.LakeSink(CaseInsensitiveDict({**self.servers, "path": path, **options}))
        self._sink = sink.writer(self._schema, overwrite=False)
        self.arrow = to_arrow_schema(self._schema, timezone="UTC")

    def _source(self, **options: str) -> Any:
        named = {**self.servers, "subscribe": self.topic, "mode": "ranges", **options}
        return spark_sink.KafkaSource(CaseInsensitiveDict(named))

    def ranges(self, **options: str) -> list[pa.RecordBatch]:
        """Return the rows of each of the source's tasks."""
        reader = self._source(**options).reader(self._schema)
        return [batch for partition in reader.partitions() for batch in reader.read(partition)]

    def stage(self, *tasks: list[pa.RecordBatch]) -> list[Any]:
        """Stage the rows of the sink's tasks, and return what the driver is told."""
        task = pickle.loads(pickle.dumps(self._sink))
        return [pickle.loads(pickle.dumps(task.write(iter(batches)))) for batches in tasks]

    def commit(self, messages: list[Any]) -> None:
        """Land what was staged."""
        self._sink.commit(messages)

    def land(self, *tasks: list[pa.RecordBatch]) -> None:
        """Land the rows of the sink's tasks together."""
        self.commit(self.stage(*tasks))


def close_kept_clients() -> None:
    """Close the clients that a worker keeps for its next task."""
    for kept in (writer.senders, reading.consumers):
        while kept:
            kept.popitem()[1].close()


def send(kafka: LocalKafka, topic: str, numbers: range, **settings: Any) -> None:
    """Send rows of {n}, two a segment, to a topic's partitions in turn."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": 2,
    }
    with Producer(config | settings) as producer:
        producer.set_schema(topic, SCHEMA)
        partitions = len(producer.list_topics(topic, 60).topics[topic].partitions)
        for n in numbers:
            producer.produce(topic, {"n": n}, partition=n % partitions)
