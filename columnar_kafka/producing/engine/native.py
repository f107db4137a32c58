"""The engine in the native core: batches that it fills, and their records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from columnar_kafka import native
from columnar_kafka.columns import kafka_column
from columnar_kafka.producing.engine.base import Batch
from columnar_kafka.producing.engine.pure import PURE
from columnar_kafka.producing.engine.record_block import RecordBlock, Windows
from columnar_kafka.producing.reporting.outcome import Outcome
from columnar_kafka.producing.reporting.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import KafkaColumn, RecordHeaders
    from columnar_kafka.native import _core as core
    from columnar_kafka.producing.engine.base import Metadata, TopicFormat
    from columnar_kafka.producing.reporting.report import Callback, ReportContext
    from columnar_kafka.segment.encoder import ParquetEncoder

__all__ = ["NativeBatch", "NativeBlock", "NativeEngine"]


class NativeBatch(Batch):
    """Records as the core's columns. The core appends most of them by itself: see `OpenBatches`."""

    def __init__(
        self,
        topic_format: TopicFormat,
        partition: int,
        accepted_at: float,
        row_format: core.RowFormat,
        encoder: core.Encoder,
    ) -> None:
        super().__init__(topic_format, partition, accepted_at)
        limits = topic_format.limits
        self.core: core.Batch = native.core.Batch(
            row_format,
            limits.rows,
            int(limits.batch_bytes),
            longest_value=limits.most,
            kept_value=limits.kept_bytes,
        )
        self._encoder = encoder
        self._sealed: core.Block | None = None

    @property
    def rows(self) -> int:
        """See `Batch`."""
        return len(self.core if self._sealed is None else self._sealed)

    @property
    def taken_bytes(self) -> int:
        """See `Batch`."""
        return self.core.nbytes

    @property
    def is_full(self) -> bool:
        """See `Batch`."""
        return self.core.is_full

    def append(
        self, values: tuple[Any, ...], metadata: Metadata, nbytes: int, usage: Any, *, pinned: bool
    ) -> bool | None:
        """See `Batch`."""
        was_half_used = usage.is_half_used
        key, timestamp, headers, callback, given = metadata
        if not self.core.append(values, key, timestamp, headers, callback, usage, pinned, given):
            return None
        return self.core.is_full or (usage.is_half_used and not was_half_used)

    def seal(self) -> None:
        """See `Batch`."""
        if self._sealed is None:
            self._sealed = self.core.seal()

    def full_chunks(self) -> list[Any]:
        """See `Batch`: its records are columns already."""
        return []

    def blocks(self, segmenter: Any) -> list[tuple[NativeBlock, int]]:
        """See `Batch`."""
        if not self._sealed:
            return []
        return [(NativeBlock(self._sealed, self._encoder), self.core.nbytes)]


class NativeBlock:
    """The records of a sealed batch, or some of them. See `RecordBlock`."""

    __slots__ = ("_encoder", "_has_given", "_headers", "_records", "_values", "is_silent")

    def __init__(self, records: core.Block, encoder: core.Encoder) -> None:
        self._records = records
        self._encoder = encoder
        self._values: Windows[dict[str, Any]] | None = None
        self._headers: Windows[RecordHeaders | None] | None = None
        self._has_given = records.has_given
        self.is_silent = records.is_silent

    def __len__(self) -> int:
        return len(self._records)

    def slice(self, start: int, stop: int) -> NativeBlock:
        """Return the records from `start` to `stop`, not copied."""
        return NativeBlock(self._records.slice(start, stop), self._encoder)

    def given(self, row: int) -> bytes | None:
        """See `Block.given`."""
        return self._records.given(row) if self._has_given else None

    def value(self, row: int) -> dict[str, Any] | bytes:
        """See `Block.value`; neighbours are read along with it."""
        if self._has_given and (given := self._records.given(row)) is not None:
            return given
        if self._values is None:  # mostly nobody asks
            self._values = Windows(self._records.values)
        return self._values.get(row, len(self))

    def key(self, row: int) -> bytes | None:
        """Return one record's key."""
        return self._records.key(row)

    def timestamp(self, row: int) -> int:
        """Return one record's time in milliseconds."""
        return self._records.timestamp(row)

    def headers(self, row: int) -> RecordHeaders | None:
        """Return one record's headers; neighbours are read along with them."""
        if self._headers is None:
            self._headers = Windows(self._records.headers)
        return self._headers.get(row, len(self))

    def callback(self, row: int) -> Callback:
        """Return one record's callback."""
        return self._records.callback(row)

    def is_pinned(self, row: int) -> bool:
        """See `Block.is_pinned`."""
        return self._records.is_pinned(row)

    def is_decodable(self) -> bool:
        """See `Block.is_decodable`."""
        return self._records.is_decodable()

    def time_bounds(self) -> tuple[int, int]:
        """Return the earliest and the latest time of a record, in milliseconds."""
        return self._records.time_bounds()

    def encode(
        self, kafka: KafkaColumn, encoder: ParquetEncoder, segment: str, footer: dict[str, bytes]
    ) -> bytes:
        """See `Block.encode`."""
        return self._encoder.encode(self._records, segment, footer)

    def in_arrow(self, read: Callable[[], pa.RecordBatch]) -> RecordBlock:
        """See `Block.in_arrow`: the core has no rows that can be reordered, but their segment."""
        rows = range(len(self))
        return RecordBlock(
            read(),
            kafka_column.key_array(list(map(self.key, rows))),
            kafka_column.timestamp_array(list(map(self.timestamp, rows))),
            kafka_column.header_array(list(map(self.headers, rows))),
            list(map(self.callback, rows)),
            list(map(self.is_pinned, rows)),
            list(map(self.given, rows)),
            has_rest=self._records.has_rest,
        )

    def outcome(
        self, context: ReportContext, error: KafkaError | None, charged_bytes: int
    ) -> Outcome:
        """See `Block.outcome`: the core runs the reports."""
        reports = native.core.Reports(self._records, Report, context, error)
        return _NativeOutcome(reports, len(self), charged_bytes, error)


class _NativeOutcome(Outcome):
    """The records of a segment, whose reports the core runs."""

    def __init__(
        self, reports: core.Reports, count: int, charged_bytes: int, error: KafkaError | None
    ) -> None:
        super().__init__(count, charged_bytes, error)
        self._reports = reports

    def run(self, abandoned: core.Abandoned, *, quiet: bool) -> None:
        if quiet:
            self._reports.reported = self.reports
        self._reports.run(abandoned)

    @property
    def reported(self) -> int:
        return self._reports.reported

    @reported.setter
    def reported(self, count: int) -> None:
        self._reports.reported = count


class NativeEngine:
    """See `Engine`. A batch is Python's where the core has panicked on the topic's records."""

    def __init__(self, row_format: core.RowFormat, encoder: core.Encoder) -> None:
        self.habits = row_format
        self._row_format = row_format
        self._encoder = encoder

    def open_batch(self, topic_format: TopicFormat, partition: int, accepted_at: float) -> Batch:
        """See `Engine`."""
        if self._row_format.is_given_up:
            return PURE.open_batch(topic_format, partition, accepted_at)
        return NativeBatch(topic_format, partition, accepted_at, self._row_format, self._encoder)
