"""Small helpers shared by tests."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psutil
import pyarrow as pa
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.rows_to_columns import RowColumns
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.errors import ConfigError
from columnar_kafka.producing.accumulator import Accumulator
from columnar_kafka.producing.arguments import encode_headers
from columnar_kafka.producing.delivery import Delivery
from columnar_kafka.producing.in_flight import PlainMessage
from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.producing.record_queue import RecordQueue
from columnar_kafka.producing.sender import Sender
from columnar_kafka.producing.topic_format import SegmentLimits, TopicFormat
from columnar_kafka.schema import RecordSchema
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing.memory import MemoryKafka, MemoryProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from confluent_kafka import KafkaError, Message

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, seconds: float = 20.0) -> T:
    """Ask until the answer is true, and return it; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.02)
    return answer


def set_topic_config(servers: str, topic: str, name: str, value: str) -> AdminClient:
    """Change one of a topic's settings; return the client that did. Brokers learn of it later."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.incremental_alter_configs([resource])[resource].result(60)
    return admin


def run_coroutine(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function to its end; what the loop's handler gets to know is an error."""
    errors: list[Any] = []

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        return await asyncio.wait_for(main(), 60)

    result = asyncio.run(watched())
    assert errors == []
    return result


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Reported(NamedTuple):
    """A delivery report, all of it read while its callback ran."""

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
    """A record as a consumer finds it; `segment` is None for a plain message."""

    value: Any
    key: bytes | None
    headers: Any
    timestamp: int
    segment: str | None = None


NUMBERS = pa.schema([pa.field("n", pa.int64(), nullable=False)])


class Pipeline:
    """The producer's stages wired as `Producer` wires them, on a memory broker.

    Time is the number `now`; nothing runs but by `run` and `poll`.
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
        self.queue = RecordQueue(
            limit_bytes=queue_bytes, limit_records=queue_records, gather_seconds=0.0
        )
        self.delivery = Delivery(self.queue, sends_again=sends_again)
        self.accumulator = Accumulator(
            partitioner=Partitioner(partitioner),
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
        self.reports: list[Reported] = []
        self._limits = SegmentLimits(target_bytes, limit_bytes, segment_rows, window)
        self._members = members
        self._formats: dict[str, TopicFormat] = {}
        if partitions is not None:
            self.kafka.create_topic("t", partitions)
        self.set_schema(schema)

    def set_schema(self, schema: Any, topic: str = "t") -> None:
        parsed = RecordSchema.parse(schema)
        column = KafkaColumn(self._members)
        topic_format = TopicFormat(
            topic=topic,
            records=parsed,
            columns=RowColumns(parsed),
            kafka=column,
            schema=column.schema(parsed.arrow),
            encoder=ParquetEncoder("zstd"),
            limits=replace(self._limits, partitions=self.kafka.partitions(topic)),
        )
        self.queue.put(topic_format, 0, self.now, 0, urgent=True)
        self._formats[topic] = topic_format

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
        """Accept one record as `Producer.produce` does; return whether the sender is woken."""
        report = on_delivery or self.reporter(value if tag is None else tag)
        pairs, nbytes = encode_headers(headers)
        nbytes += len(key or b"")
        metadata = (key, timestamp, pairs, report)
        topic_format = self._formats[topic]
        if value is None or isinstance(value, bytes):
            charge = nbytes + len(value or b"") + 200
            plain = PlainMessage(
                topic=topic,
                partition=partition,
                value=value,
                key=key,
                timestamp=timestamp,
                headers=pairs,
                callback=report,
                accepted_at=self.now,
                charged_bytes=charge,
                limits=topic_format.limits,
            )
            return self.queue.put(plain, charge, self.now, urgent=True)
        values, more = topic_format.columns.take(value)
        nbytes += more
        record = (topic_format, partition, values, metadata, nbytes, self.now)
        return self.queue.put(record, nbytes, self.now)

    def numbers(self, *numbers: int, **place: Any) -> None:
        """Produce rows {"n": number}, each with its number as its tag."""
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
        """Let the sender do what there is to do at `now`; return when it wants to look again."""
        self.now = self.now if now is None else now
        while not (wait := self.sender.run_once(self.now)):
            pass
        return wait

    def acknowledge(self) -> int:
        """Serve acknowledgements; return how many there were."""
        self.broker.poll(0)
        return self.delivery.collect()

    def poll(self) -> int:
        """Serve acknowledgements and run reports, as the user's poll does."""
        self.acknowledge()
        return self.delivery.run()

    def flush(self) -> None:
        """Seal, send and report all that the broker takes."""
        self.sender.seal()
        self.run()
        self.poll()

    def segments(self, partition: int = 0, topic: str = "t") -> list[list[Any]]:
        """Return what a partition holds: the rows of each segment; plain messages bare."""
        found: list[list[Any]] = []
        for sent in self.sent(partition, topic):
            if sent.segment is None:
                found.append(sent.value)
            elif isinstance(found[-1] if found else None, _Rows) and found[-1].id == sent.segment:
                found[-1].append(sent.value)
            else:
                found.append(_Rows([sent.value], sent.segment))
        return found

    def sent(self, partition: int = 0, topic: str = "t") -> list[Sent]:
        """Return all records that a partition holds, as a consumer would find them."""
        return [
            record for each in self.kafka.messages(topic, partition) for record in _records(each)
        ]


class _Rows(list[Any]):
    """The rows of one segment."""

    def __init__(self, rows: list[Any], segment: str) -> None:
        super().__init__(rows)
        self.id = segment


def _records(message: Message) -> Iterator[Sent]:
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


def setting_error(settings: Any, key: str, value: Any) -> ConfigError:
    """Return the error of a wrong value.

    Our own keys raise it; of librdkafka's keys it is kept, for librdkafka refuses those itself.

    Args:
        settings: `ProducerConfig` or `ConsumerConfig`.
        key: the key with the wrong value.
        value: the value.
    """
    if key.startswith(("columnar.", "fetch.")):
        with pytest.raises(ConfigError) as raised:
            settings.parse({key: value})
        return raised.value
    parsed, rest = settings.parse({key: value})
    assert rest == {key: value}
    assert isinstance(parsed.deferred_error, ConfigError)
    return parsed.deferred_error
