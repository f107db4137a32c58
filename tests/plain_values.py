"""Random values of plain messages in JSON and in Avro, right ones and broken ones."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
from typing import TYPE_CHECKING, Any

import fastavro

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable


def logical(base: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": kind, **more}


_INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [
        {"name": "x", "type": ["null", "long"]},
        {"name": "texts", "type": {"type": "array", "items": ["string", "null"]}},
    ],
}
_FIELDS: dict[str, Any] = {
    "flag": "boolean",
    "small": "int",
    "long": ["null", "long"],
    "float": "float",
    "double": ["double", "null"],
    "text": "string",
    "data": ["null", "bytes"],
    "fixed": {"type": "fixed", "name": "F", "size": 2},
    "symbol": {"type": "enum", "name": "E", "symbols": ["A", "B", "C_1"]},
    "id": logical("string", "uuid"),
    "money": logical("bytes", "decimal", precision=7, scale=2),
    "amount": logical("fixed", "decimal", name="D", size=5, precision=9, scale=0),
    "day": ["null", logical("int", "date")],
    "time": logical("int", "time-millis"),
    "micros": logical("long", "time-micros"),
    "at": logical("long", "timestamp-millis"),
    "nanos": ["null", logical("long", "timestamp-nanos")],
    "local": logical("long", "local-timestamp-micros"),
    "record": _INNER,
    "maybe": ["null", "Inner"],
    "list": {"type": "array", "items": "long"},
    "lists": ["null", {"type": "array", "items": {"type": "array", "items": "Inner"}}],
    "map": {"type": "map", "values": ["null", "double"]},
    "wide": ["null", "int", "long"],
    "number": ["float", "double"],
    "either": ["string", {"type": "enum", "name": "E2", "symbols": ["X"]}],
}

_NUMBERS = [
    *("0", "-0", "-0.0", "1", "7", "-3", "1.0", "1.5", "-2.25", "12.345", "1e2", "1E+2", "1e-7"),
    *("01", "-01", "1.", ".5", "+1", "-", "1e", "1e+", "0x1", "NaN", "Infinity", "-Infinity"),
    *("2147483647", "2147483648", "-2147483648", "9007199254740993", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775809", "18446744073709551615", "1e308", "1e309"),
    *("1e-400", "0e99999999999999999999", "1e999999999999999999999", "16777217", "3.5e38"),
    *("3.4028235677973366e38", "0.1", "123456789012345678.25", "99999.99", "100000.00", "0.001"),
    *("86399999", "86400000", "253402300800000", "1700000000123", "65504", "70000", "true", "null"),
]
_TEXTS = [
    *(
        "",
        "a",
        "é",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\udc00\\ud83d",
        '\\n\\"\\\\\\/',
        "\\x",
    ),
    *("\\u12", "\t", "\x7f", "\x00", "A", "B", "X", "AQI=", "/wA=", "AQ", "A Q=", "1.50", "-1.5"),
    *("1e2", "+1", "12345.678", "007.50", "NaN", "2024-02-29", "2023-02-29", "2024-2-9"),
    *("0000-01-01", "9999-12-31", "23:59:59.5", "24:00:00", "12:00", "12:60", "1:00", "12:00:60"),
    *("2024-01-01T01:00:00.123456+01:30", "2024-01-01 12:00Z", "2024-01-01T12:00:00.1234567890"),
    *("2024-01-01T12:00", "1500-01-01T00:00:00.5-2359", "2024-01-01T12:00:00+24:00"),
    *("2024-01-01t12:00:00z", "2024-01-01T12:00:00 Z", "2024-01-01T12:00:00.", "\uff12024-01-01"),
    *("00000000-0000-0000-0000-000000000005", "{00000000000000000000000000000005}"),
]
_SPACES = [" ", "\n", "\t\r", "\x0b", "\ufeff", "\xa0"]


def fields() -> list[dict[str, Any]]:
    """Return all fields that a schema may have."""
    return [{"name": name, "type": avro} for name, avro in _FIELDS.items()]


def schema(rng: random.Random) -> dict[str, Any]:
    """Return a record with some of the fields, one of them with a default."""
    names = [name for name in _FIELDS if name == "record" or rng.random() < 0.4]
    chosen = [field for field in fields() if field["name"] in names]
    return {
        "type": "record",
        "name": "R",
        "fields": [*chosen, {"name": "last", "type": "int", "default": 5}],
    }


def json_values(avro: Any, rng: random.Random, count: int) -> list[bytes | None]:
    """Return JSON objects, most of them as the schema has them."""
    write = _JsonWriter(rng)
    values = [broken(write.value(avro).encode(errors="surrogatepass"), rng) for _ in range(count)]
    return [None if rng.random() < 0.01 else value for value in values]


def json_rows(rows: Iterable[Any], rng: random.Random) -> list[bytes | None]:
    """Return rows, as a producer takes them, as JSON objects: some with odd parts, some broken."""
    return [broken(_json_of(row, rng).encode(), rng) for row in rows]


def _json_of(value: Any, rng: random.Random) -> str:
    if rng.random() < 0.01:
        return _odd(rng)
    if isinstance(value, dict):
        pairs = [f"{json.dumps(name)}: {_json_of(part, rng)}" for name, part in value.items()]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_json_of(item, rng) for item in value) + "]"
    return _json_leaf(value, rng)


def _json_leaf(value: Any, rng: random.Random) -> str:
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if isinstance(value, datetime.timedelta):
        return str(int(value.total_seconds()))
    if isinstance(value, datetime.date | datetime.time):
        return f'"{value.isoformat()}"' if rng.random() < 0.7 else str(rng.randint(-5, 90_000))
    if isinstance(value, decimal.Decimal):
        return str(value) if rng.random() < 0.5 else f'"{value}"'
    return json.dumps(value)


def _odd(rng: random.Random) -> str:
    return rng.choice(_NUMBERS) if rng.random() < 0.5 else f'"{rng.choice(_TEXTS)}"'


class _JsonWriter:
    """Writes a value of an Avro type as JSON text, some parts of it odd."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def value(self, avro: Any) -> str:
        rng = self._rng
        if rng.random() < 0.01:
            return _odd(rng)
        if rng.random() < 0.002:
            return rng.choice(["[]", "{}", "[[]]", '{"a": 1}', "", "[1, ]", "nul", '"'])
        if isinstance(avro, list):
            return self.value(rng.choice(avro))
        if isinstance(avro, dict) and "logicalType" in avro:
            return self._logical(avro)
        name = avro["type"] if isinstance(avro, dict) else avro
        return str(getattr(self, f"_{name}", lambda _: self.value(_INNER))(avro))

    def _logical(self, avro: Any) -> str:
        rng, kind = self._rng, avro["logicalType"]
        if kind == "decimal":
            text = f"{rng.randint(-99999, 99999)}" + ("" if avro.get("size") else ".25")
            return text if rng.random() < 0.5 else f'"{text}"'
        if kind == "uuid":
            return f'"{rng.choice(_TEXTS[-2:])}"'
        if rng.random() < 0.3:
            return str(rng.randint(0, 80_000))
        day = f"20{rng.randint(10, 99)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"
        time = f"1{rng.randint(0, 9)}:00:0{rng.randint(0, 9)}" + rng.choice(["", ".5", ".123456"])
        zone = "" if kind.startswith("local") else rng.choice(["", "Z", "+02:00", "-0130"])
        if kind == "date":
            return f'"{day}"'
        return f'"{time}"' if kind.startswith("time-") else f'"{day}T{time}{zone}"'

    def _record(self, avro: Any) -> str:
        rng = self._rng
        pairs = [(field["name"], self.value(field["type"])) for field in avro["fields"]]
        if rng.random() < 0.05:
            rng.shuffle(pairs)
        if rng.random() < 0.01:
            pairs.pop()
        if rng.random() < 0.01:
            pairs.append((rng.choice(["more", "x", "last", "\\u006cast"]), "1"))
        if pairs and rng.random() < 0.02:
            pairs.append(rng.choice(pairs))
        return self._object(pairs)

    def _object(self, pairs: list[tuple[str, str]]) -> str:
        space = self._rng.choice(_SPACES) if self._rng.random() < 0.02 else ""
        return "{" + ", ".join(f'"{name}"{space}: {value}' for name, value in pairs) + space + "}"

    def _map(self, avro: Any) -> str:
        names = self._rng.sample(["b", "é", "\\u0061", ""], self._rng.randint(0, 3))
        if self._rng.random() < 0.02:
            names += ["a", "a"]
        return self._object([(name, self.value(avro["values"])) for name in names])

    def _array(self, avro: Any) -> str:
        items = [self.value(avro["items"]) for _ in range(self._rng.randint(0, 3))]
        return "[" + ", ".join(items) + "]"

    def _null(self, _: Any) -> str:
        return "null"

    def _boolean(self, _: Any) -> str:
        return self._rng.choice(["true", "false"])

    def _int(self, _: Any) -> str:
        return str(self._rng.randint(-(2**31), 2**31 - 1) >> self._rng.randint(0, 31))

    def _long(self, _: Any) -> str:
        return str(self._rng.randint(-(2**63), 2**63 - 1) >> self._rng.randint(0, 63))

    def _float(self, avro: Any) -> str:
        return self._int(avro) if self._rng.random() < 0.2 else repr(self._rng.gauss(0, 1e3))

    _double = _float

    def _string(self, _: Any) -> str:
        return json.dumps(self._rng.choice(["carrier", "flight", "ü", "", "a\n"]))

    def _bytes(self, _: Any) -> str:
        return self._rng.choice(['"AQI="', '"/wA="'])

    _fixed = _bytes

    def _enum(self, avro: Any) -> str:
        return f'"{self._rng.choice(avro["symbols"])}"'


def avro_values(avro: Any, rng: random.Random, count: int) -> list[bytes | None]:
    """Return Avro datums, most of them as the schema has them."""
    parsed = fastavro.parse_schema(avro)
    values: list[bytes | None] = []
    for _ in range(count):
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, _avro_value(avro, rng), strict_allow_default=True)
        values.append(None if rng.random() < 0.01 else broken(sink.getvalue(), rng))
    return values


def _avro_value(avro: Any, rng: random.Random) -> Any:
    if isinstance(avro, list):
        index = rng.randrange(len(avro))
        value = _avro_value(avro[index], rng)
        return value if avro[index] != "Inner" else ("Inner", value)
    if avro == "Inner":
        avro = _INNER
    name = avro["type"] if isinstance(avro, dict) else avro
    if name == "record":
        return {field["name"]: _avro_value(field["type"], rng) for field in avro["fields"]}
    if name == "array":
        return [_avro_value(avro["items"], rng) for _ in range(rng.randint(0, 3))]
    if name == "map":
        return {key: _avro_value(avro["values"], rng) for key in "abc"[: rng.randint(0, 3)]}
    return _AVRO_LEAVES[name](avro, rng)


def _datum_bytes(avro: Any, rng: random.Random) -> Any:
    size = avro["size"] if isinstance(avro, dict) and "size" in avro else rng.randint(1, 3)
    return rng.randbytes(2).rjust(size, rng.choice([b"\0", b"\0", b"\xff", rng.randbytes(1)]))[
        -size:
    ]


def _datum_long(avro: Any, rng: random.Random) -> int:
    if isinstance(avro, dict) and avro["logicalType"] in ("time-millis", "time-micros"):
        return rng.randint(-10, 86_400_010)
    bits = 31 if avro == "int" or (isinstance(avro, dict) and avro["type"] == "int") else 63
    return rng.randint(-(2**bits), 2**bits - 1) >> rng.randint(0, bits)


_AVRO_LEAVES: dict[str, Callable[[Any, random.Random], Any]] = {
    "null": lambda *_: None,
    "boolean": lambda _, rng: rng.random() < 0.5,
    "int": _datum_long,
    "long": _datum_long,
    "float": lambda _, rng: rng.gauss(0, 1),
    "double": lambda _, rng: rng.choice([rng.gauss(0, 1), 1e300, float("inf"), -0.0]),
    "string": lambda _, rng: rng.choice(["carrier", "flight", "é😀", "", "x" * 100]),
    "bytes": _datum_bytes,
    "fixed": _datum_bytes,
    "enum": lambda avro, rng: rng.choice(avro["symbols"]),
}


def broken(value: bytes, rng: random.Random) -> bytes:
    """Return a value, or now and then one with some bytes changed, added or removed."""
    if rng.random() < 0.9:
        return value
    place = rng.randrange(len(value) + 1)
    change = rng.randrange(4)
    if change == 0:
        return value[:place]
    if change == 1:
        return value[:place] + rng.choice([b"\x80\x00", b"\xff", b"\0", b'"', b"1"]) + value[place:]
    end = min(len(value), place + rng.randint(1, 3))
    return value[:place] + (rng.randbytes(end - place) if change == 2 else b"") + value[end:]
