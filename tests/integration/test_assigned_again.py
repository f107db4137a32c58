"""A partition that comes again is begun once: nothing is left of the time before."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from proxy import Late
from support import eventually

from columnar_kafka import Consumer

if TYPE_CHECKING:
    from conftest import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = 50
MESSAGES = 10
ROUNDS = 3
LATE = 0.1
RESTARTS = 1.5  # seconds after which librdkafka has asked again for where to begin


def by_hand(consumer: Consumer, topic: str, *, from_beginning: bool) -> None:
    numbers = range(PARTITIONS)
    begin = {"offset": OFFSET_BEGINNING} if from_beginning else {}
    consumer.assign([TopicPartition(topic, n, **begin) for n in numbers])


def by_the_group(consumer: Consumer, topic: str, *, from_beginning: bool) -> None:
    def assign(consumer: Consumer, _: list[TopicPartition]) -> None:
        if from_beginning:
            by_hand(consumer, topic, from_beginning=True)

    consumer.subscribe([topic], on_assign=assign)


def wait(consumer: Consumer) -> None:
    end = time.monotonic() + RESTARTS
    while time.monotonic() < end:
        assert consumer.poll(0.01) is None


def count(consumer: Consumer) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    while len(found) < PARTITIONS * MESSAGES:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        found[message.partition(), message.offset()] += 1
    return found


@pytest.mark.parametrize(
    ("assign", "give_back"),
    [(by_hand, Consumer.unassign), (by_the_group, Consumer.unsubscribe)],
)
def test_each_message_comes_once(
    kafka: LocalKafka, topic: TopicFactory, assign: Any, give_back: Any
) -> None:
    """Though librdkafka 2.16 fetches a partition that was given back before it was begun.

    Confluent's own consumer hands out the first of some partitions twice.
    """
    name = topic(PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n in range(PARTITIONS * MESSAGES):
        producer.produce(name, b"", partition=n % PARTITIONS)
    producer.flush()
    for group in range(ROUNDS):
        with Late(kafka.bootstrap_servers, seconds=LATE) as proxy:
            config = {
                "bootstrap.servers": proxy.bootstrap_servers,
                "group.id": f"{name}-{group}",
                "columnar.encoding": "parquet",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            with Consumer(config) as consumer:
                # Now it knows whom to ask.
                consumer.list_topics()
                consumer.committed([TopicPartition(name, 0)])
                assign(consumer, name, from_beginning=True)
                eventually(lambda: consumer.assignment() or consumer.poll(0))
                give_back(consumer)
                wait(consumer)
                assign(consumer, name, from_beginning=False)
                assert set(count(consumer).values()) == {1}
