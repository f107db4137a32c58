"""Segments that are encoded anew, because they cannot land as they are. All others never are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.lake.model import UnlandableError
from columnar_kafka.lake.partition import divide, shared_partition
from columnar_kafka.segment.encoder import ParquetEncoder

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

    from columnar_kafka.lake.model import Fitting, PartitionValues, SourcePartition
    from columnar_kafka.lake.partition import Straddle
    from columnar_kafka.segment.segment import Segment

__all__ = ["Rewriter", "SegmentPart"]

_COMPRESSION: Final = "zstd"


class SegmentPart(NamedTuple):
    """Those rows of a segment that belong to one partition of the table, as a Parquet file."""

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
            table = segment.to_table()
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
        return [
            SegmentPart(
                each, self._encode(segment, rows, fitting), rows.num_rows, is_rewritten=True
            )
            for each, rows in parts
        ]

    def _encode(self, segment: Segment, rows: pa.Table, fitting: Fitting) -> pa.Buffer:
        table = rows if fitting.cast_to is None else rows.cast(fitting.cast_to)
        encoder = self._encoders.setdefault(segment.header.schema, ParquetEncoder(_COMPRESSION))
        return encoder.encode(table.combine_chunks().to_batches()[0], {})
