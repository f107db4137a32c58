"""JSON keys and values → columns, with pyarrow's reader."""

from __future__ import annotations

import json
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.json

from columnar_kafka.columns.layouts import one_array
from columnar_kafka.errors import ConfigError, SchemaError
from columnar_kafka.plain.base import DECODE_ERRORS, check_column_names
from columnar_kafka.plain.core_rows import CoreValues
from columnar_kafka.plain.lenient import Lenient
from columnar_kafka.plain.lenient_rows import LenientRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.native import _core as core

__all__ = ["Json", "Lines"]

_CELLS: Final = 1 << 20
"""The most cells that may be null because other values have fields that these lack."""

_BRACKETS: Final = 200
"""A value with more brackets may be nested too deeply, and is checked."""


class Json:
    """JSON values, read by pyarrow into the columns of a schema, or into inferred columns.

    With a schema, fields that it does not have are left out, and missing fields are null. Without
    one, the columns are inferred from the first few hundred values of a table: numbers become int64
    or float64, text in ISO 8601 becomes timestamps, and the table ends before a value that does not
    fit. Numbers are never read as text, nor text as numbers.

    With ``fields="lenient"`` objects are read as they land: by the rules of `Lenient`, with what
    finds no column in one more, and the types that `Producer.set_schema` makes of the schema.
    """

    name = ""

    def __init__(
        self,
        schema: Any = None,
        *,
        fields: Literal["lenient"] | None = None,
        unknown: str = "rest",
        misfit: str = "rest",
        coerce: bool = False,
        rest_column: str = "_rest",
        path: str = "",
    ) -> None:
        """Set the columns of JSON objects, or the type of other values; None to infer them.

        Args:
            schema: a `pyarrow.Schema`, or a type; with `fields` it may be an Avro schema too.
            fields: whether what differs from the schema is kept; the others are for that.
            unknown: see `Lenient`.
            misfit: see there.
            coerce: see there.
            rest_column: see there.
            path: see there.

        Raises:
            SchemaError: a type cannot be read from JSON, for pyarrow a map for example; or two
                columns share a name, or one has that of the `_kafka` column.
            ConfigError: an argument is not allowed.
            TypeError: with `fields`, it is no schema.
        """
        lenient = Lenient(unknown, misfit, coerce, rest_column, path)
        self._lenient: CoreValues | None = None
        if fields is None and lenient != Lenient():
            raise ConfigError('Json has rules of what differs: they need fields="lenient"')
        if fields is not None:
            if fields != "lenient":
                raise ConfigError(f'fields is {fields!r}: it must be "lenient", or be left out')
            if unknown == "grow":
                raise ConfigError("unknown is 'grow': what is read grows no table")
            rows = LenientRows(schema, lenient)
            self._lenient, schema = CoreValues(rows), rows.columns
        arrow = pa.struct(list(schema)) if isinstance(schema, pa.Schema) else schema
        if arrow is not None:
            check_column_names(arrow)
        self._schema = None if arrow is None else pa.schema([("value", arrow)])
        self._empty = pa.array([])
        if self._lenient is not None:
            self._empty = pa.array([], arrow)
            return
        try:
            self._empty = self.decode([b"null"]).slice(0, 0)
        except (pa.ArrowException, ValueError) as error:
            raise SchemaError(f"values of {arrow} cannot be read from JSON: {error}") from error

    def __repr__(self) -> str:
        return f"<Json {'inferred' if self._schema is None else self._schema.field(0).type}>"

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """See `Format.decode`."""
        if not values:
            return self._empty
        if self._lenient is not None:
            return one_array(self._lenient.decode(values).to_struct_array())
        for value in values:
            if len(value) > _BRACKETS < value.count(b"[") + value.count(b"{"):
                _check_nesting(value)
        everything = b"".join(values)
        if b"\n" in everything or b"\r" in everything:
            # JSON allows line breaks only between tokens, where a blank means the same.
            values = [value.replace(b"\n", b" ").replace(b"\r", b" ") for value in values]
        lines = Lines.of(values)
        try:
            return self.decode_lines(lines)
        except pa.ArrowException:
            if self._schema is None:
                raise
            for value in values:  # or text after a value could pass as a field to leave out
                json.loads(value)
            return _read(lines.data, len(values), self._schema, "ignore")

    def decode_lines(self, lines: Lines) -> pa.Array:
        """Return what `decode` does, if no value has a field that the schema does not have."""
        if self._schema is None:
            return _inferred(lines)
        return _read(lines.data, lines.rows, self._schema, "error")

    def decode_fetched(self, columns: core.FetchedColumns, *, is_key: bool) -> pa.Array | None:
        """Return what `decode` does of all keys or values; None: that has to look at them."""
        if self._lenient is not None:
            return None
        made = columns.json_lines(is_key, _BRACKETS, _CELLS)
        if made is None:
            return None
        data, *numbers = made
        try:
            return self.decode_lines(Lines(pa.py_buffer(data), len(columns), *numbers))
        except DECODE_ERRORS:
            return None


class Lines(NamedTuple):
    """Values as JSON objects, each in a line.

    In this form no value can be empty, or begin in one line and end in another: as many rows as
    lines means one row for each line.

    Attributes:
        data: the lines, with a line break between two of them.
        rows: how many there are.
        nbytes: what the values take in all.
        first: how many of the first lines cannot make more than `_CELLS` cells, one at least.
        first_bytes: what these take.
    """

    data: pa.Buffer
    rows: int
    nbytes: int
    first: int
    first_bytes: int

    @classmethod
    def of(cls, values: Sequence[bytes]) -> Lines:
        """Return the lines of values, one at least, that have no line breaks."""
        data = _BEGIN + _BETWEEN.join(values) + b"}"
        fields = accumulate(value.count(b":") + 1 for value in values)
        first = max(
            1, sum(1 for _ in takewhile(lambda n: n[0] * n[1] <= _CELLS, enumerate(fields, 1)))
        )
        first_bytes = sum(map(len, values[:first])) + len(_BETWEEN) * first - 1
        nbytes = len(data) - len(_BETWEEN) * len(values) + 1
        return cls(pa.py_buffer(data), len(values), nbytes, first, first_bytes)


_BEGIN: Final = b'{"value":'
_BETWEEN: Final = b"}\n" + _BEGIN


def _inferred(lines: Lines) -> pa.Array:
    """Read values into the columns of the first ones.

    Each value may add columns, which all others then have too. So only as many values are read
    first as cannot make too many cells.
    """
    array = _read(lines.data.slice(0, lines.first_bytes), lines.first, None, "infer")
    if lines.first == lines.rows:
        return array
    cells = lines.rows * _leaves(array.type)
    if cells > _CELLS + lines.nbytes:  # most of them null
        raise ValueError("has too many fields that others lack")
    return _read(lines.data, lines.rows, pa.schema([("value", array.type)]), "error")


def _leaves(arrow: pa.DataType) -> int:
    children = [arrow.field(i).type for i in range(arrow.num_fields)]
    return sum(map(_leaves, children)) if children else 1


def _read(lines: pa.Buffer, rows: int, schema: pa.Schema | None, other_fields: str) -> pa.Array:
    table = pyarrow.json.read_json(
        pa.BufferReader(lines),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=other_fields
        ),
    )
    if table.num_rows != rows or table.column_names != ["value"]:
        raise ValueError("is not one JSON value")
    table.validate(full=True)  # text is UTF-8
    array = table["value"].combine_chunks()
    check_column_names(array.type)
    return array


def _check_nesting(value: bytes) -> None:
    """Refuse a value nested a thousand levels deep: it would overflow pyarrow's stack."""
    try:
        json.loads(value)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
