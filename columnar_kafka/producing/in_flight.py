"""Messages on their way to Kafka, and the records and calls whose reports depend on them."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from columnar_kafka.segment.headers import HEADER_BYTES, message_bytes

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import RecordHeaders
    from columnar_kafka.producing.record_block import Block, Callback
    from columnar_kafka.producing.report import OneRow
    from columnar_kafka.producing.topic_format import SegmentLimits, TopicFormat

__all__ = [
    "ArrowCall",
    "Attempt",
    "CallPart",
    "EncodedSegment",
    "FailedRecord",
    "InFlight",
    "Outgoing",
    "PlainMessage",
    "Rejected",
]


@dataclass(slots=True, eq=False, kw_only=True)
class Outgoing:
    """A message to be sent. `encoded_bytes`, with librdkafka's copy, is 0 once it is released."""

    partition: int
    accepted_at: float
    charged_bytes: int
    encoded_bytes: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class PlainMessage(Outgoing):
    """A plain message to a topic with a schema: it keeps its place among the segments."""

    topic: str
    value: Any
    key: bytes | None
    timestamp: int
    headers: RecordHeaders | None
    callback: Callback
    limits: SegmentLimits
    pinned: bool
    """Whether the user has chosen the partition."""

    @property
    def nbytes(self) -> int:
        """Its size on the wire, at most."""
        return message_bytes(self.key, self.value, self.headers)


@dataclass(slots=True, eq=False, kw_only=True)
class EncodedSegment(Outgoing):
    """An encoded segment, until its records are reported.

    `headers` are None if the records were given up before they were encoded. `latest` is the latest
    time of a record.
    """

    topic_format: TopicFormat
    block: Block
    headers: dict[str, bytes] | None
    latest: int
    data: Any
    call: ArrowCall | None = None

    @property
    def topic(self) -> str:
        """Its topic."""
        return self.topic_format.topic

    @property
    def limits(self) -> SegmentLimits:
        """The limits of its topic."""
        return self.topic_format.limits

    @property
    def nbytes(self) -> int:
        """Its size on the wire, at most."""
        return len(self.data) + HEADER_BYTES


# --- sent, and not acknowledged yet ---------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Attempt:
    """One message handed to librdkafka once. `Delivery`'s.

    librdkafka puts error and message into `acknowledgement` without running a line of Python, which
    a signal's exception could interrupt. Once that has been `handled`, the attempt is over.
    """

    message: EncodedSegment | PlainMessage
    alone: bool
    """No other message of its partition is in flight with it, because some were rejected."""
    acknowledgement: dict[KafkaError | None, confluent_kafka.Message] = field(default_factory=dict)
    handled: bool = False


@dataclass(slots=True, eq=False)
class Rejected:
    """A message that Kafka did not accept: it, or the batch it was sent in, is too large.

    Or its partition is gone.
    """

    message: EncodedSegment | PlainMessage
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


# --- reports --------------------------------------------------------------------------------------


@dataclass(slots=True)
class FailedRecord:
    """A record that never becomes part of a segment. It is reported alone; its neighbours ship."""

    topic: str
    partition: int
    row: OneRow
    error: KafkaError
    callback: Callback
    accepted_at: float


class ArrowCall:
    """One `produce_arrow`: many records, one report. Any thread may call it."""

    def __init__(self, topic: str, records: int, callback: Callback) -> None:
        self.topic = topic
        self.records = records
        self.callback = callback
        self.failed = 0
        self.error: KafkaError | None = None
        self.partition = -1
        self.offset: int | None = None
        self._outstanding = records
        self._lock = threading.Lock()  # guards all but the first three, until the last part is done

    def part_done(self, part: CallPart) -> bool:
        """Count some of the records; the same part counts once, however often it is passed.

        Returns:
            Whether this was the last part, so that its caller has to report the call now.
        """
        with self._lock:
            if not part.counted:  # no call from here on: a signal's exception may come with it
                part.counted = True
                self._outstanding -= part.records
                if part.error is not None:
                    self.failed += part.records
                    self.error = self.error or part.error
                elif part.offset is not None:
                    self.partition, self.offset = part.partition, part.offset
                part.last = not self._outstanding
            return part.last


@dataclass(slots=True, eq=False)
class CallPart:
    """Some of a call's records that are stored or have failed; `offset` is the last's position."""

    records: int
    error: KafkaError | None
    partition: int
    offset: int | None
    counted: bool = False
    last: bool = False
