"""The demo's comparison: exact multisets. What it misses, the whole demo misses."""

from __future__ import annotations

import json
from collections import Counter
from random import Random  # noqa: TC003 - Hypothesis reads annotations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from columnar_kafka.demo.compare import compare, refused, scalars

HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
SCHEMA = pa.schema([("n", pa.int32()), ("s", pa.string()), ("k", pa.binary()), ("h", HEADERS)])
Row = dict[str, Any]

ROW: Row = {"n": 1, "s": "a", "k": b"k", "h": [{"key": "a", "value": b"x"}]}


def table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def with_headers(*pairs: tuple[str | None, bytes | None]) -> Row:
    return ROW | {"h": [{"key": key, "value": value} for key, value in pairs]}


def test_equal_tables_are_equal_in_any_order_and_any_chunks() -> None:
    other = ROW | {"n": 2}
    chunks = pa.concat_tables([table(other), table(), table(ROW)])
    comparison = compare(table(ROW, other), chunks)
    assert comparison.equal
    assert str(comparison) == "2 records, equal"


def test_nothing_equals_nothing() -> None:
    assert compare(table(), table()).equal


@pytest.mark.parametrize(
    ("expected", "found", "missing", "unexpected"),
    [
        ([ROW], [ROW, ROW], 0, 1),
        ([ROW, ROW], [ROW], 1, 0),
        ([ROW], [], 1, 0),
        ([], [ROW], 0, 1),
    ],
)
def test_how_often_a_record_occurs_counts(
    expected: list[Row], found: list[Row], missing: int, unexpected: int
) -> None:
    result = compare(table(*expected), table(*found))
    assert not result.equal
    assert (result.missing, result.unexpected) == (missing, unexpected)


def test_a_duplicate_does_not_make_up_for_a_missing_record() -> None:
    other = ROW | {"n": 2}
    result = compare(table(ROW, other), table(ROW, ROW))
    assert (result.equal, result.missing, result.unexpected) == (False, 1, 1)


CHANGES = {
    "number": ROW | {"n": 2},
    "null number": ROW | {"n": None},
    "zero for null": ROW | {"n": 0},
    "text": ROW | {"s": "b"},
    "empty text": ROW | {"s": ""},
    "null text": ROW | {"s": None},
    "null key": ROW | {"k": None},
    "empty key": ROW | {"k": b""},
    "no headers": ROW | {"h": None},
    "empty headers": ROW | {"h": []},
    "header's value": with_headers(("a", b"y")),
    "header's null value": with_headers(("a", None)),
    "header's empty value": with_headers(("a", b"")),
    "header's key": with_headers(("b", b"x")),
    "header's null key": with_headers((None, b"x")),
    "one header more": with_headers(("a", b"x"), ("a", b"x")),
    "headers in another order": with_headers(("b", b"x"), ("a", b"x")),
    "those headers": with_headers(("a", b"x"), ("b", b"x")),
    "what looks like two headers": with_headers(("a", b"x1:b1:x")),
    "what looks like null": with_headers(("a", b"-")),
}


@pytest.mark.parametrize("one", CHANGES)
def test_every_pair_of_different_records_is_told_apart(one: str) -> None:
    for other, row in CHANGES.items():
        assert compare(table(CHANGES[one]), table(row)).equal == (one == other), other


def test_a_changed_record_is_shown_on_both_sides() -> None:
    result = compare(table(ROW), table(with_headers(("a", b"y"))))
    assert (result.missing, result.unexpected) == (1, 1)
    assert result.examples == (
        "missing 1x: n=1, s=a, k=b'k', h=b'1:a1:x'",
        "not expected 1x: n=1, s=a, k=b'k', h=b'1:a1:y'",
    )
    assert str(result) == "1 records instead of 1: 1 missing, 1 not expected"


def test_only_a_few_examples_are_shown_and_all_are_counted() -> None:
    result = compare(table(), table(*(ROW | {"n": n} for n in range(100))), examples=3)
    assert len(result.examples) == 3
    assert result.unexpected == 100


def test_other_types_are_a_difference_even_where_the_values_are_equal() -> None:
    wider = table(ROW).cast(SCHEMA.set(0, pa.field("n", pa.int64())))
    result = compare(table(ROW), wider)
    assert not result.equal
    assert "n int32" in result.examples[0]
    assert "n int64" in result.examples[0]


def test_what_cannot_be_compared_is_different_even_when_both_are_empty() -> None:
    assert not refused(table(), 0, "it has no columns").equal


def test_headers_of_a_slice_are_those_of_its_rows() -> None:
    rows = [
        with_headers(("a", b"1")),
        ROW | {"h": None},
        ROW | {"h": []},
        with_headers(("b", b"2")),
    ]
    texts = [b"1:a1:1", None, b"", b"1:b1:2"]
    for start in range(4):
        assert scalars(table(*rows).slice(start))["h"].to_pylist() == texts[start:]


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Few values, so that duplicates are common."""
    pair = st.fixed_dictionaries(
        {
            "key": st.sampled_from(["a", "b", ""]),
            "value": st.sampled_from([None, b"", b"-", b"1:a"]),
        }
    )
    row = st.fixed_dictionaries(
        {
            "n": st.sampled_from([None, 0, 1]),
            "s": st.sampled_from([None, "", "a"]),
            "k": st.sampled_from([None, b"", b"a"]),
            "h": st.none() | st.lists(pair, max_size=2),
        }
    )
    return draw(st.lists(row, max_size=12))


def as_counter(rows: list[Row]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=repr) for row in rows)


@given(rows(), st.randoms(use_true_random=False))
def test_a_shuffle_is_equal(given_rows: list[Row], random: Random) -> None:
    shuffled = random.sample(given_rows, len(given_rows))
    assert compare(table(*given_rows), table(*shuffled)).equal


@given(rows(), rows())
def test_the_counts_are_those_of_python_counters(one: list[Row], other: list[Row]) -> None:
    result = compare(table(*one), table(*other))
    missing, unexpected = as_counter(one) - as_counter(other), as_counter(other) - as_counter(one)
    assert (result.missing, result.unexpected) == (missing.total(), unexpected.total())
    assert result.equal == (as_counter(one) == as_counter(other))


@given(rows().filter(bool), st.data())
def test_any_single_mutation_is_different(given_rows: list[Row], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(given_rows) - 1))
    mutated = [dict(row) for row in given_rows]
    match data.draw(st.sampled_from(["drop", "double", "n", "s", "k", "h"])):
        case "drop":
            del mutated[index]
        case "double":
            mutated.append(mutated[index])
        case "h":
            mutated[index]["h"] = [*(mutated[index]["h"] or []), {"key": "new", "value": None}]
        case "n":
            mutated[index]["n"] = 7
        case "s":
            mutated[index]["s"] = f"{mutated[index]['s']}!"
        case "k":
            mutated[index]["k"] = b"new"
    assert not compare(table(*given_rows), table(*mutated)).equal
