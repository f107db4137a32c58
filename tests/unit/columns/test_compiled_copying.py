"""The code written for a schema copies as `copying` does: values, measures and errors."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nesting import RandomRows
from support import examples
from unusual import with_unusual

from columnar_kafka.columns.from_rows import copying
from columnar_kafka.columns.from_rows.compiled_copying import compiled
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.errors import RowError
from columnar_kafka.schema import RecordSchema

LINES = pa.list_(pa.struct([pa.field("n", pa.int32(), nullable=False), ("s", pa.string())]))
NUMBERS = pa.map_(pa.string(), pa.float64())
DAYS = pa.map_(pa.date32(), pa.int8())


class Copies:
    """Both ways to copy the values of a field, and how often the first has needed the second."""

    def __init__(self, schema: RecordSchema, field: pa.Field) -> None:
        self.left = 0
        self.copy = copying.copier_of(field.type, field.name, schema)
        self.compiled = compiled(field.type, field.name, schema, self._other, copying.element)

    def _other(self, value: Any) -> Any:
        self.left += 1
        return self.copy(value)

    def outcomes(self, value: Any) -> list[Any]:
        found: list[Any] = []
        for copy in (self.compiled, self.copy):
            try:
                found.append(copy(value))
            except RowError as error:
                found.append(str(error))
        return found


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_random_values_of_random_types(seed: int) -> None:
    source, rng = RandomRows(seed), random.Random(seed)
    schema = RecordSchema.parse(source.schema)
    for field in schema.arrow:
        if pa.types.is_nested(field.type):
            copies = Copies(schema, field)
            values = [row[field.name] for row in source.rows[:20] if row[field.name] is not None]
            for value in [*values, *(with_unusual(each, rng) for each in values)]:
                if value is not None:
                    first, second = copies.outcomes(value)
                    assert repr(first) == repr(second)  # types, and -0.0


@pytest.mark.parametrize(
    ("arrow", "value", "left"),
    [
        (LINES, [{"n": 1, "s": "a"}, {"s": None, "n": -(2**31)}], 0),
        (LINES, [], 0),
        (LINES, [None], 0),
        (LINES, ({"n": 1, "s": "a"},), 1),
        (LINES, [{"n": 2**31, "s": "a"}], 1),
        (LINES, [{"n": True, "s": "a"}], 1),
        (LINES, [{"n": 1, "s": "é"}], 1),
        (LINES, [{"n": 1}], 1),
        (LINES, [{"n": 1, "t": "a"}], 1),
        (LINES, [{"n": None, "s": "a"}], 1),
        (LINES, "text", 1),
        (NUMBERS, {"a": 1.5, "b": 2, "c": None}, 0),
        (NUMBERS, {"é": 1.5}, 1),
        (NUMBERS, {1: 1.5}, 1),
        (NUMBERS, [("a", 1.5)], 1),
        (DAYS, {1: 1}, 1),
    ],
)
def test_it_copies_the_usual_and_leaves_the_rest(arrow: pa.DataType, value: Any, left: int) -> None:
    schema = RecordSchema.parse(pa.schema([("f", arrow)]))
    copies = Copies(schema, schema.arrow.field(0))
    first, second = copies.outcomes(value)
    assert repr(first) == repr(second)
    assert copies.left == left


@pytest.mark.parametrize(
    ("levels", "around", "put"),
    [
        (48, pa.list_, lambda value: [value]),
        (48, lambda arrow: pa.map_(pa.string(), arrow), lambda value: {"k": value}),
        (97, lambda arrow: pa.struct({"a": arrow}), lambda value: {"a": value}),
    ],
    ids=["lists", "maps", "records"],
)
def test_what_is_nested_deeper_than_code_can_be_is_left(levels: int, around: Any, put: Any) -> None:
    """Python nests 20 loops at most, and 100 blocks."""
    arrow, value = pa.int8(), 1
    for _ in range(levels):
        arrow, value = around(arrow), put(value)
    columns = RowColumns(RecordSchema.parse(pa.schema({"f": arrow})))
    values, _ = columns.take({"f": value})
    assert columns.row(values) == {"f": value}
