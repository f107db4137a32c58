"""Plain messages that the core decodes land as Python lands them: the same rows, and refusals."""

from __future__ import annotations

import random
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Message
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from lakes import FENCE, GENERATIONS, DirectoryLake, letters, place_at
from nesting import RandomRows
from plain_values import avro_values, json_rows, json_values, schema
from same_tables import assert_same
from support import by_profile, examples

from columnar_kafka import native
from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest import Decoding, Rules
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.aside.set_aside import land_staged
from columnar_kafka.lake.landing.core_rows import CoreRows
from columnar_kafka.lake.landing.stage import Stager
from columnar_kafka.lake.model import PlainMessages, StageResult
from columnar_kafka.lake.plan import Layout, Planner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

VALUES = {"json": json_values, "avro": avro_values}
HEADERS: list[Any] = [None, None, [("h", b"1"), ("é", None)], []]
RUNS = by_profile(50, 200)
ROOM = 1 << 40


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


def assert_lands_alike(
    decoding: Decoding, values: Sequence[bytes | None], rng: random.Random
) -> None:
    messages, offset = [], rng.choice([0, 65_500])
    for value in values:
        offset += rng.choice([1, 1, 1, 5])
        messages.append(
            Message(
                topic="t",
                partition=0,
                offset=offset,
                key=rng.choice([None, b"", b"key"]),
                value=value,
                headers=rng.choice(HEADERS),
                timestamp=rng.choice([(0, 0), (1, 0), (1, 1_700_000_000_000), (2, 5)]),
            )
        )
    layout = Layout(file_bytes=rng.choice([1 << 20, 2000]))
    together = landed(messages, decoding, layout, add_together)
    assert_landed_alike(together, landed(messages, decoding, layout, add_one_by_one))


def add_together(stager: Stager, messages: list[Message]) -> None:
    at = 0
    while at < len(messages):
        core = native.core.read_messages(messages, at, Message, ROOM)
        assert core is not None
        stager.add_plain(PlainMessages("t", core))
        at += len(core)


def add_one_by_one(stager: Stager, messages: list[Message]) -> None:
    for message in messages:
        stager.add(source_message(message))


Landed = tuple[list["pa.Table"], list[tuple[int, str]], StageResult]


def landed(
    messages: list[Message],
    decoding: Decoding,
    layout: Layout,
    add: Callable[[Stager, list[Message]], None],
) -> Landed:
    """Return the rows and the dead letters of messages, and what was staged."""
    with tempfile.TemporaryDirectory() as folder:
        lake, place = DirectoryLake(Path(folder, "lake")), place_at(Path(folder, "letters"))
        rules = Rules(plain="decode", decoding=decoding, dead_letters=place)
        planner = Planner(fences={}, generations=GENERATIONS, layout=layout)
        stager = Stager(table=lake.table(), planner=planner, rules=rules)
        add(stager, messages)
        staged = stager.finish()
        land_staged(lake.table(), [staged], rules)
        # fastavro's texts have the addresses of objects.
        refused = [
            (letter["offset"], re.sub("0x[0-9a-f]+", "", letter["reason"]))
            for letter in letters(place)
        ]
        return [lake.read()] if staged.files else [], refused, staged


def assert_landed_alike(one: Landed, other: Landed) -> None:
    assert one[1] == other[1]
    assert files_of(one[2]) == files_of(other[2])
    assert len(one[0]) == len(other[0])
    for table, expected in zip(one[0], other[0], strict=True):
        assert_same(table, expected)


def files_of(staged: StageResult) -> Any:
    """Return what is the same in the files of two attempts."""
    return [
        (file.first, file.last, file.messages, file.rows, file.segment, file.schema, file.digest)
        for file in staged.files
    ], sorted(staged.decoded.values())


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
