"""Rows to columns in Python and pyarrow: rows are buffered and converted a chunk at a time.

pyarrow converts more than a producer may: it stores 1.5 as the integer 1, and b"x" as a string.
So `take` checks the Python types of each row. What types do not tell, such as an integer that is
too large or a date that is too late, shows when the chunk is converted; that row is rejected alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns.accepted_types import AcceptedTypes, show
from columnar_kafka.columns.compiled_copying import VALUE_BYTES
from columnar_kafka.columns.converters import converter
from columnar_kafka.columns.copying import copier, max_utf8_bytes
from columnar_kafka.columns.protocol import Converted, RejectedRow
from columnar_kafka.columns.row_objects import ROW_TYPES, RowReader, tuple_getter
from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from columnar_kafka.columns.converters import Convert
    from columnar_kafka.schema import RecordSchema

__all__ = ["CHUNK_ROWS", "RowColumns"]

CHUNK_ROWS: Final = 1024
"""Rows converted at a time: enough for Arrow's speed, few enough to find a bad row early."""

_ROW_BYTES: Final = 256  # a record's own objects: the tuple of values, its place in the lists

Row = tuple[Any, ...]


class RowColumns:
    """Implements `Columns` for one schema."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema.arrow
        self._names = schema.arrow.names
        self._width = len(self._names)
        self._reader = RowReader(self._names, "", schema.defaults)
        self._get = self._reader.get
        self._base_bytes = _ROW_BYTES + VALUE_BYTES * self._width
        self._accepted = [AcceptedTypes(field, field.name) for field in schema.arrow]
        self._copiers = [
            (i, copy)
            for i, field in enumerate(schema.arrow)
            if (copy := copier(field, field.name, schema)) is not None
        ]
        self._converters = [(field.name, converter(field.type)) for field in schema.arrow]
        texts = [i for i, accepted in enumerate(self._accepted) if accepted.is_text]
        self._get_texts: Callable[[Row], Row] | None = tuple_getter(texts) if texts else None
        self._binary_or_local = [
            i
            for i, accepted in enumerate(self._accepted)
            if accepted.is_binary or accepted.is_local
        ]
        # The Python types of the last good row: the next row often has the same. Any thread may
        # set them.
        self._last_types: list[type] = []

    def take(self, row: Any) -> tuple[Row, int]:
        """See `Columns.take`."""
        try:
            # `RowReader.values`, inlined for the one type of row that has to be fast.
            values = self._get(row) if type(row) is dict and len(row) == self._width else None
        except KeyError:
            values = None
        if values is None and (values := self._reader.values(row)) is None:
            raise TypeError(f"a row must be {ROW_TYPES}, not {type(row).__name__}")
        nbytes = self._base_bytes
        if self._copiers:
            values, more = self._copy(values)
            nbytes += more
        types = list(map(type, values))
        if types != self._last_types:
            self._check(types, values)
            self._last_types = types
        if self._get_texts is not None:
            text = "".join(filter(None, self._get_texts(values)))
            nbytes += (
                len(text)
                if text.isascii()
                else sum(map(max_utf8_bytes, filter(None, self._get_texts(values))))
            )
        if self._binary_or_local:
            nbytes += self._check_binary_or_local(values)
        return values, nbytes

    def builder(self) -> RowColumnsBuilder:
        """See `Columns.builder`."""
        return RowColumnsBuilder(self)

    def _copy(self, values: Row) -> tuple[Row, int]:
        copied = list(values)
        nbytes = 0
        for i, copy in self._copiers:
            if copied[i] is not None:
                copied[i], more = copy(copied[i])
                nbytes += more
        return tuple(copied), nbytes

    def _check(self, types: list[type], values: Row) -> None:
        for accepted, python, value in zip(self._accepted, types, values, strict=True):
            if python not in accepted.exact and not accepted.accepts(python):
                raise accepted.mismatch(value)

    def _check_binary_or_local(self, values: Row) -> int:
        """Check the time zones of local times, and return the bytes of binary values."""
        nbytes = 0
        for i in self._binary_or_local:
            if values[i] is None:
                continue
            if self._accepted[i].is_local:
                self._accepted[i].check_zone(values[i])
            else:
                nbytes += len(values[i])
        return nbytes

    def convert(self, rows: Sequence[Row]) -> Converted:
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
        rejected = {
            i: RejectedRow(error, dict(zip(self._names, rows[i], strict=True)))
            for i, error in sorted(errors.items())
        }
        return Converted(pa.RecordBatch.from_arrays(arrays, schema=self.schema), rejected)

    def _arrays(self, rows: Sequence[Row]) -> tuple[list[pa.Array], dict[int, RowError]]:
        """Return the columns of `rows`, or the errors of some rows that do not fit, by index."""
        columns = list(zip(*rows, strict=True)) or [()] * self._width
        arrays = []
        errors: dict[int, RowError] = {}
        for (name, convert), column in zip(self._converters, columns, strict=True):
            try:
                arrays.append(convert(column))
            except Exception as error:  # noqa: BLE001 - any error must stay with its own rows
                for i, value in enumerate(column):
                    if i not in errors and (reason := _error_of(name, convert, value)):
                        errors[i] = reason
                # Where each value fits alone, but not all together, all rows share the error.
                together = RowError(f"field {name!r}: {error}")
                errors = errors or dict.fromkeys(range(len(rows)), together)
        return arrays, errors


class RowColumnsBuilder:
    """Buffers one chunk of rows."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._rows: list[Row] = []
        self.append = self._rows.append
        self.capacity = CHUNK_ROWS

    def __len__(self) -> int:
        return len(self._rows)

    def finish(self) -> Converted:
        """See `Builder.finish`."""
        return self._columns.convert(self._rows)


def _error_of(name: str, convert: Convert, value: Any) -> RowError | None:
    """Return why a column cannot hold a value; None if it can."""
    try:
        convert([value])
    except Exception as error:  # noqa: BLE001 - Arrow raises many kinds
        return RowError(f"field {name!r}: {show(value)}: {error}")
    return None
