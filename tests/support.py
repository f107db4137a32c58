"""Helpers that many tests use."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

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
from hypothesis import settings

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
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from confluent_kafka import KafkaError, Message

T = TypeVar("T")


SPARK_TESTS = ("/test_spark.py", "/test_local_spark.py", "/test_demo_runs.py", "_on_spark")
"""What the ids of tests have in which a Spark runs."""

WITHOUT_PANDAS = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
"""
"""The beginning of a program in a test: pyarrow imports pandas where it can, for half a second."""


def is_long() -> bool:
    """Whether tests try all they can: `make faults` has ``--hypothesis-profile long``."""
    return settings.get_current_profile_name() == "long"


def by_profile(short: T, long: T) -> T:
    """Return `long` with ``--hypothesis-profile long``, as in `make faults`; otherwise `short`."""
    return long if is_long() else short


def examples(count: int) -> int:
    """Return how many examples a test tries: `count`, or in `make test` a quarter of them."""
    return by_profile(max(5, count // 4), count)


def places(count: int) -> range:
    """Return at which of `count` places a test does harm: all, or in `make test` every fourth."""
    return range(0, count, by_profile(4, 1))


def eventually(condition: Callable[[], T], *, seconds: float = 120.0) -> T:
    """Ask until the answer is true, and return it; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.02)
    return answer


def set_topic_config(servers: str, topic: str, name: str, value: str) -> AdminClient:
    """Change a setting of a topic; return the client. Brokers apply it some time later."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.incremental_alter_configs([resource])[resource].result(60)
    return admin


def run_coroutine(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function to its end; calls of the loop's exception handler fail the test."""
    errors: list[Any] = []

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        return await asyncio.wait_for(main(), 240)

    result = asyncio.run(watched())
    assert errors == []
    return result


def has_ended(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class TopicFactory(Protocol):
    """The `topic` fixture: creates a topic and returns its name."""

    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str: ...


class OnSpark(Protocol):
    """The `on_spark` fixture: calls a function that uses Spark, and returns its result."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


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
    """The producer's stages, wired as in `Producer`, on a broker in memory.

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
        self.queue = RecordQueue(
            limit_bytes=queue_bytes, limit_records=queue_records, linger=linger
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
        """Accept one record as `Producer.produce` does; return whether to wake the sender."""
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

    `parse` raises it for our own keys. For librdkafka's it defers the error: librdkafka should
    refuse the value itself.

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
