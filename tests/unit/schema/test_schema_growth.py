"""A topic's schema may grow: a reader with the new one can read every record of the old one."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from arrow_types import optional

from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import RecordSchema, check_growth

WIDER = [
    [pa.int8(), pa.int16(), pa.int32(), pa.int64()],
    [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    [pa.uint8(), pa.int16()],
    [pa.uint16(), pa.int32()],
    [pa.uint32(), pa.int64()],
    [pa.float16(), pa.float32(), pa.float64()],
    [
        *optional("decimal32", 5, 2),
        *optional("decimal64", 10, 2),
        pa.decimal128(11, 2),
        pa.decimal256(50, 2),
    ],
    [pa.string(), pa.large_string()],
    [pa.binary(), pa.large_binary()],
    [pa.list_(pa.int8()), pa.large_list(pa.int8())],
    [pa.list_(pa.int8()), pa.list_(pa.int16())],
    [pa.list_(pa.int8(), 2), pa.list_(pa.int16(), 2)],
    [pa.map_(pa.int8(), pa.string()), pa.map_(pa.int16(), pa.large_string())],
    [pa.struct([("x", pa.int8())]), pa.struct([("x", pa.int16())])],
    [
        pa.list_(pa.struct([("x", pa.int8()), ("y", pa.int8())])),
        pa.large_list(pa.struct([("y", pa.int8()), ("z", pa.string()), ("x", pa.int8())])),
    ],
]
OTHER = [
    (pa.int64(), pa.uint64()),
    (pa.int8(), pa.uint16()),
    (pa.uint8(), pa.int8()),
    (pa.uint64(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.int64()),
    (pa.bool_(), pa.int8()),
    (pa.int8(), pa.string()),
    (pa.string(), pa.binary()),
    (pa.binary(4), pa.binary(5)),
    (pa.binary(4), pa.binary()),
    (pa.decimal128(10, 2), pa.decimal128(11, 3)),
    *((pa.decimal128(10, 2), narrow) for narrow in optional("decimal64", 11, 2)),
    (pa.date32(), pa.timestamp("ms")),
    (pa.timestamp("ms"), pa.timestamp("us")),
    (pa.timestamp("ms"), pa.timestamp("ms", "UTC")),
    (pa.timestamp("ms", "UTC"), pa.timestamp("ms", "Europe/Paris")),
    (pa.time32("ms"), pa.time64("us")),
    (pa.duration("ms"), pa.duration("us")),
    (pa.list_(pa.int8()), pa.list_(pa.int8(), 2)),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3)),
    (pa.list_(pa.int8()), pa.int8()),
    (pa.struct([("x", pa.int8())]), pa.int8()),
    (pa.map_(pa.string(), pa.int8()), pa.list_(pa.int8())),
]


def check(old: pa.Schema | list[pa.Field], new: pa.Schema | list[pa.Field]) -> None:
    check_growth(RecordSchema.parse(pa.schema(old)), RecordSchema.parse(pa.schema(new)))


def refusal(old: list[pa.Field], new: list[pa.Field]) -> str:
    with pytest.raises(SchemaError) as raised:
        check(old, new)
    return raised.value.reason


def of(kind: pa.DataType, *, nullable: bool = True) -> list[pa.Field]:
    return [pa.field("f", kind, nullable)]


WAYS = [pair for types in WIDER for pair in itertools.combinations(types, 2)]


@pytest.mark.parametrize(("old", "new"), WAYS, ids=str)
def test_a_type_may_become_wider_but_not_narrower(old: pa.DataType, new: pa.DataType) -> None:
    check(of(old), of(old))
    check(of(old), of(new))
    assert refusal(of(new), of(old)).startswith("field 'f")


@pytest.mark.parametrize(("old", "new"), OTHER, ids=str)
def test_any_other_change_of_type_is_refused_with_both_types(
    old: pa.DataType, new: pa.DataType
) -> None:
    assert "which is not a wider form: keep " in refusal(of(old), of(new))


def test_the_error_about_a_type_names_the_field_both_types_and_what_to_do() -> None:
    old = of(pa.list_(pa.struct([("t", pa.timestamp("ms", "UTC"))])))
    new = of(pa.list_(pa.struct([("t", pa.timestamp("us", "UTC"))])))
    assert refusal(old, new) == (
        'field \'f.item.t\' was timestamp[ms,"UTC"] or null and is timestamp[us,"UTC"] or null, '
        'which is not a wider form: keep timestamp[ms,"UTC"] or widen it, add a nullable field '
        "beside it, or use another topic"
    )


def test_fields_may_move_and_nullable_ones_be_added_anywhere() -> None:
    old = [*of(pa.struct([("x", pa.int8())])), pa.field("g", pa.int8(), nullable=False)]
    more = pa.struct([pa.field("n", pa.string(), metadata={"a": "b"}), ("x", pa.int8())])
    new = [pa.field("h", pa.int8()), old[1], *of(more)]
    check(old, new)


def test_a_required_field_may_become_nullable() -> None:
    inner = [pa.struct([pa.field("x", pa.int8(), nullable)]) for nullable in (False, True)]
    check(of(inner[0], nullable=False), of(inner[1]))


def test_metadata_enums_and_defaults_do_not_matter() -> None:
    def avro(**field: object) -> RecordSchema:
        fields = [{"name": "f", **field}]
        return RecordSchema.parse({"type": "record", "name": "r", "fields": fields})

    enum = {"type": "enum", "name": "e", "symbols": ["A"]}
    check_growth(avro(type=enum, default="A"), avro(type="string"))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            [*of(pa.int8()), pa.field("g", pa.string())],
            of(pa.int8()),
            (
                "field 'g' (string or null) is missing, but earlier records have it: keep it, "
                "nullable if it may be empty, or use another topic"
            ),
        ),
        (
            of(pa.map_(pa.string(), pa.struct([("x", pa.int8()), ("y", pa.int8())]))),
            of(pa.map_(pa.string(), pa.struct([("x", pa.int8())]))),
            (
                "field 'f.value.y' (int8 or null) is missing, but earlier records have it: keep "
                "it, nullable if it may be empty, or use another topic"
            ),
        ),
        (
            of(pa.int8()),
            [*of(pa.int8()), pa.field("g", pa.string(), nullable=False)],
            (
                "field 'g' (string) is new and cannot be null, but earlier records lack it: make "
                "it nullable, or use another topic"
            ),
        ),
        (
            of(pa.struct([("x", pa.int8())])),
            of(pa.struct([("x", pa.int8()), pa.field("y", pa.int8(), nullable=False)])),
            (
                "field 'f.y' (int8) is new and cannot be null, but earlier records lack it: make "
                "it nullable, or use another topic"
            ),
        ),
        (
            of(pa.list_(pa.int8())),
            of(pa.list_(pa.field("item", pa.int16(), nullable=False))),
            (
                "field 'f.item' was int8 or null and is int16, but earlier records may have null: "
                "keep it nullable, or use another topic"
            ),
        ),
    ],
)
def test_a_schema_that_earlier_records_contradict_is_refused(
    old: list[pa.Field], new: list[pa.Field], reason: str
) -> None:
    assert refusal(old, new) == reason
