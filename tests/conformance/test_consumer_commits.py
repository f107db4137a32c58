"""What is committed when: by hand, of what is stored, and automatically."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from consumers import each_count, each_row, on_mock, outcome, until

make = on_mock()

NO_OFFSET = ("_NO_OFFSET", "Commit failed: Local: No offset stored")
BY_HAND = {"enable__auto__offset__store": False}


class Told:
    """What `on_commit` was told: errors, and what was committed."""

    def __init__(self, make: Any) -> None:
        self.calls: list[tuple[str | None, list[int]]] = []
        self._make = make

    def __call__(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        known = [
            partition
            for partition in partitions
            if (partition.topic, partition.partition) in self._make.places
        ]
        name = None if error is None else error.name()
        self.calls.append((name, self._make.indexes(known)))


def begun(make: Any, count: int = 10, at: int = 0, **config: Any) -> tuple[str, Any]:
    """A topic of so many records, and a consumer that begins at one of them."""
    topic, consumer = make.topic(count), make(**config)
    consumer.assign([make.place(topic, at)])
    return topic, consumer


def resumed(make: Any, topic: str, count: int = 1, **config: Any) -> list[int]:
    """The next records of the group, for a consumer that begins where it left off."""
    consumer = make(**config)
    consumer.assign([make.place(topic)])
    numbers: list[int] = make.take(consumer, count)
    return numbers


# --- synchronously --------------------------------------------------------------------------------


@each_count("count")
def test_a_commit_is_of_what_was_taken(make, count: int) -> None:
    topic, consumer = begun(make)
    make.take(consumer, count)
    [done] = consumer.commit(asynchronous=False)
    assert (done.topic, done.partition, make.index(topic, done.offset)) == (topic, 0, count)
    assert done.error is None
    assert make.committed(topic) == count


@each_count("count")
def test_a_group_goes_on_where_it_committed(make, count: int) -> None:
    topic, consumer = begun(make)
    make.take(consumer, count)
    consumer.commit(asynchronous=False)
    assert resumed(make, topic, 10 - count) == list(range(count, 10))


@each_row("index")
def test_a_commit_of_a_message_is_of_what_comes_after(make, index: int) -> None:
    topic, consumer = begun(make)
    messages = consumer.consume(8, 20)
    [done] = consumer.commit(messages[index], asynchronous=False)
    assert make.index(topic, done.offset) == index + 1
    assert resumed(make, topic) == [index + 1]


@each_row("index")
def test_a_commit_of_offsets_is_of_those(make, index: int) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 10)
    [done] = consumer.commit(offsets=[make.place(topic, index)], asynchronous=False)
    assert make.index(topic, done.offset) == index
    assert resumed(make, topic) == [index]


def test_a_commit_needs_no_assignment(make) -> None:
    topic, consumer = make.topic(8), make()
    consumer.commit(offsets=[make.place(topic, 8)], asynchronous=False)
    assert make.committed(topic) == 8


def test_a_commit_of_what_was_committed_needs_no_reading(make) -> None:
    """Another consumer hands the group's place on, inside a segment too."""
    topic, consumer = begun(make)
    make.take(consumer, 2)
    consumer.commit(asynchronous=False)
    offsets = make().committed([make.place(topic)], 20)
    make(group__id=f"{make.name}-other").commit(offsets=offsets, asynchronous=False)
    assert make.committed(topic, group=f"{make.name}-other") == 2
    assert resumed(make, topic, group__id=f"{make.name}-other") == [2]


def test_several_partitions_are_committed_at_once(make) -> None:
    topic, consumer = make.topic(partitions=2), make()
    for partition in (0, 1):
        make.fill(topic, 5, partition=partition)
    consumer.assign([make.place(topic, 0, 0), make.place(topic, 2, 1)])
    make.take(consumer, 8)
    done = consumer.commit(asynchronous=False)
    assert sorted(make.indexes(done)) == [5, 5]
    assert [make.committed(topic, partition=partition) for partition in (0, 1)] == [5, 5]


def test_partitions_without_anything_stored_are_listed_without_an_offset(make) -> None:
    topic, consumer = make.topic(partitions=2), make()
    make.fill(topic, 2)
    consumer.assign([make.place(topic, 0, 0), make.place(topic, -2, 1)])
    make.take(consumer, 2)
    done = consumer.commit(asynchronous=False)
    assert sorted((place.partition, place.offset) for place in done) == [
        (0, make.at(topic, 2)),
        (1, -1001),
    ]


def test_nothing_to_commit_is_an_error(make) -> None:
    assert outcome(make().commit, asynchronous=False) == NO_OFFSET


def test_what_is_committed_is_not_committed_again(make) -> None:
    _, consumer = begun(make)
    make.take(consumer, 2)
    consumer.commit(asynchronous=False)
    assert outcome(consumer.commit, asynchronous=False) == NO_OFFSET


@pytest.mark.parametrize("offsets", [[], [TopicPartition("t", 0)], [TopicPartition("t", 0, -5)]])
def test_offsets_that_are_none_are_nothing_to_commit(make, offsets: Any) -> None:
    assert outcome(make().commit, offsets=offsets, asynchronous=False) == NO_OFFSET


def test_partitions_without_an_offset_do_not_stop_the_others(make) -> None:
    topic, other, consumer = make.topic(4), make.topic(4), make()
    wanted = [make.place(topic), make.place(other, 4)]
    done = consumer.commit(offsets=wanted, asynchronous=False)
    assert [place.offset for place in done] == [-1001, make.at(other, 4)]
    assert (make.committed(topic), make.committed(other)) == (-1001, 4)


def test_a_message_without_an_offset_is_nothing_to_commit(make) -> None:
    message = make.message("t", 0, offset=-1001)
    assert outcome(make().commit, message, asynchronous=False) == NO_OFFSET


def test_an_unknown_partition_is_an_error_and_the_others_are_committed(make) -> None:
    topic, consumer = make.topic(4), make()
    wanted = [make.place(topic, 4), TopicPartition("nowhere", 9, 0)]
    reason = "Commit failed: Broker: Unknown topic or partition"
    expected = ("UNKNOWN_TOPIC_OR_PART", reason)
    assert outcome(consumer.commit, offsets=wanted, asynchronous=False) == expected
    assert make.committed(topic) == 4


@pytest.mark.parametrize("how", [{"asynchronous": 0}, {"asynchronous": None}, {"async": False}])
def test_what_is_false_is_synchronous(make, how: dict[str, Any]) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 4)
    assert make.indexes(consumer.commit(**how)) == [4]
    assert make.committed(topic) == 4


def test_arguments_have_their_places(make) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 4)
    assert make.indexes(consumer.commit(None, [make.place(topic, 4)], False)) == [4]


def test_a_step_back_is_committed_when_it_is_named(make) -> None:
    topic, consumer = begun(make)
    messages = consumer.consume(8, 20)
    consumer.commit(asynchronous=False)
    consumer.commit(messages[1], asynchronous=False)
    assert make.committed(topic) == 2


def test_after_a_step_back_what_is_stored_is_committed_again(make) -> None:
    topic, consumer = begun(make)
    messages = consumer.consume(8, 20)
    consumer.commit(asynchronous=False)
    consumer.commit(messages[1], asynchronous=False)
    assert make.indexes(consumer.commit(asynchronous=False)) == [8]
    assert make.committed(topic) == 8


def test_a_seek_keeps_what_is_stored(make) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 4)
    consumer.seek(make.place(topic, 8))
    assert make.indexes(consumer.commit(asynchronous=False)) == [4]


def test_after_a_seek_back_nothing_is_committed_until_it_is_further(make) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 5)
    consumer.commit(asynchronous=False)
    consumer.seek(make.place(topic, 0))
    make.take(consumer, 5)
    assert outcome(consumer.commit, asynchronous=False) == NO_OFFSET
    make.take(consumer, 1)
    assert make.indexes(consumer.commit(asynchronous=False)) == [6]


def test_a_group_that_goes_back_is_not_committed_back(make) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 5)
    consumer.commit(asynchronous=False)
    again = make()
    again.assign([make.place(topic)])
    assert make.take(again) == [5]
    again.seek(make.place(topic, 1))
    assert make.take(again) == [1]
    assert outcome(again.commit, asynchronous=False) == NO_OFFSET


# --- what is committed ----------------------------------------------------------------------------


def test_nothing_is_committed_at_first(make) -> None:
    topic = make.topic(2)
    [committed] = make().committed([make.place(topic)], 20)
    assert (committed.topic, committed.partition, committed.offset) == (topic, 0, -1001)
    assert committed.metadata is None


def test_what_is_committed_is_told_of_each_partition(make) -> None:
    topic, consumer = make.topic(partitions=3), make()
    for partition in (0, 1, 2):
        make.fill(topic, 4, partition=partition)
    wanted = [make.place(topic, 4, 0), make.place(topic, 0, 2)]
    consumer.commit(offsets=wanted, asynchronous=False)
    places = consumer.committed(
        [make.place(topic, -1001, partition) for partition in (2, 1, 0)], 20
    )
    assert make.indexes(places) == [0, -1001, 4]


@pytest.mark.parametrize("metadata", ["mine: ünïcode", "", None])
def test_a_users_metadata_is_kept(make, metadata: str | None) -> None:
    topic, consumer = make.topic(4), make()
    place = make.place(topic, 4, metadata=metadata)
    [done] = consumer.commit(offsets=[place], asynchronous=False)
    [committed] = consumer.committed([make.place(topic)], 20)
    assert (make.index(topic, committed.offset), committed.metadata) == (4, metadata)
    assert (done.error, done.metadata) == (None, metadata)


@pytest.mark.parametrize("metadata", ["mine", "", None])
def test_metadata_that_is_stored_is_committed(make, metadata: str | None) -> None:
    topic, consumer = begun(make, enable__auto__offset__store=False)
    make.take(consumer, 3)  # and the next is a message's first record
    consumer.store_offsets(offsets=[make.place(topic, 3, metadata=metadata)])
    [done] = consumer.commit(asynchronous=False)
    assert (make.index(topic, done.offset), done.metadata) == (3, metadata)


def test_a_commit_may_be_taken_back(make) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 7)
    consumer.commit(asynchronous=False)
    consumer.commit(offsets=[make.place(topic, 0)], asynchronous=False)
    assert resumed(make, topic, 3) == [0, 1, 2]


def test_groups_are_apart(make) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 7)
    consumer.commit(asynchronous=False)
    assert make.committed(topic, group=f"{make.name}-other") == -1001
    assert resumed(make, topic, group__id=f"{make.name}-other") == [0]


# --- asynchronously -------------------------------------------------------------------------------


def test_an_asynchronous_commit_returns_nothing_and_on_commit_is_told(make) -> None:
    told = Told(make)
    topic, consumer = begun(make, 4, on_commit=told)
    make.take(consumer, 4)
    assert consumer.commit() is None
    until(consumer, lambda: told.calls)
    assert told.calls == [(None, [4])]
    assert make.committed(topic) == 4


def test_on_commit_is_told_of_each_in_order(make) -> None:
    told = Told(make)
    topic, consumer = begun(make, on_commit=told)
    first, *messages = consumer.consume(5, 20)
    consumer.commit(first, asynchronous=False)  # without a coordinator they would wait, unordered
    for message in messages:
        consumer.commit(message)
    until(consumer, lambda: len(told.calls) == 4)
    assert told.calls == [(None, [n]) for n in range(2, 6)]
    assert make.committed(topic) == 5


def test_on_commit_is_not_told_of_a_synchronous_commit(make) -> None:
    told = Told(make)
    _, consumer = begun(make, on_commit=told)
    make.take(consumer, 4)
    consumer.commit(asynchronous=False)
    consumer.commit(offsets=[TopicPartition("nowhere", 9, 0)])
    until(consumer, lambda: told.calls)
    assert told.calls == [("UNKNOWN_TOPIC_OR_PART", [])]


def test_on_commit_is_told_of_a_failure(make) -> None:
    errors: list[Any] = []

    def told(error: Any, partitions: list[TopicPartition]) -> None:
        errors.append((error.name(), [(p.topic, p.partition, p.error.name()) for p in partitions]))

    consumer = make(on_commit=told)
    consumer.commit(offsets=[TopicPartition("nowhere", 9, 0)])
    until(consumer, lambda: errors)
    name = "UNKNOWN_TOPIC_OR_PART"
    assert errors == [(name, [("nowhere", 9, name)])]


@pytest.mark.parametrize(("given", "listed"), [({}, [-1001]), ({"offsets": []}, [])], ids=str)
def test_nothing_to_commit_asynchronously_is_told(make, given: Any, listed: list[int]) -> None:
    told = Told(make)
    topic, consumer = begun(make, on_commit=told)
    consumer.pause([make.place(topic)])
    assert consumer.commit(**given) is None
    until(consumer, lambda: told.calls)
    assert told.calls == [("_NO_OFFSET", listed)]


def test_what_on_commit_raises_is_raised_by_poll_or_close(make) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("mine")

    topic, consumer = begun(make, on_commit=fail)
    make.take(consumer, 10)
    consumer.commit(offsets=[make.place(topic, 10)])
    with pytest.raises(LookupError, match="mine"):
        until(consumer, lambda: False)


def test_on_commit_may_be_told_in_close(make) -> None:
    told = Told(make)
    _, consumer = begun(make, on_commit=told)
    make.take(consumer, 4)
    consumer.commit()
    consumer.close()
    assert told.calls == [(None, [4])]


# --- stored by hand -------------------------------------------------------------------------------


@each_row("index")
def test_a_stored_message_is_committed(make, index: int) -> None:
    topic, consumer = begun(make, **BY_HAND)
    consumer.store_offsets(consumer.consume(8, 20)[index])
    assert make.indexes(consumer.commit(asynchronous=False)) == [index + 1]
    assert make.committed(topic) == index + 1


@pytest.mark.parametrize("index", [2, 4, 8])
def test_stored_offsets_are_committed(make, index: int) -> None:
    topic, consumer = begun(make, **BY_HAND)
    make.take(consumer, 8)
    consumer.store_offsets(offsets=[make.place(topic, index)])
    assert make.indexes(consumer.commit(asynchronous=False)) == [index]


def test_what_is_not_stored_is_not_committed(make) -> None:
    _, consumer = begun(make, **BY_HAND)
    make.take(consumer, 8)
    assert outcome(consumer.commit, asynchronous=False) == NO_OFFSET


def test_the_last_that_was_stored_counts(make) -> None:
    _, consumer = begun(make, **BY_HAND)
    messages = consumer.consume(8, 20)
    for index in (2, 5, 3):
        consumer.store_offsets(messages[index])
    assert make.indexes(consumer.commit(asynchronous=False)) == [4]


def test_what_is_stored_behind_the_commit_is_not_committed(make) -> None:
    topic, consumer = begun(make, **BY_HAND)
    messages = consumer.consume(8, 20)
    consumer.store_offsets(messages[5])
    consumer.commit(asynchronous=False)
    consumer.store_offsets(messages[2])
    assert outcome(consumer.commit, asynchronous=False) == NO_OFFSET
    assert make.committed(topic) == 6


def test_a_seek_keeps_what_was_stored_by_hand(make) -> None:
    topic, consumer = begun(make, **BY_HAND)
    consumer.store_offsets(consumer.consume(8, 20)[4])
    consumer.seek(make.place(topic, 0))
    assert make.indexes(consumer.commit(asynchronous=False)) == [5]


def test_what_is_stored_automatically_cannot_be_stored(make) -> None:
    topic, consumer = begun(make)
    [message] = consumer.consume(1, 20)
    reason = "StoreOffsets failed: Local: Invalid argument or configuration"
    assert outcome(consumer.store_offsets, message) == ("_INVALID_ARG", reason)
    wanted = [make.place(topic, 5)]
    assert outcome(consumer.store_offsets, offsets=wanted) == ("_INVALID_ARG", reason)
    assert make.indexes(consumer.commit(asynchronous=False)) == [1]


def test_what_is_not_assigned_cannot_be_stored(make) -> None:
    reason = "StoreOffsets failed: Local: Unknown partition"
    call = make(**BY_HAND).store_offsets
    assert outcome(call, offsets=[TopicPartition("nowhere", 0, 1)]) == (
        "_UNKNOWN_PARTITION",
        reason,
    )


def test_of_several_those_that_are_assigned_are_stored(make) -> None:
    topic, consumer = begun(make, **BY_HAND)
    make.take(consumer, 8)
    wanted = [TopicPartition("nowhere", 0, 1), make.place(topic, 8)]
    assert consumer.store_offsets(offsets=wanted) is None
    assert make.indexes(consumer.commit(asynchronous=False)) == [8]


def test_storing_nothing_is_no_error(make) -> None:
    assert make(**BY_HAND).store_offsets(offsets=[]) is None


def test_what_is_stored_is_forgotten_with_its_partition(make) -> None:
    topic, consumer = begun(make, **BY_HAND)
    consumer.store_offsets(consumer.consume(8, 20)[4])
    consumer.unassign()
    consumer.assign([make.place(topic, 0)])
    make.take(consumer, 1)
    assert outcome(consumer.commit, asynchronous=False) == NO_OFFSET


# --- automatically --------------------------------------------------------------------------------


def often(**more: Any) -> dict[str, Any]:
    return {"enable__auto__commit": True, "auto__commit__interval__ms": 50, **more}


def seldom(**more: Any) -> dict[str, Any]:
    return {"enable__auto__commit": True, "auto__commit__interval__ms": 60_000, **more}


def test_what_was_taken_is_committed_after_a_while(make) -> None:
    told = Told(make)
    topic, consumer = begun(make, **often(on_commit=told))
    make.take(consumer, 4)
    consumer.pause([make.place(topic)])
    until(consumer, lambda: (None, [4]) in told.calls)
    assert make.committed(topic) == 4


def test_it_is_committed_once(make) -> None:
    told = Told(make)
    _, consumer = begun(make, 4, **often(on_commit=told))
    make.take(consumer, 4)
    until(consumer, lambda: (None, [4]) in told.calls)
    assert make.nothing(consumer)
    count = len(told.calls)  # more than one if Kafka took longer than the interval to answer
    assert make.nothing(consumer)
    assert told.calls == [(None, [4])] * count


def test_it_is_committed_while_a_poll_waits_for_ever(make) -> None:
    told = Told(make)

    def tell(error: Any, partitions: Any) -> None:
        told(error, partitions)
        if (None, [4]) in told.calls:
            make.fill(topic, 1)  # and that ends the wait

    topic, consumer = begun(make, 4, **often(on_commit=tell))
    make.take(consumer, 4)
    assert make.numbers([consumer.poll()]) == [4]


def test_only_what_was_stored_by_hand_is_committed(make) -> None:
    told = Told(make)
    _, consumer = begun(make, **often(on_commit=told, **BY_HAND))
    consumer.store_offsets(consumer.consume(8, 20)[4])
    until(consumer, lambda: told.calls)
    assert told.calls == [(None, [5])]


def test_no_interval_is_no_commit_until_the_end(make) -> None:
    told = Told(make)
    topic, consumer = begun(make, **seldom(on_commit=told, auto__commit__interval__ms=0))
    make.take(consumer, 4)
    assert consumer.position([make.place(topic)])
    make.numbers(consumer.consume(6, 20))
    assert make.nothing(consumer)
    assert told.calls == []
    consumer.close()
    assert told.calls == [(None, [10])]


@pytest.mark.parametrize("count", [1, 4, 8])
def test_closing_commits(make, count: int) -> None:
    told = Told(make)
    topic, consumer = begun(make, **seldom(on_commit=told))
    make.take(consumer, count)
    consumer.close()
    assert told.calls == [(None, [count])]
    assert make.committed(topic) == count


def test_leaving_the_context_commits(make) -> None:
    topic = make.topic(8)
    with make(**seldom()) as consumer:
        consumer.assign([make.place(topic, 0)])
        make.take(consumer, 5)
    assert make.committed(topic) == 5


@pytest.mark.parametrize("how", ["unassign", "assign", "incremental_unassign"])
def test_partitions_that_go_are_committed(make, how: str) -> None:
    told = Told(make)
    topic, other, consumer = make.topic(8), make.topic(2), make(**seldom(on_commit=told))
    consumer.assign([make.place(topic, 0)])
    make.take(consumer, 5)
    if how == "unassign":
        consumer.unassign()
    elif how == "assign":
        consumer.assign([make.place(other, 0)])
    else:
        consumer.incremental_unassign([make.place(topic)])
    until(consumer, lambda: told.calls)
    assert told.calls == [(None, [5])]
    assert make.committed(topic) == 5


def test_without_auto_commit_closing_commits_nothing(make) -> None:
    topic, consumer = begun(make)
    make.take(consumer, 5)
    consumer.close()
    assert make.committed(topic) == -1001


def test_what_on_commit_raises_in_close_is_raised_by_close(make) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("mine")

    _, consumer = begun(make, **seldom(on_commit=fail))
    make.take(consumer, 5)
    with pytest.raises(LookupError, match="mine"):
        consumer.close()
    assert outcome(consumer.poll, 0) == (RuntimeError, "Consumer closed")
