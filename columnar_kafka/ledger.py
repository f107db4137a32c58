"""What a consumer has handed out, and what must be committed for it at the broker. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TopicPartition

from columnar_kafka import position

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["GroupMetadata", "Ledger", "Partition", "key_of", "to_positions"]

Partition = tuple[str, int]

_SEGMENTS: Final = 1000
"""Segments remembered for each partition: how far back a row can still be committed exactly."""


def key_of(partition: TopicPartition) -> Partition:
    """Return what identifies a partition."""
    return partition.topic, partition.partition


def to_positions(partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
    """Turn committed offsets, as Kafka told them, into positions, in place."""
    found = list(partitions or ())
    for each in found:
        each.offset = position.resume(each.offset, each.metadata)[0]
    return found


class Ledger:
    """Positions by partition: handed out, stored, and the segments they lie in. Not thread-safe."""

    def __init__(self, *, auto_store: bool) -> None:
        self.delivered: dict[Partition, int] = {}
        self._auto_store = auto_store
        self._stored: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}
        self._segments: dict[Partition, dict[int, tuple[str, int]]] = {}

    def opened(self, key: Partition, offset: int, segment: str, rows: int) -> None:
        """Remember which segment lies at a Kafka offset, for commits inside it."""
        known = self._segments.setdefault(key, {})
        known[offset] = (segment, rows)
        if len(known) > _SEGMENTS:
            del known[next(iter(known))]

    def store(self, key: Partition, at: int) -> None:
        """Note a position to be committed with the next commit that names none."""
        self._stored[key] = at

    def forget(self, keys: Iterable[Partition]) -> None:
        """Drop what is known of partitions that are no longer this consumer's."""
        for key in keys:
            for known in (self.delivered, self._stored, self._committed, self._segments):
                known.pop(key, None)

    def uncommitted(self, keys: Iterable[Partition] | None = None) -> list[TopicPartition]:
        """Return what is stored and not yet passed to `mark_committed`, ready for Kafka."""
        stored = self.delivered if self._auto_store else self._stored
        chosen = list(stored) if keys is None else [key for key in keys if key in stored]
        return [
            self.committable(key, stored[key])
            for key in chosen
            if self._committed.get(key) != stored[key]
        ]

    def mark_committed(self, offsets: Iterable[TopicPartition]) -> None:
        """Note that these, as `uncommitted` returned them, were handed to Kafka."""
        for each in offsets:
            self._committed[key_of(each)] = position.resume(each.offset, each.metadata)[0]

    def committable(self, key: Partition, at: int) -> TopicPartition:
        """Return the offset and metadata that say `at` at the broker.

        A position inside a segment that is not remembered becomes the start of its segment: its
        rows are read again, none is skipped.
        """
        if at < 0:
            return TopicPartition(*key, at)
        offset, left = position.unpack(at)
        segment, rows = self._segments.get(key, {}).get(offset, ("", 0))
        if not segment or not left or left >= rows:
            return TopicPartition(*key, offset)
        return TopicPartition(*key, offset, position.commit_metadata(left, segment))

    def committables(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return positions as offsets and metadata for Kafka."""
        return [self.committable(key_of(each), each.offset) for each in partitions]


class GroupMetadata:
    """A consumer's group for `send_offsets_to_transaction` of *this package's* producer.

    Stock producers raise TypeError for it; they would commit positions as if they were offsets.
    """

    def __init__(self, inner: Any, ledger: Ledger) -> None:
        self.inner = inner
        self._ledger = ledger

    def offsets(self, positions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return positions as Kafka's offsets, with the metadata that keeps the row."""
        return self._ledger.committables(positions)
