"""Every type is in the family of its values, or in none."""

from __future__ import annotations

import pyarrow as pa
import pytest
from arrow_types import optional

from columnar_kafka.schema.type_families import NESTED, Family, family

FAMILIES: dict[Family, list[pa.DataType]] = {
    "boolean": [pa.bool_()],
    "integer": [pa.int8(), pa.int64(), pa.uint8(), pa.uint64()],
    "float": [pa.float16(), pa.float32(), pa.float64()],
    "decimal": [
        *optional("decimal32", 9, 2),
        *optional("decimal64", 18, 2),
        pa.decimal128(38, 2),
        pa.decimal256(76, 2),
    ],
    "date": [pa.date32(), pa.date64()],
    "time": [pa.time32("s"), pa.time64("ns")],
    "local timestamp": [pa.timestamp("us")],
    "timestamp": [pa.timestamp("us", "UTC"), pa.timestamp("s", "Europe/Paris")],
    "duration": [pa.duration("ms")],
    "string": [pa.string(), pa.large_string()],
    "binary": [pa.binary(), pa.large_binary(), pa.binary(4)],
    "struct": [pa.struct([("x", pa.int8())])],
    "map": [pa.map_(pa.string(), pa.int8())],
    "list": [pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_(pa.int8(), 2)],
    "list view": [pa.list_view(pa.int8()), pa.large_list_view(pa.int8())],
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_type_is_in_the_family_of_its_values(name: Family) -> None:
    assert [family(arrow) for arrow in FAMILIES[name]] == [name] * len(FAMILIES[name])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_nested_families_are_those_of_nested_types(name: Family) -> None:
    assert {pa.types.is_nested(arrow) for arrow in FAMILIES[name]} == {name in NESTED}


@pytest.mark.parametrize(
    "arrow",
    [
        pa.null(),
        pa.string_view(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.month_day_nano_interval(),
        *optional("uuid"),
        pa.dense_union([pa.field("x", pa.int8())]),
    ],
    ids=str,
)
def test_a_type_without_values_of_a_family_is_in_none(arrow: pa.DataType) -> None:
    assert family(arrow) is None
