"""Objects whose shapes drift, by their numbers: absent fields, nulls, and values of other types."""

from __future__ import annotations

import random
from typing import Any

_FIELDS = 30
_ODD = [None, None, "text", 7, 2.5, True, [], {}, [1, "a"], {"k": None}]


def drifting(number: int) -> dict[str, Any]:
    """Return one of the objects: fields that are usual at its time, some null or of odd values."""
    rng = random.Random(number)
    age = number // 200
    made: dict[str, Any] = {}
    for _ in range(rng.randint(0, 5)):
        field = (age + rng.randint(0, 6)) % _FIELDS
        made[f"f{field}"] = _value(field, rng) if rng.random() < 0.9 else rng.choice(_ODD)
    return made


def _value(field: int, rng: random.Random) -> Any:
    return [
        rng.randint(-9, 2**40),
        rng.choice(["a", "é", "", "x" * 50]),
        rng.random(),
        rng.choice([True, False]),
        {"x": rng.randint(0, 9), **({"y": None} if rng.random() < 0.3 else {})},
        [rng.choice([1, None]) for _ in range(rng.randint(0, 3))],
        [{"k": "v"} for _ in range(rng.randint(0, 2))],
        10**30 + rng.randint(0, 9),
    ][field % 8]
