"""An Avro schema for columns: `avro` reads the same columns from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Collection

    from columnar_kafka.schema.record_schema import RecordSchema

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
_JSON_TEXT: Final = {"type": "string", "logicalType": "json"}


def to_avro(schema: RecordSchema, name: str = "Row") -> dict[str, Any]:
    """Return the Avro record `name` of a topic's columns; what may be null is so by default.

    The schema's own defaults, enums and UUIDs are left out.

    Raises:
        SchemaError: Avro has no type for a column; says which.
    """
    texts = schema.json_texts
    fields = [_field(field, name, "", texts) for field in schema.arrow]
    return {"type": "record", "name": name, "fields": fields}


def _field(field: pa.Field, record: str, prefix: str, texts: Collection[str]) -> dict[str, Any]:
    """Return a field of a record, which has a name of its own: no two paths have the same."""
    full_name, path = f"{record}.{field.name}", f"{prefix}{field.name}"
    avro = {"name": field.name, "type": _nullable(field, full_name, path, texts)}
    return {**avro, "default": None} if field.nullable else avro


def _nullable(field: pa.Field, name: str, path: str, texts: Collection[str]) -> Any:
    avro = _JSON_TEXT if path in texts else _type(field.type, name, path, texts)
    return ["null", avro] if field.nullable else avro


def _type(arrow: pa.DataType, full_name: str, path: str, texts: Collection[str]) -> Any:
    kind = family(arrow)
    if kind == "struct":
        namespace, _, name = full_name.rpartition(".")
        fields = [_field(field, full_name, f"{path}.", texts) for field in arrow]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    if kind == "list" and not pa.types.is_fixed_size_list(arrow):
        items = _nullable(arrow.value_field, full_name, f"{path}.item", texts)
        return {"type": "array", "items": items}
    if kind == "map" and pa.types.is_string(arrow.key_type):
        values = _nullable(arrow.item_field, full_name, f"{path}.value", texts)
        return {"type": "map", "values": values}
    if kind == "decimal":
        digits = {"precision": arrow.precision, "scale": arrow.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if arrow not in _PLAIN:
        raise SchemaError(f"field {path!r} is {arrow}, which Avro does not have")
    return _PLAIN[arrow]
