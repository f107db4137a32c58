"""How the clients of a memory cluster wait for one another."""

from __future__ import annotations

import threading
from typing import Final

from columnar_kafka.runtime.locks import is_held

__all__ = ["Changes"]

_STEP: Final = 0.1


class Changes:
    """Tells clients that something under the cluster's lock has changed.

    `threading.Condition` gives the lock away while it waits: a handler that raises there may leave
    it held, or not held where `with` gives it back. So a wait begins without the lock.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._condition = threading.Condition(lock)
        self._waiting: dict[int, threading.Lock] = {}  # by thread

    def expect(self) -> threading.Lock:
        """Return what ends a wait at the next change; under the lock."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiting[threading.get_ident()] = waiter
        return waiter

    def wait(self, waiter: threading.Lock, timeout: float) -> None:
        """Wait at most `timeout` seconds for a change since `expect`; it may end earlier.

        The thread gives up the lock before, unless it has interrupted itself inside of it.
        """
        timeout = min(timeout, _STEP)  # a notice that a handler has cut may have missed somebody
        if is_held(self._lock):
            with self._lock:
                self._condition.wait(timeout)
        else:
            waiter.acquire(timeout=timeout)

    def notify_all(self) -> None:
        """End all waits; under the lock."""
        for waiter in self._waiting.values():
            if waiter.locked():
                waiter.release()
        self._waiting.clear()
        self._condition.notify_all()
