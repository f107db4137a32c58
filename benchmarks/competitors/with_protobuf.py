"""confluent-kafka with Protobuf (upb): the message's type is made of the Avro schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import api_implementation

from benchmarks.competitors.base import Stock

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from benchmarks.data import Dataset, Row

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "long": _FIELD.TYPE_SINT64,
    "double": _FIELD.TYPE_DOUBLE,
    "string": _FIELD.TYPE_STRING,
    "boolean": _FIELD.TYPE_BOOL,
}


class Protobuf(Stock):
    """`Message(**row).SerializeToString()`; what is null is not set."""

    def __init__(self, data: Dataset) -> None:
        super().__init__(data)
        if api_implementation.Type() != "upb":
            raise RuntimeError(f"Protobuf is {api_implementation.Type()} here, not upb")
        cls: Any = _message_class(data.avro)
        descriptor = cls.DESCRIPTOR

        def encode(row: Row) -> Any:
            return cls(**row).SerializeToString()

        def decode(value: bytes) -> Row:
            return _row(cls.FromString(value), descriptor)

        self.encode, self.decode = encode, decode


def _message_class(avro: dict[str, Any]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="rows", syntax="proto3")
    _add_message(file.message_type.add(), avro, ".rows")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"rows.{avro['name']}"))


def _add_message(message: Any, record: dict[str, Any], scope: str) -> None:
    message.name = record["name"]
    for number, field in enumerate(record["fields"], start=1):
        kind, path = field["type"], f"{scope}.{message.name}"
        added = message.field.add(name=field["name"], number=number, label=_FIELD.LABEL_OPTIONAL)
        if isinstance(kind, list):  # ["null", type]
            added.proto3_optional = True
            added.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field['name']}")
            kind = kind[1]
        elif isinstance(kind, dict) and kind["type"] == "array":
            added.label = _FIELD.LABEL_REPEATED
            kind = kind["items"]
        elif isinstance(kind, dict) and kind["type"] == "map":
            added.label = _FIELD.LABEL_REPEATED
            kind = _map_entry(field["name"], kind["values"])
        if isinstance(kind, dict):
            nested = message.nested_type.add()
            _add_message(nested, kind, path)
            nested.options.map_entry = bool(kind.get("entry"))
            added.type, added.type_name = _FIELD.TYPE_MESSAGE, f"{path}.{kind['name']}"
        else:
            added.type = _TYPES[kind]


def _map_entry(name: str, values: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "string"}, {"name": "value", "type": values}]
    return {"type": "record", "name": f"{name.title()}Entry", "fields": fields, "entry": True}


def _row(message: Any, descriptor: Descriptor) -> Row:
    row: Row = {}
    for field in descriptor.fields:
        value = getattr(message, field.name)
        inner: Any = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            row[field.name] = dict(value)
        elif field.is_repeated:
            row[field.name] = [_row(item, inner) if inner else item for item in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _row(value, inner) if inner else value
    return row
