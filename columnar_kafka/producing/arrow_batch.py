"""Arrow data on its way to segments: the rows of one `produce_arrow` call for one partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from columnar_kafka.columns.arrow_input import ArrowRows
from columnar_kafka.producing.batch import PlainMessage, Record
from columnar_kafka.producing.record_block import RecordBlock
from columnar_kafka.producing.topic_format import TopicFormat

if TYPE_CHECKING:
    from columnar_kafka.producing.batch import ArrowCall
    from columnar_kafka.producing.partitioner import Partitioner

__all__ = ["ArrowBatch", "Item", "Unplaced"]


@dataclass(slots=True, eq=False)
class ArrowBatch:
    """Rows that are columns already. Each owner in turn: the caller, accumulator, sender."""

    form: TopicFormat
    partition: int
    rows: ArrowRows
    call: ArrowCall
    since: float
    charge: int

    @property
    def topic(self) -> str:
        """The topic they go to."""
        return self.form.topic

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
            charge = self.charge * (start + count) // len(self) - self.charge * start // len(self)
            mine = order.slice(start, count)
            part = ArrowRows._make(each.take(mine) for each in self.rows)
            parts.append(ArrowBatch(self.form, partition, part, self.call, self.since, charge))
            start += count
        return parts

    def pop(self, count: int) -> tuple[RecordBlock, int]:
        """Take the first `count` rows out, or fewer; return them and their share of the charge."""
        columns = self.rows.columns.slice(0, count).combine_chunks().to_batches()[0]
        count = len(columns)
        keys, times, headers = (each.slice(0, count).combine_chunks() for each in self.rows[1:])
        charge = self.charge * count // len(self)
        self.charge -= charge
        self.rows = ArrowRows._make(each.slice(count) for each in self.rows)
        return RecordBlock(columns, keys, times, headers, ()), charge


Unplaced = Record | PlainMessage | ArrowBatch
"""What is accepted, and has no partition yet."""
Item = Unplaced | TopicFormat
"""What comes in, in that order: a topic's new format too."""
