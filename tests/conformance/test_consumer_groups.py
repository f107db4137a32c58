"""Groups on a real broker: subscriptions, rebalances in both protocols, times, and what is lost."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import ConsumerGroupState, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec
from consumers import ON_KAFKA, on_kafka, outcome, until
from support import eventually

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from consumers import ConsumerMaker

pytestmark = pytest.mark.kafka

make = on_kafka()

HERE = 1_700_000_000_000
FOREVER = {"retention.ms": "-1"}
SOON = {"heartbeat__interval__ms": 200}  # members learn of a rebalance with their heartbeat
PROTOCOLS = {
    "range": {"partition__assignment__strategy": "range", **SOON},
    "cooperative": {"partition__assignment__strategy": "cooperative-sticky", **SOON},
    "consumer": {"group__protocol": "consumer"},
}
# Positions do not depend on the protocol, nor rebalances on what a message holds.
EACH_PROTOCOL = pytest.mark.parametrize(
    ("make", "protocol"),
    [(kind, protocol) for kind in ON_KAFKA for protocol in PROTOCOLS if kind != "ours, plain"]
    + [("ours, plain", "range")],
    indirect=["make"],
)


class Events:
    """What a consumer's rebalance callbacks were called with."""

    def __init__(self) -> None:
        self.log: list[tuple[str, list[int]]] = []
        self.consumers: list[Any] = []

    def callbacks(self, *names: str) -> dict[str, Any]:
        return {name: self._noting(name) for name in names or ("on_assign", "on_revoke")}

    def _noting(self, name: str) -> Any:
        def note(consumer: Any, partitions: list[TopicPartition]) -> None:
            self.consumers.append(consumer)
            self.log.append((name, sorted(partition.partition for partition in partitions)))

        return note


def topic_of(make: Any, count: int = 6, partitions: int = 1) -> str:
    """A topic that keeps old records, with so many in each partition."""
    created = make.create_topic
    make.create_topic = lambda name, number: created(name, number, FOREVER)
    try:
        topic: str = make.topic(partitions=partitions)
    finally:
        make.create_topic = created
    for partition in range(partitions):
        make.fill(topic, count, partition=partition)
    return topic


def joined(make: Any, topic: str, count: int, **config: Any) -> tuple[Any, Events]:
    """A member of the group that has taken so many records, and what its callbacks were told."""
    consumer, events = make(**config), Events()
    consumer.subscribe([topic], **events.callbacks())
    make.take(consumer, count)
    return consumer, events


def together(*consumers: Any, until_: Callable[[list[Any]], Any]) -> list[Any]:
    """Poll all members in turns until something is the case of what came; return that."""
    messages: list[Any] = []

    def happened() -> Any:
        messages.extend(
            message for consumer in consumers if (message := consumer.poll(0.02)) is not None
        )
        return until_(messages)

    eventually(happened)
    return messages


# --- subscriptions --------------------------------------------------------------------------------


@EACH_PROTOCOL
def test_a_member_gets_all_records(make, protocol: str) -> None:
    topic = topic_of(make)
    consumer, events = joined(make, topic, 6, **PROTOCOLS[protocol])
    assert [place.partition for place in consumer.assignment()] == [0]
    assert events.log == [("on_assign", [0])]
    assert events.consumers == [consumer]
    assert consumer.memberid()


def test_partitions_are_assigned_without_an_offset(make) -> None:
    topic, given = topic_of(make), []
    consumer = make()
    consumer.subscribe(
        [topic], on_assign=lambda _, ps: given.extend((p.topic, p.offset) for p in ps)
    )
    make.take(consumer, 1)
    assert given == [(topic, -1001)]


@EACH_PROTOCOL
def test_a_member_goes_on_where_its_group_committed(make, protocol: str) -> None:
    topic = topic_of(make)
    consumer, _ = joined(make, topic, 4, **PROTOCOLS[protocol])
    assert make.indexes(consumer.commit(asynchronous=False)) == [4]
    consumer.close()
    again = make(**PROTOCOLS[protocol])
    again.subscribe([topic])
    assert make.take(again, 2) == [4, 5]


def test_topics_may_be_a_pattern(make) -> None:
    first, second = topic_of(make, 2), topic_of(make, 2)
    consumer = make()
    consumer.subscribe([f"^{make.name}-.*"])
    messages = consumer.consume(4, 20)
    assert {message.topic() for message in messages} == {first, second}


def test_an_unknown_topic_is_an_event(make) -> None:
    consumer = make(allow__auto__create__topics=False)
    consumer.subscribe(["nowhere-at-all"])
    [event] = consumer.consume(1, 20)
    assert event.error().name() == "UNKNOWN_TOPIC_OR_PART"
    assert event.topic() == "nowhere-at-all"


def test_a_subscription_replaces_the_one_before(make) -> None:
    first, second = topic_of(make, 2), topic_of(make, 3)
    consumer, events = joined(make, first, 2)
    consumer.subscribe([second], **events.callbacks())
    assert make.take(consumer, 3) == [0, 1, 2]
    assert {place.topic for place in consumer.assignment()} == {second}
    assert events.log == [("on_assign", [0]), ("on_revoke", [0]), ("on_assign", [0])]


def test_leaving_a_subscription_gives_partitions_back_in_a_poll(make) -> None:
    topic = topic_of(make)
    consumer, events = joined(make, topic, 2)
    consumer.unsubscribe()
    assert events.log == [("on_assign", [0])]
    assert until(consumer, lambda: len(events.log) > 1) == []
    assert events.log == [("on_assign", [0]), ("on_revoke", [0])]
    assert consumer.assignment() == []


def test_leaving_a_subscription_commits(make) -> None:
    topic = topic_of(make)
    consumer, _ = joined(make, topic, 2, enable__auto__commit=True)
    consumer.unsubscribe()
    until(consumer, lambda: consumer.assignment() == [])
    assert make.committed(topic) == 2
    consumer.subscribe([topic])
    assert make.take(consumer, 2) == [2, 3]


def begun_at(make: ConsumerMaker, index: int, assign: Any, **config: Any) -> Any:
    """Return a member that assigns its partitions from this record on, in `on_assign`."""
    topic, consumer = topic_of(make), make(**config)

    def begin(member: Any, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = make.at(topic, index)
        assign(member, partitions)

    consumer.subscribe([topic], on_assign=begin)
    return consumer


def test_a_member_may_begin_where_it_wants(make) -> None:
    consumer = begun_at(make, 4, make.kind.assign)
    assert make.take(consumer, 2) == [4, 5]
    assert make.indexes(consumer.assignment()) == [4]


def test_a_cooperative_member_may_begin_where_it_wants(make) -> None:
    consumer = begun_at(make, 4, make.kind.incremental_assign, **PROTOCOLS["cooperative"])
    assert make.take(consumer, 2) == [4, 5]


def test_a_cooperative_member_assigns_incrementally(make) -> None:
    topic = topic_of(make)
    consumer, _ = joined(make, topic, 2, **PROTOCOLS["cooperative"])
    expected = ("_STATE", "Failed to set assignment: Local: Erroneous state")
    assert outcome(consumer.assign, [make.place(topic, 0)]) == expected


def test_what_is_committed_is_known_in_on_assign(make) -> None:
    topic, known = topic_of(make), []
    first, _ = joined(make, topic, 4)
    first.commit(asynchronous=False)
    first.close()
    consumer = make()
    consumer.subscribe([topic], on_assign=lambda c, ps: known.extend(c.committed(ps, 20)))
    assert make.take(consumer) == [4]
    assert make.indexes(known) == [4]


def test_what_on_assign_raises_is_raised_by_poll_and_no_record_is_lost(make) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("mine")

    topic, consumer = topic_of(make), make()
    consumer.subscribe([topic], on_assign=fail)
    with pytest.raises(LookupError, match="mine"):
        until(consumer, lambda: False)
    assert make.take(consumer, 6) == list(range(6))


# --- rebalances -----------------------------------------------------------------------------------


@EACH_PROTOCOL
def test_a_record_comes_to_one_member_only(make, protocol: str) -> None:
    """What one has taken is committed when its partition goes; the other goes on behind it."""
    topic = topic_of(make, 4, partitions=2)
    config = {
        "enable__auto__commit": True,
        "auto__commit__interval__ms": 60_000,
        **PROTOCOLS[protocol],
    }
    one, other = make(**config), make(**config)
    one.subscribe([topic])
    taken = one.consume(5, 20)
    other.subscribe([topic])
    taken += together(
        one,
        other,
        until_=lambda messages: (
            len(messages) >= 3 and len(one.assignment()) == len(other.assignment()) == 1
        ),
    )
    for partition in (0, 1):
        make.fill(topic, 2, partition=partition)
    one.close()
    taken += together(other, until_=lambda messages: len(messages) >= 4)
    places = [message.partition() for message in taken]
    assert sorted(zip(places, make.numbers(taken), strict=True)) == [
        (partition, number) for partition in (0, 1) for number in range(6)
    ]


@EACH_PROTOCOL
def test_on_revoke_may_commit(make, protocol: str) -> None:
    topic, done = topic_of(make), []
    consumer = make(**PROTOCOLS[protocol])
    consumer.subscribe([topic], on_revoke=lambda c, _: done.extend(c.commit(asynchronous=False)))
    make.take(consumer, 4)
    consumer.close()
    assert make.indexes(done) == [4]
    assert make.committed(topic) == 4


def test_on_revoke_may_commit_beside_auto_commit(make) -> None:
    topic, done = topic_of(make), []
    consumer = make(enable__auto__commit=True)
    consumer.subscribe([topic], on_revoke=lambda c, _: done.extend(c.commit(asynchronous=False)))
    make.take(consumer, 4)
    consumer.close()
    assert make.indexes(done) == [4]


def test_what_on_revoke_raises_is_raised_by_close_and_the_commit_is_done(make) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("mine")

    topic = topic_of(make)
    consumer = make(enable__auto__commit=True)
    consumer.subscribe([topic], on_revoke=fail)
    make.take(consumer, 4)
    with pytest.raises(LookupError, match="mine"):
        consumer.close()
    assert make.committed(topic) == 4
    assert consumer.close() is None


def test_on_commit_is_told_at_the_end(make) -> None:
    topic, told = topic_of(make), []
    consumer = make(
        enable__auto__commit=True,
        on_commit=lambda error, ps: told.append((error, make.indexes(ps))),
    )
    consumer.subscribe([topic])
    make.take(consumer, 4)
    consumer.close()
    assert told == [(None, [4])]


def test_what_was_taken_is_committed_by_closing_while_an_assignment_waits(make) -> None:
    """librdkafka answers that assignment by leaving the group, before it calls on_revoke.

    There stock commits what is stored; what on_revoke itself commits comes too late for it.
    """
    topic = topic_of(make, 3, partitions=2)
    settings = {"auto__commit__interval__ms": 60_000, **PROTOCOLS["cooperative"]}
    one, other, done = make(enable__auto__commit=True, **settings), make(**settings), []

    def commit(consumer: Any, _: Any) -> None:
        done.extend(consumer.commit(asynchronous=False))

    one.subscribe([topic], **({"on_revoke": commit} if make.of.unwraps else {}))
    make.take(one, 6)
    other.subscribe([topic])
    together(one, other, until_=lambda _: len(one.assignment()) == len(other.assignment()) == 1)
    [mine] = [place.partition for place in one.assignment()]
    make.fill(topic, 4, partition=mine)
    together(one, other, until_=lambda messages: len(messages) == 4)
    other.close()
    eventually(lambda: partitions_of_the_only_member(make) == 2)  # it has not polled
    one.close()
    assert make.committed(topic, partition=mine) == 7
    if make.of.unwraps:
        assert make.index(topic, done[-1].offset, mine) == 7


@contextmanager
def stderr(path: Path) -> Iterator[Callable[[], str]]:
    """Have all that is written to stderr in a file, and yield what reads it.

    capfd loses what librdkafka's threads write while it is read.
    """
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield partial(path.read_text, errors="replace")
    finally:
        os.dup2(before, 2)
        os.close(before)


def with_a_revocation_waiting(make: ConsumerMaker, folder: Path, protocol: str) -> tuple[str, Any]:
    """Return a topic, and a member that has taken its six records and must give up a partition."""
    topic = topic_of(make, 3, partitions=2)
    config = {"auto__commit__interval__ms": 60_000, **PROTOCOLS[protocol]}
    one, other = make(enable__auto__commit=True, debug="cgrp", **config), make(**config)
    one.subscribe([topic])
    make.take(one, 6)
    with stderr(folder / "stderr") as written:
        other.subscribe([topic])
        together(other, until_=lambda _: "wait-unassign-call" in written())
    return topic, one


@EACH_PROTOCOL
def test_what_was_taken_is_committed_by_closing_while_a_revocation_waits(
    make, tmp_path: Path, protocol: str
) -> None:
    if protocol == "range" and not make.of.unwraps:
        pytest.skip("stock leaves the group before it commits, and may wait in close for ever")
    topic, one = with_a_revocation_waiting(make, tmp_path, protocol)
    one.close()
    assert [make.committed(topic, partition=partition) for partition in (0, 1)] == [3, 3]


@EACH_PROTOCOL
def test_what_was_taken_is_committed_by_unsubscribing_while_a_revocation_waits(
    make, tmp_path: Path, protocol: str
) -> None:
    """Unlike a close, it leaves the group after the revocation."""
    topic, one = with_a_revocation_waiting(make, tmp_path, protocol)
    one.unsubscribe()
    until(one, lambda: one.assignment() == [])
    assert [make.committed(topic, partition=partition) for partition in (0, 1)] == [3, 3]


@EACH_PROTOCOL
def test_closing_leaves_the_group(make, capfd, monkeypatch, protocol: str) -> None:
    """Ours unsubscribes first; closed before that is done, librdkafka would forget to leave."""
    monkeypatch.setattr(columnar_kafka.consuming.group.membership, "_LEAVE_POLL", 0.0001)
    topic = topic_of(make, 2, partitions=8)
    consumer = make(debug="cgrp", **PROTOCOLS[protocol])
    consumer.subscribe([topic])
    make.take(consumer, 16)
    capfd.readouterr()
    consumer.close()
    log = capfd.readouterr().err
    assert "|LEAVE|" in log
    assert not make.of.unwraps or log.index("|LEAVE|") < log.index("|CLOSE|")


@EACH_PROTOCOL
def test_what_on_revoke_gives_back_itself_is_committed(make, protocol: str) -> None:
    """With a member that joins, and when it closes."""
    topic = topic_of(make, 3, partitions=2)
    config = {"auto__commit__interval__ms": 60_000, **PROTOCOLS[protocol]}
    one, other = make(enable__auto__commit=True, **config), make(**config)

    def give_back(consumer: Any, partitions: list[TopicPartition]) -> None:
        if protocol == "range":
            consumer.unassign()
        else:
            consumer.incremental_unassign(partitions)

    one.subscribe([topic], on_revoke=give_back)
    make.take(one, 6)
    other.subscribe([topic])
    together(one, other, until_=lambda _: len(one.assignment()) == len(other.assignment()) == 1)
    [given] = [place.partition for place in other.assignment()]
    assert make.committed(topic, partition=given) == 3
    one.close()
    assert make.committed(topic, partition=1 - given) == 3


def partitions_of_the_only_member(make: Any) -> int:
    """Return how many a group has given it, once that is settled; it may not know yet."""
    admin = AdminClient({"bootstrap.servers": make.servers})
    group = admin.describe_consumer_groups([make.name])[make.name].result(20)
    if group.state != ConsumerGroupState.STABLE or len(group.members) != 1:
        return 0
    return len(group.members[0].assignment.topic_partitions)


def test_closing_gives_partitions_back(make) -> None:
    topic = topic_of(make, partitions=2)
    consumer, events = joined(make, topic, 3)
    consumer.close()
    assert events.log == [("on_assign", [0, 1]), ("on_revoke", [0, 1])]


def test_new_partitions_are_assigned_too(make) -> None:
    topic = topic_of(make)
    config = {"enable__auto__commit": True, "topic__metadata__refresh__interval__ms": 200}
    consumer, events = joined(make, topic, 3, **config, **SOON)
    admin = AdminClient({"bootstrap.servers": make.servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(20)
    messages = until(consumer, lambda: len(consumer.assignment()) == 2)
    make.fill(topic, 2, partition=1)
    messages += together(consumer, until_=lambda more: len(messages + more) >= 5)
    places = [message.partition() for message in messages]
    numbers = sorted(zip(places, make.numbers(messages), strict=True))
    assert numbers == [(0, 3), (0, 4), (0, 5), (1, 0), (1, 1)]
    assert events.log[-1] == ("on_assign", [0, 1])


def test_a_static_member_comes_back_without_a_rebalance(make) -> None:
    topic = topic_of(make, 2, partitions=2)
    one, events = joined(make, topic, 4, group__instance__id=f"{make.name}-a", **SOON)
    one.commit(asynchronous=False)
    name = {"group__instance__id": f"{make.name}-b", **SOON}
    other = make(**name)
    other.subscribe([topic])
    together(one, other, until_=lambda _: len(one.assignment()) == len(other.assignment()) == 1)
    before, seen = [place.partition for place in other.assignment()], len(events.log)
    other.close()
    again = make(**name)
    again.subscribe([topic])
    together(one, again, until_=lambda _: again.assignment())
    assert [place.partition for place in again.assignment()] == before
    assert len(events.log) == seen


@pytest.mark.parametrize("make", ["confluent", "ours, segments"], indirect=True)
@pytest.mark.parametrize("name", ["on_lost", "on_revoke"])
def test_partitions_that_are_lost_are_told_and_not_committed(
    make, tmp_path: Path, name: str
) -> None:
    """Where on_lost is not given, on_revoke is called."""
    topic, events = topic_of(make), Events()
    config = {"enable__auto__commit": True, "auto__commit__interval__ms": 60_000, "log_level": 4}
    consumer = make(max__poll__interval__ms=400, **config, **PROTOCOLS["consumer"])
    consumer.subscribe([topic], **events.callbacks("on_assign", name))
    with stderr(tmp_path / "stderr") as written:
        make.take(consumer, 4)
        eventually(lambda: "MAXPOLL" in written())
    assert make.committed(topic) == -1001
    messages = until(consumer, lambda: (name, [0]) in events.log)
    assert make.committed(topic) == -1001
    messages += until(consumer, lambda: len(events.log) == 3)
    messages += together(
        consumer, until_=lambda more: {*range(6)} <= {*make.numbers(messages + more)}
    )
    assert make.numbers(messages) == ["_MAX_POLL_EXCEEDED", *range(6)]


# --- times ----------------------------------------------------------------------------------------


TIMES = [HERE + 10 * n for n in range(8)]


def timed(make: Any) -> str:
    topic = topic_of(make, 0)
    make.fill(topic, 8, times=TIMES)
    return topic


def test_a_time_is_its_first_record(make) -> None:
    topic, consumer = timed(make), make()
    between = [(0, 0), (HERE + 45, 5), (HERE + 69, 7)]
    for time, index in [*between, *((time, n) for n, time in enumerate(TIMES))]:
        [place] = consumer.offsets_for_times([TopicPartition(topic, 0, time)], 20)
        assert (place.topic, place.partition) == (topic, 0)
        assert place.offset == make.at(topic, index), time


def test_a_time_after_all_records_is_none(make) -> None:
    topic = timed(make)
    [place] = make().offsets_for_times([TopicPartition(topic, 0, HERE + 71)], 20)
    assert place.offset == -1


def test_looking_a_time_up_leaves_the_consumers_place(make) -> None:
    topic, consumer = timed(make), make()
    consumer.assign([make.place(topic, 0)])
    assert make.take(consumer, 2) == [0, 1]
    [place] = consumer.offsets_for_times([TopicPartition(topic, 0, HERE + 60)], 20)
    assert make.take(consumer, 2) == [2, 3]
    consumer.seek(place)
    assert make.take(consumer, 2) == [6, 7]


def test_times_are_looked_up_of_several_partitions_at_once(make) -> None:
    topic = topic_of(make, 0, partitions=3)
    for partition in (0, 1):
        make.fill(topic, 8, partition=partition, times=TIMES)
    wanted = [TopicPartition(topic, index, HERE + 20 + index * 30) for index in range(3)]
    places = make().offsets_for_times(wanted, 20)
    assert [place.offset for place in places] == [make.at(topic, 2), make.at(topic, 5, 1), -1]


def test_a_time_is_looked_up_among_what_is_committed(make) -> None:
    """An aborted message is no record; the next one is."""
    topic = topic_of(make, 0)
    producer = Producer({"bootstrap.servers": make.servers, "transactional.id": make.name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=0, timestamp=HERE + 5)
    producer.flush(20)
    producer.abort_transaction(20)
    make.ends[topic, 0] = 2  # with the marker of the end
    make.fill(topic, 3, times=TIMES)
    consumer = make()

    def offsets() -> list[TopicPartition]:
        """The end of the transaction is written a moment after it was aborted."""
        wanted = [TopicPartition(topic, 0, HERE)]
        return [offset for offset in consumer.offsets_for_times(wanted, 20) if offset.offset >= 0]

    consumer.assign(eventually(offsets))
    assert make.take(consumer, 3) == [0, 1, 2]


def test_an_unknown_partition_has_no_times(make) -> None:
    reason = "Failed to get offsets: Local: Unknown partition"
    call = make().offsets_for_times
    assert outcome(call, [TopicPartition("nowhere", 0, 5)], 20) == ("_UNKNOWN_PARTITION", reason)


def test_no_partition_has_no_times(make) -> None:
    reason = "Failed to get offsets: Local: Invalid argument or configuration"
    assert outcome(make().offsets_for_times, [], 20) == ("_INVALID_ARG", reason)


def test_no_time_is_enough_to_look_up(make) -> None:
    topic = timed(make)
    reason = "Failed to get offsets: Local: Timed out"
    consumer = make()
    consumer.list_topics(topic, 20)  # and so there is a connection
    call = consumer.offsets_for_times
    assert outcome(call, [TopicPartition(topic, 0, 0)], 0) == ("_TIMED_OUT", reason)


# --- what a broker tells --------------------------------------------------------------------------


def test_a_place_beyond_the_end_is_where_a_new_group_begins(make) -> None:
    topic, consumer = topic_of(make), make()
    consumer.assign([make.place(topic, 1000)])
    assert make.take(consumer, 2) == [0, 1]


def test_a_seek_beyond_the_end_is_where_a_new_group_begins(make) -> None:
    topic, consumer = topic_of(make), make()
    consumer.assign([make.place(topic, 0)])
    make.take(consumer, 4)
    consumer.seek(make.place(topic, 1000))
    assert make.take(consumer, 2) == [0, 1]


def test_what_was_committed_and_is_gone_is_where_a_new_group_begins(make) -> None:
    """The records were deleted: the first that is there comes, from its first row on."""
    topic = topic_of(make, 12)
    first = make()
    first.assign([make.place(topic, 0)])
    make.take(first, 2)
    first.commit(asynchronous=False)
    with closing(first):
        kept = make.places[topic, 0][6]
    offset = kept >> 20 if make.of.unwraps else kept
    admin = AdminClient({"bootstrap.servers": make.servers})
    [done] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    done.result(20)
    consumer = make()
    consumer.assign([make.place(topic)])
    assert make.take(consumer, 6) == [6, 7, 8, 9, 10, 11]
    low, _ = consumer.get_watermark_offsets(make.place(topic), 20)
    assert make.index(topic, low) == 6


def committed_end(servers: str, topic: str) -> int:
    """Return the end of a topic's only partition, as readers of committed records see it."""
    asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
    admin = AdminClient({"bootstrap.servers": servers})
    [future] = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED).values()
    return int(future.result(20).offset)


def test_a_transactions_records_come_when_it_is_committed(make) -> None:
    """The marker at its end takes an offset that no record has."""
    topic, consumer = topic_of(make, 0), make(enable__partition__eof=True)
    producer = Producer({"bootstrap.servers": make.servers, "transactional.id": make.name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"0", partition=0)
    producer.commit_transaction(20)
    eventually(lambda: committed_end(make.servers, topic) == 2)  # the call may return before
    make.ends[topic, 0] = 2
    make.places[topic, 0] = [(1 << 20) - 1 if make.of.unwraps else 0]
    consumer.assign([make.place(topic, 0)])
    record, end = consumer.consume(2, 20)
    assert make.numbers([record, end]) == [0, "_PARTITION_EOF"]
    assert end.offset() == (2 << 20 if make.of.unwraps else 2)
    [at] = consumer.position([make.place(topic)])
    assert make.index(topic, at.offset) == 1
