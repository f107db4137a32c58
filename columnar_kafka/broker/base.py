"""What a producer and a consumer need of Kafka, look-ups included. Everything else is ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import KafkaError, Message, TopicPartition

if TYPE_CHECKING:
    from columnar_kafka.columns.kafka_column import Headers

__all__ = ["Acknowledge", "ConsumerBroker", "ProducerBroker", "SideReader", "TopicLimits"]

Acknowledge = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """What is known of a topic; None where Kafka did not tell."""

    partitions: int | None = None
    compacted: bool | None = None
    max_message_bytes: int | None = None


class ProducerBroker(Protocol):
    """Sends messages. Thread-safe."""

    def send(
        self,
        topic: str,
        partition: int,
        value: Any,
        *,
        key: bytes | None,
        headers: Headers | None,
        timestamp: int,
        acknowledge: Acknowledge,
    ) -> None:
        """Queue one message; `acknowledge` is called once, inside the client's `poll` or `flush`.

        Raises:
            BufferError: the queue is full; try again after acknowledgements were served.
            KafkaException: it can never be sent; `acknowledge` is not called.
        """
        ...

    def partitions(self, topic: str, timeout: float) -> int | None:
        """Return a topic's number of partitions, or None when it is not known in time.

        Raises:
            KafkaException: there is no such topic (yet), or it may not be used.
        """
        ...

    def limits(self, topic: str, timeout: float) -> TopicLimits:
        """Return what can be learned of a topic within `timeout` seconds. Raises nothing."""
        ...


class SideReader(Protocol):
    """Reads partitions beside a consumer, which does not notice."""

    def poll(self, timeout: float) -> Message | None:
        """Return a message, an error or a partition's end, or None after `timeout` seconds."""
        ...

    def close(self) -> object:
        """End it."""
        ...


class ConsumerBroker(Protocol):
    """Receives messages, in Kafka's own offsets. Used by one thread at a time."""

    def poll(self, timeout: float) -> Message | None:
        """Serve callbacks; return a message or an error event, or None after `timeout` seconds."""
        ...

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are assigned now."""
        ...

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """Return the group's committed offsets with their metadata.

        Raises:
            KafkaException: they are not known within `timeout` seconds, or may not be.
        """
        ...

    def commit(
        self, offsets: Sequence[TopicPartition], *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        """Commit offsets with their metadata; the result of each when synchronous.

        Raises:
            KafkaException: when synchronous, what the group's coordinator answered.
        """
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch no more of these partitions."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these partitions again; the ends of those that were paused are told again."""
        ...

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the offset after the last message of each that `poll` took from its queue.

        It returned that message, or was interrupted. The offset is invalid where there is none, and
        after a seek.
        """
        ...

    def seek(self, partition: TopicPartition) -> None:
        """Go on at another offset of a partition that is assigned; a paused one stays paused.

        Raises:
            KafkaException: it is not assigned.
        """
        ...

    def aside(self, partitions: Sequence[TopicPartition]) -> SideReader:
        """Return what reads these partitions from their offsets on, and tells their ends."""
        ...
