"""Where Python and the native core meet: the batches that a topic's engine opens for its records.

Its format says which engine a topic has. A record is appended to the open batch of its partition;
a sealed batch is blocks of columns, which are encoded as segments and read by reports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from columnar_kafka import position
from columnar_kafka.columns.kafka_column import RecordHeaders
from columnar_kafka.producing.accepting.item import Item
from columnar_kafka.producing.reporting.report import Callback
from columnar_kafka.schema import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns, RowValues
    from columnar_kafka.columns.kafka_column import KafkaColumn
    from columnar_kafka.native import _core as core
    from columnar_kafka.plain.reversible import Habits
    from columnar_kafka.producing.engine.record_block import Block
    from columnar_kafka.producing.misfits import Misfits
    from columnar_kafka.producing.segment_limits import SegmentLimits
    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.segment.encoder import ParquetEncoder

__all__ = ["Batch", "Engine", "Metadata", "TopicFormat", "ValueColumns", "ValueReader"]

Metadata = tuple[bytes | None, int, RecordHeaders | None, Callback, bytes | None]
"""A record's key, timestamp, headers and callback, and its value if that is kept as it was given.

Bytes are: for a report, and where it may fit no segment and be sent as it is (`kept_bytes`).
"""


class Batch(Item, ABC):
    """Records of one topic-partition that become a segment together.

    It fills while it is open; `RecordQueue` appends under its lock. Sealed, it is the sender's.
    """

    core: core.Batch | None = None
    """Its records, if the native core appends them by itself too."""
    call: None = None

    def __init__(self, topic_format: TopicFormat, partition: int, accepted_at: float) -> None:
        """Begin a batch with a record that is accepted then."""
        self.topic_format = topic_format
        self.partition = partition
        self.accepted_at = accepted_at

    def __repr__(self) -> str:
        where = position.partition_address(self.topic, self.partition)
        return f"<{type(self).__name__} {where}: {self.rows} rows, {self.taken_bytes} bytes>"

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many records it has."""

    @property
    @abstractmethod
    def taken_bytes(self) -> int:
        """What they take in memory, as it was charged."""

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether it is to be sealed."""

    @abstractmethod
    def append(
        self, values: tuple[Any, ...], metadata: Metadata, nbytes: int, usage: Any, *, pinned: bool
    ) -> bool | None:
        """Append a record that `RowColumns.take` has measured, and charge it to `usage`: one step.

        Returns:
            Whether the sender has to look now: the batch or a part of it is full, or half of a
            bound is used; None: the record does not fit into the columns, and nothing was done.
        """

    @abstractmethod
    def seal(self) -> None:
        """End the batch, to which nobody appends any more. What fails may be tried again."""

    @abstractmethod
    def full_chunks(self) -> list[Any]:
        """Return what can be converted while the batch is open, once."""

    @abstractmethod
    def blocks(self, segmenter: Any) -> Sequence[tuple[Block, int]]:
        """Return the records of the sealed batch and their charged bytes, as one block if possible.

        Records that cannot be converted are reported by `segmenter`.
        """

    @property
    def taken_per_row(self) -> float:  # type: ignore[override]
        """See `Item`."""
        return self.taken_bytes / max(1, self.rows)

    # --- on its way -----------------------------------------------------------------------------

    def enter(self, accumulator: Any, now: float) -> None:
        """See `Item`."""
        accumulator.open(self)

    def unsent(self, segmenter: Any) -> Iterator[Any]:
        """See `Item`: its records, not encoded."""
        return segmenter.unsent(self)  # type: ignore[no-any-return]


class Engine(Protocol):
    """How the records of a topic become columns. For any thread; `open_batch` under the lock."""

    @property
    def habits(self) -> Habits | None:
        """How values in JSON say what columns do not, if the engine decides it."""
        ...

    def open_batch(self, topic_format: TopicFormat, partition: int, accepted_at: float) -> Batch:
        """Return an empty batch of a partition, whose first record is accepted then."""
        ...


class ValueReader(Protocol):
    """How values that are text or bytes become rows, and rows beside them. For any thread.

    `schema` has the columns of the users' rows. One that `is_inferred` changes with the rest.
    """

    schema: RecordSchema
    is_inferred: bool

    @property
    def value_format(self) -> str:
        """One of `VALUE_FORMATS`."""
        ...

    @property
    def has_rest(self) -> bool:
        """Whether the last column is none of the users': what of values has no other column."""
        ...

    def taken(self, value: bytes) -> tuple[RowValues, int]:
        """Return the row of a value as `RowColumns.take` does, and the bytes that it may hold.

        Raises:
            RowError: it does not fit.
        """
        ...

    def take(self, row: Any) -> tuple[RowValues, int]:
        """Return a row as `RowColumns.take` does. Raises as that."""
        ...

    def row(self, values: RowValues) -> Any:
        """Return what `take` has returned as a row, which `take` accepts again."""
        ...

    def footer(self, *, says_null: bool) -> dict[str, bytes]:
        """Return the key-value pair of a file's footer; `says_null`: every null in it says null."""
        ...

    def is_like(self, columns: ValueColumns) -> bool:
        """Say whether values become the same rows by these columns, which have equal types."""
        ...


class ValueColumns(Protocol):
    """The columns of values that are text or bytes."""

    records: RecordSchema

    def read_natively(self, rows: core.RowFormat) -> None:
        """Have the native core read values into its columns.

        Raises:
            NotNativeError: it cannot.
        """
        ...

    def reader(self, habits: Habits | None) -> ValueReader:
        """Return what reads values in Python; `habits` are `Engine.habits`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TopicFormat:
    """How a topic's records are checked, encoded and cut, since one `set_schema`.

    `encoder` is used and `limits` are written by the sender's thread alone; the rest is fixed.
    `records` and `columns` are those of its segments: `values` may have one more than users' rows.
    """

    topic: str
    records: RecordSchema
    columns: RowColumns
    kafka: KafkaColumn
    schema: pa.Schema
    encoder: ParquetEncoder
    limits: SegmentLimits
    engine: Engine
    values: ValueReader | None = None
    """How values that are no rows become some; None: they are plain messages."""
    misfits: Misfits | None = None
    """What becomes of those that do not fit."""
    awaits_schema: bool = False
    """Whether its records wait until their schema is inferred: see `inferring`."""
    schema_id: int | None = None
    """That of the schema in a registry, if it came from one."""
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", fingerprint(self.schema))

    @property
    def value_format(self) -> str:
        """One of `VALUE_FORMATS`."""
        return "rows" if self.values is None else self.values.value_format

    @property
    def rows(self) -> RowColumns | ValueReader:
        """What takes the users' rows, and shows them again."""
        return self.values or self.columns

    @property
    def users_records(self) -> RecordSchema:
        """The columns of the users' rows."""
        return self.records if self.values is None else self.values.schema

    @property
    def texts(self) -> tuple[type, ...]:
        """The classes of values that are no rows."""
        return _BUFFERS if self.awaits_schema or self.values is not None else _BYTES

    @property
    def is_inferred(self) -> bool:
        """Whether its schema was inferred, and changes with what is in the rest."""
        return self.values is not None and self.values.is_inferred

    @property
    def has_rest(self) -> bool:
        """See `ValueReader`."""
        return self.values is not None and self.values.has_rest

    def footer(self, *, of_rows: bool) -> dict[str, bytes]:
        """Return what a file's footer says of its rows; `of_rows`: null in them says null."""
        return {} if self.values is None else self.values.footer(says_null=of_rows)


_BYTES: Final = (bytes, str)
_BUFFERS: Final = (bytes, str, bytearray, memoryview)
