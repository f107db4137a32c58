"""What user threads and the sender share: the native core's objects, or such in Python.

One kind is used in a producer, whichever engines its topics have: the core appends to open batches
and charges their records by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from columnar_kafka import native

if TYPE_CHECKING:
    from collections.abc import Callable

    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.native import _core as core
    from columnar_kafka.producing.engine.base import Batch, TopicFormat
    from columnar_kafka.producing.partitioner import Partitioner
    from columnar_kafka.producing.reporting.outcome import Outcome

    Relayed = tuple[Callable[..., Any], KafkaError | None, confluent_kafka.Message]

__all__ = ["PureOpenBatches", "PureUsage", "Shared", "shared"]


class HoldsEncoded(Protocol):
    """A message that is encoded; 0 once its bytes are released."""

    encoded_bytes: int


class PureUsage:
    """The memory and the number of accepted records, against their bounds. Under a lock."""

    def __init__(self, max_bytes: int, max_records: int | None = None) -> None:
        self.max_bytes = max_bytes
        self.max_records = max_records
        self._half_bytes = max_bytes / 2
        self._half_records = float("inf") if max_records is None else max_records / 2
        self.bytes = 0
        self.records = 0
        self.encoded_bytes = 0
        self.accepts = False
        self.stops = 0

    @property
    def is_half_used(self) -> bool:
        """Whether half of a bound is used."""
        return self.bytes >= self._half_bytes or self.records >= self._half_records

    def accept(self, items: Any, item: Any, nbytes: int, records: int) -> bool:
        """Append an item and charge it: both or neither. The append is the only call.

        Return whether half of a bound is used since then.
        """
        was_half_used = self.bytes >= self._half_bytes or self.records >= self._half_records
        self.bytes += nbytes
        self.records += records
        items.append(item)
        return not was_half_used and (
            self.bytes >= self._half_bytes or self.records >= self._half_records
        )

    def charge(self, nbytes: int, records: int = 0) -> None:
        """Charge so many bytes and records more, or fewer."""
        self.bytes += nbytes
        self.records += records

    def release(self, held: Outcome) -> None:
        """Give back what `held` has charged, and set that to 0: both, without a call."""
        self.bytes -= held.charged_bytes
        self.records -= held.records
        held.charged_bytes = held.records = 0

    def encode(self, nbytes: int) -> None:
        """Charge encoded bytes, which have a bound of their own."""
        self.encoded_bytes += nbytes

    def release_encoded(self, held: HoldsEncoded) -> None:
        """Give the encoded bytes of `held` back, and set them to 0: both, without a call."""
        self.encoded_bytes -= held.encoded_bytes
        held.encoded_bytes = 0

    def stop(self) -> None:
        """Have every record checked from now on."""
        self.accepts = False
        self.stops += 1

    def resume(self, stops: int) -> None:
        """Accept records without that again, unless there was another stop since the `stops`-th."""
        self.accepts = stops == self.stops


@dataclass(slots=True)
class _Topic:
    topic_format: TopicFormat
    partitions: int = 0  # 0 while the number is unknown
    sticky: int | None = None
    batches: dict[int, Batch] = field(default_factory=dict)  # by partition

    def forget(self, partition: int) -> None:
        self.batches.pop(partition, None)
        if self.sticky == partition:
            self.sticky = None


class PureOpenBatches:
    """The open batch of each partition, and which one is next for records without a key."""

    def __init__(self, partitioner: Partitioner) -> None:
        self._partitioner = partitioner
        self._topics: dict[str, _Topic] = {}

    def set_format(
        self, topic: str, topic_format: TopicFormat, *, stores_keys: bool, stores_headers: bool
    ) -> None:
        """Open batches of this format from now on for a topic, and those of another no more."""
        known = self._topics.get(topic)
        partitions = 0 if known is None else known.partitions
        self._topics[topic] = _Topic(topic_format, partitions)

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Choose among so many partitions of a topic from now on; 0: its records wait."""
        if (known := self._topics.get(topic)) is None:
            return
        known.partitions = partitions
        known.batches = {n: batch for n, batch in known.batches.items() if n < partitions}
        if known.sticky is not None and known.sticky >= partitions:
            known.sticky = None

    def find(
        self, topic: str, partition: int, key: bytes | None, topic_format: Any = None
    ) -> tuple[int, Batch | None] | None:
        """Return the partition of a record and the batch that is open there, which may be full.

        None if there is no such partition, or none is known. With a format, only if that is the
        topic's.
        """
        known = self._topics.get(topic)
        if known is None or (topic_format is not None and known.topic_format is not topic_format):
            return None
        if partition == -1 and known.partitions:
            partition = self._choose(known, key)
        elif not 0 <= partition < known.partitions:
            return None
        return partition, known.batches.get(partition)

    def _choose(self, topic: _Topic, key: bytes | None) -> int:
        if key is None and topic.sticky is not None:  # then no key is hashed that is None
            return topic.sticky
        chosen = self._partitioner.choose(key, topic.partitions)
        if chosen is not None:
            return chosen
        if topic.sticky is None:
            # The next records stay with it, so that its batch fills.
            topic.sticky = self._partitioner.any(topic.partitions)
        return topic.sticky

    def open(
        self,
        topic: str,
        partition: int,
        topic_format: Any,
        batch: Batch,
        records: core.Batch | None,
        queue: Any,
    ) -> bool:
        """Open a batch, and append it to `queue`: both or neither.

        False: batches of that format are not opened there any more.
        """
        known = self._topics.get(topic)
        if known is None or known.topic_format is not topic_format:
            return False
        if not 0 <= partition < known.partitions:
            return False
        known.batches[partition] = batch
        queue.append(batch)  # the last call
        return True

    def let_go(self, topic: str, partition: int, batch: Batch) -> None:
        """Append nothing more to a batch: it is full, or sealed.

        The next batch without keys may be of another partition.
        """
        known = self._topics.get(topic)
        if known is not None and known.batches.get(partition) in (batch, None):
            known.forget(partition)

    def close(self, topic: str, partition: int, key: bytes | None) -> int:
        """Return the partition of a message that is no record.

        The records after it go to another batch. -1: nothing is known of the topic, or of the
        partition.
        """
        known = self._topics.get(topic)
        if known is None or (partition == -1 and not known.partitions):
            return partition
        chosen = self._choose(known, key) if partition == -1 else partition
        known.forget(chosen)
        return chosen

    def close_all(self, topic: str) -> None:
        """Have the next records of all partitions of a topic go to other batches."""
        if (known := self._topics.get(topic)) is not None:
            known.sticky, known.batches = None, {}


class _Abandoned:
    error: Exception | None = None


def _relay(
    append: Callable[[Relayed], None],
    callback: Callable[..., Any],
    error: KafkaError | None,
    source: confluent_kafka.Message,
) -> None:
    """Append a report. What a signal handler raises before loses it."""
    append((callback, error, source))


class Shared(NamedTuple):
    """What makes these objects."""

    usage: Any
    """Counts what is accepted, against the bounds."""
    open_batches: Callable[..., Any]
    """Has the open batches of all topics, by the `Usage`, a partitioner, and three callbacks."""
    abandoned: Any
    """Has an `error`: once it is set, it is raised in place of the next report."""
    relay: Callable[..., None]
    """Appends a plain message's report; in the native core no signal handler runs before."""


def _pure_open_batches(_: Any, partitioner: Partitioner, *__: Any) -> PureOpenBatches:
    return PureOpenBatches(partitioner)


def _native_open_batches(usage: Any, partitioner: Partitioner, *callbacks: Any) -> Any:
    return native.core.OpenBatches(usage, partitioner.name, *callbacks)


_PURE = Shared(PureUsage, _pure_open_batches, _Abandoned, _relay)


def shared() -> Shared:
    """Return what makes the native core's, if it is on, or Python's."""
    if not native.enabled:
        return _PURE
    core = native.core
    return Shared(core.Usage, _native_open_batches, core.Abandoned, core.relay)
