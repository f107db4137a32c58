"""What every user of `confluent_kafka.Consumer` may rely on, switched off or raw."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition


def test_it_is_a_confluent_consumer(make_consumer) -> None:
    assert isinstance(make_consumer(), confluent_kafka.Consumer)


def test_a_group_is_needed(make_consumer) -> None:
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        make_consumer.kind({"bootstrap.servers": "127.0.0.1:1"})


def test_no_configuration_is_a_type_error(make_consumer) -> None:
    with pytest.raises(TypeError, match="expected configuration dict"):
        make_consumer.kind()


def test_an_unknown_key_is_an_invalid_argument(make_consumer) -> None:
    with pytest.raises(KafkaException) as raised:
        make_consumer(**{"no.such.key": 1})
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG


def test_nothing_comes_without_a_subscription(make_consumer) -> None:
    consumer = make_consumer()
    assert consumer.poll(0.01) is None
    assert consumer.consume(10, 0.01) == []


@pytest.mark.parametrize("count", [-1, 1_000_001])
def test_consume_has_limits(make_consumer, count: int) -> None:
    with pytest.raises(ValueError, match="num_messages must be between 0 and 1000000"):
        make_consumer().consume(count, 0)


def test_offsets_of_an_assignment_are_kafkas_own(make_consumer) -> None:
    consumer = make_consumer()
    consumer.assign([TopicPartition("t", 0, 42)])
    [found] = consumer.assignment()
    assert (found.topic, found.partition, found.offset) == ("t", 0, 42)


def test_message_and_offsets_exclude_each_other(make_consumer) -> None:
    with pytest.raises((ValueError, TypeError)):
        make_consumer().commit(message=5, offsets=[])


def test_a_commit_without_anything_to_commit_says_so(make_consumer) -> None:
    with pytest.raises(KafkaException) as raised:
        make_consumer().commit(asynchronous=False)
    assert raised.value.args[0].code() == KafkaError._NO_OFFSET


def test_storing_needs_the_automatic_store_switched_off(make_consumer) -> None:
    consumer = make_consumer(**{"enable.auto.offset.store": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    consumer.store_offsets(offsets=[TopicPartition("t", 0, 7)])


@pytest.mark.parametrize("method", ["poll", "consume", "assignment", "unsubscribe"])
def test_a_closed_consumer_says_so(make_consumer, method: str) -> None:
    consumer = make_consumer()
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        getattr(consumer, method)()


def test_it_is_a_context_manager(make_consumer) -> None:
    with make_consumer() as consumer:
        assert consumer.poll(0) is None
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


def test_a_subclass_that_does_not_call_init_fails_as_stock(make_consumer) -> None:
    class Mine(make_consumer.kind):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError):
        Mine().poll(0)


@pytest.mark.parametrize("callbacks", [{}, {"on_assign": print}, {"on_lost": print}])
def test_subscribe_takes_callbacks(make_consumer, callbacks: dict[str, Any]) -> None:
    make_consumer().subscribe(["t"], **callbacks)
