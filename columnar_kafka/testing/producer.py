"""confluent-kafka's producer, whose messages go to memory."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

from columnar_kafka.broker.traced_classes import StockProducer
from columnar_kafka.producing.accepting.arguments import encode_headers, encode_key, first_given
from columnar_kafka.producing.accepting.message_list import produce_messages
from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.testing.client import ClientOnMemory, number, setting
from columnar_kafka.testing.memory import MemoryProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import KafkaError, Message, TopicPartition

    from columnar_kafka.testing.memory import MemoryKafka

__all__ = ["ProducerOnMemory", "RoundRobinPartitioner"]

_UNLIMITED = 1 << 31


class RoundRobinPartitioner(Partitioner):
    """Chooses as `Partitioner` does, and round robin from 0 on where any partition will do."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._next: Counter[int] = Counter()

    def any(self, partitions: int) -> int:  # type: ignore[override]  # it has turns to remember
        """Return the next partition."""
        self._next[partitions] += 1
        return (self._next[partitions] - 1) % partitions


class ProducerOnMemory(ClientOnMemory[MemoryProducer], StockProducer):
    """Every method of `confluent_kafka.Producer`, on the cluster that a subclass names."""

    _closed_text = "Producer has been closed"

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        partitioner = setting(config, "partitioner", "consistent_random")
        self._partitioner = RoundRobinPartitioner(partitioner)
        self._on_delivery = config.get("on_delivery")
        self._errors_only = config.get("delivery.report.only.error") is True  # as confluent-kafka

    def _connect_to(self, kafka: MemoryKafka, config: Mapping[str, Any]) -> MemoryProducer:
        return MemoryProducer(
            kafka,
            queue_messages=number(config, "queue.buffering.max.messages", 100_000) or _UNLIMITED,
            message_max_bytes=number(config, "message.max.bytes", 1_000_000),
            transactional_id=config.get("transactional.id"),
        )

    # --- producing ------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """See confluent-kafka."""
        memory = self.memory
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        data, key = encode_key(value), encode_key(key)  # a value has the same types as a key
        memory.send(
            topic,
            self._choose(topic, operator.index(partition), key),
            data,
            key=key,
            headers=encode_headers(headers)[0],
            timestamp=operator.index(timestamp),
            acknowledge=self._report(first_given(callback, on_delivery, self._on_delivery)),
        )

    def _choose(self, topic: str, partition: int, key: bytes | None) -> int:
        if partition != -1:
            return partition
        partitions = self.memory.partitions(topic, 0)
        if partitions is None:
            return 0  # the message's report says that there is no such topic
        chosen = self._partitioner.choose(key, partitions)
        return self._partitioner.any(partitions) if chosen is None else chosen

    def _report(self, callback: Callable[..., Any] | None) -> Callable[..., Any]:
        errors_only = self._errors_only  # a message must not keep its producer

        def report(error: KafkaError | None, message: Message) -> None:
            if callback is not None and not (error is None and errors_only):
                callback(error, message)

        return report

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
    ) -> int:
        """See confluent-kafka, which drops headers and knows no timestamps here."""
        _ = self.memory
        has_times = isinstance(messages, list) and any(
            isinstance(message, dict) and "timestamp" in message for message in messages
        )
        if has_times:
            raise NotImplementedError(
                "Message timestamps are not currently supported in batch mode"
            )

        def produce(value: Any, key: Any, at: int, *, callback: Any, **_: Any) -> None:
            ProducerOnMemory.produce(self, topic, value, key, at, callback)

        report = first_given(callback, on_delivery)
        return produce_messages(produce, messages, partition, report, takes_rows=False)

    # --- reports --------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """See confluent-kafka."""
        return self.memory.poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        """See confluent-kafka."""
        return self.memory.flush(timeout)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """See confluent-kafka; held messages count as queued."""
        memory = self.memory
        if in_queue:
            memory.purge()

    def __len__(self) -> int:
        """Return how many messages are not reported yet; 0 when closed."""
        try:
            return len(self.memory)
        except RuntimeError:
            return 0

    def close(self) -> bool:
        """Abort an open transaction, flush, and close."""
        super().close()
        return True

    # --- transactions ---------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1) -> None:
        """See confluent-kafka."""
        self.memory.init_transactions()

    def begin_transaction(self) -> None:
        """See confluent-kafka."""
        self.memory.begin_transaction()

    def commit_transaction(self, timeout: float = -1) -> None:
        """See confluent-kafka."""
        self.memory.commit_transaction(timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        """See confluent-kafka."""
        self.memory.abort_transaction()

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """See confluent-kafka; `group_metadata` is that of a consumer on memory."""
        memory = self.memory
        if not isinstance(group_metadata, bytes):
            raise TypeError(f"expected bytes, {type(group_metadata).__name__} found")
        memory.send_offsets(positions, group_metadata)

    # --- the cluster ----------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """See confluent-kafka; a topic that is asked for may be created."""
        if topic is not None:
            self.memory.partitions(topic, 0)
        return super().list_topics(topic, timeout)
