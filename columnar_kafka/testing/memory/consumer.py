"""A consumer of the memory broker: messages, offsets, and its part in a group."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from columnar_kafka.offsets import key_of
from columnar_kafka.runtime.deadline import deadline_after
from columnar_kafka.testing.memory.cluster import MemoryKafka, copy_of
from columnar_kafka.testing.memory.membership import Membership

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from columnar_kafka.broker.watermarks import Watermarks
    from columnar_kafka.offsets import Partition

__all__ = ["MemoryConsumer"]

_TAIL: Final = -2000  # OFFSET_TAIL(n) is n below it
_STOPPED: Final = -1

Partitions = list[TopicPartition]


class MemoryConsumer:
    """Implements `ConsumerBroker`: partitions are assigned by hand, or by its group.

    Partitions without an offset begin where the group has committed, or else as `reset` says:
    earliest, latest or error. Not thread-safe, but several consumers may run in several threads.
    """

    def __init__(
        self,
        kafka: MemoryKafka,
        group: str = "group",
        *,
        client: str = "rdkafka",
        reset: str = "earliest",
        strategy: str = "range",
        committed_only: bool = True,
        end_events: bool = False,
        auto_store: bool = True,
        auto_commit: float | None = None,
        on_commit: Callable[[KafkaError | None, Partitions], object] | None = None,
    ) -> None:
        """`auto_commit` is the interval of automatic commits in seconds; None for none."""
        self._kafka = kafka
        self._group = group
        self._reset = reset
        self.membership = Membership(
            kafka, group, client=client, strategy=strategy, assign=self.assign
        )
        self._committed_only = committed_only
        self.end_events = end_events
        self._auto_store = auto_store
        self._auto_commit = auto_commit
        self._on_commit = on_commit
        self._next_commit = time.monotonic() + (auto_commit or 0)
        self._lock, self._changed = kafka.lock, kafka.changed  # guards everything below
        self._assigned: dict[Partition, int] = {}  # with the offset that was asked for
        self.next_offsets: dict[Partition, int] = {}  # the partition served longest ago is first
        self.paused: set[Partition] = set()
        self._position: dict[Partition, int] = {}
        self._stored: dict[Partition, int] = {}
        self._done: dict[Partition, int] = {}  # the offset that is committed
        self._ended: dict[Partition, int] = {}  # the end that was reported last
        self.events: deque[Message] = deque()
        self._results: deque[tuple[KafkaError | None, Partitions]] = deque()  # for on_commit
        self.faults: deque[KafkaError] = deque()

    def __repr__(self) -> str:
        return (
            f"<MemoryConsumer of {self._group!r}: {len(self.next_offsets)} partitions, "
            f"{len(self.paused)} paused>"
        )

    @property
    def kafka(self) -> MemoryKafka:
        """The cluster it reads from."""
        return self._kafka

    # --- faults ---------------------------------------------------------------------------------

    def event(self, error: KafkaError) -> None:
        """Let `poll` return an error event before any message."""
        with self._lock:
            self.events.append(Message(error=error))
            self._changed.notify_all()

    def fail_next(self, error: KafkaError, *, count: int = 1) -> None:
        """Let the next calls of `committed` and `commit` fail; only synchronous ones raise."""
        with self._lock:
            self.faults.extend([error] * count)

    def expel(self) -> None:
        """Let the group remove this member: its partitions are lost, and it joins again."""
        self.membership.expel()

    def side_reader(self, partitions: Sequence[TopicPartition]) -> MemoryConsumer:
        """See `ConsumerBroker.side_reader`."""
        reader = MemoryConsumer(
            self._kafka, self._group, committed_only=self._committed_only, end_events=True
        )
        reader.assign(partitions)
        return reader

    # --- the group ------------------------------------------------------------------------------

    def subscribe(
        self, topics: Sequence[str], **callbacks: Callable[[Partitions], object] | None
    ) -> None:
        """Join the group; `assign`, `revoke` and `lost` are called in `poll`, with partitions.

        Without a callback the rebalance goes on all the same. A callback may call `assign` itself.
        """
        with self._lock:
            self.membership.subscribe(topics, callbacks)
            missing = set(topics) - set(self._kafka.topics())
            for topic in sorted(topic for topic in missing if not topic.startswith("^")):
                self.events.append(_unavailable(topic))

    def close(self) -> None:
        """Revoke the partitions, which commits with auto-commit, and leave the group."""
        try:
            self.membership.leave()
        finally:
            self.assign([])
        self._run_commit_callbacks()

    # --- the assignment -------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, from their offsets on; paused ones stay paused.

        With auto-commit, the stored offsets of the previous assignment are committed.

        Raises:
            KafkaException: a partition occurs twice; nothing changes.
        """
        given = list(partitions)
        if len({key_of(partition) for partition in given}) < len(given):
            raise _failed("Failed to set assignment", KafkaError._INVALID_ARG)
        self._commit_stored()
        with self._lock:
            self.membership.has_assigned = True
            self._remove(list(self.next_offsets))
            self._add(given)

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions too.

        Raises:
            KafkaException: one is assigned already, or the group assigns; nothing changes.
        """
        with self._lock:
            self._require_no_group()
            for partition in partitions:
                if key_of(partition) in self.next_offsets:
                    raise _error(
                        KafkaError._CONFLICT,
                        f"{partition.topic} [{partition.partition}] is already part of the current "
                        "assignment",
                    )
            self._add(partitions)

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions.

        Raises:
            KafkaException: one is not assigned, or the group assigns; nothing changes.
        """
        with self._lock:
            self._require_no_group()
            for partition in partitions:
                if key_of(partition) not in self.next_offsets:
                    raise _error(
                        KafkaError._INVALID_ARG,
                        f"{partition.topic} [{partition.partition}] can't be unassigned since it "
                        "is not in the current assignment",
                    )
            gone = [key_of(partition) for partition in partitions]
            self._commit_stored(gone)
            self._remove(gone)

    def _require_no_group(self) -> None:
        if self.membership:
            raise _error(
                KafkaError._STATE,
                "Changes to the current assignment must be made using assign() when rebalance "
                "protocol type is EAGER",
            )

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._assigned[partition.topic, partition.partition] = partition.offset
            self._go_to(key_of(partition), partition.offset)

    def _remove(self, keys: Iterable[Partition]) -> None:
        for key in keys:
            for known in (
                *(self._assigned, self.next_offsets, self._position),
                *(self._stored, self._done, self._ended),
            ):
                known.pop(key, None)

    def seek(self, partition: TopicPartition) -> None:
        """Continue at another offset of an assigned partition.

        Raises:
            KafkaException: the partition is not assigned.
        """
        key = key_of(partition)
        with self._lock:
            if key not in self.next_offsets:
                raise _failed(
                    f"Failed to seek to offset {partition.offset}", KafkaError._UNKNOWN_PARTITION
                )
            self._go_to(key, partition.offset)

    def _go_to(self, key: Partition, offset: int) -> None:
        self._position.pop(key, None)
        self._ended.pop(key, None)
        end = self._end(key)
        if offset < 0 and offset not in (OFFSET_BEGINNING, OFFSET_END) and offset > _TAIL:
            offset = self._done[key] = self._kafka.committed(self._group, *key).offset
        if offset == OFFSET_INVALID:
            self._reset_to(key, end, "no previously committed offset available")
        elif offset == OFFSET_END:
            self.next_offsets[key] = end
        elif offset < 0:
            self.next_offsets[key] = max(0, end - (_TAIL - offset)) if offset <= _TAIL else 0
        else:
            self.next_offsets[key] = offset

    def _reset_to(self, key: Partition, offset: int, reason: str) -> None:
        """Apply `reset` to a partition whose offset is missing or out of range."""
        if self._reset == "error":
            self.next_offsets[key] = _STOPPED
            self.events.append(_event(key, offset, KafkaError._AUTO_OFFSET_RESET, reason))
        else:
            end = self._end(key)
            self.next_offsets[key] = end if self._reset == "latest" else 0

    def assignment(self) -> list[TopicPartition]:
        """See `ConsumerBroker.assignment`; offsets are those that were assigned."""
        with self._lock:
            keys = sorted(self.next_offsets)
            return [TopicPartition(*key, self._assigned.get(key, OFFSET_INVALID)) for key in keys]

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """See `ConsumerBroker.pause`."""
        with self._lock:
            self.paused.update(key_of(partition) for partition in partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """See `ConsumerBroker.resume`."""
        with self._lock:
            for partition in partitions:
                if (key := key_of(partition)) in self.paused:
                    self.paused.remove(key)
                    self._ended.pop(key, None)
            self._changed.notify_all()

    # --- messages -------------------------------------------------------------------------------

    def poll(self, timeout: float) -> Message | None:
        """See `ConsumerBroker.poll`: partitions take turns; for ever when `timeout` is negative."""
        deadline = deadline_after(timeout)
        while True:
            self._commit_if_due()
            self._run_commit_callbacks()
            with self._lock:
                step = self.membership.step()
                if step is None:
                    message = self._fetch()
                    left = deadline - time.monotonic()
                    if message is not None or left <= 0:
                        return message
                    change = self._changed.expect()
            if step is None:
                self._changed.wait(change, left)
            else:
                step()

    def _fetch(self) -> Message | None:
        if self.events:
            return self.events.popleft()
        for key in [key for key in self.next_offsets if key not in self.paused]:
            message = self._fetch_from(key)
            if message is not None:
                return message
        return self.events.popleft() if self.events else None

    def _fetch_from(self, key: Partition) -> Message | None:
        log = self._kafka.log(*key)
        if log is not None and self.next_offsets[key] > len(log):
            self._reset_to(key, self.next_offsets[key], "Broker: Offset out of range")
        offset = self.next_offsets[key]
        if log is None or offset == _STOPPED:
            return None
        at, stored = log.find(offset, committed=self._committed_only)
        if stored is not None:
            self._took(key, at + 1)
            return stored.message(*key, at)
        if at > offset:  # transaction markers and aborted messages
            self._took(key, at)
        if self.end_events and self._ended.get(key) != at:
            self._ended[key] = at
            reason = f"Fetch from broker 1 reached end of partition at offset {at}"
            return _event(key, at, KafkaError._PARTITION_EOF, reason)
        return None

    def _took(self, key: Partition, offset: int) -> None:
        self.next_offsets.pop(key)
        self.next_offsets[key] = self._position[key] = offset
        if self._auto_store:
            self._stored[key] = offset

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the offset after each partition's last message, or OFFSET_INVALID."""
        with self._lock:
            keys = [key_of(partition) for partition in partitions]
            return [TopicPartition(*key, self._position.get(key, OFFSET_INVALID)) for key in keys]

    def watermarks(self, partitions: Sequence[TopicPartition], timeout: float) -> Watermarks:
        """See `ConsumerBroker.watermarks`; answers at once."""
        return {
            self._known(partition, "Failed to get watermark offsets"): (
                0,
                self._end(key_of(partition)),
            )
            for partition in partitions
        }

    def _end(self, key: Partition) -> int:
        """Return the offset after the last message that can be read."""
        return self._kafka.end(*key, committed=self._committed_only)

    def offsets_for_times(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the first offset at or after each time; `partitions` have times in ms as offsets.

        The times -1 and -2 are Kafka's for the end and the beginning.

        Raises:
            KafkaException: there is no such partition.
        """
        offsets = []
        with self._lock:
            for partition in partitions:
                key = self._known(partition, "Failed to get offsets")
                log = self._kafka.log(*key)
                assert log is not None
                ends = {OFFSET_BEGINNING: 0, OFFSET_END: self._end(key)}
                at = (
                    ends[partition.offset]
                    if partition.offset in ends
                    else log.at_time(partition.offset)
                )
                offsets.append(TopicPartition(*key, at))
        return offsets

    def _known(self, partition: TopicPartition, what: str) -> Partition:
        key = key_of(partition)
        with self._lock:
            if self._kafka.log(*key) is None:
                raise _failed(what, KafkaError._UNKNOWN_PARTITION)
        return key

    # --- commits --------------------------------------------------------------------------------

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """See `ConsumerBroker.committed`; answers at once."""
        error = self._fault()
        if error is not None:
            raise KafkaException(error)
        return [
            self._kafka.committed(self._group, partition.topic, partition.partition)
            for partition in partitions
        ]

    def commit(
        self, offsets: Sequence[TopicPartition], *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        """See `ConsumerBroker.commit`; done at once, also when asynchronous.

        Partitions without an offset are skipped; if none has one, nothing is committed.
        """
        named = [offset for offset in offsets if offset.offset >= 0]
        if not named and not asynchronous:
            raise _failed("Commit failed", KafkaError._NO_OFFSET)
        nothing = None if named else KafkaError(KafkaError._NO_OFFSET)
        error = nothing or self._fault() or self._refusal(named)
        if error is None:
            self._kafka.commit(self._group, named)
            with self._lock:
                self._done |= {key_of(offset): offset.offset for offset in named}
        elif not asynchronous:
            raise KafkaException(error)
        done = [copy_of(offset) for offset in offsets]
        if not asynchronous:
            return done
        with self._lock:
            self._results.append((error, done))
        return None

    def _refusal(self, offsets: Sequence[TopicPartition]) -> KafkaError | None:
        if self.membership.lost:
            return KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
        with self._lock:
            if all(self._kafka.log(*key_of(offset)) is not None for offset in offsets):
                return None
        code = KafkaError.UNKNOWN_TOPIC_OR_PART
        return KafkaError(code, f"Commit failed: {KafkaError(code).str()}")

    def store(self, offsets: Sequence[TopicPartition]) -> None:
        """Store the offsets of assigned partitions for `commit_stored`.

        Raises:
            KafkaException: offsets are stored automatically, or no partition is assigned.
        """
        if self._auto_store:
            raise _failed("StoreOffsets failed", KafkaError._INVALID_ARG)
        with self._lock:
            known = [offset for offset in offsets if key_of(offset) in self.next_offsets]
            if offsets and not known:
                raise _failed("StoreOffsets failed", KafkaError._UNKNOWN_PARTITION)
            self._stored |= {key_of(offset): offset.offset for offset in known}

    def commit_stored(self, *, asynchronous: bool) -> list[TopicPartition] | None:
        """Commit stored offsets that are greater than the committed ones; see `commit`."""
        return self.commit(self._uncommitted(self.next_offsets), asynchronous=asynchronous)

    def _uncommitted(self, keys: Iterable[Partition]) -> list[TopicPartition]:
        with self._lock:
            return [TopicPartition(*key, self._to_commit(key)) for key in keys]

    def _to_commit(self, key: Partition) -> int:
        stored = self._stored.get(key, OFFSET_INVALID)
        return stored if stored > self._done.get(key, OFFSET_INVALID) else OFFSET_INVALID

    def _commit_if_due(self) -> None:
        if self._auto_commit is not None and time.monotonic() >= self._next_commit:
            self._next_commit = time.monotonic() + self._auto_commit
            self._commit_stored()

    def _commit_stored(self, keys: Iterable[Partition] | None = None) -> None:
        """Commit as auto-commit does: nothing stored is no error."""
        wanted = self._uncommitted(self.next_offsets if keys is None else keys)
        if self._auto_commit is not None and any(offset.offset >= 0 for offset in wanted):
            self.commit(wanted, asynchronous=True)

    def _run_commit_callbacks(self) -> None:
        for _ in range(len(self._results)):  # a callback may commit again, for the next call
            error, offsets = self._results.popleft()
            if self._on_commit is not None:
                self._on_commit(error, offsets)

    def _fault(self) -> KafkaError | None:
        with self._lock:
            return self.faults.popleft() if self.faults else None


def _error(code: int, reason: str) -> KafkaException:
    return KafkaException(KafkaError(code, reason))


def _failed(what: str, code: int) -> KafkaException:
    """Return the error that confluent-kafka raises for an operation that librdkafka refuses."""
    return _error(code, f"{what}: {KafkaError(code).str()}")


def _event(key: Partition, offset: int, code: int, reason: str) -> Message:
    topic, partition = key
    error = KafkaError(code, reason)
    return Message(topic=topic, partition=partition, offset=offset, error=error)


def _unavailable(topic: str) -> Message:
    code = KafkaError.UNKNOWN_TOPIC_OR_PART
    reason = f"Subscribed topic not available: {topic}: Broker: Unknown topic or partition"
    return Message(topic=topic, partition=0, error=KafkaError(code, reason))
