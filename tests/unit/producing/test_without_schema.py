"""Topics without a schema of a producer with columnar.encoding=parquet: reports in positions."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from support import eventually

import columnar_kafka
from columnar_kafka import SerializingProducer
from columnar_kafka.aio import AIOProducer
from columnar_kafka.message import Message
from columnar_kafka.position import pack, unpack
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARQUET = {"columnar.encoding": "parquet"}
HELD = {"linger.ms": 30_000, "columnar.linger.ms": 30_000}
_names = (f"without-schema-{n}" for n in itertools.count())


class Cluster:
    """A cluster in memory, or librdkafka's mock."""

    def __init__(self, kafka: Any) -> None:
        self.kafka = kafka
        self.fake = isinstance(kafka, FakeKafka)
        self.Producer = kafka.Producer if self.fake else columnar_kafka.Producer
        self.Consumer = kafka.Consumer if self.fake else columnar_kafka.Consumer
        self.config = {} if self.fake else {"bootstrap.servers": kafka.bootstrap_servers}

    def topic(self, partitions: int = 1) -> str:
        name = next(_names)
        self.kafka.create_topic(name, partitions)
        return name


@pytest.fixture(params=["memory", "mock"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "memory":
        with FakeKafka() as kafka:
            yield Cluster(kafka)
    else:
        yield Cluster(request.getfixturevalue("embedded"))


@pytest.fixture
def make(cluster: Cluster) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(config: dict[str, Any] | None = None) -> Any:
        producer = cluster.Producer({**cluster.config, **PARQUET, **(config or {})})
        made.append(producer)
        return producer

    yield make
    for producer in made:
        with suppress(RuntimeError):  # closed by the test
            producer.purge()
            producer.close()


def reporter(seen: list[tuple[Any, Any]]) -> Callable[..., None]:
    return lambda error, message: seen.append((error, message))


def offsets(seen: list[tuple[Any, Any]]) -> list[Any]:
    assert [error for error, _ in seen] == [None] * len(seen)
    return [message.offset() for _, message in seen]


POSITIONS = [pack(0), pack(1), pack(2)]


@pytest.mark.parametrize("name", ["callback", "on_delivery", "configured"])
def test_reports_speak_positions(cluster: Cluster, make: Any, name: str) -> None:
    seen: list[Any] = []
    configured = name == "configured"
    producer = make({"on_delivery": reporter(seen)} if configured else {})
    topic = cluster.topic()
    for _ in range(3):
        producer.produce(topic, b"x", **({} if configured else {name: reporter(seen)}))
    assert producer.flush(20) == 0
    assert offsets(seen) == POSITIONS == [1048575, 2097151, 3145727]


@pytest.mark.parametrize("name", ["callback", "on_delivery", "configured", "its own"])
def test_a_batchs_reports_speak_positions(cluster: Cluster, make: Any, name: str) -> None:
    seen: list[Any] = []
    producer = make({"on_delivery": reporter(seen)} if name == "configured" else {})
    messages: list[dict[str, Any]] = [{"value": b"x"} for _ in range(3)]
    given = {name: reporter(seen)} if name in {"callback", "on_delivery"} else {}
    if name == "its own":
        messages = [{**message, "callback": reporter(seen)} for message in messages]
    copies = [dict(message) for message in messages]
    assert producer.produce_batch(cluster.topic(), messages, **given) == 3
    assert messages == copies
    assert producer.flush(20) == 0
    assert offsets(seen) == POSITIONS


def test_a_batchs_message_that_is_not_taken_has_its_error(make: Any) -> None:
    producer = make({"message.max.bytes": 1000})
    messages: list[dict[str, Any]] = [
        {"value": b"x" * size, "callback": lambda *_: None} for size in (1, 5000)
    ]
    assert producer.produce_batch(next(_names), messages) == 1
    assert "_error" not in messages[0]
    assert messages[1]["_error"].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_with_encoding_none_they_speak_kafkas_offsets(cluster: Cluster, make: Any) -> None:
    seen: list[Any] = []
    producer = make({"columnar.encoding": "none"})
    topic = cluster.topic()
    for _ in range(3):
        producer.produce(topic, b"x", on_delivery=reporter(seen))
    assert producer.flush(20) == 0
    assert offsets(seen) == [0, 1, 2]
    assert {type(message) for _, message in seen} == {confluent_kafka.Message}


def test_a_report_is_a_message_whose_position_a_consumer_takes(cluster: Cluster, make: Any) -> None:
    seen: list[Any] = []
    producer, topic = make(), cluster.topic(3)
    for _ in range(2):
        producer.produce(
            topic, b"v", b"k", 2, timestamp=77, headers={"h": "1"}, on_delivery=reporter(seen)
        )
    assert producer.flush(20) == 0
    _, (error, report) = seen
    assert (error, type(report)) == (None, Message)
    assert (report.kafka_offset(), report.row()) == (1, 0)
    consumer = cluster.Consumer(
        {**cluster.config, **PARQUET, "group.id": topic, "enable.auto.commit": False}
    )
    with consumer:
        consumer.assign([TopicPartition(topic, 2, 0)])
        first, second = (consumer.poll(20) for _ in range(2))
        assert [first.offset(), second.offset()] == [pack(0), pack(1)]
        for name in ("topic", "partition", "offset", "key", "value", "error"):
            assert getattr(report, name)() == getattr(second, name)(), name
        [done] = consumer.commit(message=report, asynchronous=False)
        assert (done.offset, done.error) == (pack(1) + 1, None)
        assert unpack(done.offset) == (2, 0)


def test_a_report_has_what_stocks_has(embedded: Any) -> None:
    """All but its offset, and a latency of its own."""
    topic = next(_names)
    embedded.create_topic(topic, 1)
    reports = []
    for cls, config in ((confluent_kafka.Producer, {}), (columnar_kafka.Producer, PARQUET)):
        seen: list[Any] = []
        producer = cls({"bootstrap.servers": embedded.bootstrap_servers, **config})
        producer.produce(
            topic, b"v", b"k", timestamp=77, headers={"h": "1"}, on_delivery=reporter(seen)
        )
        assert producer.flush(20) == 0
        producer.close()
        reports.append(seen[0][1])
    stock, ours = reports
    differ = {"offset", "latency", "kafka_offset", "row"}
    for name in {name for name in dir(ours) if not name.startswith(("_", "set_"))} - differ:
        assert getattr(ours, name)() == getattr(stock, name)(), name
    assert (ours.offset(), stock.offset()) == (pack(1), 0)
    assert 0 < ours.latency() < 20


def test_a_report_of_a_failure_has_no_offset(cluster: Cluster, make: Any) -> None:
    seen: list[Any] = []
    producer = make(HELD)
    if cluster.fake:
        producer.memory.hold()
    producer.produce(cluster.topic(3), b"v", b"k", 2, on_delivery=reporter(seen))
    producer.purge()
    eventually(lambda: producer.poll(0.1))
    [(error, message)] = seen
    assert error.code() == message.error().code() == KafkaError._PURGE_QUEUE
    assert (message.offset(), message.kafka_offset(), message.row()) == (None, None, None)
    assert (message.key(), message.value(), message.partition()) == (b"k", b"v", 2)


def test_errors_only_are_told_when_asked_for(cluster: Cluster, make: Any) -> None:
    own: list[Any] = []
    configured: list[Any] = []
    producer = make({"delivery.report.only.error": True, "on_delivery": reporter(configured)})
    topic = cluster.topic()
    producer.produce(topic, b"x", on_delivery=reporter(own))
    producer.produce(topic, b"x")
    assert producer.flush(20) == 0
    assert (own, configured) == ([], [])


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_reports_of_a_transaction_speak_positions(embedded: Any, end: str) -> None:
    seen: list[Any] = []
    topic = next(_names)
    embedded.create_topic(topic, 1)
    config = {"bootstrap.servers": embedded.bootstrap_servers, "transactional.id": topic}
    with columnar_kafka.Producer(config | PARQUET) as producer:
        producer.init_transactions(20)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"x", on_delivery=reporter(seen))
        if end == "abort_transaction":
            assert producer.flush(20) == 0
        getattr(producer, end)(20)
        assert offsets(seen) == POSITIONS


def test_an_aborted_message_is_reported_when_abort_returns(embedded: Any) -> None:
    seen: list[Any] = []
    topic = next(_names)
    config = {"bootstrap.servers": embedded.bootstrap_servers, "transactional.id": topic}
    with columnar_kafka.Producer(config | PARQUET | HELD) as producer:
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(topic, b"x", on_delivery=reporter(seen))
        producer.abort_transaction(20)
        [(error, message)] = seen
        assert error.code() == KafkaError._PURGE_QUEUE
        assert message.offset() is None


def test_what_an_asyncio_producers_future_brings_speaks_positions(cluster: Cluster) -> None:
    seen: list[Any] = []
    cls = type("Ours", (AIOProducer,), {"_producer_class": cluster.Producer})
    topic = cluster.topic()

    async def main() -> list[Any]:
        async with cls({**cluster.config, **PARQUET}) as producer:
            futures = [
                await producer.produce(topic, b"x", on_delivery=reporter(seen)) for _ in range(3)
            ]
            return [await future for future in futures]

    messages = asyncio.run(main())
    assert [message.offset() for message in messages] == offsets(seen) == POSITIONS


def test_a_serializing_producers_reports_speak_positions(embedded: Any) -> None:
    seen: list[Any] = []
    topic = next(_names)
    embedded.create_topic(topic, 1)
    config = {"bootstrap.servers": embedded.bootstrap_servers, **PARQUET}
    serializer = {"value.serializer": lambda value, _: b"%d" % value}
    producer: Any = SerializingProducer(config | serializer)
    for n in range(3):
        producer.produce(topic, value=n, on_delivery=reporter(seen))
    producer.close()
    assert offsets(seen) == POSITIONS
    assert [message.value() for _, message in seen] == [b"0", b"1", b"2"]


# --- how they run -----------------------------------------------------------------------------


def test_each_exception_of_a_report_is_raised_and_no_other_is_lost(
    cluster: Cluster, make: Any
) -> None:
    """Stock raises the last of those that came in one flush."""
    seen: list[bytes] = []

    def fail(_: Any, message: Any) -> None:
        seen.append(message.value())
        raise LookupError(message.value())

    producer, topic = make(HELD), cluster.topic()
    for n in range(3):
        producer.produce(topic, b"%d" % n, on_delivery=fail)
    raised = []
    while len(producer):
        with pytest.raises(LookupError) as error:
            producer.flush(20)
        raised.append(error.value.args[0])
    assert raised == seen == [b"0", b"1", b"2"]


def test_a_report_may_produce_poll_and_flush_and_may_not_close(cluster: Cluster, make: Any) -> None:
    """Stock aborts the process."""
    seen: list[Any] = []
    producer, topic = make(), cluster.topic()

    def report(error: Any, message: Any) -> None:
        seen.append((error, message))
        producer.poll(0)
        producer.flush(0)
        if len(seen) == 1:
            producer.produce(topic, b"from a report", on_delivery=report)
            with pytest.raises(RuntimeError, match="inside a delivery report"):
                producer.close()

    for _ in range(100):
        producer.produce(topic, b"x", on_delivery=report)
    assert producer.flush(20) == 0
    assert offsets(seen) == [pack(n) for n in range(101)]


def test_what_is_not_reported_yet_counts(cluster: Cluster, make: Any) -> None:
    lengths: list[int] = []

    def report(*_: Any) -> None:
        lengths.append(len(producer))
        if len(lengths) == 2:
            raise LookupError

    producer, topic = make(HELD), cluster.topic()
    for _ in range(4):
        producer.produce(topic, b"x", on_delivery=report)
    with pytest.raises(LookupError):
        producer.flush(20)
    assert len(producer) == 2
    assert producer.poll(20) == 2
    assert (lengths, len(producer)) == ([3, 2, 1, 0], 0)


def test_a_topic_that_gets_its_schema_later_is_reported_in_order(
    cluster: Cluster, make: Any
) -> None:
    seen: list[Any] = []
    producer, topic = make({"linger.ms": 0}), cluster.topic()
    producer.produce(topic, b"x", partition=0, on_delivery=reporter(seen))
    producer.set_schema(topic, pa.schema([("n", pa.int64())]))
    producer.produce(topic, {"n": 1}, partition=0, on_delivery=reporter(seen))
    producer.produce(topic, b"y", partition=0, on_delivery=reporter(seen))
    assert producer.flush(20) == 0
    assert offsets(seen) == POSITIONS


def test_close_runs_every_report(cluster: Cluster, make: Any) -> None:
    seen: list[Any] = []
    producer, topic = make(HELD), cluster.topic()
    for _ in range(3):
        producer.produce(topic, b"x", on_delivery=reporter(seen))
    producer.close()
    assert offsets(seen) == POSITIONS


def test_a_configured_callback_that_cannot_be_called_is_refused_as_by_confluent_kafka() -> None:
    messages = []
    for cls, config in ((confluent_kafka.Producer, {}), (columnar_kafka.Producer, PARQUET)):
        with pytest.raises((TypeError, KafkaException)) as raised:
            cls({**config, "on_delivery": 5})
        messages.append((type(raised.value), str(raised.value)))
    assert messages[0] == messages[1]


def test_a_dropped_producer_sends_and_reports_what_it_has(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []
    topic = cluster.topic()
    producer = cluster.Producer({**cluster.config, **PARQUET, **HELD})
    for _ in range(3):
        producer.produce(topic, b"x", on_delivery=reporter(seen))
    del producer
    eventually(lambda: len(seen) == 3, seconds=30)
    assert offsets(seen) == POSITIONS
    assert "dropped with 3 records outstanding" in caplog.text
