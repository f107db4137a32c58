"""Whether each committed message of a topic is in a table once, and what is there is equal.

A stitched file says from which offsets it came: its rows are decoded and compared with those of the
messages, in order. A verbatim file has the SHA-256 of its message. In a file of another writer
(OPTIMIZE, for example) rows are found by ``_kafka.segment`` and ``_kafka.row``.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.errors import ColumnarError, LakeError
from columnar_kafka.lake.landed_rows import RowsById, differing, rows_by_segment
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from columnar_kafka.lake.model import Fence, LandedFile, SourceMessage

__all__ = ["AuditReport", "Finding", "TopicAudit"]

_PATH: Final = re.compile(r"(?:^|/)([^/]+)/p([0-9]+)-([0-9]{20})-[^/]*\.parquet$", re.ASCII)
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
    for.
    """

    messages: int = 0
    rows: int = 0
    files: int = 0
    plain: int = 0
    expired: dict[int, tuple[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A file that has the messages from offset `first` to `last`."""

    file: LandedFile
    first: int
    last: int
    rows: int
    is_verbatim: bool


class TopicAudit:
    """Compares the files of one topic with its messages, one partition after the other."""

    def __init__(self, topic: str, files: Iterable[LandedFile]) -> None:
        """Read the footers of all files, and of some the ids of their rows."""
        self.report = AuditReport()
        self._topic = topic
        self._claims: dict[int, list[_Claim]] = defaultdict(list)
        self._by_id = RowsById()
        for file in files:
            self.report.files += 1
            try:
                self._take(file)
            except _UNREADABLE as error:
                self._find("not provable", str(error), file=file.path)

    def compare(self, fence: Fence, low: int, messages: Iterable[SourceMessage]) -> None:
        """Compare a partition.

        Args:
            fence: how far it has landed.
            low: the first offset that Kafka still has.
            messages: the committed ones from `low` or the fence's first offset, whichever is
                higher, to before the fence's next offset.
        """
        if low > fence.first:
            self.report.expired[fence.partition] = (fence.first, min(low, fence.next) - 1)
        claims = self._disjoint(fence)
        claim, inside = next(claims, None), list[Segment]()
        missing = False
        for message in messages:
            while claim is not None and claim.last < message.offset:
                self._compare_file(fence.partition, claim, inside, low)
                claim, inside = next(claims, None), []
            if not is_segment(message.headers):
                self.report.plain += 1
                continue
            segment = _segment(message)
            is_claimed = claim is not None and claim.first <= message.offset
            if is_claimed:
                inside.append(segment)
            elif segment.id in self._by_id:
                self._compare_rows(segment)
            else:
                self._miss(segment, extends=missing)
            missing = not is_claimed and segment.id not in self._by_id
        while claim is not None:
            self._compare_file(fence.partition, claim, inside, low)
            claim, inside = next(claims, None), []

    def finish(self, partitions: Iterable[int], *, is_alone: bool = True) -> AuditReport:
        """Return the report, when all `partitions` that have a fence were compared.

        If the topic `is_alone` in the table, all rows have to be its own.
        """
        for number in sorted(self._claims.keys() - set(partitions)):
            for claim in self._claims[number]:
                reason = "the table has no fence of this partition"
                self._find("past the fence", reason, number, claim)
        if is_alone and not self.report.expired:
            for segment, file in self._by_id.left():
                reason = f"no message of the topic is segment {segment}"
                self._find("not committed", reason, file=file)
        return self.report

    def _take(self, file: LandedFile) -> None:
        """Find out which messages a file has."""
        metadata = pq.read_metadata(file.footer())
        pairs = {
            key.decode(): value.decode()
            for key, value in (metadata.metadata or {}).items()
            if key.startswith(b"columnar.")
        }
        if "columnar.offset.first" in pairs:
            topic, number = pairs["columnar.topic"], int(pairs["columnar.partition"])
            first, last = (int(pairs[f"columnar.offset.{each}"]) for each in ("first", "last"))
        elif "columnar.segment" in pairs:
            if (match := _PATH.search(file.path)) is None:
                raise LakeError("its name does not say which message it is")
            topic, number, first = match[1].removeprefix("~"), int(match[2]), int(match[3])
            last = first
        else:
            self._by_id.add(file)
            return
        if topic == self._topic:
            is_verbatim = "columnar.segment" in pairs
            claim = _Claim(file, first, last, metadata.num_rows, is_verbatim)
            self._claims[number].append(claim)

    def _disjoint(self, fence: Fence) -> Iterator[_Claim]:
        """Yield the files of a partition by offset, without those that repeat another's."""
        end = -1
        for claim in sorted(self._claims[fence.partition], key=lambda each: each.first):
            if claim.first >= fence.next:
                reason = f"the fence is {fence.next}: these offsets would land again"
                self._find("past the fence", reason, fence.partition, claim)
            elif claim.first < end:
                repeated = replace(claim, last=min(claim.last, end - 1))
                reason = "another file has these offsets too"
                self._find("twice", reason, fence.partition, repeated)
            else:
                end = claim.last + 1
                yield claim

    def _compare_file(self, number: int, claim: _Claim, segments: list[Segment], low: int) -> None:
        """Compare a file with its messages, of which Kafka may have deleted the first ones."""
        if claim.last < low:
            return
        if not segments:
            self._find("not committed", "no such messages are committed", number, claim)
            return
        rows = sum(each.rows for each in segments)
        try:
            data = claim.file.read()
            if claim.is_verbatim:
                is_equal = hashlib.sha256(data).hexdigest() == segments[0].sha256()
                wrong = None if is_equal else segments[0]
            elif rows > claim.rows or (rows < claim.rows and claim.first >= low):
                self._explain(number, claim, segments, rows_by_segment(data))
                return
            else:
                wrong = differing(data, segments, claim.rows - rows)
        except _UNREADABLE as error:
            self._find("not provable", str(error), number, claim)
            return
        if wrong is not None:
            place = replace(claim, first=wrong.kafka_offset)
            self._find("different", "the values from there on are not the messages'", number, place)
            return
        for each in segments:
            if each.id in self._by_id:
                place = replace(claim, first=each.kafka_offset, last=each.kafka_offset)
                self._find("twice", "another program's file has its rows too", number, place)
            self._count(each)

    def _compare_rows(self, segment: Segment) -> None:
        """Compare a segment with its rows in files of other writers."""
        offset = segment.kafka_offset
        try:
            reason = self._by_id.compare(segment)
        except _UNREADABLE as error:
            self._find("not provable", str(error), segment.partition, offset=offset)
            return
        if reason:
            self._find("different", reason, segment.partition, offset=offset)
        else:
            self._count(segment)

    def _explain(
        self, number: int, claim: _Claim, segments: list[Segment], counts: dict[str, int] | None
    ) -> None:
        """Say which messages a file has too few or too many rows of, if its rows have ids."""
        sent = sum(each.rows for each in segments)
        if counts is None:
            reason = f"{claim.rows} rows, and the messages have {sent}"
            self._find("different", reason, number, claim)
            return
        for each in segments:
            found = counts.pop(each.id, 0)
            place = replace(claim, first=each.kafka_offset, last=each.kafka_offset)
            reason = f"{found} rows, and the message has {each.rows}"
            if found < each.rows:
                self._find("missing", reason, number, place)
            elif found > each.rows:
                self._find("twice", reason, number, place)
        for name, rows in counts.items():
            reason = f"{rows} rows of segment {name}, which no committed message is"
            self._find("not committed", reason, number, claim)

    def _miss(self, segment: Segment, *, extends: bool) -> None:
        """Note a message that is in no file; it may extend the run of those before it."""
        findings, offset = self.report.findings, segment.kafka_offset
        if extends:
            findings[-1] = replace(findings[-1], last=offset)
        else:
            self._find("missing", "in no file", segment.partition, offset=offset)

    def _count(self, segment: Segment) -> None:
        self.report.messages += 1
        self.report.rows += segment.rows

    def _find(
        self,
        kind: Kind,
        reason: str,
        partition: int | None = None,
        claim: _Claim | None = None,
        *,
        file: str = "",
        offset: int | None = None,
    ) -> None:
        first, last = (claim.first, claim.last) if claim else (offset, offset)
        self.report.findings.append(
            Finding(
                kind=kind,
                reason=reason,
                partition=partition,
                first=first,
                last=last,
                file=claim.file.path if claim else file,
            )
        )


def _segment(message: SourceMessage) -> Segment:
    return Segment(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        headers=message.headers,
        value=message.value,
    )
