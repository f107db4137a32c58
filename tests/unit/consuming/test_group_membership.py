"""What rebalance callbacks do themselves with the partitions that come and go."""

from __future__ import annotations

from typing import Any

import pytest
import tables
from confluent_kafka import OFFSET_INVALID, TopicPartition

from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.testing import FakeKafka
from columnar_kafka.testing.memory import MemoryConsumer

CONFIG = {
    "group.id": "g",
    "columnar.encoding": "parquet",
    "auto.offset.reset": "earliest",
}
P0 = TopicPartition("t", 0)


@pytest.fixture
def kafka() -> FakeKafka:
    made = FakeKafka()
    made.create_topic("t", 1)
    for n in range(3):
        made.append("t", 0, b"%d" % n)
    return made


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each commit was asynchronous."""
    made: list[bool] = []
    commit = MemoryConsumer.commit

    def watched(self: Any, *args: Any, asynchronous: bool) -> Any:
        made.append(asynchronous)
        return commit(self, *args, asynchronous=asynchronous)

    monkeypatch.setattr(MemoryConsumer, "commit", watched)
    return made


def test_a_consumer_that_unassigns_itself_when_it_is_assigned_stays_without(
    kafka: FakeKafka,
) -> None:
    """The end of the callback does not assign the partitions after all."""
    with kafka.Consumer(CONFIG) as consumer:
        consumer.subscribe(["t"], on_assign=lambda *_: consumer.unassign())
        assert consumer.poll(0.2) is None
        assert consumer.assignment() == []


def test_what_on_revoke_gives_back_is_committed_before(
    kafka: FakeKafka, commits: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group goes on at once: a commit that is still on its way would come too late.

    Only a cooperative group allows it. The groups in memory are none, but can be made to allow it.
    """
    monkeypatch.setattr(MemoryConsumer, "_require_no_group", lambda _: None)

    def revoked(consumer: Any, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)

    consumer = kafka.Consumer(CONFIG)
    consumer.subscribe(["t"], on_revoke=revoked)
    assert consumer.poll(10).value() == b"0"
    assert commits == []
    consumer.unsubscribe()
    assert consumer.poll(0) is None
    assert commits == [False]
    assert kafka.committed("g", "t", 0).offset == 1
    consumer.close()


def test_a_group_goes_on_where_it_committed_though_its_assignment_was_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a rebalance to follow, the partition would begin at a segment's first record."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    tables.put(kafka, tables.numbers(0))
    kafka.commit("g", [TopicPartition("t", 0, 0, "1:1:p-0")])  # one record is left
    assign = Feed.assign

    def interrupted(*_: Any) -> None:
        monkeypatch.setattr(Feed, "assign", assign)
        raise KeyboardInterrupt

    monkeypatch.setattr(Feed, "assign", interrupted)
    with kafka.Consumer(CONFIG) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(0)
        assert [message.value() for message in consumer.consume(3, 0)] == [{"n": 2}]


def test_nothing_is_kept_of_a_partition_whose_revocation_was_cut_short(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is another member's by now: its position must not be committed any more."""
    revoke = Feed.revoke

    def interrupted(*_: Any) -> None:
        monkeypatch.setattr(Feed, "revoke", revoke)
        raise KeyboardInterrupt

    with kafka.Consumer(CONFIG) as consumer:
        consumer.subscribe(["t"])
        assert consumer.poll(10).value() == b"0"
        monkeypatch.setattr(Feed, "revoke", interrupted)
        consumer.unsubscribe()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(0)
        assert consumer.consume(9, 0) == []
        assert consumer.position([P0])[0].offset == OFFSET_INVALID


def test_who_gives_a_partition_back_unasked_does_not_wait_for_its_commit(
    kafka: FakeKafka, commits: list[bool]
) -> None:
    consumer = kafka.Consumer(CONFIG)
    consumer.incremental_assign([P0])
    assert consumer.poll(10).value() == b"0"
    consumer.incremental_unassign([P0])
    assert commits == [True]
    assert kafka.committed("g", "t", 0).offset == 1
    consumer.close()
