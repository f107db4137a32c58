"""Segments that are encoded anew, because they cannot land as they are. All others never are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka.errors import LakeError, SegmentError
from columnar_kafka.segment.encoder import ParquetEncoder

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.segment.segment import Segment

__all__ = ["Rewriter"]

_COMPRESSION = "zstd"


class Rewriter:
    """Encodes segments; `segments` counts them. For one thread."""

    def __init__(self) -> None:
        self.segments = 0
        self._encoders: dict[str, ParquetEncoder] = {}  # by the segments' schema: each learns

    def cast(self, segment: Segment, schema: pa.Schema) -> pa.Buffer:
        """Return a segment as a file of `schema`, whose types are wider.

        Raises:
            LakeError: the segment cannot be decoded.
        """
        try:
            table = segment.to_table()
        except SegmentError as error:
            raise LakeError(error.reason) from error
        self.segments += 1
        return self._encode(segment, table.cast(schema))

    def _encode(self, segment: Segment, table: pa.Table) -> pa.Buffer:
        encoder = self._encoders.setdefault(segment.header.schema, ParquetEncoder(_COMPRESSION))
        return encoder.encode(table.combine_chunks().to_batches()[0], {})
