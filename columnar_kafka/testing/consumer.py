"""confluent-kafka's consumer, whose messages come from memory."""

from __future__ import annotations

import math
import re
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.offsets import check_partitions, error_event_refused, key_of, named_partitions
from columnar_kafka.runtime.deadline import deadline_after, seconds_left
from columnar_kafka.testing.client import ClientOnMemory, number, setting
from columnar_kafka.testing.memory import MemoryConsumer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from columnar_kafka.testing.memory import MemoryKafka

__all__ = ["ConsumerOnMemory"]

_RESETS: Final = {"smallest": "earliest", "beginning": "earliest", "largest": "latest",
                  "end": "latest"}  # fmt: skip
_TRUE: Final = ("true", "1")
_MAX_CONSUME: Final = 1_000_000


class ConsumerOnMemory(ClientOnMemory[MemoryConsumer], StockConsumer):
    """Every method of `confluent_kafka.Consumer`, on the cluster that a subclass names."""

    _closed_text = "Consumer closed"

    def _connect_to(self, kafka: MemoryKafka, config: Mapping[str, Any]) -> MemoryConsumer:
        strategy = setting(config, "partition.assignment.strategy", "range").split(",")[0].strip()
        if strategy == "cooperative-sticky" or setting(config, "group.protocol", "") == "consumer":
            raise NotImplementedError(
                "a consumer on memory rebalances as partition.assignment.strategy range or "
                "roundrobin, with group.protocol=classic: configure one of them in the test"
            )
        reset = setting(config, "auto.offset.reset", "largest")
        commits = setting(config, "enable.auto.commit", True) in _TRUE
        return MemoryConsumer(
            kafka,
            config["group.id"],
            client=setting(config, "client.id", "rdkafka"),
            reset=_RESETS.get(reset, reset),
            strategy=strategy,
            committed_only=setting(config, "isolation.level", "read_committed") == "read_committed",
            end_events=setting(config, "enable.partition.eof", False) in _TRUE,
            auto_store=setting(config, "enable.auto.offset.store", True) in _TRUE,
            auto_commit=number(config, "auto.commit.interval.ms", 5000) / 1000 if commits else None,
            on_commit=config.get("on_commit"),
        )

    # --- messages -------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Any:
        """See confluent-kafka."""
        math.isfinite(timeout)  # or a TypeError, in confluent-kafka's words
        return self.memory.poll(timeout)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """See confluent-kafka."""
        deadline = deadline_after(timeout)
        memory = self.memory
        if not 0 <= index(num_messages) <= _MAX_CONSUME:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        messages: list[Any] = []
        while len(messages) < num_messages:
            message = memory.poll(seconds_left(deadline))
            if message is None:
                break
            messages.append(message)
        return messages

    # --- the group and the assignment -----------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Any = None,
        on_revoke: Any = None,
        on_lost: Any = None,
    ) -> None:
        """See confluent-kafka."""
        memory = self.memory
        if not isinstance(topics, list):
            raise TypeError("expected list of topic unicode strings")
        callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost}
        for name, callback in callbacks.items():
            if callback is not None and not callable(callback):
                raise TypeError(f"on_{name} expects a callable")
        names = list(map(str, topics))
        if not names or not all(map(_is_pattern_or_name, names)):
            raise _invalid("Failed to set subscription: Local: Invalid argument or configuration")
        memory.subscribe(
            names, **{name: self._told(callback) for name, callback in callbacks.items()}
        )

    def _told(self, callback: Any) -> Callable[[list[TopicPartition]], Any] | None:
        return None if callback is None else lambda partitions: callback(self, partitions)

    def unsubscribe(self) -> None:
        """See confluent-kafka."""
        self.memory.membership.unsubscribe()

    def assign(self, partitions: list[TopicPartition]) -> None:
        """See confluent-kafka."""
        self.memory.assign(check_partitions(partitions))

    def unassign(self) -> None:
        """See confluent-kafka."""
        self.memory.assign([])

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """See confluent-kafka."""
        self.memory.incremental_assign(check_partitions(partitions))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """See confluent-kafka."""
        self.memory.incremental_unassign(check_partitions(partitions))

    def assignment(self) -> list[TopicPartition]:
        """See confluent-kafka."""
        return self.memory.assignment()

    def pause(self, partitions: list[TopicPartition]) -> None:
        """See confluent-kafka."""
        self.memory.pause(check_partitions(partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """See confluent-kafka."""
        self.memory.resume(check_partitions(partitions))

    def seek(self, partition: TopicPartition) -> None:
        """See confluent-kafka."""
        [one] = check_partitions([partition])
        self.memory.seek(one)

    def memberid(self) -> Any:
        """See confluent-kafka; None outside the group."""
        return self.memory.membership.id

    def consumer_group_metadata(self) -> Any:
        """See confluent-kafka; only a producer on memory understands it."""
        return self.memory.membership.metadata()

    # --- offsets --------------------------------------------------------------------------------

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """See confluent-kafka."""
        return self.memory.position(check_partitions(partitions))

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """See confluent-kafka."""
        return self.memory.committed(check_partitions(partitions), timeout)

    def commit(  # type: ignore[override]
        self,
        message: Any = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """See confluent-kafka."""
        memory = self.memory
        wanted = named_partitions(message, offsets, partial(_after, action="commit"))
        if wanted is not None:
            return memory.commit(wanted, asynchronous=asynchronous)
        return memory.commit_stored(asynchronous=asynchronous)

    def store_offsets(
        self, message: Any = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """See confluent-kafka."""
        memory = self.memory
        wanted = named_partitions(message, offsets, partial(_after, action="store"))
        if wanted is None:
            raise ValueError("expected either message or offsets")
        memory.store(wanted)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """See confluent-kafka; cached offsets are never out of date."""
        [one] = check_partitions([partition])
        return self.memory.watermarks([one], timeout)[key_of(one)]

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """See confluent-kafka."""
        return self.memory.offsets_for_times(check_partitions(partitions))

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()


def _is_pattern_or_name(topic: str) -> bool:
    try:
        re.compile(topic if topic.startswith("^") else "")
    except re.error:
        return False
    return bool(topic)


def _invalid(reason: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, reason))


def _after(message: Any, action: str) -> TopicPartition:
    """Return the offset after a message."""
    if type(message) is not Message:  # confluent-kafka refuses subclasses
        raise TypeError("expected confluent_kafka.cimpl.Message")
    error = message.error()
    if error is not None:
        raise error_event_refused(error, action)
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    return TopicPartition(topic, partition, (OFFSET_INVALID if offset is None else offset) + 1)
