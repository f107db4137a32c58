"""A schema's canonical text and fingerprint, as `docs/segment-format.md` defines them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["canonical", "children", "fingerprint", "type_name", "user_metadata"]


def canonical(schema: pa.Schema) -> str:
    """Return a text that two schemas share exactly when their segments can be stitched.

    It has one line per field, depth first: depth, name as JSON, type, and ``?`` if nullable. The
    sorted metadata of the field or schema follows, one entry a line, as JSON.

    Raises:
        SchemaError: a segment cannot have a field's type; names the first such field.
    """
    lines = [line for field in schema for line in _field_lines((field.name,), field)]
    return "\n".join([*lines, *_metadata_lines(user_metadata(schema.metadata), 0)]) + "\n"


def fingerprint(schema: pa.Schema) -> str:
    """Return the first 16 bytes, in hex, of the SHA-256 of `canonical`; raise what that raises."""
    from hashlib import sha256  # noqa: PLC0415 - 1 ms, for the first schema

    serialized = schema.with_metadata(user_metadata(schema.metadata)).serialize().to_pybytes()
    key = sha256(serialized).digest()  # much faster than the text
    known = _cache.get(key)
    if known is None:
        known = sha256(canonical(schema).encode()).hexdigest()[:32]
        # Arrow writes an extension type as its storage type with metadata: not one schema alone.
        if b"ARROW:extension:" not in serialized:
            if len(_cache) >= _MAX_CACHED:
                _cache.clear()
            _cache[key] = known
    return known


_cache: dict[bytes, str] = {}  # fingerprints by the hash of the schema as Arrow serializes it
_MAX_CACHED: Final = 1000

_FILE_PREFIXES: Final = (b"columnar.", b"ARROW:")
"""Prefixes of metadata keys that describe one file, not its schema."""


def user_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    """Return a schema's metadata without the entries that describe one file."""
    kept = {k: v for k, v in (metadata or {}).items() if not k.startswith(_FILE_PREFIXES)}
    return kept or None


def _field_lines(path: tuple[str, ...], field: pa.Field) -> list[str]:
    null = "?" if field.nullable else ""
    depth = len(path) - 1
    try:
        lines = [f"{depth} {json.dumps(path[-1])} {type_name(field.type)}{null}"]
    except SchemaError as error:
        raise SchemaError(f"field {'.'.join(path)!r} has {error.reason}") from None
    lines += _metadata_lines(field.metadata, depth + 1)
    for child_name, child in children(field.type):
        lines += _field_lines((*path, child_name), child)
    return lines


def _metadata_lines(metadata: Mapping[bytes, bytes] | None, depth: int) -> list[str]:
    pairs = sorted((metadata or {}).items())
    return [f"{depth} @ {json.dumps([k.decode('latin-1'), v.decode('latin-1')])}" for k, v in pairs]


def children(arrow: pa.DataType) -> list[tuple[str, pa.Field]]:
    """Return the fields inside a type with their names; lists and maps have this format's own."""
    if pa.types.is_struct(arrow):
        return [(field.name, field) for field in arrow]
    if pa.types.is_map(arrow):
        return [("key", arrow.key_field), ("value", arrow.item_field)]
    if family(arrow) == "list":
        return [("item", arrow.value_field)]
    return []


def type_name(arrow: pa.DataType) -> str:
    """Return a type's name in this format's own words, which no release of Arrow can change.

    Raises:
        SchemaError: a segment cannot have this type.
    """
    if pa.types.is_fixed_size_list(arrow):
        return f"fixed_size_list[{arrow.list_size}]"
    if pa.types.is_timestamp(arrow):
        return f"timestamp[{arrow.unit},{json.dumps(arrow.tz)}]"
    if pa.types.is_time(arrow) or pa.types.is_duration(arrow):
        name = "duration" if pa.types.is_duration(arrow) else f"time{arrow.bit_width}"
        return f"{name}[{arrow.unit}]"
    if pa.types.is_decimal(arrow):
        return f"decimal{arrow.bit_width}[{arrow.precision},{arrow.scale}]"
    if pa.types.is_fixed_size_binary(arrow):
        return f"fixed_size_binary[{arrow.byte_width}]"
    if arrow.id not in _NAMES:
        raise SchemaError(f"type {arrow}, which no segment of version 1 has")
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
        "struct": pa.struct([]),
        "map": pa.map_(pa.string(), pa.string()),
        "list": pa.list_(pa.string()),
        "large_list": pa.large_list(pa.string()),
    }.items()
}
"""The names of types without parameters. `_field_lines` names the types inside the nested ones."""
