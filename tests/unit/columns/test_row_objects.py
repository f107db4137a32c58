"""A row may be an object of any common library; none of them has to be installed."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_rows.row_objects import RowReader
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.errors import RowError
from columnar_kafka.schema import RecordSchema

POINT = {
    "type": "record",
    "name": "p",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 5}],
}
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "at", "type": POINT},
        {"name": "path", "type": {"type": "array", "items": "p"}, "default": []},
    ],
}


class Object:
    """The base of the stand-ins for the libraries' classes: attributes, in any order."""

    def __init__(self, **given: Any) -> None:
        for name, value in reversed(given.items()):
            setattr(self, name, value)


@dataclasses.dataclass
class DataPoint:
    x: int
    y: int = dataclasses.field(init=False)
    origin: ClassVar[int] = 0

    def __init__(self, **given: Any) -> None:
        self.__dict__ |= given


@dataclasses.dataclass(frozen=True, slots=True)
class DataRow:
    name: Any
    at: Any
    path: Any = ()


class AttrsPoint(Object):
    __attrs_attrs__ = (SimpleNamespace(name="x"), SimpleNamespace(name="y"))


class AttrsRow(Object):
    __attrs_attrs__ = tuple(SimpleNamespace(name=name) for name in ("name", "at", "path"))


class MsgspecPoint(Object):
    __struct_fields__ = ("x", "y")


class MsgspecRow(Object):
    __struct_fields__ = ("name", "at", "path")


class PydanticPoint(Object):
    model_fields: ClassVar[dict[str, Any]] = {"x": None, "y": None}
    model_extra: dict[str, Any] | None = None


class PydanticRow(Object):
    model_fields: ClassVar[dict[str, Any]] = {"name": None, "at": None, "path": None}
    model_extra: dict[str, Any] | None = None


class TuplePoint(NamedTuple):
    x: Any
    y: Any


TupleRow = namedtuple("TupleRow", "name at path")  # noqa: PYI024 - both ways to make one

KINDS = [
    (DataRow, DataPoint),
    (AttrsRow, AttrsPoint),
    (MsgspecRow, MsgspecPoint),
    (PydanticRow, PydanticPoint),
    (TupleRow, TuplePoint),
    (lambda **given: UserDict(given), lambda **given: MappingProxyType(given)),
    (lambda **given: OrderedDict(given), lambda **given: defaultdict(int, given)),
]


def columns() -> RowColumns:
    return RowColumns(RecordSchema.parse(SCHEMA))


def stored(row: Any) -> Any:
    made = columns()
    builder = made.builder()
    builder.append(made.take(row)[0])
    batch, refused = builder.finish()
    assert refused == {}
    return to_rows(batch)[0]


@pytest.mark.parametrize(("row", "point"), KINDS)
def test_an_object_can_be_a_row_or_a_record_in_a_row(row: Any, point: Any) -> None:
    given = row(name="a", at=point(x=1, y=2), path=[point(x=3, y=4), {"x": 5, "y": 6}])
    assert stored(given) == {
        "name": "a",
        "at": {"x": 1, "y": 2},
        "path": [{"x": 3, "y": 4}, {"x": 5, "y": 6}],
    }


@pytest.mark.parametrize(
    ("row", "point"), [kind for kind in KINDS if kind[0] not in (DataRow, TupleRow)]
)
def test_a_field_that_an_object_lacks_is_missing(row: Any, point: Any) -> None:
    """It gets the default, even if a mapping would make a value up; without one it is refused."""
    assert stored(row(name="a", at=point(x=1))) == {
        "name": "a",
        "at": {"x": 1, "y": 5},
        "path": [],
    }
    with pytest.raises(RowError, match=r"^field 'name' is missing, and has no default$"):
        columns().take(row(at=point(x=1)))
    with pytest.raises(RowError, match=r"^field 'at\.x' is missing, and has no default$"):
        columns().take(row(name="a", at=point(y=1)))


def test_a_dataclass_field_that_was_never_set_is_missing() -> None:
    assert stored(DataRow(name="a", at=DataPoint(x=1)))["at"] == {"x": 1, "y": 5}


@dataclasses.dataclass
class HalfInSlots:
    """A field that has no slot, where objects have no `__dict__`: it is never set."""

    __slots__ = ("x",)
    x: int
    y: int = dataclasses.field(init=False)


def test_a_field_without_a_place_is_missing() -> None:
    assert stored(DataRow(name="a", at=HalfInSlots(1)))["at"] == {"x": 1, "y": 5}


@dataclasses.dataclass
class More:
    x: int = 1
    y: int = 2
    z: int = 3


@pytest.mark.parametrize("values", [(), ("a",), ("a", "b")])
def test_a_named_tuple_that_is_too_short_lacks_fields(values: tuple[str, ...]) -> None:
    row = tuple.__new__(TupleRow, values)
    missing = TupleRow._fields[len(values)]
    with pytest.raises(RowError, match=f"field '{missing}' is missing, and has no default"):
        RowReader(TupleRow._fields, "", {}).values(row)


@pytest.mark.parametrize("at", [More(), namedtuple("T", "x y z")(1, 2, 3), {"x": 1, "z": 3}])  # noqa: PYI024 - as above
def test_a_field_of_an_object_that_the_schema_lacks_is_refused(at: Any) -> None:
    with pytest.raises(RowError, match=r"^field 'at\.z' is not in the topic's schema, which has "):
        columns().take({"name": "a", "at": at})


def test_the_extra_fields_of_a_pydantic_model_are_not_dropped() -> None:
    point = PydanticPoint(x=1, y=2, model_extra={"z": 3})
    with pytest.raises(RowError, match=r"^field 'at\.z' is not in the topic's schema"):
        columns().take({"name": "a", "at": point})


@pytest.mark.parametrize(
    "row", [(1, 2, 3), [("name", "a")], object(), SimpleNamespace(name="a"), DataRow, 5, None]
)
def test_nothing_else_is_a_row(row: Any) -> None:
    """Nor is a class whose instances are rows."""
    with pytest.raises(TypeError) as raised:
        columns().take(row)
    assert str(raised.value) == (
        "a row must be a dict or other mapping, a namedtuple, or an object of a dataclass, attrs, "
        f"msgspec or pydantic class, not {type(row).__name__}"
    )
    with pytest.raises(RowError, match=r"^field 'at' is .*; its schema wants a record: a dict or "):
        columns().take({"name": "a", "at": row if row is not None else 5})


def test_changing_an_object_afterwards_changes_nothing() -> None:
    point = MsgspecPoint(x=1, y=2)
    row = MsgspecRow(name="a", at=point, path=[point])
    made = columns()
    builder = made.builder()
    builder.append(made.take(row)[0])
    point.x = 9
    row.name = "b"
    row.path.clear()
    assert to_rows(builder.finish().batch) == [
        {"name": "a", "at": {"x": 1, "y": 2}, "path": [{"x": 1, "y": 2}]}
    ]
