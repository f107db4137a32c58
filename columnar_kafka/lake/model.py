"""The lake's words: what lands, where it comes from, what is staged, and what a table promises.

Within `lake/` each file may import only those before it: base → plan → stitch → stage → parquet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from columnar_kafka import position
from columnar_kafka.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.segment.headers import MessageHeaders

__all__ = [
    "CommitResult",
    "Count",
    "Fence",
    "Generation",
    "MayHaveLandedError",
    "Message",
    "NotLandedError",
    "Sink",
    "Source",
    "Staged",
    "StagedFile",
    "Table",
]

_ID: Final = re.compile(r"[0-9A-Za-z._=+/-]{1,500}", re.ASCII)  # no colon: it separates them
_TOPIC: Final = re.compile(r"[0-9A-Za-z._-]{1,249}", re.ASCII)  # Kafka's own rule


class NotLandedError(LakeError):
    """A commit of which nothing has landed, for sure: its staged files may be discarded."""


class MayHaveLandedError(LakeError):
    """A commit that has landed, or may have: nothing of it may be deleted.

    Staging and committing the same input again is harmless, and tells: what has landed is then
    counted as landed before.
    """


@dataclass(frozen=True, slots=True)
class Generation:
    """Which topic a name stands for: deleted and made again, it has another topic id.

    Raises:
        LakeError: an id that could not be told apart from others in a fence's name.
    """

    cluster: str
    topic_id: str

    def __post_init__(self) -> None:
        for name, value in (("cluster", self.cluster), ("topic", self.topic_id)):
            if not _ID.fullmatch(value):
                raise LakeError(f"{name} id {value!r}: letters, digits and ._=+/- are allowed")


@dataclass(frozen=True, slots=True)
class Source:
    """One partition of one generation of a topic.

    Raises:
        LakeError: no topic of Kafka can have that name; it becomes a folder's.
    """

    generation: Generation
    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not _TOPIC.fullmatch(self.topic) or self.partition < 0:
            raise LakeError(f"no Kafka partition: {self.topic!r}[{self.partition}]")

    @property
    def fence(self) -> str:
        """The name of its fence in a table."""
        ids = self.generation
        return f"kafka:{ids.cluster}:{ids.topic_id}:{self.partition}"

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One Kafka message to land: a segment, if its headers say so; its value is any buffer."""

    topic: str
    partition: int
    offset: int
    headers: MessageHeaders | None
    value: Any

    def __str__(self) -> str:
        return position.address(self.topic, self.partition, self.offset)


class Count(NamedTuple):
    """How many messages, and how many records in them; a plain message is one record."""

    messages: int = 0
    rows: int = 0

    def plus(self, other: Count) -> Count:
        """Return both together (`+` of tuples would put them side by side)."""
        return Count(self.messages + other.messages, self.rows + other.rows)


_NONE: Final = Count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """How far a partition has landed: all of the input from `first` to before `next`.

    Kept in the table itself and changed only together with its files. `segment` is the id of the
    last segment that landed.
    """

    topic: str
    partition: int
    first: int
    next: int
    segment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A complete file, durable and not yet visible, with the segments of one partition.

    `first` and `last` are the Kafka offsets of its first and last segment; there is no other file
    of the attempt in between. `segment` is the last one's id. `path` is relative to the table.
    `digest` is equal for two files of the same messages, however they are laid out.
    Plain values only: it is pickled, and written as JSON.
    """

    fence: str
    topic: str
    partition: int
    first: int
    last: int
    messages: int
    rows: int
    nbytes: int
    segment: str
    schema: str
    digest: str
    path: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] {self.first}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What one attempt (a task) has staged, small and picklable; `Table.commit` takes many.

    `landed_before` counts, by fence, what the table already had; `repeated` what came twice.
    """

    files: tuple[StagedFile, ...] = ()
    landed_before: Mapping[str, Count] = field(default_factory=dict)
    repeated: Count = _NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a commit has landed; `files` are the new files' paths, relative to the table.

    `landed_before` and `repeated` were in the input and have not landed again.
    """

    files: tuple[str, ...] = ()
    landed: Count = _NONE
    nbytes: int = 0
    landed_before: Count = _NONE
    repeated: Count = _NONE


class Sink(Protocol):
    """One file being staged; for one thread. Its methods raise OSError."""

    @property
    def path(self) -> str:
        """Where it is, relative to the table."""
        ...

    def write(self, data: Any, /) -> int:
        """Append a buffer, all of it."""
        ...

    def finish(self) -> int:
        """Make the file durable and close it; return its size in bytes."""
        ...

    def discard(self) -> None:
        """Close and remove the file, finished or not. Raises nothing: what remains is waste."""
        ...


class Table(Protocol):
    """A place where files land, each commit whole or not at all. Picklable, holds no state.

    Executors call `fences` and `create`, the driver (or a single process) `commit`. Any number
    of processes and threads may do all of it at the same time.
    """

    def fences(self) -> Mapping[str, Fence]:
        """Return what has landed, by fence name. Blocks for a read; changes nothing.

        Raises:
            LakeError: the table cannot be read.
        """
        ...

    def create(self, source: Source, first: int) -> Sink:
        """Open a new file of its own, visible to no reader, for segments from offset `first` on.

        Raises:
            OSError: it cannot be created.
        """
        ...

    def commit(self, staged: Iterable[Staged]) -> CommitResult:
        """Let the files of all attempts land together, and move the fences with them.

        Files that the fences show to have landed are counted, and removed from where they were
        staged; so are repetitions. When this returns, the rest has landed.

        Raises:
            NotLandedError: nothing has: the message says why and what to do.
            MayHaveLandedError: it has or may have; delete nothing, stage and commit again.
        """
        ...

    def discard(self, staged: Iterable[Staged]) -> None:
        """Remove files that are not going to land. Asks the table first: none that has landed.

        Safe to call after any outcome of `commit`. Raises nothing: what remains is waste.
        """
        ...
