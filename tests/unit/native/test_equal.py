"""With the core and without it a producer does the same, in values, errors and moments."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
from both_paths import produced_on_both_paths
from hypothesis import given, settings
from hypothesis import strategies as st
from nesting import RandomRows
from support import examples
from unusual import SUBCLASSES, with_subclasses, with_unusual

TEXT, DATA = SUBCLASSES[str]("text"), SUBCLASSES[bytes](b"data")
KEYS = [None, None, b"key", "text", "é", b"", 5, "\ud800", TEXT, DATA]
HEADERS = [None, None, [("h", b"1")], {"h": "1"}, [], [("h", None)], [("h", 5)], 7, [(TEXT, DATA)]]
TIMES = [0, 1, 1_700_000_000_000, 1.5, 1 << 63]


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_random_records_of_random_types(seed: int) -> None:
    source, rng = RandomRows(seed), random.Random(seed)
    changes = [with_unusual, with_subclasses, lambda row, _: row]
    calls: list[dict[str, Any]] = [
        {
            "value": rng.choice(changes)(row, rng),
            "key": rng.choice(KEYS),
            "headers": rng.choice(HEADERS),
            "timestamp": rng.choice(TIMES) or 1,
            "partition": rng.choice([0, 0, 1, 5]),
        }
        for row in source.rows[:30]
    ]
    produced, expected = produced_on_both_paths(source.schema, calls)
    assert produced == expected


class Attributes:
    def __init__(self, alpha: int, beta: str) -> None:
        self.alpha, self.beta = alpha, beta


def dicts() -> list[Any]:
    """The same row in all ways in which CPython stores a dict."""
    plain = {"alpha": 1, "beta": "x"}
    reordered = {"beta": "x", "alpha": 1}
    deleted = {"alpha": 0, "c": 5, "beta": "x"}
    del deleted["c"]
    again = {"alpha": 0, "beta": "x"}
    del again["alpha"]
    again["alpha"] = 1
    general: dict[Any, Any] = {5: 5, "alpha": 1, "beta": "x"}
    del general[5]
    grown = {f"k{n}": n for n in range(100)}
    grown.clear()
    grown |= plain  # type: ignore[arg-type]
    other_keys = json.loads('{"alpha": 1, "beta": "x"}')
    split = [vars(Attributes(1, "x")) for _ in range(3)]
    wrong: list[Any] = [
        {},
        {"alpha": 1},
        {5: 1, "beta": "x"},
        {"alpha": 1, "beta": "x", "c": 2},
        {"alpha": 1, "c": 2},
    ]
    return [
        plain,
        reordered,
        deleted,
        again,
        general,
        grown,
        other_keys,
        *split,
        *wrong,
        plain.copy(),
    ]


def test_dicts_of_every_kind() -> None:
    schema = pa.schema([("alpha", pa.int32()), ("beta", pa.string())])
    calls = [
        {"value": row, "timestamp": 1, "partition": 0} for row in [*dicts(), *reversed(dicts())]
    ]
    produced, expected = produced_on_both_paths(schema, calls)
    assert produced == expected
