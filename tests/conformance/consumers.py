"""The kinds of consumer that the same tests run on, and what each finds in a topic."""

from __future__ import annotations

import base64
import itertools
import json
from bisect import bisect_left
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
import pyarrow as pa
import pytest
from clients import Maker
from confluent_kafka import KafkaException, TopicPartition
from segments import headers_of
from support import by_profile, eventually

import columnar_kafka
from columnar_kafka import position
from columnar_kafka.columns import kafka_column as kafka_columns
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "CONSUMERS",
    "NOWHERE",
    "ON_KAFKA",
    "ConsumerKind",
    "ConsumerMaker",
    "each_count",
    "each_row",
    "on_kafka",
    "on_mock",
    "outcome",
]

NOWHERE: Final = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
_PARQUET: Final = {"columnar.encoding": "parquet"}
_JSON: Final = {**_PARQUET, "columnar.value.format": "json"}
_numbers = itertools.count(1)
_segments = itertools.count(1)
_encoder = ParquetEncoder("zstd")


@dataclass(frozen=True)
class ConsumerKind:
    """One way of being a consumer, and of what its topics hold.

    `shape` is how many records each Kafka message holds, in turns; 0 is a plain message.
    """

    cls: Any
    own: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = (0,)

    @property
    def unwraps(self) -> bool:
        """Whether offsets are positions."""
        return bool(self.own)


CONSUMERS: Final = {
    "confluent": ConsumerKind(confluent_kafka.Consumer),
    "ours, plain": ConsumerKind(columnar_kafka.Consumer, _PARQUET),
    "ours, segments": ConsumerKind(columnar_kafka.Consumer, _PARQUET, (3,)),
    "ours, mixed": ConsumerKind(columnar_kafka.Consumer, _PARQUET, (2, 0, 4)),
    "ours, json": ConsumerKind(columnar_kafka.Consumer, _JSON, (2, 0, 4)),
}
"""Those that unwrap; `test_not_encoding.py` has the others, which are confluent-kafka's own."""
KINDS: Final = by_profile([kind for kind in CONSUMERS if kind != "ours, json"], list(CONSUMERS))
"""Those that every test runs on."""
ON_KAFKA: Final = ("confluent", "ours, plain", "ours, segments")
"""Those for the real broker; what it can tell and the mock cannot needs no more."""
_ROWS: Final = (0, 1, 2, 5)
"""With (2, 0, 4): a segment's first and last record, a plain message, and one inside a segment."""


def on_mock(kinds: Iterable[str] = KINDS) -> Any:
    """Return a fixture that makes consumers of these kinds on librdkafka's mock."""

    @pytest.fixture(params=list(kinds), name="make")
    def make(request: pytest.FixtureRequest, embedded: Any) -> Iterator[ConsumerMaker]:
        yield from _made(request.param, embedded)

    return make


def on_kafka(kinds: Iterable[str] = ON_KAFKA) -> Any:
    """Return a fixture that makes them on the real broker."""

    @pytest.fixture(params=list(kinds), name="make")
    def make(request: pytest.FixtureRequest, kafka: Any) -> Iterator[ConsumerMaker]:
        yield from _made(request.param, kafka)

    return make


def each_row(name: str, rows: Sequence[int] = _ROWS) -> pytest.MarkDecorator:
    """Try each kind with the record inside a segment, and the mixed kind with all of these."""
    every = [(kind, row) for kind in KINDS for row in rows]
    return pytest.mark.parametrize(
        ("make", name),
        [case for case in every if case[0] == "ours, mixed" or case[1] == rows[1]],
        indirect=["make"],
    )


def each_count(name: str) -> pytest.MarkDecorator:
    """Try as `each_row` how many records are taken with those."""
    return each_row(name, [row + 1 for row in _ROWS])


def _made(kind: str, servers: Any) -> Iterator[ConsumerMaker]:
    maker = ConsumerMaker(
        of=CONSUMERS[kind],
        servers=servers.bootstrap_servers,
        create_topic=servers.create_topic,
        name=f"consuming-{next(_numbers)}",
    )
    with closing(maker):
        yield maker


@dataclass(kw_only=True)
class ConsumerMaker(Maker):
    """Makes consumers of one kind, and topics for them.

    Records are known by their index in a partition, from 0 on. `at` and `index` turn one into the
    offset that the kind's methods speak and back.
    """

    of: ConsumerKind
    topics: int = 0
    places: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # the records' offsets
    ends: dict[tuple[str, int], int] = field(default_factory=dict)  # Kafka's own

    def __call__(self, cls: Any = None, **config: Any) -> Any:
        """Make a consumer; `group__id` is ``group.id``."""
        given = {
            "bootstrap.servers": self.servers,
            "group.id": self.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
            **self.of.own,
            **{key.replace("__", "."): value for key, value in config.items()},
        }
        self.made.append((cls or self.kind)(given))
        return self.made[-1]

    # --- topics -----------------------------------------------------------------------------------

    def topic(self, count: int = 0, partitions: int = 1, **given: Any) -> str:
        """Create a topic of the test's own, with `count` records "0", "1", … in partition 0."""
        self.topics += 1
        name = f"{self.name}-{self.topics}"
        self.create_topic(name, partitions)
        if count:
            self.fill(name, count, **given)
        return name

    def fill(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Any = None,
        times: Sequence[int] | None = None,
    ) -> None:
        """Add `count` records, numbered on; `times` in ms."""
        places = self.places.setdefault((topic, partition), [])
        numbers = iter(range(len(places), len(places) + count))
        stamps = itertools.chain(times or (), itertools.repeat(1_700_000_000_000))
        producer = _producer(self.servers)
        producer.list_topics(topic, 20)  # it may have more partitions than were known
        for shape in itertools.cycle(self.of.shape):
            rows = [b"%d" % number for number in islice(numbers, shape or 1)]
            if not rows:
                break
            offset = self.ends.get((topic, partition), 0)
            self.ends[topic, partition] = offset + 1
            stamp = list(islice(stamps, len(rows)))
            if shape:
                message = _segment(rows, key, headers, stamp)
                places += [position.pack(offset, row, len(rows)) for row in range(len(rows))]
            else:
                message = {"value": rows[0], "key": key, "headers": headers, "timestamp": stamp[0]}
                places.append(position.pack(offset) if self.of.unwraps else offset)
            producer.produce(topic, partition=partition, **message)
        assert producer.flush(20) == 0

    # --- offsets ----------------------------------------------------------------------------------

    def at(self, topic: str, index: int, partition: int = 0) -> int:
        """Return the offset of a record, or of the end; special ones as they are."""
        places = self.places.get((topic, partition), [])
        if index < 0:
            return index
        if index < len(places):
            return places[index]
        beyond = self.ends.get((topic, partition), 0) + index - len(places)
        return position.start(beyond) if self.of.unwraps else beyond

    def index(self, topic: str, offset: int, partition: int = 0) -> int:
        """Return how many records are before an offset; special ones as they are."""
        return offset if offset < 0 else bisect_left(self.places[topic, partition], offset)

    def place(
        self, topic: str, index: int = -1001, partition: int = 0, metadata: str | None = None
    ) -> TopicPartition:
        """Return a partition, at a record."""
        given = {} if metadata is None else {"metadata": metadata}
        return TopicPartition(topic, partition, self.at(topic, index, partition), **given)

    def indexes(self, partitions: Iterable[TopicPartition]) -> list[int]:
        """Return the places of partitions as indexes of records."""
        return [
            self.index(partition.topic, partition.offset, partition.partition)
            for partition in partitions
        ]

    def committed(self, topic: str, *, partition: int = 0, group: str | None = None) -> int:
        """Return what a group has committed, as a consumer of its own sees it."""
        [place] = self(group__id=group or self.name).committed(
            [self.place(topic, -1001, partition)], 20
        )
        return self.index(topic, place.offset, partition)

    # --- messages ---------------------------------------------------------------------------------

    def message(self, topic: str, index: int, **given: Any) -> Any:
        """Return a message as a user may make one."""
        cls = columnar_kafka.Message if self.of.unwraps else confluent_kafka.Message
        given = {"partition": 0, "offset": self.at(topic, index), **given}
        return cls(topic=topic, **given)

    def data(self, message: Any) -> Any:
        """Return the bytes in a message's value, or an error's name."""
        if message.error() is not None:
            return message.error().name()
        return self.read(message.value())

    def read(self, value: Any) -> Any:
        """Return the bytes that `value` had when it was produced."""
        if isinstance(value, bytes) and value.startswith(b'{"v":'):
            return base64.b64decode(json.loads(value)["v"])
        return super().read(value)

    def numbers(self, messages: Iterable[Any]) -> list[Any]:
        """Return the numbers that messages carry; an error's name for one."""
        values = [self.data(message) for message in messages]
        return [int(value) if isinstance(value, bytes) else value for value in values]

    def take(self, consumer: Any, count: int = 1, timeout: float = 20) -> list[Any]:
        """Return the numbers of the next `count` records or events, which must come."""
        messages = consumer.consume(count, timeout)
        assert len(messages) == count
        return self.numbers(messages)

    def nothing(self, consumer: Any) -> bool:
        """Whether nothing comes, though librdkafka has been polled for some time."""
        return consumer.poll(0.3) is None

    def give_up(self, client: Any) -> None:
        """Close the consumer."""
        with suppress(Exception):  # what a test's own callbacks raise
            client.close()


def _segment(
    rows: list[bytes], key: bytes | None, headers: Any, times: list[int]
) -> dict[str, Any]:
    """Return a segment as a message for confluent-kafka's producer."""
    column = kafka_columns.KafkaColumn(["id", "key", "timestamp", "headers"])
    name = f"c-{next(_segments)}"
    batch = column.append_to(
        pa.record_batch({"v": pa.array(rows, pa.binary())}),
        segment=name,
        timestamps=kafka_columns.timestamp_array(times),
        keys=kafka_columns.key_array([key] * len(rows)),
        headers=kafka_columns.header_array([headers] * len(rows)),
    )
    header = SegmentHeader(
        rows=len(rows),
        segment=name,
        schema=fingerprint(batch.schema),
        timestamp_min=min(times),
        timestamp_max=max(times),
    )
    value = _encoder.encode(batch, header.footer()).to_pybytes()
    return {
        "value": value,
        "headers": headers_of(header, value),
        "timestamp": max(times),
    }


@cache
def _producer(servers: str) -> confluent_kafka.Producer:
    config = {"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0}
    # A topic's first messages may be refused before its leader is ready; retries keep their order.
    one = {"enable.idempotence": True, "max.in.flight": 1}  # with more the first would be lost
    return confluent_kafka.Producer({**config, **one})


def until(consumer: Any, condition: Callable[[], Any]) -> list[Any]:
    """Poll until something is the case; return the messages that came."""
    messages: list[Any] = []

    def happened() -> Any:
        message = consumer.poll(0.05)
        if message is not None:
            messages.append(message)
        return condition()

    eventually(happened)
    return messages


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a call raises, as far as two kinds must agree; None when it raises nothing."""
    try:
        call(*args, **kwargs)
    except KafkaException as error:
        return error.args[0].name(), error.args[0].str()
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error), str(error)
    return None
