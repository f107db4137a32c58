"""The way of one partition's messages into librdkafka: in order, and never more than Kafka takes.

A topic's limit may be lowered while records are on their way. librdkafka sends several messages as
one batch, so one that is too large has all of its batch refused: each of them comes back, is tried
again alone, and only what is refused alone is cut. Until that is over, the messages behind wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.producing.accumulator import Sealed
    from columnar_kafka.producing.batch import EncodedSegment, PlainMessage

__all__ = ["PartitionQueue", "Rejected"]


@dataclass(slots=True, eq=False)
class Rejected:
    """A message that Kafka did not take because it, or what it was sent with, is too large."""

    item: EncodedSegment | PlainMessage
    nbytes: int
    error: KafkaError
    source: confluent_kafka.Message
    final: bool
    """It failed: in a transaction nothing is sent again. Only how large it was is of interest."""


class PartitionQueue:
    """Owned by the sender's thread; what is in flight `Delivery` takes out again."""

    def __init__(self) -> None:
        self.sealed: deque[Sealed] = deque()
        self.ready: deque[EncodedSegment | PlainMessage] = deque()  # encoded
        self.in_flight: deque[EncodedSegment | PlainMessage] = deque()  # librdkafka has them
        self.refusals: deque[Rejected] = deque()
        self.repairs: deque[EncodedSegment | PlainMessage] = (
            deque()
        )  # refused once; they go before the others
        self._repairing = False

    def __len__(self) -> int:
        """Return how much waits to be handed over."""
        return len(self.sealed) + len(self.ready) + len(self.repairs) + len(self.refusals)

    def may_send(self, item: EncodedSegment | PlainMessage) -> bool:
        """Say whether librdkafka may be given one more message of this partition.

        While there are repairs one message is on its way at a time; else the topic's window is.
        """
        if self.refusals:
            return False  # they go first
        if not self.in_flight:
            self._repairing = item.alone = bool(self.repairs)
            return True
        item.alone = False
        window = item.limits.window
        return not (self._repairing or self.repairs) and (
            window == float("inf")
            or sum(each.nbytes for each in list(self.in_flight)) + item.nbytes <= window
        )

    def repair(self, pieces: Iterable[EncodedSegment | PlainMessage], *, first: bool) -> None:
        """Send these before all that was never sent; `first` before the other repairs too."""
        if first:
            self.repairs.extendleft(reversed(list(pieces)))
        else:
            self.repairs.extend(pieces)

    def head(self) -> EncodedSegment | PlainMessage | None:
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
