"""Small helpers shared by tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, seconds: float = 20.0) -> T:
    """Ask until the answer is true, and return it; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {condition}"
        time.sleep(0.02)
    return answer


def gone(pid: int) -> bool:
    """Whether no such process runs; one that has ended and waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
