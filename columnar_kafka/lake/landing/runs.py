"""Messages that wait to become rows together: a *run*, one row group of a file.

They are plain messages that are decoded, or small segments. A run ends where the plan begins
another row group, at the end of the attempt, and when much is waiting. It consists of messages, or
of rows that the native core has made of plain ones already: what would be both is two runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from columnar_kafka.lake.aside.message_rows import memory_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.lake.model import SourceMessage, SourcePartition
    from columnar_kafka.lake.plan import Placement
    from columnar_kafka.native import _core as core
    from columnar_kafka.segment.headers import SegmentHeader

__all__ = ["Run", "WaitingMessage", "WaitingRows", "WaitingRuns"]

_MOST_BYTES: Final = 64 << 20


class WaitingMessage(NamedTuple):
    """A message, and where it lands."""

    placement: Placement
    message: SourceMessage

    def under(self, header: Callable[[str, int], SegmentHeader]) -> WaitingMessage:
        """Return it with another header, by its fence and offset."""
        source, offset = self.placement.source, self.message.offset
        return self._replace(placement=self.placement._replace(header=header(source.fence, offset)))


class WaitingRows(NamedTuple):
    """Rows of plain messages, and where one of these lands."""

    placement: Placement
    rows: core.PlainBatch


class Run:
    """What waits of a partition: messages, or rows."""

    def __init__(self, rows: WaitingRows | None = None) -> None:
        self.messages: list[WaitingMessage] = []
        self.rows = rows
        self.nbytes = 0


class WaitingRuns:
    """The run of each partition that waits. For one thread; holds about 64 MiB."""

    def __init__(self) -> None:
        self._runs: dict[SourcePartition, Run] = {}
        self._nbytes = 0

    def add(self, placement: Placement, message: SourceMessage) -> None:
        """Append a message to the run of its partition."""
        if not isinstance(message.value, bytes | None):  # a buffer may be part of a larger one
            message = replace(message, value=bytes(message.value))
        nbytes = memory_of(message)
        run = self._runs.get(placement.source)
        if run is None:
            run = self._runs[placement.source] = Run()
        run.messages.append(WaitingMessage(placement, message))
        run.nbytes += nbytes
        self._nbytes += nbytes

    def rows(self, placement: Placement, begin: Callable[[], core.PlainBatch]) -> core.PlainBatch:
        """Return the rows that wait of a partition; if there are none, those that `begin` makes.

        Call `measure` when some were appended. No messages of the partition wait.
        """
        run = self._runs.get(placement.source)
        if run is None or run.rows is None:
            rows = WaitingRows(placement, begin())
            self._runs[placement.source] = Run(rows)
            return rows.rows
        return run.rows.rows

    def measure(self, source: SourcePartition) -> None:
        """Count the bytes of the rows that wait of a partition."""
        if (run := self._runs.get(source)) is not None and run.rows is not None:
            nbytes = run.rows.rows.nbytes
            self._nbytes += nbytes - run.nbytes
            run.nbytes = nbytes

    def has_messages(self, source: SourcePartition) -> bool:
        """Return whether messages of a partition wait."""
        run = self._runs.get(source)
        return run is not None and run.rows is None

    def has_rows(self, source: SourcePartition) -> bool:
        """Return whether rows of a partition wait."""
        run = self._runs.get(source)
        return run is not None and run.rows is not None

    def take(self, source: SourcePartition) -> Run | None:
        """Remove the run of a partition, and return it."""
        if (run := self._runs.pop(source, None)) is not None:
            self._nbytes -= run.nbytes
        return run

    def too_large(self) -> SourcePartition | None:
        """Return whose run is the largest, if too much is waiting."""
        if self._nbytes < _MOST_BYTES:
            return None
        return max(self._runs, key=lambda source: self._runs[source].nbytes)

    def sources(self) -> list[SourcePartition]:
        """Return the partitions that have a run."""
        return list(self._runs)
