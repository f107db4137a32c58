"""Records as columns: a batch is converted to them, segments are encoded from them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.decoded_size import MOST_DECODED, decoded_bytes
from columnar_kafka.producing.reporting.outcome import RecordsOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import KafkaError

    from columnar_kafka.columns.kafka_column import KafkaColumn, RecordHeaders
    from columnar_kafka.producing.reporting.outcome import Outcome
    from columnar_kafka.producing.reporting.report import Callback, ReportContext
    from columnar_kafka.segment.encoder import ParquetEncoder

__all__ = ["Block", "RecordBlock", "Windows"]

_WINDOW_ROWS: Final = 64
"""How many neighbouring records are read together for reports."""
_POOL: Final = pa.system_memory_pool()
"""The allocator of blocks, which live long.

In the default pool they would lie between short-lived allocations and keep those pages in use.
"""
_METADATA_BYTES: Final = 64  # of a record's time and id, once they are decoded
_RECORD_BYTES: Final = 16  # the memory of a record beside its columns: its callback and its index

T = TypeVar("T")


class Windows(Generic[T]):
    """Reads for reports some neighbouring rows at a time: finding one takes long.

    `read` is given where they begin and end.
    """

    __slots__ = ("_last", "_read")

    def __init__(self, read: Callable[[int, int], list[T]]) -> None:
        self._read = read
        self._last: tuple[int, list[T]] | None = None

    def get(self, row: int, rows: int) -> T:
        """Return one of so many rows."""
        last, start = self._last, row - row % _WINDOW_ROWS
        if last is None or last[0] != start:
            self._last = last = (start, self._read(start, min(start + _WINDOW_ROWS, rows)))
        return last[1][row - start]


class Block(Protocol):
    """Records of one topic-partition: a segment is encoded from them, and reports read them."""

    def __len__(self) -> int: ...

    @property
    def is_silent(self) -> bool:
        """Whether no record has a callback."""
        ...

    def slice(self, start: int, stop: int) -> Block:
        """Return the records from `start` to `stop`, not copied."""
        ...

    def is_decodable(self) -> bool:
        """Return whether consumers decode the records by default: see `MOST_DECODED`."""
        ...

    def time_bounds(self) -> tuple[int, int]:
        """Return the earliest and the latest time of a record, in milliseconds."""
        ...

    def encode(
        self, kafka: KafkaColumn, encoder: ParquetEncoder, segment: str, footer: dict[str, bytes]
    ) -> Any:
        """Return the records as the bytes of a segment with this id and these key-values.

        `encoder` is Arrow's, and `kafka` its column; the native core has its own.
        """
        ...

    def in_arrow(self, read: Callable[[], pa.RecordBatch]) -> RecordBlock:
        """Return the records in Arrow's columns; `read` returns them from their segment."""
        ...

    def outcome(
        self, context: ReportContext, error: KafkaError | None, charged_bytes: int
    ) -> Outcome:
        """Return what became of the records, with the reports that say so."""
        ...

    def value(self, row: int) -> dict[str, Any] | bytes:
        """Return one record as it was given: a dict, or bytes."""
        ...

    def given(self, row: int) -> bytes | None:
        """Return one record's value if it was given as bytes, and is kept: see `Metadata`."""
        ...

    def key(self, row: int) -> bytes | None:
        """Return one record's key."""
        ...

    def timestamp(self, row: int) -> int:
        """Return one record's time in milliseconds."""
        ...

    def headers(self, row: int) -> RecordHeaders | None:
        """Return one record's headers."""
        ...

    def callback(self, row: int) -> Callback:
        """Return one record's callback."""
        ...

    def is_pinned(self, row: int) -> bool:
        """Return whether the user has chosen one record's partition."""
        ...


class RecordBlock:
    """Records as columns of equal length: the user's columns, keys, timestamps and headers.

    Delivery reports read their records from it. Immutable, but for a cache of rows.
    """

    def __init__(
        self,
        columns: pa.RecordBatch,
        keys: pa.Array,
        timestamps: pa.Array,
        headers: pa.Array,
        callbacks: Sequence[Callback],
        pinned: Sequence[bool] = (),
        given: Sequence[bytes | None] = (),
        *,
        has_rest: bool = False,
    ) -> None:
        """Hold them. `callbacks` may be empty for data with one report for all.

        `pinned` says for which records the user has chosen the partition, and `given` has the
        values that were given as bytes: for none, if it is empty. `has_rest`: the last column is
        none of the user's.
        """
        self.columns = columns
        self.keys = keys
        self.timestamps = timestamps
        self._headers = headers
        self._callbacks = callbacks
        self._pinned = pinned if any(pinned) else ()
        self._given = given if any(value is not None for value in given) else ()
        self._has_rest = has_rest
        users = columns.select(columns.schema.names[:-1]) if has_rest else columns
        self._values = Windows[dict[str, Any]](partial(_rows, users))

    def __len__(self) -> int:
        rows: int = self.columns.num_rows
        return rows

    @property
    def nbytes(self) -> int:
        """The memory of the block, in bytes."""
        arrays = (self.columns, self.keys, self.timestamps, self._headers)
        columns: int = sum(array.nbytes for array in arrays)
        return columns + _RECORD_BYTES * len(self)

    @property
    def is_silent(self) -> bool:
        """Whether no record has a callback."""
        return all(callback is None for callback in self._callbacks)

    def callback(self, row: int) -> Callback:
        """Return one record's callback."""
        return self._callbacks[row]

    def is_pinned(self, row: int) -> bool:
        """See `Block.is_pinned`."""
        return bool(self._pinned) and self._pinned[row]

    def given(self, row: int) -> bytes | None:
        """See `Block.given`."""
        return self._given[row] if self._given else None

    @property
    def header_column(self) -> pa.Array:
        """The headers as a column."""
        return self._headers

    @classmethod
    def concat(cls, blocks: Sequence[RecordBlock]) -> RecordBlock:
        """Return one block with the records of all `blocks`, at least one, in order."""
        if len(blocks) == 1:
            return blocks[0]
        batches = [block.columns for block in blocks]
        columns = [  # pyarrow up to 18 has no concat_batches
            pa.concat_arrays([batch.column(i) for batch in batches], _POOL)
            for i in range(batches[0].num_columns)
        ]
        return cls(
            pa.RecordBatch.from_arrays(columns, schema=batches[0].schema),
            pa.concat_arrays([block.keys for block in blocks], _POOL),
            pa.concat_arrays([block.timestamps for block in blocks], _POOL),
            pa.concat_arrays([block.header_column for block in blocks], _POOL),
            [callback for block in blocks for callback in block._callbacks],  # noqa: SLF001 - its own class
            [block.is_pinned(row) for block in blocks for row in range(len(block))]
            if any(block._pinned for block in blocks)  # noqa: SLF001 - its own class
            else (),
            [block.given(row) for block in blocks for row in range(len(block))]
            if any(block._given for block in blocks)  # noqa: SLF001 - its own class
            else (),
            has_rest=blocks[0]._has_rest,  # noqa: SLF001 - its own class
        )

    def slice(self, start: int, stop: int) -> RecordBlock:
        """Return the records from `start` to `stop`, which share this block's memory."""
        count = stop - start
        return RecordBlock(
            self.columns.slice(start, count),
            self.keys.slice(start, count),
            self.timestamps.slice(start, count),
            self._headers.slice(start, count),
            self._callbacks[start:stop],
            self._pinned[start:stop],
            self._given[start:stop],
            has_rest=self._has_rest,
        )

    def take(self, rows: Sequence[int]) -> RecordBlock:
        """Return some of the records, in that order, copied."""
        indices = pa.array(rows, pa.int64())
        return RecordBlock(
            self.columns.take(indices),
            self.keys.take(indices),
            self.timestamps.take(indices),
            self._headers.take(indices),
            [self._callbacks[row] for row in rows] if self._callbacks else (),
            [self.is_pinned(row) for row in rows],
            [self.given(row) for row in rows],
            has_rest=self._has_rest,
        )

    def is_decodable(self) -> bool:
        """See `Block.is_decodable`."""
        arrays = (*self.columns.columns, self.keys, self._headers)
        decoded = sum(map(decoded_bytes, arrays)) + _METADATA_BYTES * len(self)
        return decoded <= MOST_DECODED

    def time_bounds(self) -> tuple[int, int]:
        """Return the earliest and the latest time of a record, in milliseconds."""
        bounds = pc.min_max(self.timestamps.cast("int64")).as_py()
        return bounds["min"], bounds["max"]

    def encode(
        self, kafka: KafkaColumn, encoder: ParquetEncoder, segment: str, footer: dict[str, bytes]
    ) -> pa.Buffer:
        """See `Block.encode`."""
        columns = kafka.append_to(
            self.columns,
            segment=segment,
            timestamps=self.timestamps,
            keys=self.keys,
            headers=self._headers,
        )
        return encoder.encode(columns, footer)

    def in_arrow(self, read: Callable[[], pa.RecordBatch]) -> RecordBlock:
        """See `Block.in_arrow`."""
        return self

    def outcome(
        self, context: ReportContext, error: KafkaError | None, charged_bytes: int
    ) -> Outcome:
        """See `Block.outcome`."""
        return RecordsOutcome(self.callback, context, error, charged_bytes)

    def value(self, row: int) -> dict[str, Any] | bytes:
        """See `Block.value`; neighbours are converted along with it, for later reports."""
        given = self.given(row)
        return self._values.get(row, len(self)) if given is None else given

    def key(self, row: int) -> bytes | None:
        """Return one record's key."""
        key: bytes | None = self.keys[row].as_py()
        return key

    def timestamp(self, row: int) -> int:
        """Return one record's time in milliseconds."""
        return int(self.timestamps[row].value)

    def headers(self, row: int) -> RecordHeaders | None:
        """Return one record's headers."""
        return kafka_column.read_headers(self._headers.slice(row, 1))[0]


def _rows(columns: pa.RecordBatch, start: int, stop: int) -> list[dict[str, Any]]:
    return to_rows(columns.slice(start, stop - start))
