"""The endless reader: what duckdb and polars read, how it ends, and where the consumer then is."""

from __future__ import annotations

import threading
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tables import CONFIG, after, begin, put

from columnar_kafka import ConfigError, SchemaError, SegmentError, position
from columnar_kafka.plain import Json
from columnar_kafka.testing import FakeKafka


@pytest.fixture
def kafka() -> FakeKafka:
    found = FakeKafka()
    found.create_topic("t", 2)
    return found


def numbers(*found: int) -> pa.Table:
    return pa.table({"n": pa.array(found, pa.int64())})


def test_each_segment_is_a_batch_and_counts_when_it_is_asked_for(kafka) -> None:
    put(kafka, numbers(0, 1, 2))
    put(kafka, numbers(3))
    consumer = begin(kafka)
    reader = consumer.arrow_reader(["n"], timeout=0)
    assert after(consumer) == -1001
    assert reader.schema == pa.schema([("n", pa.int64())])
    assert reader.read_next_batch()["n"].to_pylist() == [0, 1, 2]
    assert after(consumer) == position.start(1)
    assert reader.read_next_batch()["n"].to_pylist() == [3]
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_a_segment_larger_than_a_batch_is_several(kafka) -> None:
    put(kafka, numbers(*range(5)))
    reader = begin(kafka).arrow_reader(["n"], timeout=0, num_records=2)
    assert [each.num_rows for each in reader] == [2, 2, 1]


def test_polars_reads_it(kafka) -> None:
    for n in range(3):
        put(kafka, pa.table({"n": [n], "s": ["x"]}))
    frame = polars.from_arrow(begin(kafka).arrow_reader(["s", "n"], timeout=0))
    assert frame.to_dict(as_series=False) == {"s": ["x"] * 3, "n": [0, 1, 2]}


def test_duckdb_reads_it(kafka) -> None:
    for n in range(3):
        put(kafka, pa.table({"n": [n], "s": ["x"]}))
    reader = begin(kafka).arrow_reader(["s", "n"], timeout=0)
    assert duckdb.sql("select s, sum(n) from reader group by s").fetchall() == [("x", 3)]
    assert reader.read_all().num_rows == 0


def test_it_works_in_the_thread_that_reads(kafka) -> None:
    put(kafka, numbers(0))
    reader = begin(kafka).arrow_reader(["n"], timeout=0)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(reader.read_all()["n"].to_pylist()))
    thread.start()
    thread.join()
    assert found == [[0]]


def test_it_ends_where_every_partition_does(kafka) -> None:
    """Without a timeout: this test would not end."""
    put(kafka, numbers(0))
    put(kafka, numbers(1), partition=1)
    consumer = kafka.Consumer({**CONFIG, "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", each, 0) for each in (0, 1)])
    found = consumer.arrow_reader(["n"], until_end=True).read_all()
    assert sorted(found["n"].to_pylist()) == [0, 1]


@pytest.mark.parametrize("schema", [None, pa.schema([("n", pa.int64())])], ids=["", "schema"])
@pytest.mark.parametrize("polls", [True, False])
def test_what_came_after_an_end_was_told_is_read_by_the_next(
    kafka, schema: pa.Schema | None, polls: bool
) -> None:
    consumer = begin(kafka, **{"enable.partition.eof": True})
    for n in range(3):
        put(kafka, numbers(n))
        reader = consumer.arrow_reader(["n"], schema=schema, until_end=True)
        assert reader.read_all()["n"].to_pylist() == [n]
        if polls:
            assert consumer.poll(0.01) is None


def test_ends_that_poll_was_told_count(kafka) -> None:
    put(kafka, numbers(0))
    consumer = begin(kafka, **{"enable.partition.eof": True})
    assert consumer.poll(0).error() is None
    assert consumer.poll(0).error().code() == KafkaError._PARTITION_EOF
    schema = pa.schema([("n", pa.int64())])
    assert consumer.arrow_reader(["n"], schema=schema, until_end=True).read_all().num_rows == 0


def test_a_sought_partition_is_not_at_its_end(kafka) -> None:
    put(kafka, numbers(0))
    consumer = begin(kafka, **{"enable.partition.eof": True})
    assert [consumer.poll(0).error() is None for _ in range(2)] == [True, False]
    consumer.seek(TopicPartition("t", 0, 0))
    assert consumer.arrow_reader(["n"], until_end=True).read_all().num_rows == 1


def test_it_ends_before_another_schema_and_another_begins_there(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [1], "s": ["x"]}))
    consumer = begin(kafka)
    assert consumer.arrow_reader(timeout=0).read_all()["n"].to_pylist() == [0]
    assert consumer.arrow_reader(timeout=0).read_all()["s"].to_pylist() == ["x"]


def test_what_its_schema_grew_from_is_promoted(kafka) -> None:
    put(kafka, pa.table({"n": pa.array([0], pa.int32())}))
    put(kafka, pa.table({"n": [1], "s": ["x"]}))
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    reader = begin(kafka).arrow_reader(["n", "s"], schema=schema, promote=True, timeout=0)
    assert reader.read_all().to_pylist() == [{"n": 0, "s": None}, {"n": 1, "s": "x"}]


def test_a_schema_that_the_first_record_does_not_fit_is_an_error(kafka) -> None:
    """Empty streams would follow one another for ever."""
    put(kafka, numbers(0))
    consumer = begin(kafka)
    reader = consumer.arrow_reader(schema=pa.schema([("n", pa.int64())]), timeout=0)
    with pytest.raises(SchemaError, match=r"_kafka: .* do not fit n: int64"):
        reader.read_next_batch()
    assert consumer.poll(0).value() == {"n": 0}


def test_it_ends_when_the_consumer_is_closed(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(1))
    consumer = begin(kafka)
    reader = consumer.arrow_reader(["n"])
    assert reader.read_next_batch().num_rows == 1
    consumer.close()
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_a_bad_segment_ends_it_and_another_goes_on_after_it(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(1), damage=True)
    put(kafka, numbers(2))
    consumer = begin(kafka)
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
    reader = begin(kafka).arrow_reader(
        ["n"], value=Json(), timeout=0, on_error=lambda error: told.append(type(error).__name__)
    )
    assert reader.read_all()["n"].to_pylist() == [1, 2]
    assert told == ["SegmentError", "RowError"]


def test_what_was_asked_for_wrongly_is_raised_all_the_same(kafka) -> None:
    put(kafka, numbers(0))
    consumer = begin(kafka)
    with pytest.raises(KafkaException, match="no column 'x'"):
        consumer.arrow_reader(["x"], timeout=0, on_error=print)
    assert consumer.poll(0).value() == {"n": 0}


def test_without_a_record_there_is_no_schema_to_take(kafka) -> None:
    with pytest.raises(KafkaException) as raised:
        begin(kafka).arrow_reader(timeout=0)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT


def test_without_a_record_up_to_the_end_there_is_none_either(kafka) -> None:
    """It does not wait for one."""
    put(kafka, numbers(0))
    consumer = begin(kafka, **{"enable.partition.eof": True})
    assert consumer.arrow_reader(["n"], until_end=True).read_all().num_rows == 1
    with pytest.raises(KafkaException, match="no record to take the schema from") as raised:
        consumer.arrow_reader(["n"], until_end=True)
    assert raised.value.args[0].code() == KafkaError._PARTITION_EOF
    schema = pa.schema([("n", pa.int64())])
    assert consumer.arrow_reader(["n"], schema=schema, until_end=True).read_all().num_rows == 0


def test_ends_need_to_be_told(kafka) -> None:
    with pytest.raises(ConfigError, match=r"needs enable\.partition\.eof=true"):
        begin(kafka).arrow_reader(until_end=True)
