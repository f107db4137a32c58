"""JSON objects → columns, by the rules of produced rows.

pyarrow's reader, for consumers, leaves out the fields that it does not know, and missing ones are
null (`plain.json`). Here the schema decides what a row is.
"""

from __future__ import annotations

import decimal
import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka import native
from columnar_kafka.columns.from_rows.accepted_types import show
from columnar_kafka.columns.native_format import NotNativeError, row_format
from columnar_kafka.errors import RowError
from columnar_kafka.plain.json_leaves import Read, check_names, text_reader
from columnar_kafka.plain.json_text import exact, refuse_constant, text_of
from columnar_kafka.plain.rows import RowsOneByOne
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import refuse_unions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.native import _core as core

__all__ = ["JsonRows"]


class JsonRows(RowsOneByOne):
    """JSON objects, each of them a row of a schema, as `Producer.produce` would take it.

    A field that the schema does not have, a missing one without a default, a value of another type
    or out of range is an error. What JSON does not have is read from text or numbers: bytes from
    base64, dates and times from ISO 8601 or from a number in the column's unit, decimals from text
    or from a number, whose digits count. An integer is a float where the column has floats. A
    column of JSON text has any value that is not null.
    """

    def __init__(self, schema: Any, schema_id: int | None = None) -> None:
        super().__init__(RecordSchema.parse(schema))
        refuse_unions(self.columns, "JSON")
        self._is_exact = bool(self.records.json_texts) or any(
            map(_has_decimals, self.columns.types)
        )
        self._readers = dict(_readers(self.columns, "", self.records))
        self._decoder = json.JSONDecoder(
            parse_float=exact if self._is_exact else _finite, parse_constant=refuse_constant
        )

    def native_format(self) -> core.PlainFormat:
        """See `PlainRows.native_format`."""
        if self.records.json_texts:
            raise NotNativeError("it has no columns of JSON text")
        return native.core.PlainFormat.json(row_format(self.records), self._is_exact)

    def taken(self, value: bytes) -> RowValues:
        """See `RowsOneByOne.taken`."""
        try:
            row: Any = self._decoder.decode(value.decode())
        except (ValueError, RecursionError) as error:
            raise RowError(f"it is not JSON: {error}") from error
        if type(row) is not dict:
            raise RowError(f"it is {show(row)}, not a JSON object")
        for name, read in self._readers.items():
            if (member := row.get(name)) is not None:
                row[name] = read(member)
        return self.rows.take(row)[0]


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is larger than every float")
    return number


def _has_decimals(arrow: pa.DataType) -> bool:
    inner = (arrow.field(i).type for i in range(arrow.num_fields))
    return pa.types.is_decimal(arrow) or any(map(_has_decimals, inner))


def _readers(
    fields: Sequence[pa.Field], prefix: str, schema: RecordSchema
) -> Iterator[tuple[str, Read]]:
    """Yield the fields whose values JSON has in another form, each with what reads them."""
    for field in fields:
        path = f"{prefix}{field.name}"
        if (read := _reader(field.type, path, schema)) is not None:
            yield field.name, read


def _reader(arrow: pa.DataType, path: str, schema: RecordSchema) -> Read | None:
    """Return what reads the values of a type; None if they are as a row has them."""
    if path in schema.json_texts:
        return text_of
    kind = family(arrow)
    if kind == "struct":
        return _record(dict(_readers(list(arrow), f"{path}.", schema)))
    if kind == "map":
        check_names(arrow, path)
        return _map(_reader(arrow.item_type, f"{path}.value", schema))
    if kind == "list":
        return _list(_reader(arrow.value_type, f"{path}.item", schema))
    return _float(path) if kind == "float" else text_reader(arrow, path, schema)


def _record(readers: Mapping[str, Read]) -> Read | None:
    if not readers:
        return None

    def read(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {
            name: readers[name](member) if member is not None and name in readers else member
            for name, member in value.items()
        }

    return read


def _map(inner: Read | None) -> Read | None:
    if inner is None:
        return None

    def read(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {name: None if member is None else inner(member) for name, member in value.items()}

    return read


def _list(inner: Read | None) -> Read | None:
    if inner is None:
        return None

    def read(value: Any) -> Any:
        if type(value) is not list:
            return value
        return [None if element is None else inner(element) for element in value]

    return read


def _float(path: str) -> Read:
    def read(value: Any) -> Any:
        if type(value) not in (decimal.Decimal, int):  # JSON's 1 and 1.0 are one number
            return value
        try:
            return _finite(str(value))
        except ValueError as error:
            raise RowError(f"field {path!r}: {error}") from error

    return read
