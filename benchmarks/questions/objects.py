"""What does a record cost that is an object, against serializing the same object?"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import orjson
import pydantic

from benchmarks import data
from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench
    from benchmarks.data import Dataset

TITLE = "Rows that are objects, a record"
IS_LONG = False
ABOUT = """Flights as objects of five kinds, given to `produce` as they are, or serialized by what
fits the kind: orjson and msgspec where they take it, for pydantic its own `model_dump_json` or
`orjson.dumps(row.__dict__)`, and for a named tuple `orjson.dumps(row._asdict())` or msgspec, which
writes an array without names. Classes of attrs are as `attrs.define` makes them. The objects of
each round are new: nothing has read them before. Bare."""

SET: Final = "flights"
_TYPES: Final = {"long": int, "double": float, "string": str}
_msgspec: Final = msgspec.json.Encoder().encode


def _fields(flights: Dataset) -> list[tuple[str, Any]]:
    return [(each["name"], _TYPES[each["type"][1]] | None) for each in flights.avro["fields"]]


CLASSES: Final[dict[str, Callable[[list[tuple[str, Any]]], Any]]] = {
    "dataclass": lambda fields: dataclasses.make_dataclass("Row", fields),
    "msgspec Struct": lambda fields: msgspec.defstruct("Row", fields),
    "attrs": lambda fields: attrs.make_class("Row", [name for name, _ in fields], slots=True),
    "pydantic": lambda fields: pydantic.create_model(
        "Row", **{name: (kind, ...) for name, kind in fields}
    ),
    "named tuple": lambda fields: namedtuple("Row", [name for name, _ in fields]),  # noqa: PYI024
}
ENCODERS: Final[dict[str, dict[str, Callable[[Any], Any]]]] = {
    "dataclass": {"orjson": orjson.dumps, "msgspec": _msgspec},
    "msgspec Struct": {"msgspec": _msgspec},
    "attrs": {"msgspec": _msgspec},
    "pydantic": {
        "pydantic": lambda row: row.model_dump_json(),
        "orjson": lambda row: orjson.dumps(row.__dict__),
    },
    "named tuple": {
        "orjson": lambda row: orjson.dumps(row._asdict()),
        "msgspec, arrays": _msgspec,
    },
}


class SendingObjects(Sending):
    """Sends objects of one kind; lives in a child."""

    def __init__(self, encoder: str, kind: str, servers: str, rows: int) -> None:
        super().__init__(OURS if encoder == OURS else ORJSON, SET, servers, rows)
        fields = _fields(self.data)
        self._class = CLASSES[kind](fields)
        names = [name for name, _ in fields]

        def decode(value: bytes) -> dict[str, Any]:
            found: Any = orjson.loads(value)
            return found if isinstance(found, dict) else dict(zip(names, found, strict=True))

        if encoder != OURS:
            self.competitor.encode, self.competitor.decode = ENCODERS[kind][encoder], decode

    def block(self, rows: int, *, fresh: bool, full: bool) -> list[Any]:
        """Return new objects with the same values: the first read of one may cost more."""
        return [self._class(**row) for row in self.shared[:rows]]


def answer(bench: Bench) -> Answer:
    """Produce each kind; the worst is the first claim."""
    found = Answer()
    rows = bench.rows(data.load(SET).rows)
    for kind, encoders in ENCODERS.items():
        bench.say(kind)
        who = (OURS, *encoders)
        topics = {each: bench.topic() for each in who}
        start = {each: Child(SendingObjects, each, kind, bench.servers, rows) for each in who}
        with Children(start) as children:
            costs = children.rounds(bench.rounds, "send", False, False, first=topics)
            children.together("check", False, first=topics)
        bench.drop(*topics.values())
        found.add_costs(kind, costs, rows)
        for them in encoders:
            found.compare(kind, them, at_least=1)
    return found
