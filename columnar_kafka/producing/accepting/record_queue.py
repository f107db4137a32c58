"""The queue of accepted records: a record is rejected, or charged and queued, in one step.

A signal handler (Ctrl-C) may raise between any two calls of a user's thread. So a record is either
wholly in the queue or wholly outside after each call. Work that takes several steps is done by the
sender's thread, where no handler runs. Releasing memory may be repeated, and counts once.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka import native
from columnar_kafka.errors import produce_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.native._core import Usage
    from columnar_kafka.producing.sending.arrow_batch import Item

__all__ = ["RecordQueue"]

_MANY_ROWS: Final = 512
_MANY_BYTES: Final = 1 << 20
"""With so many the sender begins to convert, rather than when they are due."""
_NOW: Final = float("-inf")
_NEVER: Final = float("inf")


class HoldsRecords(Protocol):
    """Records whose reports run or have run; both numbers are 0 once they are released."""

    charged_bytes: int
    records: int

    @property
    def reported_records(self) -> int:
        """How many of `records` are reported already."""
        ...


class HoldsEncoded(Protocol):
    """A message that is encoded; 0 once its bytes are released."""

    encoded_bytes: int


class _Usage:
    """The memory and the number of accepted records, against their bounds."""

    def __init__(self, max_bytes: int, max_records: int | None) -> None:
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.bytes = 0
        self.records = 0
        self.encoded_bytes = 0
        self.accepts = False
        self.stops = 0

    def accept(self, items: deque[Item], item: Item, nbytes: int, records: int) -> None:
        """Append an item and charge it: both or neither. The append is the only call."""
        self.bytes += nbytes
        self.records += records
        items.append(item)

    def adjust(self, nbytes: int) -> None:
        """Charge so many bytes more, or fewer, for records that are accepted."""
        self.bytes += nbytes

    def release(self, held: HoldsRecords) -> None:
        """Give back what `held` has charged, and set that to 0: both, without a call."""
        self.bytes -= held.charged_bytes
        self.records -= held.records
        held.charged_bytes = held.records = 0

    def encode(self, nbytes: int) -> None:
        """Charge encoded bytes, which have a bound of their own."""
        self.encoded_bytes += nbytes

    def release_encoded(self, held: HoldsEncoded) -> None:
        """Give the encoded bytes of `held` back, and set them to 0: both, without a call."""
        self.encoded_bytes -= held.encoded_bytes
        held.encoded_bytes = 0

    def stop(self) -> None:
        """Do nothing: every record is checked."""

    def resume(self, stops: int) -> None:
        """Do nothing, as `stop`."""


_USAGE: Final[Any] = native.core.Usage if native.enabled else _Usage
"""The native core counts the records that it appends itself."""


class RecordQueue:
    """Owns accepted records until the sender takes them, and the memory bound. For any thread.

    Five eighths of the bound are for records: rows, columns, unpolled reports. Two are for encoded
    bytes and librdkafka's copy of them: when they are used up, the sender waits. The last eighth
    is for memory that is not counted: converting, encoding, and what allocators keep.
    """

    def __init__(
        self,
        *,
        limit_bytes: int,
        limit_records: int | None = None,
        segment_rows: int = _MANY_ROWS,
        linger: float = 0.0,
    ) -> None:
        """Bound the records' bytes and, if the user asks for it, their number.

        Waking the sender costs, so records stay here until the first one is `linger` seconds old,
        or until there are many: a full segment (`segment_rows`), or a quarter of a bound.
        """
        self.limit_bytes = limit_bytes
        self._encoded_limit = limit_bytes // 4
        self.usage: Usage = _USAGE(
            limit_bytes - self._encoded_limit - limit_bytes // 8, limit_records
        )
        self._linger = linger
        self._many_rows = min(_MANY_ROWS, segment_rows, max(1, (limit_records or 1 << 62) // 4))
        self._many_bytes = min(_MANY_BYTES, limit_bytes // 4)
        self._filled: deque[tuple[str, int]] = deque()
        # Reentrant, as a signal handler may produce too.
        self.lock = threading.RLock()  # guards the rest
        self._items: deque[Item] = deque()
        self._item_bytes = 0
        self._due_at = _NEVER  # when the sender has to take the items over
        self._sleeps_until = _NOW
        self._fills = False  # whether batches become full, so that the next one opens soon
        self._closed = False
        self._suspended = False
        self._allowed_threads: tuple[int, ...] = ()
        self._reporting: dict[HoldsRecords, None] = {}

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
        return self.usage.records - sum(each.reported_records for each in reporting)

    @property
    def under_pressure(self) -> bool:
        """Whether half of a bound is used, so that open batches should be sealed."""
        return 2 * self.usage.bytes >= self.usage.max_bytes or (
            self.usage.max_records is not None and 2 * self.usage.records >= self.usage.max_records
        )

    @property
    def may_encode(self) -> bool:
        """Whether there is room for more encoded bytes."""
        return self.usage.encoded_bytes <= self._encoded_limit

    def put(
        self, item: Item, nbytes: int, now: float, records: int = 1, *, urgent: bool = False
    ) -> bool:
        """Accept `records` that hold `nbytes` in all, or raise and charge nothing.

        The sender takes an `urgent` item over at once.

        Returns:
            Whether the sender has to be woken.

        Raises:
            BufferError: they do not fit now; they may after a `poll`.
            KafkaException: between `suspend` and `resume`.
            RuntimeError: after `close`.
        """
        usage = self.usage
        with self.lock:
            if (
                self._closed
                or self._suspended
                or usage.max_records is not None
                or usage.bytes + nbytes > usage.max_bytes
            ):  # or else it raises nothing, and a call costs as much as the rest
                self.check(nbytes, records)
            is_many = (
                len(self._items) + 1 >= self._many_rows
                or self._item_bytes + nbytes >= self._many_bytes
            )
            due_at = _NOW if urgent or is_many else now + self._linger
            if due_at < self._due_at:  # noqa: PLR1730 - as above
                self._due_at = due_at
            self._item_bytes += nbytes
            usage.accept(self._items, item, nbytes, records)  # one call: see above
        return due_at < self._sleeps_until

    def check(self, nbytes: int, records: int) -> None:
        """Raise as `put` does, which accepts what passes; the caller holds the lock."""
        if self._closed and threading.get_ident() not in self._allowed_threads:
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

    def open(self, place: Callable[[deque[Item]], bool], now: float) -> bool | None:
        """Accept a batch that goes on filling, after `check`; the caller holds the lock.

        `place` appends it to the queue as its last step, or returns False.

        Returns:
            Whether the sender has to be woken; None: `place` has not appended it.
        """
        due_at = now + self._linger
        self._due_at = min(self._due_at, due_at)
        return due_at < self._sleeps_until if place(self._items) else None

    def batch_filled(self, topic: str, partition: int) -> None:
        """Note that the native core may have filled a batch, which is in the queue or was."""
        self._filled.append((topic, partition))

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
            self._sleeps_until = min(until, self._due_at)
            return self._sleeps_until

    def take_filled(self) -> list[tuple[str, int]]:
        """Remove and return topics and partitions whose batches may be full."""
        found = [self._filled.popleft() for _ in range(len(self._filled))]
        self._fills = bool(found)
        return found

    def drain(self) -> deque[Item]:
        """Remove and return all items, in the order in which they were accepted."""
        with self.lock:
            items, self._items = self._items, deque()
            self._item_bytes, self._due_at, self._sleeps_until = 0, _NEVER, _NOW
            return items

    def adjust_charge(self, nbytes: int) -> None:
        """Charge `nbytes` more (or fewer) for accepted records: they have been converted."""
        self.usage.adjust(nbytes)

    def charge_encoded(self, nbytes: int) -> None:
        """Charge encoded bytes, our copy and librdkafka's."""
        self.usage.encode(nbytes)

    def release_encoded(self, message: HoldsEncoded) -> None:
        """Give a message's encoded bytes back."""
        self.usage.release_encoded(message)

    # --- reports --------------------------------------------------------------------------------

    def begin_reporting(self, records: HoldsRecords) -> None:
        """Count these as reported one by one; their memory stays charged."""
        self._reporting[records] = None

    def release_records(self, reported: HoldsRecords) -> None:
        """Give back the memory of records that are all reported."""
        self.usage.release(reported)
        self._reporting.pop(reported, None)
