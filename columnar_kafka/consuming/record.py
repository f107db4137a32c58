"""The records of a segment as confluent-kafka messages, without filling in every field."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

from columnar_kafka.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["Record", "RecordContext", "records"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContext:
    """What the records of one segment have in common; `rows` is how many they are.

    `append_time` is the broker's whole timestamp, where the topic takes that instead of theirs.
    """

    topic: str | None
    partition: int
    leader_epoch: int | None
    rows: int
    timestamp_type: int
    append_time: tuple[int, int] | None
    error: KafkaError | None = None


class Record(Message):
    """A record of a segment. Its fields stay in one tuple; each method returns its own.

    Filling in every field of confluent-kafka's message would take six times as long. A record keeps
    its own value, key and headers in memory, and nothing else of the segment.
    """

    __slots__ = ("_parts",)

    _parts: tuple[
        RecordContext, int, Any, Any, int, Any
    ]  # context, position, value, key, time, headers

    def topic(self) -> str | None:
        """Return the topic."""
        return self._parts[0].topic

    def partition(self) -> int | None:
        """Return the partition."""
        partition = self._parts[0].partition
        return None if partition < 0 else partition

    def offset(self) -> int:
        """Return the position."""
        return self._parts[1]

    def value(self) -> Any:
        """Return the record, each time the same dict."""
        return self._parts[2]

    def key(self) -> Any:
        """Return the record's key, or None."""
        return self._parts[3]

    def headers(self) -> Any:
        """Return the record's headers, or None."""
        return self._parts[5]

    def deserialized_value(self) -> Any:
        """Return what `value` does."""
        return self._parts[2]

    def deserialized_key(self) -> Any:
        """Return what `key` does."""
        return self._parts[3]

    def timestamp(self) -> tuple[int, int]:
        """Return the record's own timestamp, or the broker's where the topic takes that."""
        context = self._parts[0]
        return context.append_time or (context.timestamp_type, self._parts[4])

    def error(self) -> KafkaError | None:
        """Return None, unless an error was set."""
        return self._parts[0].error

    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the segment's message."""
        return self._parts[0].leader_epoch

    def latency(self) -> None:
        """Return None: this client did not produce it."""

    def set_topic(self, value: Any) -> None:
        """Replace the topic that is shown."""
        self._parts = (replace(self._parts[0], topic=value), *self._parts[1:])

    def set_error(self, value: Any) -> None:
        """Replace the error that is shown."""
        self._parts = (replace(self._parts[0], error=value), *self._parts[1:])

    def set_value(self, value: Any) -> None:
        """Replace the value that is shown."""
        self._parts = (*self._parts[:2], value, *self._parts[3:])

    def set_key(self, value: Any) -> None:
        """Replace the key that is shown."""
        self._parts = (*self._parts[:3], value, *self._parts[4:])

    def set_headers(self, value: Any) -> None:
        """Replace the headers that are shown."""
        self._parts = (*self._parts[:5], value)

    @property
    def _rows(self) -> int:  # type: ignore[override]
        return self._parts[0].rows

    def __len__(self) -> int:
        """Return the length of the value: how many fields it has."""
        value = self._parts[2]
        return 0 if value is None else len(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _record, (self._parts,)


def _record(parts: Any) -> Record:
    """Unpickle a record."""
    record = Record.__new__(Record)
    record._parts = parts
    return record


def records(
    context: RecordContext,
    first: int,
    values: Iterable[Any],
    keys: Iterable[bytes | None],
    times: Iterable[int],
    headers: Iterable[RecordHeaders | None],
) -> list[Message]:
    """Return consecutive records of a segment, from the position `first` on."""
    new = Record.__new__
    found: list[Message] = []
    for parts in zip(repeat(context), count(first), values, keys, times, headers, strict=False):
        record = new(Record)
        record._parts = parts
        found.append(record)
    return found
