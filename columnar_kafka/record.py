"""The messages this package hands out: confluent-kafka's `Message`, with positions for offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import confluent_kafka
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError

from columnar_kafka import position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from columnar_kafka.columns.kafka import Headers

__all__ = [
    "ArrowReport",
    "Message",
    "OneRow",
    "Place",
    "Record",
    "Report",
    "Rows",
    "encode_headers",
    "encode_key",
    "event_error",
    "plain_message",
    "records",
    "reports",
]

_PAIR: Final = 2
_HEADER_BYTES: Final = 100  # what one header's objects cost beside their bytes
_OFFSET: Final = re.compile(r"(?<=\boffset )\d+|(?<=\bHighwaterMark )\d+")  # in librdkafka's text


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
        if offset is None:
            return None
        # At the start of an offset, where the first of 2^20 rows lies too, all rows are left.
        return self._rows - (position.unpack(offset).left or self._rows)

    def __reduce__(self) -> tuple[Any, ...]:
        reduced: Any = super().__reduce__()
        return _restore, (reduced[1], self._rows)


def _restore(parts: tuple[Any, ...], rows: int) -> Message:
    """Unpickle a message."""
    message = Message(*parts)
    message._rows = rows
    return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the records of one segment have in common.

    `kind` is that of their timestamps; `appended` is the broker's time, where that is their own.
    """

    topic: str | None
    partition: int
    leader_epoch: int | None
    rows: int
    kind: int
    appended: tuple[int, int] | None
    error: KafkaError | None = None


class Record(Message):
    """A record of a segment, made of parts that are looked at when somebody asks.

    To fill in all that confluent-kafka has of a message takes six times as long. It keeps its own
    value, key and headers in memory and nothing else of the segment.
    """

    __slots__ = ("_parts",)

    _parts: tuple[Place, int, Any, Any, int, Any]  # where, position, value, key, time, headers

    def topic(self) -> str | None:
        """Return the topic."""
        return self._parts[0].topic

    def partition(self) -> int | None:
        """Return the partition."""
        found = self._parts[0].partition
        return None if found < 0 else found

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
        """Return the record's own time, or the broker's where the topic takes that."""
        place = self._parts[0]
        return place.appended or (place.kind, self._parts[4])

    def error(self) -> KafkaError | None:
        """Return None, if nobody has set an error."""
        return self._parts[0].error

    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the segment's message."""
        return self._parts[0].leader_epoch

    def latency(self) -> None:
        """Return None: nobody has produced it here."""

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

    def __eq__(self, other: object) -> bool:
        """Compare as confluent-kafka does."""
        return self._filled() == (other._filled() if isinstance(other, Record) else other)

    def __ne__(self, other: object) -> bool:
        """Compare as confluent-kafka does."""
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _record, (self._parts,)

    def _filled(self) -> Message:
        """Return a message with everything where confluent-kafka has it."""
        place, offset, value, key, _, headers = self._parts
        given: Any = {"partition": place.partition, "offset": offset, "timestamp": self.timestamp()}
        found: Any = Message(**given, latency=-1, leader_epoch=_or_unset(place.leader_epoch))
        found.set_topic(place.topic)
        found.set_value(value)
        found.set_key(key)
        found.set_headers(headers)
        found.set_error(place.error)
        found._rows = place.rows
        return found  # type: ignore[no-any-return]


def _record(parts: Any) -> Record:
    """Unpickle a record."""
    record = Record.__new__(Record)
    record._parts = parts
    return record


def records(
    place: Place,
    first: int,
    values: Iterable[Any],
    keys: Iterable[bytes | None],
    times: Iterable[int],
    headers: Iterable[Headers | None],
) -> list[Message]:
    """Return records that lie one after the other, from the position `first` on."""
    new = Record.__new__
    found: list[Message] = []
    for parts in zip(repeat(place), count(first), values, keys, times, headers, strict=False):
        record = new(Record)
        record._parts = parts
        found.append(record)
    return found


def event_error(event: confluent_kafka.Message) -> KafkaError:
    """Return an event's error; the text of a partition's end names positions, as its offset is."""
    error = event.error()
    assert error is not None
    if error.code() != KafkaError._PARTITION_EOF:
        return error
    text = _OFFSET.sub(lambda found: str(position.start(int(found[0]))), error.str())
    return KafkaError(error.code(), text)


def plain_message(source: confluent_kafka.Message) -> Message:
    """Return a Kafka message that is no segment (or an error event), in positions."""
    offset, value, error = source.offset(), source.value(), source.error()
    if offset is not None:
        # An end-of-partition event points at the offset that comes next, not at a message.
        at = position.start if error is not None else position.pack
        offset = at(offset)
    if error is not None and (told := event_error(source)) is not error:
        error, value = told, told.str().encode()
    return Message(
        topic=source.topic(),
        partition=_or_unset(source.partition()),
        offset=-1001 if offset is None else offset,
        key=source.key(),
        value=value,
        headers=source.headers(),
        error=error,
        timestamp=source.timestamp(),
        latency=_or_unset(source.latency()),
        leader_epoch=_or_unset(source.leader_epoch()),
    )


def _or_unset(value: Any) -> Any:
    """Return what confluent-kafka's constructor wants for a value that is not there."""
    return -1 if value is None else value


class Sent(Protocol):
    """What has become of one `produce_arrow`."""

    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int | None: ...
    @property
    def error(self) -> KafkaError | None: ...
    @property
    def records(self) -> int: ...
    @property
    def failed(self) -> int: ...


class _Sent(NamedTuple):
    topic: str | None
    partition: int
    offset: int | None
    error: KafkaError | None
    records: int
    failed: int


class ArrowReport(Message):
    """The delivery report of one `produce_arrow`: where its last stored record is.

    `value`, `key` and `headers` are None. With an `error`, the first that met some of its records,
    `failed` of its `records` were not stored.
    """

    def __init__(self, sent: Sent) -> None:
        super().__init__(
            topic=sent.topic,
            partition=sent.partition,
            offset=-1001 if sent.offset is None else sent.offset,
            error=sent.error,
        )
        self.records = sent.records
        self.failed = sent.failed

    def __reduce__(self) -> tuple[Any, ...]:
        offset = self.offset()
        partition = _or_unset(self.partition())
        parts = (self.topic(), partition, offset, self.error(), self.records, self.failed)
        return ArrowReport, (_Sent(*parts),)


class Rows(Protocol):
    """Where reports read the records of a segment from, when somebody asks."""

    def value(self, row: int) -> Any:
        """Return a record as it was produced."""
        ...

    def key(self, row: int) -> bytes | None:
        """Return its key."""
        ...

    def headers(self, row: int) -> Headers | None:
        """Return its headers."""
        ...

    def timestamp(self, row: int) -> int:
        """Return its time in milliseconds."""
        ...


@dataclass(frozen=True, slots=True)
class OneRow:
    """The parts of one record, for a report that has no columns to read from."""

    parts: tuple[Any, bytes | None, int, Headers | None]

    def value(self, row: int) -> Any:
        """Return the record's value."""
        return self.parts[0]

    def key(self, row: int) -> bytes | None:
        """Return the record's key."""
        return self.parts[1]

    def timestamp(self, row: int) -> int:
        """Return the record's time."""
        return self.parts[2]

    def headers(self, row: int) -> Headers | None:
        """Return the record's headers."""
        return self.parts[3]


class Report(Message):
    """A record's delivery report; its value, key, time and headers are read from the columns."""

    _source: Rows
    _index: int
    _appended: tuple[int, int] | None = None  # the broker's time, where that is the records' own

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
        """Return the record's own time, or the broker's where the topic takes that."""
        return self._appended or (TIMESTAMP_CREATE_TIME, self._source.timestamp(self._index))

    def set_value(self, value: Any) -> None:
        """Replace the value that is shown."""
        self._replace(0, value)

    def set_key(self, key: Any) -> None:
        """Replace the key that is shown."""
        self._replace(1, key)

    def set_headers(self, headers: Any) -> None:
        """Replace the headers that are shown."""
        self._replace(3, headers)

    def _replace(self, part: int, by: Any) -> None:
        parts = self._parts()
        self._source, self._index = OneRow((*parts[:part], by, *parts[part + 1 :])), 0

    def _parts(self) -> tuple[Any, bytes | None, int, Headers | None]:
        row = self._index
        source = self._source
        return source.value(row), source.key(row), source.timestamp(row), source.headers(row)

    def __len__(self) -> int:
        """Return the length of the value: of a record, how many fields it has."""
        return len(self.value() or b"")

    def __reduce__(self) -> tuple[Any, ...]:
        offset = self.offset()
        given = {
            "topic": self.topic(),
            "partition": _or_unset(self.partition()),
            "offset": -1001 if offset is None else offset,
            "error": self.error(),
            "latency": _or_unset(self.latency()),
            "leader_epoch": _or_unset(self.leader_epoch()),
        }
        return _rebuild, (given, self._parts(), self._rows, self._appended)


def _rebuild(
    given: dict[str, Any], parts: Any, rows: int, appended: tuple[int, int] | None
) -> Report:
    """Unpickle a report, without its neighbours' columns."""
    report = Report(**given)
    report._source, report._index = OneRow(parts), 0
    report._rows, report._appended = rows, appended
    return report


def reports(
    rows: Rows,
    *,
    topic: str,
    partition: int,
    offset: int | None,
    count: int,
    error: KafkaError | None,
    acknowledged: confluent_kafka.Message | None,
    latency: float | None = None,
) -> Callable[[int], Report]:
    """Return what makes the report of each of `count` records in the segment at `offset`.

    `latency`, in seconds, is for those that librdkafka has not acknowledged.
    """
    # A report without an offset has no position.
    base = None if offset is None else position.pack(offset, 0, count)
    # A message without a value is false.
    latency = _or_unset(latency if acknowledged is None else acknowledged.latency())
    epoch = _or_unset(None if acknowledged is None else acknowledged.leader_epoch())
    stamp = None if acknowledged is None or error is not None else acknowledged.timestamp()
    appended = stamp if stamp and stamp[0] == TIMESTAMP_LOG_APPEND_TIME else None

    def report(index: int) -> Report:
        message = Report(
            topic=topic,
            partition=partition,
            offset=-1001 if base is None else base + index,
            error=error,
            latency=latency,
            leader_epoch=epoch,
        )
        message._source = rows
        message._index = index
        message._rows = count
        message._appended = appended
        return message

    return report


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


def encode_headers(headers: Any) -> tuple[Headers | None, int]:
    """Return headers given as a list of pairs or a dict, as bytes, and about how much they hold.

    No headers at all are None; a key that is no text is stored as its `str`, as confluent-kafka has
    it.

    Raises:
        TypeError: not such a list or dict (as confluent-kafka).
    """
    if headers is None:
        return None, 0
    if isinstance(headers, dict):
        headers = headers.items()
    elif not isinstance(headers, list):
        raise TypeError(
            "expected headers to be dict or list of (key, value) tuples, "
            f"not {type(headers).__name__}"
        )
    pairs: Headers = []
    nbytes = 0
    for pair in headers:
        if not isinstance(pair, tuple) or len(pair) != _PAIR:
            raise TypeError("Headers are expected to be a list of (key, value) tuples")
        key, value = pair
        if not isinstance(key, str):
            key = str(key)
        if isinstance(value, str):
            value = value.encode()
        elif not (value is None or isinstance(value, bytes)):
            raise TypeError(
                "expected header value to be None, binary, or unicode string, "
                f"not {type(value).__name__}"
            )
        pairs.append((key, value))
        nbytes += _HEADER_BYTES + len(key.encode()) + len(value or b"")
    return pairs or None, nbytes
