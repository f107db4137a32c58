"""Rows are copied into columns and never coerced; a row that does not fit is refused alone."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import math
import uuid
from collections import UserDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_rows.rows_to_columns import CHUNK_ROWS, RowColumns
from columnar_kafka.errors import RowError
from columnar_kafka.schema import RecordSchema


def columns(schema: Any) -> RowColumns:
    return RowColumns(RecordSchema.parse(schema))


def of(kind: pa.DataType, *, nullable: bool = True) -> RowColumns:
    """Columns with one field, "v"."""
    return columns(pa.schema([pa.field("v", kind, nullable=nullable)]))


def kept_and_refused(made: RowColumns, *rows: Any) -> tuple[list[Any], dict[int, str]]:
    """Take and convert rows; return those that fit and why the others do not."""
    builder = made.builder()
    for row in rows:
        builder.append(made.take(row)[0])
    batch, refused = builder.finish()
    return to_rows(batch), {i: rejection.error.reason for i, rejection in refused.items()}


def values(kind: pa.DataType, *given: Any) -> tuple[list[Any], dict[int, str]]:
    """Convert values of the field "v"."""
    kept, refused = kept_and_refused(of(kind), *({"v": value} for value in given))
    return [row["v"] for row in kept], refused


def _id(value: Any) -> str | None:
    return str(value) if isinstance(value, pa.DataType) else None


AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": {"type": "array", "items": "bytes"}, "default": ["\u00ff"]},
        {"name": "e", "type": ["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}]},
    ],
}

# --- rows ---------------------------------------------------------------------------------------


def test_a_rows_values_are_in_the_schemas_order() -> None:
    made = columns(pa.schema([("a", pa.int8()), ("b", pa.int8())]))
    assert made.take({"b": 2, "a": 1})[0] == (1, 2)


@pytest.mark.parametrize("kind", [dict, UserDict, MappingProxyType])
def test_any_mapping_is_a_row(kind: Any) -> None:
    assert of(pa.int8()).take(kind({"v": 1}))[0] == (1,)


@pytest.mark.parametrize("row", [[1], (1,), 5, object(), {1, 2}])
def test_anything_else_is_a_type_error(row: Any) -> None:
    with pytest.raises(TypeError, match=f"^a row must be a dict or .*, not {type(row).__name__}$"):
        of(pa.int8()).take(row)


def test_a_missing_field_is_refused_by_name() -> None:
    with pytest.raises(RowError, match=r"^field 'v' is missing, and has no default$"):
        of(pa.int8()).take({})


@pytest.mark.parametrize("row", [{"v": 1, "w": 2}, {"w": 2}])
def test_an_unknown_field_is_refused(row: dict[str, int]) -> None:
    with pytest.raises(RowError, match=r"^field '[vw]' is (not in the topic's schema|missing)"):
        of(pa.int8()).take(row)


def test_an_unknown_field_beside_a_default_is_refused_by_name() -> None:
    with pytest.raises(RowError, match=r"^field 'x' is not in the topic's schema, which has a, b"):
        columns(AVRO).take({"a": 1, "e": None, "x": 2})


def test_a_missing_field_gets_its_default() -> None:
    kept, refused = kept_and_refused(columns(AVRO), {"a": 1, "e": "B"})
    assert (kept, refused) == ([{"a": 1, "b": None, "c": [b"\xff"], "e": "B"}], {})


@pytest.mark.parametrize("symbol", ["C", "", 1, ["A"], {"A": 1}, b"A"])
def test_a_symbol_that_the_enum_does_not_have_is_refused_at_once(symbol: Any) -> None:
    with pytest.raises(RowError, match=r"^field 'e' is .*; its enum has A, B$"):
        columns(AVRO).take({"a": 1, "e": symbol})


class Letter(str, enum.Enum):
    A = "A"


class Plain(enum.Enum):
    A = "A"


def test_an_enum_member_is_stored_as_its_symbol() -> None:
    (values, _) = columns(AVRO).take({"a": 1, "e": Letter.A})
    assert (values[3], type(values[3])) == ("A", str)
    with pytest.raises(RowError, match=r"^field 'e' is Plain .*; its enum has A, B$"):
        columns(AVRO).take({"a": 1, "e": Plain.A})


UUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")


@pytest.mark.parametrize(
    ("avro", "given", "read"),
    [
        ({"type": "string", "logicalType": "uuid"}, UUID, str(UUID)),
        ({"type": "string", "logicalType": "uuid"}, str(UUID), str(UUID)),
        ({"type": "string", "logicalType": "uuid"}, "any text, as fastavro", None),
        ({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, UUID, UUID.bytes),
        ({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, UUID.bytes, None),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_uuid_is_stored_as_its_type_says(
    *, avro: Any, given: Any, read: Any, inside: bool
) -> None:
    kind = {"type": "array", "items": avro} if inside else avro
    made = columns({"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]})
    kept, refused = kept_and_refused(made, {"v": [given] if inside else given})
    expected = given if read is None else read
    assert (kept, refused) == ([{"v": [expected] if inside else expected}], {})


def test_a_uuid_is_refused_by_other_text_fields() -> None:
    with pytest.raises(RowError, match=r"^field 'v' is UUID .*; its schema wants string or null$"):
        of(pa.string()).take({"v": UUID})


INNER = {
    "type": "record",
    "name": "i",
    "fields": [
        {"name": "x", "type": "int", "default": 7},
        {"name": "y", "type": ["null", {"type": "array", "items": "bytes"}], "default": None},
    ],
}
DEEP = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "one", "type": INNER},
        {"name": "many", "type": {"type": "array", "items": ["null", "i"]}},
        {"name": "by", "type": {"type": "map", "values": "i"}, "default": {"k": {"y": ["\u00ff"]}}},
    ],
}


def test_defaults_are_filled_inside_records_at_any_depth() -> None:
    row = {"one": {}, "many": [{"x": 1}, None, {"y": [b""]}]}
    kept, refused = kept_and_refused(columns(DEEP), row)
    assert refused == {}
    assert kept == [
        {
            "one": {"x": 7, "y": None},
            "many": [{"x": 1, "y": None}, None, {"x": 7, "y": [b""]}],
            "by": {"k": {"x": 7, "y": [b"\xff"]}},
        }
    ]


@pytest.mark.parametrize("bad", [{"z": 1}, {"x": 1, "z": 1}, {"x": 1, "y": None, "z": 1}])
def test_an_unknown_field_inside_is_refused_beside_defaults(bad: Any) -> None:
    with pytest.raises(RowError, match=r"^field 'one\.z' is not in .* which has one\.x, one\.y$"):
        columns(DEEP).take({"one": bad, "many": []})


# --- copying ------------------------------------------------------------------------------------

NESTED = pa.schema(
    [
        ("l", pa.list_(pa.list_(pa.int64()))),
        ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("s", pa.struct([("x", pa.list_(pa.int64())), ("y", pa.binary())])),
        ("b", pa.binary()),
        ("v", pa.binary()),
    ]
)


def test_changing_a_row_afterwards_changes_nothing() -> None:
    backing = bytearray(b"view")
    row: dict[str, Any] = {
        "l": [[1], [2]],
        "m": {"k": [1]},
        "s": {"x": [1], "y": bytearray(b"y")},
        "b": bytearray(b"b"),
        "v": memoryview(backing),
    }
    made = columns(NESTED)
    builder = made.builder()
    builder.append(made.take(row)[0])
    row["l"][0].append(9)
    row["l"].clear()
    row["m"]["k"].append(9)
    row["m"]["j"] = [9]
    row["s"]["x"].append(9)
    row["s"]["y"][0] = 0
    row["s"]["y"] = b"new"
    row["b"][0] = 0
    backing[0] = 0
    row.clear()
    assert to_rows(builder.finish().batch) == [
        {"l": [[1], [2]], "m": {"k": [1]}, "s": {"x": [1], "y": b"y"}, "b": b"b", "v": b"view"}
    ]


def test_a_row_object_may_be_reused_for_the_next_row() -> None:
    row: dict[str, Any] = {"v": []}
    made = of(pa.list_(pa.int8()))
    builder = made.builder()
    for i in range(3):
        row["v"].append(i)
        builder.append(made.take(row)[0])
    assert [taken["v"] for taken in to_rows(builder.finish().batch)] == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.parametrize("given", [(1, 2), np.array([1, 2]), range(1, 3)])
def test_a_list_may_be_any_iterable_collection(given: Any) -> None:
    assert values(pa.list_(pa.int64()), given) == ([[1, 2]], {})


def test_an_iterator_is_refused_as_a_list_because_it_reads_only_once() -> None:
    with pytest.raises(RowError, match="its schema wants a list"):
        of(pa.list_(pa.int64())).take({"v": iter([1, 2])})


def test_larger_values_count_more_bytes() -> None:
    def charge(kind: pa.DataType, value: Any) -> int:
        return of(kind).take({"v": value})[1]

    text = pa.string()
    assert charge(text, "x" * 1000) - charge(text, "") == 1000
    lists = pa.list_(text)
    assert charge(lists, ["x" * 1000]) - charge(lists, [""]) == 1000
    assert charge(lists, ["", ""]) > charge(lists, [""])
    assert charge(pa.binary(), b"\xff" * 1000) - charge(pa.binary(), b"") == 1000
    for kind, wrap in ((text, str), (lists, lambda value: [value])):
        assert charge(kind, wrap("é" * 1000)) - charge(kind, wrap("")) == 4000


def test_text_that_is_not_ascii_does_not_raise_the_count_of_other_texts() -> None:
    made = columns(pa.schema([("a", pa.string()), ("b", pa.string()), ("c", pa.string())]))
    base = made.take({"a": "", "b": "", "c": None})[1]
    assert made.take({"a": "é" * 10, "b": "x" * 10, "c": None})[1] == base + 40 + 10


# --- rows that do not fit -----------------------------------------------------------------------


class Broken:
    def __repr__(self) -> str:
        raise LookupError


@pytest.mark.parametrize(
    ("kind", "bad", "reason"),
    [
        (pa.int64(), 1.5, "field 'v' is float 1.5; its schema wants int64 or null"),
        (pa.int64(), 1.0, "field 'v' is float 1.0; its schema wants int64 or null"),
        (pa.int64(), True, "field 'v' is bool True; its schema wants int64 or null"),
        (pa.int64(), "1", "field 'v' is str '1'; its schema wants int64 or null"),
        (pa.int64(), [1], "field 'v' is list [1]; its schema wants int64 or null"),
        (pa.int64(), Broken(), "field 'v' is Broken (its repr() fails); its schema wants int64"),
        (pa.int64(), np.float64(2), "its schema wants int64 or null"),
        (pa.timestamp("us"), np.int64(2), "its schema wants timestamp[us] or null"),
        (pa.int64(), decimal.Decimal(1), "field 'v' is Decimal Decimal('1'); its schema wants"),
        (pa.bool_(), 1, "field 'v' is int 1; its schema wants bool or null"),
        (pa.bool_(), "true", "field 'v' is str 'true'; its schema wants bool or null"),
        (pa.float64(), True, "field 'v' is bool True; its schema wants double or null"),
        (pa.float64(), "1", "field 'v' is str '1'; its schema wants double or null"),
        (pa.string(), b"x", "field 'v' is bytes b'x'; its schema wants string or null"),
        (pa.string(), 5, "field 'v' is int 5; its schema wants string or null"),
        (pa.binary(), "x", "field 'v' is str 'x'; its schema wants binary or null"),
        (pa.binary(), [120], "field 'v' is list [120]; its schema wants binary or null"),
        (pa.decimal128(4, 2), 1.5, "field 'v' is float 1.5; its schema wants decimal128(4, 2)"),
        (
            pa.date32(),
            dt.datetime(2020, 2, 29),  # noqa: DTZ001 - naive on purpose
            "field 'v' is datetime datetime.datetime(2020, 2, 29, 0, 0); its schema wants date32",
        ),
        (pa.date32(), "2020-02-29", "field 'v' is str '2020-02-29'; its"),
        (
            pa.timestamp("ms"),
            dt.date(2020, 2, 29),
            "field 'v' is date datetime.date(2020, 2, 29); its schema wants timestamp[ms] or null",
        ),
        (pa.timestamp("ms"), 5.5, "field 'v' is float 5.5; its schema wants timestamp[ms]"),
    ],
    ids=_id,
)
def test_a_value_of_a_wrong_type_is_refused_at_once(
    kind: pa.DataType, bad: Any, reason: str
) -> None:
    with pytest.raises(RowError) as raised:
        of(kind).take({"v": bad})
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    ("kind", "good", "bad", "reason"),
    [
        (pa.int64(), 1, 1 << 63, "field 'v': int 9223372036854775808: "),
        (pa.int8(), 127, 128, "field 'v': int 128: "),
        (pa.uint8(), 255, -1, "field 'v': int -1: "),
        (pa.float64(), 1.0, (1 << 53) + 1, "field 'v': int 9007199254740993: "),
        (pa.float64(), 1.0, fractions.Fraction(1, 3), "field 'v': Fraction Fraction(1, 3): "),
        (pa.float32(), 1.0, 1e300, "field 'v': float 1e+300: too large for float"),
        (pa.float32(), 1.0, -3.5e38, "field 'v': float -3.5e+38: too large for float"),
        (pa.float16(), 1.0, 65520.0, "field 'v': float 65520.0: too large for halffloat"),
        (pa.string(), "é", "\ud800", "field 'v': str '\\ud800': "),
        (
            pa.decimal128(4, 2),
            decimal.Decimal("1.5"),
            decimal.Decimal("1.234"),
            "field 'v': Decimal Decimal('1.234'): ",
        ),
        (pa.decimal128(4, 2), 99, 100, "field 'v': int 100: "),
        (
            pa.decimal128(4, 2),
            1,
            decimal.Decimal("NaN"),
            "field 'v': Decimal Decimal('NaN'): ",
        ),
        (
            pa.decimal128(4, 2),
            decimal.Decimal("1.50000"),
            decimal.Decimal("1E-41"),
            "field 'v': Decimal Decimal('1E-41'): it has more than 40 decimal places",
        ),
        (pa.time32("ms"), 86_399_999, 86_400_000, "field 'v': int 86400000: a time of day is"),
        (pa.time64("us"), 0, -1, "field 'v': int -1: a time of day is outside its 24 hours"),
        (
            pa.list_(pa.time32("ms")),
            [0],
            [0, 86_400_000],
            "field 'v.item': int 86400000: a time of day is outside its 24 hours",
        ),
        (pa.list_(pa.int8()), [1], [1, 128], "field 'v.item': int 128: "),
        (pa.list_(pa.string()), ["a"], ["\ud800"], "field 'v.item': str '\\ud800': "),
        (pa.struct([("x", pa.int8())]), {"x": 1}, {"x": 128}, "field 'v.x': int 128: "),
        (pa.map_(pa.string(), pa.int8()), {"k": 1}, {"k": 128}, "field 'v.value': int 128: "),
    ],
    ids=_id,
)
def test_range_precision_and_utf8_are_judged_at_once(
    kind: pa.DataType, good: Any, bad: Any, reason: str
) -> None:
    made = of(kind)
    made.take({"v": good})
    with pytest.raises(RowError) as raised:
        made.take({"v": bad})
    assert raised.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("kind", "good", "bad", "reason"),
    [
        (pa.binary(2), b"ab", b"abc", "field 'v': bytes b'abc': "),
        (pa.list_(pa.int8(), 2), [1, 2], [1], "field 'v': list [1]: "),
        (pa.list_(pa.binary(1)), [b"a"], [b"a", b""], "field 'v': list [b'a', b'']: "),
        (pa.struct([("x", pa.binary(1))]), {"x": b"a"}, {"x": b""}, "field 'v': tuple (b'',): "),
        (
            pa.map_(pa.string(), pa.binary(1)),
            {"k": b"a"},
            {"k": b""},
            "field 'v': list [('k', b'')]: ",
        ),
    ],
    ids=_id,
)
def test_a_row_that_cannot_be_converted_is_refused_alone_with_its_field(
    kind: pa.DataType, good: Any, bad: Any, reason: str
) -> None:
    kept, refused = values(kind, good, bad, good)
    assert len(kept) == 2
    assert list(refused) == [1]
    assert refused[1].startswith(reason)


@pytest.mark.parametrize(
    ("kind", "bad", "reason"),
    [
        (pa.list_(pa.int64()), 5, "field 'v' is int 5; its schema wants a list"),
        (pa.list_(pa.string()), "ab", "field 'v' is str 'ab'; its schema wants a list"),
        (pa.list_(pa.int64()), b"ab", "field 'v' is bytes b'ab'; its schema wants a list"),
        (pa.list_(pa.int64()), {1: 2}, "field 'v' is dict {1: 2}; its schema wants a list"),
        (pa.list_(pa.int64()), [1.5], "field 'v.item' is float 1.5; its schema wants int64 or"),
        (
            pa.list_(pa.list_(pa.int64())),
            [[True]],
            "field 'v.item.item' is bool True; its schema wants int64 or null",
        ),
        (
            pa.list_(pa.field("item", pa.int64(), nullable=False)),
            [None],
            "field 'v.item' is null, and its schema does not allow null",
        ),
        (pa.list_(pa.float32()), [1e300], "field 'v.item': float 1e+300: too large for float"),
        (pa.map_(pa.string(), pa.int64()), [1], "field 'v' is list [1]; its schema wants a dict"),
        (
            pa.map_(pa.string(), pa.int64()),
            {"k": "x"},
            "field 'v.value' is str 'x'; its schema wants int64 or null",
        ),
        (
            pa.map_(pa.string(), pa.int64()),
            {None: 1},
            "field 'v.key' is null, and its schema does not allow null",
        ),
        (
            pa.map_(pa.string(), pa.int64()),
            {5: 1},
            "field 'v.key' is int 5; its schema wants string",
        ),
        (
            pa.map_(pa.float32(), pa.int64()),
            {0.1: 1, 0.10000000149011612: 2},
            "field 'v' has two keys that are equal as float",
        ),
        (
            pa.map_(pa.timestamp("ms"), pa.int64()),
            {dt.datetime(2020, 1, 1): 1, dt.datetime(2020, 1, 1, 0, 0, 0, 1): 2},  # noqa: DTZ001
            "field 'v' has two keys that are equal as timestamp[ms]",
        ),
        (  # 0.0 and -0.0
            pa.map_(pa.float32(), pa.int64()),
            {1e-60: 1, -1e-60: 2},
            "field 'v' has two keys that are equal as float",
        ),
        (
            pa.map_(pa.float16(), pa.int64()),
            {1e-60: 1, -1e-60: 2},
            "field 'v' has two keys that are equal as halffloat",
        ),
        (  # the hour that repeats in autumn
            pa.map_(pa.timestamp("us", "Europe/Berlin"), pa.int64()),
            {dt.datetime(2026, 10, 25, hour, tzinfo=dt.timezone.utc): 1 for hour in (0, 1)},
            "field 'v' has two keys that are equal as timestamp[us, tz=Europe/Berlin]",
        ),
        (pa.struct([("x", pa.int8())]), [1], "field 'v' is list [1]; its schema wants a record: a"),
        (pa.struct([("x", pa.int8())]), {}, "field 'v.x' is missing"),
        (
            pa.struct([("x", pa.int8())]),
            {"x": 1, "y": 2},
            "field 'v.y' is not in the topic's schema",
        ),
        (
            pa.struct([pa.field("x", pa.int8(), nullable=False)]),
            {"x": None},
            "field 'v.x' is null, and its schema does not allow null",
        ),
    ],
    ids=_id,
)
def test_a_wrong_nested_value_is_refused_at_once_with_its_path(
    kind: pa.DataType, bad: Any, reason: str
) -> None:
    with pytest.raises(RowError) as raised:
        of(kind).take({"v": bad})
    assert raised.value.reason.startswith(reason)


def test_a_null_in_a_required_field_is_refused_at_once() -> None:
    with pytest.raises(RowError, match=r"^field 'v' is null, and its schema does not allow null$"):
        of(pa.string(), nullable=False).take({"v": None})


def test_a_good_row_does_not_excuse_the_next_one() -> None:
    """The types of the last good row are remembered; all others are checked every time."""
    made = columns(pa.schema([("a", pa.int8()), pa.field("b", pa.int8(), nullable=False)]))
    for _ in range(3):
        assert made.take({"a": None, "b": 1})[0] == (None, 1)
        assert made.take({"a": 1, "b": 1})[0] == (1, 1)
        for bad in ({"a": 1, "b": None}, {"a": True, "b": 1}, {"a": 1.0, "b": 1}):
            with pytest.raises(RowError):
                made.take(bad)


def test_no_combination_of_nulls_is_mistaken_for_another() -> None:
    made = columns(pa.schema([(str(i), pa.string()) for i in range(11)]))
    base = made.take({str(i): None for i in range(11)})[1]
    for bits in range(1 << 11):
        row = {str(i): "x" if bits >> i & 1 else None for i in range(11)}
        assert made.take(row) == (tuple(row.values()), base + bits.bit_count())


def test_a_rejected_row_comes_with_its_values() -> None:
    made = columns(pa.schema([("a", pa.binary(2)), ("b", pa.string())]))
    builder = made.builder()
    builder.append(made.take({"a": b"abc", "b": "y"})[0])
    assert builder.finish().rejected[0].value == {"a": b"abc", "b": "y"}


def test_if_all_rows_are_refused_the_columns_are_empty() -> None:
    kept, refused = values(pa.binary(2), b"", b"abc")
    assert (kept, list(refused)) == ([], [0, 1])


def test_rows_wrong_in_different_ways_are_each_refused_once() -> None:
    pair = pa.list_(pa.int8(), 2)
    schema = pa.schema([("i", pa.binary(1)), ("f", pair), ("t", pa.binary(2)), ("s", pair)])
    good = {"i": b"i", "f": [1, 2], "t": b"tt", "s": [3, 4]}
    bad = [{"i": b""}, {"f": [1]}, {"t": b"t"}, {"s": [3, 4, 5]}, {"f": [], "t": b"t"}]
    rows = [row for wrong in bad for row in (good, good | wrong)]
    kept, refused = kept_and_refused(columns(schema), *rows)
    assert kept == [good] * len(bad)
    assert [reason.split("'")[1] for _, reason in sorted(refused.items())] == list("iftsf")
    assert list(refused) == [1, 3, 5, 7, 9]


def test_a_long_wrong_value_is_shown_in_part() -> None:
    with pytest.raises(RowError) as raised:
        of(pa.int64()).take({"v": "x" * 1_000_000})
    reason = raised.value.reason
    assert reason == f"field 'v' is str '{'x' * 76}...; its schema wants int64 or null"


# --- accepted types -----------------------------------------------------------------------------


class Colour(str, enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (pa.int64(), np.int32(5), 5),
        (pa.int64(), Number.ONE, 1),
        (pa.float64(), 2, 2.0),
        (pa.float64(), np.float32(0.5), 0.5),
        (pa.float64(), math.inf, math.inf),
        (pa.float32(), -math.inf, -math.inf),
        (pa.float32(), 3.4028234663852886e38, 3.4028234663852886e38),
        (pa.float16(), 65504.0, 65504.0),
        (pa.string(), Colour.RED, "red"),
        (pa.string(), np.str_("x"), "x"),
        (pa.string(), "", ""),
        (pa.string(), "a\0b", "a\0b"),
        (pa.binary(), b"", b""),
        (pa.decimal128(4, 2), 5, decimal.Decimal("5.00")),
        (pa.date32(), 5, dt.date(1970, 1, 6)),
        (pa.timestamp("us"), 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5)),  # noqa: DTZ001
        (
            pa.timestamp("ms", "UTC"),
            dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc),
        ),
        (
            pa.timestamp("ms", "UTC"),
            dt.datetime.max.replace(tzinfo=dt.timezone.utc),
            dt.datetime.max.replace(microsecond=999000, tzinfo=dt.timezone.utc),
        ),
        (pa.time32("ms"), dt.time(1, 2, 3, 4_999), dt.time(1, 2, 3, 4_000)),
        (pa.duration("ms"), dt.timedelta(days=-1), dt.timedelta(days=-1)),
        (pa.timestamp("ms", "UTC"), 10**17, 10**17),
        (pa.timestamp("ns", "UTC"), 1_500, 1_500),
        (
            pa.timestamp("ns", "UTC"),
            1_000,
            dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.timezone.utc),
        ),
        (pa.list_(pa.timestamp("ms")), [10**17, None], [10**17, None]),
        (pa.struct([("t", pa.duration("ns"))]), {"t": 1}, {"t": 1}),
        (pa.map_(pa.timestamp("ns"), pa.int8()), {1: 2}, {1: 2}),
    ],
    ids=_id,
)
def test_a_value_of_a_related_class_is_stored_exactly(
    kind: pa.DataType, given: Any, read: Any
) -> None:
    """A time without an exact Python object is read as a number, which can be produced too."""
    (value,), refused = values(kind, given)
    assert (value, type(value), refused) == (read, type(read), {})


ZONED = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (pa.timestamp("ms"), ZONED, "v"),
        (pa.time64("us"), dt.time(1, tzinfo=dt.timezone.utc), "v"),
        (pa.list_(pa.timestamp("us")), [None, ZONED], "v.item"),
        (pa.map_(pa.timestamp("us"), pa.int8()), {ZONED: 1}, "v.key"),
        (pa.struct([("t", pa.time32("ms"))]), {"t": dt.time(1, tzinfo=dt.timezone.utc)}, "v.t"),
    ],
    ids=_id,
)
def test_a_time_zone_that_would_be_lost_is_refused(
    kind: pa.DataType, value: Any, path: str
) -> None:
    """pyarrow would store 10:00 in Paris as 9:00 without a zone."""
    made = of(kind)
    for _ in range(2):
        with pytest.raises(
            RowError, match=f"^field '{path}' is .* has no time zone: drop the value's zone"
        ):
            made.take({"v": value})


class Repeats(UserDict):  # type: ignore[type-arg]
    """A mapping that repeats a key, as those of HTTP headers do."""

    def items(self) -> Any:
        return [("k", 1), ("k", 2)]


def test_a_mapping_that_repeats_a_key_is_refused() -> None:
    with pytest.raises(RowError, match=r"^field 'v' has two keys that are equal as string$"):
        of(pa.map_(pa.string(), pa.int64())).take({"v": Repeats({"k": 1})})


def test_a_key_that_does_not_fit_is_refused_at_once_where_keys_have_to_be_compared() -> None:
    with pytest.raises(RowError, match=r"^field 'v.key': int 1180591620717411303424: "):
        of(pa.map_(pa.timestamp("ms"), pa.int64())).take({"v": {1 << 70: 1}})


def test_a_naive_datetime_is_utc_in_a_column_with_a_time_zone() -> None:
    naive = ZONED.replace(tzinfo=None)
    assert values(pa.timestamp("us", "UTC"), naive, ZONED, naive) == ([ZONED] * 3, {})
    assert values(pa.timestamp("us", "UTC"), naive) == ([ZONED], {})


def test_nan_stays_nan() -> None:
    ((value,), refused) = values(pa.float32(), math.nan)
    assert math.isnan(value)
    assert refused == {}


def test_nulls_are_stored_where_they_are_allowed() -> None:
    for kind in (pa.int8(), pa.float32(), pa.time32("ms"), pa.list_(pa.int8()), pa.binary(2)):
        assert values(kind, None) == ([None], {})


def test_metadata_of_the_schema_stays() -> None:
    schema = pa.schema([pa.field("v", pa.int8(), metadata={"a": "b"})], metadata={"c": "d"})
    made = columns(schema)
    assert made.builder().finish().batch.schema.equals(schema, check_metadata=True)


def test_a_chunk_has_room_for_1024_rows() -> None:
    assert of(pa.int8()).builder().capacity == CHUNK_ROWS == 1024


# --- the `_kafka` column ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [None],
        [None, [("a", b"1"), ("a", None)], [], [("", b"")]],
    ],
)
def test_headers_are_read_as_they_were_written(headers: list[Any]) -> None:
    assert kafka_column.read_headers(kafka_column.header_array(headers)) == headers


def test_a_slice_of_headers_is_read_without_the_rest() -> None:
    column = kafka_column.header_array(
        [[("a", b"1")], None, [("b", b"2"), ("c", b"3")], [("d", None)]]
    )
    assert kafka_column.read_headers(column.slice(1, 2)) == [None, [("b", b"2"), ("c", b"3")]]


@pytest.mark.parametrize(
    ("members", "names"),
    [
        (("id", "key", "timestamp", "headers"), ["segment", "row", "key", "timestamp", "headers"]),
        (("id",), ["segment", "row"]),
        (("headers",), ["headers"]),
    ],
)
def test_the_column_has_the_selected_members(members: tuple[str, ...], names: list[str]) -> None:
    column = kafka_column.KafkaColumn(members)
    batch = column.append_to(
        pa.record_batch({"n": [1, 2]}),
        segment="p-0",
        timestamps=kafka_column.timestamp_array([5, 6]),
        keys=kafka_column.key_array([b"k", None]),
        headers=kafka_column.header_array([None, [("h", b"v")]]),
    )
    assert batch.schema == column.schema(pa.schema([("n", pa.int64())]))
    whole = {
        "segment": ["p-0", "p-0"],
        "row": [0, 1],
        "key": [b"k", None],
        "timestamp": [5, 6],
        "headers": [None, [{"key": "h", "value": b"v"}]],
    }
    metadata = batch.column("_kafka")
    assert [field.name for field in metadata.type] == names
    for name in names:
        values = metadata.field(name)
        if name == "timestamp":
            values = values.cast(pa.int64())
        assert values.to_pylist() == whole[name]


def test_without_members_there_is_no_column() -> None:
    column = kafka_column.KafkaColumn(())
    schema = pa.schema([("n", pa.int64())])
    assert (column.field, column.schema(schema)) == (None, schema)
