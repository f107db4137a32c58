"""The feed: every record once and in order, whatever is seeked, paused, revoked or raised."""

from __future__ import annotations

import gc
from types import NoneType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from segments import segment
from support import examples

from columnar_kafka import SegmentError, position
from columnar_kafka.consuming.feed import fetch_buffer, handout, kafka_message, poller
from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.consuming.feed.record import RecordContext
from columnar_kafka.position import MAX_ROWS
from columnar_kafka.segment import segment as segment_module
from columnar_kafka.testing.memory import MemoryConsumer, MemoryKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

P0 = ("t", 0)
P1 = ("t", 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Broker(MemoryConsumer):
    """The memory broker on a clock of its own: where it would wait, the clock goes on instead."""

    def __init__(self, kafka: MemoryKafka, clock: Clock) -> None:
        super().__init__(kafka)
        self.clock = clock
        self.polls = 0
        self.at_poll: dict[int, Callable[[], Any]] = {}
        """What to do first in a poll, by its number from 0."""
        self.lookups: list[float] = []
        self.callbacks: list[Callable[[], Any]] = []
        self.after_lookup: Callable[[], Any] | None = None

    def poll(self, timeout: float) -> Message | None:
        assert timeout >= 0, "it would wait for ever, whatever callbacks raise"
        hook = self.at_poll.pop(self.polls, None)
        self.polls += 1
        assert self.polls < 100_000, "nothing ends this wait"
        if hook is not None:
            hook()
        while self.callbacks:
            self.callbacks.pop(0)()
        message = super().poll(0)
        if message is None:
            self.clock.now += timeout
        return message

    def committed(self, partitions: Any, timeout: float) -> list[TopicPartition]:
        self.lookups.append(timeout)
        if self.after_lookup is not None:
            self.callbacks.append(self.after_lookup)
        return super().committed(partitions, timeout)


class Reader:
    """Feed, offsets and broker as `Consumer` wires them, and what it does with positions."""

    def __init__(self, kafka: MemoryKafka, *, auto_store: bool = True) -> None:
        self.clock = Clock()
        self.broker = Broker(kafka, self.clock)
        self.raised: list[Exception] = []
        self.feed = Feed(
            self.broker,
            OffsetStore(auto_store=auto_store),
            clock=self.clock,
            after_serving=self._raise_pending,
        )

    @property
    def offsets(self) -> OffsetStore:
        return self.feed.offsets

    def _raise_pending(self) -> None:
        if self.raised:
            raise self.raised.pop(0)

    def begin(self, *partitions: TopicPartition) -> Reader:
        self.feed.assign(partitions)
        self.broker.assign(
            TopicPartition(partition.topic, partition.partition, at_broker(partition.offset))
            for partition in partitions
        )
        return self

    def seek(self, key: tuple[str, int], at: int) -> None:
        self.broker.seek(TopicPartition(*key, at_broker(at)))
        self.feed.seek(TopicPartition(*key, at))

    def pause(self, *keys: tuple[str, int]) -> None:
        self.broker.pause([TopicPartition(*key) for key in keys])
        self.feed.pause(keys)

    def resume(self, *keys: tuple[str, int]) -> None:
        self.broker.resume([TopicPartition(*key) for key in keys])
        self.feed.resume(keys)

    def commit(self) -> None:
        wanted = self.offsets.uncommitted()
        if wanted:
            self.offsets.mark_committed(self.broker.commit(wanted, asynchronous=False) or ())

    def take(self, count: int, timeout: float = 0.5) -> list[Any]:
        return [shown(message) for message in self.feed.take(count, timeout)]

    def numbers(self, count: int = 100, timeout: float = 0.5) -> list[Any]:
        """The values handed out: a record's n, plain bytes, or an error's name."""
        return [value for _, value in self.take(count, timeout)]


def shown(message: Any) -> tuple[int | None, Any]:
    if message.error() is not None:
        return message.offset(), message.error().name()
    value = message.value()
    return message.offset(), value["n"] if isinstance(value, dict) else value


def at_broker(at: int) -> int:
    return at if at < 0 else position.unpack(at).offset


def at(offset: int, row: int = 0, rows: int = 3) -> int:
    return position.pack(offset, row, rows)


def put(
    kafka: MemoryKafka, numbers: Iterable[int], *, partition: int = 0, damage: bool = False
) -> str:
    """Append a segment of records with these n; its id."""
    offset = kafka.end("t", partition)
    made = segment(pa.table({"n": list(numbers)}), partition=partition, offset=offset,
                   number=100 * partition + offset)  # fmt: skip
    value = made.value[:-1] + b"?" if damage else made.value
    kafka.append("t", partition, value, headers=list(made.headers), timestamp=1000 + offset)
    return f"p-{100 * partition + offset}"


def threes(count: int = 3, **more: Any) -> MemoryKafka:
    """A topic of segments of three records: 0 1 2, 10 11 12, 20 21 22, …"""
    kafka = MemoryKafka()
    kafka.create_topic("t", 2)
    for offset in range(count):
        put(kafka, range(offset * 10, offset * 10 + 3), **more)
    return kafka


def start(offset: int = OFFSET_BEGINNING, key: tuple[str, int] = P0) -> TopicPartition:
    return TopicPartition(*key, offset)


def reader(kafka: MemoryKafka | None = None) -> Reader:
    return Reader(kafka or threes()).begin(start())


def reader_of_plain(count: int) -> tuple[Reader, list[bytes]]:
    """Return a reader of a topic with so many plain messages, and their values."""
    kafka = MemoryKafka()
    kafka.create_topic("t", 1)
    values = [b"%d" % n for n in range(count)]
    for value in values:
        kafka.append("t", 0, value)
    return reader(kafka), values


def committed(kafka: MemoryKafka, offset: int, metadata: str | None = None) -> None:
    partition = TopicPartition("t", 0, offset)
    if metadata is not None:
        partition = TopicPartition("t", 0, offset, metadata)
    kafka.commit("group", [partition])


# --- unwrapping -----------------------------------------------------------------------------------


def test_records_come_in_order_each_at_its_position() -> None:
    assert reader().take(100) == [(at(o, r), o * 10 + r) for o in range(3) for r in range(3)]


def test_a_record_knows_its_place_in_kafka() -> None:
    got = reader().feed.take(4, 1)
    assert [(record.topic(), record.partition()) for record in got] == [P0] * 4
    assert [(record.kafka_offset(), record.row()) for record in got] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    assert got[0].leader_epoch() == 0


def test_a_record_that_is_kept_keeps_nothing_of_its_segment_but_itself() -> None:
    gc.collect()
    before = pa.total_allocated_bytes()
    one = reader()
    kept = one.feed.take(3, 1)[1]
    del one
    gc.collect()
    assert pa.total_allocated_bytes() <= before
    referents = gc.get_referents(kept)
    assert {type(referent) for referent in referents} <= {type, RecordContext, int, dict, NoneType}
    assert [referent for referent in referents if isinstance(referent, dict)] == [{"n": 1}]
    assert kept.value() is kept.value()


def test_a_record_has_its_own_time() -> None:
    got = reader().feed.take(3, 1)
    assert [record.timestamp() for record in got] == [(TIMESTAMP_CREATE_TIME, n) for n in range(3)]


def test_on_a_topic_of_append_times_a_record_has_the_brokers() -> None:
    class Stamped(Broker):
        def poll(self, timeout: float) -> Message | None:
            fetched = super().poll(timeout)
            if fetched is None:
                return None
            return Message(
                topic="t",
                partition=0,
                offset=fetched.offset(),
                value=fetched.value(),
                headers=fetched.headers(),
                timestamp=(TIMESTAMP_LOG_APPEND_TIME, 99),
            )

    clock = Clock()
    broker = Stamped(threes(1), clock)
    broker.assign([start()])
    [message] = Feed(broker, OffsetStore(auto_store=True), clock=clock).take(1, 1)
    assert message.timestamp() == (TIMESTAMP_LOG_APPEND_TIME, 99)


def test_plain_messages_keep_their_place_between_segments() -> None:
    kafka = threes(1)
    kafka.append("t", 0, b"plain", key=b"k", headers=[("a", None)], timestamp=77)
    kafka.append("t", 0, None, key=b"gone")
    put(kafka, [30])
    got = reader(kafka).feed.take(100, 0.5)
    assert list(map(shown, got)) == [
        *[(at(0, r), r) for r in range(3)],
        (at(1, 0, 1), b"plain"),
        (at(2, 0, 1), None),
        (at(3, 0, 1), 30),
    ]
    assert (got[3].key(), got[3].headers()) == (b"k", [("a", None)])
    assert got[3].timestamp() == (TIMESTAMP_CREATE_TIME, 77)
    assert (got[3].kafka_offset(), got[3].row()) == (1, 0)


def test_next_returns_one_record_or_none_after_the_timeout() -> None:
    one = reader(threes(1))
    assert [one.feed.next(1).value()["n"] for _ in range(3)] == [0, 1, 2]
    before = one.clock.now
    assert one.feed.next(1.5) is None
    assert one.clock.now == pytest.approx(before + 1.5)


def test_poll_0_does_not_wait() -> None:
    one = reader(threes(0))
    assert one.feed.next(0) is None
    assert one.clock.now == 0


def test_all_slices_of_a_segment_come_at_once_without_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment_module, "_SLICE_BYTES", 1)  # a slice is one record
    kafka = threes(0)
    put(kafka, range(5))
    assert reader(kafka).numbers(5, timeout=0) == [0, 1, 2, 3, 4]


def test_fewer_than_asked_for_come_only_when_the_time_is_over() -> None:
    one = reader(threes(1))
    assert one.numbers(10, timeout=2.0) == [0, 1, 2]
    assert one.clock.now == pytest.approx(2.0)


def test_none_are_taken_when_none_are_asked_for() -> None:
    one = reader()
    assert one.take(0) == []
    assert one.numbers() == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_small_segments_are_fetched_and_made_ready_together() -> None:
    kafka = threes(0)
    for n in range(40):
        put(kafka, [n])
    one = reader(kafka)
    assert one.numbers(1) == [0]
    assert one.broker.polls == 41  # each message, and then none
    assert len(one.feed.buffer.ready.messages) == 16
    assert one.numbers(15) == [*range(1, 16)]
    assert one.numbers() == [*range(16, 40)]


def test_plain_messages_are_made_ready_together() -> None:
    one, sent = reader_of_plain(40)
    assert one.numbers(1) == sent[:1]
    assert one.feed.buffer.ready.count_left() == 39


def test_large_segments_are_fetched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "SMALL_BYTES", 100)
    one = reader()
    assert one.numbers(1) == [0]
    assert one.broker.polls == 1
    assert len(one.feed.buffer.ready.messages) == 3


def test_an_error_event_is_handed_out_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "SMALL_BYTES", 0)  # or all were fetched before it
    one = reader()
    assert one.numbers(2) == [0, 1]
    one.broker.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert one.numbers() == [2, "_ALL_BROKERS_DOWN", 10, 11, 12, 20, 21, 22]
    assert one.offsets.delivered == {P0: 3 * MAX_ROWS}


def test_an_event_does_not_wait_for_what_may_follow_it() -> None:
    one = reader(threes(0))
    one.broker.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert one.numbers(1, timeout=10) == ["_ALL_BROKERS_DOWN"]
    assert one.clock.now == 0


def test_what_is_buffered_behind_an_event_comes_without_waiting() -> None:
    one = reader(threes(1))
    one.broker.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert one.numbers(4) == ["_ALL_BROKERS_DOWN", 0, 1, 2]
    assert one.clock.now == 0


def test_the_end_of_a_partition_is_an_event_at_the_next_offsets_start() -> None:
    one = reader(threes(1))
    end = KafkaError(KafkaError._PARTITION_EOF)
    one.numbers(3)
    one.broker.events.append(Message(topic="t", partition=0, offset=1, error=end))
    assert one.take(1) == [(MAX_ROWS, "_PARTITION_EOF")]
    assert one.offsets.delivered == {P0: MAX_ROWS}
    one.seek(P0, MAX_ROWS)
    one.broker.events.append(Message(topic="t", partition=0, offset=1, error=end))
    assert one.take(1) == [(MAX_ROWS, "_PARTITION_EOF")]
    assert one.offsets.delivered == {}


def test_what_was_handed_out_is_noted_as_the_position_after_it() -> None:
    one = reader()
    one.numbers(2)
    assert one.offsets.delivered == {P0: at(0, 2)}
    one.numbers(1)
    assert one.offsets.delivered == {P0: MAX_ROWS}


# --- bad segments ---------------------------------------------------------------------------------


def test_a_bad_segment_is_reported_once_and_the_next_is_delivered() -> None:
    kafka = threes(1)
    put(kafka, [10, 11], damage=True)
    put(kafka, [20])
    got = reader(kafka).feed.take(100, 0.5)
    assert [shown(message)[1] for message in got] == [0, 1, 2, "_BAD_MSG", 20]
    bad = got[3]
    assert bad.error().str().startswith("segment at t[0]@1: columnar.crc32 is ")
    assert (bad.topic(), bad.partition(), bad.kafka_offset()) == ("t", 0, 1)
    assert bad.offset() == 2 * MAX_ROWS - 1
    assert bad.value() == kafka.messages("t")[1].value()
    assert dict(bad.headers())["columnar.segment"] == b"p-1"


def test_after_a_bad_segment_its_end_is_committed() -> None:
    kafka = threes(0)
    put(kafka, [10, 11], damage=True)
    one = reader(kafka)
    assert one.numbers(1) == ["_BAD_MSG"]
    assert one.offsets.delivered == {P0: MAX_ROWS}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("columnar.encoding", b"parquet")], "header columnar.version is missing"),
        (
            [("columnar.encoding", b"parquet"), ("columnar.version", b"2")],
            "columnar.version is 2; this release of columnar-kafka reads version 1: upgrade it",
        ),
        ([("columnar.encoding", None)], "header columnar.encoding is missing"),
    ],
)
def test_headers_that_cannot_be_read_are_reported_with_the_place(headers: Any, reason: str) -> None:
    kafka = threes(1)
    kafka.append("t", 0, b"PAR1", headers=headers)
    put(kafka, [20])
    got = reader(kafka).feed.take(100, 0.5)
    assert [shown(message)[1] for message in got] == [0, 1, 2, "_BAD_MSG", 20]
    assert got[3].error().str().startswith(f"segment at t[0]@1: {reason}")


def test_a_segment_without_a_value_is_bad_too() -> None:
    kafka = threes(1)
    kafka.append("t", 0, None, headers=kafka.messages("t")[0].headers())
    assert reader(kafka).numbers() == [0, 1, 2, "_BAD_MSG"]


# --- resuming -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "metadata", "expected"),
    [
        (0, "1:3:p-0", [0, 1, 2, 10, 11, 12]),
        (0, "1:2:p-0", [1, 2, 10, 11, 12]),
        (0, "1:1:p-0", [2, 10, 11, 12]),
        (1, None, [10, 11, 12]),
        (1, "", [10, 11, 12]),
        (1, "1:1:p-1", [12]),
        (2, None, []),
        (0, None, [0, 1, 2, 10, 11, 12]),
        (0, "1:1:p-1", [0, 1, 2, 10, 11, 12]),
        (0, "1:1:p-00", [0, 1, 2, 10, 11, 12]),
        (0, "1:4:p-0", [0, 1, 2, 10, 11, 12]),
        (0, "1:1000000:p-0", [0, 1, 2, 10, 11, 12]),
        (0, "1:0:p-0", [0, 1, 2, 10, 11, 12]),
        (0, "garbage", [0, 1, 2, 10, 11, 12]),
    ],
)
def test_a_group_goes_on_where_it_committed_and_in_doubt_reads_again(
    offset: int, metadata: str | None, expected: list[int]
) -> None:
    kafka = threes(2)
    committed(kafka, offset, metadata)
    assert Reader(kafka).begin(start(OFFSET_STORED)).numbers() == expected


def test_a_group_that_never_committed_reads_from_the_first_row() -> None:
    assert Reader(threes(1)).begin(start(OFFSET_INVALID)).numbers() == [0, 1, 2]


def test_what_was_committed_inside_a_segment_that_is_gone_says_nothing_of_the_next() -> None:
    """The log now starts later: librdkafka goes on there, and all of it is new."""
    kafka = threes(3)
    committed(kafka, 1, "1:1:p-1")
    one = Reader(kafka)
    one.feed.assign([start(OFFSET_STORED)])
    one.broker.assign([start(2)])
    assert one.numbers() == [20, 21, 22]


def test_asked_for_the_beginning_a_reader_gets_it_whatever_its_group_committed() -> None:
    kafka = threes(2)
    committed(kafka, 0, "1:1:p-0")
    one = Reader(kafka).begin(start(OFFSET_BEGINNING))
    assert one.numbers() == [0, 1, 2, 10, 11, 12]
    assert one.broker.lookups == []


def test_asked_for_the_end_a_reader_gets_what_comes() -> None:
    kafka = threes(1)
    committed(kafka, 1, "1:1:p-1")
    one = Reader(kafka).begin(start(OFFSET_END))
    put(kafka, [10, 11, 12])
    assert one.numbers() == [10, 11, 12]


def test_all_partitions_are_looked_up_at_once_and_only_once() -> None:
    kafka = threes(2)
    put(kafka, [5], partition=1)
    one = Reader(kafka).begin(start(OFFSET_STORED), start(OFFSET_STORED, P1))
    assert sorted(one.numbers()) == [0, 1, 2, 5, 10, 11, 12]
    assert len(one.broker.lookups) == 1


def test_what_the_group_has_committed_is_known_with_the_first_message() -> None:
    """As librdkafka knows it: what is not further is not committed."""
    kafka = threes(0)
    for n in range(3):
        kafka.append("t", 0, b"%d" % n)
    committed(kafka, 2)
    one = Reader(kafka).begin(start(OFFSET_STORED))
    assert one.numbers() == [b"2"]
    one.seek(P0, 0)
    assert one.numbers(1) == [b"0"]
    assert one.offsets.uncommitted() == []
    assert len(one.broker.lookups) == 1


def test_a_partition_that_comes_again_is_begun_before_librdkafka_is_polled() -> None:
    kafka = threes(2)
    committed(kafka, 0, "1:1:p-0")
    one = Reader(kafka).begin(start(OFFSET_STORED))
    one.feed.ask_committed([P0])
    assert one.broker.lookups == []  # it had none before, of which something might be left
    one.feed.revoke([P0])
    one.begin(start(OFFSET_STORED), start(OFFSET_STORED, P1)).feed.ask_committed([P1])
    assert one.broker.lookups == []
    one.feed.ask_committed([P0])
    assert len(one.broker.lookups) == 2
    assert one.broker.polls == 0
    assert one.numbers() == [2, 10, 11, 12]
    one.feed.revoke([P0])
    one.begin(start(at(0))).feed.ask_committed([P0])
    assert one.numbers() == [0, 1, 2, 10, 11, 12]
    assert len(one.broker.lookups) == 2


def test_if_the_group_cannot_be_asked_then_it_is_with_the_first_message() -> None:
    kafka = threes(2)
    committed(kafka, 0, "1:1:p-0")
    one = Reader(kafka).begin(start(OFFSET_STORED))
    one.feed.revoke([P0])
    one.broker.fail_next(KafkaError(KafkaError._TRANSPORT))
    one.begin(start(OFFSET_STORED)).feed.ask_committed([P0])
    assert one.numbers() == [2, 10, 11, 12]
    assert len(one.broker.lookups) == 2


PASSING = [
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
]


@pytest.mark.parametrize("code", PASSING)
def test_when_the_group_cannot_be_asked_now_it_is_asked_again(code: int) -> None:
    kafka = threes(2)
    committed(kafka, 0, "1:1:p-0")
    one = Reader(kafka).begin(start(OFFSET_STORED))
    one.broker.fail_next(KafkaError(code), count=3)
    assert one.numbers(timeout=10) == [2, 10, 11, 12]
    assert len(one.broker.lookups) == 4


def test_while_the_group_cannot_be_asked_poll_keeps_to_its_timeout_and_loses_nothing() -> None:
    kafka = threes(2)
    committed(kafka, 0, "1:1:p-0")
    one = Reader(kafka).begin(start(OFFSET_STORED))
    one.broker.fail_next(KafkaError(KafkaError._TRANSPORT), count=20)
    assert one.feed.next(1.0) is None
    assert one.clock.now == pytest.approx(1.0, abs=0.11)
    assert one.feed.next(0) is None
    one.broker.faults.clear()
    assert one.numbers() == [2, 10, 11, 12]


def test_while_the_group_cannot_be_asked_librdkafka_is_served_and_not_asked_all_the_time() -> None:
    one = Reader(threes(0)).begin(start(OFFSET_STORED))
    put(one.broker.kafka, [0])
    one.broker.fail_next(KafkaError(KafkaError._TRANSPORT), count=1000)
    assert one.feed.next(2.0) is None
    assert 10 <= len(one.broker.lookups) <= 25


def test_when_the_group_may_not_be_asked_the_segment_is_read_from_its_first_row() -> None:
    kafka = threes(1)
    committed(kafka, 0, "1:1:p-0")
    one = Reader(kafka).begin(start(OFFSET_STORED))
    one.broker.fail_next(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert one.numbers() == [0, 1, 2]


def test_a_commit_and_a_restart_go_on_at_the_next_record() -> None:
    kafka = threes(3)
    for expected in ([0, 1], [2, 10], [11], [12, 20, 21, 22]):
        one = Reader(kafka).begin(start(OFFSET_STORED))
        assert one.numbers(len(expected)) == expected
        one.commit()
    assert Reader(kafka).begin(start(OFFSET_STORED)).numbers() == []


# --- behind the last record -----------------------------------------------------------------------


def ended(*numbers: int) -> MemoryKafka:
    """A topic of one segment, or none, and the end of the transaction it was sent in."""
    kafka = MemoryKafka()
    kafka.create_topic("t", 2)
    if numbers:
        put(kafka, numbers)
    mark(kafka)
    return kafka


def mark(kafka: MemoryKafka) -> None:
    log = kafka.log(*P0)
    assert log is not None
    log.mark()


def position_of(one: Reader) -> int | None:
    one.feed.skip_gaps()
    return one.offsets.delivered.get(P0)


def fetch(one: Reader, times: int) -> None:
    """Have librdkafka asked as often as that; what it has is buffered."""
    for _ in range(times):
        one.feed.poller.serve(0)


def check_both_still_come(one: Reader) -> None:
    """None of the records 1 and 2 has been passed, and after them the end is."""
    assert position_of(one) is None
    assert one.numbers() == [1, 2]
    assert position_of(one) == position.start(2)


def test_the_end_of_a_transaction_is_passed() -> None:
    one = reader(ended(1, 2))
    assert one.numbers() == [1, 2]
    assert one.offsets.delivered == {P0: position.start(1)}
    assert position_of(one) == position.start(2)
    mark(one.broker.kafka)
    assert one.numbers() == []
    assert position_of(one) == position.start(3)


def test_it_is_passed_where_no_record_came_before_it() -> None:
    one = reader(ended())
    assert position_of(one) is None
    assert one.numbers() == []
    assert position_of(one) == position.start(1)


def test_it_is_committed_and_nothing_is_read_again() -> None:
    kafka = ended(1, 2)
    one = reader(kafka)
    assert one.numbers() == [1, 2]
    one.feed.skip_gaps()
    one.commit()
    stored = kafka.committed("group", "t", 0)
    assert (stored.offset, stored.metadata) == (2, None)
    put(kafka, [3])
    assert Reader(kafka).begin(start(OFFSET_STORED)).numbers() == [3]


def test_no_record_that_is_held_is_passed() -> None:
    one = reader(ended(1, 2))
    fetch(one, 3)
    assert position_of(one) is None
    assert one.numbers(1) == [1]
    assert position_of(one) == at(0, 1, 2)
    assert one.numbers(1) == [2]
    assert position_of(one) == position.start(2)


@pytest.mark.parametrize("nbytes", [fetch_buffer.MOST_BYTES, 1], ids=["waiting", "fetched again"])
def test_no_record_of_a_paused_partition_is_passed(
    monkeypatch: pytest.MonkeyPatch, nbytes: int
) -> None:
    monkeypatch.setattr(fetch_buffer, "MOST_BYTES", nbytes)
    one = reader(ended(1, 2))
    fetch(one, 3)
    one.pause(P0)
    assert position_of(one) is None
    one.resume(P0)
    check_both_still_come(one)


def test_no_record_that_an_exception_has_destroyed_is_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = reader(ended(1, 2))

    def destroy(timeout: float) -> None:
        Broker.poll(one.broker, timeout)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(one.broker, "poll", destroy)
        with pytest.raises(KeyboardInterrupt):
            one.take(1)
    check_both_still_come(one)


def test_nothing_is_passed_of_what_a_call_has_taken_and_not_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = reader(ended(1, 2))
    fetch(one, 3)
    with monkeypatch.context() as patch:
        patch.setattr(handout.Ready, "publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.take(9)
    check_both_still_come(one)


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_position_of_the_assignment_before_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka has it until its own thread has ended that one."""
    kafka = ended(1, 2)
    one = reader(kafka)
    assert one.numbers() == [1, 2]
    assert position_of(one) == position.start(2)
    with monkeypatch.context() as patch:
        patch.setattr(one.broker, "position", lambda _: [TopicPartition("t", 0, 2)])
        one.feed.assign([start(1)])
        assert position_of(one) is None
        fetch(one, 1)
        assert position_of(one) is None
    one.broker.assign([start(1)])
    assert position_of(one) is None
    assert one.numbers() == []
    assert position_of(one) == position.start(2)


def test_the_end_of_a_partition_stays_reached_when_it_goes_on() -> None:
    kafka = threes(1)
    one = Reader(kafka)
    one.broker = Broker(kafka, one.clock)
    one.broker.end_events = True
    one.feed = Feed(one.broker, one.offsets, clock=one.clock, partition_eof=True)
    one.begin(start())
    assert one.numbers(4) == [0, 1, 2, "_PARTITION_EOF"]
    mark(kafka)
    fetch(one, 1)
    assert position_of(one) == position.start(2)
    assert one.feed.at_end() == {P0}


# --- seeking --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (0, [0, 1, 2, 10, 11, 12]),
        (at(0, 0), [0, 1, 2, 10, 11, 12]),
        (at(0, 0) - 1, [0, 1, 2, 10, 11, 12]),
        (at(0, 1), [1, 2, 10, 11, 12]),
        (at(0, 2), [2, 10, 11, 12]),
        (MAX_ROWS, [10, 11, 12]),
        (at(1, 2), [12]),
        (2 * MAX_ROWS, []),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 3, 4, 6])
def test_seek_goes_to_the_record_or_the_first_after_it(
    before: int, to: int, expected: list[int]
) -> None:
    one = reader(threes(2))
    one.numbers(before)
    one.seek(P0, to)
    assert one.numbers() == expected


@pytest.mark.parametrize(
    ("to", "expected"),
    [(at(1, 1), [11, 12]), (at(0, 2), [2, 10, 11, 12]), (MAX_ROWS, [10, 11, 12])],
)
def test_an_assignment_begins_at_a_position(to: int, expected: list[int]) -> None:
    assert Reader(threes(2)).begin(start(to)).numbers() == expected


def test_a_position_inside_a_plain_message_delivers_it() -> None:
    kafka = threes(0)
    kafka.append("t", 0, b"plain")
    assert Reader(kafka).begin(start(MAX_ROWS - 1)).numbers() == [b"plain"]
    assert Reader(kafka).begin(start(5)).numbers() == [b"plain"]


def test_a_position_beyond_the_end_skips_nothing_when_librdkafka_starts_over() -> None:
    """The topic was made again, and auto.offset.reset went to its first message."""
    one = Reader(threes(2))
    one.feed.assign([start(at(50, 1))])
    one.broker.assign([start(OFFSET_BEGINNING)])
    assert one.numbers() == [0, 1, 2, 10, 11, 12]


def test_a_seek_to_the_beginning_reads_all_again() -> None:
    one = reader(threes(1))
    one.numbers(2)
    one.seek(P0, OFFSET_BEGINNING)
    assert one.numbers() == [0, 1, 2]


def test_after_a_seek_there_is_no_position_and_what_was_handed_out_stays_stored() -> None:
    one = reader()
    one.numbers(5)
    one.seek(P0, at(0, 1))
    assert one.offsets.delivered == {}
    [stored] = one.offsets.uncommitted()
    assert (stored.offset, stored.metadata) == (1, "1:1:p-1")


def test_a_position_beyond_the_end_says_nothing_of_what_is_written_there_later() -> None:
    """librdkafka started over with plain messages, and then a segment came to that offset."""
    kafka = threes(0)
    for _ in range(2):
        kafka.append("t", 0, b"plain")
    one = Reader(kafka)
    one.feed.assign([start(at(2, 1))])
    one.broker.assign([start(OFFSET_BEGINNING)])
    assert one.numbers() == [b"plain", b"plain"]
    put(kafka, [20, 21, 22])
    assert one.numbers() == [20, 21, 22]


def test_a_seek_leaves_other_partitions_alone() -> None:
    kafka = threes(1)
    put(kafka, [5, 6, 7], partition=1)
    one = Reader(kafka).begin(start(), start(key=P1))
    assert one.numbers(1) == [0]
    one.seek(P1, at(0, 2))
    assert sorted(one.numbers()) == [1, 2, 7]


# --- pausing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", range(10))
def test_a_partition_paused_anywhere_goes_on_exactly_there(before: int) -> None:
    everything = [0, 1, 2, 10, 11, 12, 20, 21, 22]
    one = reader()
    assert one.numbers(before) == everything[:before]
    one.pause(P0)
    assert one.numbers() == []
    one.resume(P0)
    assert one.numbers() == everything[before:]


def test_messages_held_when_their_partition_is_paused_wait_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poller, "SMALL_BYTES", 0)
    one = reader(threes(4))
    one.numbers(1)
    for _ in range(3):
        one.clock.now += 0.2
        one.numbers(1)  # and one more message is fetched
    assert len(one.feed.buffer.waiting()) > 1
    one.pause(P0)
    assert one.numbers() == []
    one.resume(P0)
    assert one.numbers() == [11, 12, 20, 21, 22, 30, 31, 32]


def test_a_message_that_comes_for_a_paused_partition_waits_too() -> None:
    """librdkafka may have had it in its queue."""
    one = reader(threes(2))
    one.numbers(1)
    one.feed.pause([P0])
    assert one.numbers() == []
    one.feed.resume([P0])
    assert one.numbers() == [1, 2, 10, 11, 12]


def test_what_is_too_much_to_wait_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions paused one after the other would take so much each."""
    monkeypatch.setattr(poller, "SMALL_BYTES", 0)
    kafka = MemoryKafka()
    kafka.create_topic("t", 8)
    keys = [("t", partition) for partition in range(8)]
    for _, partition in keys:
        for n in range(0, 120, 20):
            put(kafka, range(n, n + 20), partition=partition)
    one = Reader(kafka).begin(*(start(key=key) for key in keys))
    taken = one.numbers(1)
    [part] = one.feed.buffer.ready.parts
    monkeypatch.setattr(fetch_buffer, "MOST_BYTES", 5 * kafka_message.size_of(part.source))
    most = 0
    for key in keys:
        for _ in range(10):
            one.clock.now += 0.2
            taken += one.numbers(1)  # and one more message is fetched
        one.pause(key)
        parked = [message for messages in one.feed.buffer.parked.values() for message in messages]
        assert kafka_message.bytes_of(parked) < fetch_buffer.MOST_BYTES
        most = max(most, len(parked))
    assert most > 2
    assert one.numbers() == []
    one.resume(*keys)
    assert sorted([*taken, *one.numbers(1000)]) == sorted([*range(120)] * 8)


def test_pausing_twice_is_pausing_once() -> None:
    one = reader(threes(1))
    one.numbers(1)
    one.pause(P0)
    one.pause(P0)
    one.resume(P0)
    assert one.numbers() == [1, 2]


def test_other_partitions_go_on_while_one_is_paused() -> None:
    kafka = threes(1)
    put(kafka, [5, 6], partition=1)
    one = Reader(kafka).begin(start(), start(key=P1))
    assert one.numbers(1) == [0]
    one.pause(P0)
    assert one.numbers() == [5, 6]
    one.resume(P0)
    assert one.numbers() == [1, 2]


def test_a_seek_of_a_paused_partition_leaves_it_paused() -> None:
    one = reader(threes(2))
    one.numbers(1)
    one.pause(P0)
    one.seek(P0, at(1, 1))
    assert one.numbers() == []
    one.resume(P0)
    assert one.numbers() == [11, 12]


def test_the_end_of_a_paused_partition_waits_behind_its_records() -> None:
    one = reader(threes(1))
    one.numbers(1)
    one.pause(P0)
    end = KafkaError(KafkaError._PARTITION_EOF)
    one.broker.events.append(Message(topic="t", partition=0, offset=1, error=end))
    one.broker.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert one.numbers() == ["_ALL_BROKERS_DOWN"]
    one.resume(P0)
    assert one.numbers() == [1, 2, "_PARTITION_EOF"]


def test_a_paused_partition_stays_paused_when_it_is_assigned_again() -> None:
    """As in librdkafka; and nothing that ends inside resumes it."""
    one = reader(threes(1))
    one.numbers(1)
    one.pause(P0)
    one.begin(start())
    assert one.numbers() == []
    one.resume(P0)
    assert one.numbers() == [0, 1, 2]


# --- revoking -------------------------------------------------------------------------------------


def test_what_is_held_of_a_revoked_partition_is_dropped() -> None:
    kafka = threes(3)
    put(kafka, [5, 6], partition=1)
    one = Reader(kafka).begin(start(), start(key=P1))
    one.numbers(2)
    for _ in range(3):
        one.clock.now += 0.2
        one.feed.poller.serve_if_due()
    one.feed.revoke([P0])
    one.broker.assign([start(key=P1)])
    assert [number for number in one.numbers() if number not in (5, 6)] == []
    assert P0 not in one.offsets.delivered


def test_a_partition_that_comes_back_starts_where_its_group_committed() -> None:
    one = reader()
    one.numbers(4)
    one.commit()
    one.numbers(2)
    one.feed.revoke([P0])
    one.begin(start(OFFSET_STORED))
    assert one.numbers() == [11, 12, 20, 21, 22]


def test_a_revocation_while_the_group_is_asked_drops_the_message_in_hand() -> None:
    """Asking failed, and while it waits to ask again librdkafka takes the partition away."""
    one = Reader(threes(1)).begin(start(OFFSET_STORED))
    one.broker.fail_next(KafkaError(KafkaError._TRANSPORT))

    def revoke() -> None:
        one.feed.revoke([P0])
        one.broker.assign([])

    one.broker.after_lookup = revoke
    assert one.numbers() == []
    assert len(one.broker.lookups) == 1


def test_a_rebalance_behind_an_event_is_heard_before_anything_else_is_handed_out() -> None:
    """As when a consumer has been away for too long: the event comes, then partitions are lost."""
    one = reader()
    assert one.numbers(1) == [0]
    one.broker.event(KafkaError(KafkaError._MAX_POLL_EXCEEDED))
    served = one.broker.poll

    def poll(timeout: float) -> Message | None:
        message = served(timeout)
        if message is not None and message.error() is not None:
            one.broker.callbacks.append(lost)
        return message

    def lost() -> None:
        one.feed.revoke([P0])
        one.broker.assign([])

    one.broker.poll = poll  # type: ignore[method-assign]
    one.clock.now += 1
    assert one.numbers() == ["_MAX_POLL_EXCEEDED"]


def test_somebody_elses_row_does_not_stop_commits() -> None:
    """Known to be committed is the start of the segment, until the segment is known."""
    kafka = threes(1)
    committed(kafka, 0, "1:1:somebody-elses")
    one = Reader(kafka).begin(start(OFFSET_STORED))
    assert one.numbers(1) == [0]
    [wanted] = one.offsets.uncommitted()
    assert (wanted.offset, wanted.metadata) == (0, "1:2:p-0")


def test_librdkafka_is_heard_soon_where_that_is_asked_for() -> None:
    one = reader()
    assert one.numbers(1) == [0]
    one.broker.callbacks += [lambda: one.feed.revoke([P0]), lambda: one.broker.assign([])]
    one.feed.serve_soon()
    assert one.numbers(1) == []


def test_a_closed_feed_holds_nothing() -> None:
    one = reader()
    one.numbers(4)
    one.pause(P0)
    one.resume(P0)
    one.feed.clear()
    assert repr(one.feed) == (
        "<Feed 0 messages ready, no segment open, 0 buffered, 0 partitions parked>"
    )
    assert one.offsets.uncommitted() == []


# --- callbacks ------------------------------------------------------------------------------------


def failing(one: Reader, reason: str = "callback") -> Callable[[], None]:
    """A callback that raises, guarded as `Consumer` guards it."""
    return lambda: one.raised.append(RuntimeError(reason))


@pytest.mark.parametrize("before", range(5))
def test_a_callback_that_raises_loses_no_record(before: int) -> None:
    one = reader(threes(2))
    got = one.numbers(before)
    one.broker.callbacks.append(failing(one))
    one.clock.now += 1
    with pytest.raises(RuntimeError, match="callback"):
        one.feed.next(1)
    assert got + one.numbers() == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("take", ["next", "segment"])
def test_a_callback_that_raises_is_heard_before_the_record_that_came_with_it(take: str) -> None:
    one = reader(threes(1))
    one.broker.callbacks.append(failing(one))
    with pytest.raises(RuntimeError, match="callback"):
        getattr(one.feed, take)(1)
    assert one.numbers() == [0, 1, 2]


def test_what_was_taken_is_returned_before_a_callback_raises() -> None:
    one = reader(threes(2))
    one.broker.callbacks += [lambda: None]
    assert one.numbers(2) == [0, 1]
    one.broker.callbacks.append(failing(one))
    one.clock.now += 1
    one.raised.clear()
    one.feed.poller.serve_if_due()
    with pytest.raises(RuntimeError, match="callback"):
        one.numbers()
    assert one.numbers() == [2, 10, 11, 12]


@pytest.mark.parametrize("nth", range(8))
def test_a_callback_that_takes_a_record_inside_a_poll_loses_none(nth: int) -> None:
    one, sent = reader_of_plain(6)
    taken: list[Any] = []
    one.broker.at_poll[nth] = lambda: taken.extend(one.numbers(1, 0))
    taken += one.numbers()
    assert taken == sent
    assert not one.broker.at_poll


def test_with_records_in_hand_a_callbacks_exception_waits_for_the_next_call() -> None:
    one = reader(threes(1))
    served = one.broker.poll

    def poll(timeout: float) -> Message | None:
        message = served(timeout)
        if message is None and not one.raised:
            one.raised.append(RuntimeError("callback"))
        return message

    one.broker.poll = poll  # type: ignore[method-assign]
    assert one.numbers(10) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="callback"):
        one.feed.next(0)


@pytest.mark.parametrize("nth", range(8))
def test_the_call_for_one_in_which_a_callback_raises_raises_it(nth: int) -> None:
    """It may poll several times: what is behind a plain message is fetched too."""
    one, sent = reader_of_plain(6)
    taken: list[Any] = []
    one.broker.at_poll[nth] = lambda: one.raised.append(RuntimeError("callback"))

    def take_all() -> None:
        while True:
            taken.extend(one.numbers(1))
            assert not one.raised

    with pytest.raises(RuntimeError, match="callback"):
        take_all()
    assert taken + one.numbers() == sent


def test_what_a_callback_raises_does_not_wait_for_a_message() -> None:
    """Stock `poll()` without a timeout returns with it at once; ours within 200 ms."""
    one = reader(threes(0))
    one.broker.callbacks.append(failing(one))
    with pytest.raises(RuntimeError, match="callback"):
        one.feed.next(-1, lambda: bool(one.raised))
    assert one.clock.now == pytest.approx(0.2)


def test_of_several_callbacks_that_raise_each_is_heard() -> None:
    one = reader(threes(1))
    one.broker.callbacks += [failing(one, "first"), failing(one, "second")]
    one.clock.now += 1
    for reason in ("first", "second"):
        with pytest.raises(RuntimeError, match=reason):
            one.feed.next(0)
    assert one.numbers() == [0, 1, 2]


# --- serving librdkafka, and what is buffered meanwhile -------------------------------------------


def test_librdkafka_is_served_every_100_ms_while_records_come_from_the_buffer() -> None:
    kafka = threes(0)
    put(kafka, range(100))
    one = reader(kafka)
    one.numbers(1)
    polls = one.broker.polls
    for n in range(1, 100):
        one.clock.now += 0.03
        assert one.numbers(1) == [n]
    served = one.broker.polls - polls
    assert served == 24  # 2.97 s: each time the first call after 100 ms, and 4 * 30 ms are that


@pytest.mark.parametrize("is_truncated", [False, True])
def test_an_idle_consumer_polls_five_times_a_second(
    monkeypatch: pytest.MonkeyPatch, is_truncated: bool
) -> None:
    """Also librdkafka, which does not wait for parts of a millisecond."""
    one = reader(threes(0))
    poll = one.broker.poll
    if is_truncated:
        one.clock.now += 0.0004
        monkeypatch.setattr(
            one.broker, "poll", lambda seconds: poll(int(seconds * 1000) / 1000 or 1e-5)
        )
    assert one.feed.next(10.0005) is None
    assert one.broker.polls <= 52
    assert one.clock.now == pytest.approx(10.0005, abs=0.0015)


def test_while_a_consumer_waits_commits_go_out_and_it_does_nothing_else() -> None:
    served: list[float] = []
    one = reader(threes(0))
    feed = Feed(
        one.broker,
        OffsetStore(auto_store=True),
        clock=one.clock,
        before_serving=lambda: served.append(one.clock.now),
    )
    looks = 0

    def is_cancelled() -> bool:
        nonlocal looks
        looks += 1
        return looks >= 5

    assert feed.next(60, is_cancelled) is None
    assert served == [pytest.approx(n / 5) for n in range(5)]


def test_librdkafka_is_not_served_for_every_record() -> None:
    kafka = threes(0)
    put(kafka, range(100))
    one = reader(kafka)
    assert len(one.numbers(100)) == 100
    assert one.broker.polls == 2  # the second one found nothing


def test_what_is_held_is_bounded_and_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_buffer, "MOST_MESSAGES", 3)
    kafka = threes(0)
    put(kafka, range(100))
    for n in range(100, 120):
        put(kafka, [n])
    one = reader(kafka)
    most = 0
    got = []
    for _ in range(100):
        one.clock.now += 0.2
        got += one.numbers(1)
        most = max(most, len(one.feed.buffer.buffered))
    assert most == 3
    assert one.broker.paused == {P0}
    got += one.numbers(100)
    assert got == list(range(120))
    assert one.broker.paused == set()
    resumed: list[Any] = []
    monkeypatch.setattr(one.broker, "resume", resumed.append)
    assert one.numbers(1) == resumed == []  # once was enough


def test_what_is_held_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_buffer, "MOST_BYTES", 100_000)
    kafka = threes(0)
    put(kafka, range(100))
    for _ in range(10):
        kafka.append("t", 0, b"x" * 40_000)
    one = reader(kafka)
    for _ in range(50):
        one.clock.now += 0.2
        one.numbers(1)
    assert len(one.feed.buffer.buffered) == 3
    assert len(one.numbers(100)) == 60


def test_a_partition_assigned_while_others_are_held_back_is_held_back_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_buffer, "MOST_MESSAGES", 2)
    kafka = threes(0)
    put(kafka, range(100))
    for n in range(5):
        put(kafka, [1000 + n])
        kafka.append("t", 1, b"%d" % n)
    one = reader(kafka)
    serve(one, 3)
    one.feed.assign([start(key=P1)])
    one.broker.next_offsets[P1] = 0  # incrementally
    serve(one, 20)
    assert len(one.feed.buffer.buffered) == 3
    got = one.numbers(200)
    assert sorted(n for n in got if isinstance(n, int)) == [*range(23, 100), *range(1000, 1005)]
    assert [n for n in got if isinstance(n, bytes)] == [b"0", b"1", b"2", b"3", b"4"]


def serve(one: Reader, times: int) -> None:
    for _ in range(times):
        one.clock.now += 0.2
        one.numbers(1)


def test_a_partition_that_the_user_paused_stays_paused_when_holding_back_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_buffer, "MOST_MESSAGES", 2)
    kafka = threes(0)
    put(kafka, range(10))
    for n in range(5):
        put(kafka, [1000 + n])
        kafka.append("t", 1, b"%d" % n)
    one = Reader(kafka).begin(start(), start(key=P1))
    serve(one, 8)
    assert one.broker.paused == {P0, P1}
    one.pause(P1)
    one.numbers(200)
    assert one.broker.paused == {P1}
    assert sum(map(len, one.feed.buffer.parked.values())) <= 2
    one.resume(P1)
    assert one.numbers()[-1:] == [b"4"]


def test_a_partition_resumed_by_the_user_while_much_is_held_is_held_back_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_buffer, "MOST_MESSAGES", 2)
    kafka = threes(0)
    put(kafka, range(100))
    for n in range(20):
        put(kafka, [1000 + n])
    one = reader(kafka)
    serve(one, 5)
    one.pause(P0)
    one.resume(P0)
    serve(one, 30)
    assert len(one.feed.buffer.buffered) <= 4
    assert one.numbers(200) == [*range(35, 100), *range(1000, 1020)]


# --- whole segments -------------------------------------------------------------------------------


def test_segments_come_whole_and_verified() -> None:
    one = reader(threes(2))
    segments = [one.feed.segment(1), one.feed.segment(1)]
    assert [whole.kafka_offset for whole in segments] == [0, 1]
    assert [whole.to_table(["n"]).to_pydict() for whole in segments] == [
        {"n": [0, 1, 2]},
        {"n": [10, 11, 12]},
    ]
    assert one.feed.segment(0.5) is None


def test_a_segment_handed_out_counts_as_delivered() -> None:
    one = reader(threes(2))
    one.feed.segment(1)
    assert one.offsets.delivered == {P0: MAX_ROWS}
    assert one.numbers() == [10, 11, 12]


def test_a_row_of_a_segment_handed_out_whole_can_be_committed() -> None:
    one = reader(threes(2))
    one.feed.segment(1)
    committable = one.offsets.committable(start(at(0, 1)))
    assert (committable.offset, committable.metadata) == (0, "1:2:p-0")


def test_a_partly_read_segment_is_handed_out_whole_again() -> None:
    one = reader(threes(2))
    assert one.numbers(2) == [0, 1]
    assert one.feed.segment(1).kafka_offset == 0
    assert one.numbers() == [10, 11, 12]


def test_a_segment_read_to_its_end_is_not_handed_out_again() -> None:
    one = reader(threes(2))
    assert one.numbers(3) == [0, 1, 2]
    assert one.feed.segment(1).kafka_offset == 1


def test_callbacks_run_while_segments_are_buffered() -> None:
    one, ran = reader(), []
    assert one.feed.segment(0.5) is not None
    assert one.feed.buffer.buffered
    one.broker.callbacks.append(lambda: ran.append(True))
    one.clock.now += 60
    assert one.feed.segment(0.5) is not None
    assert ran == [True]


def test_a_plain_message_is_refused_and_stays_for_poll() -> None:
    kafka = threes(1)
    kafka.append("t", 0, b"plain")
    put(kafka, [20])
    one = reader(kafka)
    one.feed.segment(1)
    for _ in range(2):
        with pytest.raises(KafkaException, match=r"t\[0\]@1 is a plain message") as raised:
            one.feed.segment(1)
        assert raised.value.args[0].code() == KafkaError._STATE
    assert one.numbers(1) == [b"plain"]
    assert one.feed.segment(1).kafka_offset == 2


def test_an_error_event_is_raised_and_taken() -> None:
    one = reader(threes(1))
    one.broker.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(KafkaException) as raised:
        one.feed.segment(1)
    assert raised.value.args[0].code() == KafkaError._ALL_BROKERS_DOWN
    assert one.feed.segment(1).kafka_offset == 0


@pytest.mark.parametrize("how", ["damage", "headers"])
def test_a_bad_segment_is_raised_once_and_the_next_is_handed_out(how: str) -> None:
    kafka = threes(0)
    if how == "damage":
        put(kafka, [0], damage=True)
    else:
        kafka.append("t", 0, b"", headers=[("columnar.encoding", b"?")])
    put(kafka, [10])
    one = reader(kafka)
    with pytest.raises(SegmentError, match=r"segment at t\[0\]@0"):
        one.feed.segment(1)
    assert one.offsets.delivered == {P0: MAX_ROWS}
    assert one.feed.segment(1).kafka_offset == 1


def test_a_callback_that_raises_loses_no_segment() -> None:
    one = reader(threes(1))
    one.broker.callbacks.append(failing(one))
    one.clock.now += 1
    with pytest.raises(RuntimeError, match="callback"):
        one.feed.segment(1)
    assert one.feed.segment(1).kafka_offset == 0


# --- all of it together ---------------------------------------------------------------------------


class Entry:
    """One thing that a partition holds: a record, a plain message or a bad segment."""

    def __init__(self, offset: int, row: int, rows: int, value: Any) -> None:
        self.offset = offset
        self.at = position.pack(offset, row, rows)
        self.first = position.pack(offset, 0, rows)
        self.value = value


SHAPES = [[3, "plain", 1, 5], [2, "bad", "plain", 4, 1, 1, 1]]
"""What each partition holds: segments of so many records, plain messages, a bad segment."""


def build() -> tuple[MemoryKafka, dict[tuple[str, int], list[Entry]]]:
    kafka = threes(0)
    entries: dict[tuple[str, int], list[Entry]] = {}
    for partition, shapes in enumerate(SHAPES):
        of_partition = entries["t", partition] = []
        for offset, shape in enumerate(shapes):
            first = partition * 1000 + offset * 10
            if shape == "plain":
                kafka.append("t", partition, b"plain %d" % first)
                of_partition.append(Entry(offset, 0, 1, b"plain %d" % first))
            elif shape == "bad":
                put(kafka, [first], partition=partition, damage=True)
                of_partition.append(Entry(offset, 0, 1, "_BAD_MSG"))
            else:
                put(kafka, range(first, first + shape), partition=partition)
                of_partition += [Entry(offset, row, shape, first + row) for row in range(shape)]
    return kafka, entries


KEYS = st.sampled_from([P0, P1])


class Reading(RuleBasedStateMachine):
    """Two partitions against two lists: no record is skipped, none is out of its order.

    `cursor` is the index of each partition's next entry, `stored` of where its group left off.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kafka, self.entries = build()
        self.before = fetch_buffer.MOST_MESSAGES, fetch_buffer.MOST_BYTES

    def teardown(self) -> None:
        fetch_buffer.MOST_MESSAGES, fetch_buffer.MOST_BYTES = self.before

    @initialize(nbytes=st.sampled_from([1, 5000, 1 << 20]))
    def begin(self, nbytes: int) -> None:
        fetch_buffer.MOST_MESSAGES, fetch_buffer.MOST_BYTES = 2, nbytes
        self.stored = {P0: 0, P1: 0}
        self.restart(forget=False)

    def expect(self, message: Any) -> None:
        """Check that it is its partition's next entry, and go on."""
        key = message.topic(), message.partition()
        if key in self.unresolved:  # what the group has committed of all such is known now
            self.known |= {unknown: self.stored[unknown] for unknown in self.unresolved}
            self.unresolved.clear()
        assert key not in self.paused
        entry = self.entries[key][self.cursor[key]]
        assert shown(message) == (entry.at, entry.value)
        self.cursor[key] += 1
        self.moved[key] = self.cursor[key]

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        messages = self.reader.feed.take(count, 0.3)
        for message in messages:
            self.expect(message)
        if len(messages) < count:
            for key in {P0, P1} - self.paused:
                assert self.cursor[key] == len(self.entries[key])

    @rule(later=st.sampled_from([0.05, 0.2]))
    def a_while_later(self, later: float) -> None:
        self.reader.clock.now += later

    @rule()
    def a_callback_raises(self) -> None:
        self.reader.raised.append(RuntimeError("callback"))
        with pytest.raises(RuntimeError):
            self.reader.feed.next(0.3)

    @rule()
    def an_event_comes(self) -> None:
        self.reader.broker.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        while (message := self.reader.feed.next(0.3)).error() is None or message.topic():
            self.expect(message)

    @rule(count=st.integers(1, 4))
    def the_group_cannot_be_asked(self, count: int) -> None:
        self.reader.broker.faults.clear()
        self.reader.broker.fail_next(KafkaError(KafkaError._TRANSPORT), count=count)
        message = self.reader.feed.next(0.3)
        if message is not None:
            self.expect(message)
        self.reader.broker.faults.clear()

    @rule()
    def take_a_segment(self) -> None:
        try:
            whole = self.reader.feed.segment(0.3)
        except SegmentError:
            [key] = [key for key in (P0, P1) if self.is_next(key, "_BAD_MSG")]
            self.cursor[key] += 1
            self.moved[key] = self.cursor[key]
            return
        except KafkaException:
            plain = [key for key in (P0, P1) if self.is_next(key, bytes)]
            assert plain  # it stays where it is
            return
        if whole is None:
            return
        key = whole.topic, whole.partition
        at_offset = [entry for entry in self.entries[key] if entry.offset == whole.kafka_offset]
        assert whole.to_table(["n"])["n"].to_pylist() == [entry.value for entry in at_offset]
        entry = self.entries[key][self.cursor[key]]
        assert (key in self.paused, entry.offset) == (False, whole.kafka_offset)
        self.cursor[key] = self.entries[key].index(at_offset[-1]) + 1
        self.moved[key] = self.cursor[key]

    def is_next(self, key: tuple[str, int], value: Any) -> bool:
        entries = self.entries[key][self.cursor[key] :]
        if not entries or key in self.paused:
            return False
        return entries[0].value == value or type(entries[0].value) is value

    @rule(key=KEYS, data=st.data())
    def seek(self, key: tuple[str, int], data: st.DataObject) -> None:
        entries = self.entries[key]
        index = data.draw(st.integers(0, len(entries)))
        to = entries[index].at if index < len(entries) else entries[-1].at + 1
        if index < len(entries) and entries[index].at == entries[index].first:
            to -= data.draw(st.integers(0, 10))  # before the first row, inside the offset
        self.reader.seek(key, to)
        self.cursor[key] = index
        self.unresolved.discard(key)

    @rule(key=KEYS)
    def pause(self, key: tuple[str, int]) -> None:
        self.reader.pause(key)
        self.paused.add(key)

    @rule(key=KEYS)
    def resume(self, key: tuple[str, int]) -> None:
        self.reader.resume(key)
        self.paused.discard(key)

    @rule()
    def commit(self) -> None:
        self.reader.commit()
        for key, to in self.moved.items():
            if to > self.known.get(key, -1):
                self.stored[key] = self.known[key] = to

    @rule(key=KEYS, data=st.data())
    def commit_a_position(self, key: tuple[str, int], data: st.DataObject) -> None:
        """If this reader has not opened the segment, its start is committed.

        Where a partition begins is asked with its first segment: what is committed before counts.
        """
        if key in self.reader.feed.starts.awaiting_lookup:
            return
        index = data.draw(st.integers(0, len(self.entries[key]) - 1))
        entry = self.entries[key][index]
        wanted = self.reader.offsets.committables([start(entry.at, key)])
        self.reader.broker.faults.clear()
        self.reader.broker.commit(wanted, asynchronous=False)
        self.reader.offsets.mark_committed(wanted)
        known = self.reader.offsets.segments.get(key, {})
        self.stored[key] = index if entry.offset in known else self.first_of(key, index)
        self.known[key] = self.stored[key]

    def first_of(self, key: tuple[str, int], index: int) -> int:
        offset = self.entries[key][index].offset
        return min(i for i, entry in enumerate(self.entries[key]) if entry.offset == offset)

    @rule(forget=st.booleans())
    def restart(self, *, forget: bool) -> None:
        """Another process takes over; somebody may have garbled the metadata."""
        self.paused: set[tuple[str, int]] = set()
        for key in (P0, P1) if forget else ():
            stored = self.kafka.committed("group", *key)
            if stored.offset >= 0:
                lost = TopicPartition(*key, stored.offset, "1:1:somebody-elses")
                self.kafka.commit("group", [lost])
                if self.stored[key] < len(self.entries[key]):
                    self.stored[key] = self.first_of(key, self.stored[key])
        self.reader = Reader(self.kafka)
        self.reassign()

    @rule()
    def rebalance(self) -> None:
        """The same process loses all partitions and gets them back."""
        self.reader.feed.revoke([P0, P1])
        self.reassign()

    def reassign(self) -> None:
        self.reader.begin(start(OFFSET_STORED, P0), start(OFFSET_STORED, P1))
        self.cursor = dict(self.stored)
        self.moved: dict[tuple[str, int], int] = {}
        self.known: dict[tuple[str, int], int] = {}
        self.unresolved = {P0, P1}

    @invariant()
    def what_is_held_is_bounded(self) -> None:
        parked = sum(map(len, self.reader.feed.buffer.parked.values()))
        assert len(self.reader.feed.buffer.buffered) + parked <= 12


Reading.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40)
TestReading = Reading.TestCase
