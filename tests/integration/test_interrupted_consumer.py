"""A signal handler that raises (Ctrl-C) anywhere in a consumer's calls loses no record."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from interrupting import Interrupted, Signals

import columnar_kafka
from columnar_kafka import Consumer, Producer, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

SCHEMA = pa.schema([("n", pa.int64())])
PARTITIONS = 2
RECORDS = 6_000  # in each partition
OURS = str(Path(columnar_kafka.__file__).parent)
Records = dict[int, list[int]]


class Interruptions(Signals):
    """Come at random, and raise in this package's functions; between them, later."""

    def _come(self, frame: FrameType) -> None:
        if frame.f_code.co_filename.startswith(OURS):
            self._raise()
        self.soon()

    def soon(self) -> None:
        self._arm(10 ** self._random.uniform(-5, -2.3))


@pytest.fixture
def interruptions() -> Iterator[Interruptions]:
    with Interruptions(7) as made:
        yield made


def fill(kafka: LocalKafka, topic: str, *, plain: bool) -> None:
    """Put the numbers into each partition, in order: segments, and between them plain messages."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    ours, stock = Producer(config), confluent_kafka.Producer(dict(list(config.items())[:1]))
    ours.set_schema(topic, SCHEMA)
    numbers = random.Random(3)
    begin = 0
    while begin < RECORDS:
        end = min(RECORDS, begin + numbers.choice([1, 3, 200, 1500]))
        for partition in range(PARTITIONS):
            ours.produce_arrow(topic, pa.table({"n": range(begin, end)}), partition=partition)
        ours.flush()
        begin = end
        if plain:
            end = min(RECORDS, begin + numbers.choice([0, 1, 40, 300]))
            for partition in range(PARTITIONS):
                for n in range(begin, end):
                    stock.produce(topic, b"%d" % n, partition=partition)
            stock.flush()
            begin = end
    ours.close()


def by_poll(consumer: Consumer) -> Any:
    return consumer.poll(0.2)


def by_consume(consumer: Consumer) -> Any:
    return consumer.consume(500, 0.05)


def by_some(consumer: Consumer) -> Any:
    return consumer.consume(150, 0.02)


def by_table(consumer: Consumer) -> Any:
    return consumer.consume_arrow(700, 0.05)


def by_segment(consumer: Consumer) -> Any:
    try:
        return consumer.poll_segment(0.2)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._STATE:
            raise
    return consumer.poll(0.2)  # a plain message


def by_reader(consumer: Consumer) -> Any:
    try:
        return consumer.arrow_reader(timeout=0.05).read_next_batch()
    except (KafkaException, StopIteration):  # there is nothing in time
        return None


def note(seen: Records, taken: Any) -> None:
    if isinstance(taken, pa.Table | pa.RecordBatch):
        for row in taken.to_pylist():
            n = row["n"] if "n" in row else int(row["value"])
            seen[row["_kafka"]["partition"]].append(n)
    elif isinstance(taken, Segment):
        seen[taken.partition].extend(taken.to_table(["n"])["n"].to_pylist())
    else:
        for message in taken if isinstance(taken, list) else [taken]:
            assert message.error() is None
            value = message.value()
            seen[message.partition()].append(value["n"] if isinstance(value, dict) else int(value))


def read(
    consumer: Consumer,
    take: Callable[[Consumer], Any],
    seen: Records,
    within: Interruptions | None,
) -> None:
    """Make one call, which may be interrupted."""
    taken = None
    with suppress(Interrupted):
        if within is not None:
            within.soon()
        taken = take(consumer)
    if within is not None:
        within.armed = False
    if taken is not None:
        note(seen, taken)


def read_all(
    consumer: Consumer,
    take: Callable[[Consumer], Any],
    seen: Records,
    records: int,
    interruptions: Interruptions,
) -> None:
    """Take that many records, at least; 60 calls are interrupted."""
    most = interruptions.count + 60
    deadline = time.monotonic() + 240
    while sum(map(len, seen.values())) < records:
        assert time.monotonic() < deadline, "something is lost"
        read(consumer, take, seen, interruptions if interruptions.count < most else None)


def begin(kafka: LocalKafka, group: str, **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "columnar.encoding": "parquet",
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 20,
            "fetch.wait.max.ms": 5,  # for so long librdkafka puts off what it fetches again
            **config,
        }
    )


def close(consumer: Consumer) -> None:
    with suppress(Interrupted):  # in a callback, as yet not raised
        consumer.close()


WAYS = [  # to take; subscribed or assigned; auto-commit or not
    (by_poll, True, True),
    (by_consume, False, False),
    (by_table, True, False),
    (by_segment, False, True),
    (by_reader, True, True),
]


# Python swallows what is raised while it collects garbage.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("take", "subscribes", "commits"), WAYS, ids=[take.__name__ for take, _, _ in WAYS]
)
def test_each_record_comes_once_to_one_consumer_or_the_next(
    kafka: LocalKafka,
    topic: TopicFactory,
    interruptions: Interruptions,
    take: Callable[[Consumer], Any],
    subscribes: bool,
    commits: bool,
) -> None:
    name = topic(PARTITIONS)
    fill(kafka, name, plain=True)
    seen: Records = {partition: [] for partition in range(PARTITIONS)}
    for share in (0.4, 0.8, 1):
        consumer = begin(kafka, name, **{"enable.auto.commit": commits})
        if subscribes:
            consumer.subscribe([name])
        else:
            consumer.assign([TopicPartition(name, partition) for partition in range(PARTITIONS)])
        read_all(consumer, take, seen, int(share * PARTITIONS * RECORDS), interruptions)
        if not commits:
            consumer.commit(asynchronous=False)
        close(consumer)
    assert interruptions.count > 20
    assert seen == {partition: list(range(RECORDS)) for partition in range(PARTITIONS)}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_record_is_lost_where_rebalances_are_interrupted(
    kafka: LocalKafka, topic: TopicFactory, interruptions: Interruptions
) -> None:
    """One consumer stays; others come and go, and partitions with them."""
    name = topic(PARTITIONS)
    fill(kafka, name, plain=True)
    config = {"heartbeat.interval.ms": 50}
    seen: Records = {partition: [] for partition in range(PARTITIONS)}
    stays = begin(kafka, name, **config)
    stays.subscribe([name])
    deadline = time.monotonic() + 240
    while not all(set(numbers) == set(range(RECORDS)) for numbers in seen.values()):
        assert time.monotonic() < deadline, "something is lost"
        comes = begin(kafka, name, **config)
        comes.subscribe([name])
        for turn in range(40):
            for consumer in (stays, comes):
                read(consumer, by_some, seen, interruptions if turn % 2 else None)
        close(comes)
    close(stays)
    assert interruptions.count > 20
