"""Any method of a consumer from any thread: each record comes once, and no poll is waited for."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import support
import tables
from confluent_kafka import TopicPartition
from inside import broker_of, feed_of

from columnar_kafka import position
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.consuming.feed.turn import Turn
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDS = 6000


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def kafka() -> FakeKafka:
    """Segments of 100 records, a plain message after each tenth."""
    fake = FakeKafka()
    fake.create_topic("t", 1)
    for start in range(0, RECORDS, 100):
        tables.put(fake, tables.numbers(start, 100))
        if not start % 1000:
            fake.append("t", 0, b"plain")
    return fake


EXPECTED = Counter({**dict.fromkeys(range(RECORDS), 1), b"plain": RECORDS // 1000})


def value_of(message: Any) -> Any:
    assert message.error() is None, message.error()
    value = message.value()
    return value["n"] if isinstance(value, dict) else value


def one_by_one(consumer: Any) -> list[Any]:
    message = consumer.poll(0.05)
    return [] if message is None else [value_of(message)]


def some(consumer: Any) -> list[Any]:
    return [value_of(message) for message in consumer.consume(7, 0.05)]


def table(consumer: Any) -> list[Any]:
    rows = consumer.consume_arrow(11, 0.05)
    if rows is None:
        return []
    return rows[rows.column_names[0]].to_pylist()


def run_all(*functions: Callable[[], None]) -> None:
    """Run functions in threads of their own; raise what one of them raised."""
    raised: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            raised.append(error)

    threads = [threading.Thread(target=run, args=[function], daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    for error in raised:
        raise error


def taken_by(consumer: Any, *ways: Callable[[Any], list[Any]]) -> Counter[Any]:
    """What threads take, each in its way, until they have it all."""
    lock, taken = threading.Lock(), Counter[Any]()

    def take(way: Callable[[Any], list[Any]]) -> None:
        while taken.total() < EXPECTED.total():
            values = way(consumer)
            with lock:
                taken.update(values)

    run_all(*[lambda way=way: take(way) for way in ways])
    return taken


@pytest.mark.parametrize(
    "ways",
    [[one_by_one] * 4, [some] * 4, [table] * 4, [one_by_one, some, table, one_by_one]],
    ids=["poll", "consume", "consume_arrow", "all"],
)
def test_threads_that_take_from_one_consumer_share_its_records(kafka: FakeKafka, ways: Any) -> None:
    consumer = tables.assigned_consumer(kafka)
    assert taken_by(consumer, *ways) == EXPECTED
    assert consumer.commit(asynchronous=False)[0].offset == position.start(66)
    consumer.close()


# --- while another thread waits -------------------------------------------------------------------

T0 = TopicPartition("t", 0)


def place(offset: int) -> TopicPartition:
    return TopicPartition("t", 0, position.start(offset))


CALLS: dict[str, Callable[[Any], Any]] = {
    "commit": lambda it: it.commit(offsets=[place(1)], asynchronous=False),
    "committed": lambda it: it.committed([T0]),
    "position": lambda it: it.position([T0]),
    "store_offsets": lambda it: it.store_offsets(offsets=[place(1)]),
    "assignment": lambda it: it.assignment(),
    "get_watermark_offsets": lambda it: it.get_watermark_offsets(T0),
    "offsets_for_times": lambda it: it.offsets_for_times([place(0)]),
    "consumer_group_metadata": lambda it: it.consumer_group_metadata(),
    "list_topics": lambda it: it.list_topics(timeout=1),
    "seek": lambda it: it.seek(place(0)),
    "pause": lambda it: it.pause([T0]),
    "resume": lambda it: it.resume([T0]),
    "incremental_unassign": lambda it: it.incremental_unassign([T0]),
    "incremental_assign": lambda it: it.incremental_assign([place(0)]),
    "unassign": lambda it: it.unassign(),
    "assign": lambda it: it.assign([place(0)]),
}


def test_a_thread_that_waits_for_ever_keeps_no_other_from_its_work() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    consumer = tables.assigned_consumer(kafka, **{"enable.auto.offset.store": False})
    done: list[Any] = []

    def wait() -> None:
        done.append(value_of(consumer.poll()))

    def call() -> None:
        for call in CALLS.values():
            call(consumer)
        assert done == []
        tables.put(kafka, tables.numbers(7, 1))

    run_all(wait, call)
    assert done == [7]


def test_several_threads_that_do_something_else_all_come_in_while_one_waits_for_ever() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    consumer = tables.assigned_consumer(kafka)
    left = [3]

    def wait() -> None:
        assert value_of(consumer.poll()) == 7

    def call() -> None:
        for _ in range(20):
            consumer.position([T0])
        left[0] -= 1
        if not left[0]:
            tables.put(kafka, tables.numbers(7, 1))

    run_all(wait, call, call, call)


def test_a_thread_that_waits_for_its_turn_sleeps_and_has_one_wakeup_however_often_it_asks() -> None:
    turn = Turn(threading.RLock(), time.monotonic)

    def ask() -> None:
        wakeups = [turn.run(lambda: None) for _ in range(3)]
        assert wakeups[0] is not None
        assert wakeups == [wakeups[0]] * 3
        assert wakeups[0].locked()

    turn.run(lambda: run_all(ask))


def test_a_thread_that_waits_for_its_turn_is_woken_by_its_end() -> None:
    turn = Turn(threading.RLock(), time.monotonic)
    wakeups: list[threading.Lock | None] = []
    turn.run(lambda: run_all(lambda: wakeups.append(turn.run(lambda: None))))
    [wakeup] = wakeups
    assert wakeup is not None
    assert not wakeup.locked()


def test_a_thread_that_is_interrupted_while_it_waits_to_be_first_holds_nobody_up() -> None:
    def interrupt() -> float:
        raise KeyboardInterrupt

    turn = Turn(threading.RLock(), clock=interrupt)
    wakeups: list[threading.Lock | None] = []

    def go_first() -> None:
        with pytest.raises(KeyboardInterrupt):
            turn.run_first(lambda: None)

    def have_the_turn() -> None:
        run_all(lambda: wakeups.append(turn.run(lambda: None)))
        run_all(go_first)
        [wakeup] = wakeups
        assert wakeup is not None
        assert not wakeup.locked()

    turn.run(have_the_turn)
    assert turn.run(lambda: None) is None


def test_threads_that_wait_for_ever_learn_that_another_has_closed_the_consumer() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    consumer = tables.assigned_consumer(kafka)

    def wait() -> None:
        with pytest.raises(RuntimeError, match="Consumer closed"):
            consumer.poll()

    def close() -> None:
        support.eventually(lambda: feed_of(consumer).turn.owner)
        consumer.close()

    run_all(wait, wait, wait, close)


class InPoll:
    """A consumer one thread of which is inside librdkafka's poll, with what that has fetched."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.consumer = tables.assigned_consumer(kafka)
        self.found: list[Any] = []
        self._entered, self._go = threading.Event(), threading.Event()
        self._poll = broker_of(self.consumer).poll
        broker_of(self.consumer).poll = self._held_up

    def _held_up(self, timeout: float) -> Any:
        fetched = self._poll(timeout)
        self._entered.set()
        assert self._go.wait(60)
        return fetched

    def _take(self) -> None:
        with suppress(RuntimeError):  # it is closed
            message = self.consumer.poll(0.05)
            self.found += [] if message is None else [value_of(message)]

    def run(self, function: Callable[[Any], Any]) -> list[Any]:
        """What that thread returns while another calls a function, and what comes then."""

        def call() -> None:
            assert self._entered.wait(60)
            function(self.consumer)

        def let_go() -> None:
            support.eventually(lambda: feed_of(self.consumer).turn.priority)
            self._go.set()

        run_all(self._take, call, let_go)
        with suppress(RuntimeError):
            self.found += map(value_of, self.consumer.consume(3, 0.05))
        return self.found


MOVES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "seek": (lambda it: it.seek(place(3)), [200, 201, 202, 203]),
    "assign": (lambda it: it.assign([place(3)]), [200, 201, 202, 203]),
    "pause": (lambda it: it.pause([T0]), []),
    "unassign": (lambda it: it.unassign(), []),
    "incremental_unassign": (lambda it: it.incremental_unassign([T0]), []),
    "close": (lambda it: it.close(), []),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_record_fetched_before_another_thread_moves_the_consumer_comes_first_or_not_at_all(
    kafka: FakeKafka, name: str
) -> None:
    move, then = MOVES[name]
    # On a busy machine the timeout of the thread that polls ends before it is let go.
    assert InPoll(kafka).run(move) in (then, then[:3], [0, *then[:3]])


def test_what_was_fetched_of_a_partition_that_another_thread_pauses_comes_when_it_is_resumed(
    kafka: FakeKafka,
) -> None:
    one = InPoll(kafka)
    taken = one.run(lambda it: it.pause([T0]))
    one.consumer.resume([T0])
    taken += map(value_of, one.consumer.consume(3, 0.05))
    assert taken[:3] == [0, 1, 2]


# --- while partitions go --------------------------------------------------------------------------


class TakenInCommits:
    """What another thread can take of a consumer while that commits."""

    def __init__(self, consumer: Any) -> None:
        self.found: list[Any] = []
        self._consumer = consumer
        self._commit = broker_of(consumer).commit
        broker_of(consumer).commit = self._take

    def _take(self, offsets: Any, *, asynchronous: bool) -> Any:
        run_all(lambda: self.found.extend(map(value_of, self._consumer.consume(1, 0.0))))
        return self._commit(offsets, asynchronous=asynchronous)


def test_nothing_is_handed_out_of_a_partition_while_a_close_commits_it(kafka: FakeKafka) -> None:
    consumer = tables.assigned_consumer(kafka)
    consumer.consume(2)
    taken = TakenInCommits(consumer)
    consumer.close()
    assert taken.found == []


LEAVES: dict[str, Callable[[Any], Any]] = {
    "assign": lambda it: it.assign([T0]),
    "unassign": lambda it: it.unassign(),
    "incremental_unassign": lambda it: it.incremental_unassign([T0]),
}


@pytest.mark.parametrize("name", LEAVES)
def test_nothing_is_handed_out_of_a_partition_between_its_commit_and_its_end(
    kafka: FakeKafka, name: str
) -> None:
    consumer = tables.assigned_consumer(kafka)
    consumer.consume(2)
    taken = TakenInCommits(consumer)
    LEAVES[name](consumer)
    assert taken.found == []
    consumer.close()


def test_what_an_assign_that_is_refused_was_to_end_goes_on(kafka: FakeKafka) -> None:
    consumer = tables.assigned_consumer(kafka)
    consumer.consume(2)
    with pytest.raises(TypeError):
        consumer.assign(["t"])
    assert list(map(value_of, consumer.consume(2))) == [2, 3]
    consumer.close()


@pytest.mark.parametrize("commits", [True, False], ids=["auto-commit", "in on_revoke"])
def test_nothing_is_handed_out_of_a_partition_while_it_is_committed_before_it_goes(
    kafka: FakeKafka, *, commits: bool
) -> None:
    consumer = kafka.Consumer({**tables.CONFIG, "enable.auto.commit": commits})

    def on_revoke(consumer: Any, partitions: Any) -> None:
        assert consumer.position(partitions)[0].offset == position.pack(0, 2, 100)
        if not commits:
            consumer.commit(asynchronous=False)

    consumer.subscribe(["t"], on_revoke=on_revoke)
    assert list(map(value_of, consumer.consume(2, 20))) == [0, 1]
    taken = TakenInCommits(consumer)
    consumer.unsubscribe()
    consumer.poll(0)
    assert taken.found == []
    assert consumer.committed([T0])[0].offset == position.pack(0, 2, 100)
    consumer.close()


def test_threads_that_ask_for_different_columns_each_get_their_own(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last projection is kept, and another thread's may take its place in any call."""
    consumer = tables.assigned_consumer(kafka)
    consumer.consume_arrow(1, 1, ["n"])
    is_like = Projection.is_like

    def meanwhile(mine: Projection, other: Projection) -> bool:
        monkeypatch.setattr(Projection, "is_like", is_like)
        consumer.consume_arrow(1, 1, ["_kafka.offset"])
        return is_like(mine, other)

    monkeypatch.setattr(Projection, "is_like", meanwhile)
    assert consumer.consume_arrow(1, 1, ["n"]).column_names == ["n"]
