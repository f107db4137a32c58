"""A fresh process for each competitor; it lives as long as its question's rounds.

So nothing that one competitor loads, caches or leaves behind is in another's figures, while
imports, connections and caches are as warm as in a service. Between its rounds a child waits.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from multiprocessing.connection import Connection

    from typing_extensions import Self


class ChildError(Exception):
    """A measured process failed; the message is its traceback."""


@dataclass(frozen=True)
class Cost:
    """What one round took, in seconds: CPU of the process, CPU of the calling thread, wall.

    `began` is when, by the monotonic clock.
    """

    cpu: float
    thread: float
    wall: float
    began: float = 0.0


def tree_cpu() -> float:
    """Return the CPU seconds of this process, of those it has started, and of theirs.

    Other processes tell theirs in ticks, mostly of 10 ms.
    """
    this = psutil.Process()
    ended = this.cpu_times()
    seconds = time.process_time() + ended.children_user + ended.children_system
    for child in this.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended since
            # Its own, and of those of its own that have ended.
            seconds += sum(child.cpu_times()[:4])
    return seconds


class Clock:
    """Measures from when it is made; garbage of before is not walked again meanwhile."""

    def __init__(self, cpu: Callable[[], float] = time.process_time) -> None:
        """Begin. `cpu` tells the CPU seconds so far."""
        gc.freeze()
        self._cpu = cpu
        self._began = cpu(), time.thread_time(), time.perf_counter()
        self._at = time.monotonic()
        self._thread: float | None = None

    def calls_end(self) -> None:
        """Stop the thread's clock: what follows only waits for the rest."""
        self._thread = time.thread_time() - self._began[1]

    def stop(self) -> Cost:
        """Return the cost."""
        cpu, wall = self._cpu() - self._began[0], time.perf_counter() - self._began[2]
        thread = time.thread_time() - self._began[1] if self._thread is None else self._thread
        gc.unfreeze()
        return Cost(cpu, thread, wall, self._at)


class Child:
    """A process that makes one object and calls its methods on request. Close it."""

    def __init__(
        self,
        make: Callable[..., Any],
        *arguments: Any,
        tree: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; `wait` until the object exists.

        Args:
            make: a class or function of a module.
            arguments: what it is called with; they can be pickled.
            tree: a folder that has another revision of `columnar_kafka`.
            environment: variables that are set before `make`'s module is imported.
        """
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        module, name = make.__module__, make.__qualname__
        self._process = context.Process(
            target=_serve,
            args=(theirs, module, name, arguments, tree, dict(environment or {})),
            daemon=True,
        )
        self._process.start()
        theirs.close()
        self._is_made = False

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def wait(self) -> None:
        """Block until the object exists. Raises ChildError when it could not be made."""
        if not self._is_made:
            self._answer()
            self._is_made = True

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method and return its result. Raises ChildError with the child's traceback."""
        self.start_call(method, *arguments)
        return self._answer()

    def start_call(self, method: str, *arguments: Any) -> None:
        """Begin a call; `result` waits for it."""
        self.wait()
        self._connection.send((method, arguments))

    def result(self) -> Any:
        """Return the result of the call that was started. Raises as `call` does."""
        return self._answer()

    def close(self) -> None:
        """End the process, whatever it does."""
        self._connection.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _answer(self) -> Any:
        try:
            is_good, answer = self._connection.recv()
        except EOFError:
            self._process.join()
            raise ChildError(f"the process ended with {self._process.exitcode}") from None
        if not is_good:
            raise ChildError(answer)
        return answer


def _serve(
    connection: Connection,
    module: str,
    name: str,
    arguments: tuple[Any, ...],
    tree: str | None,
    environment: dict[str, str],
) -> None:
    logging.disable(logging.WARNING)  # of small segments, which are wanted here
    os.environ.update(environment)
    if tree is not None:
        sys.path.insert(0, tree)
    try:
        __import__(module)
        subject = getattr(sys.modules[module], name)(*arguments)
        connection.send((True, None))
        while (asked := _asked(connection)) is not None:
            method, arguments = asked
            connection.send((True, getattr(subject, method)(*arguments)))
    except BaseException:  # noqa: BLE001 - the parent raises it
        connection.send((False, traceback.format_exc()))


def _asked(connection: Connection) -> tuple[str, tuple[Any, ...]] | None:
    """Return the next method and its arguments; None when the parent has closed its end."""
    try:
        asked: tuple[str, tuple[Any, ...]] = connection.recv()
    except EOFError:
        return None
    return asked


class Children:
    """The competitors of one case, by name. A context manager that ends them."""

    def __init__(self, children: Mapping[str, Child]) -> None:
        self._children = dict(children)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for child in self._children.values():
            child.close()

    def __iter__(self) -> Iterator[tuple[str, Child]]:
        return iter(self._children.items())

    def only(self, names: Iterable[str]) -> Children:
        """Return some of them; this object still ends them."""
        return Children({who: self._children[who] for who in names})

    def each(
        self, method: str, *arguments: Any, first: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Call a method of each, one after the other.

        Args:
            method: its name.
            arguments: the same for all.
            first: one more argument before the others, by the competitor's name.
        """
        for child in self._children.values():
            child.wait()
        return {
            who: child.call(method, *([first[who]] if first else []), *arguments)
            for who, child in self
        }

    def together(
        self, method: str, *arguments: Any, first: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Call a method of all at the same time: for what is not measured."""
        for who, child in self:
            child.start_call(method, *([first[who]] if first else []), *arguments)
        return {who: child.result() for who, child in self}

    def rounds(
        self, count: int, method: str, *arguments: Any, first: Mapping[str, Any] | None = None
    ) -> dict[str, list[Any]]:
        """Call a method of each in turn, `count` times: A B C A B C … A first round is dropped."""
        self.each(method, *arguments, first=first)
        results: dict[str, list[Any]] = {who: [] for who, _ in self}
        for _ in range(count):
            for who, result in self.each(method, *arguments, first=first).items():
                results[who].append(result)
        return results
