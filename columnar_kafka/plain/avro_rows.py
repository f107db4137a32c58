"""Avro datums → columns, by the rules of produced rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.columns.range_checks import has_time_out_of_day
from columnar_kafka.plain.avro import Avro
from columnar_kafka.plain.base import DECODE_ERRORS
from columnar_kafka.plain.rows import PlainRows
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.native import _core as core

__all__ = ["AvroRows"]


class AvroRows(PlainRows):
    """Avro datums of the schema that wrote them, as in `Avro`; each of them is a row."""

    def __init__(self, schema: Any, schema_id: int | None = None) -> None:
        super().__init__(RecordSchema.parse(schema))
        self.avro = Avro(schema, schema_id=schema_id)

    def decode(self, values: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
        """See `PlainRows.decode`."""
        errors: dict[int, str] = {}
        batches: list[pa.RecordBatch] = []
        self._decode(values, 0, batches, errors)
        return pa.Table.from_batches(batches, self.columns), errors

    def native_format(self) -> core.PlainFormat:
        """See `PlainRows.native_format`."""
        rows = row_format(self.records)
        return native.core.PlainFormat.avro(rows, self.avro.fields, self.avro.prefix)

    def _decode(
        self,
        values: Sequence[bytes],
        first: int,
        batches: list[pa.RecordBatch],
        errors: dict[int, str],
    ) -> None:
        """Decode values together, or else each half of them."""
        try:
            array = self.avro.decode(values)
            if has_time_out_of_day(array):  # no reader could read that back
                raise ValueError("a time of day is outside its 24 hours")
        except DECODE_ERRORS as error:
            if len(values) == 1:
                errors[first] = f"not a valid Avro value of this schema: {error}"
                return
            half = len(values) // 2
            self._decode(values[:half], first, batches, errors)
            self._decode(values[half:], first + half, batches, errors)
        else:
            batches.append(pa.RecordBatch.from_arrays(array.flatten(), schema=self.columns))
