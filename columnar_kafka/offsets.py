"""Partitions and committed offsets, shared by producers and consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka import position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "GroupMetadata",
    "Partition",
    "check_partitions",
    "error_event_refused",
    "key_of",
    "named_partitions",
    "to_kafka_offset",
    "to_kafka_offsets",
    "to_positions",
]

Partition = tuple[str, int]

_LARGEST: Final = (1 << 63) - 1  # an offset that Kafka never had can be committed all the same


def key_of(partition: TopicPartition) -> Partition:
    """Return a partition's topic and number."""
    return partition.topic, partition.partition


def check_partitions(partitions: Any) -> list[TopicPartition]:
    """Return a list of partitions.

    Raises:
        TypeError: as confluent-kafka's, for anything else.
    """
    if not isinstance(partitions, list):
        raise TypeError("requires list of TopicPartition")
    if not all(isinstance(partition, TopicPartition) for partition in partitions):
        raise TypeError("expected cimpl.TopicPartition")
    return partitions


def named_partitions(
    message: Any, offsets: Any, after: Callable[[Any], TopicPartition]
) -> list[TopicPartition] | None:
    """Return the partitions that a commit or store names; None where it names none.

    Args:
        message: a message, or None.
        offsets: a list of partitions, or None.
        after: returns the partition of a message, with the offset after it.

    Raises:
        ValueError: both a message and offsets.
        TypeError: not a list of partitions.
        Exception: what `after` raises.
    """
    if message is not None:
        if offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        return [after(message)]
    return None if offsets is None else check_partitions(offsets)


def error_event_refused(error: KafkaError, action: str) -> KafkaException:
    """Return confluent-kafka's error for a commit or store whose message is an error event."""
    reason = f"Cannot {action} offsets for message with error: '{error.str()}'"
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, reason))


def to_positions(partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
    """Turn committed offsets, as Kafka returned them, into positions, in place."""
    positions = list(partitions or ())
    for partition in positions:
        partition.offset = min(position.resume(partition.offset, partition.metadata)[0], _LARGEST)
    return positions


def to_kafka_offset(partition: TopicPartition) -> TopicPartition:
    """Return a partition with the Kafka offset of its position.

    Anything without a position is returned as it is: librdkafka itself refuses it.
    """
    if not isinstance(partition, TopicPartition) or partition.offset < 0:
        return partition
    offset = position.unpack(partition.offset).offset
    epoch = -1 if partition.leader_epoch is None else partition.leader_epoch
    return TopicPartition(partition.topic, partition.partition, offset, leader_epoch=epoch)


def to_kafka_offsets(partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Return partitions with the Kafka offsets of their positions; anything but a list as it is."""
    return list(map(to_kafka_offset, partitions)) if isinstance(partitions, list) else partitions


class GroupMetadata:
    """A consumer's group for `send_offsets_to_transaction` of *this package's* producer.

    Stock producers raise TypeError for it; they would commit positions as if they were offsets.
    """

    def __init__(
        self,
        inner: Any,
        offsets: Callable[[Iterable[TopicPartition]], list[TopicPartition]],
    ) -> None:
        """Wrap librdkafka's own object.

        `offsets` returns positions as Kafka's offsets, with the row as metadata.
        """
        self.inner = inner
        self.offsets = offsets
