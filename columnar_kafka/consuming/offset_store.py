"""What a consumer has handed out, and what must be committed for it at the broker. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_INVALID, TopicPartition

from columnar_kafka import position
from columnar_kafka.offsets import Partition, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["OffsetStore"]


_SEGMENTS: Final = 1000
"""Segments remembered for each partition: how far back a row can still be committed exactly."""

_RECENT: Final = 100
"""Segments that tell how many records an offset has."""


class OffsetStore:
    """Positions by partition: handed out, stored, and the segments they lie in. Not thread-safe.

    As in librdkafka, what is stored is to be committed when it is further than what is committed
    already, and a seek leaves it as it is.
    """

    def __init__(self, *, auto_store: bool) -> None:
        """With `auto_store`, what was handed out is stored."""
        self.delivered: dict[Partition, int] = {}  # the position after the last record
        self._auto_store = auto_store
        self._epochs: dict[Partition, int | None] = {}  # the leader's, of what is handed out
        self._stored: dict[Partition, TopicPartition] = {}
        self._committed: dict[Partition, int] = {}
        self._segments: dict[Partition, dict[int, tuple[str, int]]] = {}

    def opened(self, key: Partition, offset: int, segment: str, rows: int) -> None:
        """Remember which segment lies at a Kafka offset, for commits inside it."""
        known = self._segments.setdefault(key, {})
        known[offset] = (segment, rows)
        if len(known) > _SEGMENTS:
            del known[next(iter(known))]

    def rows_per_offset(self, topic: str, partition: int) -> float:
        """Return how many records an offset had lately, of the topic where none is known of this.

        What lies between segments is taken for plain messages.
        """
        same = [known for (name, _), known in self._segments.items() if name == topic]
        mine = self._segments.get((topic, partition))
        recent = [list(each.items())[-_RECENT:] for each in ([mine] if mine else same)]
        rows = span = 0
        for each in filter(None, recent):
            offsets = [offset for offset, _ in each]
            between = max(offsets) - min(offsets) + 1 - len(each)
            rows += sum(count for _, (_, count) in each) + between
            span += len(each) + between
        return rows / span if span else 1.0

    def hand_out(self, after: dict[Partition, int], epochs: dict[Partition, int | None]) -> None:
        """Note what is handed out: positions after it, and the leader epochs of its messages.

        Nothing is called here, and there is no loop: see `Feed._hand_out`.
        """
        self.delivered |= after
        self._epochs |= epochs

    def sought(self, key: Partition) -> None:
        """Note that nothing was handed out of the place where a partition goes on."""
        stored = self._to_commit(key)
        if stored is not None:
            self._stored[key] = stored
        self.delivered.pop(key, None)

    def store(self, place: TopicPartition) -> None:
        """Note a position to be committed with the next commit that names none."""
        self._stored[key_of(place)] = place

    def forget(self, keys: Iterable[Partition]) -> None:
        """Drop what is known of partitions that are no longer this consumer's."""
        for key in keys:
            for known in (self.delivered, self._epochs, self._stored, self._committed,
                          self._segments):  # fmt: skip
                known.pop(key, None)

    def _to_commit(self, key: Partition) -> TopicPartition | None:
        if self._auto_store and key in self.delivered:
            return _place(key, self.delivered[key], None, self._epochs.get(key))
        return self._stored.get(key)

    def uncommitted(self, keys: Iterable[Partition] | None = None) -> list[TopicPartition]:
        """Return what is stored and further than what is committed, ready for Kafka."""
        chosen = list({**self.delivered, **self._stored}) if keys is None else keys
        stored = filter(None, map(self._to_commit, chosen))
        return [each for each in self.committables(stored) if self._is_further(each)]

    def _is_further(self, each: TopicPartition) -> bool:
        at, _ = position.resume(each.offset, each.metadata)
        return at > self._committed.get(key_of(each), OFFSET_INVALID)

    def mark_committed(self, offsets: Iterable[TopicPartition]) -> None:
        """Note what the group has committed: offsets and metadata as Kafka told them."""
        for each in offsets:
            if each.error is None and each.offset >= 0:
                self._committed[key_of(each)] = position.resume(each.offset, each.metadata)[0]

    def committable(self, place: TopicPartition) -> TopicPartition:
        """Return the offset and metadata that say a position at the broker.

        A position inside a segment that is neither remembered nor named by the metadata (as
        `committed` returns it) becomes the start of its segment: its rows are read again, none is
        skipped. Metadata of the user's own is kept where there is no row to say.
        """
        key, at, metadata = key_of(place), place.offset, place.metadata
        if at < 0:
            return _place(key, at, metadata, place.leader_epoch)
        offset, left = position.unpack(at)
        named, theirs = position.resume(offset, metadata)
        segment, rows = self._segments.get(key, {}).get(offset, ("", 0))
        row = None
        if segment and 0 < left < rows:
            row = position.commit_metadata(left, segment)
        elif theirs and not segment and left and named == at:
            row = metadata
        # What names a row and is not right for this position is left over from another.
        own = None if theirs else metadata
        return _place(key, offset, row or own, place.leader_epoch)

    def committables(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return positions as offsets and metadata for Kafka."""
        return [self.committable(each) for each in places]


def _place(key: Partition, at: int, metadata: str | None, epoch: int | None) -> TopicPartition:
    """Return a partition and offset; confluent-kafka takes no None for what is not there."""
    given: dict[str, Any] = {"metadata": metadata, "leader_epoch": epoch}
    return TopicPartition(*key, at, **{k: v for k, v in given.items() if v is not None})
