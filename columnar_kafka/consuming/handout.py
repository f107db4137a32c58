"""What is about to be handed out, and the one step in which that happens.

What a consumer returns waits in an iterator of C's first. The last thing that a call does is to
take it from there and to return it:

    for message in ready.left:
        return message

Several are taken as one list, which is the only thing in an iterator.

CPython changes threads and runs the handlers of signals after calls, and where loops begin again.
Between taking and the user's own line there is neither. So a message is either still here or the
user's, whichever thread takes it and whatever raises. How many were taken the iterator tells, and
what follows from that (positions, offsets to be stored) the feed notes later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from columnar_kafka import position
from columnar_kafka.consuming.record import RecordContext, records
from columnar_kafka.segment.segment import record_slices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import confluent_kafka
    import pyarrow as pa
    from confluent_kafka import KafkaException

    from columnar_kafka.message import Message
    from columnar_kafka.offsets import Partition
    from columnar_kafka.segment.segment import Segment

__all__ = [
    "MESSAGE_BYTES",
    "Found",
    "Handed",
    "OpenSegment",
    "Part",
    "Ready",
    "bytes_of",
    "offset_of",
    "partition_of",
    "size_of",
]

MESSAGE_BYTES: Final = 200
"""What a message takes besides its value, about."""

_READS: Final = 2  # a call with a filter reads twice


@dataclass(slots=True)
class OpenSegment:
    """The segment whose records are being made ready; the next one is at position `at`."""

    key: Partition
    source: confluent_kafka.Message
    segment: Segment
    at: int
    columns: dict[tuple[str, ...], pa.Table] = field(default_factory=dict)
    _messages: Iterator[list[Message]] | None = None
    _made: list[Message] = field(default_factory=list)
    _first: int = 0  # the position of the first that is made

    @property
    def row(self) -> int:
        """The next record's row."""
        return self._row(self.at)

    def _row(self, at: int) -> int:
        return self.segment.rows - (position.unpack(at).left or self.segment.rows)

    def take(self) -> list[Message]:
        """Return the next records as messages, one at least and as many as are made; `at` stays.

        Raises:
            SegmentError: it cannot be decoded.
            ColumnarError: no process could be started to decode in.
        """
        first = self.at - self._first
        if not 0 <= first < len(self._made):
            self._make()
            first = 0
        return self._made[first:]

    def _make(self) -> None:
        messages, self._messages = self._messages, None  # an exception in it is the end of it
        if messages is None or self.at != self._first + len(self._made):
            self.columns.clear()
            messages = _messages(self.segment, self.source, self.row)
        self._made, self._first, self._messages = next(messages), self.at, messages

    def read(self, names: list[str]) -> pa.Table:
        """Return all rows in these columns, decoded once for calls one after the other."""
        asked = tuple(names)
        if asked not in self.columns:
            if len(self.columns) >= _READS:
                self.columns.clear()
            self.columns[asked] = self.segment.to_table(names)
        return self.columns[asked]


def _messages(
    segment: Segment, source: confluent_kafka.Message, start: int
) -> Iterator[list[Message]]:
    """Yield the records of a segment from row `start` on as messages, some at a time."""
    kind, _ = stamp = source.timestamp()
    place = RecordContext(
        topic=segment.topic,
        partition=segment.partition,
        leader_epoch=source.leader_epoch(),
        rows=segment.rows,
        kind=kind,
        appended=stamp if kind == TIMESTAMP_LOG_APPEND_TIME else None,
    )
    for row, found in record_slices(segment, start):
        yield records(place, segment.offset + row, *found)


@dataclass(frozen=True, slots=True)
class Part:
    """What is ready of one Kafka message: the messages `begin` to `end`.

    They are records from position `at` on of the segment that is `opened`, or it is None and the
    one message is the whole of its source.
    """

    begin: int
    end: int
    source: confluent_kafka.Message
    opened: OpenSegment | None
    at: int


class Ready:
    """Messages in the order in which they are handed out.

    First they are gathered, as many as a call wants. Then `publish` lets any thread take them, one
    by one from `left`, or many at once as the one list in `many`. From then on none is added any
    more. `withdraw` ends that.
    """

    __slots__ = (
        "_at_once",
        "_upto",
        "_withdrawn",
        "is_published",
        "left",
        "many",
        "messages",
        "noted",
        "noted_parts",
        "parts",
    )

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.parts: list[Part] = []
        self.left: Iterator[Message] = iter(())
        self.many: Iterator[list[Message]] = iter(())
        self.noted = 0  # of the messages that were taken
        self.noted_parts = 0  # of those that were taken whole
        self.is_published = False  # now, or once
        self._upto = 0  # of the messages that were taken, can be, or were withdrawn since
        self._at_once = 0  # of these in `many`
        self._withdrawn: list[Message] = []

    def count_left(self) -> int:
        """Return how many were not taken."""
        return len(self.messages) - self.count_taken()

    def count_taken(self) -> int:
        """Return how many were."""
        still = length_hint(self.left) + self._at_once * length_hint(self.many)
        return self._upto - still - len(self._withdrawn)

    def publish(self, count: int) -> None:
        """Let up to `count` be taken at once; or, if it is one, all of them one by one."""
        if length_hint(self.left) or length_hint(self.many):
            if count == 1 and length_hint(self.left):
                return
            self.withdraw()
        begin = self._upto - len(self._withdrawn)
        upto = len(self.messages) if count == 1 else min(begin + count, len(self.messages))
        batch, withdrawn = self.messages[begin:upto], list[Any]()
        left = iter(batch if count == 1 else ())
        many = iter((batch,) if batch and count > 1 else ())
        # All of it or nothing: nothing is called from here on.
        self._upto, self._at_once, self._withdrawn = upto, upto - begin, withdrawn
        self.left, self.many, self.is_published = left, many, True

    def take(self, count: int) -> list[Message]:
        """Return what was published for this `count`; nothing if other threads have taken it."""
        for message in self.left if count == 1 else ():
            return [message]
        for messages in self.many if count > 1 else ():
            return messages
        return []

    def withdraw(self) -> None:
        """Let no more be taken."""
        left, many = self.left, chain.from_iterable(self.many)
        self._withdrawn += left  # in one step each: what is taken meanwhile is not in it
        self._withdrawn += many


class Handed:
    """What is noted when something has been handed out."""

    __slots__ = ("after", "at", "ends", "epochs", "moved", "opened")

    def __init__(self, opened: OpenSegment | None) -> None:
        """Begin in the segment that is open, or with what is held."""
        self.opened = opened
        self.at = 0 if opened is None else opened.at
        self.moved = 0  # messages, from the first that is held on
        self.after: dict[Partition, int] = {}
        self.epochs: dict[Partition, int | None] = {}
        self.ends: dict[Partition, int | None] = {}

    def upto(self, source: confluent_kafka.Message, after: int) -> None:
        """Add what is of a Kafka message up to a position."""
        key = partition_of(source)
        self.after[key] = after
        self.epochs[key] = source.leader_epoch()

    def inside(self, opened: OpenSegment, at: int) -> None:
        """Add a segment's records up to a position; the next one follows."""
        self.upto(opened.source, at)
        self.at = at
        self.opened = opened if at % position.MAX_ROWS else None


class Found:
    """A table, a segment, or the error that comes instead: one call's own, to be taken once."""

    def __init__(
        self,
        handed: Handed | None,
        result: Any = None,
        error: KafkaException | None = None,
    ) -> None:
        """`handed` is what is noted once it was taken; None for an error that stays."""
        self.handed = handed
        self.result = result
        self._error = error
        self._left = iter((None,))
        self._withdrawn: list[None] | None = None

    def take(self) -> Any:
        """Return the result or raise the error, which counts as handed out from now on.

        None if it was withdrawn: another thread has done something with the consumer since.
        """
        for _ in self._left:  # see above; a function of Python's is no call in between
            if self._error is not None:
                raise self._error
            return self.result
        return None

    def withdraw(self) -> None:
        """Let it not be taken any more."""
        if self._withdrawn is None:
            self._withdrawn = [*self._left]

    @property
    def is_taken(self) -> bool:
        """Whether it was taken."""
        return not (length_hint(self._left) if self._withdrawn is None else self._withdrawn)


def partition_of(message: confluent_kafka.Message) -> Partition:
    """Return what identifies a message's partition."""
    return message.topic() or "", -1 if (at := message.partition()) is None else at


def offset_of(message: confluent_kafka.Message) -> int:
    """Return a message's Kafka offset."""
    offset = message.offset()
    return 0 if offset is None else offset


def size_of(message: confluent_kafka.Message) -> int:
    """Return about how many bytes a message takes."""
    return len(message) + MESSAGE_BYTES


def bytes_of(messages: Collection[confluent_kafka.Message]) -> int:
    """Return what `size_of` says of them together."""
    return sum(map(len, messages)) + MESSAGE_BYTES * len(messages)
