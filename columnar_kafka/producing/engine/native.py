"""Batches that the native core fills, and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from columnar_kafka import native

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import RecordHeaders
    from columnar_kafka.native import _core as core
    from columnar_kafka.producing.reporting.report import Callback, ReportContext
    from columnar_kafka.producing.topic_formats import TopicFormat

__all__ = ["NativeBatch", "NativeBlock"]

_REPORT_ROWS: Final = 64

T = TypeVar("T")


class NativeBatch:
    """Records of one topic-partition. It fills while the accumulator has it, until it is sealed."""

    __slots__ = ("_sealed", "accepted_at", "block", "partition", "records", "topic_format")

    def __init__(
        self, topic_format: TopicFormat, partition: int, accepted_at: float, *, max_bytes: float
    ) -> None:
        """See `Batch`."""
        assert topic_format.row_format is not None
        rows, nbytes = topic_format.limits.rows, int(max_bytes)
        self.topic_format = topic_format
        self.partition = partition
        self.accepted_at = accepted_at
        self.records = native.core.Batch(topic_format.row_format, rows, nbytes)
        self._sealed: core.Block | None = None
        self.block: NativeBlock | None = None

    @property
    def topic(self) -> str:
        """Its topic."""
        return self.topic_format.topic

    @property
    def rows(self) -> int:
        """How many records it has."""
        return len(self.records if self.block is None else self.block)

    @property
    def taken_bytes(self) -> int:
        """What they take in memory, as it was charged."""
        return self.records.nbytes

    @property
    def is_full(self) -> bool:
        """Whether it takes no more records."""
        return self.records.is_full

    def seal(self) -> None:
        """Take no more records from now on. What fails may be tried again."""
        if self._sealed is None:
            self._sealed = self.records.seal()
        self.block = NativeBlock(self._sealed)


class _Windows(Generic[T]):
    """Reads what reports ask for, some neighbouring rows at a time: finding a row takes long."""

    __slots__ = ("_last", "_read")

    def __init__(self, read: Callable[[int, int], list[T]]) -> None:
        self._read = read
        self._last: tuple[int, list[T]] | None = None

    def get(self, row: int, rows: int) -> T:
        """Return what one of so many rows has."""
        last, start = self._last, row - row % _REPORT_ROWS
        if last is None or last[0] != start:
            self._last = last = (start, self._read(start, min(start + _REPORT_ROWS, rows)))
        return last[1][row - start]


class NativeBlock:
    """The records of a sealed batch, or some of them. See `RecordBlock`."""

    __slots__ = ("_headers", "_records", "_values", "is_silent")

    def __init__(self, records: core.Block) -> None:
        self._records = records
        self._values = _Windows[dict[str, Any]](records.values)
        self._headers = _Windows["RecordHeaders | None"](records.headers)
        self.is_silent = records.is_silent

    def __len__(self) -> int:
        return len(self._records)

    def slice(self, start: int, stop: int) -> NativeBlock:
        """Return the records from `start` to `stop`, not copied."""
        return NativeBlock(self._records.slice(start, stop))

    def value(self, row: int) -> dict[str, Any]:
        """Return one record as a dict; neighbours are read along with it."""
        return self._values.get(row, len(self))

    def key(self, row: int) -> bytes | None:
        """Return one record's key."""
        return self._records.key(row)

    def timestamp(self, row: int) -> int:
        """Return one record's time in milliseconds."""
        return self._records.timestamp(row)

    def headers(self, row: int) -> RecordHeaders | None:
        """Return one record's headers; neighbours are read along with them."""
        return self._headers.get(row, len(self))

    def callback(self, row: int) -> Callback:
        """Return one record's callback."""
        return self._records.callback(row)

    def is_pinned(self, row: int) -> bool:
        """See `Block.is_pinned`."""
        return self._records.is_pinned(row)

    def reports(
        self, message: type, context: ReportContext, error: KafkaError | None
    ) -> core.Reports:
        """Return what runs the records' reports, each with `error` and a `message` of `context`."""
        return native.core.Reports(self._records, message, context, error)

    def is_decodable(self) -> bool:
        """See `Block.is_decodable`."""
        return self._records.is_decodable()

    def time_bounds(self) -> tuple[int, int]:
        """Return the earliest and the latest time of a record, in milliseconds."""
        return self._records.time_bounds()

    def encode(self, topic_format: TopicFormat, segment: str, footer: dict[str, bytes]) -> bytes:
        """See `Block.encode`."""
        assert topic_format.native_encoder is not None
        return topic_format.native_encoder.encode(self._records, segment, footer)
