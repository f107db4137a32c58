"""Rows that are objects: the core reads their fields where Python would find them."""

from __future__ import annotations

import dataclasses
import random
from collections import namedtuple
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from both_paths import CONFIG, produced_on_both_paths
from hypothesis import given, settings
from hypothesis import strategies as st
from nesting import RandomRows
from support import examples
from unusual import with_unusual

from columnar_kafka.producing.pipeline import Pipeline
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# --- classes as the libraries make them -----------------------------------------------------------


class Given:
    """Sets the attributes that it is given."""

    __slots__ = ()

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            setattr(self, name, value)


def as_attrs(names: Sequence[str], *, slots: bool) -> type:
    fields = tuple(SimpleNamespace(name=name) for name in names)
    return type("Attrs", (Given,), {"__attrs_attrs__": fields, **_slots(names, slots=slots)})


def as_msgspec(names: Sequence[str]) -> type:
    return type("Struct", (Given,), {"__struct_fields__": tuple(names), **_slots(names)})


def _slots(names: Sequence[str], *, slots: bool = True) -> dict[str, Any]:
    return {"__slots__": tuple(names)} if slots else {}


def as_pydantic(names: Sequence[str]) -> type:
    """Return a class that looks up attributes as pydantic's `BaseModel`."""

    class Model:
        __slots__ = ("__dict__", "__pydantic_extra__")
        model_fields: ClassVar[dict[str, Any]] = dict.fromkeys(names)

        def __init__(self, **given: Any) -> None:
            object.__setattr__(self, "__dict__", given)
            object.__setattr__(self, "__pydantic_extra__", None)

        @property
        def model_extra(self) -> dict[str, Any] | None:
            return self.__pydantic_extra__  # type: ignore[no-any-return, attr-defined]

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"no {name}")

    return Model


KINDS: dict[str, Callable[[Sequence[str]], Any]] = {
    "dataclass": lambda names: dataclasses.make_dataclass("Data", names),
    "dataclass with slots": lambda names: dataclasses.make_dataclass("Data", names, slots=True),
    "attrs": lambda names: as_attrs(names, slots=False),
    "attrs with slots": lambda names: as_attrs(names, slots=True),
    "msgspec": as_msgspec,
    "pydantic": as_pydantic,
    "namedtuple": lambda names: namedtuple("Tuple", names),  # noqa: PYI024 - with any names
}


# --- usual objects --------------------------------------------------------------------------------

NAMES = ("id", "name", "at")
POINT = pa.struct([("x", pa.int64()), ("y", pa.float64())])
SCHEMA = pa.schema([("name", pa.string()), ("id", pa.int64()), ("at", pa.list_(POINT))])


def slow_records(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the records that Python looks at, from now on."""
    slow: list[Any] = []
    accept_row = Pipeline.accept_row

    def accept(*arguments: Any) -> None:
        slow.append(arguments[3])
        accept_row(*arguments)

    monkeypatch.setattr(Pipeline, "accept_row", accept)
    return slow


@pytest.mark.parametrize("kind", KINDS)
def test_usual_objects_never_leave_the_core(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks at the first record of the batch, and at the first with points."""
    slow = slow_records(monkeypatch)
    row, point = KINDS[kind](NAMES), KINDS[kind](("y", "x"))
    expected = [{"name": f"n{n}", "id": n, "at": [{"x": n, "y": 0.5}] * (n % 3)} for n in range(50)]
    rows = [row(**record | {"at": [point(**at) for at in record["at"]]}) for record in expected]
    assert read_back(rows) == expected
    assert len(slow) == 2


def read_back(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """Produce rows, and return what the topic has."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer(CONFIG) as producer:
        producer.set_schema("t", SCHEMA)
        for row in rows:
            producer.produce("t", row)
    return [
        record.value
        for message in kafka.messages("t", 0)
        for record in Segment(
            topic="t",
            partition=0,
            offset=message.offset(),
            headers=message.headers(),
            value=message.value(),
        ).records()
    ]


# --- changes of a class that the core knows -------------------------------------------------------


def set_property(cls: Any) -> None:
    cls.name = property(lambda _: "changed", lambda *_: None)


def set_getattribute(cls: Any) -> None:
    read = cls.__getattribute__
    cls.__getattribute__ = lambda self, name: "changed" if name == "name" else read(self, name)


def set_property_of_base(cls: Any) -> None:
    cls.__mro__[1].name = property(lambda _: "changed", lambda *_: None)


@pytest.mark.parametrize("change", [set_property, set_getattribute, set_property_of_base])
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_class_is_read_as_python_reads_it(
    kind: str, change: Callable[[Any], None]
) -> None:
    base = type("Base", (KINDS[kind](NAMES),), {"__slots__": ()})
    cls = type("Row", (base,), {"__slots__": ()})

    def rows() -> Iterator[Any]:
        for n in range(4):
            row = cls(id=n, name=f"n{n}", at=[])
            if n == 3:
                change(cls)
            yield row

    read = read_back(rows())
    assert [row["name"] for row in read] == ["n0", "n1", "n2", "changed"]


def test_a_class_that_changes_all_the_time_is_read_right() -> None:
    cls = KINDS["dataclass"](NAMES)

    def rows() -> Iterator[Any]:
        for n in range(4):
            cls.count = n
            yield cls(id=n, name="n", at=[])

    assert [row["id"] for row in read_back(rows())] == [0, 1, 2, 3]


def test_a_class_that_has_changed_is_learned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = slow_records(monkeypatch)
    cls = KINDS["attrs with slots"](NAMES)

    def rows() -> Iterator[Any]:
        for n in range(20):
            if n == 10:
                cls.other = 5
            yield cls(id=n, name="n", at=[])

    assert [row["id"] for row in read_back(rows())] == [*range(20)]
    assert [record[1] for record in slow] == [0, 10]


# --- anything -------------------------------------------------------------------------------------


class Objects:
    """Makes objects of dicts, each record of a column of one class, or of two."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.classes: dict[tuple[str, ...], list[Any]] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if not isinstance(value, dict):
            return value
        fields = {name: self.of(item) for name, item in value.items()}
        names = tuple(fields)
        if not names or not all(isinstance(name, str) and name.isidentifier() for name in names):
            return fields
        if names not in self.classes:
            order = self.rng.sample(names, len(names))
            kinds = [*KINDS.values(), *ODD]
            makers = [self.rng.choice(kinds) for _ in range(self.rng.choice([1, 2]))]
            self.classes[names] = [make(order) for make in makers]
        return self.odd(self.rng.choice(self.classes[names])(**fields))

    def odd(self, made: Any) -> Any:
        """Give or take attributes of few objects."""
        choice = self.rng.random()
        names = [*getattr(made, "__dict__", {}), *getattr(type(made), "__slots__", ())]
        if choice < 0.05 and names and not isinstance(made, tuple):
            name = self.rng.choice(names)
            if not name.startswith("__"):
                with suppress(AttributeError):
                    delattr(made, name)
        elif choice < 0.1 and hasattr(made, "__dict__"):
            made.__dict__["further"] = 5
        elif choice < 0.15 and hasattr(made, "__pydantic_extra__"):
            made.__pydantic_extra__ = self.rng.choice([{}, {"further": 5}])
        return made


def with_property(names: Sequence[str]) -> Any:
    def set_first(self: Any, value: Any) -> None:
        vars(self)[names[0]] = value

    get = property(lambda self: vars(self)[names[0]], set_first)
    return type("WithProperty", (as_attrs(names, slots=False),), {names[0]: get})


def with_default(names: Sequence[str]) -> Any:
    return type("WithDefault", (as_attrs(names, slots=False),), {names[-1]: 1})


def with_one_more(names: Sequence[str]) -> Any:
    return dataclasses.make_dataclass("More", [*names, ("further", int, 5)])


def with_slots_and_attributes(names: Sequence[str]) -> Any:
    base = type("Base", (Given,), _slots(names[:1]))
    fields = tuple(SimpleNamespace(name=name) for name in names)
    return type("Mixed", (base,), {"__attrs_attrs__": fields})


def with_own_extra(names: Sequence[str]) -> Any:
    return type("OwnExtra", (as_pydantic(names),), {"model_extra": None})


def with_own_lookup(names: Sequence[str]) -> Any:
    def read(self: Any, name: str) -> Any:
        return object.__getattribute__(self, name)

    return type("Lookup", (as_attrs(names, slots=True),), {"__getattribute__": read})


def text_with_fields(names: Sequence[str]) -> Any:
    fields = tuple(SimpleNamespace(name=name) for name in names)

    def make(**given: Any) -> Any:
        made = cls("text")
        vars(made).update(given)
        return made

    cls = type("Text", (str,), {"__attrs_attrs__": fields})
    return make


ODD = [
    with_property,
    with_default,
    with_one_more,
    with_slots_and_attributes,
    with_own_extra,
    with_own_lookup,
    text_with_fields,
]


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_random_objects_of_random_types(seed: int) -> None:
    source, rng = RandomRows(seed), random.Random(seed)
    objects = Objects(rng)
    rows = [objects.of(with_unusual(r, rng) if rng.random() < 0.2 else r) for r in source.rows[:40]]
    calls = [{"value": row, "partition": 0, "timestamp": 1} for row in rows]
    produced, expected = produced_on_both_paths(source.schema, calls)
    assert produced == expected
