"""Locks that a thread may find held by itself.

A signal handler or a finalizer runs between any two steps of its thread, also while that holds a
lock. It may use the producer then, so these locks are reentrant; but it must not wait for another
thread that needs one of them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_held"]


def is_held(lock: Any) -> bool:
    """Return whether this thread holds a `threading.RLock`."""
    held: bool = lock._is_owned()  # noqa: SLF001 - which threading.Condition asks, too
    return held
