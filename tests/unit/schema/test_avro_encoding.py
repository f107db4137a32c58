"""How columns are encoded in Avro, and what their types do not say of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from json_leaves import LEAVES

from columnar_kafka import SchemaError
from columnar_kafka.plain.avro import Avro
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.avro_encoding import avro_types, forms
from columnar_kafka.schema.to_avro import to_avro

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}


def of(avro: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": avro}]}


@pytest.mark.parametrize(
    ("avro", "said"),
    [
        ("long", {}),
        (["null", "long"], {}),
        (["long", "null"], {"f": ["long", "null"]}),
        (["long"], {"f": ["long"]}),
        (["null", "int", "long"], {"f": ["null", "int", "long"]}),
        (["double", "float"], {"f": ["double", "float"]}),
        (ENUM, {"f": {"enum": ["A", "B"]}}),
        (["null", ENUM, "string"], {"f": ["null", {"enum": ["A", "B"]}, "string"]}),
        ({"type": "fixed", "name": "F", "size": 3}, {}),
        (["bytes", {"type": "fixed", "name": "F", "size": 3}], {"f": ["bytes", {"fixed": 3}]}),
        ({"type": "bytes", **DECIMAL}, {}),
        ({"type": "fixed", "name": "D", "size": 8, **DECIMAL}, {"f": {"fixed": 8}}),
        ({"type": "string", "logicalType": "uuid"}, {}),
        ({"type": "array", "items": ["int", "null"]}, {"f.item": ["int", "null"]}),
        ([{"type": "map", "values": ENUM}, "null"],
         {"f": ["map", "null"], "f.value": {"enum": ["A", "B"]}}),
        ([{**of(["string", "null"]), "name": "I"}, "null"],
         {"f": ["record", "null"], "f.f": ["string", "null"]}),
    ],
)  # fmt: skip
def test_what_columns_do_not_say(avro: Any, said: dict[str, Any]) -> None:
    arrow, types = RecordSchema.parse(of(avro)).arrow, Avro(of(avro)).fields
    assert dict(forms(arrow, types)) == said
    assert avro_types(arrow, said) == types


NESTED = [
    pa.list_(pa.int64()),
    pa.large_list(pa.int64()),
    pa.list_(pa.int64(), 3),
    pa.map_(pa.string(), pa.float64()),
    pa.map_(pa.int64(), pa.float64()),
    pa.struct([("x", pa.list_(pa.field("item", pa.string(), nullable=False)))]),
    pa.struct([("x", pa.uint8())]),
]


@pytest.mark.parametrize("arrow", [*LEAVES, *NESTED], ids=str)
def test_columns_have_the_types_of_their_avro_schema(arrow: pa.DataType) -> None:
    """A type that a schema of Avro's is written for, fixed, and no other."""
    if pa.types.is_fixed_size_binary(arrow):
        schema = pa.schema([pa.field("f", arrow, nullable=False)])
        assert avro_types(schema, {}) == [("fixed", arrow.byte_width)]
        return
    for nullable in (True, False):
        schema = pa.schema([pa.field("f", arrow, nullable)])
        try:
            avro = to_avro(RecordSchema.parse(schema))
        except SchemaError:
            with pytest.raises(SchemaError, match=r"^field 'f.*which Avro does not have"):
                avro_types(schema, {})
        else:
            assert avro_types(schema, {}) == Avro(avro).fields


@pytest.mark.parametrize(
    ("arrow", "nullable", "form"),
    [
        (pa.int64(), False, "double"),
        (pa.int64(), False, ["null", "long"]),
        (pa.int64(), True, "long"),
        (pa.int64(), True, ["long"]),
        (pa.int64(), True, ["null"]),
        (pa.int64(), True, []),
        (pa.int64(), True, ["null", "null", "long"]),
        (pa.int64(), True, ["null", ["long"]]),
        (pa.int64(), False, ["long"] * 33),
        (pa.int64(), False, None),
        (pa.int64(), False, 5),
        (pa.int32(), False, "long"),
        (pa.float32(), False, "double"),
        (pa.timestamp("ms"), False, "int"),
        (pa.string(), False, {"enum": "A"}),
        (pa.string(), False, {"enum": [1]}),
        (pa.string(), False, {"enum": ["A"], "fixed": 1}),
        (pa.string(), False, {}),
        (pa.string(), False, "bytes"),
        (pa.binary(), False, {"fixed": "1"}),
        (pa.binary(), False, {"fixed": True}),
        (pa.binary(3), False, {"fixed": 4}),
        (pa.binary(3), False, "bytes"),
        (pa.decimal128(5), False, {"fixed": 0}),
        (pa.decimal128(5), False, {"fixed": 257}),
        (pa.list_(pa.int64()), False, "map"),
        (pa.struct([("x", pa.int64())]), False, {"record": []}),
    ],
)  # fmt: skip
def test_what_a_column_cannot_be(arrow: pa.DataType, nullable: bool, form: Any) -> None:
    schema = pa.schema([pa.field("f", arrow, nullable)])
    with pytest.raises(SchemaError, match=r"^field 'f' (is|may)"):
        avro_types(schema, {"f": form})
