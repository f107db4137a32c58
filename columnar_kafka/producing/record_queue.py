"""The queue of accepted records: a record is rejected, or charged and queued, in one step.

A signal handler (Ctrl-C) may raise between any two calls of a user's thread. So a record is either
wholly in the queue or wholly outside after each call. Work that takes several steps is done by the
sender's thread, where no handler runs. Releasing memory may be repeated, and counts once.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.errors import produce_error

if TYPE_CHECKING:
    from columnar_kafka.producing.arrow_batch import Item

__all__ = ["RecordQueue"]

_GATHER_ROWS: Final = 512
_GATHER_SECONDS: Final = 0.02
_NOW: Final = float("-inf")


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
        segment_rows: int = _GATHER_ROWS,
        gather_seconds: float = _GATHER_SECONDS,
    ) -> None:
        """Bound the records' bytes and, if the user asks for it, their number.

        Waking the sender costs, so it takes over many records at once, or all there are after
        `gather_seconds`. A full segment (`segment_rows`) does not wait.
        """
        self.limit_bytes = limit_bytes
        self.limit_records = limit_records
        self._encoded_limit = limit_bytes // 4
        self._records_limit = limit_bytes - self._encoded_limit - limit_bytes // 8
        self._gather_rows = min(_GATHER_ROWS, segment_rows)
        self._gather_seconds = gather_seconds
        # Reentrant, as a signal handler may produce too.
        self._lock = threading.RLock()  # guards the rest
        self._items: deque[Item] = deque()
        self._first_at = 0.0
        self._closed = False
        self._suspended = False
        self._allowed_threads: tuple[int, ...] = ()
        self._bytes = 0
        self._records = 0
        self._encoded = 0
        self._reporting: dict[HoldsRecords, None] = {}

    def __repr__(self) -> str:
        return f"<RecordQueue {self.used_bytes}/{self.limit_bytes} bytes, {self._records} records>"

    @property
    def used_bytes(self) -> int:
        """The bytes charged now, encoded ones too."""
        return self._bytes + self._encoded

    @property
    def records(self) -> int:
        """The records accepted and not yet reported."""
        reporting = list(self._reporting)  # no lock: a report's callback may ask
        return self._records - sum(each.reported_records for each in reporting)

    @property
    def under_pressure(self) -> bool:
        """Whether half of a bound is used, so that open batches should be sealed."""
        return 2 * self._bytes >= self._records_limit or (
            self.limit_records is not None and 2 * self._records >= self.limit_records
        )

    @property
    def may_encode(self) -> bool:
        """Whether there is room for more encoded bytes."""
        return self._encoded <= self._encoded_limit

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
        with self._lock:
            if self._closed and threading.get_ident() not in self._allowed_threads:
                raise RuntimeError("Producer has been closed")
            if self._suspended and records:
                raise KafkaException(produce_error(KafkaError._STATE))
            # A record larger than the whole bound is accepted when there is no other: it is for
            # librdkafka's size limit to reject it, not for this one.
            if (
                records
                and self._records
                and (
                    self._bytes + nbytes > self._records_limit
                    or (
                        self.limit_records is not None
                        and self._records + records > self.limit_records
                        and self.records + records > self.limit_records
                    )
                )
            ):
                raise BufferError(self._full(nbytes, records))
            waiting = len(self._items)
            if urgent or not waiting:
                self._first_at = _NOW if urgent else now
            # No call between these: see above.
            self._bytes += nbytes
            self._records += records
            self._items.append(item)
        return urgent or not waiting or waiting + 1 >= self._gather_rows

    def _full(self, nbytes: int, records: int) -> str:
        advice = "poll() to serve delivery reports, or raise it"
        if self._bytes + nbytes > self._records_limit:
            return (
                f"Local: Queue full: {self._bytes} bytes are buffered, this needs {nbytes}, "
                f"queue.buffering.max.kbytes allows {self.limit_bytes} bytes, five eighths of it "
                f"for records; {advice}"
            )
        return (
            f"Local: Queue full: {self.records} records are buffered, this is {records} more, "
            f"queue.buffering.max.messages allows {self.limit_records}; {advice}"
        )

    def suspend(self) -> None:
        """Refuse records until `resume`: a transaction ends with those it has."""
        with self._lock:
            self._suspended = True

    def resume(self) -> None:
        """Accept records again."""
        self._suspended = False

    def close(self, *, allowed_threads: tuple[int, ...] = ()) -> None:
        """Refuse new records, except from the threads with the identifiers `allowed_threads`."""
        self._allowed_threads = allowed_threads
        self._closed = True

    # --- the sender's side ----------------------------------------------------------------------

    def due(self, now: float) -> float:
        """Return in how many seconds to call `drain`; inf while the queue is empty."""
        waiting = len(self._items)
        if not waiting:
            return float("inf")
        if waiting >= self._gather_rows:
            return 0.0
        return max(0.0, self._first_at + self._gather_seconds - now)

    def drain(self) -> deque[Item]:
        """Remove and return all items, in the order in which they were accepted."""
        with self._lock:
            items, self._items = self._items, deque()
            return items

    def adjust_charge(self, nbytes: int) -> None:
        """Charge `nbytes` more (or fewer) for accepted records: they have been converted."""
        with self._lock:
            self._bytes += nbytes

    def charge_encoded(self, nbytes: int) -> None:
        """Charge encoded bytes, our copy and librdkafka's."""
        with self._lock:
            self._encoded += nbytes

    def release_encoded(self, message: HoldsEncoded) -> None:
        """Give a message's encoded bytes back."""
        with self._lock:
            self._encoded -= message.encoded_bytes
            message.encoded_bytes = 0

    # --- reports --------------------------------------------------------------------------------

    def begin_reporting(self, records: HoldsRecords) -> None:
        """Count these as reported one by one; their memory stays charged."""
        self._reporting[records] = None

    def release_records(self, reported: HoldsRecords) -> None:
        """Give back the memory of records that are all reported."""
        with self._lock:
            self._bytes -= reported.charged_bytes
            self._records -= reported.records
            reported.charged_bytes = reported.records = 0
            self._reporting.pop(reported, None)
