"""Where accepted records wait: open batches by partition, and what is sealed, in order.

Passive: it is told the time, starts nothing and calls nobody back. A batch seals on

- its number of rows, or its estimated encoded size,
- the age of its *first* record,
- `seal_all` (flush, commit), a plain message or Arrow data for its partition, a new schema,
- memory: past half of the bound the largest open batch goes, where open ones hold a quarter.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.batch import Batch, Chunk, Others, Plain
from columnar_kafka.bulk import Bulk
from columnar_kafka.errors import unable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from columnar_kafka.format import Format
    from columnar_kafka.partitioner import Partitioner

__all__ = ["Accumulator", "Sealed", "Unplaced", "Waiting", "Work"]

_FIRST_RATIO: Final = 0.1
"""Encoded bytes for each byte taken, before the first segment of a topic has told."""
_LOOKUP_RETRY: Final = 1.0


Sealed = Batch | Plain | Bulk


@dataclass(slots=True)
class Waiting:
    """A record whose topic's number of partitions is not known yet."""

    since: float
    partition: int
    form: Format
    values: tuple[Any, ...]
    others: Others
    nbytes: int


Unplaced = Waiting | Plain | Bulk
"""What waits for its topic's number of partitions."""


@dataclass(slots=True)
class _Topic:
    """One topic with a schema."""

    form: Format
    partitions: int | None = None
    looked_up: float = float("-inf")
    sticky: int | None = None
    refusal: KafkaError | None = None  # why it cannot be used, and since when Kafka says so
    refused_at: float = float("inf")
    ratio: float | None = None
    open: dict[int, Batch] = field(default_factory=dict)  # by partition, oldest first
    waiting: deque[Unplaced] = field(default_factory=deque)


@dataclass(slots=True)
class Work:
    """What the sender is given: chunks to convert, sealed items in order, what to give up."""

    chunks: list[Chunk]
    sealed: list[Sealed]
    given_up: list[tuple[Unplaced, KafkaError]]


class Accumulator:
    """Owns every record between `produce` and the sender. Any thread may call it."""

    def __init__(
        self,
        *,
        partitioner: Partitioner,
        linger: float,
        message_timeout: float,
        refresh: float,
        propagation: float,
        memory: int,
    ) -> None:
        """Durations are in seconds; `memory` is the bound on all records, in bytes."""
        self._partitioner = partitioner
        self._linger = linger
        self._message_timeout = message_timeout
        self._refresh = refresh if refresh > 0 else float("inf")
        self._propagation = propagation
        # Where open batches hold less it is others' memory that is scarce: sealing them early would
        # make many small segments and free nothing.
        self._worthwhile = memory // 4
        self._lock = threading.Lock()  # guards everything below
        self._topics: dict[str, _Topic] = {}
        self._chunks: list[Chunk] = []
        self._sealed: deque[Sealed] = deque()
        self._open_bytes = 0
        self._closed = False

    def __repr__(self) -> str:
        topics = self._topics.values()
        opened = sum(len(topic.open) for topic in topics)
        waiting = sum(len(topic.waiting) for topic in topics)
        return f"<Accumulator {opened} open, {len(self._sealed)} sealed, {waiting} waiting>"

    # --- topics ---------------------------------------------------------------------------------

    def set_format(self, form: Format, *, partitions: int | None, now: float) -> None:
        """Use `form` for its topic's records from now on; open batches of another are sealed."""
        with self._lock:
            topic = self._topics.get(form.topic)
            if topic is None:
                self._topics[form.topic] = topic = _Topic(form)
            self._seal_topic(topic)
            topic.form, topic.ratio = form, None
            if partitions is not None:
                self._set_partitions(topic, partitions, now)

    def to_look_up(self, now: float) -> list[str]:
        """Return the topics whose number of partitions should be asked for; each once a while."""
        with self._lock:
            due = [topic for topic in self._topics.values() if self._lookup_at(topic) <= now]
            for topic in due:
                topic.looked_up = now
            return [topic.form.topic for topic in due]

    def set_partitions(self, topic: str, partitions: int, now: float) -> None:
        """Learn a topic's number of partitions; records that waited are batched, in order."""
        with self._lock:
            self._set_partitions(self._topics[topic], partitions, now)

    def refuse_topic(self, topic: str, error: KafkaError, now: float) -> None:
        """Learn that a topic cannot be used; one that is not there may be made yet, for a time."""
        with self._lock:
            state = self._topics[topic]
            if error.code() != KafkaError._UNKNOWN_TOPIC:
                state.refused_at = float("-inf")
            elif state.refusal is None:
                state.refused_at = now
            state.refusal = error

    def partitions(self, topic: str) -> int | None:
        """Return a topic's number of partitions, None while it is not known."""
        with self._lock:
            return self._topics[topic].partitions

    def learn(self, topic: str, *, taken_bytes: int, encoded_bytes: int) -> None:
        """Learn from a segment how small a topic's records become."""
        with self._lock:
            state = self._topics[topic]
            seen = encoded_bytes / max(1, taken_bytes)
            state.ratio = seen if state.ratio is None else 0.7 * state.ratio + 0.3 * seen

    # --- records --------------------------------------------------------------------------------

    def append(
        self,
        form: Format,
        partition: int,
        values: tuple[Any, ...],
        others: Others,
        nbytes: int,
        *,
        now: float,
        pressed: bool,
    ) -> bool:
        """Add one record; return whether the sender should look.

        Args:
            form: how the record was taken.
            partition: a partition, or -1 to have it chosen.
            values: as `Columns.take` returned them.
            others: key, timestamp, headers, callback.
            nbytes: what it may hold.
            now: the time.
            pressed: memory is scarce.

        Raises:
            KafkaException: there is no such partition.
            RuntimeError: after `close`.
        """
        with self._lock:
            self._check_open()
            topic = self._topics[form.topic]
            if topic.partitions is None:
                topic.waiting.append(Waiting(now, partition, form, values, others, nbytes))
                return len(topic.waiting) == 1
            if partition >= topic.partitions:
                raise KafkaException(unable(KafkaError._UNKNOWN_PARTITION))
            wake = self._append(topic, form, partition, values, others, nbytes, now)
            return (pressed and self._relieve()) or wake

    def _append(
        self,
        topic: _Topic,
        form: Format,
        partition: int,
        values: tuple[Any, ...],
        others: Others,
        nbytes: int,
        now: float,
    ) -> bool:
        if partition < 0:
            partition = self._choose(topic, others[0])
        batch = topic.open.get(partition)
        wake = False
        if batch is None or batch.form is not form:
            if batch is not None:
                self._seal(topic, batch)
            # The sender may have nothing to wait for yet: its next look is this batch's age.
            wake = not topic.open
            max_bytes = form.limits.target / (topic.ratio or _FIRST_RATIO)
            batch = topic.open[partition] = Batch(form, partition, now, max_bytes=max_bytes)
        chunk = batch.append(values, others, nbytes)
        self._open_bytes += nbytes
        if chunk is not None:
            self._chunks.append(chunk)
            wake = True
        if batch.rows >= form.limits.rows or batch.taken_bytes >= batch.max_bytes:
            self._seal(topic, batch)
            return True
        return wake

    def append_plain(self, plain: Plain) -> None:
        """Add a plain message to a topic with a schema, behind the records of its partition.

        Raises:
            KafkaException: there is no such partition.
            RuntimeError: after `close`.
        """
        with self._lock:
            self._check_open()
            topic = self._topics[plain.topic]
            if topic.partitions is None:
                topic.waiting.append(plain)
                return
            if plain.partition >= topic.partitions:
                raise KafkaException(unable(KafkaError._UNKNOWN_PARTITION))
            self._append_plain(topic, plain)

    def _append_plain(self, topic: _Topic, plain: Plain) -> None:
        if plain.partition < 0:
            plain.partition = self._choose(topic, plain.key)
        batch = topic.open.get(plain.partition)
        if batch is not None:
            self._seal(topic, batch)
        elif topic.sticky == plain.partition:
            topic.sticky = None  # or messages without a key would stay there for ever
        self._sealed.append(plain)

    def append_bulk(self, bulks: Iterable[Bulk], *, pressed: bool) -> None:
        """Add the parts of one call, behind the records of their partitions.

        Raises:
            KafkaException: there is no such partition.
            RuntimeError: after `close`.
        """
        with self._lock:
            self._check_open()
            for bulk in bulks:
                topic = self._topics[bulk.topic]
                if topic.partitions is None:
                    topic.waiting.append(bulk)
                    continue
                if bulk.partition >= topic.partitions:
                    raise KafkaException(unable(KafkaError._UNKNOWN_PARTITION))
                self._append_bulk(topic, bulk)
            if pressed:
                self._relieve()

    def _append_bulk(self, topic: _Topic, bulk: Bulk) -> None:
        assert topic.partitions is not None
        for each in bulk.split(self._partitioner, topic.partitions):
            batch = topic.open.get(each.partition)
            if batch is not None:
                self._seal(topic, batch)
            self._sealed.append(each)

    def _choose(self, topic: _Topic, key: bytes | None) -> int:
        assert topic.partitions is not None
        chosen = self._partitioner.choose(key, topic.partitions)
        if chosen is not None:
            return chosen
        if topic.sticky is None:
            topic.sticky = self._partitioner.any(topic.partitions)
        return topic.sticky

    def close(self) -> None:
        """Take no more records: the last flush must find all there will ever be."""
        with self._lock:
            self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Producer has been closed")

    def seal_all(self) -> None:
        """Seal every open batch."""
        with self._lock:
            for topic in self._topics.values():
                self._seal_topic(topic)

    def _seal_topic(self, topic: _Topic) -> None:
        for batch in list(topic.open.values()):
            self._seal(topic, batch)

    def relieve(self) -> bool:
        """Seal the largest open batch, as memory is scarce, where that helps; return whether."""
        with self._lock:
            return self._relieve()

    def _relieve(self) -> bool:
        if self._open_bytes < self._worthwhile:
            return False
        topics = self._topics.values()
        opened = [(topic, batch) for topic in topics for batch in topic.open.values()]
        if opened:
            self._seal(*max(opened, key=lambda each: each[1].taken_bytes))
        return bool(opened)

    def _seal(self, topic: _Topic, batch: Batch) -> None:
        del topic.open[batch.partition]
        self._open_bytes -= batch.taken_bytes
        batch.seal()
        self._sealed.append(batch)
        if topic.sticky == batch.partition:
            topic.sticky = None

    # --- the sender's side ----------------------------------------------------------------------

    def next_look(self, now: float) -> float:
        """Return in how many seconds `drain` will have something; 0 when it has, inf for never."""
        with self._lock:
            if self._sealed or self._chunks:
                return 0.0
            return max(0.0, min(self._times(), default=float("inf")) - now)

    def _times(self) -> Iterator[float]:
        for topic in self._topics.values():
            yield self._lookup_at(topic)
            for batch in topic.open.values():
                yield batch.since + self._linger
                break  # the oldest is first
            if topic.waiting:
                yield topic.waiting[0].since + self._message_timeout
                yield topic.refused_at + self._propagation

    def drain(self, now: float) -> Work:
        """Seal what is old enough; return all work, in the order in which it must be sent."""
        with self._lock:
            for topic in self._topics.values():
                for batch in list(topic.open.values()):
                    if batch.since + self._linger > now:
                        break  # the others are younger
                    self._seal(topic, batch)
            return self._take(list(self._give_up(now)))

    def take_all(self, error: KafkaError) -> Work:
        """Take everything out, sealed or not, to be given up with this error: for a purge."""
        with self._lock:
            waiting: list[Unplaced] = []
            for topic in self._topics.values():
                self._seal_topic(topic)
                waiting += topic.waiting
                topic.waiting.clear()
            return self._take([(each, error) for each in waiting])

    def _take(self, given_up: list[tuple[Unplaced, KafkaError]]) -> Work:
        work = Work(self._chunks, list(self._sealed), given_up)
        self._chunks = []
        self._sealed.clear()
        return work

    def _give_up(self, now: float) -> Iterator[tuple[Unplaced, KafkaError]]:
        for topic in self._topics.values():
            if topic.refusal is not None and topic.refused_at + self._propagation <= now:
                yield from ((each, topic.refusal) for each in topic.waiting)
                topic.waiting.clear()
            while topic.waiting and topic.waiting[0].since + self._message_timeout <= now:
                yield topic.waiting.popleft(), KafkaError(KafkaError._MSG_TIMED_OUT)

    def _lookup_at(self, topic: _Topic) -> float:
        wait = self._refresh if topic.partitions is not None else _LOOKUP_RETRY
        return topic.looked_up + wait

    def _set_partitions(self, topic: _Topic, partitions: int, now: float) -> None:
        topic.partitions = partitions
        topic.refusal, topic.refused_at = None, float("inf")
        topic.looked_up = now
        while topic.waiting:
            each = topic.waiting.popleft()
            # A partition that does not exist is for librdkafka to refuse, in that record's report.
            if isinstance(each, Plain):
                self._append_plain(topic, each)
            elif isinstance(each, Bulk):
                self._append_bulk(topic, each)
            else:
                where = (topic, each.form, each.partition)
                self._append(*where, each.values, each.others, each.nbytes, each.since)
