"""A real Kafka, through confluent-kafka's own methods."""

from __future__ import annotations

import time
import weakref
from concurrent.futures import TimeoutError as FutureTimeoutError  # up to 3.10 a class of its own
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from columnar_kafka.broker.base import Acknowledge, TopicLimits
from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.broker.watermarks import watermarks
from columnar_kafka.config import Hidden
from columnar_kafka.runtime.deadline import deadline_after, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka.admin import TopicMetadata

    from columnar_kafka.broker.base import SideReader
    from columnar_kafka.broker.watermarks import Watermarks
    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["ConfluentConsumer", "ConfluentProducer"]

# Callbacks belong to the user's client; a second client of ours must not call them.
_USERS_OWN: Final = (
    "error_cb",
    "stats_cb",
    "throttle_cb",
    "statistics.interval.ms",
    "default.topic.config",
)
_NOT_FOR_ADMIN: Final = (*_USERS_OWN, "on_delivery", "transactional.id")
_NOT_FOR_SIDE_READER: Final = (*_USERS_OWN, "on_commit", "group.instance.id")
_SIDE_READER: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",  # the offset may be deleted already: read from the next one
    "queued.min.messages": 1,
}
_NEWEST: Final = {
    "group.id": "columnar-kafka-newest",  # which librdkafka wants, and nobody uses
    "isolation.level": "read_uncommitted",
    "queued.max.messages.kbytes": 16_384,
    "log_level": 3,  # it would warn of a producer's keys
}


class ConfluentProducer:
    """Implements `ProducerBroker` with the methods of one producer's base class.

    It holds a weak reference to the producer, so that an unused producer can be collected.
    """

    def __init__(self, owner: type, client: Any, config: Mapping[str, Any]) -> None:
        """Send with the methods of `super(owner, client)`."""
        self._owner = owner
        self._client = weakref.ref(client)
        self._config = Hidden({k: v for k, v in config.items() if k not in _NOT_FOR_ADMIN})

    @property
    def _base(self) -> Any:
        client = self._client()
        if client is None:
            raise KafkaException(KafkaError(KafkaError._DESTROY))
        return super(self._owner, client)

    def send(
        self,
        topic: str,
        partition: int,
        value: Any,
        *,
        key: bytes | None,
        headers: RecordHeaders | dict[str, bytes] | None,
        timestamp: int,
        acknowledge: Acknowledge,
    ) -> None:
        """See `ProducerBroker.send`."""
        self._base.produce(
            topic,
            value=value,
            key=key,
            partition=partition,
            on_delivery=acknowledge,
            timestamp=timestamp,
            headers=headers,
        )

    def partitions(self, topic: str, timeout: float) -> int | None:
        """See `ProducerBroker.partitions`."""
        try:
            metadata = self._base.list_topics(topic, timeout).topics.get(topic)
        except KafkaException:
            return None
        if metadata is None or metadata.error is None:
            return _partition_count(metadata)
        code = metadata.error.code()
        if code == KafkaError.LEADER_NOT_AVAILABLE:
            return None
        # The code that librdkafka puts into a delivery report.
        missing = code == KafkaError.UNKNOWN_TOPIC_OR_PART
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC) if missing else metadata.error)

    def limits(self, topic: str, timeout: float) -> TopicLimits:
        """See `ProducerBroker.limits`. Asks with a client of its own: librdkafka shares none."""
        deadline = time.monotonic() + timeout
        try:
            cluster = self._base.list_topics(topic, timeout)
        except KafkaException:
            return TopicLimits()
        partitions = _partition_count(cluster.topics.get(topic))
        left = deadline - time.monotonic()
        # librdkafka's mock names a controller that does not exist: a look-up would time out.
        if cluster.controller_id not in cluster.brokers or left <= 0:
            return TopicLimits(partitions)
        return self._described(topic, partitions, left)

    def newest(self, topic: str, count: int, timeout: float) -> list[Message]:
        """See `ProducerBroker.newest`."""
        deadline = deadline_after(timeout)
        partitions = range(self.partitions(topic, timeout) or 0)
        with closing(StockConsumer(Hidden({**self._config, **_SIDE_READER, **_NEWEST}))) as client:
            asked = [TopicPartition(topic, number) for number in partitions]
            ends = watermarks(client, asked, seconds_left(deadline)) if asked else {}
            left = {key: high for key, (low, high) in ends.items() if high > low}
            client.assign(
                [
                    TopicPartition(*key, max(ends[key][0], high - count))
                    for key, high in left.items()
                ]
            )
            messages = []
            while left and (message := client.poll(seconds_left(deadline))) is not None:
                if message.error() is None:
                    messages.append(message)
                key, offset = (topic, message.partition() or 0), message.offset() or 0
                if message.error() is not None or offset + 1 >= left.get(key, 0):
                    left.pop(key, None)  # its end, or it cannot be read
            return messages

    def _described(self, topic: str, partitions: int | None, timeout: float) -> TopicLimits:
        from confluent_kafka.admin import (  # noqa: PLC0415 - 5 ms, for one question per topic
            AdminClient,
            ConfigResource,
            ResourceType,
        )

        # Where Kafka refuses or does not answer, delivery reports will carry its own refusal.
        refused = TopicLimits(partitions)
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            with AdminClient({"log_level": 4, **self._config}) as admin:
                asked = admin.describe_configs([resource], request_timeout=timeout)[resource]
                # Raised here, it would keep our callers alive: confluent-kafka's futures keep it.
                if asked.exception(timeout) is not None:
                    return refused
                entries = asked.result()
        except (KafkaException, FutureTimeoutError):
            return refused
        return TopicLimits(
            partitions,
            compacted="compact" in _value(entries, "cleanup.policy"),
            max_message_bytes=int(_value(entries, "max.message.bytes") or 0) or None,
        )


def _partition_count(topic: TopicMetadata | None) -> int | None:
    """Return how many partitions a topic has; None without metadata of them."""
    return None if topic is None else len(topic.partitions) or None


def _value(entries: Mapping[str, Any], name: str) -> str:
    """Return a setting's value, or an empty text if the broker does not report it."""
    entry = entries.get(name)
    return str(entry.value or "") if entry is not None else ""


class ConfluentConsumer:
    """Implements `ConsumerBroker` with `super()` of one consumer."""

    def __init__(self, base: Any, config: Mapping[str, Any]) -> None:
        self._base = base
        self._config = Hidden({k: v for k, v in config.items() if k not in _NOT_FOR_SIDE_READER})
        # See `ConsumerBroker.poll`; a method around it would double what it costs.
        self.poll: Callable[[float], Message | None] = base.poll

    def assignment(self) -> list[TopicPartition]:
        """See `ConsumerBroker.assignment`."""
        partitions: list[TopicPartition] = self._base.assignment()
        return partitions

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """See `ConsumerBroker.committed`."""
        offsets: list[TopicPartition] = self._base.committed(list(partitions), timeout)
        return offsets

    def commit(
        self, offsets: Sequence[TopicPartition], *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        """See `ConsumerBroker.commit`."""
        committed: list[TopicPartition] | None = self._base.commit(
            offsets=list(offsets), asynchronous=asynchronous
        )
        return committed

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """See `ConsumerBroker.pause`."""
        self._base.pause(list(partitions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """See `ConsumerBroker.resume`."""
        self._base.resume(list(partitions))

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """See `ConsumerBroker.position`."""
        positions: list[TopicPartition] = self._base.position(list(partitions))
        return positions

    def seek(self, partition: TopicPartition) -> None:
        """See `ConsumerBroker.seek`."""
        self._base.seek(partition)

    def watermarks(self, partitions: Sequence[TopicPartition], timeout: float) -> Watermarks:
        """See `ConsumerBroker.watermarks`."""
        with closing(self._side_client()) as client:
            return watermarks(client, partitions, timeout)

    def side_reader(self, partitions: Sequence[TopicPartition]) -> SideReader:
        """See `ConsumerBroker.side_reader`: a client of its own, outside the group."""
        reader = self._side_client()
        reader.assign(list(partitions))
        return reader

    def _side_client(self) -> StockConsumer:
        return StockConsumer({**self._config, **_SIDE_READER})
