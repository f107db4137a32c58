"""Arrow data on its way to segments: the rows of one `produce_arrow` call for one partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.from_arrow.arrow_input import ArrowRows
from columnar_kafka.producing.accepting.item import Item
from columnar_kafka.producing.engine.record_block import RecordBlock
from columnar_kafka.producing.reporting.arrow_call import CallPart
from columnar_kafka.producing.reporting.outcome import CallOutcome

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from columnar_kafka.producing.engine.base import TopicFormat
    from columnar_kafka.producing.partitioner import Partitioner
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall

__all__ = ["ArrowBatch", "rows_by_partition"]


@dataclass(slots=True, eq=False)
class ArrowBatch(Item):
    """Rows that are columns already. Each owner in turn: the caller, accumulator, sender."""

    topic_format: TopicFormat
    partition: int
    rows: ArrowRows
    call: ArrowCall
    accepted_at: float
    charged_bytes: int
    pinned: bool
    """Whether the user has chosen the partition."""

    def __len__(self) -> int:
        count: int = self.rows.columns.num_rows
        return count

    # --- on its way -----------------------------------------------------------------------------

    def end_batches(self, open_batches: Any) -> None:
        """See `Item`: batches of all partitions."""
        open_batches.close_all(self.topic)

    def place(self, accumulator: Any) -> None:
        """See `Item`: behind the open batches there."""
        for part in self.split(accumulator.partitioner, accumulator.partitions(self.topic)):
            accumulator.line_up(part)

    def encode(self, segmenter: Any, ready: Any) -> bool:
        """See `Item`."""
        ready.extend(segmenter.encode_some(self))
        return not len(self)

    def outcome(self, error: KafkaError) -> CallOutcome:
        """See `Item`."""
        part = CallPart(len(self), error, self.partition, None)
        return CallOutcome(self.call, part, self.charged_bytes)

    def split(self, partitioner: Partitioner, partitions: int) -> list[ArrowBatch]:
        """Return the rows by partition, in order; those that may go anywhere stay together."""
        if self.partition >= 0:
            return [self]
        places = rows_by_partition(self.rows.keys, partitioner, partitions)
        if len(places) == 1:
            self.partition = places[0][0]
            return [self]
        parts, start = [], 0
        for partition, mine in places:
            stop = start + len(mine)
            charged = self.charged_bytes * stop // len(self)
            charged -= self.charged_bytes * start // len(self)
            rows = ArrowRows._make(column.take(mine) for column in self.rows)
            parts.append(replace(self, partition=partition, rows=rows, charged_bytes=charged))
            start = stop
        return parts

    def pop(self, count: int) -> tuple[RecordBlock, int]:
        """Take the first `count` rows out, or fewer; return them and their share of the charge."""
        columns = self.rows.columns.slice(0, count).combine_chunks().to_batches()[0]
        count = len(columns)
        keys, times, headers = (column.slice(0, count).combine_chunks() for column in self.rows[1:])
        charged_bytes = self.charged_bytes * count // len(self)
        self.charged_bytes -= charged_bytes
        self.rows = ArrowRows._make(column.slice(count) for column in self.rows)
        pinned = (True,) * count if self.pinned else ()
        return RecordBlock(columns, keys, times, headers, (), pinned), charged_bytes


def rows_by_partition(
    keys: pa.Array | pa.ChunkedArray, partitioner: Partitioner, partitions: int
) -> list[tuple[int, pa.Array]]:
    """Return which rows go to which partition, in order; those that may go anywhere to one."""
    encoded = pc.dictionary_encode(keys)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    anywhere = partitioner.any(partitions)
    chosen = [
        anywhere if choice is None else choice
        for key in [*encoded.dictionary.to_pylist(), None]
        for choice in [partitioner.choose(key, partitions)]
    ]
    where = pc.take(pa.array(chosen), encoded.indices.fill_null(len(chosen) - 1))
    order = pc.sort_indices(where)  # stable
    rows, start = [], 0
    for counted in pc.value_counts(where.take(order)).to_pylist():
        rows.append((counted["values"], order.slice(start, counted["counts"])))
        start += counted["counts"]
    return rows
