"""Times as positions: the first record, in the message that Kafka names or in a later one."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from segments import headers_of, segment

from columnar_kafka import position
from columnar_kafka.columns import kafka_column as kafka_columns
from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.consuming.time_lookup import first_records
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader
from columnar_kafka.testing.memory import MemoryConsumer, MemoryKafka


class Given:
    """A broker that reads these messages aside, and then None."""

    def __init__(self, *messages: Message) -> None:
        self.messages = list(messages)
        self.asked: list[int] = []
        self.closed = False

    def side_reader(self, partitions: Any) -> Given:
        self.asked = [partition.offset for partition in partitions]
        return self

    def poll(self, timeout: float) -> Message | None:
        assert timeout > 0
        return self.messages.pop(0) if self.messages else None

    def close(self) -> None:
        self.closed = True


def found(broker: Any, time_ms: int, *, offset: int = 0, seconds: float = 60) -> int:
    """Return what becomes of Kafka's answer for that time."""
    feed = Feed(MemoryConsumer(MemoryKafka()), OffsetStore(auto_store=True))
    answer = [TopicPartition("t", 0, offset)]
    deadline = time.monotonic() + seconds
    first_records(broker, answer, {("t", 0): time_ms}, feed.read, deadline)
    return answer[0].offset


def at(offset: int, row: int, rows: int) -> int:
    return position.pack(offset, row, rows)


def message(offset: int = 0, *, rows: int = 3, stamp: Any = None, **changed: Any) -> Message:
    """Return a segment whose rows have the times 0, 1, 2, …"""
    made = segment(pa.table({"n": list(range(rows))}), offset=offset, number=offset)
    parts = {"value": made.value, "headers": list(made.headers), **changed}
    stamp = stamp or (TIMESTAMP_CREATE_TIME, rows - 1)
    return Message(topic="t", partition=0, offset=offset, timestamp=stamp, **parts)


def end() -> Message:
    error = KafkaError(KafkaError._PARTITION_EOF)
    return Message(topic="t", partition=0, offset=9, error=error)


@pytest.mark.parametrize(("time_ms", "row"), [(-5, 0), (0, 0), (1, 1), (2, 2)])
def test_a_time_is_the_first_row_of_it_or_later(time_ms: int, row: int) -> None:
    broker = Given(message(4))
    assert found(broker, time_ms, offset=4) == at(4, row, 3)
    assert (broker.asked, broker.closed) == ([4], True)


def test_a_message_without_such_a_row_is_passed_over() -> None:
    """The one that Kafka named was aborted, or is not there any more."""
    assert found(Given(message(4), message(5, rows=9)), 7) == at(5, 7, 9)


def test_at_the_end_there_is_none() -> None:
    assert found(Given(message(4), end()), 7) == OFFSET_END


def test_a_plain_message_is_its_own_record() -> None:
    plain = message(4, value=b"x", headers=None, stamp=(TIMESTAMP_CREATE_TIME, 70))
    assert found(Given(plain), 70) == at(4, 0, 1)


def test_a_plain_message_before_the_time_is_passed_over() -> None:
    early = message(4, value=b"x", headers=None, stamp=(TIMESTAMP_CREATE_TIME, 69))
    assert found(Given(early, message(5, rows=80)), 70) == at(5, 70, 80)


def test_where_the_brokers_time_counts_it_is_the_first_row() -> None:
    """Rows of the topic then have that time, all of a segment the same."""
    appended = message(4, stamp=(TIMESTAMP_LOG_APPEND_TIME, 1000))
    assert found(Given(appended), 900) == at(4, 0, 3)


def test_a_segment_that_cannot_be_read_counts_from_its_start() -> None:
    """There it is reported."""
    assert found(Given(message(4, value=b"?")), 1) == position.start(4)


def test_rows_without_times_have_their_segments() -> None:
    batch = pa.record_batch({"n": [1, 2]})
    header = SegmentHeader(
        rows=2, segment="p-4", schema=fingerprint(batch.schema), timestamp_min=5, timestamp_max=8
    )
    value = ParquetEncoder("zstd").encode(batch, header.footer()).to_pybytes()
    bare = message(4, value=value, headers=headers_of(header, value), stamp=(1, 8))
    assert kafka_columns.KAFKA_COLUMN not in batch.schema.names
    assert found(Given(bare), 8) == at(4, 0, 2)


def test_what_has_no_offset_is_not_asked_for() -> None:
    broker = Given()
    assert found(broker, 7, offset=OFFSET_END) == OFFSET_END
    assert broker.asked == []


def test_another_partitions_messages_say_nothing() -> None:
    other = Message(topic="t", partition=1, offset=0, value=b"x", timestamp=(1, 99))
    assert found(Given(other, message(4)), 1) == at(4, 1, 3)


def test_an_event_of_no_partition_is_no_answer() -> None:
    down = Message(error=KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert found(Given(down, message(4)), 1) == at(4, 1, 3)


def test_a_partition_that_cannot_be_read_is_an_error() -> None:
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    broker = Given(Message(topic="t", partition=0, error=denied))
    with pytest.raises(KafkaException) as raised:
        found(broker, 1)
    assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert broker.closed


def test_the_time_may_be_over() -> None:
    broker = Given(message(4))
    with pytest.raises(KafkaException) as raised:
        found(broker, 1, seconds=-1)
    error = raised.value.args[0]
    assert (error.name(), error.str()) == ("_TIMED_OUT", "Failed to get offsets: Local: Timed out")
    assert broker.closed


def test_in_memory_times_are_looked_up_as_on_kafka() -> None:
    kafka = MemoryKafka()
    kafka.create_topic("t")
    for offset in range(3):
        made = segment(pa.table({"n": [0, 1, 2]}), offset=offset, number=offset)
        kafka.append("t", 0, made.value, headers=list(made.headers), timestamp=2)
    assert found(MemoryConsumer(kafka), 1, offset=1) == at(1, 1, 3)
    assert found(MemoryConsumer(kafka), 5, offset=1) == OFFSET_END
