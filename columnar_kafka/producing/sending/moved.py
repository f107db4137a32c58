"""Records whose partition does not exist any more, on their way to another one.

A topic may be deleted and made again with fewer partitions. librdkafka then refuses what is for the
others. It chooses anew where it has chosen, and so does this; where the user has, the record fails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.producing.accepting.item import Item
from columnar_kafka.producing.sending.arrow_batch import rows_by_partition
from columnar_kafka.producing.sending.messages import EncodedSegment
from columnar_kafka.schema import KAFKA_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError

    from columnar_kafka.producing.engine.base import TopicFormat
    from columnar_kafka.producing.engine.record_block import RecordBlock
    from columnar_kafka.producing.partitioner import Partitioner
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall
    from columnar_kafka.producing.reporting.outcome import Outcome

__all__ = ["MovedRecords"]


@dataclass(slots=True, eq=False)
class MovedRecords(Item):
    """Records of a segment that was refused. Each owner in turn: sender, accumulator, sender."""

    topic_format: TopicFormat
    partition: int
    block: RecordBlock
    call: ArrowCall | None
    accepted_at: float
    charged_bytes: int

    @classmethod
    def of(cls, segment: EncodedSegment) -> MovedRecords:
        """Return a segment's records.

        Raises:
            Exception: they cannot be read back.
        """
        return cls(
            segment.topic_format,
            segment.partition,
            segment.block.in_arrow(partial(_read, segment)),
            segment.call,
            segment.accepted_at,
            segment.charged_bytes,
        )

    # --- on their way ---------------------------------------------------------------------------

    def place(self, accumulator: Any) -> None:
        """See `Item`: before the open batches there."""
        parts = self.split(accumulator.partitioner, accumulator.partitions(self.topic))
        accumulator.sealed.extend(parts)

    def blocks(self, segmenter: Any) -> list[tuple[RecordBlock, int]]:
        """See `Batch`."""
        return [(self.block, self.charged_bytes)]

    def outcome(self, error: KafkaError) -> Outcome:
        """See `Item`."""
        return self.unencoded().outcome(error)

    def unpinned(self) -> tuple[MovedRecords | None, MovedRecords | None]:
        """Return those that may go anywhere, and those for which the user has chosen."""
        pinned = [row for row in range(len(self.block)) if self.block.is_pinned(row)]
        if not pinned:
            return self, None
        if len(pinned) == len(self.block):
            return None, self
        others = sorted(set(range(len(self.block))).difference(pinned))
        stay = self._take(pinned, self.charged_bytes * len(pinned) // len(self.block))
        return self._take(others, self.charged_bytes - stay.charged_bytes), stay

    def split(self, partitioner: Partitioner, partitions: int) -> list[MovedRecords]:
        """Return the records by the partitions where they go now."""
        parts, start = [], 0
        for partition, rows in rows_by_partition(self.block.keys, partitioner, partitions):
            stop = start + len(rows)
            share = self.charged_bytes * stop // len(self.block)
            share -= self.charged_bytes * start // len(self.block)
            parts.append(replace(self._take(rows.to_pylist(), share), partition=partition))
            start = stop
        return parts

    def _take(self, rows: Sequence[int], charged_bytes: int) -> MovedRecords:
        return replace(self, block=self.block.take(rows), charged_bytes=charged_bytes)

    def unencoded(self) -> EncodedSegment:
        """Return them as they are reported without having been encoded again."""
        return EncodedSegment(
            topic_format=self.topic_format,
            partition=self.partition,
            block=self.block,
            accepted_at=self.accepted_at,
            charged_bytes=self.charged_bytes,
            call=self.call,
        )


def _read(segment: EncodedSegment) -> pa.RecordBatch:
    """Return the columns of a segment as they were produced."""
    table = segment.read().to_table()
    if KAFKA_COLUMN in table.column_names:
        table = table.drop_columns([KAFKA_COLUMN])
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=segment.topic_format.records.arrow)
