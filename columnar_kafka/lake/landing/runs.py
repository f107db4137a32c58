"""Plain messages that wait to become rows together: a *run*, one row group of a file.

A run ends where the plan begins another row group, before a segment of its partition, at the end of
the attempt, and when much is waiting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from columnar_kafka.lake.aside.message_rows import memory_of

if TYPE_CHECKING:
    from columnar_kafka.lake.model import SourceMessage, SourcePartition
    from columnar_kafka.lake.plan import Placement

__all__ = ["WaitingMessage", "WaitingRuns"]

_MOST_BYTES: Final = 64 << 20


class WaitingMessage(NamedTuple):
    """A plain message, and where it lands."""

    placement: Placement
    message: SourceMessage


class WaitingRuns:
    """The run of each partition that waits. For one thread; holds about 64 MiB."""

    def __init__(self) -> None:
        self._runs: dict[SourcePartition, _Run] = {}
        self._nbytes = 0

    def add(self, placement: Placement, message: SourceMessage) -> None:
        """Append a message to the run of its partition."""
        if not isinstance(message.value, bytes | None):  # a buffer may be part of a larger one
            message = replace(message, value=bytes(message.value))
        nbytes = memory_of(message)
        run = self._runs.get(placement.source)
        if run is None:
            run = self._runs[placement.source] = _Run()
        run.messages.append(WaitingMessage(placement, message))
        run.nbytes += nbytes
        self._nbytes += nbytes

    def take(self, source: SourcePartition) -> list[WaitingMessage]:
        """Remove the run of a partition, and return it; empty if there is none."""
        if (run := self._runs.pop(source, None)) is None:
            return []
        self._nbytes -= run.nbytes
        return run.messages

    def too_large(self) -> SourcePartition | None:
        """Return whose run is the largest, if too much is waiting."""
        if self._nbytes < _MOST_BYTES:
            return None
        return max(self._runs, key=lambda source: self._runs[source].nbytes)

    def sources(self) -> list[SourcePartition]:
        """Return the partitions that have a run."""
        return list(self._runs)


class _Run:
    def __init__(self) -> None:
        self.messages: list[WaitingMessage] = []
        self.nbytes = 0
