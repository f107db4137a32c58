"""Random Avro schemas with unions of everything, and values in the forms that rows may have."""

from __future__ import annotations

import datetime
import decimal
import io
import struct
import uuid
from typing import TYPE_CHECKING, Any

import fastavro

from columnar_kafka.schema.avro_members import with_members
from columnar_kafka.schema.avro_unions import is_null, is_union_column

if TYPE_CHECKING:
    import random

UTC = datetime.timezone.utc
_LEAVES: list[Any] = [
    *("boolean", "int", "long", "float", "double", "string", "bytes"),
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
]
_TEXTS = ["", "a", "A", "B", "é", "x" * 40]


class Schemas:
    """Makes the schema of one topic."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names = 0

    def of_rows(self) -> Any:
        """Return a record, or a union of some."""
        if self._rng.random() < 0.5:
            return self.record(0)
        return [self.record(0) for _ in range(self._rng.randint(2, 4))]

    def record(self, depth: int) -> dict[str, Any]:
        """Return a record whose fields are often named as those of others."""
        names = self._rng.sample("abcde", self._rng.randint(1, 4))
        fields = [{"name": name, "type": self.any(depth + 1)} for name in names]
        return {"type": "record", "name": self._name("R"), "namespace": "x.y", "fields": fields}

    def any(self, depth: int) -> Any:
        """Return a type, which may be a union."""
        return self.union(depth) if self._rng.random() < 0.6 else self.one(depth)

    def union(self, depth: int) -> list[Any]:
        """Return a union, with null or not."""
        branches: list[Any] = []
        taken = set()
        for _ in range(self._rng.randint(1, 5)):
            branch = self.one(depth)
            kind = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            if kind not in taken:
                taken.add(kind)
                branches.append(branch)
        if self._rng.random() < 0.5:
            branches.insert(self._rng.randint(0, len(branches)), "null")
        return branches

    def one(self, depth: int) -> Any:
        """Return a type that is no union."""
        kind = self._rng.random()
        if depth > 3 or kind < 0.6:
            return self._rng.choice(_LEAVES)
        if kind < 0.67:
            return {"type": "enum", "name": self._name("E"), "symbols": ["A", "B"]}
        if kind < 0.74:
            return {"type": "fixed", "name": self._name("F"), "size": self._rng.choice([1, 2])}
        if kind < 0.82:
            return {"type": "array", "items": self.any(depth + 1)}
        if kind < 0.9:
            return {"type": "map", "values": self.any(depth + 1)}
        return self.record(depth)

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"


class Values:
    """Makes values of one schema, each in several forms."""

    def __init__(self, avro: Any, rng: random.Random) -> None:
        self._rng = rng
        self._avro = fastavro.parse_schema({"type": "record", "name": "Outer", "fields": [
            {"name": "value", "type": avro}]}, _write_hint=False)  # fmt: skip
        self._members = fastavro.parse_schema(with_members(self._avro))
        self._named = fastavro.parse_schema(self._avro)
        self._type = self._avro["fields"][0]["type"]

    def datum(self, members: Any) -> bytes:
        """Return a value's bytes, of its form in which a union is a dict of the member."""
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, self._members, {"value": members})
        return sink.getvalue()

    def read(self, datum: bytes) -> Any:
        """Return what fastavro's reader makes of it."""
        return fastavro.schemaless_reader(io.BytesIO(datum), self._named, None)["value"]

    def written(self, row: Any) -> bytes:
        """Return what fastavro's writer makes of a row."""
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, self._named, {"value": row})
        return sink.getvalue()

    def one(self) -> tuple[Any, Any, Any]:
        """Return a value with members, with all names, and with few names."""
        return self._value(self._type)

    def _value(self, avro: Any) -> tuple[Any, Any, Any]:
        if isinstance(avro, list):
            return self._of_union(avro)
        name = avro if isinstance(avro, str) else avro["type"]
        if name in ("array", "map", "record"):
            return self._nested(avro, name)
        leaf = self._leaf(avro, name)
        return leaf, leaf, leaf

    def _of_union(self, avro: list[Any]) -> tuple[Any, Any, Any]:
        branch = self._rng.choice(avro)
        if is_null(branch):
            return None, None, None
        members, named, bare = self._value(branch)
        if not is_union_column(avro):
            return members, named, bare
        others = [other for other in avro if not is_null(other)]
        place = next(at for at, other in enumerate(others) if other is branch)
        is_dict = isinstance(branch, dict)
        name = branch.get("name", branch["type"]) if is_dict else branch
        if isinstance(bare, datetime.datetime | bytes) or type(bare) is int:
            # They may be dates; decimals and arrays; times and dates.
            bare = name, bare
        elif isinstance(bare, dict) and self._rng.random() < 0.5:
            is_record = is_dict and branch["type"] == "record"
            bare = {"-type": name, **bare} if is_record else (name, bare)
        return {f"member{place}": members}, (name, named), bare

    def _nested(self, avro: Any, name: str) -> tuple[Any, Any, Any]:
        if name == "record":
            made = {field["name"]: self._value(field["type"]) for field in avro["fields"]}
            return tuple({key: forms[at] for key, forms in made.items()} for at in range(3))  # type: ignore[return-value]
        count = self._rng.choice([0, 1, 1, 2, 3])
        inner = [self._value(avro["items" if name == "array" else "values"]) for _ in range(count)]
        lists = ([forms[at] for forms in inner] for at in range(3))
        if name == "array":
            return tuple(lists)  # type: ignore[return-value]
        return tuple(dict(zip("abc", values, strict=False)) for values in lists)  # type: ignore[return-value]

    def _leaf(self, avro: Any, name: str) -> Any:
        rng = self._rng
        logical = avro.get("logicalType") if isinstance(avro, dict) else None
        if logical is not None:
            return self._logical(logical)
        makers: dict[str, Any] = {
            "boolean": lambda: rng.random() < 0.5,
            "int": lambda: rng.choice([0, 1, -5, 70, 2**31 - 1]),
            "long": lambda: rng.choice([0, 3, -(2**40), 2**52]),
            "float": lambda: struct.unpack("<f", struct.pack("<f", rng.uniform(-9, 9)))[0],
            "double": lambda: rng.uniform(-9, 9),
            "string": lambda: rng.choice(_TEXTS),
            "bytes": lambda: rng.choice([b"", b"a", b"ab", b"\xff" * 5]),
            "enum": lambda: rng.choice(avro["symbols"]),
            "fixed": lambda: rng.randbytes(avro["size"]),
        }
        return makers[name]()

    def _logical(self, name: str) -> Any:
        rng = self._rng
        at = datetime.datetime(2026, 1, 31, rng.randint(0, 23), 5, 6, 7000, UTC)
        if name == "uuid":
            return str(uuid.UUID(int=rng.getrandbits(128)))
        if name == "decimal":
            return decimal.Decimal(rng.randint(-999_999, 999_999)).scaleb(-2)
        if name == "date":
            return at.date() + datetime.timedelta(days=rng.randint(-99, 99))
        if name.startswith("time-"):
            return at.time()
        return at.replace(tzinfo=None) if name.startswith("local") else at


def shown(value: Any, *, is_loose: bool = False) -> str:
    """Return a text that equal values of equal types share; UUIDs are texts.

    `is_loose`: equal numbers of any type share one.
    """
    if isinstance(value, dict):
        inner = (f"{key!r}: {shown(part, is_loose=is_loose)}" for key, part in value.items())
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return f"[{', '.join(shown(part, is_loose=is_loose) for part in value)}]"
    if isinstance(value, uuid.UUID):
        return repr(str(value))
    if is_loose and isinstance(value, int | float | decimal.Decimal):
        return str(value is True or value is False) + str(float(value))
    return repr(value)
