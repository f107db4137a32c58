"""Where each partition begins: at a position, where its group left off, or as librdkafka says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, TopicPartition

from columnar_kafka import position
from columnar_kafka.offsets import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.consuming.feed.offset_store import OffsetStore
    from columnar_kafka.offsets import Partition
    from columnar_kafka.segment.segment import Segment

__all__ = ["StartPositions"]


class StartPositions:
    """The assigned partitions, and where each one begins. Whoever calls it holds the feed's lock.

    A partition that begins where its group left off waits for a lookup of the committed offset:
    librdkafka goes to that offset by itself, but only its metadata names the row in the segment.
    """

    def __init__(self, offsets: OffsetStore) -> None:
        self._offsets = offsets
        self.assigned: set[Partition] = set()
        self.awaiting_lookup: set[Partition] = set()
        self._previously_assigned: set[Partition] = set()
        self._assigned_at: dict[Partition, int] = {}
        self._start: dict[Partition, int] = {}  # where to begin in the segment at that offset
        self._committed: dict[Partition, TopicPartition] = {}  # the same, as Kafka has told
        # librdkafka's positions of an earlier assignment: it may still tell them.
        self.stale: dict[Partition, int] = {}

    # --- the assignment -------------------------------------------------------------------------

    def assign(self, partition: TopicPartition) -> None:
        """Begin a partition of which nothing is known any more."""
        key = key_of(partition)
        self.assigned.add(key)
        if partition.offset >= 0:
            self._assigned_at[key] = self._start[key] = partition.offset
        elif partition.offset in (OFFSET_INVALID, OFFSET_STORED):
            self.awaiting_lookup.add(key)

    def assign_unseen(self, keys: set[Partition]) -> set[Partition]:
        """Begin partitions whose assignment was missed; return those that were not known."""
        new = keys - self.assigned
        self.awaiting_lookup |= new
        self.assigned |= keys
        return new

    def revoke(self, key: Partition) -> None:
        """Remember that a partition was assigned, before it is forgotten."""
        if key in self.assigned:
            self._previously_assigned.add(key)
        self.stale.pop(key, None)

    def forget(self, key: Partition) -> None:
        """Drop a partition that is no longer assigned, or is assigned anew."""
        self.assigned.discard(key)
        self._assigned_at.pop(key, None)

    def assigned_at(self, key: Partition) -> int | None:
        """Return the position a partition was assigned with; None where it had none."""
        return self._assigned_at.get(key)

    def reassigned(self, keys: Iterable[Partition]) -> set[Partition]:
        """Return which partitions were assigned before and begin where their group left off."""
        return self._previously_assigned & self.awaiting_lookup & set(keys)

    def known(self) -> set[Partition]:
        """Return all partitions that are to begin somewhere."""
        return {*self._start, *self.awaiting_lookup}

    # --- librdkafka's position of an earlier assignment -----------------------------------------

    def note_stale(self, before: Iterable[TopicPartition]) -> None:
        """Note librdkafka's positions of just before an assignment.

        librdkafka forgets them in a thread of its own, some time after the assignment.
        """
        self.stale |= {
            key_of(partition): partition.offset for partition in before if partition.offset >= 0
        }

    def is_stale(self, key: Partition, offset: int) -> bool:
        """Say whether a position of librdkafka's may be an earlier assignment's."""
        return self.stale.get(key) == offset

    def forget_stale(self, key: Partition) -> None:
        """Note that librdkafka has a new position of a partition."""
        self.stale.pop(key, None)

    # --- where to begin -------------------------------------------------------------------------

    def seek(self, key: Partition, at: int) -> None:
        """Begin a partition at another position."""
        self._start[key] = at

    def clear(self, key: Partition) -> None:
        """Forget where to begin a partition."""
        self._start.pop(key, None)
        self._committed.pop(key, None)
        self.awaiting_lookup.discard(key)

    def looked_up(self, keys: set[Partition], offsets: Iterable[TopicPartition]) -> None:
        """Note what Kafka has answered for partitions: the offsets their group has committed."""
        offsets = [partition for partition in offsets if key_of(partition) in self.awaiting_lookup]
        # The metadata is left out: its row counts once the segment that it names has come.
        self._offsets.mark_committed(
            TopicPartition(*key_of(partition), partition.offset) for partition in offsets
        )
        self._committed |= {
            key_of(partition): partition for partition in offsets if partition.error is None
        }
        self.awaiting_lookup -= keys

    def has_any(self) -> bool:
        """Say whether any partition is known to begin inside a segment."""
        return bool(self._start or self._committed)

    def pass_start(self, key: Partition) -> None:
        """Forget where to begin a partition, once a record that is not before it was handed out.

        At another offset the start says nothing: that message is gone, and this one is read whole.
        """
        delivered = self._offsets.delivered.get(key)
        if delivered is not None:
            self._committed.pop(key, None)
            if self._start.get(key) != delivered:
                self._start.pop(key, None)

    def row_of(self, key: Partition, segment: Segment) -> tuple[int, list[TopicPartition]]:
        """Return the row at which a segment begins, and the group's commit if that says so."""
        committed = self._committed.get(key)
        if committed is not None and (row := _committed_row(segment, committed)):
            return row, [committed]
        return _row_at(segment, self._start.get(key, -1)), []

    def position_of(self, key: Partition) -> int | None:
        """Return a position not behind a partition's first record; None where its group has it."""
        at = self._start.get(key)
        is_groups = (
            key not in self.assigned or key in self.awaiting_lookup or key in self._committed
        )
        return 0 if at is None and not is_groups else at  # librdkafka knows where it begins


def _row_at(segment: Segment, at: int) -> int:
    """Return the row of a position in a segment; 0 for a position that is not inside it."""
    if at < 0:
        return 0
    offset, left = position.unpack(at)
    is_inside = offset == segment.kafka_offset and 0 < left < segment.rows
    return segment.rows - left if is_inside else 0


def _committed_row(segment: Segment, committed: TopicPartition) -> int:
    """Return the row that the group has committed, if its commit names this segment."""
    at, segment_id = position.resume(committed.offset, committed.metadata)
    return _row_at(segment, at) if segment_id == segment.id else 0
