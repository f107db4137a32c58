"""The messages that are handed out: confluent-kafka's own class, speaking positions."""

from __future__ import annotations

import copy
import enum
import itertools
import pickle
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError
from hypothesis import given
from hypothesis import strategies as st

from columnar_kafka import Message, position
from columnar_kafka.consuming.feed.record import RecordContext, records
from columnar_kafka.message import plain_message
from columnar_kafka.position import MAX_ROWS
from columnar_kafka.producing.accepting.arguments import encode_headers, encode_key
from columnar_kafka.producing.reporting import report as reports


class Counted(Message):
    """A message that can be told how many rows its segment has."""


def record(offset: int, row: int, rows: int) -> Message:
    message = Counted(topic="t", partition=3, offset=position.pack(offset, row, rows))
    message._rows = rows  # noqa: SLF001 - a segment says it
    return message


# --- records --------------------------------------------------------------------------------------


def test_a_record_is_a_message_of_confluent_kafka() -> None:
    message = Message(topic="t", partition=3, offset=1, key=b"k", value={"n": 1})  # type: ignore[arg-type]
    assert isinstance(message, confluent_kafka.Message)
    assert (message.topic(), message.partition(), message.key()) == ("t", 3, b"k")
    assert message.value() == {"n": 1}


@pytest.mark.parametrize(
    ("offset", "row", "rows"), [(0, 0, 1), (0, 0, 3), (7, 2, 3), (7, MAX_ROWS - 1, MAX_ROWS)]
)
def test_it_knows_its_kafka_offset_and_row(offset: int, row: int, rows: int) -> None:
    message = record(offset, row, rows)
    assert (message.kafka_offset(), message.row()) == (offset, row)


def test_the_first_row_of_the_largest_segment_is_row_0() -> None:
    """Its position is the start of its offset, which says nothing of the rows to come."""
    message = record(7, 0, MAX_ROWS)
    assert (message.kafka_offset(), message.row()) == (7, 0)


def test_a_message_without_an_offset_has_no_place() -> None:
    message = Message(topic="t", partition=3, offset=-1001)
    assert (message.offset(), message.kafka_offset(), message.row()) == (None, None, None)


# --- records of segments --------------------------------------------------------------------------

NAMES = ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "latency",
         "leader_epoch", "error", "deserialized_key", "deserialized_value", "delivery_count",
         "kafka_offset", "row", "__len__", "bool")  # fmt: skip
SETTERS = ("set_topic", "set_key", "set_value", "set_headers", "set_error")
ANY = st.sampled_from([None, b"", b"x", "text", [], [("h", None)], {}, {"n": 1}])
ERRORS = st.sampled_from([None, KafkaError(KafkaError._FAIL)])


@st.composite
def twins(draw: st.DrawFn) -> tuple[Any, Any]:
    """A record of a segment, and a message made of the same with all that confluent-kafka does."""
    kind = draw(st.sampled_from([TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME]))
    stamp, epoch = (kind, draw(st.integers(0, 2))), draw(st.sampled_from([None, 0, 5]))
    rows = draw(st.integers(1, 3))
    context = RecordContext(
        topic=draw(st.sampled_from(["t", "u"])),
        partition=draw(st.integers(-1, 1)),
        leader_epoch=epoch,
        rows=rows,
        timestamp_type=kind,
        append_time=stamp if kind == TIMESTAMP_LOG_APPEND_TIME else None,
    )
    at = position.pack(draw(st.integers(0, 1)), draw(st.integers(0, rows - 1)), rows)
    value = draw(st.sampled_from([{}, {"n": 1}, {"n": 2}, {"a": 1, "b": None}]))
    key = draw(st.sampled_from([None, b"", b"k"]))
    headers = draw(st.sampled_from([None, [], [("h", b"v")]]))
    [record] = records(context, at, [value], [key], [stamp[1]], [headers])
    parts: Any = (context.topic, context.partition, at, key, value, headers, None, stamp, -1,
                  -1 if epoch is None else epoch)  # fmt: skip
    message = Counted(*parts)
    message._rows = rows  # noqa: SLF001 - a segment says it
    for name in draw(st.lists(st.sampled_from(SETTERS), max_size=2)):
        by = draw(ERRORS if name == "set_error" else ANY)
        assert getattr(record, name)(by) is getattr(message, name)(by)
    return record, message


def outcome(message: Any, name: str) -> Any:
    try:
        result = bool(message) if name == "bool" else getattr(message, name)()
    except TypeError as error:  # the length of what has none
        return str(error)
    return result, type(result)


@given(twins())
def test_a_record_of_a_segment_is_as_a_message_in_everything(pair: tuple[Any, Any]) -> None:
    record, message = pair
    assert isinstance(record, Message)
    # Up to confluent-kafka 2.15 messages have no `deserialized_value` and so on; records do.
    for name in filter(partial(hasattr, message), NAMES):
        assert outcome(record, name) == outcome(message, name), name
    assert record.value() is message.value()
    assert record.deserialized_value() is record.value()
    assert record.deserialized_key() is record.key()


def compared_by_confluent_kafka(one: Any, two: Any) -> bool | None:
    """None where confluent-kafka cannot compare messages: before 2.16 some, now none."""
    try:
        return confluent_kafka.Message.__eq__(one, two)
    except SystemError:
        assert not hasattr(confluent_kafka.Message, "deserialized_value")
        return None


@given(twins(), twins())
def test_records_are_equal_when_the_messages_are(
    one: tuple[Any, Any], two: tuple[Any, Any]
) -> None:
    equal = one[1] == two[1]
    assert compared_by_confluent_kafka(one[1], two[1]) in (equal, None)
    for left, right in itertools.product(one, two):
        assert (left == right, left != right) == (equal, not equal)
    assert one[0] != 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(one[0])
    with pytest.raises(TypeError, match="not supported"):
        one[0] < two[0]  # noqa: B015 - it is asked for what it raises


@given(twins())
def test_a_record_is_pickled_and_copied(pair: tuple[Any, Any]) -> None:
    record, message = pair
    for again in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
        assert type(again) is type(record)
        assert again == message
        assert again.row() == message.row()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("topic", "t"), ("key", b"k"), ("value", b""), ("headers", [("h", None)])],
        ("error", KafkaError(KafkaError._FAIL)),
    ],
)
def test_a_message_that_lacks_something_is_compared_to_one_that_has_it(name, value) -> None:
    """Before 2.16 confluent-kafka's comparison is a SystemError."""
    whole, lacks, none = Message(**{name: value}), Message(), Message()
    getattr(none, f"set_{name}")(None)
    assert [
        message == other for message in (whole, lacks, none) for other in (whole, lacks, none)
    ] == [
        *[True, False, False],
        *[False, True, True],
        *[False, True, True],
    ]
    assert whole == confluent_kafka.Message(**{name: value})
    assert confluent_kafka.Message(**{name: value}) != none


def test_setting_a_records_topic_and_error_leaves_its_neighbours() -> None:
    context = RecordContext(
        topic="t", partition=0, leader_epoch=None, rows=2, timestamp_type=1, append_time=None
    )
    one, two = records(context, 0, [{}, {}], [None, None], [0, 0], [None, None])
    one.set_topic("u")  # type: ignore[attr-defined]
    one.set_error(KafkaError(KafkaError._FAIL))
    assert (one.topic(), two.topic(), two.error()) == ("u", "t", None)


# --- plain messages and events --------------------------------------------------------------------


def test_a_plain_message_keeps_everything_but_its_offset() -> None:
    source = confluent_kafka.Message(
        topic="t",
        partition=3,
        offset=7,
        key=b"k",
        value=b"v",
        headers=[("a", None), ("a", b"")],
        timestamp=(1, 99),
        latency=0.5,
        leader_epoch=4,
    )
    message = plain_message(source)
    assert message.offset() == 8 * MAX_ROWS - 1
    assert (message.kafka_offset(), message.row()) == (7, 0)
    for name in ("topic", "partition", "key", "value", "headers", "timestamp", "latency",
                 "leader_epoch", "error"):  # fmt: skip
        assert getattr(message, name)() == getattr(source, name)(), name


@pytest.mark.parametrize("value", [None, b""])
def test_an_empty_value_and_none_stay_apart(value: bytes | None) -> None:
    source = confluent_kafka.Message(topic="t", partition=0, offset=0, value=value)
    assert plain_message(source).value() == value


def test_the_end_of_a_partition_points_at_the_next_offsets_start() -> None:
    end = KafkaError(KafkaError._PARTITION_EOF)
    source = confluent_kafka.Message(topic="t", partition=3, offset=7, error=end)
    message = plain_message(source)
    assert message.offset() == 7 * MAX_ROWS
    assert message.error() == end
    assert message.kafka_offset() == 7


def test_an_event_of_no_partition_stays_without_a_place() -> None:
    source = confluent_kafka.Message(error=KafkaError(KafkaError._ALL_BROKERS_DOWN))
    message = plain_message(source)
    places = (
        message.topic(),
        message.partition(),
        message.offset(),
        message.kafka_offset(),
        message.row(),
    )
    assert places == (None, None, None, None, None)
    assert message.error().code() == KafkaError._ALL_BROKERS_DOWN


# --- reports --------------------------------------------------------------------------------------


class Rows:
    def value(self, row: int) -> Any:
        return {"n": row}

    def key(self, row: int) -> bytes | None:
        return b"k%d" % row

    def headers(self, row: int) -> Any:
        return [("h", b"%d" % row)]

    def timestamp(self, row: int) -> int:
        return 100 + row


def report(index: int, *, offset: int | None = 7, **more: Any) -> Any:
    parts = {"topic": "t", "partition": 3, "count": 10, "error": None, "acknowledged": None}
    context = reports.report_context(Rows(), offset=offset, **(parts | more))
    return reports.report(context, index)


def test_a_report_shows_its_own_record() -> None:
    message = report(4)
    assert (message.value(), message.key(), message.headers()) == ({"n": 4}, b"k4", [("h", b"4")])
    assert message.timestamp() == (1, 104)
    assert (message.topic(), message.partition(), message.error()) == ("t", 3, None)


def test_a_report_is_at_its_records_position() -> None:
    assert report(4).offset() == 8 * MAX_ROWS - 6
    assert (report(4).kafka_offset(), report(4).row()) == (7, 4)


def test_a_report_without_an_offset_has_none() -> None:
    error = KafkaError(KafkaError._MSG_TIMED_OUT)
    message = report(4, offset=None, error=error)
    assert (message.offset(), message.kafka_offset(), message.row()) == (None, None, None)
    assert message.error() == error
    assert message.value() == {"n": 4}


def test_a_report_has_its_segments_latency_and_epoch() -> None:
    acknowledged = confluent_kafka.Message(topic="t", latency=0.25, leader_epoch=4)
    message = report(4, acknowledged=acknowledged)
    assert (message.latency(), message.leader_epoch()) == (0.25, 4)
    assert (report(4).latency(), report(4).leader_epoch()) == (None, None)


# --- keys and headers -----------------------------------------------------------------------------


class Suit(str, enum.Enum):
    SPADES = "spades"


@pytest.mark.parametrize(
    ("key", "expected"),
    [(None, None), (b"", b""), (b"k", b"k"), ("", b""), ("ü☃", "ü☃".encode()),
     (Suit.SPADES, b"spades")],
)  # fmt: skip
def test_a_key_is_bytes_text_or_none(key: Any, expected: bytes | None) -> None:
    assert encode_key(key) == expected


@pytest.mark.parametrize("key", [1, 1.0, [], bytearray(b"k"), memoryview(b"k")])
def test_any_other_key_is_a_type_error(key: Any) -> None:
    with pytest.raises(
        TypeError, match=f"a bytes-like object is required, not '{type(key).__name__}'"
    ):
        encode_key(key)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ([("a", b"1"), ("a", None), ("b", "ü")], [("a", b"1"), ("a", None), ("b", "ü".encode())]),
        ([("a", b"")], [("a", b"")]),
        ([(5, b"1"), (b"k", None)], [("5", b"1"), ("b'k'", None)]),  # as confluent-kafka
        ({"a": b"1", "b": None}, [("a", b"1"), ("b", None)]),
        ([("", b"x")], [("", b"x")]),
    ],
)
def test_headers_are_pairs_or_a_dict(headers: Any, expected: Any) -> None:
    assert encode_headers(headers)[0] == expected


@pytest.mark.parametrize(
    "headers",
    [
        [("a", 1)],
        (("a", b"1"),),
        [["a", b"1"]],
        [("a", b"1", b"2")],
        [("a",)],
        ["a"],
        [None],
        5,
        [("a", bytearray(b"1"))],
        {"a": 1},
    ],
)
def test_any_other_headers_are_a_type_error(headers: Any) -> None:
    with pytest.raises(TypeError):
        encode_headers(headers)


def test_headers_charge_what_they_hold() -> None:
    _, nbytes = encode_headers([("abc", b"12345"), ("d", None)])
    assert nbytes == 2 * 100 + 3 + 5 + 1
