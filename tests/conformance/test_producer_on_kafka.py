"""What only a real broker can tell: times, limits, refusals, fencing, isolation, offsets."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from producers import failure, record_failure
from support import eventually

pytestmark = pytest.mark.kafka


def topic_with(make: Any, kafka: Any, **config: str) -> str:
    """Create a topic with settings (written with `_` for `.`), and return its name."""
    name = f"{make.name}-{len(make.topics)}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    kafka.create_topic(name, 1, {"retention.ms": "-1", **settings})
    make.topics = [name]
    return name


@pytest.fixture
def make(make_on_kafka) -> Any:
    """Makes producers that know no topic's schema but their tests' own."""
    make_on_kafka.topics.clear()
    return make_on_kafka


# --- reports ------------------------------------------------------------------------------------


@pytest.mark.parametrize("timestamp", [1234, -1, -5, 1_700_000_000_000])
def test_a_report_has_the_messages_own_time(make, kafka, timestamp: int) -> None:
    topic = topic_with(make, kafka)
    seen: list[Any] = []
    with make() as producer:
        producer.produce(
            topic,
            make.value(b"x"),
            timestamp=timestamp,
            on_delivery=lambda e, m: seen.append((e, m.timestamp())),
        )
    assert seen == [(None, (confluent_kafka.TIMESTAMP_CREATE_TIME, timestamp))]


def test_without_a_timestamp_a_report_has_the_time_of_produce(make, kafka, wall_ms) -> None:
    topic = topic_with(make, kafka)
    seen: list[Any] = []
    before = wall_ms()
    with make() as producer:
        producer.produce(
            topic, make.value(b"x"), on_delivery=lambda _, m: seen.append(m.timestamp())
        )
    [(kind, timestamp)] = seen
    assert kind == confluent_kafka.TIMESTAMP_CREATE_TIME
    assert before <= timestamp <= wall_ms()


def test_a_topic_may_keep_the_brokers_time(make, kafka, wall_ms) -> None:
    topic = topic_with(make, kafka, message_timestamp_type="LogAppendTime")
    before = wall_ms()
    with make() as producer:
        producer.produce(topic, make.value(b"x"), timestamp=1234)
    [message] = make.received(topic, 1)
    kind, timestamp = message.timestamp()
    assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
    assert before <= timestamp <= wall_ms()


def test_a_report_of_such_a_topic_has_the_brokers_time(make, kafka, wall_ms) -> None:
    topic = topic_with(make, kafka, message_timestamp_type="LogAppendTime")
    seen: list[Any] = []
    before = wall_ms()
    with make() as producer:
        producer.produce(
            topic,
            make.value(b"x"),
            timestamp=1234,
            on_delivery=lambda _, m: seen.append(m.timestamp()),
        )
    [(kind, timestamp)] = seen
    assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
    assert before <= timestamp <= wall_ms()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acknowledged_as_asked(make, kafka, acks: Any) -> None:
    topic = topic_with(make, kafka)
    seen: list[Any] = []
    with make(acks=acks) as producer:
        producer.produce(
            topic,
            make.value(b"x"),
            on_delivery=lambda e, m: seen.append((e, make.offset(m))),
        )
    assert seen == [(None, None if acks == 0 else 0)]
    assert make.read(make.received(topic, 1)[0].value()) == b"x"


# --- refusals -----------------------------------------------------------------------------------


def test_a_message_the_topic_finds_too_large_fails(make, kafka, noise) -> None:
    topic = topic_with(make, kafka, max_message_bytes="20000")
    error = record_failure(make(), topic, make.value(noise(100_000)))
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert (error.fatal(), error.retriable()) == (False, False)


def test_its_neighbours_go(make, kafka, noise) -> None:
    """Stock: sent on their own; a refused batch takes all of its messages along."""
    topic = topic_with(make, kafka, max_message_bytes="20000")
    producer = make()
    record_failure(producer, topic, make.value(noise(100_000)))
    assert record_failure(producer, topic, make.value(noise(1000))) is None


def test_a_message_the_broker_finds_too_large_fails(make, kafka, noise) -> None:
    topic = topic_with(make, kafka)
    error = record_failure(
        make(**{"message.max.bytes": 4_000_000}), topic, make.value(noise(2_000_000))
    )
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_topic_that_cannot_be_is_refused(make) -> None:
    make.topics = ["no topic's name"]
    error = record_failure(make(), make.topics[0], make.value(b"x"))
    assert (error.code(), error.str()) in [
        (KafkaError.TOPIC_EXCEPTION, "Broker: Invalid topic"),
        # librdkafka asks for a new topic, and may have its answer before it queues the message.
        (KafkaError._UNKNOWN_TOPIC, "Unable to produce message: Local: Unknown topic"),
    ]


def test_an_unknown_topic_is_made(make) -> None:
    make.topics = [f"{make.name}-unknown"]
    assert record_failure(make(), make.topics[0], make.value(b"x")) is None


# --- transactions -------------------------------------------------------------------------------


def committed(make: Any, topic: str) -> list[bytes]:
    """Return what a reader of committed messages finds, up to a last one that is sent now."""
    with make() as producer:
        producer.produce(topic, make.value(b"end"))
    config = {"isolation.level": "read_committed"}
    values: list[bytes] = []
    with closing(make.messages(topic, **config)) as messages:
        for message in messages:
            values.append(make.read(message.value()))
            if values[-1] == b"end":
                break
    return values[:-1]


def test_what_is_committed_is_read(make, kafka) -> None:
    topic = topic_with(make, kafka)
    producer = make.transactional()
    producer.begin_transaction()
    for n in range(3):
        producer.produce(topic, make.value(b"%d" % n))
    producer.commit_transaction(20)
    assert committed(make, topic) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("flush", [False, True], ids=["queued", "sent"])
def test_what_is_aborted_is_not(make, kafka, flush: bool) -> None:
    topic = topic_with(make, kafka)
    producer = make.transactional()
    for value, end in ((b"aborted", "abort"), (b"committed", "commit")):
        producer.begin_transaction()
        producer.produce(topic, make.value(value))
        if flush:
            producer.flush(20)
        getattr(producer, f"{end}_transaction")(20)
    assert committed(make, topic) == [b"committed"]


def test_what_a_closed_producer_left_open_is_not(make, kafka) -> None:
    topic = topic_with(make, kafka)
    producer = make.transactional()
    producer.begin_transaction()
    producer.produce(topic, make.value(b"x"))
    producer.flush(20)
    producer.close()
    assert committed(make, topic) == []


# Stock warns when a fenced producer is closed inside its transaction.
warns = pytest.mark.filterwarnings("ignore:Producer abort_transaction failed:RuntimeWarning")


def fenced(make: Any, topic: str) -> Any:
    """Return a producer inside a transaction whose transactional id another one has taken."""
    config = {"error_cb": lambda _: None, "log_level": 0}
    producer = make.transactional(**config)
    producer.begin_transaction()
    producer.produce(topic, make.value(b"x"))
    assert producer.flush(20) == 0
    make.transactional(**config)
    return producer


@warns
@pytest.mark.parametrize("method", ["commit_transaction", "abort_transaction"])
def test_a_fenced_producer_cannot_end_its_transaction(make, kafka, method: str) -> None:
    producer = fenced(make, topic_with(make, kafka))
    error = failure(getattr(producer, method), 20)
    assert error.code() == KafkaError._FENCED
    assert (error.fatal(), error.retriable(), error.txn_requires_abort()) == (True, False, False)


@warns
def test_a_fenced_producer_is_of_no_more_use(make, kafka) -> None:
    topic = topic_with(make, kafka)
    producer = fenced(make, topic)
    failure(producer.commit_transaction, 20)
    assert failure(producer.begin_transaction).code() == KafkaError._FENCED
    error = failure(producer.produce, topic, make.value(b"x"))
    assert (error.code(), error.str()) == (
        KafkaError._FATAL,
        "Unable to produce message: Local: Fatal error",
    )


@warns
def test_a_fenced_producer_learns_of_it_from_a_message_too(make, kafka) -> None:
    topic = topic_with(make, kafka)
    producer = fenced(make, topic)
    producer.produce(topic, make.value(b"x"))
    with suppress(KafkaException):
        producer.flush(20)
    assert producer.flush(20) == 0
    assert failure(producer.produce, topic, make.value(b"x")).code() == KafkaError._FATAL
    error = failure(producer.commit_transaction, 20)
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)


@warns
def test_a_fenced_producer_says_so_when_it_is_closed(make, kafka) -> None:
    producer = fenced(make, topic_with(make, kafka))
    failure(producer.commit_transaction, 20)
    assert failure(producer.close).code() == KafkaError._FENCED


@warns
def test_what_a_fenced_producer_sent_is_not_read(make, kafka) -> None:
    topic = topic_with(make, kafka)
    failure(fenced(make, topic).commit_transaction, 20)
    assert committed(make, topic) == []


def refused(make: Any, topic: str, noise: Any) -> tuple[Any, list[Any]]:
    """Return a producer in whose transaction a message is too large, and the reports' codes."""
    producer = make.transactional()
    producer.begin_transaction()
    seen: list[Any] = []
    producer.produce(
        topic,
        make.value(noise(100_000)),
        on_delivery=lambda e, _: seen.append(e.code()),
    )
    return producer, seen


@pytest.mark.parametrize("flush", [False, True], ids=["queued", "sent"])
def test_a_refused_message_makes_commit_require_an_abort(make, kafka, noise, flush: bool) -> None:
    topic = topic_with(make, kafka, max_message_bytes="20000")
    producer, seen = refused(make, topic, noise)
    if flush:
        producer.flush(20)
    error = failure(producer.commit_transaction, 20)
    assert seen == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert (error.fatal(), error.retriable(), error.txn_requires_abort()) == (False, False, True)


def test_after_a_refused_message_nothing_is_produced(make, kafka, noise) -> None:
    topic = topic_with(make, kafka, max_message_bytes="20000")
    producer, _ = refused(make, topic, noise)
    producer.flush(20)
    error = failure(producer.produce, topic, make.value(b"x"))
    assert (error.code(), error.str()) == (
        KafkaError._STATE,
        "Unable to produce message: Local: Erroneous state",
    )


def test_after_the_abort_the_next_transaction_is_read(make, kafka, noise) -> None:
    """Another topic is used: librdkafka would skip a number in the refused message's partition."""
    topic = topic_with(make, kafka, max_message_bytes="20000")
    make.topics.append(other := f"{topic}-other")
    kafka.create_topic(other, 1)
    producer, _ = refused(make, topic, noise)
    failure(producer.commit_transaction, 20)
    producer.abort_transaction(20)
    producer.begin_transaction()
    producer.produce(other, make.value(b"next"))
    producer.commit_transaction(20)
    assert committed(make, other) == [b"next"]


@pytest.mark.parametrize(("end", "offset"), [("commit", 3), ("abort", -1001)])
def test_a_groups_offsets_go_with_the_transaction(make, kafka, end: str, offset: int) -> None:
    """With a stock consumer's group metadata they are Kafka's own."""
    topic = topic_with(make, kafka)
    producer = make.transactional()
    config = {"bootstrap.servers": make.servers, "group.id": make.name}
    with confluent_kafka.Consumer(config) as consumer:
        producer.begin_transaction()
        producer.produce(topic, make.value(b"x"))
        group = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], group, 20)
        getattr(producer, f"{end}_transaction")(20)
        [place] = consumer.committed([TopicPartition(topic, 0)], 20)
    assert place.offset == offset


def test_each_transactions_messages_are_read_in_order(make, kafka) -> None:
    topic = topic_with(make, kafka)
    producer = make.transactional()
    for n in range(3):
        producer.begin_transaction()
        producer.produce(topic, make.value(b"%d" % n))
        producer.commit_transaction(20)
    assert committed(make, topic) == [b"0", b"1", b"2"]


# --- idempotence --------------------------------------------------------------------------------


def test_an_idempotent_producer_keeps_the_order(make, kafka) -> None:
    topic = topic_with(make, kafka)
    with make(**{"enable.idempotence": True}) as producer:
        for n in range(200):
            producer.produce(topic, make.value(b"%d" % n), on_delivery=None)
    received = [make.read(m.value()) for m in make.received(topic, 200)]
    assert received == [b"%d" % n for n in range(200)]


# --- partitions ---------------------------------------------------------------------------------


def test_a_topic_made_again_with_fewer_partitions_gets_what_is_produced_then(make, kafka) -> None:
    """librdkafka has learned of it meanwhile, as it does by any metadata of the topic."""
    topic = make.topic(6)
    config = {"allow.auto.create.topics": False}
    producer, codes = make(**config), list[Any]()

    def produce(numbers: range) -> None:
        for n in numbers:
            key, report = b"%d" % n, lambda error, _: codes.append(error and error.code())
            producer.produce(topic, make.value(key), key, on_delivery=report)
        assert producer.flush(60) == 0

    def partitions(servers: Any) -> int:
        return len(servers.list_topics(topic, 20).topics[topic].partitions)

    produce(range(30))
    admin = AdminClient({**config, "bootstrap.servers": make.servers, "log_level": 0})
    admin.delete_topics([topic])[topic].result(60)
    eventually(lambda: not partitions(admin))
    kafka.create_topic(topic, 2)
    eventually(lambda: partitions(producer) == 2)
    produce(range(30, 120))
    assert codes == [None] * 120
