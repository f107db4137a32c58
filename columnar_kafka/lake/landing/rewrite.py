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
    from collections.abc import Iterable

    import pyarrow as pa

    from columnar_kafka.lake.model import Fitting, PartitionValues, SourcePartition
    from columnar_kafka.lake.partition import Straddle
    from columnar_kafka.segment.segment import Segment

__all__ = ["Rewriter", "SegmentPart"]

_COMPRESSION: Final = "zstd"


class SegmentPart(NamedTuple):
    """Those rows of a segment that belong to one partition of the table, as a Parquet file.

    A part that `is_rewritten` does not have the bytes that came.
    """

    partition: PartitionValues
    data: Any
    rows: int
    is_rewritten: bool


class Rewriter:
    """Makes the parts of segments that land; `segments` counts the rewritten. For one thread."""

    def __init__(self, straddle: Straddle) -> None:
        self.segments = 0
        self._straddle = straddle
        self._encoders: dict[str, ParquetEncoder] = {}  # by the segments' schema: each learns

    def parts(
        self, segment: Segment, fitting: Fitting, source: SourcePartition, today: datetime.date
    ) -> list[SegmentPart]:
        """Return a segment as it came, if its types fit and its rows are of one partition.

        Otherwise it is decoded, cast, split, and encoded anew.

        Raises:
            UnlandableError: it cannot be, or has to become a dead letter.
            LakeError: it must not be split.
        """
        try:
            partition = shared_partition(fitting.partitioning, segment, source, today)
            if partition is not None and fitting.cast_to is None:
                return [SegmentPart(partition, segment.bytes, segment.rows, is_rewritten=False)]
            table = _decoded(segment)
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
        if len(parts) == 1 and fitting.cast_to is None:
            return [SegmentPart(parts[0][0], segment.bytes, segment.rows, is_rewritten=False)]
        self.segments += 1
        return self._encoded(parts, segment.header.schema, fitting)

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
        if not fitting.partitioning:
            return self._encoded([((), rows)], schema, fitting)
        with unlandable():
            parts = list(divide(fitting.partitioning, rows, source, today))
        return self._encoded(parts, schema, fitting)

    def _encoded(
        self, parts: Iterable[tuple[PartitionValues, pa.Table]], schema: str, fitting: Fitting
    ) -> list[SegmentPart]:
        encoder = self._encoders.setdefault(schema, ParquetEncoder(_COMPRESSION))
        encoded = []
        for partition, rows in parts:
            table = rows if fitting.cast_to is None else rows.cast(fitting.cast_to)
            data = encoder.encode(table.combine_chunks().to_batches()[0], {})
            encoded.append(SegmentPart(partition, data, rows.num_rows, is_rewritten=True))
        return encoded


def _decoded(segment: Segment) -> pa.Table:
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
