"""A topic's limit that is lowered under a running producer: nothing is lost, order is kept."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from pipeline import Pipeline

from columnar_kafka.broker.base import TopicLimits
from columnar_kafka.segment.headers import HEADER_BYTES

BLOBS = pa.schema([pa.field("n", pa.int64(), nullable=False), ("v", pa.binary())])
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
_random = random.Random(2)


def produce(pipeline: Pipeline, numbers: range, nbytes: int = 100, partition: int = -1) -> None:
    for n in numbers:
        row = {"n": n, "v": _random.randbytes(nbytes)}
        pipeline.produce(row, tag=n, partition=partition)


def arrived(pipeline: Pipeline) -> list[Any]:
    return [
        record.value["n"] if isinstance(record.value, dict) else record.value
        for record in pipeline.sent()
    ]


def settle(pipeline: Pipeline) -> None:
    """Send, acknowledge and report until nothing is outstanding."""
    pipeline.sender.seal()
    for _ in range(500):
        pipeline.run()
        pipeline.poll()
        if not pipeline.queue.records:
            break
    pipeline.run()
    assert pipeline.queue.used_bytes == 0
    assert repr(pipeline.sender) == "<Sender 0 sealed, 0 encoded>"


@pytest.mark.parametrize("told", [True, False])
def test_a_lowered_limit_loses_nothing_and_keeps_the_order(told: bool) -> None:
    pipeline = Pipeline(BLOBS, segment_rows=100)
    if not told:
        pipeline.broker.limits = lambda *_: TopicLimits()  # type: ignore[method-assign]
    produce(pipeline, range(1000))
    pipeline.kafka.create_topic("t", max_message_bytes=4000)
    settle(pipeline)
    assert arrived(pipeline) == list(range(1000))
    assert [(report.tag, report.error) for report in pipeline.reports] == [
        (n, None) for n in range(1000)
    ]
    offsets = [report.offset for report in pipeline.reports]
    assert offsets == sorted(set(offsets))


def test_what_comes_after_is_cut_before_it_is_sent() -> None:
    pipeline = Pipeline(BLOBS, segment_rows=100)
    pipeline.kafka.create_topic("t", max_message_bytes=4000)
    produce(pipeline, range(100))
    settle(pipeline)
    limits = pipeline.formats["t"].limits
    assert (limits.most, limits.target, limits.window) == (4000 - HEADER_BYTES, 3488, 4000)
    stored = pipeline.kafka.count("t")
    produce(pipeline, range(100, 200))
    pipeline.sender.seal()
    pipeline.run()
    handed_over = 0
    while pipeline.queue.records:
        handed_over += pipeline.acknowledge()
        pipeline.delivery.run()
        pipeline.run()
    assert handed_over == pipeline.kafka.count("t") - stored
    assert arrived(pipeline) == list(range(200))


def test_a_refused_batch_is_tried_again_one_by_one_before_anything_else() -> None:
    """librdkafka has all of a batch refused, and only one message of it may be too large."""
    pipeline = Pipeline(BLOBS, segment_rows=2)
    pipeline.broker.fail_next(TOO_LARGE, count=3)
    produce(pipeline, range(4))
    pipeline.produce(b"plain", tag="plain")
    pipeline.run()
    pipeline.broker.hold()
    produce(pipeline, range(4, 8))
    pipeline.acknowledge()  # all three are refused
    expected = [[0, 1], [2, 3], b"plain", [4, 5], [6, 7]]
    for done in range(3):
        pipeline.run()
        assert len(pipeline.broker) == 1
        assert [_numbers(segment) for segment in pipeline.segments()] == expected[:done]
        pipeline.broker.release(1)
        pipeline.acknowledge()
    pipeline.run()
    assert len(pipeline.broker) == 2
    pipeline.broker.release()
    settle(pipeline)
    assert [_numbers(segment) for segment in pipeline.segments()] == expected
    assert all(report.error is None for report in pipeline.reports)
    assert len(pipeline.reports) == 9


def _numbers(segment: Any) -> Any:
    return [row["n"] for row in segment] if isinstance(segment, list) else segment


def test_one_record_that_is_too_large_alone_fails_alone() -> None:
    pipeline = Pipeline(BLOBS, segment_rows=10)
    pipeline.kafka.create_topic("t", max_message_bytes=6000)
    produce(pipeline, range(5))
    produce(pipeline, range(5, 6), nbytes=9000)
    produce(pipeline, range(6, 10))
    settle(pipeline)
    failed = [(report.tag, report.error) for report in pipeline.reports if report.error is not None]
    assert failed == [(5, KafkaError.MSG_SIZE_TOO_LARGE)]
    assert arrived(pipeline) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert len(pipeline.reports) == 10


def test_a_plain_message_that_is_too_large_alone_fails_alone() -> None:
    pipeline = Pipeline(BLOBS, segment_rows=10)
    pipeline.kafka.create_topic("t", max_message_bytes=6000)
    pipeline.produce(b"x" * 9000, tag="large")
    produce(pipeline, range(10))
    settle(pipeline)
    assert arrived(pipeline) == list(range(10))
    assert [
        (report.tag, report.error) for report in pipeline.reports if report.error is not None
    ] == [("large", KafkaError.MSG_SIZE_TOO_LARGE)]


def test_in_a_transaction_nothing_is_sent_again() -> None:
    pipeline = Pipeline(BLOBS, segment_rows=10, sends_again=False)
    pipeline.broker.fail_next(TOO_LARGE)
    produce(pipeline, range(20))
    settle(pipeline)
    assert arrived(pipeline) == list(range(10, 20))
    assert [report.error for report in pipeline.reports] == [TOO_LARGE.code()] * 10 + [None] * 10
    assert pipeline.delivery.failures == 10


def reject(pipeline: Pipeline, partitions: range, *, told: bool) -> None:
    """In a transaction: have a segment in each of these partitions rejected; nobody has looked."""
    pipeline.kafka.create_topic("t", 3, max_message_bytes=8000)
    if not told:
        pipeline.broker.limits = lambda *_: TopicLimits()  # type: ignore[method-assign]
    for partition in partitions:
        produce(pipeline, range(100), partition=partition)
    pipeline.run()
    pipeline.acknowledge()
    pipeline.delivery.run()
    assert {report.error for report in pipeline.reports} == {TOO_LARGE.code()}
    pipeline.reports.clear()


@pytest.mark.parametrize("told", [True, False])
def test_an_aborted_transaction_leaves_what_it_has_learned_to_the_next(*, told: bool) -> None:
    """Aborting purges, often before the sender has looked at what was rejected."""
    pipeline = Pipeline(BLOBS, partitions=3, segment_rows=100, sends_again=False)
    reject(pipeline, range(1), told=told)
    pipeline.purge()
    produce(pipeline, range(100), partition=0)
    settle(pipeline)
    assert arrived(pipeline) == list(range(100))
    assert {report.error for report in pipeline.reports} == {None}


def test_what_one_partition_has_rejected_is_learned_before_another_sends() -> None:
    pipeline = Pipeline(BLOBS, partitions=3, segment_rows=100, sends_again=False)
    reject(pipeline, range(1, 2), told=True)
    produce(pipeline, range(100), partition=0)
    settle(pipeline)
    assert arrived(pipeline) == list(range(100))
    assert {report.error for report in pipeline.reports} == {None}


def test_a_topic_is_asked_about_once_for_all_that_its_partitions_reject() -> None:
    """Each question may last a second, and `abort_transaction` waits for it."""
    pipeline = Pipeline(BLOBS, partitions=3, segment_rows=100, sends_again=False)
    asked: list[str] = []
    limits = pipeline.broker.limits

    def counted(topic: str, timeout: float) -> TopicLimits:
        asked.append(topic)
        return limits(topic, timeout)

    pipeline.broker.limits = counted  # type: ignore[method-assign]
    reject(pipeline, range(3), told=True)
    pipeline.run()
    assert asked == ["t"]


def test_a_purge_gives_up_what_came_back() -> None:
    pipeline = Pipeline(BLOBS, segment_rows=10)
    pipeline.broker.fail_next(TOO_LARGE, count=2)
    produce(pipeline, range(25))
    pipeline.run()
    pipeline.acknowledge()
    pipeline.purge()
    settle(pipeline)
    assert arrived(pipeline) == []
    assert sorted(report.tag for report in pipeline.reports) == list(range(25))
    assert {report.error for report in pipeline.reports} == {KafkaError._PURGE_QUEUE}


def test_what_came_back_may_time_out() -> None:
    pipeline = Pipeline(BLOBS, segment_rows=10, message_timeout=50.0)
    pipeline.broker.fail_next(TOO_LARGE, count=2)
    produce(pipeline, range(20))
    pipeline.run()
    pipeline.acknowledge()
    pipeline.now = 50.0
    settle(pipeline)
    assert arrived(pipeline) == []
    assert [report.error for report in pipeline.reports] == [KafkaError._MSG_TIMED_OUT] * 20


def test_librdkafka_never_has_more_of_a_partition_than_one_batch_may_hold() -> None:
    pipeline = Pipeline(BLOBS, partitions=2, segment_rows=10, window=4 * (HEADER_BYTES + 2500))
    pipeline.broker.hold()
    for n in range(300):
        row = {"n": n, "v": _random.randbytes(50)}
        pipeline.produce(row, tag=n, partition=n % 2)
    pipeline.run()
    held = len(pipeline.broker)
    assert 2 <= held < 20
    assert pipeline.run() > 0  # it waits for an acknowledgement, not for the clock
    pipeline.broker.release(1)
    pipeline.acknowledge()
    pipeline.run()
    assert len(pipeline.broker) == held
    pipeline.broker.release()
    settle(pipeline)
    numbers = [[record.value["n"] for record in pipeline.sent(partition)] for partition in (0, 1)]
    assert numbers == [list(range(0, 300, 2)), list(range(1, 300, 2))]
    assert len(pipeline.reports) == 300
