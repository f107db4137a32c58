"""Messages for Kafka: encoded segments, and plain messages that keep their place among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from columnar_kafka.segment.headers import HEADER_BYTES, message_bytes

if TYPE_CHECKING:
    from columnar_kafka.columns.kafka_column import RecordHeaders
    from columnar_kafka.producing.engine.record_block import Block
    from columnar_kafka.producing.limits import SegmentLimits
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall
    from columnar_kafka.producing.reporting.report import Callback
    from columnar_kafka.producing.topic_formats import TopicFormat

__all__ = ["EncodedSegment", "Outgoing", "PlainMessage"]


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
