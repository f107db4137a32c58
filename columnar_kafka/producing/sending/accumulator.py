"""Where accepted records wait: open batches by partition, and sealed ones in order.

Passive and pure: the time is an argument, and it neither starts nor calls anything. A batch is
sealed on

- its number of rows, or its estimated encoded size,
- the age of its *first* record,
- `seal_all` (flush, commit), a plain message or Arrow data for its partition, a new schema,
- memory: when it is scarce, the largest open batch, if open batches hold a quarter of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from columnar_kafka.producing.engine.native import NativeBatch
from columnar_kafka.producing.engine.pure import AcceptedRecord, Batch, Chunk
from columnar_kafka.producing.sending.arrow_batch import Accepted, ArrowBatch, Item
from columnar_kafka.producing.sending.messages import PlainMessage
from columnar_kafka.producing.sending.moved import MovedRecords
from columnar_kafka.producing.topic_formats import TopicFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from columnar_kafka.producing.partitioner import Partitioner

__all__ = ["MOST_BYTES", "Accumulator", "Sealed", "Unplaced", "Work"]

MOST_BYTES: Final = 128 << 20
"""The most a batch may hold, however well it compresses: consumers limit decoded segments."""

_FIRST_RATIO: Final = 0.1
"""Encoded bytes per byte in memory, until the first segment of a topic is measured."""
_LOOKUP_RETRY: Final = 1.0


OpenBatch = Batch | NativeBatch
Sealed = OpenBatch | PlainMessage | ArrowBatch | MovedRecords
Unplaced = Accepted | MovedRecords
"""What has no partition, or none yet."""


@dataclass(slots=True)
class _Topic:
    """One topic with a schema."""

    topic_format: TopicFormat
    looked_up: float = float("-inf")
    doubted: int | None = None  # the number of partitions with which one did not exist
    sticky: int | None = None
    unusable: KafkaError | None = None  # why, and since when Kafka says so
    unusable_since: float = float("inf")
    ratio: float | None = None
    open: dict[int, OpenBatch] = field(default_factory=dict)  # by partition, oldest first
    waiting: deque[Unplaced] = field(default_factory=deque)  # for the number of partitions

    @property
    def partitions(self) -> int | None:
        return self.topic_format.limits.partitions


@dataclass(slots=True)
class Work:
    """Work for the sender: chunks to convert, sealed items in order, records to give up."""

    chunks: list[Chunk]
    sealed: list[Sealed]
    given_up: list[tuple[Unplaced, KafkaError]]


class Accumulator:
    """Owns every record between the record queue and the dispatcher. The sender's thread's."""

    def __init__(
        self,
        *,
        partitioner: Partitioner,
        linger: float,
        message_timeout: float,
        refresh: float,
        propagation: float,
        memory: int,
        records: int | None,
    ) -> None:
        """Durations are in seconds; `memory` (bytes) and `records` bound unreported records."""
        self._partitioner = partitioner
        self._linger = linger
        self._message_timeout = message_timeout
        self._refresh = refresh if refresh > 0 else float("inf")
        self._propagation = propagation
        # Where open batches hold less, the memory is used elsewhere: sealing them early would make
        # many small segments and free nothing.
        self._worthwhile = memory // 4
        self._worthwhile_rows = float("inf") if records is None else records // 4
        self._topics: dict[str, _Topic] = {}
        self._chunks: list[Chunk] = []
        self._sealed: deque[Sealed] = deque()

    def __repr__(self) -> str:
        topics = self._topics.values()
        opened = sum(len(topic.open) for topic in topics)
        waiting = sum(len(topic.waiting) for topic in topics)
        return f"<Accumulator {opened} open, {len(self._sealed)} sealed, {waiting} waiting>"

    # --- topics ---------------------------------------------------------------------------------

    def to_look_up(self, now: float) -> list[str]:
        """Return the topics whose number of partitions is to be looked up now."""
        due = [name for name, topic in self._topics.items() if self._lookup_at(topic) <= now]
        for name in due:
            self._topics[name].looked_up = now
        return due

    def set_partitions(self, topic: str, partitions: int, now: float) -> None:
        """Set a topic's number of partitions; records that waited for it are batched, in order."""
        state = self._topics[topic]
        state.topic_format.limits.partitions = partitions
        if state.sticky is not None and state.sticky >= partitions:
            state.sticky = None
        state.unusable, state.unusable_since = None, float("inf")
        state.looked_up = now
        waiting, state.waiting = state.waiting, deque()
        for each in waiting:
            self._place(state, each)

    def look_up_soon(self, topic: str) -> None:
        """Have a topic's partitions looked up again: Kafka says that one does not exist."""
        self._topics[topic].looked_up = float("-inf")

    def move(self, item: PlainMessage | MovedRecords) -> None:
        """Have an item wait for the number of its topic's partitions: the one it was for is gone.

        What comes behind it waits too. Kafka is asked at once; if it only repeats the number with
        which the partition was refused, again a second later.
        """
        topic = self._topics[item.topic]
        if topic.partitions is not None:
            if topic.partitions != topic.doubted:
                topic.looked_up = float("-inf")
            topic.doubted, topic.topic_format.limits.partitions = topic.partitions, None
        topic.waiting.append(item)

    def topic_unusable(self, topic: str, error: KafkaError, now: float) -> None:
        """Learn that a topic cannot be used; a missing one may still be created, for a time."""
        state = self._topics[topic]
        if error.code() != KafkaError._UNKNOWN_TOPIC:
            state.unusable_since = float("-inf")
        elif state.unusable is None:
            state.unusable_since = now
        state.unusable = error

    def learn(self, topic: str, *, taken_bytes: int, encoded_bytes: int) -> None:
        """Learn from a segment how well a topic's records compress."""
        state = self._topics[topic]
        seen = encoded_bytes / max(1, taken_bytes)
        state.ratio = seen if state.ratio is None else 0.7 * state.ratio + 0.3 * seen

    # --- records --------------------------------------------------------------------------------

    def add(self, item: Item, now: float) -> None:
        """Take over an accepted item; they come in the order in which they were accepted."""
        if isinstance(item, TopicFormat):
            self._set_format(item, now)
            return
        topic = self._topics[item[0].topic if isinstance(item, tuple) else item.topic]
        if isinstance(item, NativeBatch):
            self._open(topic, item)
        elif topic.partitions is None:
            topic.waiting.append(item)
        else:
            self._place(topic, item)

    def _set_format(self, topic_format: TopicFormat, now: float) -> None:
        """Use `topic_format` for its topic from now on; seal open batches of the earlier one."""
        topic = self._topics.get(topic_format.topic)
        if topic is None:
            self._topics[topic_format.topic] = topic = _Topic(topic_format)
        elif topic_format.limits.partitions is None:  # Kafka did not answer
            topic_format.limits.partitions = topic.partitions
        self._seal_topic(topic)
        topic.topic_format, topic.ratio = topic_format, None
        if topic_format.limits.partitions is not None:
            self.set_partitions(topic_format.topic, topic_format.limits.partitions, now)

    def _place(self, topic: _Topic, item: Unplaced) -> None:
        """Choose an item's partition, and append or seal it there.

        A partition that does not exist is librdkafka's to reject, in that record's report.
        """
        if isinstance(item, tuple):
            self._append(topic, item)
        elif isinstance(item, PlainMessage):
            self._append_plain(topic, item)
        elif isinstance(item, MovedRecords):
            assert topic.partitions is not None
            self._sealed.extend(item.split(self._partitioner, topic.partitions))
        else:
            self._append_arrow(topic, item)

    def _append(self, topic: _Topic, record: AcceptedRecord) -> None:
        topic_format, partition, values, metadata, nbytes, accepted_at = record
        pinned = partition >= 0
        if not pinned:
            partition = self._choose(topic, metadata[0])
        batch = topic.open.get(partition)
        if not isinstance(batch, Batch) or batch.topic_format is not topic_format:
            if batch is not None:
                self._seal(topic, batch)
            max_bytes = self.max_bytes(topic_format)
            batch = Batch(topic_format, partition, accepted_at, max_bytes=max_bytes)
            topic.open[partition] = batch
        chunk = batch.append(values, metadata, nbytes, pinned=pinned)
        if chunk is not None:
            self._chunks.append(chunk)
        if batch.is_full:
            self._seal(topic, batch)

    def max_bytes(self, topic_format: TopicFormat) -> float:
        """Return at how many bytes in memory to seal a batch. For any thread."""
        topic = self._topics.get(topic_format.topic)
        ratio = None if topic is None else topic.ratio
        return min(topic_format.limits.target / (ratio or _FIRST_RATIO), MOST_BYTES)

    def _open(self, topic: _Topic, batch: NativeBatch) -> None:
        """Take over a batch that goes on filling."""
        before = topic.open.get(batch.partition)
        if before is not None:
            self._seal(topic, before)
        topic.open[batch.partition] = batch

    def _append_plain(self, topic: _Topic, plain: PlainMessage) -> None:
        if plain.partition < 0:
            plain.partition = self._choose(topic, plain.key)
        batch = topic.open.get(plain.partition)
        if batch is not None:
            self._seal(topic, batch)
        elif topic.sticky == plain.partition:
            topic.sticky = None  # or messages without a key would stay there for ever
        self._sealed.append(plain)

    def _append_arrow(self, topic: _Topic, arrow_batch: ArrowBatch) -> None:
        assert topic.partitions is not None
        for each in arrow_batch.split(self._partitioner, topic.partitions):
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

    def seal_full(self, topic: str, partition: int) -> None:
        """Seal a batch that the native core has filled; it may be another one by now."""
        state = self._topics[topic]
        batch = state.open.get(partition)
        if batch is not None and batch.is_full:
            self._seal(state, batch)

    def seal_all(self) -> None:
        """Seal every open batch."""
        for topic in self._topics.values():
            self._seal_topic(topic)

    def _seal_topic(self, topic: _Topic) -> None:
        for batch in list(topic.open.values()):
            self._seal(topic, batch)

    def relieve(self) -> None:
        """Seal the largest open batch because memory is scarce, if that helps."""
        topics = self._topics.values()
        opened = [(topic, batch) for topic in topics for batch in topic.open.values()]
        nbytes = sum(batch.taken_bytes for _, batch in opened)
        rows = sum(batch.rows for _, batch in opened)
        if opened and (nbytes >= self._worthwhile or rows >= self._worthwhile_rows):
            self._seal(*max(opened, key=lambda each: each[1].taken_bytes))

    def _seal(self, topic: _Topic, batch: OpenBatch) -> None:
        batch.seal()  # first: what it raises must not lose the batch
        del topic.open[batch.partition]
        self._sealed.append(batch)
        if topic.sticky == batch.partition:
            topic.sticky = None

    def topics(self) -> set[str]:
        """Return the topics that records wait for. For any thread."""
        topics = list(self._topics.items())
        return {name for name, topic in topics if topic.open or topic.waiting}

    # --- work for the sender -------------------------------------------------------------------

    def next_look(self, now: float) -> float:
        """Return in how many seconds `drain` will return work: 0 for now, inf for never."""
        if self._sealed or self._chunks:
            return 0.0
        return max(0.0, min(self._times(), default=float("inf")) - now)

    def _times(self) -> Iterator[float]:
        for topic in self._topics.values():
            yield self._lookup_at(topic)
            for batch in topic.open.values():
                yield batch.accepted_at + self._linger
                break  # the oldest is first
            if topic.waiting:
                yield _accepted_at(topic.waiting[0]) + self._message_timeout
                yield topic.unusable_since + self._propagation

    def drain(self, now: float) -> Work:
        """Seal batches that are old enough; return all work, in the order in which to send it."""
        for topic in self._topics.values():
            for batch in [*takewhile(self._is_due(now), topic.open.values())]:  # oldest first
                self._seal(topic, batch)
        return self._take(list(self._give_up(now)))

    def _is_due(self, now: float) -> Callable[[OpenBatch], bool]:
        return lambda batch: batch.accepted_at + self._linger <= now

    def take_all(self, error: KafkaError) -> Work:
        """Remove and return everything, to be given up with this error: for a purge."""
        self.seal_all()
        waiting: list[Unplaced] = []
        for topic in self._topics.values():
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
            if topic.unusable is not None and topic.unusable_since + self._propagation <= now:
                yield from ((each, topic.unusable) for each in topic.waiting)
                topic.waiting.clear()
            while topic.waiting and _accepted_at(topic.waiting[0]) + self._message_timeout <= now:
                yield topic.waiting.popleft(), KafkaError(KafkaError._MSG_TIMED_OUT)

    def _lookup_at(self, topic: _Topic) -> float:
        wait = self._refresh if topic.partitions is not None else _LOOKUP_RETRY
        return topic.looked_up + wait


def _accepted_at(item: Unplaced) -> float:
    return item[-1] if isinstance(item, tuple) else item.accepted_at
