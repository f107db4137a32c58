"""Kafka as this package's producer and consumer use it: two protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import KafkaError, Message, TopicPartition

if TYPE_CHECKING:
    from columnar_kafka.broker.watermarks import Watermarks
    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["Acknowledge", "ConsumerBroker", "ProducerBroker", "SideReader", "TopicLimits"]

Acknowledge = Callable[[KafkaError | None, Message], object]


class TopicLimits(NamedTuple):
    """A topic's number of partitions and its limits; None where unknown."""

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
        headers: RecordHeaders | dict[str, bytes] | None,
        timestamp: int,
        acknowledge: Acknowledge,
    ) -> None:
        """Queue one message; `acknowledge` is called once, inside librdkafka's `poll` or `flush`.

        Raises:
            BufferError: the queue is full; try again when acknowledgements have been served.
            KafkaException: the message can never be sent; `acknowledge` is not called.
        """
        ...

    def partitions(self, topic: str, timeout: float) -> int | None:
        """Return a topic's number of partitions; None if it is unknown after `timeout` seconds.

        Raises:
            KafkaException: the topic does not exist (yet), or access to it is denied.
        """
        ...

    def limits(self, topic: str, timeout: float) -> TopicLimits:
        """Return what Kafka tells about a topic within `timeout` seconds. Raises nothing."""
        ...

    def newest(self, topic: str, count: int, timeout: float) -> Sequence[Message]:
        """Return the messages at the last `count` offsets of each partition, as they are read.

        Blocks for `timeout` seconds at most, and returns what has come by then. A client of its
        own asks; messages of open transactions are among them.

        Raises:
            KafkaException: there is no such topic, or its offsets are not known in time.
        """
        ...


class SideReader(Protocol):
    """Reads some partitions again, without any effect on the consumer or its group."""

    def poll(self, timeout: float) -> Message | None:
        """Return a message, an error or a partition's end; None after `timeout` seconds."""
        ...

    def close(self) -> object:
        """Close the reader."""
        ...


class ConsumerBroker(Protocol):
    """Receives messages; offsets are Kafka's. Used by one thread at a time, but `watermarks`."""

    def poll(self, timeout: float) -> Message | None:
        """Serve callbacks; return a message or an error event; None after `timeout` seconds."""
        ...

    def assignment(self) -> list[TopicPartition]:
        """Return the current assignment."""
        ...

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        """Return the group's committed offsets with their metadata.

        Raises:
            KafkaException: no answer came within `timeout` seconds, or access is denied.
        """
        ...

    def commit(
        self, offsets: Sequence[TopicPartition], *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        """Commit offsets with their metadata; return the result of each if synchronous.

        Raises:
            KafkaException: if synchronous, the error of the group's coordinator.
        """
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching these partitions."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these partitions again; those that were paused report their ends again."""
        ...

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return for each partition the offset after the last message that `poll` took.

        `poll` returned that message, or was interrupted. The offset is invalid before the first
        message and after a seek.
        """
        ...

    def seek(self, partition: TopicPartition) -> None:
        """Continue at another offset of an assigned partition; a paused one stays paused.

        Raises:
            KafkaException: the partition is not assigned.
        """
        ...

    def watermarks(self, partitions: Sequence[TopicPartition], timeout: float) -> Watermarks:
        """Return the first offset of each partition, and the one after its last message.

        A client of its own asks, so any thread may call this at any time. It blocks for logging in
        (for up to 10 s where ``oauth_cb`` makes a token), and for two requests to each leader.

        Raises:
            KafkaException: a partition's error; ``_TIMED_OUT`` after `timeout` seconds.
        """
        ...

    def side_reader(self, partitions: Sequence[TopicPartition]) -> SideReader:
        """Return a reader of these partitions, from their offsets on, that reports their ends."""
        ...
