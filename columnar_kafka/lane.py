"""The way of one partition's messages into librdkafka: in order, and never more than Kafka takes.

A topic's limit may be lowered while records are on their way. librdkafka sends several messages as
one batch, so one that is too large has all of its batch refused: each of them comes back, is tried
again alone, and only what is refused alone is cut. Until that is over, the messages behind wait.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.accumulator import Sealed
    from columnar_kafka.batch import InFlight, Plain

__all__ = ["Lane", "Refusal"]


@dataclass(slots=True, eq=False)
class Refusal:
    """A message that Kafka did not take because it, or what it was sent with, is too large."""

    item: InFlight | Plain
    error: KafkaError
    source: confluent_kafka.Message
    alone: bool


class Lane:
    """Owned by the sender's thread; `returned` and `refused` may be called from any thread."""

    def __init__(self) -> None:
        self.sealed: deque[Sealed] = deque()
        self.ready: deque[InFlight | Plain] = deque()  # encoded
        self.repairs: deque[InFlight | Plain] = deque()  # refused once; they go before the others
        self.refusals: deque[Refusal] = deque()
        self._lock = threading.Lock()  # guards the rest
        self._in_flight = 0
        self._bytes = 0
        self._repairing = False
        self._alone = False
        self._blocked = False

    def __len__(self) -> int:
        """Return how much waits to be handed over."""
        return len(self.sealed) + len(self.ready) + len(self.repairs) + len(self.refusals)

    def try_begin(self, nbytes: int, window: float) -> bool:
        """Count one more message that librdkafka is given, or say that it has to wait.

        While there are repairs one message is on its way at a time; else `window` bytes are.
        """
        with self._lock:
            if self.refusals:
                return False  # they go first
            if not self._in_flight:
                self._alone = self._repairing = bool(self.repairs)
            elif self._repairing or self._bytes + nbytes > window:
                self._blocked = True
                return False
            self._in_flight += 1
            self._bytes += nbytes
            return True

    def returned(self, nbytes: int) -> bool:
        """Count one fewer; return whether others waited for that."""
        with self._lock:
            self._in_flight -= 1
            self._bytes -= nbytes
            blocked, self._blocked = self._blocked, False
            return blocked

    def refused(
        self,
        item: InFlight | Plain,
        nbytes: int,
        error: KafkaError,
        source: confluent_kafka.Message,
    ) -> None:
        """Take a message back, to be tried again."""
        with self._lock:
            self.refusals.append(Refusal(item, error, source, alone=self._alone))
            self._repairing = True
            self._in_flight -= 1
            self._bytes -= nbytes

    def repair(self, pieces: Iterable[InFlight | Plain], *, first: bool) -> None:
        """Send these before all that was never sent; `first` before the other repairs too."""
        if first:
            self.repairs.extendleft(reversed(list(pieces)))
        else:
            self.repairs.extend(pieces)

    def head(self) -> InFlight | Plain | None:
        """Return the encoded message that goes next."""
        queue = self.repairs or self.ready
        return queue[0] if queue else None

    def pop(self) -> None:
        """Take `head` out."""
        (self.repairs or self.ready).popleft()

    def oldest(self) -> float:
        """Return since when the message that goes next is on its way."""
        item = self.head() or (self.sealed[0] if self.sealed else None)
        return float("inf") if item is None else item.since
