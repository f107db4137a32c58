"""Messages from Kafka → records in order: unwrapped, from the right row on, within a bound.

While records are handed out of a segment already held, librdkafka is still served at least every
100 ms, or the group would take the consumer for dead. What that fetches waits here; when that is
much, the partitions pause inside.

Any method may be called from any thread. One lock guards all that is known here. It is held while
a segment is decoded, but never while a callback runs or another thread is waited for. Only one
thread at a time calls librdkafka: it has its `Turn`, to fetch messages or to do something else.

A signal's handler may raise anywhere in a call (Ctrl-C does), and nothing is lost by it: what a
call takes is handed out in one step (see `handout`), and what is known changes in one step (see
`_hold`). What is destroyed inside librdkafka's poll is fetched again: see `_recover`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import confluent_kafka
from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaException,
    TopicPartition,
)

from columnar_kafka import position
from columnar_kafka.consuming.handout import (
    Found,
    Handed,
    OpenSegment,
    Part,
    Ready,
    bytes_of,
    offset_of,
    partition_of,
    size_of,
)
from columnar_kafka.consuming.turn import Turn
from columnar_kafka.errors import ColumnarError, SegmentError
from columnar_kafka.message import Message, event_error, plain_message
from columnar_kafka.offsets import Partition, key_of
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.consuming.offset_store import OffsetStore
    from columnar_kafka.segment.decoder import Decoder

__all__ = ["HELD_BYTES", "Feed", "Stops", "never"]

_SERVE_EVERY: Final = 0.1
_LONG_AGO: Final = -float("inf")
_HELD_MESSAGES: Final = 1000
HELD_BYTES: Final = 32 << 20
"""Held at most, and then what was fetched last."""

_LOOKUP: Final = 1.0
_TOGETHER: Final = 100
"""Plain messages that are fetched and made ready together, at most."""
_AT_ONCE: Final = 10

T = TypeVar("T")
Stops = Callable[[], bool]
"""Asked while a call waits: whether it is to end, though there is nothing."""


def never() -> bool:
    """Be the `Stops` of a call that only its timeout ends."""
    return False


class Feed:
    """Owns every message between librdkafka and the user. Thread-safe.

    While `due` is not reached, messages may be taken from ``ready.left`` as `handout` says.
    """

    def __init__(
        self,
        broker: ConsumerBroker,
        ledger: OffsetStore,
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
        self.lock = threading.RLock()  # guards everything below, and the ledger
        self._turn = Turn(self.lock, clock)
        self._broker = broker
        self._ledger = ledger
        self._decoder = decoder
        self._tells_ends = tells_ends
        self._clock = clock
        self._before_serving = before_serving
        self._after_serving = after_serving
        self.due = clock() + _SERVE_EVERY  # when librdkafka has to be served again
        self.ready = Ready()  # is handed out first
        self._found: Found | None = None  # or else one call's, made of what is open and held
        self._open: OpenSegment | None = None  # then the rest of a segment
        self._held: deque[confluent_kafka.Message] = deque()  # and then these
        self._held_bytes = 0
        self._arrived: deque[confluent_kafka.Message] = deque()  # while one thread has its turn
        self._is_closed = False
        self._interrupted = False  # in a poll of librdkafka's, or a callback of a rebalance's
        self.was_interrupted = False  # ever
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
        return (
            f"<Feed {self.ready.count_left()} messages ready, {current} open, "
            f"{len(self._held)} held, {len(self._parked)} partitions parked>"
        )

    @property
    def ledger(self) -> OffsetStore:
        """What has been handed out up to now. For whoever holds the lock."""
        self._note()
        return self._ledger

    def run_alone(self, function: Callable[[], T]) -> T:
        """Run what calls librdkafka, and return what it returns; not for who holds the lock.

        No other thread fetches messages then, which might be of before what this one does. A thread
        that waits for one is waited for, a tenth of a second at most.
        """
        return self._turn.run_first(function)

    # --- what the assignment does ---------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin partitions: at a position, where their group left off, or where librdkafka says."""
        partitions = list(partitions)
        # librdkafka forgets them in a thread of its own, some time after it has returned.
        before = self._broker.position([TopicPartition(*key_of(each)) for each in partitions])
        with self.lock:
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
        with self.lock:
            back = self._had & self._unresolved & set(keys)
        if back:
            with suppress(KafkaException):
                self._broker.committed([TopicPartition(*each) for each in back], _LOOKUP)
                self._resolve(self._clock())

    def seek(self, partition: TopicPartition) -> None:
        """Go on at another position of a partition that is assigned: librdkafka does already."""
        with self.lock:
            key, at = key_of(partition), partition.offset
            self._drop(key)
            self._ledger.seeked(key)
            if at >= 0:
                self._floor[key] = at

    def begun_at(self, key: Partition) -> int | None:
        """Return the position that a partition was assigned with; None where it had none."""
        return self._begun.get(key)

    def serve_soon(self) -> None:
        """Let librdkafka be heard before anything else is handed out: a rebalance may be due."""
        self.due = _LONG_AGO

    def interrupted(self) -> None:
        """Note that an exception has cut short what is done in a rebalance."""
        self._interrupted, self.was_interrupted, self.due = True, True, _LONG_AGO

    def clear(self) -> None:
        """Forget everything: the consumer is closed."""
        with self.lock:
            self.revoke({*self._ledger.delivered, *self._floor, *self._unresolved})
            self._arrived.clear()
            self._hold([], {}, None)
            self._paused.clear()
            self._held_back.clear()
            self._is_closed, self.due = True, _LONG_AGO

    def revoke(self, keys: Iterable[Partition]) -> None:
        """Forget partitions; what is held of them is somebody else's now."""
        with self.lock:
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
        if self._turn.is_mine:  # a callback: what came before it
            arrived = [each for each in self._arrived if partition_of(each) != key]
            self._arrived.__init__(arrived)  # type: ignore[misc]
        opened = None if self._open is None or self._open.key == key else self._open
        self._hold(*self._without(key), opened)

    def pause(self, keys: Iterable[Partition]) -> None:
        """Hand nothing of these partitions out until `resume`.

        What is held of them waits, or is fetched again where that would be much, as librdkafka does
        with what it holds itself.
        """
        with self.lock:
            for key in keys:
                self._pause(key)

    def withhold(self, keys: Iterable[Partition]) -> None:
        """Hand nothing more out of partitions that are about to go, but know what is held of them.

        What another thread took after their last commit would be read again.
        """
        with self.lock:
            for key in keys:
                self._park(key)

    def release(self, keys: Iterable[Partition]) -> None:
        """Hand out what is withheld of partitions that have not gone, after all."""
        with self.lock:
            self.resume([key for key in keys if key not in self._paused])

    def _pause(self, key: Partition) -> None:
        self._held_back.pop(key, None)
        self._paused.add(key)
        self._park(key)

    def _park(self, key: Partition) -> None:
        self._put_back()
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
            self._hold(held, parked, opened, returned={**self._returned, key: first})

    def resume(self, keys: Iterable[Partition]) -> None:
        """Hand these partitions out again."""
        with self.lock:
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
        opened: OpenSegment | None,
        *,
        at: int | None = None,
        returned: dict[Partition, int] | None = None,
    ) -> None:
        """Change what there is to be handed out, where nothing is ready or that is put back."""
        nbytes, ready = bytes_of(messages), Ready()
        # All of it or nothing: from here on only the last line calls anything.
        self._changes += 1
        self._parked, self._open, self._held_bytes, self.ready = parked, opened, nbytes, ready
        self._returned = self._returned if returned is None else returned
        if opened is not None and at is not None:
            opened.at = at
        # In one call: after a `clear` of its own an exception would lose them.
        self._held.__init__(messages)  # type: ignore[misc]

    # --- handing out ----------------------------------------------------------------------------

    def next(self, timeout: float) -> Message | None:
        """Return the next record, plain message or error event; None after `timeout` seconds."""
        found = self.take(1, timeout)
        return found[0] if found else None

    def take(self, count: int, timeout: float, stops: Stops = never) -> list[Message]:
        """Return up to `count`.

        Fewer only when `timeout` seconds have passed, when it `stops`, when the next one raises
        something, or when another thread has taken some of them at the last moment.
        """
        now = self._clock()
        if count == 1 and now < self.due:
            self._after_serving()
            if found := self.ready.take(1):
                return found
        deadline = now + timeout if timeout >= 0 else float("inf")
        self._serve_if_due()
        self._after_serving()  # nothing is lost by what it raises
        is_over = False
        while True:
            with self.lock:
                is_more, is_enough = self._gather(count)
                is_enough = is_enough or (is_over and not is_more)
                ready = self.ready
                if is_enough:
                    ready.publish(count)
            if is_enough:
                found = ready.take(count)
                if found or is_over or not count:
                    return found
            elif is_more:
                self._serve_if_due()
            elif not (is_unresolved := self._begins_next()) or not self._resolve(deadline):
                is_late = self._wait(deadline, stops, may_raise=not ready.messages)
                is_over = is_late and (is_unresolved or not self._held)

    def _gather(self, count: int) -> tuple[bool, bool]:
        """Make messages ready until there are `count`, or librdkafka is to be served.

        Returns whether there may be more at once, and whether those that are ready are to be handed
        out: there are enough, or what comes next raises something.
        """
        if self.ready.is_published and self.ready.count_left() >= count:
            return True, True
        if self.ready.is_published or self._found is not None:
            self._put_back()
        is_more = True
        while is_more and len(self.ready.messages) < count:
            try:
                is_more = self._add_next()
            except ColumnarError:  # no decoder could be started
                if not self.ready.messages:
                    raise
                return False, True
            if self._clock() >= self.due:
                break
        return is_more, len(self.ready.messages) >= count

    def _add_next(self) -> bool:
        """Make ready what comes next: a segment's next records, a plain message, or an event.

        False if there is nothing, or nothing of which it is known where to begin.
        """
        if self._open is not None:
            self._add_records(self._open)
            return True
        if not self._held:
            return False
        source = self._held[0]
        if source.error() is not None:
            self._add([plain_message(source)], source)
            return True
        key = partition_of(source)
        if key in self._unresolved:
            return False
        if self._floor or self._resume:
            self._forget_start(key)
        if not is_segment(source.headers()):
            self._add_plain_messages()
            return True
        try:
            segment = self.read(source)
        except SegmentError as error:
            self._add([_bad(source, error)], source)
        else:
            self._add_records(self._begin_segment(key, source, segment), is_held=True)
        return True

    def _add_plain_messages(self) -> None:
        """Make the first that is held ready, and what comes with it: of one alone it is a price."""
        sources = [self._held[0]]
        for source in islice(self._held, 1, _TOGETHER):
            if source.error() is not None or is_segment(source.headers()):
                break
            if self._unresolved or self._floor or self._resume:
                break
            sources.append(source)
        first = len(self.ready.messages)
        parts = [Part(n, n + 1, each, None, 0) for n, each in enumerate(sources, first)]
        messages = list(map(plain_message, sources))
        left, nbytes = list(islice(self._held, len(sources), None)), bytes_of(sources)
        # All of it or nothing, as in `_hold`.
        self._changes += 1
        self.ready.messages += messages
        self.ready.parts += parts
        self._held_bytes -= nbytes
        self._held.__init__(left)  # type: ignore[misc]

    def _add_records(self, opened: OpenSegment, *, is_held: bool = False) -> None:
        try:
            messages = opened.take()
        except SegmentError as error:
            messages = [_bad(opened.source, error)]
        self._add(messages, opened.source, opened, is_held=is_held)

    def _add(
        self,
        messages: list[Message],
        source: confluent_kafka.Message,
        opened: OpenSegment | None = None,
        *,
        is_held: bool = True,
    ) -> None:
        """Make messages of a source ready, which may be the first that is held."""
        ready, nbytes = self.ready, size_of(source) if is_held else 0
        begin, at = len(ready.messages), 0 if opened is None else opened.at
        part = Part(begin, begin + len(messages), source, opened, at)
        after = (messages[-1].offset() or 0) + 1
        # All of it or nothing, as in `_hold`.
        self._changes += 1
        ready.messages += messages
        ready.parts += [part]
        self._held_bytes -= nbytes
        self._open = opened if after % position.MAX_ROWS else None
        if opened is not None:
            opened.at = after
        if is_held:
            self._held.popleft()

    def _note(self) -> None:
        """Note what has been handed out since, which is told by what is left: see `handout`."""
        if self._found is not None and self._found.is_taken:
            self._note_found(self._found)
        ready = self.ready
        taken, parts = ready.count_taken(), ready.noted_parts
        if taken == ready.noted:
            return
        handed = Handed(None)
        for part in islice(ready.parts, parts, None):
            if part.begin >= taken:
                break
            if part.source.error() is not None:
                self._add_event(part.source, handed)
            else:
                after = ready.messages[min(part.end, taken) - 1].offset()
                handed.upto(part.source, (after or 0) + 1)
            parts += part.end <= taken
        self._ledger.hand_out(handed.after, handed.epochs)
        self._ends |= handed.ends
        ready.noted, ready.noted_parts = taken, parts

    def _note_found(self, found: Found) -> None:
        handed = found.handed
        if handed is None:
            self._found = None
            return
        for key in handed.after:
            self._forget_start(key)
        left = list(islice(self._held, handed.moved, None))
        nbytes = bytes_of(left)
        # All of it or nothing, as in `_hold`.
        self._ledger.hand_out(handed.after, handed.epochs)
        self._ends |= handed.ends
        self._changes += 1
        self._open, self._held_bytes, self._found = handed.opened, nbytes, None
        if handed.opened is not None:
            handed.opened.at = handed.at
        self._held.__init__(left)  # type: ignore[misc]

    def _put_back(self) -> None:
        """Hold again what was made ready, or found, and nobody has taken."""
        if self._found is not None:
            self._found.withdraw()
        ready = self.ready
        ready.withdraw()
        self._note()
        self._found = None
        left = ready.parts[ready.noted_parts :]
        if not left:
            self.ready = Ready()
            return
        first = left[0]
        sources = [first.source] if first.opened is None else []
        sources += [each.source for last, each in pairwise(left) if each.source is not last.source]
        at = first.at + ready.noted - first.begin
        self._hold([*sources, *self._held], self._parked, first.opened, at=at)

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
        is_over = False
        while True:
            with self.lock:
                self._put_back()
                self._found = found = self._find_segment()
            if found is not None:
                segment: Segment | None = found.take()
                if segment is not None:
                    return segment
            elif is_over:
                return None
            else:
                is_over = self._wait(deadline, never, may_raise=True) and not self._held

    def _find_segment(self) -> Found | None:
        source = self._open.source if self._open is not None else next(iter(self._held), None)
        if source is None:
            return None
        handed = self._whole(source)
        if source.error() is not None:
            return Found(handed, error=KafkaException(event_error(source)))
        if not is_segment(source.headers()):
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
        except SegmentError as error:
            return Found(handed, error=error)
        self._ledger.opened(partition_of(source), segment.kafka_offset, segment.id, segment.rows)
        return Found(handed, segment)

    def _whole(self, source: confluent_kafka.Message) -> Handed:
        """Return what is noted when the message that is open, or the first held, is handed out."""
        handed = Handed(None)
        handed.moved = 0 if self._open is not None else 1
        if source.error() is None:
            handed.upto(source, position.start(offset_of(source) + 1))
        else:
            self._add_event(source, handed)
        return handed

    def _add_event(self, event: confluent_kafka.Message, handed: Handed) -> None:
        """Add the end of a partition, if that is what an event tells."""
        if _has_a_place(event):
            key = partition_of(event)
            handed.ends[key] = handed.after.get(key, self._ledger.delivered.get(key))

    def catch_up(self, keys: Iterable[Partition] | None = None) -> None:
        """Count as handed out what of these partitions, or all, no user ever gets.

        That is the ends of transactions, and what was aborted. librdkafka's position is behind them
        when it was polled; where nothing that was fetched before is left to hand out, so is ours.
        For whoever has the turn and holds the lock.
        """
        if self._interrupted or self._arrived:  # then it may be behind a record
            return
        self._note()
        waiting = {partition_of(each) for each in self._waiting()} | self._returned.keys()
        asked = self._assigned if keys is None else self._assigned.intersection(keys)
        idle = [TopicPartition(*key) for key in asked - waiting]
        delivered = self._ledger.delivered
        handed = Handed(None)
        for each in self._broker.position(idle) if idle else ():
            key, at = key_of(each), position.start(each.offset)
            had = delivered.get(key)
            if had is None and self._stale.get(key) == each.offset:
                continue
            self._stale.pop(key, None)
            if at > (OFFSET_INVALID if had is None else had):
                handed.after[key], handed.epochs[key] = at, each.leader_epoch
                if key in self._ends and self._ends[key] == had:
                    handed.ends[key] = at
        # All or nothing, as in `_hold`.
        self._ledger.hand_out(handed.after, handed.epochs)
        self._ends |= handed.ends

    def fetched(self, key: Partition) -> tuple[list[confluent_kafka.Message], int]:
        """Return a partition's messages that wait to be handed out, and the offset behind them.

        For whoever has the turn and holds the lock.
        """
        if self._interrupted or key in self._returned:
            return [], -1
        self._note()
        found = [each for each in self._waiting() if partition_of(each) == key]
        [after] = self._broker.position([TopicPartition(*key)]) if found else [None]
        return found, -1 if after is None else after.offset

    def _waiting(self) -> list[confluent_kafka.Message]:
        """Return the messages that are not handed out, or not all of their records."""
        sources = [each.source for each in self.ready.parts[self.ready.noted_parts :]]
        if self._open is not None:
            sources.append(self._open.source)
        sources = [each for n, each in enumerate(sources) if not n or each is not sources[n - 1]]
        found = chain(sources, *self._parked.values(), self._held)
        return [each for each in found if each.error() is None]

    def next_at(self, key: Partition) -> int | None:
        """Return a position not behind a partition's next record; None where its group says it."""
        at = self.ledger.delivered.get(key, self._floor.get(key))
        is_groups = key not in self._assigned or key in self._unresolved or key in self._resume
        return 0 if at is None and not is_groups else at  # where it begins librdkafka knows

    def at_end(self) -> set[Partition]:
        """Return the partitions of which nothing was handed out since their end was told."""
        with self.lock:
            delivered = self.ledger.delivered
            return {key for key, after in self._ends.items() if delivered.get(key) == after}

    def forget_ends(self) -> None:
        """Count no end that was told before, or is about to be: there may be more by now."""
        self._turn.run_first(self._forget_ends)

    def _forget_ends(self) -> None:
        with self.lock:
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

    def _begin_segment(
        self, key: Partition, source: confluent_kafka.Message, segment: Segment
    ) -> OpenSegment:
        """Return a segment opened at the row where it is to be begun."""
        row, resumed = self._start(key, segment)
        self._ledger.mark_committed(resumed)
        self._ledger.opened(key, segment.kafka_offset, segment.id, segment.rows)
        return OpenSegment(key, source, segment, segment.offset + row)

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

    def _begins_next(self) -> bool:
        """Say whether the next message waits for where its partition is to be begun."""
        with self.lock:
            if self._open is not None or not self._held:
                return False
            source = self._held[0]
            return source.error() is None and partition_of(source) in self._unresolved

    def _resolve(self, deadline: float) -> bool:
        """Learn where the group left off; False when Kafka has to be asked again.

        While another thread asks for messages it waits for that one.
        """
        asked: list[bool] = []
        bell = self._turn.run(lambda: asked.append(self._ask_committed(deadline)))
        if bell is not None:
            bell.acquire(timeout=self._step(deadline))
        return any(asked)

    def _ask_committed(self, deadline: float) -> bool:
        with self.lock:
            keys = set(self._unresolved)
        asked = [TopicPartition(*each) for each in keys]
        left = max(_LOOKUP, min(10.0, deadline - self._clock()))
        try:
            found = self._broker.committed(asked, left)
        except KafkaException as error:
            if error.args[0].retriable() or error.args[0].code() in _AGAIN:
                return False
            found = []  # nothing can be known: the segment is read from its first row
        with self.lock:
            found = [each for each in found if key_of(each) in self._unresolved]
            # Whether a row is of the segment that is there is known when that comes.
            self._ledger.mark_committed(
                TopicPartition(*key_of(each), each.offset) for each in found
            )
            self._resume |= {key_of(each): each for each in found if each.error is None}
            self._unresolved -= keys
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

    def _wait(self, deadline: float, stops: Stops, *, may_raise: bool) -> bool:
        """Wait for a message, for a short time; say whether the call may wait no longer.

        Not for all of the time at once: what a callback raised must not wait for a message.
        """
        self._serve(self._step(deadline), resumes=True)
        self._fetch_together()
        if may_raise:
            self._after_serving()
        return self._clock() >= deadline or stops()

    def _step(self, deadline: float) -> float:
        """Return for how long librdkafka may be waited for at once."""
        return min(self._turn.step(_SERVE_EVERY), max(0.0, deadline - self._clock()))

    def _serve_if_due(self) -> None:
        if self._clock() >= self.due:
            self._serve(0)

    def _serve(self, timeout: float, *, resumes: bool = False) -> None:
        """Let librdkafka run callbacks and fetch one message, which is held.

        It is asked again after an event: a rebalance may follow, and take away what is held.
        """
        while (new := self._fetch(1, timeout, resumes=resumes)) and not _has_a_place(new[0]):
            timeout = 0

    def _fetch_together(self) -> None:
        """Fetch what has arrived behind a plain message: many cost little more than one.

        A few at a time: there may be segments among them, which are large.
        """
        while (count := self._count_together()) > 0:
            if len(self._fetch(count, 0)) < count:
                break

    def _count_together(self) -> int:
        """Return how many messages more may be fetched at once, if the last is a plain one."""
        with self.lock:
            last = self._held[-1] if self._held else None
            if last is None or last.error() is not None or is_segment(last.headers()):
                return 0
            room = min(_TOGETHER, _HELD_MESSAGES) - len(self._held)
            return 0 if self._is_full() else min(_AT_ONCE, room)

    def _fetch(
        self, count: int, timeout: float, *, resumes: bool = False, pauses: bool = True
    ) -> list[confluent_kafka.Message]:
        """Let librdkafka run callbacks and fetch up to `count` messages, which are held.

        Each is waited for; or, while another thread has its turn, the end of that. When much is
        held then it `pauses`, so that librdkafka fetches no more until a call `resumes`.
        """
        fetched: list[confluent_kafka.Message] = []

        def fetch() -> None:
            with self.lock:
                self._begin_serving()
                if resumes:
                    self._resume_held_back()
            try:
                # No statement of Python's for each, which would take as long as the poll. Nor one
                # call of librdkafka's for all: an exception in it would lose them, and what a
                # callback in it takes away could not be told from what came after.
                polled = islice(iter(partial(self._broker.poll, timeout), None), count)
                self._arrived.extend(polled)
                with self.lock:
                    fetched.extend(self._hold_arrived())
                    self.due = self._clock() + _SERVE_EVERY
                    if pauses and self._is_full():
                        self._hold_back()
            except BaseException:
                self.interrupted()
                raise

        bell = self._turn.run(fetch)
        if bell is not None:
            bell.acquire(timeout=timeout)
        return fetched

    def _begin_serving(self) -> None:
        """Do what has to be done before librdkafka is polled."""
        if self._is_closed:  # by another thread, while this one waited
            raise RuntimeError("Consumer closed")
        self._before_serving()
        if self._interrupted:
            self._recover()
        if self._stale:  # until librdkafka has been seen without them
            self.catch_up(list(self._stale))
        for key, offset in list(self._returned.items()):
            self._broker.seek(TopicPartition(*key, offset))
            del self._returned[key]

    def _hold_arrived(self) -> list[confluent_kafka.Message]:
        """Hold what librdkafka has given, and return it."""
        arrived = list(self._arrived)
        held, parked = arrived, self._parked
        if self._paused or self._returned:
            held, parked = [], {key: list(each) for key, each in parked.items()}
            for message in arrived:
                key = partition_of(message)
                if not _has_a_place(message) or key not in self._paused | self._returned.keys():
                    held.append(message)
                elif key not in self._returned:  # or it comes again
                    parked.setdefault(key, []).append(message)
        nbytes, none = self._held_bytes + bytes_of(held), deque[confluent_kafka.Message]()
        # All of it or nothing, as in `_hold`.
        self._parked, self._held_bytes, self._arrived = parked, nbytes, none
        self._held.extend(held)
        return arrived

    def _recover(self) -> None:
        """Make up for what was lost with an exception, as a signal's handler raises it in a poll.

        A message, which librdkafka's position is behind then: it is fetched again. And what a
        rebalance's callbacks had to do.
        """
        self._hold_arrived()
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
