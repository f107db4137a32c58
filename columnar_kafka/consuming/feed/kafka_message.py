"""Questions about one Kafka message, as librdkafka hands it out."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka

from columnar_kafka import position

if TYPE_CHECKING:
    from collections.abc import Collection

    from columnar_kafka.offsets import Partition

__all__ = [
    "MESSAGE_BYTES",
    "address_of",
    "bytes_of",
    "has_offset",
    "is_partition_end",
    "offset_of",
    "partition_of",
    "partitions_of",
    "size_of",
]

_TOPIC: Final[Any] = methodcaller("topic")
_PARTITION: Final[Any] = methodcaller("partition")

MESSAGE_BYTES: Final = 200
"""What a message takes besides its value, about."""


def partition_of(message: confluent_kafka.Message) -> Partition:
    """Return what identifies a message's partition."""
    return message.topic() or "", -1 if (at := message.partition()) is None else at


def partitions_of(messages: Collection[confluent_kafka.Message]) -> set[Partition]:
    """Return the partitions of messages without an error; there may be a hundred thousand."""
    return set(zip(map(_TOPIC, messages), map(_PARTITION, messages), strict=True))


def offset_of(message: confluent_kafka.Message) -> int:
    """Return a message's Kafka offset; 0 for an event without one."""
    offset = message.offset()
    return 0 if offset is None else offset


def address_of(message: confluent_kafka.Message) -> str:
    """Return where a message is, for errors."""
    return position.address(message.topic(), message.partition(), message.offset())


def size_of(message: confluent_kafka.Message) -> int:
    """Return about how many bytes a message takes."""
    return len(message) + MESSAGE_BYTES


def bytes_of(messages: Collection[confluent_kafka.Message]) -> int:
    """Return about how many bytes these messages take together."""
    return sum(map(len, messages)) + MESSAGE_BYTES * len(messages)


def is_partition_end(message: confluent_kafka.Message) -> bool:
    """Say whether this is the event that tells the end of a partition."""
    error = message.error()
    return error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF


def has_offset(message: confluent_kafka.Message) -> bool:
    """Say whether this has a place in a partition's order: a message, or the event of its end."""
    return message.error() is None or is_partition_end(message)
