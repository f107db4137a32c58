"""Rows to columns in Python and pyarrow: rows are buffered and converted a chunk at a time.

pyarrow converts more than a producer may: it stores 1.5 as the integer 1, and b"x" as a string.
So `take` checks the Python types of each row, the range and precision of numbers and times, and
that text is UTF-8. A value of a wrong length, where the schema fixes it, shows when the chunk is
converted; that row is rejected alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.columns.from_rows.converters import converter, misfit
from columnar_kafka.columns.from_rows.copying import element, union
from columnar_kafka.columns.from_rows.row_objects import ROW_TYPES, RowReader, is_row
from columnar_kafka.columns.from_rows.taken_values import to_builtin, to_produced
from columnar_kafka.errors import RowError
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema.unions import is_union_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.columns.from_rows.copying import Copy
    from columnar_kafka.schema import RecordSchema

__all__ = ["CHUNK_ROWS", "Converted", "RejectedRow", "RowColumns", "RowColumnsBuilder", "RowValues"]

CHUNK_ROWS: Final = 1024
"""Rows converted at a time: enough for Arrow's speed, few enough to find a bad row early."""

_ROW_BYTES: Final = 256  # a record's own objects: the tuple of values, its place in the lists

RowValues = tuple[Any, ...]


class RejectedRow(NamedTuple):
    """A row that does not fit its schema, as `RowColumns.row` returns it, and why."""

    error: RowError
    value: Any


class Converted(NamedTuple):
    """The columns of the rows that fit, and the rejected rows by their index among all rows."""

    batch: pa.RecordBatch
    rejected: dict[int, RejectedRow]


class RowColumns:
    """Turns rows of one schema into columns. Thread-safe."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema.arrow
        self._names = schema.arrow.names
        self._reader = RowReader(self._names, "", schema.defaults)
        self._elements = [element(field, field.name, schema) for field in schema.arrow]
        is_union = is_union_of_rows(schema.arrow)
        self._union = union(list(schema.arrow), "", schema) if is_union else None
        row = pa.struct(list(schema.arrow))
        self._converters = [(field.name, converter(field.type)) for field in schema.arrow]
        self._to_builtin = [to_builtin(field) for field in schema.arrow]
        self._to_produced = to_produced(pa.field("", row, nullable=False))

    def take(self, row: Any) -> tuple[RowValues, int]:
        """Check and copy a row; return its values, and the bytes that they may hold.

        A row, or a record inside a row, is a dict or any mapping, a namedtuple, or an object of a
        dataclass, attrs, msgspec or pydantic class. A missing field gets its Avro default. In a
        column with a time zone a naive datetime is UTC; a datetime with a time zone does not fit a
        column without one. The caller's objects can no longer change the values returned. Of a
        union of records a row is as `UnionReader` has it.

        Raises:
            RowError: a field is missing or unknown, has the wrong Python type, or is out of its
                column's range. `convert` rejects what only the conversion can tell, such as bytes
                of another length than the schema fixes.
            TypeError: the object is not a row.
        """
        if self._union is not None:
            members, nbytes = self._take_branch(self._union, row)
            return members, nbytes + _ROW_BYTES
        originals = self._reader.values(row)
        if originals is None:
            raise TypeError(f"a row must be {ROW_TYPES}, not {type(row).__name__}")
        values, nbytes = [], _ROW_BYTES
        for copy, original in zip(self._elements, originals, strict=True):
            value, more = copy(original)
            values.append(value)
            nbytes += more
        return tuple(values), nbytes

    def _take_branch(self, copy: Copy, row: Any) -> tuple[RowValues, int]:
        if type(row) is not tuple and not is_row(row):
            raise TypeError(f"a row must be (branch, row) or {ROW_TYPES}, not {type(row).__name__}")
        return copy(row)

    def builtin(self, values: RowValues) -> RowValues:
        """Return what `take` has returned in objects of builtin classes, as the native core wants.

        The columns are the same. Where a column cannot hold a value, `values` are returned. It may
        run code of the user's: of a time's zone, or of a number's class.
        """
        try:
            return self._builtin(values)
        except Exception as error:  # noqa: BLE001 - conversion raises it again, and rejects the row
            raise_if_once(error, partial(self._builtin, values))
            return values

    def _builtin(self, values: RowValues) -> RowValues:
        return tuple(change(value) for change, value in zip(self._to_builtin, values, strict=True))

    def row(self, values: RowValues) -> Any:
        """Return what `take` has returned as a row, which `take` accepts again."""
        return self._to_produced(values)

    def builder(self) -> RowColumnsBuilder:
        """Return an empty builder."""
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
    """Buffers rows, and turns them into columns once. Not thread-safe.

    Attributes:
        append: adds one row, as `RowColumns.take` returned it.
        capacity: the number of rows after which to `finish` this builder and start a new one.
    """

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._rows: list[RowValues] = []
        self.append = self._rows.append
        self.capacity = CHUNK_ROWS

    def finish(self) -> Converted:
        """Return the columns; called once."""
        return self._columns.convert(self._rows)
