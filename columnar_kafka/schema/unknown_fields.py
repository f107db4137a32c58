"""Columns for fields that rows have in their rest, as no column has their name."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.inference import Inference
from columnar_kafka.schema.leading import of_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from columnar_kafka.schema.record_schema import RecordSchema

__all__ = ["columns_of_unknown", "nested_names"]


def nested_names(columns: pa.Schema) -> list[str]:
    """Return which columns `columns_of_unknown` has to see, beside the rest."""
    return [field.name for field in columns if pa.types.is_nested(field.type)]


def columns_of_unknown(
    rows: pa.Table,
    columns: pa.Schema,
    rest_column: str,
    *,
    max_columns: int,
    reserved: Iterable[str],
    tokens: Sequence[str] = (),
    json_texts: bool = True,
) -> RecordSchema | None:
    """Return the columns that fields without one would have; None: nothing is known of any.

    What does not fit its column gets no other one.

    Args:
        rows: some that have a rest, with their nested columns.
        columns: those that rows have, but the rest.
        rest_column: the name of the rest's.
        max_columns: the most that are new.
        reserved: see `Inference`.
        tokens: the names that lead to a row in its rest.
        json_texts: see `Inference`.
    """
    inference = Inference(max_columns=max_columns, reserved=reserved, json_texts=json_texts)
    for row in rows.select([*nested_names(columns), rest_column]).to_pylist():
        for fields in _parsed(row[rest_column], tokens):
            inference.add(_unknown(fields, columns, row))
    try:
        told, _ = inference.result()
    except SchemaError:  # nothing is known of them yet
        return None
    return of_columns(told.arrow, told.json_texts)


def _parsed(rest: str, tokens: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield what is left of a row, if anything is; what lies beside it gets no columns."""
    with suppress(ValueError, InvalidOperation):
        value = json.loads(rest, parse_float=Decimal)
        for token in tokens:
            value = value.get(token) if isinstance(value, dict) else None
        if isinstance(value, dict):
            yield value


def _unknown(
    rest: dict[str, Any], fields: Iterable[pa.Field], row: dict[str, Any]
) -> dict[str, Any]:
    """Return the part of a row's rest that has no column; not values that do not fit theirs."""
    types = {field.name: field.type for field in fields}
    return {
        name: _inside(value, types[name], row.get(name)) if name in types else value
        for name, value in rest.items()
    }


def _inside(rest: Any, arrow: pa.DataType, value: Any) -> Any:
    """Return that part of the rest of a value, of which there is none if nothing of it fits."""
    if value is not None and pa.types.is_struct(arrow):
        return _unknown(rest, arrow, value)
    if value is not None and pa.types.is_list(arrow):
        return [_inside(part, arrow.value_type, value[int(at)]) for at, part in rest.items()]
    return None
