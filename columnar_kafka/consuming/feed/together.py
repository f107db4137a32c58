"""Plain messages that wait together: the core keeps those of one partition that follow each other.

As many objects of confluent-kafka's take a hundred times the memory of small values, and Python's
garbage collector visits them all. Only tables take them so; whatever else wants messages has each
`apart` again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka

from columnar_kafka import native

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["apart", "are_together", "count_of", "put_together", "rows_of"]

_TOGETHER: Any = native.core.FetchedMessages if native.enabled else ()


def put_together(messages: list[confluent_kafka.Message]) -> list[confluent_kafka.Message]:
    """Return messages with plain ones together, as the core's `FetchedMessages`.

    These answer as the first of them, and are as long as all. Without the core none are together.
    """
    if not native.enabled:
        return messages
    return native.core.fetched_messages(messages, confluent_kafka.Message)


def are_together(message: confluent_kafka.Message) -> bool:
    """Say whether this stands for several messages."""
    return isinstance(message, _TOGETHER)


def rows_of(message: Any) -> int:
    """Return how many messages this stands for."""
    count: int = message.count if isinstance(message, _TOGETHER) else 1
    return count


def count_of(messages: Iterable[confluent_kafka.Message]) -> int:
    """Return how many messages these stand for."""
    return sum(map(rows_of, messages))


def apart(messages: Collection[Any]) -> list[confluent_kafka.Message]:
    """Return each message by itself, as confluent-kafka had it."""
    return [
        single
        for message in messages
        for single in (_singles(message) if isinstance(message, _TOGETHER) else (message,))
    ]


def _singles(together: Any) -> Iterable[confluent_kafka.Message]:
    topic, partition, epoch = together.topic(), together.partition(), together.leader_epoch()
    for offset, key, value, headers, timestamp in together.messages():
        yield confluent_kafka.Message(
            topic=topic,
            partition=partition,
            offset=offset,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            leader_epoch=-1 if epoch is None else epoch,
        )
