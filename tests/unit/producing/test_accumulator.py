"""What seals a batch, in which order things leave, and what waits for its partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from pipeline import NUMBERS, Pipeline

from columnar_kafka.columns.from_rows.rows_to_columns import CHUNK_ROWS

PURE = pytest.mark.parametrize("engine", ["pure"], indirect=True)
"""The chunks and the charges are those of this engine."""
BYTES = pa.schema([("v", pa.binary())])
OTHER = pa.schema([pa.field("n", pa.int64(), nullable=False), ("more", pa.string())])


def rows(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def blob(n: int) -> dict[str, bytes]:
    """A row of 1000 bytes; the core charges repeated values once."""
    return {"v": b"%04d" % n * 250}


def charged(value: Any, schema: Any = NUMBERS) -> int:
    """What a record is charged when it is accepted, by either engine."""
    pipeline = Pipeline(schema)
    pipeline.produce(value)
    return pipeline.queue.used_bytes


def key_for(partition: int, pipeline: Pipeline) -> bytes:
    """A key that goes to that partition."""
    partitioner = pipeline.accumulator.partitioner
    count = pipeline.kafka.partitions("t")
    assert count is not None
    keys = (b"%d" % i for i in range(1000))
    return next(key for key in keys if partitioner.choose(key, count) == partition)


# --- what seals ---------------------------------------------------------------------------------


def test_nothing_is_sent_before_something_seals() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1, 2)
    pipeline.run(0.999)
    assert pipeline.segments() == []
    assert repr(pipeline.accumulator) == "<Accumulator 1 open, 0 sealed, 0 waiting>"


def test_the_number_of_rows_seals() -> None:
    pipeline = Pipeline(segment_rows=3)
    pipeline.numbers(*range(7))
    pipeline.run()
    assert pipeline.segments() == [rows(0, 1, 2), rows(3, 4, 5)]


def test_a_batch_that_cannot_be_sealed_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    pipeline.numbers(1, 2)
    pipeline.run()
    with monkeypatch.context() as patch:
        (batch,) = pipeline.accumulator.by_topic["t"].open.values()
        patch.setattr(type(batch), "seal", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pipeline.accumulator.seal_all()
    pipeline.accumulator.seal_all()
    pipeline.run()
    assert pipeline.segments() == [rows(1, 2)]


def test_the_age_of_the_first_record_seals_however_young_the_others() -> None:
    pipeline = Pipeline(linger=1.0)
    for i in range(10):
        pipeline.now = i / 10
        pipeline.numbers(i)
        pipeline.run()
    assert pipeline.segments() == []
    pipeline.run(1.0)
    assert pipeline.segments() == [rows(*range(10))]


def test_the_estimated_size_seals() -> None:
    """Before a topic has told, ten bytes in memory are guessed to be one of the segment."""
    pipeline = Pipeline(BYTES, target_bytes=1000)
    needed = -(-10_000 // charged(blob(0), BYTES))
    for i in range(needed):
        assert pipeline.segments() == []
        pipeline.produce(blob(i), tag=i)
        pipeline.run()
    assert [len(segment) for segment in pipeline.segments()] == [needed]


def test_the_estimate_is_learned_from_the_last_segments() -> None:
    pipeline = Pipeline(BYTES, target_bytes=10_000)
    pipeline.run()
    pipeline.formats["t"].limits.learn(taken_bytes=1000, encoded_bytes=1000)
    for n in range(20):
        pipeline.produce(blob(n))
    pipeline.run()
    size = -(-10_000 // charged(blob(0), BYTES))
    assert [len(segment) for segment in pipeline.segments()] == [size] * (20 // size)


def test_flush_seals_all_partitions() -> None:
    pipeline = Pipeline(partitions=2)
    pipeline.numbers(0, partition=0)
    pipeline.numbers(1, partition=1)
    pipeline.sender.seal()
    pipeline.run()
    assert [pipeline.segments(0), pipeline.segments(1)] == [[rows(0)], [rows(1)]]


@pytest.mark.parametrize("value", [b"plain", None])
def test_a_plain_message_seals_its_partition_and_no_other(value: bytes | None) -> None:
    pipeline = Pipeline(partitions=2)
    pipeline.numbers(0, partition=0)
    pipeline.numbers(1, partition=1)
    pipeline.produce(value, partition=0, tag="p")
    pipeline.numbers(2, partition=0)
    pipeline.run()
    assert [pipeline.segments(0), pipeline.segments(1)] == [[rows(0), value], []]


def test_a_new_schema_seals() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1)
    pipeline.set_schema(OTHER)
    pipeline.produce({"n": 2, "more": "x"})
    pipeline.run()
    assert pipeline.segments() == [rows(1)]
    pipeline.flush()
    assert pipeline.segments() == [rows(1), [{"n": 2, "more": "x"}]]


def test_a_new_schema_of_one_topic_does_not_seal_another() -> None:
    pipeline = Pipeline()
    pipeline.kafka.create_topic("u")
    pipeline.set_schema(NUMBERS, "u")
    pipeline.numbers(1)
    pipeline.numbers(2, topic="u")
    pipeline.set_schema(OTHER, "u")
    pipeline.run()
    assert (pipeline.segments(), pipeline.segments(topic="u")) == ([], [rows(2)])


def test_memory_that_others_hold_does_not_make_small_segments() -> None:
    """As while a broker is away: what is in flight holds most; sealing early frees nothing."""
    pipeline = Pipeline(partitions=4, queue_bytes=60_000)
    pipeline.broker.hold()
    refused = 0
    for n in range(4000):
        try:
            pipeline.produce({"n": n}, partition=n % 4)
        except BufferError:
            refused += 1
        pipeline.run()
    assert refused > 100
    assert 0 < len(pipeline.broker) < 40


@PURE
def test_at_half_of_the_memory_the_largest_batch_seals() -> None:
    charge = charged({"n": 1})
    pipeline = Pipeline(partitions=2, queue_bytes=10 * charge)
    pipeline.numbers(0, 1, 2, partition=0)
    pipeline.run()
    assert pipeline.segments(0) == []
    pipeline.numbers(3, partition=1)
    pipeline.run()
    assert (pipeline.segments(0), pipeline.segments(1)) == ([rows(0, 1, 2)], [])


def test_at_half_of_the_records_that_are_allowed_the_largest_batch_seals() -> None:
    pipeline = Pipeline(partitions=2, queue_records=12)
    pipeline.numbers(0, 1, 2, 3, partition=0)
    pipeline.numbers(4, partition=1)
    pipeline.run()
    assert pipeline.segments(0) == []
    pipeline.numbers(5, partition=1)
    pipeline.run()
    assert (pipeline.segments(0), pipeline.segments(1)) == ([rows(0, 1, 2, 3)], [])


# --- when to look -------------------------------------------------------------------------------


def test_the_sender_is_told_when_the_first_record_is_old_enough() -> None:
    pipeline = Pipeline(linger=1.0)
    pipeline.run(5.0)
    assert pipeline.produce({"n": 1}) is True
    assert pipeline.run(5.25) == 0.75


def test_a_second_record_wakes_nobody() -> None:
    pipeline = Pipeline(linger=1.0)
    pipeline.produce({"n": 1})
    pipeline.run()
    assert pipeline.produce({"n": 2}) is False
    assert pipeline.run(0.25) == 0.75


def test_records_that_the_sender_has_not_seen_belong_to_the_segment_that_is_due() -> None:
    pipeline = Pipeline(linger=1.0)
    pipeline.numbers(1)
    pipeline.run(0.0)
    pipeline.numbers(2)
    pipeline.run(1.0)
    assert pipeline.segments() == [rows(1, 2)]


def test_without_linger_a_record_is_sent_at_once() -> None:
    pipeline = Pipeline(linger=0.0)
    pipeline.run(5.0)
    assert pipeline.produce({"n": 1}) is True
    assert pipeline.run(5.0) == 300.0
    assert pipeline.segments() == [rows(1)]


def test_with_nothing_to_do_the_next_look_is_at_the_metadata() -> None:
    pipeline = Pipeline(refresh=300.0)
    assert pipeline.run(0.0) == 300.0


def test_metadata_that_is_never_refreshed_needs_no_look() -> None:
    assert Pipeline(refresh=-0.001).run(0.0) == float("inf")


def test_the_oldest_batch_of_any_topic_decides_the_next_look() -> None:
    pipeline = Pipeline(linger=1.0)
    pipeline.kafka.create_topic("u")
    pipeline.set_schema(NUMBERS, "u")
    pipeline.now = 0.5
    pipeline.numbers(1)
    pipeline.now = 0.25
    pipeline.numbers(2, topic="u")
    assert pipeline.run(0.5) == 0.75


@PURE
def test_a_full_chunk_wakes_the_sender_and_becomes_columns_early() -> None:
    pipeline = Pipeline(segment_rows=CHUNK_ROWS + 1)
    pipeline.numbers(0)
    pipeline.run()
    assert pipeline.produce({"n": 1}) is False
    for n in range(2, CHUNK_ROWS - 1):
        pipeline.produce({"n": n})
    before = pipeline.queue.used_bytes
    assert pipeline.produce({"n": -1}) is True
    pipeline.run()
    assert pipeline.segments() == []
    assert pipeline.queue.used_bytes < before / 2


# --- partitions ---------------------------------------------------------------------------------


def test_keyed_records_go_to_their_keys_partition() -> None:
    pipeline = Pipeline(partitions=4)
    keys = [key_for(partition, pipeline) for partition in range(4)]
    for partition in (2, 0, 3, 1, 2):
        pipeline.numbers(partition, key=keys[partition])
    pipeline.flush()
    assert [pipeline.segments(i) for i in range(4)] == [
        [rows(0)],
        [rows(1)],
        [rows(2, 2)],
        [rows(3)],
    ]


def test_records_without_a_key_stick_to_one_partition_for_a_batch() -> None:
    pipeline = Pipeline(partitions=8)
    pipeline.numbers(*range(50))
    pipeline.flush()
    assert sorted(len(pipeline.sent(i)) for i in range(8)) == [0] * 7 + [50]


def test_the_next_batch_without_keys_may_go_elsewhere() -> None:
    pipeline = Pipeline(partitions=8, segment_rows=1)
    pipeline.numbers(*range(200))
    pipeline.flush()
    assert sum(len(pipeline.sent(i)) > 0 for i in range(8)) > 1


def test_plain_messages_without_a_key_do_not_all_go_to_one_partition() -> None:
    pipeline = Pipeline(partitions=8)
    for _ in range(200):
        pipeline.produce(b"plain")
    pipeline.flush()
    assert sum(len(pipeline.sent(i)) > 0 for i in range(8)) > 1


def test_the_partition_that_was_asked_for_wins_over_the_key() -> None:
    pipeline = Pipeline(partitions=4)
    pipeline.numbers(1, key=key_for(0, pipeline), partition=3)
    pipeline.flush()
    assert pipeline.segments(3) == [rows(1)]


@pytest.mark.parametrize("value", [{"n": 1}, b"plain"])
def test_a_partition_that_does_not_exist_is_for_librdkafka_to_refuse(value: object) -> None:
    pipeline = Pipeline(partitions=4)
    pipeline.produce(value, partition=4)
    pipeline.flush()
    assert [report.error for report in pipeline.reports] == [KafkaError._UNKNOWN_PARTITION]
    assert pipeline.queue.used_bytes == 0


def test_partitions_that_are_added_are_known_after_the_refresh() -> None:
    pipeline = Pipeline(partitions=1, refresh=300.0)
    limits = pipeline.formats["t"].limits
    pipeline.run(0.0)
    pipeline.kafka.create_topic("t", 4)
    pipeline.run(299.9)
    assert limits.partitions == 1
    pipeline.run(300.0)
    assert limits.partitions == 4
    pipeline.numbers(1, partition=3)
    pipeline.flush()
    assert pipeline.segments(3) == [rows(1)]


# --- order --------------------------------------------------------------------------------------


def test_plain_messages_keep_their_place_among_the_records() -> None:
    pipeline = Pipeline(segment_rows=3)
    pipeline.numbers(0, 1)
    pipeline.produce(b"a", tag="a")
    pipeline.produce(b"b", tag="b")
    pipeline.numbers(*range(2, 7))
    pipeline.produce(None, key=b"k", tag="tombstone")
    pipeline.flush()
    assert pipeline.segments() == [rows(0, 1), b"a", b"b", rows(2, 3, 4), rows(5, 6), None]


def test_a_full_batch_does_not_overtake_a_chunk_on_its_way() -> None:
    pipeline = Pipeline(segment_rows=CHUNK_ROWS + 500)
    pipeline.numbers(*range(CHUNK_ROWS))
    pipeline.run()
    pipeline.numbers(*range(CHUNK_ROWS, 2 * CHUNK_ROWS + 1000))
    pipeline.flush()
    assert [record.value["n"] for record in pipeline.sent()] == [*range(2 * CHUNK_ROWS + 1000)]


# --- while the number of partitions is unknown --------------------------------------------------


def test_records_of_an_unknown_topic_wait_inside_the_memory_bound() -> None:
    pipeline = Pipeline(partitions=None)
    pipeline.run(0.0)
    pipeline.produce({"n": 1})
    pipeline.run(100.0)
    assert repr(pipeline.accumulator) == "<Accumulator 0 open, 0 sealed, 1 waiting>"
    assert pipeline.queue.records == 1
    assert pipeline.queue.used_bytes > 0


def test_an_unknown_topic_is_asked_for_once_a_second() -> None:
    pipeline = Pipeline(partitions=None)
    pipeline.run(-5.0)
    asked = [pipeline.accumulator.to_look_up(now) for now in (0.0, 0.5, 0.99, 1.0, 1.5, 2.0)]
    assert asked == [["t"], [], [], ["t"], [], ["t"]]


def test_a_topic_is_missing_since_it_was_first_looked_for() -> None:
    """Looking again in vain does not renew the time in which it may be created."""
    pipeline = Pipeline(partitions=None, propagation=30.0)
    pipeline.produce({"n": 1})
    pipeline.run(0.0)
    unknown = KafkaError(KafkaError._UNKNOWN_TOPIC)
    for now in (0.0, 29.0):
        pipeline.accumulator.topic_unusable("t", unknown, now)
    pipeline.run(29.5)
    pipeline.poll()
    assert pipeline.reports == []
    pipeline.run(30.5)
    pipeline.poll()
    assert [report.error for report in pipeline.reports] == [KafkaError._UNKNOWN_TOPIC]


def test_what_is_sealed_is_looked_at_at_once() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1)
    pipeline.run(0.0)
    assert pipeline.accumulator.next_look(0.0) == 1.0
    pipeline.accumulator.seal_all()
    assert pipeline.accumulator.next_look(0.0) == 0.0


def test_what_waited_is_sent_in_order_once_the_partitions_are_known() -> None:
    pipeline = Pipeline(partitions=None)
    pipeline.numbers(0, 1)
    pipeline.produce(b"plain", tag="p")
    pipeline.numbers(2)
    pipeline.set_schema(OTHER)
    pipeline.produce({"n": 3, "more": None}, tag=3)
    pipeline.run()
    pipeline.kafka.create_topic("t", 1)
    pipeline.run(1.0)
    pipeline.flush()
    expected = [rows(0, 1), b"plain", rows(2), [{"n": 3, "more": None}]]
    assert pipeline.segments() == expected


def test_keys_and_partitions_are_kept_while_records_wait() -> None:
    pipeline = Pipeline(partitions=None)
    other = Pipeline(partitions=4)
    key = key_for(2, other)
    pipeline.numbers(0, key=key)
    pipeline.numbers(1, partition=3)
    pipeline.kafka.create_topic("t", 4)
    pipeline.flush()
    pipeline.flush()
    assert [pipeline.segments(2), pipeline.segments(3)] == [[rows(0)], [rows(1)]]


def test_the_time_a_record_waited_counts_for_its_batch() -> None:
    pipeline = Pipeline(partitions=None, linger=1.0)
    pipeline.numbers(1)
    pipeline.run(0.0)
    pipeline.kafka.create_topic("t")
    pipeline.run(1.0)
    assert pipeline.segments() == [rows(1)]


def test_a_partition_that_turns_out_not_to_exist_is_told_in_the_report() -> None:
    pipeline = Pipeline(partitions=None)
    pipeline.numbers(1, partition=7)
    pipeline.numbers(2, partition=0)
    pipeline.kafka.create_topic("t", 1)
    pipeline.flush()
    pipeline.flush()
    errors = {report.tag: report.error for report in pipeline.reports}
    assert errors == {1: KafkaError._UNKNOWN_PARTITION, 2: None}
    assert pipeline.queue.used_bytes == 0


def test_what_waits_expires_alone_at_the_message_timeout() -> None:
    pipeline = Pipeline(partitions=None, message_timeout=10.0)
    pipeline.numbers(0)
    pipeline.produce(b"plain", key=b"k", tag="p", headers=[("h", b"v")])
    pipeline.now = 5.0
    pipeline.numbers(2)
    assert pipeline.run(9.5) <= 0.5
    pipeline.poll()
    assert pipeline.reports == []
    pipeline.run(10.0)
    pipeline.poll()
    timed_out = KafkaError._MSG_TIMED_OUT
    reports = [(report.tag, report.error, report.value, report.key) for report in pipeline.reports]
    assert reports == [(0, timed_out, {"n": 0}, None), ("p", timed_out, b"plain", b"k")]
    pipeline.run(15.0)
    pipeline.poll()
    assert (pipeline.reports[-1].tag, pipeline.queue.used_bytes, pipeline.queue.records) == (
        2,
        0,
        0,
    )
