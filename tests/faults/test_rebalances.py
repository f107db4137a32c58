"""Members join a group and leave it while records are consumed: each record to one, in order."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from support import eventually

from columnar_kafka import Consumer, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.kafka

PARTITIONS = 6
MEMBERS = 3
REBALANCES = 30
SEGMENT_ROWS = 300
A_WHILE = 100  # records that each member takes between two rebalances
PLAIN_EVERY = 701  # not in step with the segments
BACKLOG = 1_000  # records of each partition that wait when a rebalance begins
WORK_SECONDS = 0.002  # what is done with a record; so most rebalances find segments half read

SOON = {"heartbeat.interval.ms": 200}  # members learn of a rebalance with their heartbeat
PROTOCOLS = {
    "range": {"partition.assignment.strategy": "range", **SOON},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", **SOON},
    "consumer": {"group.protocol": "consumer"},
}


class Taken(NamedTuple):
    n: int
    row: int  # in its segment
    member: Member


class Source:
    """A topic that never runs dry: numbered records of each partition, most in segments."""

    def __init__(self, servers: str, topic: str) -> None:
        config = {"bootstrap.servers": servers, "columnar.encoding": "parquet"}
        self.topic = topic
        self.produced = dict.fromkeys(range(PARTITIONS), 0)
        self._producer = Producer(config | {"columnar.segment.rows": SEGMENT_ROWS})
        self._producer.set_schema(topic, pa.schema([("n", pa.int64())]))

    def fill(self, taken: dict[int, list[Taken]]) -> None:
        """Have so many records wait in each partition."""
        for partition, first in self.produced.items():
            end = max(first, len(taken[partition]) + BACKLOG)
            for n in range(first, end):
                value: Any = {"n": n} if n % PLAIN_EVERY else b"%d" % n
                self._producer.produce(self.topic, value, partition=partition)
                self._producer.poll(0)
            self.produced[partition] = end
        assert self._producer.flush(120) == 0

    def close(self) -> None:
        self._producer.close()


class Member:
    """A consumer in a thread of its own, from `join` to `leave`."""

    def __init__(self, config: dict[str, Any], topic: str, taken: dict[int, list[Taken]]) -> None:
        self.mine: set[int] = set()
        self.count = 0
        self.calls: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._config, self._topic, self._taken = config, topic, taken
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Consumer(self._config) as consumer:
                names = ("on_assign", "on_revoke", "on_lost")
                calls: Any = {name: self._counting(name) for name in names}
                consumer.subscribe([self._topic], **calls)
                while not self._leaving.is_set():
                    self._take(consumer.poll(0.1))
                    self.mine = {place.partition for place in consumer.assignment()}
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error

    def _counting(self, name: str) -> Callable[[Any, list[TopicPartition]], None]:
        def count(_: Any, __: list[TopicPartition]) -> None:
            self.calls[name] += 1

        return count

    def _take(self, message: Any) -> None:
        if message is None:
            return
        if message.error() is not None:
            assert message.error().retriable(), message.error()
            return
        value = message.value()
        n = value["n"] if isinstance(value, dict) else int(value)
        self._taken[message.partition()].append(Taken(n, message.row(), self))
        self.count += 1
        time.sleep(WORK_SECONDS)

    def leave(self) -> None:
        """Close it, and wait until that is done."""
        self._leaving.set()
        self._thread.join()
        if self.error is not None:
            raise self.error


def settled(members: list[Member]) -> bool:
    """Say whether each member has partitions, and each partition one member."""
    for member in members:
        if member.error is not None:
            raise member.error
    owned = [partition for member in members for partition in member.mine]
    return all(member.mine for member in members) and sorted(owned) == list(range(PARTITIONS))


@pytest.mark.parametrize("commits_every_ms", [100, 60_000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clean_rebalances_lose_nothing_and_repeat_nothing(
    kafka, topic, caplog, record_property, protocol: str, commits_every_ms: int
) -> None:
    """Not even a record of a segment half of which one member has had, and another the rest."""
    since = time.monotonic()
    name = topic(PARTITIONS)
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        "columnar.encoding": "parquet",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": commits_every_ms,
        **PROTOCOLS[protocol],
    }
    taken: dict[int, list[Taken]] = defaultdict(list)
    calls: Counter[str] = Counter()
    source, members = Source(kafka.bootstrap_servers, name), []
    try:
        for step in range(MEMBERS + REBALANCES):
            if len(members) < MEMBERS:
                members.append(Member(config, name, taken))
            else:
                gone = members.pop(step % MEMBERS)
                gone.leave()
                calls += gone.calls
            eventually(lambda: settled(members))
            source.fill(taken)
            before = [member.count for member in members]
            eventually(
                lambda before=before: all(
                    member.count >= count + A_WHILE
                    for member, count in zip(members, before, strict=True)
                )
            )
        eventually(
            lambda: all(
                len({record.n for record in taken[partition]}) == count
                for partition, count in source.produced.items()
            )
        )
    finally:
        source.close()
        for member in members:
            member.leave()
            calls += member.calls
    total = sum(source.produced.values())
    numbers = {partition: [record.n for record in records] for partition, records in taken.items()}
    different = sum(len(set(number)) for number in numbers.values())
    inside = sum(
        a.member is not b.member and b.row > 0
        for records in taken.values()
        for a, b in pairwise(records)
    )
    figures = {
        "rebalances": REBALANCES,
        "records": total,
        "lost": total - different,
        "redelivered": sum(map(len, numbers.values())) - different,
        "handed over inside a segment": inside,
        "calls": dict(calls),
        "commits that failed": [record.getMessage() for record in caplog.records],
        "seconds": round(time.monotonic() - since, 1),
    }
    for what, figure in figures.items():
        record_property(what, figure)
    assert inside > 0
    assert numbers == {key: list(range(n)) for key, n in source.produced.items()}


def test_a_member_that_closes_while_another_keeps_a_rebalance_waiting_commits(
    kafka, topic, capfd, record_property
) -> None:
    """A commit then has no answer until the other has rejoined or is thrown out, as librdkafka's.

    Confluent's own close waits as long, and what it commits is refused (librdkafka 2.16).
    """
    name = topic(PARTITIONS)
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": name,
        "columnar.encoding": "parquet",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 60_000,
        "session.timeout.ms": 6_000,
        "max.poll.interval.ms": 8_000,
        **PROTOCOLS["cooperative"],
    }
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for n in range(100 * PARTITIONS):
            producer.produce(name, b"%d" % n, partition=n % PARTITIONS)
    taken: Counter[int] = Counter()

    def take(consumer: Consumer) -> None:
        message: Any = consumer.poll(0.05)
        if message is not None and message.error() is None:
            taken[message.partition()] += 1

    def counts(*members: Consumer) -> list[int]:
        return [len(member.assignment()) for member in members]

    waits = "changed join state init -> wait-join"
    one, *others = (Consumer(config | more) for more in ({"debug": "cgrp"}, {}, {}))
    idle, new = others
    try:
        one.subscribe([name])
        eventually(lambda: take(one) or counts(one) == [6])
        idle.subscribe([name])
        eventually(lambda: (take(one), idle.poll(0.05)) and counts(one, idle) == [3, 3])
        new.subscribe([name])
        eventually(lambda: (take(one), new.poll(0.05)) and counts(one) == [2])
        eventually(lambda: take(one) or waits in capfd.readouterr().err)
        mine = [place.partition for place in one.assignment()]
        ends = one.position(one.assignment())
        since = time.monotonic()
        one.close()
        seconds = round(time.monotonic() - since, 1)
        committed = new.committed([TopicPartition(name, partition) for partition in mine], 120)
    finally:
        for other in (one, *others):
            other.close()
    record_property("seconds", seconds)
    assert any(taken[partition] for partition in mine)
    assert [place.offset for place in committed] == [end.offset for end in ends]
