"""The fake Kafka keeps the promises of both protocols, and does the faults it is asked for."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from interrupting import Interrupted, Interrupter

from columnar_kafka.broker.base import ConsumerBroker, ProducerBroker, TopicLimits
from columnar_kafka.segment.headers import message_bytes
from columnar_kafka.testing.memory import MemoryConsumer, MemoryKafka, MemoryProducer, changes
from columnar_kafka.testing.memory import consumer as memory_consumer
from columnar_kafka.testing.memory import producer as memory_producer
from columnar_kafka.testing.memory.group import Member, share_by_range, share_in_turns
from columnar_kafka.testing.memory.log import MemoryTransaction, PartitionLog, StoredMessage

if TYPE_CHECKING:
    from confluent_kafka import Message

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


class Acknowledgements(list[tuple[int | None, bytes | None, int | None]]):
    """Error code, value and offset of each acknowledgement."""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        assert message.error() == error
        self.append((None if error is None else error.code(), message.value(), message.offset()))


@pytest.fixture
def kafka() -> MemoryKafka:
    made = MemoryKafka()
    made.create_topic("t", 2)
    return made


@pytest.fixture
def producer(kafka: MemoryKafka) -> MemoryProducer:
    return MemoryProducer(kafka)


@pytest.fixture
def acks() -> Acknowledgements:
    return Acknowledgements()


def send(producer: MemoryProducer, acks: Acknowledgements, value: Any = b"v", **given: Any) -> None:
    arguments = {"key": None, "headers": None, "timestamp": 5} | given
    topic, partition = arguments.pop("topic", "t"), arguments.pop("partition", 0)
    producer.send(topic, partition, value, acknowledge=acks, **arguments)


def values(kafka: MemoryKafka, partition: int = 0) -> list[bytes | None]:
    return [message.value() for message in kafka.messages("t", partition)]


def test_its_clients_are_what_the_pipeline_wants(kafka: MemoryKafka) -> None:
    """Checked by mypy; here only that they can be made."""
    producer: ProducerBroker = MemoryProducer(kafka)
    consumer: ConsumerBroker = MemoryConsumer(kafka)
    assert (producer.partitions("t", 0), consumer.poll(0)) == (2, None)


# --- sending ------------------------------------------------------------------------------------


def test_offsets_are_counted_in_each_partition(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    for partition in (0, 1, 0):
        send(producer, acks, partition=partition)
    producer.poll(0)
    assert [offset for _, _, offset in acks] == [0, 0, 1]


def test_a_message_arrives_as_it_was_sent(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    send(producer, acks, b"v", key=b"k", headers=[("h", b"1"), ("h", None)], timestamp=7)
    (message,) = kafka.messages("t")
    assert (message.topic(), message.partition(), message.offset()) == ("t", 0, 0)
    assert (message.key(), message.value()) == (b"k", b"v")
    assert message.headers() == [("h", b"1"), ("h", None)]
    assert message.timestamp() == (1, 7)


def test_the_value_is_copied_when_it_is_sent(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    value = bytearray(b"v")
    send(producer, acks, value)
    value[0] = 0
    assert values(kafka) == [b"v"]


def test_acknowledgements_wait_for_poll(producer: MemoryProducer, acks: Acknowledgements) -> None:
    send(producer, acks)
    assert acks == []
    assert producer.poll(0) == 1
    assert acks == [(None, b"v", 0)]
    assert producer.poll(0) == 0


def test_acknowledgements_run_in_the_thread_that_polls(producer: MemoryProducer) -> None:
    threads = []
    send(producer, lambda *_: threads.append(threading.current_thread()))
    polling = threading.Thread(target=producer.poll, args=(0,))
    polling.start()
    polling.join()
    assert threads == [polling]


def test_a_poll_that_waits_is_woken_by_an_acknowledgement(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    polling = threading.Thread(target=producer.poll, args=(-1,))
    polling.start()
    send(producer, acks)
    polling.join(60)
    assert acks == [(None, b"v", 0)]


def test_flush_serves_all_and_returns_what_is_left(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    send(producer, acks)
    producer.hold()
    send(producer, acks, b"held")
    assert producer.flush(0) == 1
    assert acks == [(None, b"v", 0)]


def test_flush_that_may_wait_returns_when_nothing_is_left(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    send(producer, acks)
    assert producer.flush(-1) == 0
    assert len(acks) == 1


def test_a_message_takes_its_place_in_the_queue_until_it_was_reported(
    kafka: MemoryKafka, acks: Acknowledgements
) -> None:
    producer = MemoryProducer(kafka, queue_messages=1)
    send(producer, acks)
    with pytest.raises(BufferError, match="Local: Queue full"):
        send(producer, acks)
    producer.poll(0)
    send(producer, acks)
    assert len(producer) == 1
    assert values(kafka) == [b"v", b"v"]


def test_a_raising_acknowledgement_loses_no_other(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    def raises(*_: Any) -> None:
        raise LookupError

    send(producer, raises)
    send(producer, acks)
    with pytest.raises(LookupError):
        producer.poll(0)
    assert producer.poll(0) == 1
    assert acks == [(None, b"v", 1)]


def test_a_partition_that_does_not_exist_is_refused_at_once(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    with pytest.raises(KafkaException) as raised:
        send(producer, acks, partition=2)
    assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
    assert len(producer) == 0


def test_a_message_to_an_unknown_topic_fails_in_its_report(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    send(producer, acks, topic="nowhere")
    producer.poll(0)
    assert acks == [(KafkaError.UNKNOWN_TOPIC_OR_PART, b"v", None)]


def test_the_brokers_size_limit_is_told_in_the_report(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    kafka.create_topic("t", 2, max_message_bytes=message_bytes(b"k", b"123", [("h", b"v")]))
    send(producer, acks, b"123", key=b"k", headers=[("h", b"v")])
    send(producer, acks, b"1234", key=b"k", headers=[("h", b"v")])
    producer.poll(0)
    assert acks == [(None, b"123", 0), (KafkaError.MSG_SIZE_TOO_LARGE, b"1234", None)]
    assert values(kafka) == [b"123"]


def test_the_clients_own_size_limit_is_raised(kafka: MemoryKafka, acks: Acknowledgements) -> None:
    producer = MemoryProducer(kafka, message_max_bytes=message_bytes(None, b"123", None))
    send(producer, acks, b"123")
    with pytest.raises(KafkaException) as raised:
        send(producer, acks, b"1234")
    assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_compacted_topic_takes_no_message_without_a_key(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    kafka.create_topic("compacted", compacted=True)
    send(producer, acks, topic="compacted")
    send(producer, acks, topic="compacted", key=b"k")
    producer.poll(0)
    assert acks == [(KafkaError.INVALID_RECORD, b"v", None), (None, b"v", 0)]


def test_a_topic_is_unknown_until_it_is_created(
    kafka: MemoryKafka, producer: MemoryProducer
) -> None:
    assert producer.partitions("new", 1) is None
    assert producer.limits("new", 1) == TopicLimits()
    kafka.create_topic("new", 3, compacted=True, max_message_bytes=9)
    assert producer.partitions("new", 1) == 3
    assert producer.limits("new", 1) == TopicLimits(3, compacted=True, max_message_bytes=9)


def test_partitions_are_added_and_keep_what_they_hold(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    send(producer, acks)
    kafka.create_topic("t", 4)
    assert kafka.partitions("t") == 4
    assert values(kafka) == [b"v"]


# --- faults -------------------------------------------------------------------------------------


def test_the_next_sends_are_refused_as_a_full_queue(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    producer.refuse_next(count=2)
    for _ in range(2):
        with pytest.raises(BufferError):
            send(producer, acks)
    send(producer, acks)
    assert values(kafka) == [b"v"]


def test_the_next_send_is_refused_with_an_error(
    producer: MemoryProducer, acks: Acknowledgements
) -> None:
    producer.refuse_next(KafkaError(KafkaError._FATAL))
    with pytest.raises(KafkaException) as raised:
        send(producer, acks)
    assert raised.value.args[0].code() == KafkaError._FATAL
    assert producer.poll(0) == 0


@pytest.mark.parametrize("stored", [False, True])
def test_the_next_message_fails_and_may_be_stored_all_the_same(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements, *, stored: bool
) -> None:
    producer.fail_next(TIMED_OUT, stored=stored)
    send(producer, acks, b"fails")
    send(producer, acks, b"lands")
    producer.poll(0)
    assert acks == [(TIMED_OUT.code(), b"fails", None), (None, b"lands", int(stored))]
    assert values(kafka) == [b"fails", b"lands"] if stored else [b"lands"]


def test_what_is_held_is_neither_stored_nor_acknowledged_until_released(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    producer.hold()
    for value in (b"1", b"2", b"3"):
        send(producer, acks, value)
    assert (values(kafka), producer.poll(0)) == ([], 0)
    producer.release(1)
    send(producer, acks, b"4")
    assert (values(kafka), producer.poll(0)) == ([b"1"], 1)
    producer.release()
    assert (values(kafka), producer.poll(0)) == ([b"1", b"2", b"3", b"4"], 3)
    send(producer, acks, b"5")
    assert values(kafka)[-1] == b"5"


def test_a_purge_fails_what_is_held(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    producer.hold()
    send(producer, acks)
    producer.purge()
    producer.poll(0)
    assert acks == [(KafkaError._PURGE_QUEUE, b"v", None)]
    assert values(kafka) == []


def test_it_says_what_it_holds(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    send(producer, acks)
    producer.hold()
    send(producer, acks)
    assert repr(producer) == "<MemoryProducer 1 queued held, 1 acknowledgements to serve>"
    assert repr(kafka) == "<MemoryKafka messages by topic: t: 1>"


# --- consuming ----------------------------------------------------------------------------------


@pytest.fixture
def consumer(kafka: MemoryKafka) -> MemoryConsumer:
    made = MemoryConsumer(kafka, "g")
    made.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
    return made


def taken(consumer: MemoryConsumer) -> list[bytes | None]:
    contents = []
    while (message := consumer.poll(0)) is not None:
        contents.append(message.value())
    return contents


def test_partitions_take_turns_each_in_order(kafka: MemoryKafka, consumer: MemoryConsumer) -> None:
    for value in (b"a1", b"a2", b"a3"):
        kafka.append("t", 0, value)
    kafka.append("t", 1, b"b1")
    assert taken(consumer) == [b"a1", b"b1", b"a2", b"a3"]


def test_a_poll_that_waits_is_woken_by_a_message(
    kafka: MemoryKafka, consumer: MemoryConsumer
) -> None:
    messages: list[Any] = []
    polling = threading.Thread(target=lambda: messages.append(consumer.poll(-1)))
    polling.start()
    kafka.append("t", 1, b"v")
    polling.join(60)
    assert [message.value() for message in messages] == [b"v"]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (1, [b"1", b"2"]),
        (OFFSET_BEGINNING, [b"0", b"1", b"2"]),
        (OFFSET_END, []),
        (-1001, [b"2"]),
        (-2000, []),
        (-2001, [b"2"]),
    ],
)
def test_an_assignment_begins_where_it_says(
    kafka: MemoryKafka, consumer: MemoryConsumer, offset: int, expected: list[bytes]
) -> None:
    """-1001 is where the group has committed, and -2000 is OFFSET_TAIL(0)."""
    for value in (b"0", b"1", b"2"):
        kafka.append("t", 0, value)
    consumer.commit([TopicPartition("t", 0, 2)], asynchronous=False)
    consumer.assign([TopicPartition("t", 0, offset)])
    assert taken(consumer) == expected


def test_seek_goes_to_an_offset(kafka: MemoryKafka, consumer: MemoryConsumer) -> None:
    for value in (b"0", b"1"):
        kafka.append("t", 0, value)
    taken(consumer)
    consumer.seek(TopicPartition("t", 0, 1))
    assert taken(consumer) == [b"1"]


def test_seek_needs_an_assignment(consumer: MemoryConsumer) -> None:
    with pytest.raises(KafkaException):
        consumer.seek(TopicPartition("t", 5, 1))


def test_a_paused_partition_waits_where_it_is(kafka: MemoryKafka, consumer: MemoryConsumer) -> None:
    kafka.append("t", 0, b"0")
    kafka.append("t", 1, b"1")
    consumer.pause([TopicPartition("t", 0)])
    assert taken(consumer) == [b"1"]
    consumer.resume([TopicPartition("t", 0)])
    assert taken(consumer) == [b"0"]


def test_a_poll_that_waits_is_woken_when_its_partition_is_resumed(
    kafka: MemoryKafka, consumer: MemoryConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.append("t", 0, b"v")
    consumer.pause([TopicPartition("t", 0)])
    wait, waits, polled = kafka.changed.wait, threading.Event(), list[Any]()

    def watched(change: Any, timeout: float) -> None:
        waits.set()
        wait(change, timeout)

    monkeypatch.setattr(kafka.changed, "wait", watched)
    polling = threading.Thread(target=lambda: polled.append(consumer.poll(60)))
    polling.start()
    assert waits.wait(60)
    consumer.resume([TopicPartition("t", 0)])
    polling.join()
    assert polled[0].value() == b"v"


def test_a_handler_that_raises_leaves_no_lock_held_and_loses_no_acknowledgement(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    def interrupt(*places: int) -> int:
        for _ in range(3):
            send(producer, acks)
        interrupter = Interrupter(threading, memory_producer, places=set(places))
        with suppress(Interrupted):
            interrupter.run(lambda: producer.poll(0))
        return interrupter.count

    count = interrupt()
    assert count > 5
    for place in range(count):
        interrupt(place)
        assert is_free(kafka), place
    producer.poll(0)
    assert [offset for _, _, offset in acks] == list(range(kafka.end("t", 0)))


@pytest.mark.parametrize("client", ["producer", "consumer"])
def test_a_handler_that_raises_while_a_client_waits_leaves_no_lock_held(
    kafka: MemoryKafka, client: str, request: pytest.FixtureRequest
) -> None:
    waiting = request.getfixturevalue(client)

    def interrupt(*places: int) -> int:
        modules = (threading, memory_producer, memory_consumer, changes)
        interrupter = Interrupter(*modules, places=set(places))
        with suppress(Interrupted):  # and nothing else is raised
            interrupter.run(lambda: waiting.poll(0.001))
        return interrupter.count

    count = interrupt()
    assert count > 10
    for place in range(count):
        interrupt(place)
        assert is_free(kafka), place


def test_a_wait_inside_of_the_lock_lets_others_go_on(
    kafka: MemoryKafka, producer: MemoryProducer, acks: Acknowledgements
) -> None:
    """As in a handler that has interrupted a client."""
    producer.hold()
    send(producer, acks)
    other = threading.Thread(target=producer.release)
    with kafka.lock:
        other.start()
        assert producer.flush(60) == 0
    other.join()
    assert len(acks) == 1


def is_free(kafka: MemoryKafka) -> bool:
    """Whether another thread gets the lock."""
    free = list[bool]()

    def try_to_get() -> None:
        free.append(kafka.lock.acquire(blocking=False))
        if free[0]:
            kafka.lock.release()

    other = threading.Thread(target=try_to_get)
    other.start()
    other.join()
    return free[0]


def test_where_no_offset_is_committed_an_error_stops_the_partition(kafka: MemoryKafka) -> None:
    kafka.append("t", 0, b"v")
    consumer = MemoryConsumer(kafka, "g", reset="error")
    consumer.assign([TopicPartition("t", 0)])
    event = consumer.poll(0)
    assert event is not None
    assert event.error().code() == KafkaError._AUTO_OFFSET_RESET
    assert consumer.poll(0) is None
    assert consumer.assignment() == [TopicPartition("t", 0)]


def test_an_event_comes_before_messages(kafka: MemoryKafka, consumer: MemoryConsumer) -> None:
    kafka.append("t", 0, b"v")
    consumer.event(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    event = consumer.poll(0)
    assert event.error().code() == KafkaError._ALL_BROKERS_DOWN
    assert taken(consumer) == [b"v"]


def test_commits_keep_their_metadata_and_are_the_groups(
    kafka: MemoryKafka, consumer: MemoryConsumer
) -> None:
    done = consumer.commit([TopicPartition("t", 1, 4, "1:3:p-0")], asynchronous=False)
    assert [(place.offset, place.metadata) for place in done] == [(4, "1:3:p-0")]
    asked = [TopicPartition("t", 0), TopicPartition("t", 1)]
    committed = [(place.offset, place.metadata) for place in consumer.committed(asked, 1)]
    assert committed == [(-1001, None), (4, "1:3:p-0")]
    others = MemoryConsumer(kafka, "other").committed(asked, 1)
    assert [other.offset for other in others] == [-1001, -1001]


def test_an_asynchronous_commit_returns_nothing(consumer: MemoryConsumer) -> None:
    assert consumer.commit([TopicPartition("t", 0, 1)], asynchronous=True) is None
    assert consumer.committed([TopicPartition("t", 0)], 1)[0].offset == 1


def test_the_coordinator_can_fail(consumer: MemoryConsumer) -> None:
    consumer.fail_next(KafkaError(KafkaError._TIMED_OUT), count=3)
    with pytest.raises(KafkaException):
        consumer.committed([TopicPartition("t", 0)], 1)
    with pytest.raises(KafkaException):
        consumer.commit([TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.commit([TopicPartition("t", 0, 1)], asynchronous=True)
    assert consumer.committed([TopicPartition("t", 0)], 1)[0].offset == -1001


def test_the_assignment_is_told(consumer: MemoryConsumer) -> None:
    assert [(place.topic, place.partition) for place in consumer.assignment()] == [
        ("t", 0),
        ("t", 1),
    ]
    assert repr(consumer) == "<MemoryConsumer of 'g': 2 partitions, 0 paused>"


# --- transactions in a partition ----------------------------------------------------------------


def put(log: PartitionLog, value: bytes, transaction: MemoryTransaction | None = None) -> None:
    log.append(StoredMessage.copy_of(None, value, None, 1, transaction))


def seen(log: PartitionLog, *, committed: bool) -> list[tuple[int, bytes | None]]:
    return [(offset, stored.value) for offset, stored in log.visible(committed=committed)]


def test_reading_what_is_committed_ends_at_the_first_open_transaction() -> None:
    log, first, second = PartitionLog(), MemoryTransaction(), MemoryTransaction()
    for value, transaction in ((b"0", None), (b"1", first), (b"2", second), (b"3", None)):
        put(log, value, transaction)
    assert seen(log, committed=True) == [(0, b"0")]
    second.end(aborted=False)
    assert log.end(committed=True) == 1
    first.end(aborted=True)
    assert seen(log, committed=True) == [(0, b"0"), (2, b"2"), (3, b"3")]
    assert seen(log, committed=False) == [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"3")]
    assert (len(log), log.end(committed=True)) == (6, 6)


def test_a_search_goes_past_ends_of_transactions_and_what_was_aborted() -> None:
    log, transaction = PartitionLog(), MemoryTransaction()
    put(log, b"0", transaction)
    transaction.end(aborted=True)
    assert log.find(0, committed=True) == (2, None)


# --- groups -------------------------------------------------------------------------------------


def members(**topics: list[str]) -> dict[str, Member]:
    return {name: Member(name, wanted) for name, wanted in topics.items()}


def test_ranges_give_each_member_a_run_and_the_first_ones_more() -> None:
    share = share_by_range(members(a=["t", "u"], b=["t"], c=["t"]), {"t": 5, "u": 1})
    assert share == {
        "a": [("t", 0), ("t", 1), ("u", 0)],
        "b": [("t", 2), ("t", 3)],
        "c": [("t", 4)],
    }


def test_turns_pass_over_members_that_have_not_subscribed() -> None:
    share = share_in_turns(members(a=["t", "u"], b=["^u"]), {"t": 1, "u": 3})
    assert share == {"a": [("t", 0), ("u", 1)], "b": [("u", 0), ("u", 2)]}


def test_a_member_that_does_not_poll_keeps_the_others_waiting(kafka: MemoryKafka) -> None:
    one, other = MemoryConsumer(kafka, "g"), MemoryConsumer(kafka, "g")
    one.subscribe(["t"])
    one.poll(0)
    other.subscribe(["t"])
    other.poll(0)
    assert other.assignment() == []
    one.poll(0)
    other.poll(0)
    assert [member.assignment()[0].partition for member in (one, other)] == [0, 1]


def test_a_member_that_was_expelled_leaves_without_another_rebalance(kafka: MemoryKafka) -> None:
    one, other = MemoryConsumer(kafka, "g"), MemoryConsumer(kafka, "g")
    for member in (one, other):
        member.subscribe(["t"])
        member.poll(0)
    one.poll(0)
    other.poll(0)
    one.expel()
    other.poll(0)
    before = other.membership.group.generation
    one.close()
    assert other.membership.group.generation == before
    assert [place.partition for place in other.assignment()] == [0, 1]


def test_new_partitions_of_a_topic_are_shared_out(kafka: MemoryKafka) -> None:
    consumer = MemoryConsumer(kafka, "g")
    consumer.subscribe(["^t"])
    consumer.poll(0)
    kafka.create_topic("t", 3)
    kafka.create_topic("t2")
    consumer.poll(0)
    places = [(place.topic, place.partition) for place in consumer.assignment()]
    assert places == [("t", 0), ("t", 1), ("t", 2), ("t2", 0)]


def test_a_callback_that_raises_leaves_the_group_as_it_should_be(kafka: MemoryKafka) -> None:
    def raises(_: Any) -> None:
        raise LookupError

    consumer = MemoryConsumer(kafka, "g")
    consumer.subscribe(["t"], assign=raises)
    with pytest.raises(LookupError):
        consumer.poll(0)
    assert len(consumer.assignment()) == 2


def test_leaving_gives_back_at_the_next_poll(kafka: MemoryKafka) -> None:
    revoked: list[Any] = []
    consumer = MemoryConsumer(kafka, "g")
    consumer.subscribe(["t"], revoke=revoked.append)
    consumer.poll(0)
    consumer.membership.unsubscribe()
    assert revoked == []
    consumer.poll(0)
    assert [len(partitions) for partitions in revoked] == [2]
    assert (consumer.assignment(), consumer.membership.id) == ([], None)


def test_what_is_stored_is_committed_once_the_interval_is_over(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.now)
    kafka.append("t", 0, b"0")
    consumer = MemoryConsumer(kafka, "g", auto_commit=5)
    consumer.assign([TopicPartition("t", 0, 0)])
    offsets = []
    for clock.now in (100.0, 104.0, 105.0):
        consumer.poll(0)
        offsets.append(kafka.committed("g", "t", 0).offset)
    assert offsets == [OFFSET_INVALID, OFFSET_INVALID, 1]


def test_closing_answers_the_commits_it_makes() -> None:
    kafka = MemoryKafka()
    kafka.create_topic("t", 1)
    kafka.append("t", 0, b"0")
    answers: list[Any] = []
    consumer = MemoryConsumer(
        kafka, auto_commit=60, on_commit=lambda error, offsets: answers.append((error, offsets))
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    assert consumer.poll(0) is not None
    consumer.close()
    [(error, [committed])] = answers
    assert (error, committed.offset) == (None, 1)


def test_a_tail_longer_than_the_partition_is_all_of_it() -> None:
    kafka = MemoryKafka()
    kafka.create_topic("t", 1)
    kafka.append("t", 0, b"0")
    consumer = MemoryConsumer(kafka)
    consumer.assign([TopicPartition("t", 0, -2005)])  # OFFSET_TAIL(5)
    message = consumer.poll(0)
    assert message is not None
    assert message.value() == b"0"


def test_a_commit_that_on_commit_makes_is_answered_by_the_next_poll() -> None:
    kafka = MemoryKafka()
    kafka.create_topic("t", 1)
    answers = []

    def answered(error: Any, _: Any) -> None:
        answers.append(error)
        consumer.commit([TopicPartition("t", 0, len(answers))], asynchronous=True)

    consumer = MemoryConsumer(kafka, on_commit=answered)
    consumer.assign([TopicPartition("t", 0, 0)])
    consumer.commit([TopicPartition("t", 0, 0)], asynchronous=True)
    consumer.poll(0)
    assert answers == [None]
    consumer.poll(0)
    assert answers == [None, None]
