"""Values in JSON that become records: what Kafka has, in which order, and what reports say."""

from __future__ import annotations

import json
import logging
import random
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from drifting import Drifting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inside import pipeline_of
from interrupting import Interrupted, Interrupter
from made_again import footer_of, made_again
from support import examples, places

from columnar_kafka import RowError, SchemaError
from columnar_kafka.errors import ConfigError
from columnar_kafka.plain import json_text, lenient_leaves, lenient_rows, reversible
from columnar_kafka.producing import misfits, pipeline, producer
from columnar_kafka.producing.accepting import record_queue
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("n", pa.int64()), ("o", pa.struct([("x", pa.float64())]))])
VALUES = [b'{"n":1,"o":{"x":0.5}}', b'{"n":null,"new":[1.0]}', b'{"o":{}}', b'{"n":"x","o":null}']
CONFIG = {
    "columnar.encoding": "parquet",
    "columnar.linger.ms": 60_000,
    "columnar.value.format": "json",
}


STEPS = (
    *(producer, pipeline, misfits, record_queue),
    *(reversible, lenient_rows, lenient_leaves, json_text),
)
"""What runs between the call and the batch."""


class World:
    """A topic, a producer of values in JSON, and what the producer was told."""

    def __init__(self, schema: Any = SCHEMA, **config: Any) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 1)
        keys = {name.replace("__", ".").replace("_", "."): value for name, value in config.items()}
        self.producer = self.kafka.Producer(CONFIG | keys)
        self.producer.set_schema("t", schema)
        self.schema = schema
        self.told: list[tuple[int | None, Any, int]] = []

    def report(self, error: KafkaError | None, message: Any) -> None:
        self.told.append((error and error.code(), message.value(), len(message)))

    def produce(self, *values: Any, **given: Any) -> None:
        for value in values:
            self.producer.produce("t", value, **given)

    def stored(self) -> list[Any]:
        """What the topic has: an object of each record, and the bytes of plain messages."""
        self.producer.flush()
        made: list[Any] = []
        for message in self.kafka.messages("t"):
            if is_segment(message.headers()):
                made += objects(message, self.schema)
            else:
                made.append(message.value())
        return made

    @property
    def segments(self) -> list[bytes]:
        """The files of the segments."""
        self.producer.flush()
        messages = self.kafka.messages("t")
        return [message.value() for message in messages if is_segment(message.headers())]

    @property
    def misfits(self) -> int:
        return pipeline_of(self.producer).stats().misfits


def objects(message: Any, schema: Any) -> list[Any]:
    """Return the objects of a segment's records."""
    segment = Segment(
        topic="t",
        partition=message.partition(),
        offset=message.offset(),
        headers=message.headers(),
        value=message.value(),
    )
    footer = footer_of(message.value())
    assert footer is not None
    return [made_again(schema, row, footer) for row in segment.to_table().to_pylist()]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with made.producer:
        yield made


def texts(*values: bytes) -> list[Any]:
    return [json.loads(value) for value in values]


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [bytes, bytearray, memoryview, bytes.decode])
def test_values_are_records_whose_objects_are_equal(world: World, cls: Any) -> None:
    world.produce(*map(cls, VALUES))
    assert world.stored() == texts(*VALUES)
    assert (len(world.segments), world.misfits) == (1, 0)


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**64))
def test_random_objects_are_stored_in_their_order(seed: int) -> None:
    rng = random.Random(seed)
    drifting = Drifting(rng)
    values = [drifting.message().encode() for _ in range(40)]
    broken = [b"", b"{", b"\xff", b"[{}]"]
    values = [rng.choice(broken) if rng.random() < 0.05 else value for value in values]
    made = World(drifting.schema)
    with made.producer:
        made.produce(*values)
        for value, stored in zip(values, made.stored(), strict=True):
            assert stored == (value if isinstance(stored, bytes) else json.loads(value))


def test_text_that_is_not_ascii_is_a_record(world: World) -> None:
    world.produce('{"é":"😀"}')
    assert world.stored() == [{"é": "😀"}]


def test_bytes_that_change_later_are_stored_as_they_were(world: World) -> None:
    value = bytearray(b'{"n":1}')
    world.produce(value, on_delivery=world.report)
    value[5:6] = b"2"
    assert world.stored() == [{"n": 1}]
    assert world.told == [(None, b'{"n":1}', 7)]


def test_rows_go_on_as_rows_and_their_nulls_are_nulls(world: World) -> None:
    world.produce(b"{}", {"n": None, "o": {"x": None}}, b'{"o":{}}')
    assert world.stored() == [{}, {"n": None, "o": {"x": None}}, {"o": {}}]


def test_a_rows_report_has_no_rest(world: World) -> None:
    world.produce(b"{}", {"n": None, "o": None}, {"n": 1, "o": None}, on_delivery=world.report)
    world.stored()
    assert [value for _, value, _ in world.told[1:]] == [
        {"n": None, "o": None},
        {"n": 1, "o": None},
    ]


def test_a_row_that_does_not_fit_is_refused_as_ever(world: World) -> None:
    with pytest.raises(RowError, match="'o' is missing"):
        world.produce({"n": 1})


def test_key_headers_time_and_partition_are_the_records(world: World) -> None:
    world.produce(b'{"n":1}', key="k", headers={"h": b"v"}, timestamp=5, partition=0)
    world.producer.flush()
    [record] = world.kafka.records("t")
    assert (record.key(), record.headers(), record.timestamp()[1]) == (b"k", [("h", b"v")], 5)


def test_arrow_data_is_of_the_schema_and_its_nulls_are_nulls(world: World) -> None:
    world.produce(b"{}")
    world.producer.produce_arrow("t", pa.table({"n": [None, 2], "o": [{"x": None}, None]}, SCHEMA))
    assert world.stored() == [{}, {"n": None, "o": {"x": None}}, {"n": 2, "o": None}]


def test_a_segment_says_how_its_rows_are_json(world: World) -> None:
    world.produce(b'{"n":null}')
    assert [footer_of(file) for file in world.segments] == [{"rest": "_rest", "nulls": ["n"]}]


def test_a_topic_of_rows_says_nothing_of_json() -> None:
    made = World(columnar_value_format="rows")
    with made.producer:
        made.produce({"n": 1, "o": None}, b'{"n":1}')
        assert [footer_of(file) for file in made.segments] == [None]
        assert made.kafka.messages("t")[1].value() == b'{"n":1}'


# --- what does not fit ----------------------------------------------------------------------------

MISFITS = [
    b"",
    b"[]",
    b"\xff",
    b"{",
    b'{"n":1,"n":1}',
    b'"' + b"x" * 99 + b'"',
    b"\x00\x00\x00\x00\x01",
]


def test_what_does_not_fit_is_the_message_it_is_at_its_place(world: World) -> None:
    values = [value for pair in zip(VALUES * 2, MISFITS, strict=False) for value in pair]
    world.produce(*values)
    assert world.stored() == [value if value in MISFITS else json.loads(value) for value in values]
    assert world.misfits == len(MISFITS)


def test_what_does_not_fit_is_reported_as_it_is(world: World) -> None:
    world.produce(b"[1]", VALUES[0], on_delivery=world.report)
    world.producer.flush()
    assert world.told == [(None, b"[1]", 3), (None, VALUES[0], len(VALUES[0]))]


def test_the_first_that_does_not_fit_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        world.produce(b"[]", b"[]")
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("topic 't': a value does not fit the schema, and is sent as a plain")
    assert "not a JSON object" in line


def test_what_does_not_fit_can_be_refused() -> None:
    made = World(columnar_value_misfit="raise")
    with made.producer:
        made.produce(VALUES[0])
        with pytest.raises(RowError, match="not a JSON object"):
            made.produce(b"[]")
        made.produce(VALUES[1])
        assert made.stored() == texts(*VALUES[:2])
        assert made.misfits == 0


def test_a_tombstone_is_a_plain_message(world: World) -> None:
    world.produce(VALUES[0], None, VALUES[1])
    first, second = texts(*VALUES[:2])
    assert world.stored() == [first, None, second]


def test_without_keys_in_segments_a_value_with_a_key_is_a_plain_message() -> None:
    made = World(columnar_metadata="none")
    with made.producer:
        made.produce(VALUES[0])
        made.produce(VALUES[1], key="k")
        assert made.stored() == [json.loads(VALUES[0]), VALUES[1]]


@pytest.mark.parametrize("value", [b'{"n":1}', b"[]"])
def test_a_partition_that_is_not_there_is_an_error_as_ever(world: World, value: bytes) -> None:
    with pytest.raises(KafkaException) as raised:
        world.produce(value, partition=7)
    assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


# --- objects that may not differ ------------------------------------------------------------------


def test_with_exact_fields_objects_that_differ_are_plain_messages() -> None:
    made = World(columnar_value_fields="exact")
    same = [b'{"n":1,"o":null}', b'{"o":{"x":1.5},"n":null}']
    with made.producer:
        made.produce(*VALUES, *same)
        assert made.stored() == [json.loads(VALUES[0]), *VALUES[1:], *texts(*same)]
        assert made.misfits == 3
        assert footer_of(made.segments[-1]) == {"nulls": ["n", "o"]}


# --- sizes ----------------------------------------------------------------------------------------


def text_of(size: int) -> bytes:
    rng = random.Random(size)
    return b'{"text":"%s"}' % bytes(
        rng.choices(b"abcdefghijklmnopqrstuvwxyzABCDEF0123456789", k=size)
    )


def test_a_large_value_is_a_record_if_a_segment_can_have_it(world: World) -> None:
    values = [text_of(300_000), VALUES[0], text_of(700_000), VALUES[1]]
    world.produce(*values)
    assert world.stored() == texts(*values)


def test_a_value_larger_than_a_segment_is_a_plain_message(world: World) -> None:
    values = [VALUES[0], text_of(999_600), VALUES[1]]
    world.produce(*values)
    assert world.stored() == [json.loads(values[0]), values[1], json.loads(values[2])]


UNCOMPRESSED: dict[str, Any] = {
    "message_max_bytes": 6000,
    "columnar_encoding_compression": "none",
}


@pytest.mark.parametrize("reported", [False, True])
def test_a_value_whose_own_segment_is_too_large_is_a_plain_message(reported: bool) -> None:
    made = World(**UNCOMPRESSED)
    values = [VALUES[0], text_of(5400), VALUES[1]]
    with made.producer:
        made.produce(*values, on_delivery=made.report if reported else None)
        assert made.stored() == [json.loads(values[0]), values[1], json.loads(values[2])]
        assert made.misfits == 1
    assert made.told == [(None, value, len(value)) for value in values] * reported


def test_a_value_whose_own_segment_is_too_large_fails_where_it_is_to_be_refused() -> None:
    made = World(**UNCOMPRESSED, columnar_value_misfit="raise")
    with made.producer:
        made.produce(VALUES[0], text_of(5400), on_delivery=made.report)
        assert made.stored() == texts(VALUES[0])
    codes = {len(value): code for code, value, _ in made.told}
    assert codes == {len(VALUES[0]): None, 5411: KafkaError.MSG_SIZE_TOO_LARGE}


def test_kept_values_are_charged(world: World) -> None:
    stages = pipeline_of(world.producer)

    def charged(**given: Any) -> int:
        before = stages.queue.used_bytes
        world.produce(b'{"n":1' + b" " * 1000 + b"}", **given)
        return stages.queue.used_bytes - before

    assert charged(on_delivery=world.report) > charged() + 1000
    world.producer.flush()
    assert stages.queue.used_bytes == 0


# --- the topic ------------------------------------------------------------------------------------


def test_a_topic_may_have_the_format_for_itself() -> None:
    made = World(columnar_value_format="rows")
    with made.producer:
        made.producer.set_schema("t", SCHEMA, value_format="json")
        made.produce(VALUES[0])
        assert made.stored() == texts(VALUES[0])


def test_a_schema_that_grows_keeps_the_format(world: World) -> None:
    world.produce(b'{"new":1}')
    world.schema = SCHEMA.insert(0, pa.field("new", pa.int64()))
    world.producer.set_schema("t", world.schema)
    world.produce(b'{"new":1}')
    world.producer.flush()
    first, second = (message for message in world.kafka.messages("t"))
    assert objects(first, SCHEMA) == objects(second, world.schema) == [{"new": 1}]


def test_the_same_schema_again_keeps_what_null_says(world: World) -> None:
    world.produce(b'{"n":null}')
    world.producer.set_schema("t", SCHEMA)
    world.produce(b'{"o":null}')
    assert footer_of(world.segments[1]) == {"rest": "_rest", "nulls": ["n"]}


def test_a_topic_that_had_a_rest_keeps_it(world: World) -> None:
    with pytest.raises(SchemaError, match="'_rest'"):
        world.producer.set_schema("t", SCHEMA, value_format="rows")
    world.produce(VALUES[0])
    assert world.stored() == texts(VALUES[0])


def test_the_rest_can_have_another_name() -> None:
    made = World(columnar_value_rest_column="more")
    with made.producer:
        made.produce(b'{"_rest":1}')
        assert made.stored() == [{"_rest": 1}]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("columnar.value.format", "avr0"),
        ("columnar.value.fields", "strict"),
        ("columnar.value.misfit", "drop"),
        ("columnar.value.rest.column", ""),
        ("columnar.value.rest.column", 5),
    ],
)
def test_keys_are_checked(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        FakeKafka().Producer({"columnar.encoding": "parquet", key: value})


@pytest.mark.parametrize("name", ["_rest", "_REST"])
def test_a_field_with_the_name_of_the_rest_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="choose another name"):
        World(pa.schema([(name, pa.int64())]))


def test_a_name_that_json_escapes_is_the_fields() -> None:
    made = World(pa.schema([('a"b', pa.int64()), ("c\\d", pa.int64())]))
    values = [b'{"a\\"b":1,"c\\\\d":2}', b'{"c\\u005cd":null}', b'{"a\\"b":null}']
    with made.producer:
        made.produce(*values)
        assert made.stored() == texts(*values)


# --- transactions, partitions that are gone, signals ----------------------------------------------


def test_values_of_a_transaction_are_committed_or_aborted_together() -> None:
    made = World(transactional_id="x")
    with made.producer:
        made.producer.init_transactions()
        made.producer.begin_transaction()
        made.produce(VALUES[0], b"[]")
        made.producer.abort_transaction()
        made.producer.begin_transaction()
        made.produce(VALUES[1], b"[1]")
        made.producer.commit_transaction()
        with pytest.raises(KafkaException, match="Erroneous state"):
            made.produce(VALUES[0])
        assert [record.value() for record in made.kafka.records("t")][-1] == b"[1]"
        assert made.stored()[-2:] == [json.loads(VALUES[1]), b"[1]"]


def test_values_go_to_another_partition_if_theirs_is_gone() -> None:
    made = World()
    with made.kafka.lock:
        del made.kafka.by_name["t"]
        made.kafka.create_topic("t", 3)
    made.producer.set_schema("t", SCHEMA)
    with made.producer:
        for n in range(30):
            made.produce(b'{"n":%d,"more":null}' % n, key=b"%d" % n, on_delivery=made.report)
        with made.kafka.lock:
            del made.kafka.by_name["t"]
            made.kafka.create_topic("t", 1)
        values = made.stored()
    assert sorted(value["n"] for value in values) == list(range(30))
    assert all(value["more"] is None for value in values)
    assert sorted(made.told) == sorted(
        (None, b'{"n":%d,"more":null}' % n, len(b'{"n":%d,"more":null}' % n)) for n in range(30)
    )


@pytest.mark.parametrize("value", [VALUES[3], b"[]", b"{"])
def test_wherever_it_is_interrupted_a_value_is_accepted_once_or_not(value: bytes) -> None:
    """A value that the core leaves to Python: its classes are not bytes or str."""

    def produce(place: int | None) -> tuple[Interrupter, int, list[Any]]:
        made = World()
        with made.producer:
            interrupter = Interrupter(*STEPS, places=set() if place is None else {place})
            with suppress(Interrupted):
                interrupter.run(lambda: made.produce(memoryview(value), on_delivery=made.report))
            accepted = len(made.producer)
            made.produce(VALUES[0])
            stored = made.stored()
        assert stored[-1] == json.loads(VALUES[0])
        assert len(stored) - 1 == len(made.told) == accepted
        return interrupter, accepted, made.told

    every, accepted, _ = produce(None)
    assert (accepted, every.count > 20) == (1, True)
    seen = set()
    for place in places(every.count):
        _, accepted, told = produce(place)
        assert told == [(None, value, len(value))] * accepted
        seen.add(accepted)
    assert 0 in seen


def test_what_a_signal_handler_raises_while_a_value_is_read_is_the_callers(world: World) -> None:
    """A ValueError of its own is not taken for that of a text that is no JSON."""

    def handle(*_: Any) -> None:
        raise ValueError("from the handler")

    before = signal.signal(signal.SIGUSR1, handle)
    read = json.JSONDecoder.decode

    def interrupted(*args: Any) -> Any:
        json.JSONDecoder.decode = read  # type: ignore[method-assign]
        signal.raise_signal(signal.SIGUSR1)
        return read(*args)

    json.JSONDecoder.decode = interrupted  # type: ignore[method-assign]
    try:
        with pytest.raises(ValueError, match="from the handler"):
            world.produce(bytearray(b'{"n":1}'))
    finally:
        json.JSONDecoder.decode = read  # type: ignore[method-assign]
        signal.signal(signal.SIGUSR1, before)
    assert (world.stored(), world.misfits) == ([], 0)
