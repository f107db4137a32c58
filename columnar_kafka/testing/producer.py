"""confluent-kafka's producer, whose messages go to memory."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka.broker.client_classes import StockProducer
from columnar_kafka.producing.arguments import encode_headers, encode_key
from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.testing.client import (
    CLUSTER_ID,
    cluster_metadata,
    number,
    setting,
    without_servers,
)
from columnar_kafka.testing.memory import MemoryProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from columnar_kafka.testing.memory import MemoryKafka

__all__ = ["ProducerOnMemory", "Turns"]

_UNLIMITED = 1 << 31


class Turns(Partitioner):
    """Chooses as `Partitioner` does; where any partition will do they take turns, from 0 on."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._next: Counter[int] = Counter()

    def any(self, partitions: int) -> int:  # type: ignore[override]  # it has turns to remember
        """Return the next partition."""
        self._next[partitions] += 1
        return (self._next[partitions] - 1) % partitions


class ProducerOnMemory(StockProducer):
    """Every method of `confluent_kafka.Producer`, on the cluster that a subclass names.

    The real client is made, so that librdkafka checks the configuration, and closed at once: it
    connects to nothing, and whatever is called on it raises RuntimeError.
    """

    _kafka: MemoryKafka
    _memory: MemoryProducer | None = None

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(without_servers(config))
        super().close()
        self._turns = Turns(setting(config, "partitioner", "consistent_random"))
        self._on_delivery = config.get("on_delivery")
        self._errors_only = setting(config, "delivery.report.only.error", False) in ("true", "1")
        self._memory = MemoryProducer(
            self._kafka,
            queue_messages=number(config, "queue.buffering.max.messages", 100_000) or _UNLIMITED,
            message_max_bytes=number(config, "message.max.bytes", 1_000_000),
            transactional_id=config.get("transactional.id"),
        )

    @property
    def memory(self) -> MemoryProducer:
        """What stands for librdkafka: `fail_next`, `refuse_next`, `hold` and `release` are there.

        Raises:
            RuntimeError: the producer is closed.
        """
        if self._memory is None:
            raise RuntimeError("Producer has been closed")
        return self._memory

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
        data, key = encode_key(value), encode_key(key)  # a value is taken as a key is
        memory.send(
            topic,
            self._choose(topic, operator.index(partition), key),
            data,
            key=key,
            headers=encode_headers(headers)[0],
            timestamp=operator.index(timestamp),
            acknowledge=self._report(callback or on_delivery or self._on_delivery),
        )

    def _choose(self, topic: str, partition: int, key: bytes | None) -> int:
        if partition != -1:
            return partition
        partitions = self.memory.partitions(topic, 0)
        if partitions is None:
            return 0  # the message's report says that there is no such topic
        chosen = self._turns.choose(key, partitions)
        return self._turns.any(partitions) if chosen is None else chosen

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
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        for index, each in enumerate(messages):
            if not isinstance(each, dict):
                raise TypeError(f"Message at index {index} must be a dict")
            if "timestamp" in each:
                raise NotImplementedError(
                    "Message timestamps are not currently supported in batch mode"
                )
        return sum(
            self._taken(topic, each, partition, callback or on_delivery) for each in messages
        )

    def _taken(self, topic: str, message: dict[str, Any], partition: int, callback: Any) -> bool:
        arguments: dict[str, Any] = {"partition": partition, "callback": callback}
        arguments |= {
            k: message[k] for k in ("value", "key", "partition", "callback") if k in message
        }
        try:
            ProducerOnMemory.produce(self, topic, **arguments)
        except BufferError:
            message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
        except KafkaException as error:
            message["_error"] = error.args[0]
        else:
            return True
        return False

    # --- reports --------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """See confluent-kafka."""
        return self.memory.poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        """See confluent-kafka."""
        return self.memory.flush(timeout)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """See confluent-kafka; what is held counts as queued."""
        memory = self.memory
        if in_queue:
            memory.purge()

    def __len__(self) -> int:
        """Return how many messages are not reported yet; 0 when closed."""
        return 0 if self._memory is None else len(self._memory)

    def close(self) -> bool:
        """Abort an open transaction, flush, and close."""
        if self._memory is not None:
            try:
                self._memory.close()
            finally:
                self._memory = None
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
        """See confluent-kafka."""
        if topic is not None:
            self.memory.partitions(topic, 0)
        return cluster_metadata(self.memory.kafka, topic)

    def cluster_id(self, timeout: float = -1) -> str:
        """See confluent-kafka."""
        _ = self.memory
        return CLUSTER_ID

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Do nothing: there is nobody to show them to."""
        _ = self.memory
