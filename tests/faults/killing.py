"""Kills the process that comes to a point of landing: what a table's protocols call, wrapped.

`ORDERS` is a variable of the environment with `Orders` as JSON: Spark starts processes of its own.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ORDERS = "TEST_KILL_ORDERS"


def times(point: str, kills: int) -> list[int]:
    """Return at which arrival at a point each of several processes is killed."""
    # A commit has several files, and a file several writes. The first swap takes longer than the
    # next, and by the one before it a kill within a swap is timed.
    step = {"before a file": 5, "in a file": 20}.get(point, 1)
    first = 3 if point == "in the swap" else 2
    return [first + number % 3 * step for number in range(kills)]


_first = threading.Lock()  # the process is killed once


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Who is killed: whoever comes to one of the `points` as the `at`-th, of all processes.

    `folder` is where arrivals are counted and kills are logged. `whom` is "self"; or "driver": the
    group of this session's first process, too; or "executor": the Java that has started this
    process, too.
    """

    points: tuple[str, ...]
    at: tuple[int, ...]
    folder: str
    whom: str = "self"

    @property
    def log(self) -> Path:
        return Path(self.folder, "kills")

    def killed(self) -> list[str]:
        """Return the point of each kill."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def environment(self) -> Mapping[str, str]:
        return {ORDERS: json.dumps(asdict(self))}

    @staticmethod
    def of_process() -> Orders | None:
        orders = os.environ.get(ORDERS)
        return Orders(**json.loads(orders)) if orders else None

    def log_kill(self, point: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{point}\n")

    def kill(self, process: int) -> None:
        """Kill a process, which has come to a point, and whoever else is meant."""
        if self.whom == "driver":
            os.killpg(os.getsid(process), signal.SIGKILL)
        elif self.whom == "executor":
            parents = psutil.Process(process).parents()
            next(parent for parent in parents if parent.name() == "java").kill()
        os.kill(process, signal.SIGKILL)


def _is_due(point: str) -> Orders | None:
    """Count the arrival at a point; return the orders if they say to kill."""
    orders = Orders.of_process()
    if orders is None or point not in orders.points:
        return None
    with Path(orders.folder, "arrivals").open("ab") as file:
        file.write(b".")
        file.flush()
        return orders if file.tell() in orders.at else None


def reach(point: str) -> None:
    if orders := _is_due(point):
        _end(orders, point)


def _end(orders: Orders, point: str) -> None:
    _first.acquire()
    orders.log_kill(point)
    orders.kill(os.getpid())


def _kill_later(orders: Orders, point: str, seconds: float) -> int:
    """Have a process of its own kill this one: what runs meanwhile may hold the GIL."""
    victim = os.getpid()
    if killer := os.fork():
        return killer
    try:
        time.sleep(seconds)
        orders.log_kill(point)
        orders.kill(victim)
    finally:
        os._exit(0)


@contextmanager
def around(before: str, after: str = "") -> Iterator[None]:
    """Have two points: at the beginning and at the end of the block."""
    reach(before)
    yield
    reach(after)


@contextmanager
def during(point: str) -> Iterator[None]:
    """Have a point at a random time within the block, by how long the last one took.

    If the block is over sooner, the kill is logged as one after it.
    """
    orders = Orders.of_process()
    took = Path(orders.folder if orders else "", "took")
    killer = 0
    if due := _is_due(point):
        seconds = float(took.read_text()) if took.exists() else 0.0
        killer = _kill_later(due, point, random.random() * seconds / 2)
    began = time.monotonic()
    yield
    if due:
        os.kill(killer, signal.SIGKILL)
        os.waitpid(killer, 0)
        if not due.killed():
            due.log_kill(f"after it was {point}")
        due.kill(os.getpid())
    elif orders:
        took.write_text(f"{time.monotonic() - began}")


@dataclass
class Table:
    """A `LakeTable` around another one."""

    inner: Any

    @property
    def place(self) -> str:
        return str(self.inner.place)

    def head(self) -> Any:
        return self.inner.head()

    def fences(self) -> Any:
        return self.inner.fences()

    def fit(self, schema: Any) -> Any:
        return self.inner.fit(schema)

    def columns(self) -> Any:
        return self.inner.columns()

    def kept_schema(self) -> Any:
        return self.inner.kept_schema()

    def keep_schema(self, *arguments: Any) -> Any:
        with around("before a schema", "after a schema"):
            return self.inner.keep_schema(*arguments)

    def create(self, *arguments: Any) -> FileWriter:
        with around("before a file"):
            return FileWriter(self.inner.create(*arguments))

    def commit(self, staged: Any) -> Any:
        swap = self.inner.swap

        def killed(*arguments: Any) -> Any:
            with around("before the swap", "after the swap"), during("in the swap"):
                return swap(*arguments)

        with (
            around("before the commit", "before the checkpoint"),
            mock.patch.object(self.inner, "swap", killed),
        ):
            return self.inner.commit(staged)

    def discard(self, staged: Any) -> None:
        self.inner.discard(staged)


class FileWriter:
    """A `FileWriter` around another one."""

    def __init__(self, inner: Any) -> None:
        self.path, self.field_ids = inner.path, inner.field_ids
        self.finish, self.discard = inner.finish, inner.discard
        self._inner = inner

    def write(self, data: Any) -> int:
        if orders := _is_due("in a file"):
            self._inner.write(memoryview(data)[: len(data) // 2])
            self._inner.file.flush()
            _end(orders, "in a file")
        return int(self._inner.write(data))
