"""Values in JSON become the same records with the native core and without it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from drifting import ODD, Drifting
from hypothesis import given, settings
from hypothesis import strategies as st
from json_leaves import LEAVES, NUMBERS, TEXTS
from made_again import footer_of
from support import examples

from columnar_kafka import native
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.producing.pipeline import Pipeline
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = {
    "columnar.encoding": "parquet",
    "columnar.linger.ms": 60_000,
    "columnar.value.format": "json",
}


def stored(schema: pa.Schema, values: Sequence[Any], **config: Any) -> list[Any]:
    """Return the rows of values with their rests, or values that are no rows; and the reports."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    told: list[Any] = []
    made: list[Any] = []
    with kafka.Producer(CONFIG | config) as producer:
        producer.set_schema("t", schema)
        for value in values:
            producer.produce("t", value, on_delivery=lambda _, sent: told.append(sent.value()))
    nulls: set[str] = set()
    for message in kafka.messages("t"):
        if not is_segment(message.headers()):
            made.append(message.value())
            continue
        segment = Segment(
            topic="t",
            partition=0,
            offset=message.offset(),
            headers=message.headers(),
            value=message.value(),
        )
        footer = footer_of(message.value())
        assert footer is not None
        assert nulls <= set(footer.get("nulls", []))
        nulls = set(footer.get("nulls", []))
        columns = segment.to_table().drop_columns(["_kafka"])
        made += map(repr, to_rows(columns.combine_chunks().to_batches()[0]))
    return [made, told]


def stored_alike(schema: pa.Schema, values: Sequence[Any], **config: Any) -> list[Any]:
    """Return what both paths have stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", False)
        pure = stored(schema, values, **config)
    with_core = stored(schema, values, **config)
    for value, with_it, without in zip(values, with_core[0], pure[0], strict=True):
        assert (value, with_it) == (value, without)
    assert with_core == pure
    return with_core


@settings(max_examples=examples(300))
@given(st.integers(0, 2**64))
def test_random_objects_are_stored_alike(seed: int) -> None:
    rng = random.Random(seed)
    drifting = Drifting(rng)
    values: list[Any] = [drifting.message().encode() for _ in range(50)]
    for index in range(len(values)):
        if rng.random() < 0.05:
            values[index] = rng.choice([b"", b"[]", values[index][:-1], values[index] + b"1"])
        elif rng.random() < 0.2:
            values[index] = values[index].decode()
    fields = rng.choice(["lenient", "lenient", "exact"])
    stored_alike(drifting.schema, values, **{"columnar.value.fields": fields})


@pytest.mark.parametrize("arrow", LEAVES, ids=str)
def test_each_leaf_takes_the_same(arrow: pa.DataType) -> None:
    values = [*ODD, *NUMBERS, *(f"-{number}" for number in NUMBERS), *(f'"{t}"' for t in TEXTS)]
    schema = pa.schema([("f", arrow), pa.field("g", arrow, nullable=False)])
    texts = [f'{{"f":{value},"g":{value}}}'.encode() for value in values]
    stored_alike(schema, [*texts, *(b'{"f":%s}' % value.encode() for value in values)])
    stored_alike(pa.schema([("f", arrow)]), [b'{"f":%s}' % value.encode() for value in values])


def test_rows_among_values_are_stored_alike() -> None:
    schema = pa.schema([("n", pa.int64()), ("l", pa.list_(pa.struct([("x", pa.int64())])))])
    rows = [{"n": None, "l": None}, {"n": 1, "l": [{"x": None}, None]}, {"n": None, "l": []}]
    values = [b"{}", *rows, b'{"n":null,"l":[{}]}', *rows]
    made, told = stored_alike(schema, values)
    assert (len(made), told[1]) == (len(values), rows[0])


@pytest.mark.parametrize(
    "value", [b'{"n":1.5,"t":"x","new":[1]}', b'{"n":null}', '{"t":"x"}', {"n": 1.0, "t": ""}]
)
def test_the_core_needs_no_python_for_the_usual_value(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer(CONFIG) as producer:
        producer.set_schema("t", pa.schema([("n", pa.float64()), ("t", pa.string())]))
        producer.produce("t", b"{}")  # the first one is Python's
        for name in ("accept_value", "accept_row"):
            monkeypatch.setattr(Pipeline, name, lambda *_: calls.append(1))
        producer.produce("t", value, key="k", headers=[("h", b"v")])
        monkeypatch.undo()
    assert calls == []
