"""Messages from Kafka → records in order: unwrapped, from the right row on, within a bound.

While records are handed out of a segment already held, librdkafka is still served at least every
100 ms, or the group would take the consumer for dead. What that fetches waits here; when that is
much, the partitions pause inside.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import confluent_kafka
from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaException,
    TopicPartition,
)

from columnar_kafka import position, wire
from columnar_kafka.decoder import Segment
from columnar_kafka.errors import ColumnarError, SegmentError
from columnar_kafka.ledger import Ledger, Partition, key_of
from columnar_kafka.record import Message, Place, plain_message, records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    import pyarrow as pa

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.decoder import Decoder

__all__ = [
    "HELD_BYTES",
    "Feed",
    "Open",
    "bytes_of",
    "offset_of",
    "partition_of",
    "size_of",
    "start_of",
]

_SERVE_EVERY: Final = 0.1
_HELD_MESSAGES: Final = 1000
HELD_BYTES: Final = 32 << 20
"""Held at most, and then what was fetched last."""
_MESSAGE_BYTES: Final = 200  # besides its value
_LOOKUP: Final = 1.0
_READS: Final = 2  # a call with a filter reads twice


@dataclass(slots=True)
class Open:
    """The segment whose records are being handed out; the next one is at position `at`."""

    key: Partition
    source: confluent_kafka.Message
    segment: Segment
    at: int
    messages: Iterator[list[Message]] | None = None
    ready: list[Message] = field(default_factory=list)  # the next ones, last first
    columns: dict[tuple[str, ...], pa.Table] = field(default_factory=dict)

    @property
    def row(self) -> int:
        """The next record's row."""
        return self.segment.rows - (position.unpack(self.at).left or self.segment.rows)

    def take(self, most: int) -> list[Message]:
        """Return the next records as messages, one at least."""
        if self.messages is None:
            self.columns.clear()
            self.messages = _messages(self.segment, self.source, self.row)
        if not self.ready:
            new = next(self.messages)
            if len(new) <= most:
                return new
            self.ready = new[::-1]
        found = self.ready[-most:][::-1]
        del self.ready[-most:]
        return found

    def rewind(self, at: int) -> None:
        """Go on at another position, whose record is not converted yet."""
        self.at, self.messages = at, None
        self.ready.clear()

    def read(self, names: list[str]) -> pa.Table:
        """Return all rows in these columns, decoded once for calls one after the other."""
        asked = tuple(names)
        if asked not in self.columns:
            if len(self.columns) >= _READS:
                self.columns.clear()
            self.columns[asked] = self.segment.to_table(names)
        return self.columns[asked]


class Feed:
    """Owns every message between librdkafka and the user. One thread at a time."""

    def __init__(
        self,
        broker: ConsumerBroker,
        ledger: Ledger,
        *,
        decoder: Decoder | None = None,
        clock: Callable[[], float] = time.monotonic,
        before_serving: Callable[[], None] = lambda: None,
        after_serving: Callable[[], None] = lambda: None,
    ) -> None:
        """Hand out what `broker` receives. Without a `decoder` the usual limits hold.

        `before_serving` runs each time before librdkafka is served; `after_serving` afterwards,
        when raising loses no record.
        """
        self._broker = broker
        self._ledger = ledger
        self._decoder = decoder
        self._clock = clock
        self._before_serving = before_serving
        self._after_serving = after_serving
        self._served = clock()
        self._open: Open | None = None
        self._held: deque[confluent_kafka.Message] = deque()
        self._held_bytes = 0
        self._changes = 0  # grows with all that may change what is held: a callback may do it
        self._held_back: dict[Partition, TopicPartition] = {}  # paused inside, not by the user
        self._paused: set[Partition] = (
            set()
        )  # by the user; as in librdkafka for good, until resumed
        self._parked: dict[Partition, list[confluent_kafka.Message]] = {}  # held of those
        self._begun: dict[Partition, int] = {}  # the positions of the assignment
        self._floor: dict[Partition, int] = {}  # where to begin inside the segment of that offset
        self._unresolved: set[Partition] = set()
        self._resume: dict[Partition, TopicPartition] = {}
        self._ends: dict[Partition, int | None] = {}  # what was handed out when an end was reached

    def __repr__(self) -> str:
        current = "no segment" if self._open is None else "a segment"
        return f"<Feed {current} open, {len(self._held)} messages held, {len(self._parked)} parked>"

    # --- what the assignment does ---------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin partitions: at a position, where their group left off, or where librdkafka says."""
        for each in partitions:
            key = key_of(each)
            self.revoke([key])
            if each.offset >= 0:
                self._begun[key] = self._floor[key] = each.offset
            elif each.offset in (OFFSET_INVALID, OFFSET_STORED):
                self._unresolved.add(key)

    def seek(self, partition: TopicPartition) -> None:
        """Go on at another position of a partition that is assigned."""
        key = key_of(partition)
        self._drop(key)
        self._ledger.sought(key)
        if partition.offset >= 0:
            self._floor[key] = partition.offset

    def begun_at(self, key: Partition) -> int | None:
        """Return the position that a partition was assigned with; None where it had none."""
        return self._begun.get(key)

    def serve_soon(self) -> None:
        """Let librdkafka be heard before anything else is handed out: a rebalance may be due."""
        self._served = -float("inf")

    def clear(self) -> None:
        """Forget everything: the consumer is closed."""
        self.revoke({*self._ledger.delivered, *self._floor, *self._unresolved})
        self._hold([])
        self._open = None
        self._paused.clear()
        self._parked.clear()
        self._held_back.clear()

    def revoke(self, keys: Iterable[Partition]) -> None:
        """Forget partitions; what is held of them is somebody else's now."""
        for key in list(keys):
            self._drop(key)
            self._begun.pop(key, None)
            self._ledger.forget([key])

    def _drop(self, key: Partition) -> None:
        self._floor.pop(key, None)
        self._resume.pop(key, None)
        self._parked.pop(key, None)
        self._ends.pop(key, None)
        self._unresolved.discard(key)
        self._hold([message for message in self._held if partition_of(message) != key])
        if self._open is not None and self._open.key == key:
            self._open = None

    def pause(self, keys: Iterable[Partition]) -> None:
        """Hand nothing of these partitions out until `resume`; what is held of them waits."""
        for key in keys:
            self._held_back.pop(key, None)
            self._paused.add(key)
            parked = self._parked.setdefault(key, [])
            if self._open is not None and self._open.key == key:
                # Its floor is the next record: the segment is opened there again.
                parked.append(self._open.source)
                self._floor[key] = self._open.at
                self._open = None
            parked += [message for message in self._held if partition_of(message) == key]
            self._hold([message for message in self._held if partition_of(message) != key])

    def resume(self, keys: Iterable[Partition]) -> None:
        """Hand these partitions out again."""
        for key in keys:
            self._paused.discard(key)
            self._hold([*self._parked.pop(key, []), *self._held])

    def _hold(self, messages: list[confluent_kafka.Message]) -> None:
        # In place: it may be a callback that does it, while messages are being fetched into it.
        self._held.clear()
        self._held.extend(messages)
        self._held_bytes = bytes_of(messages)
        self._changes += 1

    # --- handing out ----------------------------------------------------------------------------

    def next(self, timeout: float) -> Message | None:
        """Return the next record, plain message or error event; None after `timeout` seconds."""
        found = self.take(1, timeout)
        return found[0] if found else None

    def take(self, count: int, timeout: float) -> list[Message]:
        """Return up to `count` of them; fewer only when `timeout` seconds have passed."""
        deadline = self._clock() + timeout if timeout >= 0 else float("inf")
        self._changes += 1
        found: list[Message] = []
        while len(found) < count:
            self._serve_if_due()
            if not found:  # what was taken would be lost with the exception
                self._after_serving()
            try:
                if self._open is not None:
                    found += self._from_open(count - len(found))
                    continue
                source = self._fetch(deadline, may_raise=not found)
                if source is None:
                    break
                some = self._unwrap(source, deadline, count - len(found))
            except ColumnarError:  # no decoder could be started
                if not found:
                    raise
                break  # or what was taken would be lost: the next call raises it again
            found += some
            if not some and self._clock() >= deadline:
                break
        return found

    def segment(self, timeout: float) -> Segment | None:
        """Return the next segment whole; None after `timeout` seconds.

        A segment some records of which, not all, were handed out already is returned whole again.

        Raises:
            KafkaException: the next message is an error event (it is taken), or a plain message
                (it stays, for `next`).
            SegmentError: it is no segment that can be read; the next call goes on after it.
        """
        deadline = self._clock() + timeout if timeout >= 0 else float("inf")
        self._changes += 1
        self._serve_if_due()
        self._after_serving()
        if self._open is not None:
            self._put_back(self._open.source)
            self._open = None
        source = self._fetch(deadline, may_raise=True)
        if source is None:
            return None
        if source.error() is not None:
            self._reached(source)
            raise KafkaException(source.error())
        if not wire.is_segment(source.headers()):
            self._put_back(source)
            raise KafkaException(
                confluent_kafka.KafkaError(
                    confluent_kafka.KafkaError._STATE,
                    f"the message at {_where(source)} is a plain message, not a segment: "
                    "take it with poll()",
                )
            )
        try:
            segment = self.read(source)
            segment.verify()
        except SegmentError:
            self._passed(source)
            raise
        except BaseException:  # nothing is known of the segment
            self._put_back(source)
            raise
        self._passed(source)
        self._ledger.opened(partition_of(source), segment.kafka_offset, segment.id, segment.rows)
        return segment

    def at_end(self) -> set[Partition]:
        """Return the partitions of which nothing was handed out since their end was told."""
        delivered = self._ledger.delivered
        return {key for key, after in self._ends.items() if delivered.get(key) == after}

    def _reached(self, event: confluent_kafka.Message) -> None:
        """Note the end of a partition, if that is what an event tells."""
        if _has_a_place(event):
            key = partition_of(event)
            self._ends[key] = self._ledger.delivered.get(key)

    def _passed(self, source: confluent_kafka.Message) -> None:
        """Note that a Kafka message was handed out, all of it."""
        key = partition_of(source)
        self._ledger.took(key, source.leader_epoch())
        self._ledger.delivered[key] = position.start(offset_of(source) + 1)

    def _from_open(self, most: int) -> list[Message]:
        """Return the open segment's next records, one at least, and close it after the last."""
        current = self._open
        assert current is not None
        try:
            found = current.take(most)
        except SegmentError as error:
            self._open = None
            self._passed(current.source)
            return [_bad(current.source, error)]
        except BaseException:  # nothing is known of the segment: it is opened here again
            self._open = None
            self._floor[current.key] = current.at
            self._put_back(current.source)
            raise
        current.at += len(found)
        self._ledger.delivered[current.key] = current.at
        if not position.unpack(current.at).left:
            self._open = None
        return found

    def _unwrap(self, source: confluent_kafka.Message, deadline: float, most: int) -> list[Message]:
        """Return a plain message or an error; open a segment and return its first records."""
        if source.error() is not None:
            self._reached(source)
            return [plain_message(source)]
        key = partition_of(source)
        if key in self._unresolved and not self._is_resolved_for(source, deadline):
            return []
        # Of another offset they say nothing: that message is gone, all of this one is to come.
        floor, committed = self._floor.pop(key, -1), self._resume.pop(key, None)
        if not wire.is_segment(source.headers()):
            self._passed(source)
            return [plain_message(source)]
        try:
            segment = self.read(source)
        except SegmentError as error:
            self._passed(source)
            return [_bad(source, error)]
        start, resumed = start_of(segment, floor, committed)
        self._ledger.mark_committed(resumed)
        self._ledger.opened(key, segment.kafka_offset, segment.id, segment.rows)
        self._ledger.took(key, source.leader_epoch())
        self._open = Open(key, source, segment, segment.offset + start)
        return self._from_open(most)

    def _is_resolved_for(self, source: confluent_kafka.Message, deadline: float) -> bool:
        """Learn where the group left off, or put the message back."""
        try:
            is_resolved = self._resolve(deadline)
        except BaseException:
            self._put_back(source)
            raise
        if not is_resolved:
            self._put_back(source)
            self._serve(self._step(deadline))
        return is_resolved

    def _resolve(self, deadline: float) -> bool:
        """Learn where the group left off; False when Kafka has to be asked again."""
        asked = [TopicPartition(*each) for each in self._unresolved]
        left = max(_LOOKUP, min(10.0, deadline - self._clock()))
        try:
            found = self._broker.committed(asked, left)
        except KafkaException as error:
            if error.args[0].retriable() or error.args[0].code() in _AGAIN:
                return False
            found = []  # nothing can be known: the segment is read from its first row
        self._unresolved.clear()
        # Whether a row is of the segment that is there is known when that comes.
        self._ledger.mark_committed(TopicPartition(*key_of(each), each.offset) for each in found)
        self._resume |= {key_of(each): each for each in found if each.error is None}
        return True

    def read(self, source: confluent_kafka.Message) -> Segment:
        """Return the segment in a message; nothing is decoded yet.

        Raises:
            SegmentError: its headers are not those of a segment that this release can read.
        """
        topic, partition = partition_of(source)
        return Segment(
            topic=topic,
            partition=partition,
            offset=offset_of(source),
            headers=source.headers(),
            value=source.value() or b"",
            decoder=self._decoder,
        )

    # --- librdkafka -----------------------------------------------------------------------------

    def _fetch(self, deadline: float, *, may_raise: bool) -> confluent_kafka.Message | None:
        """Return the next message to hand out, in Kafka's order for each partition."""
        while not self._held:
            self._resume_held_back()
            # Not for all of the time at once: what a callback raised must not wait for a message.
            self._serve(self._step(deadline))
            if self._held:
                break
            if may_raise:
                self._after_serving()
            if self._clock() >= deadline:
                return None
        message = self._held.popleft()
        self._held_bytes -= size_of(message)
        return message

    def _step(self, deadline: float) -> float:
        """Return for how long librdkafka may be waited for at once."""
        return min(_SERVE_EVERY, max(0.0, deadline - self._clock()))

    def _serve_if_due(self) -> None:
        if self._clock() - self._served >= _SERVE_EVERY:
            self._serve(0)

    def _serve(self, timeout: float) -> None:
        """Let librdkafka run callbacks and fetch one message, which is held.

        It is asked again after an event: a rebalance may follow, and take away what is held.
        """
        self._before_serving()
        while (message := self._broker.poll(timeout)) is not None:
            self._keep(message)
            if self._is_full():
                self._hold_back()
            if _has_a_place(message):
                break
            timeout = 0
        self._served = self._clock()

    def _keep(self, message: confluent_kafka.Message) -> bool:
        """Hold a message; False if that is of a partition that the user has paused."""
        if self._paused and partition_of(message) in self._paused and _has_a_place(message):
            self._parked.setdefault(partition_of(message), []).append(message)
            return False
        self._held.append(message)
        self._held_bytes += len(message) + _MESSAGE_BYTES  # as size_of, which a call would double
        return True

    def _is_full(self, most: int = 0) -> bool:
        """Say whether much is held, `most` messages or more than usual."""
        held = len(self._held)
        return (held >= most and held >= _HELD_MESSAGES) or self._held_bytes >= HELD_BYTES

    def _hold_back(self) -> None:
        """Fetch no more; again, if a partition came or was resumed since."""
        assigned = [each for each in self._broker.assignment() if key_of(each) not in self._paused]
        self._broker.pause(assigned)
        self._held_back |= {key_of(each): each for each in assigned}

    def _resume_held_back(self) -> None:
        if self._held_back:
            self._broker.resume(list(self._held_back.values()))
            self._held_back = {}

    def _put_back(self, message: confluent_kafka.Message) -> None:
        self._held.appendleft(message)
        self._held_bytes += size_of(message)


_AGAIN: Final = frozenset(
    {
        confluent_kafka.KafkaError._TIMED_OUT,
        confluent_kafka.KafkaError._TRANSPORT,
        confluent_kafka.KafkaError._WAIT_COORD,
        confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
        confluent_kafka.KafkaError.NOT_COORDINATOR,
    }
)


def partition_of(message: confluent_kafka.Message) -> Partition:
    """Return what identifies a message's partition."""
    return message.topic() or "", -1 if (at := message.partition()) is None else at


def offset_of(message: confluent_kafka.Message) -> int:
    """Return a message's Kafka offset."""
    offset = message.offset()
    return 0 if offset is None else offset


def size_of(message: confluent_kafka.Message) -> int:
    """Return about how many bytes a message takes."""
    return len(message) + _MESSAGE_BYTES


def bytes_of(messages: Collection[confluent_kafka.Message]) -> int:
    """Return what `size_of` says of them together."""
    return sum(map(len, messages)) + _MESSAGE_BYTES * len(messages)


def _where(message: confluent_kafka.Message) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"


def _has_a_place(message: confluent_kafka.Message) -> bool:
    """Say whether this belongs between the messages of its partition: one of them, or the end."""
    error = message.error()
    return error is None or error.code() == confluent_kafka.KafkaError._PARTITION_EOF


def _row(segment: Segment, at: int) -> int:
    """Return the row at which a segment is to be begun, for a position in it or elsewhere."""
    if at < 0:
        return 0
    offset, left = position.unpack(at)
    inside = offset == segment.kafka_offset and 0 < left < segment.rows
    return segment.rows - left if inside else 0


def start_of(
    segment: Segment, floor: int, committed: TopicPartition | None
) -> tuple[int, list[TopicPartition]]:
    """Return the row at which a segment is to be begun, and what of the group's commit says so."""
    if committed is not None and (row := _committed_row(segment, committed)):
        return row, [committed]
    return _row(segment, floor), []


def _committed_row(segment: Segment, committed: TopicPartition) -> int:
    """Return the row that the group has committed, if that is of this very segment."""
    at, named = position.resume(committed.offset, committed.metadata)
    return _row(segment, at) if named == segment.id else 0


def _bad(source: confluent_kafka.Message, error: SegmentError) -> Message:
    """Return the one report of a segment that cannot be read; it spans its whole Kafka offset."""
    topic, partition = partition_of(source)
    return Message(
        topic=topic,
        partition=partition,
        offset=position.pack(offset_of(source)),
        value=source.value(),
        headers=source.headers(),
        timestamp=source.timestamp(),
        error=error.kafka_error,
    )


def _messages(
    segment: Segment, source: confluent_kafka.Message, start: int
) -> Iterator[list[Message]]:
    """Yield the records of a segment from row `start` on as messages, some at a time."""
    kind, _ = stamp = source.timestamp()
    place = Place(
        topic=segment.topic,
        partition=segment.partition,
        leader_epoch=source.leader_epoch(),
        rows=segment.rows,
        kind=kind,
        appended=stamp if kind == TIMESTAMP_LOG_APPEND_TIME else None,
    )
    for row, found in segment._slices(start):
        yield records(place, segment.offset + row, *found)
