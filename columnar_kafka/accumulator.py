"""Where accepted records wait: open batches by partition, and what is sealed, in order.

Passive: it is told the time, starts nothing and calls nobody back. A batch seals on

- its number of rows, or its estimated encoded size,
- the age of its *first* record,
- `seal_all` (flush, commit), a plain message for its partition, a new schema for its topic,
- memory: at half of the bound the largest open batch goes.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.batch import Batch, Callback, Chunk, Format, OneRow, Plain, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.budget import Budget
    from columnar_kafka.columns.kafka import Headers
    from columnar_kafka.partitioner import Partitioner

__all__ = ["Accumulator", "Taken", "Work"]

_FIRST_RATIO: Final = 0.1
"""Encoded bytes for each byte taken, before the first segment of a topic has told."""
_LOOKUP_RETRY: Final = 1.0


class Taken(NamedTuple):
    """A record as `produce` accepted it; a plain message when `form` is None."""

    topic: str
    form: Format | None
    value: Any
    key: bytes | None
    timestamp: int
    headers: Headers | None
    callback: Callback
    nbytes: int


@dataclass(slots=True)
class _Topic:
    """One topic with a schema."""

    form: Format
    partitions: int | None = None
    looked_up: float = float("-inf")
    sticky: int | None = None
    ratio: float = _FIRST_RATIO
    waiting: deque[tuple[float, int, Taken]] = field(default_factory=deque)


@dataclass(slots=True)
class Work:
    """What the sender is given: chunks to convert, sealed items in order, records to give up."""

    chunks: list[Chunk]
    sealed: list[Batch | Plain]
    expired: list[Taken]


class Accumulator:
    """Owns every record between `produce` and the sender. Any thread may call it."""

    def __init__(
        self,
        *,
        partitioner: Partitioner,
        budget: Budget,
        linger: float,
        segment_rows: int,
        message_timeout: float,
        refresh: float,
    ) -> None:
        self._partitioner = partitioner
        self._budget = budget
        self._linger = linger
        self._segment_rows = segment_rows
        self._message_timeout = message_timeout
        self._refresh = refresh if refresh > 0 else float("inf")
        self._lock = threading.Lock()  # guards everything below
        self._topics: dict[str, _Topic] = {}
        self._open: dict[tuple[str, int], Batch] = {}  # oldest first
        self._chunks: list[Chunk] = []
        self._sealed: deque[Batch | Plain] = deque()

    def __repr__(self) -> str:
        waiting = sum(len(topic.waiting) for topic in self._topics.values())
        return (
            f"<Accumulator {len(self._open)} open, {len(self._sealed)} sealed, {waiting} waiting>"
        )

    # --- topics ---------------------------------------------------------------------------------

    def set_format(self, form: Format, *, partitions: int | None, now: float) -> None:
        """Use `form` for its topic's records from now on; open batches of another are sealed."""
        with self._lock:
            topic = self._topics.get(form.topic)
            if topic is None:
                self._topics[form.topic] = topic = _Topic(form)
            for key in [key for key in self._open if key[0] == form.topic]:
                self._seal(key)
            topic.form, topic.ratio = form, _FIRST_RATIO
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

    def learn(self, topic: str, *, taken_bytes: int, encoded_bytes: int) -> None:
        """Learn from a segment how small a topic's records become."""
        with self._lock:
            state = self._topics[topic]
            seen = encoded_bytes / max(1, taken_bytes)
            first = state.ratio == _FIRST_RATIO
            state.ratio = seen if first else 0.7 * state.ratio + 0.3 * seen

    # --- records --------------------------------------------------------------------------------

    def append(self, partition: int, taken: Taken, now: float) -> bool:
        """Add one record; return whether the sender should look.

        Raises:
            KafkaException: there is no such partition.
        """
        with self._lock:
            state = self._topics[taken.topic]
            if state.partitions is None:
                state.waiting.append((now, partition, taken))
                return len(state.waiting) == 1
            if partition >= state.partitions:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            return self._append(state, partition, taken, now)

    def _append(self, topic: _Topic, partition: int, taken: Taken, now: float) -> bool:
        if partition < 0:
            partition = self._choose(topic, taken.key)
        key = (topic.form.topic, partition)
        if taken.form is None:
            self._append_plain(key, taken, now)
            return True
        batch = self._open.get(key)
        if batch is not None and batch.form is not taken.form:
            self._seal(key)
            batch = None
        wake = batch is None and not self._open
        if batch is None:
            batch = self._open[key] = Batch(taken.form, partition, now)
        _, _, values, record_key, timestamp, headers, callback, nbytes = taken
        chunk = batch.append(values, record_key, timestamp, headers, callback, nbytes)
        if chunk is not None:
            self._chunks.append(chunk)
            wake = True
        if (
            batch.rows >= self._segment_rows
            or batch.taken_bytes * topic.ratio >= batch.form.target_bytes
        ):
            self._seal(key)
            return True
        if self._budget.half_used:
            self._seal(max(self._open, key=lambda each: self._open[each].taken_bytes))
            return True
        return wake

    def _append_plain(self, key: tuple[str, int], taken: Taken, now: float) -> None:
        if key in self._open:
            self._seal(key)
        self._sealed.append(
            Plain(
                topic=key[0],
                partition=key[1],
                value=taken.value,
                key=taken.key,
                timestamp=taken.timestamp,
                headers=taken.headers,
                callback=taken.callback,
                created=now,
                charge=taken.nbytes,
            )
        )

    def _choose(self, topic: _Topic, key: bytes | None) -> int:
        assert topic.partitions is not None
        chosen = self._partitioner.choose(key, topic.partitions)
        if chosen is not None:
            return chosen
        if topic.sticky is None:
            topic.sticky = self._partitioner.any(topic.partitions)
        return topic.sticky

    def seal_all(self) -> None:
        """Seal every open batch."""
        with self._lock:
            for key in list(self._open):
                self._seal(key)

    def _seal(self, key: tuple[str, int]) -> None:
        batch = self._open.pop(key)
        batch.seal()
        self._sealed.append(batch)
        topic = self._topics[key[0]]
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
        for batch in self._open.values():
            yield batch.created + self._linger
            break  # the oldest is first
        for topic in self._topics.values():
            yield self._lookup_at(topic)
            if topic.waiting:
                yield topic.waiting[0][0] + self._message_timeout

    def drain(self, now: float) -> Work:
        """Seal what is old enough; return all work, in the order in which it must be sent."""
        with self._lock:
            for key in [
                key for key, batch in self._open.items() if batch.created + self._linger <= now
            ]:
                self._seal(key)
            work = Work(self._chunks, list(self._sealed), list(self._expired(now)))
            self._chunks = []
            self._sealed.clear()
            return work

    def take_all(self, now: float) -> Work:
        """Take everything out, sealed or not: for a purge."""
        self.seal_all()
        work = self.drain(now)
        with self._lock:
            for topic in self._topics.values():
                work.expired += [taken for _, _, taken in topic.waiting]
                topic.waiting.clear()
        return work

    def _expired(self, now: float) -> Iterator[Taken]:
        for topic in self._topics.values():
            while topic.waiting and topic.waiting[0][0] + self._message_timeout <= now:
                yield topic.waiting.popleft()[2]

    def _lookup_at(self, topic: _Topic) -> float:
        wait = self._refresh if topic.partitions is not None else _LOOKUP_RETRY
        return topic.looked_up + wait

    def _set_partitions(self, topic: _Topic, partitions: int, now: float) -> None:
        topic.partitions = partitions
        topic.looked_up = now
        while topic.waiting:
            created, partition, taken = topic.waiting.popleft()
            # A partition that does not exist is for librdkafka to refuse, in that record's report.
            self._append(topic, partition, taken, created)


def refused(taken: Taken, error: KafkaError) -> Refused:
    """Return the report of a record that never became part of a batch."""
    value = taken.value
    if taken.form is not None:
        value = dict(zip(taken.form.schema.names, value, strict=False))
    row = OneRow((value, taken.key, taken.timestamp, taken.headers))
    return Refused(taken.topic, -1, row, error, taken.callback)
