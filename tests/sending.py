"""Sends numbered rows, for the tests that land them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka import Producer

if TYPE_CHECKING:
    from columnar_kafka.local import LocalKafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])


def send(kafka: LocalKafka, topic: str, numbers: range, **settings: Any) -> None:
    """Send rows of {n, text}, four a segment, to all partitions of a topic."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": 4,
    }
    with Producer(config | settings) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in numbers:
            producer.produce(topic, {"n": n, "text": f"text {n}"}, key=f"{n}")
