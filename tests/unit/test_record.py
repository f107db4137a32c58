"""The messages that are handed out: confluent-kafka's own class, speaking positions."""

from __future__ import annotations

import enum
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from columnar_kafka import Message, position
from columnar_kafka.position import MAX_ROWS
from columnar_kafka.record import encode_headers, encode_key, plain_message, reports


def record(offset: int, row: int, rows: int) -> Message:
    message = Message(topic="t", partition=3, offset=position.pack(offset, row, rows))
    message._rows = rows
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
    found = plain_message(source)
    assert found.offset() == 8 * MAX_ROWS - 1
    assert (found.kafka_offset(), found.row()) == (7, 0)
    for name in ("topic", "partition", "key", "value", "headers", "timestamp", "latency",
                 "leader_epoch", "error"):  # fmt: skip
        assert getattr(found, name)() == getattr(source, name)(), name


@pytest.mark.parametrize("value", [None, b""])
def test_an_empty_value_and_none_stay_apart(value: bytes | None) -> None:
    source = confluent_kafka.Message(topic="t", partition=0, offset=0, value=value)
    assert plain_message(source).value() == value


def test_the_end_of_a_partition_points_at_the_next_offsets_start() -> None:
    end = KafkaError(KafkaError._PARTITION_EOF)
    source = confluent_kafka.Message(topic="t", partition=3, offset=7, error=end)
    found = plain_message(source)
    assert found.offset() == 7 * MAX_ROWS
    assert found.error() == end
    assert found.kafka_offset() == 7


def test_an_event_of_no_partition_stays_without_a_place() -> None:
    source = confluent_kafka.Message(error=KafkaError(KafkaError._ALL_BROKERS_DOWN))
    found = plain_message(source)
    places = (found.topic(), found.partition(), found.offset(), found.kafka_offset(), found.row())
    assert places == (None, None, None, None, None)
    assert found.error().code() == KafkaError._ALL_BROKERS_DOWN


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
    given = {"topic": "t", "partition": 3, "count": 10, "error": None, "acknowledged": None}
    return reports(Rows(), offset=offset, **(given | more))(index)


def test_a_report_shows_its_own_record() -> None:
    found = report(4)
    assert (found.value(), found.key(), found.headers()) == ({"n": 4}, b"k4", [("h", b"4")])
    assert found.timestamp() == (1, 104)
    assert (found.topic(), found.partition(), found.error()) == ("t", 3, None)


def test_a_report_is_at_its_records_position() -> None:
    assert report(4).offset() == 8 * MAX_ROWS - 6
    assert (report(4).kafka_offset(), report(4).row()) == (7, 4)


def test_a_report_without_an_offset_has_none() -> None:
    error = KafkaError(KafkaError._MSG_TIMED_OUT)
    found = report(4, offset=None, error=error)
    assert (found.offset(), found.kafka_offset(), found.row()) == (None, None, None)
    assert found.error() == error
    assert found.value() == {"n": 4}


def test_a_report_has_its_segments_latency_and_epoch() -> None:
    acknowledged = confluent_kafka.Message(topic="t", latency=0.25, leader_epoch=4)
    found = report(4, acknowledged=acknowledged)
    assert (found.latency(), found.leader_epoch()) == (0.25, 4)
    assert (report(4).latency(), report(4).leader_epoch()) == (None, None)


# --- keys and headers -----------------------------------------------------------------------------


class Suit(str, enum.Enum):  # noqa: UP042 - a str that is more than one
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
