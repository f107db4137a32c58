"""The rows of a segment as rows of other columns, by way of the JSON that they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.lake.model import UnlandableError
from columnar_kafka.plain.json_values import JsonValues
from columnar_kafka.plain.reversible_rows import ReversibleRows
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.segment.segment import ValueForm, record_slices

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.segment.json_layout import JsonLayout
    from columnar_kafka.segment.segment import Segment

__all__ = ["adapted"]

_JSON = ValueForm("json", JsonValues.of)


def adapted(segment: Segment, columns: RecordSchema, layout: JsonLayout) -> pa.Table:
    """Return a segment's rows in these columns, and what does not fit them in a rest.

    Raises:
        UnlandableError: one cannot be read, or a column needs a value that it lacks.
    """
    if layout.rest is None:
        raise UnlandableError(f"segment at {segment.address}: it has no column for a rest")
    try:
        values: list[bytes] = []
        for _, records in record_slices(segment, 0, segment.rows, _JSON):
            values += records.values
        table, refused = ReversibleRows(columns, layout.rest).decode(values)
        kafka = [KAFKA_COLUMN] if KAFKA_COLUMN in segment.schema.names else []
        for column in segment.to_table(kafka).columns if kafka else ():
            table = table.append_column(segment.schema.field(KAFKA_COLUMN), column)
    except SegmentError as error:
        raise UnlandableError(error.reason) from error
    except SchemaError as error:
        raise UnlandableError(f"segment at {segment.address}: {error.reason}") from error
    for row, reason in refused.items():
        raise UnlandableError(f"segment at {segment.address}: row {row}: {reason}")
    return table
