"""Arrow data on its way to segments: the rows of one `produce_arrow` call for one partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.arrow_input import ArrowRows
from columnar_kafka.producing.batch import AcceptedRecord
from columnar_kafka.producing.in_flight import PlainMessage
from columnar_kafka.producing.native_batch import NativeBatch
from columnar_kafka.producing.record_block import RecordBlock
from columnar_kafka.producing.topic_format import TopicFormat

if TYPE_CHECKING:
    from columnar_kafka.producing.in_flight import ArrowCall
    from columnar_kafka.producing.partitioner import Partitioner

__all__ = ["ArrowBatch", "Item", "Unplaced"]


@dataclass(slots=True, eq=False)
class ArrowBatch:
    """Rows that are columns already. Each owner in turn: the caller, accumulator, sender."""

    topic_format: TopicFormat
    partition: int
    rows: ArrowRows
    call: ArrowCall
    accepted_at: float
    charged_bytes: int

    @property
    def topic(self) -> str:
        """The topic they go to."""
        return self.topic_format.topic

    def __len__(self) -> int:
        count: int = self.rows.columns.num_rows
        return count

    def split(self, partitioner: Partitioner, partitions: int) -> list[ArrowBatch]:
        """Return the rows by partition, in order; those that may go anywhere stay together."""
        if self.partition >= 0:
            return [self]
        keys = pc.dictionary_encode(self.rows.keys).combine_chunks()
        anywhere = partitioner.any(partitions)
        chosen = [
            anywhere if found is None else found
            for key in [*keys.dictionary.to_pylist(), None]
            for found in [partitioner.choose(key, partitions)]
        ]
        where = pc.take(pa.array(chosen), keys.indices.fill_null(len(chosen) - 1))
        found = where.unique().to_pylist()
        if len(found) == 1:
            self.partition = found[0]
            return [self]
        order = pc.sort_indices(where)  # stable
        parts, start = [], 0
        counts = pc.value_counts(where.take(order)).to_pylist()
        for partition, count in ((each["values"], each["counts"]) for each in counts):
            stop = start + count
            charged = self.charged_bytes * stop // len(self)
            charged -= self.charged_bytes * start // len(self)
            mine = order.slice(start, count)
            rows = ArrowRows._make(each.take(mine) for each in self.rows)
            parts.append(replace(self, partition=partition, rows=rows, charged_bytes=charged))
            start = stop
        return parts

    def pop(self, count: int) -> tuple[RecordBlock, int]:
        """Take the first `count` rows out, or fewer; return them and their share of the charge."""
        columns = self.rows.columns.slice(0, count).combine_chunks().to_batches()[0]
        count = len(columns)
        keys, times, headers = (each.slice(0, count).combine_chunks() for each in self.rows[1:])
        charged_bytes = self.charged_bytes * count // len(self)
        self.charged_bytes -= charged_bytes
        self.rows = ArrowRows._make(each.slice(count) for each in self.rows)
        return RecordBlock(columns, keys, times, headers, ()), charged_bytes


Unplaced = AcceptedRecord | PlainMessage | ArrowBatch
"""What is accepted, and has no partition yet."""
Item = Unplaced | NativeBatch | TopicFormat
"""What comes in, in that order: batches that go on filling, and a topic's new format too."""
