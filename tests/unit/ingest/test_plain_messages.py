"""Plain messages that an ingestor fetches together: none is lost, and none lands twice."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from ingest_fakes import ingest_from
from lakes import DirectoryLake, rows
from support import eventually

from columnar_kafka import native
from columnar_kafka.errors import LakeError
from columnar_kafka.ingest import Decoding, Ingestor, IngestSettings, IngestStats, Rules, ingestor
from columnar_kafka.lake.model import MayHaveLandedError
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
CONFIG = {"bootstrap.servers": "memory"}
RULES = Rules(plain="decode", decoding=Decoding("json", SCHEMA))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    with FakeKafka() as kafka:
        kafka.create_topic("t", 1)
        ingest_from(kafka, monkeypatch)
        yield kafka


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


def send(kafka: FakeKafka, numbers: Iterable[int], topic: str = "t", partitions: int = 1) -> None:
    with kafka.Producer(CONFIG) as producer:
        for n in numbers:
            producer.produce(topic, b'{"n": %d}' % n, partition=n % partitions)


def send_segment(kafka: FakeKafka, numbers: Iterable[int]) -> None:
    with kafka.Producer(CONFIG | {"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", SCHEMA)
        for n in numbers:
            producer.produce("t", {"n": n}, partition=0)


def to_the_end(table: Any, **settings: Any) -> Ingestor:
    chosen = {"partitions": (0,), "stop_at_end": True, "topic_generation": "g", **settings}
    config = CONFIG | {"group.id": "g"}
    return Ingestor(config, "t", table, IngestSettings(rules=RULES, **chosen))


def ingest(table: Any, **settings: Any) -> IngestStats:
    return to_the_end(table, **settings).run()


def in_file_order(lake: DirectoryLake) -> list[int]:
    numbers: list[int] = lake.read()["n"].to_pylist()
    return numbers


@pytest.mark.skipif(not native.enabled, reason="the native core reads them")
def test_many_are_fetched_in_one_call(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    class Counting(kafka.Consumer):  # type: ignore[misc,name-defined]
        def poll(self, timeout: float = -1) -> Any:
            calls.append(1)
            return super().poll(timeout)

    monkeypatch.setattr(ingestor, "StockConsumer", Counting)
    send(kafka, range(5000))
    assert ingest(lake.table()).decoded == 5000
    assert in_file_order(lake) == list(range(5000))
    assert len(calls) < 10


def test_segments_among_them_keep_their_places(kafka: FakeKafka, lake: DirectoryLake) -> None:
    for n in range(0, 40, 4):
        send(kafka, (n, n + 1))
        send_segment(kafka, (n + 2, n + 3))
    stats = ingest(lake.table())
    assert (stats.rows, stats.segments, stats.decoded) == (40, 10, 20)
    assert in_file_order(lake) == list(range(40))


@pytest.mark.parametrize("end", [1, 7, 20])
def test_it_ends_before_an_offset_among_them(
    kafka: FakeKafka, lake: DirectoryLake, end: int
) -> None:
    send(kafka, range(20))
    assert ingest(lake.table(), stop_at_end=False, end_offsets={0: end}).rows == end
    assert ingest(lake.table()).rows == 20 - end
    assert rows(lake) == list(range(20))


def test_a_bad_one_among_them_ends_it_and_is_named(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(20))
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", b'{"n": null}', partition=0)
    send(kafka, range(21, 30))
    with pytest.raises(LakeError, match=r"plain message at t\[0\]@20: field 'n' is null"):
        ingest(lake.table())
    assert [path for path in lake.root.rglob("*") if path.is_file()] == []


class FailingOnce:
    """A table whose first commit has an unknown outcome, landed or not."""

    def __init__(self, table: Any, *, landed: bool) -> None:
        self._table = table
        self._landed = landed
        self._fails = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, staged: Any) -> Any:
        if not self._fails:
            return self._table.commit(staged)
        self._fails = False
        if self._landed:
            self._table.commit(staged)
        raise MayHaveLandedError("no answer")


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("roll_bytes", [1, 30])
def test_after_a_commit_of_unknown_outcome_the_others_come_again(
    kafka: FakeKafka, lake: DirectoryLake, *, landed: bool, roll_bytes: int
) -> None:
    send(kafka, range(20))
    ingest(FailingOnce(lake.table(), landed=landed), roll_bytes=roll_bytes)
    assert in_file_order(lake) == list(range(20))


@pytest.mark.skipif(not native.enabled, reason="only then many are fetched")
def test_what_was_fetched_while_partitions_were_assigned_comes_again(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rebalanced(kafka.Consumer):  # type: ignore[misc,name-defined]
        assignments = 0

        def subscribe(self, topics: list[str], on_assign: Any, **more: Any) -> None:
            self.on_assign = on_assign
            super().subscribe(topics, on_assign=on_assign, **more)

        def consume(self, count: int = 1, timeout: float = -1) -> Any:
            messages = super().consume(5, timeout)
            if self.assignments < 3:
                Rebalanced.assignments += 1
                self.on_assign(self, [TopicPartition("t", 0)])
                messages += super().consume(2, timeout)
            return messages

    monkeypatch.setattr(ingestor, "StockConsumer", Rebalanced)
    send(kafka, range(40))
    ingest(lake.table(), partitions=None)
    assert Rebalanced.assignments == 3
    assert in_file_order(lake) == list(range(40))


def test_a_group_that_rebalances_lands_each_once(kafka: FakeKafka, lake: DirectoryLake) -> None:
    kafka.create_topic("u", 4)
    settings = IngestSettings(topic_generation="g", roll_seconds=0.01, rules=RULES)
    services = [Ingestor(CONFIG, "u", lake.table(), settings) for _ in range(2)]
    threads = [threading.Thread(target=service.run) for service in services]
    for start in range(0, 400, 100):
        send(kafka, range(start, start + 100), "u", 4)
        if start in (100, 200):  # the second joins while the first is at work
            threads[start // 100 - 1].start()
    eventually(lambda: sum(service.stats.rows for service in services) == 400)
    for service, thread in zip(services, threads, strict=True):
        service.stop()
        thread.join()
    assert rows(lake) == list(range(400))
