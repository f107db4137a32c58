"""Where a consumer stands behind the end of a transaction: as confluent-kafka's, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, TopicPartition
from support import eventually

import columnar_kafka
from columnar_kafka import position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARQUET = {"columnar.encoding": "parquet"}
SCHEMA = pa.schema([("n", pa.int64())])
TIMEOUT = 120.0


def transact(kafka: LocalKafka, topic: str, ends: str, *, segments: bool = False) -> None:
    """Send two records in each of these transactions: c is committed, a is aborted."""
    config: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "transactional.id": f"{topic}-{ends}",
        "linger.ms": 0,
    }
    producer: Any = columnar_kafka.Producer(config | PARQUET)
    if segments:
        producer.set_schema(topic, SCHEMA)
    producer.list_topics(timeout=TIMEOUT)  # or it may wait half a second for a connection
    producer.init_transactions(TIMEOUT)
    for number, end in enumerate(ends):
        producer.begin_transaction()
        for n in range(2):
            value = {"n": 2 * number + n} if segments else b"%d" % (2 * number + n)
            producer.produce(topic, value, partition=0)
        producer.flush()
        finish = producer.commit_transaction if end == "c" else producer.abort_transaction
        finish(TIMEOUT)
    producer.close()
    levels = ("read_committed", "read_uncommitted")
    eventually(lambda: len({high(kafka, topic, level) for level in levels}) == 1, seconds=TIMEOUT)


def high(kafka: LocalKafka, topic: str, level: str) -> int:
    """Return where a topic ends; a transaction is over for all when its marker is written."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "looks"}
    with confluent_kafka.Consumer(config | {"isolation.level": level}) as consumer:
        return int(consumer.get_watermark_offsets(place(topic), TIMEOUT)[1])


@pytest.fixture
def make(kafka: LocalKafka) -> Iterator[Callable[..., Any]]:
    """Makes consumers of stock's class or ours, which are closed after the test."""
    made: list[Any] = []

    def consumer(topic: str, *, ours: bool, **config: Any) -> Any:
        cls: Any = columnar_kafka.Consumer if ours else confluent_kafka.Consumer
        given = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": f"{topic}-{ours}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{key.replace("__", "."): value for key, value in config.items()},
        }
        made.append(cls(given | (PARQUET if ours else {})))
        return made[-1]

    yield consumer
    for client in made:
        client.close()


def place(topic: str, offset: int = -1001) -> TopicPartition:
    return TopicPartition(topic, 0, offset)


def at(consumer: Any, topic: str) -> int:
    [where] = consumer.position([place(topic)])
    return int(where.offset)


def recover(consumer: Any, topic: str) -> list[Any]:
    """Read up to the high watermark, as those do who restore their state from a topic."""
    _, high = consumer.get_watermark_offsets(place(topic), TIMEOUT)
    values: list[Any] = []

    def is_there() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
        return at(consumer, topic) >= high

    eventually(is_there, seconds=TIMEOUT)
    assert at(consumer, topic) == high
    return values


def committed(kafka: LocalKafka, group: str, topic: str) -> tuple[int, Any]:
    """Return what a group has committed, as any other tool sees it."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}
    with confluent_kafka.Consumer(config) as other:
        [stored] = other.committed([place(topic)], TIMEOUT)
        return stored.offset, stored.metadata


def steps(kafka: LocalKafka, consumer: Any, topic: str, group: str) -> list[Any]:
    """Do what moves a consumer; return what it says at each step, in Kafka's own offsets."""
    said: list[Any] = []

    def say(offset: int) -> None:
        is_position = isinstance(consumer, columnar_kafka.Consumer) and offset >= 0
        said.append(position.unpack(offset) if is_position else (offset, 0))

    def commit() -> None:
        try:
            say(consumer.commit(asynchronous=False)[0].offset)
        except KafkaException as error:
            said.append(error.args[0].name())

    consumer.assign([place(topic)])
    say(at(consumer, topic))
    said.append(recover(consumer, topic))
    say(at(consumer, topic))
    commit()
    commit()
    said.append(committed(kafka, group, topic))
    consumer.pause([place(topic)])
    say(at(consumer, topic))
    consumer.resume([place(topic)])
    say(at(consumer, topic))
    consumer.seek(place(topic, 0))
    say(at(consumer, topic))
    said.append(recover(consumer, topic))
    transact(kafka, topic, "a")  # nothing comes, and it goes on all the same
    said.append(recover(consumer, topic))
    commit()
    said.append(committed(kafka, group, topic))
    consumer.unassign()
    consumer.assign([place(topic)])  # behind all there is
    transact(kafka, topic, "ca")
    said.append(recover(consumer, topic))
    commit()
    return said


@pytest.mark.parametrize(("ends", "eof"), [("ca", True), ("a", False)])
def test_it_stands_where_stocks_does(
    kafka: LocalKafka, topic: TopicFactory, make: Callable[..., Any], ends: str, *, eof: bool
) -> None:
    said = []
    for ours in (False, True):
        name = topic()
        transact(kafka, name, ends)
        consumer = make(name, ours=ours, enable__partition__eof=eof)
        said.append(steps(kafka, consumer, name, f"{name}-{ours}"))
    assert said[1] == said[0]


@pytest.mark.parametrize("take", ["poll", "consume_arrow", "poll_segment"])
def test_it_reaches_the_high_watermark_behind_segments(
    kafka: LocalKafka, topic: TopicFactory, make: Callable[..., Any], take: str
) -> None:
    name = topic()
    transact(kafka, name, "cac", segments=True)
    consumer = make(name, ours=True)
    consumer.assign([place(name, 0)])
    calls = {
        "poll": lambda: consumer.poll(0.1),
        "consume_arrow": lambda: consumer.consume_arrow(1, 0.1),
        "poll_segment": lambda: consumer.poll_segment(0.1),
    }
    _, high = consumer.get_watermark_offsets(place(name), TIMEOUT)
    assert high == position.start(6)  # a segment and a marker in each transaction
    eventually(lambda: calls[take]() is None and at(consumer, name) == high, seconds=TIMEOUT)
    [done] = consumer.commit(asynchronous=False)
    assert (done.offset, done.metadata) == (high, None)
    assert committed(kafka, f"{name}-True", name) == (6, None)


def test_a_transactions_offsets_are_behind_its_end(
    kafka: LocalKafka, topic: TopicFactory, make: Callable[..., Any]
) -> None:
    name = topic()
    transact(kafka, name, "c")
    consumer = make(name, ours=True)
    consumer.assign([place(name, 0)])
    recover(consumer, name)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{name}-offsets"}
    with columnar_kafka.Producer(config | PARQUET) as producer:
        producer.init_transactions(TIMEOUT)
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            consumer.position([place(name)]), consumer.consumer_group_metadata(), TIMEOUT
        )
        producer.commit_transaction(TIMEOUT)
    assert committed(kafka, f"{name}-True", name)[0] == 3


def test_auto_commit_goes_on_behind_the_end(
    kafka: LocalKafka, topic: TopicFactory, make: Callable[..., Any]
) -> None:
    name = topic()
    transact(kafka, name, "c")
    config = {"enable__auto__commit": True, "auto__commit__interval__ms": 50}
    consumer = make(name, ours=True, **config)
    consumer.assign([place(name, 0)])

    def is_committed() -> bool:
        consumer.poll(0.1)
        return committed(kafka, f"{name}-True", name)[0] == 3

    eventually(is_committed, seconds=TIMEOUT)
