"""The work for a column does not grow with the number of columns.

Counted are hashes and comparisons of names, which is what looking for one in a list, or making a
set of all for each, comes to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from segments import segment
from tables import assigned_consumer, put

from columnar_kafka.columns.from_arrow.cast import check_field_names
from columnar_kafka.consuming.arrow import projection
from columnar_kafka.consuming.arrow.table_builder import _can_hold
from columnar_kafka.schema.arrow import normalise
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FEW, MANY = 200, 800


class Name(str):
    """A column's name, which counts how often names are hashed and compared."""

    __slots__ = ()
    steps = 0

    def __hash__(self) -> int:
        Name.steps += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Name.steps += 1
        return str.__eq__(self, other)


@dataclass(frozen=True)
class Field:
    name: Name
    type: pa.DataType
    nullable: bool = True
    metadata: None = None


class Schema:
    """The part of a `pyarrow.Schema` that is used here, with names that count their use."""

    metadata = None

    def __init__(self, columns: int) -> None:
        self.names = [Name(f"c{number}") for number in range(columns)]
        self._fields = {name: Field(name, pa.int64()) for name in self.names}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields.values())

    def field(self, name: Name) -> Field:
        return self._fields[name]


def table(columns: int) -> pa.Table:
    return pa.table({f"c{number}": [1, 2] for number in range(columns)})


def opened(columns: int) -> Segment:
    made = segment(table(columns))
    return Segment(topic="t", partition=0, offset=0, headers=made.headers, value=made.value)


def consumed(columns: int, **options: Any) -> Callable[[], Any]:
    kafka = FakeKafka()
    put(kafka, table(columns))
    consumer = assigned_consumer(kafka)
    names = [Name(f"c{number}") for number in range(columns)]
    return lambda: consumer.consume_arrow(2, 0, names, **options)


def consumed_absent(columns: int) -> Callable[[], Any]:
    kafka = FakeKafka()
    put(kafka, table(1))
    consumer = assigned_consumer(kafka)
    names = [Name(f"c{number}") for number in range(columns)]
    return lambda: consumer.consume_arrow(2, 0, names, promote=True)


def decoded(columns: int) -> Callable[[], Any]:
    opened_segment, names = opened(columns), Schema(columns).names
    return lambda: opened_segment.to_table(names)


def normalised(columns: int) -> Callable[[], Any]:
    schema: Any = Schema(columns)
    return lambda: normalise(schema)


def checked(columns: int) -> Callable[[], Any]:
    schema: Any = Schema(columns)
    return lambda: check_field_names(schema.names, schema, (), ignore_extra=False)


def grown(columns: int) -> Callable[[], Any]:
    old: Any = Schema(columns)
    new: Any = Schema(columns)
    return lambda: _can_hold(new, old)


@pytest.mark.parametrize(
    "prepare", [consumed, consumed_absent, decoded, normalised, checked, grown]
)
def test_the_work_for_a_column_is_the_same_among_many_columns(prepare) -> None:
    def steps(columns: int) -> float:
        work = prepare(columns)
        Name.steps = 0
        assert work() is not False
        return Name.steps / columns

    few = steps(FEW)
    assert few > 0
    assert steps(MANY) <= 1.1 * few


@pytest.mark.parametrize("columns", [FEW, MANY])
def test_the_columns_of_a_filter_are_found_in_few_steps(columns, monkeypatch) -> None:
    asked: list[Any] = []
    unbound = projection.binding_error

    def counted(condition: Any, schema: Any) -> str:
        asked.append(schema)
        return unbound(condition, schema)

    monkeypatch.setattr(projection, "binding_error", counted)
    kafka = FakeKafka()
    put(kafka, table(columns))
    read = assigned_consumer(kafka).consume_arrow(2, 0, ["c1"], filter=pc.field("c5") == 1)
    assert read.to_pydict() == {"c1": [1]}
    assert len(asked) <= 4 + 2 * math.log2(columns + 8)
