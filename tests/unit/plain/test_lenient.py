"""JSON that differs from its schema: each rule of what lands, what is left, and what is refused."""

from __future__ import annotations

import datetime
import decimal
import json
import random
from typing import Any

import pyarrow as pa
import pytest
from drifting import Drifting, comparable, values_of
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka import ConfigError, SchemaError
from columnar_kafka.plain import Lenient, restored
from columnar_kafka.plain.row_formats import ROW_FORMATS
from columnar_kafka.schema import RecordSchema

UTC = datetime.timezone.utc
POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])


def decoded(schema: Any, *values: bytes | str, **rules: Any) -> tuple[list[Any], dict[int, str]]:
    """Return the rows of values, and the reasons why others have none."""
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    rows = ROW_FORMATS["json"].open(schema, lenient=Lenient(**rules))
    table, errors = rows.decode(texts)
    table.validate(full=True)
    return table.to_pylist(), errors


def row(schema: Any, value: bytes | str, **rules: Any) -> Any:
    """Return the row of a value."""
    rows, errors = decoded(schema, value, **rules)
    assert errors == {}
    return rows[0]


def refusal(schema: Any, value: bytes | str, **rules: Any) -> str:
    """Return why a value has no row."""
    rows, errors = decoded(schema, value, **rules)
    assert rows == []
    return errors[0]


def of(arrow: pa.DataType) -> pa.Schema:
    return pa.schema([("f", arrow)])


def required(arrow: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("f", arrow, nullable=False)])


# --- columns and rest are the message -------------------------------------------------------------


@settings(max_examples=examples(400))
@given(st.integers(0, 2**64))
def test_columns_and_rest_are_the_message(seed: int) -> None:
    rng = random.Random(seed)
    drifting = Drifting(rng)
    messages = [drifting.message().encode(errors="surrogatepass") for _ in range(30)]
    lenient = Lenient(path=rng.choice(["", "", "/a/b~1c"]))
    if lenient.path:
        messages = [b'{"z": 1.0, "a": {"q": null, "b/c": %s, "r": [1]}}' % m for m in messages]
    rows = ROW_FORMATS["json"].open(drifting.schema, lenient=lenient)
    table, errors = rows.decode(messages)
    assert not errors or drifting.may_be_refused
    landed = [message for index, message in enumerate(messages) if index not in errors]
    for message, made in zip(landed, table.to_pylist(), strict=True):
        again = restored(made, drifting.schema, path=lenient.path)
        assert comparable(again) == values_of(message)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**64))
def test_an_object_that_fits_has_no_rest_and_is_the_row_of_exact(seed: int) -> None:
    drifting = Drifting(random.Random(seed))
    messages = [drifting.message().encode(errors="surrogatepass") for _ in range(30)]
    exact = rows_by_index(drifting.schema, messages, None)
    for index, made in rows_by_index(drifting.schema, messages, Lenient()).items():
        if made.pop("_rest") is None and index in exact:
            same, expected = (restored(row, drifting.schema) for row in (made, exact[index]))
            assert comparable(same) == comparable(expected)


def rows_by_index(
    schema: Any, messages: list[bytes], lenient: Lenient | None
) -> dict[int, dict[str, Any]]:
    table, errors = ROW_FORMATS["json"].open(schema, lenient=lenient).decode(messages)
    landed = [index for index in range(len(messages)) if index not in errors]
    return dict(zip(landed, table.to_pylist(), strict=True))


# --- what is missing ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["{}", '{"f": null}'])
def test_a_missing_field_is_null(value: str) -> None:
    assert row(of(pa.int64()), value) == {"f": None, "_rest": None}


@pytest.mark.parametrize("value", ['{"s": {"x": 1}}', '{"s": {"x": 1, "y": null}}'])
def test_a_missing_field_of_a_nested_object_is_null(value: str) -> None:
    assert row(pa.schema([("s", POINT)]), value) == {"s": {"x": 1, "y": None}, "_rest": None}


def avro(**field: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", **field}]}


@pytest.mark.parametrize("value", ["{}", '{"f": null}'])
def test_a_missing_field_that_may_not_be_null_has_its_default(value: str) -> None:
    assert row(avro(type="long", default=5), value)["f"] == 5


@pytest.mark.parametrize("value", ["{}", '{"f": null}'])
def test_the_default_of_a_field_that_may_be_null_does_not_count(value: str) -> None:
    assert row(avro(type=["long", "null"], default=5), value)["f"] is None


def test_a_missing_field_that_may_not_be_null_is_refused_by_its_name() -> None:
    schema = required(pa.int64())
    assert refusal(schema, "{}") == "field 'f' is missing, and has no default"
    told = "field 'f' is null, and its schema does not allow null"
    assert refusal(schema, '{"f": null}') == told


def test_an_object_that_lacks_a_required_field_is_whole_in_the_rest_if_it_may_be_null() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())])
    made = row(of(inner), '{"f": {"y": 1}}')
    assert made == {"f": None, "_rest": '{"f":{"y":1}}'}
    assert refusal(required(inner), '{"f": {"y": 1}}').startswith("field 'f.x' is missing")


# --- what no column has ---------------------------------------------------------------------------


UNKNOWN = '{"new": {"a": [1.0, null]}, "s": {"z": "é", "x": 1}, "f": 2, "none": null}'
FIELDS = pa.schema([("f", pa.int64()), ("s", POINT)])


def test_an_unknown_field_goes_to_the_rest_at_its_path_in_the_messages_order() -> None:
    made = row(FIELDS, UNKNOWN)
    assert made == {
        "f": 2,
        "s": {"x": 1, "y": None},
        "_rest": '{"new":{"a":[1.0,null]},"s":{"z":"é"}}',
    }


def test_unknown_fields_can_be_ignored_and_misfits_kept() -> None:
    assert row(FIELDS, UNKNOWN, unknown="ignore")["_rest"] is None
    value = '{"f": "x", "new": 1, "s": {"z": 1, "x": []}}'
    assert row(FIELDS, value, unknown="ignore")["_rest"] == '{"f":"x","s":{"x":[]}}'


def test_unknown_fields_in_items_of_lists_stand_by_index() -> None:
    made = row(of(pa.list_(POINT)), '{"f": [{"x": 1}, {"x": 2, "new": 3}, null, 4]}')
    assert made["f"] == [{"x": 1, "y": None}, {"x": 2, "y": None}, None, None]
    assert made["_rest"] == '{"f":{"1":{"new":3},"3":4}}'


def test_unknown_fields_in_values_of_a_map_stand_by_name() -> None:
    made = row(of(pa.map_(pa.string(), POINT)), '{"f": {"a": {"x": 1}, "b": {"new": 3}, "c": 1}}')
    assert made["f"] == [("a", {"x": 1, "y": None}), ("b", {"x": None, "y": None}), ("c", None)]
    assert made["_rest"] == '{"f":{"b":{"new":3},"c":1}}'


def test_a_field_whose_name_differs_in_case_is_another() -> None:
    assert row(of(pa.int64()), '{"F": 1, "f": 2}') == {"f": 2, "_rest": '{"F":1}'}


@pytest.mark.parametrize(
    "name", ["", "a.b", "\x00\x1f", "\x7f", "n" * 10_000, "_rest", "_kafka", "\ud83d", 'q"\\/']
)
def test_a_field_of_any_name_goes_to_the_rest(name: str) -> None:
    value = json.dumps({name: {name: 1}})
    made = row(of(pa.int64()), value)
    assert restored(made) == json.loads(value)


def test_100_000_fields_go_to_the_rest() -> None:
    value = json.dumps({f"n{number}": number for number in range(100_000)})
    assert restored(row(of(pa.int64()), value)) == json.loads(value)
    repeated = value[:-1] + ', "n99999": 1}'
    assert "has the name str 'n99999' more than once" in refusal(of(pa.int64()), repeated)


def test_there_is_no_column_of_a_rest_that_cannot_be() -> None:
    rules = {"unknown": "ignore", "misfit": "dead-letter"}
    assert row(of(pa.int64()), '{"f": 1, "new": 2}', **rules) == {"f": 1}


def test_the_rest_has_the_name_that_it_is_given() -> None:
    made = row(of(pa.int64()), '{"new": 2}', rest_column="others")
    assert made == {"f": None, "others": '{"new":2}'}
    assert restored(made, rest_column="others") == {"new": 2}


@pytest.mark.parametrize("name", ["f", "F"])
def test_the_rest_may_not_have_the_name_of_a_column(name: str) -> None:
    with pytest.raises(SchemaError, match=f"the rest is '{name}', and so is a field"):
        decoded(of(pa.int64()), rest_column=name)


# --- what does not fit ----------------------------------------------------------------------------


DECIMAL = pa.decimal128(5, 2)
MOMENT = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("arrow", "text", "value"),
    [
        (pa.int64(), "7.0", 7),
        (pa.int64(), "1e2", 100),
        (pa.int64(), "-0.0", 0),
        (pa.int64(), "70e-1", 7),
        (pa.int64(), "0e99999", 0),
        (pa.int8(), "-128", -128),
        (pa.uint64(), "18446744073709551615", 2**64 - 1),
        (pa.float64(), "7", 7.0),
        (pa.float64(), "0.1", 0.1),
        (pa.float64(), "1.50", 1.5),
        (pa.float64(), "0.30000000000000004", 0.1 + 0.2),
        (pa.float64(), "9007199254740992", 2.0**53),
        (pa.float32(), "0.1", 0.10000000149011612),
        (pa.float32(), "16777216", 2.0**24),
        (pa.float16(), "0.1", 0.0999755859375),
        (DECIMAL, "1.5", decimal.Decimal("1.50")),
        (DECIMAL, "1.500", decimal.Decimal("1.50")),
        (DECIMAL, "1e2", decimal.Decimal("100.00")),
        (pa.string(), '"5"', "5"),
        (pa.bool_(), "false", False),
        (pa.binary(), '"AQ=="', b"\x01"),
        (pa.date32(), '"2024-01-01"', MOMENT.date()),
        (pa.date32(), "19723.0", MOMENT.date()),
        (pa.date32(), "2932896", datetime.date.max),
        (pa.date32(), "-719162", datetime.date.min),
        (pa.timestamp("ms", "UTC"), '"2024-01-01T13:00+01:00"', MOMENT),
        (pa.timestamp("ms", "UTC"), '"2024-01-01T12:00:00.000000"', MOMENT),
        (pa.timestamp("ms", "UTC"), "1704110400000", MOMENT),
        (pa.time64("us"), '"12:00"', MOMENT.time()),
        (pa.duration("ms"), "1500", datetime.timedelta(seconds=1.5)),
        (pa.list_(pa.int64(), 2), "[1, 2.0]", [1, 2]),
    ],
)
def test_a_value_fits_of_which_nothing_is_lost(arrow: Any, text: str, value: Any) -> None:
    assert row(of(arrow), f'{{"f": {text}}}') == {"f": value, "_rest": None}


NO_TIMES = ["true", '"2024-02-30"', '"noon"', "1.5", "{}"]
MISFITS = [
    (pa.int64(), ["1.5", '"5"', "true", "9223372036854775808", "1e400", "9" * 400, "[1]", "{}"]),
    (pa.int8(), ["128", "-129.0"]),
    (pa.uint8(), ["-1", "256"]),
    (pa.float64(), ["9007199254740993", "1e400", "1e-400", "0.1000000000000000055", '"1"']),
    (pa.float64(), ["9" * 400, "true", "[]", "0." + "1" * 40]),
    (pa.float32(), ["0.12345678901", "16777217", "1e39", "1e-50"]),
    (pa.float16(), ["0.10001", "65520"]),
    (DECIMAL, ["1.001", "1000", '"1.50"', "1e-3", "1e5000", "true"]),
    (pa.string(), ["5", "1.0", "true", "[]", "{}", '"\\ud83d"', '"\\udc00\\ud83d"']),
    (pa.bool_(), ["0", "1", '"true"', "[]"]),
    (pa.binary(), ['"AQ"', '"AR=="', '"A Q="', "5"]),
    (pa.binary(2), ['"AQ=="', '"AQIC"']),
    (pa.date32(), [*NO_TIMES, "2932897", "-719163", "1e9"]),
    (pa.time64("us"), [*NO_TIMES, '"12:00:00.0000001"', "86400000000"]),
    (pa.timestamp("ms", "UTC"), [*NO_TIMES, '"2024-01-01T12:00:00.0001Z"', "253402300800000"]),
    (pa.timestamp("us", "UTC"), ['"9999-12-31T23:59:59-01:00"', '"0001-01-01T00:00+01:00"']),
    (pa.timestamp("us", "UTC"), ["9e18", "-62135596800000001"]),
    (pa.timestamp("ms"), [*NO_TIMES, '"2024-01-01T12:00:00Z"']),
    (POINT, ["1", '"x"', "[]", "true"]),
    (pa.list_(pa.int64()), ["1", '"x"', "{}", "true"]),
    (pa.list_(pa.int64(), 2), ["[1]", "[1,2,3]"]),
    (pa.map_(pa.string(), pa.int64()), ["1", '"x"', "[]"]),
]


@pytest.mark.parametrize(
    ("arrow", "text"), [(arrow, text) for arrow, texts in MISFITS for text in texts]
)
def test_a_value_that_does_not_fit_is_null_and_goes_to_the_rest_as_it_is(
    arrow: Any, text: str
) -> None:
    assert row(of(arrow), f'{{"f": {text}}}') == {"f": None, "_rest": f'{{"f":{text}}}'}
    rules = {"misfit": "dead-letter"}
    assert refusal(of(arrow), f'{{"f": {text}}}', **rules).startswith("field 'f'")
    assert refusal(required(arrow), f'{{"f": {text}}}').startswith("field 'f'")


def test_an_enum_has_its_symbols_only() -> None:
    symbols = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    schema = avro(type=["null", symbols])
    assert row(schema, '{"f": "B"}') == {"f": "B", "_rest": None}
    assert row(schema, '{"f": "C"}') == {"f": None, "_rest": '{"f":"C"}'}


def test_a_uuid_fits_in_the_form_in_which_it_is_told() -> None:
    name = {"type": "fixed", "size": 16, "name": "U", "logicalType": "uuid"}
    schema, text = avro(type=["null", name]), "12345678-aaaa-bbbb-cccc-000000000005"
    made = row(schema, f'{{"f": "{text}"}}')
    assert made["_rest"] is None
    assert restored(made, schema) == {"f": text}
    assert row(schema, f'{{"f": "{text.upper()}"}}')["f"] is None
    assert row(schema, f'{{"f": "{text.upper()}"}}', coerce=True)["_rest"] is None


def test_a_name_that_is_no_unicode_leaves_a_map_for_the_rest() -> None:
    made = row(of(pa.map_(pa.string(), pa.int64())), '{"f": {"a": 1, "\\ud83d": 2}}')
    assert made == {"f": [("a", 1)], "_rest": '{"f":{"\\ud83d":2}}'}


def test_an_item_that_may_not_be_null_takes_its_list_along() -> None:
    strict = pa.list_(pa.field("item", pa.int64(), nullable=False))
    assert row(of(strict), '{"f": [1, "x"]}') == {"f": None, "_rest": '{"f":[1,"x"]}'}
    assert row(of(strict), '{"f": [1, null]}') == {"f": None, "_rest": '{"f":[1,null]}'}


def test_a_refusal_has_the_text_of_exact() -> None:
    schema = required(pa.int64())
    for text in ("1.5", '"x"', "true", "{}", "[1]", "9223372036854775808"):
        value = f'{{"f": {text}}}'.encode()
        _, errors = ROW_FORMATS["json"].open(schema).decode([value])
        assert refusal(schema, value) == errors[0]


def test_one_value_that_does_not_fit_spoils_no_other() -> None:
    rows, errors = decoded(required(pa.int64()), '{"f": 1}', '{"f": "x"}', '{"f": 3, "new": 1}')
    assert [made["f"] for made in rows] == [1, 3]
    assert list(errors) == [1]


# --- coercion -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrow", "text", "value"),
    [
        (pa.int64(), '"7"', 7),
        (pa.int64(), '"7.0"', 7),
        (pa.float64(), '"-1.5e3"', -1500.0),
        (DECIMAL, '"1.5"', decimal.Decimal("1.50")),
        (pa.bool_(), '"true"', True),
        (pa.bool_(), '"false"', False),
        (pa.string(), "1.50", "1.50"),
        (pa.string(), "-1E+2", "-1E+2"),
        (pa.timestamp("ms", "UTC"), '"2024-01-01T12:00:00.0001Z"', MOMENT),
    ],
)
def test_texts_and_numbers_stand_for_each_other_if_that_is_wanted(
    arrow: Any, text: str, value: Any
) -> None:
    message = f'{{"f": {text}}}'
    assert row(of(arrow), message, coerce=True) == {"f": value, "_rest": None}
    assert row(of(arrow), message)["f"] is None


@pytest.mark.parametrize(
    ("arrow", "texts"),
    [
        (pa.int64(), ['"x"', '""', '" 7"', '"07"', '"+7"', '"1.5"', '"NaN"', '"0x1"', "true"]),
        (pa.float64(), ['"9007199254740993"', '"Infinity"']),
        (pa.bool_(), ['"True"', "1", '"1"']),
        (pa.string(), ["true", "[]"]),
        (pa.binary(), ["1"]),
    ],
)
def test_nothing_else_is_coerced(arrow: Any, texts: list[str]) -> None:
    for text in texts:
        made = row(of(arrow), f'{{"f": {text}}}', coerce=True)
        assert made == {"f": None, "_rest": f'{{"f":{text}}}'}


# --- JSON text ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1.0", '"é\\ud83d"', "true", "[1,{}]", '{"b":null,"a":1e2}'])
def test_a_column_of_json_text_takes_every_value(text: str) -> None:
    schema = avro(type=["null", {"type": "string", "logicalType": "json"}])
    made = row(schema, f'{{"f": {text}}}')
    assert made == {"f": text, "_rest": None}
    assert comparable(restored(made, schema)) == values_of(f'{{"f": {text}}}')
    assert row(schema, '{"f": null}') == {"f": None, "_rest": None}


# --- messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"", "it is not JSON: Expecting value"),
        (b"{", "it is not JSON: Expecting property name"),
        (b"{} {}", "it is not JSON: Extra data"),
        (b'{"f": NaN}', "it is not JSON: NaN is no number in JSON"),
        (b'{"new": -Infinity}', "it is not JSON: -Infinity is no number in JSON"),
        (b'{"f": "\xff"}', "it is not JSON: 'utf-8' codec can't decode"),
        (b"\xef\xbb\xbf{}", "it is not JSON: "),
        (b"[{}]", "it is list [{}], not a JSON object"),
        (b"1", "it is int 1, not a JSON object"),
        (b'"x"', "it is str 'x', not a JSON object"),
        (b"null", "it is NoneType None, not a JSON object"),
        (b'{"f": 1, "f": 1}', "an object in it has the name str 'f' more than once"),
        (b'{"new": [{"a": 1, "\\u0061": 2}]}', "an object in it has the name str 'a' more"),
        (
            b'{"f": 1e99999999999999999999}',
            "it is not JSON: 1e99999999999999999999 has an exponent",
        ),
        (b'{"new": ' + b"[" * 200 + b"]" * 200 + b"}", "it is nested more than 200 levels deep"),
        (b'{"a":' * 1000 + b"1" + b"}" * 1000, "it is nested more than 200 levels deep"),
        (b'{"a":' * 100_000, "it is nested more than 200 levels deep"),
    ],
)
def test_a_message_is_refused_for_a_reason(value: bytes, told: str) -> None:
    assert refusal(of(pa.int64()), value).startswith(told)


def test_200_levels_are_not_too_deep() -> None:
    value = '{"a":' * 199 + "[]" + "}" * 199
    assert row(of(pa.int64()), value)["_rest"] == value


def test_brackets_in_texts_are_no_levels() -> None:
    assert row(of(pa.string()), json.dumps({"f": "{[" * 500}))["_rest"] is None


# --- envelopes ------------------------------------------------------------------------------------


def test_the_object_at_a_path_is_the_row_and_what_is_beside_it_is_left() -> None:
    value = '{"schema": {"v": 1}, "payload": {"f": 1, "x": 2}, "none": null}'
    made = row(of(pa.int64()), value, path="/payload")
    assert made == {"f": 1, "_rest": '{"schema":{"v":1},"payload":{"x":2}}'}
    assert restored(made, path="/payload") == {"schema": {"v": 1}, "payload": {"f": 1, "x": 2}}
    made = row(of(pa.int64()), value, path="/payload", unknown="ignore")
    assert made == {"f": 1, "_rest": None}
    assert restored(made, path="/payload") == {"payload": {"f": 1}}


def test_a_path_has_escapes() -> None:
    made = row(of(pa.int64()), '{"a/b": {"~1": {"": {"f": 1}}}}', path="/a~1b/~01/")
    assert made == {"f": 1, "_rest": None}


@pytest.mark.parametrize("value", ["{}", '{"p": null}', '{"p": [{}]}', '{"p": "{}"}', '{"P": {}}'])
def test_a_message_without_an_object_at_the_path_is_refused(value: str) -> None:
    assert refusal(of(pa.int64()), value, path="/p") == "it has no object at '/p'"


# --- the rules themselves -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"unknown": "drop"}, "unknown is 'drop': it must be rest or ignore"),
        ({"misfit": "null"}, "misfit is 'null': it must be rest or dead-letter"),
        ({"rest_column": ""}, "rest_column is empty"),
        ({"path": "payload"}, "path is 'payload': it must be a JSON pointer"),
        ({"path": "/a~2"}, "path is '/a~2': it must be a JSON pointer"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Lenient(**rules)


def test_a_map_with_other_keys_than_texts_is_refused() -> None:
    with pytest.raises(SchemaError, match="field 'f' is a map with keys of type int64"):
        decoded(of(pa.map_(pa.int64(), pa.int64())))


# --- rows restored --------------------------------------------------------------------------------


def test_a_row_without_a_rest_is_restored() -> None:
    made = {"f": 1, "_kafka": {"row": 1}, "none": None, "_rest": None}
    assert restored(made) == {"f": 1}


def test_maps_are_restored_from_all_that_engines_make_of_them() -> None:
    schema = of(pa.map_(pa.string(), POINT))
    point = {"x": 1, "y": None}
    for value in ([("a", point)], [{"key": "a", "value": point}], {"a": point}):
        made = {"f": value, "_rest": '{"f":{"a":{"z":2}}}'}
        assert restored(made, schema) == {"f": {"a": {"x": 1, "z": 2}}}
    assert restored({"f": []}, schema) == {"f": {}}


def test_a_schema_may_be_what_decodes_messages() -> None:
    schema = avro(type={"type": "string", "logicalType": "json"})
    for form in (schema, json.dumps(schema), [schema]):
        assert restored({"f": "[1]"}, form) == {"f": [1]}
    assert RecordSchema.parse(schema).json_texts == {"f"}


def test_values_that_json_does_not_have_are_restored_as_text() -> None:
    made = {
        "bytes": b"\x01",
        "day": MOMENT.date(),
        "time": MOMENT.time(),
        "at": MOMENT.astimezone(datetime.timezone(datetime.timedelta(hours=1))),
        "local": MOMENT.replace(tzinfo=None),
    }
    assert restored(made) == {
        "bytes": "AQ==",
        "day": "2024-01-01",
        "time": "12:00:00",
        "at": "2024-01-01T12:00:00Z",
        "local": "2024-01-01T12:00:00",
    }
