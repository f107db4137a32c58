"""The one memory bound of a producer, in bytes, and in records where the user set a count."""

from __future__ import annotations

import threading

__all__ = ["Budget"]


class Budget:
    """Counts what accepted records hold until they are reported. Any thread may call it."""

    def __init__(self, *, limit_bytes: int, limit_records: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.limit_records = limit_records
        self._lock = threading.Lock()  # guards the two counts
        self._bytes = 0
        self._records = 0

    def __repr__(self) -> str:
        return f"<Budget {self._bytes}/{self.limit_bytes} bytes, {self._records} records>"

    @property
    def used_bytes(self) -> int:
        """The bytes charged now."""
        return self._bytes

    @property
    def records(self) -> int:
        """The records accepted and not yet reported."""
        return self._records

    def take(self, nbytes: int, records: int = 1) -> bool:
        """Charge `records` of `nbytes` in all, or raise and charge nothing.

        Returns:
            Whether half of the bound is charged: time to seal what is open.

        Raises:
            BufferError: they do not fit now; they may after a `poll`.
        """
        with self._lock:
            # What is larger than the whole bound may pass alone: librdkafka would let it, and
            # its size limit, not this one, is what has to refuse it.
            if self._records and self._bytes + nbytes > self.limit_bytes:
                raise BufferError(
                    f"Local: Queue full: {self._bytes} bytes are buffered, this needs "
                    f"{nbytes}, queue.buffering.max.kbytes allows {self.limit_bytes} bytes; "
                    "poll() to serve delivery reports, or raise it"
                )
            if (
                self.limit_records is not None
                and self._records
                and self._records + records > self.limit_records
            ):
                raise BufferError(
                    f"Local: Queue full: {self._records} records are buffered, "
                    f"queue.buffering.max.messages allows {self.limit_records}; "
                    "poll() to serve delivery reports, or raise it"
                )
            self._bytes += nbytes
            self._records += records
            return 2 * self._bytes >= self.limit_bytes

    def adjust(self, nbytes: int) -> None:
        """Charge `nbytes` more (or fewer) for records already taken: their form changed."""
        with self._lock:
            self._bytes += nbytes

    def release(self, nbytes: int, records: int) -> None:
        """Give back what `records` reported records held."""
        with self._lock:
            self._bytes -= nbytes
            self._records -= records
