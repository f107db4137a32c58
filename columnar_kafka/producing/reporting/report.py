"""Delivery reports: the messages passed to callbacks, for a record or a `produce_arrow`.

`outcome` makes them of what became of a block of records, and calls the callbacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError

from columnar_kafka import position
from columnar_kafka.message import Message, SegmentMessage, or_unset

if TYPE_CHECKING:
    import confluent_kafka

    from columnar_kafka.columns.kafka_column import RecordHeaders

__all__ = [
    "ArrowReport",
    "Callback",
    "OneRow",
    "Report",
    "ReportContext",
    "Rows",
    "report",
    "report_context",
]

Callback = Callable[[KafkaError | None, Any], Any] | None


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


class OneRow(NamedTuple):
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


class ReportContext(NamedTuple):
    """What the reports of one segment's records have in common.

    `first` is the first record's position, None if the segment was not stored. `latency` is in
    seconds. `append_time` is the broker's whole timestamp, where the topic takes that.
    """

    topic: str | None
    partition: int
    first: int | None
    rows: int
    error: KafkaError | None
    latency: float | None
    leader_epoch: int | None
    append_time: tuple[int, int] | None
    source: Rows


class Report(SegmentMessage):
    """A record's delivery report. It reads value, key, time and headers from the columns.

    The native core makes reports too, without calling anything of theirs: it sets the two slots.
    """

    __slots__ = ("_index",)
    _context: ReportContext
    _index: int

    def offset(self) -> int | None:
        """Return the record's position, or None if it was not stored."""
        first = self._context.first
        return None if first is None else first + self._index

    def latency(self) -> float | None:
        """Return the seconds from `produce` to the acknowledgement of the segment."""
        return self._context.latency

    def value(self) -> Any:
        """Return the record as it was produced."""
        return self._context.source.value(self._index)

    def key(self) -> bytes | None:
        """Return the record's key."""
        return self._context.source.key(self._index)

    def headers(self) -> Any:
        """Return the record's headers, or None."""
        return self._context.source.headers(self._index)

    def timestamp(self) -> tuple[int, int]:
        """Return the record's time, or the broker's if the topic has LogAppendTime."""
        context = self._context
        stamp = context.append_time
        return stamp or (TIMESTAMP_CREATE_TIME, context.source.timestamp(self._index))

    def set_value(self, value: Any) -> None:
        """Replace the value that is shown."""
        self._show(0, value)

    def set_key(self, value: Any) -> None:
        """Replace the key that is shown."""
        self._show(1, value)

    def set_headers(self, value: Any) -> None:
        """Replace the headers that are shown."""
        self._show(3, value)

    def _show(self, part: int, value: Any) -> None:
        parts = [*self._parts()]
        parts[part] = value
        self._context = self._context._replace(source=OneRow(tuple(parts)))

    def _parts(self) -> tuple[Any, bytes | None, int, RecordHeaders | None]:
        source, row = self._context.source, self._index
        return source.value(row), source.key(row), source.timestamp(row), source.headers(row)

    def __len__(self) -> int:
        """Return the length of the value: the number of a record's fields."""
        return len(self.value() or b"")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle one record, without its neighbours' columns."""
        context = self._context._replace(source=OneRow(self._parts()))
        return report, (context, self._index)


def report(context: ReportContext, index: int) -> Report:
    """Return the report of the record with this index in its segment."""
    message = Report.__new__(Report)
    message._context, message._index = context, index  # noqa: SLF001 - without __init__
    return message


def report_context(
    source: Rows,
    *,
    topic: str,
    partition: int,
    offset: int | None,
    count: int,
    error: KafkaError | None,
    acknowledged: confluent_kafka.Message | None,
    latency: float | None = None,
) -> ReportContext:
    """Return what the reports of the `count` records of a segment have in common.

    `offset` is the segment's, None if it was not stored. `latency`, in seconds, is used if
    librdkafka has not acknowledged the segment.
    """
    stamp = None if acknowledged is None or error is not None else acknowledged.timestamp()
    return ReportContext(
        topic=topic,
        partition=partition,
        # A report without an offset has no position.
        first=None if offset is None else position.pack(offset, 0, count),
        rows=count,
        error=error,
        # A message without a value is false.
        latency=latency if acknowledged is None else acknowledged.latency(),
        leader_epoch=None if acknowledged is None else acknowledged.leader_epoch(),
        append_time=stamp if stamp and stamp[0] == TIMESTAMP_LOG_APPEND_TIME else None,
        source=source,
    )
