"""The lake's values: messages that land, files that are staged, results."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from columnar_kafka import position
from columnar_kafka.errors import LakeError
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from columnar_kafka.native import _core as core
    from columnar_kafka.segment.headers import MessageHeaders

__all__ = [
    "REPLAY",
    "UNKNOWN_SEGMENT",
    "Check",
    "CommitResult",
    "CompactResult",
    "Count",
    "Fence",
    "FileWriter",
    "Fitting",
    "LandedFile",
    "MayHaveLandedError",
    "NotLandedError",
    "PartitionColumn",
    "PartitionValues",
    "PlainMessageError",
    "PlainMessages",
    "ReadRange",
    "SourceMessage",
    "SourcePartition",
    "StageResult",
    "StagedFile",
    "TopicGeneration",
    "UnlandableError",
    "WrongFile",
    "fence_topic",
    "unlandable",
]

_ID: Final = re.compile(r"[0-9A-Za-z._=+/-]{1,500}", re.ASCII)  # no colon, which separates ids
_TOPIC: Final = re.compile(r"[0-9A-Za-z._-]{1,249}", re.ASCII)  # Kafka's own rule

UNKNOWN_SEGMENT: Final = "?"  # no segment has this id
"""The last segment of a fence that was moved by hand, or past messages that were set aside."""


class UnlandableError(LakeError):
    """A message that would not land in another try either: it may be set aside."""


class PlainMessageError(UnlandableError):
    """A plain message, where only segments land."""


@contextmanager
def unlandable() -> Iterator[None]:
    """Raise a `LakeError` about a segment as an `UnlandableError`."""
    try:
        yield
    except LakeError as error:
        raise UnlandableError(error.reason) from error


class NotLandedError(LakeError):
    """Nothing of a commit has landed, for certain: its staged files may be discarded."""


class MayHaveLandedError(LakeError):
    """A commit has landed or may have landed: none of its files may be deleted.

    Stage and commit the same input again: what has landed then counts as landed before.
    """


REPLAY: Final = "dead-letters"
"""What stands for the cluster id of messages that come from a place of dead letters."""


def fence_topic(fence: str, topic: str) -> str:
    """Return whose fence it is: a topic's, or that of a topic's dead letters in one place."""
    _, cluster, topic_id, _ = fence.split(":")
    return f"{topic} (dead letters {topic_id.partition('/')[0]})" if cluster == REPLAY else topic


@dataclass(frozen=True, slots=True)
class TopicGeneration:
    """The cluster id and topic id behind a topic's name; a recreated topic has another topic id.

    Raises:
        LakeError: an id has characters that would make a fence's name ambiguous.
    """

    cluster: str
    topic_id: str

    def __post_init__(self) -> None:
        for name, value in (("cluster", self.cluster), ("topic", self.topic_id)):
            if not _ID.fullmatch(value):
                raise LakeError(f"{name} id {value!r}: only letters, digits and ._=+/- are allowed")

    @classmethod
    def named(cls, name: str, topic: str) -> TopicGeneration:
        """Return the generation that the user gives a name, where Kafka reports no id."""
        return cls("named", f"{name}/{topic}")

    def __str__(self) -> str:
        """Return both ids, as a fence's name has them."""
        return f"{self.cluster}:{self.topic_id}"


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """One partition of one generation of a topic.

    Raises:
        LakeError: Kafka allows no such topic name or partition. The name becomes a folder's.
    """

    generation: TopicGeneration
    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not _TOPIC.fullmatch(self.topic) or self.partition < 0:
            raise LakeError(f"not a Kafka partition: {self.topic!r}[{self.partition}]")

    @property
    def fence(self) -> str:
        """The name of this partition's fence in a table."""
        return f"kafka:{self.generation}:{self.partition}"

    def __str__(self) -> str:
        return position.partition_address(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMessage:
    """One Kafka message to land; a segment if its headers say so. `value` is any buffer.

    `key` and `timestamp`, in milliseconds since 1970, are for messages that are set aside.
    """

    topic: str
    partition: int
    offset: int
    headers: MessageHeaders | None
    value: Any
    key: Any = None
    timestamp: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is no segment."""
        return not is_segment(self.headers)

    def segment(self) -> Segment:
        """Return the message as a segment, of which the headers were read and no byte.

        Raises:
            SegmentError: these are not the headers of a segment that this release can read.
        """
        return Segment(
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            headers=self.headers,
            value=self.value or b"",
        )

    def __str__(self) -> str:
        return position.address(self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class PlainMessages:
    """Plain messages of one partition, by ascending offset; the native core has read them."""

    topic: str
    core: core.PlainMessages

    @property
    def partition(self) -> int:
        """The partition of all."""
        return self.core.partition

    @property
    def first(self) -> int:
        """The offset of the first."""
        return self.core.offset(0)

    @property
    def last(self) -> int:
        """The offset of the last."""
        return self.core.offset(len(self) - 1)

    def __len__(self) -> int:
        return len(self.core)

    def message(self, index: int) -> SourceMessage:
        """Return one of them."""
        offset, headers, value, key, timestamp = self.core.message(index)
        return SourceMessage(
            topic=self.topic,
            partition=self.partition,
            offset=offset,
            headers=headers,
            value=value,
            key=key,
            timestamp=timestamp,
        )

    def __str__(self) -> str:
        return position.address(self.topic, self.partition, self.first)


class Count(NamedTuple):
    """A number of messages, and of the records in them; a plain message is one record."""

    messages: int = 0
    rows: int = 0

    def plus(self, other: Count) -> Count:
        """Return the sum (`+` would concatenate the tuples)."""
        return Count(self.messages + other.messages, self.rows + other.rows)


_NONE: Final = Count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """How far a partition has landed: all input from offset `first` to before `next`.

    Fences are kept in the table itself and change only together with its files, or by hand (see
    `fence_reset`). `segment` is the id of the last segment that landed, or `UNKNOWN_SEGMENT` if
    another message came after it.
    """

    topic: str
    partition: int
    first: int
    next: int
    segment: str

    @property
    def partition_address(self) -> str:
        """Whose fence it is, for errors."""
        return position.partition_address(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The offsets of a partition, from `first` to before `next`, of which everything was read.

    Every committed message in it has been planned. Where no message was, there is none.
    """

    source: SourcePartition
    first: int
    next: int


PartitionValues = tuple[tuple[str, Any], ...]
"""A partition of a table: the name and the value of each partition column."""


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """One column of a table's partitioning.

    `path` is the column's in segments, or the name of one that they lack. `value` makes the
    partition's of its values, in their order if `is_ordered`. It takes dates as days since 1970,
    times as microseconds, and no null; raises LakeError, ValueError, OverflowError.
    """

    name: str
    path: tuple[str, ...]
    value: Callable[[Any], Any]
    is_ordered: bool = True


@dataclass(frozen=True, slots=True)
class Fitting:
    """How segments of one schema become files of a table.

    If `cast_to` is a schema, the segments' types are too narrow and are cast to its types. Every
    file has rows of one partition. The leaf columns with the numbers in `unstated` must have no
    statistics in a file, because a reader would take them for others. If `restates`, no file lands
    as it came: readers would refuse what it says of its types.
    """

    cast_to: pa.Schema | None = None
    partitioning: tuple[PartitionColumn, ...] = ()
    unstated: frozenset[int] = frozenset()
    restates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A complete file, durable and not yet visible, with segments of one partition.

    `first` and `last` are the Kafka offsets of the first and last segment; no other file of the
    attempt lies between them, but those of other partitions of the table that have the same
    `batch`: these land together or not at all. `segment` is the id of the last segment. `path` is
    relative to the table. `digest` is equal for two files, or batches, of the same messages,
    whatever their layout. In a batch the first file counts all `messages`. All values are plain,
    since it is pickled and written as JSON. Do not read the statistics of a file that
    `is_encrypted`: pyarrow crashes.
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
    batch: str = ""
    table_partition: PartitionValues | None = None
    is_encrypted: bool = False

    def __str__(self) -> str:
        return f"{position.partition_address(self.topic, self.partition)} {self.first}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """The files that one attempt (a task) has staged; small and picklable.

    `landed_before` counts by fence the input that the table already had, `repeated` the input that
    came twice. `ranges` are what was read, as far as that is known. Without it nobody notices
    that input was left out. `rewritten` counts the segments that were encoded anew, `decoded` the
    plain messages in a file, or batch, by the path of its (first) file. Messages that do not land
    in the table are in `dead_letters` and `plain_messages`, files of tables of their own, or were
    `skipped`. They lie in `set_aside`, a range for each partition.
    """

    files: tuple[StagedFile, ...] = ()
    ranges: tuple[ReadRange, ...] = ()
    landed_before: Mapping[str, Count] = field(default_factory=dict)
    repeated: Count = _NONE
    rewritten: int = 0
    decoded: Mapping[str, int] = field(default_factory=dict)
    dead_letters: tuple[StagedFile, ...] = ()
    plain_messages: tuple[StagedFile, ...] = ()
    skipped: int = 0
    set_aside: tuple[ReadRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The result of a commit: paths of the new files, relative to the table, and what landed.

    `landed_before` and `repeated` count input that has not landed again, and `rewritten` the
    segments that were encoded anew when they were staged. `decoded` counts the plain messages
    among those that have landed; `dead_letters`, `plain_messages` and `skipped` were set aside.
    """

    files: tuple[str, ...] = ()
    landed: Count = _NONE
    nbytes: int = 0
    landed_before: Count = _NONE
    repeated: Count = _NONE
    rewritten: int = 0
    decoded: int = 0
    dead_letters: int = 0
    plain_messages: int = 0
    skipped: int = 0

    def plus(self, other: CommitResult) -> CommitResult:
        """Return the result of both commits."""
        counts: dict[str, Any] = {}
        for counter in fields(self):
            one, more = getattr(self, counter.name), getattr(other, counter.name)
            counts[counter.name] = one.plus(more) if isinstance(one, Count) else one + more
        return CommitResult(**counts)

    def __str__(self) -> str:
        """Return what has landed, as the line of a log says it, and what else there was, if any."""
        others = {
            "records had landed before": self.landed_before.rows,
            "records came twice": self.repeated.rows,
            "segments encoded anew": self.rewritten,
            "dead letters": self.dead_letters,
            "plain messages in a table of their own": self.plain_messages,
            "messages skipped": self.skipped,
        }
        plain = f" and {self.decoded} plain messages" if self.decoded else ""
        return (
            f"{self.landed.rows} records in {self.landed.messages - self.decoded} segments{plain} "
            f"({self.nbytes / 1e6:.1f} MB) landed in {len(self.files)} files"
            + "".join(f"; {count} {what}" for what, count in others.items() if count)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """How many files a table had before some were merged, and has now."""

    files_before: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFile:
    """A Parquet file of a table as it is now; `path` is relative to the table, or a URI.

    `footer` returns what pyarrow can read the footer from, `open` what it can read all from. They
    and `read` block, and raise OSError. `partition` has the table's partition columns, as scalars,
    which the file may lack; other files may have rows of its messages.
    """

    path: str
    footer: Callable[[], Any]
    open: Callable[[], Any]
    read: Callable[[], bytes]
    partition: Mapping[str, Any] = field(default_factory=dict)


class WrongFile(NamedTuple):
    """A file of a table whose bounds hide rows, and in which columns.

    `nan` are the leaf columns, by number, of which it states bounds although there is a NaN.
    """

    file: StagedFile
    columns: tuple[str, ...]
    nan: frozenset[int]
    can_be_mended: bool = True


Check = Callable[[], WrongFile | None]
"""Reads the footer of a file, and returns the file if it hides rows. Raises LakeError."""


class FileWriter(Protocol):
    """Writes one file to be staged; for one thread. `write` and `finish` raise OSError."""

    @property
    def path(self) -> str:
        """The path of the file, relative to the table."""
        ...

    @property
    def field_ids(self) -> Mapping[tuple[str, ...], int] | None:
        """The field ids of a stitched file's columns, by path in the Parquet schema, if any."""
        ...

    def write(self, data: Any, /) -> int:
        """Append all of a buffer; return its size in bytes."""
        ...

    def finish(self) -> int:
        """Make the file durable and close it; return its size in bytes."""
        ...

    def discard(self) -> None:
        """Close and remove the file, finished or not. Raises nothing: a remaining file is waste."""
        ...
