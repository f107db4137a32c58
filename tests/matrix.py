"""KIP-1008's compatibility matrix: who may have written a topic, what is in it, who reads it."""

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
KINDS: Final[dict[str, list[list[int] | int]]] = {
    "plain": [0, 1, 2, 3, 4],
    "segments": [[0, 1, 2], [3, 4, 5], [6]],
    "mixed": [0, [1, 2, 3], 4, 5, [6, 7, 8], [9, 10]],
}
"""What a topic holds: the numbers of plain messages, and of the records of segments."""

PRODUCERS: Final = ("stock", "ours")
_PARQUET: Final = {"columnar.encoding": "parquet"}
CONSUMERS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "stock": (confluent_kafka.Consumer, {}),
    "ours, none": (columnar_kafka.Consumer, {}),
    "ours, raw": (columnar_kafka.Consumer, {**_PARQUET, "fetch.raw.bytes": True}),
    "ours, parquet": (columnar_kafka.Consumer, _PARQUET),
}
CELLS: Final = list(itertools.product(PRODUCERS, KINDS))
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


def records(kind: str) -> list[Record]:
    """All that a topic of this kind holds, in order."""
    return [
        record(number, row=isinstance(each, list))
        for each in KINDS[kind]
        for number in (each if isinstance(each, list) else [each])
    ]


# --- writing --------------------------------------------------------------------------------------


def fill(servers: str, producer: str, topic: str, kind: str) -> None:
    """Let a producer write a topic of this kind."""
    if producer == "ours":
        made = columnar_kafka.Producer({"bootstrap.servers": servers, **_OURS})
        _produce(made, topic, kind)
        return
    stock = confluent_kafka.Producer({"bootstrap.servers": servers})
    for message in relayed(kind):
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
def relayed(kind: str) -> list[Message]:
    """The Kafka messages of a kind, as a tool has them that copies topics with a stock producer."""
    with FakeKafka() as kafka:
        _produce(kafka.Producer(_OURS), "t", kind)
        return kafka.messages("t")


def _produce(producer: Any, topic: str, kind: str) -> None:
    errors: list[Any] = []
    if kind != "plain":
        producer.set_schema(topic, SCHEMA)
    for each in records(kind):
        producer.produce(
            topic,
            each.value,
            each.key,
            headers=each.headers,
            timestamp=each.timestamp,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(200) == 0
    assert errors == [None] * len(records(kind))
    producer.close()


# --- reading --------------------------------------------------------------------------------------


def group() -> str:
    """A group of a test's own."""
    return f"matrix-{next(_groups)}"


def reader(servers: str, consumer: str, topic: str, group: str, **config: Any) -> Any:
    """Make a consumer of this kind that is subscribed to a topic."""
    cls, own = CONSUMERS[consumer]
    made = cls(
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
    made.subscribe([topic])
    return made


def messages(consumer: Any) -> Iterator[Message]:
    """Yield what comes until the end of the one partition; none of it is an error."""
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
        found = list(itertools.islice(messages(first), until))
        done = first.commit(message=found[-1], asynchronous=False)
        assert done[0].error is None
    with reader(servers, consumer, topic, group) as second:
        return found + list(messages(second))


def as_records(found: Iterable[Message]) -> list[Record]:
    """What an unwrapping consumer has found."""
    return [Record(m.value(), m.key(), m.headers(), m.timestamp()[1]) for m in found]


def as_bytes(found: Iterable[Message]) -> list[tuple[Any, ...]]:
    """What any other consumer has found."""
    return [
        (m.topic(), m.partition(), m.offset(), m.key(), m.value(), m.headers(), m.timestamp())
        for m in found
    ]


def check(servers: str, consumer: str, topic: str, kind: str) -> None:
    """Read a topic with this consumer, a restart in the middle included: all that is due is there.

    Whoever unwraps segments finds the records; everybody else bytes, which are Parquet files, and
    headers. Nobody finds an error.
    """
    found = read(servers, consumer, topic, group=group(), until=2)
    if consumer == "ours, parquet":
        assert as_records(found) == records(kind)
        _check_positions(found)
        return
    assert [type(each) for each in found] == [confluent_kafka.Message] * len(found)
    assert [_unwrapped(each) for each in found] == [
        [record(n, row=True) for n in each] if isinstance(each, list) else record(each, row=False)
        for each in KINDS[kind]
    ]
    stock = read(servers, "stock", topic, group=group(), until=1)
    assert as_bytes(found) == as_bytes(stock)


def _check_positions(found: list[Any]) -> None:
    rows = {
        offset: len(list(each))
        for offset, each in itertools.groupby(m.kafka_offset() for m in found)
    }
    assert [m.offset() for m in found] == [
        position.pack(m.kafka_offset(), m.row(), rows[m.kafka_offset()]) for m in found
    ]


def _unwrapped(message: Any) -> list[Record] | Record:
    """What a Parquet reader finds in a segment; a plain message as it is."""
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
            [(each["key"], each["value"]) for each in row["_kafka"]["headers"]],
            round(row["_kafka"]["timestamp"].timestamp() * 1000),
        )
        for row in rows
    ]


def fill_all(kafka: LocalKafka, prefix: str) -> dict[tuple[str, str], str]:
    """Let each producer write a topic of each kind; return their names."""
    names = {(producer, kind): f"{prefix}-{producer}-{kind}" for producer, kind in CELLS}
    for (producer, kind), name in names.items():
        kafka.create_topic(name, 1, {"retention.ms": "-1"})
        fill(kafka.bootstrap_servers, producer, name, kind)
    return names
