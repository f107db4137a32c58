"""The base of the producer and the consumer on memory: configuration, metadata, `close`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.testing.memory import MemoryConsumer, MemoryKafka, MemoryProducer

__all__ = ["ClientOnMemory", "cluster_metadata", "number", "setting"]

_CLUSTER_ID: Final = "memory"
_SERVERS: Final = ("bootstrap.servers", "metadata.broker.list", "security.protocol", "oauth_cb")
_SECURITY: Final = ("ssl.", "sasl.")
_HOST: Final = "memory"
_PORT: Final = 9092


Memory = TypeVar("Memory", bound="MemoryConsumer | MemoryProducer")


class ClientOnMemory(Generic[Memory]):
    """Goes before confluent-kafka's class in C, so that a cluster in memory answers.

    `_kafka` is the cluster; a subclass sets it. The real client is created, so that librdkafka
    checks the configuration, and closed at once: it connects to nothing, and its own methods raise
    RuntimeError.
    """

    _kafka: MemoryKafka
    _memory: Memory | None = None  # None: closed
    _closed_text: ClassVar[str]  # confluent-kafka's

    def __init__(self, config: dict[str, Any]) -> None:
        stock: Any = super()
        stock.__init__(_without_servers(config))
        stock.close()
        self._memory = self._connect_to(self._kafka, config)

    @abstractmethod
    def _connect_to(self, kafka: MemoryKafka, config: Mapping[str, Any]) -> Memory:
        """Return the client in memory, for a configuration that librdkafka has checked."""

    @property
    def is_open(self) -> bool:
        """Whether there is a client in memory: it was not closed."""
        return self._memory is not None

    @property
    def memory(self) -> Memory:
        """The client in memory that replaces librdkafka; it has `fail_next` and the other faults.

        Raises:
            RuntimeError: the client is closed.
        """
        if self._memory is None:
            raise RuntimeError(self._closed_text)
        return self._memory

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """See confluent-kafka."""
        return cluster_metadata(self.memory.kafka, topic)

    def cluster_id(self, timeout: float = -1) -> str:
        """See confluent-kafka."""
        _ = self.memory
        return _CLUSTER_ID

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Do nothing: no server asks for them."""
        _ = self.memory

    def close(self) -> Any:
        """Close it; once more does nothing."""
        if self._memory is not None:
            try:
                self._memory.close()
            finally:
                self._memory = None


def _without_servers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without servers, keys and passwords, which need not exist."""
    kept = {
        key: value
        for key, value in config.items()
        if key not in _SERVERS and not key.startswith(_SECURITY)
    }
    return {**kept, "log_level": 0}  # librdkafka would warn of the missing servers


def setting(config: Mapping[str, Any], key: str, default: Any) -> str:
    """Return a setting as librdkafka reads it: as text, true and false in lower case."""
    nested = config.get("default.topic.config") or {}
    value = config.get(key, nested.get(key, default))
    return str(value).lower() if isinstance(value, bool) else str(value)


def number(config: Mapping[str, Any], key: str, default: int) -> int:
    """Return a setting that is a number; librdkafka has checked that it is one."""
    return int(setting(config, key, default))


def cluster_metadata(kafka: MemoryKafka, topic: str | None = None) -> ClusterMetadata:
    """Return the result of `list_topics`: one broker, and all topics or `topic`."""
    cluster = ClusterMetadata()
    cluster.cluster_id = _CLUSTER_ID  # type: ignore[assignment]  # its stub knows only the default
    cluster.controller_id = cluster.orig_broker_id = 1
    cluster.orig_broker_name = f"{_HOST}:{_PORT}/1"  # type: ignore[assignment]
    cluster.brokers = {1: _broker()}
    topics = kafka.topics()
    asked = topics if topic is None else {topic: topics.get(topic)}
    cluster.topics = {name: _topic(name, partitions) for name, partitions in asked.items()}
    return cluster


def _broker() -> BrokerMetadata:
    broker = BrokerMetadata()
    broker.id, broker.host, broker.port = 1, _HOST, _PORT  # type: ignore[assignment]
    return broker


def _topic(name: str, partitions: int | None) -> TopicMetadata:
    topic = TopicMetadata()
    topic.topic = name
    if partitions is None:
        topic.error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    topic.partitions = {index: _partition(index) for index in range(partitions or 0)}
    return topic


def _partition(number: int) -> PartitionMetadata:
    partition = PartitionMetadata()
    partition.id, partition.leader = number, 1
    partition.replicas = partition.isrs = [1]
    return partition
