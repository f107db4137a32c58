"""Where ours does more than stock on purpose, or something else: each with what stock does."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition
from consumers import CONSUMERS, on_mock

from columnar_kafka import position
from columnar_kafka.broker import confluent
from columnar_kafka.broker.traced_classes import StockConsumer

make = on_mock([name for name, kind in CONSUMERS.items() if kind.unwraps])


def begun(make: Any, count: int = 10, **config: Any) -> tuple[str, Any]:
    topic, consumer = make.topic(count), make(**config)
    consumer.assign([make.place(topic, 0)])
    return topic, consumer


def test_a_message_knows_its_place_in_kafka(make) -> None:
    _, consumer = begun(make)
    places = [(message.kafka_offset(), message.row()) for message in consumer.consume(10, 20)]
    assert (
        places
        == {
            (0,): [(n, 0) for n in range(10)],
            (3,): [(n // 3, n % 3) for n in range(10)],
            (2, 0, 4): [
                (0, 0),
                (0, 1),
                (1, 0),
                *((2, n) for n in range(4)),
                (3, 0),
                (3, 1),
                (4, 0),
            ],
        }[make.of.shape]
    )


def test_a_position_says_which_record_of_which_message(make) -> None:
    topic, consumer = begun(make)
    for message in consumer.consume(10, 20):
        assert position.unpack(message.offset()).offset == message.kafka_offset()
        assert make.index(topic, message.offset()) == int(make.data(message))


def test_other_tools_see_whole_messages(make) -> None:
    """Kafka's own offset is committed, and the row in the metadata."""
    topic, consumer = begun(make)
    messages = consumer.consume(10, 20)
    consumer.commit(messages[0], asynchronous=False)
    stock = confluent_kafka.Consumer({"bootstrap.servers": make.servers, "group.id": make.name})
    [committed] = stock.committed([TopicPartition(topic, 0)], 20)
    stock.close()
    rows = make.of.shape[0]
    assert committed.offset == (0 if rows else 1)
    assert (committed.metadata or "").startswith(f"1:{rows - 1}:c-" if rows else "")


def test_a_users_metadata_yields_to_the_row(make) -> None:
    """Stock keeps it; ours has one place for both."""
    topic, consumer = begun(make)
    for index, message in enumerate(consumer.consume(10, 20)):
        place = make.place(topic, index, metadata="mine")
        consumer.commit(offsets=[place], asynchronous=False)
        assert make.committed(topic) == index
        [committed] = consumer.committed([TopicPartition(topic, 0)], 20)
        assert (committed.metadata == "mine") is (message.row() == 0)


def test_metadata_left_over_from_another_row_skips_nothing(make) -> None:
    topic, consumer = begun(make)
    messages = consumer.consume(10, 20)
    consumer.commit(messages[4], asynchronous=False)
    [place] = consumer.committed([TopicPartition(topic, 0)], 20)
    for index in (0, 1, 2, 3, 4):
        place.offset = make.at(topic, index)
        consumer.commit(offsets=[place], asynchronous=False)
        assert make.committed(topic) == index


def test_the_lag_is_told_in_messages_and_records(make) -> None:
    """Stock's is the high watermark less the position; of positions that is an upper bound."""
    topic, consumer = begun(make, 10)
    [lag] = consumer.lag(timeout=20)
    assert lag.messages == make.ends[topic, 0]
    make.take(consumer, 9)
    [lag] = consumer.lag(timeout=20)
    assert (lag.topic, lag.partition, lag.messages) == (topic, 0, 1)
    assert lag.records > 0
    make.take(consumer, 1)
    [lag] = consumer.lag(timeout=20)
    assert (lag.messages, lag.records, lag.is_exact) == (0, 0, True)


def test_the_lags_of_all_partitions_take_two_requests(make, monkeypatch) -> None:
    """For their first offsets and their ends; by a client that fetches nothing.

    Where one fetches, each request waits for the running fetch: half a second, by default.
    """
    asked: list[int] = []

    class Asking(StockConsumer):
        def offsets_for_times(self, partitions: Any, timeout: float = -1) -> Any:
            asked.append(len(partitions))
            return super().offsets_for_times(partitions, timeout)

    monkeypatch.setattr(confluent, "StockConsumer", Asking)
    topic, consumer = make.topic(partitions=20), make()
    consumer.assign([TopicPartition(topic, index, 0) for index in range(20)])
    assert [lag.messages for lag in consumer.lag(timeout=20)] == [0] * 20
    assert asked == [20, 20]


def test_a_producer_of_stock_takes_no_positions(make) -> None:
    """It would commit them as offsets, and the group would skip everything."""
    topic, consumer = begun(make)
    consumer.consume(4, 20)
    config = {"bootstrap.servers": make.servers, "transactional.id": make.name, "log_level": 0}
    producer = confluent_kafka.Producer(config)
    at = consumer.position([TopicPartition(topic, 0)])
    with pytest.raises(TypeError):
        producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata())


def test_a_segment_that_cannot_be_read_is_a_message_and_can_be_committed(make) -> None:
    topic, consumer = begun(make, 4)
    consumer.consume(4, 20)
    producer = confluent_kafka.Producer({"bootstrap.servers": make.servers, "log_level": 0})
    headers = [("columnar.encoding", b"parquet")]
    producer.produce(topic, b"PAR1", partition=0, headers=headers)
    assert producer.flush(20) == 0
    [bad] = consumer.consume(1, 20)
    assert bad.error().code() == KafkaError._BAD_MSG
    assert f"{topic}[0]@{bad.kafka_offset()}" in bad.error().str()
    [done] = consumer.commit(bad, asynchronous=False)
    assert done.offset == bad.offset() + 1 == position.start(bad.kafka_offset() + 1)


def test_no_exception_of_several_callbacks_is_lost(make) -> None:
    """Stock raises the last of several in one call; ours has the others as its context."""
    ran: list[BaseException] = []

    def fail(*_: Any) -> None:
        ran.append(LookupError(len(ran)))
        raise ran[-1]

    topic, consumer = begun(make, 1, on_commit=fail)
    consumer.consume(1, 20)
    for _ in range(3):
        consumer.commit(offsets=[make.place(topic, 1)])
    raised: list[BaseException | None] = []
    while len(raised) < 3:
        try:
            consumer.poll(0.2)
        except LookupError as error:
            chain: list[BaseException | None] = [error]
            while (before := chain[-1]) is not None and before.__context__ is not None:
                chain.append(before.__context__)
            raised += reversed(chain)
    assert raised == ran


def test_what_a_callback_raises_waits_for_no_record_but_what_is_there(make) -> None:
    """It ends a call that has some, and the next one raises it."""

    def fail(_: Any) -> None:
        raise LookupError

    _, consumer = begun(make, 4, statistics__interval__ms=5, stats_cb=fail)
    numbers: list[int] = []
    while len(numbers) < 4:
        with suppress(LookupError):
            numbers += make.numbers(consumer.consume(9))  # for ever: there never are so many
    assert numbers == [0, 1, 2, 3]
