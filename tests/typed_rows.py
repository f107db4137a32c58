"""Rows of one type in every nesting: random values, the ends of its range, few values and many."""

from __future__ import annotations

import decimal
import itertools
import math
import random
import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from columnar_kafka.columns.range_checks import has_distinct_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MICROS: Final = 1000  # what many readers multiply milliseconds by, and it has to fit
_DAY: Final = 24 * 60 * 60
_TICKS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TEXT: Final = "abcdefghij klmnopqrst üé€😀\0"
_SPECIAL: Final = [0.0, -0.0, math.nan, math.inf, -math.inf]


def schema_of(arrow: pa.DataType) -> pa.Schema:
    """Return columns of a type, and of everything that can hold it."""
    items = pa.list_(arrow)
    fields = [
        pa.field("few", arrow),
        pa.field("many", arrow, nullable=False),
        pa.field("sorted", arrow),
        pa.field("list", items),
        pa.field("large", pa.large_list(pa.field("item", arrow, nullable=False))),
        pa.field("pair", pa.list_(arrow, 2)),
        pa.field("record", pa.struct([("a", arrow), pa.field("b", arrow, nullable=False)])),
        pa.field("map", pa.map_(pa.string(), arrow)),
        pa.field("deep", pa.list_(pa.struct([("l", items), ("m", pa.map_(pa.int32(), items))]))),
    ]
    keys = pa.map_(arrow, pa.int16())
    if has_distinct_keys(keys):  # the native core takes no others
        fields.append(pa.field("keys", keys))
    return pa.schema(fields)


def rows_of(arrow: pa.DataType, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return `count` rows of `schema_of(arrow)`; a tenth of what may be null is null."""
    rng = random.Random(f"{arrow} {seed}")
    many = [*_ends(arrow), *itertools.islice(_random(arrow, rng), count)][:count]
    few = rng.choices(many, k=20)
    columns = {
        "few": _with_nulls(rng.choices(few, k=count), rng),
        "many": many,
        "sorted": _with_nulls(sorted(many, key=lambda value: (value != value, value)), rng),  # noqa: PLR0124
        **_nested(itertools.cycle(_with_nulls(rng.sample(many, count), rng)), few, count, rng),
    }
    if has_distinct_keys(pa.map_(arrow, pa.int16())):
        keys = [dict.fromkeys(rng.choices(many, k=n), n) for n in _sizes(count, rng)]
        columns["keys"] = _with_nulls(keys, rng)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _nested(
    values: Iterator[Any], few: list[Any], count: int, rng: random.Random
) -> dict[str, list[Any]]:
    def some(size: int) -> list[Any]:
        return [*itertools.islice(values, size)]

    def deep(size: int) -> list[Any]:
        return [{"l": some(n), "m": {n: some(1), 7: None}} for n in range(size)]

    present = [value for value in some(2000) if value is not None]
    made: dict[str, Callable[[int], Any]] = {
        "list": some,
        "large": lambda size: rng.choices(present, k=size),
        "pair": lambda _: some(2),
        "record": lambda _: {"a": next(values), "b": rng.choice(few)},
        "map": lambda size: dict(zip(("k", "", "ü"), some(size), strict=False)),
        "deep": deep,
    }
    return {
        name: _with_nulls([make(n) for n in _sizes(count, rng)], rng) for name, make in made.items()
    }


def _with_nulls(values: list[Any], rng: random.Random) -> list[Any]:
    return [None if rng.random() < 0.1 else value for value in values]


def _sizes(count: int, rng: random.Random) -> list[int]:
    return rng.choices(range(4), k=count)


def _random(arrow: pa.DataType, rng: random.Random) -> Iterator[Any]:
    """Yield values of a type for ever."""
    while True:
        if types.is_floating(arrow):
            yield _float(arrow, rng)
        elif types.is_boolean(arrow):
            yield rng.random() < 0.5
        elif types.is_string(arrow) or types.is_large_string(arrow):
            yield "".join(rng.choices(_TEXT, k=rng.choice([1, 5, 40])))
        elif types.is_fixed_size_binary(arrow):
            yield rng.randbytes(arrow.byte_width)
        elif types.is_binary(arrow) or types.is_large_binary(arrow):
            yield rng.randbytes(rng.choice([1, 5, 40]))
        else:
            yield from itertools.islice(_numbers(arrow, rng), 100)


def _float(arrow: pa.DataType, rng: random.Random) -> float:
    """Return what random bits mean; or a number of few digits."""
    letter = {16: "e", 32: "f", 64: "d"}[arrow.bit_width]
    bits = rng.randbytes(arrow.bit_width // 8)
    [number] = struct.unpack(f"<{letter}", bits)
    return rng.choice([number if number == number else math.nan, rng.randrange(-64, 64) / 8])  # noqa: PLR0124


def _numbers(arrow: pa.DataType, rng: random.Random) -> Iterator[Any]:
    """Yield numbers near each other, ascending, and from the whole range."""
    least, greatest = _range(arrow)
    start = rng.randint(least, greatest)
    while True:
        number = rng.choice([rng.randint(least, greatest), rng.randint(-9, 99), start])
        start += rng.randint(0, 9)
        yield _as(arrow, min(max(number, least), greatest))


def _ends(arrow: pa.DataType) -> list[Any]:
    """Return the least and the greatest values, and those that are special."""
    if types.is_boolean(arrow):
        return [False, True]
    if types.is_floating(arrow):
        return [*_SPECIAL, *_LIMITS[arrow.bit_width]]
    if types.is_string(arrow) or types.is_large_string(arrow):
        return ["", "\0", "\U0010ffff", "x" * 5000]
    if types.is_fixed_size_binary(arrow):
        return [bytes(arrow.byte_width), b"\xff" * arrow.byte_width]
    if types.is_binary(arrow) or types.is_large_binary(arrow):
        return [b"", b"\0", b"\xff" * 5000]
    least, greatest = _range(arrow)
    return [_as(arrow, number) for number in (least, least + 1, greatest - 1, greatest)]


_LIMITS: Final = {
    16: [65504.0, 2.0**-24],
    32: [(2 - 2.0**-23) * 2.0**127, 2.0**-149],
    64: [(2 - 2.0**-52) * 2.0**1023, 2.0**-1074],
}
"""The greatest number and the smallest above zero."""


def _range(arrow: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest number that a type stores."""
    if types.is_decimal(arrow):
        return 1 - 10**arrow.precision, 10**arrow.precision - 1
    if types.is_time(arrow):
        return 0, _DAY * _TICKS[arrow.unit] - 1
    bits = arrow.bit_width
    if types.is_unsigned_integer(arrow):
        return 0, (1 << bits) - 1
    shorter = _MICROS if getattr(arrow, "unit", "") in ("s", "ms") else 1
    return -((1 << bits - 1) // shorter), ((1 << bits - 1) - 1) // shorter


def _as(arrow: pa.DataType, number: int) -> Any:
    if not types.is_decimal(arrow):
        return number
    return decimal.Decimal(number).scaleb(-arrow.scale, _EXACT)


_EXACT: Final = decimal.Context(prec=80)
