"""An Avro schema for columns: `avro` reads the same columns from it."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.avro_names import ARROW
from columnar_kafka.schema.canonical import children, type_name, user_metadata
from columnar_kafka.schema.record_schema import RecordSchema
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["AVRO_TYPES", "faithful_avro", "to_avro"]

AVRO_TYPES: Final[dict[pa.DataType, Any]] = {
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
_NO_NAME: Final = re.compile(r"\W", re.ASCII)
_JSON_TEXT: Final = {"type": "string", "logicalType": "json"}


def to_avro(schema: RecordSchema, name: str = "Row", *, any_type: bool = False) -> dict[str, Any]:
    """Return the Avro record `name` of a topic's columns; what may be null is so by default.

    The schema's other defaults, its enums and UUIDs are left out. With `any_type` a type that Avro
    does not have is written as Arrow serializes it, which `avro` reads of a schema that is kept.

    Raises:
        SchemaError: Avro has no type for a column; says which.
    """
    writer = _Writer(schema.json_texts, any_type=any_type)
    fields = [writer.field(field, name, "") for field in schema.arrow]
    return {"type": "record", "name": name, "fields": fields}


def faithful_avro(schema: RecordSchema, name: str) -> dict[str, Any]:
    """Return the Avro record `name` that gives back the same columns, by their canonical text.

    Raises:
        SchemaError: there is none; says for which field, and why.
    """
    if metadata := user_metadata(schema.arrow.metadata):
        raise SchemaError(f"the schema has metadata ({_first(metadata)}), which Avro does not keep")
    avro = to_avro(schema, name)
    again = RecordSchema.parse(avro)
    for field, read in zip(schema.arrow, again.arrow, strict=True):
        _check_same(field, read, field.name)
    return avro


def _check_same(field: pa.Field, read: pa.Field, path: str) -> None:
    if field.metadata:
        what = f"metadata ({_first(field.metadata)})"
        raise SchemaError(f"field {path!r} has {what}, which Avro does not keep")
    had, has = type_name(field.type), type_name(read.type)
    if had != has:
        raise SchemaError(f"field {path!r} is {had}, which Avro gives back as {has}")
    pairs = zip(children(field.type), children(read.type), strict=True)
    for (name, inner), (_, inner_read) in pairs:
        _check_same(inner, inner_read, f"{path}.{name}")


def _first(metadata: Mapping[bytes, bytes]) -> str:
    return min(metadata).decode(errors="replace")


class _Writer:
    """Writes one schema, of which these paths are JSON texts."""

    def __init__(self, texts: Collection[str], *, any_type: bool) -> None:
        self._texts = texts
        self._any_type = any_type
        self._taken: set[str] = set()  # the names of records

    def field(self, field: pa.Field, record: str, prefix: str) -> dict[str, Any]:
        """Return a field of a record."""
        name, path = f"{record}.{_NO_NAME.sub('_', field.name) or '_'}", f"{prefix}{field.name}"
        avro = {"name": field.name, "type": self._nullable(field, name, path)}
        return {**avro, "default": None} if field.nullable else avro

    def _own_name(self, name: str) -> tuple[str, str]:
        """Return the namespace and the name of a record; no two have the same."""
        while name in self._taken:  # as a_b and a.b would
            name += "_"
        self._taken.add(name)
        namespace, _, last = name.rpartition(".")
        return namespace, last

    def _nullable(self, field: pa.Field, name: str, path: str) -> Any:
        avro = _JSON_TEXT if path in self._texts else self._type(field.type, name, path)
        return ["null", avro] if field.nullable else avro

    def _named(self, arrow: pa.DataType, name: str, path: str) -> dict[str, Any]:
        namespace, last = self._own_name(name)
        own = {"name": last, "namespace": namespace}
        if pa.types.is_fixed_size_binary(arrow):
            return {"type": "fixed", **own, "size": arrow.byte_width}
        fields = [self.field(field, name, f"{path}.") for field in arrow]
        return {"type": "record", **own, "fields": fields}

    def _type(self, arrow: pa.DataType, name: str, path: str) -> Any:
        kind = family(arrow)
        if kind == "struct" or pa.types.is_fixed_size_binary(arrow):
            return self._named(arrow, name, path)
        if pa.types.is_list(arrow):
            return {
                "type": "array",
                "items": self._nullable(arrow.value_field, name, f"{path}.item"),
            }
        if kind == "map" and pa.types.is_string(arrow.key_type):
            return {
                "type": "map",
                "values": self._nullable(arrow.item_field, name, f"{path}.value"),
            }
        if kind == "decimal":
            digits = {"precision": arrow.precision, "scale": arrow.scale}
            return {"type": "bytes", "logicalType": "decimal", **digits}
        if arrow in AVRO_TYPES:
            return AVRO_TYPES[arrow]
        if self._any_type:
            serialized = pa.schema([("", arrow)]).serialize()
            return {"type": "bytes", ARROW: base64.b64encode(serialized).decode()}
        raise SchemaError(f"field {path!r} is {arrow}, which Avro does not have")
