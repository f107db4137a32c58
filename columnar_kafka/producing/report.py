"""Delivery reports: the messages passed to callbacks, for a record or a `produce_arrow`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError

from columnar_kafka import position
from columnar_kafka.message import Message, or_unset

if TYPE_CHECKING:
    from collections.abc import Callable

    import confluent_kafka

    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = [
    "ArrowReport",
    "OneRow",
    "Report",
    "Rows",
    "reports",
]


class CallResult(Protocol):
    """The result of one `produce_arrow`."""

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


class _CallResult(NamedTuple):
    topic: str | None
    partition: int
    offset: int | None
    error: KafkaError | None
    records: int
    failed: int


class ArrowReport(Message):
    """The delivery report of one `produce_arrow`, with the position of its last stored record.

    `value`, `key` and `headers` are None. If `error` is set, `failed` of the `records` were not
    stored; it is the first error of any of them.
    """

    def __init__(self, result: CallResult) -> None:
        super().__init__(
            topic=result.topic,
            partition=result.partition,
            offset=-1001 if result.offset is None else result.offset,
            error=result.error,
        )
        self.records = result.records
        self.failed = result.failed

    def __reduce__(self) -> tuple[Any, ...]:
        offset = self.offset()
        partition = or_unset(self.partition())
        parts = (self.topic(), partition, offset, self.error(), self.records, self.failed)
        return ArrowReport, (_CallResult(*parts),)


class Rows(Protocol):
    """The source from which reports read a segment's records when they are asked for them."""

    def value(self, row: int) -> Any:
        """Return a record as it was produced."""
        ...

    def key(self, row: int) -> bytes | None:
        """Return a record's key."""
        ...

    def headers(self, row: int) -> RecordHeaders | None:
        """Return a record's headers."""
        ...

    def timestamp(self, row: int) -> int:
        """Return a record's time in milliseconds."""
        ...


@dataclass(frozen=True, slots=True)
class OneRow:
    """Value, key, timestamp and headers of one record, for a report without columns to read."""

    parts: tuple[Any, bytes | None, int, RecordHeaders | None]

    def value(self, row: int) -> Any:
        """Return the record's value."""
        return self.parts[0]

    def key(self, row: int) -> bytes | None:
        """Return the record's key."""
        return self.parts[1]

    def timestamp(self, row: int) -> int:
        """Return the record's time."""
        return self.parts[2]

    def headers(self, row: int) -> RecordHeaders | None:
        """Return the record's headers."""
        return self.parts[3]


class Report(Message):
    """A record's delivery report. It reads value, key, time and headers from the columns."""

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
        """Return the record's time, or the broker's if the topic has LogAppendTime."""
        return self._appended or (TIMESTAMP_CREATE_TIME, self._source.timestamp(self._index))

    def set_value(self, value: Any) -> None:
        """Replace the report's value."""
        self._replace(0, value)

    def set_key(self, key: Any) -> None:
        """Replace the report's key."""
        self._replace(1, key)

    def set_headers(self, headers: Any) -> None:
        """Replace the report's headers."""
        self._replace(3, headers)

    def _replace(self, part: int, by: Any) -> None:
        parts = self._parts()
        self._source, self._index = OneRow((*parts[:part], by, *parts[part + 1 :])), 0

    def _parts(self) -> tuple[Any, bytes | None, int, RecordHeaders | None]:
        row = self._index
        source = self._source
        return source.value(row), source.key(row), source.timestamp(row), source.headers(row)

    def __len__(self) -> int:
        """Return the length of the value: the number of a record's fields."""
        return len(self.value() or b"")

    def __reduce__(self) -> tuple[Any, ...]:
        offset = self.offset()
        arguments = {
            "topic": self.topic(),
            "partition": or_unset(self.partition()),
            "offset": -1001 if offset is None else offset,
            "error": self.error(),
            "latency": or_unset(self.latency()),
            "leader_epoch": or_unset(self.leader_epoch()),
        }
        return _rebuild, (arguments, self._parts(), self._rows, self._appended)


def _rebuild(
    arguments: dict[str, Any], parts: Any, rows: int, appended: tuple[int, int] | None
) -> Report:
    """Unpickle a report, without its neighbours' columns."""
    report = Report(**arguments)
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
    """Return the function that makes the reports of the `count` records of a segment.

    Its argument is the record's row. `offset` is the segment's, None if it was not stored.
    `latency`, in seconds, is used if librdkafka has not acknowledged the segment.
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
