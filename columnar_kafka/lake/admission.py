"""Which files land at a commit, and how far the fences move. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from columnar_kafka import position
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import (
    UNKNOWN_SEGMENT,
    Fence,
    NotLandedError,
    ReadRange,
    StagedFile,
    fence_topic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Admission", "FenceOwners", "admit", "below"]


class FenceOwners:
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


def below(fence: Fence) -> str:
    """Say why a message before the first of a fence cannot land."""
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
    owners = FenceOwners(fences)
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
    owners: FenceOwners,
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


def _has_landed(file: StagedFile, fences: Mapping[str, Fence], owners: FenceOwners) -> bool:
    _check_owner(owners, file.fence, file.topic, file.partition)
    fence = fences.get(file.fence)
    if fence is None or file.first >= fence.next:
        return False
    if file.first < fence.first:
        raise NotLandedError(f"{file}: {below(fence)}")
    if file.last >= fence.next:
        raise NotLandedError(
            f"{file}: the offsets up to {fence.next - 1} have landed meanwhile: stage the input "
            "again"
        )
    return True


def _check_owner(owners: FenceOwners, fence: str, topic: str, partition: int) -> None:
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
