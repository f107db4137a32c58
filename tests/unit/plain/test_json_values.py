"""Columns and rests as JSON again: with the native core, and without it."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_segments import WithCore, WithoutCore, json_rows, slices, values
from support import examples

from columnar_kafka import SegmentError, native
from columnar_kafka.config import ReadOptions
from columnar_kafka.plain.json_values import JsonValues
from columnar_kafka.segment.json_layout import JsonLayout

if TYPE_CHECKING:
    from columnar_kafka.segment.decoder import Decoder

WAYS = ["core", "python"] if native.enabled else ["python"]
POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
TWO = [("a", pa.int64()), ("b", pa.string()), ("_rest", pa.string())]


@pytest.fixture(params=WAYS)
def decoder(request: pytest.FixtureRequest) -> Decoder:
    return WithCore() if request.param == "core" else WithoutCore()


def made(decoder: Decoder, *segment: Any) -> list[str]:
    """Return the objects of a segment of rows, which the core makes if it is on."""
    texts = [value.decode() for value in values(json_rows(*segment), decoder)]
    assert not isinstance(decoder, WithCore) or decoder.has_done_all
    return texts


# --- absent, null and the rest --------------------------------------------------------------------


def test_rows_that_were_no_json_have_all_their_fields(decoder: Decoder) -> None:
    rows = [(1, "x", None), (None, None, '{"c":1}')]
    assert made(decoder, TWO, rows) == [
        '{"a":1,"b":"x","_rest":null}',
        '{"a":null,"b":null,"_rest":"{\\"c\\":1}"}',
    ]


def test_a_null_says_what_the_footer_says(decoder: Decoder) -> None:
    rows = [(None, None, None), (1, "x", None)]
    said = {"rest": "_rest", "nulls": ["b"]}
    assert made(decoder, TWO, rows, said) == ['{"b":null}', '{"a":1,"b":"x"}']


def test_a_null_in_the_rest_says_the_opposite(decoder: Decoder) -> None:
    rows = [(None, None, '{"a":null}'), (None, None, '{"b":null}'), (None, None, None)]
    said = {"rest": "_rest", "nulls": ["b"]}
    assert made(decoder, TWO, rows, said) == ['{"a":null,"b":null}', "{}", '{"b":null}']


def test_what_has_no_column_follows(decoder: Decoder) -> None:
    rest = '{"z":{"b":[1.50,-0]},"b":5,"_rest":"r","n":null}'
    rows = [(1, None, rest)]
    assert made(decoder, TWO, rows, {"rest": "_rest"}) == [
        '{"a":1,"b":5,"z":{"b":[1.50,-0]},"_rest":"r","n":null}'
    ]


def test_a_rest_has_its_place_in_what_is_nested(decoder: Decoder) -> None:
    fields = [
        ("o", POINT),
        ("l", pa.list_(POINT)),
        ("m", pa.map_(pa.string(), POINT)),
        ("_rest", pa.string()),
    ]
    rest = {
        "o": {"z": 1, "y": None},
        "l": {"1": {"x": "one"}, "2": 7, "9": 9},
        "m": {"k": {"x": 1.5, "z": []}, "n": "no", "other": {}},
    }
    row = (
        {"x": None, "y": None},
        [{"x": 1, "y": 2}, {"x": None, "y": 3}, None, None],
        [("k", {"x": None, "y": 1}), ("n", None), ("null", None)],
        json.dumps(rest, separators=(",", ":")),
    )
    [text] = made(decoder, fields, [row], {"rest": "_rest", "nulls": ["l.item.y"]})
    assert json.loads(text) == {
        "o": {"y": None, "z": 1},
        "l": [{"x": 1, "y": 2}, {"x": "one", "y": 3}, 7, None],
        "m": {"k": {"x": 1.5, "y": 1, "z": []}, "n": "no", "null": None, "other": {}},
    }


def test_a_nested_null_is_named_by_its_path(decoder: Decoder) -> None:
    fields = [
        ("x", pa.int64()),
        ("o", POINT),
        ("l", pa.list_(POINT)),
        ("m", pa.map_(pa.string(), POINT)),
    ]
    nothing = {"x": None, "y": None}
    rows = [(None, nothing, [nothing], [("k", nothing)]), (None, None, None, None)]
    said = {"nulls": ["o.x", "l.item.y", "m.value.x", "m"]}
    assert made(decoder, fields, rows, said) == [
        '{"o":{"x":null},"l":[{"y":null}],"m":{"k":{"x":null}}}',
        '{"m":null}',
    ]


def test_what_is_empty_is_not_null(decoder: Decoder) -> None:
    fields = [
        ("o", pa.struct([("x", pa.int64())])),
        ("l", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("deep", pa.list_(pa.list_(pa.map_(pa.string(), pa.list_(pa.string()))))),
    ]
    rows = [({"x": None}, [], [], []), (None, None, None, None), (None, [None], [], [[], [[]]])]
    assert made(decoder, fields, rows, {}) == [
        '{"o":{},"l":[],"m":{},"deep":[]}',
        "{}",
        '{"l":[null],"m":{},"deep":[[],[{}]]}',
    ]


@pytest.mark.parametrize("rest", ['"x"', "[]", "{", "", '{"a":1,"a":2}', '{"a":NaN}', "{}{}"])
def test_a_rest_that_is_no_object_is_a_field(rest: str) -> None:
    """A row may have been produced with any text in this column."""
    message = json_rows(TWO, [(1, None, None), (2, None, rest)], {"rest": "_rest"})
    expected = [b'{"a":1}', b'{"a":2,"_rest":' + json.dumps(rest).encode() + b"}"]
    for decoder in (WithCore(), WithoutCore()):
        assert values(message, decoder) == expected


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (' {"c" : [ 1 , 2 ] } ', '"c":[1,2]'),
        (r'{"\u0063":"\u00e9\/"}', '"c":"é/"'),
        (r'{"c":"\ud83d\ude00"}', '"c":"😀"'),
        ('{"c":12345678901234567890e1}', '"c":12345678901234567890e1'),
    ],
)
def test_a_rest_of_another_writer_is_written_anew(rest: str, expected: str) -> None:
    message = json_rows(TWO, [(1, None, None), (2, None, rest)], {"rest": "_rest"})
    for decoder in (WithCore(), WithoutCore()):
        assert values(message, decoder) == [b'{"a":1}', f'{{"a":2,{expected}}}'.encode()]


@pytest.mark.parametrize("rest", [r'{"c":"\ud800"}', r'{"\udfff":"\ud83d\ud83d"}', r'{"\"":"\n"}'])
def test_what_has_to_be_escaped_is_as_it_was(decoder: Decoder, rest: str) -> None:
    assert made(decoder, TWO, [(None, None, rest)], {"rest": "_rest"}) == [rest]


def test_a_rest_is_as_deep_as_a_message_may_be(decoder: Decoder) -> None:
    rest = '{"c":' + "[" * 199 + "]" * 199 + "}"
    assert made(decoder, TWO, [(None, None, rest)], {"rest": "_rest"}) == [rest]


def test_many_items_have_a_rest(decoder: Decoder) -> None:
    fields = [
        ("l", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("_rest", pa.string()),
    ]
    numbers = range(20_000)
    left = {str(n): f"x{n}" for n in numbers if n % 3}
    rest = json.dumps({"l": left, "m": left}, separators=(",", ":"))
    items = [None if n % 3 else n for n in numbers]
    row = (items, list(zip(map(str, numbers), items, strict=True)), rest)
    [text] = made(decoder, fields, [row], {"rest": "_rest"})
    expected = [f"x{n}" if n % 3 else n for n in numbers]
    assert json.loads(text) == {
        "l": expected,
        "m": dict(zip(map(str, numbers), expected, strict=True)),
    }


def test_a_rest_has_many_names(decoder: Decoder) -> None:
    rest = json.dumps({f"n{n}": n for n in range(1000)}, separators=(",", ":"))
    assert made(decoder, TWO, [(None, None, rest)], {"rest": "_rest"}) == [rest]


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrow", "value", "expected"),
    [
        (pa.bool_(), True, "true"),
        (pa.int8(), -128, "-128"),
        (pa.uint32(), 2**32 - 1, "4294967295"),
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.uint64(), 2**64 - 1, "18446744073709551615"),
        (pa.float64(), 1e16, "1e+16"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), math.nan, "null"),
        (pa.float32(), 0.1, "0.1"),
        (pa.float32(), -math.inf, "null"),
        (pa.float32(), 2.0**-149, "1e-45"),
        (pa.float32(), 2.0**100, "1.2676506e+30"),
        (pa.float16(), 0.1, "0.1"),
        (pa.string(), 'é"\\\n\x01\U0001f600', '"é\\"\\\\\\n\\u0001\U0001f600"'),
        (pa.large_string(), "", '""'),
        (pa.binary(), b"\xfb\xff", '"+/8="'),
        (pa.binary(3), b"abc", '"YWJj"'),
        (pa.date32(), dt.date(1, 1, 1), '"0001-01-01"'),
        (pa.date32(), -719163, "-719163"),
        (pa.timestamp("ms", "UTC"), 1500, '"1970-01-01T00:00:01.500000Z"'),
        (pa.timestamp("us"), -1, '"1969-12-31T23:59:59.999999"'),
        (pa.timestamp("ns", "UTC"), 1, '"1970-01-01T00:00:00.000000001Z"'),
        (pa.timestamp("ns"), 1000, '"1970-01-01T00:00:00.000001"'),
        (pa.timestamp("us", "Europe/Berlin"), 0, '"1970-01-01T00:00:00Z"'),
        (pa.timestamp("us", "+05:30"), 253402300800000000 - 1, '"9999-12-31T23:59:59.999999Z"'),
        (pa.timestamp("us", "-05:30"), 253402300800000000, "253402300800000000"),
        (pa.timestamp("ms"), -62135596800001, "-62135596800001"),
        (pa.time32("ms"), dt.time(23, 59, 59, 999000), '"23:59:59.999000"'),
        (pa.time64("ns"), 1, '"00:00:00.000000001"'),
        (pa.time64("us"), dt.time(1), '"01:00:00"'),
        (pa.duration("s"), dt.timedelta(days=1), "86400"),
        (pa.duration("ns"), 1, "1"),
        (pa.duration("us"), -(2**63), "-9223372036854775808"),
        (pa.decimal128(5, 2), Decimal("-0.05"), "-0.05"),
        (pa.decimal128(5, 2), Decimal(3), "3.00"),
        (pa.decimal128(38, 38), Decimal("1E-38"), "0." + "0" * 37 + "1"),
        (pa.decimal256(76, 0), Decimal(10**75), "1" + "0" * 75),
        (pa.map_(pa.int64(), pa.int64()), [(-1, 2)], '{"-1":2}'),
        (pa.map_(pa.bool_(), pa.int64()), [(True, 2)], '{"true":2}'),
        (pa.map_(pa.binary(), pa.int64()), [(b"a", 2)], '{"YQ==":2}'),
        (pa.map_(pa.string(), pa.int64()), [('"', 2)], '{"\\"":2}'),
        (pa.list_(pa.int64(), 2), [1, None], "[1,null]"),
    ],
)
def test_each_type_has_its_form(
    decoder: Decoder, arrow: pa.DataType, value: Any, expected: str
) -> None:
    fields = [("v", arrow), ("s", pa.struct([("l", pa.list_(arrow))]))]
    rows = [(one, {"l": [one, None]}) for one in [value, None]]
    assert made(decoder, fields, rows, {}) == [
        f'{{"v":{expected},"s":{{"l":[{expected},null]}}}}',
        '{"s":{"l":[null,null]}}',
    ]


def test_the_footer_says_which_texts_are_json_and_which_bytes_are_uuids(decoder: Decoder) -> None:
    fields = [("p", pa.string()), ("u", pa.binary(16)), ("o", pa.struct([("p", pa.string())]))]
    row = ('{"a":[1.0,null]}', bytes(range(16)), {"p": '"x"'})
    said = {"texts": ["p"], "uuids": ["u", "p"]}
    assert made(decoder, fields, [row], said) == [
        '{"p":{"a":[1.0,null]},"u":"00010203-0405-0607-0809-0a0b0c0d0e0f","o":{"p":"\\"x\\""}}'
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("x", '"x"'), ("", '""'), ("[1, 2]", "[1,2]"), ("1,2", '"1,2"')]
)
def test_json_text_may_be_any_text(text: str, expected: str) -> None:
    message = json_rows([("p", pa.string())], [("1",), (text,)], {"texts": ["p"]})
    for decoder in (WithCore(), WithoutCore()):
        assert values(message, decoder) == [b'{"p":1}', f'{{"p":{expected}}}'.encode()]


# --- as orjson ------------------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False) | st.sampled_from(
    [1e15, 1e16, 1e17, 1e-4, 1e-5, 1e-6, 1e-7, 5e-324, sys.float_info.max, 123456789012345678.0]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
OBJECTS = st.fixed_dictionaries(
    {
        'na"me\n': TEXTS,
        "f": FLOATS,
        "n": st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(st.none() | st.lists(FLOATS, max_size=3), max_size=3),
        "m": st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
        "o": st.none() | st.fixed_dictionaries({"x": st.none() | FLOATS, "é": TEXTS}),
    }
)
FIELDS = [
    ('na"me\n', pa.string()),
    ("f", pa.float64()),
    ("n", pa.int64()),
    ("b", pa.bool_()),
    ("l", pa.list_(pa.list_(pa.float64()))),
    ("m", pa.map_(pa.string(), pa.string())),
    ("o", pa.struct([("x", pa.float64()), ("é", pa.string())])),
]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=examples(200))
@given(objects=st.lists(OBJECTS, min_size=1, max_size=5))
def test_an_object_is_as_orjson_writes_it(way: str, objects: list[dict[str, Any]]) -> None:
    rows = [[*each.values()] for each in map(in_order, objects)]
    decoder = WithCore() if way == "core" else WithoutCore()
    expected = [orjson.dumps(in_order(each)).decode() for each in objects]
    assert made(decoder, FIELDS, rows) == expected


def in_order(each: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its fields in the order of the columns."""
    record = each["o"] and {"x": each["o"]["x"], "é": each["o"]["é"]}
    return {**{name: each[name] for name, _ in FIELDS}, "o": record}


# --- slices ---------------------------------------------------------------------------------------


def test_large_objects_come_a_few_at_a_time(decoder: Decoder) -> None:
    """Columns have a text once that many objects have."""
    text = "x" * (1 << 20)
    message = json_rows([("t", pa.string())], [(text,)] * 20)
    counts = [len(some) for _, some in slices(message, decoder, 0, 1000)]
    assert counts == [4, 4, 4, 4, 4]


def test_reading_begins_in_any_row(decoder: Decoder) -> None:
    fields = [("n", pa.int64()), ("l", pa.list_(pa.int64())), ("_rest", pa.string())]
    rows = [
        (n if n % 3 else None, [n] * (n % 4), f'{{"r":{n}}}' if n % 5 == 0 else None)
        for n in range(1000)
    ]
    message = json_rows(fields, rows, {"rest": "_rest"})
    expected = values(message, decoder)
    assert json.loads(expected[999]) == {"l": [999] * 3}
    assert json.loads(expected[995]) == {"n": 995, "l": [995] * 3, "r": 995}
    for start in (0, 1, 511, 512, 513, 999):
        assert values(message, decoder, start) == expected[start:]


def test_slices_follow_each_other_where_python_goes_on() -> None:
    """The core gives up where a rest is another writer's; what it has made, it has made."""
    rests = [None] * 700 + ['{ "c":1}'] + [None] * 700
    message = json_rows(TWO, [(n, None, rest) for n, rest in enumerate(rests)], {"rest": "_rest"})
    found = list(slices(message, WithCore()))
    ends = [row + len(some) for row, some in found]
    assert [row for row, _ in found] == [0, *ends[:-1]]
    assert [value for _, some in found for value in some] == values(message, WithoutCore())


@pytest.mark.parametrize("arrow", [pa.list_, lambda item: pa.map_(pa.string(), item)])
def test_an_object_may_be_as_large_as_columns_may(decoder: Decoder, arrow: Any) -> None:
    """A long name is in a file once, and in each item of a list."""
    is_list = arrow is pa.list_
    items = [{"x" * 1000: n} for n in range(1000)]
    value = items if is_list else [(str(n), item) for n, item in enumerate(items)]
    fields = [("l", arrow(pa.struct([("x" * 1000, pa.int64())])))]
    message = json_rows(fields, [([],), (value,), ([],)])
    whole = values(message, decoder)
    size = len(whole[1])
    assert size > 1_000_000
    limited = type(decoder)(ReadOptions(max_decoded_bytes=size))
    assert values(message, limited) == whole
    limited = type(decoder)(ReadOptions(max_decoded_bytes=size - 1))
    with pytest.raises(SegmentError, match=f"more than {size - 1} bytes as JSON.*decoded.bytes"):
        values(message, limited)


def test_a_stack_that_is_too_short_is_the_segments_error() -> None:
    make = JsonValues(pa.schema(TWO), JsonLayout("_rest", frozenset()), 1 << 20)
    rest = '{"c":' + "[" * 199 + "]" * 199 + "}"

    def deeper(levels: int) -> bytes:
        return deeper(levels - 1) if levels else make({"a": 1, "b": None, "_rest": rest})

    def ends(levels: int) -> str:
        try:
            return type(deeper(levels)).__name__
        except (SegmentError, RecursionError) as error:
            return type(error).__name__

    limit = sys.getrecursionlimit()
    outcomes = [ends(levels) for levels in range(limit - 700, limit - 100, 5)]
    assert {"bytes", "SegmentError"} <= set(outcomes) <= {"bytes", "SegmentError", "RecursionError"}
