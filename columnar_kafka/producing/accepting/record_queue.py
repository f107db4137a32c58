"""The queue of accepted records: a record is rejected, or charged and queued, in one step.

It goes to the open batch of its partition. Batches stand in the queue from when they are opened,
so the order of batches, plain messages, Arrow data and schemas is the queue's.

A signal handler (Ctrl-C) may raise between any two calls of a user's thread. So a record is either
wholly in the queue or wholly outside after each call. Work that takes several steps is done by the
sender's thread, where no handler runs. Releasing memory may be repeated, and counts once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.errors import produce_error
from columnar_kafka.producing.accepting.record import Record
from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.producing.shared import shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.native._core import OpenBatches, Usage
    from columnar_kafka.producing.accepting.item import Item
    from columnar_kafka.producing.engine.base import Batch, Metadata, TopicFormat
    from columnar_kafka.producing.reporting.outcome import Outcome

__all__ = ["RecordQueue"]

_NOW: Final = float("-inf")
_NEVER: Final = float("inf")


class RecordQueue:
    """Owns the open batches, accepted records until the sender takes them, and the memory bound.

    For any thread. It alone knows which partition is next for records without a key.

    Five eighths of the bound are for records: rows, columns, unpolled reports. Two are for encoded
    bytes and librdkafka's copy of them: when they are used up, the sender waits. The last eighth
    is for memory that is not counted: converting, encoding, and what allocators keep.
    """

    def __init__(
        self,
        *,
        limit_bytes: int,
        limit_records: int | None = None,
        linger: float = 0.0,
        partitioner: Partitioner | None = None,
        on_delivery: Callable[..., Any] | None = None,
    ) -> None:
        """Bound the records' bytes and, if the user asks for it, their number.

        Waking the sender costs, so records stay here until the first one is `linger` seconds old.
        The native core's door gives records the callback `on_delivery` that have none.
        """
        self.limit_bytes = limit_bytes
        self._encoded_limit = limit_bytes // 4
        make = shared()
        self.usage: Usage = make.usage(
            limit_bytes - self._encoded_limit - limit_bytes // 8, limit_records
        )
        self.open_batches: OpenBatches = make.open_batches(
            self.usage,
            partitioner or Partitioner("consistent_random"),
            self.batch_filled,
            self._open_natively,
            on_delivery,
        )
        self.wake: Callable[[], None] = _nobody_sleeps
        """Wakes the sender, which sets it; never blocks."""
        self._linger = linger
        self._filled: deque[tuple[str, int]] = deque()
        # Reentrant, as a signal handler may produce too.
        self.lock = threading.RLock()  # guards the rest
        self._items: deque[Item] = deque()
        self._due_at = _NEVER  # when the sender has to take the items over
        self.sleeps_until = _NOW
        self._fills = False  # whether batches become full, so that the next one opens soon
        self._closed = False
        self._suspended = False
        self._allowed_threads: tuple[int, ...] = ()
        self._reporting: dict[Outcome, None] = {}

    def __repr__(self) -> str:
        used, records = self.used_bytes, self.usage.records
        return f"<RecordQueue {used}/{self.limit_bytes} bytes, {records} records>"

    @property
    def used_bytes(self) -> int:
        """The bytes charged now, encoded ones too."""
        return self.usage.bytes + self.usage.encoded_bytes

    @property
    def records(self) -> int:
        """The records accepted and not yet reported."""
        reporting = list(self._reporting)  # no lock: a report's callback may ask
        return self.usage.records - sum(outcome.reported_records for outcome in reporting)

    @property
    def may_encode(self) -> bool:
        """Whether there is room for more encoded bytes."""
        return self.usage.encoded_bytes <= self._encoded_limit

    # --- accepting ------------------------------------------------------------------------------

    def accept(
        self,
        topic_format: TopicFormat,
        partition: int,
        values: tuple[Any, ...],
        metadata: Metadata,
        nbytes: int,
        now: float,
        produced: tuple[Any, ...] | None = None,
    ) -> None:
        """Append a record to the open batch of its partition, or raise and charge nothing.

        It waits in the queue where there can be no batch: while the number of partitions is
        unknown, under an earlier schema, or if the topic's engine does not take it. It is tried
        with `values` as they were `produced`, and then of builtin classes.

        Raises:
            BufferError, KafkaException, RuntimeError: as `put`.
        """
        usage = self.usage
        try:
            with self.lock:
                if (
                    not usage.accepts
                    or usage.max_records is not None
                    or usage.bytes + nbytes > usage.max_bytes
                ):  # or else it raises nothing
                    self.check(nbytes, 1)
                batch = self._batch(topic_format, partition, metadata[0], now)
                look = None
                if batch is not None:
                    look = batch.append(values, metadata, nbytes, usage, pinned=partition >= 0)
                if batch is None or (look is None and produced is not None):
                    values = values if produced is None else produced
                    record = Record(topic_format, partition, values, metadata, nbytes, now)
                    self.put(record, nbytes, now)
                    return
            if look is None:  # the lock is not held here: it may be the user's code
                builtin = topic_format.columns.builtin(values)
                self.accept(topic_format, partition, builtin, metadata, nbytes, now, values)
            elif look:
                self.batch_filled(batch.topic, batch.partition)
        except BaseException:  # there is no room; or a signal's, and the record may be in already
            self.wake()
            raise

    def _batch(
        self, topic_format: TopicFormat, partition: int, key: bytes | None, now: float
    ) -> Batch | None:
        """Return the open batch for a record; a new one wakes a sender that would sleep too long.

        It wakes before the first record is in: that one may be refused, and later ones wake nobody.
        The result is None if the partition is unknown, or the topic has another schema by now. The
        caller holds the lock, and has checked that records are accepted.
        """
        topic, open_batches = topic_format.topic, self.open_batches
        while (place := open_batches.find(topic, partition, key, topic_format)) is not None:
            chosen, batch = place
            if batch is None:
                return self.open_batch(topic_format, chosen, now)
            if not batch.is_full:
                return batch  # type: ignore[no-any-return]
            open_batches.let_go(topic, chosen, batch)
        return None

    def open_batch(self, topic_format: TopicFormat, partition: int, now: float) -> Batch | None:
        """Put a new batch into the queue and return it, under the lock; None as `_batch`."""
        batch = topic_format.engine.open_batch(topic_format, partition, now)
        due_at = now + self._linger
        self._due_at = min(self._due_at, due_at)
        is_open = self.open_batches.open(
            topic_format.topic, partition, topic_format, batch, batch.core, self._items
        )
        if due_at < self.sleeps_until:
            self.wake()
        return batch if is_open else None

    def _open_natively(self, topic_format: TopicFormat, partition: int) -> bool:
        """Open a batch for the native core's door; False: Python has to look at a record."""
        try:
            with self.lock:
                if self._closed or self._suspended:
                    return False
                batch = self._batch(topic_format, partition, None, time.monotonic())
                return batch is not None and batch.core is not None
        except BaseException:  # a signal's: the batch may be open already
            self.wake()
            raise

    def batch_filled(self, topic: str, partition: int) -> None:
        """Have the sender look: a batch, or a part of it, is full, or half of a bound is used."""
        self._filled.append((topic, partition))
        self.wake()

    def put(
        self, item: Item, nbytes: int, now: float, records: int = 1, *, urgent: bool = False
    ) -> None:
        """Accept `records` that hold `nbytes` in all, or raise and charge nothing.

        The records behind them go to other batches. The sender takes an `urgent` item over at once.

        Raises:
            BufferError: they do not fit now; they may after a `poll`.
            KafkaException: between `suspend` and `resume`.
            RuntimeError: after `close`.
        """
        try:
            with self.lock:
                self.check(nbytes, records)
                item.end_batches(self.open_batches)
                due_at = _NOW if urgent else now + self._linger
                self._due_at = min(self._due_at, due_at)
                self.usage.accept(self._items, item, nbytes, records)  # one call: see above
        except BaseException:  # there is no room; or a signal's, and it may be in already
            self.wake()
            raise
        if due_at < self.sleeps_until:
            self.wake()

    def check(self, nbytes: int, records: int) -> None:
        """Raise as `put` does, which accepts what passes; the caller holds the lock."""
        if records and self._closed and threading.get_ident() not in self._allowed_threads:
            raise RuntimeError("Producer has been closed")
        if self._suspended and records:
            raise KafkaException(produce_error(KafkaError._STATE))
        # A record larger than the whole bound is accepted when there is no other: it is for
        # librdkafka's size limit to reject it, not for this one.
        if (
            records
            and self.usage.records
            and (
                self.usage.bytes + nbytes > self.usage.max_bytes
                or (
                    self.usage.max_records is not None
                    and self.usage.records + records > self.usage.max_records
                    and self.records + records > self.usage.max_records
                )
            )
        ):
            raise BufferError(self._full(nbytes, records))

    def _full(self, nbytes: int, records: int) -> str:
        advice = "poll() to serve delivery reports, or raise it"
        if self.usage.bytes + nbytes > self.usage.max_bytes:
            return (
                f"Local: Queue full: {self.usage.bytes} bytes are buffered, this needs {nbytes}, "
                f"queue.buffering.max.kbytes allows {self.limit_bytes} bytes, five eighths of it "
                f"for records; {advice}"
            )
        return (
            f"Local: Queue full: {self.records} records are buffered, this is {records} more, "
            f"queue.buffering.max.messages allows {self.usage.max_records}; {advice}"
        )

    def suspend(self) -> None:
        """Refuse records until `resume`: a transaction ends with those it has."""
        with self.lock:
            self._suspended = True
            self.usage.stop()

    def resume(self) -> None:
        """Accept records again."""
        self._suspended = False

    def close(self, *, allowed_threads: tuple[int, ...] = ()) -> None:
        """Refuse new records, except from the threads with the identifiers `allowed_threads`."""
        self._allowed_threads = allowed_threads
        self._closed = True
        self.usage.stop()

    @property
    def accepts(self) -> bool:
        """Whether records are accepted from any thread."""
        return not (self._closed or self._suspended)

    # --- the sender's side ----------------------------------------------------------------------

    def sleep(self, now: float, until: float) -> float:
        """Return until when the sender may sleep, which has nothing else to do before `until`.

        From now on until `drain`, what is due earlier than that wakes it; nothing else does.
        """
        with self.lock:
            if self._fills:  # not to be woken when the next batch opens, and again when it is full
                until = min(until, now + self._linger)
            self.sleeps_until = min(until, self._due_at)
            return self.sleeps_until

    def take_filled(self) -> list[tuple[str, int]]:
        """Remove and return topics and partitions whose batches may be full."""
        batch = [self._filled.popleft() for _ in range(len(self._filled))]
        self._fills = bool(batch)
        return batch

    def drain(self) -> deque[Item]:
        """Remove and return all items, in the order in which they were accepted."""
        with self.lock:
            items, self._items = self._items, deque()
            self._due_at, self.sleeps_until = _NEVER, _NOW
            return items

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Put a topic's records into batches of so many partitions; 0: they wait."""
        with self.lock:
            self.open_batches.set_partitions(topic, partitions)

    def choose(self, topic: str, key: bytes | None) -> int:
        """Return the partition of a record that waited for the number of partitions."""
        with self.lock:
            place = self.open_batches.find(topic, -1, key)
        assert place is not None, "the number of partitions is known"
        return place[0]

    def end_batches(self, item: Item) -> None:
        """Have the records behind an item that has waited go to other batches."""
        with self.lock:
            item.end_batches(self.open_batches)

    def seal(self, batch: Batch) -> None:
        """End a batch: nothing is appended any more. What fails may be tried again."""
        with self.lock:
            self.open_batches.let_go(batch.topic_format.topic, batch.partition, batch)
            batch.seal()

    # --- reports --------------------------------------------------------------------------------

    def begin_reporting(self, records: Outcome) -> None:
        """Count these as reported one by one; their memory stays charged."""
        self._reporting[records] = None

    def release_records(self, reported: Outcome) -> None:
        """Give back the memory of records that are all reported."""
        self.usage.release(reported)
        self._reporting.pop(reported, None)


def _nobody_sleeps() -> None:
    """Do nothing: there is no sender yet."""
