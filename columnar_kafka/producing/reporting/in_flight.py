"""Messages that librdkafka has, or has given back."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.producing.sending.messages import Outgoing

__all__ = ["Attempt", "InFlight", "Rejected"]


class Attempt(dict["KafkaError | None", "confluent_kafka.Message"]):
    """One message handed to librdkafka once, and its acknowledgement. `Delivery`'s.

    librdkafka calls `setdefault` with error and message: that runs no line of Python, which a
    signal's exception could interrupt. Once that has been `handled`, the attempt is over.
    """

    __slots__ = ("alone", "handled", "message")
    message: Outgoing
    alone: bool
    """No other message of its partition is in flight with it, because some were rejected."""
    handled: bool


@dataclass(slots=True, eq=False)
class Rejected:
    """A message that Kafka did not accept: it, or the batch it was sent in, is too large.

    Or its partition is gone.
    """

    message: Outgoing
    alone: bool
    error: KafkaError
    source: confluent_kafka.Message
    final: bool
    """It has failed, and is not sent again. Only its size is of interest, and that it was lost."""


class InFlight:
    """The messages of one partition that librdkafka has, or has given back.

    `Delivery` alone adds attempts and ends them, under its lock, and adds to `rejected`. The
    sender's thread asks how much is in flight, and takes out what was rejected.
    """

    def __init__(self) -> None:
        self.attempts: deque[Attempt] = deque()
        self.rejected: deque[Rejected] = deque()

    def __len__(self) -> int:
        return len(self.attempts)

    @property
    def nbytes(self) -> int:
        """The size on the wire of all messages in flight, at most."""
        return sum(attempt.message.nbytes for attempt in list(self.attempts))
