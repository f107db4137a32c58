"""A partition that comes back is begun once: nothing is left of the time before."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from proxy import Api, Late
from support import eventually

from columnar_kafka import Consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.local import LocalKafka

    Assign = Callable[[Consumer, list[TopicPartition]], object]

pytestmark = pytest.mark.kafka

PARTITIONS = 50
MESSAGES = 10
ROUNDS = 2
LATE = {Api.LIST_OFFSETS: 0.1, Api.OFFSET_FETCH: 0.02, Api.OFFSET_COMMIT: 0.02}
RESTARTS = 1.5
"""Seconds after which librdkafka has asked again for where to begin; nothing tells that it has."""


def by_hand(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    consumer.assign(partitions)


def while_it_commits(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    topic, partition = partitions[0].topic, partitions[0].partition
    consumer.commit(offsets=[TopicPartition(topic, partition, 0)], asynchronous=True)
    consumer.assign(partitions)


def bit_by_bit(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    consumer.incremental_assign(partitions[:1])
    consumer.incremental_assign(partitions[1:])


def committing(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    topic, partition = partitions[0].topic, partitions[0].partition
    consumer.commit(offsets=[TopicPartition(topic, partition, 0)], asynchronous=True)


def raising(*_: Any) -> None:
    raise LookupError


def nothing(*_: Any) -> None: ...


def from_beginning(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    by_hand(consumer, [TopicPartition(partition.topic, partition.partition, OFFSET_BEGINNING)
                       for partition in partitions])  # fmt: skip


def knows_whom_to_ask(consumer: Consumer, partitions: list[TopicPartition]) -> bool:
    try:
        return bool(consumer.list_topics().topics and consumer.committed(partitions))
    except KafkaException:  # there is no coordinator as yet
        return False


def wait(consumer: Consumer) -> None:
    end = time.monotonic() + RESTARTS
    while time.monotonic() < end:
        assert consumer.poll(0.01) is None


def count(consumer: Consumer) -> Counter[tuple[int, int]]:
    """Take messages until each has come."""
    times: Counter[tuple[int, int]] = Counter()
    deadline = time.monotonic() + 120
    while len(times) < PARTITIONS * MESSAGES:
        assert time.monotonic() < deadline
        with suppress(LookupError):
            message: Any = consumer.poll(1)
            if message is not None:
                assert message.error() is None
                times[message.partition(), message.offset()] += 1
    return times


@pytest.fixture(scope="module")
def filled(kafka: LocalKafka) -> str:
    name = "assigned-again"
    kafka.create_topic(name, PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n in range(PARTITIONS * MESSAGES):
        producer.produce(name, b"", partition=n % PARTITIONS)
    producer.flush()
    return name


def config(proxy: Late, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": proxy.bootstrap_servers,
        "group.id": group,
        "columnar.encoding": "parquet",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("assign", [by_hand, while_it_commits, bit_by_bit])
def test_assigned_by_hand_each_message_comes_once(
    kafka: LocalKafka, filled: str, assign: Assign, round_: int
) -> None:
    """Though librdkafka 2.16 fetches a partition that was given back before it was begun.

    Confluent's own consumer hands out the first messages of some partitions twice.
    """
    partitions = [TopicPartition(filled, n) for n in range(PARTITIONS)]
    with (
        Late(kafka.bootstrap_servers, LATE) as proxy,
        Consumer(config(proxy, f"{assign.__name__}-{round_}")) as consumer,
    ):
        eventually(lambda: knows_whom_to_ask(consumer, partitions[:1]))
        from_beginning(consumer, partitions)
        consumer.unassign()
        wait(consumer)
        assign(consumer, partitions)
        assert set(count(consumer).values()) == {1}


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("on_assign", [nothing, committing, raising])
def test_assigned_by_the_group_too(
    kafka: LocalKafka, filled: str, on_assign: Assign, round_: int
) -> None:
    with (
        Late(kafka.bootstrap_servers, LATE) as proxy,
        Consumer(config(proxy, f"{on_assign.__name__}-{round_}")) as consumer,
    ):
        consumer.subscribe([filled], on_assign=from_beginning)
        eventually(lambda: consumer.assignment() or consumer.poll(0))
        consumer.unsubscribe()
        wait(consumer)
        consumer.subscribe([filled], on_assign=on_assign)
        assert set(count(consumer).values()) == {1}
