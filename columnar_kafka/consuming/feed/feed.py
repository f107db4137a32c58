"""Messages from Kafka → records in order: unwrapped, from the right row on, within a bound.

While records are handed out of a segment, librdkafka is still served at least every 100 ms, or the
group would take the consumer for dead (`Poller`). What that fetches waits in the `FetchBuffer`.
When that is much, the partitions pause inside.

Any method may be called from any thread. One lock guards all that is known here. It is held while
a segment is decoded, but never while a callback runs or another thread is waited for. Only one
thread at a time calls librdkafka: it has its `Turn`, to fetch messages or to do something else.

A signal's handler may raise anywhere in a call (Ctrl-C does), and nothing is lost by it: `handout`
says by which rule.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka import position
from columnar_kafka.consuming.feed.fetch_buffer import FetchBuffer
from columnar_kafka.consuming.feed.handout import Found
from columnar_kafka.consuming.feed.kafka_message import address_of, offset_of, partition_of
from columnar_kafka.consuming.feed.open_segment import OpenSegment
from columnar_kafka.consuming.feed.poller import PLAIN_TOGETHER, Poller
from columnar_kafka.consuming.feed.start_positions import StartPositions
from columnar_kafka.consuming.feed.turn import Turn
from columnar_kafka.errors import ColumnarError, SegmentError
from columnar_kafka.message import Message, event_error, plain_message
from columnar_kafka.offsets import Partition, key_of
from columnar_kafka.runtime.deadline import deadline_after
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    import confluent_kafka

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.consuming.feed.offset_store import OffsetStore
    from columnar_kafka.segment.decoder import Decoder
    from columnar_kafka.segment.segment import ValueForm

__all__ = ["Cancelled", "Feed", "never_cancelled"]

_TOGETHER: Final = 16
"""Messages that become ready together where one is wanted."""

T = TypeVar("T")
Cancelled = Callable[[], bool]
"""Asked while a call waits: if true, the call returns with the records that it has."""


def never_cancelled() -> bool:
    """Be the `Cancelled` of a call that ends only at its timeout."""
    return False


class Feed:
    """Hands out what librdkafka fetches, and follows what the assignment does. Thread-safe."""

    def __init__(
        self,
        broker: ConsumerBroker,
        offsets: OffsetStore,
        *,
        decoder: Decoder | None = None,
        form: ValueForm | None = None,
        partition_eof: bool = False,
        clock: Callable[[], float] = time.monotonic,
        before_serving: Callable[[], None] = lambda: None,
        after_serving: Callable[[], None] = lambda: None,
    ) -> None:
        """Hand out the messages of `broker`. Without a `decoder` the default limits hold.

        `form` says what the values of records are; without one they are dicts.
        `partition_eof` says that librdkafka sends an event at the end of a partition.
        `before_serving` runs each time before librdkafka is served, and `after_serving` when it may
        raise: no record is lost by that.
        """
        self.lock = threading.RLock()  # guards the parts below, and the offset store
        self.turn = Turn(self.lock, clock)
        self._broker = broker
        self._offsets = offsets
        self._decoder = decoder
        self._form = form
        self.clock = clock
        self.after_serving = after_serving
        self.starts = StartPositions(offsets)
        self.buffer = FetchBuffer(offsets, self.starts, self.turn)
        self.poller = Poller(
            broker,
            self.buffer,
            self.starts,
            offsets,
            lock=self.lock,
            turn=self.turn,
            clock=clock,
            partition_eof=partition_eof,
            before_serving=before_serving,
        )

    def __repr__(self) -> str:
        return f"<Feed {self.buffer}>"

    @property
    def offsets(self) -> OffsetStore:
        """The offset store, which knows all that was handed out. The caller holds the lock."""
        self.buffer.note()
        return self._offsets

    def run_alone(self, function: Callable[[], T]) -> T:
        """Run a function that calls librdkafka, and return its result. The lock must not be held.

        No other thread fetches messages meanwhile: they might be from before the function's change.
        A thread that waits for a message is waited for, 0.2 s at most.
        """
        return self.turn.run_first(function)

    # --- what the assignment does ---------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin partitions: at a position, where their group left off, or where librdkafka says."""
        partitions = list(partitions)
        before = self._broker.position(
            [TopicPartition(*key_of(partition)) for partition in partitions]
        )
        with self.lock:
            self.starts.note_stale(before)
            for partition in partitions:
                self.buffer.forget(key_of(partition))
                self.starts.assign(partition)

    def ask_committed(self, keys: Iterable[Partition]) -> None:
        """Ask for the committed offsets of reassigned partitions; see `Poller.ask_committed`."""
        self.poller.ask_committed(keys)

    def seek(self, partition: TopicPartition) -> None:
        """Go on at another position of an assigned partition. librdkafka has seeked already."""
        with self.lock:
            key, at = key_of(partition), partition.offset
            self.buffer.drop(key)
            self._offsets.seeked(key)
            if at >= 0:
                self.starts.seek(key, at)

    def assigned_at(self, key: Partition) -> int | None:
        """Return the position that a partition was assigned with; None where it had none."""
        return self.starts.assigned_at(key)

    def serve_soon(self) -> None:
        """Serve librdkafka before anything else is handed out: a rebalance may be due."""
        self.poller.serve_soon()

    def interrupted(self) -> None:
        """Note that an exception has cut a rebalance's callback short."""
        self.poller.interrupted()

    def clear(self) -> None:
        """Forget everything: the consumer is closed."""
        with self.lock:
            self.buffer.revoke({*self._offsets.delivered, *self.starts.known()})
            self.buffer.clear()
            self.poller.close()

    def revoke(self, keys: Iterable[Partition]) -> None:
        """Forget partitions and their messages: they belong to another consumer now."""
        with self.lock:
            self.buffer.revoke(keys)

    def pause(self, keys: Iterable[Partition]) -> None:
        """Hand out nothing of these partitions until `resume`.

        Their buffered messages wait. Where these are many, they are dropped and fetched again, as
        librdkafka does with its own.
        """
        with self.lock:
            for key in keys:
                self.poller.pause(key)

    def park(self, keys: Iterable[Partition]) -> None:
        """Hand out nothing more of partitions that are about to go, but keep what is buffered.

        Records that another thread took after the last commit would be read again.
        """
        with self.lock:
            for key in keys:
                self.buffer.park(key)

    def unpark(self, keys: Iterable[Partition]) -> None:
        """Hand out parked partitions again, except those that the user has paused."""
        with self.lock:
            self.resume([key for key in keys if key not in self.buffer.paused])

    def resume(self, keys: Iterable[Partition]) -> None:
        """Hand these partitions out again."""
        with self.lock:
            for key in keys:
                self.buffer.resume(key)

    # --- handing out ----------------------------------------------------------------------------

    def next(self, timeout: float, cancelled: Cancelled = never_cancelled) -> Message | None:
        """Return the next record, plain message or error event; None after `timeout` seconds."""
        messages = self.take(1, timeout, cancelled)
        return messages[0] if messages else None

    def take(
        self, count: int, timeout: float, cancelled: Cancelled = never_cancelled
    ) -> list[Message]:
        """Return up to `count` messages. `cancelled` is also to say that a callback has raised.

        Fewer only when `timeout` seconds have passed, when the call is `cancelled`, when the next
        message would raise, or when another thread has taken some of them at the last moment.
        """
        now = self.clock()
        if count == 1 and now < self.poller.due:
            self.after_serving()
            for message in self.buffer.ready.left:  # in one step: see `handout`
                return [message]
        deadline = deadline_after(timeout, now)
        self.poller.serve_if_due()
        self.after_serving()  # nothing is lost by what it raises
        is_over = False
        while True:
            with self.lock:
                is_more, is_enough = self._prepare(count)
                ready = self.buffer.ready
                if is_enough or (is_over and not is_more):
                    is_enough = True
                    ready.publish(count)
            if is_enough:
                if count == 1:  # more polls may have followed, for what lies behind the message
                    self.after_serving()
                messages = ready.take(count)
                if messages or is_over or not count:
                    return messages
            elif is_more:
                self.poller.serve_if_due()
            elif not (awaits_lookup := self.awaits_lookup()) or not self.poller.look_up(deadline):
                is_late = self._wait(deadline, cancelled, may_raise=not ready.messages)
                is_over = is_late and (awaits_lookup or not self.buffer.buffered)

    def publish_rest(self) -> None:
        """Let what a call left ready be taken one by one, without the lock."""
        with self.lock:
            if self.buffer.ready.is_published:
                self.buffer.ready.publish(1)

    def _prepare(self, count: int) -> tuple[bool, bool]:
        """Make messages ready until there are `count`, or librdkafka is to be served.

        For one, some more become ready, if they are fetched: segments may have one record each.

        Returns whether there may be more without waiting, and whether to hand out what is ready:
        there are enough, or the next one would raise.
        """
        buffer = self.buffer
        ready = buffer.ready
        if ready.is_published and ready.count_left() >= count:
            return True, True
        if ready.is_published or buffer.found is not None:
            buffer.put_back()
        buffer.apart()
        is_more, messages, most = True, buffer.ready.messages, _TOGETHER if count == 1 else count
        while is_more and len(messages) < most:
            try:
                is_more = self._prepare_next(most)
            except ColumnarError:  # no decoder could be started
                if not messages:
                    raise
                return False, True
            if self.clock() >= self.poller.due:
                break
        return is_more, len(messages) >= count

    def _prepare_next(self, most: int) -> bool:
        """Make ready what comes next: a segment's next records, plain messages, or an event.

        A segment's are about as many as are wanted at `most`, if that is many.

        False if there is nothing, or if its partition awaits a lookup of where to begin.
        """
        buffer, starts = self.buffer, self.starts
        if buffer.open is not None:
            self._prepare_records(buffer.open, most, is_buffered=False)
            return True
        if not buffer.buffered:
            return False
        source = buffer.buffered[0]
        if source.error() is not None:
            buffer.add_records([plain_message(source)], source, None, is_buffered=True)
            return True
        key = partition_of(source)
        if key in starts.awaiting_lookup:
            return False
        if starts.has_any():
            starts.pass_start(key)
        if not is_segment(source.headers()):
            self._prepare_plain()
            return True
        try:
            segment = self.read(source)
        except SegmentError as error:
            buffer.add_records([_unreadable(source, error)], source, None, is_buffered=True)
        else:
            opened = self._begin_segment(key, source, segment)
            self._prepare_records(opened, most, is_buffered=True)
        return True

    def _prepare_plain(self) -> None:
        """Make the plain messages at the front ready together, which is cheaper than one by one."""
        buffered, starts = self.buffer.buffered, self.starts
        sources = [buffered[0]]
        if not starts.awaiting_lookup and not starts.has_any():
            for source in islice(buffered, 1, PLAIN_TOGETHER):
                if source.error() is not None or is_segment(source.headers()):
                    break
                sources.append(source)
        self.buffer.add_plain(list(map(plain_message, sources)), sources)

    def _prepare_records(self, opened: OpenSegment, most: int, *, is_buffered: bool) -> None:
        try:
            messages = opened.next_records(most)
        except SegmentError as error:
            messages = [_unreadable(opened.source, error)]
        self.buffer.add_records(messages, opened.source, opened, is_buffered=is_buffered)

    def _begin_segment(
        self, key: Partition, source: confluent_kafka.Message, segment: Segment
    ) -> OpenSegment:
        """Return a segment opened at the row where it begins."""
        row, committed = self.starts.row_of(key, segment)
        opened = self.open_segment(key, source, segment, row)
        self.note_opened(opened, committed)
        return opened

    def open_segment(
        self, key: Partition, source: confluent_kafka.Message, segment: Segment, row: int
    ) -> OpenSegment:
        """Return a segment whose next record is in a row."""
        return OpenSegment(key, source, segment, segment.offset + row, self._form)

    def note_opened(self, opened: OpenSegment, committed: list[TopicPartition]) -> None:
        """Remember a segment for commits inside it, and the commit that says where it begins."""
        segment = opened.segment
        self._offsets.mark_committed(committed)
        self._offsets.opened(opened.key, segment.kafka_offset, segment.id, segment.rows)

    def awaits_lookup(self) -> bool:
        """Say whether the next message's partition awaits a lookup of where it begins."""
        with self.lock:
            buffered = self.buffer.buffered
            if self.buffer.open is not None or not buffered:
                return False
            source = buffered[0]
            return source.error() is None and partition_of(source) in self.starts.awaiting_lookup

    def _wait(self, deadline: float, cancelled: Cancelled, *, may_raise: bool) -> bool:
        """Wait for a message; say whether the call may wait no longer.

        A call does not wait all of its time at once: a callback's exception must not wait for a
        message, as `cancelled` says.
        """
        self.poller.wait(deadline, cancelled)
        if may_raise:
            self.after_serving()
        self.poller.fetch_together()
        return self.clock() >= deadline or cancelled()

    # --- whole segments -------------------------------------------------------------------------

    def segment(self, timeout: float, cancelled: Cancelled = never_cancelled) -> Segment | None:
        """Return the next segment whole; None after `timeout` seconds.

        A segment is returned whole also where some of its records were handed out already.

        Raises:
            KafkaException: the next message is an error event (it is taken), or a plain message
                (it stays, for `next`).
            SegmentError: the segment cannot be read; the next call goes on after it.
        """
        deadline = deadline_after(timeout, self.clock())
        self.poller.serve_if_due()
        self.after_serving()
        is_over = False
        while True:
            with self.lock:
                self.buffer.put_back()
                self.buffer.apart()
                self.buffer.found = next_segment = self._find_segment()
            if next_segment is not None:
                segment: Segment | None = next_segment.take()
                if segment is not None:
                    return segment
            elif is_over:
                return None
            else:
                is_late = self._wait(deadline, cancelled, may_raise=True)
                is_over = is_late and not self.buffer.buffered

    def _find_segment(self) -> Found | None:
        buffer = self.buffer
        source = (
            buffer.open.source if buffer.open is not None else next(iter(buffer.buffered), None)
        )
        if source is None:
            return None
        progress = buffer.pass_first(source)
        if source.error() is not None:
            return Found(progress, error=KafkaException(event_error(source)))
        if not is_segment(source.headers()):
            reason = (
                f"the message at {address_of(source)} is a plain message, not a segment: "
                "take it with poll()"
            )
            raise KafkaException(KafkaError(KafkaError._STATE, reason))
        try:
            segment = self.read(source)
            segment.verify()
        except SegmentError as error:
            return Found(progress, error=error)
        self._offsets.opened(partition_of(source), segment.kafka_offset, segment.id, segment.rows)
        return Found(progress, segment)

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

    # --- what there is --------------------------------------------------------------------------

    def skip_gaps(self, keys: Iterable[Partition] | None = None) -> None:
        """Move past offsets that have no record for the user; see `Poller.skip_gaps`."""
        self.poller.skip_gaps(keys)

    def fetched(self) -> dict[Partition, tuple[list[confluent_kafka.Message], int]]:
        """Return each partition's messages that wait to be handed out; see `Poller.fetched`."""
        return self.poller.fetched()

    def next_position(self, key: Partition) -> int | None:
        """Return a position not behind a partition's next record; None where its group says it."""
        delivered = self.offsets.delivered.get(key)
        return self.starts.position_of(key) if delivered is None else delivered

    def at_end(self) -> set[Partition]:
        """Return the partitions whose end was reached: nothing was handed out since."""
        with self.lock:
            return self.buffer.at_end()

    def forget_ends(self) -> None:
        """Forget the ends that were reached before: there may be more records by now."""
        self.turn.run_first(self._forget_ends)

    def _forget_ends(self) -> None:
        with self.lock:
            if self.buffer.forget_ends():
                self.poller.refetch_ends()


def _unreadable(source: confluent_kafka.Message, error: SegmentError) -> Message:
    """Return the message that reports an unreadable segment; it stands for the whole segment."""
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
