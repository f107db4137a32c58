"""A sink for Spark in Python that does nothing: what its Python workers cost.

The workers import this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType


class Bare(DataSource):
    """Where rows go that nobody wants."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "bare"

    def writer(self, schema: StructType, overwrite: bool) -> BareWriter:
        """Return what writes a batch query."""
        return BareWriter()


class BareWriter(DataSourceArrowWriter):
    """Drops the rows of a batch query."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Drop a task's rows."""
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing."""
