"""The threads in which a client's calls block, and the event loop that they are awaited on."""

from __future__ import annotations

import asyncio

# The pool itself: at interpreter exit, the first use of it is too late to import it.
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["Threads", "check_loop"]


class Threads:
    """The executor of a client: the user's, or one of its own."""

    def __init__(self, executor: Executor | None, max_workers: int) -> None:
        """Take the user's `executor`, or make one of `max_workers` threads."""
        self.executor = executor or ThreadPoolExecutor(max_workers, "columnar-kafka-aio")
        self._is_own = executor is None

    def end(self, *, wait: bool) -> None:
        """Let the threads end, unless they are the user's; with `wait`, block until they have."""
        if self._is_own:
            self.executor.shutdown(wait=wait)


def check_loop(client: str, loop: asyncio.AbstractEventLoop) -> None:
    """Check that a client is used on its event loop.

    Raises:
        RuntimeError: it is not.
    """
    if asyncio.get_running_loop() is not loop:
        raise RuntimeError(f"this {client} belongs to another event loop: make one in each loop")
