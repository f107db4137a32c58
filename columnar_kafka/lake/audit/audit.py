"""Whether each committed message of a topic is in a table once, and what is there is equal.

A stitched file says from which offsets it came: its rows are decoded and compared with those of the
messages, in order. A verbatim file has the SHA-256 of its message. In a file of another writer
(OPTIMIZE, for example), or of a table with partitions, rows are found by ``_kafka.segment`` and
``_kafka.row``.

Plain messages that have landed as rows are decoded once more, in runs, and compared as the rows of
segments are. Where nobody says how, their rows are passed over.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import SegmentError
from columnar_kafka.lake.aside.dead_letters import replayed_place, source_topic
from columnar_kafka.lake.aside.decoding import BLOCK, PLAIN_ID, PlainDecoder
from columnar_kafka.lake.audit.landed_rows import SentRun, all_ids, differing, row_ids
from columnar_kafka.lake.audit.rows_by_id import UNREADABLE, RowsById, Waiting, offsets_of
from columnar_kafka.lake.model import REPLAY
from columnar_kafka.lake.plan import message_nbytes
from columnar_kafka.lake.stitching.file_metadata import file_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from columnar_kafka.lake.aside.dead_letters import Taken
    from columnar_kafka.lake.aside.decoding import Decoding
    from columnar_kafka.lake.audit.landed_rows import RowIds
    from columnar_kafka.lake.model import Fence, LandedFile, SourceMessage
    from columnar_kafka.segment.segment import Segment

__all__ = ["AuditReport", "Finding", "TopicAudit"]

_RUN_BYTES: Final = 16 << 20

Kind = Literal[
    "missing",
    "twice",
    "different",
    "not committed",
    "past the fence",
    "not provable",
    "wrong bounds",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong with the offsets `first` to `last` of a partition, or with a file."""

    kind: Kind
    reason: str
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    file: str = ""


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What is in the table once and equal: `messages` and their `rows`; and what is wrong.

    So are `decoded` plain messages, each of them a row. Where nobody says how to decode them, the
    `plain` messages were not looked for. `expired` are offsets, by partition as (first, last), that
    have landed and that Kafka has deleted since: they cannot be compared. `outside` are those that
    Kafka has before the first that landed, or of a partition of which nothing did. `dead_letters`
    are not in the table.
    """

    messages: int = 0
    rows: int = 0
    decoded: int = 0
    files: int = 0
    plain: int = 0
    dead_letters: int = 0
    expired: dict[int, tuple[int, int]] = field(default_factory=dict)
    outside: dict[int, tuple[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A file that has the messages from offset `first` to `last`."""

    file: LandedFile
    partition: int
    first: int
    last: int
    rows: int
    is_verbatim: bool


class TopicAudit:
    """Compares the files of one topic with its messages, one partition after the other."""

    def __init__(
        self,
        topic: str,
        files: Iterable[LandedFile],
        fences: Mapping[str, Fence],
        decoding: Decoding | None = None,
    ) -> None:
        """Read the footers of all files, and of some the ids of their rows. Blocks.

        What cannot be read is a finding. `fences` are the table's, and `decoding` is how plain
        messages landed, if they did.
        """
        self.report = AuditReport()
        self._topic = topic
        self._fences = _fences_of(topic, fences)
        self._decoder = None if decoding is None else PlainDecoder(decoding)
        self._claims: dict[int, list[_Claim]] = defaultdict(list)
        self._by_id = RowsById()
        self._waiting = Waiting(self._by_id)
        self._letters: Taken | None = None  # of the partition
        self._offsets = array("q")  # of its messages that are compared, and of the one before them
        for file in files:
            self.report.files += 1
            try:
                self._take(file)
            except UNREADABLE as error:
                self._find("not provable", str(error), file=file.path)

    def compare(
        self,
        fence: Fence,
        low: int,
        messages: Iterable[SourceMessage],
        letters: Taken | None = None,
    ) -> None:
        """Compare a partition.

        Args:
            fence: how far it has landed.
            low: the first offset that Kafka still has.
            messages: the committed ones from `low` or the fence's first offset, whichever is
                higher, to before the fence's next offset.
            letters: its dead letters, which need not be in the table.
        """
        self._letters = letters
        self._offsets = array("q")
        if low > fence.first:
            self.report.expired[fence.partition] = (fence.first, min(low, fence.next) - 1)
        elif low < fence.first:
            self.report.outside[fence.partition] = (low, fence.first - 1)
        claims = self._disjoint(fence)
        edges = [edge for claim in claims for edge in (claim.first, claim.last + 1)]
        inside: list[Segment | SentRun] = []
        waiting = iter(claims)
        claim = next(waiting, None)
        for sent in self._sent(messages, edges):
            while claim is not None and claim.last < sent.kafka_offset:
                self._compare_file(claim, inside, low)
                claim, inside = next(waiting, None), []
            if claim is not None and claim.first <= sent.kafka_offset:
                inside.append(sent)
            else:
                self._compare_rows(sent)
            first = self._waiting.first or (inside or [sent])[0]
            del self._offsets[: max(0, bisect_left(self._offsets, first.kafka_offset) - 1)]
        while claim is not None:
            self._compare_file(claim, inside, low)
            claim, inside = next(waiting, None), []
        self._look_up()

    def _sent(
        self, messages: Iterable[SourceMessage], edges: Sequence[int]
    ) -> Iterator[Segment | SentRun]:
        """Yield segments, and runs of plain messages that no file begins or ends within."""
        run: list[SourceMessage] = []
        nbytes, begun = 0, (0, 0)
        for message in messages:
            self._offsets.append(message.offset)
            is_plain = message.is_plain
            place = message.offset // BLOCK, bisect_right(edges, message.offset)
            if run and (not is_plain or place != begun or nbytes > _RUN_BYTES):
                yield from self._decoded(run)
                run, nbytes = [], 0
            begun = place
            if not is_plain:
                if (segment := self._segment(message)) is not None:
                    yield segment
            elif self._decoder is None:
                self.report.plain += 1
            else:
                run.append(message)
                nbytes += message_nbytes(message)
        if run:
            yield from self._decoded(run)

    def _decoded(self, run: Sequence[SourceMessage]) -> Iterator[SentRun]:
        """Yield messages as a run, without those that cannot be decoded; or as several.

        They are several where messages say their schemas, and these contradict.
        """
        assert self._decoder is not None
        fence = self._fences[run[0].partition][0]
        for decoder, part in self._decoder.parts(run):
            self._decoder = self._decoder if decoder.is_alone else decoder
            rows, refused = decoder.decode(fence, part)
            for index, reason in refused.items():
                self._lack(part[index].partition, part[index].offset, reason)
            offsets = [message.offset for index, message in enumerate(part) if index not in refused]
            if offsets:
                yield SentRun(part[0].partition, fence, offsets, rows, decoder.same_values)

    def finish(self, partitions: Iterable[int], *, is_alone: bool = True) -> AuditReport:
        """Return the report, when all `partitions` that have a fence were compared.

        If the topic `is_alone` in the table, all rows have to be its own.
        """
        for number in sorted(self._claims.keys() - set(partitions)):
            for claim in self._claims[number]:
                self._find("past the fence", "the table has no fence of this partition", claim)
        if is_alone and not self.report.expired:
            for segment, file in self._by_id.left(plain=self._decoder is not None):
                if not segment:
                    reason = "rows of no message: another program has written them"
                else:
                    what = "a row of" if segment.startswith(PLAIN_ID) else "segment"
                    reason = f"{what} {segment} is not a message of the topic"
                self._find("not committed", reason, file=file)
        return self.report

    def _take(self, file: LandedFile) -> None:
        """Find out which messages a file has."""
        if file.partition:
            self._by_id.add(file)
            return
        metadata = pq.read_metadata(file.footer())
        messages = file_messages(file.path, metadata.metadata)
        if messages is None:
            self._by_id.add(file)
        elif messages.topic != self._topic:
            pass
        elif messages.cluster == REPLAY:  # its offsets lie between those of other files
            self._by_id.add(file)
        else:
            number, first, last = messages.partition, messages.first, messages.last
            claim = _Claim(file, number, first, last, metadata.num_rows, messages.is_verbatim)
            self._claims[number].append(claim)

    def _disjoint(self, fence: Fence) -> list[_Claim]:
        """Return the files of a partition by offset; others within their ranges count by their ids.

        These have replayed dead letters, or rows twice.
        """
        end = -1
        ordered = sorted(
            self._claims[fence.partition], key=lambda claim: (claim.first, -claim.last)
        )
        disjoint = []
        for claim in ordered:
            if claim.first >= fence.next:
                reason = f"the fence ends before {fence.next}: these offsets would land again"
                self._find("past the fence", reason, claim)
            elif claim.first < end:
                try:
                    self._by_id.add(claim.file)
                except UNREADABLE as error:
                    self._find("not provable", f"another file has the same offsets; {error}", claim)
            else:
                end = claim.last + 1
                disjoint.append(claim)
        return disjoint

    def _compare_file(self, claim: _Claim, sent: list[Segment | SentRun], low: int) -> None:
        """Compare a file with its messages, of which Kafka may have deleted the first ones."""
        if claim.last < low:
            return
        try:
            data = claim.file.read()
            rows = claim.rows
            if _rows(sent) != rows:
                groups = row_ids(pa.BufferReader(data))
                ids = None if groups is None else all_ids(groups)
                if self._decoder is None and ids is not None:
                    rows -= ids.plain_rows
                if _rows(sent) > rows or (_rows(sent) < rows and claim.first >= low):
                    sent = self._explain(claim, sent, ids, rows)
            if claim.is_verbatim:
                digest = hashlib.sha256(data).hexdigest()
                wrong = next((segment for segment in sent if segment.sha256() != digest), None)
            else:
                skip = rows - _rows(sent)
                wrong = differing(data, sent, skip, plain=rows == claim.rows) if sent else None
        except UNREADABLE as error:
            self._find("not provable", str(error), claim)
            return
        if wrong is not None:
            place = replace(claim, first=wrong.kafka_offset)
            self._find(
                "different", "the values from that offset on differ from the messages'", place
            )
            return
        for segment in sent:
            self._note_twice(segment)
            self._count(segment)

    def _note_twice(self, sent: Segment | SentRun) -> None:
        """Note messages that a file has, and another one by their ids too."""
        reason = "another file has its rows too"
        if not isinstance(sent, SentRun):
            if self._by_id.has(sent.id):
                self._note("twice", reason, sent)
            return
        for fence in self._fences[sent.partition]:
            for offset, count in zip(
                sent.offsets, self._by_id.counts(sent.under(fence)), strict=True
            ):
                if count:
                    self._note_at("twice", reason, sent.partition, offset)

    def _explain(
        self, claim: _Claim, sent: list[Segment | SentRun], ids: RowIds | None, rows: int
    ) -> list[Segment | SentRun]:
        """Say which messages a file has too few or too many rows of; return those to compare.

        It has so many `rows` of what is compared.
        """
        if ids is None:
            self._find("different", f"{rows} rows, but the messages have {_rows(sent)}", claim)
            return []
        whole: list[Segment | SentRun] = []
        plain = {name: Counter(places) for name, places in ids.plain.items()}
        for segment in sent:
            if isinstance(segment, SentRun):
                whole += self._explain_run(segment, plain.get(segment.id, Counter()))
                continue
            count = ids.segments.pop(segment.id, 0)
            if count == segment.rows:
                whole.append(segment)
            elif not count:
                self._compare_rows(segment)
            else:
                reason = f"{count} rows, but the message has {segment.rows}"
                self._note("twice" if count > segment.rows else "missing", reason, segment)
        left = dict(ids.segments)
        if self._decoder is not None:
            left |= {name: sum(places.values()) for name, places in plain.items()}
        for name, count in left.items():
            if count:
                reason = f"{count} rows of segment {name}, which is not a committed message"
                self._find("not committed", reason, claim)
        # With others in between they cannot be compared in order.
        return whole if _rows(whole) == rows else []

    def _explain_run(self, run: SentRun, places: Counter[int]) -> list[SentRun]:
        """Do as `_explain` for a run; remove from `places` the rows that it has in the file."""
        counts = [places.pop(place, 0) for place in run.places()]
        for offset, count in zip(run.offsets, counts, strict=True):
            if count > 1:
                self._note_at("twice", f"{count} rows", run.partition, offset)
        if missing := [index for index, count in enumerate(counts) if not count]:
            self._compare_rows(run.take(missing))
        there = [index for index, count in enumerate(counts) if count == 1]
        return [run.take(there)] if there else []

    def _compare_rows(self, sent: Segment | SentRun) -> None:
        """Compare what no file has by its offset with rows of its id."""
        if isinstance(sent, SentRun):
            self._compare_run(sent)
            return
        if not self._by_id.has(sent.id):
            self._lack(sent.partition, sent.kafka_offset, "it is in no file")
            return
        if (count := self._by_id.count(sent.id)) != sent.rows:
            self._note("different", f"{count} rows, but the message has {sent.rows}", sent)
            return
        self._wait(sent)

    def _compare_run(self, run: SentRun) -> None:
        """Look for each message as it landed from the topic, and as it was replayed."""
        landings = [(0, "")] * run.rows  # how often, and under which fence
        for fence in self._fences[run.partition]:
            for index, count in enumerate(self._by_id.counts(run.under(fence))):
                if count:
                    landings[index] = landings[index][0] + count, fence
        for index, (count, _) in enumerate(landings):
            if not count:
                self._lack(run.partition, run.offsets[index], "it is in no file")
            elif count > 1:
                self._note_at("twice", f"{count} rows", run.partition, run.offsets[index])
        for fence in self._fences[run.partition]:
            if once := [index for index, landing in enumerate(landings) if landing == (1, fence)]:
                self._wait(run.take(once).under(fence))

    def _wait(self, sent: Segment | SentRun) -> None:
        """Let what is in files once wait for others, to be looked up together."""
        if self._waiting.add(sent):
            self._look_up()

    def _look_up(self) -> None:
        """Compare what waits with its rows."""
        for sent, kind, reasons in self._waiting.compared():
            for offset, reason in zip(offsets_of(sent), reasons, strict=True):
                if reason:
                    self._note_at(kind, reason, sent.partition, offset)
                elif isinstance(sent, SentRun):
                    self.report.decoded += 1
                else:
                    self._count(sent)

    def _segment(self, message: SourceMessage) -> Segment | None:
        """Return a message as a segment; None, and say so, if it is a damaged one."""
        try:
            return message.segment()
        except SegmentError as error:
            self._lack(message.partition, message.offset, error.reason)
            return None

    def _lack(self, partition: int, offset: int, reason: str) -> None:
        """Note a message that is not in the table; it may be a dead letter."""
        if self._letters is not None and self._letters.has(offset):
            self.report.dead_letters += 1
        else:
            self._note_at("missing", reason, partition, offset)

    def _count(self, sent: Segment | SentRun) -> None:
        if isinstance(sent, SentRun):
            self.report.decoded += sent.rows
        else:
            self.report.messages += 1
            self.report.rows += sent.rows

    def _note(self, kind: Kind, reason: str, segment: Segment) -> None:
        self._note_at(kind, reason, segment.partition, segment.kafka_offset)

    def _note_at(self, kind: Kind, reason: str, partition: int, offset: int) -> None:
        """Note a message; it extends the range that ends with the message before it."""
        self._look_up()  # what waits comes before it
        finding = Finding(kind=kind, reason=reason, partition=partition, first=offset, last=offset)
        findings = self.report.findings
        at = bisect_left(self._offsets, offset)
        before = self._offsets[at - 1] if at else None
        if findings and replace(findings[-1], first=offset) == replace(finding, last=before):
            findings[-1] = replace(findings[-1], last=offset)
        else:
            findings.append(finding)

    def _find(
        self, kind: Kind, reason: str, claim: _Claim | None = None, *, file: str = ""
    ) -> None:
        """Note a file, with its offsets if they are known."""
        self._look_up()
        finding = Finding(kind=kind, reason=reason, file=claim.file.path if claim else file)
        if claim is not None:
            finding = replace(
                finding, partition=claim.partition, first=claim.first, last=claim.last
            )
        self.report.findings.append(finding)


def _rows(sent: Iterable[Segment | SentRun]) -> int:
    return sum(segment.rows for segment in sent)


def _fences_of(topic: str, fences: Mapping[str, Fence]) -> dict[int, list[str]]:
    """Return the fences of a topic's partitions, each partition's own before those of replays."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, fence in fences.items():
        if source_topic(name, fence) != topic:
            continue
        if replayed_place(name):
            names[fence.partition].append(name)
        else:
            names[fence.partition].insert(0, name)
    return names
