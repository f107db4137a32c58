"""Messages → files: which message lands, and in which file. Pure: looks at no value, does no I/O.

`Planner` decides for the messages of one attempt as they stream by; `admit` decides, at the
commit, for the files of all attempts.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.model import Count, Fence, Message, NotLandedError, Source, StagedFile
from columnar_kafka.segment.headers import SegmentHeader, is_segment, parse_headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.lake.model import Generation

__all__ = ["Admission", "Layout", "Mode", "Piece", "Planner", "admit"]


class Mode(Enum):
    """How segments become files: one each, byte for byte, or many stitched to one."""

    VERBATIM = "verbatim"
    STITCHED = "stitched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How big files become; a segment bigger than `file_bytes` is still one file.

    Each segment is a row group, and each row group costs 2.2 KB of footer, which every reader
    parses before the first row: hence `file_segments`.
    """

    mode: Mode = Mode.STITCHED
    file_bytes: int = 128 << 20
    file_segments: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A message that lands, and whether its file begins with it or is its partition's last."""

    source: Source
    offset: int
    header: SegmentHeader
    mark: bytes
    begins: bool


class Planner:
    """Decides for each message of one attempt. For one thread.

    Remembers 17 bytes a message, to count what comes twice once.
    """

    def __init__(
        self,
        *,
        fences: Mapping[str, Fence],
        generations: Mapping[str, Generation],
        layout: Layout | None = None,
    ) -> None:
        """Plan for a table with these `fences`, and topics that stand for these `generations`."""
        self.layout = layout or Layout()
        self.landed_before: dict[str, Count] = {}
        self.repeated = Count()
        self._fences = fences
        self._generations = generations
        self._names = _Names(fences)
        self._tracks: dict[tuple[str, int], _Track] = {}

    def place(self, message: Message) -> Piece | None:
        """Return where a message lands, or None if it has landed before or was repeated: counted.

        Messages of different partitions may alternate. Those of one come in the order of their
        offsets, but may start again lower, as long as the files' ranges stay apart.

        Raises:
            LakeError: naming topic, partition and offset: no segment, or one that must not land.
        """
        track = self._track(message)
        if track.fence and message.offset < track.fence.next:
            self._count_landed(message, track.fence, track.source)
            return None
        header, mark = _read(message)
        nbytes = memoryview(message.value or b"").nbytes
        begins = track.add(message, header, mark, nbytes, self.layout)
        if begins is None:
            self.repeated = self.repeated.plus(Count(1, header.rows))
            return None
        return Piece(
            source=track.source, offset=message.offset, header=header, mark=mark, begins=begins
        )

    def _track(self, message: Message) -> _Track:
        key = (message.topic, message.partition)
        if key not in self._tracks:
            if message.topic not in self._generations:
                raise LakeError(f"{message}: the cluster and topic id of its topic are not known")
            source = Source(self._generations[message.topic], *key)
            self._names.check(source.fence, *key)
            self._tracks[key] = _Track(source, self._fences.get(source.fence))
        return self._tracks[key]

    def _count_landed(self, message: Message, fence: Fence, source: Source) -> None:
        if message.offset < fence.first:
            raise LakeError(f"{message}: {_below(fence)}")
        rows = 1
        if is_segment(message.headers):
            header, _ = _read(message)
            rows = header.rows
            if message.offset == fence.next - 1 and header.segment != fence.segment:
                raise LakeError(
                    f"{message}: is segment {header.segment}, and {fence.segment} has landed from "
                    "that offset: the topic was rewritten. Land it under another path"
                )
        before = self.landed_before.get(source.fence, Count())
        self.landed_before[source.fence] = before.plus(Count(1, rows))


class _Track:
    """What of one partition has been placed: offsets, ascending, and the file begun last."""

    def __init__(self, source: Source, fence: Fence | None) -> None:
        self.source = source
        self.fence = fence
        self._offsets = array("q")
        self._marks = array("Q")  # who is at each offset
        self._begins = bytearray()  # and whether a file begins there
        self._last = -1  # of the file begun last: its last offset, schema, bytes and segments
        self._schema = ""
        self._nbytes = 0
        self._segments = 0

    def add(
        self,
        message: Message,
        header: SegmentHeader,
        mark: bytes,
        nbytes: int,
        layout: Layout,
    ) -> bool | None:
        """Say whether the message begins a file, or None if it was here before."""
        at = bisect_left(self._offsets, message.offset)
        number = int.from_bytes(mark[:8], "little")
        if at < len(self._offsets) and self._offsets[at] == message.offset:
            if self._marks[at] != number:
                raise LakeError(f"{message}: came twice, with different bytes")
            return None
        if at < len(self._offsets) and not self._begins[at]:
            raise LakeError(
                f"{message}: came after {self.source}@{self._offsets[-1]}, too late for its file. "
                "Keep the messages of a partition together and in order: with Spark, no "
                "repartition before the sink, or repartition by topic and partition and "
                "sortWithinPartitions by topic, partition and offset"
            )
        follows = at > 0 and self._offsets[at - 1] == self._last
        begins = not (follows and self._has_room(header, nbytes, layout))
        if begins:
            self._nbytes = self._segments = 0
        self._last, self._schema = message.offset, header.schema
        self._nbytes += nbytes
        self._segments += 1
        self._offsets.insert(at, message.offset)
        self._marks.insert(at, number)
        self._begins.insert(at, begins)
        return begins

    def _has_room(self, header: SegmentHeader, nbytes: int, layout: Layout) -> bool:
        return (
            layout.mode is Mode.STITCHED
            and header.schema == self._schema
            and self._nbytes + nbytes <= layout.file_bytes
            and self._segments < layout.file_segments
        )


def _read(message: Message) -> tuple[SegmentHeader, bytes]:
    """Return a segment's header, and a digest of what it is."""
    if not is_segment(message.headers):
        raise LakeError(f"{message}: is a plain message; only segments can land")
    try:
        header, crc32 = parse_headers(message.headers)
    except SegmentError as error:
        raise LakeError(f"{message}: {error.reason}") from error
    text = f"{message.offset} {header.segment} {header.rows} {crc32}\n"
    return header, hashlib.sha256(text.encode()).digest()


class _Names:
    """Which fence stands for which partition, in a table and in what is about to land there."""

    def __init__(self, fences: Mapping[str, Fence]) -> None:
        self._names = {(each.topic, each.partition): name for name, each in fences.items()}
        self._topics = {name: each.topic for name, each in fences.items()}

    def check(self, fence: str, topic: str, partition: int) -> None:
        """Refuse a partition under another fence, and a fence for another topic.

        Offsets of another generation count from another beginning: that they are below the fence
        would not mean that they have landed.

        Raises:
            LakeError: naming both.
        """
        name = self._names.setdefault((topic, partition), fence)
        if name != fence:
            raise LakeError(
                f"{topic}[{partition}]: the table holds {name}, and this is {fence}: the topic was "
                "deleted and made again, or it is another cluster's. Land it under another path"
            )
        other = self._topics.setdefault(fence, topic)
        if other != topic:
            raise LakeError(
                f"{topic}[{partition}]: {fence} stands for topic {other}; each topic needs a "
                "topic id of its own"
            )


def _below(fence: Fence) -> str:
    return (
        f"below offset {fence.first}, where the table begins. Older messages cannot be added to "
        "it (there is no option table.backfill yet): land them under another path"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a commit does: files that land, by offset, and the fences the table then has."""

    lands: tuple[StagedFile, ...]
    landed_before: tuple[StagedFile, ...]
    repeated: tuple[StagedFile, ...]
    fences: Mapping[str, Fence]


def admit(files: Iterable[StagedFile], fences: Mapping[str, Fence]) -> Admission:
    """Decide which files land in a table with these `fences`.

    Raises:
        NotLandedError: one of them must not, so none does: it overlaps others or what has landed,
            begins below the table, or is of another generation of its topic.
    """
    lands: list[StagedFile] = []
    before: list[StagedFile] = []
    repeated: list[StagedFile] = []
    after = dict(fences)
    names = _Names(fences)
    previous: StagedFile | None = None
    for file in sorted(files, key=lambda each: (each.fence, each.first, each.last)):
        if _repeats(file, previous):
            repeated.append(file)
        elif _has_landed(file, fences, names):
            before.append(file)
        else:
            lands.append(file)
            after[file.fence] = _moved(after.get(file.fence), file)
        previous = file
    return Admission(
        lands=tuple(lands), landed_before=tuple(before), repeated=tuple(repeated), fences=after
    )


def _repeats(file: StagedFile, previous: StagedFile | None) -> bool:
    """Say whether a file holds what the one before it does (its task ran twice)."""
    if previous is None or previous.fence != file.fence or previous.last < file.first:
        return False
    if (previous.first, previous.last, previous.digest) == (file.first, file.last, file.digest):
        return True
    raise NotLandedError(
        f"{previous} and {file} overlap: the messages of a partition were spread over tasks. "
        "Keep them together and in order: with Spark, no repartition before the sink"
    )


def _has_landed(file: StagedFile, fences: Mapping[str, Fence], names: _Names) -> bool:
    try:
        names.check(file.fence, file.topic, file.partition)
    except LakeError as error:
        raise NotLandedError(error.reason) from error
    fence = fences.get(file.fence)
    if fence is None or file.first >= fence.next:
        return False
    if file.first < fence.first:
        raise NotLandedError(f"{file}: {_below(fence)}")
    if file.last >= fence.next:
        raise NotLandedError(
            f"{file}: up to offset {fence.next - 1} has landed meanwhile: stage the input again"
        )
    return True


def _moved(fence: Fence | None, file: StagedFile) -> Fence:
    return Fence(
        topic=file.topic,
        partition=file.partition,
        first=fence.first if fence else file.first,
        next=file.last + 1,
        segment=file.segment,
    )
