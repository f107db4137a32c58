"""Calls librdkafka for the feed: every 100 ms at least, or its group would take it for dead.

An exception inside librdkafka's poll, as a signal's handler raises it, destroys the message that
the poll had in hand. librdkafka's position is behind that message then, and a rebalance's callbacks
may not have done all of their work. So the poller recovers before it polls again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import confluent_kafka
from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition

from columnar_kafka import position
from columnar_kafka.consuming.feed import fetch_buffer
from columnar_kafka.consuming.feed.kafka_message import has_offset, partition_of, partitions_of
from columnar_kafka.offsets import key_of
from columnar_kafka.runtime.deadline import next_step
from columnar_kafka.segment.headers import is_segment

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.consuming.feed.fetch_buffer import FetchBuffer
    from columnar_kafka.consuming.feed.offset_store import OffsetStore
    from columnar_kafka.consuming.feed.start_positions import StartPositions
    from columnar_kafka.consuming.feed.turn import Turn
    from columnar_kafka.offsets import Partition

__all__ = ["PLAIN_TOGETHER", "SMALL_BYTES", "Poller"]

SERVE_EVERY: Final = 0.1
"""Seconds after which librdkafka has to be served again."""
_LONGEST_STEP: Final = 0.2
"""Seconds of one wait. confluent-kafka waits no longer at once either, so that it sees signals."""
_LONG_AGO: Final = -float("inf")

_SHORTEST_LOOKUP: Final = 1.0
_LONGEST_LOOKUP: Final = 10.0
"""Seconds that Kafka is given to tell committed offsets."""
_AT_ONCE: Final = 10
"""Messages that are fetched in one turn, at most."""
PLAIN_TOGETHER: Final = 100
"""Plain messages that are fetched and made ready together, at most."""
SMALL_BYTES: Final = 16 << 10
"""The size up to which segments, too, are fetched together."""

_RETRIABLE: Final = frozenset(
    {
        confluent_kafka.KafkaError._TIMED_OUT,
        confluent_kafka.KafkaError._TRANSPORT,
        confluent_kafka.KafkaError._WAIT_COORD,
        confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
        confluent_kafka.KafkaError.NOT_COORDINATOR,
    }
)


Again = Callable[[float], bool]
"""Asked after a wait, with the time: whether to wait as long once more."""


def never_again(_: float) -> bool:
    """Be the `Again` of a call that waits once."""
    return False


class Poller:
    """Fetches messages into the buffer, serves callbacks, and throttles what is fetched.

    `due` is when librdkafka has to be served again, before anything else is handed out.
    Thread-safe: one thread at a time has the `Turn` to call librdkafka. Callbacks of librdkafka run
    in that thread, and may call all of this again.
    """

    def __init__(
        self,
        broker: ConsumerBroker,
        buffer: FetchBuffer,
        starts: StartPositions,
        offsets: OffsetStore,
        *,
        lock: threading.RLock,
        turn: Turn,
        clock: Callable[[], float],
        partition_eof: bool,
        before_serving: Callable[[], None],
    ) -> None:
        """Fetch from `broker`. The feed describes `partition_eof` and `before_serving`."""
        self.due = clock() + SERVE_EVERY
        self._broker = broker
        self._buffer = buffer
        self._starts = starts
        self._offsets = offsets
        self._lock = lock
        self._turn = turn
        self._clock = clock
        self._partition_eof = partition_eof
        self._before_serving = before_serving
        self._is_closed = False
        self.is_interrupted = False  # an exception cut a poll short, or a rebalance's callback
        self.was_interrupted = False  # whether `is_interrupted` was ever true
        self._throttled: dict[Partition, TopicPartition] = {}  # paused here, not by the user

    def serve_soon(self) -> None:
        """Let librdkafka be heard before anything else is handed out: a rebalance may be due."""
        self.due = _LONG_AGO

    def interrupted(self) -> None:
        """Note that an exception has cut a poll short, or a callback of a rebalance."""
        self.is_interrupted, self.was_interrupted, self.due = True, True, _LONG_AGO

    def close(self) -> None:
        """Fetch nothing more: threads that wait for a message get a RuntimeError."""
        self._throttled.clear()
        self._is_closed, self.due = True, _LONG_AGO

    # --- fetching -------------------------------------------------------------------------------

    def step(self, deadline: float) -> float:
        """Return for how long librdkafka may be waited for at once."""
        return next_step(deadline - self._clock(), self._turn.step(_LONGEST_STEP))

    def serve_if_due(self) -> None:
        """Serve librdkafka where it is due, without waiting."""
        if self._clock() >= self.due:
            self.serve(0)

    def wait(self, deadline: float, cancelled: Callable[[], bool]) -> None:
        """Serve librdkafka until it has a message, or something else is to be done; then buffer it.

        That may be a call of another thread, a rebalance, or what `cancelled` knows of. This is all
        that an idle consumer does, five times a second, so it calls little.
        """
        turn, buffer, generation = self._turn, self._buffer, self._buffer.generation
        last = deadline - _LONGEST_STEP  # a step that begins later would be too long

        def again(now: float) -> bool:
            return not (
                now > last
                or turn.priority
                or self.is_interrupted
                or self._starts.stale
                or buffer.buffered
                or buffer.generation != generation
                or cancelled()
            )

        self.serve(self.step(deadline), resumes=True, again=again)

    def serve(self, timeout: float, *, resumes: bool = False, again: Again = never_again) -> None:
        """Let librdkafka run callbacks, and buffer one message.

        After an event it is polled again: a rebalance may follow, and take away what is buffered.
        """
        while new := self.fetch(1, timeout, resumes=resumes, again=again):
            if has_offset(new[0]):
                break
            timeout, again = 0, never_again

    def fetch_together(self) -> None:
        """Fetch what librdkafka has behind a plain message, or a small one.

        Many cost little more than one. They are fetched a few at a time: some may be large.
        """
        while (count := self._count_together()) > 0:
            if len(self.fetch(count, 0)) < count:
                break

    def _count_together(self) -> int:
        """Return how many messages more may be fetched at once, because of the last one."""
        with self._lock:
            buffered = self._buffer.buffered
            last = buffered[-1] if buffered else None
            if last is None or last.error() is not None:
                return 0
            if len(last) > SMALL_BYTES and is_segment(last.headers()):
                return 0
            room = min(PLAIN_TOGETHER, fetch_buffer.MOST_MESSAGES) - self._buffer.count
            return 0 if self._buffer.is_full() else min(_AT_ONCE, room)

    def fetch(
        self,
        count: int,
        timeout: float,
        *,
        resumes: bool = False,
        throttles: bool = True,
        together: bool = False,
        again: Again = never_again,
    ) -> list[confluent_kafka.Message]:
        """Let librdkafka run callbacks, buffer up to `count` messages, and return them.

        This waits up to `timeout` seconds for each, `again` where there was none; or for the end of
        another thread's turn. If the buffer is full then, it `throttles`: librdkafka fetches no
        more until a call `resumes`. Plain messages are buffered `together` for tables.
        """
        fetched: list[confluent_kafka.Message] = []

        def fetch() -> None:
            with self._lock:
                self._prepare()
                if resumes:
                    self._unthrottle()
            try:
                self._poll(count, timeout)
                while not self._buffer.arrived and again(now := self._clock()):
                    self.due = now + SERVE_EVERY
                    self._before_serving()
                    self._poll(count, timeout)
                with self._lock:
                    fetched.extend(self._buffer.accept_arrived(together=together))
                    if self.is_interrupted:  # a callback, and the poll has gone on
                        self._recover()
                    self.due = self._clock() + SERVE_EVERY
                    if throttles and self._buffer.is_full():
                        self._throttle()
            except BaseException:
                self.interrupted()
                raise

        wakeup = self._turn.run(fetch)
        if wakeup is not None:
            wakeup.acquire(timeout=timeout)
        return fetched

    def _poll(self, count: int, timeout: float) -> None:
        # Not a loop in Python, which would take as long as the polls do. Nor one batch call
        # of librdkafka: an exception in it would lose all messages, and those from before
        # a rebalance in it would look like those from after it.
        polled = islice(iter(partial(self._broker.poll, timeout), None), count)
        self._buffer.arrived.extend(polled)

    def _prepare(self) -> None:
        """Do what has to be done before librdkafka is polled."""
        if self._is_closed:  # another thread closed it while this one waited
            raise RuntimeError("Consumer closed")
        self._before_serving()
        if self.is_interrupted:
            self._recover()
        if self._starts.stale:  # until librdkafka has been seen without them
            self.skip_gaps(list(self._starts.stale))
        for key, offset in list(self._buffer.to_refetch.items()):
            self._broker.seek(TopicPartition(*key, offset))
            self._buffer.refetched(key)

    def _recover(self) -> None:
        """Fetch again what an exception inside a poll destroyed, and catch up with rebalances.

        librdkafka's assignment is taken over. A partition whose buffered messages do not reach
        librdkafka's position has lost some: librdkafka seeks back to them.
        """
        buffer, starts = self._buffer, self._starts
        buffer.accept_arrived()
        buffer.put_back()
        assigned = self._broker.assignment()
        keys = set(map(key_of, assigned))
        buffer.revoke(starts.assigned - keys)
        self.ask_committed(starts.assign_unseen(keys))
        for key in list(buffer.paused):  # their messages may not have been parked
            self.pause(key)
        expected = buffer.next_offsets()
        if self._partition_eof:  # the event may be what was lost
            self.refetch_ends()
        for partition in self._broker.position(assigned):
            key, after = key_of(partition), partition.offset
            if key not in expected and key in self._offsets.delivered:
                expected[key] = position.unpack(self._offsets.delivered[key]).offset
            begin = expected.get(key, -1)
            if after >= 0 and begin != after:
                # Where nothing is expected, or the log began anew, one message was lost.
                begin = begin if 0 <= begin < after else after - 1
                self._broker.seek(TopicPartition(*key, begin))
        buffer.recount()
        self.is_interrupted = False

    # --- throttling -----------------------------------------------------------------------------

    def pause(self, key: Partition) -> None:
        """Hand out nothing of a partition that the user has paused."""
        self._throttled.pop(key, None)
        self._buffer.paused.add(key)
        self._buffer.park(key)

    def refetch_ends(self) -> None:
        """Have librdkafka send the end events of all partitions again.

        It does so where it fetches anew, which may take it a second.
        """
        self._throttle()
        self._unthrottle()

    def _throttle(self) -> None:
        """Fetch no more. Called again, it includes partitions that came or were resumed since."""
        paused = self._buffer.paused
        assigned = [
            partition for partition in self._broker.assignment() if key_of(partition) not in paused
        ]
        self._throttled |= {key_of(partition): partition for partition in assigned}
        self._broker.pause(assigned)

    def _unthrottle(self) -> None:
        if self._throttled:
            self._broker.resume(list(self._throttled.values()))
            self._throttled = {}

    # --- what librdkafka knows ------------------------------------------------------------------

    def ask_committed(self, keys: Iterable[Partition]) -> None:
        """Ask for the committed offsets twice before polling reassigned partitions.

        librdkafka may have gone on fetching them, and hands out what that was until it has learnt
        where their group left off. It asks when its commits and earlier questions are answered.
        Answers arrive in order: by the first of ours librdkafka has sent its own request, and by
        the second it has its answer.
        """
        with self._lock:
            back = self._starts.reassigned(keys)
        if back:
            with suppress(KafkaException):
                self._broker.committed([TopicPartition(*key) for key in back], _SHORTEST_LOOKUP)
                self.look_up(self._clock())

    def look_up(self, deadline: float) -> bool:
        """Ask where the group left off; False when Kafka has to be asked again.

        While another thread has its turn this waits for it, a step at most.
        """
        done: list[bool] = []
        wakeup = self._turn.run(lambda: done.append(self._look_up(deadline)))
        if wakeup is not None:
            wakeup.acquire(timeout=self.step(deadline))
        return any(done)

    def _look_up(self, deadline: float) -> bool:
        with self._lock:
            keys = set(self._starts.awaiting_lookup)
        asked = [TopicPartition(*key) for key in keys]
        timeout = max(_SHORTEST_LOOKUP, min(_LONGEST_LOOKUP, deadline - self._clock()))
        try:
            offsets = self._broker.committed(asked, timeout)
        except KafkaException as error:
            if error.args[0].retriable() or error.args[0].code() in _RETRIABLE:
                return False
            offsets = []  # the offsets stay unknown: segments are read from their first row
        with self._lock:
            self._starts.looked_up(keys, offsets)
        return True

    def skip_gaps(self, keys: Iterable[Partition] | None = None) -> None:
        """Move past offsets that have no record for the user, in these partitions or in all.

        They hold control records (the ends of transactions) and aborted records. A poll moves
        librdkafka's position past them. In a partition without a fetched message that waits to be
        handed out, our position follows. The caller has the turn and holds the lock.
        """
        if self.is_interrupted or self._buffer.arrived:  # librdkafka's may be past a record
            return
        self._buffer.note()
        waiting = partitions_of(self._buffer.waiting())
        waiting |= self._buffer.to_refetch.keys()
        assigned = self._starts.assigned
        asked = assigned if keys is None else assigned.intersection(keys)
        idle = [TopicPartition(*key) for key in asked - waiting]
        delivered = self._offsets.delivered
        skipped = []
        for partition in self._broker.position(idle) if idle else ():
            key, at = key_of(partition), position.start(partition.offset)
            before = delivered.get(key)
            if before is None and self._starts.is_stale(key, partition.offset):
                continue
            self._starts.forget_stale(key)
            if at > (OFFSET_INVALID if before is None else before):
                skipped.append((key, at, partition.leader_epoch))
        self._buffer.note_skipped(skipped)

    def fetched(self) -> dict[Partition, tuple[list[confluent_kafka.Message], int]]:
        """Return each partition's messages that wait to be handed out, and the offset behind them.

        The caller has the turn and holds the lock.
        """
        if self.is_interrupted:
            return {}
        self._buffer.note()
        self._buffer.apart()
        waiting: dict[Partition, list[confluent_kafka.Message]] = {}
        for message in self._buffer.waiting():
            waiting.setdefault(partition_of(message), []).append(message)
        known = [TopicPartition(*key) for key in waiting.keys() - self._buffer.to_refetch.keys()]
        after = self._broker.position(known) if known else []
        return {(key := key_of(partition)): (waiting[key], partition.offset) for partition in after}
