"""A producer that is there before Kafka: it takes records, and sends them when Kafka has come."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from support import eventually

from columnar_kafka import Consumer, Producer
from columnar_kafka.local import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
PARTITIONS = 5
RECORDS = 1_000


@pytest.fixture(
    params=["true", "false"], ids={"true": "auto-created", "false": "created later"}.get
)
def stopped(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """A Kafka of its own that has an address and does not run; it may make topics by itself."""
    config = {"num.partitions": str(PARTITIONS), "auto.create.topics.enable": request.param}
    with LocalKafka(config=config) as kafka:
        kafka.create_topic("known", PARTITIONS)
        kafka.create_topic("stock", PARTITIONS)
        kafka.nodes[0].stop()
        yield kafka


def test_what_was_produced_before_kafka_answers_arrives_where_stock_would_put_it(
    stopped: LocalKafka, request: pytest.FixtureRequest
) -> None:
    servers = {"bootstrap.servers": stopped.bootstrap_servers, "log_level": 0}
    reports: list[Any] = []
    config = {"columnar.encoding": "parquet", "message.timeout.ms": 120_000}
    with Producer(servers | config) as producer:
        for topic in ("known", "new"):
            producer.set_schema(topic, SCHEMA)
        for n in range(RECORDS):  # nobody else could start Kafka: none of these waits for it
            for topic in ("known", "new"):
                producer.produce(
                    topic, {"n": n}, key=key(n), on_delivery=lambda *report: reports.append(report)
                )
        # An event that is not served yet, such as a broker that is down, counts as well.
        eventually(lambda: producer.flush(0) == 2 * RECORDS)
        assert reports == []
        stopped.nodes[0].start()
        if "later" in request.node.callspec.id:
            stopped.create_topic("new", PARTITIONS)
        assert producer.flush(120) == 0
    assert [error for error, _ in reports] == [None] * (2 * RECORDS)
    expected = where_stock_puts(servers)
    for topic in ("known", "new"):
        assert numbers(servers, topic) == expected
        told = {m.value()["n"]: m.partition() for _, m in reports if m.topic() == topic}
        assert told == {n: partition for partition, held in expected.items() for n in held}


def key(n: int) -> bytes:
    return b"key-%d" % (n % 100)


def where_stock_puts(servers: dict[str, Any]) -> dict[int, list[int]]:
    """Return the numbers in each partition after stock's producer has produced them in order."""
    by_partition: dict[int, list[int]] = defaultdict(list)
    with confluent_kafka.Producer(servers) as producer:
        for n in range(RECORDS):
            producer.produce(
                "stock",
                b"",
                key=key(n),
                on_delivery=lambda _, message, n=n: by_partition[message.partition()].append(n),
            )
    assert sum(map(len, by_partition.values())) == RECORDS
    return {partition: sorted(held) for partition, held in by_partition.items()}


def numbers(servers: dict[str, Any], topic: str) -> dict[int, list[int]]:
    """Return what each partition holds, in order."""
    by_partition: dict[int, list[int]] = defaultdict(list)
    config = {"group.id": topic, "auto.offset.reset": "earliest", "columnar.encoding": "parquet"}
    with Consumer(servers | config) as consumer:
        consumer.subscribe([topic])
        for _ in range(RECORDS):
            message = consumer.poll(120)
            assert message.error() is None
            by_partition[message.partition()].append(message.value()["n"])
    return dict(by_partition)
