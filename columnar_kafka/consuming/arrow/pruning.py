"""Whether a segment can be skipped, because a filter matches none of its rows: nothing is decoded.

Kafka says where the segment is. Its producer says the range of its timestamps, in the headers, and
statistics of its columns, in the footer. They are trusted as far as its values are: not where
segments are decoded in another process, because their producers are not trusted.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.kafka_column import TIMESTAMP
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.segment.parquet.statistics import Bounds

if TYPE_CHECKING:
    from columnar_kafka.consuming.arrow.projection import ReadPlan
    from columnar_kafka.segment.parquet.statistics import ColumnPath
    from columnar_kafka.segment.segment import Segment

__all__ = ["can_skip"]


def can_skip(segment: Segment, plan: ReadPlan) -> bool:
    """Say whether no row of a segment can match the filter of a plan for its columns.

    False where that is not known. The rows of a skipped segment are not examined: a filter that
    would fail on one of them does not fail.

    Raises:
        SegmentError: as `Segment.verify`.
    """
    if plan.casts:
        return False
    known = _known_bounds(segment, plan)
    if not known:
        return False
    guarantee = reduce(
        and_, (_guarantee(pc.field(*path), bounds) for path, bounds in known.items())
    )
    return not _is_satisfiable(plan, guarantee)


def _known_bounds(segment: Segment, plan: ReadPlan) -> dict[ColumnPath, Bounds]:
    """Return the known bounds of the columns that the filter uses."""
    first, header = segment.offset, segment.header
    members: dict[str, tuple[Any, Any, pa.DataType]] = {
        "topic": (segment.topic, segment.topic, pa.string()),
        "partition": (segment.partition, segment.partition, pa.int32()),
        "offset": (first, first + segment.rows - 1, pa.int64()),
    }
    known: dict[ColumnPath, Bounds] = {}
    statistics = segment.statistics(plan.filter_columns)
    if statistics is not None:
        known |= statistics
        if _has_times(segment.schema):
            members["timestamp"] = (header.timestamp_min, header.timestamp_max, TIMESTAMP)
    for name, (least, greatest, kind) in members.items():
        if f"{KAFKA_COLUMN}.{name}" in plan.filter_columns:
            ends = pa.scalar(least, kind), pa.scalar(greatest, kind)
            known[KAFKA_COLUMN, name] = Bounds(*ends, has_nulls=False)
    return known


def _has_times(schema: pa.Schema) -> bool:
    index = schema.get_field_index(KAFKA_COLUMN)
    return index >= 0 and bool(schema.field(index).type.get_field_index("timestamp") >= 0)


def _guarantee(field: pc.Expression, known: Bounds) -> pc.Expression:
    """Return what is true of all values of a field, written as Arrow can use it."""
    if known.least is None or known.greatest is None:
        return field.is_null()
    if known.has_nulls:
        null = field.is_null()
        return ((field >= known.least) | null) & ((field <= known.greatest) | null)
    if known.least == known.greatest:
        return field == known.least
    return (field >= known.least) & (field <= known.greatest)


def _is_satisfiable(plan: ReadPlan, guarantee: pc.Expression) -> bool:
    """Say whether a filter can be true where the guarantee is.

    Arrow decides that for the files of a dataset: which ones to open. So it is asked about a file.
    """
    import pyarrow.dataset as ds  # noqa: PLC0415 - 50 ms, for filters only

    file_format, system = _nowhere()
    fragment = file_format.make_fragment("", system, partition_expression=guarantee)
    files = ds.FileSystemDataset([fragment], plan.schema, file_format, system)
    try:
        return any(True for _ in files.get_fragments(filter=plan.condition))
    except (pa.ArrowException, ValueError, TypeError):  # it fails on a value: rows will tell
        return True


@cache
def _nowhere() -> tuple[Any, Any]:
    """Return a format and a file system for files that are never opened."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - as above
    from pyarrow import fs  # noqa: PLC0415 - as above

    return ds.IpcFileFormat(), fs.LocalFileSystem()
