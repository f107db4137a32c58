"""A Kafka in memory: topics, groups and faults on request, for tests that need no server.

`MemoryKafka` is the cluster; any number of `MemoryProducer` and `MemoryConsumer` are its clients.
Nothing here has a thread: what librdkafka does in the background is done inside the client's own
calls, and acknowledgements are served by `poll` and `flush` alone, as librdkafka serves them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from columnar_kafka.broker.base import TopicLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from columnar_kafka.broker.base import Acknowledge
    from columnar_kafka.columns.kafka import Headers

__all__ = ["MemoryConsumer", "MemoryKafka", "MemoryProducer", "record_size"]

_BATCH_BYTES: Final = 61  # the fields of a record batch
_RECORD_BYTES: Final = 21  # the most that a record's own fields take
_HEADER_BYTES: Final = 10  # the most that the two lengths of a header take


def record_size(key: bytes | None, value: Any, headers: Headers | None) -> int:
    """Return what a message alone in its batch takes on the wire, at most."""
    size = _BATCH_BYTES + _RECORD_BYTES + len(key or b"") + len(value or b"")
    for name, each in headers or ():
        size += _HEADER_BYTES + len(name.encode()) + len(each or b"")
    return size


class _Stored(NamedTuple):
    """What a partition holds of a message; its offset is its index."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp: int

    def message(
        self, topic: str, partition: int, offset: int, error: KafkaError | None = None
    ) -> Message:
        """Return it as a client sees it; every client gets an object of its own."""
        return Message(
            topic=topic,
            partition=partition,
            offset=offset,
            key=self.key,
            value=self.value,
            headers=None if self.headers is None else list(self.headers),
            error=error,
            timestamp=(TIMESTAMP_CREATE_TIME, self.timestamp),
            leader_epoch=0 if error is None else -1,
        )


def _stored(key: bytes | None, value: Any, headers: Headers | None, timestamp: int) -> _Stored:
    return _Stored(
        key,
        None if value is None else bytes(value),
        list(headers) if headers else None,
        timestamp or time.time_ns() // 1_000_000,
    )


@dataclass(slots=True)
class _Topic:
    partitions: list[list[_Stored]]
    compacted: bool
    max_message_bytes: int

    def refusal(self, stored: _Stored) -> KafkaError | None:
        """Return why the broker would not store this message, or None."""
        size = record_size(stored.key, stored.value, stored.headers)
        if size > self.max_message_bytes:
            return KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
        if self.compacted and stored.key is None:
            return KafkaError(KafkaError.INVALID_RECORD)
        return None


class MemoryKafka:
    """A cluster: what its topics hold, and what groups have committed. Thread-safe.

    A topic that was not created is unknown to its clients, until it is.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()  # guards everything below, and all of the clients
        self._topics: dict[str, _Topic] = {}
        self._committed: dict[tuple[str, str, int], TopicPartition] = {}

    def __repr__(self) -> str:
        topics = (f"{name}: {self.count(name)}" for name in self._topics)
        return f"<MemoryKafka messages by topic: {', '.join(topics) or 'no topics'}>"

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        compacted: bool = False,
        max_message_bytes: int = 1_048_588,
    ) -> None:
        """Create a topic, or change one: partitions are added, never taken away."""
        with self.changed:
            known = self._topics.get(topic)
            logs = known.partitions if known is not None else []
            logs += [[] for _ in range(partitions - len(logs))]
            self._topics[topic] = _Topic(logs, compacted, max_message_bytes)
            self.changed.notify_all()

    def messages(self, topic: str, partition: int = 0) -> list[Message]:
        """Return all that a partition holds, in order.

        Raises:
            KeyError, IndexError: there is no such partition.
        """
        with self.changed:
            log = list(self._topics[topic].partitions[partition])
        return [each.message(topic, partition, offset) for offset, each in enumerate(log)]

    def count(self, topic: str) -> int:
        """Return how many messages a topic holds."""
        with self.changed:
            return sum(map(len, self._topics[topic].partitions))

    def partitions(self, topic: str) -> int | None:
        """Return a topic's number of partitions, or None when it is unknown."""
        with self.changed:
            found = self._topics.get(topic)
            return None if found is None else len(found.partitions)

    def limits(self, topic: str) -> TopicLimits:
        """Return a topic's limits; nothing is known of an unknown one."""
        with self.changed:
            found = self._topics.get(topic)
            if found is None:
                return TopicLimits()
            return TopicLimits(len(found.partitions), found.compacted, found.max_message_bytes)

    def append(
        self,
        topic: str,
        partition: int = 0,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: int = 0,
    ) -> Message:
        """Store a message, sent by nobody; as a broker it may refuse: see the message's error."""
        return self._append(topic, partition, _stored(key, value, headers, timestamp))

    def _append(self, topic: str, partition: int, stored: _Stored) -> Message:
        with self.changed:
            log = self._log(topic, partition)
            if log is None:
                error: KafkaError | None = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            else:
                error = self._topics[topic].refusal(stored)
            if log is None or error is not None:
                return stored.message(topic, partition, OFFSET_INVALID, error)
            log.append(stored)
            self.changed.notify_all()
            return stored.message(topic, partition, len(log) - 1)

    def fetch(self, topic: str, partition: int, offset: int) -> Message | None:
        """Return the message at an offset, or None where there is none yet."""
        with self.changed:
            log = self._log(topic, partition) or []
            if offset >= len(log):
                return None
            return log[offset].message(topic, partition, offset)

    def end(self, topic: str, partition: int) -> int:
        """Return the offset that a partition's next message will get."""
        with self.changed:
            return len(self._log(topic, partition) or [])

    def _log(self, topic: str, partition: int) -> list[_Stored] | None:
        found = self._topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def committed(self, group: str, topic: str, partition: int) -> TopicPartition:
        """Return what a group has committed, with its metadata; an invalid offset for nothing."""
        with self.changed:
            found = self._committed.get((group, topic, partition))
            return TopicPartition(topic, partition) if found is None else _copy(found)

    def commit(self, group: str, offsets: Iterable[TopicPartition]) -> None:
        """Commit offsets with their metadata for a group."""
        with self.changed:
            for each in offsets:
                self._committed[group, each.topic, each.partition] = _copy(each)


class _Sent(NamedTuple):
    """A message on its way to the cluster; `fault` is what will become of it."""

    topic: str
    partition: int
    stored: _Stored
    acknowledge: Acknowledge
    fault: _Fault | None


class _Fault(NamedTuple):
    error: BufferError | KafkaError
    refused: bool
    stored: bool


class MemoryProducer:
    """Implements `ProducerBroker`. Thread-safe; acknowledges inside `poll` and `flush` only.

    A message reaches the cluster within `send`, unless it is held back. As in librdkafka, it takes
    its place in the queue until its acknowledgement was served.
    """

    def __init__(
        self, kafka: MemoryKafka, *, queue_messages: int = 100_000, message_max_bytes: int = 1 << 30
    ) -> None:
        self._kafka = kafka
        self._changed = kafka.changed  # guards everything below
        self._queue_messages = queue_messages
        self._message_max_bytes = message_max_bytes
        self._queue: deque[_Sent] = deque()
        self._acknowledged: deque[tuple[Acknowledge, Message]] = deque()
        self._faults: deque[_Fault] = deque()
        self._held = False

    def __repr__(self) -> str:
        held = " held" if self._held else ""
        return (
            f"<MemoryProducer {len(self._queue)} queued{held}, "
            f"{len(self._acknowledged)} acknowledgements to serve>"
        )

    def __len__(self) -> int:
        """Return the messages whose acknowledgement was not served yet."""
        return len(self._queue) + len(self._acknowledged)

    # --- faults ---------------------------------------------------------------------------------

    def refuse_next(self, error: KafkaError | None = None, *, count: int = 1) -> None:
        """Let the next sends raise: `error` as KafkaException, or BufferError without one."""
        fault = _Fault(error or BufferError("Local: Queue full"), refused=True, stored=False)
        with self._changed:
            self._faults.extend([fault] * count)

    def fail_next(self, error: KafkaError, *, count: int = 1, stored: bool = False) -> None:
        """Let the next messages be acknowledged with `error`; `stored` ones are in the topic."""
        with self._changed:
            self._faults.extend([_Fault(error, refused=False, stored=stored)] * count)

    def hold(self) -> None:
        """Keep what is sent from now on in the queue, neither stored nor acknowledged."""
        with self._changed:
            self._held = True

    def release(self, count: int | None = None) -> None:
        """Let what is held go, in order; with `count` only that many, and hold on."""
        with self._changed:
            self._held = count is not None
            for _ in range(len(self._queue) if count is None else min(count, len(self._queue))):
                self._deliver(self._queue.popleft())

    # --- what librdkafka does -------------------------------------------------------------------

    def send(
        self,
        topic: str,
        partition: int,
        value: Any,
        *,
        key: bytes | None,
        headers: Headers | None,
        timestamp: int,
        acknowledge: Acknowledge,
    ) -> None:
        """See `ProducerBroker.send`. The value is copied, a timestamp of 0 becomes now."""
        with self._changed:
            if len(self) >= self._queue_messages:
                raise BufferError("Local: Queue full")
            fault = self._faults.popleft() if self._faults else None
            if fault is not None and fault.refused:
                _raise(fault.error)
            if record_size(key, value, headers) > self._message_max_bytes:
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            known = self._kafka.partitions(topic)
            if known is not None and not 0 <= partition < known:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            stored = _stored(key, value, headers, timestamp)
            sent = _Sent(topic, partition, stored, acknowledge, fault)
            if self._held:
                self._queue.append(sent)
            else:
                self._deliver(sent)

    def _deliver(self, sent: _Sent) -> None:
        fault = sent.fault
        if fault is None:
            message = self._kafka._append(sent.topic, sent.partition, sent.stored)
        else:
            assert isinstance(fault.error, KafkaError)
            if fault.stored:
                self._kafka._append(sent.topic, sent.partition, sent.stored)
            message = sent.stored.message(sent.topic, sent.partition, OFFSET_INVALID, fault.error)
        self._acknowledged.append((sent.acknowledge, message))
        self._changed.notify_all()

    def poll(self, timeout: float) -> int:
        """See `ProducerBroker.poll`; waits until there is one, for ever when negative."""
        self._wait(lambda: bool(self._acknowledged), timeout)
        served = 0
        while (each := self._next_acknowledgement()) is not None:
            acknowledge, message = each
            served += 1
            acknowledge(message.error(), message)
        return served

    def _next_acknowledgement(self) -> tuple[Acknowledge, Message] | None:
        with self._changed:
            return self._acknowledged.popleft() if self._acknowledged else None

    def flush(self, timeout: float) -> int:
        """See `ProducerBroker.flush`; for ever when negative."""
        deadline = _deadline(timeout)
        while True:
            self.poll(0)
            left = deadline - time.monotonic()
            if not len(self) or left <= 0:
                return len(self)
            self._wait(lambda: bool(self._acknowledged), -1 if left == float("inf") else left)

    def purge(self) -> None:
        """Give up what is held; its acknowledgements say so."""
        error = _Fault(KafkaError(KafkaError._PURGE_QUEUE), refused=False, stored=False)
        with self._changed:
            while self._queue:
                self._deliver(self._queue.popleft()._replace(fault=error))

    def partitions(self, topic: str, timeout: float) -> int | None:
        """See `ProducerBroker.partitions`; answers at once."""
        return self._kafka.partitions(topic)

    def limits(self, topic: str, timeout: float) -> TopicLimits:
        """See `ProducerBroker.limits`; answers at once."""
        return self._kafka.limits(topic)

    def _wait(self, condition: Callable[[], bool], timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(condition, None if timeout < 0 else timeout)


class MemoryConsumer:
    """Implements `ConsumerBroker` for one member of a group, whose partitions are assigned by hand.

    Partitions without an offset begin where the group has committed, or at the first message.
    """

    def __init__(self, kafka: MemoryKafka, group: str = "group") -> None:
        self._kafka = kafka
        self._group = group
        self._changed = kafka.changed  # guards everything below
        self._next: dict[tuple[str, int], int] = {}  # the partition served longest ago is first
        self._paused: set[tuple[str, int]] = set()
        self._events: deque[Message] = deque()
        self._faults: deque[KafkaError] = deque()

    def __repr__(self) -> str:
        return (
            f"<MemoryConsumer of {self._group!r}: {len(self._next)} partitions, "
            f"{len(self._paused)} paused>"
        )

    # --- faults ---------------------------------------------------------------------------------

    def event(self, error: KafkaError) -> None:
        """Let `poll` return an error event before any message."""
        with self._changed:
            self._events.append(Message(error=error))
            self._changed.notify_all()

    def fail_next(self, error: KafkaError, *, count: int = 1) -> None:
        """Let the next calls of `committed` and synchronous `commit` raise; others do nothing."""
        with self._changed:
            self._faults.extend([error] * count)

    # --- the assignment -------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, from their offsets on; none is paused."""
        with self._changed:
            self._next = {(each.topic, each.partition): self._begin(each) for each in partitions}
            self._paused.clear()

    def seek(self, partition: TopicPartition) -> None:
        """Go on at another offset of a partition that is assigned.

        Raises:
            KafkaException: it is not.
        """
        key = partition.topic, partition.partition
        with self._changed:
            if key not in self._next:
                raise KafkaException(KafkaError(KafkaError._STATE))
            self._next[key] = self._begin(partition)

    def _begin(self, partition: TopicPartition) -> int:
        topic, number, offset = partition.topic, partition.partition, partition.offset
        if offset == OFFSET_END:
            return self._kafka.end(topic, number)
        if offset < 0 and offset != OFFSET_BEGINNING:
            offset = self._kafka.committed(self._group, topic, number).offset
        return max(0, offset)

    def assignment(self) -> list[TopicPartition]:
        """See `ConsumerBroker.assignment`."""
        with self._changed:
            return [TopicPartition(*key) for key in sorted(self._next)]

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """See `ConsumerBroker.pause`."""
        with self._changed:
            self._paused.update((each.topic, each.partition) for each in partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """See `ConsumerBroker.resume`."""
        with self._changed:
            self._paused.difference_update((each.topic, each.partition) for each in partitions)
            self._changed.notify_all()

    # --- messages -------------------------------------------------------------------------------

    def poll(self, timeout: float) -> Message | None:
        """See `ConsumerBroker.poll`: partitions take turns; for ever when `timeout` is negative."""
        with self._changed:
            found: Message | None = None

            def fetched() -> bool:
                nonlocal found
                found = self._fetch()
                return found is not None

            self._changed.wait_for(fetched, None if timeout < 0 else timeout)
            return found

    def _fetch(self) -> Message | None:
        if self._events:
            return self._events.popleft()
        for key, offset in self._next.items():
            message = None if key in self._paused else self._kafka.fetch(*key, offset)
            if message is not None:
                del self._next[key]
                self._next[key] = offset + 1
                return message
        return None

    # --- commits --------------------------------------------------------------------------------

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """See `ConsumerBroker.committed`; answers at once."""
        error = self._fault()
        if error is not None:
            raise KafkaException(error)
        return [
            self._kafka.committed(self._group, each.topic, each.partition) for each in partitions
        ]

    def commit(
        self, offsets: Sequence[TopicPartition], *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        """See `ConsumerBroker.commit`; done at once, also when asynchronous."""
        error = self._fault()
        if error is None:
            self._kafka.commit(self._group, offsets)
        elif not asynchronous:
            raise KafkaException(error)
        return None if asynchronous else [_copy(each) for each in offsets]

    def _fault(self) -> KafkaError | None:
        with self._changed:
            return self._faults.popleft() if self._faults else None


def _copy(each: TopicPartition) -> TopicPartition:
    if each.metadata is None:
        return TopicPartition(each.topic, each.partition, each.offset)
    return TopicPartition(each.topic, each.partition, each.offset, each.metadata)


def _raise(error: BufferError | KafkaError) -> None:
    raise error if isinstance(error, BufferError) else KafkaException(error)


def _deadline(timeout: float) -> float:
    return float("inf") if timeout < 0 else time.monotonic() + timeout
