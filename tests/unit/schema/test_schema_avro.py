"""Avro's unions, logical types, defaults and names: what a column can hold, and what is refused."""

from __future__ import annotations

import decimal
import json
import math
import re
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from columnar_kafka.errors import ConfigError, SchemaError
from columnar_kafka.lake.aside.decoding import Decoding
from columnar_kafka.schema import RecordSchema


def one(avro: Any, **more: Any) -> dict[str, Any]:
    field = {"name": "f", "type": avro, **more}
    return {"type": "record", "name": "r", "namespace": "x.y", "fields": [field]}


def refusal(schema: Any) -> str:
    with pytest.raises(SchemaError) as raised:
        RecordSchema.parse(schema)
    return raised.value.reason


ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
SIZE = "field 'f': a fixed type's size must be a whole number from 1 to 2147483647, not "
FIXED = {"type": "fixed", "name": "x", "size": 4}
RECORD = {"type": "record", "name": "q", "fields": [{"name": "a", "type": "int"}]}
DATE = {"type": "int", "logicalType": "date"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
UUID = {"type": "string", "logicalType": "uuid"}

# --- unions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("branches", "arrow"),
    [
        (["int", "long"], pa.int64()),
        (["long", {"type": "int", "logicalType": "unknown"}], pa.int64()),
        (["float", "double"], pa.float64()),
        ([ENUM, "string"], pa.string()),
        ([ENUM, "string", ENUM | {"name": "e2"}], pa.string()),
        ([FIXED, "bytes"], pa.binary()),
        (["bytes", FIXED, FIXED | {"name": "x2", "size": 9}], pa.binary()),
    ],
)
def test_a_union_whose_values_one_column_can_hold_becomes_that_column(
    branches: list[Any], arrow: pa.DataType
) -> None:
    for union in (branches, branches[::-1]):
        schema = RecordSchema.parse(one(union))
        assert schema.arrow == pa.schema([pa.field("f", arrow, nullable=False)])
        assert schema.symbols == {}
        assert RecordSchema.parse(one(["null", *union])).arrow == pa.schema([("f", arrow)])


def test_a_union_inside_a_list_becomes_its_elements_type() -> None:
    arrow = RecordSchema.parse(one({"type": "array", "items": ["null", "int", "long"]})).arrow
    assert arrow.field("f").type == pa.list_(pa.int64())


@pytest.mark.parametrize(
    ("branches", "shown"),
    [
        (["int", "string", "null"], "int, string"),
        (["int", "double"], "int, double"),
        (["long", "float", "double"], "long, float, double"),
        (["string", "bytes"], "string, bytes"),
        ([RECORD, RECORD | {"name": "q2"}], "x.y.q, x.y.q2"),
        ([ENUM, ENUM | {"name": "e2"}], "x.y.e, x.y.e2"),
        ([FIXED, FIXED | {"name": "x2"}], "x.y.x, x.y.x2"),
        ([DATE, "long"], "date, long"),
        ([DECIMAL, FIXED], "decimal, x.y.x"),
        ([UUID, ENUM], "uuid, x.y.e"),
        ([{"type": "array", "items": "int"}, {"type": "map", "values": "int"}], "array, map"),
    ],
)
def test_any_other_union_is_refused_with_its_branches_and_what_to_do(
    branches: list[Any], shown: str
) -> None:
    """A column has one type: the values read would not be the values produced."""
    assert refusal(one(branches)) == (
        f"field 'f' is a union of {shown}; a column has one type: use one, or a record with a "
        "nullable field for each"
    )


def test_unions_are_refused_with_the_path_of_the_field() -> None:
    inner = {"type": "record", "name": "q", "fields": [{"name": "u", "type": ["int", "string"]}]}
    assert refusal(one({"type": "map", "values": inner})).startswith("field 'f.value.u' is a union")


@pytest.mark.parametrize(
    ("avro", "reason"),
    [
        (["null"], "field 'f' has Avro type 'null', which a segment cannot store"),
        ([], "field 'f' has Avro type 'null', which a segment cannot store"),
        (["null", ["int"]], "field 'f' is a union inside a union, which Avro does not allow"),
        (FIXED | {"size": 0}, "field 'f' is fixed to 0 bytes, which Parquet cannot store"),
        (FIXED | {"size": -1}, SIZE + "-1"),
        (FIXED | {"size": "4"}, SIZE + "'4'"),
        (FIXED | {"size": 1 << 31}, SIZE + "2147483648"),
    ],
)
def test_a_schema_that_fastavro_accepts_but_no_column_can_hold_is_refused(
    avro: Any, reason: str
) -> None:
    assert refusal(one(avro)) == reason


def test_a_name_with_a_dot_is_refused() -> None:
    """Its path would be that of a field inside a record."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a.b", "type": "int"}]}
    assert refusal(schema).startswith("field 'a.b': Avro allows letters")


# --- logical types ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        (FIXED | {"size": 12, "logicalType": "duration"}, pa.binary(12)),
        (FIXED | {"size": 16, "logicalType": "uuid"}, pa.binary(16)),
        (FIXED | {"size": 8, "logicalType": "decimal", "precision": 18}, pa.decimal128(18, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": None}, pa.binary()),
        ({"type": "string", "logicalType": "decimal", "precision": 4}, pa.string()),
        (DECIMAL | {"scale": None}, pa.decimal128(4, 0)),
        ({"type": "int", "logicalType": "timestamp-millis"}, pa.int32()),
    ],
)
def test_a_logical_type_that_does_not_apply_is_ignored(avro: Any, arrow: pa.DataType) -> None:
    assert RecordSchema.parse(one(avro)).arrow.field("f").type == arrow


def test_json_texts_are_known_by_their_path() -> None:
    text = {"type": "string", "logicalType": "json"}
    fields = [
        {"name": "a", "type": text},
        {"name": "b", "type": {"type": "map", "values": {"type": "array", "items": text}}},
        {"name": "c", "type": {**RECORD, "fields": [{"name": "x", "type": ["null", text]}]}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "json"}},
    ]
    parsed = RecordSchema.parse({"type": "record", "name": "r", "fields": fields})
    assert parsed.json_texts == {"a", "b.value.item", "c.x"}
    assert parsed.arrow.field("a").type == pa.string()


def test_uuids_are_known_by_their_path() -> None:
    fixed = FIXED | {"size": 16, "logicalType": "uuid"}
    other = FIXED | {"name": "y", "size": 15, "logicalType": "uuid"}
    inner = {
        "type": "record",
        "name": "q",
        "fields": [{"name": "a", "type": ["null", UUID]}, {"name": "b", "type": other}],
    }
    schema = one({"type": "array", "items": inner})
    schema["fields"] += [{"name": "g", "type": UUID}, {"name": "h", "type": fixed}]
    assert RecordSchema.parse(schema).uuids == {"f.item.a", "g", "h"}


# --- names --------------------------------------------------------------------------------------


def test_properties_that_only_avro_readers_need_are_harmless() -> None:
    plain = one({"type": "record", "name": "q", "fields": [{"name": "a", "type": "int"}]})
    inner = {
        "type": "error",
        "name": "other.name.q",
        "aliases": ["old"],
        "doc": "d",
        "fields": [{"name": "a", "type": "int", "order": "ignore", "aliases": ["b"], "doc": "d"}],
    }
    full = one(inner, doc="d", order="descending") | {"doc": "d", "aliases": ["z"], "extra": 1}
    assert RecordSchema.parse(full).arrow == RecordSchema.parse(plain).arrow
    assert RecordSchema.parse(full | {"type": "error"}).arrow == RecordSchema.parse(plain).arrow


def test_names_are_found_in_their_namespace() -> None:
    enum = {"type": "enum", "name": "e", "namespace": "other", "symbols": ["A"]}
    schema = one({"type": "array", "items": enum})
    schema["fields"].append({"name": "g", "type": "other.e"})
    assert RecordSchema.parse(schema).symbols == {"f.item": {"A"}, "g": {"A"}}


@pytest.mark.parametrize("write", [list, json.dumps])
def test_a_list_of_one_record_and_what_it_uses_is_a_schema(write: Any) -> None:
    record = {"type": "record", "name": "r", "fields": [{"name": "f", "type": ["null", "e"]}]}
    assert RecordSchema.parse(write([ENUM, record])).symbols == {"f": {"A", "B"}}
    assert RecordSchema.parse(write([record | {"fields": one("int")["fields"]}])) == (
        RecordSchema.parse(one("int"))
    )


@pytest.mark.parametrize("types", [[], [ENUM], [RECORD, RECORD | {"name": "z"}], ["null", RECORD]])
def test_a_list_with_any_other_number_of_records_is_refused(types: list[Any]) -> None:
    assert refusal(types) == "a topic's Avro schema must be one record"


def test_a_schema_that_fastavro_has_parsed_is_accepted_too() -> None:
    schema = one({"type": "array", "items": RECORD})
    schema["fields"].append({"name": "g", "type": "q"})
    assert RecordSchema.parse(fastavro.parse_schema(schema)) == RecordSchema.parse(schema)


@pytest.mark.parametrize(
    ("avro", "path", "name"),
    [
        (["null", "r"], "f", "x.y.r"),
        (RECORD | {"fields": [{"name": "a", "type": ["null", "q"]}]}, "f.a", "x.y.q"),
        (
            RECORD | {"fields": [{"name": "a", "type": {"type": "map", "values": "r"}}]},
            "f.a.value",
            "x.y.r",
        ),
    ],
)
def test_a_recursive_type_is_refused_with_path_and_name(avro: Any, path: str, name: str) -> None:
    assert (
        refusal(one(avro)) == f"field {path!r} is recursive ({name}): a column type must be finite"
    )


# --- defaults -----------------------------------------------------------------------------------


def test_defaults_are_known_by_their_path() -> None:
    inner = {
        "type": "record",
        "name": "q",
        "fields": [
            {"name": "a", "type": "bytes", "default": "\u00ff"},
            {"name": "b", "type": "int"},
        ],
    }
    schema = one({"type": "array", "items": ["null", inner]}, default=[{"b": 1}])
    schema["fields"].append({"name": "g", "type": {"type": "map", "values": "q"}})
    assert RecordSchema.parse(schema).defaults == {
        "f": [{"a": b"\xff", "b": 1}],
        "f.item.a": b"\xff",
        "g.value.a": b"\xff",
    }


@pytest.mark.parametrize(
    ("avro", "default", "value"),
    [
        (["null", "int"], 7, 7),
        (["int", "long"], 1 << 40, 1 << 40),
        (["null", ENUM], "B", "B"),
        ([FIXED, "bytes"], "\u00ff", b"\xff"),
        ("double", 1, 1.0),
        ("float", "1.5", 1.5),
        ("double", "-Infinity", -math.inf),
        (
            DECIMAL | {"precision": 38},
            (10**37 + 1).to_bytes(16, "big").decode("latin-1"),
            decimal.Decimal("100000000000000000000000000000000000.01"),
        ),
        (DATE, -5, -5),
        ({"type": "int", "logicalType": "time-millis"}, 86_399_999, 86_399_999),
        ({"type": "int", "logicalType": "time-micros"}, -1, -1),
        (UUID, "any text", "any text"),
    ],
)
def test_a_default_may_be_of_any_branch_and_is_exact(avro: Any, default: Any, value: Any) -> None:
    (parsed,) = RecordSchema.parse(one(avro, default=default)).defaults.values()
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("avro", "default"),
    [
        ("int", "x"),
        ("int", 1 << 31),
        ("int", 1.0),
        ("long", True),
        ("long", -(1 << 63) - 1),
        ("boolean", 1),
        ("boolean", None),
        ("float", 1e300),
        ("double", "x"),
        ("double", True),
        ("string", 5),
        ("string", "\ud800"),
        ("bytes", "\u0100"),
        ("bytes", [1]),
        (FIXED, "abc"),
        (DECIMAL, "\u0027\u0010"),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000),
        ({"type": "long", "logicalType": "time-micros"}, -1),
        (ENUM, "C"),
        (ENUM, None),
        (["null", "int"], "x"),
        (["null", ENUM], "C"),
        ({"type": "array", "items": "int"}, {}),
        ({"type": "array", "items": "int"}, ["x"]),
        ({"type": "map", "values": "int"}, []),
        ({"type": "map", "values": "int"}, {"k": None}),
        (RECORD, {}),
        (RECORD, {"a": 1, "b": 2}),
        (RECORD, {"a": "x"}),
        (RECORD, None),
        ({"type": "string"}, 5),
    ],
)
def test_a_default_that_does_not_fit_is_refused_with_its_field(avro: Any, default: Any) -> None:
    """Even if fastavro accepts it: a row that it fills could not be stored."""
    expected = f"field 'f' has a default that does not fit its type: {json.dumps(default)}"
    assert refusal(one(avro, default=default)) == expected


def test_a_default_that_json_could_not_have_written_is_refused_too() -> None:
    expected = "field 'f' has a default that does not fit its type: \"b'x'\""
    assert refusal(one("bytes", default=b"x")) == expected


def test_a_default_inside_a_record_is_refused_with_its_path() -> None:
    inner = RECORD | {"fields": [{"name": "a", "type": "int", "default": "x" * 100}]}
    assert refusal(one({"type": "array", "items": inner})) == (
        f"field 'f.item.a' has a default that does not fit its type: \"{'x' * 76}..."
    )


# --- names ----------------------------------------------------------------------------------------


def enum(**given: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "e", "symbols": ["A"], **given}


def row(*fields: Any, **given: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [*fields], **given}


WRONG = {"name": "x y", "type": "int"}


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        (row({"name": "a-b", "type": "int"}), "field 'a-b'"),
        (row({"name": "1a", "type": "int"}), "field '1a'"),
        (row({"name": "", "type": "int"}), "field ''"),
        (row({"name": "\u00fc", "type": "int"}), "field '\u00fc'"),
        (row({"name": "a.b", "type": "int"}), "field 'a.b'"),
        (row({"name": "a\n", "type": "int"}), "field 'a\\n'"),
        (
            row(
                {
                    "name": "l",
                    "type": {"type": "array", "items": row(WRONG)},
                }
            ),
            "field 'l.item.x y'",
        ),
        (
            row(
                {
                    "name": "m",
                    "type": ["null", {"type": "map", "values": row(WRONG)}],
                }
            ),
            "field 'm.value.x y'",
        ),
        (row({"name": "a", "type": "int"}, name="r-s"), "type 'r-s'"),
        (row({"name": "a", "type": "int"}, name="a..r"), "type 'a..r'"),
        (row({"name": "a", "type": "int"}, namespace="x.1y"), "namespace 'x.1y'"),
        (row({"name": "a", "type": enum(name="e f")}), "type 'e f'"),
        (row({"name": "a", "type": enum(symbols=["A", "b-c"])}), "symbol 'b-c' of 'e'"),
        (row({"name": "a", "type": {"type": "fixed", "name": "3", "size": 1}}), "type '3'"),
        ([enum(symbols=["?"]), row({"name": "a", "type": "e"})], "symbol '?' of 'e'"),
    ],
)
def test_a_name_that_avro_forbids_is_named(schema: Any, wrong: str) -> None:
    for given in (schema, json.dumps(schema)):
        with pytest.raises(SchemaError) as raised:
            RecordSchema.parse(given)
        assert raised.value.reason == (
            f"{wrong}: Avro allows letters from A to Z, digits and _ in a name, and no digit first"
        )
        with pytest.raises(ConfigError, match=re.escape(wrong)):
            Decoding("avro", given)


@pytest.mark.parametrize("name", ["a", "_", "A1_b", "a.b._C", ".a"])
def test_other_names_are_allowed(name: str) -> None:
    field = {"name": "_x1", "type": enum(namespace="", symbols=["_", "A9"])}
    assert RecordSchema.parse(row(field, name=name)).arrow.names == ["_x1"]
