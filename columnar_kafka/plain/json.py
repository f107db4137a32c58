"""JSON keys and values → columns, by pyarrow's reader."""

from __future__ import annotations

import json
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.json

from columnar_kafka.errors import SchemaError
from columnar_kafka.plain.base import check_names

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Json"]

_CELLS: Final = 1 << 20
"""Cells that may become null because other values have fields there."""

_BRACKETS: Final = 200
"""More of them may be nested too deep, and are looked at."""


class Json:
    """JSON values, read by pyarrow: into the columns of a schema, or those that are found.

    With a schema, fields that it does not have are left out and those that are missing are null.
    Without one the columns are those of a table's first values, some hundreds, with numbers as
    int64 or float64 and text in ISO 8601 as timestamps; the table ends before a value that does not
    fit them. Numbers are not taken for text, nor the other way round.
    """

    name = ""

    def __init__(self, schema: pa.Schema | pa.DataType | None = None) -> None:
        """Take the columns of JSON objects, or the type of other values.

        Raises:
            SchemaError: a type that pyarrow cannot read from JSON (a map, for one).
        """
        kind = pa.struct(list(schema)) if isinstance(schema, pa.Schema) else schema
        self._schema = None if kind is None else pa.schema([("value", kind)])
        self._empty = pa.array([])
        try:
            self._empty = self.decode([b"null"]).slice(0, 0)
        except (pa.ArrowException, ValueError) as error:
            raise SchemaError(f"values of {kind} cannot be read from JSON: {error}") from error
        if kind is not None:
            check_names(kind)

    def __repr__(self) -> str:
        return f"<Json {'inferred' if self._schema is None else self._schema.field(0).type}>"

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """See `Format.decode`."""
        if not values:
            return self._empty
        for value in values:
            if len(value) > _BRACKETS < value.count(b"[") + value.count(b"{"):
                _check_nesting(value)
        everything = b"".join(values)
        if b"\n" in everything or b"\r" in everything:
            # Between tokens, where they may stand, they are blanks.
            values = [value.replace(b"\n", b" ").replace(b"\r", b" ") for value in values]
        if self._schema is None:
            return _inferred(values)
        try:
            return _read(values, self._schema, "error")
        except pa.ArrowException:
            for value in values:  # or a field that is left out could be one behind the value
                json.loads(value)
            return _read(values, self._schema, "ignore")


def _inferred(values: Sequence[bytes]) -> pa.Array:
    """Read values into the columns of the first ones.

    Each value may bring new columns, which all others then have too: so few are looked at that
    these are not too many.
    """
    fields = accumulate(value.count(b":") + 1 for value in values)
    first = sum(1 for _ in takewhile(lambda n: n[0] * n[1] <= _CELLS, enumerate(fields, 1)))
    found = _read(values[: max(1, first)], None, "infer")
    if len(found) == len(values):
        return found
    cells = len(values) * _leaves(found.type)
    if cells > _CELLS + sum(map(len, values)):  # most of them null
        raise ValueError("has too many fields that others lack")
    return _read(values, pa.schema([("value", found.type)]), "error")


def _leaves(kind: pa.DataType) -> int:
    children = [kind.field(n).type for n in range(kind.num_fields)]
    return sum(map(_leaves, children)) if children else 1


def _read(values: Sequence[bytes], schema: pa.Schema | None, other_fields: str) -> pa.Array:
    # So no value can be read as none, or begin in one line and end in another: as many rows as
    # lines means one row a line.
    lines = b'{"value":' + b'}\n{"value":'.join(values) + b"}"
    table = pyarrow.json.read_json(
        pa.BufferReader(lines),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=other_fields
        ),
    )
    if table.num_rows != len(values) or table.column_names != ["value"]:
        raise ValueError("is not one JSON value")
    table.validate(full=True)  # text is UTF-8
    found = table["value"].combine_chunks()
    check_names(found.type)
    return found


def _check_nesting(value: bytes) -> None:
    """Refuse what nests a thousand levels deep: pyarrow would end the process with a full stack."""
    try:
        json.loads(value)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
