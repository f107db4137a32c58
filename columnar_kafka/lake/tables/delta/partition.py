"""Partitions of Delta tables: columns whose values stand in the log, as texts.

Files keep the columns that they have; readers take the value from the log, or from the path.
"""

from __future__ import annotations

import datetime
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.model import PartitionColumn
from columnar_kafka.lake.partition import is_filled, parse_terms
from columnar_kafka.lake.tables.delta.schema import JsonObject, delta_schema
from columnar_kafka.schema import FILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from columnar_kafka.lake.model import PartitionValues

__all__ = [
    "as_text",
    "columns",
    "folder",
    "new_columns",
    "with_filled",
    "without_filled",
]

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_NAME_BYTES: Final = 255
_UNNAMED: Final = re.compile(r"[/\\\x00-\x1f\x7f]")
"""What the name of a column is not left with, in the name of a folder."""
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()


def _text(value: str, column: str) -> str:
    if value in ("", _NULL):
        raise LakeError(
            f"partition column {column!r}: Delta reads {value!r} as null: partition by another "
            "column, or write another value"
        )
    if len(_folder(column, value).encode()) > _NAME_BYTES:
        raise LakeError(
            f"partition column {column!r}: the folder of {value[:20]!r}… would have a name of more "
            f"than {_NAME_BYTES} bytes, which file systems do not allow: partition by another "
            "column"
        )
    return value


def _date(days: int) -> str:
    return datetime.date.fromordinal(_EPOCH + days).isoformat()


def _boolean(value: bool) -> str:
    return str(value).lower()


_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "boolean": _boolean,
    "byte": str,
    "short": str,
    "integer": str,
    "long": str,
    "date": _date,
}
"""How values of a type become texts."""


def as_text(value: Any) -> str | None:
    """Return a partition's value as the log has it.

    Raises:
        LakeError: values of its type are not supported.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return _boolean(value)
    if isinstance(value, int):
        return str(value)
    if type(value) is datetime.date:
        return value.isoformat()
    raise LakeError(f"a partition of {value!r}: its type {type(value).__name__} is not supported")


def new_columns(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the partition columns of a new table.

    Raises:
        LakeError: one is a transform.
    """
    terms = parse_terms(texts)
    for term in terms:
        if term.transform != "identity":
            raise LakeError(
                f"partition {term.transform}({term.column}): a Delta table is partitioned by "
                "columns only"
            )
    return tuple(term.column for term in terms)


def columns(
    table: JsonObject, names: Iterable[str], schema: pa.Schema
) -> tuple[PartitionColumn, ...]:
    """Return the partition columns of a table, for segments of a schema.

    Raises:
        LakeError: a column does not exist, or its type is not supported.
    """
    types = {field["name"]: field["type"] for field in table["fields"]}
    partition_columns = []
    for name in names:
        delta = types.get(name)
        if is_filled(name, schema) and delta != (filled := _filled_field(name)["type"]):
            raise LakeError(f"partition column {name!r} must be {filled} in the table")
        if delta is None:
            raise LakeError(f"partition column {name!r} does not exist")
        shown = delta if isinstance(delta, str) else str(delta["type"])
        text = partial(_text, column=name) if shown == "string" else _TEXTS.get(shown)
        if text is None:
            raise LakeError(f"partition column {name!r}: its type {shown} is not supported")
        partition_columns.append(PartitionColumn(name, (name,), text))
    return tuple(partition_columns)


def with_filled(table: JsonObject, schema: pa.Schema, names: Iterable[str]) -> JsonObject:
    """Return a new table's schema with the partition columns that segments do not have."""
    more = [_filled_field(name) for name in names if is_filled(name, schema)]
    return {**table, "fields": [*table["fields"], *more]}


def _filled_field(name: str) -> JsonObject:
    field: JsonObject = delta_schema(pa.schema([(name, FILLED[name])]))["fields"][0]
    return field


def without_filled(table: JsonObject, schema: pa.Schema, names: Collection[str]) -> JsonObject:
    """Return a table's schema without the partition columns that segments need not have."""
    fields = [
        field
        for field in table["fields"]
        if field["name"] not in names or not is_filled(field["name"], schema)
    ]
    return {**table, "fields": fields}


def folder(partition: PartitionValues) -> str:
    """Return the folder of a partition's files, as Hive names it; empty for no partition."""
    return "/".join(_folder(name, value) for name, value in partition)


def _folder(name: str, value: str | None) -> str:
    # polars looks for the name as it is. deltalake's OPTIMIZE finds no path with ~.
    text = _NULL if value is None else quote(value, safe="").replace("~", "%7E")
    return f"{_UNNAMED.sub(lambda match: quote(match[0], safe=''), name)}={text}"
