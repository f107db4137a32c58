"""A batch's life: open → sealed → sent → acknowledged or failed, each once.

While a batch is open its records sit in chunks; full chunks become columns early, so that a bad
row is found soon, memory stays small and sealing is not a pause. Sealed, its columns are encoded
and go out as one segment (or more, where one would be too large).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError

from columnar_kafka.columns import kafka
from columnar_kafka.columns.pure import to_rows

if TYPE_CHECKING:
    from columnar_kafka.columns.base import Builder, Columns
    from columnar_kafka.columns.kafka import Headers, KafkaColumn
    from columnar_kafka.encoder import Encoder
    from columnar_kafka.wire import SegmentHeader

__all__ = ["Batch", "Block", "Chunk", "Format", "InFlight", "OneRow", "Plain", "Refused", "State"]

Callback = Callable[[KafkaError | None, Any], Any] | None

_REPORT_ROWS: Final = 64
_RECORD_BYTES: Final = 16  # what a record costs besides its columns: its callback, its place


class State(enum.Enum):
    """Where a batch is in its life."""

    OPEN = "open"
    SEALED = "sealed"
    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"


_NEXT: Final = {
    State.OPEN: {State.SEALED},
    State.SEALED: {State.SENT, State.FAILED},
    State.SENT: {State.ACKNOWLEDGED, State.FAILED},
    State.ACKNOWLEDGED: set(),
    State.FAILED: set(),
}


def _advance(state: State, to: State) -> State:
    if to not in _NEXT[state]:
        raise RuntimeError(f"a batch that is {state.value} cannot become {to.value}")
    return to


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """How one topic's records are turned into segments, from one `set_schema` to the next.

    `encoder` is used by the sender's thread alone; the rest does not change. A segment should
    have `target_bytes`, and no more than `limit_bytes`, which is what client and topic accept.
    """

    topic: str
    columns: Columns
    kafka: KafkaColumn
    schema: pa.Schema
    fingerprint: str
    encoder: Encoder
    target_bytes: int
    limit_bytes: int


@dataclass(slots=True)
class Refused:
    """A record that never becomes part of a segment: reported alone, its neighbours ship."""

    topic: str
    partition: int
    row: OneRow
    error: KafkaError
    callback: Callback


@dataclass(frozen=True, slots=True)
class OneRow:
    """The parts of one record, for a report that has no columns to read from."""

    parts: tuple[Any, bytes | None, int, Headers | None]

    def value(self, row: int) -> Any:
        """Return the record's value."""
        return self.parts[0]

    def key(self, row: int) -> bytes | None:
        """Return the record's key."""
        return self.parts[1]

    def timestamp(self, row: int) -> int:
        """Return the record's time."""
        return self.parts[2]

    def headers(self, row: int) -> Headers | None:
        """Return the record's headers."""
        return self.parts[3]


class Block:
    """Records as columns: the user's, keys, timestamps and headers, each `len` long."""

    def __init__(
        self,
        columns: pa.RecordBatch,
        keys: pa.Array,
        timestamps: pa.Array,
        headers: pa.Array,
        callbacks: Sequence[Callback],
    ) -> None:
        self.columns = columns
        self.keys = keys
        self.timestamps = timestamps
        self._headers = headers
        self.callbacks = callbacks
        self._window: tuple[int, list[dict[str, Any]]] = (-1, [])

    def __len__(self) -> int:
        rows: int = self.columns.num_rows
        return rows

    @property
    def nbytes(self) -> int:
        """What the block holds in memory."""
        arrays = (self.columns, self.keys, self.timestamps, self._headers)
        columns: int = sum(each.nbytes for each in arrays)
        return columns + _RECORD_BYTES * len(self)

    @property
    def header_column(self) -> pa.Array:
        """The headers as a column."""
        return self._headers

    @classmethod
    def concat(cls, blocks: Sequence[Block]) -> Block:
        """Return one block of the records of all `blocks`, of which there is at least one."""
        if len(blocks) == 1:
            return blocks[0]
        return cls(
            pa.concat_batches([each.columns for each in blocks]),
            pa.concat_arrays([each.keys for each in blocks]),
            pa.concat_arrays([each.timestamps for each in blocks]),
            pa.concat_arrays([each.header_column for each in blocks]),
            [callback for each in blocks for callback in each.callbacks],
        )

    def slice(self, start: int, stop: int) -> Block:
        """Return the records from `start` to `stop`, not copied."""
        count = stop - start
        return Block(
            self.columns.slice(start, count),
            self.keys.slice(start, count),
            self.timestamps.slice(start, count),
            self._headers.slice(start, count),
            self.callbacks[start:stop],
        )

    def value(self, row: int) -> dict[str, Any]:
        """Return one record as a dict; neighbours are read along with it."""
        at, rows = self._window
        start = row - row % _REPORT_ROWS
        if at != start:
            rows = to_rows(self.columns.slice(start, _REPORT_ROWS))
            self._window = (start, rows)
        return rows[row - start]

    def key(self, row: int) -> bytes | None:
        """Return one record's key."""
        found: bytes | None = self.keys[row].as_py()
        return found

    def timestamp(self, row: int) -> int:
        """Return one record's time in milliseconds."""
        return int(self.timestamps[row].value)

    def headers(self, row: int) -> Headers | None:
        """Return one record's headers."""
        return kafka.read_headers(self._headers.slice(row, 1))[0]


class Chunk:
    """Records of an open batch, on their way to being columns."""

    def __init__(self, form: Format, partition: int) -> None:
        self._where = (form.topic, partition)
        self.builder: Builder = form.columns.builder()
        self.charge = 0
        self.block: Block | None = None
        self._keys: list[bytes | None] = []
        self._timestamps: list[int] = []
        self._headers: list[Headers | None] = []
        self._callbacks: list[Callback] = []

    def append(
        self,
        values: tuple[Any, ...],
        key: bytes | None,
        timestamp: int,
        headers: Headers | None,
        callback: Callback,
    ) -> None:
        """Add one record."""
        self.builder.append(values)
        self._keys.append(key)
        self._timestamps.append(timestamp)
        self._headers.append(headers)
        self._callbacks.append(callback)

    def convert(self) -> list[Refused]:
        """Turn the records into a block, once; return those that cannot be."""
        if self.block is not None:
            return []
        columns, refusals = self.builder.finish()
        refused = [
            Refused(
                *self._where,
                OneRow((refusal.value, self._keys[i], self._timestamps[i], self._headers[i])),
                refusal.error.kafka_error,
                self._callbacks[i],
            )
            for i, refusal in refusals.items()
        ]
        keep = [i for i in range(len(self._keys)) if i not in refusals] if refusals else None
        self.block = Block(
            columns,
            kafka.key_array(_pick(self._keys, keep)),
            kafka.timestamp_array(_pick(self._timestamps, keep)),
            kafka.header_array(_pick(self._headers, keep)),
            _pick(self._callbacks, keep),
        )
        del self.builder, self._keys, self._timestamps, self._headers, self._callbacks
        return refused


def _pick(values: list[Any], keep: list[int] | None) -> list[Any]:
    return values if keep is None else [values[i] for i in keep]


class Batch:
    """Records of one topic-partition. Guarded by the accumulator while open; then its sender's."""

    def __init__(self, form: Format, partition: int, now: float) -> None:
        self.form = form
        self.partition = partition
        self.created = now
        self.rows = 0
        self.taken_bytes = 0
        self.chunks = [Chunk(form, partition)]
        self.state = State.OPEN

    def __repr__(self) -> str:
        where = f"{self.form.topic}[{self.partition}]"
        return f"<Batch {where} {self.state.value}: {self.rows} rows, {self.taken_bytes} bytes>"

    def append(
        self,
        values: tuple[Any, ...],
        key: bytes | None,
        timestamp: int,
        headers: Headers | None,
        callback: Callback,
        nbytes: int,
    ) -> Chunk | None:
        """Add one record; return the chunk that it filled, for the sender to convert."""
        chunk = self.chunks[-1]
        chunk.append(values, key, timestamp, headers, callback)
        chunk.charge += nbytes
        self.rows += 1
        self.taken_bytes += nbytes
        if not chunk.builder.full:
            return None
        self.chunks.append(Chunk(self.form, self.partition))
        return chunk

    def seal(self) -> None:
        """Take no more records."""
        self.state = _advance(self.state, State.SEALED)


@dataclass(slots=True, eq=False)
class Plain:
    """A plain message to a topic with a schema: it keeps its place among the segments."""

    topic: str
    partition: int
    value: Any
    key: bytes | None
    timestamp: int
    headers: Headers | None
    callback: Callback
    created: float
    charge: int


@dataclass(slots=True, eq=False)
class InFlight:
    """An encoded segment, from before it is handed to librdkafka until its records are reported."""

    topic: str
    partition: int
    block: Block
    header: SegmentHeader
    data: Any
    created: float
    charge: int
    state: State = State.SEALED

    def sent(self) -> None:
        """Say that librdkafka is given it; again, harmlessly, after its queue was full."""
        if self.state is not State.SENT:
            self.state = _advance(self.state, State.SENT)

    def done(self, *, ok: bool) -> None:
        """Set the final state; the bytes are not needed any more."""
        self.state = _advance(self.state, State.ACKNOWLEDGED if ok else State.FAILED)
        self.data = None
