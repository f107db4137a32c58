"""A batch's life: open, sealed, encoded, in flight, and then its records' reports.

While a batch is open its records sit in chunks; full chunks become columns early, so that a bad
row is found soon, memory stays small and sealing is not a pause. Sealed, its columns are encoded
and go out as one segment (or more, where one would be too large).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.kafka_column import Headers
from columnar_kafka.producing.record_block import Callback, RecordBlock
from columnar_kafka.producing.report import OneRow
from columnar_kafka.segment.headers import HEADER_BYTES, message_bytes

if TYPE_CHECKING:
    import confluent_kafka

    from columnar_kafka.columns.protocol import Builder
    from columnar_kafka.producing.topic_format import SegmentLimits, TopicFormat
    from columnar_kafka.segment.headers import SegmentHeader

__all__ = [
    "ArrowCall",
    "Batch",
    "Chunk",
    "EncodedSegment",
    "FailedRecord",
    "Others",
    "Outgoing",
    "Part",
    "PlainMessage",
    "Record",
]

Others = tuple[bytes | None, int, Headers | None, Callback]
"""What a record has besides its values: key, timestamp, headers, callback."""


Record = tuple["TopicFormat", int, tuple[Any, ...], Others, int, float]
"""One accepted record: how it was taken, partition or -1, values, the rest, bytes, since when."""


@dataclass(slots=True)
class FailedRecord:
    """A record that never becomes part of a segment: reported alone, its neighbours ship."""

    topic: str
    partition: int
    row: OneRow
    error: KafkaError
    callback: Callback
    since: float
    call: ArrowCall | None = None


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
        self._left = records
        self._lock = threading.Lock()  # guards the outcome, until it is whole

    def done(self, part: Part) -> bool:
        """Note the fate of some of the records; told again, of the same ones, it counts once.

        Returns:
            Whether these were the last: the call is to be reported now, by who was told so.
        """
        with self._lock:
            if not part.counted:  # no call from here on: a signal's exception may come with it
                part.counted = True
                self._left -= part.records
                if part.error is not None:
                    self.failed += part.records
                    self.error = self.error or part.error
                elif part.offset is not None:
                    self.partition, self.offset = part.partition, part.offset
                part.last = not self._left
            return part.last


@dataclass(slots=True, eq=False)
class Part:
    """Some of a call's records, their fate known; the last one is at `offset`, a position."""

    records: int
    error: KafkaError | None
    partition: int
    offset: int | None
    counted: bool = False
    last: bool = False


class Chunk:
    """Records of an open batch, on their way to being columns."""

    def __init__(self, form: TopicFormat, partition: int, since: float) -> None:
        self._where = (form.topic, partition)
        self._since = since
        self._builder: Builder = form.columns.builder()
        self.capacity = self._builder.capacity
        self.records: list[tuple[tuple[Any, ...], Others]] = []
        self.charge = 0
        self.block: RecordBlock | None = None
        self._converted = False

    def convert(self) -> list[FailedRecord]:
        """Turn the records into a block, once; return those that cannot be. Raises nothing."""
        if self._converted:
            return []
        self._converted = True
        try:
            return self._convert()
        except Exception as error:  # noqa: BLE001 - the records must not go without a report
            reason = KafkaError(KafkaError._VALUE_SERIALIZATION, f"{type(error).__name__}: {error}")
            since = self._since
            return [
                FailedRecord(
                    *self._where, OneRow((None, key, timestamp, headers)), reason, callback, since
                )
                for _, (key, timestamp, headers, callback) in self.records
            ]

    def _convert(self) -> list[FailedRecord]:
        for values, _ in self.records:
            self._builder.append(values)
        columns, refusals = self._builder.finish()
        others = [each for _, each in self.records]
        refused = [
            FailedRecord(
                *self._where,
                OneRow((refusal.value, *others[i][:3])),
                refusal.error.kafka_error,
                others[i][3],
                self._since,
            )
            for i, refusal in refusals.items()
        ]
        kept = [each for i, each in enumerate(others) if i not in refusals]
        keys, timestamps, headers, callbacks = zip(*kept, strict=True) if kept else ((),) * 4
        self.block = RecordBlock(
            columns,
            kafka_column.key_array(keys),
            kafka_column.timestamp_array(timestamps),
            kafka_column.header_array(headers),
            callbacks,
        )
        del self._builder, self.records
        return refused


class Batch:
    """Records of one topic-partition. The sender's thread's."""

    def __init__(self, form: TopicFormat, partition: int, now: float, *, max_bytes: float) -> None:
        """Begin a batch that should be sealed at `max_bytes`, as `Columns.take` measures them."""
        self.form = form
        self.partition = partition
        self.since = now
        self.rows = 0
        self.taken_bytes = 0
        self.max_bytes = max_bytes
        self.chunks = [Chunk(form, partition, now)]

    def __repr__(self) -> str:
        where = f"{self.form.topic}[{self.partition}]"
        return f"<Batch {where}: {self.rows} rows, {self.taken_bytes} bytes>"

    def append(self, values: tuple[Any, ...], others: Others, nbytes: int) -> Chunk | None:
        """Add one record; return the chunk that it filled, to be converted."""
        chunk = self.chunks[-1]
        chunk.records.append((values, others))
        chunk.charge += nbytes
        self.rows += 1
        self.taken_bytes += nbytes
        if len(chunk.records) < chunk.capacity:
            return None
        self.chunks.append(Chunk(self.form, self.partition, self.since))
        return chunk


@dataclass(slots=True, eq=False, kw_only=True)
class Outgoing:
    """A message on its way. The sender's thread's; in flight, `Delivery` waits for its fate.

    `fate` is where librdkafka puts what became of it, error and message: without a line of Python,
    which a signal's exception could keep from running. Once that has been `noted`, it is done with.
    """

    partition: int
    since: float
    charge: int
    encoded: int = 0  # bytes, with librdkafka's copy
    fate: dict[KafkaError | None, confluent_kafka.Message] = field(default_factory=dict)
    noted: bool = False
    alone: bool = False  # nothing else of its partition is in flight, because of what came back


@dataclass(slots=True, eq=False, kw_only=True)
class PlainMessage(Outgoing):
    """A plain message to a topic with a schema: it keeps its place among the segments."""

    topic: str
    value: Any
    key: bytes | None
    timestamp: int
    headers: Headers | None
    callback: Callback
    limits: SegmentLimits

    @property
    def nbytes(self) -> int:
        """What it takes on the wire, at most."""
        return message_bytes(self.key, self.value, self.headers)


@dataclass(slots=True, eq=False, kw_only=True)
class EncodedSegment(Outgoing):
    """An encoded segment, until its records are reported.

    `header` is None for records that were given up before they were encoded.
    """

    form: TopicFormat
    block: RecordBlock
    header: SegmentHeader | None
    data: Any
    call: ArrowCall | None = None

    @property
    def topic(self) -> str:
        """The topic it goes to."""
        return self.form.topic

    @property
    def limits(self) -> SegmentLimits:
        """How much of it there may be."""
        return self.form.limits

    @property
    def nbytes(self) -> int:
        """What it takes on the wire, at most."""
        return len(self.data) + HEADER_BYTES
