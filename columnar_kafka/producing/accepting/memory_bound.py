"""The producer's memory bound: what accepted records take is counted against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from columnar_kafka.producing.reporting.outcome import Outcome

__all__ = ["HoldsEncoded", "PureUsage"]


class HoldsEncoded(Protocol):
    """A message that is encoded; 0 once its bytes are released."""

    encoded_bytes: int


class PureUsage:
    """The memory and the number of accepted records, against their bounds. For any thread.

    Between reading a count and writing it nothing is called, so no other thread comes in between.
    `accept` alone needs a lock, under which its caller has checked the bounds.
    """

    def __init__(self, max_bytes: int, max_records: int | None = None) -> None:
        self.max_bytes = max_bytes
        self.max_records = max_records
        self._half_bytes = max_bytes / 2
        self._half_records = float("inf") if max_records is None else max_records / 2
        self.bytes = 0
        self.records = 0
        self.encoded_bytes = 0
        self.accepts = False
        self.stops = 0

    @property
    def is_half_used(self) -> bool:
        """Whether half of a bound is used."""
        return self.bytes >= self._half_bytes or self.records >= self._half_records

    def accept(self, items: Any, item: Any, nbytes: int, records: int) -> bool:
        """Append an item and charge it: both or neither. The append is the only call.

        Return whether half of a bound is used since then.
        """
        was_half_used = self.bytes >= self._half_bytes or self.records >= self._half_records
        self.bytes += nbytes
        self.records += records
        items.append(item)
        return not was_half_used and (
            self.bytes >= self._half_bytes or self.records >= self._half_records
        )

    def charge(self, nbytes: int, records: int = 0) -> None:
        """Charge so many bytes and records more, or fewer."""
        self.bytes += nbytes
        self.records += records

    def release(self, held: Outcome) -> None:
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
        """Have every record checked from now on."""
        self.accepts = False
        self.stops += 1

    def resume(self, stops: int) -> None:
        """Accept records without that again, unless there was another stop since the `stops`-th."""
        self.accepts = stops == self.stops
