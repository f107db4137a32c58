"""The fake Kafka for users' tests: it does what a real one does, and the faults it is asked for."""

from __future__ import annotations

import re
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition
from support import eventually

import columnar_kafka
from columnar_kafka.consuming.feed import poller
from columnar_kafka.position import pack, start
from columnar_kafka.testing import FakeKafka
from columnar_kafka.testing.client import ClientOnMemory
from columnar_kafka.testing.consumer import ConsumerOnMemory
from columnar_kafka.testing.producer import ProducerOnMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
PARQUET = {"columnar.encoding": "parquet"}
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)
PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


# --- the same on memory and on a real broker ------------------------------------------------------


class Cluster:
    """Makes topics and clients, on memory or on a real broker; clients are closed afterwards."""

    numbers = iter(range(1_000_000))

    def __init__(self, kafka: Any) -> None:
        self.kafka = kafka
        fake = isinstance(kafka, FakeKafka)
        self._producer = kafka.Producer if fake else columnar_kafka.Producer
        self._consumer = kafka.Consumer if fake else columnar_kafka.Consumer
        self._servers = {} if fake else {"bootstrap.servers": kafka.bootstrap_servers}
        self._made: list[Any] = []

    def name(self) -> str:
        return f"testing-{next(self.numbers)}"

    def topic(self, partitions: int = 1) -> str:
        return self.create(self.name(), partitions)

    def create(self, name: str, partitions: int = 1) -> str:
        """Create a topic whose old messages stay."""
        kept = () if isinstance(self.kafka, FakeKafka) else ({"retention.ms": "-1"},)
        self.kafka.create_topic(name, partitions, *kept)
        return name

    def producer(self, config: dict[str, Any] | None = None) -> Any:
        quiet = {"log_level": 0, "error_cb": lambda _: None}
        return self._add(self._producer({**self._servers, **quiet, **(config or {})}))

    def consumer(self, group: str | None = None, **config: Any) -> Any:
        given = {key.replace("__", "."): setting for key, setting in config.items()}
        own = {"group.id": group or self.name(), "auto.offset.reset": "earliest", "log_level": 0}
        return self._add(self._consumer({**self._servers, **own, **given}))

    def _add(self, client: Any) -> Any:
        self._made.append(client)
        return client

    def end(self, client: Any) -> None:
        self._made.remove(client)
        client.close()

    def close(self) -> None:
        for client in self._made:
            client.close()

    def fill(self, topic: str, *values: bytes, partition: int = 0) -> None:
        producer = self.producer()
        for n, value in enumerate(values):
            producer.produce(topic, value, partition=partition, timestamp=1000 * (n + 1))
        assert producer.flush(20) == 0

    def transactions_ended(self, topic: str) -> None:
        """Wait until no transaction is open: Kafka answers a commit before it writes the marker."""
        readers = [self.consumer(isolation__level=f"read_{how}committed") for how in ("", "un")]
        at = TopicPartition(topic, 0)
        eventually(lambda: len({reader.get_watermark_offsets(at, 20) for reader in readers}) == 1)

    def all_of(self, topic: str, **config: Any) -> list[Any]:
        """All values that a new consumer finds in partition 0, up to its end."""
        consumer = self.consumer(enable__partition__eof=True, **config)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return [message.value() for message in until_end(consumer)[:-1]]


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "real":
        made = Cluster(request.getfixturevalue("kafka"))
    else:
        made = Cluster(FakeKafka(auto_create_topics=False))
    yield made
    made.close()


def taken(consumer: Any, count: int) -> list[Any]:
    messages = consumer.consume(count, 100)
    assert len(messages) == count
    return messages


def until_end(consumer: Any) -> list[Any]:
    """What comes up to the event at the end of the one partition, that included."""
    messages = taken(consumer, 1)
    while messages[-1].error() is None:
        messages += taken(consumer, 1)
    assert messages[-1].error().code() == KafkaError._PARTITION_EOF
    return messages


def settle(*consumers: Any, until: Callable[[], bool]) -> None:
    """Poll in turns until something is so."""

    def happened() -> bool:
        for consumer in consumers:
            assert consumer.poll(0.05) is None
        return until()

    assert until() or eventually(happened, seconds=60)


def code(raised: pytest.ExceptionInfo[KafkaException]) -> int:
    number: int = raised.value.args[0].code()
    return number


def test_records_go_through_and_their_positions_are_those_of_their_reports(
    cluster: Cluster,
) -> None:
    topic, reports = cluster.topic(), []
    producer = cluster.producer(PARQUET)
    producer.set_schema(topic, SCHEMA)
    for n in range(3):
        producer.produce(
            topic,
            {"n": n},
            key=b"%d" % n,
            headers=[("h", b"%d" % n)],
            timestamp=1000 + n,
            on_delivery=lambda error, message: reports.append((error, message.offset())),
        )
    assert len(producer) == 3
    assert producer.flush(20) == 0
    consumer = cluster.consumer(**{"columnar.encoding": "parquet"})
    consumer.subscribe([topic])
    messages = taken(consumer, 3)
    assert [
        (message.value(), message.key(), message.headers(), message.timestamp())
        for message in messages
    ] == [({"n": n}, b"%d" % n, [("h", b"%d" % n)], (1, 1000 + n)) for n in range(3)]
    assert reports == [(None, message.offset()) for message in messages]
    assert [message.offset() for message in messages] == [pack(0, n, 3) for n in range(3)]


def test_a_group_resumes_inside_a_segment(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.name()
    producer = cluster.producer(PARQUET)
    producer.set_schema(topic, SCHEMA)
    for n in range(4):
        producer.produce(topic, {"n": n})
    producer.flush(20)
    for expected in ([0, 1], [2, 3]):
        consumer = cluster.consumer(group, **{"columnar.encoding": "parquet"})
        consumer.subscribe([topic])
        assert [message.value()["n"] for message in taken(consumer, 2)] == expected
        consumer.close()


def test_a_segment_is_bytes_to_others(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = cluster.producer(PARQUET)
    producer.set_schema(topic, SCHEMA)
    producer.produce(topic, {"n": 1})
    producer.flush(20)
    for config in ({}, {"columnar__encoding": "parquet", "fetch__raw__bytes": True}):
        [value] = cluster.all_of(topic, **config)
        assert value[:4] == value[-4:] == b"PAR1"


@pytest.mark.parametrize("config", [{}, PARQUET], ids=["none", "parquet"])
def test_aborted_messages_are_seen_by_read_uncommitted_alone(
    cluster: Cluster, config: dict[str, Any]
) -> None:
    topic = cluster.topic()
    producer = cluster.producer({**config, "transactional.id": cluster.name()})
    if config:
        producer.set_schema(topic, SCHEMA)
    value = (lambda n: {"n": n}) if config else (lambda n: b"%d" % n)
    producer.init_transactions(30)
    for n, end in enumerate([producer.abort_transaction, producer.commit_transaction]):
        producer.begin_transaction()
        producer.produce(topic, value(n))
        producer.flush(20)
        end(20)
    cluster.transactions_ended(topic)
    read = {key.replace(".", "__"): setting for key, setting in config.items()}
    assert cluster.all_of(topic, **read) == [value(1)]
    uncommitted = cluster.all_of(topic, isolation__level="read_uncommitted", **read)
    assert uncommitted == [value(0), value(1)]


def test_an_open_transaction_is_where_read_committed_ends(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.fill(topic, b"before")
    producer = cluster.producer({"transactional.id": cluster.name()})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(20)
    cluster.fill(topic, b"after")
    assert cluster.all_of(topic) == [b"before"]
    partition = TopicPartition(topic, 0)
    assert cluster.consumer().get_watermark_offsets(partition, 20) == (0, 1)
    uncommitted = cluster.consumer(isolation__level="read_uncommitted")
    assert uncommitted.get_watermark_offsets(partition, 20) == (0, 3)
    producer.commit_transaction(20)
    cluster.transactions_ended(topic)
    consumer = cluster.consumer(enable__partition__eof=True, enable__auto__commit=False)
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = until_end(consumer)
    # The end of the transaction takes an offset, and is passed.
    assert [message.offset() for message in messages] == [0, 1, 2, 4]
    # librdkafka up to 2.13.0 goes one too far after the event at the end (its issue 4844).
    is_real = not isinstance(consumer, ClientOnMemory)
    is_off = is_real and confluent_kafka.libversion()[1] < 0x020D0200
    assert [place.offset for place in consumer.position([partition])] == [5 if is_off else 4]
    assert [place.offset for place in consumer.commit(asynchronous=False)] == [5 if is_off else 4]


@pytest.mark.parametrize("commits", [True, False])
def test_consumed_offsets_commit_with_the_transaction_or_not_at_all(
    cluster: Cluster, *, commits: bool
) -> None:
    topic, output = cluster.topic(), cluster.topic()
    cluster.fill(topic, b"1", b"2")
    consumer = cluster.consumer(enable__auto__commit=False)
    consumer.subscribe([topic])
    taken(consumer, 2)
    producer = cluster.producer({"transactional.id": cluster.name()})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(output, b"out")
    at = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), 20)
    (producer.commit_transaction if commits else producer.abort_transaction)(20)
    assert [place.offset for place in consumer.committed(at, 20)] == [2 if commits else -1001]


def test_positions_commit_with_the_transaction(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.name()
    producer = cluster.producer({**PARQUET, "transactional.id": cluster.name()})
    producer.set_schema(topic, SCHEMA)
    producer.init_transactions(30)
    producer.begin_transaction()
    for n in range(3):
        producer.produce(topic, {"n": n})
    producer.commit_transaction(20)
    config = {"enable.auto.commit": False, **PARQUET}
    consumer = cluster.consumer(group, **config)
    consumer.subscribe([topic])
    taken(consumer, 2)
    producer.begin_transaction()
    at = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), 20)
    producer.commit_transaction(20)
    consumer.close()
    again = cluster.consumer(group, **config)
    again.subscribe([topic])
    assert [message.value() for message in taken(again, 1)] == [{"n": 2}]


def test_a_transaction_has_its_order(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = cluster.producer({"transactional.id": cluster.name()})
    steps: dict[str, Callable[[], Any]] = {
        "init": lambda: producer.init_transactions(30),
        "begin": producer.begin_transaction,
        "commit": lambda: producer.commit_transaction(20),
        "abort": lambda: producer.abort_transaction(20),
        "produce": lambda: producer.produce(topic, b"x"),
    }

    def refused() -> set[str]:
        names = set()
        for name in steps.keys() - allowed:
            with pytest.raises(KafkaException) as raised:
                steps[name]()
            assert code(raised) == KafkaError._STATE
            names.add(name)
        return names

    allowed = {"init"}
    assert refused() == {"begin", "commit", "abort", "produce"}
    steps["init"]()
    allowed = {"begin"}
    assert refused() == {"init", "commit", "abort", "produce"}
    steps["begin"]()
    allowed = {"produce", "commit", "abort"}
    assert refused() == {"init", "begin"}
    steps["commit"]()


def test_a_second_producer_of_an_id_fences_the_first_and_aborts_its_transaction(
    cluster: Cluster,
) -> None:
    topic, config = cluster.topic(), {"transactional.id": cluster.name()}
    zombie, successor = cluster.producer(config), cluster.producer(config)
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    zombie.flush(20)
    successor.init_transactions(30)
    with pytest.raises(KafkaException) as raised:
        zombie.commit_transaction(20)
    assert code(raised) == KafkaError._FENCED
    assert raised.value.args[0].fatal()
    with pytest.raises(KafkaException) as raised:
        cluster.end(zombie)
    assert code(raised) == KafkaError._FENCED
    assert cluster.all_of(topic) == []
    assert cluster.all_of(topic, isolation__level="read_uncommitted") == [b"zombie"]


def test_members_share_partitions_and_take_over(cluster: Cluster) -> None:
    topic, group = cluster.topic(2), cluster.name()
    calls: list[Any] = []

    def told(name: str) -> dict[str, Any]:
        return {
            f"on_{kind}": lambda _, given, kind=kind: calls.append((name, kind, len(given)))
            for kind in ("assign", "revoke", "lost")
        }

    one, other = cluster.consumer(group), cluster.consumer(group)
    one.subscribe([topic], **told("one"))
    settle(one, until=lambda: len(calls) == 1)
    assert [place.partition for place in one.assignment()] == [0, 1]
    other.subscribe([topic], **told("other"))
    settle(one, other, until=lambda: len(calls) == 4)
    assert calls[:2] == [("one", "assign", 2), ("one", "revoke", 2)]
    assert sorted(calls[2:]) == [("one", "assign", 1), ("other", "assign", 1)]
    shares = [{place.partition for place in member.assignment()} for member in (one, other)]
    assert sorted(map(tuple, shares)) == [(0,), (1,)]
    calls.clear()
    other.close()
    assert calls == [("other", "revoke", 1)]
    settle(one, until=lambda: len(calls) == 3)
    assert calls[1:] == [("one", "revoke", 1), ("one", "assign", 2)]


def test_on_assign_may_choose_where_to_begin(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.fill(topic, b"0", b"1", b"2")
    consumer = cluster.consumer()

    def begin(client: Any, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = 2
        client.assign(partitions)

    consumer.subscribe([topic], on_assign=begin)
    assert [message.value() for message in taken(consumer, 1)] == [b"2"]


def test_a_pattern_subscribes_to_all_topics_that_match(cluster: Cluster) -> None:
    name = cluster.name()
    for topic in (f"{name}-a", f"{name}-b", f"other-{name}"):
        cluster.fill(cluster.create(topic), topic.encode())
    consumer = cluster.consumer()
    consumer.subscribe([f"^{name}-.*"])
    values = [message.value() for message in taken(consumer, 2)]
    assert sorted(values) == [f"{name}-a".encode(), f"{name}-b".encode()]


def test_subscribing_to_no_such_topic_is_told(cluster: Cluster) -> None:
    consumer = cluster.consumer()
    name = cluster.name()
    consumer.subscribe([name])
    [event] = taken(consumer, 1)
    assert (event.topic(), event.error().code()) == (name, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert event.error().str().startswith(f"Subscribed topic not available: {name}: ")


@pytest.mark.parametrize(
    ("reset", "expected"),
    [("earliest", b"0"), ("error", KafkaError._AUTO_OFFSET_RESET)],
)
@pytest.mark.parametrize("offset", [77, -1001])
def test_where_there_is_no_offset_the_configuration_decides(
    cluster: Cluster, reset: str, expected: Any, offset: int
) -> None:
    topic = cluster.topic()
    cluster.fill(topic, b"0", b"1")
    consumer = cluster.consumer(auto__offset__reset=reset)
    consumer.assign([TopicPartition(topic, 0, offset)])
    [first] = taken(consumer, 1)
    outcome = first.value() if first.error() is None else first.error().code()
    assert outcome == expected


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(OFFSET_BEGINNING, [0, 1, 2, 3]), (OFFSET_END, [3]), (-2002, [1, 2, 3]), (2, [2, 3])],
)
def test_an_assignment_begins_where_it_says_and_its_end_is_told(
    cluster: Cluster, offset: int, expected: list[int]
) -> None:
    """-2002 is OFFSET_TAIL(2); the last offset is the event's."""
    topic = cluster.topic()
    cluster.fill(topic, b"0", b"1", b"2")
    consumer = cluster.consumer(enable__partition__eof=True)
    consumer.assign([TopicPartition(topic, 0, offset)])
    assert [message.offset() for message in until_end(consumer)] == expected


def test_the_end_is_told_again_after_more_messages_and_after_a_seek(cluster: Cluster) -> None:
    topic = cluster.topic()
    consumer = cluster.consumer(enable__partition__eof=True)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.offset() for message in until_end(consumer)] == [0]
    cluster.fill(topic, b"0")
    assert [message.offset() for message in until_end(consumer)] == [0, 1]
    consumer.seek(TopicPartition(topic, 0, 1))
    assert [message.offset() for message in until_end(consumer)] == [1]


def test_seek_pause_and_position(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    cluster.fill(topic, b"a0", b"a1")
    cluster.fill(topic, b"b0", partition=1)
    consumer = cluster.consumer()
    first, second = TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)
    consumer.assign([first])
    assert [message.value() for message in taken(consumer, 2)] == [b"a0", b"a1"]
    assert [place.offset for place in consumer.position([first, second])] == [2, -1001]
    consumer.seek(TopicPartition(topic, 0, 1))
    assert [message.value() for message in taken(consumer, 1)] == [b"a1"]
    consumer.assign([first, second])
    consumer.pause([first])
    assert [message.value() for message in taken(consumer, 1)] == [b"b0"]
    consumer.resume([first])
    assert [message.value() for message in taken(consumer, 2)] == [b"a0", b"a1"]


def test_commits_and_what_there_is_to_commit(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.name()
    cluster.fill(topic, b"0", b"1", b"2")
    consumer = cluster.consumer(group, enable__auto__commit=False)
    consumer.assign([TopicPartition(topic, 0, 0)])
    with pytest.raises(KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert code(raised) == KafkaError._NO_OFFSET
    [message] = taken(consumer, 1)
    assert [place.offset for place in consumer.commit(asynchronous=False)] == [1]
    with pytest.raises(KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert code(raised) == KafkaError._NO_OFFSET
    consumer.commit(offsets=[TopicPartition(topic, 0, 3, "mine")], asynchronous=False)
    [committed] = cluster.consumer(group).committed([TopicPartition(topic, 0)], 20)
    assert (committed.offset, committed.metadata) == (3, "mine")
    consumer.commit(message=message, asynchronous=False)
    [committed] = cluster.consumer(group).committed([TopicPartition(topic, 0)], 20)
    assert (committed.offset, committed.metadata) == (1, None)


def test_auto_commit_is_done_when_partitions_go(cluster: Cluster) -> None:
    topic, group = cluster.topic(), cluster.name()
    cluster.fill(topic, b"0", b"1")
    with cluster.consumer(group) as consumer:
        consumer.subscribe([topic])
        taken(consumer, 1)
    [committed] = cluster.consumer(group).committed([TopicPartition(topic, 0)], 20)
    assert committed.offset == 1


def test_stored_offsets_are_what_is_committed(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.fill(topic, b"0", b"1")
    consumer = cluster.consumer(enable__auto__commit=False, enable__auto__offset__store=False)
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = taken(consumer, 2)
    consumer.store_offsets(message=messages[0])
    assert [place.offset for place in consumer.commit(asynchronous=False)] == [1]


def test_times_are_looked_up(cluster: Cluster) -> None:
    topic = cluster.topic()
    cluster.fill(topic, b"0", b"1", b"2")
    consumer = cluster.consumer()
    for timestamp, offset in ((0, 0), (2000, 1), (2001, 2), (3001, OFFSET_END)):
        [place] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=20)
        assert (timestamp, place.offset) == (timestamp, offset)


REFUSALS: dict[str, tuple[Callable[[Any, TopicPartition], Any], int]] = {
    "seek": (lambda c, p: c.seek(p), KafkaError._UNKNOWN_PARTITION),
    "store": (lambda c, p: c.store_offsets(offsets=[p]), KafkaError._INVALID_ARG),
    "twice": (lambda c, p: c.assign([p, p]), KafkaError._INVALID_ARG),
    "unassign": (lambda c, p: c.incremental_unassign([p]), KafkaError._INVALID_ARG),
    "nothing": (lambda c, _: c.subscribe([]), KafkaError._INVALID_ARG),
    "pattern": (lambda c, _: c.subscribe(["^("]), KafkaError._INVALID_ARG),
    "watermarks": (
        lambda c, p: c.get_watermark_offsets(TopicPartition(p.topic, 9), 5),
        KafkaError._UNKNOWN_PARTITION,
    ),
    "times": (
        lambda c, p: c.offsets_for_times([TopicPartition(p.topic, 9, 0)], timeout=5),
        KafkaError._UNKNOWN_PARTITION,
    ),
    "commit": (
        lambda c, p: c.commit(offsets=[TopicPartition(p.topic, 9, 1)], asynchronous=False),
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_and_how(cluster: Cluster, name: str) -> None:
    call, expected = REFUSALS[name]
    with pytest.raises(KafkaException) as raised:
        call(cluster.consumer(), TopicPartition(cluster.topic(), 0, 1))
    assert code(raised) == expected


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "assign": lambda c, _: c.assign("t"),
    "assign text": lambda c, _: c.assign(["t"]),
    "subscribe": lambda c, _: c.subscribe("t"),
    "callback": lambda c, _: c.subscribe(["t"], on_assign=3),
    "commit": lambda c, _: c.commit(message=5),
    "seek": lambda c, _: c.seek(5),
    "batch": lambda _, p: p.produce_batch("t", {}),
    "batch value": lambda _, p: p.produce_batch("t", [{"value": 5}]),
    "metadata": lambda _, p: p.send_offsets_to_transaction([], "text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_a_type_error(cluster: Cluster, name: str) -> None:
    producer = cluster.producer({"transactional.id": cluster.name()})
    with pytest.raises(TypeError):
        WRONG[name](cluster.consumer(), producer)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"value": 5}, TypeError),
        ({"value": b"x", "key": 5}, TypeError),
        ({"value": b"x", "partition": "0"}, TypeError),
        ({"value": b"x", "headers": [("h", 5)]}, ValueError),
    ],
    ids=repr,
)
def test_of_a_batch_with_a_wrong_message_nothing_is_taken(
    cluster: Cluster, message: dict[str, Any], error: type[Exception]
) -> None:
    producer = cluster.producer()
    with pytest.raises(error, match=" at index 1"):
        producer.produce_batch(cluster.topic(), [{"value": b"x"}, message])
    assert len(producer) == 0


def test_a_batchs_callback_is_called_where_a_messages_own_is_none(cluster: Cluster) -> None:
    seen: list[bytes] = []
    producer = cluster.producer()
    messages = [{"value": b"x", "callback": None}]
    producer.produce_batch(
        cluster.topic(), messages, on_delivery=lambda _, m: seen.append(m.value())
    )
    producer.flush(20)
    assert seen == [b"x"]


def test_topics_are_listed(cluster: Cluster) -> None:
    topic, unknown = cluster.topic(3), cluster.name()
    for client in (cluster.producer(), cluster.consumer()):
        metadata = client.list_topics(topic, 20)
        assert list(metadata.topics) == [topic]
        assert sorted(metadata.topics[topic].partitions) == [0, 1, 2]
        assert metadata.topics[topic].error is None
        assert topic in client.list_topics(timeout=20).topics
        if hasattr(confluent_kafka.Consumer, "cluster_id"):  # since 2.16
            assert isinstance(client.cluster_id(20), str)
    missing = cluster.consumer().list_topics(unknown, 20).topics[unknown]
    assert missing.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_keys_go_to_the_same_partitions(cluster: Cluster) -> None:
    topic = cluster.topic(5)
    producer = cluster.producer()
    partitions: dict[bytes, int] = {}
    for n in range(20):
        key = b"%d" % n
        producer.produce(
            topic, b"x", key, on_delivery=lambda _, m: partitions.update({m.key(): m.partition()})
        )
    producer.flush(20)
    assert partitions == {b"%d" % n: confluent_kafka.consistent(b"%d" % n, 5) for n in range(20)}


# --- the fake alone -------------------------------------------------------------------------------


@pytest.fixture
def fake() -> Iterator[FakeKafka]:
    with FakeKafka() as made:
        yield made


def filled(fake: FakeKafka, *numbers: int, topic: str = "t", **place: Any) -> list[int | None]:
    """Produce records with a schema; return the codes of their reports."""
    codes: list[int | None] = []

    def report(error: KafkaError | None, _: Any) -> None:
        codes.append(None if error is None else error.code())

    with fake.Producer(PARQUET) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in numbers:
            producer.produce(topic, {"n": n}, on_delivery=report, **place)
    return codes


def numbers(fake: FakeKafka, **chosen: Any) -> list[Any]:
    return [record.value()["n"] for record in fake.records("t", **chosen)]


def test_its_classes_are_this_packages_bound_to_one_cluster(fake: FakeKafka) -> None:
    assert issubclass(fake.Producer, columnar_kafka.Producer)
    assert issubclass(fake.Consumer, columnar_kafka.Consumer)
    filled(fake, 1)
    assert FakeKafka().topics() == {}


@pytest.mark.parametrize(
    ("ours", "stock"),
    [
        (ProducerOnMemory, confluent_kafka.Producer),
        (ConsumerOnMemory, confluent_kafka.Consumer),
    ],
)
def test_no_method_of_confluent_kafka_is_left_out(ours: type, stock: type) -> None:
    methods = {*vars(ours), *vars(ClientOnMemory)}
    assert {name for name in vars(stock) if not name.startswith("_")} <= methods


@pytest.mark.parametrize(
    ("ours", "surface"),
    [
        (columnar_kafka.Producer, ProducerOnMemory),
        (columnar_kafka.Consumer, ConsumerOnMemory),
    ],
)
def test_no_private_name_means_two_things(fake: FakeKafka, ours: type, surface: type) -> None:
    group = {"group.id": "g"} if surface is ConsumerOnMemory else {}
    alone = type("Alone", (surface,), {"_kafka": fake})(group)
    with ours({**group, **PARQUET, "log_level": 0}) as client:
        shared = {*vars(surface), *vars(alone)} & {*vars(ours), *vars(client)}
    assert {name for name in shared if re.match("_[^_]", name)} == set()


def test_an_unknown_setting_is_refused_and_servers_are_not_looked_at(fake: FakeKafka) -> None:
    with pytest.raises(KafkaException, match=r"no\.such\.key"):
        fake.Producer({"no.such.key": 1})
    config = {
        "bootstrap.servers": "kafka.example:9092",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "ssl.ca.location": "/no/such/file",
    }
    with fake.Producer(config) as producer:
        producer.set_sasl_credentials("user", "password")
    fake.Consumer({"group.id": "g", **config}).close()


@pytest.mark.parametrize(
    "setting",
    [{"partition.assignment.strategy": "cooperative-sticky"}, {"group.protocol": "consumer"}],
)
def test_rebalancing_that_it_does_not_know_is_said(fake: FakeKafka, setting: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"range or roundrobin"):
        fake.Consumer({"group.id": "g", **setting})


def test_there_is_no_thread_but_the_senders(fake: FakeKafka) -> None:
    before = set(threading.enumerate())
    producer = fake.Producer(PARQUET)
    consumer = fake.Consumer({"group.id": "g", **PARQUET})
    consumer.subscribe(["t"])
    assert [thread.name for thread in set(threading.enumerate()) - before] == [
        "columnar-kafka-sender"
    ]
    fake.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce("t", b"x")


def test_records_come_in_the_order_of_their_arrival(fake: FakeKafka) -> None:
    fake.create_topic("t", 2)
    for n, partition in enumerate((1, 0, 1)):
        filled(fake, 2 * n, 2 * n + 1, partition=partition)
    assert numbers(fake) == [0, 1, 2, 3, 4, 5]
    assert numbers(fake, partition=1) == [0, 1, 4, 5]
    assert [record.offset() for record in fake.records("t", 0)] == [pack(0, 0, 2), pack(0, 1, 2)]


def test_records_leave_out_what_is_not_committed(fake: FakeKafka) -> None:
    producer = fake.Producer({**PARQUET, "transactional.id": "x"})
    producer.set_schema("t", SCHEMA)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("t", {"n": 1})
    producer.flush()
    assert numbers(fake) == []
    assert numbers(fake, committed=False) == [1]
    producer.abort_transaction()
    assert numbers(fake) == []
    assert numbers(fake, committed=False) == [1]


def test_records_of_no_such_topic_name_those_that_there_are(fake: FakeKafka) -> None:
    fake.create_topic("invoice")
    with pytest.raises(KeyError, match="there is no topic 'invoices'; there are: invoice"):
        fake.records("invoices")


def test_a_segment_that_cannot_be_read_is_one_message_with_its_error(fake: FakeKafka) -> None:
    filled(fake, 1)
    [segment] = fake.messages("t")
    fake.append("t", value=b"garbage", headers=segment.headers())  # type: ignore[arg-type]
    records = fake.records("t")
    assert [record.error() is None for record in records] == [True, False]


def test_records_without_a_key_take_partitions_in_turns(fake: FakeKafka) -> None:
    fake.create_topic("t", 2)
    with fake.Producer({}) as producer:
        for n in range(4):
            producer.produce("t", b"%d" % n)
    assert [record.partition() for record in fake.records("t")] == [0, 1, 0, 1]


def test_topics_are_created_when_produced_to_as_brokers_do(fake: FakeKafka) -> None:
    assert filled(fake, 1) == [None]
    assert fake.topics() == {"t": 1}


def test_without_creation_messages_to_unknown_topics_fail() -> None:
    fake, seen = FakeKafka(auto_create_topics=False), []
    with fake.Producer({}) as producer:
        producer.produce("t", b"x", on_delivery=lambda error, _: seen.append(error.code()))
    assert seen == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert fake.topics() == {}


@pytest.mark.parametrize("stored", [False, True])
def test_the_next_segment_fails_with_all_its_records(fake: FakeKafka, *, stored: bool) -> None:
    fake.fail_next(TIMED_OUT, stored=stored)
    assert filled(fake, 1, 2) == [TIMED_OUT.code()] * 2
    assert filled(fake, 3) == [None]
    assert numbers(fake) == ([1, 2, 3] if stored else [3])


def test_a_producers_own_faults_come_first(fake: FakeKafka) -> None:
    fake.fail_next(TIMED_OUT)
    seen: list[Any] = []
    with fake.Producer({}) as producer:
        producer.memory.fail_next(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        for _ in range(3):
            producer.produce(
                "t", b"x", on_delivery=lambda error, _: seen.append(error and error.code())
            )
    assert seen == [KafkaError.TOPIC_AUTHORIZATION_FAILED, TIMED_OUT.code(), None]


def test_a_full_queue_can_be_asked_for(fake: FakeKafka) -> None:
    fake.refuse_next()
    with fake.Producer({}) as producer:
        with pytest.raises(BufferError):
            producer.produce("t", b"x")
        producer.produce("t", b"x")
    assert fake.count("t") == 1


def test_what_is_held_is_neither_there_nor_reported(fake: FakeKafka) -> None:
    fake.create_topic("t")
    producer = fake.Producer({"queue.buffering.max.messages": 2, **PARQUET})
    producer.set_schema("t", SCHEMA)
    fake.hold()
    producer.produce("t", {"n": 1})
    producer.produce("t", {"n": 2})
    assert producer.flush(0.01) == 2
    with pytest.raises(BufferError):
        producer.produce("t", {"n": 3})
    assert numbers(fake) == []
    fake.release()
    assert producer.flush() == 0
    assert numbers(fake) == [1, 2]


def test_a_producer_that_is_dropped_loses_what_is_held(fake: FakeKafka) -> None:
    """Nobody can release it any more for this producer, whose end would wait for ever."""
    fake.create_topic("t")
    fake.hold()
    producer = fake.Producer(PARQUET)
    producer.set_schema("t", SCHEMA)
    producer.produce("t", {"n": 1})
    del producer
    fake.release()
    assert numbers(fake) == []


def test_a_failed_record_makes_its_transaction_abort(fake: FakeKafka) -> None:
    with fake.Producer({"transactional.id": "x"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        fake.fail_next(TIMED_OUT)
        producer.produce("t", b"fails")
        with pytest.raises(KafkaException) as raised:
            producer.commit_transaction()
        assert raised.value.args[0].txn_requires_abort()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.produce("t", b"works")
        producer.commit_transaction()
    assert [record.value() for record in fake.records("t")] == [b"works"]


def test_an_expelled_member_loses_its_partitions_and_joins_again(
    fake: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "SERVE_EVERY", 60)  # else it may be heard before the second record
    filled(fake, 1, 2)
    calls: list[str] = []
    consumer = fake.Consumer({"group.id": "g", "auto.offset.reset": "earliest", **PARQUET})
    consumer.subscribe(
        ["t"],
        on_assign=lambda *_: calls.append("assign"),
        on_revoke=lambda *_: calls.append("revoke"),
        on_lost=lambda *_: calls.append("lost"),
    )
    assert consumer.poll(0).value() == {"n": 1}
    metadata = consumer.consumer_group_metadata()
    consumer.memory.expel()
    with pytest.raises(KafkaException) as raised:
        consumer.commit(asynchronous=False)
    assert code(raised) == KafkaError.UNKNOWN_MEMBER_ID
    with fake.Producer({"transactional.id": "x"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(KafkaException) as raised:
            producer.send_offsets_to_transaction([TopicPartition("t", 0, start(1))], metadata)
        assert code(raised) == KafkaError.UNKNOWN_MEMBER_ID
        assert raised.value.args[0].txn_requires_abort()
    # What was held is gone; nothing was committed, so both come again.
    assert [message.value()["n"] for message in consumer.consume(2, 30)] == [1, 2]
    assert calls == ["assign", "lost", "assign"]


def test_the_coordinator_and_events_can_be_scripted(fake: FakeKafka) -> None:
    fake.create_topic("t")
    consumer = fake.Consumer({"group.id": "g"})
    consumer.memory.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert consumer.poll(0).error().code() == KafkaError._ALL_BROKERS_DOWN
    consumer.memory.fail_next(KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(KafkaException):
        consumer.committed([TopicPartition("t", 0)])


def test_commits_are_reported_to_on_commit_inside_poll(fake: FakeKafka) -> None:
    filled(fake, 1)
    seen: list[Any] = []
    consumer = fake.Consumer(
        {
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "on_commit": lambda error, offsets: seen.append((error, offsets[0].offset)),
            **PARQUET,
        }
    )
    consumer.subscribe(["t"])
    consumer.poll(0)
    consumer.commit()
    assert seen == []
    consumer.poll(0.001)
    assert seen[:1] == [(None, start(1))]


def test_a_waiting_consumer_is_woken_by_a_record(fake: FakeKafka) -> None:
    fake.create_topic("t")
    consumer = fake.Consumer({"group.id": "g", "auto.offset.reset": "earliest", **PARQUET})
    consumer.subscribe(["t"])
    messages: list[Any] = []
    polling = threading.Thread(target=lambda: messages.extend(consumer.consume(1, 30)))
    polling.start()
    filled(fake, 1)
    polling.join(30)
    assert [message.value() for message in messages] == [{"n": 1}]


# --- the page -------------------------------------------------------------------------------------


def test_the_pages_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks are one module, whose tests are run as pytest runs them."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    exec(compile("".join(blocks), PAGE.name, "exec"), page.__dict__)
    tests = [member for name, member in vars(page).items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        with pytest.MonkeyPatch.context() as patch:
            test(*[patch] * test.__code__.co_argcount)
