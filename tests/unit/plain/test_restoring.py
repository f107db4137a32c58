"""What `restored` makes again of rows, beyond what a message's own tests compare."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from columnar_kafka import SchemaError
from columnar_kafka.plain import restored

JSON_SCHEMA = {
    "type": "object",
    "properties": {"any": {}, "map": {"additionalProperties": {"type": "integer"}}},
}


def test_objects_have_no_nulls_wherever_they_came_from() -> None:
    """A column that came later has none where the rest of an older row has some."""
    made = {
        "any": '[{"x":null},null]',
        "map": [("a", None), ("b", 1)],
        "_rest": '{"new":{"y":null,"z":[null,{"w":null}]},"payload":{"v":null}}',
    }
    expected = {"any": [{}, None], "map": {"b": 1}, "new": {"z": [None, {}]}, "payload": {}}
    assert restored(made, JSON_SCHEMA) == expected
    inside = restored({"n": None, "_rest": '{"op":{"x":null},"p":{"q":{"y":null}}}'}, path="/p")
    assert inside == {"op": {}, "p": {"q": {}}}


def test_columns_of_a_partition_are_no_fields() -> None:
    made = {"n": 1, "_ingest_date": datetime.date(2026, 1, 31), "_kafka_topic": "t"}
    made |= {"_kafka_partition": 0, "_rest": '{"_kafka_topic":"sent"}'}
    assert restored(made) == {"n": 1, "_kafka_topic": "sent"}
    schema: Any = {"properties": {"_ingest_date": {"type": "string", "format": "date"}}}
    assert restored(made, schema)["_ingest_date"] == "2026-01-31"


def test_a_json_schema_may_be_what_decodes_messages() -> None:
    assert restored({"any": "1", "map": []}, JSON_SCHEMA) == {"any": 1, "map": {}}
    with pytest.raises(SchemaError, match="JSON Schema #: a row is an object with properties"):
        restored({"any": "1"}, {"properties": {}})


def test_a_list_that_an_engine_reads_for_null_is_none() -> None:
    """As pyiceberg reads lists of records."""
    assert restored({"l": [], "_rest": '{"l":"x"}'}) == {"l": "x"}
    assert restored({"l": []}) == {"l": []}
