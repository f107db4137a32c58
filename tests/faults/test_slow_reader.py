"""A segment that takes longer to read than `max.poll.interval.ms` costs no member its place."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from columnar_kafka import Consumer, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.kafka

INTERVAL = 6.0  # seconds: the shortest session that a broker allows in the classic protocol
ROWS = 900
WORK = 3 * INTERVAL / ROWS  # seconds for each record
PAUSED = 350  # polls, longer than an interval
BEHIND = 200  # messages of each partition behind its segment: more than is to be held of them
BEHIND_BYTES = 900_000
# Bytes: what is held and paused stays, 32 MiB, and as much comes in its place, besides librdkafka's
# own 64 MiB (`queued.max.messages.kbytes`). Behind the segments waits twice as much and more.
GROWTH = 96 << 20

SOON = {"heartbeat.interval.ms": 200, "session.timeout.ms": int(1000 * INTERVAL)}
PROTOCOLS = {
    "range": {"partition.assignment.strategy": "range", **SOON},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", **SOON},
    "consumer": {"group.protocol": "consumer"},
}


class Told(NamedTuple):
    """What a slow reader says when it has read all."""

    numbers: dict[int, list[int]]
    rebalances: list[str]
    generations: set[bytes]  # with the group's name and the member's, as a broker is told
    memory: list[int]  # resident bytes after each record of the segments
    seconds: float


class Slow:
    """A member that takes its time with each record of the segments, and notes what happens."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self.consumer = consumer
        self._topic = topic
        self.numbers: dict[int, list[int]] = {}
        self.rebalances: list[str] = []
        self.generations: set[bytes] = set()
        self.memory: list[int] = []
        names = ("on_assign", "on_revoke", "on_lost")
        calls: Any = {name: self._noting(name) for name in names}
        consumer.subscribe([topic], **calls)

    def _noting(self, name: str) -> Callable[[Any, list[TopicPartition]], None]:
        def note(_: Any, partitions: list[TopicPartition]) -> None:
            self.rebalances.append(name)
            for partition in partitions:
                self.numbers.setdefault(partition.partition, [])

        return note

    def take(self, timeout: float) -> int | None:
        """Poll once; return the partition of what came."""
        message: Any = self.consumer.poll(timeout)
        if message is None:
            return None
        assert message.error() is None, str(message.error())
        value, partition = message.value(), int(message.partition())
        self.numbers[partition].append(value["n"] if isinstance(value, dict) else int(value))
        return partition

    def work(self) -> int | None:
        """Poll, and do something with what came."""
        taken = self.take(0)
        self.generations.add(self.consumer.consumer_group_metadata().inner)
        self.memory.append(psutil.Process().memory_info().rss)
        time.sleep(WORK)
        return taken

    def pause_and_resume(self, first: int, others: list[int]) -> None:
        """Pause the segment being read, for an interval; then what else there is, for another."""
        paused = []
        for partitions in ([first], others):
            paused += [TopicPartition(self._topic, partition) for partition in partitions]
            self.consumer.pause(paused)
            came = {self.work() for _ in range(PAUSED)}
            assert came.isdisjoint(place.partition for place in paused)
            assert came == {None} or len(paused) < 2
        self.consumer.resume(paused)


def read_slowly(config: dict[str, Any], topic: str, total: int, *, pausing: bool) -> Told:
    """Read so many records of a topic, in a process whose memory nothing else uses."""
    with closing(Consumer(config)) as consumer:
        slow = Slow(consumer, topic)
        while (first := slow.take(0.1)) is None:
            pass
        since = time.monotonic()
        while any(len(number) < ROWS for number in slow.numbers.values()):
            slow.work()
            if pausing and len(slow.numbers[first]) == ROWS // 3:
                pausing = False
                slow.pause_and_resume(first, [number for number in slow.numbers if number != first])
        seconds = time.monotonic() - since
        while sum(map(len, slow.numbers.values())) < total:
            slow.take(0.1)
        return Told(slow.numbers, [*slow.rebalances], slow.generations, slow.memory, seconds)


def fill(servers: str, topic: str, partitions: int) -> None:
    """Produce a segment for each partition, and large plain messages behind it."""
    config = {
        "bootstrap.servers": servers,
        "columnar.encoding": "parquet",
        "compression.type": "none",  # so that what waits is large
    }
    with Producer(config) as producer:
        producer.set_schema(topic, pa.schema([("n", pa.int64())]))
        for partition in range(partitions):
            for n in range(ROWS):
                producer.produce(topic, {"n": n}, partition=partition)
            assert producer.flush(60) == 0  # so that it is one segment
            for n in range(ROWS, ROWS + BEHIND):
                value = b"%d" % n
                producer.produce(topic, value.ljust(BEHIND_BYTES), partition=partition)
            assert producer.flush(60) == 0


@pytest.mark.parametrize("pausing", [False, True], ids=["read on", "paused"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_may_read_one_segment_for_three_intervals(
    kafka, topic, record_property, protocol: str, pausing: bool
) -> None:
    """It stays in its group, gets each record once, and does not hold ever more of what follows."""
    partitions = 2 if pausing else 1
    name = topic(partitions)
    fill(kafka.bootstrap_servers, name, partitions)
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        "auto.offset.reset": "earliest",
        "columnar.encoding": "parquet",
        "max.poll.interval.ms": int(1000 * INTERVAL),
        **PROTOCOLS[protocol],
    }
    total = partitions * (ROWS + BEHIND)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        told = process.submit(read_slowly, config, name, total, pausing=pausing).result()

    third = len(told.memory) // 3
    growth = max(told.memory[third:]) - max(told.memory[:third])
    figures = {
        "records": sum(map(len, told.numbers.values())),
        "intervals": round(told.seconds / INTERVAL, 2),
        "rebalances": len(told.rebalances) - 1,
        "generations": len(told.generations),
        "RSS after a third, MB": max(told.memory[:third]) >> 20,
        "it grew by, MB": round(growth / (1 << 20), 1),
    }
    for what, figure in figures.items():
        record_property(what, figure)
    assert told.seconds >= 3 * INTERVAL
    assert told.rebalances == ["on_assign"]
    assert len(told.generations) == 1
    assert told.numbers == {index: list(range(ROWS + BEHIND)) for index in range(partitions)}
    assert growth <= GROWTH
