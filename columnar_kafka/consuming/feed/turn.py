"""One thread at a time calls librdkafka, and none waits for long."""

from __future__ import annotations

import threading
from threading import get_ident
from typing import TYPE_CHECKING, Final, TypeVar

from columnar_kafka.errors import ForkError
from columnar_kafka.runtime import lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Turn"]

_LOOK_AGAIN: Final = 0.1
"""Seconds after which a waiting thread looks again: an exception may have lost its wakeup."""
_CONTENDED: Final = 10.0
"""Seconds for which waits stay short after a thread had to wait for its turn."""

T = TypeVar("T")


class Turn:
    """Runs functions of which only one may run at a time; the thread that runs one may run more.

    From 2.16 on confluent-kafka lets one thread at a time call a consumer. Another caller waits as
    long as the first one waits for a message, and may be overtaken when that one calls again. Here
    a thread that waits for messages does so a `step` at a time, and lets the others go first.

    It is no lock, because releasing one is a call: a signal's handler may raise just before it. A
    turn ends with an assignment.
    """

    def __init__(self, lock: threading.RLock, clock: Callable[[], float]) -> None:
        """Decide under `lock`; a thread that holds it must not wait for a turn."""
        self._lock = lock
        self._clock = clock
        self._process = lifecycle.process_mark()
        self.owner: int | None = None
        self.priority: dict[int, None] = {}  # threads that go first, in order
        self._waiting: dict[int, threading.Lock] = {}  # by thread, which may ask often
        self._contended_until = -float("inf")

    @property
    def is_mine(self) -> bool:
        """Whether this thread has the turn: it is in its function, or a callback in it."""
        return self.owner == get_ident()

    def step(self, longest: float) -> float:
        """Return for how many seconds to wait for messages at once: up to `longest`.

        That is shorter where a thread had to wait of late: others will again.
        """
        return longest / 20 if self._clock() < self._contended_until else longest

    def run(self, function: Callable[[], object]) -> threading.Lock | None:
        """Run a function; or, in another thread's turn, return a lock that is released after it.

        Raises:
            ForkError: this is a forked child's copy.
        """
        self._check_not_forked()
        me, before = get_ident(), self.owner
        if before == me:
            function()
            return None
        try:
            with self._lock:
                first = [*self.priority, me][0]  # one step: threads are added without the lock
                if self.owner is not None or first != me:
                    return self._wakeup()
                self.owner = me
            function()
        finally:
            if self.owner == me:
                self.owner = None
                if self._waiting:
                    self._wake()
        return None

    def run_first(self, function: Callable[[], T]) -> T:
        """Run a function as soon as the present turn is over, and return its result.

        Raises:
            ForkError: as `run`.
        """
        self._check_not_forked()
        me, result = get_ident(), list[T]()
        if self.owner == me:
            return function()
        try:
            while (wakeup := self.run(lambda: result.append(function()))) is not None:
                self.priority[me] = None
                self._contended_until = self._clock() + _CONTENDED
                wakeup.acquire(timeout=_LOOK_AGAIN)
        finally:
            self.priority.pop(me, None)
            if self._waiting:
                self._wake()
        return result[0]

    def _check_not_forked(self) -> None:
        if lifecycle.process_mark() != self._process:
            lifecycle.notice_fork()
            raise ForkError.of("consumer")

    def _wakeup(self) -> threading.Lock:
        if (wakeup := self._waiting.get(get_ident())) is None:
            wakeup = threading.Lock()
            wakeup.acquire()
            self._waiting[get_ident()] = wakeup
        return wakeup

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for lock in waiting.values():
            lock.release()
