"""The messages this package hands out: confluent-kafka's `Message`, with positions for offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import confluent_kafka
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError

from columnar_kafka import position

if TYPE_CHECKING:
    from columnar_kafka.columns.kafka import Headers

__all__ = ["Message", "Report", "Rows", "encode_headers", "encode_key", "plain_message"]


class Message(confluent_kafka.Message):
    """One record. `offset` is its position; everything else is as confluent-kafka has it."""

    _rows = 1

    def kafka_offset(self) -> int | None:
        """Return the offset of the Kafka message that held the record; None where there is none."""
        offset = self.offset()
        return None if offset is None else position.unpack(offset).offset

    def row(self) -> int | None:
        """Return the record's row in its segment; 0 for a plain message."""
        offset = self.offset()
        return None if offset is None else self._rows - position.unpack(offset).left


def plain_message(source: confluent_kafka.Message) -> Message:
    """Return a Kafka message that is no segment (or an error event), in positions."""
    offset = source.offset()
    if offset is not None:
        # An end-of-partition event points at the offset that comes next, not at a message.
        at = position.start if source.error() is not None else position.pack
        offset = at(offset)
    return Message(
        topic=source.topic(),
        partition=_or_unset(source.partition()),
        offset=-1001 if offset is None else offset,
        key=source.key(),
        value=source.value(),
        headers=source.headers(),
        error=source.error(),
        timestamp=source.timestamp(),
        latency=_or_unset(source.latency()),
        leader_epoch=_or_unset(source.leader_epoch()),
    )


def _or_unset(value: Any) -> Any:
    """Return what confluent-kafka's constructor wants for a value that is not there."""
    return -1 if value is None else value


class Rows(Protocol):
    """Where reports read the records of a segment from, when somebody asks."""

    def value(self, row: int) -> Any: ...
    def key(self, row: int) -> bytes | None: ...
    def headers(self, row: int) -> Headers | None: ...
    def timestamp(self, row: int) -> int: ...


class Report(Message):
    """A record's delivery report; its value, key, time and headers are read from the columns."""

    _source: Rows
    _index: int

    @classmethod
    def of(
        cls,
        rows: Rows,
        index: int,
        *,
        topic: str,
        partition: int,
        offset: int,
        count: int,
        error: KafkaError | None,
        acknowledged: confluent_kafka.Message | None,
    ) -> Report:
        """Return the report of row `index` of `rows`, one of `count` in the segment at `offset`."""
        report = cls(
            topic=topic,
            partition=partition,
            offset=position.pack(offset, index, count) if offset >= 0 else -1001,
            error=error,
            latency=_or_unset(acknowledged and acknowledged.latency()),
            leader_epoch=_or_unset(acknowledged and acknowledged.leader_epoch()),
        )
        report._source = rows
        report._index = index
        report._rows = count
        return report

    def value(self) -> Any:
        """Return the record as it was produced."""
        return self._source.value(self._index)

    def key(self) -> bytes | None:
        """Return the record's key."""
        return self._source.key(self._index)

    def headers(self) -> Any:
        """Return the record's headers, or None."""
        return self._source.headers(self._index)

    def timestamp(self) -> tuple[int, int]:
        """Return the record's own time."""
        return TIMESTAMP_CREATE_TIME, self._source.timestamp(self._index)


def encode_key(key: Any) -> bytes | None:
    """Return a key as the bytes that go on the wire.

    Raises:
        TypeError: not bytes, str or None (as confluent-kafka).
    """
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"a bytes-like object is required, not '{type(key).__name__}'")


def encode_headers(headers: Any) -> Headers | None:
    """Return headers given as a list of pairs or a dict as bytes; none at all is None.

    Raises:
        TypeError: not such a list or dict (as confluent-kafka).
    """
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers
    try:
        return [(_header_key(key), _header_value(value)) for key, value in pairs]
    except ValueError as error:
        raise TypeError("Headers are expected to be a tuple of (key, value)") from error


def _header_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a header's key is a str, not {type(key).__name__}")
    return key


def _header_value(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"a header's value is bytes, str or None, not {type(value).__name__}")
