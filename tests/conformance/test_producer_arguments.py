"""The arguments of `produce`: their forms, positions and names, and what is refused how."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from confluent_kafka import KafkaError
from producers import failure, record_failure

BYTES_LIKE = "a bytes-like object is required, not '{}'"
INTEGER = "'{}' object cannot be interpreted as an integer"
HEADERS = "expected headers to be dict or list of (key, value) tuples, not {}"
PAIRS = "Headers are expected to be a list of (key, value) tuples"
HEADER_VALUE = "expected header value to be None, binary, or unicode string, not {}"


def sent(make: Any, value: bytes | str | None, *arguments: Any, **given: Any) -> Any:
    """Send one message to a topic of its own and return it as a consumer finds it."""
    topic = make.topic()
    producer = make()
    producer.produce(topic, make.value(value), *arguments, **given)
    assert producer.flush(20) == 0
    return make.received(topic, 1)[0]


# --- positions and names ------------------------------------------------------------------------


def test_arguments_have_their_positions(make_producer) -> None:
    topic, seen = make_producer.topic(3), []
    producer = make_producer()
    producer.produce(
        topic,
        make_producer.value(b"v"),
        b"k",
        2,
        lambda e, _: seen.append(e),
        None,
        1_700_000_000_000,
        [("h", b"1")],
    )
    assert producer.flush(20) == 0
    [message] = make_producer.received(topic, 1, partition=2)
    assert seen == [None]
    assert (make_producer.read(message.value()), message.key()) == (b"v", b"k")
    assert (message.timestamp()[1], message.headers()) == (1_700_000_000_000, [("h", b"1")])


def test_the_sixth_position_is_on_delivery(make_producer) -> None:
    """A None in the fifth is no callback; see the tests of what ours does beyond stock."""
    seen: list[str] = []
    producer = make_producer()
    callback, other = (lambda *_: seen.append("5th")), (lambda *_: seen.append("6th"))
    producer.produce("t", make_producer.value(b"v"), None, -1, callback, other)
    assert producer.flush(20) == 0
    assert seen == ["5th"]


def test_arguments_have_their_names(make_producer) -> None:
    topic, seen = make_producer.topic(3), []
    producer = make_producer()
    producer.produce(
        headers={"h": b"1"},
        timestamp=1_700_000_000_000,
        on_delivery=lambda e, _: seen.append(e),
        partition=2,
        key=b"k",
        value=make_producer.value(b"v"),
        topic=topic,
    )
    assert producer.flush(20) == 0
    [message] = make_producer.received(topic, 1, partition=2)
    assert seen == [None]
    assert (make_producer.read(message.value()), message.key()) == (b"v", b"k")
    assert (message.timestamp()[1], message.headers()) == (1_700_000_000_000, [("h", b"1")])


def test_produce_returns_nothing(make_producer) -> None:
    assert make_producer().produce("t", make_producer.value(b"x")) is None


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((), {}),
        ((), {"value": b"x"}),
        (("t",), {"topic": "t"}),
        (("t", b"x", b"k", 0, None, None, 0, None, 1), {}),
        (("t", b"x"), {"no_such": 1}),
        ((None, b"x"), {}),
        ((5, b"x"), {}),
        ((b"t", b"x"), {}),
    ],
    ids=["none", "no topic", "topic twice", "nine", "unknown", "None", "int", "bytes"],
)
def test_wrong_arguments_are_a_type_error(make_producer, arguments: Any, keywords: Any) -> None:
    with pytest.raises(TypeError):
        make_producer().produce(*arguments, **keywords)


@pytest.mark.parametrize("topic", [None, 5, b"t"])
def test_a_topic_is_text(make_producer, topic: Any) -> None:
    with pytest.raises(TypeError, match=f"^argument 1 must be str, not {topic and _name(topic)}$"):
        make_producer().produce(topic, make_producer.value(b"x"))


@pytest.mark.parametrize(
    ("topic", "error"), [("\ud800", UnicodeEncodeError), ("a\0b", ValueError)], ids=ascii
)
def test_a_topic_is_text_that_can_be_sent(
    make_producer, topic: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        make_producer().produce(topic, b"x")


def test_a_topics_name_has_a_longest(make_producer) -> None:
    error = failure(make_producer().produce, "t" * 600, b"x")
    assert (error.code(), error.str()) == (
        KafkaError._INVALID_ARG,
        "Unable to produce message: Local: Invalid argument or configuration",
    )


def test_an_unknown_topic_is_made(make_producer) -> None:
    assert record_failure(make_producer(), f"new-{make_producer.name}", b"x") is None


# --- value --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (b"bytes", b"bytes"),
        ("text", b"text"),
        ("ünïcode 你好 🚀", "ünïcode 你好 🚀".encode()),
        (b"", b""),
        ("", b""),
        (None, None),
        (bytes(range(256)), bytes(range(256))),
        (b"\0" * 100, b"\0" * 100),
        (b"x" * 500_000, b"x" * 500_000),
    ],
    ids=["bytes", "text", "unicode", "no bytes", "no text", "None", "all bytes", "zeros", "long"],
)
def test_a_value_arrives(make_producer, value: Any, stored: Any) -> None:
    assert make_producer.read(sent(make_producer, value).value()) == stored


def test_a_value_may_be_left_out(make_producer) -> None:
    topic, seen = make_producer.topic(), []
    producer = make_producer()
    producer.produce(topic, on_delivery=lambda _, m: seen.append(m.value()))
    assert producer.flush(20) == 0
    assert seen == [make_producer.received(topic, 1)[0].value()] == [None]


@pytest.mark.parametrize(
    "value",
    [5, 1.5, True, [], (), object(), bytearray(b"x"), memoryview(b"x")],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_another_type_is_a_type_error(make_producer, value: Any) -> None:
    producer = make_producer()
    if make_producer.of.json and type(value) in (bytearray, memoryview):
        producer.produce("t", value)  # more bytes are values there than in confluent-kafka
        return
    with pytest.raises(TypeError):
        producer.produce("t", value)
    assert len(producer) == 0


def test_a_value_that_is_no_unicode_cannot_be_sent(make_producer) -> None:
    producer = make_producer()
    with pytest.raises(UnicodeEncodeError):
        producer.produce("t", "\ud800")
    assert len(producer) == 0


def test_a_value_changed_afterwards_changes_nothing_sent(make_producer) -> None:
    topic = make_producer.topic()
    producer = make_producer()
    for n in range(3):
        value = make_producer.value(b"%d" % n)
        producer.produce(topic, value)
        if isinstance(value, dict):
            value["v"] = b"changed"
    producer.flush(20)
    received = [make_producer.read(m.value()) for m in make_producer.received(topic, 3)]
    assert received == [b"0", b"1", b"2"]


# --- key ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "stored"),
    [(b"k", b"k"), ("k", b"k"), ("schlüssel 键", "schlüssel 键".encode()), (b"", b""), ("", b"")],
    ids=["bytes", "text", "unicode", "no bytes", "no text"],
)
def test_a_key_arrives(make_producer, key: Any, stored: bytes) -> None:
    assert sent(make_producer, b"v", key).key() == stored


@pytest.mark.parametrize("given", [{}, {"key": None}], ids=str)
def test_no_key_is_none(make_producer, given: Any) -> None:
    assert sent(make_producer, b"v", **given).key() is None


@pytest.mark.parametrize("key", [5, 0.5, {}, [], True], ids=repr)
def test_a_key_of_another_type_is_a_type_error(make_producer, key: Any) -> None:
    producer = make_producer()
    with pytest.raises(TypeError, match=f"^{BYTES_LIKE.format(_name(key))}$"):
        producer.produce("t", make_producer.value(b"x"), key=key)
    assert len(producer) == 0


@pytest.mark.parametrize(
    "key", [bytearray(b"k"), memoryview(b"k")], ids=["bytearray", "memoryview"]
)
def test_a_key_that_can_change_is_a_type_error(make_producer, key: Any) -> None:
    with pytest.raises(TypeError, match="bytes-like object"):
        make_producer().produce("t", make_producer.value(b"x"), key=key)


def test_a_key_that_is_no_unicode_cannot_be_sent(make_producer) -> None:
    with pytest.raises(UnicodeEncodeError):
        make_producer().produce("t", make_producer.value(b"x"), key="\ud800")


# --- partition ----------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [0, 1, 3, True])
def test_a_partition_may_be_chosen(make_producer, partition: int) -> None:
    seen: list[Any] = []
    producer = make_producer()
    producer.produce(
        "t",
        make_producer.value(b"x"),
        partition=partition,
        on_delivery=lambda e, m: seen.append((e, m.partition())),
    )
    assert producer.flush(20) == 0
    assert seen == [(None, int(partition))]


def test_without_a_partition_one_is_chosen(make_producer) -> None:
    seen: list[Any] = []
    producer = make_producer()
    producer.produce(
        "t",
        make_producer.value(b"x"),
        partition=-1,
        on_delivery=lambda _, m: seen.append(m.partition()),
    )
    assert producer.flush(20) == 0
    assert seen[0] in range(4)


@pytest.mark.parametrize("partition", [4, 99, (1 << 31) - 1, -2, -100])
def test_a_partition_known_not_to_exist_is_refused(make_producer, partition: int) -> None:
    producer = make_producer()
    producer.produce("t", make_producer.value(b"x"))
    producer.flush(20)  # now it knows
    error = failure(producer.produce, "t", make_producer.value(b"x"), partition=partition)
    assert (error.code(), error.str()) == (
        KafkaError._UNKNOWN_PARTITION,
        "Unable to produce message: Local: Unknown partition",
    )
    assert (error.fatal(), error.retriable(), error.txn_requires_abort()) == (False,) * 3
    assert len(producer) == 0


@pytest.mark.parametrize("partition", [99, -2])
def test_a_partition_found_not_to_exist_fails(make_producer, partition: int) -> None:
    error = record_failure(make_producer(), "t", make_producer.value(b"x"), partition=partition)
    assert error.code() == KafkaError._UNKNOWN_PARTITION


@pytest.mark.parametrize("partition", ["0", 1.0, None], ids=repr)
def test_a_partition_of_another_type_is_a_type_error(make_producer, partition: Any) -> None:
    producer = make_producer()
    with pytest.raises(TypeError, match=f"^{INTEGER.format(_name(partition))}$"):
        producer.produce("t", make_producer.value(b"x"), partition=partition)
    assert len(producer) == 0


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (1 << 31, "signed integer is greater than maximum"),
        (-(1 << 31) - 1, "signed integer is less than minimum"),
    ],
)
def test_a_partition_has_32_bits(make_producer, partition: int, message: str) -> None:
    with pytest.raises(OverflowError, match=f"^{message}$"):
        make_producer().produce("t", make_producer.value(b"x"), partition=partition)


# --- timestamp ----------------------------------------------------------------------------------


@pytest.mark.parametrize("timestamp", [1, 1234, 1_700_000_000_000, True])
def test_a_timestamp_arrives(make_producer, timestamp: int) -> None:
    assert sent(make_producer, b"v", timestamp=timestamp).timestamp() == (1, int(timestamp))


@pytest.mark.parametrize("given", [{}, {"timestamp": 0}], ids=str)
def test_without_a_timestamp_it_is_now(make_producer, given: Any, wall_ms) -> None:
    before = wall_ms()
    kind, timestamp = sent(make_producer, b"v", **given).timestamp()
    assert kind == 1
    assert before <= timestamp <= wall_ms()


def test_a_timestamp_before_1970_is_sent(make_producer) -> None:
    assert record_failure(make_producer(), "t", make_producer.value(b"x"), timestamp=-5) is None


@pytest.mark.parametrize("timestamp", ["0", 1.5, None], ids=repr)
def test_a_timestamp_of_another_type_is_a_type_error(make_producer, timestamp: Any) -> None:
    producer = make_producer()
    with pytest.raises(TypeError, match=f"^{INTEGER.format(_name(timestamp))}$"):
        producer.produce("t", make_producer.value(b"x"), timestamp=timestamp)
    assert len(producer) == 0


@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1])
def test_a_timestamp_has_64_bits(make_producer, timestamp: int) -> None:
    with pytest.raises(OverflowError):
        make_producer().produce("t", make_producer.value(b"x"), timestamp=timestamp)


# --- headers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "stored"),
    [
        ([("h", b"bytes")], [("h", b"bytes")]),
        ([("h", "text")], [("h", b"text")]),
        ([("h", "Jämtland")], [("h", "Jämtland".encode())]),
        ([("h", None)], [("h", None)]),
        ([("h", b"")], [("h", b"")]),
        ([("h", "")], [("h", b"")]),
        ([("", b"v")], [("", b"v")]),
        ([("schlüssel", b"v")], [("schlüssel", b"v")]),
        ([("h", b"1"), ("h", b"2"), ("h", b"1")], [("h", b"1"), ("h", b"2"), ("h", b"1")]),
        ([("b", b"1"), ("a", None), ("b", b"")], [("b", b"1"), ("a", None), ("b", b"")]),
        ({"a": b"1", "b": "2", "c": None}, [("a", b"1"), ("b", b"2"), ("c", None)]),
        ([(5, b"v")], [("5", b"v")]),
        ([(None, b"v")], [("None", b"v")]),
        ([(b"h", b"v")], [("b'h'", b"v")]),
        ({b"h": b"v"}, [("b'h'", b"v")]),
        ([], None),
        ({}, None),
        (None, None),
    ],
    ids=repr,
)
def test_headers_arrive(make_producer, headers: Any, stored: Any) -> None:
    assert sent(make_producer, b"v", headers=headers).headers() == stored


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (5, HEADERS.format("int")),
        (0, HEADERS.format("int")),
        (False, HEADERS.format("bool")),
        ("ab", HEADERS.format("str")),
        ("", HEADERS.format("str")),
        (("a", "b"), HEADERS.format("tuple")),
        ((("a", "b"),), HEADERS.format("tuple")),
        ((), HEADERS.format("tuple")),
        ({("a", "b")}, HEADERS.format("set")),
        ({"a": "b"}.items(), HEADERS.format("dict_items")),
        (iter([("a", "b")]), HEADERS.format("list_iterator")),
        (["ab"], PAIRS),
        ([["a", "b"]], PAIRS),
        ([("a",)], PAIRS),
        ([("a", "b", "c")], PAIRS),
        ([("a", 5)], HEADER_VALUE.format("int")),
        ({"a": 5}, HEADER_VALUE.format("int")),
        ([("a", bytearray(b"b"))], HEADER_VALUE.format("bytearray")),
    ],
    ids=lambda argument: "".join(repr(argument).split(" at ")[:1])[:30],
)
def test_bad_headers_are_a_type_error(make_producer, headers: Any, message: str) -> None:
    producer = make_producer()
    with pytest.raises(TypeError) as raised:
        producer.produce("t", make_producer.value(b"x"), headers=headers)
    assert (str(raised.value), len(producer)) == (message, 0)


# --- size ---------------------------------------------------------------------------------------


def test_what_is_larger_than_message_max_bytes_is_refused(make_producer, noise) -> None:
    producer = make_producer(**{"message.max.bytes": 10_000})
    error = record_failure(producer, "t", make_producer.value(noise(50_000)))
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert len(producer) == 0


def test_a_key_counts_for_message_max_bytes(make_producer, noise) -> None:
    error = record_failure(
        make_producer(**{"message.max.bytes": 10_000}),
        "t",
        make_producer.value(b"x"),
        key=noise(50_000),
    )
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_after_a_refused_message_others_go(make_producer, noise) -> None:
    producer = make_producer(**{"message.max.bytes": 10_000})
    record_failure(producer, "t", make_producer.value(noise(50_000)))
    assert record_failure(producer, "t", make_producer.value(b"x")) is None


# --- what tools see -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["produce", "poll", "flush", "purge", "produce_batch", "close"])
def test_every_method_is_documented(make_producer, name: str) -> None:
    assert inspect.getdoc(getattr(make_producer(), name))


def _name(value: Any) -> str:
    return type(value).__name__
