"""What a footer says of records that were JSON."""

from __future__ import annotations

import pyarrow as pa
import pytest

from columnar_kafka import SegmentError
from columnar_kafka.segment.json_layout import JsonLayout

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        pa.field("t", pa.string(), nullable=False),
        ("large", pa.large_string()),
        ("_rest", pa.string()),
    ]
)


def test_without_it_every_null_says_null() -> None:
    layout = JsonLayout.parse(None, SCHEMA)
    assert layout == JsonLayout()
    assert layout.says_null("a")


def test_all_that_it_may_say() -> None:
    text = b'{"rest":"_rest","nulls":["a","o.x"],"texts":["p"],"uuids":["u"],'
    text += b'"times":{"t":" .000+00:00"},"inferred":true}'
    layout = JsonLayout.parse(text, SCHEMA)
    times = {"t": (" ", 3, True, "+00:00")}
    assert layout == ("_rest", {"a", "o.x"}, {"p"}, {"u"}, times, True)
    assert layout.footer() == {"columnar.json": text}
    assert (layout.says_null("o.x"), layout.says_null("x")) == (True, False)


def test_what_is_left_out_is_empty() -> None:
    layout = JsonLayout.parse(b"{}", SCHEMA)
    assert layout == (None, set(), set(), set(), {}, False)
    assert not layout.says_null("a")


def test_a_newer_producer_may_say_more() -> None:
    assert JsonLayout.parse(b'{"rest":"large","later":1}', SCHEMA).rest == "large"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it must be a JSON object"),
        (b"{", "it must be a JSON object"),
        (b"\xff", "it must be a JSON object"),
        (b"[]", "it must be a JSON object"),
        (b"[" * 100_000, "it must be a JSON object"),
        (b'{"rest":1}', "rest must be the name"),
        (b'{"rest":"b"}', "rest must be the name"),
        (b'{"rest":"a"}', "rest must be the name"),
        (b'{"rest":"t"}', "rest must be the name"),
        (b'{"nulls":"a"}', "nulls must be a list"),
        (b'{"texts":[1]}', "texts must be a list"),
        (b'{"uuids":null}', "uuids must be a list"),
        (b'{"times":["t"]}', "times must be an object"),
        (b'{"times":{"t":1}}', "times must be an object"),
        (b'{"times":{"t":"T.0000000000Z"}}', "times must be an object"),
        (b'{"times":{"t":"T[.000Z"}}', "times must be an object"),
    ],
)
def test_it_is_refused_where_it_is_malformed(text: bytes, reason: str) -> None:
    with pytest.raises(SegmentError, match=reason) as raised:
        JsonLayout.parse(text, SCHEMA)
    assert raised.value.reason.startswith("columnar.json is ")
    assert len(raised.value.reason) < 400
