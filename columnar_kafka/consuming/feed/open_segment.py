"""A segment some of whose records were handed out, and more are to come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from columnar_kafka import position
from columnar_kafka.consuming.feed.record import RecordContext, records
from columnar_kafka.segment.segment import decoded_columns, record_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    import confluent_kafka
    import pyarrow as pa

    from columnar_kafka.message import Message
    from columnar_kafka.offsets import Partition
    from columnar_kafka.segment.segment import Segment, ValueForm

__all__ = ["OpenSegment"]

_CACHED_READS: Final = 2  # a call with a filter reads twice


@dataclass(slots=True)
class OpenSegment:
    """The segment whose records are being made ready; the next one is at position `at`."""

    key: Partition
    source: confluent_kafka.Message
    segment: Segment
    at: int
    form: ValueForm | None = None  # of the records' values
    tables: dict[tuple[str, ...], pa.Table] = field(default_factory=dict)
    _slices: Iterator[list[Message]] | None = None
    _slice: list[Message] = field(default_factory=list)
    _slice_at: int = 0  # the position of its first message

    @property
    def row(self) -> int:
        """The next record's row."""
        return self.segment.rows - (position.unpack(self.at).left or self.segment.rows)

    def next_records(self, wanted: int) -> list[Message]:
        """Return the next records as messages, at least one; `at` stays.

        Where many are `wanted` at once, those that follow come about as many at a time.

        Raises:
            SegmentError: the segment cannot be decoded.
            ColumnarError: no process could be started to decode in.
        """
        first = self.at - self._slice_at
        if not 0 <= first < len(self._slice):
            self._next_slice(wanted)
            first = 0
        return self._slice[first:]

    def _next_slice(self, wanted: int) -> None:
        slices, self._slices = self._slices, None  # an exception ends the generator
        if slices is None or self.at != self._slice_at + len(self._slice):
            self.tables.clear()
            slices = _slices_of(self.segment, self.source, self.row, wanted, self.form)
        self._slice, self._slice_at, self._slices = next(slices), self.at, slices

    def read(self, names: list[str]) -> pa.Table:
        """Return `decoded_columns`, decoded once for calls that follow each other."""
        columns = tuple(names)
        if columns not in self.tables:
            if len(self.tables) >= _CACHED_READS:
                self.tables.clear()
            self.tables[columns] = decoded_columns(self.segment, names)
        return self.tables[columns]


def _slices_of(
    segment: Segment,
    source: confluent_kafka.Message,
    start: int,
    wanted: int,
    form: ValueForm | None,
) -> Iterator[list[Message]]:
    """Yield the records of a segment from row `start` on as messages, a slice at a time."""
    kind, _ = timestamp = source.timestamp()
    context = RecordContext(
        topic=segment.topic,
        partition=segment.partition,
        leader_epoch=source.leader_epoch(),
        rows=segment.rows,
        timestamp_type=kind,
        append_time=timestamp if kind == TIMESTAMP_LOG_APPEND_TIME else None,
    )
    for row, columns in record_slices(segment, start, wanted, form):
        yield records(context, segment.offset + row, *columns)
