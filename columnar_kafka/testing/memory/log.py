"""What a partition holds: messages, the ends of transactions, and who may see what of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import OFFSET_END, TIMESTAMP_CREATE_TIME, KafkaError, Message

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from columnar_kafka.columns.kafka_column import Headers

__all__ = ["Log", "Stored", "Transaction", "record_size"]

_BATCH_BYTES: Final = 61  # the fields of a record batch
_RECORD_BYTES: Final = 21  # the most that a record's own fields take
_HEADER_BYTES: Final = 10  # the most that the two lengths of a header take


def record_size(key: bytes | None, value: Any, headers: Headers | None) -> int:
    """Return what a message alone in its batch takes on the wire, at most."""
    size = _BATCH_BYTES + _RECORD_BYTES + len(key or b"") + len(value or b"")
    for name, each in headers or ():
        size += _HEADER_BYTES + len(name.encode()) + len(each or b"")
    return size


@dataclass(eq=False, slots=True)
class Transaction:
    """One transaction of a producer: open until it is committed or aborted, once."""

    logs: list[Log] = field(default_factory=list)
    offsets: list[tuple[str, list[TopicPartition]]] = field(default_factory=list)  # by group
    is_open: bool = True
    aborted: bool = False

    def end(self, *, aborted: bool) -> None:
        """Close it, with a marker in each partition that it wrote to."""
        self.is_open, self.aborted = False, aborted
        for log in self.logs:
            log.mark()


class Stored(NamedTuple):
    """One message; its offset is its place in the log."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp: int
    transaction: Transaction | None = None

    @classmethod
    def copy_of(
        cls,
        key: bytes | None,
        value: Any,
        headers: Headers | None,
        timestamp: int,
        transaction: Transaction | None = None,
    ) -> Stored:
        """Return a message whose value and headers nobody else can change; time 0 is now."""
        return cls(
            key,
            None if value is None else bytes(value),
            list(headers) if headers else None,
            timestamp or time.time_ns() // 1_000_000,
            transaction,
        )

    def message(
        self, topic: str, partition: int, offset: int, error: KafkaError | None = None
    ) -> Message:
        """Return it as a client sees it; every client gets an object of its own."""
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


class Log:
    """One partition. A None in it is the marker at the end of a transaction. Not thread-safe."""

    def __init__(self) -> None:
        self._entries: list[Stored | None] = []
        self._open: dict[Transaction, int] = {}  # with the offset of its first message

    def __len__(self) -> int:
        """Return the offset that the next entry will get."""
        return len(self._entries)

    def append(self, stored: Stored) -> int:
        """Add a message; return its offset."""
        transaction = stored.transaction
        if transaction is not None and transaction not in self._open:
            self._open[transaction] = len(self)
            transaction.logs.append(self)
        self._entries.append(stored)
        return len(self) - 1

    def mark(self) -> None:
        """Add the end of the transaction that was closed just now."""
        self._entries.append(None)
        self._open = {each: first for each, first in self._open.items() if each.is_open}

    def end(self, *, committed: bool) -> int:
        """Return where reading ends; of what is `committed`, before the first open transaction."""
        return min(self._open.values(), default=len(self)) if committed else len(self)

    def find(self, offset: int, *, committed: bool) -> tuple[int, Stored | None]:
        """Return the first visible message from `offset` on; without one, where reading ends."""
        end = self.end(committed=committed)
        for at in range(offset, end):
            found = self._entries[at]
            if found is not None and not (committed and _is_aborted(found)):
                return at, found
        return max(offset, end), None

    def at_time(self, timestamp: int) -> int:
        """Return the offset of the first message of that time or later, or `OFFSET_END`."""
        for offset, each in enumerate(self._entries):
            if each is not None and each.timestamp >= timestamp:
                return offset
        return OFFSET_END

    def visible(self, *, committed: bool) -> list[tuple[int, Stored]]:
        """Return all messages that a consumer would see, with their offsets."""
        found = []
        offset, stored = self.find(0, committed=committed)
        while stored is not None:
            found.append((offset, stored))
            offset, stored = self.find(offset + 1, committed=committed)
        return found


def _is_aborted(stored: Stored) -> bool:
    return stored.transaction is not None and stored.transaction.aborted
