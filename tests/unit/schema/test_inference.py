"""Which columns are guessed for objects that nobody has described."""

from __future__ import annotations

import decimal
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from columnar_kafka import RowError, SchemaError, schema_of
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.inference import Inference
from columnar_kafka.schema.to_avro import to_avro

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

TEXT, LONG, DOUBLE = pa.string(), pa.int64(), pa.float64()
UTC = pa.timestamp("us", "UTC")
FINE = decimal.Decimal("0.12345678901234567890123")


def column(*values: Any, **options: Any) -> pa.DataType:
    """Return the type of the column for these values."""
    return schema_of([{"known": True, "v": value} for value in values], **options).field("v").type


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, None, False], pa.bool_()),
        ([1, -(2**63), 2**63 - 1], LONG),
        ([1, 2**63], pa.decimal128(38, 0)),
        ([10**38 - 1], pa.decimal128(38, 0)),
        ([10**38], TEXT),
        ([1.5, 2, 7.0], DOUBLE),
        ([7.0], DOUBLE),
        ([1.5, 2**53], DOUBLE),
        ([1.5, 2**53 + 1], pa.decimal128(38, 1)),
        ([1.5, -(2**60)], pa.decimal128(38, 1)),
        ([0.0, 10**40], TEXT),
        ([FINE, 10], pa.decimal128(38, 23)),
        ([FINE, 10**20], TEXT),
        ([decimal.Decimal("1.10")], DOUBLE),
        ([decimal.Decimal("1E+400")], TEXT),
        (["a", None], TEXT),
        (["2026-01-31", "2026-01-31"], TEXT),
        ([[1, None], [], [2.5]], pa.list_(DOUBLE)),
        ([[[1]], [[]]], pa.list_(pa.list_(LONG))),
        ([{"a": 1}, {"b": [True]}, {}], pa.struct({"a": LONG, "b": pa.list_(pa.bool_())})),
        ([[{"a": 1}, {"b": "x"}]], pa.list_(pa.struct({"a": LONG, "b": TEXT}))),
        ([1, "1"], TEXT),
        ([True, 1], TEXT),
        ([{"a": 1}, [1]], TEXT),
        ([[1, "x"]], pa.list_(TEXT)),
        ([{"1": 2.5, "27": 1}], pa.map_(TEXT, DOUBLE)),
        ([{"2026-01-31": {"n": 1}}, {"2026-02-01": {}}], pa.map_(TEXT, pa.struct({"n": LONG}))),
        ([{"6f0b7fdd-2c57-4a4c-8a3c-3d5b6a2f1e90": 1, "1": "x"}], pa.map_(TEXT, TEXT)),
    ],
)
def test_a_column_holds_all_values_seen(values: Sequence[Any], expected: pa.DataType) -> None:
    assert column(*values) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456+01:00"], UTC),
        (["2026-01-31T12:00:00"], pa.timestamp("us")),
        (["2026-01-31", None], pa.date32()),
        (["2026-01-31", "2026-01-31T12:00:00Z"], TEXT),
        (["2026-01-31T12:00:00", "2026-01-31T12:00:00Z"], TEXT),
        (["2026-01-31T12:00:00.1234567Z"], TEXT),
        (["2026-13-31"], TEXT),
        (["2026-02-30"], TEXT),
        (["0000-01-01T00:00:00"], TEXT),
        (["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.9+00:30"], UTC),
        (["0001-01-01T00:00:00+00:01"], TEXT),
        (["2026-01-31", "soon"], TEXT),
    ],
)
def test_texts_are_times_only_if_that_is_asked_for(
    values: Sequence[str], expected: pa.DataType
) -> None:
    assert column(*values, times=True) == expected
    assert column(*values) == TEXT


@pytest.mark.parametrize("value", [None, [], {}, [None], [[]], {"a": None}, {"a": {"b": []}}])
def test_what_is_null_or_empty_says_nothing_yet(value: Any) -> None:
    assert schema_of([{"n": 1, "v": value}]).names == ["n"]
    with pytest.raises(SchemaError, match="1 rows have no field of a known type"):
        schema_of([{"v": value}])


def test_names_that_keep_coming_are_data() -> None:
    def rows(names: int) -> Iterator[dict[str, Any]]:
        return ({"v": {f"user-{n % names}": n}} for n in range(200))

    assert schema_of(rows(200)).field("v").type == pa.map_(TEXT, LONG)
    assert schema_of(rows(60)).field("v").type.num_fields == 60  # all of them came early
    assert schema_of(rows(31)).field("v").type.num_fields == 31


def test_what_lies_deep_stays_text() -> None:
    value: Any = 1
    for _ in range(100):
        value = {"a": value}
    arrow = column(value)
    levels = 0
    while pa.types.is_struct(arrow):
        arrow, levels = arrow.field("a").type, levels + 1
    assert (arrow, levels) == (TEXT, 15)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a b", "a.b", "a,b", "a=b", "a\n", "x" * 256, "\ud800"),
        *("_kafka", "_KAFKA.key", "_Deleted"),
    ],
)
def test_a_name_that_not_every_table_can_have_has_no_column(name: str) -> None:
    inference = Inference()
    inference.add({name: 1, "n": 1})
    schema, [report, _] = inference.result()
    assert schema.arrow.names == ["n"]
    assert (report.path, report.column) == (name, "")
    assert report.note.startswith("its name is ")


def test_names_that_differ_in_case_are_one_columns() -> None:
    schema = schema_of([{"Id": 1, "id": "x", "in": {"A": 1, "a": 1}}])
    assert schema == pa.schema({"Id": LONG, "in": pa.struct({"A": LONG})})


def test_columns_have_a_bound_and_the_first_seen_are_kept() -> None:
    inference = Inference(max_columns=3)
    inference.add({"a": 1, "b": {"c": 1, "d": {"e": 1, "f": 1}}, "g": 1})
    schema, reports = inference.result()
    inner = pa.struct({"e": LONG})
    assert schema.arrow == pa.schema({"a": LONG, "b": pa.struct({"c": LONG, "d": inner})})
    assert [report.path for report in reports if "3 columns before" in report.note] == [
        "b.d.f",
        "g",
    ]
    assert inference.result()[0] == schema  # it may be asked again


def test_names_have_a_bound_and_what_comes_after_is_counted() -> None:
    """So has memory, however many names there are."""
    inference = Inference(max_columns=10)
    for number in range(60_000):
        inference.add({"n": 1, "by": {f"user-{number}": {"a": 1, "b": "x"}}, f"{number}": 1})
    schema, reports = inference.result()
    record = pa.struct({"a": LONG, "b": TEXT})
    assert schema.arrow.field("by").type == pa.map_(TEXT, record)
    assert len(reports) < 50_000
    told = {report.path: report for report in reports}
    assert told["by.value"].types == {"object": 60_000}
    assert told["…"].types["integer"] > 10_000
    assert told["…"].note == "there are too many names before"


def test_a_report_says_what_was_seen() -> None:
    inference = Inference(avro_names=True)
    for row in {"n": 1, "@t": 1, "o": {"x": None}}, {"n": 2.5}, {"n": None, "by": {"7": "a"}}:
        inference.add(row)
    reports = {report.path: report[1:] for report in inference.result()[1]}
    assert inference.rows == 3
    assert reports == {
        "n": ("double", {"integer": 1, "fraction": 1, "null": 1}, 0, ""),
        "@t": ("", {"integer": 1}, 2, "its name is not one that Avro allows"),
        "o": ("", {"object": 1}, 2, "nothing is known of its values yet"),
        "o.x": ("", {"null": 1}, 0, "nothing is known of its values yet"),
        "by": ("map", {"object": 1}, 2, "the names of its fields are taken for data"),
        "by.value": ("string", {"text": 1}, 0, ""),
    }


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (7, "a row is a JSON object, not int"),
        ({"a": float("nan")}, "JSON has no number NaN"),
        ({"a": [{1}]}, "JSON has no value of type set"),
        ({"a": {1: 2}}, "names in a JSON object are texts, not 1"),
    ],
)
def test_what_json_does_not_have_is_refused(row: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        schema_of([row])


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=3)
NAMES = st.sampled_from(["a", "b", "c", "1", "2"])
JSON = st.recursive(
    SCALARS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([FINE, 7.0, 10**40]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


ROWS = st.lists(st.dictionaries(st.sampled_from("abcd"), JSON, min_size=1), max_size=6)


@given(ROWS)
def test_each_value_is_read_back_from_its_column(rows: list[dict[str, Any]]) -> None:
    inference = Inference()
    for row in rows:
        inference.add(row)
    try:
        schema, reports = inference.result()
    except SchemaError:
        assert not any(map(told, rows))
        return
    texts = schema.json_texts
    assert texts == {report.path for report in reports if report.column == "JSON text"}
    for field in schema.arrow:
        path = field.name
        values = [as_column(row.get(path), field.type, path, texts) for row in rows]
        column = pa.array(values, field.type).to_pylist()
        assert [told(as_json(value, field.type, path, texts)) for value in column] == [
            told(row.get(path)) for row in rows
        ]
    without = {name for row in rows for name in row} - {*schema.arrow.names}
    assert not any(told(row.get(name)) for row in rows for name in without)


def told(value: Any) -> Any:
    """Return a value without nulls and what is empty, which tell nothing; numbers are decimals."""
    if isinstance(value, dict):
        return {name: inner for name, item in value.items() if (inner := told(item))} or None
    if isinstance(value, list):
        items = [told(item) for item in value]
        return items if any(items) else None
    if isinstance(value, float | int) and not isinstance(value, bool):
        value = decimal.Decimal(repr(value))
    return None if value is None else (type(value), value)


def as_column(value: Any, arrow: pa.DataType, path: str, texts: Collection[str]) -> Any:
    """Return a JSON value as Arrow takes it for a column; some columns are JSON texts."""
    if told(value) is None:
        return None
    if path in texts:
        return json.dumps(value, default=lambda number: {"decimal": str(number)})
    if pa.types.is_decimal(arrow):
        return decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    return inside(value, arrow, path, texts, as_column)


def as_json(value: Any, arrow: pa.DataType, path: str, texts: Collection[str]) -> Any:
    if value is not None and path in texts:
        return json.loads(
            value,
            object_hook=lambda v: decimal.Decimal(v["decimal"]) if "decimal" in v else v,
        )
    return inside(value, arrow, path, texts, as_json)


def inside(value: Any, arrow: pa.DataType, path: str, texts: Collection[str], change: Any) -> Any:
    """Return a value with what is in it changed, and else as it is."""
    if value is not None and pa.types.is_struct(arrow):
        fields = [(field, f"{path}.{field.name}") for field in arrow]
        return {f.name: change(value.get(f.name), f.type, inner, texts) for f, inner in fields}
    if value is not None and pa.types.is_map(arrow):
        pairs = value.items() if isinstance(value, dict) else value
        changed = [(name, change(v, arrow.item_type, f"{path}.value", texts)) for name, v in pairs]
        return changed if isinstance(value, dict) else dict(changed)
    if value is not None and pa.types.is_list(arrow):
        return [change(item, arrow.value_type, f"{path}.item", texts) for item in value]
    return value


@given(ROWS)
def test_avro_has_the_same_columns(rows: list[dict[str, Any]]) -> None:
    inference = Inference(avro_names=True)
    for row in rows:
        inference.add(row)
    try:
        schema, _ = inference.result()
    except SchemaError:
        return
    read = RecordSchema.parse(json.dumps(to_avro(schema)))
    assert read.arrow.equals(schema.arrow)
    assert read.json_texts == schema.json_texts
    assert set(read.defaults) >= set(schema.arrow.names)


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.map_(pa.int64(), LONG), pa.duration("s")])
def test_what_avro_does_not_have_is_named(arrow: pa.DataType) -> None:
    schema = pa.schema({"o": pa.struct({"x": pa.list_(arrow)})})
    with pytest.raises(SchemaError, match=r"field 'o\.x\.item' is .*, which Avro does not have"):
        to_avro(RecordSchema(schema))


def test_every_type_of_avro_is_read_back() -> None:
    types = [pa.int32(), pa.float32(), pa.binary(), pa.date32(), pa.time32("ms"), pa.time64("us")]
    types += [pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in ("UTC", None)]
    types += [pa.decimal128(20, 5), pa.decimal256(70, 3)]
    fields = [pa.field(f"f{n}", arrow, nullable=n % 2 > 0) for n, arrow in enumerate(types)]
    schema = pa.schema([*fields, pa.field("f", pa.struct(fields))])
    assert RecordSchema.parse(json.dumps(to_avro(RecordSchema(schema)))).arrow.equals(schema)


def test_a_schema_takes_its_rows() -> None:
    """Where no field is missing, `Producer.set_schema` and `produce` take them as they are."""
    from columnar_kafka.testing import FakeKafka  # noqa: PLC0415 - for this test alone

    rows = [{"n": 1, "o": {"x": [1.5]}}, {"n": None, "o": None}]
    with FakeKafka().Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", schema_of(rows))
        for row in rows:
            producer.produce("t", row)
        with pytest.raises(RowError, match="missing"):
            producer.produce("t", {"n": 1})
        assert producer.flush() == 0
