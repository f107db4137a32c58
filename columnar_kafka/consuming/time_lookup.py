"""The first record at or after a time: Kafka finds the message, a second consumer reads it."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from confluent_kafka import OFFSET_END, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from columnar_kafka import position
from columnar_kafka.columns import compute as pc
from columnar_kafka.errors import SegmentError
from columnar_kafka.offsets import Partition, key_of
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.segment.headers import is_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message, TopicPartition

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.segment.segment import Segment

__all__ = ["first_records"]

_STEP: Final = 0.5


def first_records(
    broker: ConsumerBroker,
    offsets: list[TopicPartition],
    times: Mapping[Partition, int],
    read: Callable[[Message], Segment],
    deadline: float,
) -> None:
    """Turn the offsets that Kafka found for `times` (ms) into positions of records, in place.

    Kafka's time for a segment is its latest record's, so the message that Kafka found has the
    record. If that message is gone (aborted or deleted), a later one has it. If there is none, the
    offset becomes -1, as Kafka's does. For an unreadable segment it is the segment's start.

    Raises:
        KafkaException: ``_TIMED_OUT`` at the deadline; or why a partition cannot be read.
    """
    wanted = {
        key_of(partition): partition
        for partition in offsets
        if partition.offset >= 0 and partition.error is None
    }
    if not wanted:
        return
    with closing(broker.side_reader(list(wanted.values()))) as reader:
        while wanted:
            left = deadline - time.monotonic()
            if left <= 0:
                error = KafkaError(KafkaError._TIMED_OUT)
                reason = f"Failed to get offsets: {error.str()}"
                raise KafkaException(KafkaError(error.code(), reason))
            message = reader.poll(min(_STEP, left))
            key = (message.topic(), message.partition()) if message is not None else None
            if message is None or key not in wanted:
                continue
            at = _first_record(message, times[key], read)
            if at is not None:
                wanted.pop(key).offset = at


def _first_record(message: Message, time_ms: int, read: Callable[[Message], Segment]) -> int | None:
    """Return the position of a message's first record at or after a time; None for none.

    Raises:
        KafkaException: the partition cannot be read.
    """
    error = message.error()
    if error is not None:
        if error.code() == KafkaError._PARTITION_EOF:
            return OFFSET_END
        raise KafkaException(error)
    offset = message.offset()
    assert offset is not None
    kind, broker_time = message.timestamp()
    segment = None
    try:
        if is_segment(message.headers()):
            segment = read(message)
        if segment is None or kind == TIMESTAMP_LOG_APPEND_TIME:
            rows = 1 if segment is None else segment.rows
            return position.pack(offset, 0, rows) if broker_time >= time_ms else None
        row = _first_row(segment, time_ms)
    except SegmentError:
        return position.start(offset)
    return position.pack(offset, row, segment.rows) if row >= 0 else None


def _first_row(segment: Segment, time_ms: int) -> int:
    """Return the first row at or after a time; -1 for none. Rows without times have the latest."""
    schema = segment.schema
    members = schema.field(KAFKA_COLUMN).type if KAFKA_COLUMN in schema.names else pa.struct([])
    if members.get_field_index("timestamp") < 0:
        return 0 if segment.header.timestamp_max >= time_ms else -1
    column = segment.to_table([KAFKA_COLUMN])[KAFKA_COLUMN]
    times = pc.struct_field(column, "timestamp").cast(pa.int64())
    return int(pc.index(pc.greater_equal(times, time_ms), pa.scalar(value=True)).as_py())
