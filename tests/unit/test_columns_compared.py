"""The comparison of columns that tests rely on finds what `pyarrow.Table.equals` does not."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from columns_compared import difference

LISTS = pa.list_(pa.int64())
PAIRS = pa.map_(pa.string(), pa.float64())
SENT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "zero": (pa.float64(), [0.0, math.nan]),
    "null": (pa.int64(), [0, None]),
    "list": (LISTS, [[], None]),
    "lengths": (LISTS, [[1], [2, 3]]),
    "record": (pa.struct([("a", pa.int64())]), [{"a": None}, None]),
    "map": (PAIRS, [{"a": 1.0, "b": math.nan}]),
    "pair": (pa.list_(pa.string(), 2), [["a", None], None]),
}
CHANGED: dict[str, tuple[list[Any], str]] = {
    "zero": ([-0.0, math.nan], "zero: -9223372036854775808 instead of 0 at 0"),
    "null": ([0, 0], "null is null: False instead of True at 1"),
    "list": ([None, []], "list is null: True instead of False at 0"),
    "lengths": ([[1, 2], [3]], "lengths length: 2 instead of 1 at 0"),
    "record": ([None, {"a": None}], "record is null: True instead of False at 0"),
    "map": ([{"b": 1.0, "a": math.nan}], "map[].key: b instead of a at 0"),
    "pair": ([["b", None], None], "pair[]: b instead of a at 0"),
}


def column(name: str, values: list[Any]) -> pa.Table:
    return pa.table({name: pa.array(values, SENT[name][0])})


@pytest.mark.parametrize("name", SENT)
def test_equal_columns_have_no_difference(name: str) -> None:
    values = SENT[name][1]
    chunks = [column(name, [value]) for value in values]
    assert difference(column(name, values), pa.concat_tables(chunks), lambda array: array) is None


@pytest.mark.parametrize("name", SENT)
def test_a_difference_is_told(name: str) -> None:
    changed, told = CHANGED[name]
    expected = column(name, SENT[name][1])
    assert difference(expected, column(name, changed), lambda array: array) == told


def test_types_names_and_the_number_of_rows_differ() -> None:
    def of(table: pa.Table) -> str | None:
        return difference(pa.table({"n": [1, 2]}), table, lambda array: array)

    assert of(pa.table({"n": pa.array([1, 2], pa.int32())})) == "n is int32, not int64"
    assert of(pa.table({"m": [1, 2]})) == "columns ['m']"
    assert of(pa.table({"n": [1]})) == "n is null: 1 values instead of 2"
    assert of(pa.table({"n": [[1], [2]]})) == "n length instead of n"
