"""The engine in Python and pyarrow, which has columns for every record.

While a batch is open its records are in chunks. A full chunk is converted to columns at once: so a
bad row is found early, memory stays small, and sealing is no pause. The columns of a sealed batch
are encoded as one segment, or as several where one would be too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError

from columnar_kafka.columns import kafka_column
from columnar_kafka.producing.engine.base import Batch
from columnar_kafka.producing.engine.record_block import RecordBlock
from columnar_kafka.producing.reporting.outcome import FailedRecord
from columnar_kafka.producing.reporting.report import OneRow

if TYPE_CHECKING:
    from columnar_kafka.columns.from_rows.rows_to_columns import RowColumnsBuilder
    from columnar_kafka.producing.engine.base import Metadata, TopicFormat
    from columnar_kafka.producing.engine.record_block import Block

__all__ = ["PURE", "Chunk", "PureBatch"]


class Chunk:
    """Records of an open batch, until they are columns."""

    def __init__(self, topic_format: TopicFormat, partition: int, accepted_at: float) -> None:
        self._topic = topic_format.topic
        self._partition = partition
        self._accepted_at = accepted_at
        self._builder: RowColumnsBuilder = topic_format.columns.builder()
        self._has_rest = topic_format.has_rest
        self.capacity = self._builder.capacity
        self.records: list[tuple[tuple[Any, ...], Metadata, int, bool]] = []
        """Values, metadata, charged bytes, and whether the user has chosen the partition."""
        self.charged_bytes = 0
        self.block: RecordBlock | None = None
        self._converted = False

    def convert(self) -> list[FailedRecord]:
        """Convert the records to a block, once; return those that cannot be. Raises nothing."""
        if self._converted:
            return []
        self._converted = True
        self.charged_bytes = sum(nbytes for _, _, nbytes, _ in self.records)
        try:
            return self._convert()
        except Exception as error:  # noqa: BLE001 - the records must not go without a report
            reason = KafkaError(KafkaError._VALUE_SERIALIZATION, f"{type(error).__name__}: {error}")
            return [self._failed(None, metadata, reason) for _, metadata, _, _ in self.records]

    def _convert(self) -> list[FailedRecord]:
        for values, *_ in self.records:
            self._builder.append(values)
        columns, refused = self._builder.finish()
        failed = [
            self._failed(row.value, self.records[i][1], row.error.kafka_error)
            for i, row in refused.items()
        ]
        kept = [record for i, record in enumerate(self.records) if i not in refused]
        metadata = [metadata for _, metadata, _, _ in kept]
        keys, timestamps, headers, callbacks, given = (
            zip(*metadata, strict=True) if kept else ((),) * 5
        )
        self.block = RecordBlock(
            columns,
            kafka_column.key_array(keys),
            kafka_column.timestamp_array(timestamps),
            kafka_column.header_array(headers),
            callbacks,
            [pinned for *_, pinned in kept],
            given,
            has_rest=self._has_rest,
        )
        del self._builder, self.records
        return failed

    def _failed(self, value: Any, metadata: Metadata, error: KafkaError) -> FailedRecord:
        key, timestamp, headers, callback, given = metadata
        if value is not None and self._has_rest:
            value.popitem()
        row = OneRow((value if given is None else given, key, timestamp, headers))
        return FailedRecord(self._topic, self._partition, row, error, callback, self._accepted_at)


class _Charged:
    """Stands for `Usage` where records are charged already."""

    def accept(self, items: list[Any], item: Any, nbytes: int, records: int) -> bool:
        items.append(item)
        return False


CHARGED: Final = _Charged()


class PureBatch(Batch):
    """Records as Python objects, and chunk by chunk as columns."""

    rows = 0
    taken_bytes = 0
    is_full = False

    def __init__(self, topic_format: TopicFormat, partition: int, accepted_at: float) -> None:
        super().__init__(topic_format, partition, accepted_at)
        self._max_rows = topic_format.limits.rows
        self._max_bytes = topic_format.limits.batch_bytes
        self._handed = 0
        self.chunks = [Chunk(topic_format, partition, accepted_at)]

    def append(
        self, values: tuple[Any, ...], metadata: Metadata, nbytes: int, usage: Any, *, pinned: bool
    ) -> bool:
        """See `Batch`."""
        chunk = self.chunks[-1]
        self.rows += 1
        self.taken_bytes += nbytes
        self.is_full = self.rows >= self._max_rows or self.taken_bytes >= self._max_bytes
        record = values, metadata, nbytes, pinned
        is_half_used: bool = usage.accept(chunk.records, record, nbytes, 1)  # one step
        if len(chunk.records) < chunk.capacity:
            return self.is_full or is_half_used
        self.chunks.append(Chunk(self.topic_format, self.partition, self.accepted_at))
        return True

    def seal(self) -> None:
        """Do nothing: only `RecordQueue` appends, which has let it go."""

    def full_chunks(self) -> list[Chunk]:
        """See `Batch`."""
        full = self.chunks[self._handed : -1]
        self._handed += len(full)
        return full

    def blocks(self, segmenter: Any) -> list[tuple[Block, int]]:
        """See `Batch`."""
        for chunk in self.chunks:
            segmenter.convert(chunk)
        blocks = [chunk.block for chunk in self.chunks if chunk.block is not None and chunk.block]
        charged_bytes = sum(chunk.charged_bytes for chunk in self.chunks)
        try:
            whole = [RecordBlock.concat(blocks)] if blocks else []
        except Exception as error:  # noqa: BLE001 - the records must not go without a report
            if not isinstance(error, pa.ArrowException):  # unlike too many bytes for one column
                text = "chunks could not be joined, and become segments of their own"
                segmenter.tell_error(text, error)
            return [(block, block.nbytes) for block in blocks]
        return [(block, charged_bytes) for block in whole]


class PureEngine:
    """See `Engine`."""

    habits = None

    def open_batch(
        self, topic_format: TopicFormat, partition: int, accepted_at: float
    ) -> PureBatch:
        """See `Engine`."""
        return PureBatch(topic_format, partition, accepted_at)


PURE: Final = PureEngine()
