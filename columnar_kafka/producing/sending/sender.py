"""The sender's thread: it batches, seals, encodes and sends what is accepted.

All of that happens here, with no lock held, where no signal handler can interrupt it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.producing.sending.dispatcher import Dispatcher
from columnar_kafka.producing.sending.segmenter import Segmenter
from columnar_kafka.runtime import lifecycle
from columnar_kafka.runtime.locks import is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.producing.accepting.item import Item
    from columnar_kafka.producing.accepting.record_queue import RecordQueue
    from columnar_kafka.producing.inferring import Answer, Inferring
    from columnar_kafka.producing.reporting.delivery import Delivery
    from columnar_kafka.producing.sending.accumulator import Accumulator, Work

__all__ = ["Sender"]

_log = logging.getLogger(__name__)

_FAILURE_WAIT: Final = 0.02
"""Seconds until a step that failed is tried again; twice as many after each further failure."""
_LONGEST_FAILURE_WAIT: Final = 1.0
_LOOKUP_TIMEOUT: Final = 1.0
_PROGRESS_WAIT: Final = 0.01
_FORK_WAIT: Final = 0.0005


class Signal:
    """Wakes a thread that waits for it; of several, one.

    A signal handler may set it, also one that has interrupted its use, and may raise: no other
    exception comes of that, as it does from Event and Condition. Every wait ends in time, which
    SimpleQueue's `get` does not: when another thread is faster, it may wait for ever.
    """

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()

    def set(self) -> None:
        """End a wait, or the next one. Never blocks."""
        if self._unset.locked():
            try:  # noqa: SIM105 - suppress() takes longer than the rest
                self._unset.release()
            except RuntimeError:
                pass  # another thread was faster

    def wait(self, timeout: float) -> None:
        """Wait until it is set, at most `timeout` seconds; it is unset then."""
        self._unset.acquire(timeout=timeout)


class Sender:
    """Moves records from the queue to librdkafka. One thread runs it; any may `wake` it."""

    def __init__(
        self,
        *,
        queue: RecordQueue,
        accumulator: Accumulator,
        broker: ProducerBroker,
        delivery: Delivery,
        message_timeout: float,
        inferring: Inferring | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Send the records of `queue` to `broker`; `message_timeout` is in seconds."""
        self.wakeup = Signal()
        self._progress = Signal()
        self.stopped = Signal()
        self._queue = queue
        queue.wake = self.wakeup.set
        self.accumulator = accumulator
        self._delivery = delivery
        self._lines = accumulator.lines
        self._inferring = inferring
        self._answers: dict[str, Answer] = {}  # by topic
        self.segmenter = Segmenter(
            delivery=delivery, queue=queue, tell=self._lines.append, inferring=inferring
        )
        self.dispatcher = Dispatcher(
            broker=broker,
            accumulator=accumulator,
            segmenter=self.segmenter,
            delivery=delivery,
            queue=queue,
            message_timeout=message_timeout,
            wall_ms=wall_ms,
        )
        self.clock = clock
        self.step = threading.Lock()
        """Held while the thread converts, encodes and sends: not a moment to fork in.

        Only the thread takes it, so that nothing that interrupts another can leave it held.
        """
        self._gate = lifecycle.ForkGate()
        self.steps = 0
        self.stuck_at: int | None = None  # the progress at which a fork has waited in vain
        self._flushing = False
        self.stopping = False
        self.purges: list[object] = []  # each call's own; the thread removes them
        # What was taken over, until it is dealt with: a step that fails loses nothing of it.
        self._taken: deque[Item] = deque()
        self._filled: deque[tuple[str, int]] = deque()
        self._sealed: deque[Item] = deque()
        self._given_up: deque[tuple[Item, KafkaError]] = deque()
        self.thread = threading.Thread(target=self.run, name="columnar-kafka-sender", daemon=True)

    def __repr__(self) -> str:
        sealed, encoded = self.dispatcher.waiting()
        return f"<Sender {sealed} sealed, {encoded} encoded>"

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def use(self, broker: ProducerBroker) -> None:
        """Send with another broker from now on."""
        self.dispatcher.broker = broker

    def wake(self) -> None:
        """Make the thread look for work soon. Never blocks."""
        self.wakeup.set()

    def collect(self) -> int:
        """Handle the acknowledgements that librdkafka has delivered; return how many there were.

        None are handled where the caller must not wait for a lock.
        """
        if not self.may_wait:
            return 0
        count = self._delivery.collect()
        if count and (self.dispatcher.has_work or self._queue.usage.is_half_used):
            self.wake()  # there is room again
        return count

    @property
    def working(self) -> bool:
        """Whether the thread converts, encodes or sends at this moment. For any thread."""
        return self.step.locked()

    def seal(self) -> None:
        """Make the thread send all that is accepted, however little. Never blocks."""
        self._flushing = True
        self.wake()

    def stop(self) -> None:
        """End the thread after its current step; what is not sent yet stays unsent."""
        self.stopping = True
        self.stopped.set()
        self.wake()
        if self.thread.is_alive() and self.thread is not threading.current_thread():
            self.thread.join()

    @property
    def may_wait(self) -> bool:
        """Whether the caller may wait for another thread, which does not wait for the caller.

        It may not if it is a signal handler or a finalizer, and has interrupted what has a lock, a
        fork, or the sender's thread itself.
        """
        return not (
            self._holds_lock or threading.get_ident() == self.thread.ident or lifecycle.forks_here()
        )

    @property
    def _holds_lock(self) -> bool:
        return self._delivery.locked or is_held(self._queue.lock)

    @property
    def interrupted(self) -> bool:
        """Whether the caller must not call librdkafka's poll: it is inside it, or may not wait."""
        return self._delivery.serving or not self.may_wait

    def purge(self) -> None:
        """Give up everything that librdkafka does not have; return when that is done.

        Where the caller must not wait, it is done a little later.
        """
        asked = object()
        self.purges.append(asked)
        self.wake()
        while asked in self.purges and not self.stopping and self.may_wait:
            self.wait_progress(_PROGRESS_WAIT)

    def topics(self) -> set[str]:
        """Return the topics that something waits for or is in flight for. For any thread."""
        return self.dispatcher.topics() | self.accumulator.topics()

    def wait_progress(self, timeout: float) -> None:
        """Wait until the thread has ended a step, at most `timeout` seconds or 10 ms.

        If several threads wait, only one of them is woken.
        """
        self._progress.wait(min(timeout, _PROGRESS_WAIT))

    def run(self) -> None:
        """Work until it is stopped: what the thread does."""
        failures = 0
        while not self.stopping:
            try:
                now = self.clock()
                wait = self.run_once(now)
                left = self._queue.sleep(self.clock(), now + wait) - self.clock()
                failures = 0
                self._progress.set()
                self.wakeup.wait(max(0.0, min(left, threading.TIMEOUT_MAX)))
            except BaseException:  # noqa: BLE001 - the thread outlives whatever a step did to it
                failures += 1
                self._progress.set()
                self._wait_after(failures)

    def _wait_after(self, failures: int) -> None:
        """Wait before a step that failed is tried again, whoever wakes the thread meanwhile.

        The step has kept what it held. A few of many failures in a row are logged.
        """
        if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th …
            with suppress(BaseException):  # a user's handler must not end the thread
                _log.exception(
                    "columnar-kafka's sender failed; it tries again (failure %d)", failures
                )
        self.stopped.wait(min(_FAILURE_WAIT * 2 ** min(failures - 1, 10), _LONGEST_FAILURE_WAIT))

    def run_once(self, now: float) -> float:
        """Do all work that is due at `now`; return the seconds until there may be more."""
        try:
            self._look_up(now)
            self._ask(now)
            while True:
                with self.step:
                    # Asked now: a fork waits for the step that it sees.
                    if self._gate.is_open(self.clock()):
                        self.steps += 1
                        return self._work(now)
                if self.stopping:
                    return 0.0
                time.sleep(_FORK_WAIT)
        finally:
            self._log_lines()

    def _log_lines(self) -> None:
        while self._lines:
            with suppress(BaseException):  # a user's handler must not end the thread
                self._lines.popleft()()

    @property
    def _progress_made(self) -> int:
        return self.steps + self.segmenter.done

    def wait_for_step(self) -> None:
        """Wait until the thread has ended the step that it is in, or gets no further in it.

        Takes no lock. The step may wait for one that the calling thread holds: the producer's,
        which may be known, or any other, of imports say.
        """
        if threading.get_ident() == self.thread.ident:
            return
        longest = lifecycle.MUTUAL if self._holds_lock else lifecycle.GRACE
        progress, since = self._progress_made, self.clock()
        while self.step.locked() and progress != self.stuck_at:
            now = self.clock()
            if progress != self._progress_made:
                progress, since = self._progress_made, now
            elif now - since >= longest:
                self.stuck_at = progress
                text = "a fork did not wait for columnar-kafka's sender, which got no further for "
                text += "%g s: a child that uses pyarrow may hang"
                self._lines.append(partial(_log.warning, text, longest))
            else:
                time.sleep(_FORK_WAIT)

    def _work(self, now: float) -> float:
        flushing, self._flushing = self._flushing, False
        try:
            return self._do_all(now, flushing=flushing)
        except BaseException:
            self._flushing = self._flushing or flushing
            raise

    def _do_all(self, now: float, *, flushing: bool) -> float:
        purges = len(self.purges)  # records that are accepted after that are not purged
        self._take_over(now)
        self._settle(now)
        if flushing:
            self.accumulator.seal_all()
        elif self._queue.usage.is_half_used:
            self.accumulator.relieve()
        if purges:
            self._purge()
            del self.purges[:purges]
        work = self.accumulator.drain(now)
        self._hand_on(work)
        for chunk in work.chunks:  # one that fails is converted when its batch is encoded
            self.segmenter.convert(chunk)
        wait = self.dispatcher.send_all(now)
        return min(wait, self.accumulator.next_look(now))

    def _take_over(self, now: float) -> None:
        self._filled += self._queue.take_filled()  # first: their batches are among the items then
        self._taken += self._queue.drain()
        while self._taken:
            self._taken[0].enter(self.accumulator, now)
            self._taken.popleft()
        while self._filled:
            self.accumulator.look_at(*self._filled[0])
            self._filled.popleft()

    def _hand_on(self, work: Work) -> None:
        """Line up what is sealed, and fail what has no batch; what a failed step left, too."""
        self._sealed += work.sealed
        self._given_up += work.given_up
        while self._sealed:
            self.dispatcher.line_up(self._sealed[0])
            self._sealed.popleft()
        while self._given_up:
            self._delivery.failed(*self._given_up[0])
            self._given_up.popleft()

    def _purge(self) -> None:
        """Fail all that waits: for its partition, open, sealed, encoded, or rejected."""
        error = KafkaError(KafkaError._PURGE_QUEUE)
        work = self.accumulator.take_all(error)
        self._hand_on(work)
        self.dispatcher.purge(error)

    def _look_up(self, now: float) -> None:
        for topic in self.accumulator.to_look_up(now):
            began = self.clock()
            try:
                partitions = self.dispatcher.broker.partitions(topic, _LOOKUP_TIMEOUT)
            except KafkaException as error:
                self.accumulator.topic_unusable(topic, error.args[0], now)
            else:
                if partitions is not None:
                    self.accumulator.set_partitions(topic, partitions, now)
                elif self.clock() - began >= _LOOKUP_TIMEOUT:
                    return  # nobody answers: the others would take as long

    def _ask(self, now: float) -> None:
        """Ask Kafka about topics whose schema is to be settled; blocks for a few seconds at most.

        Not in a step, so that a fork does not wait for it.
        """
        for topic in self.accumulator.to_settle(now):
            if topic not in self._answers and self._inferring is not None:
                answer = self._inferring.ask(topic, self.dispatcher.broker, self._lines.append)
                self._answers[topic] = answer

    def _settle(self, now: float) -> None:
        """Settle the schemas that values have waited for long enough, once Kafka has answered."""
        for topic in self.accumulator.to_settle(now):
            if topic in self._answers and self._inferring is not None:
                values = (item.value for item in self.accumulator.unsettled(topic))
                answer = self._answers[topic]
                made = self._inferring.settle(topic, values, answer, self._lines.append)
                self.accumulator.settled(made, now)
                del self._answers[topic]
