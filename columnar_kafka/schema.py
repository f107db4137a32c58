"""Schemas: what a topic's records look like, from pyarrow or Avro, checked once in `set_schema`."""

from __future__ import annotations

import decimal
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
import pyarrow as pa

from columnar_kafka.errors import SchemaError

__all__ = ["KAFKA_COLUMN", "MAX_NESTING", "RecordSchema", "canonical", "fingerprint"]

KAFKA_COLUMN: Final = "_kafka"
MAX_NESTING: Final = 100
"""pyarrow writes deeper files than it can read back."""

_FIELD_ID: Final = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The user's columns, normalised to what Parquet stores; `defaults` are Avro's, by field."""

    arrow: pa.Schema
    defaults: Mapping[str, Any] = field(default_factory=dict)
    symbols: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, schema: Any) -> RecordSchema:
        """Return the schema of a topic.

        Args:
            schema: a `pyarrow.Schema`, or an Avro record schema as a dict or JSON text.

        Raises:
            SchemaError: naming the field that cannot be used, and why.
            TypeError: not a schema at all.
        """
        if isinstance(schema, pa.Schema):
            parsed = cls(schema)
        elif isinstance(schema, str | Mapping):
            parsed = _from_avro(schema)
        else:
            raise TypeError(
                "a schema is a pyarrow.Schema, or an Avro schema as a dict or JSON text, "
                f"not {type(schema).__name__}"
            )
        return cls(_normalise(parsed.arrow), parsed.defaults, parsed.symbols)


def _normalise(schema: pa.Schema) -> pa.Schema:
    if not len(schema):
        raise SchemaError("the schema has no fields; a record needs at least one")
    names = schema.names
    for name in names:
        if name == KAFKA_COLUMN:
            raise SchemaError(f"field {name!r} is reserved for each record's key, time and headers")
        if names.count(name) > 1:
            raise SchemaError(f"field {name!r} occurs {names.count(name)} times; names are unique")
    fields = [_field(each, each.name, 1) for each in schema]
    return pa.schema(fields, metadata=_users(schema.metadata))


def _field(each: pa.Field, path: str, depth: int) -> pa.Field:
    metadata = {k: v for k, v in (each.metadata or {}).items() if k != _FIELD_ID}
    return pa.field(each.name, _type(each.type, path, depth), each.nullable, metadata or None)


# A change of layout is not a coercion: the values are the same.
_LAYOUTS: Final = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
_NOT_IN_PARQUET: Final = (
    ("timestamp[s]", lambda t: pa.types.is_timestamp(t) and t.unit == "s", "timestamp[ms]"),
    ("time32[s]", pa.time32("s").equals, "time32[ms]"),
    ("date64", pa.types.is_date64, "date32"),
)
_PLAIN: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


def _type(  # noqa: PLR0911 - one for each kind of type
    arrow: pa.DataType, path: str, depth: int
) -> pa.DataType:
    """Return the stored form of a type, or refuse it by the path of its field."""
    if depth > MAX_NESTING:
        raise SchemaError(
            f"field {path.partition('.')[0]!r} is nested more than {MAX_NESTING} levels deep"
        )
    arrow = _LAYOUTS.get(arrow, arrow)
    _check_unit(arrow, path)
    if pa.types.is_dictionary(arrow):
        return _type(arrow.value_type, path, depth)
    if any(accepts(arrow) for accepts in _PLAIN):
        return arrow
    if pa.types.is_struct(arrow):
        return _struct(arrow, path, depth)
    if pa.types.is_map(arrow):
        return _map(arrow, path, depth)
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(_field(arrow.value_field, f"{path}.item", depth + 1), arrow.list_size)
    if pa.types.is_large_list(arrow):
        return pa.large_list(_field(arrow.value_field, f"{path}.item", depth + 1))
    if pa.types.is_list(arrow) or pa.types.is_list_view(arrow):
        return pa.list_(_field(arrow.value_field, f"{path}.item", depth + 1))
    raise SchemaError(f"field {path!r} has type {arrow}, which a segment cannot store")


def _map(arrow: pa.DataType, path: str, depth: int) -> pa.DataType:
    if pa.types.is_nested(arrow.key_type):
        raise SchemaError(f"field {path!r} has keys of type {arrow.key_type}, as no dict can")
    item = _field(arrow.item_field, f"{path}.value", depth + 1)
    return pa.map_(_type(arrow.key_type, f"{path}.key", depth + 1), item)


def _check_unit(arrow: pa.DataType, path: str) -> None:
    """Refuse a unit of time that would be stored as another: the user's ints would not follow."""
    for coarse, test, instead in _NOT_IN_PARQUET:
        if test(arrow):
            raise SchemaError(f"field {path!r} has type {coarse}, not in Parquet: use {instead}")


def _struct(arrow: pa.DataType, path: str, depth: int) -> pa.DataType:
    fields = [arrow.field(i) for i in range(arrow.num_fields)]
    if not fields:
        raise SchemaError(f"field {path!r} is a record without fields, which Parquet cannot store")
    names = [each.name for each in fields]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"field {f'{path}.{name}'!r} occurs {names.count(name)} times")
    for each in fields:
        # Arrow writes such a column and, where the record is null, cannot read it.
        if pa.types.is_fixed_size_list(each.type) and not each.nullable:
            raise SchemaError(
                f"field {f'{path}.{each.name}'!r} is a fixed-size list that cannot be null, inside "
                "a record: make it nullable, or a list"
            )
    return pa.struct([_field(each, f"{path}.{each.name}", depth + 1) for each in fields])


# --- Avro ---------------------------------------------------------------------------------------

_AVRO_PRIMITIVES: Final = {
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
_AVRO_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
    ("string", "uuid"): pa.string(),
}


def _from_avro(schema: str | Mapping[str, Any]) -> RecordSchema:
    try:
        loaded = json.loads(schema) if isinstance(schema, str) else dict(schema)
        fastavro.parse_schema(loaded, _force=True)
        loaded = fastavro.schema.expand_schema(loaded)
    except json.JSONDecodeError as error:
        raise SchemaError(f"the Avro schema is not JSON: {error}") from error
    except Exception as error:  # fastavro raises many kinds for what is not a schema
        raise SchemaError(f"not an Avro schema: {type(error).__name__}: {error}") from error
    if not isinstance(loaded, Mapping) or loaded.get("type") != "record":
        raise SchemaError("the Avro schema of a topic is a record; this one is not")
    fields = loaded["fields"]
    reader = _AvroReader()
    reader.open.append(loaded["name"])
    try:
        arrow = pa.schema([reader.field(each, each["name"]) for each in fields])
    except RecursionError as error:
        raise SchemaError(
            f"the Avro schema is nested more than {MAX_NESTING} levels deep"
        ) from error
    defaults = {
        each["name"]: _avro_default(each["type"], each["default"])
        for each in fields
        if "default" in each
    }
    return RecordSchema(arrow, defaults, reader.symbols)


class _AvroReader:
    """Turns one expanded Avro schema into Arrow types; remembers the enums it met, by path."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.symbols: dict[str, frozenset[str]] = {}

    def field(self, each: Mapping[str, Any], path: str) -> pa.Field:
        arrow, nullable = self._nullable(each["type"], path)
        return pa.field(each["name"], arrow, nullable)

    def _nullable(self, avro: Any, path: str) -> tuple[pa.DataType, bool]:
        """Return a type, and whether null is one of its branches."""
        if not isinstance(avro, list):
            return self._type(avro, path), False
        branches = [branch for branch in avro if branch not in ("null", {"type": "null"})]
        if len(branches) != 1:
            raise SchemaError(
                f"field {path!r} is a union of {len(branches)} types besides null; "
                "a column has one type: use one, or a record with a nullable field for each"
            )
        return self._type(branches[0], path), len(branches) < len(avro)

    def _type(self, avro: Any, path: str) -> pa.DataType:
        if isinstance(avro, str):
            avro = {"type": avro}
        kind = avro["type"]
        if isinstance(kind, Mapping | list):
            return self._type(kind, path)
        if kind in _AVRO_PRIMITIVES or kind == "fixed":
            return _avro_plain(avro, kind, path)
        if kind == "enum":
            self.symbols[path] = frozenset(avro["symbols"])
            return pa.string()
        if kind == "array":
            item, nullable = self._nullable(avro["items"], f"{path}.item")
            return pa.list_(pa.field("item", item, nullable))
        if kind == "map":
            value, nullable = self._nullable(avro["values"], f"{path}.value")
            return pa.map_(pa.string(), pa.field("value", value, nullable))
        if kind in ("record", "error"):
            return self._record(avro, path)
        if kind in self.open:
            raise SchemaError(f"field {path!r} is recursive ({kind}); columns cannot be")
        raise SchemaError(f"field {path!r} has Avro type {kind!r}, which a segment cannot store")

    def _record(self, avro: Mapping[str, Any], path: str) -> pa.DataType:
        self.open.append(avro["name"])
        fields = [self.field(each, f"{path}.{each['name']}") for each in avro["fields"]]
        self.open.pop()
        return pa.struct(fields)


def _avro_default(avro: Any, value: Any) -> Any:  # noqa: PLR0911 - one for each kind of type
    """Return a default, given as Avro writes it in JSON, as it would be in a row."""
    if isinstance(avro, list):
        if value is None:
            return None
        return _avro_default(next(each for each in avro if each != "null"), value)
    if isinstance(avro, str):
        avro = {"type": avro}
    kind = avro["type"]
    if isinstance(kind, Mapping | list):
        return _avro_default(kind, value)
    if kind in ("bytes", "fixed"):
        data = value.encode("latin-1")
        if not _is_decimal(avro):
            return data
        unscaled = int.from_bytes(data, signed=True)
        return decimal.Decimal(unscaled).scaleb(-avro.get("scale", 0))
    if kind == "array":
        return [_avro_default(avro["items"], each) for each in value]
    if kind == "map":
        return {key: _avro_default(avro["values"], each) for key, each in value.items()}
    if kind in ("record", "error"):
        return {
            each["name"]: _avro_default(each["type"], value.get(each["name"], each.get("default")))
            for each in avro["fields"]
        }
    return value


def _is_decimal(avro: Mapping[str, Any]) -> bool:
    """Say whether this is a decimal; one without a precision is what Avro calls to be ignored."""
    return avro.get("logicalType") == "decimal" and "precision" in avro


def _avro_plain(avro: Mapping[str, Any], kind: str, path: str) -> pa.DataType:
    logical = avro.get("logicalType")
    if _is_decimal(avro) and kind in ("bytes", "fixed"):
        precision = avro["precision"]
        if precision > _DECIMAL256:
            raise SchemaError(
                f"field {path!r} is a decimal of {precision} digits; {_DECIMAL256} is the most"
            )
        wide = pa.decimal128 if precision <= _DECIMAL128 else pa.decimal256
        return wide(precision, avro.get("scale", 0))
    if kind == "fixed":
        return pa.binary(avro["size"])
    return _AVRO_LOGICAL.get((kind, str(logical)), _AVRO_PRIMITIVES[kind])


# --- the canonical text -------------------------------------------------------------------------


def canonical(schema: pa.Schema) -> str:
    """Return the text that is equal for two schemas exactly when their segments can be stitched.

    One line per field, depth first: depth, name as JSON, type, ``?`` when nullable; then each
    metadata entry of field or schema as JSON, sorted. Defined in ``docs/segment-format.md``.
    """
    lines = [line for each in schema for line in _field_lines(each.name, each, 0)]
    return "\n".join([*lines, *_metadata_lines(_users(schema.metadata), 0)]) + "\n"


def fingerprint(schema: pa.Schema) -> str:
    """Return the first 16 bytes, in hex, of SHA-256 over `canonical`."""
    return hashlib.sha256(canonical(schema).encode()).hexdigest()[:32]


_FILES_OWN: Final = (b"columnar.", b"ARROW:")
"""How the keys of the metadata begin that say something of the file, not of its schema."""


def _users(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    found = {k: v for k, v in (metadata or {}).items() if not k.startswith(_FILES_OWN)}
    return found or None


def _field_lines(name: str, each: pa.Field, depth: int) -> list[str]:
    null = "?" if each.nullable else ""
    lines = [f"{depth} {json.dumps(name)} {_type_name(each.type)}{null}"]
    lines += _metadata_lines(each.metadata, depth + 1)
    for child_name, child in _children(each.type):
        lines += _field_lines(child_name, child, depth + 1)
    return lines


def _metadata_lines(metadata: Mapping[bytes, bytes] | None, depth: int) -> list[str]:
    pairs = sorted((metadata or {}).items())
    return [f"{depth} @ {json.dumps([k.decode('latin-1'), v.decode('latin-1')])}" for k, v in pairs]


def _children(arrow: pa.DataType) -> list[tuple[str, pa.Field]]:
    """Return the fields inside a type; those of lists and maps by this format's names."""
    if pa.types.is_struct(arrow):
        return [(each.name, each) for each in (arrow.field(i) for i in range(arrow.num_fields))]
    if pa.types.is_map(arrow):
        return [("key", arrow.key_field), ("value", arrow.item_field)]
    if any(is_list(arrow) for is_list in _LISTS):
        return [("item", arrow.value_field)]
    return []


_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def _type_name(arrow: pa.DataType) -> str:  # noqa: PLR0911 - one for each kind of type
    """Return a type's name in this format's own words, which no library's release can change."""
    if pa.types.is_struct(arrow):
        return "struct"
    if pa.types.is_map(arrow):
        return "map"
    if pa.types.is_fixed_size_list(arrow):
        return f"fixed_size_list[{arrow.list_size}]"
    if pa.types.is_large_list(arrow):
        return "large_list"
    if pa.types.is_list(arrow):
        return "list"
    if pa.types.is_timestamp(arrow):
        return f"timestamp[{arrow.unit},{json.dumps(arrow.tz)}]"
    if pa.types.is_time(arrow) or pa.types.is_duration(arrow):
        kind = "duration" if pa.types.is_duration(arrow) else f"time{arrow.bit_width}"
        return f"{kind}[{arrow.unit}]"
    if pa.types.is_decimal(arrow):
        return f"decimal{arrow.bit_width}[{arrow.precision},{arrow.scale}]"
    if pa.types.is_fixed_size_binary(arrow):
        return f"fixed_size_binary[{arrow.byte_width}]"
    return _NAMES[arrow.id]


_NAMES: Final = {
    arrow.id: name
    for name, arrow in {
        "bool": pa.bool_(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "uint8": pa.uint8(),
        "uint16": pa.uint16(),
        "uint32": pa.uint32(),
        "uint64": pa.uint64(),
        "float16": pa.float16(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "date32": pa.date32(),
        "string": pa.string(),
        "large_string": pa.large_string(),
        "binary": pa.binary(),
        "large_binary": pa.large_binary(),
    }.items()
}
