"""Messages to staged files: every segment is verified, then written as it is or stitched.

One segment is in memory at a time, and a file is written as its segments arrive.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.model import NotLandedError, StagedFile, StageResult
from columnar_kafka.lake.plan import Mode, Planner
from columnar_kafka.lake.rewrite import Rewriter
from columnar_kafka.lake.stitch import Stitcher, StitchError
from columnar_kafka.segment.headers import ROWS_HEADER, SCHEMA_HEADER, VERSION_HEADER
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.lake.model import (
        CommitResult,
        FileWriter,
        LakeTable,
        ReadRange,
        SourceMessage,
        SourcePartition,
        TopicGeneration,
    )
    from columnar_kafka.lake.plan import Layout, Placement

__all__ = ["MAX_OPEN", "Stager", "land", "stage"]

MAX_OPEN: Final = 64
"""Files written at the same time; each takes a handle and up to 2.2 MB of footer. With more
partitions than that in one process, the file that waited longest is finished early."""


def stage(messages: Iterable[SourceMessage], *, table: LakeTable, planner: Planner) -> StageResult:
    """Write the messages that land to files of `table`, durable and not yet visible.

    Called once for each attempt (a task of Spark), with a new planner. Takes one message at a time
    and keeps no value. Blocks while it writes.

    Raises:
        LakeError: a message cannot land; the error names topic, partition and offset. Nothing is
            skipped.
        OSError: a file cannot be written.
        Exception: whatever `messages` raises. After any exception no file of the attempt is left.
    """
    attempt = Stager(table=table, planner=planner)
    try:
        for message in messages:
            attempt.add(message)
        return attempt.finish()
    except BaseException:
        attempt.discard()
        raise


def land(
    messages: Iterable[SourceMessage],
    *,
    table: LakeTable,
    generations: Mapping[str, TopicGeneration],
    layout: Layout | None = None,
) -> CommitResult:
    """Plan, stage and commit in one process. When it returns, all messages have landed.

    Raises:
        NotLandedError: nothing has landed, and no staged file is left.
        MayHaveLandedError: the messages may have landed; it is safe to land them again.
        LakeError, OSError: as `stage`; nothing has landed.
    """
    planner = Planner(fences=table.fences(), generations=generations, layout=layout)
    staged = stage(messages, table=table, planner=planner)
    try:
        return table.commit([staged])
    except NotLandedError:
        table.discard([staged])
        raise


def _verified(message: SourceMessage) -> Segment:
    """Return the message as a segment, checked in everything that needs no decoding."""
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


class Stager:
    """Stages the messages of one attempt as they come. For one thread; `stage` does it in one call.

    After an exception, or if the attempt is given up, call `discard`.
    """

    def __init__(self, *, table: LakeTable, planner: Planner) -> None:
        self._table = table
        self._planner = planner
        self._writers: list[FileWriter] = []  # all: a failing attempt removes its files
        self._open: dict[SourcePartition, _OpenFile] = {}  # the longest waiting first
        self._staged: list[StagedFile] = []
        self._rewriter = Rewriter()

    def add(self, message: SourceMessage) -> None:
        """Verify a message and write it to a file, unless it does not land. Keeps no value.

        Raises:
            LakeError, OSError: as `stage`.
        """
        if (placement := self._planner.place(message)) is None:
            return
        segment = _verified(message)
        file = self._open.pop(placement.source, None)
        if file and (placement.starts_file or not file.append(placement, segment)):
            self._staged.append(file.finish())
            file = None
        if file is None:
            file = self._begin(placement, segment)
        if file.is_open:
            self._open[placement.source] = file
        else:
            self._staged.append(file.finish())

    def finish(self, ranges: Iterable[ReadRange] = ()) -> StageResult:
        """Make all files durable; `ranges` are what was read, as far as that is known."""
        self._staged += [file.finish() for file in self._open.values()]
        return StageResult(
            files=tuple(self._staged),
            ranges=tuple(ranges),
            landed_before=self._planner.landed_before,
            repeated=self._planner.repeated,
            rewritten=self._rewriter.segments,
        )

    def discard(self) -> None:
        """Remove all files. Raises nothing."""
        for writer in self._writers:
            writer.discard()

    def _begin(self, placement: Placement, segment: Segment) -> _OpenFile:
        if len(self._open) == MAX_OPEN:
            self._staged.append(self._open.pop(next(iter(self._open))).finish())
        writer = self._table.create(placement.source, placement.offset, segment.schema)
        self._writers.append(writer)
        stitch = self._planner.layout.mode is Mode.STITCHED
        return _OpenFile(writer, placement, segment, self._rewriter, stitch=stitch)


class _OpenFile:
    """One file being written; `is_open` while more segments may be appended."""

    def __init__(
        self,
        writer: FileWriter,
        placement: Placement,
        segment: Segment,
        rewriter: Rewriter,
        *,
        stitch: bool,
    ) -> None:
        self._writer = writer
        self._rewriter = rewriter
        self._first = self._last = placement
        self._messages = self._rows = 0
        self._digest = hashlib.sha256()
        self._stitcher = Stitcher(cast("BinaryIO", writer), writer.field_ids)  # only writes
        # What is encoded anew is stitched in any case: its bytes are not those that were sent.
        is_new = writer.cast_to is not None
        self.is_open = (stitch or is_new) and self.append(placement, segment)
        if not self.is_open:  # verbatim: the layout, or a segment that cannot be stitched
            if is_new:
                raise LakeError(f"{segment.address}: cannot be stitched after it was cast")
            writer.write(segment.bytes)
            self._count(placement)

    def append(self, placement: Placement, segment: Segment) -> bool:
        """Stitch a segment to those before it; return False if it cannot be, nothing written."""
        cast_to = self._writer.cast_to
        try:
            self._stitcher.append(
                segment.bytes if cast_to is None else self._rewriter.cast(segment, cast_to)
            )
        except StitchError:
            return False
        self._count(placement)
        return True

    def finish(self) -> StagedFile:
        """Write the footer of a stitched file, and make the file durable."""
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
            nbytes=self._writer.finish(),
            segment=header.segment,
            schema=header.schema,
            digest=self._digest.hexdigest(),
            path=self._writer.path,
        )

    def _count(self, placement: Placement) -> None:
        self._last = placement
        self._messages += 1
        self._rows += placement.header.rows
        self._digest.update(placement.digest)

    def _metadata(self) -> dict[str, str]:
        """Return a stitched file's key-value metadata, equal for equal input.

        So staging the same input again makes the same file. The segments' own key-values are left
        out: a segment's id and times are in its rows.
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
