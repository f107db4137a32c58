"""Batches that the native core fills, and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from columnar_kafka import native

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import RecordHeaders
    from columnar_kafka.native import _core as core
    from columnar_kafka.producing.report import ReportContext
    from columnar_kafka.producing.topic_format import TopicFormat

__all__ = ["NativeBatch", "NativeBlock"]

_REPORT_ROWS: Final = 64


class NativeBatch:
    """Records of one topic-partition. It fills while the accumulator has it, until it is sealed."""

    __slots__ = ("accepted_at", "block", "partition", "records", "topic_format")

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
        """Take no more records from now on."""
        self.block = NativeBlock(self.records.seal())


class NativeBlock:
    """The records of a sealed batch, or some of them. See `RecordBlock`."""

    __slots__ = ("_records", "_window", "is_silent")

    def __init__(self, records: core.Block) -> None:
        self._records = records
        self._window: tuple[int, list[dict[str, Any]]] | None = None
        self.is_silent = records.is_silent

    def __len__(self) -> int:
        return len(self._records)

    def slice(self, start: int, stop: int) -> NativeBlock:
        """Return the records from `start` to `stop`, not copied."""
        return NativeBlock(self._records.slice(start, stop))

    def value(self, row: int) -> dict[str, Any]:
        """Return one record as a dict; neighbours are read along with it."""
        window = self._window
        start = row - row % _REPORT_ROWS
        if window is None or window[0] != start:
            rows = self._records.values(start, min(start + _REPORT_ROWS, len(self)))
            self._window = window = (start, rows)
        return window[1][row - start]

    def key(self, row: int) -> bytes | None:
        """Return one record's key."""
        return self._records.key(row)

    def timestamp(self, row: int) -> int:
        """Return one record's time in milliseconds."""
        return self._records.timestamp(row)

    def headers(self, row: int) -> RecordHeaders | None:
        """Return one record's headers."""
        return self._records.headers(row)

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
