"""With the core and without it a producer does the same, in values, errors and moments."""

from __future__ import annotations

import random
from typing import Any

from both_paths import produced_on_both_paths
from hypothesis import given, settings
from hypothesis import strategies as st
from nesting import RandomRows
from support import examples
from unusual import with_unusual

KEYS = [None, None, b"key", "text", "é", b"", 5, "\ud800"]
HEADERS = [None, None, [("h", b"1")], {"h": "1"}, [], [("h", None)], [("h", 5)], 7]
TIMES = [0, 1, 1_700_000_000_000, 1.5, 1 << 63]


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_random_records_of_random_types(seed: int) -> None:
    source, rng = RandomRows(seed), random.Random(seed)
    calls: list[dict[str, Any]] = [
        {
            "value": with_unusual(row, rng) if rng.random() < 0.3 else row,
            "key": rng.choice(KEYS),
            "headers": rng.choice(HEADERS),
            "timestamp": rng.choice(TIMES) or 1,
            "partition": rng.choice([0, 0, 1, 5]),
        }
        for row in source.rows[:30]
    ]
    found, expected = produced_on_both_paths(source.schema, calls)
    assert found == expected
