"""The messages this package hands out: confluent-kafka's `Message`, with positions for offsets."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

import confluent_kafka
from confluent_kafka import KafkaError

from columnar_kafka import position

__all__ = ["Message", "SegmentMessage", "event_error", "or_unset", "plain_message"]

_OFFSET: Final = re.compile(r"(?<=\boffset )\d+|(?<=\bHighwaterMark )\d+")  # in librdkafka's text


_COMPARED: Final = ("topic", "partition", "offset", "leader_epoch", "key", "value", "headers")
"""What confluent-kafka compares of messages, beside times (without their types) and errors."""


class Message(confluent_kafka.Message):
    """One record. `offset` is its position; everything else is as confluent-kafka has it."""

    __slots__ = ()  # as confluent-kafka's has no dict
    _rows = 1

    def __eq__(self, other: object) -> bool:
        """Compare as confluent-kafka 2.16 does; up to 2.15, None and a key are a SystemError."""
        if not isinstance(other, confluent_kafka.Message):
            return NotImplemented
        mine, theirs = self.error(), other.error()
        return (
            (mine is None) == (theirs is None)
            and (mine is None or mine == theirs)  # a KafkaError raises TypeError for == None
            and self.timestamp()[1] == other.timestamp()[1]
            and all(getattr(self, name)() == getattr(other, name)() for name in _COMPARED)
        )

    def __ne__(self, other: object) -> bool:
        """Compare as `__eq__` does."""
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def kafka_offset(self) -> int | None:
        """Return the offset of the Kafka message that held the record; None where there is none."""
        offset = self.offset()
        return None if offset is None else position.unpack(offset).offset

    def row(self) -> int | None:
        """Return the record's row in its segment; 0 for a plain message."""
        offset = self.offset()
        if offset is None:
            return None
        # At the start of an offset, where the first of 2^20 rows lies too, all rows are left.
        return self._rows - (position.unpack(offset).left or self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        reduced: Any = super().__reduce__()
        return Message, reduced[1]


class SegmentContext(Protocol):
    """What the messages of one segment's records have in common: a named tuple."""

    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def error(self) -> KafkaError | None: ...
    @property
    def leader_epoch(self) -> int | None: ...
    @property
    def _replace(self) -> Any: ...


class SegmentMessage(Message):
    """A message of one record of a segment: it refers to what all of these have in common."""

    __slots__ = ("_context",)
    _context: SegmentContext

    def topic(self) -> str | None:
        """Return the topic."""
        return self._context.topic

    def partition(self) -> int | None:
        """Return the partition, or None if none was chosen."""
        partition = self._context.partition
        return None if partition < 0 else partition

    def error(self) -> KafkaError | None:
        """Return why the record was not stored, or what was set; None for a consumed record."""
        return self._context.error

    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the segment's message."""
        return self._context.leader_epoch

    def deserialized_value(self) -> Any:
        """Return what `value` does."""
        return self.value()

    def deserialized_key(self) -> Any:
        """Return what `key` does."""
        return self.key()

    def set_topic(self, value: Any) -> None:
        """Replace the topic that is shown."""
        self._context = self._context._replace(topic=value)

    def set_error(self, value: Any) -> None:
        """Replace the error that is shown."""
        self._context = self._context._replace(error=value)

    @property
    def _rows(self) -> int:  # type: ignore[override]
        return self._context.rows


def event_error(event: confluent_kafka.Message) -> KafkaError:
    """Return an event's error. At a partition's end its text names positions, not offsets."""
    error = event.error()
    assert error is not None
    if error.code() != KafkaError._PARTITION_EOF:
        return error
    text = _OFFSET.sub(lambda match: str(position.start(int(match[0]))), error.str())
    return KafkaError(error.code(), text)


def plain_message(source: confluent_kafka.Message) -> Message:
    """Return a plain message or an error event with a position for its offset."""
    offset, value, error = source.offset(), source.value(), source.error()
    if offset is not None:
        # An end-of-partition event points at the offset that comes next, not at a message.
        at = position.start if error is not None else position.pack
        offset = at(offset)
    if error is not None and (in_positions := event_error(source)) is not error:
        error, value = in_positions, in_positions.str().encode()
    return Message(
        topic=source.topic(),
        partition=or_unset(source.partition()),
        offset=-1001 if offset is None else offset,
        key=source.key(),
        value=value,
        headers=source.headers(),
        error=error,
        timestamp=source.timestamp(),
        latency=or_unset(source.latency()),
        leader_epoch=or_unset(source.leader_epoch()),
    )


def or_unset(value: Any) -> Any:
    """Return a value as confluent-kafka's constructor takes it: -1 for None."""
    return -1 if value is None else value
