"""Arrow data becomes segments without being rows: every row once, in order, one report a call."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, murmur2
from pipeline import NUMBERS, Pipeline

from columnar_kafka.columns.from_arrow.arrow_input import conform
from columnar_kafka.position import pack
from columnar_kafka.producing import segment_limits
from columnar_kafka.producing.reporting.arrow_call import ArrowCall
from columnar_kafka.producing.sending import segmenter
from columnar_kafka.producing.sending.arrow_batch import ArrowBatch


class Reports(list[Any]):
    """What the one callback of each call was given."""

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        where = message.partition(), message.offset()
        code = None if error is None else error.code()
        assert (message.value(), message.error()) == (None, error)
        self.append((code, message.records, message.failed, *where))


def arrow(
    pipeline: Pipeline,
    numbers: Any,
    *,
    keys: list[Any] | None = None,
    partition: int = -1,
    report: Any = None,
) -> None:
    """Accept rows {"n": number} as `Producer.produce_arrow` does."""
    data = {"n": pa.array(numbers, pa.int64())} | ({} if keys is None else {"k": keys})
    topic_format = pipeline.formats["t"]
    rows = conform(
        pa.table(data), topic_format.records, key=None if keys is None else "k", now_ms=5
    )
    count = rows.columns.num_rows
    call = ArrowCall("t", count, report)
    nbytes = sum(row.nbytes for row in rows)
    arrow_batch = ArrowBatch(
        topic_format, partition, rows, call, pipeline.now, nbytes, pinned=partition >= 0
    )
    pipeline.queue.put(arrow_batch, nbytes, pipeline.now, count, urgent=True)


def settle(pipeline: Pipeline) -> None:
    for _ in range(100):
        pipeline.flush()
    assert (pipeline.queue.records, pipeline.queue.used_bytes) == (0, 0)


def numbers(pipeline: Pipeline, partition: int = 0) -> list[int]:
    return [record.value["n"] for record in pipeline.sent(partition)]


def test_one_call_is_one_report_at_its_last_record() -> None:
    pipeline, reports = Pipeline(), Reports()
    arrow(pipeline, range(10), report=reports)
    pipeline.run()
    assert reports == []
    assert pipeline.poll() == 10
    assert reports == [(None, 10, 0, 0, pack(0, 9, 10))]
    assert numbers(pipeline) == list(range(10))
    assert {record.timestamp for record in pipeline.sent()} == {5}
    settle(pipeline)


def test_a_large_call_is_cut_into_segments_by_their_encoded_size() -> None:
    pipeline, reports = Pipeline(target_bytes=20_000, segment_rows=1 << 20), Reports()
    given = [random.Random(n).getrandbits(62) for n in range(50_000)]
    arrow(pipeline, given, report=reports)
    settle(pipeline)
    assert numbers(pipeline) == given
    *sizes, _ = [len(message.value() or b"") for message in pipeline.kafka.messages("t")]
    assert max(sizes) < 30_000
    assert all(size > 10_000 for size in sizes[2:])  # the first ones tell how small rows become
    assert [report[:3] for report in reports] == [(None, 50_000, 0)]


def test_no_segment_has_more_rows_than_it_may() -> None:
    pipeline = Pipeline(segment_rows=30)
    arrow(pipeline, range(100))
    settle(pipeline)
    assert [len(segment) for segment in pipeline.segments()] == [30, 30, 30, 10]


def test_it_keeps_its_place_among_records_and_plain_messages() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1, 2)
    arrow(pipeline, [3, 4])
    pipeline.numbers(5)
    pipeline.produce(b"6")
    arrow(pipeline, [7])
    settle(pipeline)
    values = [
        record.value["n"] if isinstance(record.value, dict) else record.value
        for record in pipeline.sent()
    ]
    assert values == [1, 2, 3, 4, 5, b"6", 7]


@pytest.mark.parametrize("known", [True, False])
def test_rows_go_to_their_keys_partitions_in_order(*, known: bool) -> None:
    pipeline, reports = Pipeline(partitions=5 if known else None, partitioner="murmur2"), Reports()
    keys = [None if n % 7 == 0 else f"k{n % 11}" for n in range(500)]
    arrow(pipeline, range(500), keys=keys, report=reports)
    if not known:
        assert pipeline.run() > 0
        pipeline.kafka.create_topic("t", 5)
        pipeline.now += 2
    settle(pipeline)
    wanted: dict[int, list[int]] = {index: [] for index in range(5)}
    for n, key in enumerate(keys):
        wanted[murmur2((key or "").encode(), 5)].append(n)
    assert {index: numbers(pipeline, index) for index in range(5)} == wanted
    assert [report[:3] for report in reports] == [(None, 500, 0)]
    sent_keys = {record.key for partition in range(5) for record in pipeline.sent(partition)}
    assert sent_keys == {None if key is None else key.encode() for key in keys}


def test_without_keys_a_call_keeps_to_one_partition() -> None:
    pipeline = Pipeline(partitions=5)
    arrow(pipeline, range(500))
    settle(pipeline)
    assert sorted(len(numbers(pipeline, index)) for index in range(5)) == [0, 0, 0, 0, 500]


def test_the_report_tells_of_what_failed() -> None:
    pipeline, reports = Pipeline(segment_rows=10), Reports()
    pipeline.broker.fail_next(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS))
    arrow(pipeline, range(25), report=reports)
    settle(pipeline)
    assert reports == [(KafkaError.NOT_ENOUGH_REPLICAS, 25, 10, 0, pack(1, 4, 5))]
    assert numbers(pipeline) == list(range(10, 25))
    assert pipeline.delivery.failures == 10


def test_a_record_too_large_alone_fails_alone() -> None:
    schema = pa.schema([("n", pa.int64()), ("v", pa.binary())])
    pipeline, reports = Pipeline(schema, limit_bytes=20_000), Reports()
    table = pa.table({"n": [1, 2, 3], "v": [b"x", bytes(range(256)) * 100, b"z"]}, schema=schema)
    topic_format = pipeline.formats["t"]
    topic_format.encoder.compression = "none"  # type: ignore[attr-defined]
    rows = conform(table, topic_format.records, now_ms=5)
    arrow_batch = ArrowBatch(
        topic_format, 0, rows, ArrowCall("t", 3, reports), 0.0, table.nbytes, pinned=True
    )
    pipeline.queue.put(arrow_batch, table.nbytes, 0.0, 3, urgent=True)
    settle(pipeline)
    assert numbers(pipeline) == [1, 3]
    assert [report[:3] for report in reports] == [(KafkaError.MSG_SIZE_TOO_LARGE, 3, 1)]


@pytest.mark.parametrize("known", [True, False])
def test_a_purge_and_a_timeout_end_it(*, known: bool) -> None:
    pipeline, reports = Pipeline(partitions=1 if known else None, message_timeout=50.0), Reports()
    arrow(pipeline, range(5), report=reports)
    pipeline.purge()
    arrow(pipeline, range(7), report=reports)
    pipeline.now = 50.0
    settle(pipeline)
    codes = KafkaError._PURGE_QUEUE, KafkaError._MSG_TIMED_OUT
    assert reports == [(codes[0], 5, 5, None, None), (codes[1], 7, 7, None, None)]


def test_memory_is_held_until_the_last_segment_is_reported() -> None:
    pipeline = Pipeline(segment_rows=10)
    pipeline.broker.hold()
    arrow(pipeline, range(30))
    pipeline.run()
    for left in (20, 10, 0):
        pipeline.broker.release(1)
        pipeline.poll()
        assert pipeline.queue.records == left
        assert bool(pipeline.queue.used_bytes) == bool(left)


def test_a_callback_that_raises_is_not_called_again() -> None:
    pipeline, seen = Pipeline(segment_rows=10), []

    def report(*_: Any) -> None:
        seen.append(1)
        raise LookupError

    arrow(pipeline, range(30), report=report)
    pipeline.run()
    with pytest.raises(LookupError):
        pipeline.poll()
    settle(pipeline)
    assert seen == [1]


def test_the_schema_is_the_one_it_was_taken_with() -> None:
    pipeline = Pipeline()
    arrow(pipeline, [1])
    pipeline.set_schema(NUMBERS.append(pa.field("more", pa.string())))
    settle(pipeline)
    assert [record.value for record in pipeline.sent()] == [{"n": 1}]


def test_what_compresses_to_nothing_is_cut_by_what_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segmenter, "MOST_BYTES", 8000)
    pipeline = Pipeline(segment_rows=1 << 20)
    arrow(pipeline, [7] * 10_000)
    settle(pipeline)
    assert {len(segment) for segment in pipeline.segments()} == {1000}


def test_rows_that_compress_to_nothing_are_sealed_by_what_they_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment_limits, "MOST_BYTES", 2000)
    pipeline = Pipeline()
    pipeline.numbers(*[7] * 500)
    pipeline.flush()
    sizes = [len(segment) for segment in pipeline.segments()]
    assert len(sizes) > 5
    assert sum(sizes) == 500
