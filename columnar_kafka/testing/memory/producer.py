"""A producer of the memory broker, with the faults and transactions of a real one."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from columnar_kafka.runtime.deadline import deadline_after
from columnar_kafka.segment.headers import message_bytes
from columnar_kafka.testing.memory.cluster import Fault, MemoryKafka, copy_of
from columnar_kafka.testing.memory.log import MemoryTransaction, StoredMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from columnar_kafka.broker.base import Acknowledge, TopicLimits
    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["MemoryProducer"]


class _SentMessage(NamedTuple):
    """A message on its way to the cluster, and the fault that it will meet."""

    topic: str
    partition: int
    stored: StoredMessage
    acknowledge: Acknowledge
    fault: Fault | None


class MemoryProducer:
    """Implements `ProducerBroker`. Thread-safe; acknowledges inside `poll` and `flush` only.

    A message reaches the cluster within `send`, unless it is held. As in librdkafka, it counts
    against the queue until its acknowledgement has been served.
    """

    def __init__(
        self,
        kafka: MemoryKafka,
        *,
        queue_messages: int = 100_000,
        message_max_bytes: int = 1 << 30,
        transactional_id: str | None = None,
    ) -> None:
        self._kafka = kafka
        self._lock, self._changed = kafka.lock, kafka.changed  # guards everything below
        self._queue_messages = queue_messages
        self._message_max_bytes = message_max_bytes
        self._queue: deque[_SentMessage] = deque()
        self._acknowledged: deque[tuple[Acknowledge, KafkaError | None, Message]] = deque()
        self._faults: deque[Fault] = deque()
        self._held = False
        self._transactional_id = transactional_id
        self._state = "Init"  # librdkafka's names
        self._epoch = -1
        self._transaction: MemoryTransaction | None = None
        self._failed: KafkaError | None = None  # of the transaction's first message that did

    def __repr__(self) -> str:
        held = " held" if self._held else ""
        return (
            f"<MemoryProducer {len(self._queue)} queued{held}, "
            f"{len(self._acknowledged)} acknowledgements to serve>"
        )

    def __len__(self) -> int:
        """Return how many messages have an acknowledgement that is not served yet."""
        return len(self._queue) + len(self._acknowledged)

    @property
    def kafka(self) -> MemoryKafka:
        """The cluster it writes to."""
        return self._kafka

    # --- faults ---------------------------------------------------------------------------------

    def refuse_next(self, error: KafkaError | None = None, *, count: int = 1) -> None:
        """Let the next sends raise: `error` as KafkaException, or BufferError without one."""
        fault = Fault.refusal(error)
        with self._lock:
            self._faults.extend([fault] * count)

    def fail_next(self, error: KafkaError, *, count: int = 1, stored: bool = False) -> None:
        """Let the next messages be acknowledged with `error`; `stored` ones are in the topic."""
        with self._lock:
            self._faults.extend([Fault(error, stored=stored)] * count)

    def hold(self) -> None:
        """Keep messages in the queue from now on, neither stored nor acknowledged."""
        with self._lock:
            self._held = True

    @property
    def holds(self) -> bool:
        """Whether messages are held, by this producer or the whole cluster."""
        return self._held or self._kafka.held

    def release(self, count: int | None = None) -> None:
        """Send the held messages in order; with `count` only that many, and go on holding."""
        with self._lock:
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
        headers: RecordHeaders | dict[str, bytes] | None,
        timestamp: int,
        acknowledge: Acknowledge,
    ) -> None:
        """See `ProducerBroker.send`. The value is copied, a timestamp of 0 becomes now."""
        with self._lock:
            if self._transactional_id and (self._transaction is None or self._failed is not None):
                raise _failure(KafkaError._STATE, "Unable to produce message")
            if len(self) >= self._queue_messages:
                raise BufferError("Local: Queue full")
            faults = self._faults or self._kafka.faults
            fault = faults.popleft() if faults else None
            if fault is not None and fault.refused:
                _raise(fault.error)
            if message_bytes(key, value, headers) > self._message_max_bytes:
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            known = self.partitions(topic, 0)
            if known is not None and not 0 <= partition < known:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            stored = StoredMessage.copy_of(key, value, headers, timestamp, self._transaction)
            sent = _SentMessage(topic, partition, stored, acknowledge, fault)
            if self.holds:
                self._queue.append(sent)
            else:
                self._deliver(sent)

    def _deliver(self, sent: _SentMessage) -> None:
        fault = sent.fault
        if fault is None and sent.stored.transaction is not None and self._is_fenced():
            fault = Fault(KafkaError(KafkaError._FENCED))
        if fault is None:
            message = self._kafka.store(sent.topic, sent.partition, sent.stored)
        else:
            assert isinstance(fault.error, KafkaError)
            if fault.stored:
                self._kafka.store(sent.topic, sent.partition, sent.stored)
            message = sent.stored.message(sent.topic, sent.partition, OFFSET_INVALID, fault.error)
        if self._failed is None:
            self._failed = message.error()
        self._acknowledged.append((sent.acknowledge, message.error(), message))
        self._changed.notify_all()

    def poll(self, timeout: float) -> int:
        """Serve acknowledgements; return how many. Waits for the first, for ever when negative."""
        self._wait(lambda: bool(self._acknowledged), timeout)
        served = 0
        while True:
            # Only where a function is called, or a loop begins again, another thread can run, or a
            # handler: here, as in librdkafka, once the acknowledgement has been handed over.
            if not self._acknowledged:
                break
            acknowledge, error, message = self._acknowledged[0]
            del self._acknowledged[0]
            acknowledge(error, message)
            served += 1
        return served

    def flush(self, timeout: float) -> int:
        """Serve acknowledgements until none is outstanding; return how many messages still are.

        It waits for `timeout` seconds at most, for ever when negative.
        """
        deadline = deadline_after(timeout)
        while True:
            self.poll(0)
            left = deadline - time.monotonic()
            if not len(self) or left <= 0:
                return len(self)
            self._wait(lambda: bool(self._acknowledged), left)

    def purge(self) -> None:
        """Drop the held messages; their acknowledgements carry _PURGE_QUEUE."""
        error = Fault(KafkaError(KafkaError._PURGE_QUEUE))
        with self._lock:
            while self._queue:
                self._deliver(self._queue.popleft()._replace(fault=error))

    def partitions(self, topic: str, timeout: float) -> int | None:
        """See `ProducerBroker.partitions`; answers at once."""
        self._kafka.create_missing(topic)
        return self._kafka.partitions(topic)

    def newest(self, topic: str, count: int, timeout: float) -> list[Message]:
        """See `ProducerBroker.newest`; answers at once."""
        partitions = range(self.partitions(topic, 0) or 0)
        return [
            message
            for number in partitions
            for message in self._kafka.messages(topic, number)[-count:]
        ]

    def limits(self, topic: str, timeout: float) -> TopicLimits:
        """See `ProducerBroker.limits`; answers at once."""
        self._kafka.create_missing(topic)
        return self._kafka.limits(topic)

    # --- transactions ---------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Take over the transactional id: another producer's open transaction is aborted.

        Raises:
            KafkaException: no id is configured, or this was called before.
        """
        with self._lock:
            self._require("Init")
            self._epoch = self._kafka.init_transactions(self._transactional_id or "")
            self._state = "Ready"

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises:
            KafkaException: not initialized; one is open already; another producer took over the id.
        """
        with self._lock:
            self._require("Ready")
            self._transaction = self._kafka.begin_transaction(*self._identity())
            self._failed = None
            self._state = "InTransaction"

    def send_offsets(self, offsets: Iterable[TopicPartition], group_metadata: bytes) -> None:
        """Add a group's offsets to the transaction.

        Raises:
            KafkaException: no transaction is open; or the consumer has left the group or is of
                another generation, and the transaction must be aborted.
        """
        group, member_id, generation = _parsed(group_metadata)
        with self._lock:
            self._require("InTransaction")
            assert self._transaction is not None
            member = self._kafka.group(group).member(member_id)
            code = None
            if member_id and member is None:
                code = KafkaError.UNKNOWN_MEMBER_ID
            elif member is not None and member.generation != generation:
                code = KafkaError.ILLEGAL_GENERATION
            if code is not None:
                self._failed = KafkaError(code, txn_requires_abort=True)
                raise KafkaException(self._failed)
            self._transaction.offsets.append((group, [copy_of(offset) for offset in offsets]))

    def commit_transaction(self, timeout: float) -> None:
        """Serve all acknowledgements and commit; wait `timeout` seconds for held messages.

        Raises:
            KafkaException: no transaction is open; messages are still held; one of them failed
                (`txn_requires_abort`); another producer has taken the id over (fatal).
        """
        with self._lock:
            self._require("InTransaction")
        if self.flush(timeout):
            raise _failure(KafkaError._TIMED_OUT, "Failed to commit", retriable=True)
        with self._lock:
            if self._failed is not None and not self._is_fenced():
                code, reason = self._failed.code(), self._failed.str()
                raise _failure(code, f"a message failed: {reason}", txn_requires_abort=True)
            self._end(aborted=False)

    def abort_transaction(self) -> None:
        """Drop held messages, serve all acknowledgements and abort.

        Raises:
            KafkaException: no transaction is open, or another producer has taken the id over.
        """
        with self._lock:
            self._require("InTransaction")
        self.purge()
        self.flush(-1)
        with self._lock:
            self._end(aborted=True)

    def close(self) -> None:
        """Abort an open transaction, and serve all acknowledgements.

        Raises:
            KafkaException: a transaction is open, and another producer took over the id.
        """
        if self._state == "InTransaction":
            self.abort_transaction()
        self.flush(-1)

    def _end(self, *, aborted: bool) -> None:
        self._kafka.end_transaction(*self._identity(), aborted=aborted)
        self._transaction = None
        self._state = "Ready"

    def _identity(self) -> tuple[str, int]:
        return self._transactional_id or "", self._epoch

    def _is_fenced(self) -> bool:
        return self._kafka.is_fenced(*self._identity())

    def _require(self, state: str) -> None:
        if not self._transactional_id:
            raise _failure(
                KafkaError._NOT_CONFIGURED,
                "The Transactional API requires transactional.id to be configured",
            )
        if self._state != state:
            raise _failure(KafkaError._STATE, f"Operation not valid in state {self._state}")

    def _wait(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = deadline_after(timeout)
        while True:
            with self._lock:
                left = deadline - time.monotonic()
                if condition() or left <= 0:
                    return
                change = self._changed.expect()
            self._changed.wait(change, left)


def _raise(error: BufferError | KafkaError) -> None:
    raise error if isinstance(error, BufferError) else KafkaException(error)


def _parsed(group_metadata: bytes) -> tuple[str, str, int]:
    """Return a consumer's group, member id and generation."""
    try:
        group, member, generation = group_metadata.decode().split("\0")
        return group, member, int(generation)
    except ValueError as error:
        raise _failure(KafkaError._BAD_MSG, "not the metadata of a consumer on memory") from error


def _failure(code: int, reason: str, **kind: bool) -> KafkaException:
    return KafkaException(KafkaError(code, reason, **kind))
