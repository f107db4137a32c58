"""The messages between librdkafka and the user, in order.

A message goes from `arrived` to `buffered`, or is `parked` where its partition is paused. Then it
is the `open` segment, or `ready` as what users get. Until it is handed out it can go back.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice, pairwise, repeat, starmap
from typing import TYPE_CHECKING, Final

from columnar_kafka import position
from columnar_kafka.consuming.feed.handout import Part, Progress, Ready
from columnar_kafka.consuming.feed.kafka_message import (
    bytes_of,
    has_offset,
    is_partition_end,
    offset_of,
    partition_of,
    size_of,
)
from columnar_kafka.consuming.feed.together import apart, count_of, put_together

if TYPE_CHECKING:
    from collections.abc import Iterable

    import confluent_kafka

    from columnar_kafka.consuming.feed.handout import Found
    from columnar_kafka.consuming.feed.offset_store import OffsetStore
    from columnar_kafka.consuming.feed.open_segment import OpenSegment
    from columnar_kafka.consuming.feed.start_positions import StartPositions
    from columnar_kafka.consuming.feed.turn import Turn
    from columnar_kafka.message import Message
    from columnar_kafka.offsets import Partition

__all__ = ["MOST_BYTES", "MOST_MESSAGES", "FetchBuffer"]

MOST_MESSAGES: Final = 1000
"""With so many buffered messages no more are fetched."""
MOST_BYTES: Final = 32 << 20
"""With so many buffered bytes no more are fetched: the last fetch may exceed it."""


class FetchBuffer:
    """Every message that was fetched and is not handed out yet, and what was handed out last.

    Whoever calls it holds the feed's lock; only `ready.left` and `ready.many` are taken from
    without, as `handout` says. `generation` grows with each change, which a callback may make.
    """

    def __init__(self, offsets: OffsetStore, starts: StartPositions, turn: Turn) -> None:
        self._offsets = offsets
        self._starts = starts
        self._turn = turn
        self.ready = Ready()  # handed out first
        self.found: Found | None = None  # or else the result of one call, made of what follows
        self.open: OpenSegment | None = None  # then the rest of this segment
        self.buffered: deque[confluent_kafka.Message] = deque()  # then these messages
        self.nbytes = 0  # of `buffered`
        self.count = 0  # of the messages in it
        self.has_together = False  # whether some of them, or of those parked, are `together`
        self.arrived: deque[confluent_kafka.Message] = deque()  # in the current poll
        self.generation = 0
        self.paused: set[Partition] = set()  # by the user, until `resume`, as in librdkafka
        self.parked: dict[Partition, list[confluent_kafka.Message]] = {}  # fetched, but paused
        self.to_refetch: dict[Partition, int] = {}  # the offsets from which to fetch again
        self._ends: dict[Partition, int | None] = {}  # where the end was reported

    def __str__(self) -> str:
        current = "no segment" if self.open is None else "a segment"
        return (
            f"{self.ready.count_left()} messages ready, {current} open, "
            f"{self.count} buffered, {len(self.parked)} partitions parked"
        )

    # --- what arrives ---------------------------------------------------------------------------

    def accept_arrived(self, *, together: bool = False) -> list[confluent_kafka.Message]:
        """Buffer or park what librdkafka has given, and return it.

        Plain messages are buffered `together` if only tables are to have them.
        """
        if not self.arrived:
            return []
        arrived, parked = list(self.arrived), self.parked
        buffered = arrived
        if self.paused or self.to_refetch:
            buffered, parked = [], {key: list(messages) for key, messages in parked.items()}
            for message in arrived:
                key = partition_of(message)
                if not has_offset(message) or key not in self.paused | self.to_refetch.keys():
                    buffered.append(message)
                elif key not in self.to_refetch:  # or it comes again
                    parked.setdefault(key, []).append(message)
        nbytes, count = self.nbytes + bytes_of(buffered), self.count + len(buffered)
        has_together = self.has_together or together
        if together:
            buffered = put_together(buffered)
        # It stays the same deque: this may be a callback's poll, and the outer one fills it.
        emptied = starmap(self.arrived.popleft, repeat((), len(arrived)))
        moved = chain(buffered, islice(emptied, len(arrived), None))
        # All or nothing.
        self.parked, self.nbytes, self.count = parked, nbytes, count
        self.has_together = has_together
        self.buffered.extend(moved)
        return arrived

    def is_full(self, most: int = 0) -> bool:
        """Say whether no more is to be fetched; `most` messages may be wanted at least."""
        count = self.count
        return (count >= most and count >= MOST_MESSAGES) or self.nbytes >= MOST_BYTES

    def room_for(self, nbytes: int) -> int:
        """Return how many messages of `nbytes` each make the buffer full."""
        return 1 + (MOST_BYTES - self.nbytes) // nbytes

    def together(self) -> None:
        """Have those plain messages together, too, that were fetched to serve librdkafka."""
        if self.has_together:
            self._replace(put_together(list(self.buffered)), self.parked, self.open)

    def apart(self) -> None:
        """Have each message by itself, as all but tables want them."""
        if not self.has_together:
            return
        self.put_back()
        parked = {key: apart(messages) for key, messages in self.parked.items()}
        self._replace(apart(self.buffered), parked, self.open)
        self.has_together = False

    # --- partitions -----------------------------------------------------------------------------

    def revoke(self, keys: Iterable[Partition]) -> None:
        """Forget partitions and their messages: they belong to another consumer now."""
        for key in list(keys):
            self._starts.revoke(key)
            self.forget(key)

    def forget(self, key: Partition) -> None:
        """Forget all that is known of a partition."""
        self.drop(key)
        self._starts.forget(key)
        self._offsets.forget([key])

    def drop(self, key: Partition) -> None:
        """Drop what is fetched of a partition, and where it was to begin."""
        self.put_back()
        self._starts.clear(key)
        self._ends.pop(key, None)
        self.to_refetch.pop(key, None)
        if self._turn.is_mine:  # a callback: what came before it
            arrived = [message for message in self.arrived if partition_of(message) != key]
            self.arrived.__init__(arrived)  # type: ignore[misc]
        opened = None if self.open is None or self.open.key == key else self.open
        self._replace(*self._without(key), opened)

    def clear(self) -> None:
        """Drop everything; nothing is ready, nor known of a partition."""
        self.arrived.clear()
        self._replace([], {}, None)
        self.paused.clear()

    def park(self, key: Partition) -> None:
        """Park a partition's messages; where they are many, have them fetched again instead."""
        self.put_back()
        mine = [message for message in self.buffered if partition_of(message) == key]
        opened = self.open
        if opened is not None and opened.key == key:
            self._starts.seek(key, opened.at)  # the segment is opened there again
            mine.insert(0, opened.source)
            opened = None
        mine = self.parked.get(key, []) + mine
        buffered, parked = self._without(key)
        first = next((offset_of(message) for message in mine if message.error() is None), -1)
        if first < 0 or sum(map(bytes_of, [mine, *parked.values()])) < MOST_BYTES:
            self._replace(buffered, {**parked, key: mine}, opened)
        else:
            self._replace(buffered, parked, opened, to_refetch={**self.to_refetch, key: first})

    def resume(self, key: Partition) -> None:
        """Go on with a partition that is paused or parked."""
        self.put_back()
        _, parked = self._without(key)
        self._replace([*self.parked.get(key, []), *self.buffered], parked, self.open)
        self.paused.discard(key)

    def recount(self) -> None:
        """Count the bytes anew after an interruption, and begin a new generation."""
        self._replace(list(self.buffered), self.parked, self.open)

    def refetched(self, key: Partition) -> None:
        """Note that librdkafka has seeked back, to fetch a partition again."""
        del self.to_refetch[key]

    def _without(
        self, key: Partition
    ) -> tuple[list[confluent_kafka.Message], dict[Partition, list[confluent_kafka.Message]]]:
        """Return what is buffered and what is parked of all other partitions."""
        buffered = [message for message in self.buffered if partition_of(message) != key]
        return buffered, {other: parked for other, parked in self.parked.items() if other != key}

    def _replace(
        self,
        messages: list[confluent_kafka.Message],
        parked: dict[Partition, list[confluent_kafka.Message]],
        opened: OpenSegment | None,
        *,
        at: int | None = None,
        to_refetch: dict[Partition, int] | None = None,
    ) -> None:
        """Replace what is fetched; nothing is ready, or `messages` has what was."""
        nbytes, count, ready = bytes_of(messages), count_of(messages), Ready()
        # All or nothing.
        self.generation += 1
        self.parked, self.open, self.ready = parked, opened, ready
        self.nbytes, self.count = nbytes, count
        self.to_refetch = self.to_refetch if to_refetch is None else to_refetch
        if opened is not None and at is not None:
            opened.at = at
        # One call: after a `clear` of its own an exception would lose the messages.
        self.buffered.__init__(messages)  # type: ignore[misc]

    # --- what is made ready ---------------------------------------------------------------------

    def add_records(
        self,
        messages: list[Message],
        source: confluent_kafka.Message,
        opened: OpenSegment | None,
        *,
        is_buffered: bool,
    ) -> None:
        """Make messages of one source ready: of the segment that is open, or the first buffered."""
        ready, nbytes = self.ready, size_of(source) if is_buffered else 0
        begin, at = len(ready.messages), 0 if opened is None else opened.at
        part = Part(begin, begin + len(messages), source, opened, at)
        after = (messages[-1].offset() or 0) + 1
        # All or nothing.
        self.generation += 1
        ready.messages += messages
        ready.parts += [part]
        self.nbytes -= nbytes
        self.count -= is_buffered
        self.open = opened if after % position.MAX_ROWS else None
        if opened is not None:
            opened.at = after
        if is_buffered:
            self.buffered.popleft()

    def add_plain(self, messages: list[Message], sources: list[confluent_kafka.Message]) -> None:
        """Make the plain messages at the front ready: one for each source."""
        first = len(self.ready.messages)
        parts = [Part(n, n + 1, source, None, 0) for n, source in enumerate(sources, first)]
        left, nbytes = list(islice(self.buffered, len(sources), None)), bytes_of(sources)
        # All or nothing.
        self.generation += 1
        self.ready.messages += messages
        self.ready.parts += parts
        self.nbytes -= nbytes
        self.count -= len(sources)
        self.buffered.__init__(left)  # type: ignore[misc]

    def put_back(self) -> None:
        """Buffer again what is ready, or found, and was not taken."""
        if self.found is not None:
            self.found.withdraw()
        ready = self.ready
        ready.withdraw()
        self.note()
        self.found = None
        left = ready.parts[ready.handled_parts :]
        if not left:
            self.ready = Ready()
            return
        first = left[0]
        sources = [first.source] if first.opened is None else []
        sources += [part.source for last, part in pairwise(left) if part.source is not last.source]
        at = first.at + ready.handled - first.begin
        self._replace([*sources, *self.buffered], self.parked, first.opened, at=at)

    # --- what was handed out --------------------------------------------------------------------

    def note(self) -> None:
        """Record what has been handed out since: what is left tells, see `handout`."""
        if self.found is not None and self.found.is_taken:
            self._note_found(self.found)
        ready = self.ready
        taken, parts = ready.count_taken(), ready.handled_parts
        if taken == ready.handled:
            return
        progress = Progress(None)
        for part in islice(ready.parts, parts, None):
            if part.begin >= taken:
                break
            if part.source.error() is not None:
                self._add_end(part.source, progress)
            else:
                after = ready.messages[min(part.end, taken) - 1].offset()
                progress.pass_message(part.source, (after or 0) + 1)
            parts += part.end <= taken
        # All or nothing: `hand_out` ends in assignments, and so does this.
        self._offsets.hand_out(progress.after, progress.epochs)
        self._ends |= progress.ends
        ready.handled, ready.handled_parts = taken, parts

    def _note_found(self, taken: Found) -> None:
        progress = taken.progress
        if progress is None:
            self.found = None
            return
        for key in progress.after:
            self._starts.pass_start(key)
        left = [*progress.rest, *islice(self.buffered, progress.messages, None)]
        nbytes, count = bytes_of(left), count_of(left)
        # All or nothing.
        self._offsets.hand_out(progress.after, progress.epochs)
        self._ends |= progress.ends
        self.generation += 1
        self.open, self.found = progress.opened, None
        self.nbytes, self.count = nbytes, count
        if progress.opened is not None:
            progress.opened.at = progress.at
        self.buffered.__init__(left)  # type: ignore[misc]

    def note_skipped(self, positions: Iterable[tuple[Partition, int, int | None]]) -> None:
        """Count partitions as handed out up to positions, with leader epochs."""
        progress = Progress(None)
        for key, at, epoch in positions:
            progress.after[key], progress.epochs[key] = at, epoch
            if key in self._ends and self._ends[key] == self._offsets.delivered.get(key):
                progress.ends[key] = at
        # All or nothing.
        self._offsets.hand_out(progress.after, progress.epochs)
        self._ends |= progress.ends

    def pass_first(self, source: confluent_kafka.Message) -> Progress:
        """Return what to record after the whole open segment, or else the first message."""
        progress = Progress(None)
        progress.messages = 0 if self.open is not None else 1
        if source.error() is None:
            progress.pass_message(source, position.start(offset_of(source) + 1))
        else:
            self._add_end(source, progress)
        return progress

    def _add_end(self, event: confluent_kafka.Message, progress: Progress) -> None:
        """Add the end of a partition, if the event says that."""
        if is_partition_end(event):
            key = partition_of(event)
            progress.ends[key] = progress.after.get(key, self._offsets.delivered.get(key))

    # --- what there is --------------------------------------------------------------------------

    def waiting(self) -> list[confluent_kafka.Message]:
        """Return the messages that are not handed out, or not all of their records."""
        sources = [part.source for part in self.ready.parts[self.ready.handled_parts :]]
        if self.open is not None:
            sources.append(self.open.source)
        sources = [
            source for n, source in enumerate(sources) if not n or source is not sources[n - 1]
        ]
        waiting = chain(sources, *self.parked.values(), self.buffered)
        return [message for message in waiting if message.error() is None]

    def next_offsets(self) -> dict[Partition, int]:
        """Return the offsets behind the last message of each partition; nothing is ready."""
        self.apart()
        sources = [] if self.open is None else [self.open.source]
        return {
            partition_of(source): offset_of(source) + 1
            for source in chain(sources, *self.parked.values(), self.buffered)
            if source.error() is None
        }

    def at_end(self) -> set[Partition]:
        """Return the partitions whose end was reached: nothing was handed out since."""
        self.note()
        delivered = self._offsets.delivered
        return {key for key, after in self._ends.items() if delivered.get(key) == after}

    def forget_ends(self) -> bool:
        """Forget every end that was reached; say whether there was any."""
        self.put_back()
        left = [message for message in self.buffered if not is_partition_end(message)]
        if not self._ends and len(left) == len(self.buffered):
            return False
        self._ends.clear()
        self._replace(left, self.parked, self.open)
        return True
