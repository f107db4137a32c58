"""Random schemas, and JSON objects that drift from them; and objects compared as JSON values."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    Make = Callable[[], str]

ODD = [
    *("null", "true", "false", "0", "-0", "-0.0", "7", "7.0", "1e2", "70e-1", "1.5", "1E+400"),
    *("9007199254740993", "1e-400", "12345678901234567890123", "0.1", "0.30000000000000004"),
    *("16777217", "123.456", "9" * 400, '""', '"5"', '"true"', '"x\\u0000\\"\\\\\\/y"', '"é😀"'),
    *('"\\ud83d"', '"\\ud83d\\ude00\\udc00"', '"2024-02-30"', "[]", "{}", "[1, [2], {}]"),
    *('{"a": 1}', '{"": {"b": null}, "a.b": [ ]}', '[{"x": 1.50}, null]', '{"\\udc00": 1}'),
]
"""Values that are seldom what a column has."""
_NAMES = ["new", "", "a.b", "A", "é", "\x00", "_rest", "_kafka", "\ud800", "n" * 300, "0"]


class Drifting:
    """A random schema and JSON objects, most parts of which fit it, from a seed.

    Some have times, whose columns do not tell which form a value had: there it is always one.
    """

    def __init__(self, rng: random.Random, depth: int = 3) -> None:
        self.rng = rng
        self._has_times = rng.random() < 0.5
        self._odd = ODD
        if self._has_times:
            self._odd = [text for text in ODD if not any(map(str.isdigit, text))]
        self._made = [self._field(name, depth) for name in "abcd"[: rng.randint(1, 4)]]
        self.schema = pa.schema([field for field, _ in self._made])

    @property
    def may_be_refused(self) -> bool:
        return any(not field.nullable for field in self.schema)

    def message(self) -> str:
        """Return an object as text."""
        return self._object(self._made)

    def _object(self, made: list[tuple[pa.Field, Make]]) -> str:
        rng = self.rng
        pairs = [(field.name, make()) for field, make in made if rng.random() < 0.95]
        while rng.random() < 0.1:
            name = rng.choice(_NAMES)
            if name not in dict(pairs) and name not in [field.name for field, _ in made]:
                pairs.append((name, rng.choice(self._odd)))
        if rng.random() < 0.1:
            rng.shuffle(pairs)
        return self._text(pairs)

    def _text(self, pairs: list[tuple[str, str]]) -> str:
        space = self.rng.choice(["", " ", "\n\t"])
        is_ascii = self.rng.random() < 0.5
        return (
            "{"
            + f"{space},".join(
                f"{space}{quoted(name, is_ascii)}{space}:{space}{value}" for name, value in pairs
            )
            + space
            + "}"
        )

    def _field(self, name: str, depth: int) -> tuple[pa.Field, Make]:
        rng = self.rng
        kinds = ["leaf"] * 3 + ["struct", "list", "fixed", "map"] * (depth > 0)
        kind = rng.choice(kinds)
        arrow, make = getattr(self, f"_{kind}")(depth - 1)
        nullable = rng.random() < 0.85 or kind == "fixed"

        def drifting() -> str:
            if rng.random() < 0.05 and nullable:
                return "null"
            return rng.choice(self._odd) if rng.random() < 0.05 else make()

        return pa.field(name, arrow, nullable), drifting

    def _leaf(self, _: int) -> tuple[pa.DataType, Make]:
        leaves = _LEAVES + _TIMES * self._has_times
        arrow, make = self.rng.choice(leaves)
        return arrow, lambda: make(self.rng)

    def _struct(self, depth: int) -> tuple[pa.DataType, Make]:
        made = [self._field(name, depth) for name in "xyz"[: self.rng.randint(1, 3)]]
        return pa.struct([field for field, _ in made]), lambda: self._object(made)

    def _list(self, depth: int) -> tuple[pa.DataType, Make]:
        item, make = self._field("item", depth)
        return pa.list_(item), lambda: self._items(make, self.rng.randint(0, 3))

    def _fixed(self, depth: int) -> tuple[pa.DataType, Make]:
        item, make = self._field("item", depth)
        return pa.list_(item, 2), lambda: self._items(make, 2)

    def _items(self, make: Make, count: int) -> str:
        return "[" + ", ".join(make() for _ in range(count)) + "]"

    def _map(self, depth: int) -> tuple[pa.DataType, Make]:
        item, make = self._field("value", depth)

        def text() -> str:
            names = self.rng.sample(_NAMES, self.rng.randint(0, 3))
            return self._text([(name, make()) for name in names])

        return pa.map_(pa.string(), item), text


def quoted(name: str, is_ascii: bool) -> str:
    """Return a name as JSON has it; one with a lone surrogate has escapes."""
    is_unicode = name.encode(errors="ignore").decode() == name
    return json.dumps(name, ensure_ascii=is_ascii or not is_unicode)


def _whole(bits: int, signed: bool = True) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        most = 2 ** (bits - signed)
        number = rng.randint(-most if signed else 0, most - 1) >> rng.randint(0, bits)
        return rng.choice(
            [f"{number}", f"{number}", f"{number}", f"{number}.0", f"{10 * number}e-1"]
        )

    return make


def _fraction(rng: random.Random) -> str:
    return rng.choice([repr(rng.gauss(0, 100)), f"{rng.randint(-99, 99)}", f"{rng.random():.2f}"])


def _bytes(size: int | None) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        data = rng.randbytes(rng.randint(0, 4) if size is None else size)
        return f'"{base64.b64encode(data).decode()}"'

    return make


def _day(rng: random.Random) -> str:
    return f"20{rng.randint(10, 99)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"


def _time(rng: random.Random) -> str:
    fraction = rng.choice(["", ".500000", ".123000", ".123456"])
    return f"1{rng.randint(0, 9)}:00:0{rng.randint(0, 9)}{fraction}"


_LEAVES: list[tuple[pa.DataType, Callable[[random.Random], str]]] = [
    (pa.bool_(), lambda rng: rng.choice(["true", "false"])),
    (pa.int8(), _whole(8)),
    (pa.int32(), _whole(32)),
    (pa.int64(), _whole(64)),
    (pa.int64(), _whole(64)),
    (pa.uint16(), _whole(16, signed=False)),
    (pa.uint64(), _whole(64, signed=False)),
    (pa.float64(), _fraction),
    (pa.float64(), _fraction),
    (pa.float32(), _fraction),
    (pa.float16(), _fraction),
    (pa.decimal128(7, 2), lambda rng: f"{rng.randint(-99999, 99999)}.{rng.randint(0, 9)}0"),
    (pa.decimal128(20, 0), _whole(64)),
    (pa.string(), lambda rng: quoted(rng.choice(["", "ü", "carrier", 'a\n"']), rng.random() < 0.5)),
    (pa.binary(), _bytes(None)),
    (pa.binary(2), _bytes(2)),
    (pa.duration("ms"), _whole(40)),
]
_TIMES: list[tuple[pa.DataType, Callable[[random.Random], str]]] = [
    (pa.date32(), lambda rng: f'"{_day(rng)}"'),
    (pa.time64("us"), lambda rng: f'"{_time(rng)}"'),
    (pa.timestamp("us", "UTC"), lambda rng: f'"{_day(rng)}T{_time(rng)}Z"'),
    (pa.timestamp("ms"), lambda rng: f'"{_day(rng)}T{_time(rng)}"'),
]
if hasattr(pa, "json_"):
    _LEAVES.append((pa.json_(), lambda rng: rng.choice(ODD)))


def values_of(text: str | bytes) -> Any:
    """Return an object as it is compared: numbers by their digits, without what is null."""
    return comparable(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def comparable(value: Any) -> Any:
    """Return a value as it is compared."""
    if isinstance(value, dict):
        return {name: comparable(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [comparable(part) for part in value]
    if isinstance(value, float):
        return Decimal(repr(value))
    return Decimal(value) if type(value) is int else value
