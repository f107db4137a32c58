"""Numbered records for the tests of `AIOConsumer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import TopicPartition

if TYPE_CHECKING:
    from columnar_kafka.testing import FakeKafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])


def send(kafka: FakeKafka, *numbers: int, topic: str = "t", rows: int = 3) -> None:
    """Send records in segments of `rows`; and with rows=0 as plain messages."""
    with kafka.Producer({"columnar.encoding": "parquet", "columnar.segment.rows": rows or 1}) as to:
        to.set_schema(topic, SCHEMA)
        for n in numbers:
            to.produce(topic, {"n": n} if rows else b"%d" % n, partition=0)


def number(message: Any) -> int:
    assert message is not None
    assert message.error() is None
    value = message.value()
    return value["n"] if isinstance(value, dict) else int(value)


def place(at: int = -1001, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, 0, at)
