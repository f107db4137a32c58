"""Every accepted record is reported exactly once, whatever its callbacks do."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message
from interrupting import Interrupted, Interrupter
from pipeline import CODES, Pipeline

from columnar_kafka import native
from columnar_kafka.producing.reporting import delivery

if TYPE_CHECKING:
    from collections.abc import Callable


class Raises:
    """A callback that notes its record and raises."""

    def __init__(self, seen: list[Any], tag: Any) -> None:
        self._seen = seen
        self._tag = tag

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self._seen.append(self._tag)
        raise LookupError(self._tag)


def note(seen: list[Any], tag: Any) -> Callable[..., None]:
    return lambda *_: seen.append(tag)


def sent(pipeline: Pipeline) -> None:
    """Seal and send; acknowledge, and report nothing."""
    pipeline.sender.seal()
    pipeline.run()
    pipeline.acknowledge()


@pytest.mark.parametrize(
    ("code", "partitions", "error"),
    [(b"1", None, KafkaError._MSG_TIMED_OUT), (b"long", 1, KafkaError._VALUE_SERIALIZATION)],
    ids=["waits for its topic", "does not fit"],
)
def test_a_record_that_never_became_columns_is_reported_as_it_was_produced(
    code: bytes, partitions: int | None, error: int
) -> None:
    """Its callback may produce it again."""
    place = pa.struct({"city": pa.string(), "zip": pa.int64()})
    nested = {"one": place, "many": pa.list_(place), "map": pa.map_(pa.string(), place)}
    schema = pa.schema({"code": pa.binary(1), **nested, "none": place})
    rome = {"city": "Rome", "zip": None}
    row = {"code": code, "one": rome, "many": [rome, None], "map": {"a": rome, "b": None}}
    pipeline = Pipeline(schema, partitions=partitions, message_timeout=5)
    pipeline.produce({**row, "none": None})
    pipeline.run(now=6)
    pipeline.poll()
    reports = [(report.error, report.value) for report in pipeline.reports]
    assert reports == [(error, {**row, "none": None})]


def test_reports_run_after_librdkafkas_own_poll() -> None:
    """User code may call anything there: inside it would abort the process."""
    pipeline = Pipeline()
    pipeline.numbers(0)
    sent(pipeline)
    assert pipeline.reports == []
    assert repr(pipeline.delivery) == "<Delivery 1 outcomes to report, 0 in flight>"
    assert pipeline.delivery.run() == 1
    assert len(pipeline.reports) == 1


def test_run_returns_how_many_records_it_reported() -> None:
    pipeline = Pipeline(segment_rows=3)
    pipeline.numbers(*range(7))
    sent(pipeline)
    assert (pipeline.delivery.run(), pipeline.delivery.run()) == (7, 0)


def test_records_without_a_callback_count_as_reported() -> None:
    pipeline = Pipeline()
    topic_format = pipeline.formats["t"]
    values, nbytes = topic_format.columns.take({"n": 1})
    metadata = (None, 5, None, None, None)
    pipeline.queue.accept(topic_format, 0, values, metadata, nbytes, 0.0)
    sent(pipeline)
    assert pipeline.delivery.run() == 1
    assert (pipeline.queue.used_bytes, pipeline.queue.records) == (0, 0)


@pytest.mark.parametrize("raising", [[0], [2], [4], [1, 3], [0, 1, 2, 3, 4]])
def test_a_raising_callback_loses_no_siblings_report(raising: list[int]) -> None:
    pipeline = Pipeline(CODES)
    seen: list[Any] = []
    for n in range(5):
        callback = Raises(seen, n) if n in raising else note(seen, n)
        pipeline.produce({"n": n}, on_delivery=callback)
    pipeline.produce({"n": 5, "code": b"long"}, on_delivery=note(seen, "refused"))
    sent(pipeline)
    raised = []
    for _ in range(10):
        try:
            pipeline.delivery.run()
        except LookupError as error:
            raised.append(error.args[0])
    assert raised == raising
    assert sorted(seen, key=str) == [0, 1, 2, 3, 4, "refused"]
    assert (pipeline.queue.used_bytes, pipeline.queue.records) == (0, 0)


def test_a_raising_callback_of_a_record_alone_gives_its_memory_back() -> None:
    pipeline = Pipeline()
    seen: list[Any] = []
    pipeline.produce(b"plain", on_delivery=Raises(seen, "p"))
    sent(pipeline)
    with pytest.raises(LookupError):
        pipeline.delivery.run()
    assert pipeline.delivery.run() == 0
    assert (pipeline.queue.used_bytes, pipeline.queue.records) == (0, 0)


def test_the_memory_of_a_segment_is_given_back_with_its_last_report() -> None:
    pipeline = Pipeline()
    seen: list[Any] = []
    pipeline.produce({"n": 0}, on_delivery=Raises(seen, 0))
    pipeline.numbers(1)
    sent(pipeline)
    with pytest.raises(LookupError):
        pipeline.delivery.run()
    assert pipeline.queue.records == 1
    assert pipeline.queue.used_bytes > 0
    pipeline.delivery.run()
    assert (pipeline.queue.used_bytes, pipeline.queue.records) == (0, 0)


def test_a_callback_may_produce_and_poll() -> None:
    pipeline = Pipeline(segment_rows=1)
    seen: list[Any] = []

    def again(_: KafkaError | None, message: Message) -> None:
        seen.append(message.value()["n"])  # type: ignore[index]
        if seen[-1] < 5:
            pipeline.produce({"n": seen[-1] + 1}, on_delivery=again)
            pipeline.flush()

    pipeline.produce({"n": 0}, on_delivery=again)
    pipeline.flush()
    assert seen == [0, 1, 2, 3, 4, 5]
    assert (pipeline.queue.used_bytes, pipeline.queue.records) == (0, 0)


def test_a_callback_that_polls_is_not_called_again_for_its_own_record() -> None:
    pipeline = Pipeline()
    seen: list[Any] = []

    def polls(tag: int) -> Callable[..., None]:
        def report(*_: Any) -> None:
            seen.append(tag)
            pipeline.poll()

        return report

    for n in range(3):
        pipeline.produce({"n": n}, on_delivery=polls(n))
    pipeline.flush()
    assert seen == [0, 1, 2]


def test_a_report_can_be_read_after_its_siblings() -> None:
    """A report reads from the columns when somebody asks: also later, and in any order."""
    pipeline = Pipeline()
    kept: list[Any] = []
    for n in range(200):
        pipeline.produce(
            {"n": n}, key=b"%d" % n, on_delivery=lambda _, message: kept.append(message)
        )
    pipeline.flush()
    assert [message.value()["n"] for message in reversed(kept)] == [*reversed(range(200))]
    assert [message.key() for message in kept] == [b"%d" % n for n in range(200)]


def test_failures_and_what_is_in_flight_are_counted() -> None:
    pipeline = Pipeline(CODES, segment_rows=2)
    pipeline.broker.fail_next(KafkaError(KafkaError._MSG_TIMED_OUT))
    pipeline.numbers(0, 1, 2, 3)
    sent(pipeline)
    pipeline.broker.hold()
    pipeline.produce({"n": 5, "code": b"long"})
    pipeline.numbers(4)
    pipeline.produce(b"plain")
    sent(pipeline)
    delivery = pipeline.delivery
    assert delivery.failures == 3
    assert delivery.in_librdkafka == 2


def test_a_failed_plain_message_is_reported_without_a_position() -> None:
    pipeline = Pipeline()
    pipeline.broker.fail_next(KafkaError(KafkaError._MSG_TIMED_OUT))
    pipeline.produce(b"x", key=b"k", tag="p")
    pipeline.flush()
    (report,) = pipeline.reports
    assert (report.error, report.value, report.key, report.offset) == (
        KafkaError._MSG_TIMED_OUT,
        b"x",
        b"k",
        None,
    )
    assert (pipeline.queue.used_bytes, pipeline.queue.records) == (0, 0)


class Yielding(Interrupter):
    """Has another thread do something at a place, instead of raising there."""

    def __init__(self, *modules: Any, place: int, meanwhile: Callable[[], Any]) -> None:
        super().__init__(*modules, places=set())
        self._place, self._meanwhile = place, meanwhile

    def _look(self) -> None:
        self.count += 1
        if self.count - 1 == self._place:
            other = threading.Thread(target=self._meanwhile)
            other.start()
            other.join()


def test_two_threads_that_report_plain_messages_report_each_once() -> None:
    """Wherever one is interrupted by the other."""
    runs = Pipeline(pa.schema({"n": pa.int64()})).delivery
    for place in range(100):
        seen: list[int] = []
        for n in range(3):
            runs.relay(note(seen, n), None, Message("t", 0, 0, None, b""))
        both = Yielding(delivery, place=place, meanwhile=runs.run_relayed)
        both.run(runs.run_relayed)
        assert sorted(seen) == [0, 1, 2]
        if place > both.count:
            break
    assert 3 < place < 99  # its beginning, and each round


@pytest.mark.skipif(not native.enabled, reason="in Python a handler may run before all else")
def test_a_handler_that_raises_in_librdkafkas_poll_loses_no_plain_report() -> None:
    runs, message = Pipeline(pa.schema({"n": pa.int64()})).delivery, Message("t", 0, 0, None, b"")
    for place in range(100):
        called: list[float] = []
        seen: list[int] = []

        def stock(timeout: float, called: list[float] = called, seen: list[int] = seen) -> int:
            called.append(timeout)
            runs.relay(note(seen, 1), None, message)
            return 1

        handler = Interrupter(delivery, places={place})
        with suppress(Interrupted):
            handler.run(partial(runs.serve, stock, 0.0))
        runs.run()
        assert len(seen) == len(called)
        if place > handler.count:
            break
    assert 0 < place < 99


def test_what_interrupts_librdkafkas_poll_does_not_call_it_again() -> None:
    """It would end the process."""
    pipeline, asked = Pipeline(pa.schema({"n": pa.int64()})), list[bool]()

    def stock(_: float) -> int:
        asked.append(pipeline.sender.interrupted)
        raise LookupError

    with pytest.raises(LookupError):
        pipeline.delivery.serve(stock, 0)
    assert asked == [True]
    assert not pipeline.sender.interrupted
