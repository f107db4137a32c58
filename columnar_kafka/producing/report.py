"""Delivery reports: the messages that callbacks get, one for each record or `produce_arrow`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError

from columnar_kafka import position
from columnar_kafka.message import Message, or_unset

if TYPE_CHECKING:
    from collections.abc import Callable

    import confluent_kafka

    from columnar_kafka.columns.kafka_column import Headers

__all__ = [
    "ArrowReport",
    "OneRow",
    "Report",
    "Rows",
    "reports",
]


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
        partition = or_unset(self.partition())
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
            "partition": or_unset(self.partition()),
            "offset": -1001 if offset is None else offset,
            "error": self.error(),
            "latency": or_unset(self.latency()),
            "leader_epoch": or_unset(self.leader_epoch()),
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
    latency = or_unset(latency if acknowledged is None else acknowledged.latency())
    epoch = or_unset(None if acknowledged is None else acknowledged.leader_epoch())
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
