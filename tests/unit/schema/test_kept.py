"""Schemas that a table keeps, and how one schema leads another."""

from __future__ import annotations

import pyarrow as pa
import pytest

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.kept import from_kept, to_kept
from columnar_kafka.schema.leading import led_by, nullable, number_of_columns, of_columns

TEXT, LONG = pa.string(), pa.int64()


def test_a_kept_schema_has_any_name_and_any_type() -> None:
    inner = pa.struct([("a.b", pa.uint8()), ("t", TEXT), ("m", pa.map_(TEXT, pa.list_(TEXT)))])
    columns = pa.schema(
        [
            ("@type", pa.int16()),
            ("ce-id", inner),
            ("no", pa.list_(pa.struct([("ce-id", inner)]))),
            pa.field("n", pa.decimal128(38, 3), nullable=False),
            ("f", pa.list_(pa.int8(), 3)),
            ("Maß", pa.timestamp("us", "Europe/Berlin")),
            ("d", pa.duration("us")),
        ]
    )
    schema = of_columns(columns, ["ce-id.t", "no.item.ce-id.m.value.item"])
    assert from_kept(to_kept(schema)) == schema
    assert schema.arrow == columns
    assert schema.defaults["ce-id.a.b"] is None
    assert "n" not in schema.defaults


def test_columns_of_like_names_are_told_apart() -> None:
    """Also where their records would have one name in Avro."""
    names = ["a", "a.b", "a_b", "a_b_", "a-b", "a.", ".", " ", "1", "é", "\n", '"', "string"]
    inner = pa.struct([(name, pa.struct([("x", LONG)])) for name in ("b", "_b", ".b")])
    schema = of_columns(pa.schema([(name, inner) for name in names]))
    assert from_kept(to_kept(schema)) == schema


@pytest.mark.parametrize(
    "text", ["", "[" * 5000, "[]", "{}", '{"type": "record", "name": "r"}', '"x"']
)
def test_a_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        from_kept(text)


def test_leading_columns_stay_and_others_follow() -> None:
    more = RecordSchema.parse(
        {
            "type": "record",
            "name": "r",
            "fields": [
                {"name": "ID", "type": "string"},
                {"name": "id", "type": "string"},
                {"name": "o", "type": {"type": "array", "items": {
                    "type": "record", "name": "p", "fields": [
                        {"name": "x", "type": {"type": "string", "logicalType": "json"}},
                        {"name": "y", "type": "long", "default": 5}]}}},
                {"name": "m", "type": {"type": "map", "values": {
                    "type": "record", "name": "q", "fields": [{"name": "z", "type": "long"}]}}},
                {"name": "s", "type": {"type": "enum", "name": "e", "symbols": ["A"]}},
                {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
            ],
        }
    )  # fmt: skip
    leading = of_columns(
        pa.schema(
            [
                pa.field("id", LONG, nullable=False),
                ("o", pa.list_(pa.struct([("x", pa.float64())]))),
                ("m", pa.map_(TEXT, pa.struct([("w", pa.int8())]))),
                ("s", pa.large_string()),
            ]
        )
    )
    led = led_by(more, leading)
    assert led.arrow == pa.schema(
        [
            pa.field("id", LONG, nullable=False),
            ("o", pa.list_(pa.struct([("x", pa.float64()), ("y", LONG)]))),
            ("m", pa.map_(TEXT, pa.struct([("w", pa.int8()), ("z", LONG)]))),
            ("s", TEXT),
            ("u", TEXT),
        ]
    )
    assert led.json_texts == set()
    assert led.uuids == {"u"}
    assert led.symbols == {}
    assert led.defaults == {
        **dict.fromkeys(("o", "o.item.x", "m", "m.value.w", "m.value.z", "s", "u")),
        "o.item.y": 5,
    }
    assert number_of_columns(led.arrow) == 7  # a map's keys are names


def test_all_may_be_null() -> None:
    def columns(*, null: bool) -> pa.Schema:
        value = pa.field("value", pa.list_(pa.field("item", LONG, null)), null)
        arrow = pa.struct([pa.field("m", pa.map_(TEXT, value), null)])
        return pa.schema([pa.field("o", arrow, null, {"unit": "m"})])

    assert nullable(columns(null=False)).equals(columns(null=True), check_metadata=True)
