"""Columns become rows: independent dicts, whatever the names of the columns."""

from __future__ import annotations

import datetime
from typing import Any

import arrow_types
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from columnar_kafka.columns.columns_to_rows import to_rows

TEXT_TO_NUMBER = pa.map_(pa.string(), pa.int8())
AWKWARD = [
    "", "a b", "a", "None", "class", "__dict__", "ü", "ﬁ", "fi", "1", "'", "\n", "\0",
]  # fmt: skip
NAMES = st.lists(st.sampled_from(AWKWARD) | st.text(st.characters(codec="utf-8")), max_size=40)


def batch(names: list[str], rows: int) -> pa.RecordBatch:
    columns = [pa.array(range(n, n + rows)) for n in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names=names)


@given(NAMES, st.integers(0, 3))
def test_rows_have_the_columns_names_in_their_order(names: list[str], rows: int) -> None:
    wanted = [dict(zip(names, range(row, row + len(names)), strict=True)) for row in range(rows)]
    records = to_rows(batch(names, rows))
    assert records == (wanted if names else [])
    assert [list(record) for record in records] == [list(record) for record in wanted if names]
    assert {type(record) for record in records} <= {dict}


def test_maps_are_dicts_inside_of_maps_too() -> None:
    """Those of pyarrow 20 and 21 are lists of pairs there."""
    map_ = pa.map_(pa.string(), pa.int8())
    record = pa.struct([("m", map_), ("l", pa.list_(map_))])
    schema = pa.schema([("a", pa.map_(pa.string(), map_)), ("b", pa.map_(pa.string(), record))])
    rows = [
        {"a": {"x": {"y": 1}, "z": {}}, "b": {"x": {"m": {"y": 2}, "l": [{"z": 3}, {}]}}},
        {"a": {}, "b": None},
    ]
    columns = [
        [[(key, list(inner.items())) for key, inner in row["a"].items()] for row in rows],
        [[("x", {"m": [("y", 2)], "l": [[("z", 3)], []]})], None],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    assert to_rows(pa.RecordBatch.from_arrays(arrays, schema=schema)) == rows


NESTED = arrow_types.NESTED | {
    "key": (lambda kind: pa.map_(kind, pa.int8()), lambda value: {value: 1}),
    "struct in lists": (
        lambda kind: pa.list_(pa.struct([("a", pa.list_(kind))])),
        lambda value: [{"a": [value]}],
    ),
}
FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
TIMES: list[tuple[pa.DataType, int, Any]] = [
    *((pa.timestamp(unit, "UTC"), 0, FIRST) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("ns", "UTC"), 5000, FIRST.replace(microsecond=5)),
    (pa.timestamp("ns", "UTC"), 5001, 5001),
    (pa.timestamp("ns", "UTC"), -1, -1),
    (pa.timestamp("ms", "UTC"), 1 << 50, 1 << 50),
    (pa.timestamp("ns"), 5000, FIRST.replace(microsecond=5, tzinfo=None)),
    (pa.timestamp("us"), 1 << 62, 1 << 62),
    (pa.duration("ns"), 5000, datetime.timedelta(microseconds=5)),
    (pa.time64("ns"), 5001, 5001),
    (pa.date32(), 1, datetime.date(1970, 1, 2)),
]


@pytest.mark.parametrize("nesting", NESTED)
@pytest.mark.parametrize(
    ("kind", "tick", "expected"), TIMES, ids=lambda argument: str(argument)[:40]
)
def test_a_time_is_the_same_object_at_every_depth(
    nesting: str, kind: pa.DataType, tick: int, expected: Any
) -> None:
    """In UTC it has Python's `utc`, which is not pyarrow's."""
    type_of, value_of = NESTED[nesting]
    raw = pa.int32() if kind == pa.date32() else pa.int64()
    ticks = pa.array([None, value_of(tick), None, value_of(tick)], type_of(raw))
    column = ticks.cast(type_of(kind))
    wanted = [None, value_of(expected), None, value_of(expected)]
    for start in range(4):
        values = [row["c"] for row in to_rows(pa.record_batch({"c": column.slice(start)}))]
        assert values == wanted[start:]
        assert repr(values) == repr(wanted[start:])  # which shows a time's zone


def test_a_map_with_the_same_key_twice_is_refused_at_every_depth() -> None:
    column = pa.array([[], [[("a", 1)], [("a", 1), ("a", 1)]]], pa.list_(TEXT_TO_NUMBER))
    assert to_rows(pa.record_batch({"c": column.slice(0, 1)})) == [{"c": []}]
    with pytest.raises(ValueError, match="a map has the same key twice"):
        to_rows(pa.record_batch({"c": column}))
