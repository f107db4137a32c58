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
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.batch import Batch, Chunk, Format, OneRow, Others, Plain, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from columnar_kafka.partitioner import Partitioner

__all__ = ["Accumulator", "Waiting", "Work", "give_up"]

_FIRST_RATIO: Final = 0.1
"""Encoded bytes for each byte taken, before the first segment of a topic has told."""
_LOOKUP_RETRY: Final = 1.0


@dataclass(slots=True)
class Waiting:
    """A record whose topic's number of partitions is not known yet."""

    since: float
    partition: int
    form: Format
    values: tuple[Any, ...]
    others: Others
    nbytes: int


@dataclass(slots=True)
class _Topic:
    """One topic with a schema."""

    form: Format
    partitions: int | None = None
    looked_up: float = float("-inf")
    sticky: int | None = None
    ratio: float | None = None
    open: dict[int, Batch] = field(default_factory=dict)  # by partition, oldest first
    waiting: deque[Waiting | Plain] = field(default_factory=deque)


@dataclass(slots=True)
class Work:
    """What the sender is given: chunks to convert, sealed items in order, records to give up."""

    chunks: list[Chunk]
    sealed: list[Batch | Plain]
    expired: list[Waiting | Plain]


class Accumulator:
    """Owns every record between `produce` and the sender. Any thread may call it."""

    def __init__(
        self,
        *,
        partitioner: Partitioner,
        linger: float,
        segment_rows: int,
        message_timeout: float,
        refresh: float,
    ) -> None:
        self._partitioner = partitioner
        self._linger = linger
        self._segment_rows = segment_rows
        self._message_timeout = message_timeout
        self._refresh = refresh if refresh > 0 else float("inf")
        self._lock = threading.Lock()  # guards everything below
        self._topics: dict[str, _Topic] = {}
        self._chunks: list[Chunk] = []
        self._sealed: deque[Batch | Plain] = deque()
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
            pressed: memory is scarce: seal the largest open batch.

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
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            wake = self._append(topic, form, partition, values, others, nbytes, now)
            if pressed:
                self._seal_largest()
            return wake or pressed

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
            max_bytes = form.target_bytes / (topic.ratio or _FIRST_RATIO)
            batch = topic.open[partition] = Batch(form, partition, now, max_bytes=max_bytes)
        chunk = batch.append(values, others, nbytes)
        if chunk is not None:
            self._chunks.append(chunk)
            wake = True
        if batch.rows >= self._segment_rows or batch.taken_bytes >= batch.max_bytes:
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
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
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

    def _seal_largest(self) -> None:
        topics = self._topics.values()
        opened = [(topic, batch) for topic in topics for batch in topic.open.values()]
        if opened:
            self._seal(*max(opened, key=lambda each: each[1].taken_bytes))

    def _seal(self, topic: _Topic, batch: Batch) -> None:
        del topic.open[batch.partition]
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
                yield batch.created + self._linger
                break  # the oldest is first
            if topic.waiting:
                yield topic.waiting[0].since + self._message_timeout

    def drain(self, now: float) -> Work:
        """Seal what is old enough; return all work, in the order in which it must be sent."""
        with self._lock:
            for topic in self._topics.values():
                for batch in list(topic.open.values()):
                    if batch.created + self._linger > now:
                        break  # the others are younger
                    self._seal(topic, batch)
            return self._take(self._expired(now))

    def take_all(self) -> Work:
        """Take everything out, sealed or not: for a purge."""
        with self._lock:
            waiting: list[Waiting | Plain] = []
            for topic in self._topics.values():
                self._seal_topic(topic)
                waiting += topic.waiting
                topic.waiting.clear()
            return self._take(waiting)

    def _take(self, expired: Iterable[Waiting | Plain]) -> Work:
        work = Work(self._chunks, list(self._sealed), list(expired))
        self._chunks = []
        self._sealed.clear()
        return work

    def _expired(self, now: float) -> Iterator[Waiting | Plain]:
        for topic in self._topics.values():
            while topic.waiting and topic.waiting[0].since + self._message_timeout <= now:
                yield topic.waiting.popleft()

    def _lookup_at(self, topic: _Topic) -> float:
        wait = self._refresh if topic.partitions is not None else _LOOKUP_RETRY
        return topic.looked_up + wait

    def _set_partitions(self, topic: _Topic, partitions: int, now: float) -> None:
        topic.partitions = partitions
        topic.looked_up = now
        while topic.waiting:
            each = topic.waiting.popleft()
            # A partition that does not exist is for librdkafka to refuse, in that record's report.
            if isinstance(each, Plain):
                self._append_plain(topic, each)
            else:
                where = (topic, each.form, each.partition)
                self._append(*where, each.values, each.others, each.nbytes, each.since)


def give_up(each: Waiting | Plain, error: KafkaError) -> Refused:
    """Return the report of a record or message that librdkafka never had."""
    if isinstance(each, Plain):
        row = OneRow((each.value, each.key, each.timestamp, each.headers))
        return Refused(each.topic, each.partition, row, error, each.callback)
    key, timestamp, headers, callback = each.others
    value = dict(zip(each.form.schema.names, each.values, strict=False))
    row = OneRow((value, key, timestamp, headers))
    return Refused(each.form.topic, each.partition, row, error, callback)
