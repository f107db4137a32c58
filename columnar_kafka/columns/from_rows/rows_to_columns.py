"""Rows to columns in Python and pyarrow: rows are buffered and converted a chunk at a time.

pyarrow converts more than a producer may: it stores 1.5 as the integer 1, and b"x" as a string.
So `take` checks the Python types of each row, the range and precision of numbers and times, and
that text is UTF-8. A value of a wrong length, where the schema fixes it, shows when the chunk is
converted; that row is rejected alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns.from_rows.compiled_copying import compiled
from columnar_kafka.columns.from_rows.converters import converter, misfit
from columnar_kafka.columns.from_rows.copying import element
from columnar_kafka.columns.from_rows.protocol import Converted, RejectedRow
from columnar_kafka.columns.from_rows.row_objects import ROW_TYPES, RowReader
from columnar_kafka.columns.from_rows.taken_values import to_builtin, to_produced
from columnar_kafka.errors import RowError
from columnar_kafka.runtime.interruptions import raise_if_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.schema import RecordSchema

__all__ = ["CHUNK_ROWS", "RowColumns"]

CHUNK_ROWS: Final = 1024
"""Rows converted at a time: enough for Arrow's speed, few enough to find a bad row early."""

_ROW_BYTES: Final = 256  # a record's own objects: the tuple of values, its place in the lists

RowValues = tuple[Any, ...]


class RowColumns:
    """Implements `Columns` for one schema."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema.arrow
        self._names = schema.arrow.names
        self._reader = RowReader(self._names, "", schema.defaults)
        self._elements = [element(field, field.name, schema) for field in schema.arrow]
        row = pa.struct(list(schema.arrow))
        self._converters = [(field.name, converter(field.type)) for field in schema.arrow]
        self._to_builtin = [to_builtin(field) for field in schema.arrow]
        self._to_produced = to_produced(pa.field("", row, nullable=False))
        self._take = compiled(row, "", schema, self._take_unusual, element, _ROW_BYTES)

    def take(self, row: Any) -> tuple[RowValues, int]:
        """See `Columns.take`."""
        return self._take(row if type(row) is dict else self._as_dict(row))

    def _as_dict(self, row: Any) -> dict[str, Any]:
        return dict(zip(self._names, self._values(row), strict=True))

    def _take_unusual(self, row: dict[str, Any]) -> tuple[RowValues, int]:
        """Copy a row in which something needs a careful look."""
        values, nbytes = [], _ROW_BYTES
        for copy, value in zip(self._elements, self._values(row), strict=True):
            copied, more = copy(value)
            values.append(copied)
            nbytes += more
        return tuple(values), nbytes

    def _values(self, row: Any) -> RowValues:
        values = self._reader.values(row)
        if values is None:
            raise TypeError(f"a row must be {ROW_TYPES}, not {type(row).__name__}")
        return values

    def builtin(self, values: RowValues) -> RowValues:
        """See `Columns.builtin`."""
        try:
            return self._builtin(values)
        except Exception as error:  # noqa: BLE001 - conversion raises it again, and rejects the row
            raise_if_once(error, partial(self._builtin, values))
            return values

    def _builtin(self, values: RowValues) -> RowValues:
        return tuple(change(value) for change, value in zip(self._to_builtin, values, strict=True))

    def row(self, values: RowValues) -> dict[str, Any]:
        """See `Columns.row`."""
        row: dict[str, Any] = self._to_produced(values)
        return row

    def builder(self) -> RowColumnsBuilder:
        """See `Columns.builder`."""
        return RowColumnsBuilder(self)

    def convert(self, rows: Sequence[RowValues]) -> Converted:
        """Return the columns of `rows`, without the rows that do not fit: each is rejected alone.

        Args:
            rows: as `take` returned them.
        """
        arrays, errors = self._arrays(rows)
        more = errors
        while more:  # the rows that are left may have others
            kept = [i for i in range(len(rows)) if i not in errors]
            arrays, more = self._arrays([rows[i] for i in kept])
            errors |= {kept[i]: error for i, error in more.items()}
        rejected = {i: RejectedRow(error, self.row(rows[i])) for i, error in sorted(errors.items())}
        return Converted(pa.RecordBatch.from_arrays(arrays, schema=self.schema), rejected)

    def _arrays(self, rows: Sequence[RowValues]) -> tuple[list[pa.Array], dict[int, RowError]]:
        """Return the columns of `rows`, or the errors of some rows that do not fit, by index."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self._names)
        arrays = []
        errors: dict[int, RowError] = {}
        for (name, convert), column in zip(self._converters, columns, strict=True):
            try:
                arrays.append(convert(column))
            except Exception as error:  # noqa: BLE001 - any error must stay with its own rows
                for i, value in enumerate(column):
                    if i not in errors and (reason := misfit(name, convert, value)):
                        errors[i] = reason
                # Where each value fits alone, but not all together, all rows share the error.
                together = RowError(f"field {name!r}: {error}")
                errors = errors or dict.fromkeys(range(len(rows)), together)
        return arrays, errors


class RowColumnsBuilder:
    """Buffers one chunk of rows."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._rows: list[RowValues] = []
        self.append = self._rows.append
        self.capacity = CHUNK_ROWS

    def finish(self) -> Converted:
        """See `Builder.finish`."""
        return self._columns.convert(self._rows)
