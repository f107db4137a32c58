"""The endless reader: what duckdb and polars read, how it ends, and where the consumer then is."""

from __future__ import annotations

import threading
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tables import CONFIG, assigned_consumer, next_position, put

from columnar_kafka import ConfigError, SchemaError, SegmentError, position
from columnar_kafka.plain import Ipc, Json
from columnar_kafka.testing import FakeKafka


@pytest.fixture
def kafka() -> FakeKafka:
    fake = FakeKafka()
    fake.create_topic("t", 2)
    return fake


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def test_each_segment_is_a_batch_and_counts_when_it_is_asked_for(kafka) -> None:
    put(kafka, numbers(0, 1, 2))
    put(kafka, numbers(3))
    consumer = assigned_consumer(kafka)
    reader = consumer.arrow_reader(["n"], timeout=0)
    assert next_position(consumer) == -1001
    assert reader.schema == pa.schema([("n", pa.int64())])
    assert reader.read_next_batch()["n"].to_pylist() == [0, 1, 2]
    assert next_position(consumer) == position.start(1)
    assert reader.read_next_batch()["n"].to_pylist() == [3]
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_a_segment_larger_than_a_batch_is_several(kafka) -> None:
    put(kafka, numbers(*range(5)))
    reader = assigned_consumer(kafka).arrow_reader(["n"], timeout=0, num_records=2)
    assert [batch.num_rows for batch in reader] == [2, 2, 1]


def two_batches(*texts: str) -> bytes:
    """Arrow data that stays two batches: their dictionaries differ."""
    some, more = (pa.record_batch({"s": pa.array(text).dictionary_encode()}) for text in texts)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, some.schema) as writer:
        writer.write_batch(some)
        writer.write_batch(more)
    return sink.getvalue().to_pybytes()


def test_of_several_batches_none_comes_again_when_another_partition_is_paused_between(
    kafka,
) -> None:
    kafka.append("t", 0, two_batches("ab", "c"))
    kafka.append("t", 0, two_batches("ab", "c"))
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", partition, 0) for partition in (0, 1)])
    batches = []
    for batch in consumer.arrow_reader(["s"], timeout=0, value=Ipc()):
        batches.append(batch["s"].to_pylist())
        consumer.pause([TopicPartition("t", 1)])
    assert batches == [["a", "b"], ["c"]] * 2


def test_of_several_batches_none_is_lost_when_their_own_partition_is_paused_between(
    kafka,
) -> None:
    """What the reader has of them is no part of what comes from another partition instead."""
    kafka.append("t", 0, two_batches("ab", "c"))
    kafka.append("t", 1, two_batches("de", "f"))
    consumer = kafka.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", partition, 0) for partition in (0, 1)])
    batches = []
    for batch in consumer.arrow_reader(["s"], timeout=0, value=Ipc()):
        batches.append(batch["s"].to_pylist())
        if len(batches) == 1:
            consumer.pause([TopicPartition("t", 0)])
    assert batches == [["a", "b"], ["d", "e"], ["f"]]


def test_polars_reads_it(kafka) -> None:
    for n in range(3):
        put(kafka, pa.table({"n": [n], "s": ["x"]}))
    frame = polars.from_arrow(assigned_consumer(kafka).arrow_reader(["s", "n"], timeout=0))
    assert frame.to_dict(as_series=False) == {"s": ["x"] * 3, "n": [0, 1, 2]}


def test_duckdb_reads_it(kafka) -> None:
    for n in range(3):
        put(kafka, pa.table({"n": [n], "s": ["x"]}))
    reader = assigned_consumer(kafka).arrow_reader(["s", "n"], timeout=0)
    assert duckdb.sql("select s, sum(n) from reader group by s").fetchall() == [("x", 3)]
    assert reader.read_all().num_rows == 0


def test_it_works_in_the_thread_that_reads(kafka) -> None:
    put(kafka, numbers(0))
    reader = assigned_consumer(kafka).arrow_reader(["n"], timeout=0)
    columns: list[Any] = []
    thread = threading.Thread(target=lambda: columns.append(reader.read_all()["n"].to_pylist()))
    thread.start()
    thread.join()
    assert columns == [[0]]


def test_it_ends_where_every_partition_does(kafka) -> None:
    """Without a timeout: this test would not end."""
    put(kafka, numbers(0))
    put(kafka, numbers(1), partition=1)
    consumer = kafka.Consumer({**CONFIG, "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", partition, 0) for partition in (0, 1)])
    table = consumer.arrow_reader(["n"], until_end=True).read_all()
    assert sorted(table["n"].to_pylist()) == [0, 1]


@pytest.mark.parametrize("schema", [None, pa.schema([("n", pa.int64())])], ids=["", "schema"])
@pytest.mark.parametrize("polls", [True, False])
def test_what_came_after_an_end_was_told_is_read_by_the_next(
    kafka, schema: pa.Schema | None, polls: bool
) -> None:
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    for n in range(3):
        put(kafka, numbers(n))
        reader = consumer.arrow_reader(["n"], schema=schema, until_end=True)
        assert reader.read_all()["n"].to_pylist() == [n]
        if polls:
            assert consumer.poll(0.01) is None


def test_an_end_that_was_fetched_before_is_not_the_end(kafka) -> None:
    """It is behind plain messages, which are fetched together, and there are more by now."""
    for n in range(3):
        kafka.append("t", 0, b"%d" % n)
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    assert consumer.poll(0).value() == b"0"
    kafka.append("t", 0, b"3")
    table = consumer.arrow_reader(until_end=True).read_all()
    assert table["value"].to_pylist() == [b"1", b"2", b"3"]


def test_ends_that_poll_was_told_count(kafka) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    assert consumer.poll(0).error() is None
    assert consumer.poll(0).error().code() == KafkaError._PARTITION_EOF
    schema = pa.schema([("n", pa.int64())])
    assert consumer.arrow_reader(["n"], schema=schema, until_end=True).read_all().num_rows == 0


def test_a_sought_partition_is_not_at_its_end(kafka) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    assert [consumer.poll(0).error() is None for _ in range(2)] == [True, False]
    consumer.seek(TopicPartition("t", 0, 0))
    assert consumer.arrow_reader(["n"], until_end=True).read_all().num_rows == 1


@pytest.mark.parametrize("promote", [False, True])
def test_no_query_counts_a_part_of_what_has_grown(kafka, promote: bool) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [1], "s": ["x"]}))
    text = r"segment at t\[0\]@1 \(position 2097151\) .*: s is missing in the stream and string"

    def reader() -> pa.RecordBatchReader:
        consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
        return consumer.arrow_reader(promote=promote, until_end=True)

    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match=text):
        connection.register("read", reader()).execute("select count(*) from read").fetchall()
    with pytest.raises(SchemaError, match=text):
        polars.from_arrow(reader())


def test_a_plain_message_among_segments_is_told(kafka) -> None:
    put(kafka, numbers(0))
    kafka.append("t", 0, b"plain")
    put(kafka, numbers(2))
    reader = assigned_consumer(kafka).arrow_reader(timeout=0)
    assert reader.read_next_batch()["n"].to_pylist() == [0]
    text = r"plain message at t\[0\]@1 \(position 2097151\) .*: n is int64 in the stream and mis"
    with pytest.raises(SchemaError, match=text):
        reader.read_next_batch()


def test_another_topics_schema_is_told(kafka) -> None:
    kafka.create_topic("u")
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka, "t", "u")
    reader = consumer.arrow_reader(["n"], timeout=0)
    assert reader.read_next_batch()["n"].to_pylist() == [0]
    put(kafka, pa.table({"n": ["one"]}), topic="u")
    with pytest.raises(SchemaError, match=r"segment at u\[0\]@0 .*: n is int64 in the stream"):
        reader.read_next_batch()


def test_columns_in_another_order_are_told(kafka) -> None:
    put(kafka, pa.table({"n": [0], "s": ["x"]}))
    put(kafka, pa.table({"s": ["y"], "n": [1]}))
    reader = assigned_consumer(kafka).arrow_reader(timeout=0)
    assert reader.read_next_batch()["n"].to_pylist() == [0]
    with pytest.raises(SchemaError, match="its columns are in another order"):
        reader.read_next_batch()


def test_of_many_columns_that_differ_some_are_named(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({f"c{n:02}": [n] for n in range(30)}))
    reader = assigned_consumer(kafka).arrow_reader(timeout=0)
    assert reader.read_next_batch()["n"].to_pylist() == [0]
    with pytest.raises(SchemaError, match=r"; c08 is missing .* here; and 21 more differ\. "):
        reader.read_next_batch()


def test_after_another_schema_was_raised_another_reader_begins_there(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [1], "s": ["x"]}))
    consumer = assigned_consumer(kafka)
    reader = consumer.arrow_reader(timeout=0)
    assert reader.read_next_batch()["n"].to_pylist() == [0]
    with pytest.raises(SchemaError):
        reader.read_next_batch()
    assert consumer.arrow_reader(timeout=0).read_all()["s"].to_pylist() == ["x"]


def test_it_ends_before_another_schema_where_that_is_asked_for_and_tells_why(kafka) -> None:
    """The last of the streams ends for another reason, and so nothing is told."""
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [1], "s": ["x"]}))
    kafka.append("t", 0, b"plain")
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    told: list[SchemaError] = []
    counts = []
    while len(counts) == len(told):
        reader = consumer.arrow_reader(until_end=True, on_schema_change=told.append)
        counts.append(reader.read_all().num_rows)
    assert counts == [1, 1, 1]
    places = [str(error).partition(" does")[0] for error in told]
    assert places == [
        "segment at t[0]@1 (position 2097151)",
        "plain message at t[0]@2 (position 3145727)",
    ]


def test_what_its_schema_grew_from_is_promoted(kafka) -> None:
    put(kafka, pa.table({"n": pa.array([0], pa.int32())}))
    put(kafka, pa.table({"n": [1], "s": ["x"]}))
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    reader = assigned_consumer(kafka).arrow_reader(
        ["n", "s"], schema=schema, promote=True, timeout=0
    )
    assert reader.read_all().to_pylist() == [{"n": 0, "s": None}, {"n": 1, "s": "x"}]


def test_a_schema_that_the_first_record_does_not_fit_is_an_error(kafka) -> None:
    """Empty streams would follow one another for ever."""
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka)
    schema = pa.schema([("n", pa.int64())])
    reader = consumer.arrow_reader(schema=schema, timeout=0, on_schema_change=print)
    with pytest.raises(SchemaError, match=r": _kafka is missing in the stream and struct<"):
        reader.read_next_batch()
    assert consumer.poll(0).value() == {"n": 0}


def test_it_ends_when_the_consumer_is_closed(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(1))
    consumer = assigned_consumer(kafka)
    reader = consumer.arrow_reader(["n"])
    assert reader.read_next_batch().num_rows == 1
    consumer.close()
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_closed_before_the_end_it_was_to_reach_it_says_so(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(1))
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    reader = consumer.arrow_reader(["n"], until_end=True)
    assert reader.read_next_batch().num_rows == 1
    consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        reader.read_next_batch()


def test_no_record_in_time_before_the_end_it_was_to_reach_is_an_error(kafka) -> None:
    """What is paused has no end; a consumer that cannot reach Kafka has none either."""
    put(kafka, numbers(0))
    put(kafka, numbers(1), partition=1)
    consumer = kafka.Consumer({**CONFIG, "enable.partition.eof": True})
    both = [TopicPartition("t", partition, 0) for partition in (0, 1)]
    consumer.assign(both)
    consumer.pause(both[1:])
    reader = consumer.arrow_reader(["n"], timeout=0, until_end=True)
    assert reader.read_next_batch()["n"].to_pylist() == [0]
    with pytest.raises(KafkaException, match="not every partition is at its end") as raised:
        reader.read_next_batch()
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    consumer.resume(both[1:])
    assert consumer.arrow_reader(["n"], until_end=True).read_all()["n"].to_pylist() == [1]


def test_a_bad_segment_ends_it_and_another_goes_on_after_it(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(1), damage=True)
    put(kafka, numbers(2))
    consumer = assigned_consumer(kafka)
    reader = consumer.arrow_reader(["n"], timeout=0)
    assert reader.read_next_batch()["n"].to_pylist() == [0]
    with pytest.raises(SegmentError, match=r"t\[0\]@1"):
        reader.read_next_batch()
    assert consumer.arrow_reader(["n"], timeout=0).read_all()["n"].to_pylist() == [2]


def test_what_is_bad_can_be_told_instead(kafka) -> None:
    put(kafka, numbers(0), damage=True)
    put(kafka, numbers(1))
    kafka.append("t", 0, b"?")
    kafka.append("t", 0, b'{"n": 2}')
    told: list[str] = []
    reader = assigned_consumer(kafka).arrow_reader(
        ["n"], value=Json(), timeout=0, on_error=lambda error: told.append(type(error).__name__)
    )
    assert reader.read_all()["n"].to_pylist() == [1, 2]
    assert told == ["SegmentError", "RowError"]


def test_what_was_asked_for_wrongly_is_raised_all_the_same(kafka) -> None:
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka)
    with pytest.raises(KafkaException, match="no column 'x'"):
        consumer.arrow_reader(["x"], timeout=0, on_error=print)
    assert consumer.poll(0).value() == {"n": 0}


def test_without_a_record_there_is_no_schema_to_take(kafka) -> None:
    with pytest.raises(KafkaException) as raised:
        assigned_consumer(kafka).arrow_reader(timeout=0)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT


def test_without_a_record_up_to_the_end_there_is_none_either(kafka) -> None:
    """It does not wait for one."""
    put(kafka, numbers(0))
    consumer = assigned_consumer(kafka, **{"enable.partition.eof": True})
    assert consumer.arrow_reader(["n"], until_end=True).read_all().num_rows == 1
    with pytest.raises(KafkaException, match="no record to take the schema from") as raised:
        consumer.arrow_reader(["n"], until_end=True)
    assert raised.value.args[0].code() == KafkaError._PARTITION_EOF
    schema = pa.schema([("n", pa.int64())])
    assert consumer.arrow_reader(["n"], schema=schema, until_end=True).read_all().num_rows == 0


def test_ends_need_to_be_told(kafka) -> None:
    with pytest.raises(ConfigError, match=r"needs enable\.partition\.eof=true"):
        assigned_consumer(kafka).arrow_reader(until_end=True)
