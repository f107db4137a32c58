"""A source and a sink for Spark in Python that do nothing: what its Python workers cost.

The workers import this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType


class Bare(DataSource):
    """So many micro-batches of one row, which go nowhere."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "bare"

    def schema(self) -> str:
        """Return the columns."""
        return "number BIGINT"

    def streamReader(self, schema: StructType) -> BareReader:  # noqa: N802 - Spark's
        """Return what reads."""
        return BareReader(int(self.options["batches"]))

    def writer(self, schema: StructType, overwrite: bool) -> BareWriter:
        """Return what writes a batch query."""
        return BareWriter()

    def streamWriter(self, schema: StructType, overwrite: bool) -> BareStreamWriter:  # noqa: N802
        """Return what writes a stream."""
        return BareStreamWriter()


class BareReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of batches."""

    def __init__(self, batches: int) -> None:
        self._batches = batches

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where the stream begins."""
        return {"next": 0}

    def getDefaultReadLimit(self) -> ReadMaxRows:  # noqa: N802
        """Return that there is a limit."""
        return ReadMaxRows(1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: the end is known."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends."""
        return {"next": min(start["next"] + 1, self._batches)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task."""
        return [InputPartition((start["next"], end["next"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Yield one row."""
        yield pa.RecordBatch.from_pydict({"number": pa.array(partition.value[:1], pa.int64())})


class _Dropping:
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Drop a task's rows."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class BareWriter(_Dropping, DataSourceArrowWriter):
    """Drops the rows of a batch query."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing."""


class BareStreamWriter(_Dropping, DataSourceStreamArrowWriter):
    """Drops the rows of a stream."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing."""
