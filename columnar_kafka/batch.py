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
from columnar_kafka.columns.kafka import Headers
from columnar_kafka.columns.rows import to_rows

if TYPE_CHECKING:
    from columnar_kafka.columns.base import Builder, Columns
    from columnar_kafka.columns.kafka import KafkaColumn
    from columnar_kafka.encoder import Encoder
    from columnar_kafka.wire import SegmentHeader

__all__ = [
    "Batch",
    "Block",
    "Chunk",
    "Format",
    "InFlight",
    "OneRow",
    "Others",
    "Plain",
    "Refused",
    "State",
]

Callback = Callable[[KafkaError | None, Any], Any] | None
Others = tuple[bytes | None, int, Headers | None, Callback]
"""What a record has besides its values: key, timestamp, headers, callback."""

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
        self.others: list[Others] = []
        self.charge = 0
        self.block: Block | None = None
        self._converted = False

    def convert(self) -> list[Refused]:
        """Turn the records into a block, once; return those that cannot be. Raises nothing."""
        if self._converted:
            return []
        self._converted = True
        try:
            return self._convert()
        except Exception as error:  # noqa: BLE001 - the records must not go without a report
            reason = KafkaError(KafkaError._VALUE_SERIALIZATION, f"{type(error).__name__}: {error}")
            return [
                Refused(*self._where, OneRow((None, key, timestamp, headers)), reason, callback)
                for key, timestamp, headers, callback in self.others
            ]

    def _convert(self) -> list[Refused]:
        columns, refusals = self.builder.finish()
        refused = [
            Refused(
                *self._where,
                OneRow((refusal.value, *self.others[i][:3])),
                refusal.error.kafka_error,
                self.others[i][3],
            )
            for i, refusal in refusals.items()
        ]
        kept = [each for i, each in enumerate(self.others) if i not in refusals]
        keys, timestamps, headers, callbacks = zip(*kept, strict=True) if kept else ((),) * 4
        self.block = Block(
            columns,
            kafka.key_array(keys),
            kafka.timestamp_array(timestamps),
            kafka.header_array(headers),
            callbacks,
        )
        del self.builder, self.others
        return refused


class Batch:
    """Records of one topic-partition. Guarded by the accumulator while open; then its sender's."""

    def __init__(self, form: Format, partition: int, now: float, *, max_bytes: float) -> None:
        """Begin a batch that should be sealed at `max_bytes`, as `Columns.take` measures them."""
        self.form = form
        self.partition = partition
        self.created = now
        self.rows = 0
        self.taken_bytes = 0
        self.max_bytes = max_bytes
        self.chunks: list[Chunk] = []
        self.state = State.OPEN
        self._begin_chunk()

    def __repr__(self) -> str:
        where = f"{self.form.topic}[{self.partition}]"
        return f"<Batch {where} {self.state.value}: {self.rows} rows, {self.taken_bytes} bytes>"

    def append(self, values: tuple[Any, ...], others: Others, nbytes: int) -> Chunk | None:
        """Add one record; return the chunk that it filled, for the sender to convert."""
        self._add_values(values)
        self._add_others(others)
        self.rows += 1
        self.taken_bytes += nbytes
        self._room -= 1
        if self._room:
            return None
        full = self._end_chunk()
        self._begin_chunk()
        return full

    def seal(self) -> None:
        """Take no more records."""
        self.state = _advance(self.state, State.SEALED)
        self._end_chunk()

    def _begin_chunk(self) -> None:
        chunk = Chunk(self.form, self.partition)
        self.chunks.append(chunk)
        self._add_values = chunk.builder.append
        self._add_others = chunk.others.append
        self._room = chunk.builder.capacity
        self._charged = self.taken_bytes

    def _end_chunk(self) -> Chunk:
        chunk = self.chunks[-1]
        chunk.charge = self.taken_bytes - self._charged
        del self._add_values, self._add_others  # or they would keep the rows alive
        return chunk


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
    since: float
    charge: int


@dataclass(slots=True, eq=False)
class InFlight:
    """An encoded segment, from before it is handed to librdkafka until its records are reported."""

    topic: str
    partition: int
    block: Block
    header: SegmentHeader
    data: Any
    since: float
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
