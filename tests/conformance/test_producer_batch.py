"""`produce_batch`: what it returns, what it notes in the messages, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError
from producers import HELD
from support import Reports


def batch(make: Any, *values: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"value": make.value(value), **more} for value in values]


def test_every_message_is_taken_and_sent(make_producer) -> None:
    topic = make_producer.topic()
    producer = make_producer()
    assert producer.produce_batch(topic, batch(make_producer, b"1", "2", b"3")) == 3
    assert len(producer) == 3
    assert producer.flush(20) == 0
    received = [make_producer.read(m.value()) for m in make_producer.received(topic, 3)]
    assert received == [b"1", b"2", b"3"]


def test_messages_have_keys(make_producer) -> None:
    topic = make_producer.topic()
    producer = make_producer()
    keys = [b"bytes", "text", "schlüssel", None, b"", ""]
    messages = [{"value": make_producer.value(b"v"), "key": key} for key in keys]
    assert producer.produce_batch(topic, messages) == 6
    producer.flush(20)
    received = [m.key() for m in make_producer.received(topic, 6)]
    assert received == [b"bytes", b"text", "schlüssel".encode(), None, b"", b""]


@pytest.mark.parametrize(
    ("value", "stored"), [(None, None), (b"", b""), ("", b""), ("ü", "ü".encode())], ids=repr
)
def test_values_are_as_in_produce(make_producer, value: Any, stored: Any) -> None:
    topic = make_producer.topic()
    producer = make_producer()
    assert producer.produce_batch(topic, batch(make_producer, value)) == 1
    producer.flush(20)
    assert make_producer.read(make_producer.received(topic, 1)[0].value()) == stored


def test_a_message_may_be_empty(make_producer) -> None:
    topic = make_producer.topic()
    producer = make_producer()
    assert producer.produce_batch(topic, [{}]) == 1
    producer.flush(20)
    [message] = make_producer.received(topic, 1)
    assert (message.value(), message.key()) == (None, None)


def test_no_messages_are_none(make_producer) -> None:
    producer = make_producer()
    assert producer.produce_batch("t", []) == 0
    assert len(producer) == 0


def test_a_thousand_messages_are_taken(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer()
    messages = batch(make_producer, *(b"%d" % n for n in range(1000)))
    assert producer.produce_batch("t", messages, on_delivery=lambda e, _: seen.append(e)) == 1000
    assert producer.flush(20) == 0
    assert seen == [None] * 1000


def test_arguments_have_their_names(make_producer) -> None:
    seen: list[str] = []
    producer = make_producer()
    taken = producer.produce_batch(
        topic="t",
        messages=batch(make_producer, b"x"),
        partition=2,
        on_delivery=lambda _, m: seen.append(m.partition()),
    )
    producer.flush(20)
    assert (taken, seen) == (1, [2])


def test_arguments_have_their_positions(make_producer) -> None:
    seen: list[str] = []
    producer = make_producer()
    producer.produce_batch(
        "t", batch(make_producer, b"x"), 2, lambda _, m: seen.append(m.partition())
    )
    producer.flush(20)
    assert seen == [2]


def test_messages_taken_are_not_changed(make_producer) -> None:
    messages = batch(make_producer, b"x", key=b"k")
    before = [dict(message) for message in messages]
    producer = make_producer()
    producer.produce_batch("t", messages)
    producer.flush(20)
    assert messages == before


def test_unknown_fields_of_a_message_are_ignored(make_producer) -> None:
    producer = make_producer()
    messages = batch(make_producer, b"x", extra=1, _private=2, topic="other")
    seen: list[str] = []
    assert (
        producer.produce_batch("t", messages, on_delivery=lambda _, m: seen.append(m.topic())) == 1
    )
    producer.flush(20)
    assert seen == ["t"]


# --- callbacks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
def test_each_message_is_reported(make_producer, name: str) -> None:
    seen: list[Any] = []
    producer = make_producer()
    report = {name: lambda e, m: seen.append((e, make_producer.read(m.value())))}
    assert producer.produce_batch("t", batch(make_producer, b"1", b"2"), **report) == 2
    assert producer.flush(20) == 0
    assert sorted(seen) == [(None, b"1"), (None, b"2")]


def test_a_callback_may_be_false(make_producer) -> None:
    own, given = Reports(), Reports()
    producer = make_producer()
    messages = [*batch(make_producer, b"1", callback=own), *batch(make_producer, b"2")]
    producer.produce_batch("t", messages, on_delivery=given)
    producer.flush(20)
    values = [make_producer.read(message.value()) for _, message in (*own, *given)]
    assert (len(own), values) == (1, [b"1", b"2"])


def marks(make: Any, config: dict[str, Any], given: set[str], own: set[str]) -> list[str]:
    """Return which callbacks ran for one message."""
    seen: list[str] = []
    producer = make(**{key: lambda *_, k=key: seen.append(f"configured {k}") for key in config})
    message = {name: lambda *_, n=name: seen.append(f"own {n}") for name in own}
    arguments = {name: lambda *_, n=name: seen.append(f"batch {n}") for name in given}
    producer.produce_batch("t", batch(make, b"x", **message), **arguments)
    assert producer.flush(20) == 0
    return seen


@pytest.mark.parametrize(
    ("config", "given", "own", "runs"),
    [
        ({"on_delivery"}, set(), set(), "configured on_delivery"),
        ({"on_delivery"}, {"on_delivery"}, set(), "batch on_delivery"),
        ({"on_delivery"}, {"callback"}, {"callback"}, "own callback"),
        (set(), {"on_delivery"}, {"callback"}, "own callback"),
        (set(), {"on_delivery", "callback"}, set(), "batch callback"),
        ({"on_delivery"}, set(), {"callback"}, "own callback"),
        ({"on_delivery"}, set(), {"on_delivery"}, "configured on_delivery"),
        (set(), {"on_delivery"}, {"on_delivery"}, "batch on_delivery"),
    ],
)
def test_the_nearest_callback_runs(
    make_producer, config: Any, given: set[str], own: set[str], runs: str
) -> None:
    """A message's own callback goes by that name only."""
    assert marks(make_producer, config, given, own) == [runs]


@pytest.mark.parametrize("name", ["callback", "on_delivery"])
def test_none_is_no_callback(make_producer, name: str) -> None:
    seen: list[str] = []
    producer = make_producer(on_delivery=lambda *_: seen.append("configured"))
    producer.produce_batch("t", batch(make_producer, b"x"), **{name: None})
    producer.flush(20)
    assert seen == ["configured"]


def test_a_messages_none_is_no_callback(make_producer) -> None:
    seen: list[str] = []
    producer = make_producer()
    messages = batch(make_producer, b"x", callback=None)
    producer.produce_batch("t", messages, on_delivery=lambda *_: seen.append("batch"))
    producer.flush(20)
    assert seen == ["batch"]


def test_a_raising_callback_loses_no_other(make_producer) -> None:
    seen: list[bytes] = []

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    producer = make_producer()
    messages = batch(make_producer, b"0", b"1", b"2")
    messages[1]["callback"] = fail
    producer.produce_batch(
        "t", messages, 0, on_delivery=lambda _, m: seen.append(make_producer.read(m.value()))
    )
    with pytest.raises(ZeroDivisionError):
        producer.flush(20)
    assert producer.flush(20) == 0
    assert seen == [b"0", b"2"]


# --- messages that are not taken ----------------------------------------------------------------


def test_a_full_queue_is_noted_in_each_message(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer(**HELD, **{"queue.buffering.max.messages": 2})
    messages = batch(make_producer, b"0", b"1", b"2", b"3")
    assert producer.produce_batch("t", messages, on_delivery=lambda e, _: seen.append(e)) == 2
    assert ["_error" in message for message in messages] == [False, False, True, True]
    error = messages[2]["_error"]
    assert isinstance(error, KafkaError)
    assert (error.code(), error.str()) == (
        KafkaError._QUEUE_FULL,
        "Message failed: Local: Queue full",
    )
    producer.flush(20)
    assert seen == [None, None]


def test_what_was_not_taken_may_be_tried_again(make_producer) -> None:
    producer = make_producer(**{"queue.buffering.max.messages": 2})
    messages = batch(make_producer, b"0", b"1", b"2")
    producer.produce_batch("t", messages)
    assert producer.flush(20) == 0
    assert (
        producer.produce_batch("t", [message for message in messages if "_error" in message]) == 1
    )
    assert producer.flush(20) == 0


def test_a_message_that_is_too_large_fails_alone(make_producer, noise) -> None:
    """Which is known when a record's segment is encoded."""
    seen: list[int] = []
    producer = make_producer(**{"message.max.bytes": 10_000})
    messages = batch(make_producer, noise(50_000), b"1", b"2")

    def report(error: Any, _: Any) -> None:
        if error is not None:
            seen.append(error.code())

    taken = producer.produce_batch("t", messages, on_delivery=report)
    producer.flush(20)
    seen += [message["_error"].code() for message in messages if "_error" in message]
    assert seen == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert taken == 3 - sum("_error" in message for message in messages)


def test_no_message_is_taken_for_a_partition_that_does_not_exist(make_producer) -> None:
    producer = make_producer()
    producer.produce("t", make_producer.value(b"x"))
    producer.flush(20)  # now it knows
    messages = batch(make_producer, b"1", b"2")
    assert producer.produce_batch("t", messages, partition=99) == 0
    errors = [message["_error"] for message in messages]
    assert [(e.code(), e.str()) for e in errors] == [
        (KafkaError._UNKNOWN_PARTITION, "Message failed: Local: Unknown partition")
    ] * 2


def test_an_old_error_of_a_message_does_not_matter(make_producer) -> None:
    producer = make_producer()
    messages = [{"value": make_producer.value(b"x"), "_error": "left over"}]
    assert producer.produce_batch("t", messages) == 1
    assert producer.flush(20) == 0


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((), {}),
        (("t",), {}),
        (("t", [], 0, None, None, 1), {}),
        (("t", []), {"x": 1}),
        (("t", []), {"topic": "t"}),
    ],
    ids=str,
)
def test_wrong_arguments_are_a_type_error(make_producer, arguments: Any, keywords: Any) -> None:
    with pytest.raises(TypeError):
        make_producer().produce_batch(*arguments, **keywords)


@pytest.mark.parametrize("topic", [None, 5, b"t"])
def test_a_topic_is_text(make_producer, topic: Any) -> None:
    name = topic and type(topic).__name__
    with pytest.raises(TypeError, match=f"^argument 1 must be str, not {name}$"):
        make_producer().produce_batch(topic, [{"value": b"x"}])


@pytest.mark.parametrize(
    "messages",
    [None, "x", {"a": 1}, ({},), iter([{}])],
    ids=["None", "str", "dict", "tuple", "iterator"],
)
def test_messages_are_a_list(make_producer, messages: Any) -> None:
    with pytest.raises(TypeError, match=r"^messages must be a list$"):
        make_producer().produce_batch("t", messages)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([{"value": b"x"}, "x"], "Message at index 1 must be a dict"),
        ([None], "Message at index 0 must be a dict"),
        ([{"value": 5}], "Message value at index 0 must be bytes or str"),
        ([{"value": bytearray(b"x")}], "Message value at index 0 must be bytes or str"),
        ([{"value": b"x"}, {"key": 5}], "Message key at index 1 must be bytes or str"),
        ([{"value": b"x", "key": [1]}], "Message key at index 0 must be bytes or str"),
        ([{"value": b"x", "partition": "0"}], "Message partition at index 0 must be int"),
    ],
    ids=str,
)
def test_a_wrong_message_is_a_type_error_and_none_is_taken(
    make_producer, messages: Any, reason: str
) -> None:
    producer = make_producer()
    with pytest.raises(TypeError, match=f"^{reason}$"):
        producer.produce_batch("t", messages)
    assert len(producer) == 0


@pytest.mark.parametrize("partition", ["0", None, 1.0], ids=repr)
def test_a_partition_is_an_integer(make_producer, partition: Any) -> None:
    with pytest.raises(TypeError, match="object cannot be interpreted as an integer"):
        make_producer().produce_batch("t", batch(make_producer, b"x"), partition=partition)


@pytest.mark.parametrize("headers", [5, [("h",)], [("h", 5)]], ids=repr)
def test_bad_headers_of_a_message_are_an_error_and_none_is_taken(
    make_producer, headers: Any
) -> None:
    producer = make_producer()
    messages = batch(make_producer, b"x") + batch(make_producer, b"y", headers=headers)
    with pytest.raises((ValueError, TypeError)):
        producer.produce_batch("t", messages)
    assert len(producer) == 0
