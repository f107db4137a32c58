"""A consumer's calls: in a thread, one after the other in their order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Literal

from columnar_kafka.aio.callback import CallbackRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from columnar_kafka.aio.inbox import Inbox
    from columnar_kafka.aio.undelivered import Undelivered

__all__ = ["Calls", "Turn"]

_SLICE: Final = 0.002
"""Seconds after which a call lets the loop do something else, though its records are ready."""


class Turn(asyncio.Lock):
    """Held by the call that runs; later ones wait in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        """How many have the turn or wait for it."""

    async def acquire(self) -> Literal[True]:
        """Wait for the turn."""
        self.calls += 1
        try:
            return await super().acquire()
        except BaseException:
            self.calls -= 1
            raise

    def release(self) -> None:
        """Let the next call have it."""
        self.calls -= 1
        super().release()


class Calls:
    """Makes the calls of `owner`, an AIOConsumer, in `executor`. All methods are for its loop."""

    def __init__(
        self, owner: object, executor: Executor, inbox: Inbox, undelivered: Undelivered
    ) -> None:
        self.turn = Turn()
        self._owner = owner
        self._executor = executor
        self._inbox = inbox
        self._undelivered = undelivered
        self._loop = asyncio.get_running_loop()
        self._slice_end = 0.0

    def can_be_spared(self) -> bool:
        """Say whether the next call need not be made in a thread, if its records are ready.

        It is made there, and so behind others, if one comes before it; if the last one was
        cancelled; and after a while, so that the loop has its turn.
        """
        return not (self.turn.calls or self._undelivered or time.monotonic() >= self._slice_end)

    async def make(self, function: Callable[[], Any]) -> Any:
        """Call a function in a thread when it is its turn; in a callback, in the callback's."""
        callback = CallbackRun.of(self._owner)
        if callback is not None:
            result = await callback.call(function)
            self._undelivered.delivered()
            return result
        await self.turn.acquire()
        running = None
        try:
            running = self._executor.submit(self._run, function)
            result = await asyncio.wrap_future(running)
            self._slice_end = time.monotonic() + _SLICE
            self._undelivered.delivered()  # nothing comes between this and the caller
            return result
        finally:
            if running is None or running.done():
                self.turn.release()
            else:  # cancelled, and the thread still runs it
                running.add_done_callback(self._end_turn)

    def _run(self, function: Callable[[], Any]) -> Any:
        self._undelivered.give_back()
        try:
            return function()
        finally:
            self._inbox.wake()

    def _end_turn(self, _: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self.turn.release)
