"""Sealed batches become segments that fit and go out in order; what cannot, fails alone."""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from interrupting import Interrupted, Interrupter
from pipeline import CODES, Pipeline, Reported

from columnar_kafka.columns.from_rows.rows_to_columns import CHUNK_ROWS
from columnar_kafka.position import pack
from columnar_kafka.producing.engine.record_block import RecordBlock
from columnar_kafka.producing.sending import segmenter, sender
from columnar_kafka.producing.sending.sender import Sender
from columnar_kafka.segment.headers import parse_headers

if TYPE_CHECKING:
    from typing_extensions import Self

PURE = pytest.mark.parametrize("engine", ["pure"], indirect=True)
"""The chunks, the charges and the errors are those of this engine."""

BLOBS = pa.schema([("v", pa.binary())])
POISON = {"n": 2, "code": b"long"}
TIMED_OUT = KafkaError._MSG_TIMED_OUT
_random = random.Random(1)


def noise(nbytes: int) -> dict[str, bytes]:
    """A row that compression makes no smaller."""
    return {"v": _random.randbytes(nbytes)}


def rows(*numbers: int) -> list[dict[str, int]]:
    return [{"n": n} for n in numbers]


def outcomes(pipeline: Pipeline) -> list[tuple[Any, int | None]]:
    return [(report.tag, report.error) for report in pipeline.reports]


def nothing_is_left(pipeline: Pipeline) -> bool:
    parts = (pipeline.queue, pipeline.accumulator, pipeline.sender, pipeline.delivery)
    limit = pipeline.queue.limit_bytes
    return [repr(part) for part in parts] == [
        f"<RecordQueue 0/{limit} bytes, 0 records>",
        "<Accumulator 0 open, 0 sealed, 0 waiting>",
        "<Sender 0 sealed, 0 encoded>",
        "<Delivery 0 outcomes to report, 0 in flight>",
    ]


# --- the message --------------------------------------------------------------------------------


def test_a_segment_is_one_message_without_key_at_its_latest_records_time() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1, timestamp=900, key=b"k")
    pipeline.numbers(2, timestamp=700)
    pipeline.flush()
    (message,) = pipeline.kafka.messages("t")
    assert (message.key(), message.timestamp()) == (None, (1, 900))
    header, _ = parse_headers(message.headers())
    assert (header.rows, header.timestamp_min, header.timestamp_max) == (2, 700, 900)
    assert header.schema == pipeline.formats["t"].fingerprint


def test_a_record_from_the_future_does_not_date_its_neighbours() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1, timestamp=2_000_000)
    pipeline.flush()
    (message,) = pipeline.kafka.messages("t")
    assert message.timestamp() == (1, 1_000_000)
    assert pipeline.sent()[0].timestamp == 2_000_000


def test_a_record_before_1970_does_not_become_librdkafkas_now() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1, timestamp=-5)
    pipeline.flush()
    assert pipeline.kafka.messages("t")[0].timestamp() == (1, 1)
    assert pipeline.sent()[0].timestamp == -5


def test_segments_ids_are_the_producers_and_count() -> None:
    pipeline = Pipeline(segment_rows=1)
    pipeline.numbers(1, 2)
    pipeline.flush()
    first, second = (
        parse_headers(message.headers())[0].segment for message in pipeline.kafka.messages("t")
    )
    producer = first.partition("-")[0]
    assert (first, second) == (f"{producer}-0", f"{producer}-1")
    assert len(producer) == 20
    others = Pipeline()
    others.numbers(1)
    others.flush()
    assert others.sent()[0].segment != first


def test_records_keep_their_keys_headers_and_times() -> None:
    pipeline = Pipeline()
    pipeline.numbers(1, key=b"", headers=[("a", None), ("a", b"1")], timestamp=5)
    pipeline.numbers(2, key=None, headers=None, timestamp=6)
    pipeline.flush()
    records = [(record.key, record.headers, record.timestamp) for record in pipeline.sent()]
    assert records == [(b"", [("a", None), ("a", b"1")], 5), (None, None, 6)]


def test_without_metadata_the_file_has_only_the_users_columns() -> None:
    pipeline = Pipeline(members=())
    pipeline.numbers(1, 2, timestamp=7)
    pipeline.flush()
    assert [(record.value, record.timestamp) for record in pipeline.sent()] == [
        ({"n": 1}, 7),
        ({"n": 2}, 7),
    ]


@pytest.mark.parametrize(("count", "warnings"), [(29, 1), (30, 0)])
def test_many_small_segments_in_a_row_are_warned_of_once(
    caplog: pytest.LogCaptureFixture, count: int, warnings: int
) -> None:
    pipeline = Pipeline(segment_rows=count)
    for segments, most in (49, 0), (60, warnings):
        pipeline.numbers(*range(segments * count))
        pipeline.flush()
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == most
        assert all("had fewer than 30 records each" in text for text in told)


# --- reports ------------------------------------------------------------------------------------


def test_a_report_has_its_own_records_parts_and_position() -> None:
    pipeline = Pipeline(partitions=2)
    pipeline.numbers(0, partition=1)
    pipeline.flush()
    pipeline.reports.clear()
    pipeline.numbers(1, key=b"a", headers=[("h", b"1")], timestamp=5, partition=1)
    pipeline.numbers(2, timestamp=6, partition=1)
    pipeline.flush()
    assert pipeline.reports == [
        Reported(1, None, "", {"n": 1}, b"a", [("h", b"1")], 5, 1, pack(1, 0, 2)),
        Reported(2, None, "", {"n": 2}, None, None, 6, 1, pack(1, 1, 2)),
    ]


def test_a_plain_messages_report_speaks_positions_too() -> None:
    pipeline = Pipeline()
    pipeline.numbers(0)
    pipeline.produce(b"x", key=b"k", headers=[("h", b"1")], timestamp=5, tag="p")
    pipeline.flush()
    assert pipeline.reports[1] == Reported(
        "p", None, "", b"x", b"k", [("h", b"1")], 5, 0, pack(1, 0, 1)
    )


@PURE
def test_a_refused_rows_report_has_its_own_parts_and_its_neighbours_ship() -> None:
    pipeline = Pipeline(CODES)
    pipeline.numbers(1)
    pipeline.produce(POISON, key=b"k", headers=[("h", b"1")], timestamp=5, tag="bad")
    pipeline.numbers(3)
    pipeline.flush()
    assert pipeline.segments() == [[{"n": 1, "code": None}, {"n": 3, "code": None}]]
    (refused,) = (report for report in pipeline.reports if report.error is not None)
    assert refused.reason.startswith("field 'code': bytes b'long': ")
    expected = ("bad", -161, refused.reason, POISON, b"k", [("h", b"1")], 5, 0, None)
    assert refused == Reported(*expected)
    positions = [report.offset for report in pipeline.reports if report.error is None]
    assert positions == [pack(0, 0, 2), pack(0, 1, 2)]


def test_a_batch_of_nothing_but_poison_sends_nothing_and_reports_all() -> None:
    pipeline = Pipeline(CODES)
    for i in range(3):
        pipeline.produce(POISON, tag=i)
    pipeline.flush()
    assert pipeline.segments() == []
    assert outcomes(pipeline) == [(i, KafkaError._VALUE_SERIALIZATION) for i in range(3)]
    assert nothing_is_left(pipeline)


def test_poison_in_a_chunk_converted_early_is_reported_once() -> None:
    pipeline = Pipeline(CODES, segment_rows=CHUNK_ROWS + 10)
    pipeline.produce(POISON, tag="bad")
    pipeline.numbers(*range(CHUNK_ROWS - 1))
    pipeline.run()
    pipeline.poll()
    assert outcomes(pipeline) == [("bad", KafkaError._VALUE_SERIALIZATION)]
    pipeline.flush()
    assert outcomes(pipeline)[1:] == [(n, None) for n in range(CHUNK_ROWS - 1)]
    assert nothing_is_left(pipeline)


def test_refused_rows_count_as_memory_until_they_are_reported() -> None:
    """Memory is bounded by configuration: also for whoever sends nothing but poison."""
    pipeline = Pipeline(pa.schema([("code", pa.binary(1))]))
    for _ in range(10):
        pipeline.produce({"code": b"x" * 10_000})
    before = pipeline.queue.used_bytes
    pipeline.sender.seal()
    pipeline.run()
    assert pipeline.queue.used_bytes == before
    pipeline.poll()
    assert nothing_is_left(pipeline)


# --- size ---------------------------------------------------------------------------------------


def test_segments_are_cut_below_the_limit_in_order() -> None:
    pipeline = Pipeline(BLOBS, limit_bytes=20_000)
    given = [noise(1000) for _ in range(50)]
    for row in given:
        pipeline.produce(row)
    pipeline.flush()
    sizes = [len(message.value() or b"") for message in pipeline.kafka.messages("t")]
    assert len(sizes) > 2
    assert max(sizes) <= 20_000
    assert [record.value for record in pipeline.sent()] == given
    assert nothing_is_left(pipeline)


def test_a_record_too_large_alone_fails_alone() -> None:
    pipeline = Pipeline(BLOBS, limit_bytes=20_000)
    pipeline.kafka.create_topic("t", 1, max_message_bytes=20_512)
    for i in range(9):
        pipeline.produce(noise(30_000 if i == 4 else 1000), tag=i)
    pipeline.flush()
    expected = [(i, KafkaError.MSG_SIZE_TOO_LARGE if i == 4 else None) for i in range(9)]
    assert sorted(outcomes(pipeline)) == expected
    assert nothing_is_left(pipeline)


def test_what_is_known_to_be_too_large_is_never_sent() -> None:
    """A broker that refuses it refuses all that librdkafka put into the same batch."""
    pipeline = Pipeline(BLOBS, limit_bytes=20_000)
    pipeline.produce(noise(30_000), tag="large")
    pipeline.flush()
    assert pipeline.kafka.messages("t") == []
    assert outcomes(pipeline) == [("large", KafkaError.MSG_SIZE_TOO_LARGE)]
    assert "20000" in pipeline.reports[0].reason
    assert nothing_is_left(pipeline)


def test_text_that_is_long_does_not_make_a_segment_many_times_as_long() -> None:
    """Statistics hold the least and the greatest value several times over."""
    pipeline = Pipeline(BLOBS)
    pipeline.produce(noise(4000))
    pipeline.flush()
    (message,) = pipeline.kafka.messages("t")
    assert len(message.value() or b"") < 8000


def test_dots_in_names_do_not_keep_records_from_being_written() -> None:
    schema = pa.schema([("a.b", pa.string()), ("a", pa.struct([("b", pa.int64())]))])
    pipeline = Pipeline(schema)
    row = {"a.b": "x", "a": {"b": 1}}
    pipeline.produce(row)
    pipeline.flush()
    assert pipeline.segments() == [[row]]


# --- failures -----------------------------------------------------------------------------------


def test_a_send_that_fails_fails_its_records_and_no_others() -> None:
    pipeline = Pipeline(segment_rows=2)
    pipeline.broker.fail_next(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS))
    pipeline.numbers(*range(4))
    pipeline.flush()
    failed = KafkaError.NOT_ENOUGH_REPLICAS
    assert outcomes(pipeline) == [(0, failed), (1, failed), (2, None), (3, None)]
    assert [(r.value, r.offset) for r in pipeline.reports[:2]] == [
        ({"n": 0}, None),
        ({"n": 1}, None),
    ]
    assert nothing_is_left(pipeline)


def test_a_send_that_is_refused_for_good_fails_its_records() -> None:
    pipeline = Pipeline(segment_rows=1)
    pipeline.broker.refuse_next(KafkaError(KafkaError._FATAL), count=2)
    pipeline.numbers(0)
    pipeline.produce(b"plain", tag="p", key=b"k")
    pipeline.numbers(1)
    pipeline.flush()
    fatal = KafkaError._FATAL
    assert sorted(outcomes(pipeline), key=str) == [("p", fatal), (0, fatal), (1, None)]
    assert nothing_is_left(pipeline)


@pytest.mark.parametrize("error", [RuntimeError("closed"), OverflowError("int"), TypeError("x")])
def test_a_send_that_raises_anything_else_fails_its_records_and_blocks_no_others(
    error: Exception,
) -> None:
    """librdkafka's binding raises such for a closed client, or a partition that is no C int."""
    pipeline = Pipeline(segment_rows=1)
    real = pipeline.broker.send

    def send(*_: Any, **__: Any) -> None:
        pipeline.broker.send = real  # type: ignore[method-assign]
        raise error

    pipeline.broker.send = send  # type: ignore[method-assign]
    pipeline.numbers(0, 1)
    pipeline.flush()
    assert [tag for tag, code in outcomes(pipeline) if code is not None] == [0]
    assert pipeline.segments() == [rows(1)]
    assert nothing_is_left(pipeline)


def test_a_full_queue_is_tried_again_soon_and_nothing_overtakes() -> None:
    pipeline = Pipeline(segment_rows=1)
    pipeline.broker.refuse_next(count=2)
    pipeline.numbers(0)
    pipeline.produce(b"plain", tag="p")
    pipeline.numbers(1)
    assert pipeline.run() == 0.02
    assert pipeline.run() == 0.02
    assert pipeline.segments() == []
    pipeline.run()
    assert pipeline.segments() == [rows(0), b"plain", rows(1)]


def test_a_queue_that_stays_full_ends_at_the_message_timeout() -> None:
    pipeline = Pipeline(segment_rows=1, message_timeout=10.0)
    pipeline.broker.refuse_next(count=100)
    pipeline.numbers(0)
    pipeline.run(9.99)
    pipeline.poll()
    assert pipeline.reports == []
    pipeline.run(10.0)
    pipeline.poll()
    assert outcomes(pipeline) == [(0, TIMED_OUT)]
    assert nothing_is_left(pipeline)


def test_records_older_than_the_message_timeout_are_not_sent() -> None:
    pipeline = Pipeline(linger=100.0, message_timeout=10.0)
    pipeline.numbers(0)
    pipeline.produce(b"plain", tag="p")
    pipeline.now = 10.0
    pipeline.flush()
    assert sorted(outcomes(pipeline), key=str) == [("p", TIMED_OUT), (0, TIMED_OUT)]
    assert pipeline.segments() == []
    assert nothing_is_left(pipeline)


class _Failing:
    """An encoder that fails for some rows."""

    def __init__(self, real: Any, bad: int) -> None:
        self._real = real
        self._bad = bad

    def encode(self, batch: pa.RecordBatch, footer: Any) -> Any:
        if self._bad in batch.column(0).to_pylist():
            raise LookupError("not this one")
        return self._real.encode(batch, footer)


@PURE
def test_a_record_that_cannot_be_written_fails_alone() -> None:
    pipeline = Pipeline()
    form = pipeline.formats["t"]
    object.__setattr__(form, "encoder", _Failing(form.encoder, 5))
    pipeline.numbers(*range(9))
    pipeline.flush()
    failed = [report for report in pipeline.reports if report.error is not None]
    assert [(report.tag, report.value) for report in failed] == [(5, {"n": 5})]
    assert failed[0].reason == (
        "the record cannot be written as Parquet: LookupError: not this one"
    )
    assert sorted(tag for tag, code in outcomes(pipeline) if code is None) == [
        0,
        1,
        2,
        3,
        4,
        6,
        7,
        8,
    ]
    assert [record.value["n"] for record in pipeline.sent()] == [0, 1, 2, 3, 4, 6, 7, 8]
    assert nothing_is_left(pipeline)


@PURE
def test_whatever_keeps_a_chunk_from_becoming_columns_every_record_is_reported_once() -> None:
    pipeline = Pipeline(segment_rows=CHUNK_ROWS + 10)
    pipeline.numbers(0, timestamp="x")  # `Producer.produce` has to refuse it
    pipeline.numbers(*range(1, CHUNK_ROWS + 5))
    pipeline.run()
    pipeline.flush()
    assert sorted(tag for tag, _ in outcomes(pipeline)) == [*range(CHUNK_ROWS + 5)]
    assert nothing_is_left(pipeline)


@PURE
@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (pa.ArrowInvalid("offset overflow while concatenating arrays"), []),
        (AttributeError("no concat_arrays"), [logging.ERROR]),
    ],
    ids=["too large", "a mistake"],
)
def test_chunks_that_cannot_be_joined_become_segments_of_their_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, logged: Any
) -> None:
    """A mistake of ours is logged: small segments alone would hide it."""

    def concat(_: Any) -> Any:
        raise error

    monkeypatch.setattr(RecordBlock, "concat", concat)
    pipeline = Pipeline(segment_rows=CHUNK_ROWS + 10)
    numbers = range(CHUNK_ROWS + 2)
    pipeline.numbers(*numbers)
    pipeline.flush()
    assert pipeline.segments() == [rows(*numbers[:CHUNK_ROWS]), rows(*numbers[CHUNK_ROWS:])]
    assert outcomes(pipeline) == [(n, None) for n in numbers]
    assert nothing_is_left(pipeline)
    assert [record.levelno for record in caplog.records] == logged
    assert all(record.exc_info[1] is error for record in caplog.records)


def test_a_header_that_is_no_text_does_not_take_its_chunk_along() -> None:
    pipeline = Pipeline()
    pipeline.numbers(0)
    with suppress(TypeError, ValueError):  # refused before it was taken, which is best
        pipeline.numbers(1, headers=[("\ud800", b"")])
    pipeline.numbers(2)
    pipeline.flush()
    assert pipeline.segments() == [rows(0, 2)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="looks for signals in more places")
@pytest.mark.parametrize("wait", [lambda sender: sender.wait_progress(0.001), Sender.purge])
def test_wherever_a_wait_for_the_thread_is_interrupted_that_is_what_it_raises(wait: Any) -> None:
    pipeline = Pipeline()
    pipeline.sender.start()

    def places(interrupted: set[int]) -> int:
        interrupter = Interrupter(sender, threading, places=interrupted)
        try:
            interrupter.run(lambda: wait(pipeline.sender))
        except Interrupted:
            assert interrupter.count - 1 in interrupted
        else:
            assert interrupted.isdisjoint(range(interrupter.count))
        return interrupter.count

    try:
        for place in range(places(set())):
            places({place})
    finally:
        pipeline.sender.stop()


def test_every_wait_for_progress_ends_however_many_threads_wait() -> None:
    """Those that wait when it is set for the last time as well."""
    signal = sender.Signal()
    for _ in range(100):
        done = threading.Event()
        waits = [threading.Thread(target=wait, args=(signal, done), daemon=True) for _ in range(3)]
        for thread in waits:
            thread.start()
        for _ in range(50):
            signal.set()
            time.sleep(0.00002)  # about where the others look again: a race, whose result is one
        done.set()
        for thread in waits:
            thread.join(60)
        assert not any(thread.is_alive() for thread in waits)


def wait(signal: Any, done: threading.Event) -> None:
    while not done.is_set():
        signal.wait(0.0001)


# --- a purge ------------------------------------------------------------------------------------


def purge(pipeline: Pipeline) -> None:
    pipeline.purge()
    pipeline.poll()


def test_a_purge_fails_what_is_open_sealed_encoded_or_plain() -> None:
    pipeline = Pipeline(segment_rows=2)
    pipeline.broker.refuse_next(count=1)
    pipeline.numbers(0, 1, 2, 3)
    pipeline.produce(b"plain", tag="p", key=b"k")
    pipeline.numbers(4)
    pipeline.run()
    pipeline.broker.refuse_next(count=100)
    purge(pipeline)
    purged = KafkaError._PURGE_QUEUE
    expected = [("p", purged), *((n, purged) for n in range(5))]
    assert sorted(outcomes(pipeline), key=str) == sorted(expected, key=str)
    values = {report.tag: report.value for report in pipeline.reports}
    assert values == {"p": b"plain"} | {n: {"n": n} for n in range(5)}
    assert pipeline.segments() == []
    assert nothing_is_left(pipeline)


def test_a_purge_fails_what_waits_for_its_partition() -> None:
    pipeline = Pipeline(partitions=None)
    pipeline.numbers(0, key=b"k")
    pipeline.produce(b"plain", tag="p")
    purge(pipeline)
    purged = KafkaError._PURGE_QUEUE
    assert outcomes(pipeline) == [(0, purged), ("p", purged)]
    assert pipeline.reports[0].value == {"n": 0}
    assert nothing_is_left(pipeline)


def test_a_purge_leaves_what_librdkafka_has() -> None:
    pipeline = Pipeline(segment_rows=1)
    pipeline.broker.hold()
    pipeline.numbers(0)
    pipeline.run()
    purge(pipeline)
    assert (pipeline.reports, pipeline.delivery.in_librdkafka) == ([], 1)
    pipeline.broker.release()
    pipeline.poll()
    assert outcomes(pipeline) == [(0, None)]


def test_after_a_purge_records_flow_again() -> None:
    pipeline = Pipeline()
    pipeline.numbers(0)
    purge(pipeline)
    pipeline.numbers(1)
    pipeline.flush()
    assert outcomes(pipeline) == [(0, KafkaError._PURGE_QUEUE), (1, None)]


# --- memory -------------------------------------------------------------------------------------


@PURE
@pytest.mark.parametrize("members", [(), ("id", "key", "timestamp", "headers")])
def test_memory_is_charged_in_every_form_and_given_back_at_the_last_report(
    members: tuple[str, ...],
) -> None:
    pipeline = Pipeline(members=members, segment_rows=100)
    pipeline.broker.hold()
    pipeline.numbers(*range(99))
    charges = [pipeline.queue.used_bytes]
    pipeline.numbers(99)
    pipeline.run()
    charges.append(pipeline.queue.used_bytes)
    pipeline.broker.release()
    pipeline.acknowledge()
    charges.append(pipeline.queue.used_bytes)
    assert all(charges)
    assert charges == sorted(charges, reverse=True)
    assert pipeline.queue.records == 100
    pipeline.delivery.run()
    assert nothing_is_left(pipeline)


def test_a_full_buffer_refuses_before_it_takes() -> None:
    pipeline = Pipeline(queue_records=2)
    pipeline.numbers(0, 1)
    with pytest.raises(BufferError, match=r"queue\.buffering\.max\.messages allows 2"):
        pipeline.numbers(2)
    pipeline.flush()
    assert outcomes(pipeline) == [(0, None), (1, None)]
    pipeline.numbers(2)
    pipeline.flush()
    assert outcomes(pipeline)[2:] == [(2, None)]
    assert nothing_is_left(pipeline)


# --- the thread ---------------------------------------------------------------------------------


class Wakeup:
    """Stands for the thread's signal: ends the thread when it begins to wait."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.waits: list[float] = []
        self.wakes = 0
        self._sender = pipeline.sender
        pipeline.sender.wakeup = self  # type: ignore[assignment]

    def set(self) -> None:
        self.wakes += 1

    def wait(self, timeout: float) -> None:
        self.waits.append(timeout)
        self._sender.stopping = True


def test_the_time_that_sending_takes_is_no_part_of_the_wait() -> None:
    pipeline = Pipeline(linger=1.0, partitions=2, segment_rows=2)
    wakeup, send = Wakeup(pipeline), pipeline.broker.send

    def slow_send(*args: Any, **kwargs: Any) -> None:
        pipeline.now += 0.25
        send(*args, **kwargs)

    pipeline.broker.send = slow_send  # type: ignore[method-assign]
    pipeline.numbers(0, partition=0)
    pipeline.numbers(1, 2, partition=1)
    pipeline.sender.run()
    assert wakeup.waits == [0.75]


def test_a_record_that_comes_while_the_thread_works_shortens_its_sleep() -> None:
    pipeline = Pipeline(linger=1.0)
    wakeup, drain = Wakeup(pipeline), pipeline.accumulator.drain

    def late(now: float) -> Any:
        pipeline.now += 0.25
        pipeline.numbers(0)
        return drain(now)

    pipeline.accumulator.drain = late  # type: ignore[method-assign]
    pipeline.sender.run()
    assert wakeup.waits == [1.0]


def test_an_acknowledgement_wakes_the_thread_only_if_something_waits_for_it() -> None:
    pipeline = Pipeline(segment_rows=1, window=1.0)
    pipeline.numbers(0, 1)
    pipeline.run()
    wakeup = Wakeup(pipeline)
    pipeline.broker.poll(0)
    assert (pipeline.sender.collect(), wakeup.wakes) == (1, 1)
    pipeline.run()
    pipeline.broker.poll(0)
    assert (pipeline.sender.collect(), wakeup.wakes) == (1, 1)
    assert pipeline.segments() == [rows(0), rows(1)]


def test_a_rejection_wakes_the_thread() -> None:
    pipeline = Pipeline(BLOBS)
    pipeline.kafka.create_topic("t", 1, max_message_bytes=10_000)
    pipeline.produce(noise(6_000))
    pipeline.produce(noise(6_000))
    pipeline.sender.seal()
    pipeline.run()
    wakeup = Wakeup(pipeline)
    pipeline.broker.poll(0)
    assert (pipeline.sender.collect(), wakeup.wakes) == (1, 1)
    while pipeline.queue.records:
        pipeline.run()
        pipeline.poll()
    assert [len(segment) for segment in pipeline.segments()] == [1, 1]


class Log(logging.Handler):
    """Sees whether a pipeline's step is held while something is logged; may raise."""

    def __init__(self, pipeline: Pipeline, error: Exception | None = None) -> None:
        super().__init__()
        self.steps: list[bool] = []
        self._pipeline, self._error = pipeline, error

    def emit(self, _: logging.LogRecord) -> None:
        self.steps.append(self._pipeline.sender.working)
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        segmenter._log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        segmenter._log.removeHandler(self)


def concat_fails(_: Any) -> Any:
    raise AttributeError("no concat_arrays")


@PURE
@pytest.mark.parametrize(
    ("segment_rows", "numbers"), [(1, 50), (CHUNK_ROWS + 10, CHUNK_ROWS + 2)], ids=["small", "cut"]
)
def test_a_step_logs_nothing_before_it_has_ended(
    monkeypatch: pytest.MonkeyPatch, segment_rows: int, numbers: int
) -> None:
    """A thread that is inside a handler of logs has its lock, and may fork or wait."""
    monkeypatch.setattr(RecordBlock, "concat", concat_fails)
    pipeline = Pipeline(segment_rows=segment_rows)
    with Log(pipeline) as log:
        pipeline.numbers(*range(numbers))
        pipeline.flush()
    assert set(log.steps) == {False}
    assert outcomes(pipeline) == [(n, None) for n in range(numbers)]


def test_a_handler_of_logs_that_raises_costs_no_record() -> None:
    pipeline = Pipeline(segment_rows=1)
    with Log(pipeline, LookupError("a handler's")) as log:
        pipeline.numbers(*range(50))
        pipeline.flush()
    assert len(log.steps) == 1
    assert outcomes(pipeline) == [(n, None) for n in range(50)]
    assert nothing_is_left(pipeline)


class Failing:
    """A method that fails `times` times before it does its work; with `after`, after its work."""

    def __init__(self, owner: Any, name: str, times: int = 1, error: type = LookupError) -> None:
        self._real = getattr(owner, name)
        self._error = error
        self.left = times
        self.calls = 0
        setattr(owner, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self._error("as a test wants it")
        return self._real(*args, **kwargs)


@pytest.mark.parametrize("error", [LookupError, SystemExit])
def test_the_thread_outlives_whatever_a_step_did_to_it(
    error: type, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = Pipeline(segment_rows=1)
    Failing(pipeline.accumulator, "drain", error=error)
    pipeline.numbers(0)
    pipeline.sender.start()
    try:
        assert pipeline.broker.poll(60) == 1
    finally:
        pipeline.sender.stop()
    assert "columnar-kafka's sender failed; it tries again (failure 1)" in caplog.text
    assert pipeline.segments() == [rows(0)]


def test_a_log_that_fails_does_not_end_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(segment_rows=1)
    Failing(pipeline.accumulator, "drain")
    Failing(sender._log, "exception", times=10)
    monkeypatch.undo()
    pipeline.numbers(0)
    pipeline.sender.start()
    try:
        assert pipeline.broker.poll(60) == 1
    finally:
        pipeline.sender.stop()
        del sender._log.exception
    assert pipeline.segments() == [rows(0)]


def test_a_step_that_goes_on_failing_waits_longer_each_time_and_is_logged_a_few_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever wakes the thread, which a flush does all the time."""
    pipeline = Pipeline(segment_rows=1)
    Failing(pipeline.accumulator, "drain", times=1_000_000)
    waits: list[float] = []

    class Stop:
        def wait(self, timeout: float) -> None:
            waits.append(timeout)
            pipeline.sender.wake()
            pipeline.sender.stopping = len(waits) == 20

    pipeline.sender.stopped = Stop()  # type: ignore[assignment]
    pipeline.numbers(0)
    pipeline.sender.run()
    assert waits[:7] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0]
    assert set(waits[7:]) == {1.0}
    told = [record.message for record in caplog.records]
    assert told == [
        f"columnar-kafka's sender failed; it tries again (failure {n})" for n in (1, 2, 4, 8, 16)
    ]


def failing_step(pipeline: Pipeline) -> None:
    pipeline.sender.seal()
    with pytest.raises(LookupError):
        pipeline.run()


@pytest.mark.parametrize(
    ("stage", "method"),
    [
        ("accumulator", "drain"),
        ("accumulator", "look_at"),
        ("delivery", "failed"),
        ("segmenter", "encode"),
        ("dispatcher", "line_up"),
        ("dispatcher", "_take_rejected"),
    ],
)
def test_a_step_that_fails_keeps_what_it_held(stage: str, method: str) -> None:
    fails_in_a_step(stage, method)


@PURE
def test_a_step_that_fails_to_convert_keeps_what_it_held() -> None:
    fails_in_a_step("segmenter", "convert")


def fails_in_a_step(stage: str, method: str) -> None:
    pipeline = Pipeline(partitions=2, segment_rows=CHUNK_ROWS + 1)
    numbers = range(CHUNK_ROWS + 10)
    pipeline.numbers(*numbers, partition=0)
    pipeline.numbers(7, 8, partition=1)
    pipeline.set_schema(BLOBS, topic="unknown")
    pipeline.produce({"v": b"x"}, topic="unknown", tag="lost")
    owner: Any = pipeline if hasattr(pipeline, stage) else pipeline.sender
    failing = Failing(getattr(owner, stage), method)
    pipeline.queue.batch_filled("t", 0)
    pipeline.sender.seal()
    for _ in range(3):
        with suppress(LookupError):
            pipeline.run()
    with suppress(LookupError):
        pipeline.run(300.0)  # what waits for its partition is given up
    pipeline.flush()
    assert failing.calls > 1
    assert [n for segment in pipeline.segments(0) for n in segment] == rows(*numbers)
    assert [n for segment in pipeline.segments(1) for n in segment] == rows(7, 8)
    assert sorted(outcomes(pipeline), key=str) == sorted(
        [*((n, None) for n in (*numbers, 7, 8)), ("lost", TIMED_OUT)], key=str
    )
    assert nothing_is_left(pipeline)


def test_a_partition_that_fails_keeps_no_other_waiting() -> None:
    pipeline = Pipeline(partitions=2)
    pipeline.numbers(0, partition=0)
    pipeline.numbers(1, partition=1)
    failing = Failing(pipeline.sender.segmenter, "encode")
    failing_step(pipeline)
    assert failing.calls == 2
    assert [pipeline.segments(0), pipeline.segments(1)] == [[], [rows(1)]]
    pipeline.flush()
    assert pipeline.segments(0) == [rows(0)]
    assert outcomes(pipeline) == [(1, None), (0, None)]
    assert nothing_is_left(pipeline)


def test_records_that_cannot_even_be_cut_are_reported() -> None:
    pipeline = Pipeline()
    pipeline.numbers(0, 1, partition=0)
    pipeline.run()
    [batch] = pipeline.accumulator.by_topic["t"].open.values()
    batch.seal()
    for name in ("_to_segment",):
        Failing(pipeline.sender.segmenter, name, times=100)
    pipeline.flush()
    assert [error for _, error in outcomes(pipeline)] == [KafkaError._VALUE_SERIALIZATION] * 2
    assert nothing_is_left(pipeline)


def test_purge_waits_for_the_thread() -> None:
    pipeline = Pipeline(linger=1000.0)
    pipeline.sender.start()
    try:
        pipeline.numbers(0)
        pipeline.sender.purge()
        pipeline.poll()
    finally:
        pipeline.sender.stop()
    assert outcomes(pipeline) == [(0, KafkaError._PURGE_QUEUE)]


def test_a_purge_that_is_asked_for_during_another_one_is_done_too() -> None:
    pipeline = Pipeline(linger=1000.0)
    purge, wake = pipeline.sender.dispatcher.purge, pipeline.sender.wake
    entered, leave, asked = threading.Event(), threading.Event(), threading.Event()

    def slow(error: KafkaError) -> None:
        entered.set()
        assert leave.wait(60)
        purge(error)

    def waking() -> None:
        wake()
        if threading.current_thread() is second:
            asked.set()

    pipeline.sender.dispatcher.purge = slow  # type: ignore[method-assign]
    pipeline.sender.wake = waking  # type: ignore[method-assign]
    first, second = (threading.Thread(target=pipeline.sender.purge) for _ in range(2))
    pipeline.sender.start()
    try:
        pipeline.numbers(1)
        first.start()
        assert entered.wait(60)
        pipeline.numbers(2)
        second.start()
        assert asked.wait(60)
        leave.set()
        first.join(60)
        second.join(60)
        pipeline.poll()
        assert outcomes(pipeline) == [(n, KafkaError._PURGE_QUEUE) for n in (1, 2)]
    finally:
        pipeline.sender.stop()


def test_stop_ends_the_thread_and_may_be_called_twice() -> None:
    pipeline = Pipeline()
    pipeline.sender.start()
    pipeline.sender.stop()
    pipeline.sender.stop()
    assert not pipeline.sender.thread.is_alive()
