"""The producer's stages, wired as in `Producer`, on a broker in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.producing.accepting.arguments import encode_headers
from columnar_kafka.producing.accepting.record import NewFormat
from columnar_kafka.producing.accepting.record_queue import RecordQueue
from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.producing.reporting.delivery import Delivery
from columnar_kafka.producing.segment_limits import SegmentLimits
from columnar_kafka.producing.sending.accumulator import Accumulator
from columnar_kafka.producing.sending.messages import PlainMessage
from columnar_kafka.producing.sending.sender import Sender
from columnar_kafka.producing.topic_formats import make_format
from columnar_kafka.schema import RecordSchema
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing.memory import MemoryKafka, MemoryProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import KafkaError, Message

    from columnar_kafka.producing.engine.base import TopicFormat


class Reported(NamedTuple):
    """A delivery report, read completely while its callback ran."""

    tag: Any
    error: int | None
    reason: str
    value: Any
    key: bytes | None
    headers: Any
    timestamp: int
    partition: int | None
    offset: int | None


class Sent(NamedTuple):
    """A record as a consumer would read it; `segment` is None for a plain message."""

    value: Any
    key: bytes | None
    headers: Any
    timestamp: int
    segment: str | None = None


NUMBERS = pa.schema([pa.field("n", pa.int64(), nullable=False)])
CODES = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {
            "name": "code",
            "type": ["null", {"type": "fixed", "name": "c", "size": 1}],
            "default": None,
        },
    ],
}
"""Numbers with a code of one byte. That a code is longer shows when it is converted, not before."""


class Pipeline:
    """The stages of one producer.

    The time is `now`. Nothing runs except in calls of `run` and `poll`.
    """

    def __init__(
        self,
        schema: Any = NUMBERS,
        *,
        partitions: int | None = 1,
        linger: float = 1.0,
        segment_rows: int = 1000,
        sends_again: bool = True,
        window: float = float("inf"),
        propagation: float = 30.0,
        target_bytes: int = 900_000,
        limit_bytes: int = 999_000,
        queue_bytes: int = 1 << 30,
        queue_records: int | None = None,
        queue_messages: int = 1000,
        message_timeout: float = 300.0,
        refresh: float = 300.0,
        partitioner: str = "consistent_random",
        members: tuple[str, ...] = METADATA_MEMBERS,
    ) -> None:
        self.now = 0.0
        self.kafka = MemoryKafka()
        self.broker = MemoryProducer(self.kafka, queue_messages=queue_messages)
        chosen = Partitioner(partitioner)
        self.queue = RecordQueue(
            limit_bytes=queue_bytes, limit_records=queue_records, linger=linger, partitioner=chosen
        )
        self.delivery = Delivery(self.queue, sends_again=sends_again)
        self.accumulator = Accumulator(
            queue=self.queue,
            partitioner=chosen,
            linger=linger,
            message_timeout=message_timeout,
            refresh=refresh,
            propagation=propagation,
            memory=queue_bytes,
            records=queue_records,
        )
        self.sender = Sender(
            accumulator=self.accumulator,
            broker=self.broker,
            delivery=self.delivery,
            queue=self.queue,
            message_timeout=message_timeout,
            clock=lambda: self.now,
            wall_ms=lambda: 1_000_000,
        )
        self.wakes = 0
        self.queue.wake = self._wake
        self.reports: list[Reported] = []
        self._limits = SegmentLimits(target_bytes, limit_bytes, segment_rows, window)
        self._members = members
        self.formats: dict[str, TopicFormat] = {}
        if partitions is not None:
            self.kafka.create_topic("t", partitions)
        self.set_schema(schema)

    def set_schema(self, schema: Any, topic: str = "t") -> None:
        topic_format = make_format(
            topic,
            RecordSchema.parse(schema),
            replace(self._limits, partitions=self.kafka.partitions(topic)),
            members=self._members,
            compression="zstd",
        )
        self.queue.put(NewFormat(topic_format), 0, self.now, 0, urgent=True)
        self.formats[topic] = topic_format

    def produce(
        self,
        value: Any,
        *,
        topic: str = "t",
        key: bytes | None = None,
        partition: int = -1,
        timestamp: int = 1000,
        headers: Any = None,
        tag: Any = None,
        on_delivery: Callable[..., Any] | None = None,
    ) -> bool:
        """Accept one record as `Producer.produce` does; return whether it wakes the sender."""
        before = self.wakes
        self._accept(value, topic, key, partition, timestamp, headers, tag, on_delivery)
        return self.wakes > before

    def _wake(self) -> None:
        self.wakes += 1
        self.sender.wake()

    def _accept(
        self,
        value: Any,
        topic: str,
        key: bytes | None,
        partition: int,
        timestamp: int,
        headers: Any,
        tag: Any,
        on_delivery: Callable[..., Any] | None,
    ) -> None:
        report = on_delivery or self.reporter(value if tag is None else tag)
        pairs, nbytes = encode_headers(headers)
        nbytes += len(key or b"")
        metadata = (key, timestamp, pairs, report, None)
        topic_format = self.formats[topic]
        if value is None or isinstance(value, bytes):
            charge = nbytes + len(value or b"") + 200
            plain = PlainMessage(
                topic_format=topic_format,
                partition=partition,
                value=value,
                key=key,
                timestamp=timestamp,
                headers=pairs,
                callback=report,
                accepted_at=self.now,
                charged_bytes=charge,
                pinned=partition >= 0,
            )
            self.queue.put(plain, charge, self.now, urgent=True)
            return
        values, more = topic_format.columns.take(value)
        nbytes += more
        self.queue.accept(topic_format, partition, values, metadata, nbytes, self.now)

    def numbers(self, *numbers: int, **place: Any) -> None:
        """Produce rows {"n": number}, tagged with their numbers."""
        for n in numbers:
            self.produce({"n": n}, tag=n, **place)

    def reporter(self, tag: Any) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            assert message.error() == error
            self.reports.append(
                Reported(
                    tag,
                    None if error is None else error.code(),
                    "" if error is None else error.str(),
                    message.value(),
                    message.key(),
                    message.headers(),
                    message.timestamp()[1],
                    message.partition(),
                    message.offset(),
                )
            )

        return report

    def run(self, now: float | None = None) -> float:
        """Run the sender until it has nothing to do at `now`; return how long it would wait."""
        self.now = self.now if now is None else now
        while not (wait := self.sender.run_once(self.now)):
            pass
        return self.queue.sleep(self.now, self.now + wait) - self.now

    def acknowledge(self) -> int:
        """Serve acknowledgements; return their number."""
        self.broker.poll(0)
        return self.delivery.collect()

    def poll(self) -> int:
        """Serve acknowledgements and run reports, as the user's poll does."""
        self.acknowledge()
        return self.delivery.run()

    def purge(self) -> None:
        """Do what `Sender.purge` has the thread do."""
        self.sender.purges.append(object())
        self.run()

    def flush(self) -> None:
        """Seal all batches, send what the broker accepts, and run reports."""
        self.sender.seal()
        self.run()
        self.poll()

    def segments(self, partition: int = 0, topic: str = "t") -> list[list[Any]]:
        """Return a partition's segments as lists of rows, and its plain messages as values."""
        segments: list[list[Any]] = []
        for sent in self.sent(partition, topic):
            if sent.segment is None:
                segments.append(sent.value)
            elif segments and isinstance(segments[-1], _Rows) and segments[-1].id == sent.segment:
                segments[-1].append(sent.value)
            else:
                segments.append(_Rows([sent.value], sent.segment))
        return segments

    def sent(self, partition: int = 0, topic: str = "t") -> list[Sent]:
        """Return all records of a partition, as a consumer would read them."""
        return [
            record
            for message in self.kafka.messages(topic, partition)
            for record in records(message)
        ]


class _Rows(list[Any]):
    """The rows of one segment."""

    def __init__(self, rows: list[Any], segment: str) -> None:
        super().__init__(rows)
        self.id = segment


def records(message: Message) -> Iterator[Sent]:
    """Yield the records of a message as a consumer would read them."""
    headers: Any = message.headers()
    if not is_segment(headers):
        yield Sent(message.value(), message.key(), headers, message.timestamp()[1])
        return
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    segment = Segment(
        topic=topic, partition=partition, offset=offset, headers=headers, value=message.value()
    )
    for record in segment.records():
        yield Sent(record.value, record.key, record.headers, record.timestamp, segment.id)
