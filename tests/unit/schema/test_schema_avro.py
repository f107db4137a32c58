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
from columnar_kafka.schema import RecordSchema, canonical


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


def shown(schema: Any) -> list[str]:
    """Return the lines of the canonical text of a schema."""
    return canonical(RecordSchema.parse(schema).arrow).splitlines()


@pytest.mark.parametrize(
    ("branches", "members"),
    [
        (["int", "string", "null"], {"int": "int32", "string": "string"}),
        (["int", "double"], {"int": "int32", "double": "float64"}),
        (
            ["long", "null", "float", "double"],
            {"long": "int64", "float": "float32", "double": "float64"},
        ),
        ([ENUM, ENUM | {"name": "e2"}], {"x.y.e": "string", "x.y.e2": "string"}),
        (
            [FIXED, "string", "bytes"],
            {"x.y.x": "fixed_size_binary[4]", "string": "string", "bytes": "binary"},
        ),
        ([DATE, "long"], {"int": "date32", "long": "int64"}),
        ([DECIMAL, FIXED], {"bytes": "decimal128[4,2]", "x.y.x": "fixed_size_binary[4]"}),
        ([UUID, ENUM], {"string": "string", "x.y.e": "string"}),
    ],
)
def test_any_other_union_has_a_member_for_each_branch(
    branches: list[Any], members: dict[str, str]
) -> None:
    """They are named as Spark's Avro reader names them, and null is none of them."""
    lines = ['0 "f" struct' + ("?" if "null" in branches else "")]
    for place, (name, arrow) in enumerate(members.items()):
        lines += [f'1 "member{place}" {arrow}?', f'2 @ ["columnar.branch", "{name}"]']
    assert shown(one(branches)) == lines


def test_unions_are_in_lists_maps_and_each_others_records() -> None:
    inner = RECORD | {"fields": [{"name": "u", "type": ["int", {"type": "array", "items": "int"}]}]}
    assert shown(one({"type": "map", "values": ["string", inner]})) == [
        '0 "f" map',
        '1 "key" string',
        '1 "value" struct',
        '2 "member0" string?',
        '3 @ ["columnar.branch", "string"]',
        '2 "member1" struct?',
        '3 @ ["columnar.branch", "x.y.q"]',
        '3 "u" struct',
        '4 "member0" int32?',
        '5 @ ["columnar.branch", "int"]',
        '4 "member1" list?',
        '5 @ ["columnar.branch", "array"]',
        '5 "item" int32',
    ]


def test_a_union_of_records_has_their_members_for_columns() -> None:
    schema = [RECORD, RECORD | {"name": "z", "namespace": "n"}]
    assert shown(schema) == [
        '0 "member0" struct?',
        '1 @ ["columnar.branch", "q"]',
        '1 "a" int32',
        '0 "member1" struct?',
        '1 @ ["columnar.branch", "n.z"]',
        '1 "a" int32',
    ]
    other = {"type": "record", "name": "u", "fields": [{"name": "q", "type": "q"}]}
    assert RecordSchema.parse([RECORD, other]).arrow.field(1).type.field(0).type == (
        RecordSchema.parse([RECORD, other]).arrow.field(0).type
    )


@pytest.mark.parametrize(
    ("branches", "name"),
    [
        (["string", "int", "string"], "string"),
        (["long", {"type": "long", "logicalType": "timestamp-millis"}, "string"], "long"),
        ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "array"),
    ],
)
def test_a_union_with_a_type_twice_is_refused(branches: list[Any], name: str) -> None:
    assert refusal(one(branches)) == (
        f"field 'f' is a union with {name!r} 2 times, and nobody could tell which of them a value "
        "is: Avro allows each type once, unless it has a name of its own"
    )


def test_what_a_branch_cannot_be_is_refused_with_its_path() -> None:
    loop = {"type": "record", "name": "q", "fields": [{"name": "next", "type": ["null", "q"]}]}
    assert refusal([RECORD | {"name": "z"}, loop]) == (
        "field 'member1.next' is recursive (q): a column type must be finite"
    )
    assert refusal(one(["string", FIXED | {"size": 0}])) == (
        "field 'f.member1' is fixed to 0 bytes, which Parquet cannot store"
    )


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


@pytest.mark.parametrize(
    "types", [[], [ENUM], ["null", RECORD], [RECORD, RECORD | {"name": "z"}, ENUM]]
)
def test_a_list_of_anything_but_records_is_refused(types: list[Any]) -> None:
    assert refusal(types) == "a topic's Avro schema must be one record, or a union of records"


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
