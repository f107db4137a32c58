"""One thread at a time calls librdkafka, and none waits for long."""

from __future__ import annotations

import threading
from threading import get_ident
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Turn"]

_LOOK_AGAIN: Final = 0.1
"""Seconds after which a thread that waits looks for itself: a wake-up may meet an exception."""
_REMEMBERED: Final = 10.0

T = TypeVar("T")


class Turn:
    """Runs functions of which only one may run at a time; the thread that runs one may run more.

    confluent-kafka lets one thread at a time call a consumer, from 2.16 on; who calls it meanwhile
    waits for as long as the other waits for a message, and may be overtaken when that one begins
    again. Here who waits for messages does so a `step` at a time, and lets the others go first.

    It is not a lock: a signal's handler may raise after any call, and what ends a turn is no call,
    but an assignment.
    """

    def __init__(self, lock: threading.RLock, clock: Callable[[], float]) -> None:
        """Decide under `lock`; who holds that may not wait for a turn."""
        self._lock = lock
        self._clock = clock
        self._owner: int | None = None
        self._first: dict[int, None] = {}  # threads that are not to be overtaken
        self._waiting: dict[int, threading.Lock] = {}  # by thread: it may ask often in a turn
        self._wanted_until = -float("inf")

    @property
    def is_mine(self) -> bool:
        """Whether this thread runs a function, and so is in it or in a callback of librdkafka's."""
        return self._owner == get_ident()

    def step(self, longest: float) -> float:
        """Return for how many seconds to wait for messages at once: `longest`, if nobody waits.

        Others wait, and will again, where one had to of late.
        """
        return longest / 20 if self._clock() < self._wanted_until else longest

    def run(self, function: Callable[[], object]) -> threading.Lock | None:
        """Run a function, or return what is released when another thread's turn is over."""
        me, before = get_ident(), self._owner
        if before == me:
            function()
            return None
        try:
            with self._lock:
                first = [*self._first, me][0]  # in one step: who begins to wait has no lock
                if self._owner is not None or first != me:
                    return self._bell()
                self._owner = me
            function()
        finally:
            if self._owner == me:
                self._owner = None
                if self._waiting:
                    self._wake()
        return None

    def run_first(self, function: Callable[[], T]) -> T:
        """Run a function as soon as the turn of now is over, and return what it returns."""
        me, found = get_ident(), list[T]()
        if self._owner == me:
            return function()
        try:
            while (bell := self.run(lambda: found.append(function()))) is not None:
                self._first[me] = None
                self._wanted_until = self._clock() + _REMEMBERED
                bell.acquire(timeout=_LOOK_AGAIN)
        finally:
            self._first.pop(me, None)
            if self._waiting:
                self._wake()
        return found[0]

    def _bell(self) -> threading.Lock:
        if (bell := self._waiting.get(get_ident())) is None:
            bell = threading.Lock()
            bell.acquire()
            self._waiting[get_ident()] = bell
        return bell

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.release()
