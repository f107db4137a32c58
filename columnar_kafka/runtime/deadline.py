"""Deadlines by the monotonic clock: when a call with a `timeout` must return."""

from __future__ import annotations

import math
import time

__all__ = ["deadline_after", "next_step", "seconds_left"]


def deadline_after(timeout: float, now: float | None = None) -> float:
    """Return the time `timeout` seconds from `now`; infinity where `timeout` is negative.

    Raises:
        TypeError: `timeout` is not a number, in confluent-kafka's words.
    """
    math.isfinite(timeout)  # raises that TypeError
    if timeout < 0:
        return math.inf
    return (time.monotonic() if now is None else now) + timeout


def seconds_left(deadline: float) -> float:
    """Return the seconds until `deadline`, not below 0; -1, which is for ever, for infinity."""
    return -1 if deadline == math.inf else max(0.0, deadline - time.monotonic())


def next_step(left: float, longest: float) -> float:
    """Return how long to wait in librdkafka at once, where `left` seconds are left.

    That is rounded up to whole milliseconds, but for less than a microsecond: librdkafka does not
    wait for parts of one, and a loop would call it all the time until its deadline.
    """
    if left >= longest:
        return longest
    milliseconds = math.ceil(left * 1000 - 0.001)
    return milliseconds / 1000 if milliseconds > 0 else max(0.0, left)
