"""Which columns a JSON Schema has, and what is no schema of rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.json_schema import is_json_schema, read_json_schema

TEXT, LONG, DOUBLE = pa.string(), pa.int64(), pa.float64()
JSON = object()
"""Stands for a column of JSON text."""


def read(schema: Any, **more: Any) -> Any:
    return read_json_schema({"type": "object", "properties": {"v": schema}, **more})


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, TEXT),
        ({"type": "integer", "minimum": 0}, LONG),
        ({"type": "number"}, DOUBLE),
        ({"type": ["integer", "number", "null"]}, DOUBLE),
        ({"type": "boolean"}, pa.bool_()),
        ({"type": "string", "format": "date"}, pa.date32()),
        ({"type": "string", "format": "date-time"}, pa.timestamp("us", "UTC")),
        ({"type": "string", "format": "time"}, TEXT),
        ({"type": "string", "format": "uuid"}, TEXT),
        ({"type": ["string", "null"]}, TEXT),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(LONG)),
        ({"type": "object", "properties": {"x": {"type": "integer"}}}, pa.struct({"x": LONG})),
        ({"properties": {"x": {"type": "integer"}, "y": False}}, pa.struct({"x": LONG})),
        ({"type": "object", "additionalProperties": {"type": "number"}}, pa.map_(TEXT, DOUBLE)),
        (
            {
                "type": "object",
                "patternProperties": {"^s": {"type": "string"}},
                "additionalProperties": False,
            },
            pa.map_(TEXT, TEXT),
        ),
        ({"enum": ["a", "b", None]}, TEXT),
        ({"const": 1}, LONG),
        ({"enum": [True]}, pa.bool_()),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, LONG),
        ({"oneOf": [{"type": "integer"}]}, LONG),
        ({"allOf": [{"type": "integer"}], "title": "n"}, LONG),
        ({"$ref": "#/$defs/A"}, pa.struct({"n": LONG})),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, pa.struct({"n": LONG})),
        ({"$ref": "#/$defs/a~1b"}, TEXT),
        (True, JSON),
        ({}, JSON),
        ({"enum": ["a", 1]}, JSON),
        ({"type": ["string", "integer"]}, JSON),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, JSON),
        ({"type": "object"}, JSON),
        ({"type": "object", "additionalProperties": False}, JSON),
        ({"description": "anything"}, JSON),
    ],
)
def test_a_schema_has_the_column_that_holds_its_values(schema: Any, expected: Any) -> None:
    definitions = {
        "A": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "a/b": {"type": "string"},
    }
    result = read(schema, **{"$defs": definitions})
    assert result.arrow.field("v").nullable
    assert result.arrow.field("v").type == (TEXT if expected is JSON else expected)
    assert result.json_texts == ({"v"} if expected is JSON else set())


def test_what_is_deep_and_of_any_type_is_json_text() -> None:
    result = read({"type": "array", "items": {"properties": {"x": {}, "y": {"type": "array"}}}})
    assert result.arrow.field("v").type == pa.list_(pa.struct({"x": TEXT, "y": pa.list_(TEXT)}))
    assert result.json_texts == {"v.item.x", "v.item.y.item"}
    assert read({"type": "array", "prefixItems": [{"type": "integer"}]}).json_texts == {"v.item"}


def test_a_recursive_schema_ends_in_json_text() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/N"}, "n": {"type": "integer"}}}
    result = read({"$ref": "#/$defs/N"}, **{"$defs": {"N": node}})
    assert result.arrow.field("v").type == pa.struct({"next": TEXT, "n": LONG})
    assert result.json_texts == {"v.next"}


def test_only_what_is_required_and_never_null_cannot_be_null() -> None:
    null = {"type": ["integer", "null"]}
    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": null}
    schema = {"type": "object", "properties": properties, "required": ["a", "c"]}
    result = read_json_schema(schema)
    assert [field.nullable for field in result.arrow] == [False, True, True]
    assert result.defaults == {"b": None, "c": None}


def test_the_row_may_be_a_reference() -> None:
    rows = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert read_json_schema({"$ref": "#/definitions/R", "definitions": {"R": rows}}).arrow == (
        pa.schema({"n": LONG})
    )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "other.json"}, "#/properties/v: $ref 'other.json' is not in the document"),
        ({"$ref": "#/$defs/B"}, "#/properties/v: there is no #/$defs/B in the document"),
        ({"type": "int"}, "#/properties/v/type: there is no type 'int'"),
        ({"allOf": [{}, {}]}, "#/properties/v/allOf: write the schemas as one"),
        ({"anyOf": {}}, "#/properties/v/anyOf: it must be a list of schemas"),
        (7, "#/properties/v: it must be an object, not 7"),
        ({"properties": {"x": 7}}, "#/properties/v/properties/x: it must be an object"),
    ],
)
def test_an_error_names_the_place(schema: Any, said: str) -> None:
    with pytest.raises(SchemaError) as raised:
        read(schema)
    assert raised.value.reason.startswith(f"JSON Schema {said}")


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "string"}, {"properties": {}}])
def test_a_row_is_an_object_with_properties(schema: Any) -> None:
    with pytest.raises(SchemaError, match="a row is an object with properties"):
        read_json_schema(schema)


def test_a_reference_that_leads_to_itself_is_an_error() -> None:
    around = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    }
    with pytest.raises(SchemaError, match=r"#: \$ref '#/\$defs/A' leads to itself"):
        read_json_schema(around)


def test_avro_is_not_taken_for_it() -> None:
    assert not is_json_schema({"type": "record", "name": "r", "fields": []})
    assert not is_json_schema([{"type": "record"}])
    assert is_json_schema({"$schema": "https://json-schema.org/draft/2020-12/schema"})
    assert is_json_schema({"type": "object", "properties": {}})
