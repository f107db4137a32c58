"""Which branch of a union a value is of, and what is said of one that is of none or of two."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_arrow.arrow_input import conform
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.errors import RowError
from columnar_kafka.schema import RecordSchema


def record(name: str, **types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": avro} for name, avro in types.items()]
    return {"type": "record", "name": name, "namespace": "x", "fields": fields}


A = record("A", n="long")
B = record("B", n="long", s=["null", "string"])
C = record("C", t="string")
ENUM = {"type": "enum", "name": "x.E", "symbols": ["P", "Q"]}
MAP = {"type": "map", "values": "long"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}
DATE = {"type": "int", "logicalType": "date"}


def branch(union: list[Any], value: Any) -> Any:
    """Return the members of a field's union that have a value, with it."""
    rows = RowColumns(RecordSchema.parse(record("R", f=union)))
    batch, rejected = rows.convert([rows.take({"f": value})[0]])
    assert rejected == {}
    [row] = batch.to_pylist()
    return {name: inner for name, inner in row["f"].items() if inner is not None}


def refusal(union: list[Any], value: Any) -> str:
    with pytest.raises(RowError) as raised:
        branch(union, value)
    return raised.value.reason


@pytest.mark.parametrize(
    ("union", "value", "members"),
    [
        (["int", "string"], ("string", "a"), {"member1": "a"}),
        (["null", "int", "string"], ("int", 5), {"member0": 5}),
        ([ENUM, "string", "int"], ("x.E", "P"), {"member0": "P"}),
        ([ENUM, "string", "int"], ("string", "P"), {"member1": "P"}),
        ([A, C], ("x.C", {"t": "a"}), {"member1": {"t": "a"}}),
        ([A, B], {"-type": "x.B", "n": 1, "s": None}, {"member1": {"n": 1, "s": None}}),
        ([A, MAP], {"-type": "x.A", "n": 1}, {"member0": {"n": 1}}),
        ([A, MAP], {"-type": 5}, {"member1": [("-type", 5)]}),
        ([{"type": "array", "items": "long"}, "int"], ("array", (1, 2)), {"member0": [1, 2]}),
    ],
)
def test_a_value_may_name_its_branch(union: list[Any], value: Any, members: Any) -> None:
    assert branch(union, value) == members


@pytest.mark.parametrize(
    ("union", "value", "members"),
    [
        (["int", "string"], "a", {"member1": "a"}),
        (["int", "long", "string"], 5, {"member0": 5}),
        (["int", "long", "string"], 1 << 40, {"member1": 1 << 40}),
        (["int", "boolean"], True, {"member1": True}),
        (["long", "double"], 5, {"member0": 5}),
        (["double", "long"], 5, {"member0": 5.0}),
        (["float", "string", "double"], 0.1, {"member2": 0.1}),
        (["float", "int", "double"], 5, {"member2": 5.0}),
        (["double", "string", "float"], 0.5, {"member0": 0.5}),
        ([DECIMAL, "long"], 5, {"member1": 5}),
        ([DECIMAL, "long"], decimal.Decimal("1.5"), {"member0": decimal.Decimal("1.5")}),
        ([DECIMAL, "string"], 5, {"member0": decimal.Decimal("5.0")}),
        ([DATE, "string"], datetime.date(2026, 1, 2), {"member0": datetime.date(2026, 1, 2)}),
        ([ENUM, "string", "int"], "P", {"member0": "P"}),
        ([ENUM, "string", "int"], "other", {"member1": "other"}),
        (
            [{"type": "fixed", "name": "F", "size": 2}, "bytes", "int"],
            bytearray(b"abc"),
            {"member1": b"abc"},
        ),
        ([A, C], {"t": "a"}, {"member1": {"t": "a"}}),
        ([A, B], {"n": 1, "s": None}, {"member1": {"n": 1, "s": None}}),
        ([A, MAP], {"k": 1}, {"member1": [("k", 1)]}),
        (["string", {"type": "array", "items": "long"}], [1], {"member1": [1]}),
    ],
)
def test_a_value_without_a_name_is_of_the_branch_that_fits(
    union: list[Any], value: Any, members: Any
) -> None:
    """Of leaves that is the first one, as with fastavro: a double before a float."""
    assert branch(union, value) == members


def test_an_object_is_of_the_branch_that_has_its_fields() -> None:
    @dataclasses.dataclass
    class Event:
        t: str

    assert branch([A, C], Event("a")) == {"member1": {"t": "a"}}
    assert branch([A, C], ("x.C", Event("a"))) == {"member1": {"t": "a"}}


NAME = "name the branch, as in"


@pytest.mark.parametrize(
    ("union", "value", "why"),
    [
        (["int", "string"], 1.5, "is float 1.5, and fits none of its union: int, string"),
        (["int", "string"], None, "is null, and its schema does not allow null"),
        (["int", "string"], ("long", 5), "is of 'long'; its union has int, string"),
        (["int", "string"], (5,), "is tuple (5,); of a union a tuple is (branch, value)"),
        (["int", "string"], ("int", "a"), "int32"),
        ([A, C], {"-type": "x.Z"}, "is of 'x.Z'; its union has x.A, x.C"),
        ([A, C], {"-type": ["x.A"]}, "is of ['x.A']; its union has x.A, x.C"),
        (
            [A, C],
            {"n": "a"},
            "and fits none of its union: x.A, x.C; not x.A: field 'f.member0.n' is str 'a'",
        ),
        (
            [A, {**A, "name": "Z"}],
            {"n": 1},
            f"fits x.A and x.Z of its union: {NAME} ('x.A', {{...}}) or {{'-type': 'x.A', ...}}",
        ),
        ([A, MAP], {"n": 1}, f"fits x.A and map of its union: {NAME} ('x.A', {{...}})"),
    ],
)
def test_a_value_of_no_branch_or_of_two_is_refused(union: list[Any], value: Any, why: str) -> None:
    reason = refusal(union, value)
    assert reason.startswith("field 'f")
    assert why in reason


def test_a_record_that_a_default_makes_fit_counts_too() -> None:
    some = {**B, "fields": [A["fields"][0], {"name": "s", "type": "string", "default": ""}]}
    assert "fits x.A and x.B" in refusal([A, some], {"n": 1})
    assert branch([C, some], {"n": 1}) == {"member1": {"n": 1, "s": ""}}


def test_a_default_is_of_the_branch_that_it_fits() -> None:
    fields = [
        {"name": "f", "type": ["int", "string"], "default": "a"},
        {"name": "g", "type": ["null", C, "int"], "default": None},
        {"name": "h", "type": {**A, "fields": [{"name": "u", "type": ["int", "bytes"]}]},
         "default": {"u": "\x01"}},
    ]  # fmt: skip
    schema = RecordSchema.parse({**A, "name": "Outer", "fields": fields})
    rows = RowColumns(schema)
    expected = [{"f": "a", "g": None, "h": {"u": b"\1"}}]
    assert to_rows(rows.convert([rows.take({})[0]]).batch) == expected
    arrow = conform(pa.table({"g": pa.nulls(1)}), schema, now_ms=0).columns
    assert to_rows(arrow.to_batches()[0]) == expected


def test_what_was_taken_is_a_row_that_is_taken_again() -> None:
    rows = RowColumns(RecordSchema.parse([A, record("D", u=["null", ENUM, "string", "int"])]))
    for row in ({"n": 1}, {"u": None}, ("x.D", {"u": ("string", "P")})):
        values, _ = rows.take(row)
        again = rows.row(values)
        assert type(again) is tuple
        assert rows.take(again)[0] == values


@pytest.mark.parametrize("row", [5, "text", [("n", 1)], None])
def test_what_is_no_row_is_no_row_of_a_union(row: Any) -> None:
    with pytest.raises(TypeError, match=r"a row must be \(branch, row\) or a dict"):
        RowColumns(RecordSchema.parse([A, C])).take(row)


MEMBERS = [pa.field("member0", pa.int32()), pa.field("member1", pa.string())]


@pytest.mark.parametrize("other", [(None, None), (5, "a")])
def test_arrow_data_has_one_branch_in_each_row(other: tuple[Any, Any]) -> None:
    schema = RecordSchema.parse(record("R", f=["null", "int", "string"]))

    def data(*rows: Any) -> pa.Table:
        return pa.table({"f": pa.array(rows, pa.struct(MEMBERS))})

    table = conform(data((5, None), (None, "a"), None), schema, now_ms=0).columns
    assert to_rows(table.to_batches()[0]) == [{"f": 5}, {"f": "a"}, {"f": None}]
    why = "field 'f' is a union, of whose branches one must have a value, and no other"
    with pytest.raises(RowError, match=why):
        conform(data((5, None), other), schema, now_ms=0)


def test_arrow_data_of_rows_of_a_union_has_one_branch_in_each() -> None:
    schema = RecordSchema.parse([A, C])
    good = pa.table({"member0": [{"n": 1}, None], "member1": [None, {"t": "a"}]})
    table = conform(good, schema, now_ms=0).columns
    assert to_rows(table.combine_chunks().to_batches()[0]) == [{"n": 1}, {"t": "a"}]
    bad = pa.table({"member0": [{"n": 1}], "member1": [{"t": "a"}]})
    with pytest.raises(RowError, match="each row is a union, of whose branches one must"):
        conform(bad, schema, now_ms=0)
