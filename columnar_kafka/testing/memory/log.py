"""A partition's log: messages, the ends of transactions, and what a consumer may see."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import OFFSET_END, TIMESTAMP_CREATE_TIME, KafkaError, Message

from columnar_kafka.segment.headers import header_pairs

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["MemoryTransaction", "PartitionLog", "StoredMessage"]


@dataclass(eq=False, slots=True)
class MemoryTransaction:
    """One transaction of a producer: open until it is committed or aborted."""

    logs: list[PartitionLog] = field(default_factory=list)
    offsets: list[tuple[str, list[TopicPartition]]] = field(default_factory=list)  # by group
    is_open: bool = True
    aborted: bool = False

    def end(self, *, aborted: bool) -> None:
        """End it, with a marker in each partition that it wrote to."""
        self.is_open, self.aborted = False, aborted
        for log in self.logs:
            log.mark()


class StoredMessage(NamedTuple):
    """One message; its offset is its place in the log."""

    key: bytes | None
    value: bytes | None
    headers: RecordHeaders | None
    timestamp: int
    transaction: MemoryTransaction | None = None

    @classmethod
    def copy_of(
        cls,
        key: bytes | None,
        value: Any,
        headers: RecordHeaders | dict[str, bytes] | None,
        timestamp: int,
        transaction: MemoryTransaction | None = None,
    ) -> StoredMessage:
        """Return a message with its own copy of value and headers; timestamp 0 is now."""
        return cls(
            key,
            None if value is None else bytes(value),
            list(header_pairs(headers)) or None,
            timestamp or time.time_ns() // 1_000_000,
            transaction,
        )

    def message(
        self, topic: str, partition: int, offset: int, error: KafkaError | None = None
    ) -> Message:
        """Return the message as a client sees it, a new object for each call."""
        return Message(
            topic=topic,
            partition=partition,
            offset=offset,
            key=self.key,
            value=self.value,
            headers=None if self.headers is None else list(self.headers),
            error=error,
            timestamp=(TIMESTAMP_CREATE_TIME, self.timestamp),
            leader_epoch=0 if error is None else -1,
        )


class PartitionLog:
    """One partition. An entry None is the marker that ends a transaction. Not thread-safe."""

    def __init__(self) -> None:
        self._entries: list[StoredMessage | None] = []
        self._open: dict[MemoryTransaction, int] = {}  # with the offset of its first message

    def __len__(self) -> int:
        """Return the offset that the next entry will get."""
        return len(self._entries)

    def append(self, stored: StoredMessage) -> int:
        """Add a message; return its offset."""
        transaction = stored.transaction
        if transaction is not None and transaction not in self._open:
            self._open[transaction] = len(self)
            transaction.logs.append(self)
        self._entries.append(stored)
        return len(self) - 1

    def mark(self) -> None:
        """Add the marker of the transaction that has just ended."""
        self._entries.append(None)
        self._open = {key: first for key, first in self._open.items() if key.is_open}

    def end(self, *, committed: bool) -> int:
        """Return where reading ends: if `committed`, before the first open transaction."""
        return min(self._open.values(), default=len(self)) if committed else len(self)

    def find(self, offset: int, *, committed: bool) -> tuple[int, StoredMessage | None]:
        """Return the first visible message from `offset` on; None and the end without one."""
        end = self.end(committed=committed)
        for at in range(offset, end):
            entry = self._entries[at]
            if entry is not None and not (committed and _is_aborted(entry)):
                return at, entry
        return max(offset, end), None

    def at_time(self, timestamp: int) -> int:
        """Return the offset of the first message of that time or later, or `OFFSET_END`."""
        for offset, entry in enumerate(self._entries):
            if entry is not None and entry.timestamp >= timestamp:
                return offset
        return OFFSET_END

    def visible(self, *, committed: bool) -> list[tuple[int, StoredMessage]]:
        """Return all messages that a consumer would see, with their offsets."""
        messages = []
        offset, stored = self.find(0, committed=committed)
        while stored is not None:
            messages.append((offset, stored))
            offset, stored = self.find(offset + 1, committed=committed)
        return messages


def _is_aborted(stored: StoredMessage) -> bool:
    return stored.transaction is not None and stored.transaction.aborted
