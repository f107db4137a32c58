"""`poll`, `flush`, `len`, the queue's bound, `purge`, and several threads."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError
from inside import pipeline_of
from producers import HELD, UNREACHABLE
from support import eventually

QUEUE_FULL = "^Local: Queue full"


def fill(make: Any, producer: Any, count: int, **given: Any) -> None:
    for n in range(count):
        producer.produce("t", make.value(b"%d" % n), **given)


# --- poll ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((0,), {}), ((0.0,), {}), ((False,), {}), ((0.01,), {}), ((), {"timeout": 0})],
    ids=str,
)
def test_poll_takes_seconds(make_producer, arguments: Any, keywords: Any) -> None:
    assert make_producer().poll(*arguments, **keywords) == 0


@pytest.mark.parametrize("timeout", [20, -1, None])
def test_poll_waits_for_an_event_and_counts_it(make_producer, timeout: float | None) -> None:
    producer = make_producer()
    fill(make_producer, producer, 1, on_delivery=lambda *_: None)
    assert producer.poll(*([] if timeout is None else [timeout])) == 1
    assert producer.poll(0) == 0


def test_polls_serve_every_report(make_producer) -> None:
    """How many reports are one event is librdkafka's choice."""
    seen: list[Any] = []
    producer = make_producer()
    fill(make_producer, producer, 20, on_delivery=lambda e, _: seen.append(e))
    while len(seen) < 20:
        assert producer.poll(20) > 0
    assert (seen, producer.poll(0), len(producer)) == ([None] * 20, 0, 0)


def test_a_message_without_a_callback_is_an_event_too(make_producer) -> None:
    producer = make_producer()
    fill(make_producer, producer, 1)
    assert producer.poll(20) == 1
    assert len(producer) == 0


def test_poll_sends_nothing_early(make_producer) -> None:
    producer = make_producer(**HELD)
    fill(make_producer, producer, 1)
    assert producer.poll(0.05) == 0
    assert len(producer) == 1


@pytest.mark.parametrize("method", ["poll", "flush"])
@pytest.mark.parametrize("timeout", [None, "x", []], ids=repr)
def test_a_timeout_is_a_number(make_producer, method: str, timeout: Any) -> None:
    with pytest.raises(TypeError, match=f"^must be real number, not {type(timeout).__name__}$"):
        getattr(make_producer(), method)(timeout)


@pytest.mark.parametrize("method", ["poll", "flush"])
@pytest.mark.parametrize(("arguments", "keywords"), [((0, 1), {}), ((), {"x": 1})], ids=str)
def test_a_timeout_is_the_only_argument(
    make_producer, method: str, arguments: Any, keywords: Any
) -> None:
    with pytest.raises(TypeError):
        getattr(make_producer(), method)(*arguments, **keywords)


@pytest.mark.parametrize("method", ["poll", "flush"])
def test_a_timeout_beyond_all_numbers_overflows(make_producer, method: str) -> None:
    with pytest.raises(OverflowError, match="int too large to convert to float"):
        getattr(make_producer(), method)(10**400)


# --- flush --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((), {}), ((20,), {}), ((-1,), {}), ((-5,), {}), ((1e9,), {}), ((), {"timeout": 20})],
    ids=str,
)
def test_flush_waits_until_nothing_is_left(make_producer, arguments: Any, keywords: Any) -> None:
    seen: list[Any] = []
    producer = make_producer()
    fill(make_producer, producer, 10, on_delivery=lambda e, _: seen.append(e))
    assert producer.flush(*arguments, **keywords) == 0
    assert (seen, len(producer)) == ([None] * 10, 0)


def test_flush_sends_what_lingers(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**HELD)
    fill(make_producer, producer, 2, on_delivery=lambda e, _: seen.append(e))
    assert producer.flush(20) == 0
    assert seen == [None, None]


@pytest.mark.parametrize("timeout", [0, 0.01, 0.1])
def test_flush_returns_how_many_are_left(make_producer, timeout: float) -> None:
    producer = make_producer(**UNREACHABLE)
    fill(make_producer, producer, 3)
    assert producer.flush(timeout) >= 3  # the client's own events count, too
    assert len(producer) >= 3


def test_flush_with_nothing_to_do_returns_at_once(make_producer) -> None:
    assert make_producer(**UNREACHABLE).flush() == 0


def test_flush_may_be_repeated(make_producer) -> None:
    producer = make_producer()
    for _ in range(3):
        fill(make_producer, producer, 2)
        assert producer.flush(20) == 0
        assert producer.flush(20) == 0


# --- len and the queue's bound ------------------------------------------------------------------


def test_the_length_counts_what_is_not_reported(make_producer) -> None:
    producer = make_producer()
    lengths = []
    for n in range(3):
        producer.produce("t", make_producer.value(b"%d" % n))
        lengths.append(len(producer))
    producer.flush(20)
    assert (lengths, len(producer)) == ([1, 2, 3], 0)


def test_a_producer_with_messages_is_true(make_producer) -> None:
    producer = make_producer(**HELD)
    fill(make_producer, producer, 1)
    assert bool(producer) is True


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_full_queue_is_a_buffer_error(make_producer, most: int) -> None:
    producer = make_producer(**HELD, **{"queue.buffering.max.messages": most})
    fill(make_producer, producer, most)
    with pytest.raises(BufferError, match=QUEUE_FULL):
        producer.produce("t", make_producer.value(b"x"))
    assert len(producer) == most


def test_what_met_a_full_queue_is_never_reported(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**HELD, **{"queue.buffering.max.messages": 2})
    fill(
        make_producer,
        producer,
        2,
        on_delivery=lambda _, m: seen.append(make_producer.read(m.value())),
    )
    with pytest.raises(BufferError):
        producer.produce("t", make_producer.value(b"x"), on_delivery=lambda *_: seen.append("x"))
    producer.flush(20)
    assert sorted(seen) == [b"0", b"1"]


@pytest.mark.parametrize("method", ["poll", "flush"])
def test_a_full_queue_empties(make_producer, method: str) -> None:
    producer = make_producer(**{"queue.buffering.max.messages": 2})
    fill(make_producer, producer, 2)
    with pytest.raises(BufferError):
        producer.produce("t", make_producer.value(b"x"))
    eventually(lambda: (getattr(producer, method)(0.1), len(producer))[1] == 0)
    fill(make_producer, producer, 2)
    assert producer.flush(20) == 0


def test_a_loop_over_a_full_queue_sends_all(make_producer) -> None:
    """The idiom of confluent's examples: on BufferError poll, and try again."""
    seen: list[bytes] = []
    producer = make_producer(**{"queue.buffering.max.messages": 10})
    for n in range(100):
        while True:
            try:
                producer.produce(
                    "t",
                    make_producer.value(b"%d" % n),
                    partition=0,
                    on_delivery=lambda _, m: seen.append(make_producer.read(m.value())),
                )
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    assert producer.flush(20) == 0
    assert seen == [b"%d" % n for n in range(100)]


def test_the_queue_is_bounded_in_kbytes(make_producer, noise) -> None:
    producer = make_producer(**HELD, **{"queue.buffering.max.kbytes": 100})

    def fill() -> None:
        producer.produce("t", make_producer.value(noise(60_000)), partition=0)

    fill()
    with pytest.raises(BufferError, match=QUEUE_FULL):
        fill()
    assert len(producer) == 1


# --- purge --------------------------------------------------------------------------------------


def purge(make: Any, *arguments: Any, **keywords: Any) -> list[int]:
    """Purge two messages that are queued; return the codes of the reports there are."""
    seen: list[int] = []
    producer = make(**HELD)
    fill(make, producer, 2, on_delivery=lambda e, _: seen.append(e.code()))
    assert producer.purge(*arguments, **keywords) is None
    while len(producer) and producer.poll(0.2):
        pass
    assert len(producer) == 2 - len(seen)
    return seen


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((), {}),
        ((True,), {}),
        ((True, False), {}),
        ((1, 0, 1), {}),
        ((), {"in_queue": True, "in_flight": False}),
        ((), {"in_flight": False}),
        ((), {"in_queue": True, "in_flight": True, "blocking": True}),
        (("yes",), {}),
    ],
    ids=str,
)
def test_what_is_queued_can_be_purged(make_producer, arguments: Any, keywords: Any) -> None:
    assert purge(make_producer, *arguments, **keywords) == [KafkaError._PURGE_QUEUE] * 2


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((False,), {}), ((False, True), {}), ((None,), {}), ((), {"in_queue": False}), ((0, 0), {})],
    ids=str,
)
def test_what_is_queued_can_be_spared(make_producer, arguments: Any, keywords: Any) -> None:
    assert purge(make_producer, *arguments, **keywords) == []


def test_purge_need_not_wait(make_producer) -> None:
    seen: list[int] = []
    producer = make_producer(**HELD)
    fill(make_producer, producer, 2, on_delivery=lambda e, _: seen.append(e.code()))
    producer.purge(blocking=False)
    eventually(lambda: (producer.poll(0.1), len(seen))[1] == 2)
    assert seen == [KafkaError._PURGE_QUEUE] * 2


def test_what_is_in_flight_can_be_purged(make_producer, frozen) -> None:
    seen: list[int] = []
    producer = make_producer()
    fill(make_producer, producer, 1)
    producer.flush(20)  # connected
    with frozen():
        producer.produce(
            "t", make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e.code())
        )

        def in_flight() -> bool:
            producer.purge(in_queue=False)
            producer.poll(0.05)
            return bool(seen)

        eventually(in_flight)
    assert seen == [KafkaError._PURGE_INFLIGHT]


def test_what_was_spared_is_sent(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**HELD)
    fill(make_producer, producer, 2, on_delivery=lambda e, _: seen.append(e))
    producer.purge(in_queue=False)
    assert producer.flush(20) == 0
    assert seen == [None, None]


@pytest.mark.parametrize("interrupts", [False, True], ids=["callback", "signal handler"])
def test_what_is_queued_can_be_purged_inside_of_poll(make_producer, *, interrupts: bool) -> None:
    """Some records are in librdkafka's queue, some in our own."""
    seen: list[int | None] = []
    inside: list[None] = []

    def report(error: KafkaError | None, _: Any) -> None:
        seen.append(None if error is None else error.code())

    def purge(*_: Any) -> None:
        if not inside:
            inside.append(producer.purge())

    own = {"columnar.segment.rows": 3} if make_producer.of.encoding else {}
    callback = {} if interrupts else {"stats_cb": purge, "statistics.interval.ms": 200}
    producer = make_producer(**HELD, **own, **callback)
    fill(make_producer, producer, 5, on_delivery=report)
    if make_producer.of.schema:
        eventually(lambda: pipeline_of(producer).delivery.in_librdkafka)
    before = signal.signal(signal.SIGUSR1, purge)
    try:
        while not inside:
            if interrupts:
                threading.Timer(0.05, signal.raise_signal, [signal.SIGUSR1]).start()
            producer.poll(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    eventually(lambda: (producer.poll(0.1), len(seen))[1] >= 5)
    assert producer.flush(20) == 0
    assert seen == [KafkaError._PURGE_QUEUE] * 5


def test_after_a_purge_the_producer_goes_on(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**HELD)
    fill(make_producer, producer, 2)
    producer.purge()
    assert producer.flush(20) == 0
    fill(make_producer, producer, 2, on_delivery=lambda e, _: seen.append(e))
    assert producer.flush(20) == 0
    assert seen == [None, None]


def test_purge_with_nothing_to_do(make_producer) -> None:
    producer = make_producer()
    assert producer.purge() is None
    assert (producer.poll(0), len(producer)) == (0, 0)


def test_what_waits_for_a_broker_can_be_purged(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**UNREACHABLE)
    fill(
        make_producer, producer, 2, on_delivery=lambda e, m: seen.append((e.code(), m.partition()))
    )
    producer.purge()
    eventually(lambda: (producer.poll(0.1), len(seen))[1] == 2)
    assert seen == [(KafkaError._PURGE_QUEUE, None)] * 2


@pytest.mark.parametrize(("arguments", "keywords"), [((1, 1, 1, 1), {}), ((), {"x": 1})], ids=str)
def test_purge_has_three_arguments(make_producer, arguments: Any, keywords: Any) -> None:
    with pytest.raises(TypeError):
        make_producer().purge(*arguments, **keywords)


# --- threads ------------------------------------------------------------------------------------


def test_several_threads_produce(make_producer) -> None:
    seen: list[bytes] = []
    producer = make_producer()

    def work(worker: int) -> None:
        for n in range(50):
            producer.produce(
                "t",
                make_producer.value(b"%d-%d" % (worker, n)),
                on_delivery=lambda _, m: seen.append(make_producer.read(m.value())),
            )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert producer.flush(20) == 0
    assert sorted(seen) == sorted(b"%d-%d" % (w, n) for w in range(4) for n in range(50))


def test_a_thread_of_its_own_may_poll(make_producer) -> None:
    """The idiom of confluent's examples: one thread polls, others produce."""
    seen: list[int] = []
    done = threading.Event()
    producer = make_producer()

    def serve() -> None:
        while not done.is_set():
            producer.poll(0.05)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        fill(
            make_producer, producer, 100, on_delivery=lambda *_: seen.append(threading.get_ident())
        )
        eventually(lambda: len(seen) == 100)
    finally:
        done.set()
        thread.join()
    assert set(seen) == {thread.ident}


def test_several_threads_flush(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer()
    fill(make_producer, producer, 50, on_delivery=lambda e, _: seen.append(e))
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(producer.flush, [20] * 3)) == [0, 0, 0]
    assert seen == [None] * 50
