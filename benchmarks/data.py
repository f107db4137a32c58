"""The data sets: seeded rows, an Avro schema, and how many rows a round sends."""

from __future__ import annotations

import gc
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from columnar_kafka.demo import flights

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
_BASE_MS: Final = 1_700_000_000_000


class Record(NamedTuple):
    """The arguments of one `produce`; the timestamp in milliseconds since the epoch."""

    value: Any
    key: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int


@dataclass(frozen=True)
class Dataset:
    """Rows of one kind. `rows` is what a round sends, at most 100,000."""

    name: str
    avro: Any
    make: Callable[[int], list[Row]]
    key: Callable[[Row], str | None]
    rows: int
    segment_rows: int = 10_000

    def block(self, rows: int, *, fresh: bool) -> list[Row]:
        """Make rows; `fresh` ones share no string and no container, not even their keys."""
        gc.disable()  # a million objects that stay would be walked again and again
        try:
            made = self.make(rows)
            return list(map(_own, made)) if fresh else made
        finally:
            gc.enable()

    def records(self, rows: list[Row]) -> list[Record]:
        """Add a key, a header and a time to each row, in objects of their own."""
        keys = map(self.key, rows)
        return [
            Record(
                row,
                None if key is None else key.encode(),
                [("trace", b"".join((b"01234567", b"89abcdef")))],
                _BASE_MS + place,
            )
            for place, (row, key) in enumerate(zip(rows, keys, strict=True))
        ]


def _own(value: Any) -> Any:
    """Copy a value so that it shares no string and no container."""
    kind = type(value)
    if kind is str:
        return value.encode().decode()
    if kind is dict:
        return {_own(key): _own(item) for key, item in value.items()}
    if kind is list:
        return [_own(item) for item in value]
    return value


# --- the sets -------------------------------------------------------------------------------------

_AVRO: Final[dict[pa.DataType, str]] = {
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
}


def _record(fields: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": name, "type": ["null", kind], "default": None} for name, kind in fields
        ],
    }


def _flights_table() -> pa.Table:
    """The flights as pandas reads them: doubles where a number is missing, times as text."""
    table = flights.load()
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            text = column.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s")).cast(pa.string())
            text = pc.replace_substring(text, " ", "T")
            columns[name] = pc.binary_join_element_wise(text, "Z", "")
        elif pa.types.is_integer(column.type):
            columns[name] = column.cast(pa.float64() if column.null_count else pa.int64())
        else:
            columns[name] = column
    return pa.table(columns)


def _flights(rows: int) -> list[Row]:
    table = _flights_table()
    copies = -(-rows // table.num_rows)
    made = (table.slice(0, rows) if copies == 1 else pa.concat_tables([table] * copies)).slice(
        0, rows
    )
    texts = [field.name for field in made.schema if field.type == pa.string()]
    records: list[Row] = made.to_pylist()
    for row in records:
        for name in texts:
            if row[name] is not None:
                row[name] = sys.intern(row[name])
    return records


def _narrow(rows: int) -> list[Row]:
    chance = random.Random(1)
    names = [f"sensor-{number}" for number in range(500)]
    return [
        {"id": place, "name": names[chance.randrange(500)], "value": chance.gauss(20, 5)}
        for place in range(rows)
    ]


_VERBS = ["accepted", "rejected", "retried", "opened"]
_VERBS += ["closed", "resolved", "cached", "missed"]
_NOUNS: Final = ["request", "session", "token", "order", "basket", "invoice", "stream", "lease"]
_LEVELS: Final = ["INFO", "DEBUG", "WARN", "ERROR"]
_HOSTS: Final = [f"web-{number:02}.example.net" for number in range(40)]


def _log(rows: int) -> list[Row]:
    chance = random.Random(4)
    choice, below = chance.choice, chance.randrange
    return [
        {
            "at": _BASE_MS + place * 3 + below(3),
            "level": chance.choices(_LEVELS, [80, 10, 8, 2])[0],
            "host": choice(_HOSTS),
            "path": f"/api/v1/{choice(_NOUNS)}/{below(10**6)}",
            "message": f"{choice(_VERBS)} {choice(_NOUNS)} {below(10**5)} after {below(900)} ms "
            f"for user {below(10**6)}",
            "trace": f"{chance.getrandbits(128):032x}",
            "ms": below(900),
        }
        for place in range(rows)
    ]


def _nested(rows: int) -> list[Row]:
    chance = random.Random(3)
    below, choice, sample = chance.randrange, chance.choice, chance.sample
    skus = [f"SKU-{number:05}" for number in range(2_000)]
    cities = [f"city-{number}" for number in range(300)]
    return [
        {
            "id": place,
            "at": _BASE_MS + place * 37,
            "customer": {
                "id": below(50_000),
                "name": f"name {below(50_000)}",
                "city": choice(cities),
            },
            "lines": [
                {
                    "sku": choice(skus),
                    "count": below(1, 9),
                    "price": round(chance.random() * 100, 2),
                }
                for _ in range(below(1, 6))
            ],
            "tags": sample(["a", "b", "c", "new", "gift", "express"], below(4)),
            "attributes": {
                key: choice(cities) for key in sample(["from", "to", "via", "ref"], below(4))
            },
            "paid": chance.random() < 0.9,  # noqa: PLR2004 - most orders
        }
        for place in range(rows)
    ]


def _struct(name: str, /, **types: Any) -> dict[str, Any]:
    fields = [{"name": field, "type": kind} for field, kind in types.items()]
    return {"type": "record", "name": name, "fields": fields}


_ORDER: Final = _struct(
    "Order",
    id="long",
    at="long",
    customer=_struct("Customer", id="long", name="string", city="string"),
    lines={"type": "array", "items": _struct("Line", sku="string", count="long", price="double")},
    tags={"type": "array", "items": "string"},
    attributes={"type": "map", "values": "string"},
    paid="boolean",
)

_EVENTS: Final = [
    _struct(
        "Placed", id="long", customer="string", total="double", skus=_ORDER["fields"][4]["type"]
    ),
    _struct("Paid", id="long", at="long", method="string", of=["long", "string"]),
    _struct("Shipped", id="long", at="long", carrier="string", country="string", weight="double"),
]


def _events(rows: int) -> list[Row]:
    chance = random.Random(5)
    below, choice = chance.randrange, chance.choice
    skus = [f"SKU-{number:05}" for number in range(2_000)]

    def event(place: int) -> Row:
        order, at = place // 3, _BASE_MS + place * 37
        if place % 3 == 0:
            total = round(chance.random() * 500, 2)
            some = [choice(skus) for _ in range(below(1, 4))]
            return {"id": order, "customer": f"name {below(50_000)}", "total": total, "skus": some}
        if place % 3 == 1:
            of = below(10**9) if place % 2 else f"voucher {below(1000)}"
            return {"id": order, "at": at, "method": choice(_METHODS), "of": of}
        country, weight = choice(_COUNTRIES), round(chance.random() * 30, 1)
        return {
            "id": order,
            "at": at,
            "carrier": choice(_CARRIERS),
            "country": country,
            "weight": weight,
        }

    return list(map(event, range(rows)))


_METHODS: Final = ["card", "cash", "transfer", "voucher"]
_CARRIERS: Final = ["DHL", "UPS", "post"]
_COUNTRIES: Final = ["DE", "FR", "IT", "NO", "PL", "US"]

_WIDE_INTS, _WIDE_FLOATS, _WIDE_WORDS, _WIDE_IDS, _WIDE_FLAGS = (
    [f"{kind}{number:03}" for number in range(*span)]
    for kind, span in (("i", (90,)), ("f", (50,)), ("s", (40,)), ("s", (40, 50)), ("b", (10,)))
)


def _wide(rows: int) -> list[Row]:
    chance = random.Random(2)
    words = [[f"w{k}-{j}" for j in range(5 + 10 * k)] for k in range(len(_WIDE_WORDS))]

    def rarely(value: Any) -> Any:
        return None if chance.random() < 0.05 else value  # noqa: PLR2004 - some are missing

    def row() -> Row:
        made: Row = {}
        for k, name in enumerate(_WIDE_INTS):
            made[name] = rarely(chance.randrange(10 ** (1 + k % 9)))
        for k, name in enumerate(_WIDE_FLOATS):
            made[name] = rarely(round(chance.gauss(100, 20), 1 + k % 4))
        for k, name in enumerate(_WIDE_WORDS):
            made[name] = chance.choice(words[k])
        for name in _WIDE_IDS:
            made[name] = f"{chance.getrandbits(64):016x}"
        for name in _WIDE_FLAGS:
            made[name] = chance.getrandbits(1) == 1
        return made

    return [row() for _ in range(rows)]


def _wide_avro() -> dict[str, Any]:
    kinds = {"i": "long", "f": "double", "s": "string", "b": "boolean"}
    names = [*_WIDE_INTS, *_WIDE_FLOATS, *_WIDE_WORDS, *_WIDE_IDS, *_WIDE_FLAGS]
    return _record([(name, kinds[name[0]]) for name in names])


def _flights_avro() -> dict[str, Any]:
    return _record([(field.name, _AVRO[field.type]) for field in _flights_table().schema])


_LOG_TYPES: Final = {"at": "long", "ms": "long"}
_LOG_NAMES: Final = ("at", "level", "host", "path", "message", "trace", "ms")
_NARROW_FIELDS: Final = [("id", "long"), ("name", "string"), ("value", "double")]

NAMES: Final = ("flights", "narrow", "log", "nested", "wide")


def load(name: str) -> Dataset:
    """Return a data set by its name. Raises KeyError."""
    if name == "flights":
        return Dataset(name, _flights_avro(), _flights, lambda row: row["tailnum"], 50_000)
    if name == "narrow":
        return Dataset(name, _record(_NARROW_FIELDS), _narrow, lambda row: row["name"], 100_000)
    if name == "log":
        avro = _record([(column, _LOG_TYPES.get(column, "string")) for column in _LOG_NAMES])
        return Dataset(name, avro, _log, lambda row: row["host"], 50_000)
    if name == "nested":
        return Dataset(name, _ORDER, _nested, lambda row: row["customer"]["city"], 50_000)
    if name == "wide":
        return Dataset(name, _wide_avro(), _wide, lambda row: row["s001"], 5_000, 1_000)
    if name == "events":
        return Dataset(name, _EVENTS, _events, lambda row: str(row["id"]), 60_000)
    raise KeyError(name)
