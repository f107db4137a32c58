"""A producer of the memory broker, with the faults and transactions of a real one."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message, TopicPartition

from columnar_kafka.testing.memory.cluster import Fault, MemoryKafka, copy_of
from columnar_kafka.testing.memory.log import Stored, Transaction, record_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from columnar_kafka.broker.base import Acknowledge, TopicLimits
    from columnar_kafka.columns.kafka_column import Headers

__all__ = ["MemoryProducer"]


class _Sent(NamedTuple):
    """A message on its way to the cluster; `fault` is what will become of it."""

    topic: str
    partition: int
    stored: Stored
    acknowledge: Acknowledge
    fault: Fault | None


class MemoryProducer:
    """Implements `ProducerBroker`. Thread-safe; acknowledges inside `poll` and `flush` only.

    A message reaches the cluster within `send`, unless it is held back. As in librdkafka, it takes
    its place in the queue until its acknowledgement was served.
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
        self._changed = kafka.changed  # guards everything below
        self._queue_messages = queue_messages
        self._message_max_bytes = message_max_bytes
        self._queue: deque[_Sent] = deque()
        self._acknowledged: deque[tuple[Acknowledge, Message]] = deque()
        self._faults: deque[Fault] = deque()
        self._held = False
        self._transactional_id = transactional_id
        self._state = "Init"  # librdkafka's names
        self._epoch = -1
        self._transaction: Transaction | None = None
        self._failed: KafkaError | None = None  # of the transaction's first message that did

    def __repr__(self) -> str:
        held = " held" if self._held else ""
        return (
            f"<MemoryProducer {len(self._queue)} queued{held}, "
            f"{len(self._acknowledged)} acknowledgements to serve>"
        )

    def __len__(self) -> int:
        """Return the messages whose acknowledgement was not served yet."""
        return len(self._queue) + len(self._acknowledged)

    @property
    def kafka(self) -> MemoryKafka:
        """The cluster it writes to."""
        return self._kafka

    # --- faults ---------------------------------------------------------------------------------

    def refuse_next(self, error: KafkaError | None = None, *, count: int = 1) -> None:
        """Let the next sends raise: `error` as KafkaException, or BufferError without one."""
        fault = Fault.refusal(error)
        with self._changed:
            self._faults.extend([fault] * count)

    def fail_next(self, error: KafkaError, *, count: int = 1, stored: bool = False) -> None:
        """Let the next messages be acknowledged with `error`; `stored` ones are in the topic."""
        with self._changed:
            self._faults.extend([Fault(error, stored=stored)] * count)

    def hold(self) -> None:
        """Keep what is sent from now on in the queue, neither stored nor acknowledged."""
        with self._changed:
            self._held = True

    @property
    def holds(self) -> bool:
        """Whether what is sent is kept, by this producer or all of them."""
        return self._held or self._kafka.held

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
            if self._transactional_id and (self._transaction is None or self._failed is not None):
                raise _failure(KafkaError._STATE, "Unable to produce message")
            if len(self) >= self._queue_messages:
                raise BufferError("Local: Queue full")
            faults = self._faults or self._kafka.faults
            fault = faults.popleft() if faults else None
            if fault is not None and fault.refused:
                _raise(fault.error)
            if record_size(key, value, headers) > self._message_max_bytes:
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            known = self.partitions(topic, 0)
            if known is not None and not 0 <= partition < known:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            stored = Stored.copy_of(key, value, headers, timestamp, self._transaction)
            sent = _Sent(topic, partition, stored, acknowledge, fault)
            if self.holds:
                self._queue.append(sent)
            else:
                self._deliver(sent)

    def _deliver(self, sent: _Sent) -> None:
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
        self._acknowledged.append((sent.acknowledge, message))
        self._changed.notify_all()

    def poll(self, timeout: float) -> int:
        """Serve callbacks, waiting until there is one, for ever when negative; return how many."""
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
        """Serve callbacks until nothing is queued, for ever when negative; return what is left."""
        deadline = _deadline(timeout)
        while True:
            self.poll(0)
            left = deadline - time.monotonic()
            if not len(self) or left <= 0:
                return len(self)
            self._wait(lambda: bool(self._acknowledged), -1 if left == float("inf") else left)

    def purge(self) -> None:
        """Give up what is held; its acknowledgements say so."""
        error = Fault(KafkaError(KafkaError._PURGE_QUEUE))
        with self._changed:
            while self._queue:
                self._deliver(self._queue.popleft()._replace(fault=error))

    def partitions(self, topic: str, timeout: float) -> int | None:
        """See `ProducerBroker.partitions`; answers at once."""
        self._kafka.create_missing(topic)
        return self._kafka.partitions(topic)

    def limits(self, topic: str, timeout: float) -> TopicLimits:
        """See `ProducerBroker.limits`; answers at once."""
        self._kafka.create_missing(topic)
        return self._kafka.limits(topic)

    # --- transactions ---------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Take the transactional id over: another producer's open transaction is aborted.

        Raises:
            KafkaException: no id is configured; this was done before.
        """
        with self._changed:
            self._require("Init")
            self._epoch = self._kafka.init_transactions(self._transactional_id or "")
            self._state = "Ready"

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises:
            KafkaException: it is not the time for it, or another producer has taken the id over.
        """
        with self._changed:
            self._require("Ready")
            self._transaction = self._kafka.begin_transaction(*self._identity())
            self._failed = None
            self._state = "InTransaction"

    def send_offsets(self, offsets: Iterable[TopicPartition], group_metadata: bytes) -> None:
        """Let a group's offsets be committed with the transaction.

        Raises:
            KafkaException: no transaction is open; or the consumer is no member any more, or
                of another generation: the transaction must be aborted.
        """
        group, member_id, generation = _parsed(group_metadata)
        with self._changed:
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
            self._transaction.offsets.append((group, [copy_of(each) for each in offsets]))

    def commit_transaction(self, timeout: float) -> None:
        """Serve all acknowledgements and commit; `timeout` is for what is held back.

        Raises:
            KafkaException: no transaction is open; messages are still held; one of them failed
                (`txn_requires_abort`); another producer has taken the id over (fatal).
        """
        with self._changed:
            self._require("InTransaction")
        if self.flush(timeout):
            raise _failure(KafkaError._TIMED_OUT, "Failed to commit", retriable=True)
        with self._changed:
            if self._failed is not None and not self._is_fenced():
                code, reason = self._failed.code(), self._failed.str()
                raise _failure(code, f"a message failed: {reason}", txn_requires_abort=True)
            self._end(aborted=False)

    def abort_transaction(self) -> None:
        """Give up what is held, serve all acknowledgements and abort.

        Raises:
            KafkaException: no transaction is open, or another producer has taken the id over.
        """
        with self._changed:
            self._require("InTransaction")
        self.purge()
        self.flush(-1)
        with self._changed:
            self._end(aborted=True)

    def close(self) -> None:
        """Abort an open transaction, and serve all acknowledgements.

        Raises:
            KafkaException: there is one, and another producer has taken the id over.
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
        with self._changed:
            self._changed.wait_for(condition, None if timeout < 0 else timeout)


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


def _deadline(timeout: float) -> float:
    return float("inf") if timeout < 0 else time.monotonic() + timeout
