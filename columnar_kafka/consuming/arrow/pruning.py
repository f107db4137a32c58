"""Whether a filter can match any row of a segment, told without decoding it.

It is told by where the segment is, as Kafka says, and by what its producer says of all its rows:
the times in its headers and the statistics in its footer. Those are believed as its values are, but
not where it is decoded in another process, since its producer is not trusted.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from columnar_kafka.columns.kafka_column import TIMESTAMP
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.segment.parquet.statistics import Bounds

if TYPE_CHECKING:
    from columnar_kafka.consuming.arrow.projection import ReadPlan
    from columnar_kafka.segment.parquet.statistics import ColumnPath
    from columnar_kafka.segment.segment import Segment

__all__ = ["rules_out"]


def rules_out(segment: Segment, plan: ReadPlan) -> bool:
    """Say whether no row of a segment can match the filter of a plan for its columns.

    False where that cannot be told. The rows of a segment that is ruled out are not looked at: a
    filter that would fail on one of them does not fail.

    Raises:
        SegmentError: as `Segment.verify`.
    """
    if plan.casts:
        return False
    known = _known(segment, plan)
    if not known:
        return False
    guarantee = reduce(and_, (_holds(pc.field(*path), each) for path, each in known.items()))
    return not _is_satisfiable(plan, guarantee)


def _known(segment: Segment, plan: ReadPlan) -> dict[ColumnPath, Bounds]:
    """Return the bounds of what the filter uses, as far as they are known."""
    first, header = segment.offset, segment.header
    members: dict[str, tuple[Any, Any, pa.DataType]] = {
        "topic": (segment.topic, segment.topic, pa.string()),
        "partition": (segment.partition, segment.partition, pa.int32()),
        "offset": (first, first + segment.rows - 1, pa.int64()),
    }
    known: dict[ColumnPath, Bounds] = {}
    said = segment.statistics(plan.used)
    if said is not None:
        known |= said
        if _has_times(segment.schema):
            members["timestamp"] = (header.timestamp_min, header.timestamp_max, TIMESTAMP)
    for name, (least, greatest, kind) in members.items():
        if f"{KAFKA_COLUMN}.{name}" in plan.used:
            ends = pa.scalar(least, kind), pa.scalar(greatest, kind)
            known[KAFKA_COLUMN, name] = Bounds(*ends, has_nulls=False)
    return known


def _has_times(schema: pa.Schema) -> bool:
    place = schema.get_field_index(KAFKA_COLUMN)
    return place >= 0 and bool(schema.field(place).type.get_field_index("timestamp") >= 0)


def _holds(field: pc.Expression, known: Bounds) -> pc.Expression:
    """Return what is true of all values of a field, in the forms that Arrow makes use of."""
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

    Arrow can tell for the files of a dataset, which is asked for those that are to be opened.
    """
    import pyarrow.dataset as ds  # noqa: PLC0415 - 50 ms, for filters only

    form, system = _nowhere()
    fragment = form.make_fragment("", system, partition_expression=guarantee)
    files = ds.FileSystemDataset([fragment], plan.schema, form, system)
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
