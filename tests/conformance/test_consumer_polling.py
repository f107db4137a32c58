"""What comes and in which order: poll, consume, seek, pause, position, ends and watermarks."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED
from consumers import each_count, each_row, on_mock, outcome, until

make = on_mock()

HERE = 1_700_000_000_000
UNKNOWN = "Local: Unknown partition"


def begun(make: Any, count: int = 10, at: int = 0, **config: Any) -> tuple[str, Any]:
    """A topic of so many records, and a consumer that begins at one of them."""
    topic, consumer = make.topic(count), make(**config)
    consumer.assign([make.place(topic, at)])
    return topic, consumer


# --- records --------------------------------------------------------------------------------------


def test_records_come_in_order_each_once(make) -> None:
    _, consumer = begun(make)
    assert make.take(consumer, 10) == list(range(10))
    assert make.nothing(consumer)


def test_each_record_has_its_offset(make) -> None:
    topic, consumer = begun(make)
    offsets = [consumer.poll(20).offset() for _ in range(10)]
    assert offsets == [make.at(topic, n) for n in range(10)]


def test_offsets_grow(make) -> None:
    _, consumer = begun(make)
    offsets = [message.offset() for message in consumer.consume(10, 20)]
    assert offsets == sorted(set(offsets))


def test_a_record_has_all_its_parts(make) -> None:
    topic, consumer = make.topic(), make()
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    make.fill(topic, 4, key=b"k", headers=headers, times=[HERE + n for n in range(4)])
    consumer.assign([make.place(topic, 0)])
    for n in range(4):
        message = consumer.poll(20)
        assert (message.topic(), message.partition(), make.data(message)) == (topic, 0, b"%d" % n)
        assert (message.key(), message.headers()) == (b"k", headers)
        assert message.timestamp() == (1, HERE + n)
        assert (message.error(), message.latency(), message.leader_epoch()) == (None, None, 0)


def test_a_record_without_key_and_headers_has_none(make) -> None:
    _, consumer = begun(make, 4)
    assert [(m.key(), m.headers()) for m in consumer.consume(4, 20)] == [(None, None)] * 4


def test_an_empty_key_stays_empty(make) -> None:
    topic, consumer = make.topic(2, key=b""), make()
    consumer.assign([make.place(topic, 0)])
    assert [message.key() for message in consumer.consume(2, 20)] == [b"", b""]


def test_poll_waits_for_what_comes(make) -> None:
    topic, consumer = begun(make, 1)
    assert make.take(consumer) == [0]
    make.fill(topic, 1)
    assert make.numbers([consumer.poll()]) == [1]


def test_consume_returns_what_there_is_when_its_time_is_over(make) -> None:
    _, consumer = begun(make, 4)
    assert make.take(consumer) == [0]  # the first may take longer than a second
    assert make.numbers(consumer.consume(100, 1)) == [1, 2, 3]


def test_consume_returns_as_many_as_asked_for(make) -> None:
    _, consumer = begun(make)
    assert [make.take(consumer, count) for count in (1, 4, 2, 3)] == [
        [0],
        [1, 2, 3, 4],
        [5, 6],
        [7, 8, 9],
    ]


def test_poll_and_consume_take_turns(make) -> None:
    _, consumer = begun(make)
    assert make.take(consumer, 2) == [0, 1]
    assert make.numbers([consumer.poll(20)]) == [2]
    assert make.take(consumer, 2) == [3, 4]


def test_none_are_consumed_when_none_are_asked_for(make) -> None:
    _, consumer = begun(make)
    assert consumer.consume(0, 1) == []
    assert make.take(consumer) == [0]


def test_each_partition_has_its_own_order(make) -> None:
    topic, consumer = make.topic(partitions=2), make()
    for partition in (0, 1):
        make.fill(topic, 7, partition=partition)
    consumer.assign([make.place(topic, 0, 0), make.place(topic, 3, 1)])
    messages = consumer.consume(11, 20)
    for partition, first in ((0, 0), (1, 3)):
        of_it = [message for message in messages if message.partition() == partition]
        assert make.numbers(of_it) == list(range(first, 7))


# --- where it begins ------------------------------------------------------------------------------


@each_row("index")
def test_a_consumer_begins_at_any_record(make, index: int) -> None:
    _, consumer = begun(make, 8, index)
    assert make.take(consumer, 8 - index) == list(range(index, 8))


@pytest.mark.parametrize(
    ("offset", "expected"), [(OFFSET_BEGINNING, [0, 1]), (OFFSET_INVALID, [0, 1])]
)
def test_a_consumer_begins_at_the_beginning(make, offset: int, expected: list[int]) -> None:
    _, consumer = begun(make, 8, offset)
    assert make.take(consumer, 2) == expected


def test_a_consumer_begins_at_the_end(make) -> None:
    topic, consumer = begun(make, 8, OFFSET_END, enable__partition__eof=True)
    assert make.take(consumer) == ["_PARTITION_EOF"]
    make.fill(topic, 2)
    assert make.take(consumer, 2) == [8, 9]


def test_a_tail_is_of_messages(make) -> None:
    """librdkafka's OFFSET_TAIL(2): two messages, and of segments all records that those have."""
    _, consumer = begun(make, 12, -2000 - 2)
    expected = {(0,): 2, (3,): 6, (2, 0, 4): 3}[make.of.shape]
    assert make.take(consumer, expected) == list(range(12 - expected, 12))


def test_a_consumer_begins_at_the_end_where_it_is_told_to(make) -> None:
    topic, consumer = begun(
        make, 8, OFFSET_INVALID, auto__offset__reset="latest", enable__partition__eof=True
    )
    assert make.take(consumer) == ["_PARTITION_EOF"]
    make.fill(topic, 1)
    assert make.take(consumer) == [8]


def test_without_a_place_to_begin_there_is_an_error(make) -> None:
    _, consumer = begun(make, 8, OFFSET_INVALID, auto__offset__reset="error")
    assert make.take(consumer) == ["_AUTO_OFFSET_RESET"]


# --- seek -----------------------------------------------------------------------------------------


@each_row("index")
@pytest.mark.parametrize("before", [1, 4])
def test_a_seek_goes_to_any_record(make, before: int, index: int) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, before)
    consumer.seek(make.place(topic, index))
    assert make.take(consumer, 8 - index) == list(range(index, 8))


def test_a_seek_to_the_end_waits_for_what_comes(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 2)
    consumer.seek(make.place(topic, 8))
    assert make.nothing(consumer)
    make.fill(topic, 2)
    assert make.take(consumer, 2) == [8, 9]


def test_a_seek_to_the_beginning(make) -> None:
    topic, consumer = begun(make, 8, 5)
    make.take(consumer, 2)
    consumer.seek(make.place(topic, OFFSET_BEGINNING))
    assert make.take(consumer, 3) == [0, 1, 2]


def test_the_last_of_several_seeks_counts(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 1)
    for index in (7, 2, 5):
        consumer.seek(make.place(topic, index))
    assert make.take(consumer, 3) == [5, 6, 7]


def test_a_seek_leaves_other_partitions_alone(make) -> None:
    topic, consumer = make.topic(partitions=2), make()
    for partition in (0, 1):
        make.fill(topic, 5, partition=partition)
    consumer.assign([make.place(topic, 0, 0), make.place(topic, 0, 1)])
    make.take(consumer, 10)
    consumer.seek(make.place(topic, 4, 1))
    [message] = consumer.consume(1, 20)
    assert (message.partition(), make.numbers([message])) == (1, [4])
    assert make.nothing(consumer)


def test_what_is_not_assigned_cannot_be_sought(make) -> None:
    consumer = make()
    reason = f"Failed to seek to offset 0: {UNKNOWN}"
    assert outcome(consumer.seek, make.place("t", 0)) == ("_UNKNOWN_PARTITION", reason)


def test_a_seek_without_an_offset_goes_where_a_new_group_begins(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 2)
    consumer.commit(asynchronous=False)
    consumer.seek(make.place(topic))
    assert make.take(consumer, 2) == [0, 1]


def test_a_seek_to_what_is_committed_is_refused(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 2)
    reason = "Failed to seek to offset -1000: Local: Invalid argument or configuration"
    assert outcome(consumer.seek, make.place(topic, OFFSET_STORED)) == ("_INVALID_ARG", reason)


# --- pause ----------------------------------------------------------------------------------------


@each_count("before")
def test_a_paused_partition_goes_on_exactly_there(make, before: int) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, before)
    consumer.pause([make.place(topic)])
    assert make.nothing(consumer)
    consumer.resume([make.place(topic)])
    assert make.numbers(consumer.consume(8 - before, 20)) == list(range(before, 8))


def test_a_pause_needs_no_assignment(make) -> None:
    consumer = make()
    assert consumer.pause([make.place("t")]) is None
    assert consumer.resume([make.place("t")]) is None


def test_a_paused_partition_can_be_sought_and_stays_paused(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 2)
    consumer.pause([make.place(topic)])
    consumer.seek(make.place(topic, 6))
    assert make.nothing(consumer)
    consumer.resume([make.place(topic)])
    assert make.take(consumer, 2) == [6, 7]


def test_a_paused_partition_stays_paused_when_it_is_assigned_again(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 2)
    consumer.pause([make.place(topic)])
    consumer.assign([make.place(topic, 3)])
    assert make.nothing(consumer)
    consumer.resume([make.place(topic)])
    assert make.take(consumer, 2) == [3, 4]


def test_other_partitions_go_on(make) -> None:
    topic, consumer = make.topic(partitions=2), make()
    for partition in (0, 1):
        make.fill(topic, 5, partition=partition)
    consumer.assign([make.place(topic, 0, 0)])
    make.take(consumer, 1)
    consumer.pause([make.place(topic, partition=0)])
    consumer.incremental_assign([make.place(topic, 0, 1)])
    messages = consumer.consume(5, 20)
    assert ({message.partition() for message in messages}, make.numbers(messages)) == (
        {1},
        [0, 1, 2, 3, 4],
    )
    consumer.resume([make.place(topic, partition=0)])
    assert make.take(consumer, 4) == [1, 2, 3, 4]


# --- position -------------------------------------------------------------------------------------


def test_there_is_no_position_before_the_first_record(make) -> None:
    topic, consumer = begun(make, 8, 2)
    [place] = consumer.position([make.place(topic)])
    assert (place.topic, place.partition, place.offset, place.error) == (topic, 0, -1001, None)


@each_count("count")
def test_the_position_is_after_the_last_record(make, count: int) -> None:
    topic, consumer = begun(make, 8)
    last = consumer.consume(count, 20)[-1]
    [place] = consumer.position([make.place(topic)])
    assert make.index(topic, place.offset) == count
    assert place.offset == last.offset() + 1


def test_there_is_no_position_after_a_seek(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 4)
    consumer.seek(make.place(topic, 2))
    assert make.indexes(consumer.position([make.place(topic)])) == [-1001]
    make.take(consumer, 1)
    assert make.indexes(consumer.position([make.place(topic)])) == [3]


def test_there_is_no_position_of_what_is_not_assigned(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 4)
    consumer.unassign()
    until(consumer, lambda: make.indexes(consumer.position([make.place(topic)])) == [-1001])


def test_a_pause_keeps_the_position(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 4)
    consumer.pause([make.place(topic)])
    assert make.indexes(consumer.position([make.place(topic)])) == [4]


def test_a_position_is_where_to_go_on(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 4)
    at = consumer.position([make.place(topic)])
    again = make()
    again.assign(at)
    assert make.take(again, 4) == [4, 5, 6, 7]


# --- ends -----------------------------------------------------------------------------------------


def test_the_end_is_an_event_where_asked_for(make) -> None:
    topic, consumer = begun(make, 8, 5, enable__partition__eof=True)
    *records, end = consumer.consume(4, 20)
    assert make.numbers(records) == [5, 6, 7]
    assert (end.error().name(), end.topic(), end.partition()) == ("_PARTITION_EOF", topic, 0)
    assert make.index(topic, end.offset()) == 8
    assert (end.error().retriable(), end.error().fatal()) == (False, False)
    assert (end.key(), end.headers(), end.timestamp()) == (None, None, (0, -1))


def test_the_text_of_an_end_names_its_offset(make) -> None:
    _, consumer = begun(make, 8, 8, enable__partition__eof=True)
    [end] = consumer.consume(1, 20)
    text = end.error().str()
    assert re.findall(r"(?:offset|HighwaterMark) (\d+)", text) == [str(end.offset())] * 2
    assert end.value() == text.encode()


def test_the_end_is_an_event_each_time_it_is_reached(make) -> None:
    topic, consumer = begun(make, 2, enable__partition__eof=True)
    assert make.take(consumer, 3) == [0, 1, "_PARTITION_EOF"]
    make.fill(topic, 1)
    assert make.take(consumer, 2) == [2, "_PARTITION_EOF"]
    consumer.seek(make.place(topic, 2))
    assert make.take(consumer, 2) == [2, "_PARTITION_EOF"]


def test_the_end_of_an_empty_partition_is_an_event(make) -> None:
    topic, consumer = make.topic(), make(enable__partition__eof=True)
    consumer.assign([make.place(topic, OFFSET_BEGINNING)])
    [end] = consumer.consume(1, 20)
    assert (end.error().name(), end.offset()) == ("_PARTITION_EOF", 0)


def test_the_end_is_no_position(make) -> None:
    topic, consumer = begun(make, 2, enable__partition__eof=True)
    make.take(consumer, 3)
    assert make.indexes(consumer.position([make.place(topic)])) == [2]
    consumer.seek(make.place(topic, 2))
    assert make.take(consumer) == ["_PARTITION_EOF"]
    assert make.indexes(consumer.position([make.place(topic)])) == [-1001]


def test_a_paused_partitions_end_waits(make) -> None:
    topic, consumer = begun(make, 4, enable__partition__eof=True)
    make.take(consumer, 1)
    consumer.pause([make.place(topic)])
    assert make.nothing(consumer)
    consumer.resume([make.place(topic)])
    assert make.take(consumer, 4) == [1, 2, 3, "_PARTITION_EOF"]


def test_without_asking_there_is_no_event_at_the_end(make) -> None:
    _, consumer = begun(make, 2)
    assert make.take(consumer, 2) == [0, 1]
    assert make.nothing(consumer)


def test_watermarks_are_the_first_record_and_the_end(make) -> None:
    topic, consumer = make.topic(8), make()
    low, high = consumer.get_watermark_offsets(make.place(topic), 20)
    assert (make.index(topic, low), make.index(topic, high)) == (0, 8)
    assert low == 0


def test_lag_is_zero_at_the_end(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 8)
    _, high = consumer.get_watermark_offsets(make.place(topic), 20)
    assert high - consumer.position([make.place(topic)])[0].offset == 0


def test_cached_watermarks_are_unknown_before_anything_was_fetched(make) -> None:
    topic, consumer = make.topic(8), make()
    assert consumer.get_watermark_offsets(make.place(topic), cached=True) == (-1001, -1001)


def test_cached_watermarks_come_with_what_is_fetched(make) -> None:
    topic, consumer = begun(make, 8)
    make.take(consumer, 8)
    _, high = consumer.get_watermark_offsets(make.place(topic), cached=True)
    assert make.index(topic, high) == 8


def test_an_unknown_partition_has_no_watermarks(make) -> None:
    reason = f"Failed to get watermark offsets: {UNKNOWN}"
    call = make().get_watermark_offsets
    topic = make.topic(1)
    assert outcome(call, make.place(topic, partition=9), 20) == ("_UNKNOWN_PARTITION", reason)


# --- callbacks ------------------------------------------------------------------------------------


def test_statistics_are_told(make) -> None:
    told: list[str] = []
    consumer = make(statistics__interval__ms=10, stats_cb=told.append)
    until(consumer, lambda: told)
    assert '"type": "consumer"' in told[0]


def test_errors_are_told(make) -> None:
    told: list[Any] = []
    consumer = make(bootstrap__servers="127.0.0.1:1", error_cb=told.append)
    until(consumer, lambda: told)
    assert told[0].name() in ("_TRANSPORT", "_ALL_BROKERS_DOWN")


def test_what_a_callback_raises_is_raised_by_poll(make) -> None:
    def fail(_: Any) -> None:
        raise LookupError("mine")

    consumer = make(statistics__interval__ms=10, stats_cb=fail)
    with pytest.raises(LookupError, match="mine"):
        until(consumer, lambda: False)


def test_the_poll_in_which_a_callback_raises_raises_it(make) -> None:
    ran: list[str] = []

    def fail(told: str) -> None:
        ran.append(told)
        raise LookupError

    _, consumer = begun(make, statistics__interval__ms=5, stats_cb=fail)
    while len(ran) < 10:
        before = len(ran)
        try:
            consumer.poll(0.05)
        except LookupError:
            assert len(ran) > before
        else:
            assert len(ran) == before


def test_what_was_raised_by_poll_is_not_raised_by_close(make) -> None:
    """Several callbacks may have run in one call."""
    ran: list[Any] = []

    def fail(*told: Any) -> None:
        ran.append(told)
        raise LookupError

    topic, consumer = begun(make, 1, on_commit=fail)
    for _ in range(3):
        consumer.commit(offsets=[make.place(topic, 1)])
    while len(ran) < 3:
        with suppress(LookupError):
            consumer.poll(0.2)
    with suppress(LookupError):  # what ran beside a message that was handed out
        consumer.poll(0)
    assert outcome(consumer.close) is None
