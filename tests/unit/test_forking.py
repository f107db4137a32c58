"""`os.fork` where signal handlers run in the middle of it: in the hooks before and after.

What a handler raises there does not reach the caller of `os.fork`, and the fork goes on.
"""

from __future__ import annotations

import concurrent.futures.thread
import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from interrupting import Interrupted, Interrupter
from pipeline import Pipeline

from columnar_kafka import ForkError, Producer, lifecycle
from columnar_kafka.producing import sender, shutdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

ABANDONED, NOT_REACHED, USABLE = range(3)
"""How a child ends: its copy is abandoned, or so it is but no place was reached; or it is not."""


class Places(Interrupter):
    """Has something happen at one place of a fork's hooks, in the parent or in the child."""

    def __init__(self, place: int, happens: Callable[[], Any]) -> None:
        super().__init__(lifecycle, shutdown, sender, places=set())
        self._place, self._happens = place, happens

    @property
    def reached(self) -> bool:
        return self.count > self._place

    def _look(self) -> None:
        self.count += 1
        if self.count - 1 == self._place:
            self._happens()


def interrupt() -> None:
    raise Interrupted


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """What hooks have raised."""
    found: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: found.append(each.exc_type))
    return found


@pytest.fixture
def producer(embedded) -> Iterator[Producer]:
    settings = {"bootstrap.servers": embedded.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(settings, log_level=0) as made:
        made.set_schema("forking", pa.schema([("n", pa.int64())]))
        yield made


def fork(producer: Producer, places: Places | None = None) -> int:
    """Fork; return how the child has ended, which tries to use its copy of the producer."""
    child = os.fork() if places is None else places.run(os.fork)
    if not child:
        sys.settrace(None)
        try:
            len(producer)
        except ForkError:
            os._exit(ABANDONED if places is None or places.reached else NOT_REACHED)
        finally:
            os._exit(USABLE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork_at_every_place(producer: Producer, happens: Callable[[], Any]) -> int:
    """Fork, with something happening at each place in turn; return how many there are."""
    for place in range(200):
        places = Places(place, happens)
        producer.produce("forking", {"n": place})
        ended = fork(producer, places)
        assert not lifecycle.is_forking()
        assert producer.flush(60) == 0
        if ended == NOT_REACHED:
            return place
        assert ended == ABANDONED
    raise AssertionError("there are not so many places")


def test_what_a_handler_raises_leaves_no_client_waiting_and_the_childs_abandoned(
    producer: Producer, raised: list[type]
) -> None:
    places = fork_at_every_place(producer, interrupt)
    assert places > 5
    assert set(raised) == {Interrupted}


@contextmanager
def concurrent_futures_unlocked() -> Iterator[None]:
    """Be able to fork in a fork's hooks: Python's own wait for themselves there, for this lock."""
    lock = concurrent.futures.thread._global_shutdown_lock  # type: ignore[attr-defined]
    if is_held := lock.locked():
        lock.release()
    yield
    if is_held:
        lock.acquire()


def test_a_handler_may_fork(producer: Producer) -> None:
    def again() -> None:
        with concurrent_futures_unlocked():
            assert fork(producer) == ABANDONED

    fork_at_every_place(producer, again)


def test_a_handler_that_flushes_polls_or_purges_does_not_wait(producer: Producer) -> None:
    def use() -> None:
        with suppress(ForkError):  # in the child
            producer.flush()
            producer.poll()
            producer.purge()

    fork_at_every_place(producer, use)


def test_another_threads_fork_does_not_keep_a_thread_from_its_own(producer: Producer) -> None:
    """Nor does the child wait for what the other thread began."""

    def elsewhere() -> None:
        with concurrent_futures_unlocked():
            thread = threading.Thread(target=fork, args=(producer,))
            thread.start()
            thread.join()

    fork_at_every_place(producer, elsewhere)


def test_a_sender_that_waits_for_a_fork_can_be_stopped() -> None:
    pipeline = Pipeline()
    lifecycle._forking.append(threading.get_ident())
    try:
        pipeline.sender.start()
        pipeline.sender.stop()
    finally:
        lifecycle._forking.remove(threading.get_ident())
    assert not pipeline.sender._thread.is_alive()


def test_the_senders_thread_begins_no_step_in_a_fork() -> None:
    pipeline = Pipeline(segment_rows=1)
    pipeline.numbers(0)
    lifecycle._forking.append(threading.get_ident())
    try:
        pipeline.sender._stopping = True  # or it would wait
        assert pipeline.sender.run_once(pipeline.now) == 0.0
        assert pipeline.segments() == []
    finally:
        lifecycle._forking.remove(threading.get_ident())
        pipeline.sender._stopping = False
    pipeline.run()
    assert len(pipeline.segments()) == 1


@pytest.mark.parametrize("held", ["queue", "delivery"])
def test_a_fork_waits_a_second_for_a_step_that_may_wait_for_the_forking_thread(held: str) -> None:
    """A handler forks that has interrupted `produce` or `poll`, which has the lock."""
    pipeline = Pipeline()
    lock = {"queue": pipeline.queue.lock, "delivery": pipeline.delivery._lock}[held]
    times = iter([5.0, 5.9, 6.0])
    pipeline.sender._clock = lambda: next(times)
    with pipeline.sender.step, lock:
        pipeline.sender.wait_for_step()
    with suppress(StopIteration):
        raise AssertionError(next(times))


def test_the_senders_own_thread_does_not_wait_for_its_step() -> None:
    """A finalizer that forks runs in whichever thread collects garbage."""
    pipeline, waited = Pipeline(segment_rows=1), list[bool]()
    drain = pipeline.accumulator.drain

    def finalize(now: float) -> Any:
        pipeline.accumulator.drain = drain  # type: ignore[method-assign]
        pipeline.sender.wait_for_step()
        waited.append(pipeline.sender.working)
        return drain(now)

    pipeline.accumulator.drain = finalize  # type: ignore[method-assign]
    pipeline.sender.start()
    try:
        pipeline.numbers(0)
        pipeline.sender.purge()
    finally:
        pipeline.sender.stop()
    assert waited == [True]
