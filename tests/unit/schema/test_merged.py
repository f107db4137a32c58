"""The columns that the records of two schemas fit, whichever came first."""

from __future__ import annotations

import pyarrow as pa
import pytest

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema.growth import merged
from columnar_kafka.schema.unions import member


def required(name: str, arrow: pa.DataType) -> pa.Field:
    return pa.field(name, arrow, nullable=False)


ONE = pa.schema(
    [
        required("n", pa.int32()),
        required("only one", pa.string()),
        required("s", pa.struct([required("a", pa.float64()), required("b", pa.int64())])),
        required("l", pa.list_(required("item", pa.int32()))),
        required("m", pa.map_(pa.string(), pa.field("value", pa.int64()))),
    ]
)
OTHER = pa.schema(
    [
        required("s", pa.struct([required("a", pa.float32()), required("c", pa.int64())])),
        pa.field("n", pa.int64()),
        required("l", pa.list_(pa.field("item", pa.int64()))),
        required("m", pa.map_(pa.string(), required("value", pa.int32()))),
        required("only other", pa.decimal128(5, 2)),
    ]
)


def test_each_field_has_the_wider_type_and_may_be_null_where_one_lacks_it() -> None:
    inside = [required("a", pa.float64()), pa.field("b", pa.int64()), pa.field("c", pa.int64())]
    assert merged(ONE, OTHER) == pa.schema(
        [
            pa.field("n", pa.int64()),
            pa.field("only one", pa.string()),
            required("s", pa.struct(inside)),
            required("l", pa.list_(pa.field("item", pa.int64()))),
            required("m", pa.map_(pa.string(), pa.field("value", pa.int64()))),
            pa.field("only other", pa.decimal128(5, 2)),
        ]
    )


def test_it_is_the_same_the_other_way_round_but_for_the_order() -> None:
    def sorted_fields(schema: pa.Schema) -> list[str]:
        return sorted(
            str(field).replace("b: int64, c: int64", "c: int64, b: int64") for field in schema
        )

    assert sorted_fields(merged(ONE, OTHER)) == sorted_fields(merged(OTHER, ONE))


def test_a_schema_merged_with_one_that_it_holds_is_itself() -> None:
    both = merged(ONE, OTHER)
    for schema in (ONE, OTHER, both):
        assert merged(both, schema) == both


@pytest.mark.parametrize(
    ("one", "other", "field"),
    [
        (pa.int32(), pa.string(), "'x' is int32 and string"),
        (pa.int32(), pa.float64(), "'x' is int32 and float64"),
        (
            pa.list_(pa.struct([required("a", pa.date32())])),
            pa.list_(pa.struct([required("a", pa.int32())])),
            "'x.item.a' is date32 and int32",
        ),
    ],
)
def test_types_without_a_wider_form_are_named(one, other, field) -> None:
    schemas = [pa.schema([required("x", arrow)]) for arrow in (one, other)]
    with pytest.raises(SchemaError) as raised:
        merged(*schemas)
    assert str(raised.value) == f"field {field}, and neither is a wider form"


def union(*names: str) -> pa.Schema:
    members = [member(place, name, pa.int64()) for place, name in enumerate(names)]
    return pa.schema([required("u", pa.struct(members))])


def test_a_union_has_the_branches_of_the_longer_one() -> None:
    for both in (merged(union("A"), union("A", "B")), merged(union("A", "B"), union("A"))):
        assert both.equals(union("A", "B"), check_metadata=True)


def test_a_branch_that_is_another_one_is_no_wider_form() -> None:
    with pytest.raises(SchemaError) as raised:
        merged(union("A", "B"), union("A", "C"))
    assert str(raised.value) == (
        "field 'u.member1' is the branch 'B' of a union, and 'C': a union's branches keep their "
        "order"
    )
