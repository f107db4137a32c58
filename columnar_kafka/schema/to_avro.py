"""An Avro schema for columns: `avro` reads the same columns from it."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.type_families import family

__all__ = ["to_avro"]

_PLAIN: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    **{
        pa.timestamp(unit, zone): {"type": "long", "logicalType": f"{kind}timestamp-{name}"}
        for unit, name in (("ms", "millis"), ("us", "micros"), ("ns", "nanos"))
        for zone, kind in (("UTC", ""), (None, "local-"))
    },
}


def to_avro(schema: pa.Schema, name: str = "Row") -> dict[str, Any]:
    """Return the Avro record `name` of a topic's columns; what may be null is so by default.

    Raises:
        SchemaError: Avro has no type for a column; says which.
    """
    return {"type": "record", "name": name, "fields": [_field(field, name) for field in schema]}


def _field(field: pa.Field, record: str) -> dict[str, Any]:
    """Return a field of a record, which has a name of its own: no two paths have the same."""
    avro = {"name": field.name, "type": _nullable(field, f"{record}.{field.name}")}
    return {**avro, "default": None} if field.nullable else avro


def _nullable(field: pa.Field, path: str) -> Any:
    avro = _type(field.type, path)
    return ["null", avro] if field.nullable else avro


def _type(arrow: pa.DataType, path: str) -> Any:
    kind = family(arrow)
    if kind == "struct":
        namespace, _, name = path.rpartition(".")
        fields = [_field(field, path) for field in arrow]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    if kind == "list" and not pa.types.is_fixed_size_list(arrow):
        return {"type": "array", "items": _nullable(arrow.value_field, path)}
    if kind == "map" and pa.types.is_string(arrow.key_type):
        return {"type": "map", "values": _nullable(arrow.item_field, path)}
    if kind == "decimal":
        digits = {"precision": arrow.precision, "scale": arrow.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if arrow not in _PLAIN:
        raise SchemaError(f"field {path.partition('.')[2]!r} is {arrow}, which Avro does not have")
    return _PLAIN[arrow]
