"""`columnar.schema=infer`: topics whose schema nobody sets, on both engines."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition

from columnar_kafka.errors import ConfigError, SchemaError
from columnar_kafka.producing import inferring
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.segment.segment import Segment, json_layout
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = {
    "columnar.encoding": "parquet",
    "columnar.value.format": "json",
    "columnar.schema": "infer",
    "columnar.linger.ms": 60_000,
}
CONSUMER = {"columnar.encoding": "parquet", "columnar.value.format": "json", "group.id": "g"}


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    with FakeKafka() as kafka:
        kafka.create_topic("t", 1)
        yield kafka


def values_of(kafka: FakeKafka, partitions: int = 1) -> list[bytes | None]:
    """Return what a consumer gets, one partition after the other."""
    values: list[bytes | None] = []
    for number in range(partitions):
        consumer = kafka.Consumer(CONSUMER)
        consumer.assign([TopicPartition("t", number, 0)])
        while messages := consumer.consume(1000, 0):
            assert all(message.error() is None for message in messages)
            values += [message.value() for message in messages]
    return values


def inside(producer: Any) -> Any:
    return producer._pipeline  # noqa: SLF001 - nothing else says what waits


def segments_of(kafka: FakeKafka) -> list[Segment]:
    return [
        Segment(topic="t", partition=0, offset=0, headers=message.headers(), value=message.value())
        for message in kafka.messages("t")
        if is_segment(message.headers())
    ]


def columns_of(segment: Segment) -> dict[str, str]:
    return {field.name: str(field.type) for field in segment.schema if field.name != "_kafka"}


def is_inferred(segment: Segment) -> bool:
    layout = json_layout(segment)
    assert layout is not None
    return layout.inferred


def test_the_first_values_make_the_columns(kafka: FakeKafka) -> None:
    values = [b'{"id":1.5,"who":"a"}', b'{"id":2.5,"tags":["x"]}', b'{"id":2.5}']
    with kafka.Producer(CONFIG) as producer:
        for value in values:
            producer.produce("t", value)
    [segment] = segments_of(kafka)
    assert columns_of(segment) == {
        "id": "double",
        "who": "string",
        "tags": "list<element: string>",
        "_rest": "string",
    }
    assert is_inferred(segment)
    assert values_of(kafka) == values


def test_what_does_not_fit_keeps_its_place(kafka: FakeKafka) -> None:
    values = [b'{"id":1}', b"no JSON", b'{"id":2}', None, b"[]", b'{"id":3}', b"\xff"]
    with kafka.Producer(CONFIG) as producer:
        for value in values:
            producer.produce("t", value)
        producer.flush()
        for value in values:
            producer.produce("t", value)
        assert inside(producer).stats().misfits == 6
    assert values_of(kafka) == values * 2


def test_reports_have_what_was_given(kafka: FakeKafka) -> None:
    reports: list[tuple[Any, ...]] = []

    def told(error: KafkaError | None, message: Any) -> None:
        assert error is None
        reports.append((message.value(), len(message), message.key(), message.headers()))

    with kafka.Producer(CONFIG) as producer:
        for value in ('{"a": 1}', bytearray(b'{"a":2}'), b"plain", None):
            producer.produce("t", value, key="k", headers={"h": b"v"}, on_delivery=told)
        assert len(producer) == 4
    said = [b'{"a": 1}', b'{"a":2}', b"plain", None]
    expected = [(value, len(value or b""), b"k", [("h", b"v")]) for value in said]
    assert [(value, n, key, headers) for value, n, key, headers in reports] == expected


def test_a_producer_that_starts_takes_the_columns_of_the_newest_segments(kafka: FakeKafka) -> None:
    """What contradicts them is in the rest, and what is new is a column at once."""
    for value in (b'{"a":1,"t":"x"}', b'{"a":"text","n":true}'):
        with kafka.Producer(CONFIG) as producer:
            producer.produce("t", value)
    first, second = segments_of(kafka)
    assert columns_of(first) == {"a": "int64", "t": "string", "_rest": "string"}
    assert columns_of(second) == {"a": "int64", "t": "string", "n": "bool", "_rest": "string"}
    assert values_of(kafka) == [b'{"a":1,"t":"x"}', b'{"a":"text","n":true}']


def test_segments_of_a_set_schema_lead_too(kafka: FakeKafka) -> None:
    config = {name: value for name, value in CONFIG.items() if name != "columnar.schema"}
    schema = pa.schema(
        [pa.field("a", pa.int16(), nullable=False), ("at", pa.timestamp("us", "UTC"))]
    )
    with kafka.Producer(config) as producer:
        producer.set_schema("t", schema)
        producer.produce("t", b'{"a":1}')
    value = b'{"a":2,"at":"2026-01-31T12:00:00Z"}'
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", value)
    [_, second] = segments_of(kafka)
    assert columns_of(second) == {"a": "int16", "at": "timestamp[us, tz=UTC]", "_rest": "string"}
    assert values_of(kafka)[1] == value


def test_new_fields_become_columns_once_a_minute(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inferring, "_BETWEEN_LOOKS", 0.0)
    columns = []
    with kafka.Producer(CONFIG) as producer:
        for field in "abcd":
            producer.produce("t", json.dumps({"n": 1, field: {"x": 1}}))
            producer.flush()
            columns.append("".join(columns_of(segments_of(kafka)[-1])).replace("_rest", ""))
            now = inside(producer).inferring.looks
            if field == "c":
                now.update(dict.fromkeys(now, 0.0))  # a minute later
                producer.produce("t", b'{"n":1,"c":{"x":2}}')
                producer.flush()
    assert columns == ["na", "na", "nab", "nabc"]
    assert [json.loads(value or b"") for value in values_of(kafka)] == [
        {"n": 1, "a": {"x": 1}},
        {"n": 1, "b": {"x": 1}},
        {"n": 1, "c": {"x": 1}},
        {"n": 1, "c": {"x": 2}},
        {"n": 1, "d": {"x": 1}},
    ]


def test_no_more_columns_than_allowed(kafka: FakeKafka, caplog: pytest.LogCaptureFixture) -> None:
    values = [b'{"a":1,"b":2,"c":3}', b'{"a":1,"d":2}']
    with kafka.Producer({**CONFIG, "columnar.schema.max.columns": 2}) as producer:
        for value in values:
            producer.produce("t", value)
            producer.flush()
    assert [list(columns_of(segment)) for segment in segments_of(kafka)] == [
        ["a", "b", "_rest"]
    ] * 2
    assert values_of(kafka) == values
    assert "columnar.schema.max.columns" in caplog.text


def test_a_topic_without_objects(kafka: FakeKafka) -> None:
    """Its messages are plain, and only the first wait; objects that come later make columns."""
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", b"text")
        producer.flush()
        producer.produce("t", b"more")
        while len(kafka.messages("t")) < 2:  # at once, with a linger of a minute
            producer.poll(0.01)
        for _ in range(2):
            producer.produce("t", b'{"a":1}')
            producer.flush()
            inside(producer).inferring.looks.clear()
    assert [list(columns_of(segment)) for segment in segments_of(kafka)] == [
        ["_rest"],
        ["a", "_rest"],
    ]
    assert values_of(kafka) == [b"text", b"more", b'{"a":1}', b'{"a":1}']


def test_a_compacted_topic_has_no_segments(
    kafka: FakeKafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("c", 1, compacted=True)
    with kafka.Producer(CONFIG) as producer:
        for _ in range(2):
            producer.produce("c", b'{"a":1}', key="k")
            producer.produce("c", None, key="k")
            producer.flush()
    assert [message.value() for message in kafka.messages("c")] == [b'{"a":1}', None] * 2
    assert "is compacted" in caplog.text


def test_misfits_that_are_refused(kafka: FakeKafka) -> None:
    """In the report while no schema is known, and then at the call."""
    errors: list[KafkaError | None] = []
    with kafka.Producer({**CONFIG, "columnar.value.misfit": "raise"}) as producer:
        for value in (b'{"a":1}', b"[]", b'{"a":2}'):
            producer.produce("t", value, on_delivery=lambda error, _: errors.append(error))
        producer.flush()
        with pytest.raises(Exception, match="JSON object"):
            producer.produce("t", b"[]")
    codes = [None if error is None else error.code() for error in errors]
    assert sorted(codes, key=str) == [KafkaError._VALUE_SERIALIZATION, None, None]
    assert values_of(kafka) == [b'{"a":1}', b'{"a":2}']


def test_rows_need_a_schema(kafka: FakeKafka) -> None:
    with kafka.Producer(CONFIG) as producer:
        for _ in range(2):
            with pytest.raises(TypeError, match="a bytes-like object is required, not 'dict'"):
                producer.produce("t", {"a": 1})
            with pytest.raises(SchemaError, match=r"set_schema\(\)"):
                producer.produce_arrow("t", pa.table({"a": [1]}))
            producer.produce("t", b"text")


def test_a_schema_that_is_set_replaces_what_is_inferred(kafka: FakeKafka) -> None:
    """Before the first values have settled it, and after."""
    schema = pa.schema([("a", pa.int8())])
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", b'{"a":1}')
        producer.set_schema("t", schema)
        producer.produce("t", b'{"a":2}')
        producer.produce("u", b'{"a":3.5}')
        producer.flush()
        producer.set_schema("u", schema)
        producer.produce("u", {"a": 4})
    for segment in segments_of(kafka):
        assert columns_of(segment) == {"a": "int8", "_rest": "string"}
        assert not is_inferred(segment)
    assert values_of(kafka) == [b'{"a":1}', b'{"a":2}']


def test_many_values_settle_the_schema_before_a_linger(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("columnar_kafka.producing.pipeline.SAMPLE", 10)
    monkeypatch.setattr(inferring, "SAMPLE", 10)
    with kafka.Producer({**CONFIG, "columnar.linger.ms": 200_000}) as producer:
        for number in range(10):
            producer.produce("t", json.dumps({"n": number}))
        while not inside(producer).formats:
            producer.poll(0.01)
        producer.produce("t", b'{"n":10}')
    assert values_of(kafka) == [b'{"n":%d}' % number for number in range(11)]


def test_order_while_the_partitions_are_unknown() -> None:
    with FakeKafka(auto_create_topics=False) as kafka:
        with kafka.Producer({**CONFIG, "columnar.linger.ms": 1}) as producer:
            for number in range(20):
                producer.produce("t", json.dumps({"n": number}), key=b"k")
            while not inside(producer).formats:
                producer.poll(0.01)
            producer.produce("t", b'{"n":20}', key=b"k")
            kafka.create_topic("t", 1)
        assert values_of(kafka) == [b'{"n":%d}' % number for number in range(21)]


def test_a_transaction_that_is_aborted(kafka: FakeKafka) -> None:
    with kafka.Producer({**CONFIG, "transactional.id": "x"}) as producer:
        producer.init_transactions()
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce("t", b'{"a":1}')
            end()
            assert len(producer) == 0
    assert values_of(kafka) == [b'{"a":1}']


def test_purged_values_are_reported(kafka: FakeKafka) -> None:
    errors: list[int] = []
    with kafka.Producer(CONFIG) as producer:
        for _ in range(3):
            producer.produce("t", b"{}", on_delivery=lambda error, _: errors.append(error.code()))
        producer.purge()
        producer.poll(0)
        assert errors == [KafkaError._PURGE_QUEUE] * 3
        assert inside(producer).queue.used_bytes == 0


def test_memory_is_bounded(kafka: FakeKafka) -> None:
    """Values that wait for a schema are charged, and settle it when half of the bound is used."""
    with kafka.Producer({**CONFIG, "queue.buffering.max.kbytes": 200}) as producer:
        for number in range(2000):
            value = json.dumps({"n": number, "pad": "x" * 100})
            while True:
                try:
                    producer.produce("t", value)
                    break
                except BufferError:
                    producer.poll(0.01)
    assert [json.loads(value or b"")["n"] for value in values_of(kafka)] == list(range(2000))


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"columnar.schema": "guess"}, r"columnar.schema='guess': must be infer"),
        ({"columnar.value.format": "rows"}, r"needs columnar.value.format=json"),
        ({"columnar.value.fields": "exact"}, r"columnar.value.fields=lenient"),
        ({"columnar.schema.max.columns": 0}, r"columnar.schema.max.columns=0"),
    ],
)
def test_bad_settings(keys: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        FakeKafka().Producer({**CONFIG, **keys})


def test_what_cannot_be_read_is_logged(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the first values alone make the columns."""
    from columnar_kafka.testing.memory import MemoryProducer  # noqa: PLC0415

    def refuse(*_: Any) -> Any:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(MemoryProducer, "newest", refuse)
    with caplog.at_level(logging.WARNING), kafka.Producer(CONFIG) as producer:
        producer.produce("t", b'{"a":1}')
    assert "inferred from its first values alone" in caplog.text
    assert values_of(kafka) == [b'{"a":1}']


def test_what_cannot_be_inferred_is_in_the_rest(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ArithmeticError("a test's")

    monkeypatch.setattr(inferring.Inference, "result", fail)
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", b'{"a":1}')
    assert "ArithmeticError: a test's" in caplog.text
    assert values_of(kafka) == [b'{"a":1}']
