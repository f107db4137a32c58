"""A batch: records of one topic-partition that become a segment together.

While a batch is open its records are in chunks. A full chunk is converted to columns at once: so a
bad row is found early, memory stays small, and sealing is no pause. The columns of a sealed batch
are encoded as one segment, or as several where one would be too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from columnar_kafka import position
from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.kafka_column import RecordHeaders
from columnar_kafka.producing.engine.record_block import RecordBlock
from columnar_kafka.producing.reporting.report import Callback, FailedRecord, OneRow

if TYPE_CHECKING:
    from columnar_kafka.columns.from_rows.rows_to_columns import RowColumnsBuilder
    from columnar_kafka.producing.topic_formats import TopicFormat

__all__ = ["AcceptedRecord", "Batch", "Chunk", "Metadata"]

Metadata = tuple[bytes | None, int, RecordHeaders | None, Callback]
"""A record's key, timestamp, headers and callback."""

AcceptedRecord = tuple["TopicFormat", int, tuple[Any, ...], Metadata, int, float]
"""A record's format, partition (or -1), values, metadata, charged bytes, and when it was accepted.

A plain tuple, for one is made for each record.
"""


class Chunk:
    """Records of an open batch, until they are columns."""

    def __init__(self, topic_format: TopicFormat, partition: int, accepted_at: float) -> None:
        self._topic = topic_format.topic
        self._partition = partition
        self._accepted_at = accepted_at
        self._builder: RowColumnsBuilder = topic_format.columns.builder()
        self.capacity = self._builder.capacity
        self.records: list[tuple[tuple[Any, ...], Metadata]] = []
        self.pinned: list[bool] = []  # for which the user has chosen the partition
        self.charged_bytes = 0
        self.block: RecordBlock | None = None
        self._converted = False

    def convert(self) -> list[FailedRecord]:
        """Convert the records to a block, once; return those that cannot be. Raises nothing."""
        if self._converted:
            return []
        self._converted = True
        try:
            return self._convert()
        except Exception as error:  # noqa: BLE001 - the records must not go without a report
            reason = KafkaError(KafkaError._VALUE_SERIALIZATION, f"{type(error).__name__}: {error}")
            return [self._failed(None, metadata, reason) for _, metadata in self.records]

    def _convert(self) -> list[FailedRecord]:
        for values, _ in self.records:
            self._builder.append(values)
        columns, refused = self._builder.finish()
        all_metadata = [metadata for _, metadata in self.records]
        failed = [
            self._failed(row.value, all_metadata[i], row.error.kafka_error)
            for i, row in refused.items()
        ]
        kept = [metadata for i, metadata in enumerate(all_metadata) if i not in refused]
        pinned = [pinned for i, pinned in enumerate(self.pinned) if i not in refused]
        keys, timestamps, headers, callbacks = zip(*kept, strict=True) if kept else ((),) * 4
        self.block = RecordBlock(
            columns,
            kafka_column.key_array(keys),
            kafka_column.timestamp_array(timestamps),
            kafka_column.header_array(headers),
            callbacks,
            pinned,
        )
        del self._builder, self.records, self.pinned
        return failed

    def _failed(self, value: Any, metadata: Metadata, error: KafkaError) -> FailedRecord:
        *parts, callback = metadata
        row = OneRow((value, *parts))
        return FailedRecord(self._topic, self._partition, row, error, callback, self._accepted_at)


class Batch:
    """Records of one topic-partition. The sender's thread's."""

    def __init__(
        self, topic_format: TopicFormat, partition: int, accepted_at: float, *, max_bytes: float
    ) -> None:
        """Begin a batch with a record that was accepted then; seal it at `max_bytes`.

        They are measured as by `RowColumns.take`.
        """
        self.topic_format = topic_format
        self.partition = partition
        self.accepted_at = accepted_at
        self.rows = 0
        self.taken_bytes = 0
        self.max_bytes = max_bytes
        self.chunks = [Chunk(topic_format, partition, accepted_at)]

    def __repr__(self) -> str:
        where = position.partition_address(self.topic_format.topic, self.partition)
        return f"<Batch {where}: {self.rows} rows, {self.taken_bytes} bytes>"

    @property
    def is_full(self) -> bool:
        """Whether it is to be sealed."""
        return self.rows >= self.topic_format.limits.rows or self.taken_bytes >= self.max_bytes

    def seal(self) -> None:
        """Do nothing: only its owner appends."""

    def append(
        self, values: tuple[Any, ...], metadata: Metadata, nbytes: int, *, pinned: bool
    ) -> Chunk | None:
        """Add one record; return the chunk that it filled, to be converted.

        `pinned`: the user has chosen its partition.
        """
        chunk = self.chunks[-1]
        chunk.records.append((values, metadata))
        chunk.pinned.append(pinned)
        chunk.charged_bytes += nbytes
        self.rows += 1
        self.taken_bytes += nbytes
        if len(chunk.records) < chunk.capacity:
            return None
        self.chunks.append(Chunk(self.topic_format, self.partition, self.accepted_at))
        return chunk
