"""What every user of `confluent_kafka.Producer` may rely on, switched off or without a schema."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from support import eventually

UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def test_it_is_a_confluent_producer(make_producer) -> None:
    assert isinstance(make_producer(), confluent_kafka.Producer)


def test_no_configuration_is_a_type_error(make_producer) -> None:
    with pytest.raises(TypeError, match="expected configuration dict"):
        make_producer.kind()


def test_a_configuration_that_is_no_dict_is_a_type_error(make_producer) -> None:
    with pytest.raises(TypeError, match="expected configuration dict"):
        make_producer.kind("bootstrap.servers=localhost")


def test_an_unknown_key_is_an_invalid_argument(make_producer) -> None:
    with pytest.raises(KafkaException) as raised:
        make_producer(**{"no.such.key": 1})
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG
    assert "no.such.key" in raised.value.args[0].str()


def test_a_bad_value_is_an_invalid_argument(make_producer) -> None:
    with pytest.raises(KafkaException) as raised:
        make_producer(acks="abc")
    assert raised.value.args[0].code() == KafkaError._INVALID_ARG


def test_keyword_arguments_are_configuration(make_producer) -> None:
    producer = make_producer.kind({"log_level": 0}, **{"bootstrap.servers": "127.0.0.1:1"})
    assert producer.close() is True


@pytest.mark.parametrize("value", [{}, 5, 1.5, [], object(), bytearray(b"x")])
def test_a_value_that_is_no_bytes_is_a_type_error(make_producer, value: Any) -> None:
    with pytest.raises(TypeError):
        make_producer().produce("t", value)


def test_a_topic_that_is_no_text_is_a_type_error(make_producer) -> None:
    with pytest.raises(TypeError):
        make_producer().produce(5, b"x")


def test_a_key_that_is_no_bytes_is_a_type_error(make_producer) -> None:
    with pytest.raises(TypeError):
        make_producer().produce("t", b"x", key=5)


@pytest.mark.parametrize("headers", [5, [("a",)], [("a", 5)], {"a": 5}])
def test_bad_headers_are_a_type_error(make_producer, headers: Any) -> None:
    with pytest.raises(TypeError):
        make_producer().produce("t", b"x", headers=headers)


def test_an_unknown_argument_is_a_type_error(make_producer) -> None:
    with pytest.raises(TypeError):
        make_producer().produce("t", b"x", no_such=1)


def test_arguments_have_their_positions(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer()
    producer.produce("t", b"value", b"key", 3, lambda _, m: seen.append(m))
    assert producer.flush(10) == 0
    assert (seen[0].value(), seen[0].key(), seen[0].partition()) == (b"value", b"key", 3)


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
def test_each_message_is_reported_once(make_producer, name: str) -> None:
    seen: list[Any] = []
    producer = make_producer()
    for n in range(3):
        producer.produce("t", b"%d" % n, **{name: lambda e, m: seen.append((e, m.value()))})
    assert len(producer) == 3
    assert producer.flush(10) == 0
    assert sorted(seen) == [(None, b"%d" % n) for n in range(3)]
    assert len(producer) == 0


def test_a_message_that_cannot_be_sent_is_reported_with_its_error(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**UNREACHABLE, **{"message.timeout.ms": 10})
    producer.produce("t", b"x", on_delivery=lambda e, m: seen.append((e.code(), m.value())))
    eventually(lambda: producer.poll(0.1) and seen)
    assert seen == [(KafkaError._MSG_TIMED_OUT, b"x")]


def test_the_configured_callback_is_the_default(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(on_delivery=lambda e, m: seen.append((e, m.value())))
    producer.produce("t", b"x")
    producer.flush(10)
    assert seen == [(None, b"x")]


def test_a_full_queue_is_a_buffer_error(make_producer) -> None:
    producer = make_producer(**{"queue.buffering.max.messages": 2})
    producer.produce("t", b"x")
    producer.produce("t", b"x")
    with pytest.raises(BufferError, match="Local: Queue full"):
        producer.produce("t", b"x")


def test_flush_returns_what_remains(make_producer) -> None:
    producer = make_producer(**UNREACHABLE)
    producer.produce("t", b"x")
    assert producer.flush(0.05) >= 1
    producer.purge()


def test_purge_reports_that_messages_were_purged(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**UNREACHABLE)
    producer.produce("t", b"x", on_delivery=lambda e, _: seen.append(e.code()))
    producer.purge()
    eventually(lambda: producer.poll(0.1) and seen)
    assert seen == [KafkaError._PURGE_QUEUE]


def test_an_empty_producer_is_true_and_has_no_length(make_producer) -> None:
    producer = make_producer()
    assert (len(producer), bool(producer)) == (0, True)


def test_poll_returns_how_many_events_it_served(make_producer) -> None:
    producer = make_producer()
    producer.produce("t", b"x", on_delivery=lambda *_: None)
    assert producer.poll(10) == 1
    assert producer.poll(0) == 0


def test_an_exception_of_a_callback_passes_through(make_producer) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    producer = make_producer()
    producer.produce("t", b"x", on_delivery=fail)
    with pytest.raises(ZeroDivisionError):
        producer.flush(10)


@pytest.mark.parametrize("method", ["poll", "flush", "produce", "list_topics"])
def test_a_closed_producer_says_so(make_producer, method: str) -> None:
    producer = make_producer()
    assert producer.close() is True
    with pytest.raises(RuntimeError, match="closed"):
        getattr(producer, method)(*{"produce": ["t", b"x"], "poll": [0]}.get(method, []))
    assert producer.close() is True
    assert len(producer) == 0


def test_it_is_a_context_manager(make_producer) -> None:
    with make_producer() as producer:
        assert isinstance(producer, make_producer.kind)
    with pytest.raises(RuntimeError, match="closed"):
        producer.poll(0)


def test_a_transaction_needs_an_id(make_producer) -> None:
    with pytest.raises(KafkaException) as raised:
        make_producer().init_transactions(1)
    assert raised.value.args[0].code() == KafkaError._NOT_CONFIGURED


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
def test_produce_batch_takes_and_reports_each_message(make_producer, name: str) -> None:
    seen: list[Any] = []
    producer = make_producer()
    messages = [{"value": b"1", "key": b"a"}, {"value": b"2"}]
    report = {name: lambda _, m: seen.append(m.value())}
    assert producer.produce_batch("t", messages, **report) == 2
    assert producer.flush(10) == 0
    assert sorted(seen) == [b"1", b"2"]


def test_a_subclass_may_override_produce(make_producer, embedded) -> None:
    class Mine(make_producer.kind):  # type: ignore[misc, name-defined]
        def produce(self, topic: str, value: Any = None, **more: Any) -> None:
            super().produce(topic, value.upper(), **more)

    seen: list[Any] = []
    with Mine({"bootstrap.servers": embedded.bootstrap_servers}) as producer:
        producer.produce("t", "text", on_delivery=lambda _, m: seen.append(m.value()))
        producer.flush(10)
    assert seen == [b"TEXT"]


def test_a_subclass_that_does_not_call_init_fails_as_stock(make_producer) -> None:
    class Mine(make_producer.kind):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError):
        Mine().produce("t", b"x")
