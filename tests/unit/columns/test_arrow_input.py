"""Arrow data becomes a schema's columns with every value unchanged, or its bad row is named."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import math
import struct
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from arrow_types import needs, optional
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support import examples
from test_columns_roundtrip import comparable, tables

from columnar_kafka.columns import kafka_column, older_arrow
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_arrow.arrow_input import ArrowRows, conform
from columnar_kafka.columns.from_arrow.chunked import convert_chunks
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.errors import RowError
from columnar_kafka.schema import RecordSchema

NOW = 1_700_000_000_000
MS = pa.timestamp("ms", "UTC")
D = decimal.Decimal
UTF8 = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"a\xff")]
)
"""Text whose second row is not UTF-8."""


class Stream:
    """An object that pyarrow reads as a stream, as it does duckdb's results."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


class Array:
    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_array__(requested_schema)


def array_of(values: list[Any], arrow: pa.DataType) -> pa.Array:
    """As `pa.array`, with all types that it has in its newest version."""
    if not pa.types.is_dictionary(arrow):
        return older_arrow.array(values, arrow)
    indices = [None if value is None else number for number, value in enumerate(values)]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, arrow.index_type), pa.array(values, arrow.value_type)
    )


def conformed(data: Any, schema: Any, **options: Any) -> ArrowRows:
    return conform(data, RecordSchema.parse(schema), now_ms=NOW, **options)


def rows(data: Any, schema: Any, **options: Any) -> list[dict[str, Any]]:
    """Conform, check the result, and return its rows."""
    arrow_rows = conformed(data, schema, **options)
    arrow = RecordSchema.parse(schema).arrow
    assert arrow_rows.columns.schema.equals(arrow, check_metadata=True)
    arrow_rows.columns.validate(full=True)
    for field, column in zip(arrow, arrow_rows.columns.columns, strict=True):
        assert column.type.equals(field.type, check_metadata=True)
    assert {len(part) for part in arrow_rows} == {arrow_rows.columns.num_rows}
    return [row for batch in arrow_rows.columns.to_batches() for row in to_rows(batch)]


def column(array: pa.Array, to: pa.DataType, *, nullable: bool = True) -> list[Any]:
    """Conform one column, "v", and return its values."""
    schema = pa.schema([pa.field("v", to, nullable=nullable)])
    return [row["v"] for row in rows(pa.table({"v": array}), schema)]


def refusal(array: pa.Array, to: pa.DataType, *, nullable: bool = True) -> str:
    with pytest.raises(RowError) as raised:
        column(array, to, nullable=nullable)
    return raised.value.reason


def _id(value: Any) -> str | None:
    return str(value) if isinstance(value, pa.DataType) else None


# --- sources of data ------------------------------------------------------------------------------

AB = pa.schema([("a", pa.int32()), ("b", pa.string())])
TABLE = pa.table({"b": ["x", None], "a": pa.array([1, 2], pa.int64())})
ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
STRUCTS = pa.StructArray.from_arrays([TABLE["b"].chunk(0), TABLE["a"].chunk(0)], names=["b", "a"])


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        Stream(TABLE),
        Stream(pa.chunked_array([STRUCTS.slice(0, 1), STRUCTS.slice(1)])),
        Array(TABLE.to_batches()[0]),
        Array(pa.concat_arrays([STRUCTS, STRUCTS]).slice(2)),
        STRUCTS,
        TABLE.to_pandas(),
        pl.DataFrame({"b": ["x", None], "a": [1, 2]}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_data_of_any_library_is_accepted(data: Any) -> None:
    assert rows(data, AB) == ROWS


@pytest.mark.parametrize(
    "data",
    [None, 5, "x", b"x", {"a": [1]}, [{"a": 1}], [1], pa.array([1]), np.zeros(2), pl.Series([1])],
    ids=lambda data: type(data).__name__,
)
def test_anything_else_is_a_type_error(data: Any) -> None:
    with pytest.raises(TypeError, match=r"^data must be "):
        rows(data, AB)


@pytest.mark.parametrize(
    "data",
    [
        TABLE.slice(0, 0),
        AB.empty_table(),
        Stream(AB.empty_table()),
        pl.DataFrame({"a": [], "b": []}),
    ],
)
def test_data_without_rows_gives_no_records(data: Any) -> None:
    arrow_rows = conformed(data, AB, key="b", timestamp="a", headers=None)
    assert [len(part) for part in arrow_rows] == [0] * 4


@pytest.mark.parametrize("wrap", [Array, lambda array: Stream(pa.chunked_array([array]))])
def test_a_row_that_is_null_is_refused(wrap: Any) -> None:
    with pytest.raises(RowError, match=r"^row 1 is null"):
        rows(wrap(pa.array([{"a": 1}, None])), pa.schema([("a", pa.int64())]))


def test_a_streams_own_error_is_raised_unchanged() -> None:
    def batches() -> Any:
        yield TABLE.to_batches()[0]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        rows(pa.RecordBatchReader.from_batches(TABLE.schema, batches()), AB)


@pytest.mark.parametrize("index", [None, pd.Index([5, 6], name="i"), pd.Index([5, 6], name="a")])
def test_the_index_of_a_dataframe_is_not_sent(index: Any) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=index)
    assert rows(frame, AB) == ROWS


def test_a_dataframe_changed_afterwards_changes_nothing() -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    arrow_rows = conformed(frame, pa.schema([("a", pa.int64())]))
    frame.iloc[0, 0] = 9
    assert arrow_rows.columns["a"].to_pylist() == [1, 2]


def test_a_dataframes_missing_values_are_null() -> None:
    frame = pd.DataFrame(
        {
            "f": [0.5, math.nan],
            "t": pd.to_datetime(["2020-02-29", None]),
            "i": pd.array([1, None], dtype="Int64"),
            "c": pd.Categorical(["x", None]),
        }
    )
    schema = pa.schema(
        [("f", pa.float32()), ("t", pa.timestamp("ms")), ("i", pa.int8()), ("c", pa.string())]
    )
    first = {"f": 0.5, "t": dt.datetime(2020, 2, 29), "i": 1, "c": "x"}  # noqa: DTZ001
    assert rows(frame, schema) == [first, dict.fromkeys(first)]


def test_the_error_for_a_dataframe_of_floats_says_how_to_get_integers() -> None:
    with pytest.raises(RowError, match=r"'a' is double .* wants int32 or null .*astype\('Int64'\)"):
        rows(pd.DataFrame({"a": [1, None], "b": ["x", "y"]}), AB)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1, "x"]}),
        pd.DataFrame({"a": [1, 1 << 70]}),
        pd.DataFrame({"a": [1j]}),
        pd.DataFrame({"a": [object()]}),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ],
)
def test_a_dataframe_that_cannot_become_columns_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(RowError, match=r"^the DataFrame cannot become Arrow columns: .*a"):
        rows(frame, pa.schema([("a", pa.int64())]))


def test_polars_types_are_accepted() -> None:
    frame = pl.DataFrame(
        {
            "text": ["x", "a text longer than twelve bytes", None],
            "cat": pl.Series(["x", None, "a text longer than twelve bytes"], dtype=pl.Categorical),
            "enum": pl.Series(["A", "B", None], dtype=pl.Enum(["A", "B"])),
            "bytes": [b"x", b"bytes longer than twelve bytes", None],
            "time": [dt.time(1, 2, 3), dt.time(23, 59, 59, 999000), None],
            "list": [["x"], [], None],
            "array": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int64, 2)),
            "struct": [{"y": "t", "x": 1}, {"y": None, "x": 2}, {"y": "u", "x": None}],
            "null": [None, None, None],
            "dec": pl.Series([D("1.50"), D("-2.25"), None], dtype=pl.Decimal(20, 2)),
            "zoned": pl.Series(
                [dt.datetime(2020, 2, 29, tzinfo=dt.timezone.utc)] * 3
            ).dt.convert_time_zone("Europe/Berlin"),
        }
    )
    schema = pa.schema(
        [
            ("text", pa.string()),
            ("cat", pa.string()),
            ("enum", pa.large_string()),
            ("bytes", pa.binary()),
            ("time", pa.time32("ms")),
            ("list", pa.list_(pa.string())),
            ("array", pa.list_(pa.int8(), 2)),
            ("struct", pa.struct([("x", pa.int16()), ("y", pa.string())])),
            ("null", pa.list_(pa.int8())),
            ("dec", pa.decimal128(5, 2)),
            ("zoned", MS),
        ]
    )
    assert rows(frame, schema) == frame.to_dicts()


# --- columns by name ------------------------------------------------------------------------------

AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": {"type": "array", "items": "bytes"}, "default": ["\u00ff"]},
        {"name": "m", "type": {"type": "map", "values": "int"}, "default": {"k": 1}},
        {
            "name": "s",
            "type": {
                "type": "record",
                "name": "s",
                "fields": [
                    {"name": "x", "type": "int"},
                    {"name": "y", "type": "int", "default": 7},
                ],
            },
            "default": {"x": 1},
        },
        {
            "name": "e",
            "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]},
            "default": "B",
        },
    ],
}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_missing_column_gets_its_default(count: int) -> None:
    data = pa.table({"a": [1] * count, "n": pa.nulls(count)})
    row = {
        "a": 1,
        "n": None,
        "b": None,
        "c": [b"\xff"],
        "m": {"k": 1},
        "s": {"x": 1, "y": 7},
        "e": "B",
    }
    assert rows(data, AVRO) == [row] * count


@pytest.mark.parametrize("name", ["a", "n"])
def test_a_missing_column_without_a_default_is_refused_nullable_or_not(name: str) -> None:
    data = pa.table({"a": [1], "n": [1]}).drop_columns([name])
    with pytest.raises(RowError, match=rf"^field '{name}' is missing, and has no default$"):
        rows(data, AVRO)


def test_a_missing_field_of_a_record_gets_its_default_too() -> None:
    data = pa.table({"a": [1, 2], "n": [1, 2], "s": [{"x": 1}, {"x": 2}]})
    assert [row["s"] for row in rows(data, AVRO)] == [{"x": 1, "y": 7}, {"x": 2, "y": 7}]
    data = pa.table({"a": [1], "n": [1], "s": [{"y": 1}]})
    with pytest.raises(RowError, match=r"^field 's.x' is missing, and has no default$"):
        rows(data, AVRO)


def test_extra_columns_are_refused_by_name_or_left_out_on_request() -> None:
    data = TABLE.append_column("c", [[1, 2]]).append_column("d", [[1, 2]])
    with pytest.raises(RowError, match=r"^the data has 'c', 'd', .* \(a, b\): .*extra='ignore'"):
        rows(data, AB)
    assert rows(data, AB, extra="ignore") == ROWS


def test_so_are_extra_fields_of_a_record() -> None:
    data = pa.table({"s": [{"x": 1, "y": 2}]})
    schema = pa.schema([("s", pa.struct([("x", pa.int64())]))])
    with pytest.raises(RowError, match=r"^the data has 's.y', which"):
        rows(data, schema)
    assert rows(data, schema, extra="ignore") == [{"s": {"x": 1}}]


def test_ignored_columns_are_not_checked() -> None:
    data = TABLE.append_column("bad", UTF8)
    assert rows(data, AB, extra="ignore") == ROWS


@pytest.mark.parametrize("extra", ["drop", "", None, True])
def test_extra_must_be_error_or_ignore(extra: Any) -> None:
    with pytest.raises(ValueError, match=r"^extra=.* 'error' or 'ignore'$"):
        rows(TABLE, AB, extra=extra)


def test_a_name_that_occurs_twice_is_refused() -> None:
    data = pa.table([[1], [2], ["x"]], names=["a", "a", "b"])
    with pytest.raises(RowError, match=r"^field 'a' occurs 2 times"):
        rows(data, AB, extra="ignore")
    inner = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    assert refusal(inner, pa.struct([("x", pa.int64())])).startswith("field 'v.x' occurs 2 times")


# --- lossless -------------------------------------------------------------------------------------

BEFORE = dt.datetime(1960, 2, 29, 1, 2, 3)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("given_type", "values", "to"),
    [
        (pa.int64(), [-(1 << 31), (1 << 31) - 1, None], pa.int32()),
        (pa.int64(), [0, 255], pa.uint8()),
        (pa.uint64(), [0, (1 << 63) - 1], pa.int64()),
        (pa.int8(), [0, 127], pa.uint64()),
        (pa.int64(), [1 << 53, -(1 << 53)], pa.float64()),
        (pa.int64(), [1 << 24, 3], pa.float32()),
        (pa.uint8(), [255], pa.float16()),
        (pa.uint64(), [5, 99], pa.decimal128(4, 2)),
        (pa.int64(), [-5, 1 << 62], pa.decimal256(60, 20)),
        (pa.float64(), [0.5, -0.0, math.inf, -math.inf, None], pa.float32()),
        (pa.float64(), [65504.0, 0.5, -math.inf], pa.float16()),
        (pa.float16(), [0.5], pa.float64()),
        (pa.decimal128(10, 4), [D("1.5000"), None], pa.decimal128(2, 1)),
        (pa.decimal256(60, 2), [D("1.50")], pa.decimal128(38, 20)),
        *((narrow, [D("1.50")], pa.decimal128(3, 2)) for narrow in optional("decimal32", 4, 2)),
        (pa.decimal128(4, -2), [D("1200")], pa.decimal128(4, 0)),
        (pa.date64(), [dt.date(2020, 2, 29)], pa.date32()),
        (pa.time32("s"), [dt.time(23, 59, 59)], pa.time64("ns")),
        (pa.time64("ns"), [dt.time(0, 0, 0, 5000)], pa.time32("ms")),
        (pa.timestamp("ns"), [BEFORE], pa.timestamp("ms")),
        (pa.timestamp("s"), [BEFORE], pa.timestamp("ns")),
        (pa.timestamp("us", "Europe/Berlin"), [BEFORE.replace(tzinfo=dt.timezone.utc)], MS),
        (pa.timestamp("ms", "UTC"), [5], pa.timestamp("ms", "Asia/Tokyo")),
        (pa.duration("s"), [dt.timedelta(1, 2)], pa.duration("ns")),
        (pa.duration("ns"), [dt.timedelta(-1, 0, 2)], pa.duration("us")),
        (pa.large_string(), ["é", None], pa.string()),
        (pa.string_view(), ["é", "a text longer than twelve bytes"], pa.string()),
        (pa.string_view(), ["é"], pa.large_string()),
        (pa.large_binary(), [b"\xff", None], pa.binary()),
        (pa.binary_view(), [b"\xff", None], pa.large_binary()),
        (pa.binary(), [b"ab", None], pa.binary(2)),
        (pa.binary_view(), [b"ab", None], pa.binary(2)),
        (pa.binary(2), [b"ab", None], pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None], pa.string()),
        (pa.dictionary(pa.uint32(), pa.large_string()), ["a", "b"], pa.string()),
        (pa.dictionary(pa.int8(), pa.int64()), [1, 2, None], pa.int8()),
        (pa.null(), [None, None], pa.struct([("x", pa.list_(pa.int8()))])),
        (pa.null(), [None, None], pa.map_(pa.string(), pa.int8())),
        (pa.null(), [None, None], pa.list_(pa.int8(), 2)),
        (pa.null(), [], pa.int8()),
        (pa.large_list(pa.int64()), [[1], [], None], pa.list_(pa.int8())),
        (pa.list_view(pa.int64()), [[1], [], None], pa.large_list(pa.int8())),
        (pa.large_list_view(pa.int64()), [[1], [], None], pa.list_(pa.int8())),
        (pa.list_(pa.int64(), 2), [[1, 2], None], pa.list_(pa.int8())),
        (pa.list_(pa.int64()), [[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
        (pa.list_(pa.int64(), 2), [[1, 2], None], pa.list_(pa.int8(), 2)),
        (pa.list_(pa.field("element", pa.int8())), [[1], None], pa.list_(pa.int8())),
        (
            pa.struct([("y", pa.int64()), ("x", pa.large_string())]),
            [{"y": 1, "x": "a"}, None],
            pa.struct([("x", pa.string()), pa.field("y", pa.int8(), nullable=False)]),
        ),
        (
            pa.map_(pa.string(), pa.int64()),
            [{"a": 1, "b": None}, {"a": 1}, {}, None],
            pa.map_(pa.large_string(), pa.int8()),
        ),
    ],
    ids=_id,
)
def test_a_value_that_stays_exact_is_cast(
    given_type: pa.DataType, values: list[Any], to: pa.DataType
) -> None:
    array = array_of(values, given_type)
    wanted = [comparable(value) for value in column(older_arrow.array(values, to), to)]
    assert [comparable(value) for value in column(array, to)] == wanted
    doubled = pa.concat_arrays([array, array]).slice(len(array))
    assert [comparable(value) for value in column(doubled, to)] == wanted
    deep = pa.StructArray.from_arrays([array], names=["x"])
    into = pa.struct([("x", to)])
    assert [comparable(record["x"]) for record in column(deep, into)] == wanted


def test_an_integer_above_2_to_the_53_is_cast_if_a_float_holds_it_exactly() -> None:
    assert column(pa.array([(1 << 24) + 2]), pa.float32()) == [16777218.0]


def test_nan_stays_nan() -> None:
    (value,) = column(pa.array([math.nan]), pa.float16())
    assert math.isnan(value)


RUNS = [
    (pa.array([7, None]), pa.int8()),
    (pa.array(["x", None]), pa.string()),
    (pa.array(["a text longer than twelve bytes", None], pa.string_view()), pa.string()),
    (pa.array(["x", None]).dictionary_encode(), pa.string()),
    (pa.array([[1], None]), pa.list_(pa.int8())),
]


@pytest.mark.parametrize(("values", "to"), RUNS, ids=_id)
def test_runs_are_decoded_at_any_depth_and_from_the_middle(
    values: pa.Array, to: pa.DataType
) -> None:
    runs = pa.RunEndEncodedArray.from_arrays([3, 5], values)
    plain = [pa.array(values.to_pylist(), to).to_pylist()[i] for i in (0, 0, 0, 1, 1)]
    assert column(runs, to) == plain
    assert column(runs.slice(2, 2), to) == plain[2:4]
    assert column(pa.ListArray.from_arrays([0, 1, 5], runs).slice(1), pa.list_(to)) == [plain[1:]]
    mask = pa.array([True, False, False, False, True])
    records = pa.StructArray.from_arrays([runs], names=["x"], mask=mask)
    assert column(records, pa.struct([("x", to)])) == [
        None,
        *({"x": value} for value in plain[1:4]),
        None,
    ]


def test_dictionaries_of_views_with_nulls_in_both_places_are_decoded() -> None:
    values = pa.array(["x", None, "a text longer than twelve bytes"], pa.string_view())
    array = pa.DictionaryArray.from_arrays(pa.array([2, None, 1, 0]), values)
    assert column(array.slice(1), pa.string()) == [None, None, "x"]


@needs("json_")
def test_an_extension_types_storage_is_accepted_where_it_fits() -> None:
    assert column(pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"])), pa.string()) == [
        "{}"
    ]
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16)))
    assert column(uuids, pa.binary(16)) == [b"0" * 16]
    assert column(pa.ListArray.from_arrays([0, 1], uuids), pa.list_(pa.binary(16))) == [[b"0" * 16]]
    for other in (pa.string(), pa.binary(), pa.binary(8)):
        assert refusal(uuids, other).startswith("field 'v' is extension<arrow.uuid> in the data")


def addresses(array: pa.Array) -> list[int]:
    """The buffers with values: all but those that say what is null."""
    return sorted({buffer.address for buffer in array.buffers()[1:] if buffer is not None})


@pytest.mark.parametrize(
    ("array", "nullable"),
    [
        (pa.array(range(100), pa.int32()), False),
        (pa.array([1, None] * 50), True),
        (pa.array(["a", None] * 50), True),
        (pa.array([True] * 100), True),
        (pa.array([[1, 2], None, []] * 30, pa.list_(pa.int64())), True),
        (
            pa.array([[{"x": "a"}, {"x": None}]] * 30, pa.list_(pa.struct([("x", pa.string())]))),
            True,
        ),
        (pa.array([{"x": "a", "y": [1]}] * 30), True),
        (pa.array([[1, 2], None] * 30, pa.list_(pa.int64(), 2)), True),
    ],
)
def test_data_that_already_fits_is_not_copied(array: pa.Array, nullable: bool) -> None:
    schema = pa.schema([pa.field("v", array.type, nullable=nullable)])
    data = pa.table([pa.chunked_array([array.slice(0, 7), array.slice(7)])], schema=schema)
    values = conformed(data, schema, timestamp=None).columns["v"]
    assert values.equals(data["v"])
    assert [len(chunk) for chunk in values.chunks] == [7, len(array) - 7]
    assert [addresses(chunk) for chunk in values.chunks] == [addresses(array)] * 2


def test_text_in_larger_offsets_keeps_its_bytes() -> None:
    array = pa.array(["some text"] * 10, pa.large_string())
    data = pa.table({"v": array})
    arrow_rows = conformed(data, pa.schema([("v", pa.string())]), key="v")
    assert arrow_rows.columns["v"].chunk(0).buffers()[2].address == array.buffers()[2].address
    assert arrow_rows.keys.chunk(0).buffers()[2].address == array.buffers()[2].address


# --- lossy ----------------------------------------------------------------------------------------

LOSSY: list[tuple[pa.DataType, Any, Any, pa.DataType]] = [
    (pa.int64(), 1, 1 << 31, pa.int32()),
    (pa.int64(), 1, -1, pa.uint64()),
    (pa.uint64(), 1, 1 << 63, pa.int64()),
    (pa.int64(), 1, (1 << 53) + 1, pa.float64()),
    (pa.uint64(), 1, (1 << 64) - 1, pa.float64()),
    (pa.int64(), 1, (1 << 24) + 1, pa.float32()),
    (pa.int64(), 1, 2049, pa.float16()),
    (pa.int64(), 1, 70_000, pa.float16()),
    (pa.int64(), 1, 100, pa.decimal128(4, 2)),
    (pa.float64(), 0.5, 0.1, pa.float32()),
    (pa.float64(), 0.5, 1e300, pa.float32()),
    (pa.float64(), 0.5, 5e-324, pa.float32()),
    (pa.float32(), 0.5, 65520.0, pa.float16()),
    (pa.decimal128(10, 2), D("1.50"), D("1.25"), pa.decimal128(10, 1)),
    (pa.decimal128(10, 2), D("1.50"), D("100.00"), pa.decimal128(4, 2)),
    (pa.decimal256(60, 0), D(1), D(10**50), pa.decimal128(38, 0)),
    (pa.time64("us"), dt.time(1), dt.time(0, 0, 0, 1), pa.time32("ms")),
    (pa.timestamp("ns"), 0, 1, pa.timestamp("us")),
    (pa.timestamp("us", "UTC"), 0, -1, MS),
    (pa.timestamp("s"), 0, 1 << 60, pa.timestamp("ns")),
    (pa.duration("us"), 0, 1, pa.duration("ms")),
    (pa.duration("s"), 0, 1 << 60, pa.duration("ns")),
    (pa.binary(), b"ab", b"abc", pa.binary(2)),
    (pa.list_(pa.int8()), [1, 2], [1], pa.list_(pa.int8(), 2)),
    (pa.list_(pa.int16(), 2), [1, 2], [1, 128], pa.list_(pa.int8())),
]
WRAPS: list[tuple[Any, Any]] = [
    (pa.list_, lambda value: [value]),
    (pa.large_list, lambda value: [None, value]),
    (lambda arrow: pa.struct([("x", arrow)]), lambda value: {"x": value}),
    (lambda arrow: pa.map_(pa.string(), arrow), lambda value: {"k": value}),
    (lambda arrow: pa.list_(arrow, 2), lambda value: [value, value]),
]


@given(st.sampled_from(LOSSY), st.lists(st.sampled_from(WRAPS), max_size=2), st.data())
@settings(max_examples=examples(150))
def test_a_value_that_would_change_is_refused_with_its_row_at_any_depth(
    case: tuple[pa.DataType, Any, Any, pa.DataType], wraps: list[Any], data: st.DataObject
) -> None:
    wide, good, bad, narrow = case
    for wrap_type, wrap_value in wraps:
        wide, narrow = wrap_type(wide), wrap_type(narrow)
        good, bad = wrap_value(good), wrap_value(bad)
    count = data.draw(st.integers(1, 9))
    row = data.draw(st.integers(0, count - 1))
    values = [good] * row + [bad] + [good, None, bad][: count - row - 1]
    array = older_arrow.array(values, wide)
    cut = data.draw(st.integers(0, len(values)))
    chunks = pa.chunked_array([array.slice(0, cut), array.slice(cut)])
    reason = refusal(chunks, narrow)
    assert reason.startswith("field 'v")
    assert f"; row {row}" in reason
    kept = older_arrow.array([good] * row, narrow)
    assert column(array.slice(0, row), narrow) == column(kept, narrow)


@pytest.mark.parametrize(
    ("array", "to", "reason"),
    [
        (
            pa.array([1, 5_000_000_000]),
            pa.int32(),
            (
                "field 'v' is int64 in the data; its schema wants int32 or null: Integer value "
                "5000000000 not in range: -2147483648 to 2147483647; row 1 has 5000000000"
            ),
        ),
        (
            pa.array([0.5, 0.1]),
            pa.float32(),
            (
                "field 'v' is double in the data; its schema wants float or null: "
                "the type cannot hold a value exactly; row 1 has 0.1"
            ),
        ),
        (
            pa.array([["x"], ["y" * 1000]], pa.list_(pa.large_string())),
            pa.list_(pa.int8()),
            "field 'v.item' is large_string in the data; its schema wants int8 or null",
        ),
        (
            pa.array([[1, 2], [1]], pa.list_(pa.int8())),
            pa.list_(pa.int8(), 2),
            (
                "field 'v' is list<item: int8> in the data; its schema wants "
                "fixed_size_list<item: int8>[2] or null; row 1 has [1]"
            ),
        ),
    ],
    ids=["integer", "float", "type", "size"],
)
def test_the_error_says_what_is_wrong_and_where(
    array: pa.Array, to: pa.DataType, reason: str
) -> None:
    assert refusal(array, to) == reason


KINDS: dict[str, list[pa.DataType]] = {
    "boolean": [pa.bool_()],
    "integer": [pa.int8(), pa.uint64()],
    "float": [pa.float16(), pa.float64()],
    "decimal": [pa.decimal128(38, 0)],
    "string": [pa.string(), pa.large_string()],
    "binary": [pa.binary(), pa.binary(1)],
    "date": [pa.date32()],
    "time": [pa.time32("ms"), pa.time64("us")],
    "local timestamp": [pa.timestamp("us")],
    "timestamp": [MS],
    "duration": [pa.duration("us")],
    "list": [pa.list_(pa.int64()), pa.list_(pa.int64(), 1)],
    "struct": [pa.struct([("x", pa.int64())])],
    "map": [pa.map_(pa.string(), pa.int64())],
}
TAKEN = {("integer", "float"), ("integer", "decimal")}
FOREIGN = [
    (one, other)
    for kind, ones in KINDS.items()
    for other_kind, others in KINDS.items()
    if kind != other_kind and (kind, other_kind) not in TAKEN
    for one in ones
    for other in others
]


@pytest.mark.parametrize("count", [0, 2])
def test_a_value_of_another_family_is_refused(count: int) -> None:
    for one, other in FOREIGN:
        array = pa.array([None] * count, one)
        reason = refusal(array, other)
        start = f"field 'v' is {one} in the data; its schema wants {other} or null"
        assert reason.startswith(start), (one, other)
        assert "row" not in reason


@pytest.mark.parametrize(
    "array",
    [
        pa.UnionArray.from_dense(
            pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
        ),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ],
)
def test_a_type_that_no_segment_stores_is_refused(array: pa.Array) -> None:
    assert refusal(array, pa.int64()).startswith(f"field 'v' is {array.type} in the data")


# --- nulls ----------------------------------------------------------------------------------------

NEEDED = pa.field("x", pa.int8(), nullable=False)


@pytest.mark.parametrize(
    ("values", "to", "path", "row"),
    [
        ([1, None], pa.int8(), "v", 1),
        ([{"x": 1}, {"x": None}], pa.struct([NEEDED]), "v.x", 1),
        ([[1], [], [2, None]], pa.list_(NEEDED.with_name("item")), "v.item", 2),
        ([[1, 2], [None, 1]], pa.list_(NEEDED.with_name("item"), 2), "v.item", 1),
        ([{"a": 1}, {"a": None}], pa.map_(pa.string(), NEEDED), "v.value", 1),
        ([[{"x": 1}], [{"x": None}]], pa.list_(pa.struct([NEEDED])), "v.item.x", 1),
    ],
)
def test_a_null_in_a_required_field_is_refused(
    values: list[Any], to: pa.DataType, path: str, row: int
) -> None:
    reason = refusal(_loosely(values, to), to, nullable=False)
    start = f"field '{path}' is null, and its schema does not allow null; row {row} has "
    assert reason.startswith(start)


def _loosely(values: list[Any], to: pa.DataType) -> pa.Array:
    """Values of the type, in which anything may be null."""
    if pa.types.is_struct(to):
        loose = pa.struct([field.with_nullable(True) for field in to])
    elif pa.types.is_map(to):
        loose = pa.map_(to.key_type, to.item_type)
    elif pa.types.is_fixed_size_list(to):
        loose = pa.list_(to.value_type, to.list_size)
    elif pa.types.is_list(to):
        loose = pa.list_(
            pa.struct([("x", pa.int8())]) if pa.types.is_struct(to.value_type) else to.value_type
        )
    else:
        loose = to
    return pa.array(values, loose)


def test_nulls_from_a_column_without_values_are_refused_as_well() -> None:
    reason = refusal(pa.nulls(2), pa.int8(), nullable=False)
    assert reason == "field 'v' is null, and its schema does not allow null; row 0 has None"
    assert column(pa.nulls(0), pa.int8(), nullable=False) == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 1),
        (pa.bool_(), True),
        (pa.string(), "x"),
        (pa.binary(2), b"xy"),
        (pa.decimal128(4, 2), D("1.50")),
        (pa.list_(pa.field("item", pa.int8(), nullable=False)), [1, 2]),
        (pa.large_list(pa.int8()), [1, None]),
        (pa.map_(pa.string(), NEEDED), {"a": 1}),
        (pa.struct([NEEDED]), {"x": 1}),
        (pa.struct([pa.field("x", pa.list_(NEEDED), nullable=False)]), {"x": [1]}),
    ],
    ids=_id,
)
@pytest.mark.parametrize("null", [True, False], ids=["null", "garbage"])
def test_a_null_record_with_required_fields_is_written_and_read(
    kind: pa.DataType, value: Any, null: bool
) -> None:
    inner = pa.array([value, None if null else value, value], kind)
    mask = pa.array([False, True, False])
    records = pa.StructArray.from_arrays([inner], names=["s"], mask=mask)
    schema = pa.schema([("v", pa.struct([pa.field("s", kind, nullable=False)]))])
    wanted = [{"v": {"s": value}}, {"v": None}]
    for array in (
        records,
        records.slice(1),
        pa.concat_arrays([pa.nulls(1, records.type), records]),
    ):
        table = conformed(pa.table({"v": array}), schema).columns
        expected = [comparable(wanted[record is None]) for record in array.to_pylist()]
        assert _rows(table) == expected
        if VERSION >= (26, 0):  # before, pyarrow does not write and read all lists under a null
            file = io.BytesIO()
            pq.write_table(table, file)
            assert _rows(pq.read_table(file)) == expected


def test_null_fixed_size_lists_in_records_in_fixed_size_lists_are_accepted() -> None:
    """Arrow's own cast puts nulls under the inner ones, and then refuses the outer ones."""
    pair = pa.list_(pa.field("item", pa.uint16(), nullable=False), 2)
    to = pa.list_(pa.struct([pa.field("r", pair)]), 3)
    values = [[{"r": None}, None, {"r": [1, 2]}], None, [{"r": [3, 4]}] * 3]
    array = pa.array(values, to)
    assert column(array, to) == values
    assert column(pa.concat_arrays([array, pa.nulls(1, to)]), to) == [*values, None]


def test_a_slice_of_lists_becomes_fixed_size_lists() -> None:
    """A null record outside of the slice has a null in a required field."""
    nulls = pa.array([True, False, False, False])
    records = pa.StructArray.from_arrays(
        [pa.array([None, 1, 2, 3], pa.int8())], fields=[NEEDED], mask=nulls
    )
    lists = pa.ListArray.from_arrays([0, 2, 4], records)
    name = NEEDED.name
    assert column(lists.slice(1), pa.list_(records.type, 2)) == [[{name: 2}, {name: 3}]]


@pytest.mark.parametrize(
    "kind", [*optional("decimal32", 9, 2), *optional("decimal64", 18, 2)], ids=str
)
def test_maps_may_have_narrow_decimals_as_keys(kind: pa.DataType) -> None:
    to = pa.map_(kind, pa.int8())
    values = [[(D("1.50"), 1), (D("-2.25"), 2)], None]
    assert column(pa.array(values, to), to) == [dict(values[0]), None]
    twice = pa.array([[(D("1.50"), 1), (D("1.50"), 2)]], to)
    assert "has two keys that are equal" in refusal(twice, to)


def test_a_column_of_type_null_becomes_null_records_with_required_fields() -> None:
    schema = pa.schema([("v", pa.struct([NEEDED]))])
    file = io.BytesIO()
    pq.write_table(conformed(pa.table({"v": pa.nulls(2)}), schema).columns, file)
    assert pq.read_table(file).to_pylist() == [{"v": None}] * 2


def test_records_in_a_list_of_the_right_type_are_checked() -> None:
    records = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int8())], fields=[NEEDED], mask=pa.array([False, True])
    )
    lists = pa.ListArray.from_arrays([0, 2], records)
    schema = pa.schema([("v", lists.type)])
    file = io.BytesIO()
    pq.write_table(conformed(pa.table({"v": lists}), schema).columns, file)
    assert pq.read_table(file).to_pylist() == [{"v": [{"x": 1}, None]}]


@pytest.mark.parametrize("deep", [False, True])
def test_values_under_a_null_may_be_anything(deep: bool) -> None:
    """Even nulls in required fields, and values that would not fit."""
    inner = pa.StructArray.from_arrays(
        [pa.array([1, None, 1000, 2])], names=["x"], mask=pa.array([False, True, True, False])
    )
    to = pa.struct([NEEDED])
    wanted = [{"x": 1}, None, None, {"x": 2}]
    if deep:
        inner = pa.StructArray.from_arrays([inner], names=["s"], mask=inner.is_null())
        to = pa.struct([pa.field("s", to, nullable=False)])
        wanted = [record and {"s": record} for record in wanted]
    assert column(inner, to) == wanted
    lists = pa.ListArray.from_arrays([0, 1, 3, 4], inner, mask=pa.array([False, True, False]))
    assert column(lists, pa.list_(pa.field("item", to, nullable=False))) == [
        wanted[:1],
        None,
        wanted[3:],
    ]


def test_a_fields_own_null_is_found_among_the_nulls_of_its_record() -> None:
    records = pa.StructArray.from_arrays(
        [pa.array([1, 2, None, None])], names=["x"], mask=pa.array([True, True, True, False])
    )
    assert "; row 3 has {'x': None}" in refusal(records, pa.struct([NEEDED]))


# --- data that readers would refuse ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "row"),
    [
        (UTF8, "; row 1"),
        (UTF8.slice(1), "; row 0"),
        (UTF8.cast(pa.large_string(), safe=False), "; row 1"),
        (pa.DictionaryArray.from_arrays([0, 0], UTF8), ""),
        (pa.ListArray.from_arrays([0, 1, 2], UTF8), ""),
    ],
)
def test_text_that_is_not_utf8_is_refused(array: pa.Array, row: str) -> None:
    to = pa.list_(pa.string()) if pa.types.is_list(array.type) else pa.string()
    reason = refusal(array, to)
    assert reason.startswith("field 'v' is not valid Arrow data: ")
    assert "Invalid UTF8" in reason
    assert reason.endswith(row)


@pytest.mark.parametrize(
    ("array", "to"),
    [
        (pa.DictionaryArray.from_arrays(pa.array([5]), pa.array(["a"]), safe=False), pa.string()),
        (
            pa.Array.from_buffers(
                pa.binary(),
                2,
                [None, pa.py_buffer(struct.pack("<3i", 0, 5, 1)), pa.py_buffer(b"a")],
            ),
            pa.binary(),
        ),
        (pa.array([5]).view(pa.date64()), pa.date32()),
        (pa.array([86_400_000], pa.int32()).view(pa.time32("ms")), pa.time32("ms")),
        (pa.array([-1]).view(pa.time64("us")), pa.time64("us")),
        (pa.array([86_400], pa.int32()).view(pa.time32("s")), pa.time32("ms")),
        (
            pa.StructArray.from_arrays([pa.array([-1]).view(pa.time64("us"))], names=["x"]),
            pa.struct([("x", pa.time64("us"))]),
        ),
        (
            pa.Array.from_buffers(
                pa.decimal128(2, 0), 1, [None, pa.py_buffer((1000).to_bytes(16, "little"))]
            ),
            pa.decimal128(2, 0),
        ),
    ],
)
def test_data_that_is_not_valid_is_refused(array: pa.Array, to: pa.DataType) -> None:
    assert refusal(array, to).startswith("field 'v' is not valid Arrow data: ")


def maps(keys: list[Any], key: pa.DataType, offsets: list[int]) -> pa.Array:
    numbers = pa.array(range(len(keys)))
    return pa.MapArray.from_arrays(offsets, older_arrow.array(keys, key), numbers)


BERLIN = pa.timestamp("us", "Europe/Berlin")
AUTUMN = [dt.datetime(2020, 10, 25, hour, 30, tzinfo=dt.timezone.utc) for hour in (0, 1)]


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        (["a", "b", "a", "a"], pa.string()),
        ([b"a", b"b", b"c", b"c"], pa.binary_view()),
        ([1, 2, 1, 1], pa.int64()),
        ([0.5, 2.0, 0.0, -0.0], pa.float64()),
        ([0.5, 2.0, 0.0, -0.0], pa.float16()),
        ([*AUTUMN[::-1], *AUTUMN], BERLIN),
    ],
    ids=_id,
)
def test_a_map_with_two_equal_keys_is_refused(keys: list[Any], key: pa.DataType) -> None:
    to = pa.map_(pa.binary() if key == pa.binary_view() else key, pa.int64())
    reason = refusal(maps(keys, key, [0, 1, 2, 4]), to)
    assert reason.startswith(f"field 'v' has two keys that are equal as {to.key_type}; row 2")
    assert len(column(maps(keys, key, [0, 1, 2, 3, 4]), to)) == 4


def test_keys_that_differ_in_python_are_two_keys() -> None:
    to = pa.map_(pa.timestamp("us", "UTC"), pa.int64())
    assert column(maps(AUTUMN, to.key_type, [0, 2]), to) == [{AUTUMN[0]: 0, AUTUMN[1]: 1}]


def test_a_map_with_a_key_that_is_null_in_its_dictionary_is_refused() -> None:
    keys = pa.DictionaryArray.from_arrays([1, 0], pa.array([None, "a"]))
    array = pa.MapArray.from_arrays([0, 1, 2], keys, pa.array([1, 2]))
    reason = refusal(array, pa.map_(pa.string(), pa.int64()))
    assert reason.startswith("field 'v.key' is null, and its schema does not allow null; row 1")


def test_a_map_whose_entries_are_a_slice_is_what_arrow_says_not_what_pyarrow_shows() -> None:
    """`MapArray.keys` and `to_pylist` forget the slice's offset."""
    entry = [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())]
    entries = pa.StructArray.from_arrays(
        [pa.array(["-", "a", "b"]), pa.array([0, 1, 2])], fields=entry
    )
    kind = pa.map_(pa.string(), pa.int64())
    offsets = pa.py_buffer(struct.pack("<3i", 0, 1, 2))
    array = pa.Array.from_buffers(kind, 2, [None, offsets], children=[entries.slice(1)])
    assert column(array, kind) == [{"a": 1}, {"b": 2}]


def enum(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "v", "type": type_}]}


SYMBOLS = {"type": "enum", "name": "e", "symbols": ["B", "A"]}


@pytest.mark.parametrize(
    ("kind", "good", "bad", "path"),
    [
        (["null", SYMBOLS], ["A", None, "B"], "C", "v"),
        ({"type": "array", "items": SYMBOLS}, [["A", "B"], []], ["A", ""], "v.item"),
        ({"type": "map", "values": SYMBOLS}, [[("x", "A")]], [("x", "a")], "v.value"),
    ],
)
def test_a_symbol_that_the_enum_does_not_have_is_refused(
    kind: Any, good: list[Any], bad: Any, path: str
) -> None:
    arrow = RecordSchema.parse(enum(kind)).arrow.field("v").type
    assert len(rows(pa.table({"v": pa.array(good, arrow)}), enum(kind))) == len(good)
    with pytest.raises(RowError) as raised:
        rows(pa.table({"v": pa.array([*good, bad], arrow)}), enum(kind))
    start = f"field '{path}' has a symbol other than A, B; row {len(good)} has "
    assert raised.value.reason.startswith(start)


# --- keys, timestamps, headers --------------------------------------------------------------------

V = pa.schema([("v", pa.int64())])


def other(array: pa.Array, argument: str, schema: pa.Schema = V) -> ArrowRows:
    """Conform a column of keys, times or headers, beside one that is sent."""
    data = pa.table({"v": range(len(array)), "o": array})
    arrow_rows = conformed(data, schema, **{argument: "o"})
    assert {len(part) for part in arrow_rows} == {len(array)}
    assert arrow_rows.columns.column_names == schema.names
    assert arrow_rows.keys.type == kafka_column.key_array([]).type
    assert arrow_rows.timestamps.type == kafka_column.timestamp_array([]).type
    assert arrow_rows.headers.type.equals(kafka_column.header_array([]).type, check_metadata=True)
    for part in arrow_rows[1:]:
        part.validate(full=True)
    return arrow_rows


def other_refusal(array: pa.Array, argument: str) -> str:
    with pytest.raises(RowError) as raised:
        other(array, argument)
    return raised.value.reason


def headers(arrow_rows: ArrowRows) -> list[Any]:
    return [
        header for chunk in arrow_rows.headers.chunks for header in kafka_column.read_headers(chunk)
    ]


def milliseconds(arrow_rows: ArrowRows) -> list[int]:
    values: list[int] = arrow_rows.timestamps.cast(pa.int64()).to_pylist()
    return values


def test_without_these_columns_records_have_the_current_time_no_key_and_no_headers() -> None:
    arrow_rows = conformed(TABLE, AB)
    assert arrow_rows.keys.to_pylist() == [None, None]
    assert milliseconds(arrow_rows) == [NOW, NOW]
    assert headers(arrow_rows) == [None, None]


@pytest.mark.parametrize("argument", ["key", "timestamp", "headers"])
@pytest.mark.parametrize(("name", "count"), [("no", 0), ("twice", 2)])
def test_a_column_that_the_data_does_not_have_is_refused(
    argument: str, name: str, count: int
) -> None:
    data = pa.table([[1], [2], [3]], names=["v", "twice", "twice"])
    with pytest.raises(RowError, match=rf"^{argument}='{name}' names {count} columns .* v, twice"):
        conformed(data, V, **{argument: name})


def test_a_column_that_the_schema_has_too_is_sent_as_both() -> None:
    data = pa.table({"v": [1, 2], "o": ["x", "y"]})
    schema = pa.schema([("o", pa.string()), ("v", pa.int64())])
    arrow_rows = conformed(data, schema, key="o", timestamp="v")
    assert arrow_rows.columns.to_pylist() == [{"o": "x", "v": 1}, {"o": "y", "v": 2}]
    assert arrow_rows.keys.to_pylist() == [b"x", b"y"]
    assert milliseconds(arrow_rows) == [1, 2]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.binary(2),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int8(), pa.binary()),
    ],
    ids=_id,
)
def test_keys_are_bytes_or_text(kind: pa.DataType) -> None:
    values = ["é", None] if "string" in str(kind) else ["é".encode(), None]
    assert other(pa.array(values, kind), "key").keys.to_pylist() == ["é".encode(), None]


def test_an_empty_key_stays_an_empty_key() -> None:
    assert other(pa.array(["", None]), "key").keys.to_pylist() == [b"", None]
    assert other(pa.nulls(1), "key").keys.to_pylist() == [None]


@pytest.mark.parametrize(
    "array",
    [pa.array([1]), pa.array([0.5]), pa.array([True]), pa.array([["x"]]), pa.array([{"x": "y"}])],
)
def test_keys_of_other_types_are_refused(array: pa.Array) -> None:
    reason = other_refusal(array, "key")
    assert reason == f"column 'o' is {array.type}; a key must be binary or string"


def test_invalid_keys_are_refused_with_their_row() -> None:
    assert "Invalid UTF8" in other_refusal(UTF8, "key")
    assert other_refusal(UTF8, "key").endswith("; row 1")


@pytest.mark.parametrize(
    ("kind", "ticks", "wanted"),
    [
        (pa.timestamp("s", "UTC"), [1, -1, None], [1000, -1000, NOW]),
        (pa.timestamp("ms", "UTC"), [1, -1, 0], [1, -1, 0]),
        (pa.timestamp("us", "UTC"), [1999, -1, -1000, -1001], [1, -1, -1, -2]),
        (pa.timestamp("ns", "Asia/Tokyo"), [1_999_999, -1, None], [1, -1, NOW]),
        (pa.timestamp("ns"), [-(1 << 63) + 1, (1 << 63) - 1], [-9223372036855, 9223372036854]),
        (pa.timestamp("us"), [1000], [1]),
        (pa.int64(), [5, None, -(1 << 63), (1 << 63) - 1], [5, NOW, -(1 << 63), (1 << 63) - 1]),
        (pa.uint8(), [5], [5]),
        (pa.dictionary(pa.int8(), pa.int64()), [5, None, 5], [5, NOW, 5]),
        (pa.null(), [None], [NOW]),
    ],
    ids=_id,
)
def test_times_are_timestamps_or_milliseconds_rounded_down(
    kind: pa.DataType, ticks: list[Any], wanted: list[int]
) -> None:
    assert milliseconds(other(pa.array(ticks, kind), "timestamp")) == wanted


@pytest.mark.parametrize(
    "array",
    [pa.array([0.5]), pa.array(["2020-02-29"]), pa.array([dt.date(2020, 2, 29)]), pa.array([True])],
)
def test_times_of_other_types_are_refused(array: pa.Array) -> None:
    reason = other_refusal(array, "timestamp")
    assert (
        reason == f"column 'o' is {array.type}; a record's time must be a timestamp or an integer"
    )


def test_a_time_out_of_range_is_refused_with_its_row() -> None:
    assert "; row 1" in other_refusal(pa.array([1, 1 << 63], pa.uint64()), "timestamp")
    assert "; row 1" in other_refusal(pa.array([1, 1 << 60], pa.timestamp("s")), "timestamp")


PAIRS = [[("k", b"v"), ("k", None), ("é", b"")], [], None]


@pytest.mark.parametrize("names", [("key", "value"), ("name", "value"), ("0", "1")])
@pytest.mark.parametrize("lists", [pa.list_, pa.large_list, pa.list_view])
@pytest.mark.parametrize("value", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_headers_are_lists_of_pairs(names: tuple[str, str], lists: Any, value: pa.DataType) -> None:
    pair = pa.struct(list(zip(names, [pa.string(), value], strict=True)))
    given_headers = [
        pairs and [dict(zip(names, pair, strict=True)) for pair in pairs] for pairs in PAIRS
    ]
    array = pa.array(given_headers, lists(pair))
    assert headers(other(array, "headers")) == PAIRS
    assert headers(other(array.slice(1), "headers")) == PAIRS[1:]


@pytest.mark.parametrize("value", [pa.string(), pa.binary(), pa.large_string()])
def test_headers_are_maps(value: pa.DataType) -> None:
    text = "string" in str(value)
    array = pa.array(
        [[("k", "v" if text else b"v"), ("k", None)], [], None], pa.map_(pa.string(), value)
    )
    wanted = [[("k", b"v"), ("k", None)], [], None]
    assert headers(other(array, "headers")) == wanted
    assert headers(other(array.slice(1), "headers")) == wanted[1:]


def test_a_column_of_nulls_means_no_headers() -> None:
    assert headers(other(pa.nulls(2), "headers")) == [None, None]


def test_headers_of_polars() -> None:
    frame = pl.DataFrame({"v": [1], "o": [[{"key": "k", "value": "v"}]]})
    assert headers(conformed(frame, V, headers="o")) == [[("k", b"v")]]


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (
            pa.array(["x"]),
            "column 'o' is string; headers must be a map, or a list of key and value",
        ),
        (pa.array([["x"]]), "column 'o' is list<item: string>; headers must be a map, or a list"),
        (
            pa.array([[{"a": "x", "b": "y"}]]),
            "column 'o' is list<item: struct<a: string, b: string",
        ),
        (pa.array([[{"key": "x"}]]), "column 'o' is list<item: struct<key: string>>; headers must"),
        (
            pa.array([[], [{"key": "x", "value": 1}]]),
            "column 'o.value' is int64; a header's value must be binary or string",
        ),
        (
            pa.array([[], [{"key": b"x", "value": "y"}]]),
            "field 'o.key' is binary in the data; its schema wants string",
        ),
        (
            pa.array(
                [[], [{"key": None, "value": "y"}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
            ),
            "field 'o.key' is null, and its schema does not allow null; row 1 has",
        ),
        (
            pa.array([[{"key": "x", "value": "y"}], [None]]),
            "column 'o' has a null among its headers; row 1 has [None]",
        ),
    ],
)
def test_columns_that_are_not_headers_are_refused(array: pa.Array, reason: str) -> None:
    assert other_refusal(array, "headers").startswith(reason)


# --- more than one array can hold -----------------------------------------------------------------


def test_rows_that_fit_alone_but_not_together_become_several_chunks() -> None:
    """A string array holds 2 GiB of text; views, dictionaries and large strings may hold more."""

    def three_at_most(array: pa.Array) -> pa.Array:
        if len(array) > 3 or 9 in array.to_pylist():
            raise pa.ArrowInvalid("input array too large")
        return pc.negate(array)

    negated = convert_chunks(pa.chunked_array([list(range(8)), [8]]), "v", three_at_most)
    assert negated.to_pylist() == [-index for index in range(9)]
    assert [len(chunk) for chunk in negated.chunks] == [3, 3, 2, 1]
    with pytest.raises(RowError, match=r"^field 'v' is int64 .* too large; row 9 has 9$"):
        convert_chunks(pa.chunked_array([[0], list(range(1, 12))]), "v", three_at_most)


# --- anything -------------------------------------------------------------------------------------


def _wider_leaf(arrow: pa.DataType) -> list[pa.DataType]:  # noqa: PLR0911 - one for each kind
    """Types that hold every value of a type."""
    if pa.types.is_integer(arrow):
        return [arrow, pa.uint64() if arrow == pa.uint64() else pa.int64()]
    if pa.types.is_floating(arrow):
        return [arrow, pa.float64()]
    if pa.types.is_decimal(arrow):
        return [arrow, pa.decimal256(76, arrow.scale + 10)]
    if pa.types.is_date(arrow):
        return [arrow, pa.date64()]
    if pa.types.is_time(arrow):
        return [arrow, pa.time64("ns")]
    if pa.types.is_timestamp(arrow) and arrow.tz:
        return [arrow, pa.timestamp("us", "Europe/Berlin")]
    if pa.types.is_fixed_size_binary(arrow):
        return [arrow, pa.binary(), pa.binary_view()]
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return [pa.large_string(), pa.string_view(), pa.string()]
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return [pa.large_binary(), pa.binary_view(), pa.binary()]
    return [arrow]


def _wider(draw: st.DrawFn, field: pa.Field) -> pa.Field:
    arrow = field.type
    if pa.types.is_struct(arrow):
        inner = [_wider(draw, arrow.field(i)) for i in range(arrow.num_fields)]
        wide = pa.struct(draw(st.permutations(inner)))
    elif pa.types.is_map(arrow):
        key = draw(st.sampled_from(_wider_leaf(arrow.key_type)))
        wide = pa.map_(key, _wider(draw, arrow.item_field))
    elif pa.types.is_nested(arrow):
        item = _wider(draw, arrow.value_field).with_name("other")
        kinds = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
        if pa.types.is_fixed_size_list(arrow):
            kinds.append(lambda item: pa.list_(item, arrow.list_size))
        wide = draw(st.sampled_from(kinds))(item)
    else:
        wide = draw(st.sampled_from(_wider_leaf(arrow)))
    return pa.field(field.name, wide, nullable=field.nullable or draw(st.booleans()))


@st.composite
def laid_out_otherwise(draw: st.DrawFn) -> tuple[pa.Schema, pa.Schema, list[dict[str, Any]]]:
    """Draw a schema, another that holds the same values, and rows."""
    schema, records = draw(tables())
    wide = [_wider(draw, field) for field in schema]
    return schema, pa.schema(draw(st.permutations(wide))), records


def _table(given_rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [array_of([row[field.name] for row in given_rows], field.type) for field in schema]
    return pa.table(columns, schema=schema)


@given(laid_out_otherwise(), st.data())
@settings(
    max_examples=examples(100),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
def test_any_rows_are_equal_from_any_layout(
    drawn: tuple[pa.Schema, pa.Schema, list[dict[str, Any]]], data: st.DataObject
) -> None:
    schema, wide, values = drawn
    assume(VERSION >= (26, 0) or "halffloat" not in str(wide))
    wanted = [comparable(row) for row in values]
    same = _table(values, RecordSchema.parse(schema).arrow)
    assert [comparable(row) for row in rows(same, schema)] == wanted
    twice = pa.concat_tables([_table(values, wide)] * 2).combine_chunks()
    for i, field in enumerate(wide):
        if not pa.types.is_nested(field.type) and "view" not in str(field.type) and i % 2:
            twice = twice.set_column(i, field.name, twice.column(i).dictionary_encode())
    start = data.draw(st.integers(0, len(values)))
    cut = data.draw(st.integers(0, len(values)))
    slices = [twice.slice(start, cut), twice.slice(start + cut, len(values) - cut)]
    arrow_rows = conformed(pa.concat_tables(slices), schema)
    wanted = (wanted * 2)[start : start + len(values)]
    assert arrow_rows.columns.schema.equals(same.schema, check_metadata=True)
    assert _rows(arrow_rows.columns) == wanted
    if VERSION >= (26, 0):
        file = io.BytesIO()
        pq.write_table(arrow_rows.columns, file)
        assert _rows(pq.read_table(file)) == wanted


def _rows(table: pa.Table) -> list[Any]:
    return [comparable(row) for batch in table.to_batches() for row in to_rows(batch)]
