"""Plain messages that wait together in the core: all is as with each by itself."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import feed_of
from plain_values import avro_values, json_values, schema
from same_tables import assert_same
from support import examples
from tables import CONFIG, put

from columnar_kafka import native
from columnar_kafka.consuming.arrow import table_feed
from columnar_kafka.consuming.feed import fetch_buffer, kafka_message, poller, together
from columnar_kafka.errors import SchemaError
from columnar_kafka.plain import Avro, Json
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(not native.enabled, reason="it compares with the core")

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
HEADERS: list[Any] = [None, None, [], [("h", b"1")], [("é", None), ("", b"")], [("x", b"")] * 3]
TIMES = [0, 1, 1_700_000_000_000]


def filled(rng: random.Random, values: list[bytes | None], *, is_mixed: bool = True) -> FakeKafka:
    """Return a Kafka with plain messages; `is_mixed`: of two topics, and with some segments."""
    kafka = FakeKafka()
    kafka.create_topic("t", 2)
    kafka.create_topic("u", 1)
    for value in values:
        is_other = is_mixed and rng.random() < 0.1
        place = rng.choice(PARTITIONS if is_other else PARTITIONS[:2])
        for _ in range(rng.choice([1, 1, 1, 7])):
            key, headers = rng.choice([None, b"", b"key"]), rng.choice(HEADERS)
            time = rng.choice(TIMES)
            kafka.append(
                place.topic, place.partition, value, key=key, headers=headers, timestamp=time
            )
        if is_mixed and rng.random() < 0.05:
            table = pa.table({"n": pa.array(range(rng.randint(1, 9)))})
            put(kafka, table, topic=place.topic, partition=place.partition)
    return kafka


class Run:
    """One consumer, used in the same random ways as another."""

    def __init__(self, kafka: FakeKafka, seed: int, formats: dict[str, Any]) -> None:
        self.rng = random.Random(seed)
        self.consumer: Any = kafka.Consumer(CONFIG)
        self.consumer.assign([TopicPartition(p.topic, p.partition, 0) for p in PARTITIONS])
        self.formats = formats

    def steps(self, count: int) -> Iterator[Any]:
        """Yield what each call returns or raises, and the positions after it."""
        ways = [self._table] * 8 + [self._poll, self._consume, self._seek, self._pause, self._lag]
        for _ in range(count):
            way: Callable[[], Any] = self.rng.choice(ways)
            try:
                outcome = way()
            except (KafkaException, SchemaError) as error:
                # fastavro's texts have the addresses of objects.
                outcome = type(error).__name__, re.sub("0x[0-9a-f]+", "", str(error))
            buffer = feed_of(self.consumer).buffer
            assert buffer.nbytes == kafka_message.bytes_of(buffer.buffered)
            assert buffer.count == together.count_of(buffer.buffered)
            places = self.consumer.position(PARTITIONS)
            yield way.__name__, outcome, [place.offset for place in places], buffer.count

    def _table(self) -> Any:
        rng = self.rng
        options: dict[str, Any] = dict(self.formats)
        if rng.random() < 0.3:
            options["promote"] = True
            options["columns"] = ["_kafka.offset", "_kafka.partition", "value", "n", "last"]
        return self.consumer.consume_arrow(rng.choice([1, 3, 10, 100, 1000]), 0, **options)

    def _poll(self) -> Any:
        message = self.consumer.poll(0)
        return None if message is None else _parts(message)

    def _consume(self) -> Any:
        return list(map(_parts, self.consumer.consume(self.rng.choice([1, 5, 50]), 0)))

    def _seek(self) -> None:
        place = self.rng.choice(PARTITIONS)
        [at] = self.consumer.position([place])
        back = max(0, at.offset - self.rng.randint(0, 20 << 20))
        self.consumer.seek(TopicPartition(place.topic, place.partition, back))

    def _pause(self) -> None:
        places = self.rng.sample(PARTITIONS, 1)
        self.consumer.pause(places)
        if self.rng.random() < 0.7:
            self.consumer.resume(PARTITIONS)

    def _lag(self) -> Any:
        return self.consumer.lag()


def _parts(message: Any) -> Any:
    return (
        *(message.topic(), message.partition(), message.offset(), message.key(), message.value()),
        *(message.headers(), message.timestamp(), message.leader_epoch(), message.latency()),
    )


def one_by_one() -> Any:
    return mock.patch.object(table_feed.TableFeed, "_may_be_together", return_value=False)


@mock.patch.object(poller, "SERVE_EVERY", 1e6)
# Or after an error fewer are fetched at once, for a while: how many depends on how many were.
@mock.patch.object(
    table_feed.TableFeed, "_longest_span", property(lambda _: 1 << 20, lambda *_: None), create=True
)
def assert_alike(kafka: FakeKafka, seed: int, formats: dict[str, Any], steps: int) -> None:
    with one_by_one():
        expected = list(Run(kafka, seed, formats).steps(steps))
    for actual, wanted in zip(Run(kafka, seed, formats).steps(steps), expected, strict=True):
        assert actual[0] == wanted[0]
        assert actual[2:] == wanted[2:]
        if isinstance(wanted[1], pa.Table):
            assert actual[1].schema.equals(wanted[1].schema, check_metadata=True)
            assert_same(actual[1], wanted[1])
        else:
            assert actual[1] == wanted[1]


@settings(max_examples=examples(150))
@given(st.integers(0, 2**64))
def test_bytes_are_the_same_however_they_are_taken(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.choice([None, b"", b"value", rng.randbytes(50)]) for _ in range(100)]
    assert_alike(filled(rng, values), seed, {}, 30)


@settings(max_examples=examples(150))
@given(st.integers(0, 2**64), st.sampled_from(["avro", "json", "inferred"]))
def test_decoded_values_are_the_same_however_they_are_taken(seed: int, form: str) -> None:
    rng = random.Random(seed)
    avro = schema(rng)
    if form == "avro":
        values, value = avro_values(avro, rng, 60), Avro(avro)
    else:
        arrow = pa.schema([("small", pa.int64()), ("text", pa.string()), ("list", LONGS)])
        values, value = json_values(avro, rng, 60), Json(arrow if form == "json" else None)
    formats = {"value": value, "key": rng.choice([None, Json()])}
    # What is inferred depends on which messages are buffered when others follow.
    assert_alike(filled(rng, values, is_mixed=form != "inferred"), seed, formats, 30)


LONGS = pa.list_(pa.int64())


@settings(max_examples=examples(50))
@given(st.integers(0, 2**64))
def test_a_filter_finds_the_same_rows_in_the_same_order(seed: int) -> None:
    rng = random.Random(seed)
    kafka = filled(rng, [rng.choice([None, b"", b"value"]) for _ in range(100)])
    options = {"filter": pc.field("value") == rng.choice([b"", b"value", b"none"])}
    options |= {"columns": ["value", "_kafka.topic", "_kafka.offset"], "promote": True}
    with one_by_one():
        expected = matching(kafka, rng, options)
    assert matching(kafka, rng, options) == expected


def matching(kafka: FakeKafka, rng: random.Random, options: dict[str, Any]) -> Any:
    """Return all rows that match a filter, and the positions after the last message."""
    consumer: Any = kafka.Consumer(CONFIG | {"enable.partition.eof": True})
    consumer.assign([TopicPartition(p.topic, p.partition, 0) for p in PARTITIONS])
    rows, ends = [], 0
    while ends < len(PARTITIONS):
        most = rng.choice([1, 3, 10, 1000])
        try:
            table = consumer.consume_arrow(most, 0, **options)
        except KafkaException as error:
            ends += error.args[0].code() == KafkaError._PARTITION_EOF
        else:
            rows += [] if table is None else table.to_pylist()
            assert table is None or table.num_rows <= most
    return rows, [place.offset for place in consumer.position(PARTITIONS)]


def messages(count: int, **parts: Any) -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    for number in range(count):
        kafka.append("t", 0, b"%d" % number, **parts)
    return kafka


def test_usual_messages_wait_together_and_leave_none_behind() -> None:
    kafka = messages(250, key=b"k", headers=[("h", b"1")])
    consumer: Any = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", 0, 0)])
    buffer = feed_of(consumer).buffer
    table = consumer.consume_arrow(100, 0)
    consumer.position(PARTITIONS)  # notes what was taken
    assert (table.num_rows, buffer.count, buffer.has_together) == (100, 0, True)
    stopped = mock.patch.object(table_feed.TableFeed, "_find_next", side_effect=RuntimeError)
    with stopped, pytest.raises(RuntimeError):
        consumer.consume_arrow(100, 0)
    assert (buffer.count, len(buffer.buffered) < 20) == (100, True)
    assert consumer.poll(0).value() == b"100"
    assert len(buffer.buffered) == buffer.count
    rest = consumer.consume_arrow(1000, 0)["value"].to_pylist()
    assert rest == [b"%d" % number for number in range(101, 250)]


def test_what_was_fetched_to_serve_librdkafka_joins_the_others() -> None:
    consumer: Any = messages(100).Consumer(CONFIG)
    consumer.assign([TopicPartition("t", 0, 0)])
    feed = feed_of(consumer)
    feed.poller.serve(0)
    assert (feed.buffer.count, feed.buffer.has_together) == (1, False)
    with mock.patch.object(fetch_buffer.FetchBuffer, "apart", side_effect=AssertionError):
        assert consumer.consume_arrow(100, 0)["value"].to_pylist()[:2] == [b"0", b"1"]


@pytest.mark.parametrize(
    "headers", [[], [["h", b"1"]], [("h", b"1", 2)], ((("h", b"1")),)], ids=str
)
def test_odd_headers_leave_a_message_by_itself(headers: Any) -> None:
    odd = kafka_messages(headers=headers)
    assert together.put_together(odd) == odd


def kafka_messages(**parts: Any) -> list[Any]:
    parts = {"topic": "t", "partition": 0, "offset": 1, "value": b"v", "timestamp": (1, 5), **parts}
    return [Message(**parts)]


@pytest.mark.parametrize(
    "parts",
    [
        {"offset": 5},
        {"partition": 1, "offset": 2},
        {"topic": "é", "offset": 2},
        {"timestamp": (2, 5), "offset": 2},
        {"timestamp": (0, 0), "offset": 2},
        {"leader_epoch": 3, "offset": 2},
        {"offset": 1},
        {"offset": 2, "key": b"k", "value": None, "headers": [("é", None), ("", b"2")]},
    ],
    ids=str,
)
def test_what_is_put_together_comes_apart_as_it_was(parts: dict[str, Any]) -> None:
    single = [*kafka_messages(), *kafka_messages(**parts)]
    put = together.put_together(single)
    assert len(put) == (
        1 if parts.keys() <= {"offset", "key", "value", "headers"} and parts["offset"] > 1 else 2
    )
    assert kafka_message.bytes_of(put) == kafka_message.bytes_of(single)
    assert together.count_of(put) == 2
    assert list(map(_parts, together.apart(put))) == list(map(_parts, single))
