"""Transactions on the mock: states, errors and their flags, and the reports they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from producers import HELD, UNREACHABLE, failure
from support import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

READY, INIT = "Operation not valid in state Ready", "Operation not valid in state Init"


@pytest.fixture
def group(make_producer) -> Iterator[Any]:
    """Returns a stock consumer's group metadata: what a service that switches over has."""
    config = {"bootstrap.servers": make_producer.servers, "group.id": make_producer.name}
    with confluent_kafka.Consumer(config) as consumer:
        yield consumer.consumer_group_metadata()


def flags(error: KafkaError) -> tuple[bool, bool, bool]:
    return error.fatal(), error.retriable(), error.txn_requires_abort()


def errors(make: Any, producer: Any, count: int = 1) -> list[Any]:
    """Produce messages, and return the list that their reports will be noted in."""
    seen: list[Any] = []
    for _ in range(count):
        producer.produce(
            "t", make.value(b"x"), on_delivery=lambda e, _: seen.append(e and e.code())
        )
    return seen


# --- without a transactional id -----------------------------------------------------------------

CALLS = [
    ("init_transactions", (1,)),
    ("begin_transaction", ()),
    ("commit_transaction", (1,)),
    ("abort_transaction", (1,)),
]


@pytest.mark.parametrize(("method", "arguments"), CALLS)
def test_a_transaction_needs_an_id(make_producer, method: str, arguments: Any) -> None:
    error = failure(getattr(make_producer(), method), *arguments)
    assert (error.code(), error.str()) == (
        KafkaError._NOT_CONFIGURED,
        "The Transactional API requires transactional.id to be configured",
    )
    assert flags(error) == (False, False, False)


def test_offsets_in_a_transaction_need_an_id(make_producer, group) -> None:
    send = make_producer().send_offsets_to_transaction
    assert failure(send, [TopicPartition("t", 0, 1)], group, 1).code() == KafkaError._NOT_CONFIGURED


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_id_is_none(make_producer, value: Any) -> None:
    producer = make_producer(**{"transactional.id": value})
    seen = errors(make_producer, producer)
    assert producer.flush(20) == 0
    assert seen == [None]


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["init_transactions", "commit_transaction", "abort_transaction"])
@pytest.mark.parametrize("timeout", ["x", None, []], ids=repr)
def test_a_timeout_is_a_number(make_producer, method: str, timeout: Any) -> None:
    producer = make_producer(**{"transactional.id": make_producer.name})
    with pytest.raises(TypeError, match=f"^must be real number, not {type(timeout).__name__}$"):
        getattr(producer, method)(timeout)


@pytest.mark.parametrize(
    ("method", "arguments", "keywords"),
    [
        ("init_transactions", (1, 2), {}),
        ("init_transactions", (), {"timeout": 1}),
        ("begin_transaction", (1,), {}),
        ("commit_transaction", (1, 2), {}),
        ("commit_transaction", (), {"x": 1}),
        ("abort_transaction", (1, 2), {}),
        ("send_offsets_to_transaction", (), {}),
        ("send_offsets_to_transaction", ([],), {}),
        ("send_offsets_to_transaction", ([], b"", 1, 2), {}),
    ],
    ids=str,
)
def test_wrong_arguments_are_a_type_error(
    make_producer, method: str, arguments: Any, keywords: Any
) -> None:
    producer = make_producer(**{"transactional.id": make_producer.name})
    with pytest.raises(TypeError):
        getattr(producer, method)(*arguments, **keywords)


# --- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "arguments"), CALLS[1:])
def test_init_comes_first(make_producer, method: str, arguments: Any) -> None:
    producer = make_producer(**{"transactional.id": make_producer.name})
    error = failure(getattr(producer, method), *arguments)
    assert (error.code(), error.str()) == (KafkaError._STATE, INIT)
    assert flags(error) == (False, False, False)


def test_init_comes_before_offsets(make_producer, group) -> None:
    producer = make_producer(**{"transactional.id": make_producer.name})
    error = failure(producer.send_offsets_to_transaction, [TopicPartition("t", 0, 1)], group, 1)
    assert (error.code(), error.str()) == (KafkaError._STATE, INIT)


def _erroneous(error: KafkaError) -> None:
    assert (error.code(), error.str()) == (
        KafkaError._STATE,
        "Unable to produce message: Local: Erroneous state",
    )
    assert flags(error) == (False, False, False)


def test_nothing_is_produced_before_init(make_producer) -> None:
    producer = make_producer(**{"transactional.id": make_producer.name})
    _erroneous(failure(producer.produce, "t", make_producer.value(b"x")))
    assert len(producer) == 0


def test_nothing_is_produced_outside_a_transaction(make_producer) -> None:
    producer = make_producer.transactional()
    _erroneous(failure(producer.produce, "t", make_producer.value(b"x")))
    assert len(producer) == 0


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_nothing_is_produced_after_a_transaction(make_producer, end: str) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    getattr(producer, end)(20)
    _erroneous(failure(producer.produce, "t", make_producer.value(b"x")))


def test_no_batch_is_taken_outside_a_transaction(make_producer) -> None:
    producer = make_producer.transactional()
    messages = [{"value": make_producer.value(b"x")}]
    assert producer.produce_batch("t", messages) == 0
    error = messages[0]["_error"]
    assert (error.code(), error.str()) == (
        KafkaError._STATE,
        "Message failed: Local: Erroneous state",
    )


def test_a_second_init_is_refused(make_producer) -> None:
    error = failure(make_producer.transactional().init_transactions, 20)
    assert (error.code(), error.str()) == (KafkaError._STATE, READY)


def test_a_second_begin_is_refused(make_producer) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    error = failure(producer.begin_transaction)
    assert (error.code(), error.str()) == (
        KafkaError._STATE,
        "Operation not valid in state InTransaction",
    )
    seen = errors(make_producer, producer)
    producer.commit_transaction(20)
    assert seen == [None]


@pytest.mark.parametrize("method", ["commit_transaction", "abort_transaction"])
def test_an_end_needs_a_beginning(make_producer, method: str) -> None:
    error = failure(getattr(make_producer.transactional(), method), 20)
    assert (error.code(), error.str()) == (KafkaError._STATE, READY)
    assert flags(error) == (False, False, False)


@pytest.mark.parametrize("first", ["commit_transaction", "abort_transaction"])
@pytest.mark.parametrize("second", ["commit_transaction", "abort_transaction"])
def test_a_transaction_ends_once(make_producer, first: str, second: str) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    errors(make_producer, producer)
    getattr(producer, first)(20)
    error = failure(getattr(producer, second), 20)
    assert (error.code(), error.str()) == (KafkaError._STATE, READY)


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_a_transaction_may_be_empty(make_producer, end: str) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    assert getattr(producer, end)(20) is None


@pytest.mark.parametrize("arguments", [(), (-1,), (20,), (20.5,)], ids=str)
@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_an_end_has_a_timeout(make_producer, end: str, arguments: Any) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    errors(make_producer, producer)
    assert getattr(producer, end)(*arguments) is None


def test_every_call_returns_nothing(make_producer, group) -> None:
    producer = make_producer(**{"transactional.id": make_producer.name})
    producer.list_topics(timeout=20)
    assert producer.init_transactions() is None
    assert producer.begin_transaction() is None
    assert producer.send_offsets_to_transaction([], group) is None
    assert producer.commit_transaction() is None


def test_one_transaction_follows_another(make_producer) -> None:
    producer = make_producer.transactional(**HELD)
    seen = []
    for end in ["commit", "abort", "commit", "commit", "abort", "abort", "commit"]:
        producer.begin_transaction()
        producer.produce(
            "t", make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e is None)
        )
        getattr(producer, f"{end}_transaction")(20)
    assert seen == [True, False, True, True, False, False, True]


# Stock warns when it is closed then.
unfinished = pytest.mark.filterwarnings("ignore:Producer abort_transaction failed:RuntimeWarning")


@unfinished
def test_an_unreachable_broker_makes_init_time_out(make_producer) -> None:
    producer = make_producer(**UNREACHABLE, **{"transactional.id": make_producer.name})
    error = failure(producer.init_transactions, 0.05)
    assert error.code() == KafkaError._TIMED_OUT
    assert flags(error) == (False, True, False)


@unfinished
@pytest.mark.parametrize(("method", "arguments"), CALLS[1:])
def test_after_an_init_that_timed_out_there_is_a_conflict(
    make_producer, method: str, arguments: Any
) -> None:
    producer = make_producer(**UNREACHABLE, **{"transactional.id": make_producer.name})
    failure(producer.init_transactions, 0.05)
    error = failure(getattr(producer, method), *arguments)
    assert error.code() == KafkaError._CONFLICT
    assert flags(error) == (False, True, False)


# --- commit -------------------------------------------------------------------------------------


def test_commit_sends_and_reports_all(make_producer) -> None:
    producer = make_producer.transactional(**{"linger.ms": 30_000})
    producer.begin_transaction()
    seen = errors(make_producer, producer, 5)
    producer.commit_transaction(20)
    assert (seen, len(producer), producer.poll(0)) == ([None] * 5, 0, 0)


def test_commit_runs_the_configured_callback(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer.transactional(on_delivery=lambda e, _: seen.append(e))
    producer.begin_transaction()
    producer.produce("t", make_producer.value(b"x"))
    producer.commit_transaction(20)
    assert seen == [None]


def test_what_is_committed_arrives(make_producer) -> None:
    topic = make_producer.topic()
    producer = make_producer.transactional()
    producer.begin_transaction()
    for n in range(3):
        producer.produce(topic, make_producer.value(b"%d" % n), b"k")
    producer.commit_transaction(20)
    received = [(m.key(), make_producer.read(m.value())) for m in make_producer.received(topic, 3)]
    assert received == [(b"k", b"0"), (b"k", b"1"), (b"k", b"2")]


@pytest.mark.parametrize("method", ["flush", "poll"])
def test_messages_may_be_reported_before_commit(make_producer, method: str) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    seen = errors(make_producer, producer, 2)
    eventually(lambda: (getattr(producer, method)(0.1), len(seen))[1] == 2)
    producer.commit_transaction(20)
    assert seen == [None, None]


def test_a_failed_message_makes_commit_require_an_abort(make_producer) -> None:
    producer = make_producer.transactional(**{"linger.ms": 30_000})
    producer.begin_transaction()
    seen = errors(make_producer, producer)
    producer.purge()
    producer.flush(20)
    error = failure(producer.commit_transaction, 20)
    assert seen == [KafkaError._PURGE_QUEUE]
    assert (error.code(), error.str()) == (
        KafkaError._INCONSISTENT,
        "1 message(s) failed delivery (see individual delivery reports)",
    )
    assert flags(error) == (False, False, True)


def test_after_that_abort_the_producer_goes_on(make_producer) -> None:
    producer = make_producer.transactional(**{"linger.ms": 30_000})
    producer.begin_transaction()
    errors(make_producer, producer)
    producer.purge()
    producer.flush(20)
    failure(producer.commit_transaction, 20)
    producer.abort_transaction(20)
    producer.begin_transaction()
    seen = errors(make_producer, producer)
    try:
        producer.commit_transaction(20)
    except KafkaException:
        # librdkafka may have counted what was purged: then the next transaction is in vain too.
        assert not make_producer.of.records
        producer.abort_transaction(20)
        producer.begin_transaction()
        seen = errors(make_producer, producer)
        producer.commit_transaction(20)
    assert seen == [None]


def test_an_exception_of_a_report_passes_through_commit(make_producer) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    producer = make_producer.transactional()
    producer.begin_transaction()
    producer.produce("t", make_producer.value(b"x"), on_delivery=fail)
    with pytest.raises(ZeroDivisionError):
        producer.commit_transaction(20)
    assert len(producer) == 0


# --- abort --------------------------------------------------------------------------------------


def test_abort_gives_up_what_is_queued(make_producer) -> None:
    producer = make_producer.transactional(**{"linger.ms": 30_000})
    producer.begin_transaction()
    seen = errors(make_producer, producer, 3)
    producer.abort_transaction(20)
    assert seen == [KafkaError._PURGE_QUEUE] * 3
    assert (len(producer), producer.poll(0)) == (0, 0)


def test_what_was_flushed_before_an_abort_was_delivered(make_producer) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    seen = errors(make_producer, producer, 2)
    producer.flush(20)
    producer.abort_transaction(20)
    assert seen == [None, None]


def test_what_is_aborted_in_the_queue_never_arrives(make_producer) -> None:
    topic = make_producer.topic()
    producer = make_producer.transactional(**{"linger.ms": 30_000})
    for value, end in ((b"aborted", "abort"), (b"committed", "commit")):
        producer.begin_transaction()
        producer.produce(topic, make_producer.value(value))
        getattr(producer, f"{end}_transaction")(20)
    [message] = make_producer.received(topic, 1)
    assert make_producer.read(message.value()) == b"committed"


def test_an_exception_of_a_report_passes_through_abort(make_producer) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    producer = make_producer.transactional(**{"linger.ms": 30_000})
    producer.begin_transaction()
    producer.produce("t", make_producer.value(b"x"), on_delivery=fail)
    with pytest.raises(ZeroDivisionError):
        producer.abort_transaction(20)
    assert len(producer) == 0


def test_close_aborts_a_transaction(make_producer) -> None:
    producer = make_producer.transactional(**{"linger.ms": 30_000})
    producer.begin_transaction()
    seen = errors(make_producer, producer, 2)
    assert producer.close() is True
    assert seen == [KafkaError._PURGE_QUEUE] * 2


# --- offsets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "offsets", [[5], [], [OFFSET_INVALID]], ids=["one", "none", "without an offset"]
)
def test_a_transaction_takes_offsets(make_producer, group, offsets: list[int]) -> None:
    """The mock does not keep them; a real broker does, in `test_producer_on_kafka.py`."""
    topic = make_producer.topic()
    producer = make_producer.transactional()
    producer.begin_transaction()
    places = [TopicPartition(topic, 0, offset) for offset in offsets]
    assert producer.send_offsets_to_transaction(places, group, 20) is None
    assert producer.commit_transaction(20) is None


@pytest.mark.parametrize(
    ("offsets", "metadata", "message"),
    [
        ([TopicPartition("t", 0, 1)], None, "expected bytes, NoneType found"),
        ([TopicPartition("t", 0, 1)], "x", "expected bytes, str found"),
        (5, ..., "requires list of TopicPartition"),
        ((TopicPartition("t", 0, 1),), ..., "requires list of TopicPartition"),
        ([5], ..., "expected cimpl.TopicPartition"),
    ],
    ids=["None", "str", "int", "tuple", "item"],
)
def test_offsets_of_another_type_are_a_type_error(
    make_producer, group, offsets: Any, metadata: Any, message: str
) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    with pytest.raises(TypeError, match=f"^{message}$"):
        producer.send_offsets_to_transaction(offsets, group if metadata is ... else metadata, 20)


def test_a_groups_metadata_that_is_garbled_is_refused(make_producer) -> None:
    producer = make_producer.transactional()
    producer.begin_transaction()
    error = failure(producer.send_offsets_to_transaction, [TopicPartition("t", 0, 1)], b"x", 20)
    assert error.code() == KafkaError._BAD_MSG


def test_offsets_outside_a_transaction_are_refused(make_producer, group) -> None:
    producer = make_producer.transactional()
    error = failure(producer.send_offsets_to_transaction, [TopicPartition("t", 0, 1)], group, 20)
    assert (error.code(), error.str()) == (KafkaError._STATE, READY)
