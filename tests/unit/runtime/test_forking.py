"""`os.fork` where signal handlers run in the middle of it: in the hooks before and after.

What a handler raises there does not reach the caller of `os.fork`, and the fork goes on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from inside import pipeline_of
from interrupting import Interrupted, Interrupter
from pipeline import Pipeline
from support import eventually

from columnar_kafka import ForkError, Producer
from columnar_kafka.producing import shutdown
from columnar_kafka.producing.sending import sender
from columnar_kafka.runtime import lifecycle

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
    kinds: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: kinds.append(unraisable.exc_type))
    return kinds


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
        assert [*lifecycle.FORKING, *lifecycle.PAST] == []
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


HOOKED = """
import os
from columnar_kafka import Producer
from columnar_kafka.runtime import lifecycle
from concurrent.futures.thread import _global_shutdown_lock as lock
class Client:
    def wait_for_step(self):
        held.append(lock.locked())
    abandon = wait_for_step
held, client = [], Client()
lifecycle.started(client, client)
if not (child := os.fork()):
    os._exit(any(held))
_, status = os.waitpid(child, 0)
print(held, os.waitstatus_to_exitcode(status), flush=True)
os._exit(0)
"""


def run(program: str) -> tuple[str, str]:
    """Run a program that may hang; return what it has written."""
    done = subprocess.run(
        [sys.executable, "-Wignore:This process", "-c", program],
        check=False,
        capture_output=True,
        timeout=120,
        text=True,
    )
    return done.stdout, done.stderr


def test_no_client_waits_or_is_abandoned_with_a_lock_of_the_standard_library() -> None:
    """Or a signal handler that runs meanwhile could not fork: it would wait for itself."""
    assert run(HOOKED) == ("[False, False] 0\n", "")


def test_a_handler_may_fork(producer: Producer) -> None:
    def again() -> None:
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
        thread = threading.Thread(target=fork, args=(producer,))
        thread.start()
        thread.join()

    fork_at_every_place(producer, elsewhere)


@contextmanager
def forking(*, past: bool) -> Iterator[None]:
    """Stand for a fork that waits for the clients, or is past that, in hooks of others."""
    lists = [lifecycle.FORKING, lifecycle.PAST] if past else [lifecycle.FORKING]
    for threads in lists:
        threads.append(threading.get_ident())
    try:
        yield
    finally:
        for threads in lists:
            threads.remove(threading.get_ident())


def test_a_sender_that_waits_for_a_fork_can_be_stopped() -> None:
    pipeline = Pipeline()
    with forking(past=False):
        pipeline.sender.start()
        pipeline.sender.stop()
    assert not pipeline.sender.thread.is_alive()


def segments_sent(pipeline: Pipeline, now: float) -> int:
    """Run a step if the sender begins one at this time; return how many segments there are."""
    pipeline.now = now
    pipeline.sender.stopping = True  # or it would wait
    pipeline.sender.run_once(now)
    return len(pipeline.segments())


def test_the_senders_thread_begins_no_step_while_a_fork_waits_for_clients() -> None:
    pipeline = Pipeline(segment_rows=1)
    pipeline.numbers(0)
    with forking(past=False):
        assert [segments_sent(pipeline, now) for now in (0.0, 100.0)] == [0, 0]
    assert segments_sent(pipeline, 100.0) == 1


def test_the_senders_thread_waits_a_second_for_a_fork_that_waits_for_no_client_any_more() -> None:
    pipeline = Pipeline(segment_rows=1)
    pipeline.numbers(0)
    with forking(past=True):
        assert [segments_sent(pipeline, now) for now in (0.0, 0.9, 1.0)] == [0, 0, 1]
        pipeline.numbers(1)
        assert segments_sent(pipeline, 1.1) == 2
        pipeline.numbers(2)
        with forking(past=True):
            assert segments_sent(pipeline, 1.2) == 2
    with forking(past=True):  # the same thread's next one
        assert [segments_sent(pipeline, now) for now in (1.5, 2.25, 2.5)] == [2, 2, 3]


LOCKED = """
import os, threading
lock = threading.Lock()
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
from columnar_kafka.testing import FakeKafka
forks = threading.Event()
os.register_at_fork(before=forks.set)
producer = FakeKafka().Producer({"columnar.encoding": "parquet"})
producer.set_schema("t", {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]})
held, left = threading.Event(), []
def flush():
    with lock:
        held.set()
        forks.wait()
        producer.produce("t", {"n": 1})
        left.append(producer.flush(30))
thread = threading.Thread(target=flush)
thread.start()
held.wait()
if not (child := os.fork()):
    os._exit(0)
os.waitpid(child, 0)
thread.join()
print(left)
"""


def test_a_flush_ends_whose_thread_has_a_lock_that_a_fork_waits_for() -> None:
    """Python's logging has such a hook, and so have libraries."""
    assert run(LOCKED) == ("[0]\n", "")


@pytest.mark.parametrize("held", ["queue", "delivery"])
def test_a_fork_waits_a_second_for_a_step_that_may_wait_for_the_forking_thread(held: str) -> None:
    """A handler forks that has interrupted `produce` or `poll`, which has the lock."""
    pipeline = Pipeline()
    lock = {"queue": pipeline.queue.lock, "delivery": pipeline.delivery.lock}[held]
    times = iter([5.0, 5.9, 6.0])
    pipeline.sender.clock = lambda: next(times)
    with pipeline.sender.step, lock:
        pipeline.sender.wait_for_step()
    with suppress(StopIteration):
        raise AssertionError(next(times))


def test_a_fork_waits_five_seconds_for_a_step_that_gets_no_further() -> None:
    """It may wait for a lock of the user's that the forking thread has, or of an import."""
    pipeline = Pipeline()
    times = iter([0.0, 4.0, 8.0, 9.0, 10.0, 20.0, 24.0, 25.0])

    def clock() -> float:
        now = next(times)
        if now == 4.0:
            pipeline.sender.segmenter.done += 1
        return now

    pipeline.sender.clock = clock
    with pipeline.sender.step:
        pipeline.sender.wait_for_step()
        assert next(times) == 10.0
        pipeline.sender.stuck_at = None
        pipeline.sender.wait_for_step()
    with suppress(StopIteration):
        raise AssertionError(next(times))


def test_no_fork_waits_again_for_a_step_that_has_got_no_further() -> None:
    pipeline = Pipeline()
    times = iter([0.0, 5.0, 10.0, 20.0, 25.0])
    pipeline.sender.clock = lambda: next(times)
    with pipeline.sender.step:
        pipeline.sender.wait_for_step()
        pipeline.sender.wait_for_step()
        pipeline.sender.steps += 1
        pipeline.sender.wait_for_step()
    with suppress(StopIteration):
        raise AssertionError(next(times))


def test_a_fork_in_the_middle_of_a_step_leaves_parent_and_child_usable(
    producer: Producer,
    embedded,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lifecycle, "GRACE", 0.0)
    step = pipeline_of(producer).sender.step
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with step:
            held.set()
            forked.wait(60)  # or else the fork would wait for ever

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    producer.produce("forking", {"n": 1})

    child = os.fork()
    if not child:
        try:
            with suppress(ForkError):
                producer.flush()
                os._exit(USABLE)
            settings = {"bootstrap.servers": embedded.bootstrap_servers}
            own = Producer(settings | {"columnar.encoding": "parquet", "log_level": 0})
            own.set_schema("forking", pa.schema([("n", pa.int64())]))
            own.produce("forking", {"n": 2})
            os._exit(ABANDONED if own.flush(60) == 0 else NOT_REACHED)
        finally:
            os._exit(USABLE)
    forked.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ABANDONED
    assert producer.flush(60) == 0
    [told] = eventually(lambda: caplog.messages)  # after the step
    assert told.startswith("a fork did not wait for columnar-kafka's sender, which got no further")


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
