"""Which message lands, and in which file. Pure: no I/O, and no message's value is read.

`Planner` decides for the messages of one attempt as they stream by. At the commit, `admit` decides
for the files of all attempts.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka import position
from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.model import (
    UNKNOWN_SEGMENT,
    Count,
    Fence,
    NotLandedError,
    PlainMessageError,
    SourceMessage,
    SourcePartition,
    StagedFile,
    UnlandableError,
    fence_topic,
)
from columnar_kafka.segment.headers import SegmentHeader, header_pairs, parse_headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from columnar_kafka.lake.model import ReadRange, TopicGeneration

__all__ = [
    "Admission",
    "Layout",
    "Mode",
    "Placement",
    "Planner",
    "admit",
    "check_last",
    "message_nbytes",
]

_RUN_ROWS: Final = 1 << 16
_RUN_BYTES: Final = 16 << 20
"""The most plain messages, and bytes of all that came with them, that become one row group."""


class Mode(Enum):
    """How segments become files: each segment one file, byte for byte, or many stitched to one."""

    STITCHED = "stitched"
    VERBATIM = "verbatim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The largest size of a file; a segment of more than `file_bytes` is one file.

    In a table with partitions it is the size of a batch, which is a file for each of them. Plain
    messages that are decoded count with the bytes that came, so that the same ones always make the
    same files.

    Every segment becomes a row group, and a row group takes 2.2 KB of footer, which readers parse
    before the first row. `file_segments` bounds that.
    """

    mode: Mode = Mode.STITCHED
    file_bytes: int = 128 << 20
    file_segments: int = 1000


class Placement(NamedTuple):
    """Where a message lands.

    `starts_file`: it begins a new file; otherwise it is appended to the partition's newest file.

    `digest` identifies the message. It `is_plain` if it is to be decoded. Then it `joins_run`, the
    row group of the plain message before it, or begins one.
    """

    source: SourcePartition
    offset: int
    header: SegmentHeader
    digest: bytes
    starts_file: bool
    is_plain: bool
    joins_run: bool


class Planner:
    """Decides where the messages of one attempt land. For one thread.

    It remembers 17 bytes for each message, to count a repeated message once. `landed_before` counts
    by fence, and `repeated`, the messages that it left out.
    """

    def __init__(
        self,
        *,
        fences: Mapping[str, Fence],
        generations: Mapping[str, TopicGeneration],
        layout: Layout | None = None,
    ) -> None:
        """Plan for a table with these `fences`; `generations` has the generation of each topic."""
        self.layout = layout or Layout()
        self.landed_before: dict[str, Count] = {}
        self.repeated = Count()
        self.fences = fences
        self._generations = generations
        self._owners = _FenceOwners(fences)
        self._partitions: dict[tuple[str, int], _PartitionPlan] = {}

    def place(
        self, message: SourceMessage, decoded: SegmentHeader | None = None
    ) -> Placement | None:
        """Return where a message lands; None, and count it, if it has landed before or is repeated.

        Messages of different partitions may alternate. Those of one partition come in the order of
        their offsets, but may start again lower, as long as the ranges of files do not overlap.
        `decoded` is the header of a segment of one row that a plain message stands for, if it is
        decoded.

        Raises:
            UnlandableError: the message is no segment that can be read.
            LakeError: it must not land. The error names topic, partition and offset.
        """
        partition = self._partition(message)
        if partition.fence and message.offset < partition.fence.next:
            self._count_landed(message, partition.fence, partition.source)
            return None
        header, digest = _read(message) if decoded is None else (decoded, _plain_digest(message))
        is_plain = decoded is not None
        placement = partition.add(message, header, digest, self.layout, is_plain=is_plain)
        if placement is None:
            self.repeated = self.repeated.plus(Count(1, header.rows))
        return placement

    def source(self, message: SourceMessage) -> SourcePartition:
        """Return the partition of a message. Raises LakeError as `place`."""
        return self._partition(message).source

    def _partition(self, message: SourceMessage) -> _PartitionPlan:
        key = (message.topic, message.partition)
        if key not in self._partitions:
            if message.topic not in self._generations:
                raise LakeError(f"{message}: the cluster and topic id of its topic are not known")
            source = SourcePartition(self._generations[message.topic], *key)
            self._owners.check(source.fence, *key)
            self._partitions[key] = _PartitionPlan(source, self.fences.get(source.fence))
        return self._partitions[key]

    def _count_landed(self, message: SourceMessage, fence: Fence, source: SourcePartition) -> None:
        if message.offset < fence.first:
            raise LakeError(f"{message}: {_below(fence)}")
        rows = 1
        if not message.is_plain:
            header, _ = _read(message)
            rows = header.rows
            check_last(message, header.segment, fence)
        before = self.landed_before.get(source.fence, Count())
        self.landed_before[source.fence] = before.plus(Count(1, rows))


def check_last(message: SourceMessage, segment: str, fence: Fence) -> None:
    """Check that a message, the segment with this id, is what landed from the fence's last offset.

    Raises:
        LakeError: another one has.
    """
    if message.offset == fence.next - 1 and fence.segment not in (segment, UNKNOWN_SEGMENT):
        raise LakeError(
            f"{message} is segment {segment}, but {fence.segment} has landed from that offset: the "
            "topic was rewritten. Land it under another path"
        )


class _PartitionPlan:
    """The messages of one partition that were placed, by offset, and the newest of their files."""

    def __init__(self, source: SourcePartition, fence: Fence | None) -> None:
        self.source = source
        self.fence = fence
        self._offsets = array("q")
        self._digests = array("Q")  # the first 8 bytes, by offset
        self._starts = bytearray()  # whether a file starts, by offset
        # The newest file: its last offset, its schema, and its size.
        self._last = -1
        self._schema = ""
        self._nbytes = 0
        self._row_groups = 0
        # Its newest row group, if that is of plain messages.
        self._run_rows = 0
        self._run_nbytes = 0

    def add(
        self,
        message: SourceMessage,
        header: SegmentHeader,
        digest: bytes,
        layout: Layout,
        *,
        is_plain: bool,
    ) -> Placement | None:
        """Return where the message lands; None if it is repeated."""
        at = bisect_left(self._offsets, message.offset)
        number = int.from_bytes(digest[:8], "little")
        if at < len(self._offsets) and self._offsets[at] == message.offset:
            if self._digests[at] != number:
                raise LakeError(f"{message} came twice, with different bytes")
            return None
        if at < len(self._offsets) and not self._starts[at]:
            last = position.address(message.topic, message.partition, self._offsets[-1])
            raise LakeError(
                f"{message} came after {last}, too late for its file. Keep the messages of a "
                "partition together and in order: with Spark, do not repartition before the sink, "
                "or repartition by topic and partition, and then sortWithinPartitions by topic, "
                "partition and offset"
            )
        nbytes = memoryview(message.value or b"").nbytes
        follows = at > 0 and self._offsets[at - 1] == self._last and header.schema == self._schema
        run_nbytes = message_nbytes(message) if is_plain else 0
        joins_run = follows and is_plain and self._run_has_room(run_nbytes)
        starts_file = not (follows and self._has_room(nbytes, layout, joins_run=joins_run))
        if starts_file:
            self._nbytes = self._row_groups = 0
            joins_run = False
        if not joins_run:
            self._run_rows = self._run_nbytes = 0
            self._row_groups += 1
        if is_plain:
            self._run_rows += 1
            self._run_nbytes += run_nbytes
        self._last, self._schema = message.offset, header.schema
        self._nbytes += nbytes
        self._offsets.insert(at, message.offset)
        self._digests.insert(at, number)
        self._starts.insert(at, starts_file)
        return Placement(
            source=self.source,
            offset=message.offset,
            header=header,
            digest=digest,
            starts_file=starts_file,
            is_plain=is_plain,
            joins_run=joins_run,
        )

    def _run_has_room(self, nbytes: int) -> bool:
        return 0 < self._run_rows < _RUN_ROWS and self._run_nbytes + nbytes <= _RUN_BYTES

    def _has_room(self, nbytes: int, layout: Layout, *, joins_run: bool) -> bool:
        if self._nbytes + nbytes > layout.file_bytes:
            return False
        return joins_run or (
            layout.mode is Mode.STITCHED and self._row_groups < layout.file_segments
        )


def message_nbytes(message: SourceMessage) -> int:
    """Return the bytes that came with a message: value, key and headers."""
    nbytes = _nbytes(message.value) + _nbytes(message.key)
    if message.headers:
        nbytes += sum(len(key) + _nbytes(value) for key, value in header_pairs(message.headers))
    return nbytes


def _nbytes(data: Any) -> int:
    if data is None:
        return 0
    return len(data) if isinstance(data, str | bytes) else memoryview(data).nbytes


def _read(message: SourceMessage) -> tuple[SegmentHeader, bytes]:
    """Return a segment's header, and a digest that identifies the segment."""
    if message.is_plain:
        raise PlainMessageError(
            f"{message} is a plain message; only segments can land (see table.plain)"
        )
    try:
        header, crc32 = parse_headers(message.headers)
    except SegmentError as error:
        raise UnlandableError(f"{message}: {error.reason}") from error
    text = f"{message.offset} {header.segment} {header.rows} {crc32}\n"
    return header, hashlib.sha256(text.encode()).digest()


def _plain_digest(message: SourceMessage) -> bytes:
    """Return what identifies a plain message."""
    checksums = zlib.crc32(message.value or b""), zlib.crc32(message.key or b"")
    text = f"{message.offset} plain {checksums}\n"
    return hashlib.sha256(text.encode()).digest()


class _FenceOwners:
    """Which partition each fence belongs to, in a table and in the input that lands there."""

    def __init__(self, fences: Mapping[str, Fence]) -> None:
        self._names = {(fence.topic, fence.partition): name for name, fence in fences.items()}
        self._topics = {name: fence.topic for name, fence in fences.items()}

    def check(self, fence: str, topic: str, partition: int) -> None:
        """Refuse a second fence for a partition, and a second topic for a fence.

        A recreated topic counts its offsets from 0 again: offsets below the fence of the old one
        have not landed.

        Raises:
            LakeError: naming both fences, or both topics.
        """
        topic = fence_topic(fence, topic)
        name = self._names.setdefault((topic, partition), fence)
        if name != fence:
            where = position.partition_address(topic, partition)
            raise LakeError(
                f"{where}: the table has {name}, but this is {fence}: the topic was deleted and "
                "created again, or belongs to another cluster. Land it under another path"
            )
        other = self._topics.setdefault(fence, topic)
        if other != topic:
            where = position.partition_address(topic, partition)
            raise LakeError(
                f"{where}: {fence} belongs to topic {other}; every topic needs its own topic id"
            )


def _below(fence: Fence) -> str:
    return (
        f"below offset {fence.first}, where the table begins. Older messages cannot be added "
        "to it: land them under another path"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a commit does: the files that land, by offset, and the fences after it.

    `replaced` has the paths of files that a landing file merges, by the path of that one as staged.
    """

    lands: tuple[StagedFile, ...]
    landed_before: tuple[StagedFile, ...]
    repeated: tuple[StagedFile, ...]
    fences: Mapping[str, Fence]
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)


def admit(
    files: Iterable[StagedFile],
    fences: Mapping[str, Fence],
    *,
    ranges: Iterable[ReadRange] = (),
    set_aside: Iterable[ReadRange] = (),
    allow_gaps: bool = False,
    exists: bool = True,
) -> Admission:
    """Decide which files land in a table with these `fences`, and how far the fences move.

    `ranges` are what was read, as far as that is known. `set_aside` has messages that do not land.
    They move a fence if the table `exists` or begins with these files.

    Raises:
        NotLandedError: one of the files must not land, so none does. It overlaps another file or
            the landed range, begins below that range, or is of another generation of its topic.
            Or a range starts past the fence, and `allow_gaps` is false.
    """
    lands: list[StagedFile] = []
    landed_before: list[StagedFile] = []
    repeated: list[StagedFile] = []
    owners = _FenceOwners(fences)
    fences_after = _moved_by_ranges(ranges, fences, owners, allow_gaps=allow_gaps)
    previous: StagedFile | None = None
    decided = lands
    for file in sorted(files, key=lambda file: (file.fence, file.first, file.last, file.batch)):
        if previous is not None and file.batch and file.batch == previous.batch:
            pass  # what was decided for the batch
        elif _repeats(file, previous):
            decided = repeated
        elif _has_landed(file, fences, owners):
            decided = landed_before
        else:
            decided = lands
            fences_after[file.fence] = _moved(fences_after.get(file.fence), file)
        decided.append(file)
        previous = file
    ends = {name: fence.next for name, fence in fences.items()}
    for file in lands:
        ends[file.fence] = max(ends.get(file.fence, 0), file.last + 1)
    for read_range in set_aside if lands or exists else ():
        _move_past(read_range, fences_after, ends.get(read_range.source.fence, 0))
    # A table that has nothing of a partition has no fence for it either.
    return Admission(
        lands=tuple(lands),
        landed_before=tuple(landed_before),
        repeated=tuple(repeated),
        fences={name: fence for name, fence in fences_after.items() if fence.segment},
    )


def _moved_by_ranges(
    ranges: Iterable[ReadRange],
    fences: Mapping[str, Fence],
    owners: _FenceOwners,
    *,
    allow_gaps: bool,
) -> dict[str, Fence]:
    """Return the fences after these ranges; one without a segment is of no file yet."""
    moved = dict(fences)
    for read_range in sorted(
        ranges, key=lambda read_range: (read_range.source.fence, read_range.first)
    ):
        source, name = read_range.source, read_range.source.fence
        _check_owner(owners, name, source.topic, source.partition)
        fence = moved.get(name)
        if fence is None:
            fence = _unlanded(read_range)
        elif read_range.first > fence.next and not allow_gaps:
            raise NotLandedError(
                f"{source} was read from offset {read_range.first}, but the table's next offset is "
                f"{fence.next}: the messages in between would never land. Read from {fence.next}, "
                "or give them up with table.gap=allow"
            )
        moved[name] = replace(fence, next=max(fence.next, read_range.next))
    return moved


def _unlanded(read: ReadRange) -> Fence:
    """Return the fence of a partition from which nothing has landed, where a range begins."""
    return Fence(
        topic=fence_topic(read.source.fence, read.source.topic),
        partition=read.source.partition,
        first=read.first,
        next=read.first,
        segment="",
    )


def _repeats(file: StagedFile, previous: StagedFile | None) -> bool:
    """Return whether a file repeats the one before it, because its task ran twice."""
    if previous is None or previous.fence != file.fence or previous.last < file.first:
        return False
    if (previous.first, previous.last, previous.digest) == (file.first, file.last, file.digest):
        return True
    raise NotLandedError(
        f"{previous} and {file} overlap: the messages of a partition were spread over tasks. "
        "Keep them together and in order: with Spark, do not repartition before the sink"
    )


def _has_landed(file: StagedFile, fences: Mapping[str, Fence], owners: _FenceOwners) -> bool:
    _check_owner(owners, file.fence, file.topic, file.partition)
    fence = fences.get(file.fence)
    if fence is None or file.first >= fence.next:
        return False
    if file.first < fence.first:
        raise NotLandedError(f"{file}: {_below(fence)}")
    if file.last >= fence.next:
        raise NotLandedError(
            f"{file}: the offsets up to {fence.next - 1} have landed meanwhile: stage the input "
            "again"
        )
    return True


def _check_owner(owners: _FenceOwners, fence: str, topic: str, partition: int) -> None:
    try:
        owners.check(fence, topic, partition)
    except LakeError as error:
        raise NotLandedError(error.reason) from error


def _move_past(aside: ReadRange, moved: dict[str, Fence], end: int) -> None:
    """Move a fence past messages that do not land; what lands of its partition ends at `end`."""
    name = aside.source.fence
    fence = moved.get(name) or _unlanded(aside)
    if aside.next > end:
        next_offset = max(fence.next, aside.next)
        moved[name] = replace(fence, next=next_offset, segment=UNKNOWN_SEGMENT)


def _moved(fence: Fence | None, file: StagedFile) -> Fence:
    return Fence(
        topic=fence_topic(file.fence, file.topic),
        partition=file.partition,
        first=fence.first if fence else file.first,
        next=max(fence.next if fence else 0, file.last + 1),
        segment=file.segment,
    )
