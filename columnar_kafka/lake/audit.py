"""Whether each committed message of a topic is in a table once, and what is there is equal.

A stitched file says from which offsets it came: its rows are decoded and compared with those of the
messages, in order. A verbatim file has the SHA-256 of its message. In a file of another writer
(OPTIMIZE, for example), or of a table with partitions, rows are found by ``_kafka.segment`` and
``_kafka.row``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import ColumnarError, SegmentError
from columnar_kafka.lake.file_metadata import file_messages
from columnar_kafka.lake.landed_rows import RowsById, differing, rows_by_segment
from columnar_kafka.lake.model import REPLAY
from columnar_kafka.segment.headers import is_segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from columnar_kafka.lake.dead_letters import Taken
    from columnar_kafka.lake.model import Fence, LandedFile, SourceMessage
    from columnar_kafka.segment.segment import Segment

__all__ = ["AuditReport", "Finding", "TopicAudit"]

_UNREADABLE: Final = (pa.ArrowException, ColumnarError, OSError, ValueError, KeyError)

Kind = Literal["missing", "twice", "different", "not committed", "past the fence", "not provable"]


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

    `expired` are offsets, by partition as (first, last), that have landed and that Kafka has
    deleted since: they cannot be compared. `plain` messages are no segments, and were not looked
    for; `dead_letters` are not in the table.
    """

    messages: int = 0
    rows: int = 0
    files: int = 0
    plain: int = 0
    dead_letters: int = 0
    expired: dict[int, tuple[int, int]] = field(default_factory=dict)
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

    def __init__(self, topic: str, files: Iterable[LandedFile]) -> None:
        """Read the footers of all files, and of some the ids of their rows. Blocks.

        What cannot be read is a finding.
        """
        self.report = AuditReport()
        self._topic = topic
        self._claims: dict[int, list[_Claim]] = defaultdict(list)
        self._by_id = RowsById()
        self._letters: Taken | None = None  # of the partition
        for file in files:
            self.report.files += 1
            try:
                self._take(file)
            except _UNREADABLE as error:
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
        if low > fence.first:
            self.report.expired[fence.partition] = (fence.first, min(low, fence.next) - 1)
        claims = self._disjoint(fence)
        inside: list[Segment] = []
        claim = next(claims, None)
        for message in messages:
            while claim is not None and claim.last < message.offset:
                self._compare_file(claim, inside, low)
                claim, inside = next(claims, None), []
            if not is_segment(message.headers):
                self.report.plain += 1
            elif (segment := self._segment(message)) is None:
                continue
            elif claim is not None and claim.first <= message.offset:
                inside.append(segment)
            else:
                self._compare_rows(segment)
        while claim is not None:
            self._compare_file(claim, inside, low)
            claim, inside = next(claims, None), []

    def finish(self, partitions: Iterable[int], *, is_alone: bool = True) -> AuditReport:
        """Return the report, when all `partitions` that have a fence were compared.

        If the topic `is_alone` in the table, all rows have to be its own.
        """
        for number in sorted(self._claims.keys() - set(partitions)):
            for claim in self._claims[number]:
                self._find("past the fence", "the table has no fence of this partition", claim)
        if is_alone and not self.report.expired:
            for segment, file in self._by_id.left():
                reason = f"segment {segment} is not a message of the topic"
                self._find("not committed", reason, file=file)
        return self.report

    def _take(self, file: LandedFile) -> None:
        """Find out which messages a file has."""
        if file.partition:
            self._by_id.add(file)
            return
        metadata = pq.read_metadata(file.footer())
        found = file_messages(file.path, metadata.metadata)
        if found is None:
            self._by_id.add(file)
        elif found.topic != self._topic:
            pass
        elif found.cluster == REPLAY:  # its offsets lie between those of other files
            self._by_id.add(file)
        else:
            number, first, last = found.partition, found.first, found.last
            claim = _Claim(file, number, first, last, metadata.num_rows, found.is_verbatim)
            self._claims[number].append(claim)

    def _disjoint(self, fence: Fence) -> Iterator[_Claim]:
        """Yield the files of a partition by offset; others within their ranges count by their ids.

        These have replayed dead letters, or rows twice.
        """
        end = -1
        ordered = sorted(self._claims[fence.partition], key=lambda each: (each.first, -each.last))
        disjoint = []
        for claim in ordered:
            if claim.first >= fence.next:
                reason = f"the fence ends before {fence.next}: these offsets would land again"
                self._find("past the fence", reason, claim)
            elif claim.first < end:
                try:
                    self._by_id.add(claim.file)
                except _UNREADABLE as error:
                    self._find("not provable", f"another file has the same offsets; {error}", claim)
            else:
                end = claim.last + 1
                disjoint.append(claim)
        yield from disjoint

    def _compare_file(self, claim: _Claim, segments: list[Segment], low: int) -> None:
        """Compare a file with its messages, of which Kafka may have deleted the first ones."""
        if claim.last < low:
            return
        try:
            data = claim.file.read()
            if sum(each.rows for each in segments) > claim.rows or (
                sum(each.rows for each in segments) < claim.rows and claim.first >= low
            ):
                segments = self._explain(claim, segments, rows_by_segment(data))
            if claim.is_verbatim:
                found = hashlib.sha256(data).hexdigest()
                wrong = next((each for each in segments if each.sha256() != found), None)
            else:
                skip = claim.rows - sum(each.rows for each in segments)
                wrong = differing(data, segments, skip) if segments else None
        except _UNREADABLE as error:
            self._find("not provable", str(error), claim)
            return
        if wrong is not None:
            place = replace(claim, first=wrong.kafka_offset)
            self._find(
                "different", "the values from that offset on differ from the messages'", place
            )
            return
        for each in segments:
            if self._by_id.has(each.id):
                self._note("twice", "another file has its rows too", each)
            self._count(each)

    def _explain(
        self, claim: _Claim, segments: list[Segment], counts: dict[str, int] | None
    ) -> list[Segment]:
        """Say which messages a file has too few or too many rows of; return those to compare."""
        if counts is None:
            sent = sum(each.rows for each in segments)
            self._find("different", f"{claim.rows} rows, but the messages have {sent}", claim)
            return []
        whole = []
        for each in segments:
            found = counts.pop(each.id, 0)
            if found == each.rows:
                whole.append(each)
            elif not found:
                self._compare_rows(each)
            else:
                reason = f"{found} rows, but the message has {each.rows}"
                self._note("twice" if found > each.rows else "missing", reason, each)
        for name, rows in counts.items():
            reason = f"{rows} rows of segment {name}, which is not a committed message"
            self._find("not committed", reason, claim)
        # With others in between they cannot be compared in order.
        return whole if sum(each.rows for each in whole) == claim.rows else []

    def _compare_rows(self, segment: Segment) -> None:
        """Compare a segment that no file has by its offset with rows of its id."""
        if not self._by_id.has(segment.id):
            self._lack(segment.partition, segment.kafka_offset, "it is in no file")
            return
        try:
            reason = self._by_id.compare(segment)
        except _UNREADABLE as error:
            self._note("not provable", str(error), segment)
            return
        if reason:
            self._note("different", reason, segment)
        else:
            self._count(segment)

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

    def _count(self, segment: Segment) -> None:
        self.report.messages += 1
        self.report.rows += segment.rows

    def _note(self, kind: Kind, reason: str, segment: Segment) -> None:
        self._note_at(kind, reason, segment.partition, segment.kafka_offset)

    def _note_at(self, kind: Kind, reason: str, partition: int, offset: int) -> None:
        """Note a message; it may extend the range of those before it."""
        found = Finding(kind=kind, reason=reason, partition=partition, first=offset, last=offset)
        findings = self.report.findings
        if findings and replace(findings[-1], first=offset, last=offset) == found:
            findings[-1] = replace(findings[-1], last=offset)
        else:
            findings.append(found)

    def _find(
        self, kind: Kind, reason: str, claim: _Claim | None = None, *, file: str = ""
    ) -> None:
        """Note a file, with its offsets if they are known."""
        finding = Finding(kind=kind, reason=reason, file=claim.file.path if claim else file)
        if claim is not None:
            finding = replace(
                finding, partition=claim.partition, first=claim.first, last=claim.last
            )
        self.report.findings.append(finding)
