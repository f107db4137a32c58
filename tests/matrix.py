"""KIP-1008's compatibility matrix: producers, contents of a topic, and consumers."""

from __future__ import annotations

import io
import itertools
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import confluent_kafka
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import KafkaError

import columnar_kafka
from columnar_kafka import position
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka import Message

    from columnar_kafka.local import LocalKafka

SCHEMA: Final = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])
TIME: Final = 1_700_000_000_000
CONTENTS: Final[dict[str, list[list[int] | int]]] = {
    "plain": [0, 1, 2, 3, 4],
    "segments": [[0, 1, 2], [3, 4, 5], [6]],
    "mixed": [0, [1, 2, 3], 4, 5, [6, 7, 8], [9, 10]],
}
"""Contents of a topic: numbers of plain messages, and lists of the numbers in a segment."""

PRODUCERS: Final = ("stock", "ours")
_PARQUET: Final = {"columnar.encoding": "parquet"}
CONSUMERS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "stock": (confluent_kafka.Consumer, {}),
    "ours, none": (columnar_kafka.Consumer, {}),
    "ours, raw": (columnar_kafka.Consumer, {**_PARQUET, "fetch.raw.bytes": True}),
    "ours, parquet": (columnar_kafka.Consumer, _PARQUET),
}
CELLS: Final = list(itertools.product(PRODUCERS, CONTENTS))
_groups = itertools.count(1)


class Record(NamedTuple):
    """A record or plain message as it was produced."""

    value: Any
    key: bytes | None
    headers: Any
    timestamp: int


def record(number: int, *, row: bool) -> Record:
    value = {"n": number, "text": f"text {number}"} if row else b"plain %d" % number
    return Record(value, b"k%d" % number, [("h", b"%d" % number)], TIME + number)


def records(content: str) -> list[Record]:
    """Return all records of a topic with this content, in order."""
    return [
        record(number, row=isinstance(message, list))
        for message in CONTENTS[content]
        for number in (message if isinstance(message, list) else [message])
    ]


# --- writing --------------------------------------------------------------------------------------


def fill(servers: str, producer: str, topic: str, content: str) -> None:
    """Write this content to a topic, with one of `PRODUCERS`."""
    if producer == "ours":
        ours = columnar_kafka.Producer({"bootstrap.servers": servers, **_OURS})
        _produce(ours, topic, content)
        return
    stock = confluent_kafka.Producer({"bootstrap.servers": servers})
    for message in relayed(content):
        stock.produce(
            topic,
            message.value(),
            message.key(),
            headers=message.headers(),
            timestamp=message.timestamp()[1],
        )
    assert stock.flush(200) == 0


_OURS: Final = {**_PARQUET, "columnar.segment.rows": 3, "columnar.linger.ms": 60_000}


@cache
def relayed(content: str) -> list[Message]:
    """Return the Kafka messages of this content, for a stock producer to copy them."""
    with FakeKafka() as kafka:
        _produce(kafka.Producer(_OURS), "t", content)
        return kafka.messages("t")


def _produce(producer: Any, topic: str, content: str) -> None:
    errors: list[Any] = []
    if content != "plain":
        producer.set_schema(topic, SCHEMA)
    for sent in records(content):
        producer.produce(
            topic,
            sent.value,
            sent.key,
            headers=sent.headers,
            timestamp=sent.timestamp,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(200) == 0
    assert errors == [None] * len(records(content))
    producer.close()


# --- reading --------------------------------------------------------------------------------------


def group() -> str:
    """Return a new consumer group."""
    return f"matrix-{next(_groups)}"


def reader(servers: str, consumer: str, topic: str, group: str, **config: Any) -> Any:
    """Return one of `CONSUMERS`, subscribed to a topic."""
    cls, own = CONSUMERS[consumer]
    subscribed = cls(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **own,
            **config,
        }
    )
    subscribed.subscribe([topic])
    return subscribed


def messages(consumer: Any) -> Iterator[Message]:
    """Yield messages until the end of the one partition; an error fails the test."""
    while True:
        message = consumer.poll(120)
        assert message is not None, "nothing came any more"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return
        yield message


def read(servers: str, consumer: str, topic: str, *, group: str, until: int) -> list[Message]:
    """Read a topic up to message `until`, commit, leave; a second member reads the rest."""
    with reader(servers, consumer, topic, group) as first:
        read_messages = list(itertools.islice(messages(first), until))
        done = first.commit(message=read_messages[-1], asynchronous=False)
        assert done[0].error is None
    with reader(servers, consumer, topic, group) as second:
        return read_messages + list(messages(second))


def as_records(read_messages: Iterable[Message]) -> list[Record]:
    """Return the messages of a consumer that unwraps segments."""
    return [Record(m.value(), m.key(), m.headers(), m.timestamp()[1]) for m in read_messages]


def as_bytes(read_messages: Iterable[Message]) -> list[tuple[Any, ...]]:
    """Return the messages of any other consumer, to be compared."""
    return [
        (m.topic(), m.partition(), m.offset(), m.key(), m.value(), m.headers(), m.timestamp())
        for m in read_messages
    ]


def check(servers: str, consumer: str, topic: str, content: str) -> None:
    """Read a topic with this consumer and a restart in the middle; check all messages.

    A consumer that unwraps segments gets the records. Every other one gets bytes, which are Parquet
    files, and headers. None gets an error.
    """
    read_messages = read(servers, consumer, topic, group=group(), until=2)
    if consumer == "ours, parquet":
        assert as_records(read_messages) == records(content)
        _check_positions(read_messages)
        return
    assert [type(message) for message in read_messages] == [confluent_kafka.Message] * len(
        read_messages
    )
    assert [_unwrapped(message) for message in read_messages] == [
        [record(n, row=True) for n in message]
        if isinstance(message, list)
        else record(message, row=False)
        for message in CONTENTS[content]
    ]
    if consumer != "stock":
        stock = read(servers, "stock", topic, group=group(), until=1)
        assert as_bytes(read_messages) == as_bytes(stock)


def _check_positions(read_messages: list[Any]) -> None:
    rows = {
        offset: len(list(same))
        for offset, same in itertools.groupby(m.kafka_offset() for m in read_messages)
    }
    assert [m.offset() for m in read_messages] == [
        position.pack(m.kafka_offset(), m.row(), rows[m.kafka_offset()]) for m in read_messages
    ]


def _unwrapped(message: Any) -> list[Record] | Record:
    """Return a segment's records as a Parquet reader sees them, or a plain message."""
    headers = dict(message.headers())
    if headers.get("columnar.encoding") != b"parquet":
        [plain] = as_records([message])
        return plain
    assert message.key() is None
    table = pq.read_table(io.BytesIO(message.value()))
    assert int(headers["columnar.rows"]) == table.num_rows
    rows = table.to_pylist()
    return [
        Record(
            {name: row[name] for name in SCHEMA.names},
            row["_kafka"]["key"],
            [(header["key"], header["value"]) for header in row["_kafka"]["headers"]],
            round(row["_kafka"]["timestamp"].timestamp() * 1000),
        )
        for row in rows
    ]


def fill_all(kafka: LocalKafka, prefix: str) -> dict[tuple[str, str], str]:
    """Write a topic with every producer and content; return the topics' names."""
    names = {(producer, content): f"{prefix}-{producer}-{content}" for producer, content in CELLS}
    for (producer, content), name in names.items():
        kafka.create_topic(name, 1, {"retention.ms": "-1"})
        fill(kafka.bootstrap_servers, producer, name, content)
    return names
