"""What other threads leave for an event loop: reports and callbacks, many to one wake-up."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from columnar_kafka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from columnar_kafka.config import Hidden

__all__ = ["Inbox", "LoopLogger", "for_threads"]

_TURN: Final = 1000
"""How many calls are made before the loop does something else: about a millisecond of them."""


class _Runs(Protocol):
    def run(self) -> None: ...


class _Call(NamedTuple):
    function: Callable[..., None]
    args: tuple[Any, ...]

    def run(self) -> None:
        self.function(*self.args)


class Inbox:
    """Calls that other threads want made on one event loop, in order.

    `put`, `leave` and `wake` may be called from any thread, all else on the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.emptied = asyncio.Event()
        """Set for a moment, so that who waits for it goes on, each time calls were made."""
        self.made = 0
        """How many calls were made."""
        self.loop = loop
        self._calls: deque[_Runs] = deque()
        self.leave: Callable[[_Runs], None] = self._calls.append
        """Leave what has a `run`, which must not raise; that is called after the next `wake`."""
        self._woken = False
        self._tasks: set[asyncio.Future[Any]] = set()

    def __len__(self) -> int:
        return len(self._calls)

    def put(self, function: Callable[..., None], *args: Any) -> None:
        """Leave a call, which must not raise; it is made some time after the next `wake`."""
        self.leave(_Call(function, args))

    def wake(self) -> None:
        """Have what is here called soon. What is left for a closed loop is dropped."""
        if self._woken or not self._calls:
            return
        self._woken = True
        try:
            self.loop.call_soon_threadsafe(self._empty)
        except RuntimeError:
            self._woken = False
            self._calls.clear()

    def _empty(self) -> None:
        # Before anything is taken out: what is put in after this line brings a wake-up of its own.
        self._woken = False
        for _ in range(min(len(self._calls), _TURN)):
            self._calls.popleft().run()
            self.made += 1
        self.wake()
        self.emptied.set()
        self.emptied.clear()

    async def settle(self) -> None:
        """Return when all that is here now has been called."""
        for _ in range(0, len(self._calls) + 1, _TURN):
            self._empty()
            await asyncio.sleep(0)

    # --- the user's own functions ---------------------------------------------------------------

    def wrap(self, callback: Callable[..., Any]) -> Callable[..., None]:
        """Return a function for any thread that leaves a call of `callback`, sync or async."""
        return partial(self.put, self.run, callback)

    def run(self, callback: Callable[..., Any], *args: Any) -> None:
        """Call a user's function, sync or async: what it raises is for the loop's handler."""
        try:
            result = callback(*args)
        except Exception as error:  # noqa: BLE001 - it must not keep the others from being called
            self._report(callback, error)
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(result)
            self._tasks.add(task)  # the loop alone would let it be collected
            task.add_done_callback(partial(self._ended, callback))

    def _ended(self, callback: Callable[..., Any], task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(callback, error)

    def _report(self, callback: Callable[..., Any], error: BaseException) -> None:
        self.loop.call_exception_handler(
            {"message": f"the callback {callback!r} failed", "exception": error}
        )

    async def callbacks_ended(self) -> None:
        """Return when all async callbacks have ended, but for the one that calls this."""
        others = self._tasks - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)


def for_threads(
    conf: Hidden,
    inbox: Inbox,
    callbacks: Iterable[str],
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Hidden:
    """Return a configuration, changed in place, whose callbacks may be called in any thread.

    `wrap` makes a function for any thread of each of the `callbacks`; `inbox` leads to the loop on
    which the logger is used.

    Raises:
        ConfigError: ``oauth_cb`` is async.
    """
    if inspect.iscoroutinefunction(conf.get("oauth_cb")):
        raise ConfigError(
            "oauth_cb must not be async: librdkafka needs its token at once, in a thread"
        )
    for name in callbacks:
        if callable(conf.get(name)):
            conf[name] = wrap(conf[name])
    if conf.get("logger") is not None:
        conf["logger"] = LoopLogger(inbox, conf["logger"])
    return conf


class LoopLogger:
    """Stands for a configured logger in librdkafka's threads; the logger is used on the loop."""

    def __init__(self, inbox: Inbox, logger: Any) -> None:
        self._inbox = inbox
        self._logger = logger

    def log(self, *args: Any) -> None:
        """Leave a call of the logger's `log`."""
        self._inbox.put(self._inbox.run, self._logger.log, *args)
