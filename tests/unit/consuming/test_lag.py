"""The lag: exact in messages, and in records as far as these were fetched; else an estimate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from inside import feed_of
from tables import CONFIG, assigned_consumer, numbers, put

from columnar_kafka import ConfigError, Lag, position
from columnar_kafka.aio import AIOConsumer
from columnar_kafka.aio.cancellable_consumer import CancellableConsumer
from columnar_kafka.consuming.feed import poller
from columnar_kafka.testing import FakeKafka
from columnar_kafka.testing.memory import MemoryConsumer


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """One whose messages are fetched when there is none to hand out, and not by time."""
    monkeypatch.setattr(poller, "SERVE_EVERY", 1e9)
    fake = FakeKafka()
    fake.create_topic("t", 2)
    return fake


def plain(kafka: FakeKafka, count: int, partition: int = 0) -> None:
    for _ in range(count):
        kafka.append("t", partition, b"plain")


def lag(consumer: Any) -> tuple[int, int, bool]:
    """The lag of partition 0: messages, records, and whether they are exact."""
    [partition_lag] = consumer.lag([TopicPartition("t", 0)])
    return partition_lag.messages, partition_lag.records, partition_lag.is_exact


def take(consumer: Any, count: int) -> None:
    assert len(consumer.consume(count, 5)) == count


def test_of_plain_messages_it_is_as_many(kafka) -> None:
    plain(kafka, 499)
    consumer = assigned_consumer(kafka)
    assert consumer.lag() == [Lag("t", 0, messages=499, records=499, is_exact=False)]
    take(consumer, 400)
    assert lag(consumer) == (99, 99, False)


def test_at_the_end_it_is_nothing(kafka) -> None:
    put(kafka, numbers(0, 5))
    consumer = assigned_consumer(kafka)
    take(consumer, 5)
    assert lag(consumer) == (0, 0, True)


def test_an_empty_partition_has_none(kafka) -> None:
    assert lag(assigned_consumer(kafka)) == (0, 0, True)


def test_inside_the_last_segment_it_is_exact(kafka) -> None:
    put(kafka, numbers(0, 5))
    consumer = assigned_consumer(kafka)
    take(consumer, 2)
    assert lag(consumer) == (1, 3, True)


def test_what_was_fetched_is_counted_and_the_rest_is_estimated_by_it(kafka, monkeypatch) -> None:
    monkeypatch.setattr(poller, "SERVE_EVERY", 0)
    for rows in (10, 20, 30, 40):
        put(kafka, numbers(0, rows))
    consumer = assigned_consumer(kafka)
    take(consumer, 1)
    take(consumer, 1)  # which has fetched the second segment
    take(consumer, 1)  # and this the third
    assert lag(consumer) == (4, 7 + 20 + 30 + 20, False)
    take(consumer, 1)
    assert lag(consumer) == (4, 6 + 20 + 30 + 40, True)


def test_what_was_not_fetched_is_estimated_by_the_segments_before(kafka, monkeypatch) -> None:
    monkeypatch.setattr(poller, "SMALL_BYTES", 0)  # or all were fetched
    for rows in (10, 20, 1, 1):
        put(kafka, numbers(0, rows))
    consumer = assigned_consumer(kafka)
    take(consumer, 30)
    assert lag(consumer) == (2, 30, False)


def test_plain_messages_between_segments_count_in_the_estimate(kafka, monkeypatch) -> None:
    monkeypatch.setattr(poller, "PLAIN_TOGETHER", 1)  # or the last ones were fetched, and known
    put(kafka, numbers(0, 10))
    plain(kafka, 8)
    put(kafka, numbers(0, 12))
    plain(kafka, 5)
    consumer = assigned_consumer(kafka)
    take(consumer, 30)
    assert lag(consumer) == (5, 15, False)


def test_a_partition_of_which_nothing_is_known_is_as_others_of_its_topic(kafka) -> None:
    put(kafka, numbers(0, 10))
    for _ in range(3):
        put(kafka, numbers(0, 7), partition=1)
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", partition, 0) for partition in (0, 1)])
    consumer.pause([TopicPartition("t", 1)])
    take(consumer, 10)
    assert consumer.lag() == [Lag("t", 0, 0, 0, is_exact=True), Lag("t", 1, 3, 30, is_exact=False)]


def test_the_end_of_a_transaction_is_a_message_until_it_is_passed(kafka, monkeypatch) -> None:
    monkeypatch.setattr(poller, "SMALL_BYTES", 0)  # or a poll has passed it
    put(kafka, numbers(0, 4))
    log = kafka.log("t", 0)
    assert log is not None
    log.mark()
    consumer = assigned_consumer(kafka)
    take(consumer, 2)
    assert lag(consumer) == (2, 2 + 4, False)
    take(consumer, 2)
    assert consumer.poll(0.2) is None
    assert lag(consumer) == (0, 0, True)


def test_a_segment_that_cannot_be_read_is_one_record(kafka, monkeypatch) -> None:
    monkeypatch.setattr(poller, "SERVE_EVERY", 0)
    put(kafka, numbers(0, 2))
    kafka.append("t", 0, b"", headers=[("columnar.encoding", b"parquet")])
    consumer = assigned_consumer(kafka)
    take(consumer, 1)
    take(consumer, 1)
    assert lag(consumer) == (1, 1, True)


def test_before_the_first_record_it_is_from_where_the_partition_was_assigned(kafka) -> None:
    plain(kafka, 9)
    assert lag(assigned_consumer(kafka, at=position.start(4))) == (5, 5, False)
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    consumer.commit(offsets=[TopicPartition("t", 0, position.start(6))], asynchronous=False)
    assert lag(consumer) == (9, 9, False)


def test_before_the_first_record_it_is_from_where_its_group_left_off(kafka) -> None:
    plain(kafka, 9)
    consumer = kafka.Consumer(CONFIG)
    assert lag(consumer) == (9, 9, False)
    consumer.commit(offsets=[TopicPartition("t", 0, position.start(6))], asynchronous=False)
    assert lag(consumer) == (3, 3, False)
    consumer.assign([TopicPartition("t", 0)])
    assert lag(consumer) == (3, 3, False)


def test_after_a_seek_it_is_from_there(kafka) -> None:
    plain(kafka, 9)
    consumer = assigned_consumer(kafka)
    take(consumer, 9)
    consumer.seek(TopicPartition("t", 0, position.start(7)))
    assert lag(consumer) == (2, 2, False)


def test_before_its_first_row_a_segment_has_all_its_records(kafka) -> None:
    put(kafka, numbers(0, 5))
    consumer = assigned_consumer(kafka, at=3)  # the rows begin at 2^20 - 5
    assert lag(consumer) == (1, 1, False)
    feed_of(consumer).poller.serve(0)
    assert lag(consumer) == (1, 5, True)


def test_records_are_handed_out_while_kafka_is_asked(kafka, monkeypatch) -> None:
    """By another thread: a client of its own asks, and not the one that fetches."""
    plain(kafka, 2)
    consumer, taken = assigned_consumer(kafka), []
    watermarks = MemoryConsumer.watermarks

    def ask(self: MemoryConsumer, *args: Any) -> Any:
        with ThreadPoolExecutor() as pool:
            taken.append(pool.submit(consumer.poll, 1).result())
        return watermarks(self, *args)

    monkeypatch.setattr(MemoryConsumer, "watermarks", ask)
    assert lag(consumer) == (2, 2, False)  # as it was before the question
    [message] = taken
    assert message is not None
    assert message.value() == b"plain"


def test_all_that_is_assigned_is_told_of(kafka) -> None:
    plain(kafka, 2)
    plain(kafka, 3, partition=1)
    consumer = kafka.Consumer(CONFIG)
    assert consumer.lag() == []
    consumer.assign([TopicPartition("t", partition, 0) for partition in (0, 1)])
    assert [
        (partition_lag.partition, partition_lag.messages) for partition_lag in consumer.lag()
    ] == [(0, 2), (1, 3)]


def test_a_partition_that_is_named_twice_is_told_of_twice(kafka) -> None:
    plain(kafka, 2)
    plain(kafka, 3, partition=1)
    named = [TopicPartition("t", partition) for partition in (1, 0, 1)]
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", partition, 0) for partition in (0, 1)])
    assert [
        (partition_lag.partition, partition_lag.messages) for partition_lag in consumer.lag(named)
    ] == [
        (1, 3),
        (0, 2),
        (1, 3),
    ]


def test_an_unknown_partition_is_an_error(kafka) -> None:
    with pytest.raises(KafkaException, match="Unknown partition"):
        assigned_consumer(kafka).lag([TopicPartition("t", 7)])


def test_it_counts_records_and_needs_to_unwrap_them(kafka) -> None:
    with pytest.raises(ConfigError, match=r"lag needs columnar\.encoding=parquet"):
        kafka.Consumer({"group.id": "g"}).lag()


def test_a_closed_consumer_has_none(kafka) -> None:
    consumer = assigned_consumer(kafka)
    consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.lag()


async def test_that_of_an_aio_consumer_is_the_same(kafka) -> None:
    put(kafka, pa.table({"n": [1, 2, 3]}))
    inner = type("Inner", (CancellableConsumer, kafka.Consumer), {})
    made = type("OnMemory", (AIOConsumer,), {"_consumer_class": inner})

    async with made(CONFIG) as consumer:
        await consumer.assign([TopicPartition("t", 0, 0)])
        assert await consumer.poll(60) is not None
        assert await consumer.lag(timeout=60) == [Lag("t", 0, 1, 2, is_exact=True)]
