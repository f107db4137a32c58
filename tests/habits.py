"""Topics of twelve habits, after public formats: objects whose shapes nobody has described."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HABITS", "messages"]

Message = dict[str, Any]


def messages(habit: str, count: int) -> list[Message]:
    """Return the messages of a topic; those at the end are not as those at the beginning."""
    rng = random.Random(habit)
    return [HABITS[habit](rng, number, number / count) for number in range(count)]


def cloud_events(rng: random.Random, number: int, age: float) -> Message:
    """CloudEvents 1.0: attributes, extensions with any name, and data of each type's own."""
    kind = rng.choice(["order.created", "order.paid", "user.seen"])
    data: Any = {
        "order.created": {"id": number, "items": [{"sku": f"s{n}", "count": n} for n in range(2)]},
        "order.paid": {"id": number, "amount": Decimal(rng.randint(1, 10**6)) / 100},
        "user.seen": {"user": {"id": f"u{number}", "tags": [] if age < 0.5 else ["new"]}},
    }[kind]
    return {
        "specversion": "1.0",
        "id": f"{rng.getrandbits(64):016x}",
        "source": "/shop",
        "type": f"com.example.{kind}",
        "time": "2026-01-31T12:00:00Z",
        "ce-trace": rng.choice([None, "a"]),
        **({"partitionkey": str(number)} if age > 0.6 else {}),
        "data": data,
    }


def debezium(rng: random.Random, number: int, age: float) -> Message:
    """A change log: before and after, of which one may be null; a column is added on the way."""
    row = {"id": number % 50, "name": rng.choice(["a", "b", None]), "price": "12.50"}
    if age > 0.5:
        row["discount"] = rng.random()
    op = rng.choice("cud")
    return {
        "before": None if op == "c" else row,
        "after": None if op == "d" else row | {"name": "c"},
        "source": {"version": "3.0", "db": "shop", "table": "goods", "lsn": 10**12 + number},
        "op": op,
        "ts_ms": 1_769_860_800_000 + number,
        "transaction": None if age < 0.7 else {"id": str(number), "total_order": number},
    }


def connect(rng: random.Random, number: int, age: float) -> Message:
    """Kafka Connect's JSON with schemas: each message describes itself."""
    fields = [{"field": "id", "type": "int64", "optional": False}]
    payload: Message = {"id": number}
    if age > 0.5:
        fields.append({"field": "note", "type": "string", "optional": True, "default": "none"})
        payload["note"] = rng.choice([None, "é"])
    return {"schema": {"type": "struct", "fields": fields, "name": "r"}, "payload": payload}


def geojson(rng: random.Random, number: int, age: float) -> Message:
    """GeoJSON: coordinates of any depth, and properties of any name."""
    point = [round(rng.uniform(-180, 180), 6), round(rng.uniform(-90, 90), 6)]
    coordinates: Any = [point] * 3
    kind = rng.choice(["Point", "LineString", "Polygon"])
    if kind != "LineString":
        coordinates = point if kind == "Point" else [coordinates]
    properties: Message = {"name": f"n{number}", "@id": f"way/{number}"}
    if rng.random() < 0.3:
        properties["addr:street"] = "a"
    if age > 0.5:
        properties["addr.city"] = {"": "b"}
    return {
        "type": "Feature",
        "geometry": {"type": kind, "coordinates": coordinates},
        "properties": properties,
        **({"bbox": [*point, *point]} if age > 0.7 else {}),
    }


def telemetry(rng: random.Random, number: int, age: float) -> Message:
    """OpenTelemetry's JSON: attributes are lists of keys with a value of one of several types."""
    values: list[Message] = [
        {"stringValue": "x"},
        {"intValue": str(number)},
        {"doubleValue": rng.random()},
        {"arrayValue": {"values": [{"stringValue": "y"}]}},
    ]
    if age > 0.5:
        values.append({"boolValue": True})
    span = {
        "traceId": f"{rng.getrandbits(128):032x}",
        "name": "GET /",
        "startTimeUnixNano": str(number * 10**9),
        "attributes": [{"key": f"k{n}", "value": rng.choice(values)} for n in range(3)],
        "status": {} if rng.random() < 0.5 else {"code": 2},
    }
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "s"}, "spans": [span]}]}]}


def web_logs(rng: random.Random, number: int, age: float) -> Message:
    """Web logs with open keys: parameters by name, and users by their ids."""
    return {
        "ts": 1_769_860_800 + number,
        "path": f"/p/{number % 7}",
        "status": rng.choice([200, 404, 500]),
        "query": {f"q{rng.randrange(2000)}": rng.choice(["1", "x"]) for _ in range(2)},
        "seen": {str(rng.randrange(10**6)): {"n": 1, **({"last": "a"} if age > 0.5 else {})}},
        **({"referer": {"host": "h"}} if rng.random() < 0.2 else {}),
    }


def sensors(rng: random.Random, number: int, age: float) -> Message:
    """Sensors whose types drift: integers, then fractions, then words."""
    value: Any = number
    if age > 0.4:
        value = number + 0.5
    if age > 0.7 and rng.random() < 0.3:
        value = rng.choice(["n/a", None, False, 10**30, {"raw": number}])
    return {"id": f"s{number % 5}", "value": value, "on": age < 0.8 or rng.choice(["yes", True])}


def nulls_first(_: random.Random, number: int, age: float) -> Message:
    """Fields that are null, or empty, for long."""
    if age < 0.5:
        return {"id": number, "a": None, "b": [], "c": {}, "d": [None]}
    return {"id": number, "a": 1.5, "b": [{"x": 1}], "c": {"y": "z"}, "d": [number, None]}


def deep(rng: random.Random, number: int, age: float) -> Message:
    """Deep objects, each level of which is optional."""
    value: Any = {"leaf": number}
    if age > 0.5:
        value["late"] = [{"n": number}, {"m": {"k": 1}}]
    for level in range(rng.randint(0, 9), -1, -1):
        value = {f"l{level}": value, "n": rng.choice([None, level])}
    return {"id": number, "tree": value}


def heterogeneous(rng: random.Random, number: int, age: float) -> Message:
    """Lists of items of several types."""
    items: list[Any] = [1, "x", None, 2.5, [1], {"k": 1}, True]
    numbers: list[Any] = [number, number + 1]
    if age > 0.5:
        numbers.append(rng.choice([0.5, "many"]))
    return {"id": number, "mixed": rng.sample(items, 3), "numbers": numbers, "pairs": [[1, "a"]]}


def wide(rng: random.Random, number: int, age: float) -> Message:
    """Wide and sparse: a few of many fields, and of ever more."""
    names = rng.sample(range(40 + int(60 * age)), 5)
    return {"id": number, **{f"f{name}": name if name % 3 else f"t{name}" for name in names}}


def flights(rng: random.Random, number: int, age: float) -> Message:
    """Flights, without surprises but one."""
    late = rng.random() < 0.1
    return {
        "year": 2013,
        "carrier": rng.choice(["UA", "DL"]),
        "flight": number,
        "dep_delay": None if late else rng.randint(-20, 300),
        "air_time": 227.0,
        "tailnum": None if late else f"N{number}",
        **({"codeshare": ["AA"]} if age > 0.9 else {}),
    }


HABITS: dict[str, Callable[[random.Random, int, float], Message]] = {
    make.__name__: make
    for make in (
        *(cloud_events, debezium, connect, geojson, telemetry, web_logs),
        *(sensors, nulls_first, deep, heterogeneous, wide, flights),
    )
}
