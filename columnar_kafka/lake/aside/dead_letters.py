"""Dead letters: messages that cannot land, beside the table, with the reason and all their bytes.

The place is a directory of Parquet files with a log and fences of its own (see `tables.directory`).
Dead letters are committed first, then the table. A process that is killed in between leaves dead
letters that the table's fence does not cover. The next attempt reads these messages again, and the
first verdict stands: what is among the dead letters does not land. So every message is in one
place. `set_aside` decides which messages come here, and writes them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.message_rows import read_messages, read_offsets
from columnar_kafka.lake.model import (
    REPLAY,
    NotLandedError,
    SourcePartition,
    StageResult,
    TopicGeneration,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from columnar_kafka.lake.model import Fence, SourceMessage
    from columnar_kafka.lake.tables.directory.table import ParquetDirectory

__all__ = ["DeadLetters", "Taken", "replayed_place", "source_topic"]


@dataclass(frozen=True, slots=True)
class Taken:
    """The offsets of a partition that were dead letters before an attempt began, up to `next`.

    Those that the table's fence covers are left out.
    """

    offsets: array[int]
    next: int

    def has(self, offset: int) -> bool:
        """Return whether the message at an offset is a dead letter."""
        at = bisect_left(self.offsets, offset)
        return at < len(self.offsets) and self.offsets[at] == offset


class DeadLetters:
    """A place of dead letters, of one table. Picklable; for any thread."""

    def __init__(self, table: ParquetDirectory) -> None:
        """Name the directory; it need not exist yet."""
        self.table = table

    def __repr__(self) -> str:
        return f"DeadLetters({self.table!r})"

    def taken(self, fences: Mapping[str, Fence]) -> dict[str, Taken]:
        """Return the dead letters past a table's `fences`, by fence. Blocks for the file system.

        Raises:
            LakeError, OSError: the place cannot be read.
        """
        taken = {}
        for name, fence in self.table.head().fences.items():
            begin = fences[name].next if name in fences else 0
            if fence.next > begin:
                offsets = self._offsets(source_topic(name, fence), fence.partition, begin)
                taken[name] = Taken(offsets, fence.next)
        return taken

    def check_origin(self, source: SourcePartition) -> None:
        """Check that the place is for what comes from Kafka, or from the same other place.

        Their offsets would follow each other in any order.

        Raises:
            LakeError: it is not.
        """
        for name in self.table.fences():
            if replayed_place(name) != replayed_place(source.fence):
                raise LakeError(
                    f"{self} already has dead letters of another source, {name}: use another place "
                    f"for those of {source.fence}"
                )

    def commit(self, staged: Iterable[StageResult]) -> None:
        """Commit the dead letters of all attempts.

        Raises:
            NotLandedError: nothing was committed.
            MayHaveLandedError: they were committed or may have been.
        """
        files = [
            StageResult(files=attempt.dead_letters) for attempt in staged if attempt.dead_letters
        ]
        if not files:
            return
        result = self.table.commit(files)
        if result.landed_before.messages:
            raise NotLandedError(
                f"{self}: another process has set messages aside meanwhile: stage the input again"
            )

    def sources(self) -> list[SourcePartition]:
        """Return the partitions that have dead letters here, as sources of a replay.

        Raises:
            LakeError, OSError: the place cannot be read.
        """
        fences = self.table.head().fences
        place = self.table.id
        return [
            SourcePartition(
                TopicGeneration(REPLAY, f"{place}/{source_topic(name, fence)}"),
                source_topic(name, fence),
                fence.partition,
            )
            for name, fence in sorted(fences.items())
        ]

    def messages(self, source: SourcePartition, start: int) -> Iterator[SourceMessage]:
        """Yield a partition's dead letters from offset `start` on. Raises OSError."""
        for data in self.table.contents(source.topic, source.partition, start):
            yield from read_messages(data, start)

    def _offsets(self, topic: str, partition: int, begin: int) -> array[int]:
        offsets = array("q")
        for data in self.table.contents(topic, partition, begin):
            offsets.extend(offset for offset in read_offsets(data) if offset >= begin)
        return offsets


def replayed_place(fence: str) -> str:
    """Return the place of dead letters from which a fence's messages come; empty for Kafka."""
    _, cluster, topic_id, _ = fence.split(":")
    return topic_id.partition("/")[0] if cluster == REPLAY else ""


def source_topic(name: str, fence: Fence) -> str:
    """Return the topic of a fence, also of one of a replay."""
    return name.split(":")[2].partition("/")[2] if replayed_place(name) else fence.topic
