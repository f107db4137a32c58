"""The first offsets and the ends of many partitions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from columnar_kafka.offsets import Partition, key_of
from columnar_kafka.runtime.deadline import deadline_after, seconds_left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.broker.traced_classes import StockConsumer

__all__ = ["Watermarks", "watermarks"]

Watermarks = dict[Partition, tuple[int, int]]


def watermarks(
    client: StockConsumer, partitions: Sequence[TopicPartition], timeout: float
) -> Watermarks:
    """Return what `get_watermark_offsets` returns, of all these partitions.

    Blocks for two requests to each of their leaders. A leader answers them after the fetch that
    this client has asked it for before, which waits for messages: ``fetch.wait.max.ms``.

    Raises:
        KafkaException: a partition's error; ``_TIMED_OUT`` after `timeout` seconds.
    """
    deadline = deadline_after(timeout)
    lows = _offsets(client, partitions, OFFSET_BEGINNING, deadline)
    highs = _offsets(client, partitions, OFFSET_END, deadline)
    return {key: (low, highs[key]) for key, low in lows.items()}


def _offsets(
    client: StockConsumer, partitions: Sequence[TopicPartition], at: int, deadline: float
) -> dict[Partition, int]:
    """Return an offset of each partition. Kafka's times -2 and -1 are its beginning and end."""
    asked = [TopicPartition(partition.topic, partition.partition, at) for partition in partitions]
    try:
        offsets = client.offsets_for_times(asked, seconds_left(deadline))
    except KafkaException as error:  # so it says where a client has not connected in time
        if error.args[0].code() != KafkaError._ALL_BROKERS_DOWN or seconds_left(deadline):
            raise
        reason = "Failed to get watermark offsets: Local: Timed out"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason)) from error
    for partition in offsets:
        if partition.error is not None:
            reason = f"Failed to get watermark offsets: {partition.error.str()}"
            raise KafkaException(KafkaError(partition.error.code(), reason))
    return {key_of(partition): partition.offset for partition in offsets}
