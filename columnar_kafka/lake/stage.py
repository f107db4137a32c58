"""Messages → staged files: every segment verified, then written as it came or stitched.

One segment is held at a time, and a file is written as its segments arrive.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.model import NotLandedError, Staged, StagedFile
from columnar_kafka.lake.plan import Mode, Planner
from columnar_kafka.lake.stitch import Stitcher, StitchError
from columnar_kafka.segment.headers import ROWS_HEADER, SCHEMA_HEADER, VERSION_HEADER
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.lake.model import CommitResult, Generation, Message, Sink, Source, Table
    from columnar_kafka.lake.plan import Layout, Piece

__all__ = ["MAX_OPEN", "land", "stage"]

MAX_OPEN: Final = 64
"""Files written at the same time, each a handle and up to 2.2 MB of footer; in a process with
more partitions than that the one that waited longest is finished early."""


def stage(messages: Iterable[Message], *, table: Table, planner: Planner) -> Staged:
    """Write the messages that the planner lets land to files of `table`, durable and not visible.

    Called once for each attempt (a Spark task, an ingester's turn), with a planner of its own.
    Takes one message at a time and keeps no value. Blocks for the writing.

    Raises:
        LakeError: a message that cannot land, by topic, partition and offset; nothing is skipped.
        OSError: the table's place cannot be written.
        Exception: what `messages` raises. After any of them nothing of the attempt is left.
    """
    attempt = _Attempt(table, planner)
    try:
        for message in messages:
            if piece := planner.place(message):
                attempt.add(piece, _verified(message))
        return attempt.finish()
    except BaseException:
        attempt.discard()
        raise


def land(
    messages: Iterable[Message],
    *,
    table: Table,
    generations: Mapping[str, Generation],
    layout: Layout | None = None,
) -> CommitResult:
    """Plan, stage and commit in one process: when it returns, all the messages have landed.

    Raises:
        NotLandedError: nothing has, and nothing is left of the attempt.
        MayHaveLandedError: landing the same messages again is harmless, and tells.
        LakeError, OSError: as `stage`: nothing has.
    """
    planner = Planner(fences=table.fences(), generations=generations, layout=layout)
    staged = stage(messages, table=table, planner=planner)
    try:
        return table.commit([staged])
    except NotLandedError:
        table.discard([staged])
        raise


def _verified(message: Message) -> Segment:
    """Check all of a segment that needs no decoding."""
    try:
        segment = Segment(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            headers=message.headers,
            value=message.value,
        )
        segment.verify()
    except SegmentError as error:
        raise LakeError(error.reason) from error
    return segment


class _Attempt:
    """The files of one attempt: those being written, by partition, and those staged."""

    def __init__(self, table: Table, planner: Planner) -> None:
        self._table = table
        self._planner = planner
        self._sinks: list[Sink] = []  # all of them: an attempt that fails removes them
        self._open: dict[Source, _File] = {}  # the one that has waited longest comes first
        self._staged: list[StagedFile] = []

    def add(self, piece: Piece, segment: Segment) -> None:
        file = self._open.pop(piece.source, None)
        if file and (piece.begins or not file.append(piece, segment)):
            self._staged.append(file.finish())
            file = None
        if file is None:
            file = self._begin(piece, segment)
        if file.is_open:
            self._open[piece.source] = file
        else:
            self._staged.append(file.finish())

    def finish(self) -> Staged:
        self._staged += [file.finish() for file in self._open.values()]
        return Staged(
            files=tuple(self._staged),
            landed_before=self._planner.landed_before,
            repeated=self._planner.repeated,
        )

    def discard(self) -> None:
        for sink in self._sinks:
            sink.discard()

    def _begin(self, piece: Piece, segment: Segment) -> _File:
        if len(self._open) == MAX_OPEN:
            self._staged.append(self._open.pop(next(iter(self._open))).finish())
        sink = self._table.create(piece.source, piece.offset)
        self._sinks.append(sink)
        stitch = self._planner.layout.mode is Mode.STITCHED
        return _File(sink, piece, segment, stitch=stitch)


class _File:
    """One file being written; `is_open` as long as more segments may be appended."""

    def __init__(self, sink: Sink, piece: Piece, segment: Segment, *, stitch: bool) -> None:
        self._sink = sink
        self._first = self._last = piece
        self._messages = self._rows = 0
        self._digest = hashlib.sha256()
        self._stitcher = Stitcher(cast("BinaryIO", sink))  # all that is used of it is write
        self.is_open = stitch and self.append(piece, segment)
        if not self.is_open:  # as it came: asked for, or it cannot be stitched to anything
            sink.write(segment.bytes)
            self._count(piece)

    def append(self, piece: Piece, segment: Segment) -> bool:
        """Stitch a segment to those before it, or say that it cannot be: nothing was written."""
        try:
            self._stitcher.append(segment.bytes)
        except StitchError:
            return False
        self._count(piece)
        return True

    def finish(self) -> StagedFile:
        """Write the footer, if it is this file's to write, and make the file durable."""
        if self.is_open:
            rows = self._stitcher.finish(self._metadata()).rows
            if rows != self._rows:
                raise LakeError(f"{self._first.source}: {rows} rows stitched of {self._rows}")
        source, header = self._first.source, self._last.header
        return StagedFile(
            fence=source.fence,
            topic=source.topic,
            partition=source.partition,
            first=self._first.offset,
            last=self._last.offset,
            messages=self._messages,
            rows=self._rows,
            nbytes=self._sink.finish(),
            segment=header.segment,
            schema=header.schema,
            digest=self._digest.hexdigest(),
            path=self._sink.path,
        )

    def _count(self, piece: Piece) -> None:
        self._last = piece
        self._messages += 1
        self._rows += piece.header.rows
        self._digest.update(piece.mark)

    def _metadata(self) -> dict[str, str]:
        """Say what is in a stitched file; equal for equal input, so that a replay makes this file.

        A segment's own key-values are not taken over: its id and times are in its rows.
        """
        source = self._first.source
        return {
            VERSION_HEADER: "1",
            SCHEMA_HEADER: self._first.header.schema,
            ROWS_HEADER: str(self._rows),
            "columnar.segments": str(self._messages),
            "columnar.cluster": source.generation.cluster,
            "columnar.topic.id": source.generation.topic_id,
            "columnar.topic": source.topic,
            "columnar.partition": str(source.partition),
            "columnar.offset.first": str(self._first.offset),
            "columnar.offset.last": str(self._last.offset),
        }
