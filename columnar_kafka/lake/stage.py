"""Messages to staged files: every segment is verified, then written as it is or stitched.

One segment is in memory at a time, and a file is written as its segments arrive.
"""

from __future__ import annotations

import datetime
import hashlib
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.file_metadata import file_metadata
from columnar_kafka.lake.model import StagedFile, StageResult, UnlandableError
from columnar_kafka.lake.plan import Mode, Planner
from columnar_kafka.lake.rewrite import Rewriter
from columnar_kafka.lake.row_groups import StitchError
from columnar_kafka.lake.rules import Rules
from columnar_kafka.lake.set_aside import SetAside, land_staged
from columnar_kafka.lake.stitch import Stitcher
from columnar_kafka.segment.decoder import fingerprint_of
from columnar_kafka.segment.parquet.metadata import has_encrypted_columns
from columnar_kafka.segment.parquet.page_walk import footer_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from columnar_kafka.lake.model import (
        CommitResult,
        FileWriter,
        Fitting,
        LakeTable,
        PartitionValues,
        ReadRange,
        SourceMessage,
        SourcePartition,
        TopicGeneration,
    )
    from columnar_kafka.lake.plan import Layout, Placement
    from columnar_kafka.lake.rewrite import SegmentPart
    from columnar_kafka.segment.segment import Segment

__all__ = ["MAX_OPEN", "Stager", "land", "stage"]

MAX_OPEN: Final = 64
"""The most files that are written at the same time; each takes a handle and up to 2.2 MB of footer.
With more partitions than that in one process, the file that waited longest is finished early."""


def stage(
    messages: Iterable[SourceMessage],
    *,
    table: LakeTable,
    planner: Planner,
    ranges: Iterable[ReadRange] = (),
    rules: Rules | None = None,
) -> StageResult:
    """Write the messages that land to files of `table`, durable and not yet visible.

    Called once for each attempt (a task of Spark), with a new planner. Takes one message at a time
    and keeps no value. Blocks while it writes. `messages` are all that there are in `ranges`, as
    far as those are known.

    Raises:
        LakeError: a message cannot land, and the rules do not set it aside; the error names topic,
            partition and offset. Or something cannot be written.
        OSError: a file cannot be written.
        Exception: whatever `messages` raises. After any exception no file of the attempt is left.
    """
    attempt = Stager(table=table, planner=planner, rules=rules)
    try:
        for message in messages:
            attempt.add(message)
        return attempt.finish(ranges)
    except BaseException:
        attempt.discard()
        raise


def land(
    messages: Iterable[SourceMessage],
    *,
    table: LakeTable,
    generations: Mapping[str, TopicGeneration],
    layout: Layout | None = None,
    rules: Rules | None = None,
) -> CommitResult:
    """Plan, stage and commit in one process. When it returns, all messages have landed.

    Raises:
        NotLandedError: nothing has landed, and no staged file is left.
        MayHaveLandedError: the messages may have landed; it is safe to land them again.
        LakeError, OSError: as `stage`; nothing has landed.
    """
    planner = Planner(fences=table.fences(), generations=generations, layout=layout)
    staged = stage(messages, table=table, planner=planner, rules=rules)
    return land_staged(table, [staged], rules or Rules())


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.timezone.utc).date()


def _verified(message: SourceMessage, rules: Rules) -> tuple[Segment, bool]:
    """Return the message as a verified segment, and whether it may share a file."""
    try:
        segment = message.segment()
        return segment, segment.verify(rules.verify)
    except SegmentError as error:
        raise UnlandableError(error.reason) from error


class Stager:
    """Stages the messages of one attempt as they come. For one thread; `stage` does it in one call.

    After an exception, or if the attempt is given up, call `discard`.
    """

    def __init__(
        self,
        *,
        table: LakeTable,
        planner: Planner,
        rules: Rules | None = None,
        today: Callable[[], datetime.date] | None = None,
    ) -> None:
        """Stage for a table; `today` tells the date of `_ingest_date`, by default in UTC."""
        self._table = table
        self._rules = rules or Rules()
        self._planner = planner
        self._today = today or _today
        self._writers: list[FileWriter] = []  # all: a failing attempt removes its files
        self._open: dict[SourcePartition, _Batch] = {}  # the longest waiting first
        self._staged: list[StagedFile] = []
        self._set_aside = SetAside(self._rules, planner.fences)
        self._fittings: dict[str, Fitting] = {}  # by the segments' schema
        self._rewriter = Rewriter(self._rules.straddle)

    def add(self, message: SourceMessage) -> None:
        """Verify a message and write it to a file, or set it aside. Keeps no segment.

        Raises:
            LakeError, OSError: as `stage`.
        """
        try:
            placed = self._placed(message)
        except UnlandableError as error:
            if not self._set_aside.take(self._planner.source(message), message, error):
                raise
            return
        if placed is not None:
            self._write(*placed)

    def _placed(self, message: SourceMessage) -> _Placed | None:
        """Verify a message; return where it lands and as what, if it does."""
        if (placement := self._planner.place(message)) is None:
            return None
        if self._set_aside.has(placement.source, message.offset):
            return None
        if placement.starts_file and (ended := self._open.pop(placement.source, None)):
            self._staged += ended.finish()
        segment, may_share = _verified(message, self._rules)
        fitting = self._fitting(segment)
        parts = self._rewriter.parts(segment, fitting, placement.source, self._today())
        return _Placed(placement, segment.schema, fitting, parts, may_share)

    def _write(
        self,
        placement: Placement,
        schema: pa.Schema,
        fitting: Fitting,
        parts: Sequence[SegmentPart],
        may_share: bool,
    ) -> None:
        batch = self._open.pop(placement.source, None)
        if batch and not (may_share and batch.append(placement, parts)):
            self._staged += batch.finish()
            batch = None
        if batch is None:
            stitch = self._planner.layout.mode is Mode.STITCHED
            batch = _Batch(self._opener(schema), fitting.unstated, stitch=stitch)
            batch.append(placement, parts)
        if batch.is_open and may_share:
            self._open[placement.source] = batch
        else:
            self._staged += batch.finish()

    def finish(self, ranges: Iterable[ReadRange] = ()) -> StageResult:
        """Make all files durable; `ranges` are what was read, as far as that is known.

        Blocks while it writes. Raises as `add`.
        """
        for batch in self._open.values():
            self._staged += batch.finish()
        return replace(
            self._set_aside.finish(),
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
        self._set_aside.discard()

    def _fitting(self, segment: Segment) -> Fitting:
        name = segment.header.schema
        if name not in self._fittings:
            self._fittings[name] = self._table.fit(segment.schema)
        return self._fittings[name]

    def _make_room(self, batch: _Batch) -> None:
        """Finish what waited longest, so that a batch may open a file: others first."""
        while sum(each.number_open for each in (batch, *self._open.values())) >= MAX_OPEN:
            if self._open:
                self._staged += self._open.pop(next(iter(self._open))).finish()
            else:
                batch.finish_oldest()

    def _opener(
        self, schema: pa.Schema
    ) -> Callable[[_Batch, Placement, PartitionValues], FileWriter]:
        """Return what opens files for a batch with segments of a schema."""

        def create(batch: _Batch, placement: Placement, partition: PartitionValues) -> FileWriter:
            self._make_room(batch)
            writer = self._table.create(placement.source, placement.offset, schema, partition)
            self._writers.append(writer)
            return writer

        return create


class _Placed(NamedTuple):
    """A verified segment: where it lands, and its parts."""

    placement: Placement
    schema: pa.Schema
    fitting: Fitting
    parts: Sequence[SegmentPart]
    may_share: bool


class _Batch:
    """Consecutive segments of one schema, in a file for each partition of the table.

    It `is_open` while more segments may be appended.
    """

    def __init__(
        self,
        create: Callable[[_Batch, Placement, PartitionValues], FileWriter],
        unstated: frozenset[int],
        *,
        stitch: bool,
    ) -> None:
        self._create = create
        self._unstated = unstated
        self._stitch = stitch
        self._messages = 0
        self._digest = hashlib.sha256()
        self._open: dict[PartitionValues, _OpenFile] = {}  # the longest waiting first
        self._finished: list[_FinishedFile] = []
        self._first: Placement
        self._last: Placement

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    @property
    def number_open(self) -> int:
        """The number of files that are being written."""
        return len(self._open)

    def append(self, placement: Placement, parts: Sequence[SegmentPart]) -> bool:
        """Append a segment; return False if it needs a batch of its own, nothing written."""
        for part in parts:
            file = self._open.pop(part.partition, None)
            if file is not None and not file.append(placement, part):
                if not part.partition:  # a table without partitions has one file a batch
                    self._open[()] = file
                    return False
                self._finished.append(file.finish())
                file = None
            if file is None:
                writer = self._create(self, placement, part.partition)
                file = _OpenFile(writer, placement, part, self._unstated, stitch=self._stitch)
            if file.is_open:
                self._open[part.partition] = file
            else:
                self._finished.append(file.finish())
        if not self._messages:
            self._first = placement
        self._last = placement
        self._messages += 1
        self._digest.update(placement.digest)
        return True

    def finish_oldest(self) -> None:
        """Make the file that waited longest durable: more segments begin another."""
        self._finished.append(self._open.pop(next(iter(self._open))).finish())

    def finish(self) -> list[StagedFile]:
        """Make all files durable."""
        files = [*self._finished, *(file.finish() for file in self._open.values())]
        batch = uuid.uuid4().hex if files[0].partition else ""
        source, header = self._first.source, self._last.header
        return [
            StagedFile(
                fence=source.fence,
                topic=source.topic,
                partition=source.partition,
                first=self._first.offset,
                last=self._last.offset,
                messages=0 if number else self._messages,
                rows=file.rows,
                nbytes=file.nbytes,
                segment=header.segment,
                schema=header.schema,
                digest=self._digest.hexdigest(),
                path=file.path,
                batch=batch,
                table_partition=file.partition or None,
                is_encrypted=file.is_encrypted,
            )
            for number, file in enumerate(files)
        ]


class _FinishedFile(NamedTuple):
    """One durable file of a batch."""

    path: str
    rows: int
    nbytes: int
    partition: PartitionValues
    is_encrypted: bool


class _OpenFile:
    """One file being written; `is_open` while more segments may be appended."""

    def __init__(
        self,
        writer: FileWriter,
        placement: Placement,
        part: SegmentPart,
        unstated: frozenset[int],
        *,
        stitch: bool,
    ) -> None:
        self._writer = writer
        self._partition = part.partition
        self._schema = placement.header.schema
        if part.is_rewritten:
            self._schema = fingerprint_of(part.data)
        self._first = self._last = placement
        self._messages = self._rows = 0
        self._is_encrypted = False
        sink = cast("BinaryIO", writer)  # only writes
        self._stitcher = Stitcher(sink, writer.field_ids, unstated)
        # What is encoded anew is stitched in any case: its bytes are not those that were sent.
        self.is_open = (stitch or part.is_rewritten) and self.append(placement, part)
        if not self.is_open:  # verbatim: the layout, or a segment that cannot be stitched
            writer.write(part.data)
            self._is_encrypted = has_encrypted_columns(footer_bytes(bytes(part.data)))
            self._count(placement, part)

    def append(self, placement: Placement, part: SegmentPart) -> bool:
        """Stitch a part to those before it; return False if it cannot be, nothing written."""
        try:
            self._stitcher.append(part.data)
        except StitchError:
            return False
        self._count(placement, part)
        return True

    def finish(self) -> _FinishedFile:
        """Write the footer of a stitched file, and make the file durable."""
        if self.is_open:
            rows = self._stitcher.finish(self._metadata()).rows
            if rows != self._rows:
                raise LakeError(
                    f"{self._first.source}: {rows} rows were stitched, not {self._rows}"
                )
        nbytes = self._writer.finish()
        return _FinishedFile(
            self._writer.path, self._rows, nbytes, self._partition, self._is_encrypted
        )

    def _count(self, placement: Placement, part: SegmentPart) -> None:
        self._last = placement
        self._messages += 1
        self._rows += part.rows

    def _metadata(self) -> dict[str, str]:
        return file_metadata(
            self._first.source,
            schema=self._schema,
            rows=self._rows,
            segments=self._messages,
            first=self._first.offset,
            last=self._last.offset,
        )
