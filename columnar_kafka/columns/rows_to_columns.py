"""Rows to columns in Python and pyarrow: rows are buffered in chunks and converted a chunk at once.

pyarrow converts more than a producer may: it stores 1.5 as the integer 1 and b"x" as a string.
So the Python types of a row are looked at when it is taken. What its types do not tell (an integer
too large, a date too late) is found when its chunk is converted, and refused alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns.accepted_types import AcceptedTypes, show
from columnar_kafka.columns.converters import converter
from columnar_kafka.columns.copying import VALUE_BYTES, freezer, measure
from columnar_kafka.columns.protocol import Converted, Refusal
from columnar_kafka.columns.row_objects import ROWS, RowReader, getter
from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from columnar_kafka.columns.converters import Convert
    from columnar_kafka.schema import RecordSchema

__all__ = ["CHUNK_ROWS", "RowColumns"]

CHUNK_ROWS: Final = 1024
"""Rows converted at once: enough for Arrow's speed, few enough to find a bad one early."""

_ROW_BYTES: Final = 256  # a record's own objects: the tuple of values, its place in the lists

Row = tuple[Any, ...]


class RowColumns:
    """Implements `Columns` for one schema."""

    def __init__(self, schema: RecordSchema) -> None:
        self.schema = schema.arrow
        self._names = schema.arrow.names
        self._width = len(self._names)
        self._record = RowReader(self._names, "", schema.defaults)
        self._get = self._record.get
        self._base = _ROW_BYTES + VALUE_BYTES * self._width
        self._taken = [AcceptedTypes(each, each.name) for each in schema.arrow]
        self._frozen = [
            (i, freeze)
            for i, each in enumerate(schema.arrow)
            if (freeze := freezer(each, each.name, schema)) is not None
        ]
        self._fields = [(each.name, converter(each.type)) for each in schema.arrow]
        texts = [i for i, taken in enumerate(self._taken) if taken.is_text]
        self._texts: Callable[[Row], Row] | None = getter(texts) if texts else None
        self._others = [
            i for i, taken in enumerate(self._taken) if taken.is_binary or taken.is_local
        ]
        # The Python types of the last row, good ones: the next row often has the same. Any thread
        # may set them.
        self._usual: list[type] = []

    def take(self, row: Any) -> tuple[Row, int]:
        """See `Columns.take`."""
        try:
            # What `Record.values` does, for the one kind of row that has to be fast.
            values = self._get(row) if type(row) is dict and len(row) == self._width else None
        except KeyError:
            values = None
        if values is None and (values := self._record.values(row)) is None:
            raise TypeError(f"a row is {ROWS}, not {type(row).__name__}")
        nbytes = self._base
        if self._frozen:
            values, more = self._freeze(values)
            nbytes += more
        types = list(map(type, values))
        if types != self._usual:
            self._check(types, values)
            self._usual = types
        if self._texts is not None:
            text = "".join(filter(None, self._texts(values)))
            nbytes += (
                len(text)
                if text.isascii()
                else sum(map(measure, filter(None, self._texts(values))))
            )
        if self._others:
            nbytes += self._look(values)
        return values, nbytes

    def builder(self) -> RowColumnsBuilder:
        """See `Columns.builder`."""
        return RowColumnsBuilder(self)

    def _freeze(self, values: Row) -> tuple[Row, int]:
        frozen = list(values)
        nbytes = 0
        for i, freeze in self._frozen:
            if frozen[i] is not None:
                frozen[i], more = freeze(frozen[i])
                nbytes += more
        return tuple(frozen), nbytes

    def _check(self, types: list[type], values: Row) -> None:
        for taken, kind, value in zip(self._taken, types, values, strict=True):
            if kind not in taken.exact and not taken.accepts(kind):
                raise taken.wrong(value)

    def _look(self, values: Row) -> int:
        """Check the zones of local times, and return the bytes of binary values."""
        nbytes = 0
        for i in self._others:
            if values[i] is None:
                continue
            if self._taken[i].is_local:
                self._taken[i].check_zone(values[i])
            else:
                nbytes += len(values[i])
        return nbytes

    def convert(self, rows: Sequence[Row]) -> Converted:
        """Return the columns of `rows`; a row that does not fit is refused alone."""
        arrays, errors = self._arrays(rows)
        found = errors
        while found:  # in the rows that are left there may be more
            kept = [i for i in range(len(rows)) if i not in errors]
            arrays, found = self._arrays([rows[i] for i in kept])
            errors |= {kept[i]: error for i, error in found.items()}
        refused = {
            i: Refusal(error, dict(zip(self._names, rows[i], strict=True)))
            for i, error in sorted(errors.items())
        }
        return Converted(pa.RecordBatch.from_arrays(arrays, schema=self.schema), refused)

    def _arrays(self, rows: Sequence[Row]) -> tuple[list[pa.Array], dict[int, RowError]]:
        """Return the columns of `rows`, or some of the rows that do not fit and why."""
        columns = list(zip(*rows, strict=True)) or [()] * self._width
        arrays = []
        errors: dict[int, RowError] = {}
        for (name, convert), column in zip(self._fields, columns, strict=True):
            try:
                arrays.append(convert(column))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must take no other along
                for i, value in enumerate(column):
                    if i not in errors and (reason := _unfit(name, convert, value)):
                        errors[i] = reason
                # Where each value fits alone, but not together, they share the blame.
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


def _unfit(name: str, convert: Convert, value: Any) -> RowError | None:
    """Return why a value is none that its column can hold, or None where it is."""
    try:
        convert([value])
    except Exception as error:  # noqa: BLE001 - Arrow raises many kinds
        return RowError(f"field {name!r}: {show(value)}: {error}")
    return None
