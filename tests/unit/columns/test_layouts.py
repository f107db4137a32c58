"""Nulls of required values under nulls are filled, and types grow; all else stays unchanged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from arrow_types import optional

from columnar_kafka.columns import older_arrow
from columnar_kafka.columns.layouts import cast_to_grown, fill_hidden_nulls, map_entries


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


LEAVES = {
    **dict.fromkeys([pa.bool_()], False),
    **dict.fromkeys([pa.int8(), pa.int64(), pa.uint16(), pa.float16(), pa.float64()], 0),
    **dict.fromkeys([pa.string(), pa.large_string()], ""),
    **dict.fromkeys([pa.binary(), pa.large_binary()], b""),
    pa.binary(40): bytes(40),
    **dict.fromkeys([*optional("decimal32", 9, 2), *optional("decimal64", 18, 2)], 0),
    pa.decimal128(38, 2): 0,
    pa.decimal256(76, 2): 0,
    pa.list_(pa.int8()): [],
    pa.large_list(pa.int8()): [],
    pa.map_(pa.string(), pa.int8()): [],
}


@pytest.mark.parametrize("leaf", LEAVES, ids=str)
def test_a_hidden_null_becomes_its_types_empty_value(leaf: pa.DataType) -> None:
    kind = pa.struct([required("r", pa.struct([required("x", leaf), ("y", leaf)]))])
    filled = fill_hidden_nulls(pa.nulls(2, kind), pa.field("s", kind))
    filled.validate(full=True)
    assert filled.to_pylist() == [None, None]
    assert filled.field("r").to_pylist() == [{"x": LEAVES[leaf], "y": None}] * 2


@pytest.mark.parametrize(
    "leaf", [pa.date32(), pa.time32("ms"), pa.timestamp("us"), pa.duration("s")]
)
def test_a_hidden_time_becomes_the_first_one(leaf: pa.DataType) -> None:
    kind = pa.struct([required("x", leaf)])
    times = fill_hidden_nulls(pa.nulls(1, kind), pa.field("s", kind)).field("x")
    assert times.view(pa.int32() if leaf.bit_width == 32 else pa.int64()).to_pylist() == [0]


INNER = pa.struct([required("n", pa.int32()), required("l", pa.list_(pa.string()))])
ROWS: dict[pa.DataType, list[Any]] = {
    pa.struct([required("r", INNER)]): [{"r": {"n": 1, "l": ["a"]}}, None],
    pa.list_(required("item", INNER), 2): [[{"n": 1, "l": ["a"]}, {"n": 2, "l": []}], None],
    pa.list_(pa.list_(required("item", pa.int8()), 1)): [[None, [1]], None, []],
    pa.map_(pa.string(), pa.struct([required("r", INNER)])): [
        [("a", None), ("b", {"r": {"n": 3, "l": []}})],
        None,
    ],
}


def grown(inner: pa.DataType) -> list[pa.DataType]:
    """Types with records in them; `inner` is the type of a field of each."""
    record = pa.struct([("a", inner), required("b", pa.bool_())])
    return [
        record,
        pa.struct([("r", record)]),
        pa.list_(record),
        pa.large_list(record),
        pa.list_(record, 2),
        pa.map_(pa.string(), record),
        pa.list_(pa.map_(pa.int8(), pa.list_(record))),
    ]


def values_of(kind: pa.DataType, seed: int) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: values_of(field.type, seed) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        return [values_of(kind.value_type, seed)] * 2
    if pa.types.is_map(kind):
        keys = ["k", "l"] if pa.types.is_string(kind.key_type) else [1, 2]
        return [(key, values_of(kind.item_type, seed)) for key in keys[: seed % 3]]
    if pa.types.is_nested(kind):
        return [values_of(kind.value_type, seed + number) for number in range(seed % 3)]
    return bool(seed % 2) if pa.types.is_boolean(kind) else seed


MORE = pa.struct([("new", pa.list_(required("item", pa.int8()), 2)), ("a", pa.int64())])
BEFORE = [*grown(pa.int32()), *grown(pa.struct([("a", pa.int16())])), pa.list_(pa.int8())]
AFTER = [*grown(pa.int64()), *grown(MORE), pa.large_list(pa.int16())]


@pytest.mark.parametrize("cut", [slice(None), slice(1, 7), slice(3, 4), slice(0, 0)], ids=str)
@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize(("kind", "to"), [*zip(BEFORE, AFTER, strict=True)], ids=str)
def test_values_are_cast_to_a_type_that_has_grown(kind, to, by_name, cut, monkeypatch) -> None:
    """Also where pyarrow has no such cast."""
    if not by_name:
        monkeypatch.setattr(older_arrow, "HAS_RECORD_CASTS", False)
    values = [None if n % 4 == 1 else values_of(kind, n) for n in range(8)]
    cast = cast_to_grown(pa.array(values, kind)[cut], to)
    cast = fill_hidden_nulls(cast, pa.field("", to))  # what is below a null may be anything
    cast.validate(full=True)
    assert cast.to_pylist() == pa.array(values, to).to_pylist()[cut]


def test_fields_of_records_that_moved_are_found_by_name(monkeypatch) -> None:
    kind = pa.list_(pa.struct([("x", pa.int8()), ("y", pa.string())]))
    to = pa.list_(pa.struct([("y", pa.string()), ("z", pa.int8()), ("x", pa.int64())]))
    rows = pa.array([[{"x": 1, "y": "a"}], None, [None, {"x": None, "y": "b"}]], kind)
    expected = [
        [{"y": "a", "z": None, "x": 1}],
        None,
        [None, {"y": "b", "z": None, "x": None}],
    ]
    assert cast_to_grown(rows, to).to_pylist() == expected
    monkeypatch.setattr(older_arrow, "HAS_RECORD_CASTS", False)
    assert cast_to_grown(rows, to).to_pylist() == expected


@pytest.mark.parametrize("kind", ROWS, ids=str)
def test_slices_keep_their_rows(kind: pa.DataType) -> None:
    rows = ROWS[kind] * 10
    parts = [pa.array([row], kind) if row is not None else pa.nulls(1, kind) for row in rows]
    whole = pa.concat_arrays(parts)
    for start in range(11):
        filled = fill_hidden_nulls(whole.slice(start, 9), pa.field("c", kind))
        filled.validate(full=True)
        assert filled.to_pylist() == rows[start : start + 9]
        assert filled.cast(kind).equals(filled)


@pytest.mark.parametrize("bounds", [slice(1, 3), slice(0, 2), slice(0, 0)], ids=str)
@pytest.mark.parametrize("size", [0, 2])
def test_a_slice_has_no_hidden_nulls_outside_of_it(size: int, bounds: slice) -> None:
    children = [pa.array([None, 1, 2, None], pa.int8())]
    kind: pa.DataType = pa.struct([required("x", pa.int8())])
    validity = pa.py_buffer(b"\6")
    if size:
        kind = pa.list_(required("item", pa.int8()), 2)
        children = [pa.array([None, 1, 2, 3, 4, 5, 6, None], pa.int8())]
    whole = pa.Array.from_buffers(kind, 4, [validity], children=children)
    part = whole[bounds]
    filled = fill_hidden_nulls(part, pa.field("c", kind))
    assert filled.to_pylist() == part.to_pylist()
    assert filled.cast(kind).equals(filled)


def test_a_required_null_that_is_not_hidden_stays() -> None:
    """The data breaks its own schema; a made-up number would be worse."""
    kind = pa.struct([required("n", pa.int32()), required("m", pa.int32())])
    given = pa.Array.from_buffers(
        kind,
        3,
        [pa.py_buffer(b"\3")],
        children=[pa.array([1, None, None], pa.int32()), pa.array([1, 2, None], pa.int32())],
    )
    filled = fill_hidden_nulls(given, pa.field("s", kind))
    assert filled.to_pylist() == [{"n": 1, "m": 1}, {"n": None, "m": 2}, None]
    assert filled.field("m").to_pylist() == [1, 2, 0]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None]),
        pa.array([{"a": 1}, None], pa.struct([required("a", pa.int8())])),
        pa.array([[1, 2], None], pa.list_(required("item", pa.int8()))),
        pa.array(["a", "a"]).dictionary_encode(),
        pa.nulls(2),
        pa.nulls(2, pa.struct([required("l", pa.list_view(pa.int8()))])),
        pa.nulls(2, pa.dense_union([pa.field("a", pa.int8())])),
        pa.array([1, 1, None], pa.run_end_encoded(pa.int32(), pa.int8())),
    ],
    ids=lambda array: str(array.type),
)
def test_an_array_with_nothing_to_fill_is_returned_itself(array: pa.Array) -> None:
    assert fill_hidden_nulls(array, pa.field("c", array.type)) is array


def test_structs_whose_key_is_null_become_no_map() -> None:
    """pyarrow up to 25 ends the process."""
    with pytest.raises(pa.ArrowInvalid, match="a key of a map is null"):
        map_entries(pa.array([{"key": "a", "value": 1}, {"key": None, "value": 2}]))
