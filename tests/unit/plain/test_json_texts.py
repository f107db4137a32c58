"""JSON texts are taken and refused as RFC 8259 says, by every way in which they are read."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from drifting import comparable, values_of
from json_texts import ACCEPTED, AMBIGUOUS, REFUSED
from landed_alike import assert_lands_alike

from columnar_kafka import native
from columnar_kafka.ingest import Decoding
from columnar_kafka.plain import Lenient, restored
from columnar_kafka.plain.row_formats import ROW_FORMATS

JSON_TEXT = {"type": "string", "logicalType": "json"}
ANY = {"type": "record", "name": "R", "fields": [{"name": "f", "type": ["null", JSON_TEXT]}]}
RULES = {"exact": None, "lenient": Lenient()}
TYPES = [
    *(pa.int64(), pa.float64(), pa.float32(), pa.bool_(), pa.string(), pa.decimal128(38, 5)),
    *(pa.list_(pa.float64()), pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.int64())])),
]


def message(text: bytes, name: bytes = b"f") -> bytes:
    return b'{"' + name + b'":' + text + b"}"


def row_of(value: bytes, rules: Lenient | None) -> dict[str, Any] | None:
    """Return the row of a message; None if it is refused."""
    table, errors = ROW_FORMATS["json"].open(ANY, lenient=rules).decode([value])
    assert len(errors) + len(table) == 1
    return None if errors else dict(table.to_pylist()[0])


@pytest.mark.parametrize("fields", RULES)
def test_what_is_accepted_lands_as_what_it_is(fields: str) -> None:
    for text in ACCEPTED:
        made = row_of(message(text), RULES[fields])
        assert made is not None, text
        assert comparable(restored(made, ANY)) == values_of(message(text)), text


def test_what_is_accepted_is_left_as_what_it_is() -> None:
    for text in ACCEPTED:
        made = row_of(message(text, b"unknown"), RULES["lenient"])
        assert made is not None, text
        assert comparable(restored(made, ANY)) == values_of(message(text, b"unknown")), text


@pytest.mark.parametrize("name", [b"f", b"unknown"])
@pytest.mark.parametrize("fields", RULES)
def test_what_is_refused_is_refused(fields: str, name: bytes) -> None:
    for text in REFUSED:
        assert row_of(message(text, name), RULES[fields]) is None, text


@pytest.mark.parametrize("fields", RULES)
def test_a_message_is_an_object_with_nothing_around_it_but_blanks(fields: str) -> None:
    for value in (b'{"f":1}', b' \t\r\n{"f":1}\n ', b'{ "f" : 1 }'):
        assert row_of(value, RULES[fields]) is not None, value
    for value in [*REFUSED, b'{"f":1}x', b'{"f":1} {"f":1}', b'x{"f":1}', b'{"f":1}\x00']:
        assert row_of(value, RULES[fields]) is None, value


@pytest.mark.parametrize(
    ("case", "exact", "lenient"),
    [
        ("a repeated name", True, False),
        ("a byte order mark", False, False),
        ("a lone surrogate", None, True),
        ("deep nesting", None, False),
        ("an exponent of 19 digits", False, False),
        ("a number that no double has", True, True),
    ],
)
def test_what_is_left_to_the_reader_has_a_rule(
    case: str, exact: bool | None, lenient: bool
) -> None:
    """In columns of JSON text; None: as the text is."""
    for text in AMBIGUOUS[case]:
        made = [row_of(message(text), rules) for rules in RULES.values()]
        if exact is not None:
            assert (made[0] is not None) == exact, text
        assert (made[1] is not None) == lenient, text
        assert (row_of(message(text, b"unknown"), RULES["lenient"]) is not None) == lenient, text


def test_numbers_that_no_double_has_keep_their_digits() -> None:
    for text in AMBIGUOUS["a number that no double has"]:
        made = row_of(message(text, b"unknown"), RULES["lenient"])
        assert made is not None
        assert json.loads(made["_rest"], parse_int=Decimal, parse_float=Decimal) == {
            "unknown": Decimal(text.decode())
        }


@pytest.mark.skipif(not native.enabled, reason="there is no core")
@pytest.mark.parametrize("fields", RULES)
@pytest.mark.parametrize("arrow", TYPES, ids=str)
def test_the_core_takes_and_refuses_the_same(fields: str, arrow: pa.DataType) -> None:
    every = [*ACCEPTED, *REFUSED, *(text for texts in AMBIGUOUS.values() for text in texts)]
    schema = pa.schema([("f", arrow)])
    values: list[bytes | None] = [message(text) for text in every]
    if fields == "lenient":
        values += [message(text, b"unknown") for text in every]
    assert_lands_alike(
        Decoding("json", schema, lenient=RULES[fields]), values, random.Random(str(arrow))
    )


@pytest.mark.skipif(not native.enabled, reason="there is no core")
def test_the_core_has_the_same_json_text() -> None:
    every = [*ACCEPTED, *REFUSED, *(text for texts in AMBIGUOUS.values() for text in texts)]
    values: list[bytes | None] = [message(text) for text in every]
    assert_lands_alike(Decoding("json", ANY, lenient=Lenient()), values, random.Random(1))
