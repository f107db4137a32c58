"""Records whose partition does not exist any more, on their way to another one.

A topic may be deleted and made again with fewer partitions. librdkafka then refuses what is for the
others. It chooses anew where it has chosen, and so does this; where the user has, the record fails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from columnar_kafka.columns import kafka_column
from columnar_kafka.producing.engine.record_block import RecordBlock
from columnar_kafka.producing.sending.arrow_batch import rows_by_partition
from columnar_kafka.producing.sending.messages import EncodedSegment
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.producing.partitioner import Partitioner
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall
    from columnar_kafka.producing.topic_formats import TopicFormat

__all__ = ["MovedRecords"]


@dataclass(slots=True, eq=False)
class MovedRecords:
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
            _block(segment),
            segment.call,
            segment.accepted_at,
            segment.charged_bytes,
        )

    @property
    def topic(self) -> str:
        """The topic they go to."""
        return self.topic_format.topic

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
        found, start = [], 0
        for partition, rows in rows_by_partition(self.block.keys, partitioner, partitions):
            stop = start + len(rows)
            share = self.charged_bytes * stop // len(self.block)
            share -= self.charged_bytes * start // len(self.block)
            found.append(replace(self._take(rows.to_pylist(), share), partition=partition))
            start = stop
        return found

    def _take(self, rows: Sequence[int], charged_bytes: int) -> MovedRecords:
        return replace(self, block=self.block.take(rows), charged_bytes=charged_bytes)

    def unencoded(self) -> EncodedSegment:
        """Return them as they are reported without having been encoded again."""
        return EncodedSegment(
            topic_format=self.topic_format,
            partition=self.partition,
            block=self.block,
            headers=None,
            latest=0,
            data=b"",
            accepted_at=self.accepted_at,
            charged_bytes=self.charged_bytes,
            call=self.call,
        )


def _block(segment: EncodedSegment) -> RecordBlock:
    block = segment.block
    if isinstance(block, RecordBlock):
        return block
    assert segment.headers is not None
    # The core has no rows that can be reordered, but the file that it has written.
    read = Segment(
        topic=segment.topic,
        partition=segment.partition,
        offset=0,
        headers=list(segment.headers.items()),
        value=segment.data,
    )
    table = read.to_table()
    if KAFKA_COLUMN in table.column_names:
        table = table.drop_columns([KAFKA_COLUMN])
    columns = [column.combine_chunks() for column in table.columns]
    rows = range(len(block))
    return RecordBlock(
        pa.RecordBatch.from_arrays(columns, schema=segment.topic_format.records.arrow),
        kafka_column.key_array(list(map(block.key, rows))),
        kafka_column.timestamp_array(list(map(block.timestamp, rows))),
        kafka_column.header_array(list(map(block.headers, rows))),
        list(map(block.callback, rows)),
        list(map(block.is_pinned, rows)),
    )
