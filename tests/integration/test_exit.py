"""How a program may end: what was accepted is sent, and every report runs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest

from columnar_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema([("n", pa.int64())])
PROGRAM = """
import sys
import pyarrow as pa
from columnar_kafka import Producer
for topic in sys.argv[2:]:
    producer = Producer({"bootstrap.servers": sys.argv[1], "columnar.encoding": "parquet"})
    producer.set_schema(topic, pa.schema([("n", pa.int64())]))
    producer.produce(topic, {"n": 1}, on_delivery=lambda *_: 1 / 0 if topic == "raises" else None)
"""


def count(servers: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "g"})
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    marks = [
        consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, each), 10)
        for each in partitions
    ]
    consumer.close()
    return sum(high for _, high in marks)


@pytest.fixture
def make(embedded) -> Callable[..., Producer]:
    def make(**config: Any) -> Producer:
        servers = {"bootstrap.servers": embedded.bootstrap_servers, "columnar.encoding": "parquet"}
        producer = Producer(servers | config)
        producer.set_schema("exit", SCHEMA)
        return producer

    return make


@pytest.mark.parametrize("topics", [["ends"], ["raises", "after"]])
def test_a_program_that_just_ends_has_sent_its_records(embedded, topics: list[str]) -> None:
    """Also where a report of another producer raises, and where pandas is installed."""
    servers = embedded.bootstrap_servers
    subprocess.run([sys.executable, "-c", PROGRAM, servers, *topics], check=True, timeout=60)
    assert [count(servers, topic) for topic in topics] == [1] * len(topics)


def test_close_runs_every_report_and_raises_what_the_first_raised(make) -> None:
    seen: list[int] = []

    def report(_: Any, message: Any) -> None:
        seen.append(message.value()["n"])
        if len(seen) == 1:
            raise ZeroDivisionError

    producer = make()
    for n in range(10):
        producer.produce("exit", {"n": n}, partition=0, on_delivery=report)
    with pytest.raises(ZeroDivisionError):
        producer.close()
    assert seen == list(range(10))
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("exit", {"n": 1})


def test_a_report_may_produce_poll_and_flush_and_may_not_close(make) -> None:
    seen: list[Any] = []

    def report(_: Any, message: Any) -> None:
        seen.append(message.value())
        if len(seen) <= 300:
            producer.poll(0)
            producer.flush(0)
        if len(seen) == 1:
            producer.produce("exit", b"from a report", on_delivery=report)
            with pytest.raises(RuntimeError, match="inside a delivery report"):
                producer.close()

    producer = make()
    for _ in range(500):
        producer.produce("exit", b"plain", on_delivery=report)
    assert producer.flush(30) == 0
    producer.close()
    assert len(seen) == 501


def test_a_timeout_shorter_than_the_linger_is_refused(make) -> None:
    with pytest.raises(Exception, match=r"message\.timeout\.ms=500 .* columnar\.linger\.ms=1000"):
        make(**{"message.timeout.ms": 500})


def test_a_partition_that_cannot_be_is_refused(make) -> None:
    producer = make()
    with pytest.raises(confluent_kafka.KafkaException, match="UNKNOWN_PARTITION"):
        producer.produce("exit", {"n": 1}, partition=-7)
    producer.close()
