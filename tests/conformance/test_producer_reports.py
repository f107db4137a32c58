"""Delivery reports: which callback runs, how often, in which thread, with which message."""

from __future__ import annotations

import json
import pickle
import threading
import time
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from producers import HELD, PRODUCERS, UNREACHABLE
from support import Reports, eventually

pytestmark = pytest.mark.parametrize("make_producer", PRODUCERS, indirect=True)


def reported(make: Any, value: Any = b"v", **given: Any) -> tuple[Any, Any]:
    """Send one message and return what its callback got."""
    seen: list[Any] = []
    config = given.pop("config", {})
    producer = make(**config)
    producer.produce("t", make.value(value), on_delivery=lambda e, m: seen.append((e, m)), **given)
    assert producer.flush(20) == 0
    [report] = seen
    return report


def purged(make: Any, **given: Any) -> tuple[Any, Any]:
    """Purge one message and return what its callback got."""
    seen: list[Any] = []
    producer = make(**HELD)
    producer.produce("t", make.value(b"v"), on_delivery=lambda e, m: seen.append((e, m)), **given)
    producer.purge()
    eventually(lambda: producer.poll(0.1))
    [report] = seen
    return report


# --- which callback -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
def test_each_message_is_reported_once(make_producer, name: str) -> None:
    seen: list[Any] = []
    producer = make_producer()
    for n in range(5):
        report = {name: lambda e, m: seen.append((e, make_producer.read(m.value())))}
        producer.produce("t", make_producer.value(b"%d" % n), **report)
    assert len(producer) == 5
    assert producer.flush(20) == 0
    assert producer.flush(20) == 0
    assert sorted(seen) == [(None, b"%d" % n) for n in range(5)]
    assert len(producer) == 0


def test_reports_of_a_partition_come_in_order(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer()
    for n in range(50):
        producer.produce(
            "t",
            make_producer.value(b"%d" % n),
            partition=1,
            on_delivery=lambda _, m: seen.append(m),
        )
    producer.flush(20)
    assert [make_producer.read(m.value()) for m in seen] == [b"%d" % n for n in range(50)]
    offsets = [m.offset() for m in seen]
    assert offsets == list(range(offsets[0], offsets[0] + 50)) or make_producer.of.encoding
    assert offsets == sorted(set(offsets))


@pytest.mark.parametrize("name", ["callback", "on_delivery", "configured"])
def test_a_callback_may_be_false(make_producer, name: str) -> None:
    reports = Reports()
    producer = make_producer(**({"on_delivery": reports} if name == "configured" else {}))
    given = {} if name == "configured" else {name: reports}
    for _ in range(3):
        producer.produce("t", make_producer.value(b"x"), **given)
        producer.flush(20)
        assert reports.pop()[0] is None


def _marks(seen: list[str]) -> dict[str, Any]:
    return {name: lambda *_, name=name: seen.append(name) for name in ("callback", "on_delivery")}


def test_callback_goes_before_on_delivery(make_producer) -> None:
    seen: list[str] = []
    producer = make_producer()
    producer.produce("t", make_producer.value(b"x"), **_marks(seen))
    producer.flush(20)
    assert seen == ["callback"]


def test_callback_counts_beside_no_on_delivery(make_producer) -> None:
    seen: list[str] = []
    producer = make_producer()
    producer.produce("t", make_producer.value(b"x"), **{**_marks(seen), "on_delivery": None})
    producer.flush(20)
    assert seen == ["callback"]


def test_the_configured_callback_is_the_default(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(
        on_delivery=lambda e, m: seen.append((e, make_producer.read(m.value())))
    )
    producer.produce("t", make_producer.value(b"x"))
    producer.flush(20)
    assert seen == [(None, b"x")]


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
def test_a_messages_own_callback_replaces_the_configured_one(make_producer, name: str) -> None:
    seen: list[str] = []
    producer = make_producer(on_delivery=lambda *_: seen.append("configured"))
    producer.produce("t", make_producer.value(b"x"), **{name: lambda *_: seen.append("own")})
    producer.flush(20)
    assert seen == ["own"]


@pytest.mark.parametrize(
    "given",
    [{"callback": None}, {"on_delivery": None}, {"callback": None, "on_delivery": None}],
    ids=str,
)
def test_none_is_no_callback_of_its_own(make_producer, given: Any) -> None:
    seen: list[str] = []
    producer = make_producer(on_delivery=lambda *_: seen.append("configured"))
    producer.produce("t", make_producer.value(b"x"), **given)
    producer.flush(20)
    assert seen == ["configured"]


def test_without_any_callback_messages_are_sent(make_producer) -> None:
    topic = make_producer.topic()
    producer = make_producer()
    producer.produce(topic, make_producer.value(b"x"))
    assert producer.flush(20) == 0
    assert make_producer.read(make_producer.received(topic, 1)[0].value()) == b"x"


class _Callable:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, error: Any, _: Any) -> None:
        self.seen.append(error)

    def method(self, error: Any, _: Any) -> None:
        self.seen.append(error)


@pytest.mark.parametrize("how", ["object", "method"])
def test_any_callable_is_a_callback(make_producer, how: str) -> None:
    callback = _Callable()
    producer = make_producer()
    given = callback if how == "object" else callback.method
    producer.produce("t", make_producer.value(b"x"), on_delivery=given)
    producer.flush(20)
    assert callback.seen == [None]


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
@pytest.mark.parametrize("given", [5, "x", object()], ids=["int", "str", "object"])
def test_what_cannot_be_called_fails_when_it_is(make_producer, name: str, given: Any) -> None:
    """Stock accepts it at produce, and raises a SystemError from flush."""
    producer = make_producer()
    producer.produce("t", make_producer.value(b"x"), **{name: given})
    with pytest.raises((SystemError, TypeError)):
        producer.flush(20)
    assert producer.flush(20) == 0


# --- when and where -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["poll", "flush", "close"])
def test_reports_run_in_the_thread_that_serves_them(make_producer, method: str) -> None:
    seen: list[int] = []
    producer = make_producer()
    producer.produce(
        "t", make_producer.value(b"x"), on_delivery=lambda *_: seen.append(threading.get_ident())
    )
    getattr(producer, method)(*([] if method == "close" else [20]))
    assert seen == [threading.get_ident()]


def test_no_report_runs_unless_served(make_producer) -> None:
    seen: list[Any] = []
    topic = make_producer.topic()
    producer = make_producer()
    producer.produce(topic, make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e))
    make_producer.received(topic, 1)  # it is there
    assert seen == []
    assert len(producer) >= 1  # the client's own events count, too
    eventually(lambda: producer.poll(0.1))
    assert seen == [None]


def test_a_report_may_produce(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer()

    def again(*_: Any) -> None:
        seen.append("first")
        producer.produce(
            "t", make_producer.value(b"y"), on_delivery=lambda *_: seen.append("second")
        )

    producer.produce("t", make_producer.value(b"x"), on_delivery=again)
    assert producer.flush(20) == 0
    assert seen == ["first", "second"]


def test_a_report_sees_how_many_are_left(make_producer) -> None:
    """The message being reported counts no more, or still: but never less than the others."""
    lengths: list[int] = []
    producer = make_producer()
    for _ in range(3):
        producer.produce(
            "t",
            make_producer.value(b"x"),
            partition=0,
            on_delivery=lambda *_: lengths.append(len(producer)),
        )
    producer.flush(20)
    assert [left >= 2 - n for n, left in enumerate(lengths)] == [True] * 3
    assert len(producer) == 0


@pytest.mark.parametrize(
    "raised", [ZeroDivisionError, KafkaException, KeyboardInterrupt, SystemExit]
)
@pytest.mark.parametrize("method", ["poll", "flush"])
def test_an_exception_of_a_report_passes_through(
    make_producer, raised: type[BaseException], method: str
) -> None:
    def fail(*_: Any) -> None:
        raise raised("from a report")

    producer = make_producer()
    producer.produce("t", make_producer.value(b"x"), on_delivery=fail)
    with pytest.raises(raised, match="from a report"):
        getattr(producer, method)(20)
    assert len(producer) == 0


def test_an_exception_of_the_configured_callback_passes_through(make_producer) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    producer = make_producer(on_delivery=fail)
    producer.produce("t", make_producer.value(b"x"))
    with pytest.raises(ZeroDivisionError):
        producer.flush(20)


def test_a_raising_report_loses_no_other(make_producer) -> None:
    seen: list[bytes] = []
    producer = make_producer()

    def report(_: Any, message: Any) -> None:
        seen.append(make_producer.read(message.value()))
        if seen[-1] == b"0":
            raise ZeroDivisionError

    for n in range(3):
        producer.produce("t", make_producer.value(b"%d" % n), partition=0, on_delivery=report)
    with pytest.raises(ZeroDivisionError):
        producer.flush(20)
    assert producer.flush(20) == 0
    assert seen == [b"0", b"1", b"2"]


def test_after_a_raising_report_the_producer_goes_on(make_producer) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    seen: list[Any] = []
    producer = make_producer()
    for _ in range(2):
        producer.produce("t", make_producer.value(b"x"), on_delivery=fail)
        with pytest.raises(ZeroDivisionError):
            producer.poll(20)
    producer.produce("t", make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e))
    assert producer.flush(20) == 0
    assert seen == [None]


# --- a delivered message ------------------------------------------------------------------------


def test_a_delivered_message_has_no_error(make_producer) -> None:
    error, message = reported(make_producer)
    assert (error, message.error()) == (None, None)


def test_a_report_is_a_message(make_producer) -> None:
    assert isinstance(reported(make_producer)[1], confluent_kafka.Message)


def test_a_report_has_its_topic_and_partition(make_producer) -> None:
    _, message = reported(make_producer, partition=2)
    assert (message.topic(), message.partition()) == ("t", 2)


def test_a_report_has_its_offset(make_producer) -> None:
    topic, seen = make_producer.topic(), []
    producer = make_producer()
    for _ in range(3):
        producer.produce(topic, make_producer.value(b"x"), on_delivery=lambda _, m: seen.append(m))
        producer.flush(20)
    assert [make_producer.offset(message) for message in seen] == [0, 1, 2]


def test_a_reports_offset_is_where_the_message_is(make_producer) -> None:
    topic, seen = make_producer.topic(), []
    producer = make_producer()
    for n in range(20):
        producer.produce(
            topic,
            make_producer.value(b"%d" % n),
            on_delivery=lambda _, m: seen.append((m.offset(), m.value())),
        )
    producer.flush(20)
    assert seen == [(m.offset(), m.value()) for m in make_producer.received(topic, 20)]


@pytest.mark.parametrize("value", [b"v", "v", b"", "", "ü", None], ids=repr)
def test_a_report_has_its_value(make_producer, value: Any) -> None:
    stored = value.encode() if isinstance(value, str) else value
    assert make_producer.read(reported(make_producer, value)[1].value()) == stored


@pytest.mark.parametrize(
    ("key", "stored"), [(b"k", b"k"), ("k", b"k"), (b"", b""), ("", b""), (None, None)], ids=repr
)
def test_a_report_has_its_key(make_producer, key: Any, stored: Any) -> None:
    assert reported(make_producer, key=key)[1].key() == stored


def test_a_report_without_headers_has_none(make_producer) -> None:
    assert reported(make_producer)[1].headers() is None


def test_a_report_has_its_latency(make_producer) -> None:
    since = time.monotonic()
    latency = reported(make_producer)[1].latency()
    assert isinstance(latency, float)
    assert 0 < latency < time.monotonic() - since


def test_a_report_has_no_leader_epoch(make_producer) -> None:
    assert reported(make_producer)[1].leader_epoch() is None


@pytest.mark.parametrize(("value", "true"), [(b"v", True), (b"", False), (None, False)], ids=repr)
def test_a_report_is_true_when_it_has_a_value(make_producer, value: Any, true: bool) -> None:
    """An empty value is false; a record is a value whatever is in it."""
    _, message = reported(make_producer, value)
    true = true or (make_producer.of.records and value is not None)
    assert (bool(message), len(message) > 0) == (true, true)


def test_a_report_can_be_pickled(make_producer) -> None:
    _, message = reported(make_producer, key=b"k", partition=1)
    copy = pickle.loads(pickle.dumps(message))
    assert [copy.topic(), copy.partition(), copy.offset(), copy.key(), copy.value()] == [
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
    ]
    assert (copy.timestamp(), copy.error()) == (message.timestamp(), None)


@pytest.mark.parametrize("name", ["topic", "key", "value", "headers", "error"])
def test_a_reports_parts_can_be_replaced(make_producer, name: str) -> None:
    """As deserialisers do."""
    new = {"headers": [("h", b"new")], "error": KafkaError(KafkaError._FAIL)}.get(name, "new")
    _, message = reported(make_producer, key=b"k")
    getattr(message, f"set_{name}")(new)
    assert getattr(message, name)() == new


# --- a message that failed ----------------------------------------------------------------------


def test_a_failed_messages_error_is_given_twice(make_producer) -> None:
    error, message = purged(make_producer)
    assert isinstance(error, KafkaError)
    assert (error.code(), error.name(), error.str()) == (
        KafkaError._PURGE_QUEUE,
        "_PURGE_QUEUE",
        "Local: Purged in queue",
    )
    assert message.error() == error
    assert (error.fatal(), error.retriable(), error.txn_requires_abort()) == (False,) * 3


def test_a_failed_message_has_all_but_an_offset(make_producer) -> None:
    _, message = purged(make_producer, key=b"k", partition=2)
    assert (message.topic(), message.partition(), message.offset()) == ("t", 2, None)
    assert (message.key(), make_producer.read(message.value())) == (b"k", b"v")
    assert message.leader_epoch() is None


def test_a_message_that_failed_has_a_latency(make_producer) -> None:
    since = time.monotonic()
    latency = purged(make_producer)[1].latency()
    assert isinstance(latency, float)
    assert 0 < latency < time.monotonic() - since


def test_a_message_that_takes_too_long_times_out(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**UNREACHABLE, **{"delivery.timeout.ms": 10})  # either name
    producer.produce(
        "t", make_producer.value(b"v"), b"k", 3, on_delivery=lambda e, m: seen.append((e, m))
    )
    eventually(lambda: producer.poll(0.1) and seen)
    [(error, message)] = seen
    assert (error.code(), error.str()) == (KafkaError._MSG_TIMED_OUT, "Local: Message timed out")
    assert (error.fatal(), error.retriable()) == (False, False)
    assert (message.topic(), message.partition(), message.offset()) == ("t", 3, None)
    assert (make_producer.read(message.value()), message.key()) == (b"v", b"k")


def test_a_timeout_may_be_among_the_topics_settings(make_producer) -> None:
    seen: list[int] = []
    config = {"default.topic.config": {"message.timeout.ms": 10}}
    producer = make_producer(**UNREACHABLE, **config)
    producer.produce("t", make_producer.value(b"v"), on_delivery=lambda e, _: seen.append(e.code()))
    eventually(lambda: producer.poll(0.1) and seen)
    assert seen == [KafkaError._MSG_TIMED_OUT]


# --- settings that change reports ---------------------------------------------------------------


@pytest.mark.parametrize("config", [{"acks": 0}, {"default.topic.config": {"acks": 0}}], ids=str)
def test_without_acknowledgements_there_is_no_offset(make_producer, config: Any) -> None:
    error, message = reported(make_producer, config=config, timestamp=77)
    assert (error, message.offset(), message.timestamp()) == (None, None, (1, 77))


@pytest.mark.parametrize("acks", [1, -1, "all"])
def test_with_acknowledgements_there_is_one(make_producer, acks: Any) -> None:
    error, message = reported(make_producer, config={"acks": acks})
    assert error is None
    assert message.offset() >= 0


def test_an_idempotent_producer_reports_as_others(make_producer) -> None:
    error, message = reported(make_producer, config={"enable.idempotence": True})
    assert error is None
    assert message.offset() >= 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_changes_no_report(make_producer, codec: str) -> None:
    error, message = reported(make_producer, b"x" * 1000, config={"compression.type": codec})
    assert error is None
    assert make_producer.read(message.value()) == b"x" * 1000


def test_only_errors_are_reported_when_asked(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**{"delivery.report.only.error": True})
    producer.produce("t", make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e))
    assert producer.flush(20) == 0
    assert seen == []
    assert len(producer) == 0


def test_statistics_and_reports_are_served_together(make_producer) -> None:
    stats: list[Any] = []
    seen: list[Any] = []
    producer = make_producer(
        stats_cb=lambda s: stats.append(json.loads(s)), **{"statistics.interval.ms": 20}
    )
    producer.produce("t", make_producer.value(b"x"), on_delivery=lambda e, _: seen.append(e))
    eventually(lambda: producer.poll(0.1) and stats and seen)
    assert seen == [None]
