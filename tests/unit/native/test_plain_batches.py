"""Plain messages that the core decodes land as Python lands them: the same rows, and refusals."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Message
from confluent_kafka.schema_registry import Schema, SchemaRegistryError
from drifting import Drifting
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from lakes import FENCE
from landed_alike import ROOM, assert_lands_alike, assert_rows_land_alike
from nesting import RandomRows
from plain_values import avro_values, broken, json_rows, json_values, schema
from support import by_profile, examples

from columnar_kafka import native
from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest import Decoding
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.landing.core_rows import CoreRows
from columnar_kafka.plain import Lenient

if TYPE_CHECKING:
    from collections.abc import Sequence

INT = pa.int64()
VALUES = {"json": json_values, "avro": avro_values}
RUNS = by_profile(50, 200)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**64), st.sampled_from(["json", "avro"]))
def test_random_messages_land_as_they_do_one_by_one(seed: int, form: str) -> None:
    rng = random.Random(seed)
    avro = schema(rng)
    assert_lands_alike(Decoding(form, avro), VALUES[form](avro, rng, RUNS), rng)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**64))
def test_random_rows_of_random_types_land_as_they_do_one_by_one(seed: int) -> None:
    source, rng = RandomRows(seed), random.Random(seed)
    try:
        decoding = Decoding("json", source.schema)
    except ConfigError:  # a map whose keys are no texts
        reject()
    assert_lands_alike(decoding, json_rows(source.rows[:RUNS], rng), rng)


class OfSchemas:
    """A client of a registry that has these schemas, by their ids from 1 on."""

    def __init__(self, schemas: Sequence[Any]) -> None:
        self._schemas = schemas

    def get_schema(self, number: int) -> Any:
        if not 0 < number <= len(self._schemas):
            raise SchemaRegistryError(404, 40403, "Schema not found")
        return Schema(json.dumps(self._schemas[number - 1]), "AVRO")

    def config(self) -> dict[str, str]:
        return {"url": "mock://these"}


@settings(max_examples=examples(100))
@given(st.integers(0, 2**64))
def test_random_messages_of_a_registrys_schemas_land_as_they_do_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    schemas = [schema(rng) for _ in range(rng.randint(1, 4))]
    client, values = OfSchemas(schemas), []
    for number, avro in enumerate(schemas, 1):
        prefix = b"\0" + number.to_bytes(4, "big")
        some = avro_values(avro, rng, RUNS // len(schemas))
        values += [value if value is None else prefix + value for value in some]
    if rng.random() < 0.7:
        rng.shuffle(values)
    values += [b"\0\0\0\0\7", b"", b"none"]
    assert_rows_land_alike(Decoding(registry=client), values, rng)


@settings(max_examples=examples(200))
@given(st.integers(0, 2**64))
def test_random_objects_that_drift_land_as_they_do_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    drifting, lenient = Drifting(rng), random_rules(rng)
    values = [drifting.message() for _ in range(RUNS)]
    if lenient.path:
        values = [enveloped(value, rng) for value in values]
    odd = [odd_text(value, rng).encode(errors="surrogatepass") for value in values]
    decoding = Decoding("json", drifting.schema, lenient=lenient)
    assert_lands_alike(decoding, [broken(value, rng) for value in odd], rng)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**64))
def test_random_messages_land_leniently_as_they_do_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    avro = schema(rng)
    decoding = Decoding("json", avro, lenient=replace(random_rules(rng), path=""))
    assert_lands_alike(decoding, json_values(avro, rng, RUNS), rng)


def random_rules(rng: random.Random) -> Lenient:
    return Lenient(
        unknown=rng.choice(["rest", "ignore"]),
        misfit=rng.choice(["rest", "rest", "dead-letter"]),
        coerce=rng.random() < 0.3,
        path=rng.choice(["", "", "", "/a", "/a/b"]),
    )


def enveloped(value: str, rng: random.Random) -> str:
    others = ['"z": [1, {"a": 1}], ', '"a": 1, ', '"b": null, ', ""]
    inner = f'{{{rng.choice(others)}"a": {value}, "b": {value}, "y": 1}}'
    return inner if rng.random() < 0.5 else f'{{"x": 0, "a": {inner}}}'


def odd_text(value: str, rng: random.Random) -> str:
    """Return a message, or one in which a name is repeated, or that is nested deeply."""
    if rng.random() < 0.95:
        return value
    depth = rng.choice([3, 198, 199, 200, 500])
    more = [
        '"u": 1, "u": 2',
        '"u": [{"v": 1, "v": 2}]',
        '"u": 1e99999999999999999999',
        f'"u": {"[" * depth + "]" * depth}',
        ", ".join(f'"u{n}": {n}' for n in range(rng.choice([10, 70]))),
    ]
    return value.replace("{", "{" + rng.choice(more) + ", ", rng.choice([1, 1, 9]))


def test_the_core_takes_objects_that_differ() -> None:
    schema = pa.schema(
        [("n", pa.int64()), ("f", pa.float64()), ("t", pa.string()), ("s", pa.struct([("x", INT)]))]
    )
    values = [
        *(b'{"n": 7.0, "f": 0.30000000000000004, "t": "\\u00e9", "s": {"x": 1}}', b"{}"),
        b'{"new": {"a": ["\\u00e9\\n", 1.50, null]}, "s": {"y": "\\ud83d\\ude00"}, "n": "x"}',
        *(b'{"n": 1.5, "f": true, "t": 5, "s": []}', b'{"f": 0.1000000000000000055, "n": null}'),
        b'{"s": null, "_rest": {"a": "a"}, "x": {"y": {"y": 1}}}',
    ]
    messages = [
        Message(topic="t", partition=0, offset=offset, value=value, timestamp=(1, 1))
        for offset, value in enumerate(values)
    ]
    core = native.core.read_messages(messages, 0, Message, ROOM)
    assert core is not None
    decoder = PlainDecoder(Decoding("json", schema, lenient=Lenient()))
    assert CoreRows(decoder).begin(FENCE).take(core, 0, len(values)) == len(values)
    assert_lands_alike(Decoding("json", schema, lenient=Lenient()), values, random.Random(1))
    growing = PlainDecoder(Decoding("json", schema, lenient=Lenient(unknown="grow")))
    assert CoreRows(growing).begin(FENCE).take(core, 0, len(values)) == 2  # Python is to see it


def test_the_core_coerces_texts_and_numbers() -> None:
    schema = pa.schema(
        [("n", pa.int64()), ("f", pa.float64()), ("t", pa.string()), ("b", pa.bool_())]
    )
    values = [
        *(b'{"n": "7", "f": "-1.5e3", "t": 1.50, "b": "true"}', b'{"n": "7.0", "b": "false"}'),
        *(b'{"n": " 7", "f": "x", "b": "yes"}', b'{"n": "07", "f": "1.", "t": true, "b": []}'),
        *(b'{"n": "1.5", "f": "0.1000000000000000055"}', b'{"n": "", "f": "-", "b": ""}'),
        b'{"b": 1}',  # is Python's to judge
    ]
    messages = [
        Message(topic="t", partition=0, offset=offset, value=value, timestamp=(1, 1))
        for offset, value in enumerate(values)
    ]
    core = native.core.read_messages(messages, 0, Message, ROOM)
    assert core is not None
    decoding = Decoding("json", schema, lenient=Lenient(coerce=True))
    taken = CoreRows(PlainDecoder(decoding)).begin(FENCE).take(core, 0, len(values))
    assert taken == len(values) - 1
    large = [b'{"n": "%s", "f": "%s"}' % (b"9" * n, b"9" * n) for n in (15, 18, 19, 20, 400)]
    assert_lands_alike(decoding, [*values, *large], random.Random(1))


@pytest.mark.parametrize("form", ["json", "avro"])
def test_the_core_takes_what_the_schema_has(form: str) -> None:
    rng = random.Random(1)
    fields = [
        {"name": "a", "type": ["null", "long"]},
        {"name": "b", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "c", "type": "string"},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "e", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    avro = {"type": "record", "name": "R", "fields": fields}
    decoder = PlainDecoder(Decoding(form, avro))
    values = VALUES[form](avro, rng, 500)
    messages = [
        Message(topic="t", partition=0, offset=offset, value=value, timestamp=(1, 1))
        for offset, value in enumerate(values)
    ]
    decoded = decoder.decode(FENCE, [source_message(message) for message in messages])
    core, rows = (
        native.core.read_messages(messages, 0, Message, ROOM),
        CoreRows(decoder).begin(FENCE),
    )
    assert core is not None
    left, at = [], 0
    while (at := rows.take(core, at, len(messages))) < len(messages):
        left.append(at)
        at += 1
    good_ones_left = set(left) - decoded.refused.keys()
    assert len(rows) + len(good_ones_left) == decoded.rows.num_rows
    assert len(good_ones_left) < 25  # a default, other bases, a name that is repeated
    assert len(rows) > 300


def test_a_header_of_any_message_is_found() -> None:
    headers: list[Any] = [None, [], [("other", b"1"), ("é", None)], [("x", b""), ("né", b"2")]]
    messages = [
        message
        for offset, some in enumerate(headers)
        for message in messages_at(offset, headers=some)
    ]
    core = native.core.read_messages(messages, 0, Message, ROOM)
    assert core is not None
    found = [core.has_header(name) for name in ("other", "é", "x", "né", "n", "", "1")]
    assert found == [True, True, True, True, False, False, False]


def messages_at(*offsets: int, partition: int = 0, **more: Any) -> list[Message]:
    return [Message(topic="t", partition=partition, offset=n, value=b"{}", **more) for n in offsets]


@pytest.mark.parametrize(
    ("messages", "count"),
    [
        (messages_at(3, 5, 4), 2),
        (messages_at(3, 3), 1),
        (messages_at(3) + messages_at(4, partition=1), 1),
        (messages_at(3) + messages_at(4, headers=[("columnar.encoding", b"parquet")]), 1),
        (messages_at(3) + messages_at(4, key="text"), 1),
        ([*messages_at(3), object()], 1),
        ([Message(topic="t", partition=0, offset=3, value=None)], 1),
        ([object()], None),
        ([], None),
    ],
)
def test_messages_that_belong_together_are_read(messages: Sequence[Any], count: Any) -> None:
    core = native.core.read_messages(list(messages), 0, Message, ROOM)
    assert (core if core is None else len(core)) == count


def test_a_class_with_other_methods_is_not_read() -> None:
    class Sub(Message):
        pass

    assert native.core.read_messages([Sub(topic="t", partition=0, offset=1)], 0, Sub, ROOM) is None
