"""A batch's life: open → sealed → sent → acknowledged or failed, each once.

While a batch is open its records sit in chunks; full chunks become columns early, so that a bad
row is found soon, memory stays small and sealing is not a pause. Sealed, its columns are encoded
and go out as one segment (or more, where one would be too large).
"""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from columnar_kafka.block import Block, Callback
from columnar_kafka.columns import kafka
from columnar_kafka.columns.kafka import Headers
from columnar_kafka.record import OneRow
from columnar_kafka.wire import HEADER_BYTES, message_bytes

if TYPE_CHECKING:
    from columnar_kafka.columns.base import Builder
    from columnar_kafka.format import Format, Limits
    from columnar_kafka.wire import SegmentHeader

__all__ = ["Batch", "Call", "Chunk", "InFlight", "Others", "Plain", "Refused", "State"]

Others = tuple[bytes | None, int, Headers | None, Callback]
"""What a record has besides its values: key, timestamp, headers, callback."""


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


@dataclass(slots=True)
class Refused:
    """A record that never becomes part of a segment: reported alone, its neighbours ship."""

    topic: str
    partition: int
    row: OneRow
    error: KafkaError
    callback: Callback
    call: Call | None = None


class Call:
    """One `produce_arrow`: many records, one report. Any thread may call it."""

    def __init__(self, topic: str, records: int, callback: Callback) -> None:
        self.topic = topic
        self.records = records
        self.callback = callback
        self.failed = 0
        self.error: KafkaError | None = None
        self.partition = -1
        self.offset: int | None = None
        self._left = records
        self._lock = threading.Lock()  # guards the outcome, until it is whole

    def done(
        self, records: int, error: KafkaError | None, partition: int, offset: int | None
    ) -> bool:
        """Note the fate of some of the records, the last of which is at `offset`, a position.

        Returns:
            Whether these were the last: the call is to be reported now, by who was told so.
        """
        with self._lock:
            self._left -= records
            if error is not None:
                self.failed += records
                self.error = self.error or error
            elif offset is not None:
                self.partition, self.offset = partition, offset
            return not self._left


class Chunk:
    """Records of an open batch, on their way to being columns."""

    def __init__(self, form: Format, partition: int) -> None:
        self._where = (form.topic, partition)
        self._builder: Builder = form.columns.builder()
        self.capacity = self._builder.capacity
        # Values and the rest in one step: a signal's exception may come between any two.
        self.records: list[tuple[tuple[Any, ...], Others]] = []
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
                for _, (key, timestamp, headers, callback) in self.records
            ]

    def _convert(self) -> list[Refused]:
        for values, _ in self.records:
            self._builder.append(values)
        columns, refusals = self._builder.finish()
        others = [each for _, each in self.records]
        refused = [
            Refused(
                *self._where,
                OneRow((refusal.value, *others[i][:3])),
                refusal.error.kafka_error,
                others[i][3],
            )
            for i, refusal in refusals.items()
        ]
        kept = [each for i, each in enumerate(others) if i not in refusals]
        keys, timestamps, headers, callbacks = zip(*kept, strict=True) if kept else ((),) * 4
        self.block = Block(
            columns,
            kafka.key_array(keys),
            kafka.timestamp_array(timestamps),
            kafka.header_array(headers),
            callbacks,
        )
        del self._builder, self.records
        return refused


class Batch:
    """Records of one topic-partition. Guarded by the accumulator while open; then its sender's."""

    def __init__(self, form: Format, partition: int, now: float, *, max_bytes: float) -> None:
        """Begin a batch that should be sealed at `max_bytes`, as `Columns.take` measures them."""
        self.form = form
        self.partition = partition
        self.since = now
        self.rows = 0
        self.taken_bytes = 0
        self.max_bytes = max_bytes
        self.chunks = [Chunk(form, partition)]
        self.state = State.OPEN

    def __repr__(self) -> str:
        where = f"{self.form.topic}[{self.partition}]"
        return f"<Batch {where} {self.state.value}: {self.rows} rows, {self.taken_bytes} bytes>"

    def append(self, values: tuple[Any, ...], others: Others, nbytes: int) -> Chunk | None:
        """Add one record; return the chunk that it filled, for the sender to convert."""
        chunk = self.chunks[-1]
        chunk.records.append((values, others))
        chunk.charge += nbytes
        self.rows += 1
        self.taken_bytes += nbytes
        if len(chunk.records) < chunk.capacity:
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
    since: float
    charge: int
    limits: Limits

    @property
    def nbytes(self) -> int:
        """What it takes on the wire, at most."""
        return message_bytes(self.key, self.value, self.headers)


@dataclass(slots=True, eq=False)
class InFlight:
    """An encoded segment, from before it is handed to librdkafka until its records are reported.

    `header` is None for records that were given up before they were encoded.
    """

    form: Format
    partition: int
    block: Block
    header: SegmentHeader | None
    data: Any
    since: float
    charge: int
    call: Call | None = None
    state: State = State.SEALED

    @property
    def topic(self) -> str:
        """The topic it goes to."""
        return self.form.topic

    @property
    def limits(self) -> Limits:
        """How much of it there may be."""
        return self.form.limits

    @property
    def nbytes(self) -> int:
        """What it takes on the wire, at most."""
        return len(self.data) + HEADER_BYTES

    def sent(self) -> None:
        """Say that librdkafka is given it; again, harmlessly, after it came back."""
        if self.state is not State.SENT:
            self.state = _advance(self.state, State.SENT)

    def done(self, *, ok: bool) -> None:
        """Set the final state; the bytes are not needed any more."""
        self.state = _advance(self.state, State.ACKNOWLEDGED if ok else State.FAILED)
        self.data = b""
