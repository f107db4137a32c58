"""A schema's converters turn values into those that its fields accept."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.errors import RowError
from columnar_kafka.schema import RecordSchema

SCHEMA = pa.schema(
    {
        "n": pa.int32(),
        "day": pa.date32(),
        "s": pa.struct({"list": pa.list_(pa.int8())}),
        "map": pa.map_(pa.string(), pa.int8()),
    }
)
ROW = {"n": "7", "day": "2024-01-02", "s": {"list": ["1", None]}, "map": {"K": "2"}}


def columns(**coerce: Any) -> RowColumns:
    paths = {path.replace("_", "."): convert for path, convert in coerce.items()}
    return RowColumns(RecordSchema(SCHEMA, coerce=paths))


def test_values_at_every_depth_are_converted() -> None:
    taken = columns(
        n=int,
        day=datetime.date.fromisoformat,
        s_list_item=int,
        map_key=str.lower,
        map_value=int,
    )
    builder = taken.builder()
    builder.append(taken.take(ROW)[0])
    [row] = builder.finish().batch.to_pylist()
    day = datetime.date(2024, 1, 2)
    assert row == {"n": 7, "day": day, "s": {"list": [1, None]}, "map": [("k", 2)]}


def test_a_whole_nested_value_is_converted() -> None:
    taken = columns(s=lambda text: {"list": list(map(int, text.split()))})
    values, _ = taken.take({"n": None, "day": None, "s": "1 2", "map": None})
    assert values == (None, None, ([1, 2],), None)


def test_null_is_not_converted() -> None:
    values, _ = columns(n=int).take({"n": None, "day": None, "s": None, "map": None})
    assert values == (None, None, None, None)


def test_a_value_is_converted_once_whatever_the_others_are() -> None:
    """An iterator could be read only once."""
    schema = pa.schema({"items": pa.list_(pa.int8()), "name": pa.string()})
    made = RowColumns(RecordSchema(schema, coerce={"items": list}))
    rows = [{"items": iter([1, 2]), "name": name} for name in ("ascii", "naïve")]
    assert [made.take(row)[0] for row in rows] == [([1, 2], "ascii"), ([1, 2], "naïve")]


def test_what_a_signal_handler_raises_in_a_converter_is_no_error_of_the_row() -> None:
    handlers = [KeyError("a handler's")]

    def convert(value: str) -> int:
        if handlers:
            raise handlers.pop()
        return int(value)

    taken = columns(n=convert)
    row = {"n": "7", "day": None, "s": None, "map": None}
    with pytest.raises(KeyError, match="a handler's"):
        taken.take(row)
    assert taken.take(row)[0] == (7, None, None, None)


def test_what_a_converter_returns_is_judged_like_any_value() -> None:
    with pytest.raises(RowError, match=r"field 'n' is str '7'; its schema wants int32 or null"):
        columns(n=str).take(ROW)
    with pytest.raises(RowError, match=r"field 'n': .*300000000000"):
        columns(n=lambda _: 300_000_000_000).take(ROW)


def test_what_a_converter_raises_is_the_rows_error() -> None:
    row = {**ROW, "n": "seven"}
    with pytest.raises(
        RowError,
        match=r"field 'n' is str 'seven', which <class 'int'> does not take: ValueError: invalid",
    ) as caught:
        columns(n=int).take(row)
    assert isinstance(caught.value.__cause__, ValueError)


def test_the_native_core_takes_no_rows_that_are_converted() -> None:
    assert row_format(RecordSchema(SCHEMA, coerce={"n": int})) is None
