"""The records of a segment as confluent-kafka messages, without filling in every field."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka import native
from columnar_kafka.message import Message, SegmentMessage
from columnar_kafka.segment.native_decoder import record_maker

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = ["Record", "RecordContext", "records"]


class RecordContext(NamedTuple):
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


class Record(SegmentMessage):
    """A record of a segment. It keeps its own value, key and headers, and nothing else of it.

    Filling in every field of confluent-kafka's message would take six times as long. The native
    core sets the slots without calling anything.
    """

    __slots__ = ("_headers", "_key", "_position", "_time", "_value")

    _context: RecordContext
    _position: int
    _value: Any
    _key: Any
    _time: int
    _headers: Any

    def offset(self) -> int:
        """Return the position."""
        return self._position

    def value(self) -> Any:
        """Return the record, each time the same dict."""
        return self._value

    def key(self) -> Any:
        """Return the record's key, or None."""
        return self._key

    def headers(self) -> Any:
        """Return the record's headers, or None."""
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """Return the record's own timestamp, or the broker's where the topic takes that."""
        context = self._context
        return context.append_time or (context.timestamp_type, self._time)

    def latency(self) -> None:
        """Return None: this client did not produce it."""

    def set_value(self, value: Any) -> None:
        """Replace the value that is shown."""
        self._value = value

    def set_key(self, value: Any) -> None:
        """Replace the key that is shown."""
        self._key = value

    def set_headers(self, value: Any) -> None:
        """Replace the headers that are shown."""
        self._headers = value

    def __len__(self) -> int:
        """Return the length of the value: how many fields it has."""
        value = self._value
        return 0 if value is None else len(value)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = [self._value], [self._key], [self._time], [self._headers]
        return _record, (self._context, self._position, *parts)


def _record(context: RecordContext, position: int, *parts: list[Any]) -> Message:
    """Unpickle a record."""
    return records(context, position, *parts)[0]


def records(
    context: RecordContext,
    first: int,
    values: list[Any],
    keys: list[bytes | None],
    times: list[int],
    headers: list[RecordHeaders | None],
) -> list[Message]:
    """Return consecutive records of a segment, from the position `first` on.

    The lists are equally long.
    """
    if _MAKER is not None:
        try:
            return _MAKER.make(context, first, (values, keys, times, headers))
        except native.core.PanicError:
            pass  # the same in Python
    new = Record.__new__
    messages: list[Message] = []
    for parts in zip(count(first), values, keys, times, headers, strict=False):
        record = new(Record)
        record._context = context  # noqa: SLF001 - without __init__
        record._position, record._value, record._key, record._time, record._headers = parts  # noqa: SLF001 - without __init__
        messages.append(record)
    return messages


_MAKER: Final = record_maker(Record)
