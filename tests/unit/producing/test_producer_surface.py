"""The surface: what `produce` takes and refuses, and one report for each record of a real thread.

Kafka is in memory: `Client` stands between `Producer` and confluent-kafka's class, so that every
`super()` call of `Producer` ends in it.
"""

from __future__ import annotations

import datetime as dt
import inspect
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from inside import pipeline_of
from pipeline import Sent, records
from support import eventually

from columnar_kafka import Producer
from columnar_kafka.errors import ConfigError, ForkError, RowError, SchemaError
from columnar_kafka.position import pack
from columnar_kafka.producing.accepting.arguments import encode_headers
from columnar_kafka.testing.memory import MemoryKafka, MemoryProducer

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("tags", pa.list_(pa.string()))])


class Client(confluent_kafka.Producer):
    """confluent-kafka's producer, on a memory broker."""

    memory: MemoryProducer

    def produce(self, topic: str, value: Any = None, **given: Any) -> None:
        callback = given.get("on_delivery") or given.get("callback") or (lambda *_: None)
        self.memory.send(
            topic,
            max(0, given.get("partition", -1)),
            value.encode() if isinstance(value, str) else value,
            key=given.get("key"),
            headers=encode_headers(given.get("headers"))[0],
            timestamp=given.get("timestamp", 0),
            acknowledge=callback,
        )

    def poll(self, timeout: float = -1) -> int:
        return self.memory.poll(timeout)

    def flush(self, timeout: float = -1) -> int:
        return self.memory.flush(timeout)

    def purge(self, *_: Any, **__: Any) -> None:
        self.memory.purge()

    def __len__(self) -> int:
        return len(self.memory)

    def close(self) -> bool:
        return True


class InMemory(Producer, Client):
    """`Producer` on a memory broker."""

    def __init__(self, memory: MemoryProducer, **config: Any) -> None:
        self.memory = memory
        super().__init__(
            {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "columnar.encoding": "parquet"}
            | {key.replace("__", "."): value for key, value in config.items()}
        )

    def _connect(self, inner: dict[str, Any]) -> MemoryProducer:
        return self.memory


@pytest.fixture
def kafka() -> MemoryKafka:
    made = MemoryKafka()
    made.create_topic("t", 1)
    return made


@pytest.fixture
def memory(kafka: MemoryKafka) -> MemoryProducer:
    return MemoryProducer(kafka)


@pytest.fixture
def make(memory: MemoryProducer, request: pytest.FixtureRequest) -> Any:
    """A factory of producers with a schema for topic "t"; their threads end with the test."""

    def factory(**config: Any) -> InMemory:
        producer = InMemory(memory, **config)
        request.addfinalizer(pipeline_of(producer).sender.stop)
        producer.set_schema("t", SCHEMA)
        return producer

    return factory


def sent(kafka: MemoryKafka) -> list[Sent]:
    return [record for message in kafka.messages("t") for record in records(message)]


def row(n: int) -> dict[str, Any]:
    return {"n": n, "tags": None}


# --- records ------------------------------------------------------------------------------------


def test_records_arrive_and_are_reported_one_by_one(kafka: MemoryKafka, make: Any) -> None:
    producer = make()
    reports: list[Any] = []
    for n in range(3):
        producer.produce(
            "t",
            row(n),
            key=f"k{n}",
            headers={"h": str(n)},
            timestamp=100 + n,
            on_delivery=lambda error, message: reports.append((error, message)),
        )
    assert len(producer) == 3
    assert producer.flush(60) == 0
    assert [
        (record.value, record.key, record.headers, record.timestamp) for record in sent(kafka)
    ] == [(row(n), b"k%d" % n, [("h", b"%d" % n)], 100 + n) for n in range(3)]
    assert [(error, message.value(), message.offset()) for error, message in reports] == [
        (None, row(n), pack(0, n, 3)) for n in range(3)
    ]
    assert len(producer) == 0
    assert (pipeline_of(producer).queue.used_bytes, pipeline_of(producer).queue.records) == (0, 0)


def test_what_was_sent_and_what_waits_is_one_snapshot(kafka: MemoryKafka, make: Any) -> None:
    producer = make()
    nothing = pipeline_of(producer).stats()
    for n in range(3):
        producer.produce("t", row(n))
    waiting = pipeline_of(producer).stats()
    assert waiting == replace(nothing, records=3, nbytes=waiting.nbytes)
    assert 0 < waiting.nbytes < waiting.max_nbytes
    producer.produce("t", b"plain")  # is no segment
    producer.flush(60)
    size = len(kafka.messages("t")[0].value())
    assert pipeline_of(producer).stats() == replace(
        nothing, segments=1, segment_records=3, segment_nbytes=size
    )
    producer.produce("t", row(3))
    producer.purge()
    producer.flush(60)
    assert pipeline_of(producer).stats().failed_records == 1


def test_a_row_used_again_changes_nothing_sent(kafka: MemoryKafka, make: Any) -> None:
    producer = make()
    reused: dict[str, Any] = {"n": 0, "tags": []}
    for n in range(3):
        reused["n"] = n
        reused["tags"].append(str(n))
        producer.produce("t", reused)
    producer.flush(60)
    assert [record.value["tags"] for record in sent(kafka)] == [["0"], ["0", "1"], ["0", "1", "2"]]


@pytest.mark.parametrize(("value", "stored"), [(b"x", b"x"), ("ü", "ü".encode()), (None, None)])
def test_bytes_text_and_nothing_are_plain_messages(
    kafka: MemoryKafka, make: Any, value: Any, stored: bytes | None
) -> None:
    producer = make()
    producer.produce("t", value, key=b"k")
    producer.flush(60)
    assert [(message.value, message.key, message.segment) for message in sent(kafka)] == [
        (stored, b"k", None)
    ]


def test_a_topic_without_a_schema_is_stocks_business(kafka: MemoryKafka, make: Any) -> None:
    kafka.create_topic("plain")
    producer = make()
    seen: list[Any] = []
    producer.produce("plain", b"x", on_delivery=lambda _, message: seen.append(message.offset()))
    assert len(producer) == 1
    producer.flush(60)
    assert seen == [pack(0)]
    assert [message.value() for message in kafka.messages("plain")] == [b"x"]


def test_the_configured_callback_reports_records_without_their_own(make: Any) -> None:
    seen: list[Any] = []
    producer = make(on_delivery=lambda _, message: seen.append(message.value()))
    producer.produce("t", row(1))
    producer.flush(60)
    assert seen == [row(1)]


def test_poll_reports_what_age_has_sealed(make: Any) -> None:
    producer = make(columnar__linger__ms=1, linger__ms=1)
    producer.produce("t", row(1))
    assert producer.poll(60) == 1


def test_a_full_batch_is_sent_whatever_the_age_of_others(kafka: MemoryKafka, make: Any) -> None:
    kafka.create_topic("two", 2)
    producer = make(columnar__linger__ms=60_000, columnar__segment__rows=2)
    producer.set_schema("two", SCHEMA)
    producer.produce("two", row(0), partition=0)
    producer.produce("two", row(1), partition=1)
    producer.produce("two", row(2), partition=1)
    eventually(lambda: kafka.messages("two", 1))
    assert kafka.messages("two", 0) == []
    producer.flush()


def test_a_timestamp_of_nothing_is_now(kafka: MemoryKafka, make: Any) -> None:
    before = int(dt.datetime.now(dt.timezone.utc).timestamp() * 1000)
    producer = make()
    producer.produce("t", row(1))
    producer.flush(60)
    after = int(dt.datetime.now(dt.timezone.utc).timestamp() * 1000)
    assert before <= sent(kafka)[0].timestamp <= after


# --- what is refused before it is taken ---------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"value": 5},
        {"value": [row(1)]},
        {"value": bytearray(b"x")},
        {"value": row(1), "key": 5},
        {"value": row(1), "headers": 5},
        {"value": row(1), "headers": [("h",)]},
        {"value": row(1), "headers": (("h", b"x"),)},
        {"value": row(1), "headers": [("h", 5)]},
        {"value": row(1), "partition": "0"},
        {"value": row(1), "timestamp": "now"},
        {"value": row(1), "timestamp": 1.5},
    ],
    ids=str,
)
def test_a_wrong_argument_is_a_type_error_and_nothing_is_taken(
    make: Any, given: dict[str, Any]
) -> None:
    producer = make()
    with pytest.raises(TypeError):
        producer.produce("t", **given)
    assert (len(producer), pipeline_of(producer).queue.used_bytes) == (0, 0)


@pytest.mark.parametrize(
    "given",
    [
        {"timestamp": 1 << 63},
        {"timestamp": -(1 << 63) - 1},
        {"partition": 1 << 31},
        {"headers": [("\ud800", b"")]},
        {"headers": [("h", "\ud800")]},
        {"key": "\ud800"},
    ],
    ids=str,
)
@pytest.mark.parametrize("known", [True, False])
def test_what_no_column_or_message_can_hold_is_refused_before_it_is_taken(
    make: Any, given: dict[str, Any], *, known: bool
) -> None:
    """Later it would take the records of its chunk along."""
    producer = make()
    producer.set_schema("new", SCHEMA)
    with pytest.raises((ValueError, OverflowError, TypeError, KafkaException)):
        producer.produce("t" if known else "new", row(1), **given)
    assert (len(producer), pipeline_of(producer).queue.used_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"n": 1}, "field 'tags' is missing, and has no default"),
        (
            {"n": 1, "tags": None, "x": 1},
            "field 'x' is not in the topic's schema, which has n, tag",
        ),
        ({"n": 1, "tags": [5]}, "field 'tags.item' is int 5; its schema wants string or null"),
    ],
)
def test_a_row_known_to_be_wrong_is_refused_at_once(make: Any, value: Any, reason: str) -> None:
    producer = make()
    with pytest.raises(RowError) as raised:
        producer.produce("t", value)
    assert raised.value.reason.startswith(reason)
    assert (len(producer), pipeline_of(producer).queue.used_bytes) == (0, 0)


@pytest.mark.parametrize(("name", "given"), [("key", b"k"), ("headers", [("h", b"v")])])
def test_what_the_metadata_has_no_place_for_is_refused(make: Any, name: str, given: Any) -> None:
    producer = make(columnar__metadata="id")
    with pytest.raises(RowError) as raised:
        producer.produce("t", row(1), **{name: given})
    assert raised.value.reason == (
        f"columnar.metadata=id does not store a record's {name}: "
        f"add {name!r} to it, or produce without"
    )
    producer.produce("t", b"plain", **{name: given})
    producer.flush(60)


def test_a_full_buffer_is_a_buffer_error_until_reports_ran(make: Any) -> None:
    producer = make(queue__buffering__max__messages=2)
    producer.produce("t", row(1))
    producer.produce("t", row(2))
    with pytest.raises(BufferError, match=r"queue\.buffering\.max\.messages allows 2"):
        producer.produce("t", row(3))
    assert len(producer) == 2
    assert producer.poll(60) > 0
    producer.produce("t", row(3))
    producer.flush(60)


def test_a_partition_that_does_not_exist_is_refused_and_nothing_is_charged(make: Any) -> None:
    producer = make()
    for value in (row(1), b"plain"):
        with pytest.raises(KafkaException):
            producer.produce("t", value, partition=1)
    assert (len(producer), pipeline_of(producer).queue.used_bytes) == (0, 0)


# --- batches ------------------------------------------------------------------------------------


def test_produce_batch_says_which_were_not_taken(kafka: MemoryKafka, make: Any) -> None:
    producer = make(queue__buffering__max__messages=2)
    messages: list[dict[str, Any]] = [
        {"value": row(1), "headers": [("h", b"v")], "timestamp": 5},
        {"value": {"n": 1}},
        {"value": row(2)},
        {"value": row(3)},
    ]
    assert producer.produce_batch("t", messages) == 2
    codes = [message["_error"].code() if "_error" in message else None for message in messages]
    assert codes == [None, KafkaError._VALUE_SERIALIZATION, None, KafkaError._QUEUE_FULL]
    producer.flush(60)
    first = sent(kafka)[0]
    assert (first.headers, first.timestamp) == ([("h", b"v")], 5)


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ({"partition": 1 << 31}, OverflowError),
        ({"timestamp": 1 << 63}, OverflowError),
        ({"timestamp": "1"}, TypeError),
        ({"headers": [("h", 5)]}, ValueError),
    ],
    ids=repr,
)
def test_produce_batch_takes_none_where_one_has_an_impossible_argument(
    make: Any, argument: dict[str, Any], error: type[Exception]
) -> None:
    producer = make()
    with pytest.raises(error):
        producer.produce_batch("t", [{"value": row(1)}, {"value": row(2), **argument}])
    assert len(producer) == 0


# --- schemas ------------------------------------------------------------------------------------


def test_a_compacted_topic_is_refused(kafka: MemoryKafka, make: Any) -> None:
    kafka.create_topic("compacted", compacted=True)
    with pytest.raises(SchemaError, match=r"topic 'compacted' has cleanup\.policy=compact"):
        make().set_schema("compacted", SCHEMA)


def test_segments_fit_what_the_topic_says_it_takes(kafka: MemoryKafka, make: Any) -> None:
    kafka.create_topic("t", 1, max_message_bytes=10_000)
    producer = make()
    errors: list[Any] = []
    for n in range(2000):
        tags = [f"{n * 7919 % 99991:05}{n}"]
        producer.produce("t", {"n": n, "tags": tags}, on_delivery=lambda e, _: errors.append(e))
    producer.flush(60)
    assert errors == [None] * 2000
    assert len(kafka.messages("t")) > 1


@pytest.mark.parametrize("topic", [None, b"t", 5])
def test_a_topics_name_is_text(make: Any, topic: Any) -> None:
    with pytest.raises(TypeError, match="a topic's name is a str"):
        make().set_schema(topic, SCHEMA)


def test_a_schema_without_an_encoding_is_an_error() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(
        ConfigError, match=r"columnar\.encoding=none: a schema would have no effect"
    ):
        producer.set_schema("t", SCHEMA)


# --- the end ------------------------------------------------------------------------------------


def test_a_purge_reports_what_it_gives_up(make: Any, memory: MemoryProducer) -> None:
    producer = make()
    errors: list[int] = []
    memory.hold()
    producer.produce("t", b"held", on_delivery=lambda error, _: errors.append(error.code()))
    producer.produce("t", row(1), on_delivery=lambda error, _: errors.append(error.code()))
    producer.purge()
    producer.poll(0)
    assert errors == [KafkaError._PURGE_QUEUE] * 2
    assert (len(producer), pipeline_of(producer).queue.used_bytes) == (0, 0)


def test_close_flushes_and_ends_the_thread(kafka: MemoryKafka, make: Any) -> None:
    producer = make()
    seen: list[Any] = []
    producer.produce("t", row(1), on_delivery=lambda error, _: seen.append(error))
    producer.close()
    assert seen == [None]
    assert [record.value for record in sent(kafka)] == [row(1)]
    assert not pipeline_of(producer).sender.thread.is_alive()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce("t", row(2))


def test_a_report_that_raises_while_it_closes_is_heard_once_it_is_closed(make: Any) -> None:
    producer = make()

    def raises(*_: Any) -> None:
        raise LookupError

    producer.produce("t", row(0), on_delivery=raises)
    with pytest.raises(LookupError):
        producer.close()
    assert not pipeline_of(producer).sender.thread.is_alive()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce("t", row(1))


def test_with_closes(kafka: MemoryKafka, make: Any) -> None:
    with make() as producer:
        producer.produce("t", row(1))
    assert [record.value for record in sent(kafka)] == [row(1)]


@pytest.mark.parametrize("name", ["poll", "flush"])
def test_the_timeout_that_is_for_ever_is_confluent_kafkas(name: str) -> None:
    assert inspect.signature(getattr(Producer, name)).parameters["timeout"].default == -1


@pytest.mark.parametrize(
    "use",
    [
        lambda it: it.init_transactions(0),
        lambda it: it.begin_transaction(),
        lambda it: it.send_offsets_to_transaction([], None, 0),
        lambda it: it.list_topics(timeout=0),
        lambda it: it.cluster_id(0),
    ],
)
def test_a_forked_childs_copy_asks_librdkafka_for_nothing(
    make: Any, monkeypatch: pytest.MonkeyPatch, use: Callable[[Any], Any]
) -> None:
    """It would wait for threads that its parent has."""
    producer = make(transactional__id="x")
    monkeypatch.setattr(pipeline_of(producer), "unusable", ForkError("forked"))
    with pytest.raises(ForkError):
        use(producer)


def test_without_an_encoding_produce_is_confluent_kafkas_own() -> None:
    """A method around it would cost as much again."""
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    assert producer.produce == confluent_kafka.Producer.produce.__get__(producer)


def test_a_raising_report_passes_through_and_the_next_poll_goes_on(make: Any) -> None:
    producer = make()
    seen: list[Any] = []

    def raises(*_: Any) -> None:
        raise LookupError

    producer.produce("t", row(0), on_delivery=raises)
    producer.produce("t", row(1), on_delivery=lambda error, _: seen.append(error))
    with pytest.raises(LookupError):
        producer.flush(60)
    assert producer.flush(60) == 0
    assert seen == [None]
    assert (len(producer), pipeline_of(producer).queue.used_bytes) == (0, 0)


# --- subclasses ---------------------------------------------------------------------------------


class Wrapped(InMemory):
    """A service's own, with methods as it likes them."""

    def produce(self, number: int) -> None:  # type: ignore[override]
        super().produce("t", row(number), partition=0)

    def flush(self, timeout: float = 0.0) -> None:  # type: ignore[override]
        super().flush(timeout)

    def purge(self) -> None:  # type: ignore[override]
        raise AssertionError

    def close(self) -> bool:
        raise AssertionError


def test_overridden_methods_are_for_the_user_only(
    kafka: MemoryKafka, memory: MemoryProducer
) -> None:
    """As confluent-kafka's, one method calls no other as a subclass has it."""
    with Wrapped(memory) as producer:
        producer.set_schema("t", SCHEMA)
        producer.produce(1)
        assert producer.produce_batch("t", [{"value": row(2), "partition": 0}]) == 1
    assert [record.value for record in sent(kafka)] == [row(1), row(2)]


# --- transactions -------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_what_is_produced_while_a_transaction_ends_is_refused(
    make: Any, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """It would be part of the next one, or of none."""
    refused: list[int] = []

    def ends(client: Any, _timeout: float) -> None:
        with pytest.raises(KafkaException) as raised:
            client.produce("t", row(2))
        refused.append(raised.value.args[0].code())

    producer = make(transactional__id="x")
    for name in ("init_transactions", "begin_transaction"):
        monkeypatch.setattr(Client, name, lambda *_: None, raising=False)
    monkeypatch.setattr(Client, end, ends, raising=False)
    producer.begin_transaction()
    producer.produce("t", row(1))
    getattr(producer, end)()
    assert refused == [KafkaError._STATE]
    producer.begin_transaction()
    producer.produce("t", row(3))
    assert producer.flush(60) == 0


def test_a_commit_does_not_wait_for_what_cannot_be_committed_any_more(
    make: Any, memory: MemoryProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka purges its queue when Kafka rejects a message, and keeps what comes just then."""
    producer = make(transactional__id="x")
    monkeypatch.setattr(Client, "begin_transaction", lambda *_: None, raising=False)
    producer.begin_transaction()
    memory.hold()
    memory.fail_next(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    producer.produce("t", b"rejected", partition=0)
    producer.produce("t", b"kept", partition=0)
    eventually(lambda: len(memory) == 2)
    memory.release(1)
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(600)
    assert raised.value.args[0].txn_requires_abort()
    assert len(producer) == 1
    memory.release()
    assert producer.flush(60) == 0


# --- small memory -------------------------------------------------------------------------------


def test_a_record_that_memory_has_no_room_for_fails_alone_and_says_why(make: Any) -> None:
    errors: list[str] = []
    producer = make(queue__buffering__max__kbytes=64, columnar__encoding__compression="none")
    tags = [random.Random(n).randbytes(50).hex() for n in range(200)]
    report = lambda error, _: errors.append("" if error is None else error.str())  # noqa: E731
    producer.produce("t", {"n": 1, "tags": tags}, on_delivery=report)
    producer.produce("t", row(2), on_delivery=report)
    assert producer.flush(60) == 0
    [reason] = [error for error in errors if error]
    assert "a quarter of queue.buffering.max.kbytes" in reason
    assert errors.count("") == 1


def test_arrow_data_larger_than_its_share_of_memory_is_cut(kafka: MemoryKafka, make: Any) -> None:
    producer = make(queue__buffering__max__kbytes=64, columnar__encoding__compression="none")
    tags = [[random.Random(n).randbytes(50).hex()] for n in range(400)]
    producer.produce_arrow("t", pa.table({"n": range(400), "tags": tags}))
    assert producer.flush(60) == 0
    assert max(len(message.value() or b"") for message in kafka.messages("t")) <= 16_384
    assert [record.value["n"] for record in sent(kafka)] == list(range(400))


# --- waiting ------------------------------------------------------------------------------------


def test_a_poll_does_not_ask_all_the_time_before_its_end(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka does not wait for parts of a millisecond."""
    producer = make()
    polls: list[float] = []

    def poll(_: Any, timeout: float) -> int:
        polls.append(timeout)
        time.sleep(int(timeout * 1000) / 1000)
        return 0

    monkeypatch.setattr(Client, "poll", poll)
    assert producer.poll(0.0305) == 0
    assert len(polls) <= 2
