"""Small segments as one row group, by the native core: without Arrow, and without Python rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from columnar_kafka import native
from columnar_kafka.lake.stitching.parquet_footer import read_footer
from columnar_kafka.lake.stitching.row_groups import START
from columnar_kafka.segment.decoder import default_decoder
from columnar_kafka.segment.headers import parse_headers
from columnar_kafka.segment.native_encoder import leaf_plans
from columnar_kafka.segment.parquet.metadata import ARROW_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from columnar_kafka.lake.model import Fitting, SourceMessage
    from columnar_kafka.segment.headers import SegmentHeader
    from columnar_kafka.segment.native_decoder import KnownFile

__all__ = ["NativeRowGroup"]

_COMPRESSION: Final = "zstd"


class NativeRowGroup:
    """Rows of small segments with the same columns; empty at first. For one thread.

    When it has rows, `schema` is their columns', and `fitting` says how they land.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.schema: pa.Schema
        self.fitting: Fitting
        self._first: SourceMessage | None = None
        self._group = native.core.RowGroup() if native.enabled else None

    @property
    def nbytes(self) -> int:
        """What the rows take in memory."""
        return 0 if self._group is None else self._group.nbytes

    def add(
        self,
        message: SourceMessage,
        fit: Callable[[str, pa.Schema, Mapping[bytes, bytes]], Fitting],
        max_bytes: int,
    ) -> bool:
        """Verify a segment, value by value, and add its rows; return whether that was done.

        If not, it is for others to judge. They do that too if the rows take more than `max_bytes`,
        have to be cast, or the table has partitions.

        Raises:
            SegmentError: it is damaged.
            LakeError: whatever `fit` raises.
        """
        if self._group is None:
            return False
        header, crc32 = parse_headers(message.headers)
        known = _opened(message, header, crc32)
        if known is None or not self._takes(header, known, fit):
            return False
        try:
            if not known.append_to(self._group, max_bytes):
                return False
        except native.core.PanicError:
            self._group = None
            return False
        self._first = self._first or message
        self.rows += header.rows
        return True

    def _takes(
        self,
        header: SegmentHeader,
        known: KnownFile,
        fit: Callable[[str, pa.Schema, Mapping[bytes, bytes]], Fitting],
    ) -> bool:
        """Return whether rows of a file can be put to those that are here."""
        schema = known.schema
        if self._first is not None:
            return schema is self.schema or schema.equals(self.schema, check_metadata=True)
        if not known.check():  # fitting a forged schema to a table may take any memory
            return False
        self.schema, self.fitting = schema, fit(header.schema, schema, known.said)
        return not self.fitting.partitioning and self.fitting.cast_to is None

    def encoded(self) -> bytes | None:
        """Return the rows as a file; None if the core has failed on them.

        The file is like the first segment's, so that it can be stitched to others like it.
        """
        if self._group is None or self._first is None:
            return None
        footer = read_footer(memoryview(self._first.value), at=START, ordinal=0, first=None)
        pairs = [] if footer.arrow_schema is None else [(ARROW_SCHEMA, footer.arrow_schema)]
        try:
            encoder = native.core.Encoder(
                leaf_plans(self.schema),
                footer.schema,
                pairs,
                footer.created_by.decode(),
                _COMPRESSION,
                messages_are_compressed=False,
                members=[],
            )
            return self._group.encode(encoder)
        except native.core.PanicError:
            return None


def _opened(message: SourceMessage, header: SegmentHeader, crc32: int) -> KnownFile | None:
    """Open a segment's file; None if the core is off, or cannot read it."""
    core = default_decoder().core
    if core is None:
        return None
    value = message.value or b""
    return core.open(header, crc32, value, schema=lambda: message.segment().schema)
