"""An Arrow schema as Avro: the same columns come back, or a field is named."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nesting import RandomRows
from support import examples

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import RecordSchema, canonical
from columnar_kafka.schema.to_avro import AVRO_TYPES, faithful_avro


@settings(max_examples=examples(500))
@given(st.integers(0, 2**64))
def test_random_columns_come_back_or_a_field_is_named(seed: int) -> None:
    records = RecordSchema.parse(RandomRows(seed).schema)
    try:
        again = RecordSchema.parse(faithful_avro(records, "Row"))
        told = canonical(again.arrow) == canonical(records.arrow)
    except SchemaError as error:
        told = error.reason.startswith("field '")
    assert told


TYPES = [
    *AVRO_TYPES,
    *(pa.binary(7), pa.decimal128(38, 3), pa.decimal256(39, 0)),
    *(pa.list_(pa.field("element", pa.binary(2), nullable=False)),),
    pa.map_(pa.string(), pa.struct([pa.field("x", pa.int32(), nullable=False)])),
]


@pytest.mark.parametrize("arrow", TYPES, ids=str)
@pytest.mark.parametrize("nullable", [True, False])
def test_each_type_of_avro_comes_back(arrow: pa.DataType, *, nullable: bool) -> None:
    inside = pa.struct([pa.field("x", arrow, nullable)])
    schema = pa.schema([pa.field("x", arrow, nullable), pa.field("s", inside, nullable)])
    records = RecordSchema.parse(schema)
    again = RecordSchema.parse(faithful_avro(records, "Row"))
    assert canonical(again.arrow) == canonical(records.arrow)
