"""Avro schemas: the Arrow types that keep every value, and its type, unchanged."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema.arrow import MAX_NESTING
from columnar_kafka.schema.avro_default import read_default
from columnar_kafka.schema.avro_names import ARROW, RECORDS, check_names, inlined, one_record
from columnar_kafka.schema.avro_unions import (
    LOGICAL,
    branch_name,
    is_decimal,
    is_uuid,
    one_column,
    without_null,
)
from columnar_kafka.schema.unions import member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["AvroSchema", "Symbols", "read", "record_of_list"]

Symbols = Mapping[str, frozenset[str]]


class AvroSchema(NamedTuple):
    """An Avro schema as Arrow types, and what they cannot say; `RecordSchema` describes each."""

    arrow: pa.Schema
    defaults: Mapping[str, Any]
    symbols: Symbols
    uuids: frozenset[str]
    json_texts: frozenset[str]


_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_DECIMAL128: Final = 38
_DECIMAL256: Final = 76
_FIXED: Final = 1 << 31


def read(schema: str | Mapping[str, Any] | list[Any], *, is_kept: bool = False) -> AvroSchema:
    """Read the Avro schema of a topic's records.

    One that `is_kept` may have any names, and types that Avro does not have: see `to_avro`.

    Raises:
        SchemaError: a field cannot be used; says which and why.
    """
    reader = _Reader(_kept_type if is_kept else lambda _: None)
    try:
        arrow = pa.schema(list(reader.rows(_expand(schema, any_names=is_kept))))
    except RecursionError as error:
        raise SchemaError(
            f"the Avro schema is nested deeper than the {MAX_NESTING} levels of a Parquet file"
        ) from error
    return AvroSchema(
        arrow,
        reader.defaults,
        reader.symbols,
        frozenset(reader.uuids),
        frozenset(reader.json_texts),
    )


def _expand(schema: str | Mapping[str, Any] | list[Any], *, any_names: bool) -> Any:
    """Return the schema with every name replaced by the type that it stands for."""
    try:
        loaded = json.loads(schema) if isinstance(schema, str) else schema
    except json.JSONDecodeError as error:
        raise SchemaError(f"the Avro schema is not JSON: {error}") from error
    if not any_names:
        check_names(loaded)
    return _parsed(dict(loaded) if isinstance(loaded, Mapping) else loaded, expand=True)


def _parsed(schema: Any, *, expand: bool) -> Any:
    import fastavro  # noqa: PLC0415 - few have Avro schemas, and all would wait for it

    parse = partial(
        fastavro.parse_schema,
        schema,
        expand=expand,
        _write_hint=False,
        _ignore_default_error=True,  # our own check of defaults names the field
    )
    try:
        parsed = parse()
    except Exception as error:  # fastavro raises many kinds if it is not a schema
        raise_if_once(error, parse)
        raise SchemaError(f"not an Avro schema: {type(error).__name__}: {error}") from error
    return parsed


def record_of_list(schema: Any) -> Any:
    """Return the record of a list of one record and the types that it uses, with these inside it.

    Any other schema is returned as it is: a list of other types is a union.

    Raises:
        SchemaError: the list is not an Avro schema.
    """
    if one_record(schema) is None:
        return schema
    parsed = _parsed(schema, expand=False)
    record = one_record(parsed)
    return inlined(record, {named["name"]: named for named in parsed if named is not record})


def with_types(schema: Any, types: Sequence[Any]) -> Any:
    """Return a schema with the types that it uses inside it, each where it is first named.

    A type that uses another one stands behind that.

    Raises:
        SchemaError: one of them is not an Avro schema.
    """
    *named, parsed = _parsed([*types, schema], expand=False)
    return inlined(parsed, {part["name"]: part for part in named})


class _Reader:
    """Turns one expanded Avro schema into Arrow types; collects by path what those cannot say."""

    def __init__(self, kept_type: Callable[[Mapping[str, Any]], pa.DataType | None]) -> None:
        self._kept_type = kept_type
        self._open: list[str] = []
        self.defaults: dict[str, Any] = {}
        self.symbols: dict[str, frozenset[str]] = {}
        self.uuids: set[str] = set()
        self.json_texts: set[str] = set()

    def rows(self, expanded: Any) -> pa.StructType:
        """Return the columns of a schema: those of the record, or the members of their union."""
        types = expanded if isinstance(expanded, list) else [expanded]
        record = one_record(types)
        if record is not None:
            return self.record(record, "")
        if len(types) > 1 and all(_is_record(branch) for branch in types):
            return self.union(types, "")
        raise SchemaError("a topic's Avro schema must be one record, or a union of records")

    def record(self, avro: Mapping[str, Any], path: str) -> pa.StructType:
        self._open.append(avro["name"])
        prefix = f"{path}." if path else ""
        fields = [self._field(field, f"{prefix}{field['name']}") for field in avro["fields"]]
        self._open.pop()
        return pa.struct(fields)

    def _field(self, field: Mapping[str, Any], path: str) -> pa.Field:
        if not isinstance(field["name"], str):
            raise SchemaError(f"field {path!r}: its name must be text, not {field['name']!r}")
        arrow, nullable = self._nullable(field["type"], path)
        if "default" in field:
            self.defaults[path] = read_default(field["type"], field["default"], path)
        return pa.field(field["name"], arrow, nullable)

    def _nullable(self, avro: Any, path: str) -> tuple[pa.DataType, bool]:
        """Return a type, and whether null is one of its branches."""
        if not isinstance(avro, list):
            return self._type(avro, path), False
        branches = without_null(avro)
        nullable = len(branches) < len(avro)
        if len(branches) > 1:
            return one_column(branches) or self.union(branches, path), nullable
        return self._type(branches[0] if branches else "null", path), nullable

    def union(self, branches: Sequence[Any], path: str) -> pa.StructType:
        """Return the record that has a member for each of these branches."""
        prefix = f"{path}." if path else ""
        names = list(map(branch_name, branches))
        where = f"field {path!r}" if path else "the schema"
        for name in names:
            if names.count(name) > 1:
                raise SchemaError(
                    f"{where} is a union with {name!r} {names.count(name)} times, and nobody could "
                    "tell which of them a value is: Avro allows each type once, unless it has a "
                    "name of its own"
                )
        return pa.struct(
            [
                member(place, name, self._type(branch, f"{prefix}member{place}"))
                for place, (name, branch) in enumerate(zip(names, branches, strict=True))
            ]
        )

    def _type(self, avro: Any, path: str) -> pa.DataType:
        if isinstance(avro, list):
            raise SchemaError(
                f"field {path!r} is a union inside a union, which Avro does not allow"
            )
        if isinstance(avro, str):
            avro = {"type": avro}
        name = avro["type"]
        if name in _PRIMITIVES or name == "fixed":
            return self._plain(avro, name, path)
        if name == "enum":
            self.symbols[path] = frozenset(avro["symbols"])
            return pa.string()
        if name == "array":
            item, nullable = self._nullable(avro["items"], f"{path}.item")
            return pa.list_(pa.field("item", item, nullable))
        if name == "map":
            value, nullable = self._nullable(avro["values"], f"{path}.value")
            return pa.map_(pa.string(), pa.field("value", value, nullable))
        if name in RECORDS:
            return self.record(avro, path)
        if name in self._open:
            raise SchemaError(f"field {path!r} is recursive ({name}): a column type must be finite")
        raise SchemaError(f"field {path!r} has Avro type {name!r}, which a segment cannot store")

    def _plain(self, avro: Mapping[str, Any], name: str, path: str) -> pa.DataType:
        if is_uuid(avro):
            self.uuids.add(path)
        if name == "string" and avro.get("logicalType") == "json":
            self.json_texts.add(path)
        if (kept := self._kept_type(avro)) is not None:
            return kept
        if is_decimal(avro):
            return _decimal(avro["precision"], avro.get("scale") or 0, path)
        if name == "fixed":
            return _fixed(avro["size"], path)
        return LOGICAL.get((name, str(avro.get("logicalType"))), _PRIMITIVES[name])


def _is_record(avro: Any) -> bool:
    return isinstance(avro, Mapping) and avro.get("type") in RECORDS


def _kept_type(avro: Mapping[str, Any]) -> pa.DataType | None:
    """Return a type that Avro does not have; None if it has it."""
    if ARROW not in avro:
        return None
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(avro[ARROW]))).field(0).type


def _decimal(precision: int, scale: int, path: str) -> pa.DataType:
    if precision > _DECIMAL256:
        raise SchemaError(
            f"field {path!r} is a decimal of {precision} digits; the most is {_DECIMAL256}"
        )
    wide = pa.decimal128 if precision <= _DECIMAL128 else pa.decimal256
    return wide(precision, scale)


def _fixed(size: Any, path: str) -> pa.DataType:
    if not isinstance(size, int) or not 0 <= size < _FIXED:
        raise SchemaError(
            f"field {path!r}: a fixed type's size must be a whole number from 1 to {_FIXED - 1}, "
            f"not {size!r}"
        )
    return pa.binary(size)
