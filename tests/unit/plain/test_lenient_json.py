"""`Json(…, fields="lenient")`: consumers read JSON that differs from its schema as it lands."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from drifting import Drifting, comparable, values_of
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka import ConfigError, RowError, SchemaError, native
from columnar_kafka.plain import Json, Lenient, restored
from columnar_kafka.plain.row_formats import ROW_FORMATS
from columnar_kafka.testing import FakeKafka

SCHEMA = pa.schema([("n", pa.int64()), ("tags", pa.map_(pa.string(), pa.int64()))])
SETTINGS = {
    "columnar.encoding": "parquet",
    "group.id": "g",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
}
VALUES = [b'{"n": 1, "tags": {"a": 1}}', b'{"n": "x", "new": 1.50}', b"{}"]


def consumer(values: list[bytes | None]) -> Any:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    for value in values:
        kafka.append("t", 0, value)
    made = kafka.Consumer(SETTINGS)
    made.subscribe(["t"])
    return made


@settings(max_examples=examples(50))
@given(st.integers(0, 2**64))
def test_values_are_decoded_as_they_land(seed: int) -> None:
    """Also by the native core."""
    drifting = Drifting(random.Random(seed))
    values = [drifting.message().encode(errors="surrogatepass") for _ in range(100)]
    landed, errors = ROW_FORMATS["json"].open(drifting.schema, lenient=Lenient()).decode(values)
    good = [value for index, value in enumerate(values) if index not in errors]
    array = Json(drifting.schema, fields="lenient").decode(good)
    array.validate(full=True)
    assert array.type == pa.struct(list(landed.schema))
    assert array.to_pylist() == landed.to_pylist()


@pytest.mark.skipif(not native.enabled, reason="there is no core")
def test_a_core_that_panics_leaves_values_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(_: Any) -> None:
        raise RuntimeError("the core has panicked")

    form = Json(SCHEMA, fields="lenient")
    monkeypatch.setattr(native.core.PlainMessages, "of_values", panic, raising=True)
    assert form.decode(VALUES).to_pylist()[1]["_rest"] == '{"n":"x","new":1.50}'


def test_a_table_has_the_rest_and_a_tombstone_is_a_row_of_nulls() -> None:
    table = consumer([*VALUES, None]).consume_arrow(
        9, 10, ["n", "tags", "_rest"], value=Json(SCHEMA, fields="lenient")
    )
    rows = table.to_pylist()
    assert rows[3] == {"n": None, "tags": None, "_rest": None}
    for row, value in zip(rows, VALUES, strict=False):
        assert comparable(restored(row, SCHEMA)) == values_of(value)


def test_a_reader_has_it_too() -> None:
    form = Json(SCHEMA, fields="lenient", rest_column="others", coerce=True)
    with consumer(VALUES) as reading:
        table = reading.arrow_reader(["n", "others"], value=form, until_end=True).read_all()
    assert table.to_pylist()[1] == {"n": None, "others": '{"n":"x","new":1.50}'}


def test_a_message_that_is_refused_harms_only_itself() -> None:
    reading = consumer([VALUES[0], b'{"n": 1, "n": 2}', VALUES[2]])
    form = Json(SCHEMA, fields="lenient")
    assert reading.consume_arrow(9, 10, ["n"], value=form)["n"].to_pylist() == [1]
    with pytest.raises(RowError, match="has the name str 'n' more than once"):
        reading.consume_arrow(9, 10, value=form)
    assert reading.consume_arrow(9, 10, ["n"], value=form)["n"].to_pylist() == [None]


def test_the_words_are_those_of_landing() -> None:
    form = Json(SCHEMA, fields="lenient", unknown="ignore", misfit="dead-letter", path="/p")
    assert form.decode([b'{"p": {"n": 1, "x": 2}}']).to_pylist() == [{"n": 1, "tags": None}]
    with pytest.raises(ValueError, match="field 'n' is str 'x'"):
        form.decode([b'{"p": {"n": "x"}}'])


def test_an_avro_schema_is_taken() -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    assert Json(avro, fields="lenient").decode([b'{"n": 7.0}']).to_pylist() == [
        {"n": 7, "_rest": None}
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"fields": "exact"}, ConfigError, "fields is 'exact': it must be \"lenient\""),
        ({"unknown": "ignore"}, ConfigError, 'they need fields="lenient"'),
        ({"fields": "lenient", "unknown": "grow"}, ConfigError, "what is read grows no table"),
        ({"fields": "lenient", "misfit": "x"}, ConfigError, "misfit is 'x'"),
        ({"fields": "lenient", "rest_column": "_kafka"}, SchemaError, "'_kafka' is reserved"),
        ({"fields": "lenient", "rest_column": "N"}, SchemaError, "so is a field of the schema"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    arguments: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        Json(SCHEMA, **arguments)


def test_without_a_schema_there_is_nothing_to_differ_from() -> None:
    with pytest.raises(TypeError, match="a schema must be"):
        Json(fields="lenient")
