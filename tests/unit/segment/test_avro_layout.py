"""What a footer says of records that were Avro."""

from __future__ import annotations

import pyarrow as pa
import pytest

from columnar_kafka import SegmentError
from columnar_kafka.segment.avro_layout import AVRO_KEY, AvroLayout, said_of
from columnar_kafka.segment.json_layout import JSON_KEY

SCHEMA = pa.schema([("a", pa.int64()), ("t", pa.string()), ("_kafka", pa.struct([]))])


def parse(text: bytes) -> AvroLayout:
    return AvroLayout.parse({AVRO_KEY: text})


def test_without_it_types_are_the_columns() -> None:
    layout = AvroLayout.parse({})
    assert (layout, layout.header) == ((None, {}), b"")
    assert layout.described(SCHEMA) == [
        ("union", [("null", None), ("long", None)]),
        ("union", [("null", None), ("string", None)]),
    ]


def test_all_that_it_may_say() -> None:
    layout = parse(b'{"id":258,"types":{"a":["long","null"],"gone":5},"later":1}')
    assert layout.header == b"\0\0\0\1\2"
    assert layout.described(SCHEMA)[0] == ("union", [("long", None), ("null", None)])
    assert AvroLayout.parse({AVRO_KEY: layout.footer()["columnar.avro"]}) == layout


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (AvroLayout(), b"{}"),
        (AvroLayout(0), b'{"id":0}'),
        (AvroLayout(None, {"\xe9": "int"}), '{"types":{"\xe9":"int"}}'.encode()),
    ],
)
def test_what_is_not_said_is_left_out(layout: AvroLayout, text: bytes) -> None:
    assert layout.footer() == {"columnar.avro": text}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it must be a JSON object"),
        (b"\xff", "it must be a JSON object"),
        (b"[]", "it must be a JSON object"),
        (b"[" * 100_000, "it must be a JSON object"),
        (b'{"id":"1"}', "id must be a whole number of 32 bits"),
        (b'{"id":-1}', "id must be a whole number of 32 bits"),
        (b'{"id":4294967296}', "id must be a whole number of 32 bits"),
        (b'{"id":true}', "id must be a whole number of 32 bits"),
        (b'{"types":[]}', "types must be an object"),
    ],
)
def test_what_is_malformed(text: bytes, reason: str) -> None:
    with pytest.raises(SegmentError, match=f"^columnar.avro is .*{reason}; with columnar.value"):
        parse(text)


def test_a_type_that_is_not_the_columns() -> None:
    layout = parse(b'{"types":{"a":["null","string"]}}')
    with pytest.raises(SegmentError, match="'a' is int64, which cannot be 'string' in Avro; with"):
        layout.described(SCHEMA)


def test_records_that_were_json_are_not_avro() -> None:
    with pytest.raises(SegmentError, match=r"set columnar\.value\.format=json"):
        AvroLayout.parse({JSON_KEY: b"{}"})


def test_what_a_footer_says_of_values() -> None:
    assert said_of(None) == {}
    assert said_of({b"x": b"1", JSON_KEY: b"2", AVRO_KEY: b"3"}) == {JSON_KEY: b"2", AVRO_KEY: b"3"}
