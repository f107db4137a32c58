"""Columns for a JSON Schema: the keywords that tell a type; others only say which values it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.leading import of_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from columnar_kafka.schema.record_schema import RecordSchema

__all__ = ["is_json_schema", "read_json_schema"]

_TYPES: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_FORMATS: Final = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}
"""A time of day in JSON Schema has a time zone, which no column of times keeps: it stays text."""
_OF_VALUES: Final = (
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (list, "array"),
    (Mapping, "object"),
)
_JSON_TEXT: Final = None
"""Stands for the type of what fits no column."""


def is_json_schema(schema: Any) -> bool:
    """Return whether a parsed schema is JSON Schema, and not Avro, of which each type is named."""
    return isinstance(schema, Mapping) and (
        "$schema" in schema or "properties" in schema or "$ref" in schema
    )


def read_json_schema(schema: Mapping[str, Any]) -> RecordSchema:
    """Return the columns for the objects of a JSON Schema.

    What may be of several types, or of any, is a column of JSON text.

    Raises:
        SchemaError: it is no JSON Schema of an object; says where.
    """
    reader = _Reader(schema)
    arrow = reader.root()
    return of_columns(arrow, reader.json_texts)


class _Reader:
    """Reads one document; collects the paths of what is JSON text."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._open: list[str] = []  # the references that are followed
        self.json_texts: set[str] = set()

    def root(self) -> pa.Schema:
        schema = self._whole(self._document, "#")
        followed: list[Any] = []
        while "$ref" in schema:
            if schema["$ref"] in followed:
                raise SchemaError(f"JSON Schema #: $ref {schema['$ref']!r} leads to itself")
            followed.append(schema["$ref"])
            schema = self._whole(self._followed(schema["$ref"], "#"), "#")
        properties = schema.get("properties")
        if not properties or "object" not in _names(schema, "#"):
            raise SchemaError("JSON Schema #: a row is an object with properties")
        return pa.schema(list(self._fields(schema, "#", "")))

    def _fields(self, schema: Mapping[str, Any], place: str, prefix: str) -> Iterator[pa.Field]:
        properties = _mapping(schema["properties"], f"{place}/properties")
        required = schema.get("required", [])
        if not isinstance(required, list):
            raise SchemaError(f"JSON Schema {place}/required: it must be a list of names")
        for name, inner in properties.items():
            if inner is False:  # no object has it
                continue
            path = f"{prefix}{name}"
            field = self._field(name, inner, f"{place}/properties/{name}", path)
            yield field.with_nullable(field.nullable or name not in required)

    def _field(self, name: str, schema: Any, place: str, path: str) -> pa.Field:
        """Return the field for a schema; it may be null if the schema says so."""
        arrow, is_nullable = self._type(schema, place, path)
        if arrow is _JSON_TEXT:
            self.json_texts.add(path)
            arrow = pa.string()
        return pa.field(name, arrow, is_nullable)

    def _type(self, schema: Any, place: str, path: str) -> tuple[pa.DataType | None, bool]:
        """Return the type for a schema, and whether null is one of its values."""
        if schema is True or schema == {}:
            return _JSON_TEXT, True
        schema = self._whole(schema, place)
        if "$ref" in schema:
            return self._referred(schema["$ref"], place, path)
        for key in "anyOf", "oneOf":
            if key in schema:
                return self._any_of(schema[key], f"{place}/{key}", path)
        names = _names(schema, place)
        is_nullable = "null" in names or not names
        names -= {"null"}
        if names == {"integer", "number"}:
            names = {"number"}
        if len(names) != 1:
            return _JSON_TEXT, is_nullable
        [name] = names
        return self._one(name, schema, place, path), is_nullable

    def _one(
        self, name: str, schema: Mapping[str, Any], place: str, path: str
    ) -> pa.DataType | None:
        if name == "object":
            return self._object(schema, place, path)
        if name == "array":
            items = schema.get("items", True)
            if isinstance(items, list) or "prefixItems" in schema:  # each place has its own
                items = True
            item = self._field("item", items, f"{place}/items", f"{path}.item")
            return pa.list_(item.with_nullable(True))  # one null is no reason to lose a message
        if name == "string":
            return _FORMATS.get(str(schema.get("format")), pa.string())
        return _TYPES[name]

    def _object(self, schema: Mapping[str, Any], place: str, path: str) -> pa.DataType | None:
        if schema.get("properties"):
            return pa.struct(list(self._fields(schema, place, f"{path}.")))
        patterns = _mapping(schema.get("patternProperties", {}), f"{place}/patternProperties")
        values = [*patterns.values()]
        if schema.get("additionalProperties", not patterns):
            values.append(schema.get("additionalProperties", True))
        if len(values) != 1 or values[0] is True:
            return _JSON_TEXT
        value = self._field("value", values[0], f"{place}/additionalProperties", f"{path}.value")
        return pa.map_(pa.string(), value.with_nullable(True))

    def _any_of(self, schemas: Any, place: str, path: str) -> tuple[pa.DataType | None, bool]:
        if not isinstance(schemas, list):
            raise SchemaError(f"JSON Schema {place}: it must be a list of schemas")
        others = [schema for schema in schemas if schema != {"type": "null"}]
        if len(others) != 1:
            return _JSON_TEXT, True
        arrow, is_nullable = self._type(others[0], f"{place}/{schemas.index(others[0])}", path)
        return arrow, is_nullable or len(schemas) > 1

    def _referred(self, reference: Any, place: str, path: str) -> tuple[pa.DataType | None, bool]:
        if reference in self._open:  # a column's type is finite
            return _JSON_TEXT, True
        schema = self._followed(reference, place)
        self._open.append(reference)
        try:
            return self._type(schema, reference, path)
        finally:
            self._open.pop()

    def _followed(self, reference: Any, place: str) -> Any:
        """Return the schema that a reference means."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise SchemaError(
                f"JSON Schema {place}: $ref {reference!r} is not in the document: put it in $defs"
            )
        found: Any = self._document
        for token in reference[2:].split("/"):
            name = token.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise SchemaError(f"JSON Schema {place}: there is no {reference} in the document")
            found = found[name]
        return found

    def _whole(self, schema: Any, place: str) -> Mapping[str, Any]:
        """Return a schema with the only one that all its values fit besides."""
        whole = _mapping(schema, place)
        if "allOf" not in whole:
            return whole
        parts = whole["allOf"]
        if not isinstance(parts, list) or len(parts) != 1:
            raise SchemaError(f"JSON Schema {place}/allOf: write the schemas as one")
        others = {key: value for key, value in whole.items() if key != "allOf"}
        return {**others, **self._whole(parts[0], f"{place}/allOf/0")}


def _mapping(schema: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        raise SchemaError(f"JSON Schema {place}: it must be an object, not {schema!r}")
    found: Mapping[str, Any] = schema
    return found


def _names(schema: Mapping[str, Any], place: str) -> set[str]:
    """Return the types that values of a schema may have; none if they may be of any."""
    if "type" in schema:
        given = schema["type"]
        names = given if isinstance(given, list) else [given]
        for name in names:
            if name not in (*_TYPES, "object", "array", "null"):
                raise SchemaError(f"JSON Schema {place}/type: there is no type {name!r}")
        return set(names)
    if "enum" in schema or "const" in schema:
        values: Sequence[Any] = schema["enum"] if "enum" in schema else [schema["const"]]
        return {_name_of(value) for value in values}
    if "properties" in schema or "additionalProperties" in schema:
        return {"object"}
    return {"array"} if "items" in schema else set()


def _name_of(value: Any) -> str:
    return next((name for kind, name in _OF_VALUES if isinstance(value, kind)), "null")
