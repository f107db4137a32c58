"""The open batch of each partition; a record without a key goes where the one before went.

`sending.accumulator` seals them when they are full or old enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from columnar_kafka.native import _core as core
    from columnar_kafka.producing.engine.base import Batch, TopicFormat
    from columnar_kafka.producing.partitioner import Partitioner

__all__ = ["PureOpenBatches"]


@dataclass(slots=True)
class _Topic:
    topic_format: TopicFormat
    partitions: int = 0  # 0 while the number is unknown
    sticky: int | None = None
    batches: dict[int, Batch] = field(default_factory=dict)  # by partition

    def forget(self, partition: int) -> None:
        self.batches.pop(partition, None)
        if self.sticky == partition:
            self.sticky = None


class PureOpenBatches:
    """The open batch of each partition, and which one is next for records without a key."""

    def __init__(self, partitioner: Partitioner) -> None:
        self._partitioner = partitioner
        self._topics: dict[str, _Topic] = {}

    def set_format(
        self, topic: str, topic_format: TopicFormat, *, stores_keys: bool, stores_headers: bool
    ) -> None:
        """Open batches of this format from now on for a topic, and those of another no more."""
        known = self._topics.get(topic)
        partitions = 0 if known is None else known.partitions
        self._topics[topic] = _Topic(topic_format, partitions)

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Choose among so many partitions of a topic from now on; 0: its records wait."""
        if (known := self._topics.get(topic)) is None:
            return
        known.partitions = partitions
        known.batches = {n: batch for n, batch in known.batches.items() if n < partitions}
        if known.sticky is not None and known.sticky >= partitions:
            known.sticky = None

    def find(
        self, topic: str, partition: int, key: bytes | None, topic_format: Any = None
    ) -> tuple[int, Batch | None] | None:
        """Return the partition of a record and the batch that is open there, which may be full.

        None if there is no such partition, or none is known. With a format, only if that is the
        topic's.
        """
        known = self._topics.get(topic)
        if known is None or (topic_format is not None and known.topic_format is not topic_format):
            return None
        if partition == -1 and known.partitions:
            partition = self._choose(known, key)
        elif not 0 <= partition < known.partitions:
            return None
        return partition, known.batches.get(partition)

    def _choose(self, topic: _Topic, key: bytes | None) -> int:
        if key is None and topic.sticky is not None:  # then no key is hashed that is None
            return topic.sticky
        chosen = self._partitioner.choose(key, topic.partitions)
        if chosen is not None:
            return chosen
        if topic.sticky is None:
            # The next records stay with it, so that its batch fills.
            topic.sticky = self._partitioner.any(topic.partitions)
        return topic.sticky

    def open(
        self,
        topic: str,
        partition: int,
        topic_format: Any,
        batch: Batch,
        records: core.Batch | None,
        queue: Any,
    ) -> bool:
        """Open a batch, and append it to `queue`: both or neither.

        False: batches of that format are not opened there any more.
        """
        known = self._topics.get(topic)
        if known is None or known.topic_format is not topic_format:
            return False
        if not 0 <= partition < known.partitions:
            return False
        known.batches[partition] = batch
        queue.append(batch)  # the last call
        return True

    def let_go(self, topic: str, partition: int, batch: Batch) -> None:
        """Append nothing more to a batch: it is full, or sealed.

        The next batch without keys may be of another partition.
        """
        known = self._topics.get(topic)
        if known is not None and known.batches.get(partition) in (batch, None):
            known.forget(partition)

    def close(self, topic: str, partition: int, key: bytes | None) -> int:
        """Return the partition of a message that is no record.

        The records after it go to another batch. -1: nothing is known of the topic, or of the
        partition.
        """
        known = self._topics.get(topic)
        if known is None or (partition == -1 and not known.partitions):
            return partition
        chosen = self._choose(known, key) if partition == -1 else partition
        known.forget(chosen)
        return chosen

    def close_all(self, topic: str) -> None:
        """Have the next records of all partitions of a topic go to other batches."""
        if (known := self._topics.get(topic)) is not None:
            known.sticky, known.batches = None, {}
