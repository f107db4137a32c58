"""Rows and their rest → the JSON objects of which they were made."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from contextlib import suppress
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.plain.json_leaves import PER_SECOND
from columnar_kafka.plain.json_text import integer
from columnar_kafka.plain.lenient import tokens_of
from columnar_kafka.plain.lenient_leaves import shortest
from columnar_kafka.schema import FILLED, KAFKA_COLUMN, RecordSchema
from columnar_kafka.schema.json_schema import is_json_schema, read_json_schema
from columnar_kafka.schema.kept import from_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["restored"]


def restored(
    row: Mapping[str, Any],
    schema: Any = None,
    *,
    rest_column: str = "_rest",
    path: str = "",
) -> dict[str, Any]:
    """Return the object of which a row was made: its fields, and those of its rest.

    In it null and absent are one, so that objects have no nulls. Numbers are int, float or Decimal,
    with all their digits. Bytes are base64, and dates and times have one form of ISO 8601, whatever
    the message had.

    Args:
        row: what `pyarrow.Table.to_pylist` returns for it, or the like. The column `_kafka` is left
            out, and those of a partition that Kafka or the clock tells, unless the schema has them.
        schema: what the messages were decoded with, or the text that a table keeps. It tells JSON
            text from other texts, lists of pairs and empty lists from maps, a float of 32 bits from
            one of 64, and in which unit a duration was. Rows without such columns need none.
        rest_column: the name of the rest's column.
        path: the pointer to the row in a message, as it was given to decode them.

    Raises:
        SchemaError, TypeError: `schema` cannot be used.
    """
    records = schema if isinstance(schema, RecordSchema) else None
    if schema is not None and records is None:
        records = _records(_hashable(schema))
    types = {} if records is None else {field.name: field.type for field in records.arrow}
    restorer = _Restorer(records)
    text = row.get(rest_column)
    rest = {} if text is None else _parsed(text)
    own = {KAFKA_COLUMN, rest_column, *(FILLED.keys() - types.keys())}
    members = {name: value for name, value in row.items() if name not in own}
    made = _placed(tokens_of(path), rest, lambda inner: restorer.record(members, types, inner, ""))
    whole: dict[str, Any] = _without_nulls(made)
    return whole


def _placed(
    tokens: list[str], rest: dict[str, Any], restore: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return the rest with the row in it, at its place."""
    if not tokens:
        made: dict[str, Any] = restore(rest)
        return made
    name, *others = tokens
    return {**rest, name: _placed(others, rest.get(name, {}), restore)}


def _without_nulls(value: Any) -> Any:
    """Return a value whose objects lack what is null, as columns have it and a rest may not."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _hashable(schema: Any) -> Any:
    return json.dumps(schema) if isinstance(schema, dict | list) else schema


@lru_cache(maxsize=16)
def _records(schema: Any) -> RecordSchema:
    if not isinstance(schema, str):
        return RecordSchema.parse(schema)
    parsed: Any = None
    with suppress(ValueError):  # of which `from_kept` says more
        parsed = json.loads(schema)
    return read_json_schema(parsed) if is_json_schema(parsed) else from_kept(schema)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_float=decimal.Decimal, parse_int=integer)


class _Restorer:
    """Puts values and what is left of them together; types are None where nothing is known."""

    def __init__(self, records: RecordSchema | None) -> None:
        self._json_texts = frozenset() if records is None else records.json_texts
        self._uuids = frozenset() if records is None else records.uuids

    def record(self, members: Any, types: Mapping[str, Any], rest: Any, path: str) -> Any:
        """Return an object."""
        prefix = f"{path}." if path else ""
        made = {
            name: self.value(value, types.get(name), rest.get(name), f"{prefix}{name}")
            for name, value in members.items()
        }
        return made | {name: value for name, value in rest.items() if name not in members}

    def value(self, value: Any, arrow: pa.DataType | None, rest: Any, path: str) -> Any:
        """Return a value, or what is left if there is none."""
        if value is None or (value == [] and rest is not None):  # pyiceberg has [] for some nulls
            return rest
        rest = {} if rest is None else rest
        if _is_map(value, arrow):
            pairs = value.items() if isinstance(value, dict) else map(_pair, value)
            item_type = None if arrow is None else arrow.item_type
            return self._map(dict(pairs), item_type, rest, path)
        if isinstance(value, dict):
            types = {} if arrow is None else {field.name: field.type for field in arrow}
            return self.record(value, types, rest, path)
        if isinstance(value, list):
            item_type = None if arrow is None else arrow.value_type
            return [
                self.value(item, item_type, rest.get(str(index)), f"{path}.item")
                for index, item in enumerate(value)
            ]
        return self._leaf(value, arrow, path)

    def _leaf(self, value: Any, arrow: pa.DataType | None, path: str) -> Any:
        if path in self._json_texts:
            return _parsed(value)
        if path in self._uuids and isinstance(value, bytes):
            return str(uuid.UUID(bytes=value))
        if isinstance(value, float) and arrow is not None:
            return float(shortest(value, arrow))
        if isinstance(value, datetime.timedelta) and arrow is not None:
            return value // datetime.timedelta(microseconds=1) * PER_SECOND[arrow.unit] // 10**6
        return _json(value)

    def _map(self, pairs: Any, item_type: Any, rest: Any, path: str) -> Any:
        made = {
            name: self.value(value, item_type, rest.get(name), f"{path}.value")
            for name, value in pairs.items()
        }
        return made | {name: value for name, value in rest.items() if name not in pairs}


def _pair(item: Any) -> Any:
    """Return a pair of a map: engines have them as tuples, or as records of key and value."""
    return (item["key"], item["value"]) if isinstance(item, dict) else item


def _is_map(value: Any, arrow: pa.DataType | None) -> bool:
    """Say whether a value is a map; where no type says so, one that is not empty."""
    if arrow is not None:
        return bool(pa.types.is_map(arrow))
    return isinstance(value, list) and bool(value) and all(isinstance(x, tuple) for x in value)


@singledispatch
def _json(value: Any) -> Any:
    return value


@_json.register
def _(value: bytes) -> str:
    return base64.b64encode(value).decode()


@_json.register
def _(value: uuid.UUID) -> str:
    return str(value)


@_json.register
def _(value: datetime.date) -> str:
    return value.isoformat()


@_json.register
def _(value: datetime.time) -> str:
    return value.isoformat()


@_json.register
def _(value: datetime.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
