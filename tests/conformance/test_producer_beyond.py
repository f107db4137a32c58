"""Where ours does more than stock on purpose: the whole list, each with what stock does."""

from __future__ import annotations

from typing import Any

import pytest
from producers import HELD


def records(make: Any) -> bool:
    """Whether the topics have a schema, and what is sent are records."""
    return bool(make.of.records)


def test_a_records_report_has_its_headers(make_producer) -> None:
    """Stock's reports have none, whatever was sent."""
    seen: list[Any] = []
    producer = make_producer()
    producer.produce(
        "t",
        make_producer.value(b"x"),
        headers=[("h", "v"), ("h", None)],
        on_delivery=lambda _, m: seen.append(m.headers()),
    )
    assert producer.flush(20) == 0
    assert seen == [[("h", b"v"), ("h", None)] if records(make_producer) else None]


def test_a_failed_records_report_has_its_time(make_producer) -> None:
    """Stock's has none: (0, -1)."""
    seen: list[Any] = []
    producer = make_producer(**HELD)
    producer.produce(
        "t",
        make_producer.value(b"x"),
        timestamp=77,
        on_delivery=lambda _, m: seen.append(m.timestamp()),
    )
    producer.purge()
    producer.flush(20)
    assert seen == [(1, 77) if records(make_producer) else (0, -1)]


def test_on_delivery_counts_beside_no_callback(make_producer) -> None:
    """Stock calls neither when callback is given as None."""
    seen: list[str] = []
    producer = make_producer()
    value = make_producer.value(b"x")
    producer.produce("t", value, callback=None, on_delivery=lambda *_: seen.append("called"))
    producer.flush(20)
    assert seen == (["called"] if make_producer.of.encoding else [])


def test_a_batchs_messages_have_headers(make_producer) -> None:
    """Stock drops them."""
    topic = make_producer.topic()
    producer = make_producer()
    message = {"value": make_producer.value(b"x"), "headers": [("h", "v")]}
    assert producer.produce_batch(topic, [message]) == 1
    producer.flush(20)
    [received] = make_producer.received(topic, 1)
    assert received.headers() == ([("h", b"v")] if records(make_producer) else None)


def test_a_batchs_messages_have_times(make_producer) -> None:
    """Stock refuses them."""
    topic = make_producer.topic()
    producer = make_producer()
    messages = [{"value": make_producer.value(b"x"), "timestamp": 1234}]
    if not records(make_producer):
        with pytest.raises(NotImplementedError, match="timestamps are not currently supported"):
            producer.produce_batch(topic, messages)
        return
    assert producer.produce_batch(topic, messages) == 1
    producer.flush(20)
    assert make_producer.received(topic, 1)[0].timestamp() == (1, 1234)


def test_a_batchs_messages_have_partitions(make_producer) -> None:
    """Stock takes and ignores them: with seven partitions all of 50 would go to one."""
    topic, seen = make_producer.topic(7), []
    producer = make_producer()
    producer.list_topics(topic, 20)
    messages = [{"value": make_producer.value(b"x"), "partition": 3} for _ in range(50)]
    assert (
        producer.produce_batch(topic, messages, on_delivery=lambda _, m: seen.append(m.partition()))
        == 50
    )
    producer.flush(20)
    assert len(seen) == 50
    if records(make_producer):
        assert set(seen) == {3}


@pytest.mark.parametrize(
    "make_producer", ["ours, no schema", "ours, schema", "ours, plain"], indirect=True
)
def test_a_report_may_poll_and_flush(make_producer) -> None:
    """Stock aborts the process."""
    seen: list[Any] = []
    producer = make_producer()
    producer.produce(
        "t",
        make_producer.value(b"x"),
        on_delivery=lambda *_: seen.append((producer.poll(0), producer.flush(1) >= 0)),
    )
    assert producer.flush(20) == 0
    assert seen == [(0, True)]


def test_a_dict_is_a_value_where_there_is_a_schema_only(make_producer) -> None:
    producer = make_producer()
    if records(make_producer):
        assert producer.produce("t", {"v": b"x"}) is None
        return
    with pytest.raises(TypeError, match=r"^a bytes-like object is required, not 'dict'$"):
        producer.produce("t", {"v": b"x"})


def test_a_reports_offset_is_a_position_with_parquet(make_producer) -> None:
    """Row 0 of a segment of one at offset 0 has the position 2^20 - 1."""
    topic, seen = make_producer.topic(), []
    producer = make_producer()
    producer.produce(
        topic, make_producer.value(b"x"), on_delivery=lambda _, m: seen.append(m.offset())
    )
    producer.flush(20)
    assert seen == [(1 << 20) - 1 if make_producer.of.encoding else 0]


def test_several_raising_reports_are_each_raised(make_producer) -> None:
    """If several raise in one flush, stock raises the last; ours raises one a call."""
    raised: list[bytes] = []

    def fail(_: Any, message: Any) -> None:
        raise LookupError(make_producer.read(message.value()))

    producer = make_producer(**HELD)
    for n in range(3):
        producer.produce("t", make_producer.value(b"%d" % n), partition=0, on_delivery=fail)
    while len(producer):
        try:
            producer.flush(20)
        except LookupError as error:
            raised.append(error.args[0])
    assert b"2" in raised
    if make_producer.of.encoding:
        assert raised == [b"0", b"1", b"2"]


@pytest.mark.parametrize("make_producer", ["ours, schema"], indirect=True)
def test_what_is_produced_right_after_a_purge_is_sent(make_producer) -> None:
    """Stock returns before librdkafka has purged, whatever `blocking` says."""
    seen: list[Any] = []
    for _ in range(20):
        producer = make_producer(**HELD)
        producer.produce("t", make_producer.value(b"given up"))
        producer.purge()
        producer.produce(
            "t", make_producer.value(b"sent"), on_delivery=lambda error, _: seen.append(error)
        )
        assert producer.flush(20) == 0
    assert seen == [None] * 20
