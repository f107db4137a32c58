"""The core makes JSON of columns and rests, or leaves it to Python: the texts are the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_segments import WithCore, WithoutCore, json_rows, values
from nesting import RandomRows, SentSegment
from support import examples

from columnar_kafka import SegmentError, native
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.segment import native_decoder

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

NAMES = ["a", "b", "c", "r", "s", "t", "text", "k", "0", "1", "2", "carrier", 'é"\\\n', "\ud800"]


class JsonRows(RandomRows):
    """Rows with rests, and what their footer says; no rest need fit its row."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        rng = self.rng
        paths = [*fields_of(self.schema, "")]
        texts = rng.random() < 0.3
        self.schema = self.schema.append(pa.field("_rest", pa.string()))
        self.said = {
            "rest": "_rest",
            "nulls": rng.sample(paths, rng.randint(0, len(paths))),
            "texts": ["text"] * texts,
        }
        for row in {id(row): row for row in self.rows}.values():
            row["_rest"] = None if rng.random() < 0.3 else written(rest(rng))
            if texts and row["text"] != "":
                row["text"] = written(any_json(rng, 2))


def fields_of(fields: Any, prefix: str) -> Iterator[str]:
    """Yield the paths of the fields of records."""
    for field in fields:
        yield f"{prefix}{field.name}"
        yield from inside(field.type, f"{prefix}{field.name}")


def inside(arrow: Any, path: str) -> Iterator[str]:
    if pa.types.is_struct(arrow):
        yield from fields_of(arrow, f"{path}.")
    elif pa.types.is_map(arrow):
        yield from inside(arrow.item_type, f"{path}.value")
    elif pa.types.is_nested(arrow):
        yield from inside(arrow.value_type, f"{path}.item")


def rest(rng: random.Random) -> dict[str, Any]:
    some = rng.sample(NAMES, rng.randint(0, 6))
    return {name: any_json(rng, 4) for name in some}


def any_json(rng: random.Random, levels: int) -> Any:
    if levels and rng.random() < 0.6:
        some = rng.sample(NAMES, rng.randint(0, 5))
        if rng.random() < 0.7:
            return {name: any_json(rng, levels - 1) for name in some}
        return [any_json(rng, levels - 1) for _ in some]
    return rng.choice([None, None, True, False, 0, -1, 10**30, 1.5, 1e300, *NAMES])


def written(value: Any) -> str:
    """Return compact JSON, of which the one code that is no character is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\ud800", "\\ud800")


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_random_columns_and_rests(seed: int) -> None:
    data = JsonRows(seed)
    said = json.dumps(data.said).encode()
    sent = SentSegment(data, {"columnar.json": said} if data.rng.random() < 0.8 else {})
    message = SourceMessage(
        topic="t", partition=0, offset=0, headers=sent.headers, value=sent.value
    )
    expected = values(message, WithoutCore())
    decoder = WithCore()
    assert values(message, decoder) == expected
    assert values(message, decoder, 101) == expected[101:]
    assert all(type(json.loads(value)) is dict for value in expected)


def test_the_core_makes_random_columns_and_rests() -> None:
    """Or the test above would compare Python with Python."""
    natively = 0
    for seed in range(20):
        data = JsonRows(seed)
        data.said["texts"] = []
        sent = SentSegment(data, {"columnar.json": json.dumps(data.said).encode()})
        message = SourceMessage(
            topic="t", partition=0, offset=0, headers=sent.headers, value=sent.value
        )
        decoder = WithCore()
        values(message, decoder)
        natively += decoder.has_done_all
    assert natively >= 10


def test_what_a_footer_says_is_remembered() -> None:
    decoder = WithCore()
    message = json_rows([("a", pa.int64())], [(None,)], {"nulls": ["a"]})
    assert [values(message, decoder) for _ in range(2)] == [[b'{"a":null}']] * 2
    assert values(json_rows([("a", pa.int64())], [(None,)], {}), decoder) == [b"{}"]
    assert values(json_rows([("a", pa.int64())], [(None,)]), decoder) == [b'{"a":null}']
    assert decoder.core is not None
    [known] = decoder.core.known.values()
    assert len(known._forms) == 3  # noqa: SLF001 - what is bounded


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_decoder, "_FORMS", 2)
    decoder = WithCore()
    for n in range(5):
        message = json_rows([("a", pa.int64())], [(None,)], {"nulls": ["a", str(n)]})
        assert values(message, decoder) == [b'{"a":null}']
    assert decoder.core is not None
    [known] = decoder.core.known.values()
    assert len(known._forms) <= 2  # noqa: SLF001 - what is bounded


def test_a_malformed_footer_is_an_error_each_time() -> None:
    decoder = WithCore()
    message = json_rows([("a", pa.int64())], [(None,)], b"nothing", topic="t", partition=3)
    for _ in range(2):
        with pytest.raises(SegmentError, match=r"t\[3\]@0: columnar\.json is nothing in the file"):
            values(message, decoder)


def test_the_reader_tells_when_it_gives_up() -> None:
    fields = [("a", pa.int64()), ("_rest", pa.string())]
    message = json_rows(fields, [(1, None), (2, "{ }")], {"rest": "_rest"})
    decoder = WithCore()
    values(message, decoder)
    [records] = decoder.read
    assert isinstance(records, native.core.RecordReader)
    assert len(records) == 2
