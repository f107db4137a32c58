"""Records through a real Kafka and back: values, keys, headers, times, positions, commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, TopicPartition

from columnar_kafka import Consumer, Producer, SchemaError
from columnar_kafka.position import MAX_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])


@pytest.fixture
def producer(kafka: LocalKafka) -> Callable[..., Producer]:
    def make(**settings: Any) -> Producer:
        return Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
            | settings
        )

    return make


@pytest.fixture
def consumer(kafka: LocalKafka) -> Callable[..., Consumer]:
    def make(group: str, **settings: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "columnar.encoding": "parquet",
            }
            | settings
        )

    return make


def send(
    make: Callable[..., Producer], topic: str, numbers: range, **settings: Any
) -> list[confluent_kafka.Message]:
    """Send rows {n, text} to one topic and return their reports."""
    reports: list[confluent_kafka.Message] = []

    def report(error: Any, message: confluent_kafka.Message) -> None:
        assert error is None
        reports.append(message)

    with make(**settings) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in numbers:
            producer.produce(
                topic,
                row(n),
                key=str(n),
                headers=[("h", b"%d" % n)],
                timestamp=1000 + n,
                on_delivery=report,
            )
    return reports


def row(n: int) -> dict[str, Any]:
    return {"n": n, "text": None if n % 3 == 0 else f"text {n}"}


def coded(n: int, code: bytes | None = None) -> dict[str, Any]:
    return row(n) | {"code": code}


def take(consumer: Consumer, count: int) -> list[Any]:
    """Return the next `count` records, each of them no error."""
    messages = []
    while len(messages) < count:
        message = consumer.poll(120)
        assert message is not None, f"only {len(messages)} of {count} records came"
        assert message.error() is None
        messages.append(message)
    return messages


def test_records_come_back_as_they_were_produced(producer, consumer, topic) -> None:
    name = topic()
    reports = send(producer, name, range(100))
    with consumer("all") as reader:
        reader.subscribe([name])
        got = take(reader, 100)
        assert reader.poll(0.2) is None
    assert [m.value() for m in got] == [row(n) for n in range(100)]
    assert [m.key() for m in got] == [b"%d" % n for n in range(100)]
    assert [m.headers() for m in got] == [[("h", b"%d" % n)] for n in range(100)]
    assert [m.timestamp() for m in got] == [(1, 1000 + n) for n in range(100)]
    assert [m.offset() for m in got] == [m.offset() for m in reports]
    assert [m.value() for m in reports] == [row(n) for n in range(100)]
    assert [m.key() for m in reports] == [b"%d" % n for n in range(100)]


def test_positions_are_those_of_the_contract(producer, consumer, topic) -> None:
    name = topic()
    send(producer, name, range(10), **{"columnar.segment.rows": 4})
    with consumer("positions") as reader:
        reader.subscribe([name])
        got = take(reader, 10)
        low, high = reader.get_watermark_offsets(TopicPartition(name, 0))
    want = [(o + 1) * MAX_ROWS - (n - r) for o, n in enumerate([4, 4, 2]) for r in range(n)]
    assert [m.offset() for m in got] == want
    assert [(m.kafka_offset(), m.row()) for m in got] == [
        (o, r) for o, n in enumerate([4, 4, 2]) for r in range(n)
    ]
    assert (low, high) == (0, want[-1] + 1)


@pytest.mark.parametrize("after", [1, 3, 4, 5, 8, 9])
def test_a_group_resumes_at_any_record(producer, consumer, topic, after: int) -> None:
    name = topic()
    send(producer, name, range(10), **{"columnar.segment.rows": 4})
    with consumer(f"resume-{after}") as reader:
        reader.subscribe([name])
        last = take(reader, after)[-1]
        done = reader.commit(message=last, asynchronous=False)
        assert [place.offset for place in done] == [last.offset() + 1]
    with consumer(f"resume-{after}") as reader:
        reader.subscribe([name])
        got = take(reader, 10 - after)
        assert [m.value()["n"] for m in got] == list(range(after, 10))
        [at] = reader.committed([TopicPartition(name, 0)])
        assert at.offset == last.offset() + 1


def test_a_commit_inside_a_segment_is_the_segments_own_offset_for_other_tools(
    producer, consumer, topic, kafka
) -> None:
    name = topic()
    send(producer, name, range(10))
    with consumer("tools") as reader:
        reader.subscribe([name])
        reader.commit(message=take(reader, 3)[-1], asynchronous=False)
    stock = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "tools"}
    )
    [at] = stock.committed([TopicPartition(name, 0)], timeout=60)
    stock.close()
    assert at.offset == 0
    assert at.metadata.startswith("1:7:")
    assert len(at.metadata) <= 64


def test_foreign_commit_metadata_means_the_segments_first_row(
    producer, consumer, topic, kafka
) -> None:
    name = topic()
    send(producer, name, range(5))
    stock = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "foreign"}
    )
    offset = TopicPartition(name, 0, 0, "1:2:00000000000000000000-0")
    stock.commit(offsets=[offset], asynchronous=False)
    stock.close()
    with consumer("foreign") as reader:
        reader.subscribe([name])
        assert [m.value()["n"] for m in take(reader, 5)] == list(range(5))


def test_seek_goes_to_any_record(producer, consumer, topic) -> None:
    name = topic()
    positions = [
        m.offset() for m in send(producer, name, range(10), **{"columnar.segment.rows": 4})
    ]
    with consumer("seek") as reader:
        reader.assign([TopicPartition(name, 0, positions[6])])
        assert [m.value()["n"] for m in take(reader, 4)] == [6, 7, 8, 9]
        reader.seek(TopicPartition(name, 0, positions[2]))
        assert [m.value()["n"] for m in take(reader, 3)] == [2, 3, 4]
        [at] = reader.position([TopicPartition(name, 0)])
        assert at.offset == positions[5]


def test_pause_in_the_middle_of_a_segment_and_resume(producer, consumer, topic) -> None:
    name = topic()
    send(producer, name, range(10))
    with consumer("pause") as reader:
        reader.subscribe([name])
        take(reader, 4)
        reader.pause([TopicPartition(name, 0)])
        assert reader.poll(0.3) is None
        reader.resume([TopicPartition(name, 0)])
        assert [m.value()["n"] for m in take(reader, 6)] == list(range(4, 10))


def test_auto_commit_on_close_keeps_the_row(producer, consumer, topic) -> None:
    name = topic()
    send(producer, name, range(10))
    with consumer("auto", **{"enable.auto.commit": True}) as reader:
        reader.subscribe([name])
        take(reader, 3)
    with consumer("auto") as reader:
        reader.subscribe([name])
        assert [m.value()["n"] for m in take(reader, 7)] == list(range(3, 10))


def test_plain_messages_keep_their_place_and_meaning(producer, consumer, topic) -> None:
    name = topic()
    reports: list[Any] = []
    with producer() as sender:
        sender.set_schema(name, SCHEMA)
        for n in range(3):
            sender.produce(name, row(n), on_delivery=lambda _, m: reports.append(m))
        sender.produce(
            name,
            b"plain",
            key=b"k",
            headers={"a": None},
            on_delivery=lambda _, m: reports.append(m),
        )
        sender.produce(name, None, key=b"gone", on_delivery=lambda _, m: reports.append(m))
        sender.produce(name, row(3), on_delivery=lambda _, m: reports.append(m))
    with consumer("mixed") as reader:
        reader.subscribe([name])
        got = take(reader, 6)
    assert [m.value() for m in got] == [row(0), row(1), row(2), b"plain", None, row(3)]
    assert [m.offset() for m in got] == [m.offset() for m in reports]
    assert (got[3].key(), got[3].headers(), got[4].key()) == (b"k", [("a", None)], b"gone")


def test_raw_bytes_are_the_segment_for_stock_consumers_and_ours(
    producer, consumer, topic, kafka
) -> None:
    name = topic()
    send(producer, name, range(5))
    readers = [
        consumer("raw", **{"fetch.raw.bytes": True}),
        consumer("none", **{"columnar.encoding": "none"}),
        confluent_kafka.Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": "stock",
                "auto.offset.reset": "earliest",
            }
        ),
    ]
    for reader in readers:
        reader.subscribe([name])
        message = reader.poll(120)
        reader.close()
        assert message.offset() == 0
        assert message.key() is None
        table = pa.parquet.read_table(pa.BufferReader(message.value()))
        assert table.column("n").to_pylist() == [0, 1, 2, 3, 4]


def test_poll_segment_hands_out_what_was_sent(producer, consumer, topic) -> None:
    name = topic()
    send(producer, name, range(5))
    with consumer("segments") as reader:
        reader.subscribe([name])
        segment = reader.poll_segment(120)
        assert reader.poll_segment(0.2) is None
    assert (segment.topic, segment.partition, segment.kafka_offset, segment.rows) == (name, 0, 0, 5)
    assert segment.offset == MAX_ROWS - 5
    assert [record.value for record in segment.records()] == [row(n) for n in range(5)]
    assert segment.to_table(["n"]).to_pydict() == {"n": [0, 1, 2, 3, 4]}


def test_a_damaged_segment_is_one_error_and_its_neighbours_are_delivered(
    producer, consumer, topic, kafka
) -> None:
    name = topic()
    send(producer, name, range(3))
    stock = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "copy",
            "auto.offset.reset": "earliest",
        }
    )
    stock.subscribe([name])
    good = stock.poll(120)
    stock.close()
    bad = bytearray(good.value())
    bad[10] ^= 1
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(name, bytes(bad), headers=good.headers())
    plain.produce(name, good.value(), headers=good.headers())
    plain.flush()
    with consumer("damaged") as reader:
        reader.subscribe([name])
        got = [reader.poll(120) for _ in range(7)]
    assert [m.error() is None for m in got] == [True] * 3 + [False] + [True] * 3
    assert f"{name}[0]@1" in got[3].error().str()
    assert got[3].kafka_offset() == 1


def test_a_compacted_topic_is_refused(producer, topic) -> None:
    name = topic(config={"cleanup.policy": "compact"})
    with producer() as sender, pytest.raises(SchemaError, match=r"cleanup\.policy=compact"):
        sender.set_schema(name, SCHEMA)


def test_segments_stay_below_the_topics_limit(producer, consumer, topic) -> None:
    """Incompressible records fill a segment far beyond the topic's limit: it is cut before."""
    name = topic(config={"max.message.bytes": "20000"})
    schema = pa.schema([("blob", pa.binary())])
    blobs = [bytes((i * 7919 + j * 104729 + i * j) % 251 for j in range(1000)) for i in range(100)]
    failures: list[Any] = []
    with producer(**{"batch.size": 20000}) as sender:
        sender.set_schema(name, schema)
        for blob in blobs:
            sender.produce(name, {"blob": blob}, on_delivery=lambda e, _: failures.append(e))
    assert failures == [None] * 100
    with consumer("limit") as reader:
        reader.subscribe([name])
        got = take(reader, 100)
    assert [m.value()["blob"] for m in got] == blobs
    assert got[-1].kafka_offset() > 0


def test_keyed_records_go_where_stock_would_put_them(producer, topic, kafka) -> None:
    ours, stock = topic(7), topic(7)
    keys = [b"", b"a", "snow ☃".encode(), *[b"key-%d" % n for n in range(200)]]
    got: dict[str, dict[bytes, int]] = {ours: {}, stock: {}}

    def note(_: Any, message: Any) -> None:
        got[message.topic()][message.key()] = message.partition()

    with producer(partitioner="murmur2") as sender:
        sender.set_schema(ours, SCHEMA)
        for key in keys:
            sender.produce(ours, row(1), key=key, on_delivery=note)
    other = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2"}
    )
    for key in keys:
        other.produce(stock, b"x", key=key, on_delivery=note)
    other.flush()
    assert len(got[stock]) == len(keys)
    assert got[ours] == got[stock]


def test_transactions_commit_and_abort_with_their_records(producer, consumer, topic) -> None:
    name = topic()
    with producer(**{"transactional.id": "t-1"}) as sender:
        sender.set_schema(name, SCHEMA.append(pa.field("code", pa.binary(1))))
        sender.init_transactions()
        with pytest.raises(KafkaException, match="Local: Erroneous state"):
            sender.produce(name, coded(0))
        sender.begin_transaction()
        sender.produce(name, coded(1))
        sender.abort_transaction()
        sender.begin_transaction()
        sender.produce(name, coded(2))
        sender.commit_transaction()
        sender.begin_transaction()
        sender.produce(name, coded(3))
        sender.produce(name, coded(4, b"long"))
        with pytest.raises(KafkaException) as raised:
            sender.commit_transaction()
        assert raised.value.args[0].txn_requires_abort()
        sender.abort_transaction()
    with consumer("committed", **{"isolation.level": "read_committed"}) as reader:
        reader.subscribe([name])
        assert take(reader, 1)[0].value() == coded(2)
        assert reader.poll(0.5) is None


def test_where_the_broker_says_the_time_a_segments_records_have_it(
    producer, consumer, topic
) -> None:
    name = topic(config={"message.timestamp.type": "LogAppendTime"})
    send(producer, name, range(3))
    send(producer, name, range(3, 6))
    reader = consumer(name)
    reader.assign([TopicPartition(name, 0, 0)])
    messages = take(reader, 6)
    kinds = {message.timestamp()[0] for message in messages}
    first, second = [{m.timestamp()[1] for m in some} for some in (messages[:3], messages[3:])]
    assert kinds == {confluent_kafka.TIMESTAMP_LOG_APPEND_TIME}
    assert len(first) == len(second) == 1
    assert min(first) <= min(second)
    [place] = reader.offsets_for_times([TopicPartition(name, 0, min(second))], 120)
    [before] = reader.offsets_for_times([TopicPartition(name, 0, min(first))], 120)
    assert before.offset == messages[0].offset()
    assert place.offset == messages[3 if first != second else 0].offset()
    reader.close()
