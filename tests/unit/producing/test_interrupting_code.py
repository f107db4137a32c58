"""Signal handlers and finalizers that use the producer in the middle of one of its own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from inside import pipeline_of
from support import eventually

from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from columnar_kafka import Producer

SCHEMA = pa.schema([("n", pa.int64())])


class Produced:
    """A producer on a Kafka in memory, and the reports of its records."""

    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 1)
        self.reports: list[tuple[int | None, Any]] = []
        settings = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
        self.producer: Producer = self.kafka.Producer(settings | {"on_delivery": self._report})
        self.producer.set_schema("t", SCHEMA)

    def _report(self, error: KafkaError | None, message: Any) -> None:
        self.reports.append((None if error is None else error.code(), message.value()))


@pytest.fixture
def produced() -> Iterator[Produced]:
    made = Produced()
    yield made
    made.producer.close()


def in_the_queue(producer: Producer) -> AbstractContextManager[Any]:
    """Be in the middle of `produce`."""
    return pipeline_of(producer).queue.lock


def in_delivery(producer: Producer) -> AbstractContextManager[Any]:
    """Be in the middle of `poll`."""
    return pipeline_of(producer).delivery.lock


@pytest.fixture(params=[in_the_queue, in_delivery])
def interrupted(request: pytest.FixtureRequest) -> Callable[[Producer], Any]:
    return request.param  # type: ignore[no-any-return]


def test_a_flush_there_has_records_sent_and_does_not_wait_for_them(
    produced: Produced, interrupted: Callable[[Producer], Any]
) -> None:
    produced.producer.produce("t", {"n": 1})
    with interrupted(produced.producer):
        assert produced.producer.flush() == 1
    eventually(lambda: produced.kafka.messages("t"))
    assert produced.producer.flush() == 0
    assert produced.reports == [(None, {"n": 1})]


def test_a_purge_there_is_done_a_little_later(
    produced: Produced, interrupted: Callable[[Producer], Any]
) -> None:
    produced.producer.produce("t", {"n": 1})
    with interrupted(produced.producer):
        produced.producer.purge()
    produced.producer.flush()
    assert produced.reports == [(KafkaError._PURGE_QUEUE, {"n": 1})]


def test_a_purge_there_purges_librdkafkas_queue_too(
    produced: Produced, interrupted: Callable[[Producer], Any]
) -> None:
    produced.kafka.hold()
    produced.producer.produce("t", {"n": 1})
    pipeline_of(produced.producer).sender.seal()
    eventually(lambda: pipeline_of(produced.producer).delivery.in_librdkafka)
    with interrupted(produced.producer):
        produced.producer.purge()
    produced.kafka.release()
    produced.producer.flush()
    assert produced.reports == [(KafkaError._PURGE_QUEUE, {"n": 1})]


def test_a_poll_there_serves_nothing_twice(produced: Produced) -> None:
    produced.producer.produce("t", {"n": 1})
    with in_delivery(produced.producer):
        produced.producer.poll(0)
    produced.producer.flush()
    assert produced.reports == [(None, {"n": 1})]


def test_a_producer_that_is_closed_there_is_closed_by_a_thread(
    interrupted: Callable[[Producer], Any],
) -> None:
    produced = Produced()
    produced.producer.produce("t", {"n": 1})
    with interrupted(produced.producer):
        assert not produced.producer.close()
        with pytest.raises(RuntimeError, match="Producer has been closed"):
            produced.producer.produce("t", {"n": 2})
    eventually(lambda: pipeline_of(produced.producer).unusable)
    assert produced.reports == [(None, {"n": 1})]


def test_a_schema_may_be_set_while_one_is_set(produced: Produced) -> None:
    formats = pipeline_of(produced.producer).formats
    grown = formats.grown

    def interrupted(*arguments: Any) -> Any:
        formats.grown = grown  # type: ignore[method-assign]
        made = grown(*arguments)
        produced.producer.set_schema("other", SCHEMA)
        return made

    formats.grown = interrupted  # type: ignore[method-assign]
    produced.producer.set_schema("other", SCHEMA)
    produced.producer.produce("other", {"n": 1})
    produced.producer.flush()
    assert produced.reports == [(None, {"n": 1})]


def test_the_senders_thread_does_not_wait_for_itself(produced: Produced) -> None:
    """A finalizer runs in whichever thread collects garbage."""
    producer, sender = produced.producer, pipeline_of(produced.producer).sender
    flushed: list[int] = []
    drain = sender.accumulator.drain

    def finalize(now: float) -> Any:
        sender.accumulator.drain = drain  # type: ignore[method-assign]
        producer.produce("t", {"n": 2})
        flushed.append(producer.flush())
        producer.purge()
        return drain(now)

    producer.produce("t", {"n": 1})
    sender.accumulator.drain = finalize  # type: ignore[method-assign]
    producer.flush()
    assert flushed == [2]
    assert sorted(value["n"] for _, value in produced.reports) == [1, 2]
