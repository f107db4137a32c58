"""Positions handed out, stored and committed, and how the broker is told of them. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_INVALID, TopicPartition

from columnar_kafka import position
from columnar_kafka.offsets import Partition, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["OffsetStore"]


_SEGMENTS: Final = 1000
"""Segments remembered for each partition: how far back a row can be committed exactly."""

_RECENT: Final = 100
"""Segments from which the number of records per offset is estimated."""


class OffsetStore:
    """Positions of partitions: delivered, stored and committed. Not thread-safe.

    As in librdkafka, a stored position is due for a commit when it is after the committed one, and
    a seek leaves it unchanged.
    """

    def __init__(self, *, auto_store: bool) -> None:
        """With `auto_store`, positions count as stored when they are delivered."""
        self.delivered: dict[Partition, int] = {}  # the position after the last record
        self._auto_store = auto_store
        self._epochs: dict[Partition, int | None] = {}  # the leader's, of delivered messages
        self._stored: dict[Partition, TopicPartition] = {}
        self._committed: dict[Partition, int] = {}
        self.segments: dict[Partition, dict[int, tuple[str, int]]] = {}

    def opened(self, key: Partition, offset: int, segment: str, rows: int) -> None:
        """Remember the segment at a Kafka offset, for commits inside it."""
        known = self.segments.setdefault(key, {})
        known[offset] = (segment, rows)
        if len(known) > _SEGMENTS:
            del known[next(iter(known))]

    def rows_per_offset(self, topic: str, partition: int) -> float:
        """Return the recent number of records per offset, the topic's if the partition has none.

        Offsets between segments count as plain messages.
        """
        same = [known for (name, _), known in self.segments.items() if name == topic]
        mine = self.segments.get((topic, partition))
        recent = [list(segments.items())[-_RECENT:] for segments in ([mine] if mine else same)]
        rows = span = 0
        for segments in filter(None, recent):
            offsets = [offset for offset, _ in segments]
            between = max(offsets) - min(offsets) + 1 - len(segments)
            rows += sum(count for _, (_, count) in segments) + between
            span += len(segments) + between
        return rows / span if span else 1.0

    def hand_out(self, after: dict[Partition, int], epochs: dict[Partition, int | None]) -> None:
        """Note the positions after delivered messages, and the messages' leader epochs.

        Nothing is called here, and there is no loop, so a signal's handler cannot raise in between.
        """
        self.delivered |= after
        self._epochs |= epochs

    def seeked(self, key: Partition) -> None:
        """Note that a partition continues at a position of which nothing was delivered."""
        stored = self._to_commit(key)
        if stored is not None:
            self._stored[key] = stored
        self.delivered.pop(key, None)

    def store(self, place: TopicPartition) -> None:
        """Store a position for the next commit that names none."""
        self._stored[key_of(place)] = place

    def forget(self, keys: Iterable[Partition]) -> None:
        """Drop everything about partitions that are no longer this consumer's."""
        for key in keys:
            for known in (self.delivered, self._epochs, self._stored, self._committed,
                          self.segments):  # fmt: skip
                known.pop(key, None)

    def _to_commit(self, key: Partition) -> TopicPartition | None:
        if self._auto_store and key in self.delivered:
            return _place(key, self.delivered[key], None, self._epochs.get(key))
        return self._stored.get(key)

    def uncommitted(self, keys: Iterable[Partition] | None = None) -> list[TopicPartition]:
        """Return the stored positions after the committed ones, as Kafka's offsets."""
        chosen = list({**self.delivered, **self._stored}) if keys is None else keys
        stored = filter(None, map(self._to_commit, chosen))
        return [
            committable for committable in self.committables(stored) if self._is_due(committable)
        ]

    def _is_due(self, partition: TopicPartition) -> bool:
        at, _ = position.resume(partition.offset, partition.metadata)
        return at > self._committed.get(key_of(partition), OFFSET_INVALID)

    def mark_committed(self, offsets: Iterable[TopicPartition]) -> None:
        """Note the group's committed offsets, with their metadata, as Kafka returned them."""
        for offset in offsets:
            if offset.error is None and offset.offset >= 0:
                self._committed[key_of(offset)] = position.resume(offset.offset, offset.metadata)[0]

    def committable(self, place: TopicPartition) -> TopicPartition:
        """Return a position as Kafka's offset and metadata.

        If the segment is neither remembered nor named by the metadata (as `committed` returns it),
        the position becomes the segment's start: its rows are read again, none is skipped. The
        user's own metadata is kept if the position is not inside a segment.
        """
        key, at, metadata = key_of(place), place.offset, place.metadata
        if at < 0:
            return _place(key, at, metadata, place.leader_epoch)
        offset, left = position.unpack(at)
        named, theirs = position.resume(offset, metadata)
        segment, rows = self.segments.get(key, {}).get(offset, ("", 0))
        row = None
        if segment and 0 < left < rows:
            row = position.commit_metadata(left, segment)
        elif theirs and not segment and left and named == at:
            row = metadata
        # Metadata that names another row than this position's is left over from a commit there.
        own = None if theirs else metadata
        return _place(key, offset, row or own, place.leader_epoch)

    def committables(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return positions as offsets and metadata for Kafka."""
        return [self.committable(place) for place in places]


def _place(key: Partition, at: int, metadata: str | None, epoch: int | None) -> TopicPartition:
    """Return a partition and offset; confluent-kafka accepts no None for missing members."""
    given: dict[str, Any] = {"metadata": metadata, "leader_epoch": epoch}
    return TopicPartition(*key, at, **{k: v for k, v in given.items() if v is not None})
