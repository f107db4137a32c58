"""What a consumer commits, and whom it tells, when its partitions go: at its end, and before."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition
from inside import broker_of
from support import eventually

from columnar_kafka.consuming.group import commits as module
from columnar_kafka.consuming.group.membership import end_unclosed
from columnar_kafka.testing import FakeKafka
from columnar_kafka.testing.consumer import ConsumerOnMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GROUP_WENT_ON = ("STALE_MEMBER_EPOCH", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS")


def kafka_with(count: int) -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    for n in range(count):
        kafka.append("t", 0, value=b"%d" % n)
    return kafka


def consumer_of(kafka: FakeKafka, told: list[Any] | None = None) -> Any:
    config: dict[str, Any] = {
        "group.id": "g",
        "columnar.encoding": "parquet",
        "auto.offset.reset": "earliest",
    }
    if told is not None:
        config["on_commit"] = lambda *results: told.append(results)
    return kafka.Consumer(config)


def committed(kafka: FakeKafka) -> int:
    return int(kafka.committed("g", "t", 0).offset)


# --- commits when the group goes on to another generation -----------------------------------------


def closed_after(error: KafkaError, count: int, told: list[Any]) -> int:
    """Return what a group has committed whose member's commits fail so many times at its end."""
    kafka = kafka_with(4)
    with closing(consumer_of(kafka, told)) as consumer:
        consumer.subscribe(["t"])
        assert len(consumer.consume(3, 20)) == 3
        consumer.memory.fail_next(error, count=count)
    return committed(kafka)


@pytest.mark.parametrize("name", GROUP_WENT_ON)
def test_a_commit_is_tried_again_when_the_group_has_gone_on(name: str) -> None:
    told: list[Any] = []
    assert closed_after(KafkaError(getattr(KafkaError, name)), 3, told) == 3
    [(error, [place])] = told
    assert (error, place.offset) == (None, 3 << 20)


def test_a_commit_of_no_member_is_not_tried_again() -> None:
    told: list[Any] = []
    refused = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    assert closed_after(refused, 1, told) == OFFSET_INVALID
    [(error, [place])] = told
    assert (error, place.offset) == (refused, 3 << 20)


@pytest.mark.parametrize(("lasts", "expected"), [(4.0, 3), (6.0, OFFSET_INVALID)])
def test_a_commit_is_tried_again_for_five_seconds_after_it_was_refused_first(
    monkeypatch: pytest.MonkeyPatch, lasts: float, expected: int
) -> None:
    """However long that took: an answer may wait for the other members of the group."""
    now, until = [0.0], [0.0]
    kafka = kafka_with(4)

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with closing(consumer_of(kafka)) as consumer:
        consumer.subscribe(["t"])
        assert len(consumer.consume(3, 20)) == 3
        commit = consumer.memory.commit

        def slow(*args: Any, **kwargs: Any) -> Any:
            if not until[0]:
                now[0] += 60
                until[0] = now[0] + lasts
            if now[0] < until[0]:
                consumer.memory.fail_next(KafkaError(KafkaError.ILLEGAL_GENERATION))
            return commit(*args, **kwargs)

        monkeypatch.setattr(consumer.memory, "commit", slow)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert committed(kafka) == expected


# --- the end --------------------------------------------------------------------------------------


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, bool]]]:
    """What confluent-kafka's own close finds: partitions assigned, and whether it is a member."""
    states: list[tuple[int, bool]] = []
    close = ConsumerOnMemory.close

    def look_and_close(self: ConsumerOnMemory) -> None:
        if self._memory is not None:
            states.append((len(self.memory.assignment()), bool(self.memory.membership)))
        close(self)

    monkeypatch.setattr(ConsumerOnMemory, "close", look_and_close)
    yield states
    assert states


def fail(*_: Any) -> None:
    raise LookupError("mine")


ON_REVOKE: dict[str, Callable[[Any, list[TopicPartition]], Any]] = {
    "nothing": lambda *_: None,
    "raise": fail,
    "close": lambda consumer, _: consumer.close(),
    "commit": lambda consumer, _: consumer.commit(asynchronous=False),
    "unassign": lambda consumer, _: consumer.unassign(),
    "assign": lambda consumer, partitions: consumer.assign(partitions),
    "incremental_unassign": lambda consumer, partitions: consumer.incremental_unassign(partitions),
    "unsubscribe": lambda consumer, _: consumer.unsubscribe(),
}


@pytest.mark.parametrize("name", ON_REVOKE)
def test_nothing_is_left_to_be_answered_by_a_close_whatever_on_revoke_does(
    left: list[tuple[int, bool]], name: str
) -> None:
    """librdkafka's own close may never return with a rebalance to be answered."""
    kafka, calls = kafka_with(4), []

    def on_revoke(consumer: Any, partitions: list[TopicPartition]) -> None:
        calls.append([partition.partition for partition in partitions])
        ON_REVOKE[name](consumer, partitions)

    consumer = consumer_of(kafka)
    consumer.subscribe(["t"], on_revoke=on_revoke)
    assert len(consumer.consume(3, 20)) == 3
    if name == "raise":
        with pytest.raises(LookupError, match="mine"):
            consumer.close()
    else:
        consumer.close()
    consumer.close()
    assert calls == [[0]]
    assert left == [(0, False)]
    assert committed(kafka) == 3


def test_a_close_tells_of_lost_partitions_and_does_not_commit_them(
    left: list[tuple[int, bool]],
) -> None:
    kafka, calls = kafka_with(4), []
    consumer = consumer_of(kafka)
    consumer.subscribe(
        ["t"],
        on_revoke=lambda *_: calls.append("on_revoke"),
        on_lost=lambda *_: calls.append("on_lost"),
    )
    assert len(consumer.consume(3, 20)) == 3
    consumer.memory.expel()
    consumer.close()
    assert calls == ["on_lost"]
    assert left[0][0] == 0
    assert committed(kafka) == OFFSET_INVALID


def test_a_consumer_that_never_subscribed_commits_what_it_was_assigned(
    left: list[tuple[int, bool]],
) -> None:
    kafka = kafka_with(4)
    consumer = consumer_of(kafka)
    consumer.assign([TopicPartition("t", 0)])
    assert len(consumer.consume(3, 20)) == 3
    consumer.close()
    assert left == [(1, False)]
    assert committed(kafka) == 3


@pytest.mark.parametrize("name", ["unassign", "assign"])
def test_what_on_lost_gives_back_itself_is_not_committed(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The group may have gone on with the partition: a commit could set it back."""
    kafka = kafka_with(4)
    calls: list[int] = []
    commits: list[Any] = []

    def on_lost(consumer: Any, partitions: list[TopicPartition]) -> None:
        ON_REVOKE[name](consumer, partitions)
        calls.append(len(commits))

    with closing(consumer_of(kafka)) as consumer:
        consumer.subscribe(["t"], on_lost=on_lost)
        assert len(consumer.consume(3, 20)) == 3
        commit = consumer.memory.commit

        def noted(*given: Any, **named: Any) -> Any:
            commits.append(given)
            return commit(*given, **named)

        monkeypatch.setattr(consumer.memory, "commit", noted)
        consumer.memory.expel()
        eventually(lambda: consumer.poll(0.01) is not None and calls)
    assert calls == [0]


def test_a_close_that_is_interrupted_while_it_leaves_does_not_commit_any_more(
    left: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit may wait for other members, up to max.poll.interval.ms: who interrupts does not."""
    kafka = kafka_with(4)
    consumer = consumer_of(kafka)
    consumer.subscribe(["t"])
    assert len(consumer.consume(3, 20)) == 3

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(broker_of(consumer), "poll", interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    assert left != []
    assert committed(kafka) == OFFSET_INVALID
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


@pytest.mark.parametrize("within_close", [False, True])
def test_closing_waits_for_no_partition_whose_revocation_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, *, within_close: bool
) -> None:
    """A signal's handler raised in it: the partition has gone, and is not revoked again."""
    kafka = FakeKafka()
    kafka.create_topic("t", 2)
    for partition in (0, 1):
        for n in range(4):
            kafka.append("t", partition, value=b"%d" % n)
    config = {"group.id": "g", "columnar.encoding": "parquet", "auto.offset.reset": "earliest"}
    one = kafka.Consumer(config | {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000})
    other = kafka.Consumer(config)
    one.subscribe(["t"])
    assert len(one.consume(3, 20)) == 3

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def shared() -> bool:
        one.poll(0)
        other.poll(0)
        return len(one.assignment()) == 1

    other.subscribe(["t"])
    with monkeypatch.context() as patch:
        patch.setattr(one.memory, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            eventually(lambda: shared() and False)
    eventually(shared)
    assert one.consume(1, 20)  # there is something to be committed
    polls: list[float] = []
    poll = one.memory.poll
    monkeypatch.setattr(
        one.memory, "poll", lambda seconds: (polls.append(seconds), poll(seconds))[1]
    )
    if within_close:
        monkeypatch.setattr(one.memory, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.close()
    one.close()
    other.close()
    assert len(polls) < 50


def test_the_interpreters_end_asks_nothing_of_a_consumer_that_was_not_closed() -> None:
    """Modules' names and builtins may be None by then."""
    kept: list[object] = []
    consumer = object()

    def base() -> Any:
        raise AssertionError

    end_unclosed(consumer, base, lambda: True, kept.append)
    assert kept == [consumer]
