"""The cluster: topics, what groups have committed, transactions, and faults for all its clients."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from columnar_kafka.broker.base import TopicLimits
from columnar_kafka.segment.headers import message_bytes
from columnar_kafka.testing.memory.changes import Changes
from columnar_kafka.testing.memory.group import ConsumerGroup
from columnar_kafka.testing.memory.log import MemoryTransaction, PartitionLog, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["Fault", "MemoryKafka", "copy_of"]


class Fault(NamedTuple):
    """One message's fault: it is refused when it is sent, or fails in its acknowledgement."""

    error: BufferError | KafkaError
    refused: bool = False
    stored: bool = False

    @classmethod
    def refusal(cls, error: KafkaError | None) -> Fault:
        """Return a refusal; without an error, that of a full queue."""
        return cls(error or BufferError("Local: Queue full"), refused=True)


@dataclass(slots=True)
class _Topic:
    partitions: list[PartitionLog]
    compacted: bool
    max_message_bytes: int

    def refusal(self, stored: StoredMessage) -> KafkaError | None:
        """Return why the broker would not store this message, or None."""
        size = message_bytes(stored.key, stored.value, stored.headers)
        if size > self.max_message_bytes:
            return KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
        if self.compacted and stored.key is None:
            return KafkaError(KafkaError.INVALID_RECORD)
        return None


@dataclass(slots=True)
class _Transactional:
    """The coordinator's state of one transactional.id."""

    epoch: int = -1
    current: MemoryTransaction = field(default_factory=lambda: MemoryTransaction(is_open=False))


class MemoryKafka:
    """A cluster: topics, committed offsets, groups and transactions. Thread-safe.

    Clients do not know a topic until it is created; with `auto_create_topics` a producer that asks
    for a topic creates it, with one partition.
    """

    def __init__(self, *, auto_create_topics: bool = False) -> None:
        self.lock = threading.RLock()  # guards everything below, and all of the clients
        self.changed = Changes(self.lock)
        self.faults: deque[Fault] = deque()  # for producers that have none of their own
        self.held = False  # whether all producers keep what is sent
        self._auto_create = auto_create_topics
        self.by_name: dict[str, _Topic] = {}
        self._arrived: list[tuple[str, int, int]] = []  # topic, partition, offset
        self._committed: dict[tuple[str, str, int], TopicPartition] = {}
        self._groups: dict[str, ConsumerGroup] = {}
        self._transactional: dict[str, _Transactional] = {}

    def __repr__(self) -> str:
        topics = (f"{name}: {self.count(name)}" for name in self.by_name)
        return f"<{type(self).__name__} messages by topic: {', '.join(topics) or 'no topics'}>"

    # --- topics ---------------------------------------------------------------------------------

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        compacted: bool = False,
        max_message_bytes: int = 1_048_588,
    ) -> None:
        """Create a topic, or change one: partitions are added, never taken away."""
        with self.lock:
            known = self.by_name.get(topic)
            logs = known.partitions if known is not None else []
            logs += [PartitionLog() for _ in range(partitions - len(logs))]
            self.by_name[topic] = _Topic(logs, compacted, max_message_bytes)
            for group in self._groups.values():
                group.topics_changed()
            self.changed.notify_all()

    def create_missing(self, topic: str) -> None:
        """Create a topic that a producer asks for, if the cluster creates topics automatically."""
        with self.lock:
            if self._auto_create and topic not in self.by_name:
                self.create_topic(topic)

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic."""
        with self.lock:
            return {name: len(topic.partitions) for name, topic in self.by_name.items()}

    def partitions(self, topic: str) -> int | None:
        """Return a topic's number of partitions, or None when it is unknown."""
        return self.topics().get(topic)

    def limits(self, topic: str) -> TopicLimits:
        """Return a topic's limits; all None for an unknown topic."""
        with self.lock:
            known = self.by_name.get(topic)
            if known is None:
                return TopicLimits()
            return TopicLimits(len(known.partitions), known.compacted, known.max_message_bytes)

    # --- messages -------------------------------------------------------------------------------

    def messages(self, topic: str, partition: int = 0) -> list[Message]:
        """Return a partition's messages in order, aborted ones included.

        Raises:
            KeyError, IndexError: there is no such partition.
        """
        with self.lock:
            visible = self.by_name[topic].partitions[partition].visible(committed=False)
        return [stored.message(topic, partition, offset) for offset, stored in visible]

    def arrived(self, topic: str, *, committed: bool = True) -> list[Message]:
        """Return the messages of all partitions of a topic, in the order in which they arrived.

        Raises:
            KeyError: there is no such topic.
        """
        with self.lock:
            visible = {
                (number, offset): stored
                for number, log in enumerate(self.by_name[topic].partitions)
                for offset, stored in log.visible(committed=committed)
            }
            order = [key for name, *key in self._arrived if name == topic]
        return [
            visible[number, offset].message(topic, number, offset)
            for number, offset in order
            if (number, offset) in visible
        ]

    def count(self, topic: str) -> int:
        """Return how many messages a topic holds, aborted ones included."""
        with self.lock:
            return sum(name == topic for name, *_ in self._arrived)

    def append(
        self,
        topic: str,
        partition: int = 0,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: RecordHeaders | None = None,
        timestamp: int = 0,
    ) -> Message:
        """Store a message without a producer; if the broker refuses it, the result has an error."""
        return self.store(topic, partition, StoredMessage.copy_of(key, value, headers, timestamp))

    def store(self, topic: str, partition: int, stored: StoredMessage) -> Message:
        """Store a message; return its acknowledgement."""
        with self.lock:
            self.create_missing(topic)
            log = self.log(topic, partition)
            if log is None:
                error: KafkaError | None = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            else:
                error = self.by_name[topic].refusal(stored)
            if log is None or error is not None:
                return stored.message(topic, partition, OFFSET_INVALID, error)
            offset = log.append(stored)
            self._arrived.append((topic, partition, offset))
            self.changed.notify_all()
            return stored.message(topic, partition, offset)

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return a partition, to be used while holding `lock`, or None."""
        known = self.by_name.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        return known.partitions[partition]

    def end(self, topic: str, partition: int, *, committed: bool = False) -> int:
        """Return the offset after the last message; 0 for an unknown partition."""
        with self.lock:
            log = self.log(topic, partition)
            return 0 if log is None else log.end(committed=committed)

    # --- groups ---------------------------------------------------------------------------------

    def group(self, name: str) -> ConsumerGroup:
        """Return a group, to be used while holding `lock`."""
        return self._groups.setdefault(name, ConsumerGroup(self.topics))

    def committed(self, group: str, topic: str, partition: int) -> TopicPartition:
        """Return a group's committed offset with its metadata; OFFSET_INVALID if there is none."""
        with self.lock:
            offset = self._committed.get((group, topic, partition))
            return TopicPartition(topic, partition) if offset is None else copy_of(offset)

    def commit(self, group: str, offsets: Iterable[TopicPartition]) -> None:
        """Commit offsets with their metadata for a group."""
        with self.lock:
            for offset in offsets:
                self._committed[group, offset.topic, offset.partition] = copy_of(offset)

    # --- transactions ---------------------------------------------------------------------------

    def init_transactions(self, transactional_id: str) -> int:
        """Abort the open transaction of an id and fence its producer; return the new epoch."""
        with self.lock:
            known = self._transactional.setdefault(transactional_id, _Transactional())
            if known.current.is_open:
                self._end(known.current, aborted=True)
            known.epoch += 1
            return known.epoch

    def begin_transaction(self, transactional_id: str, epoch: int) -> MemoryTransaction:
        """Begin a transaction; KafkaException if the producer is fenced."""
        with self.lock:
            known = self._current(transactional_id, epoch)
            known.current = MemoryTransaction()
            return known.current

    def end_transaction(self, transactional_id: str, epoch: int, *, aborted: bool) -> None:
        """Commit or abort, offsets included; KafkaException if the producer is fenced."""
        with self.lock:
            self._end(self._current(transactional_id, epoch).current, aborted=aborted)

    def is_fenced(self, transactional_id: str, epoch: int) -> bool:
        """Say whether another producer has taken the id over since `epoch`."""
        with self.lock:
            return self._transactional[transactional_id].epoch != epoch

    def _current(self, transactional_id: str, epoch: int) -> _Transactional:
        if self.is_fenced(transactional_id, epoch):
            raise KafkaException(
                KafkaError(KafkaError._FENCED, "fenced by newer producer instance", fatal=True)
            )
        return self._transactional[transactional_id]

    def _end(self, transaction: MemoryTransaction, *, aborted: bool) -> None:
        transaction.end(aborted=aborted)
        if not aborted:
            for group, offsets in transaction.offsets:
                self.commit(group, offsets)
        self.changed.notify_all()


def copy_of(partition: TopicPartition) -> TopicPartition:
    """Return a copy of a partition with its offset and metadata."""
    if partition.metadata is None:
        return TopicPartition(partition.topic, partition.partition, partition.offset)
    return TopicPartition(
        partition.topic, partition.partition, partition.offset, partition.metadata
    )
