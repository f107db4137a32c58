"""Sends numbered rows, for the tests that land them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from columnar_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def send_in_transactions(kafka: LocalKafka, topic: str, numbers: range) -> Iterator[int]:
    """Send each row of {n, text} in a transaction, and yield n after it; abort if n is odd."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "transactional.id": topic,
    }
    with Producer(config) as producer:
        producer.set_schema(topic, SCHEMA)
        producer.init_transactions()
        for n in numbers:
            producer.begin_transaction()
            producer.produce(topic, {"n": n, "text": None})
            producer.flush()
            if n % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
            yield n


def numbered(count: int) -> pa.Table:
    """Return rows of {n, text}, n from 0; the texts hardly compress."""
    texts = [f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(count)]
    return pa.table({"n": pa.array(range(count), pa.int64()), "text": pa.array(texts, pa.string())})


def send_numbered(
    kafka: LocalKafka, topic: str, count: int, *, partitions: int, segments: int
) -> None:
    """Make a topic with rows of {n, text} in so many segments, as many in each partition.

    Each message is a batch. The rows stay, whatever their times are.
    """
    kafka.create_topic(topic, partitions, {"retention.ms": "-1"})
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": count // segments,
        "batch.num.messages": 1,
    }
    rows = numbered(count)
    with Producer(config) as producer:
        producer.set_schema(topic, rows.schema)
        size = count // partitions
        for index in range(partitions):
            producer.produce_arrow(topic, rows.slice(index * size, size), partition=index)


def check_numbered(table: pa.Table, count: int, record_property: Any) -> None:
    """Compare rows of `numbered` that were read, in any order, with those that were sent."""
    sent = numbered(count)
    times = np.bincount(table["n"], minlength=count)
    lost, twice = int((times == 0).sum()), int((times > 1).sum())
    record_property("rows lost", lost)
    record_property("rows twice", twice)
    assert (lost, twice) == (0, 0)
    assert table.select(sent.column_names).sort_by("n").cast(sent.schema).equals(sent)
