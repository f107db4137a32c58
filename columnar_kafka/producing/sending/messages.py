"""Messages for Kafka: encoded segments, and plain messages that keep their place among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from columnar_kafka import position
from columnar_kafka.message import plain_message
from columnar_kafka.producing.accepting.item import Item
from columnar_kafka.producing.reporting.arrow_call import CallPart
from columnar_kafka.producing.reporting.outcome import (
    CallOutcome,
    FailedRecord,
    SilentOutcome,
    SingleOutcome,
    age,
)
from columnar_kafka.producing.reporting.report import OneRow, report_context
from columnar_kafka.segment.headers import HEADER_BYTES, message_bytes
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import RecordHeaders
    from columnar_kafka.producing.engine.base import Metadata, TopicFormat
    from columnar_kafka.producing.engine.record_block import Block
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall
    from columnar_kafka.producing.reporting.outcome import Outcome
    from columnar_kafka.producing.reporting.report import Callback
    from columnar_kafka.producing.segment_limits import SegmentLimits

__all__ = ["EncodedSegment", "Outgoing", "PlainMessage"]


@dataclass(slots=True, eq=False, kw_only=True)
class Outgoing(Item):
    """A message to be sent. `encoded_bytes`, with librdkafka's copy, is 0 once it is released."""

    topic_format: TopicFormat
    partition: int
    accepted_at: float
    charged_bytes: int
    encoded_bytes: int = 0

    @property
    def limits(self) -> SegmentLimits:
        """The limits of its topic."""
        return self.topic_format.limits

    @property
    def rows(self) -> int:
        """How many records it has."""
        return 1

    @property
    def nbytes(self) -> int:
        """Its size on the wire, at most."""
        raise NotImplementedError

    @property
    def stored(self) -> tuple[int, int, int]:
        """How many segments it is, how many records they have, and how many bytes."""
        return 0, 0, 0

    def content(self, now_ms: int) -> tuple[Any, bytes | None, Any, int]:
        """Return its value, key, headers and timestamp."""
        raise NotImplementedError

    def moved(self, segmenter: Any, error: KafkaError) -> Item | None:
        """Return what may go to another partition, as its own is gone; the rest of it fails."""
        raise NotImplementedError

    def halve(self, segmenter: Any) -> Iterator[Outgoing]:
        """Yield smaller messages with its records."""
        yield self

    def outcome(
        self, error: KafkaError | None, source: confluent_kafka.Message | None = None
    ) -> Outcome:
        """Return what became of it; `source` is librdkafka's, if it ever had the message."""
        raise NotImplementedError


@dataclass(slots=True, eq=False, kw_only=True)
class PlainMessage(Outgoing):
    """A plain message to a topic with a schema: it keeps its place among the segments."""

    value: Any
    key: bytes | None
    timestamp: int
    headers: RecordHeaders | None
    callback: Callback
    pinned: bool
    """Whether the user has chosen the partition."""

    @classmethod
    def of(
        cls,
        topic_format: TopicFormat,
        partition: int,
        value: bytes | None,
        metadata: Metadata,
        charged_bytes: int,
        accepted_at: float,
    ) -> PlainMessage:
        """Return the message of a value that is not to be a record."""
        key, timestamp, headers, callback, _ = metadata
        return cls(
            topic_format=topic_format,
            partition=partition,
            value=value,
            key=key,
            timestamp=timestamp,
            headers=headers,
            callback=callback,
            accepted_at=accepted_at,
            charged_bytes=charged_bytes,
            pinned=partition >= 0,
        )

    @property
    def nbytes(self) -> int:
        """See `Outgoing`."""
        return message_bytes(self.key, self.value, self.headers)

    def content(self, now_ms: int) -> tuple[Any, bytes | None, Any, int]:
        """See `Outgoing`."""
        return self.value, self.key, self.headers, self.timestamp

    def end_batches(self, open_batches: Any) -> None:
        """See `Item`: it chooses the partition, if that is known."""
        self.partition = open_batches.close(self.topic, self.partition, self.key)

    def place(self, accumulator: Any) -> None:
        """See `Item`: behind the open batch of the partition."""
        if self.partition < 0:
            accumulator.queue.end_batches(self)
        accumulator.line_up(self)

    def encode(self, segmenter: Any, ready: Any) -> bool:
        """See `Item`: librdkafka makes a copy."""
        self.encoded_bytes = self.nbytes
        segmenter.queue.usage.encode(self.encoded_bytes)
        ready.append(self)
        return True

    def moved(self, segmenter: Any, error: KafkaError) -> Item | None:
        """See `Outgoing`."""
        if self.pinned:
            segmenter.delivery.message_failed(self, error)
            return None
        segmenter.queue.usage.release_encoded(self)
        self.partition = -1
        return self

    def outcome(
        self, error: KafkaError | None, source: confluent_kafka.Message | None = None
    ) -> Outcome:
        """See `Outgoing`."""
        if source is not None:
            return SingleOutcome(plain_message(source), self.callback, error, self.charged_bytes)
        assert error is not None
        row = OneRow((self.value, self.key, self.timestamp, self.headers))
        failed = FailedRecord(
            self.topic, self.partition, row, error, self.callback, self.accepted_at
        )
        return failed.outcome(self.charged_bytes)


@dataclass(slots=True, eq=False, kw_only=True)
class EncodedSegment(Outgoing):
    """An encoded segment, until its records are reported.

    It has no `headers` and no `data` if the records were given up before they were encoded.
    `latest` is the latest time of a record.
    """

    block: Block
    headers: dict[str, bytes] | None = None
    latest: int = 0
    data: Any = b""
    call: ArrowCall | None = None

    @property
    def rows(self) -> int:
        """See `Outgoing`."""
        return len(self.block)

    @property
    def nbytes(self) -> int:
        """See `Outgoing`."""
        return len(self.data) + HEADER_BYTES

    @property
    def stored(self) -> tuple[int, int, int]:
        """See `Outgoing`."""
        return 1, len(self.block), len(self.data)

    def read(self) -> Segment:
        """Return the segment as a consumer reads it; it must have been encoded."""
        assert self.headers is not None
        return Segment(
            topic=self.topic,
            partition=self.partition,
            offset=0,
            headers=list(self.headers.items()),
            value=self.data,
        )

    def content(self, now_ms: int) -> tuple[Any, bytes | None, Any, int]:
        """See `Outgoing`."""
        # Retention works on it; a record from the future must not get its neighbours refused.
        latest = min(now_ms, self.latest)
        return self.data, None, self.headers, latest if latest > 0 else 1

    def moved(self, segmenter: Any, error: KafkaError) -> Any:
        """See `Outgoing`."""
        return segmenter.moved(self, error)

    def halve(self, segmenter: Any) -> Iterator[Outgoing]:
        """See `Outgoing`."""
        return segmenter.halve(self)  # type: ignore[no-any-return]

    def outcome(
        self, error: KafkaError | None, source: confluent_kafka.Message | None = None
    ) -> Outcome:
        """See `Outgoing`."""
        count = len(self.block)
        if self.block.is_silent and self.call is None:
            return SilentOutcome(count, self.charged_bytes, error)
        offset = source.offset() if source is not None and error is None else None
        if self.call is not None:
            last = None if offset is None else position.pack(offset, count - 1, count)
            part = CallPart(count, error, self.partition, last)
            return CallOutcome(self.call, part, self.charged_bytes)
        context = report_context(
            self.block,
            topic=self.topic,
            partition=self.partition,
            offset=offset,
            count=count,
            error=error,
            acknowledged=source,
            latency=age(self.accepted_at),
        )
        return self.block.outcome(context, error, self.charged_bytes)
