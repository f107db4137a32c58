"""Messages from Kafka → records in order: unwrapped, from the right row on, within a bound.

While records are handed out of a segment already held, librdkafka is still served at least every
100 ms, or the group would take the consumer for dead. What that fetches waits here; when that is
much, the partitions pause inside.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
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
from columnar_kafka.errors import SegmentError
from columnar_kafka.ledger import Ledger, Partition, key_of
from columnar_kafka.record import Message, plain_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from columnar_kafka.broker.base import ConsumerBroker

__all__ = ["Feed"]

_SERVE_EVERY: Final = 0.1
_HELD_MESSAGES: Final = 1000
_HELD_BYTES: Final = 32 << 20
_LOOKUP: Final = 1.0


@dataclass(slots=True)
class _Open:
    """The segment whose records are being handed out; `left` of them, at least one, are not yet."""

    key: Partition
    source: confluent_kafka.Message
    records: Iterator[Message]
    left: int


class Feed:
    """Owns every message between librdkafka and the user. One thread at a time."""

    def __init__(
        self,
        broker: ConsumerBroker,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.monotonic,
        after_serving: Callable[[], None] = lambda: None,
    ) -> None:
        """`after_serving` runs after calls into librdkafka, when raising loses no record."""
        self._broker = broker
        self._ledger = ledger
        self._clock = clock
        self._after_serving = after_serving
        self._served = clock()
        self._open: _Open | None = None
        self._held: deque[confluent_kafka.Message] = deque()
        self._held_bytes = 0
        self._held_back: dict[Partition, TopicPartition] = {}  # paused inside, not by the user
        self._parked: dict[Partition, list[confluent_kafka.Message]] = {}  # paused by the user
        self._floor: dict[Partition, int] = {}  # where to begin inside the segment of that offset
        self._unresolved: set[Partition] = set()
        self._resume: dict[Partition, TopicPartition] = {}

    def __repr__(self) -> str:
        current = "no segment" if self._open is None else "a segment"
        return f"<Feed {current} open, {len(self._held)} messages held, {len(self._parked)} parked>"

    # --- what the assignment does ---------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin partitions: at a position, where their group left off, or where librdkafka says."""
        for each in partitions:
            key = key_of(each)
            self._drop(key)
            if each.offset >= 0:
                self._floor[key] = each.offset
            elif each.offset in (OFFSET_INVALID, OFFSET_STORED):
                self._unresolved.add(key)

    def seek(self, partition: TopicPartition) -> None:
        """Go on at another position of a partition that is assigned."""
        key = key_of(partition)
        paused = key in self._parked
        self._drop(key)
        if paused:
            self._parked[key] = []
        self._ledger.delivered.pop(key, None)
        if partition.offset >= 0:
            self._floor[key] = partition.offset

    def clear(self) -> None:
        """Forget everything: the consumer is closed."""
        self.revoke({*self._ledger.delivered, *self._floor, *self._unresolved})
        self._hold([])
        self._open = None
        self._parked.clear()
        self._held_back.clear()

    def revoke(self, keys: Iterable[Partition]) -> None:
        """Forget partitions; what is held of them is somebody else's now."""
        for key in list(keys):
            self._drop(key)
            self._ledger.forget([key])

    def _drop(self, key: Partition) -> None:
        self._floor.pop(key, None)
        self._resume.pop(key, None)
        self._parked.pop(key, None)
        self._unresolved.discard(key)
        self._hold([message for message in self._held if _key(message) != key])
        if self._open is not None and self._open.key == key:
            self._open = None

    def pause(self, keys: Iterable[Partition]) -> None:
        """Hand nothing of these partitions out until `resume`; what is held of them waits."""
        for key in keys:
            self._held_back.pop(key, None)
            parked = self._parked.setdefault(key, [])
            if self._open is not None and self._open.key == key:
                # Its floor is the next record: the segment is opened there again.
                parked.append(self._open.source)
                self._floor[key] = self._ledger.delivered[key]
                self._open = None
            parked += [message for message in self._held if _key(message) == key]
            self._hold([message for message in self._held if _key(message) != key])

    def resume(self, keys: Iterable[Partition]) -> None:
        """Hand these partitions out again."""
        for key in keys:
            self._hold([*self._parked.pop(key, []), *self._held])

    def _hold(self, messages: list[confluent_kafka.Message]) -> None:
        self._held = deque(messages)
        self._held_bytes = sum(map(_size, messages))

    # --- handing out ----------------------------------------------------------------------------

    def next(self, timeout: float) -> Message | None:
        """Return the next record, plain message or error event; None after `timeout` seconds."""
        found = self.take(1, timeout)
        return found[0] if found else None

    def take(self, count: int, timeout: float) -> list[Message]:
        """Return up to `count` of them; fewer only when `timeout` seconds have passed."""
        deadline = self._clock() + timeout if timeout >= 0 else float("inf")
        found: list[Message] = []
        while len(found) < count:
            self._serve_if_due()
            if not found:  # what was taken would be lost with the exception
                self._after_serving()
            message = self._from_open() if self._open is not None else None
            if message is None:
                source = self._fetch(deadline, may_raise=not found)
                if source is None:
                    break
                message = self._unwrap(source, deadline)
            if message is not None:
                self._handed_out(message)
                found.append(message)
            elif self._clock() >= deadline:
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
        self._serve_if_due()
        self._after_serving()
        if self._open is not None:
            self._put_back(self._open.source)
            self._open = None
        source = self._fetch(deadline, may_raise=True)
        if source is None:
            return None
        if source.error() is not None:
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
        self._ledger.delivered[_key(source)] = position.start(_offset(source) + 1)
        segment = _segment(source)
        segment.verify()
        self._ledger.opened(_key(source), segment.kafka_offset, segment.id, segment.rows)
        return segment

    def _handed_out(self, message: Message) -> None:
        offset = message.offset()
        if offset is not None and message.topic() is not None:
            at = offset if _is_event(message) else offset + 1
            self._ledger.delivered[_key(message)] = at

    def _from_open(self) -> Message:
        """Return the open segment's next record, and close it after the last."""
        assert self._open is not None
        try:
            message = next(self._open.records)
        except SegmentError as error:
            message = _bad(self._open.source, error)
            self._open = None
            return message
        self._open.left -= 1
        if not self._open.left:
            self._open = None
        return message

    def _unwrap(self, source: confluent_kafka.Message, deadline: float) -> Message | None:
        """Return a plain message or an error; open a segment and return its first record."""
        if source.error() is not None or not wire.is_segment(source.headers()):
            return plain_message(source)
        key = _key(source)
        try:
            segment = _segment(source)
            if not self._resolve(key, source, segment, deadline):
                return None
        except SegmentError as error:
            return _bad(source, error)
        # Of another offset it says nothing: that message is gone, all of this one is to come.
        at, left = position.unpack(self._floor.pop(key, 0))
        left = min(left, segment.rows) if at == segment.kafka_offset and left else segment.rows
        self._ledger.opened(key, segment.kafka_offset, segment.id, segment.rows)
        start = segment.rows - left
        self._open = _Open(key, source, _messages(segment, source, start), left)
        return self._from_open()

    def _resolve(
        self, key: Partition, source: confluent_kafka.Message, segment: Segment, deadline: float
    ) -> bool:
        """Find the row at which the group left off; False when Kafka has to be asked again."""
        if self._unresolved and key in self._unresolved:
            asked = [TopicPartition(*each) for each in self._unresolved]
            left = max(_LOOKUP, min(10.0, deadline - self._clock()))
            try:
                found = self._broker.committed(asked, left)
            except KafkaException as error:
                if error.args[0].retriable() or error.args[0].code() in _AGAIN:
                    self._put_back(source)
                    self._serve(min(_SERVE_EVERY, max(0.0, deadline - self._clock())))
                    return False
                found = []  # nothing can be known: the segment is read from its first row
            self._unresolved.clear()
            self._resume |= {key_of(each): each for each in found if each.error is None}
        committed = self._resume.pop(key, None)
        if committed is not None and committed.offset == segment.kafka_offset:
            at, segment_id = position.resume(committed.offset, committed.metadata)
            if segment_id == segment.id and at >= segment.offset:
                self._floor[key] = at
        return True

    # --- librdkafka -----------------------------------------------------------------------------

    def _fetch(self, deadline: float, *, may_raise: bool) -> confluent_kafka.Message | None:
        """Return the next message to hand out, in Kafka's order for each partition."""
        while not self._held:
            if self._held_back:
                self._broker.resume(list(self._held_back.values()))
                self._held_back = {}
            # Not for all of the time at once: what a callback raised must not wait for a message.
            self._serve(min(_SERVE_EVERY, max(0.0, deadline - self._clock())))
            if self._held:
                break
            if may_raise:
                self._after_serving()
            if self._clock() >= deadline:
                return None
        message = self._held.popleft()
        self._held_bytes -= _size(message)
        return message

    def _serve_if_due(self) -> None:
        if self._clock() - self._served >= _SERVE_EVERY:
            self._serve(0)

    def _serve(self, timeout: float) -> None:
        """Let librdkafka run callbacks and fetch one message, which is held."""
        message = self._broker.poll(timeout)
        self._served = self._clock()
        if message is not None:
            if message.error() is None and _key(message) in self._parked:
                self._parked[_key(message)].append(message)
            else:
                self._held.append(message)
                self._held_bytes += _size(message)
            self._hold_back_if_full()

    def _hold_back_if_full(self) -> None:
        """Fetch no more when much is held; again, if a partition came or was resumed since."""
        if len(self._held) >= _HELD_MESSAGES or self._held_bytes >= _HELD_BYTES:
            assigned = [
                each for each in self._broker.assignment() if key_of(each) not in self._parked
            ]
            self._broker.pause(assigned)
            self._held_back |= {key_of(each): each for each in assigned}

    def _put_back(self, message: confluent_kafka.Message) -> None:
        self._held.appendleft(message)
        self._held_bytes += _size(message)


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


def _key(message: confluent_kafka.Message) -> Partition:
    return message.topic() or "", -1 if (at := message.partition()) is None else at


def _offset(message: confluent_kafka.Message) -> int:
    offset = message.offset()
    return 0 if offset is None else offset


def _size(message: confluent_kafka.Message) -> int:
    return len(message.value() or b"") + 200 if message.error() is None else 200


def _where(message: confluent_kafka.Message) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"


def _is_event(message: Message) -> bool:
    """Say whether this is librdkafka's own event, which takes no place in the partition."""
    error = message.error()
    return error is not None and error.code() != SegmentError.code


def _segment(source: confluent_kafka.Message) -> Segment:
    topic, partition = _key(source)
    return Segment(
        topic=topic,
        partition=partition,
        offset=_offset(source),
        headers=source.headers(),
        value=source.value() or b"",
    )


def _bad(source: confluent_kafka.Message, error: SegmentError) -> Message:
    """Return the one report of a segment that cannot be read; it spans its whole Kafka offset."""
    topic, partition = _key(source)
    return Message(
        topic=topic,
        partition=partition,
        offset=position.pack(_offset(source)),
        value=source.value(),
        headers=source.headers(),
        timestamp=source.timestamp(),
        error=error.kafka_error,
    )


def _messages(segment: Segment, source: confluent_kafka.Message, start: int) -> Iterator[Message]:
    """Yield the records of a segment from row `start` on as messages."""
    topic, partition, rows = segment.topic, segment.partition, segment.rows
    base = segment.offset
    kind, broker_time = source.timestamp()
    appended = kind == TIMESTAMP_LOG_APPEND_TIME
    epoch = source.leader_epoch()
    epoch = -1 if epoch is None else epoch
    for row, value, key, timestamp, headers in segment.records(start):
        message = Message(
            topic=topic,
            partition=partition,
            offset=base + row,
            key=key,
            value=value,  # type: ignore[arg-type]  # a record's value is a dict
            headers=headers,  # type: ignore[arg-type]  # lists are invariant
            timestamp=(kind, broker_time if appended else timestamp),
            leader_epoch=epoch,
        )
        message._rows = rows
        yield message
