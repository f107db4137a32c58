"""Re-encodes the few segments that cannot land unchanged, and encodes decoded plain messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.model import UnlandableError, unlandable
from columnar_kafka.lake.partition import divide, shared_partition
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.parquet.metadata import has_encrypted_columns
from columnar_kafka.segment.parquet.page_checks import footer_bytes

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

    from columnar_kafka.lake.model import Fitting, PartitionValues, SourcePartition
    from columnar_kafka.lake.partition import Straddle
    from columnar_kafka.segment.segment import Segment

__all__ = ["Rewriter", "SegmentPart", "SegmentRows", "decoded"]

_COMPRESSION: Final = "zstd"


class SegmentRows(NamedTuple):
    """Those rows of a segment that belong to one partition of the table.

    Without a `table` they are all of its rows, and land as they came.
    """

    partition: PartitionValues
    segment: Segment
    table: pa.Table | None


class SegmentPart(NamedTuple):
    """Rows that belong to one partition of the table, of some `messages`, as a Parquet file.

    A part that `is_rewritten` does not have the bytes that came.
    """

    partition: PartitionValues
    data: Any
    rows: int
    messages: int
    is_rewritten: bool


class Rewriter:
    """Makes the parts of segments that land; `segments` counts the rewritten. For one thread."""

    def __init__(self, straddle: Straddle) -> None:
        self.segments = 0
        self._straddle = straddle
        self._encoders: dict[str, ParquetEncoder] = {}  # by the segments' schema: each learns

    def divided(
        self,
        segment: Segment,
        fitting: Fitting,
        source: SourcePartition,
        today: datetime.date,
        adapted: pa.Table | None = None,
    ) -> list[SegmentRows]:
        """Return a segment as it came, if its types fit and its rows are of one partition.

        Otherwise it is decoded, cast and split. So are rows that were `adapted` to the table.

        Raises:
            UnlandableError: it cannot be, or has to become a dead letter.
            LakeError: it must not be split.
        """
        try:
            partition: PartitionValues | None
            if adapted is not None:
                table, partition = adapted, None if fitting.partitioning else ()
            else:
                partition = shared_partition(fitting.partitioning, segment, source, today)
                if partition is not None and fitting.cast_to is None:
                    return [SegmentRows(partition, segment, None)]
                table = decoded(segment)
            if partition is None:
                parts = list(divide(fitting.partitioning, table, source, today))
            else:
                parts = [(partition, table)]
        except LakeError as error:
            raise UnlandableError(f"segment at {segment.address}: {error.reason}") from error
        except SegmentError as error:
            raise UnlandableError(error.reason) from error
        if len(parts) > 1 and self._straddle != "split":
            refused = UnlandableError if self._straddle == "dead-letter" else LakeError
            raise refused(
                f"segment at {segment.address} has rows of {len(parts)} partitions of the table; "
                "table.straddle=split would split it"
            )
        if len(parts) == 1 and fitting.cast_to is None and adapted is None:
            return [SegmentRows(parts[0][0], segment, None)]
        self.segments += 1
        return [
            SegmentRows(partition, segment, _cast(rows, fitting.cast_to))
            for partition, rows in parts
        ]

    def part(self, rows: SegmentRows) -> SegmentPart:
        """Return the rows as they came, or encoded anew."""
        partition, segment, table = rows
        if table is not None:
            return self.encoded_part(partition, table, segment.header.schema, messages=1)
        return SegmentPart(partition, segment.bytes, segment.rows, 1, is_rewritten=False)

    def encoded(
        self,
        rows: pa.Table,
        schema: str,
        fitting: Fitting,
        source: SourcePartition,
        today: datetime.date,
    ) -> list[SegmentPart]:
        """Return rows that were plain messages as parts; `schema` is its fingerprint.

        Each message has rows of one partition, so there is none to straddle.

        Raises:
            UnlandableError: a value cannot be a partition's.
        """
        parts: list[tuple[PartitionValues, pa.Table]] = [((), rows)]
        if fitting.partitioning:
            with unlandable():
                parts = list(divide(fitting.partitioning, rows, source, today))
        return [
            self.encoded_part(
                partition, _cast(table, fitting.cast_to), schema, messages=table.num_rows
            )
            for partition, table in parts
        ]

    def encoded_part(
        self, partition: PartitionValues, rows: pa.Table, schema: str, *, messages: int
    ) -> SegmentPart:
        """Return rows of some messages, encoded; `schema` is the messages', by its fingerprint."""
        encoder = self._encoders.setdefault(schema, ParquetEncoder(_COMPRESSION))
        data = encoder.encode(rows.combine_chunks().to_batches()[0], {})
        return SegmentPart(partition, data, rows.num_rows, messages, is_rewritten=True)


def _cast(rows: pa.Table, schema: pa.Schema | None) -> pa.Table:
    return rows if schema is None else rows.cast(schema)


def decoded(segment: Segment) -> pa.Table:
    """Return a segment's rows.

    Raises:
        LakeError, SegmentError: they cannot be decoded.
    """
    if has_encrypted_columns(footer_bytes(bytes(segment.bytes))):
        raise LakeError(
            "it has encrypted columns, and would have to be decoded: to be cast to the table's "
            "types, or because its footer does not show that its rows are of one partition"
        )
    return segment.to_table()
