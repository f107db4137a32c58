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
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from columnar_kafka.producing.engine.pure import CHARGED, PURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from columnar_kafka.producing.accepting.item import Item
    from columnar_kafka.producing.accepting.record import Record
    from columnar_kafka.producing.accepting.record_queue import RecordQueue
    from columnar_kafka.producing.engine.base import Batch, TopicFormat
    from columnar_kafka.producing.partitioner import Partitioner

__all__ = ["Accumulator", "Work"]

_LOOKUP_RETRY: Final = 1.0


@dataclass(slots=True)
class _Topic:
    """One topic with a schema."""

    topic_format: TopicFormat
    looked_up: float = float("-inf")
    doubted: int | None = None  # the number of partitions with which one did not exist
    unusable: KafkaError | None = None  # why, and since when Kafka says so
    unusable_since: float = float("inf")
    open: dict[int, Batch] = field(default_factory=dict)  # by partition, oldest first
    late: dict[int, Batch] = field(default_factory=dict)  # those of them that are filled here
    waiting: deque[Item] = field(default_factory=deque)  # for the number of partitions, or a schema
    is_due: bool = False  # whether the schema it awaits is to be settled, however few wait

    @property
    def awaits_schema(self) -> bool:
        return self.topic_format.awaits_schema

    @property
    def partitions(self) -> int | None:
        return self.topic_format.limits.partitions


@dataclass(slots=True)
class Work:
    """Work for the sender: chunks to convert, sealed items in order, records to give up."""

    chunks: list[Any]
    sealed: list[Item]
    given_up: list[tuple[Item, KafkaError]]


class Accumulator:
    """Owns every record between the record queue and the dispatcher. The sender's thread's.

    Batches fill in the queue, which has them as long as they are open; here they are sealed. The
    records that wait for their number of partitions come into batches that are filled here.
    """

    def __init__(
        self,
        *,
        queue: RecordQueue,
        partitioner: Partitioner,
        linger: float,
        message_timeout: float,
        refresh: float,
        propagation: float,
        memory: int,
        records: int | None,
        sample: int = 1,
    ) -> None:
        """Durations are in seconds; `memory` (bytes) and `records` bound unreported records.

        So many values, a `sample`, settle a schema before a linger is over.
        """
        self.queue = queue
        self.partitioner = partitioner
        self._linger = linger
        self._sample = sample
        self._message_timeout = message_timeout
        self._refresh = refresh if refresh > 0 else float("inf")
        self._propagation = propagation
        # Where open batches hold less, the memory is used elsewhere: sealing them early would make
        # many small segments and free nothing.
        self._worthwhile = memory // 4
        self._worthwhile_rows = float("inf") if records is None else records // 4
        self.by_topic: dict[str, _Topic] = {}
        self._chunks: list[Any] = []
        self.sealed: deque[Item] = deque()
        """What is to be sent, in order."""
        self._given_up: list[tuple[Item, KafkaError]] = []
        self.lines: deque[Callable[[], object]] = deque()
        """What is to be logged after the step: a thread that is in a handler of logs may fork."""

    def __repr__(self) -> str:
        topics = self.by_topic.values()
        opened = sum(len(topic.open) for topic in topics)
        waiting = sum(len(topic.waiting) for topic in topics)
        return f"<Accumulator {opened} open, {len(self.sealed)} sealed, {waiting} waiting>"

    # --- topics ---------------------------------------------------------------------------------

    def to_look_up(self, now: float) -> list[str]:
        """Return the topics whose number of partitions is to be looked up now."""
        due = [name for name, topic in self.by_topic.items() if self._lookup_at(topic) <= now]
        for name in due:
            self.by_topic[name].looked_up = now
        return due

    def set_partitions(self, topic: str, partitions: int, now: float) -> None:
        """Set a topic's number of partitions; records that waited for it are batched, in order."""
        state = self.by_topic[topic]
        self.queue.set_partitions(topic, partitions)  # first: what it raises is tried again
        state.topic_format.limits.partitions = partitions
        state.unusable, state.unusable_since = None, float("inf")
        state.looked_up = now
        while state.waiting and not state.awaits_schema:
            self._place(state.waiting[0])
            state.waiting.popleft()

    def partitions(self, topic: str) -> int:
        """Return a topic's number of partitions, which is known."""
        partitions = self.by_topic[topic].partitions
        assert partitions is not None
        return partitions

    def look_up_soon(self, topic: str) -> None:
        """Have a topic's partitions looked up again: Kafka says that one does not exist."""
        self.by_topic[topic].looked_up = float("-inf")

    def move(self, item: Item) -> None:
        """Have an item wait for the number of its topic's partitions: the one it was for is gone.

        What comes behind it waits too. Kafka is asked at once; if it only repeats the number with
        which the partition was refused, again a second later.
        """
        topic = self.by_topic[item.topic]
        if topic.partitions is not None:
            if topic.partitions != topic.doubted:
                topic.looked_up = float("-inf")
            self.queue.set_partitions(item.topic, 0)
            topic.doubted, topic.topic_format.limits.partitions = topic.partitions, None
        topic.waiting.append(item)

    def topic_unusable(self, topic: str, error: KafkaError, now: float) -> None:
        """Learn that a topic cannot be used; a missing one may still be created, for a time."""
        state = self.by_topic[topic]
        if error.code() != KafkaError._UNKNOWN_TOPIC:
            state.unusable_since = float("-inf")
        elif state.unusable is None:
            state.unusable_since = now
        state.unusable = error

    # --- records --------------------------------------------------------------------------------

    def set_format(self, topic_format: TopicFormat, now: float) -> None:
        """Use `topic_format` for its topic from now on; seal open batches of the earlier one.

        What has waited for a schema is a record then, or a plain message.
        """
        topic = self.by_topic.get(topic_format.topic)
        if topic is None:
            self.by_topic[topic_format.topic] = topic = _Topic(topic_format)
        elif topic_format.limits.partitions is None:  # Kafka did not answer
            topic_format.limits.partitions = topic.partitions
        if topic.topic_format is not topic_format:
            self._seal_topic(topic)
        if topic.awaits_schema:
            topic.waiting = deque(
                item.settled(topic_format, self.lines.append) for item in topic.waiting
            )
        topic.topic_format = topic_format
        if topic_format.limits.partitions is not None:
            self.set_partitions(topic_format.topic, topic_format.limits.partitions, now)

    def open(self, batch: Batch) -> None:
        """Take over a batch that goes on filling."""
        topic, partition = self.by_topic[batch.topic_format.topic], batch.partition
        if partition in topic.open:
            self._seal(topic, topic.open[partition])
        topic.open[partition] = batch

    def add_unplaced(self, item: Item) -> None:
        """Place an item, or have it wait for the number of partitions."""
        topic = self.by_topic[item.topic]
        if topic.partitions is None:
            topic.waiting.append(item)
        else:
            self._place(item)

    def add_unsettled(self, item: Item) -> None:
        """Have a value wait for its topic's schema, or place it if that is known by now."""
        topic = self.by_topic.setdefault(item.topic, _Topic(item.topic_format))
        if topic.awaits_schema:
            topic.waiting.append(item)
        else:
            self.add_unplaced(item.settled(topic.topic_format, self.lines.append))

    def to_settle(self, now: float) -> list[str]:
        """Return the topics whose schema is to be settled now."""
        return [name for name, topic in self.by_topic.items() if self._settle_at(topic) <= now]

    def unsettled(self, topic: str) -> list[Any]:
        """Return what waits for a topic's schema."""
        return list(self.by_topic[topic].waiting)

    def settled(self, topic_format: TopicFormat, now: float) -> None:
        """Learn a topic's schema, of which its values have waited; seal them if that was asked."""
        topic = self.by_topic[topic_format.topic]
        is_due, topic.is_due = topic.is_due, False
        self.set_format(topic_format, now)
        if is_due:
            self._seal_topic(topic)

    def _settle_at(self, topic: _Topic) -> float:
        if not (topic.awaits_schema and topic.waiting):
            return float("inf")
        if topic.is_due or len(topic.waiting) >= self._sample:
            return float("-inf")
        return topic.waiting[0].accepted_at + self._linger

    def give_up(self, item: Item, error: KafkaError) -> None:
        """Fail an item."""
        self._given_up.append((item, error))

    def _place(self, item: Item) -> None:
        """Have an item go where it belongs, or fail.

        A partition that does not exist is librdkafka's to reject, in that record's report.
        """
        try:
            item.place(self)
        except Exception as error:  # noqa: BLE001 - its records must not go without a report
            self._given_up.append((item, KafkaError(KafkaError._FAIL, repr(error))))

    def append(self, record: Record) -> None:
        """Append a record to a batch that is filled here, behind what came before it."""
        topic, partition = self.by_topic[record.topic], record.partition
        if partition < 0:
            partition = self.queue.choose(record.topic, record.metadata[0])
        batch = topic.late.get(partition)
        if batch is None or batch.topic_format is not record.topic_format:
            batch = PURE.open_batch(record.topic_format, partition, record.accepted_at)
            self.open(batch)
            topic.late[partition] = batch
        batch.append(
            record.values,
            record.metadata,
            record.charged_bytes,
            CHARGED,
            pinned=record.partition >= 0,
        )
        self._look_at(topic, batch)

    def line_up(self, item: Item) -> None:
        """Have an item sent behind the open batch of its partition."""
        self._end(self.by_topic[item.topic], item.partition)
        self.sealed.append(item)

    def _end(self, topic: _Topic, partition: int) -> None:
        batch = topic.open.get(partition)
        if batch is not None:
            self._seal(topic, batch)

    def look_at(self, topic: str, partition: int) -> None:
        """Seal a batch that is full, and convert what is full of it; it may be another by now."""
        state = self.by_topic[topic]
        batch = state.open.get(partition)
        if batch is not None:
            self._look_at(state, batch)

    def _look_at(self, topic: _Topic, batch: Batch) -> None:
        self._chunks += batch.full_chunks()
        if batch.is_full:
            self._seal(topic, batch)

    def seal_all(self) -> None:
        """Seal every open batch, and those of values that wait for a schema once it is settled."""
        for topic in self.by_topic.values():
            topic.is_due = topic.awaits_schema and bool(topic.waiting)
            self._seal_topic(topic)

    def _seal_topic(self, topic: _Topic) -> None:
        for batch in list(topic.open.values()):
            self._seal(topic, batch)

    def relieve(self) -> None:
        """Seal the largest open batch because memory is scarce, if that helps."""
        topics = self.by_topic.values()
        for topic in topics:
            topic.is_due = topic.is_due or (topic.awaits_schema and bool(topic.waiting))
        opened = [(topic, batch) for topic in topics for batch in topic.open.values()]
        nbytes = sum(batch.taken_bytes for _, batch in opened)
        rows = sum(batch.rows for _, batch in opened)
        if opened and (nbytes >= self._worthwhile or rows >= self._worthwhile_rows):
            self._seal(*max(opened, key=lambda pair: pair[1].taken_bytes))

    def _seal(self, topic: _Topic, batch: Batch) -> None:
        self.queue.seal(batch)  # first: what it raises must not lose the batch
        del topic.open[batch.partition]
        topic.late.pop(batch.partition, None)
        self.sealed.append(batch)

    def topics(self) -> set[str]:
        """Return the topics that records wait for. For any thread."""
        topics = list(self.by_topic.items())
        return {name for name, topic in topics if topic.open or topic.waiting}

    # --- work for the sender -------------------------------------------------------------------

    def next_look(self, now: float) -> float:
        """Return in how many seconds `drain` will return work: 0 for now, inf for never."""
        if self.sealed or self._chunks or self._given_up:
            return 0.0
        return max(0.0, min(self._times(), default=float("inf")) - now)

    def _times(self) -> Iterator[float]:
        for topic in self.by_topic.values():
            yield self._lookup_at(topic)
            yield self._settle_at(topic)
            for batch in topic.open.values():
                yield batch.accepted_at + self._linger
                break  # the oldest is first
            if topic.waiting:
                yield topic.waiting[0].accepted_at + self._message_timeout
                yield topic.unusable_since + self._propagation

    def drain(self, now: float) -> Work:
        """Seal batches that are old enough; return all work, in the order in which to send it."""
        for topic in self.by_topic.values():
            for batch in [*topic.open.values()]:  # oldest first
                if batch.accepted_at + self._linger > now:
                    break
                self._seal(topic, batch)
        self._give_up(now)
        return self._take()

    def take_all(self, error: KafkaError) -> Work:
        """Remove and return everything, to be given up with this error: for a purge."""
        self.seal_all()
        for topic in self.by_topic.values():
            self._given_up += [(item, error) for item in topic.waiting]
            topic.waiting.clear()
            topic.is_due = False
        return self._take()

    def _take(self) -> Work:
        work = Work(self._chunks, list(self.sealed), self._given_up)
        self._chunks, self._given_up = [], []
        self.sealed.clear()
        return work

    def _give_up(self, now: float) -> None:
        timed_out = KafkaError(KafkaError._MSG_TIMED_OUT)
        for topic in self.by_topic.values():
            if topic.unusable is not None and topic.unusable_since + self._propagation <= now:
                self._given_up += [(item, topic.unusable) for item in topic.waiting]
                topic.waiting.clear()
            while topic.waiting and topic.waiting[0].accepted_at + self._message_timeout <= now:
                self._given_up.append((topic.waiting.popleft(), timed_out))

    def _lookup_at(self, topic: _Topic) -> float:
        wait = self._refresh if topic.partitions is not None else _LOOKUP_RETRY
        return topic.looked_up + wait
