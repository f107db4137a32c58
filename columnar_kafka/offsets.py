"""Partitions and committed offsets, as the producing and the consuming side share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from columnar_kafka import position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import TopicPartition

__all__ = ["GroupMetadata", "Partition", "key_of", "to_positions"]

Partition = tuple[str, int]


_LARGEST: Final = (1 << 63) - 1  # an offset that Kafka never had can be committed all the same


def key_of(partition: TopicPartition) -> Partition:
    """Return what identifies a partition."""
    return partition.topic, partition.partition


def to_positions(partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
    """Turn committed offsets, as Kafka told them, into positions, in place."""
    found = list(partitions or ())
    for each in found:
        each.offset = min(position.resume(each.offset, each.metadata)[0], _LARGEST)
    return found


class GroupMetadata:
    """A consumer's group for `send_offsets_to_transaction` of *this package's* producer.

    Stock producers raise TypeError for it; they would commit positions as if they were offsets.
    """

    def __init__(
        self,
        inner: Any,
        offsets: Callable[[Iterable[TopicPartition]], list[TopicPartition]],
    ) -> None:
        """Wrap librdkafka's own.

        `offsets` returns positions as Kafka's offsets, with the metadata that keeps the row.
        """
        self.inner = inner
        self.offsets = offsets
