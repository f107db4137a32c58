"""JSON objects as rows of which equal objects are made again: what fits, and what null says."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from drifting import Drifting
from hypothesis import given, settings
from hypothesis import strategies as st
from made_again import made_again
from support import examples

from columnar_kafka import RowError, SchemaError
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.plain.reversible import FirstHabits, JsonColumns, Reversible
from columnar_kafka.schema import RecordSchema

INSTANT = pa.timestamp("us", "UTC")
POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])


class Rows:
    """Objects that became rows, one after the other."""

    def __init__(self, schema: Any, rest_column: str | None = "_rest") -> None:
        self.schema = RecordSchema.parse(schema)
        self.columns = JsonColumns(self.schema, rest_column)
        self.reversible = Reversible(self.columns, FirstHabits())

    def row(self, value: str | bytes) -> dict[str, Any]:
        """Return the row of an object, with its rest."""
        data = value.encode() if isinstance(value, str) else value
        return self._named(self.reversible.taken(data)[0])

    def of_row(self, row: Any) -> dict[str, Any]:
        """Return the row of a row."""
        return self._named(self.reversible.take(row)[0])

    def _named(self, values: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.columns.records.arrow.names, values, strict=True))

    @property
    def footer(self) -> dict[str, Any]:
        """What the files of these rows say."""
        made: dict[str, Any] = json.loads(self.reversible.footer(says_null=False)["columnar.json"])
        return made

    def refusal(self, value: str) -> str:
        """Return why an object has no row."""
        with pytest.raises(RowError) as raised:
            self.row(value)
        return str(raised.value)


def of(arrow: pa.DataType) -> pa.Schema:
    return pa.schema([("f", arrow)])


@settings(max_examples=examples(400))
@given(st.integers(0, 2**64))
def test_an_equal_object_is_made_of_columns_and_rest(seed: int) -> None:
    drifting = Drifting(random.Random(seed))
    rows = Rows(drifting.schema)
    taken, kept = [], []
    for _ in range(30):
        message = drifting.message()
        try:
            taken.append(rows.reversible.taken(message.encode())[0])
            kept.append(message)
        except RowError:
            assert drifting.may_be_refused
    columns = RowColumns(rows.columns.records).convert(taken)
    assert columns.rejected == {}
    for message, row in zip(kept, columns.batch.to_pylist(), strict=True):
        assert made_again(rows.schema, row, rows.footer) == json.loads(message)


# --- what fits ------------------------------------------------------------------------------------

AVRO_UUID = {"type": {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}}


@pytest.mark.parametrize(
    ("arrow", "value"),
    [
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00Z"'),
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00.000001Z"'),
        (pa.timestamp("ms", "Europe/Berlin"), '"2026-01-31T12:00:00.120000Z"'),
        (pa.timestamp("us"), '"2026-01-31T12:00:00"'),
        (pa.time64("us"), '"12:00:00.500000"'),
        (pa.date32(), '"2026-01-31"'),
        (pa.binary(), '"AAE="'),
        (pa.decimal128(5, 2), "1.5"),
        (pa.decimal128(5, 2), "1"),
        (pa.decimal128(20, 0), "9007199254740993"),
        (pa.int64(), "7.0"),
        (pa.int64(), "9223372036854775807"),
        (pa.float64(), "9007199254740991"),
        (pa.float64(), "1e300"),
        (pa.float32(), "0.1"),
    ],
)
def test_what_is_written_equal_fits(arrow: pa.DataType, value: str) -> None:
    assert Rows(of(arrow)).row(f'{{"f":{value}}}')["_rest"] is None


@pytest.mark.parametrize(
    ("arrow", "value"),
    [
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00Z"'),
        (pa.timestamp("us", "UTC"), '"2026-01-31t12:00:00Z"'),
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00z"'),
        (pa.timestamp("us", "UTC"), '"2026-01-31T13:00:00+01:00"'),
        (pa.timestamp("us", "UTC"), '"2026-01-31T12:00:00-00:00"'),
        (pa.timestamp("us", "UTC"), "1769860800000000"),
        (pa.timestamp("ms", "UTC"), '"2026-01-31T12:00:00.123456Z"'),
        (pa.time64("us"), '"12:00"'),
        (pa.time64("us"), "43200000000"),
        (pa.date32(), "20484"),
        (pa.binary(), '"AAF="'),
        (pa.decimal128(5, 2), '"1.50"'),
        (pa.decimal128(20, 2), "9007199254740993"),
        (pa.decimal128(20, 0), "9007199254740993.0"),
        (pa.int64(), "9007199254740993.0"),
        (pa.int64(), "true"),
        (pa.float64(), "9007199254740992"),
        (pa.float64(), "100000000000000000000000"),
        (pa.float64(), "0.10000000000000001"),
        (pa.float32(), "100000000000000000000000"),
        (pa.duration("ms"), "9007199254740993.0"),
        (pa.string(), '"\\ud800"'),
    ],
)
def test_what_would_be_written_otherwise_goes_to_the_rest(arrow: pa.DataType, value: str) -> None:
    row = Rows(of(arrow)).row(f'{{"f": {value}}}')
    assert row == {"f": None, "_rest": f'{{"f":{value}}}'}


@pytest.mark.parametrize(
    ("arrow", "first", "others", "form"),
    [
        (INSTANT, "2026-01-31T12:00:00Z", ["2026-01-31T12:00:00.000000Z"], None),
        (INSTANT, "2026-01-31T12:00:00.123456Z", ["2026-01-31 12:00:00Z"], None),
        (INSTANT, "2026-01-31T12:00:00.123Z", ["2026-01-31T12:00:00.123456Z"], "T[.000]Z"),
        (INSTANT, "2026-01-31T12:00:00.000Z", ["2026-01-31T12:00:00Z"], "T.000Z"),
        (INSTANT, "2026-01-31 12:00:00.5+00:00", ["2026-01-31 12:00:00.5Z"], " [.0]+00:00"),
        (INSTANT, "2026-01-31T12:00:00", ["2026-01-31T12:00:00Z"], "T"),
        (
            pa.timestamp("ns"),
            "2026-01-31T12:00:00.000000001",
            ["2026-01-31T12:00:00.1"],
            "T[.000000000]",
        ),
        (pa.timestamp("us"), "2026-01-31T12:00:00", ["2026-01-31 12:00:00"], None),
        (pa.time64("us"), "12:00:00.000", ["12:00:00.0", "12:00:00"], ".000"),
    ],
)
def test_the_first_times_say_in_which_form_all_are_written(
    arrow: pa.DataType, first: str, others: list[str], form: str | None
) -> None:
    rows = Rows(of(arrow))
    assert rows.row(f'{{"f":"{first}"}}')["_rest"] is None
    for other in others:
        row = rows.row(f'{{"f":"{other}"}}')
        assert row == {"f": None, "_rest": f'{{"f":"{other}"}}'}
    assert rows.footer.get("times") == (None if form is None else {"f": form})


def test_a_whole_second_does_not_say_how_fractions_are_written() -> None:
    rows = Rows(of(INSTANT))
    for time in ("12:00:00", "12:00:00.123", "12:00:01"):
        assert rows.row(f'{{"f":"2026-01-31T{time}Z"}}')["_rest"] is None
    for time in ("12:00:00.000", "12:00:00.123456"):
        assert rows.row(f'{{"f":"2026-01-31T{time}Z"}}')["f"] is None


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("6f1c8d2a-1e9b-4c1b-8f5e-0d8a1a3b5c7d", True),
        ("6F1C8D2A-1E9B-4C1B-8F5E-0D8A1A3B5C7D", False),
    ],
)
def test_a_uuid_fits_as_it_is_written(value: str, fits: bool) -> None:
    fields = [{"name": "f", "type": ["null", AVRO_UUID["type"]]}]
    rows = Rows({"type": "record", "name": "r", "fields": fields})
    assert (rows.row(f'{{"f":"{value}"}}')["_rest"] is None) == fits


def test_what_is_unknown_goes_to_the_rest_also_where_it_is_null() -> None:
    row = Rows(of(POINT)).row('{"new":null,"f":{"x":1,"y":2,"z":null},"_rest":[1.0]}')
    assert row["_rest"] == '{"new":null,"f":{"z":null},"_rest":[1.0]}'


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (of(pa.int64()), "[]", "not a JSON object"),
        (of(pa.int64()), '{"f":NaN}', "not JSON"),
        (of(pa.int64()), '{"f":1,"f":2}', "more than once"),
        (of(pa.int64()), '{"f":' + "[" * 200 + "]" * 200 + "}", "200 levels"),
        (pa.schema([pa.field("f", pa.int64(), nullable=False)]), "{}", "'f' is missing"),
        (pa.schema([pa.field("f", pa.int64(), nullable=False)]), '{"f":null}', "'f' is null"),
        (pa.schema([pa.field("f", pa.int64(), nullable=False)]), '{"f":""}', "'f' is str ''"),
    ],
)
def test_what_has_no_row_is_refused(schema: pa.Schema, value: str, told: str) -> None:
    assert told in Rows(schema).refusal(value)


def test_a_default_is_not_filled_in() -> None:
    fields = [{"name": "f", "type": "long", "default": 5}]
    told = Rows({"type": "record", "name": "r", "fields": fields}).refusal("{}")
    assert told == "field 'f' is missing"


# --- null and absent ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "other", "nulls"),
    [('{"f":null}', "{}", ["f"]), ("{}", '{"f":null}', None)],
    ids=["null", "absent"],
)
def test_the_first_of_null_and_absent_is_what_null_says(
    first: str, other: str, nulls: list[str] | None
) -> None:
    rows = Rows(of(pa.int64()))
    assert [rows.row(text)["_rest"] for text in (first, other, first)] == [None, '{"f":null}', None]
    assert rows.footer.get("nulls") == nulls


def test_what_does_not_fit_says_nothing_of_null() -> None:
    rows = Rows(of(pa.int64()))
    assert rows.row('{"f":"x"}')["_rest"] == '{"f":"x"}'
    assert rows.row('{"f":null}')["_rest"] is None


def test_a_field_of_an_object_in_a_list_has_one_meaning_in_all_of_them() -> None:
    rows = Rows(of(pa.list_(POINT)))
    row = rows.row('{"f":[{"x":1},{"x":1,"y":null},null]}')
    assert row == {"f": [(1, None), (1, None), None], "_rest": '{"f":{"1":{"y":null}}}'}
    assert rows.footer == {"rest": "_rest"}


def test_null_in_a_list_or_map_says_null() -> None:
    rows = Rows(pa.schema([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))]))
    assert rows.row('{"l":[null],"m":{"a":null}}')["_rest"] is None
    assert rows.footer == {"rest": "_rest"}


def test_a_footer_has_the_paths_of_nulls_and_of_json_text() -> None:
    fields = [
        {"name": "p", "type": ["null", {"type": "string", "logicalType": "json"}]},
        {"name": "b", "type": ["null", "long"]},
    ]
    rows = Rows({"type": "record", "name": "r", "fields": fields}, "more")
    rows.row('{"p":null,"b":null}')
    assert rows.footer == {"rest": "more", "nulls": ["b", "p"], "texts": ["p"]}


def test_a_footer_may_say_that_all_nulls_are() -> None:
    text = Rows(of(POINT)).reversible.footer(says_null=True)["columnar.json"]
    assert text == b'{"rest":"_rest","nulls":["f","f.x","f.y"]}'


# --- rows, and objects that may not differ --------------------------------------------------------


def test_a_row_has_a_rest_where_its_null_would_say_absent() -> None:
    rows = Rows(pa.schema([("l", pa.list_(POINT)), ("m", pa.map_(pa.string(), POINT))]))
    rows.row('{"l":[{"x":1}],"m":{}}')
    row = rows.of_row({"l": [{"x": 1, "y": None}, None], "m": {"a": {"x": None, "y": None}}})
    assert row["_rest"] == '{"l":{"0":{"y":null}}}'
    assert rows.of_row({"l": None, "m": None})["_rest"] is None
    assert rows.footer["nulls"] == ["l", "m", "m.value.x", "m.value.y"]


def test_a_row_is_shown_without_its_rest() -> None:
    rows = Rows(of(pa.int64()))
    values, _ = rows.reversible.take({"f": 1})
    assert rows.reversible.row(values) == {"f": 1}


@pytest.mark.parametrize("value", ["{}", '{"f":"x"}', '{"f":1,"g":null}', '{"f":1,"g":1}'])
def test_objects_that_may_not_differ_have_all_fields_and_no_others(value: str) -> None:
    assert "'f'" in (told := Rows(of(pa.int64()), None).refusal(value)) or "'g'" in told


def test_objects_that_do_not_differ_need_no_rest() -> None:
    rows = Rows(of(POINT), None)
    assert rows.row('{"f":{"x":null,"y":1}}') == {"f": (None, 1)}
    assert rows.footer == {"nulls": ["f.x"]}


def test_a_rest_needs_a_name_of_its_own() -> None:
    with pytest.raises(SchemaError, match="choose another name"):
        Rows(pa.schema([("_Rest", pa.int64())]))
