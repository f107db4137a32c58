"""The canonical text of a schema, and its fingerprint: what `docs/segment-format.md` defines."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.families import family

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["canonical", "children", "fingerprint", "type_name", "users"]


def canonical(schema: pa.Schema) -> str:
    """Return the text that is equal for two schemas exactly when their segments can be stitched.

    One line per field, depth first: depth, name as JSON, type, ``?`` when nullable; then each
    metadata entry of field or schema as JSON, sorted. Defined in ``docs/segment-format.md``.

    Raises:
        SchemaError: naming the first field whose type no segment has.
    """
    lines = [line for each in schema for line in _field_lines((each.name,), each)]
    return "\n".join([*lines, *_metadata_lines(users(schema.metadata), 0)]) + "\n"


def fingerprint(schema: pa.Schema) -> str:
    """Return the first 16 bytes, in hex, of SHA-256 over `canonical`; raises as that does."""
    arrows = schema.with_metadata(users(schema.metadata)).serialize().to_pybytes()
    key = hashlib.sha256(arrows).digest()  # much sooner made than the text
    found = _known.get(key)
    if found is None:
        found = hashlib.sha256(canonical(schema).encode()).hexdigest()[:32]
        if b"ARROW:extension:" not in arrows:  # or a type may be written as another with metadata
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = found
    return found


_known: dict[bytes, str] = {}  # fingerprints, by the hash of a schema as Arrow writes it
_MOST_KNOWN: Final = 1000

_FILES_OWN: Final = (b"columnar.", b"ARROW:")
"""How the keys of the metadata begin that say something of the file, not of its schema."""


def users(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    """Return the metadata of a schema without what says something of one file."""
    found = {k: v for k, v in (metadata or {}).items() if not k.startswith(_FILES_OWN)}
    return found or None


def _field_lines(path: tuple[str, ...], each: pa.Field) -> list[str]:
    null = "?" if each.nullable else ""
    depth = len(path) - 1
    try:
        lines = [f"{depth} {json.dumps(path[-1])} {type_name(each.type)}{null}"]
    except SchemaError as error:
        raise SchemaError(f"field {'.'.join(path)!r} has {error.reason}") from None
    lines += _metadata_lines(each.metadata, depth + 1)
    for child_name, child in children(each.type):
        lines += _field_lines((*path, child_name), child)
    return lines


def _metadata_lines(metadata: Mapping[bytes, bytes] | None, depth: int) -> list[str]:
    pairs = sorted((metadata or {}).items())
    return [f"{depth} @ {json.dumps([k.decode('latin-1'), v.decode('latin-1')])}" for k, v in pairs]


def children(arrow: pa.DataType) -> list[tuple[str, pa.Field]]:
    """Return the fields inside a type; those of lists and maps by this format's names."""
    if pa.types.is_struct(arrow):
        return [(each.name, each) for each in (arrow.field(i) for i in range(arrow.num_fields))]
    if pa.types.is_map(arrow):
        return [("key", arrow.key_field), ("value", arrow.item_field)]
    if family(arrow) == "list":
        return [("item", arrow.value_field)]
    return []


def type_name(arrow: pa.DataType) -> str:  # noqa: PLR0911 - one for each kind of type
    """Return a type's name in this format's own words, which no library's release can change.

    Raises:
        SchemaError: no segment has such a type.
    """
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
    return _plain_name(arrow)


def _plain_name(arrow: pa.DataType) -> str:
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
    }.items()
}
