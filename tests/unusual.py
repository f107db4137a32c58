"""Values that a schema's rows do not usually have."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

UNUSUAL = [
    None,
    True,
    2**70,
    -(2**70),
    1.5,
    "é",
    "\ud800",
    b"x",
    [],
    {},
    (),
    object(),
    [None],
    [{}],
]


def with_unusual(value: Any, rng: random.Random) -> Any:
    """Return a value with one part, or itself, replaced by something unusual."""
    if rng.random() < 0.3:
        return rng.choice(UNUSUAL)
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        return value | {key: with_unusual(value[key], rng)}
    if isinstance(value, list) and value:
        place = rng.randrange(len(value))
        return [*value[:place], with_unusual(value[place], rng), *value[place + 1 :]]
    return rng.choice(UNUSUAL)


SUBCLASSES = {base: type("Sub", (base,), {}) for base in (int, float, str, bytes, decimal.Decimal)}


def with_subclasses(value: Any, rng: random.Random) -> Any:
    """Return a value with some of its parts, or itself, as equal objects of subclasses."""
    if isinstance(value, dict):
        return {with_subclasses(k, rng): with_subclasses(v, rng) for k, v in value.items()}
    if isinstance(value, list):
        return [with_subclasses(item, rng) for item in value]
    subclass = SUBCLASSES.get(type(value)) if rng.random() < 0.5 else None
    return value if subclass is None else subclass(value)
