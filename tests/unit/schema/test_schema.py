"""Schemas from pyarrow and Avro: what is accepted, what is refused, and the canonical text."""

from __future__ import annotations

import decimal
import io
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_types import optional
from confluent_kafka import KafkaException

from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import RecordSchema, canonical, fingerprint


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "namespace": "x.y", "fields": list(fields)}


def one(avro: Any, **more: Any) -> dict[str, Any]:
    return record({"name": "f", "type": avro, **more})


def parsed(avro: Any) -> pa.Field:
    (field,) = RecordSchema.parse(one(avro)).arrow
    return field


def refusal(schema: Any) -> str:
    with pytest.raises(SchemaError) as raised:
        RecordSchema.parse(schema)
    return raised.value.reason


def nested(depth: int, inner: pa.DataType) -> pa.DataType:
    for _ in range(depth):
        inner = pa.list_(inner)
    return inner


# --- Avro ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ({"type": "long"}, pa.int64()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("ns", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, pa.timestamp("ns")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "long", "logicalType": "made-up"}, pa.int64()),
        ({"type": "fixed", "name": "x", "size": 4}, pa.binary(4)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            pa.decimal128(10, 2),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, pa.decimal128(38, 0)),
        (
            {
                "type": "fixed",
                "name": "x",
                "size": 32,
                "logicalType": "decimal",
                "precision": 39,
                "scale": 1,
            },
            pa.decimal256(39, 1),
        ),
        ({"type": "bytes", "logicalType": "decimal"}, pa.binary()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        (
            {"type": "array", "items": "int"},
            pa.list_(pa.field("item", pa.int32(), nullable=False)),
        ),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.int32())),
        (
            {"type": "map", "values": "int"},
            pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)),
        ),
        ({"type": "map", "values": ["int", "null"]}, pa.map_(pa.string(), pa.int32())),
        (
            {"type": "record", "name": "q", "fields": [{"name": "a", "type": "int"}]},
            pa.struct([pa.field("a", pa.int32(), nullable=False)]),
        ),
    ],
)
def test_an_avro_type_becomes_an_arrow_type(avro: Any, arrow: pa.DataType) -> None:
    assert parsed(avro) == pa.field("f", arrow, nullable=False)


@pytest.mark.parametrize("union", [["null", "int"], ["int", "null"], [{"type": "null"}, "int"]])
def test_a_union_with_null_is_nullable(union: list[Any]) -> None:
    assert parsed(union) == pa.field("f", pa.int32(), nullable=True)


def test_a_union_of_one_type_is_that_type() -> None:
    assert parsed(["int"]) == pa.field("f", pa.int32(), nullable=False)


def test_a_named_type_may_be_used_again() -> None:
    point = {"type": "record", "name": "p", "fields": [{"name": "x", "type": "int"}]}
    schema = RecordSchema.parse(
        record({"name": "a", "type": point}, {"name": "b", "type": ["null", "x.y.p"]})
    )
    assert schema.arrow.field("a").type == schema.arrow.field("b").type


def test_json_text_is_an_avro_schema_too() -> None:
    assert RecordSchema.parse(json.dumps(one("int"))) == RecordSchema.parse(one("int"))


def test_the_users_own_schema_is_not_changed() -> None:
    schema = one({"type": "array", "items": {"type": "int", "logicalType": "date"}}, default=[1])
    text = json.dumps(schema)
    RecordSchema.parse(schema)
    assert json.dumps(schema) == text


def test_enums_are_known_by_their_path() -> None:
    def enum(name: str) -> dict[str, Any]:
        return {"type": "enum", "name": name, "symbols": ["A", "B"]}

    inner = {"type": "record", "name": "q", "fields": [{"name": "e", "type": enum("e1")}]}
    schema = RecordSchema.parse(
        record(
            {"name": "plain", "type": enum("e2")},
            {"name": "maybe", "type": ["null", enum("e3")]},
            {"name": "many", "type": {"type": "array", "items": enum("e4")}},
            {"name": "by", "type": {"type": "map", "values": enum("e5")}},
            {"name": "in", "type": inner},
        )
    )
    assert schema.symbols == dict.fromkeys(
        ["plain", "maybe", "many.item", "by.value", "in.e"], frozenset("AB")
    )


@pytest.mark.parametrize(
    ("avro", "default", "value"),
    [
        ("int", 7, 7),
        (["null", "int"], None, None),
        (["int", "null"], 7, 7),
        ("string", "ü", "ü"),
        ("bytes", "\u00ff\u0000", b"\xff\x00"),
        (["bytes", "null"], "\u00ff", b"\xff"),
        ({"type": "fixed", "name": "x", "size": 1}, "\u00ff", b"\xff"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "\u00ff",
            decimal.Decimal("-0.01"),
        ),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "A", "A"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": "bytes"}, {"k": "\u00ff"}, {"k": b"\xff"}),
    ],
)
def test_a_default_has_the_value_that_a_row_would_hold(avro: Any, default: Any, value: Any) -> None:
    """Avro writes bytes in JSON as text, with one character for each byte."""
    assert RecordSchema.parse(one(avro, default=default)).defaults == {"f": value}


@pytest.mark.parametrize("name", ["_kafka_offset", "_kafkas", "a._kafka", "kafka.x"])
def test_names_that_look_like_reserved_ones_are_free(name: str) -> None:
    schema = pa.schema([(name, pa.struct([("_KAFKA", pa.int8()), ("_kafka.x", pa.int8())]))])
    assert RecordSchema.parse(schema).arrow == schema


def test_a_field_without_default_has_none() -> None:
    assert RecordSchema.parse(one(["null", "int"])).defaults == {}


# --- what is refused ----------------------------------------------------------------------------


RESERVED = "reserved for each record's key, time and headers"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (pa.schema([]), "the schema has no fields; a record needs at least one"),
        (record(), "the schema has no fields; a record needs at least one"),
        (
            pa.schema([("_kafka", pa.int8())]),
            f"field '_kafka' is {RESERVED}",
        ),
        (
            pa.schema([("n", pa.int8()), ("_KAFKA", pa.int8())]),
            f"field '_KAFKA' is {RESERVED}: Spark ignores case",
        ),
        (
            record({"name": "_Kafka", "type": "int"}),
            f"field '_Kafka' is {RESERVED}: Spark ignores case",
        ),
        (
            pa.schema([("_Kafka.offset", pa.int64())]),
            "field '_Kafka.offset' is reserved: it would be a member of `_kafka`. Rename it",
        ),
        (  # as `flatten` makes them of the tables of `consume_arrow`
            pa.schema([("n", pa.int8()), ("_kafka.offset", pa.int64())]),
            "field '_kafka.offset' is reserved: it would be a member of `_kafka`. Rename it",
        ),
        (
            record({"name": "_kafka", "type": "int"}),
            f"field '_kafka' is {RESERVED}",
        ),
        (
            pa.schema([("a", pa.int8()), ("b", pa.int8()), ("a", pa.int8())]),
            "field 'a' occurs 2 times; names must be unique",
        ),
        (
            pa.schema([("s", pa.struct([("a", pa.int8()), ("a", pa.int8())]))]),
            "field 's.a' occurs 2 times",
        ),
        (
            pa.schema([("s", pa.struct([]))]),
            "field 's' is a record without fields, which Parquet cannot store",
        ),
        (
            pa.schema([("s", pa.struct([pa.field("l", pa.list_(pa.int8(), 2), nullable=False)]))]),
            (
                "field 's.l' is a fixed-size list that cannot be null, inside a record: "
                "make it nullable, or a list"
            ),
        ),
        (
            pa.schema([("l", pa.list_(pa.binary(0)))]),
            "field 'l.item' is fixed to 0 bytes, which Parquet cannot store",
        ),
        (
            pa.schema([("l", pa.struct([("f", pa.list_(pa.int8(), 0))]))]),
            "field 'l.f' is a fixed-size list of 0 elements, which Arrow writes but cannot read",
        ),
        *(
            (
                pa.schema([("a", pa.list_(uuid))]),
                "field 'a.item' has type extension<arrow.uuid>, which a segment cannot store",
            )
            for uuid in optional("uuid")
        ),
        (
            record({"name": 5, "type": "int"}),
            "field '5': its name must be text, not 5",
        ),
        (
            pa.schema([("a", nested(50, pa.int8()))]),
            (
                "field 'a' is nested deeper than the 100 levels of a Parquet file, of which a list "
                "or a map takes two"
            ),
        ),
        (
            pa.schema([("a", pa.list_(pa.null()))]),
            "field 'a.item' has type null, which a segment cannot store",
        ),
        (
            pa.schema([("a", pa.struct([("u", pa.month_day_nano_interval())]))]),
            "field 'a.u' has type month_day_nano_interval, which a segment cannot store",
        ),
        (
            pa.schema([("a", pa.map_(pa.list_(pa.int8()), pa.int8()))]),
            (
                "field 'a': map keys of type list<item: int8> are not supported (a Python dict "
                "cannot hold them)"
            ),
        ),
        (one("null"), "field 'f' has Avro type 'null', which a segment cannot store"),
        (one(["null", "r"]), "field 'f' is recursive (x.y.r): a column type must be finite"),
        (
            one({"type": "array", "items": "r"}),
            "field 'f.item' is recursive (x.y.r): a column type must be finite",
        ),
        (
            one({"type": "bytes", "logicalType": "decimal", "precision": 77}),
            "field 'f' is a decimal of 77 digits; the most is 76",
        ),
        ('"int"', "a topic's Avro schema must be one record, or a union of records"),
        (
            '{"type": "enum", "name": "e", "symbols": ["A"]}',
            "a topic's Avro schema must be one record, or a union of records",
        ),
    ],
)
def test_a_schema_is_refused_with_the_path_of_the_field(schema: Any, reason: str) -> None:
    assert refusal(schema) == reason


@pytest.mark.parametrize(
    ("arrow", "path"),
    [
        (pa.null(), "a"),
        (pa.struct([("b", pa.list_(pa.null()))]), "a.b.item"),
        (pa.map_(pa.string(), pa.struct([("b", pa.string_view())])), "a.value.b"),
        (pa.map_(pa.binary_view(), pa.int8()), "a.key"),
        (pa.list_(pa.list_(pa.date64()), 2), "a.item.item"),
    ],
    ids=str,
)
def test_a_type_that_no_segment_has_has_no_fingerprint(arrow: pa.DataType, path: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(f"field {path!r} has type ")) as raised:
        fingerprint(pa.schema([("a", arrow)]))
    assert raised.value.reason.endswith(", which no segment of version 1 has")


@pytest.mark.parametrize("levels", [101, 3000])
def test_avro_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    avro: Any = "int"
    for _ in range(levels):
        avro = {"type": "array", "items": avro}
    assert "nested deeper than the 100 levels" in refusal(one(avro))


@pytest.mark.parametrize("schema", ["{", "[1]", '{"a": 1}', one("no.such.type"), [("a", "int")]])
def test_an_invalid_avro_schema_is_a_schema_error(schema: Any) -> None:
    assert "not an Avro schema" in refusal(schema) or "is not JSON" in refusal(schema)


@pytest.mark.parametrize("schema", [None, 5, (("a", "int"),), pa.int8(), b"{}"])
def test_anything_else_is_a_type_error(schema: Any) -> None:
    with pytest.raises(TypeError, match=r"a schema must be a pyarrow\.Schema, or an Avro schema"):
        RecordSchema.parse(schema)


def test_a_schema_error_is_an_error_that_confluents_users_catch() -> None:
    with pytest.raises(KafkaException):
        RecordSchema.parse(pa.schema([]))


# --- Arrow --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        (pa.timestamp("s"), "timestamp[ms]"),
        (pa.timestamp("s", "Europe/Paris"), "timestamp[ms]"),
        (pa.time32("s"), "time32[ms]"),
        (pa.date64(), "date32"),
        (pa.list_(pa.timestamp("s")), "timestamp[ms]"),
    ],
)
def test_a_time_unit_that_parquet_does_not_have_is_refused(
    given: pa.DataType, instead: str
) -> None:
    """In another unit, a user's integer would silently mean another time."""
    with pytest.raises(SchemaError, match=re.escape(f"which Parquet does not have: use {instead}")):
        RecordSchema.parse(pa.schema([("a", given)]))


def of_levels(kinds: str) -> pa.Schema:
    """Return a schema whose one field is nested as the letters say, outermost first."""
    inner = pa.int8()
    for kind in reversed(kinds):
        if kind == "s":
            inner = pa.struct([("a", inner)])
        elif kind == "l":
            inner = pa.list_(inner)
        else:
            inner = pa.map_(pa.string(), inner)
    return pa.schema([("a", inner)])


@pytest.mark.parametrize(
    "kinds", ["s" * 98, "l" * 49, "m" * 49, "sl" * 32 + "ss", "lsm" * 19 + "sss"]
)
def test_the_deepest_schema_that_parquet_reads_is_accepted_and_one_level_more_refused(
    kinds: str,
) -> None:
    for one_deeper, taken in ((kinds, True), ("s" + kinds, False)):
        schema = of_levels(one_deeper)
        file = io.BytesIO()
        pq.write_table(schema.empty_table(), file)
        if taken:
            assert RecordSchema.parse(schema).arrow == schema
            assert pq.read_table(file).schema == schema
        else:
            assert "deeper than the 100 levels" in refusal(schema)
            if VERSION >= (26, 0):  # others read more
                with pytest.raises(OSError, match="too deeply nested"):
                    pq.read_table(file)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.list_view(pa.int8()), pa.list_(pa.int8())),
        (pa.large_list_view(pa.int8()), pa.large_list(pa.int8())),
        (pa.list_(pa.string_view()), pa.list_(pa.string())),
        (pa.large_list(pa.string_view()), pa.large_list(pa.string())),
        (pa.list_(pa.string_view(), 2), pa.list_(pa.string(), 2)),
        (pa.map_(pa.string_view(), pa.string_view()), pa.map_(pa.string(), pa.string())),
        (pa.struct([("x", pa.string_view())]), pa.struct([("x", pa.string())])),
        (pa.large_string(), pa.large_string()),
        (pa.duration("ns"), pa.duration("ns")),
        (pa.float16(), pa.float16()),
    ],
)
def test_a_layout_that_parquet_does_not_have_is_stored_in_one_that_it_has(
    given: pa.DataType, stored: pa.DataType
) -> None:
    assert RecordSchema.parse(pa.schema([("a", given)])).arrow == pa.schema([("a", stored)])


@pytest.mark.skipif(VERSION < (19, 0), reason="this pyarrow has no JSON type")
def test_arrows_json_is_stored_as_text_and_known_by_its_path() -> None:
    inner = pa.struct([("x", pa.json_()), ("y", pa.string())])
    types = [pa.json_(pa.large_string()), pa.list_(inner), pa.map_(pa.string(), pa.json_())]
    schema = RecordSchema.parse(pa.schema(list(zip("abc", types, strict=True))))
    assert schema.json_texts == {"a", "b.item.x", "c.value"}
    stored = pa.struct([("x", pa.string()), ("y", pa.string())])
    assert schema.arrow.types == [
        pa.large_string(),
        pa.list_(stored),
        pa.map_(pa.string(), pa.string()),
    ]


def test_field_ids_of_another_table_are_dropped_and_other_metadata_stays() -> None:
    metadata = {"PARQUET:field_id": "3", "unit": "m"}
    inner = pa.struct([pa.field("x", pa.int8(), metadata=metadata)])
    schema = pa.schema([pa.field("a", inner, metadata=metadata)], metadata={"owner": "me"})
    arrow = RecordSchema.parse(schema).arrow
    assert arrow.field("a").metadata == {b"unit": b"m"}
    assert arrow.field("a").type.field("x").metadata == {b"unit": b"m"}
    assert arrow.metadata == {b"owner": b"me"}


# --- the canonical text -------------------------------------------------------------------------

EVERYTHING = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field('q"ü', pa.string(), metadata={"b": "2", "a": "1"}),
        ("at", pa.timestamp("ms", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("time", pa.time64("us")),
        ("took", pa.duration("s")),
        ("price", pa.decimal128(10, 2)),
        ("id", pa.binary(16)),
        ("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
        ("pair", pa.list_(pa.float16(), 2)),
        ("large", pa.large_list(pa.large_binary())),
        ("by", pa.map_(pa.string(), pa.struct([("x", pa.uint8())]))),
    ],
    metadata={"owner": "me"},
)


def test_the_canonical_text_is_pinned() -> None:
    assert canonical(EVERYTHING) == (
        '0 "n" int64\n'
        '0 "q\\"\\u00fc" string?\n'
        '1 @ ["a", "1"]\n'
        '1 @ ["b", "2"]\n'
        '0 "at" timestamp[ms,"UTC"]?\n'
        '0 "local" timestamp[us,null]?\n'
        '0 "day" date32?\n'
        '0 "time" time64[us]?\n'
        '0 "took" duration[s]?\n'
        '0 "price" decimal128[10,2]?\n'
        '0 "id" fixed_size_binary[16]?\n'
        '0 "tags" list?\n'
        '1 "item" string\n'
        '0 "pair" fixed_size_list[2]?\n'
        '1 "item" float16?\n'
        '0 "large" large_list?\n'
        '1 "item" large_binary?\n'
        '0 "by" map?\n'
        '1 "key" string\n'
        '1 "value" struct?\n'
        '2 "x" uint8?\n'
        '0 @ ["owner", "me"]\n'
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (EVERYTHING, "52646967f7e7023b7dcaa6980f6355ab"),
        (
            pa.schema([pa.field("n", pa.int64(), nullable=False)]),
            "3343680be103d65c0404a513f9dbc49c",
        ),
        (
            KafkaColumn(METADATA_MEMBERS).schema(pa.schema([("n", pa.int64())])),
            "4fc569d59fd408fba5438b6543fc7f51",
        ),
    ],
)
def test_the_fingerprint_is_pinned(schema: pa.Schema, expected: str) -> None:
    """Every segment has it: with another one, two segments could no longer be stitched."""
    assert fingerprint(schema) == expected


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([("m", pa.int64())]),
        pa.schema([("n", pa.int32())]),
        pa.schema([pa.field("n", pa.int64(), nullable=False)]),
        pa.schema([pa.field("n", pa.int64(), metadata={"a": "b"})]),
        pa.schema([("n", pa.int64())], metadata={"a": "b"}),
        pa.schema([("n", pa.int64()), ("o", pa.int64())]),
        pa.schema([("n", pa.struct([("n", pa.int64())]))]),
    ],
)
def test_schemas_that_differ_have_fingerprints_that_differ(other: pa.Schema) -> None:
    assert fingerprint(other) != fingerprint(pa.schema([("n", pa.int64())]))


class Registered(pa.ExtensionType):  # type: ignore[misc]
    """An extension type, which Arrow serializes as its storage type with metadata."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.registered")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"1"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Registered:
        return cls()


def test_an_extension_type_is_not_taken_for_its_storage_type_with_metadata() -> None:
    metadata = {"ARROW:extension:metadata": "1", "ARROW:extension:name": "tests.registered"}
    stored = pa.schema([pa.field("n", pa.int64(), metadata=metadata)])
    extension = pa.schema([("n", Registered())])
    assert stored.serialize() == extension.serialize()
    for _ in range(2):
        assert fingerprint(stored) != fingerprint(pa.schema([("n", pa.int64())]))
        with pytest.raises(SchemaError, match=r"extension<tests\.registered<Registered>>"):
            fingerprint(extension)


def test_the_order_of_metadata_does_not_matter() -> None:
    one_way = pa.schema([("n", pa.int64())], metadata={"a": "1", "b": "2"})
    other_way = pa.schema([("n", pa.int64())], metadata={"b": "2", "a": "1"})
    assert canonical(one_way) == canonical(other_way)


def test_the_name_of_a_lists_element_does_not_matter() -> None:
    schemas = [pa.schema([("a", pa.list_(pa.field(name, pa.int8())))]) for name in ("item", "x")]
    assert canonical(schemas[0]) == canonical(schemas[1]) == '0 "a" list?\n1 "item" int8?\n'


def test_metadata_of_the_file_does_not_count() -> None:
    metadata = {"columnar.rows": "1", "ARROW:schema": "x", "owner": "me"}
    text = canonical(pa.schema([("a", pa.int8())], metadata=metadata))
    assert text == '0 "a" int8?\n0 @ ["owner", "me"]\n'


def test_every_type_that_is_accepted_has_a_name() -> None:
    types = [
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.date32()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3)),
        *(
            *optional("decimal32", 5, 2),
            *optional("decimal64", 5, 2),
            pa.decimal128(5, 2),
            pa.decimal256(5, 2),
        ),
        *(pa.time32("ms"), pa.time64("ns"), pa.timestamp("ms"), pa.duration("us")),
        *(pa.string_view(), pa.list_view(pa.int8()), pa.dictionary(pa.int8(), pa.int8())),
    ]
    texts = {
        canonical(RecordSchema.parse(pa.schema([("a", kind)])).arrow).splitlines()[0]
        for kind in types
    }
    # string_view is string, list_view a list, the dictionary int8: two of those names are there.
    assert len(texts) == len(types) - 2


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+01:00", "-09:30"])
def test_time_zones_that_python_knows_are_kept(zone: str) -> None:
    kind = pa.timestamp("ms", zone)
    assert RecordSchema.parse(pa.schema([("t", kind)])).arrow.field("t").type == kind


@pytest.mark.parametrize("zone", ["Foo/Bar", "+25:00", "+01"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    """Its values could be written, but nobody could read them."""
    reason = refusal(pa.schema([("s", pa.struct([("t", pa.timestamp("us", zone))]))]))
    assert reason.startswith(f"field 's.t' has the unknown time zone {zone!r}: ")
