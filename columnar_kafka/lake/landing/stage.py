"""Messages to staged files: every segment is verified, then written as it is or stitched.

One large segment is in memory at a time, and a file is written as they arrive. Small segments and
plain messages to be decoded wait (see `runs`), and then go the way of a large segment's rows.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from columnar_kafka.errors import SegmentError
from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.aside.set_aside import SetAside, land_staged
from columnar_kafka.lake.landing.batch import Batch
from columnar_kafka.lake.landing.decoders import Decoders
from columnar_kafka.lake.landing.guesses import Guesses
from columnar_kafka.lake.landing.rewrite import Rewriter
from columnar_kafka.lake.landing.runs import WaitingMessage, WaitingRuns
from columnar_kafka.lake.landing.small_segments import SmallSegments, VerifiedSegment
from columnar_kafka.lake.model import StageResult, UnlandableError
from columnar_kafka.lake.plan import Mode, Placed, Planner
from columnar_kafka.lake.tables.files import new_file
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.segment import said_of_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from columnar_kafka.lake.aside.decoding import DecodedMessages
    from columnar_kafka.lake.landing.core_rows import CoreRows
    from columnar_kafka.lake.landing.rewrite import SegmentPart
    from columnar_kafka.lake.model import (
        CommitResult,
        FileWriter,
        Fitting,
        PartitionValues,
        PlainMessages,
        ReadRange,
        SourceMessage,
        SourcePartition,
        StagedFile,
        TopicGeneration,
    )
    from columnar_kafka.lake.plan import Layout, Placement
    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.native import _core as core
    from columnar_kafka.segment.headers import SegmentHeader
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
    and keeps no segment. Blocks while it writes. `messages` are all that there are in `ranges`, as
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
    rules = (rules or Rules()).decided(table)
    staged = stage(messages, table=table, planner=planner, rules=rules)
    return land_staged(table, [staged], rules)


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
        """Stage for a table; `today` tells the date of `_ingest_date`, by default in UTC.

        Raises:
            ConfigError: as `Rules.check_apart`.
            LakeError, OSError: the dead letters cannot be read.
        """
        self._table = table
        self._rules = rules or Rules()
        self._rules.check_apart(table)
        self._planner = planner
        self._today = today or _today
        self._writers: list[FileWriter] = []  # all: a failing attempt removes its files
        self._open: dict[SourcePartition, Batch] = {}  # the longest waiting first
        self._staged: list[StagedFile] = []
        self._set_aside = SetAside(self._rules, planner.fences)
        self._fittings: dict[str, Fitting] = {}  # by the segments' schema
        self._rewriter = Rewriter(self._rules.straddle)
        self._guesses = Guesses(table)
        self._small = SmallSegments(self._rewriter, self._verified, self._fitting_as_it_is)
        decoding = self._rules.decoding
        self._plain = None if decoding is None else Decoders(decoding, table, self._fitting)
        self._waiting = WaitingRuns()
        self._decoded: dict[str, int] = {}  # see `StageResult`

    def add(self, message: SourceMessage) -> None:
        """Verify a message and write it to a file, or set it aside. Keeps no large segment.

        A small segment, and a plain message that is to be decoded, waits for those after it: its
        error may come from a later call, or from `finish`.

        Raises:
            LakeError, OSError: as `stage`.
        """
        try:
            placement = self._planner.place(message, self._header(message))
        except UnlandableError as error:
            self._refuse(message, error)
            return
        if placement is None:
            return
        if not placement.joins_run or self._waiting.has_rows(placement.source):
            self._land_run(placement.source)
        if placement.starts_file:  # also if another message will be its first
            self._end_file(placement.source)
        if self._set_aside.has(placement.source, message.offset):
            return
        if not placement.in_run:
            for segment in self._verified([WaitingMessage(placement, message)]):
                self._write(*segment.alone(self._rewriter))
            return
        self._waiting.add(placement, message)
        if (largest := self._waiting.too_large()) is not None:
            self._land_run(largest)

    def _header(self, message: SourceMessage) -> SegmentHeader | None:
        """Return what the plan needs to know of a plain message that is to be decoded."""
        if self._plain is None or not message.is_plain:
            return None
        return self._plain.decoder.header(self._planner.source(message).fence, message.offset)

    def add_plain(self, messages: PlainMessages) -> None:
        """Take plain messages, as `add` takes each of them.

        Raises:
            LakeError, OSError: as `stage`.
        """
        source, plain, start = self._planner.source(messages), self._plain, 0
        core = self._core_for(source, messages)
        while start < len(messages):
            if core is not None and plain is not None and core.decoder is not plain.decoder:
                core = plain.core()  # the table has grown
            waits = self._waiting.has_messages(source)
            if core is None or plain is None or (waits and plain.growth is not None):
                self.add(messages.message(start))
                start += 1
                continue
            if waits:
                self._land_run(source)
                if core.decoder is not plain.decoder:
                    continue
            header = core.decoder.header(source.fence, messages.core.offset(start))
            placement, stop = self._planner.place_plain(messages, start, header)
            if not placement.joins_run:
                self._land_run(source)
            if placement.starts_file:
                self._end_file(source)
            self._fill(placement, messages, range(start, stop), core)
            start = stop

    def _core_for(self, source: SourcePartition, messages: PlainMessages) -> CoreRows | None:
        """Return what makes rows of these messages without a step for each, if they are usual."""
        plain = self._plain
        if plain is None or self._set_aside.may_have(source):
            return None
        if not self._planner.takes_all(messages):
            return None
        if plain.decoder.waits_for_columns:  # the first message says some
            for first, _ in plain.decoder.parts([messages.message(0)], plain.fits):
                if not first.is_alone:
                    self._decode_by(plain, first)
        return plain.core_for(messages)

    def _fill(
        self, placement: Placement, messages: PlainMessages, indices: range, core: CoreRows
    ) -> None:
        """Have the core make rows of messages; what it leaves is decoded for itself."""
        source, at, plain = placement.source, indices.start, self._plain
        assert plain is not None
        while at < indices.stop:
            rows = self._waiting.rows(placement, lambda: core.begin(source.fence))
            at = core.append(rows, messages, range(at, indices.stop))
            if at < indices.stop:
                together = rows.is_given_up or plain.growth is not None
                end = indices.stop if together else at + 1
                left = [
                    core.waiting(placement, messages.message(index)) for index in range(at, end)
                ]
                if plain.growth is not None:  # what comes after them tells more columns
                    self._land_run(source)
                    for waiting in left:
                        self._waiting.add(*waiting)
                else:
                    self._land_messages(source, left, plain)
                    if core.decoder is not plain.decoder:  # what follows comes before it grew
                        for index in range(end, indices.stop):
                            self._waiting.add(*core.waiting(placement, messages.message(index)))
                        end = indices.stop
                at = end
        self._waiting.measure(source)
        if (largest := self._waiting.too_large()) is not None:
            self._land_run(largest)

    def _refuse(self, message: SourceMessage, error: UnlandableError) -> None:
        """Set a message aside, or raise why it cannot land."""
        if not self._set_aside.take(self._planner.source(message), message, error):
            raise error

    def _refuse_plain(self, message: SourceMessage, reason: str) -> None:
        self._refuse(message, UnlandableError(f"plain message at {message}: {reason}"))

    def _land_run(self, source: SourcePartition) -> None:
        """Write the run of a partition, if it has one, and set aside what cannot land."""
        if (run := self._waiting.take(source)) is None:
            return
        plain = self._plain
        if run.rows is not None and plain is not None:
            self._write_rows(*run.rows, plain)
        elif run.messages[0].placement.is_plain and plain is not None:
            self._land_messages(source, run.messages, plain)
        else:
            for row_group in self._small.row_groups(run.messages):
                self._write(*row_group)

    def _verified(self, run: Iterable[WaitingMessage]) -> Iterator[VerifiedSegment]:
        """Yield the segments that can land, verified, and set aside the others."""
        for placement, message in run:
            try:
                segment, may_share = _verified(message, self._rules)
                fitted = self._fitted(placement, segment, may_share)
            except UnlandableError as error:
                self._refuse(message, error)
            else:
                yield fitted

    def _fitted(self, placement: Placement, segment: Segment, may_share: bool) -> VerifiedSegment:
        """Return a segment as it fits the table. Raises UnlandableError."""
        name, schema, adapted = segment.header.schema, segment.schema, None
        if self._guesses.contradict(name, schema, said_of_values(segment)):
            adapted = self._guesses.adapted(segment)
            name, schema, may_share = fingerprint(adapted.schema), adapted.schema, True
        try:
            fitting = self._fitting(name, schema)
        except UnlandableError:  # the table may not grow, say
            if (adapted := self._guesses.narrowed(segment)) is None:
                raise
            name, schema, may_share = fingerprint(adapted.schema), adapted.schema, True
            fitting = self._fitting(name, schema)
        source, today = placement.source, self._today()
        rows = self._rewriter.divided(segment, fitting, source, today, adapted)
        return VerifiedSegment(placement, schema, fitting, rows, may_share)

    def _fitting_as_it_is(
        self, name: str, schema: pa.Schema, said: Mapping[bytes, bytes]
    ) -> Fitting:
        """Return how a small segment lands that is put to others as it is."""
        if self._guesses.contradict(name, schema, said):
            raise UnlandableError("it contradicts columns before it")
        return self._fitting(name, schema)

    def _land_messages(
        self, source: SourcePartition, messages: Sequence[WaitingMessage], plain: Decoders
    ) -> None:
        """Write plain messages after what waits of their partition, and set aside the others.

        Those whose columns contradict the ones before them are in files of their own.
        """
        left = iter(messages)
        sent = [waiting.message for waiting in messages]
        for of_part, part in plain.decoder.parts(sent, plain.fits):
            decoder = of_part
            if decoder.is_alone:
                self._land_run(source)
                self._end_file(source)
            elif decoder is not plain.decoder:
                self._decode_by(plain, decoder)
            decoded = decoder.decode(source.fence, part)
            if plain.growth is not None and (wider := plain.growth.after(decoded.rows)) is not None:
                decoder = PlainDecoder(wider)
                self._decode_by(plain, decoder)
                decoded = decoder.decode(source.fence, part)
            self._land_decoded(list(islice(left, len(part))), decoder, decoded)
            if decoder.is_alone:
                self._end_file(source)

    def _land_decoded(
        self, messages: Sequence[WaitingMessage], decoder: PlainDecoder, decoded: DecodedMessages
    ) -> None:
        """Write the rows of messages, and set aside those that were refused, or do not fit."""
        source, plain = messages[0].placement.source, self._plain
        assert plain is not None
        if messages[0].placement.header.schema != decoder.fingerprint:  # they came before it grew
            messages = [waiting.under(decoder.header) for waiting in messages]
        for index, reason in decoded.refused.items():
            self._refuse_plain(messages[index].message, reason)
        good = [waiting for index, waiting in enumerate(messages) if index not in decoded.refused]
        if not good:
            return
        self._land_run(source)
        try:
            fitting = plain.fitting(decoder)
        except UnlandableError as error:
            for waiting in good:
                self._refuse_plain(waiting.message, error.reason)
        else:
            self._write_run(good, decoded.rows, fitting)

    def _decode_by(self, plain: Decoders, decoder: PlainDecoder) -> None:
        """Decode in this way from now on, in files of its own if there are other columns."""
        for source in self._waiting.sources():
            if self._waiting.has_rows(source):
                self._land_run(source)
        if plain.lead(decoder):
            for source in list(self._open):
                self._end_file(source)

    def _write_rows(self, place: Placement, rows: core.PlainBatch, plain: Decoders) -> None:
        """Write rows that the core has made, if there are any."""
        core, decoder = plain.core(), plain.decoder
        if not len(rows) or core is None:
            return
        fence = place.source.fence
        first, last = (
            place._replace(offset=offset, header=decoder.header(fence, offset))
            for offset in (rows.first, rows.last)
        )
        placed, fitting = Placed(first, last, len(rows), rows.digests), plain.fitting(decoder)
        self._write(placed, decoder.schema, fitting, [core.encoded(rows)], may_share=True)

    def _write_run(self, run: Sequence[WaitingMessage], rows: pa.Table, fitting: Fitting) -> None:
        """Write decoded rows together, or else each half of them: one bad row spoils no other."""
        placements = [waiting.placement for waiting in run]
        source, schema = placements[0].source, placements[0].header.schema
        try:
            parts = self._rewriter.encoded(rows, schema, fitting, source, self._today())
        except UnlandableError as error:
            if len(run) == 1:
                self._refuse_plain(run[0].message, error.reason)
                return
            half = len(run) // 2
            self._write_run(run[:half], rows.slice(0, half), fitting)
            self._write_run(run[half:], rows.slice(half), fitting)
        else:
            self._write(Placed.of(placements), rows.schema, fitting, parts, may_share=True)

    def _end_file(self, source: SourcePartition) -> None:
        """Finish what is open of a partition, if anything is."""
        if ended := self._open.pop(source, None):
            self._finish(ended)

    def _finish(self, batch: Batch) -> None:
        files = batch.finish()
        self._staged += files
        if batch.decoded:
            self._decoded[files[0].path] = batch.decoded

    def _write(
        self,
        placed: Placed,
        schema: pa.Schema,
        fitting: Fitting,
        parts: Sequence[SegmentPart],
        may_share: bool,
    ) -> None:
        source = placed.first.source
        batch = self._open.pop(source, None)
        if batch and not (may_share and batch.append(placed, parts)):
            self._finish(batch)
            batch = None
        if batch is None:
            stitch = fitting.restates or self._planner.layout.mode is Mode.STITCHED
            batch = Batch(self._opener(schema), fitting.unstated, stitch=stitch)
            batch.append(placed, parts)
        if batch.is_open and may_share:
            self._open[source] = batch
        else:
            self._finish(batch)

    def finish(self, ranges: Iterable[ReadRange] = ()) -> StageResult:
        """Make all files durable; `ranges` are what was read, as far as that is known.

        Blocks while it writes. Raises as `add`.
        """
        for source in self._waiting.sources():
            self._land_run(source)
        for batch in self._open.values():
            self._finish(batch)
        return replace(
            self._set_aside.finish(),
            files=tuple(self._staged),
            ranges=tuple(ranges),
            landed_before=self._planner.landed_before,
            repeated=self._planner.repeated,
            rewritten=self._rewriter.segments,
            decoded=self._decoded,
        )

    def discard(self) -> None:
        """Remove all files. Raises nothing."""
        for writer in self._writers:
            writer.discard()
        self._set_aside.discard()

    def _fitting(self, name: str, schema: pa.Schema) -> Fitting:
        if name not in self._fittings:
            self._fittings[name] = self._table.fit(schema)
        return self._fittings[name]

    def _make_room(self, batch: Batch) -> None:
        """Finish what waited longest, so that a batch may open a file: others first."""
        while sum(other.number_open for other in (batch, *self._open.values())) >= MAX_OPEN:
            if self._open:
                self._end_file(next(iter(self._open)))
            else:
                batch.finish_oldest()

    def _opener(
        self, schema: pa.Schema
    ) -> Callable[[Batch, Placement, PartitionValues], FileWriter]:
        """Return what opens files for a batch with segments of a schema."""

        def create(batch: Batch, placement: Placement, partition: PartitionValues) -> FileWriter:
            self._make_room(batch)
            writer = new_file(self._table, placement.source, placement.offset, schema, partition)
            self._writers.append(writer)
            return writer

        return create
