"""Small segments as row groups: neighbours are decoded and encoded anew together.

A row group costs 2 KB of footer and a page for each column, whatever is in it: for a small segment
that is more than its rows are. The native core decodes a segment to verify it; here it keeps the
rows. What it gives up, and what has to be cast or split, is verified and decoded by Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.landing.native_row_group import NativeRowGroup
from columnar_kafka.lake.landing.rewrite import SegmentPart, decoded
from columnar_kafka.lake.model import UnlandableError
from columnar_kafka.lake.plan import Placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from columnar_kafka.lake.landing.rewrite import Rewriter, SegmentRows
    from columnar_kafka.lake.landing.runs import WaitingMessage
    from columnar_kafka.lake.model import Fitting, PartitionValues
    from columnar_kafka.lake.plan import Placement
    from columnar_kafka.segment.segment import Segment

__all__ = ["RowGroup", "SmallSegments", "VerifiedSegment"]

_MOST_BYTES: Final = 64 << 20
"""About the most that a row group takes decoded, whatever its segments' bytes expand to."""
_PUT_TOGETHER: Final = 256
"""So many tables become one while they wait: each takes 1 KB a column beside its rows."""


class VerifiedSegment(NamedTuple):
    """A segment that lands: where, and its rows by the partition of the table."""

    placement: Placement
    schema: pa.Schema
    fitting: Fitting
    rows: Sequence[SegmentRows]
    may_share: bool

    def alone(self, rewriter: Rewriter) -> RowGroup:
        """Return a row group of nothing else: the bytes that came, if they fit."""
        parts = [rewriter.part(rows) for rows in self.rows]
        placed = Placed.of([self.placement])
        return RowGroup(placed, self.schema, self.fitting, parts, self.may_share)


class RowGroup(NamedTuple):
    """Messages that land together: a row group in each partition of the table that has rows."""

    placed: Placed
    schema: pa.Schema
    fitting: Fitting
    parts: Sequence[SegmentPart]
    may_share: bool


class SmallSegments:
    """Makes row groups of runs of small segments. For one thread."""

    def __init__(
        self,
        rewriter: Rewriter,
        verified: Callable[[Iterable[WaitingMessage]], Iterator[VerifiedSegment]],
        fit: Callable[[str, pa.Schema, Mapping[bytes, bytes]], Fitting],
    ) -> None:
        """Take what verifies segments, and refuses some; and what fits a schema to the table."""
        self._rewriter = rewriter
        self._verified = verified
        self._fit = fit

    def row_groups(self, run: Iterable[WaitingMessage]) -> Iterator[RowGroup]:
        """Yield what the segments of a run become, in order; one row group, as a rule.

        A segment lands as it came if it may not share a file, cannot be decoded, or has bounds and
        no neighbour: the bounds of its file are those of all row groups. Raises whatever `verified`
        and `fit` raise, but no UnlandableError of `fit`.
        """
        known: list[WaitingMessage] = []  # what the core has read: the rows are in `group`
        left: list[WaitingMessage] = []  # what it has left to Arrow, after those
        group = NativeRowGroup()
        for waiting in run:
            if not left and self._add(group, waiting):
                known.append(waiting)
                continue
            next_group = NativeRowGroup()
            if self._add(next_group, waiting):
                yield from self._ended(group, known, left)
                group, known, left = next_group, [waiting], []
            else:
                left.append(waiting)
        yield from self._ended(group, known, left)

    def _add(self, group: NativeRowGroup, waiting: WaitingMessage) -> bool:
        if group.nbytes >= _MOST_BYTES:
            return False
        try:
            return group.add(waiting.message, self._fit, _MOST_BYTES)
        except (UnlandableError, SegmentError):
            return False

    def _ended(
        self, group: NativeRowGroup, known: list[WaitingMessage], left: list[WaitingMessage]
    ) -> Iterator[RowGroup]:
        """Yield the rows that the core has read as a row group, and then what it has left."""
        is_worth_it = len(known) > 1 or (known and not _has_bounds(known[0].message.segment()))
        if is_worth_it and (file := group.encoded()) is not None:
            placed = Placed.of([placement for placement, _ in known])
            part = SegmentPart((), file, group.rows, len(known), is_rewritten=True)
            yield RowGroup(placed, group.schema, group.fitting, [part], may_share=True)
        else:
            left = known + left
        yield from self._by_arrow(self._verified(left))

    def _by_arrow(self, segments: Iterable[VerifiedSegment]) -> Iterator[RowGroup]:
        group = _ArrowRowGroup()
        for segment in segments:
            if group.add(segment):
                continue
            yield from group.end(self._rewriter)
            group = _ArrowRowGroup()
            if not group.add(segment):
                yield segment.alone(self._rewriter)
        yield from group.end(self._rewriter)


class _ArrowRowGroup:
    """Small segments of one schema, decoded."""

    def __init__(self) -> None:
        self._first: VerifiedSegment | None = None
        self._placements: list[Placement] = []
        self._rows: dict[PartitionValues, _Rows] = defaultdict(_Rows)
        self._nbytes = 0

    def add(self, segment: VerifiedSegment) -> bool:
        """Take a segment; return False if it cannot be decoded, or not be put to those before."""
        if not segment.may_share or self._nbytes >= _MOST_BYTES:
            return False
        first = self._first or segment
        if not segment.schema.equals(first.schema, check_metadata=True):
            return False
        try:
            tables = [
                decoded(rows.segment) if rows.table is None else rows.table for rows in segment.rows
            ]
        except (LakeError, SegmentError):
            return False
        self._first = first
        self._placements.append(segment.placement)
        for rows, table in zip(segment.rows, tables, strict=True):
            self._rows[rows.partition].add(table)
            self._nbytes += table.nbytes
        return True

    def end(self, rewriter: Rewriter) -> Iterator[RowGroup]:
        """Yield the row group, if there is anything in it."""
        if (first := self._first) is None:
            return
        if len(self._placements) == 1 and _has_bounds(first.rows[0].segment):
            yield first.alone(rewriter)
            return
        schema = first.placement.header.schema
        parts = [
            rewriter.encoded_part(partition, rows.table(), schema, messages=rows.segments)
            for partition, rows in self._rows.items()
        ]
        placed = Placed.of(self._placements)
        yield RowGroup(placed, first.schema, first.fitting, parts, may_share=True)


def _has_bounds(segment: Segment) -> bool:
    """Say whether a segment that can be decoded has statistics."""
    return bool(segment.statistics(segment.schema.names))


class _Rows:
    """The rows of one partition of the table, and of how many segments they are."""

    def __init__(self) -> None:
        self.segments = 0
        self._tables: list[pa.Table] = []
        self._newest: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        self.segments += 1
        self._newest.append(table)
        if len(self._newest) == _PUT_TOGETHER:
            self._tables.append(pa.concat_tables(self._newest).combine_chunks())
            self._newest = []

    def table(self) -> pa.Table:
        return pa.concat_tables([*self._tables, *self._newest])
