"""Which message lands, and in which file. Pure: no I/O, and no message's value is read.

`Planner` decides for the messages of one attempt as they stream by. At the commit, `admit`
(`lake/admission.py`) decides for the files of all attempts.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka import position
from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.admission import FenceOwners, below
from columnar_kafka.lake.model import (
    UNKNOWN_SEGMENT,
    Count,
    Fence,
    PlainMessageError,
    SourceMessage,
    SourcePartition,
    UnlandableError,
)
from columnar_kafka.segment.headers import SegmentHeader, header_pairs, parse_headers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from columnar_kafka.lake.model import PlainMessages, TopicGeneration

__all__ = [
    "Layout",
    "Mode",
    "Placed",
    "Placement",
    "Planner",
    "check_last",
    "message_nbytes",
    "plain_digest",
]

_RUN_ROWS: Final = 1 << 16
_RUN_BYTES: Final = 16 << 20
"""The most rows, and bytes of all that came with plain messages, that become one row group."""
_SMALL_RUN_BYTES: Final = 32 << 20
"""The same of small segments, which are mostly footers."""

_ANY: Final = 1 << 62
_PLAIN_DIGEST: Final = struct.Struct("<IIq")


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

    A row group takes 2.2 KB of footer, which readers parse before the first row; a file has at most
    `file_row_groups`. A segment is one, and keeps its bytes, unless it has fewer than
    `small_bytes`: neighbours like that are a run, which is decoded and encoded anew as one. In a
    verbatim file nothing is.
    """

    mode: Mode = Mode.STITCHED
    file_bytes: int = 128 << 20
    file_row_groups: int = 1000
    small_bytes: int = 64 << 10

    def is_small(self, nbytes: int) -> bool:
        """Return whether a segment of so many bytes shares a row group with its neighbours."""
        return self.mode is Mode.STITCHED and nbytes < self.small_bytes


class Placement(NamedTuple):
    """Where a message lands.

    `starts_file`: it begins a new file; otherwise it is appended to the partition's newest file.

    `digest` identifies the message; among those of its offset its first 8 bytes do. It `is_plain`
    if it is to be decoded. That and a small segment are `in_run`: in a row group with neighbours of
    its kind. It `joins_run`, that of the message before it, or begins one.
    """

    source: SourcePartition
    offset: int
    header: SegmentHeader
    digest: bytes
    starts_file: bool
    is_plain: bool
    in_run: bool
    joins_run: bool


class Placed(NamedTuple):
    """A segment, or a run, that lands: its first and its last message."""

    first: Placement
    last: Placement
    messages: int
    digest: bytes

    @classmethod
    def of(cls, placements: Sequence[Placement]) -> Placed:
        """Return some placements together."""
        digest = b"".join(placement.digest for placement in placements)
        return cls(placements[0], placements[-1], len(placements), digest)


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
        self._owners = FenceOwners(fences)
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
        header, digest = _read(message) if decoded is None else (decoded, plain_digest(message))
        is_plain = decoded is not None
        placement = partition.add(message, header, digest, self.layout, is_plain=is_plain)
        if placement is None:
            self.repeated = self.repeated.plus(Count(1, header.rows))
        return placement

    def takes_all(self, messages: PlainMessages) -> bool:
        """Return whether `place_plain` can place all of these. Raises LakeError as `place`.

        None of them has landed before, and all follow what was placed.
        """
        partition = self._partition(messages)
        landed = partition.fence.next if partition.fence else 0
        return messages.first >= max(landed, partition.end)

    def place_plain(
        self, messages: PlainMessages, start: int, decoded: SegmentHeader
    ) -> tuple[Placement, int]:
        """Return where plain messages land from index `start` on, and up to which one together.

        The placement is the first one's, without a digest. The planner counts all of these as
        placed; `decoded` is as in `place`.
        """
        return self._partition(messages).add_plain(messages, start, decoded, self.layout)

    def source(self, message: SourceMessage | PlainMessages) -> SourcePartition:
        """Return the partition of a message, or of some. Raises LakeError as `place`."""
        return self._partition(message).source

    def _partition(self, message: SourceMessage | PlainMessages) -> _PartitionPlan:
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
            raise LakeError(f"{message}: {below(fence)}")
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
        # Its newest row group, if that is a run.
        self._run_is_plain = False
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
        size = _Size(
            value=_nbytes(message.value), message=message_nbytes(message) if is_plain else 0
        )
        follows = at > 0 and self._offsets[at - 1] == self._last
        placement = self._place(
            message.offset, header, digest, size, layout, follows=follows, is_plain=is_plain
        )
        self._offsets.insert(at, message.offset)
        self._digests.insert(at, number)
        self._starts.insert(at, placement.starts_file)
        return placement

    def add_plain(
        self, messages: PlainMessages, start: int, header: SegmentHeader, layout: Layout
    ) -> tuple[Placement, int]:
        """Return where messages that follow all others land; see `Planner.place_plain`."""
        core = messages.core
        _, *size = core.fitting(start, 1, _ANY, _ANY)
        follows = self.end == self._last + 1 > 0
        placement = self._place(
            core.offset(start), header, b"", _Size(*size), layout, follows=follows, is_plain=True
        )
        # What the plan does with the first, it does with those that have room beside it.
        run_bytes, file_bytes = _RUN_BYTES - self._run_nbytes, layout.file_bytes - self._nbytes
        rows = _RUN_ROWS - self._run_rows if min(run_bytes, file_bytes) >= 0 else 0
        stop, run_nbytes, nbytes = core.fitting(
            start + 1, rows, max(0, run_bytes), max(0, file_bytes)
        )
        self._run_rows += stop - start - 1
        self._run_nbytes += run_nbytes
        self._nbytes += nbytes
        offsets, checksums = core.identities(start, stop)
        self._offsets.frombytes(offsets)
        self._digests.frombytes(checksums)
        self._starts += bytes([placement.starts_file]).ljust(stop - start, b"\0")
        self._last = self._offsets[-1]
        return placement, stop

    @property
    def end(self) -> int:
        """The offset after all that were placed."""
        return self._offsets[-1] + 1 if self._offsets else 0

    def _place(
        self,
        offset: int,
        header: SegmentHeader,
        digest: bytes,
        size: _Size,
        layout: Layout,
        *,
        follows: bool,
        is_plain: bool,
    ) -> Placement:
        """Count a message; `follows`: it does, to the last one of the newest file."""
        follows = follows and header.schema == self._schema
        in_run = is_plain or layout.is_small(size.value)
        run_nbytes = size.message if is_plain else size.value
        joins_run = follows and in_run and self._run_has_room(header.rows, run_nbytes, is_plain)
        starts_file = not (follows and self._has_room(size.value, layout, joins_run=joins_run))
        if starts_file:
            self._nbytes = self._row_groups = 0
            joins_run = False
        if not joins_run:
            self._run_rows = self._run_nbytes = 0
            self._row_groups += 1
        if in_run:
            self._run_is_plain = is_plain
            self._run_rows += header.rows
            self._run_nbytes += run_nbytes
        self._last, self._schema = offset, header.schema
        self._nbytes += size.value
        return Placement(
            source=self.source,
            offset=offset,
            header=header,
            digest=digest,
            starts_file=starts_file,
            is_plain=is_plain,
            in_run=in_run,
            joins_run=joins_run,
        )

    def _run_has_room(self, rows: int, nbytes: int, is_plain: bool) -> bool:
        return (
            0 < self._run_rows <= _RUN_ROWS - rows
            and self._run_nbytes + nbytes <= (_RUN_BYTES if is_plain else _SMALL_RUN_BYTES)
            and self._run_is_plain == is_plain
        )

    def _has_room(self, nbytes: int, layout: Layout, *, joins_run: bool) -> bool:
        if self._nbytes + nbytes > layout.file_bytes:
            return False
        return joins_run or (
            layout.mode is Mode.STITCHED and self._row_groups < layout.file_row_groups
        )


class _Size(NamedTuple):
    """The bytes of a message that came, and of its value."""

    message: int
    value: int


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


def plain_digest(message: SourceMessage) -> bytes:
    """Return what identifies a plain message. The native core makes the same for many."""
    checksums = zlib.crc32(message.value or b""), zlib.crc32(message.key or b"")
    return _PLAIN_DIGEST.pack(*checksums, message.offset)
