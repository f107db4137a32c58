"""Messages from Kafka → records in order: unwrapped, from the right row on, within a bound.

While records are handed out of a segment already held, librdkafka is still served at least every
100 ms, or the group would take the consumer for dead. What that fetches waits here; when that is
much, the partitions pause inside.

A signal's handler may raise anywhere in a call (Ctrl-C does), and nothing is lost by it. What a
call takes counts as handed out in its last step, `_hand_out`; until then it is known, and the next
call puts it back. What is destroyed inside librdkafka's poll is fetched again: see `_recover`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
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
from columnar_kafka.record import Message, Place, event_error, plain_message, records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import pyarrow as pa

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.decoder import Decoder

__all__ = [
    "HELD_BYTES",
    "Feed",
    "Open",
    "Stops",
    "Taking",
    "bytes_of",
    "never",
    "offset_of",
    "partition_of",
    "size_of",
]

_SERVE_EVERY: Final = 0.1
_LONG_AGO: Final = -float("inf")
_HELD_MESSAGES: Final = 1000
HELD_BYTES: Final = 32 << 20
"""Held at most, and then what was fetched last."""


_MESSAGE_BYTES: Final = 200  # besides its value
_LOOKUP: Final = 1.0
_READS: Final = 2  # a call with a filter reads twice

Stops = Callable[[], bool]
"""Asked while a call waits: whether it is to end, though there is nothing."""


def never() -> bool:
    """Be the `Stops` of a call that only its timeout ends."""
    return False


@dataclass(slots=True)
class Open:
    """The segment whose records are being handed out; the next one is at position `at`."""

    key: Partition
    source: confluent_kafka.Message
    segment: Segment
    at: int
    columns: dict[tuple[str, ...], pa.Table] = field(default_factory=dict)
    _messages: Iterator[list[Message]] | None = None
    _ready: list[Message] = field(default_factory=list)
    _first: int = 0  # the position of the first that is ready

    @property
    def row(self) -> int:
        """The next record's row."""
        return self._row(self.at)

    def _row(self, at: int) -> int:
        return self.segment.rows - (position.unpack(at).left or self.segment.rows)

    def ready(self, count: int) -> list[Message] | None:
        """Return the next `count` records, if they are messages already."""
        first = self.at - self._first
        found = self._ready[first : first + count] if first >= 0 else []
        return found if len(found) == count else None

    def take(self, at: int, most: int) -> list[Message]:
        """Return the records from a position on as messages, one at least; `at` stays."""
        first = at - self._first
        if not 0 <= first < len(self._ready):
            self._make(at)
            first = 0
        return self._ready[first : first + most]

    def _make(self, at: int) -> None:
        messages, self._messages = self._messages, None  # an exception in it is the end of it
        if messages is None or at != self._first + len(self._ready):
            self.columns.clear()
            messages = _messages(self.segment, self.source, self._row(at))
        self._ready, self._first, self._messages = next(messages), at, messages

    def read(self, names: list[str]) -> pa.Table:
        """Return all rows in these columns, decoded once for calls one after the other."""
        asked = tuple(names)
        if asked not in self.columns:
            if len(self.columns) >= _READS:
                self.columns.clear()
            self.columns[asked] = self.segment.to_table(names)
        return self.columns[asked]


class Taking:
    """What a call is going to hand out, and what is known when it has."""

    __slots__ = ("after", "at", "ends", "epochs", "found", "open")

    def __init__(self, opened: Open | None) -> None:
        """Begin in the segment that is open, or with what is held."""
        self.open = opened
        self.at = 0 if opened is None else opened.at
        self.found: list[Message] = []
        self.after: dict[Partition, int] = {}
        self.epochs: dict[Partition, int | None] = {}
        self.ends: dict[Partition, int | None] = {}

    def passed(self, key: Partition, source: confluent_kafka.Message) -> None:
        """Take a Kafka message of a partition, all of it."""
        self.open = None
        self.after[key] = position.start(offset_of(source) + 1)
        self.epochs[key] = source.leader_epoch()

    def inside(self, opened: Open, at: int) -> None:
        """Take a segment's records up to a position, and go on with the next one."""
        self.after[opened.key] = self.at = at
        self.epochs[opened.key] = opened.source.leader_epoch()
        self.open = opened if at % position.MAX_ROWS else None


class Feed:
    """Owns every message between librdkafka and the user. One thread at a time."""

    def __init__(
        self,
        broker: ConsumerBroker,
        ledger: Ledger,
        *,
        decoder: Decoder | None = None,
        tells_ends: bool = False,
        clock: Callable[[], float] = time.monotonic,
        before_serving: Callable[[], None] = lambda: None,
        after_serving: Callable[[], None] = lambda: None,
    ) -> None:
        """Hand out what `broker` receives. Without a `decoder` the usual limits hold.

        `tells_ends` says that the broker tells where a partition ends.

        `before_serving` runs each time before librdkafka is served; `after_serving` afterwards,
        when raising loses no record.
        """
        self._broker = broker
        self._ledger = ledger
        self._decoder = decoder
        self._tells_ends = tells_ends
        self._clock = clock
        self._before_serving = before_serving
        self._after_serving = after_serving
        self._served = clock()
        self._open: Open | None = None
        self._held: deque[confluent_kafka.Message] = deque()
        self._held_bytes = 0
        self._taken: list[confluent_kafka.Message] = []  # not held any more, nor handed out as yet
        self._interrupted = False  # in a poll of librdkafka's, or a callback of a rebalance's
        self._changes = 0  # grows with all that may change what is held: a callback may do it
        self._held_back: dict[Partition, TopicPartition] = {}  # paused inside, not by the user
        self._paused: set[Partition] = (
            set()
        )  # by the user; as in librdkafka for good, until resumed
        self._parked: dict[Partition, list[confluent_kafka.Message]] = {}  # held of those
        self._returned: dict[Partition, int] = {}  # from these offsets on it is to be fetched again
        self._assigned: set[Partition] = set()
        self._had: set[Partition] = set()  # of any earlier assignment
        self._begun: dict[Partition, int] = {}  # the positions of the assignment
        self._stale: dict[Partition, int] = {}  # librdkafka's position from the assignment before
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
        partitions = list(partitions)
        # librdkafka forgets them in a thread of its own, some time after it has returned.
        before = self._broker.position([TopicPartition(*key_of(each)) for each in partitions])
        self._stale |= {key_of(each): each.offset for each in before if each.offset >= 0}
        for each in partitions:
            key = key_of(each)
            self._forget(key)
            self._assigned.add(key)
            if each.offset >= 0:
                self._begun[key] = self._floor[key] = each.offset
            elif each.offset in (OFFSET_INVALID, OFFSET_STORED):
                self._unresolved.add(key)

    def begin(self, keys: Iterable[Partition]) -> None:
        """Have librdkafka begin partitions, before it is polled, that come back.

        It may have gone on fetching them, and hands out what that was until it has learnt where
        their group left off. It asks when its commits and earlier questions are answered. Answers
        come in order: with the first one here it has asked, with the second it knows.
        """
        back = self._had & self._unresolved & set(keys)
        if back:
            with suppress(KafkaException):
                self._broker.committed([TopicPartition(*each) for each in back], _LOOKUP)
                self._resolve(self._clock())

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
        self._served = _LONG_AGO

    def interrupted(self) -> None:
        """Note that an exception has cut short what is done in a rebalance."""
        self._interrupted, self._served = True, _LONG_AGO

    def clear(self) -> None:
        """Forget everything: the consumer is closed."""
        self.revoke({*self._ledger.delivered, *self._floor, *self._unresolved})
        self._taken = []
        self._hold([], {}, None)
        self._paused.clear()
        self._held_back.clear()

    def revoke(self, keys: Iterable[Partition]) -> None:
        """Forget partitions; what is held of them is somebody else's now."""
        for key in list(keys):
            if key in self._assigned:
                self._had.add(key)
            self._stale.pop(key, None)
            self._forget(key)

    def _forget(self, key: Partition) -> None:
        self._drop(key)
        self._assigned.discard(key)
        self._begun.pop(key, None)
        self._ledger.forget([key])

    def _drop(self, key: Partition) -> None:
        self._put_back()
        self._floor.pop(key, None)
        self._resume.pop(key, None)
        self._ends.pop(key, None)
        self._unresolved.discard(key)
        self._returned.pop(key, None)
        opened = None if self._open is None or self._open.key == key else self._open
        self._hold(*self._without(key), opened)

    def pause(self, keys: Iterable[Partition]) -> None:
        """Hand nothing of these partitions out until `resume`.

        What is held of them waits, or is fetched again where that would be much, as librdkafka does
        with what it holds itself.
        """
        for key in keys:
            self._put_back()
            self._held_back.pop(key, None)
            self._paused.add(key)
            mine = [message for message in self._held if partition_of(message) == key]
            opened = self._open
            if opened is not None and opened.key == key:
                # Its floor is the next record: the segment is opened there again.
                self._floor[key] = opened.at
                mine.insert(0, opened.source)
                opened = None
            mine = self._parked.get(key, []) + mine
            held, parked = self._without(key)
            first = next((offset_of(each) for each in mine if each.error() is None), -1)
            if first < 0 or sum(map(bytes_of, [mine, *parked.values()])) < HELD_BYTES:
                self._hold(held, {**parked, key: mine}, opened)
            else:
                self._hold(held, parked, opened, {**self._returned, key: first})

    def resume(self, keys: Iterable[Partition]) -> None:
        """Hand these partitions out again."""
        for key in keys:
            self._put_back()
            _, parked = self._without(key)
            self._hold([*self._parked.get(key, []), *self._held], parked, self._open)
            self._paused.discard(key)

    def _without(
        self, key: Partition
    ) -> tuple[list[confluent_kafka.Message], dict[Partition, list[confluent_kafka.Message]]]:
        """Return what is held and what is parked of all other partitions."""
        held = [message for message in self._held if partition_of(message) != key]
        return held, {each: parked for each, parked in self._parked.items() if each != key}

    def _hold(
        self,
        messages: list[confluent_kafka.Message],
        parked: dict[Partition, list[confluent_kafka.Message]],
        opened: Open | None,
        returned: dict[Partition, int] | None = None,
    ) -> None:
        nbytes = bytes_of(messages)
        # All of it or nothing, as in `_hand_out`.
        self._changes += 1
        self._parked, self._open, self._held_bytes = parked, opened, nbytes
        self._returned = self._returned if returned is None else returned
        # In place: it may be a callback that does it, while messages are being fetched into it. And
        # in one call: after a `clear` of its own an exception would lose them.
        self._held.__init__(messages)  # type: ignore[misc]

    # --- handing out ----------------------------------------------------------------------------

    def next(self, timeout: float) -> Message | None:
        """Return the next record, plain message or error event; None after `timeout` seconds."""
        found = self.take(1, timeout)
        return found[0] if found else None

    def take(self, count: int, timeout: float, stops: Stops = never) -> list[Message]:
        """Return up to `count`; fewer only when `timeout` seconds have passed, or it `stops`."""
        deadline = self._clock() + timeout if timeout >= 0 else float("inf")
        self._changes += 1
        if self._taken:
            self._put_back()
        self._serve_if_due()
        self._after_serving()
        current = self._open
        if current is not None and (found := current.ready(count)) is not None:
            # As `_hand_out` does it, in less time.
            at = current.at + count
            self._ledger.delivered[current.key] = current.at = at
            if not at % position.MAX_ROWS:
                self._open = None
            return found
        while True:
            taking = Taking(self._open)
            if self._fill(taking, count, deadline, stops):
                break
            self._put_back()
            self._after_serving()
        self._hand_out(taking)
        return taking.found

    def _fill(self, taking: Taking, count: int, deadline: float, stops: Stops) -> bool:
        """Take up to `count`; False if a callback has changed what there is to be taken."""
        changes, found = self._changes, taking.found
        while len(found) < count and changes == self._changes:
            if found:
                self._serve_if_due()
            try:
                is_taken = self._take_next(taking, count - len(found), deadline, stops, changes)
            except ColumnarError:  # no decoder could be started
                if not found:
                    raise
                break  # the next call raises it again
            if not is_taken:
                if self._clock() >= deadline or stops():
                    break
                if not found:  # what was taken would have to be taken again
                    self._after_serving()
        return changes == self._changes

    def _take_next(
        self,
        taking: Taking,
        most: int,
        deadline: float,
        stops: Stops,
        changes: int,
    ) -> bool:
        """Take what comes next, if there is anything, and nothing has changed meanwhile."""
        if changes != self._changes:
            return False
        if taking.open is not None:
            self._take_open(taking, taking.open, taking.at, most)
            return True
        source = self._next_held(deadline, stops, may_raise=not taking.found)
        if source is None or changes != self._changes:
            return False
        return self._take_held(taking, source, deadline, most)

    def _hand_out(self, taking: Taking) -> None:
        """Count as handed out what was taken, just before the user has it.

        A signal's handler runs where something was called, or a loop begins again. From the first
        of these lines to the user's own there is neither, in `Ledger.hand_out` nor in those
        that return: it is all or nothing.
        """
        self._ledger.hand_out(taking.after, taking.epochs)
        self._ends |= taking.ends
        self._open = taking.open
        if taking.open is not None:
            taking.open.at = taking.at
        self._taken = []

    def _move(self, count: int) -> None:
        """Take so many messages from those that are held."""
        moved = list(islice(self._held, count))
        nbytes = bytes_of(moved)
        self._taken += moved
        if count == len(self._held):
            self._held.clear()
        else:
            for _ in range(count):
                self._held.popleft()
        self._held_bytes -= nbytes

    def _put_back(self) -> None:
        """Hold again what was taken and not handed out; what was taken only by half is held."""
        taken, held = self._taken, self._held
        if not taken:
            return
        self._changes += 1
        count = next((n for n, each in enumerate(taken) if held and each is held[0]), len(taken))
        held.extendleft(taken[:count][::-1])
        self._held_bytes = bytes_of(held)
        self._taken = []

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
        self._put_back()
        self._serve_if_due()
        self._after_serving()
        source = None if self._open is not None else self._next_held(deadline, may_raise=True)
        if self._open is not None:  # also when it is a callback that has opened it
            source = self._open.source
        if source is None:
            return None
        if source.error() is not None:
            self._take_whole(source)
            raise KafkaException(event_error(source))
        if not wire.is_segment(source.headers()):
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
            self._take_whole(source)
            raise
        self._ledger.opened(partition_of(source), segment.kafka_offset, segment.id, segment.rows)
        self._take_whole(source)
        return segment

    def _take_whole(self, source: confluent_kafka.Message) -> None:
        """Hand out the message that is open, or the first that is held."""
        taking = Taking(None)
        if source.error() is None:
            taking.passed(partition_of(source), source)
        else:
            self._reached(source, taking)
        if self._open is None:
            self._move(1)
        self._hand_out(taking)

    def catch_up(self, keys: Iterable[Partition] | None = None) -> None:
        """Count as handed out what of these partitions, or all, no user ever gets.

        That is the ends of transactions, and what was aborted. librdkafka's position is behind them
        when it was polled; where nothing that was fetched before is left to hand out, so is ours.
        """
        if self._interrupted or self._taken:  # then it may be behind a record
            return
        waiting = {
            partition_of(each)
            for each in chain(self._held, *self._parked.values())
            if each.error() is None
        } | self._returned.keys()
        if self._open is not None:
            waiting.add(self._open.key)
        asked = self._assigned if keys is None else self._assigned.intersection(keys)
        idle = [TopicPartition(*key) for key in asked - waiting]
        delivered = self._ledger.delivered
        after: dict[Partition, int] = {}
        epochs: dict[Partition, int | None] = {}
        ends: dict[Partition, int | None] = {}
        for each in self._broker.position(idle) if idle else ():
            key, at = key_of(each), position.start(each.offset)
            had = delivered.get(key)
            if had is None and self._stale.get(key) == each.offset:
                continue
            self._stale.pop(key, None)
            if at > (OFFSET_INVALID if had is None else had):
                after[key], epochs[key] = at, each.leader_epoch
                if key in self._ends and self._ends[key] == had:
                    ends[key] = at
        # All or nothing, as in `_hand_out`.
        self._ledger.hand_out(after, epochs)
        self._ends |= ends

    def fetched(self, key: Partition) -> tuple[list[confluent_kafka.Message], int]:
        """Return a partition's messages that wait to be handed out, and the offset behind them."""
        if self._interrupted or key in self._returned:
            return [], -1
        opened = [self._open.source] if self._open is not None and self._open.key == key else []
        waiting = chain(opened, self._parked.get(key, ()), self._taken, self._held)
        found = [m for m in waiting if m.error() is None and partition_of(m) == key]
        [after] = self._broker.position([TopicPartition(*key)]) if found else [None]
        return found, -1 if after is None else after.offset

    def next_at(self, key: Partition) -> int | None:
        """Return a position not behind a partition's next record; None where its group says it."""
        at = self._ledger.delivered.get(key, self._floor.get(key))
        is_groups = key not in self._assigned or key in self._unresolved or key in self._resume
        return 0 if at is None and not is_groups else at  # where it begins librdkafka knows

    def at_end(self) -> set[Partition]:
        """Return the partitions of which nothing was handed out since their end was told."""
        delivered = self._ledger.delivered
        return {key for key, after in self._ends.items() if delivered.get(key) == after}

    def forget_ends(self) -> None:
        """Count no end that was told before, or is about to be: there may be more by now."""
        self._put_back()
        left = list(filter(_is_no_end, self._held))
        if self._ends or len(left) < len(self._held):
            self._ends.clear()
            self._hold(left, self._parked, self._open)
            self._tell_ends_again()

    def _tell_ends_again(self) -> None:
        # Fetching anew librdkafka does, which may take it a second.
        self._hold_back()
        self._resume_held_back()

    def _reached(self, event: confluent_kafka.Message, taking: Taking) -> None:
        """Note the end of a partition, if that is what an event tells."""
        if _has_a_place(event):
            key = partition_of(event)
            taking.ends[key] = taking.after.get(key, self._ledger.delivered.get(key))

    def _take_open(self, taking: Taking, opened: Open, at: int, most: int) -> None:
        """Take a segment's records from a position on, one at least."""
        try:
            found = opened.take(at, most)
        except SegmentError as error:
            taking.passed(opened.key, opened.source)
            taking.found.append(_bad(opened.source, error))
        else:
            taking.inside(opened, at + len(found))
            taking.found += found

    def _take_held(
        self, taking: Taking, source: confluent_kafka.Message, deadline: float, most: int
    ) -> bool:
        """Take the first that is held: a plain message, an error, or a segment's first records.

        False if it is not known as yet where to begin.
        """
        if source.error() is not None:
            self._reached(source, taking)
            taking.found.append(plain_message(source))
        else:
            key = partition_of(source)
            if key in self._unresolved and not self._is_resolved_for(deadline):
                return False
            if self._floor or self._resume:
                self._forget_start(key)
            if wire.is_segment(source.headers()):
                self._take_segment(taking, source, key, most)
            else:
                taking.passed(key, source)
                taking.found.append(plain_message(source))
        self._taken.append(source)
        self._held.popleft()
        self._held_bytes -= size_of(source)
        return True

    def _take_segment(
        self, taking: Taking, source: confluent_kafka.Message, key: Partition, most: int
    ) -> None:
        try:
            segment = self.read(source)
        except SegmentError as error:
            taking.passed(key, source)
            taking.found.append(_bad(source, error))
            return
        row, resumed = self._start(key, segment)
        self._ledger.mark_committed(resumed)
        self._ledger.opened(key, segment.kafka_offset, segment.id, segment.rows)
        at = segment.offset + row
        self._take_open(taking, Open(key, source, segment, at), at, most)

    def _start(self, key: Partition, segment: Segment) -> tuple[int, list[TopicPartition]]:
        """Return the row at which to begin a segment, and what of the group's commit says so."""
        committed = self._resume.get(key)
        if committed is not None and (row := _committed_row(segment, committed)):
            return row, [committed]
        return _row(segment, self._floor.get(key, -1)), []

    def _forget_start(self, key: Partition) -> None:
        """Forget where to begin, once something was handed out that was not up to there.

        Of another offset it says nothing: that message is gone, all of this one is to come.
        """
        delivered = self._ledger.delivered.get(key)
        if delivered is not None:
            self._resume.pop(key, None)
            if self._floor.get(key) != delivered:
                self._floor.pop(key, None)

    def _is_resolved_for(self, deadline: float) -> bool:
        """Learn where the group left off; if not now, the next time."""
        is_resolved = self._resolve(deadline)
        if not is_resolved:
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
        # Whether a row is of the segment that is there is known when that comes.
        self._ledger.mark_committed(TopicPartition(*key_of(each), each.offset) for each in found)
        self._resume |= {key_of(each): each for each in found if each.error is None}
        self._unresolved.clear()
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

    def _next_held(
        self, deadline: float, stops: Stops = never, *, may_raise: bool
    ) -> confluent_kafka.Message | None:
        """Return the next message to hand out, in Kafka's order for each partition; it stays."""
        while not self._held:
            self._resume_held_back()
            # Not for all of the time at once: what a callback raised must not wait for a message.
            self._serve(self._step(deadline))
            if may_raise:  # what has come is held, and comes with the next call
                self._after_serving()
            if self._held:
                break
            if self._clock() >= deadline or stops():
                return None
        return self._held[0]

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
        self._begin_serving()
        try:
            while (message := self._broker.poll(timeout)) is not None:
                self._keep(message)
                if self._is_full():
                    self._hold_back()
                if _has_a_place(message):
                    break
                timeout = 0
        except BaseException:
            self._interrupted, self._served = True, _LONG_AGO
            raise
        self._served = self._clock()

    def _begin_serving(self) -> None:
        """Do what has to be done before librdkafka is polled."""
        self._before_serving()
        if self._interrupted:
            self._recover()
        if self._stale:  # until librdkafka has been seen without them
            self.catch_up(list(self._stale))
        for key, offset in list(self._returned.items()):
            self._broker.seek(TopicPartition(*key, offset))
            del self._returned[key]

    def _recover(self) -> None:
        """Make up for what was lost with an exception, as a signal's handler raises it in a poll.

        A message, which librdkafka's position is behind then: it is fetched again. And what a
        rebalance's callbacks had to do.
        """
        self._put_back()
        assigned = self._broker.assignment()
        keys = set(map(key_of, assigned))
        self.revoke(self._assigned - keys)
        new = keys - self._assigned
        self._unresolved |= new
        self._assigned |= keys
        self.begin(new)
        self.pause(list(self._paused))  # what came of them may not have been parked
        sources = [] if self._open is None else [self._open.source]
        known = {
            partition_of(each): offset_of(each) + 1
            for each in chain(sources, *self._parked.values(), self._held)
            if each.error() is None
        }
        if self._tells_ends:  # it may be what was lost
            self._tell_ends_again()
        for each in self._broker.position(assigned):
            key, after = key_of(each), each.offset
            if key not in known and key in self._ledger.delivered:
                known[key] = position.unpack(self._ledger.delivered[key]).offset
            begin = known.get(key, -1)
            if after >= 0 and begin != after:
                # Of a partition that is begun, or whose log began anew, one message: the lost one.
                begin = begin if 0 <= begin < after else after - 1
                self._broker.seek(TopicPartition(*key, begin))
        self._hold(list(self._held), self._parked, self._open)
        self._interrupted = False

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
        self._held_back |= {key_of(each): each for each in assigned}
        self._broker.pause(assigned)

    def _resume_held_back(self) -> None:
        if self._held_back:
            self._broker.resume(list(self._held_back.values()))
            self._held_back = {}


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


def _is_no_end(message: confluent_kafka.Message) -> bool:
    error = message.error()
    return error is None or error.code() != confluent_kafka.KafkaError._PARTITION_EOF


def _has_a_place(message: confluent_kafka.Message) -> bool:
    """Say whether this belongs between the messages of its partition: one of them, or the end."""
    return message.error() is None or not _is_no_end(message)


def _row(segment: Segment, at: int) -> int:
    """Return the row at which a segment is to be begun, for a position in it or elsewhere."""
    if at < 0:
        return 0
    offset, left = position.unpack(at)
    inside = offset == segment.kafka_offset and 0 < left < segment.rows
    return segment.rows - left if inside else 0


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
