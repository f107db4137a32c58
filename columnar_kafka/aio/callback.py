"""Callbacks that librdkafka's thread waits for, run on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import queue
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CallbackRun"]

_LOOK: Final = 0.1
"""How late, in seconds, a thread that waits for a loop notices that this was closed."""

_current: ContextVar[CallbackRun | None] = ContextVar("_current", default=None)


class CallbackRun:
    """One run of a user's callback, sync or async, for a thread that needs its result.

    What the callback calls of its client has to be done while the callback runs, and by that very
    thread: it makes these calls until the callback has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: object) -> None:
        self._loop = loop
        self._owner = owner
        self._open = True  # read and written on the loop
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    @staticmethod
    def of(owner: object) -> CallbackRun | None:
        """Return the callback of this client that the current task is part of, if it still runs."""
        run = _current.get()
        return run if run is not None and run._open and run._owner is owner else None  # noqa: SLF001 - its own class

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function` on the loop; wait for it, and make the calls it wants made meanwhile.

        Raises:
            RuntimeError: the loop was closed, or the callback was cancelled.
            Exception: what the function raises.
        """
        main = self._main(function, args)
        try:
            running = asyncio.run_coroutine_threadsafe(main, self._loop)
        except RuntimeError:
            main.close()
            raise
        running.add_done_callback(lambda _: self._calls.put(None))
        while (call := self._next()) is not None:
            call()
        try:
            return running.result()
        except CancelledError:
            raise RuntimeError(f"the callback {function!r} was cancelled") from None

    async def _main(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        _current.set(self)
        try:
            result = function(*args)
            return await result if inspect.isawaitable(result) else result
        finally:
            self._open = False  # a task that it has left behind waits for its turn as others do

    def _next(self) -> Callable[[], None] | None:
        while True:
            try:
                return self._calls.get(timeout=_LOOK)
            except queue.Empty:
                if self._loop.is_closed():
                    raise RuntimeError("the event loop is closed: no callback can run") from None

    async def call(self, function: Callable[[], Any]) -> Any:
        """Have the waiting thread call `function`; return what it returns."""
        wanted: Future[Any] = Future()
        self._calls.put(partial(_make, wanted, function))
        return await asyncio.wrap_future(wanted)


def _make(wanted: Future[Any], function: Callable[[], Any]) -> None:
    if not wanted.set_running_or_notify_cancel():
        return
    try:
        wanted.set_result(function())
    except BaseException as error:  # noqa: BLE001 - it is the callback's
        wanted.set_exception(error)
