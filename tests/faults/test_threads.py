"""Many threads use one producer at once: 8 produce, one polls, others flush and ask its length."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer
from inside import pipeline_of
from reading import everything

from columnar_kafka import Producer
from columnar_kafka.position import pack
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError, Message

RUNS = 100
A_TEST = 10  # runs in one test
THREADS = 8
ROWS = 100_000
PARTITIONS = 4
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
# The bound is small enough for the threads to meet it.
CONFIG: dict[str, Any] = {
    "columnar.encoding": "parquet",
    "columnar.linger.ms": 500,
    "columnar.segment.rows": 20_000,
    "queue.buffering.max.messages": 100_000,
}


class Run:
    """One producer, used by all threads at once; what was refused, reported and raised."""

    def __init__(self, producer: Producer, topic: str, seed: int) -> None:
        self.producer = producer
        self.refused = 0
        self.seconds = 0.0
        self.raised: list[BaseException] = []
        self._topic = topic
        self._seed = seed
        self._places: list[list[int]] = [[] for _ in range(THREADS)]  # as reported
        self._failed: list[KafkaError] = []
        self._done = threading.Event()

    def run(self) -> None:
        since = time.monotonic()
        producers = [self._start(self._produce, number) for number in range(THREADS)]
        others = [
            self._start(self._poll),
            self._start(self._meddle, 1),
            self._start(self._meddle, 2),
        ]
        for thread in producers:
            thread.join()
        self._done.set()
        for thread in others:
            thread.join()
        assert self.producer.flush() == 0
        assert len(self.producer) == 0
        self.seconds = time.monotonic() - since

    def _start(self, target: Callable[..., None], *arguments: int) -> threading.Thread:
        def run() -> None:
            try:
                target(*arguments)
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def _produce(self, thread: int) -> None:
        produce, topic, note = self.producer.produce, self._topic, self._noter(thread)
        for n in range(thread * ROWS, thread * ROWS + ROWS):
            while True:
                try:
                    produce(topic, {"n": n}, on_delivery=note)
                except BufferError:
                    self.refused += 1
                    self.producer.poll(0.05)
                else:
                    break

    def _noter(self, thread: int) -> Callable[..., None]:
        append, failed = self._places[thread].append, self._failed.append

        def note(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed(error)
                return
            append(message.offset() * PARTITIONS + message.partition())

        return note

    def _poll(self) -> None:
        while not self._done.is_set():
            self.producer.poll(0.05)

    def _meddle(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        while not self._done.is_set():
            if chance.random() < 0.01:
                assert self.producer.flush(chance.random() * 0.05) >= 0
            else:
                assert 0 <= len(self.producer) <= THREADS * ROWS
                self._done.wait(chance.random() * 0.01)

    def check(self, messages: Iterable[Message]) -> None:
        """No record is missing, twice, out of order, or reported other than once, where it is."""
        assert self.raised == []
        assert self._failed == []
        stored = _columns(messages)
        assert np.array_equal(np.sort(stored["n"]), np.arange(THREADS * ROWS))
        for thread, places in enumerate(self._places):
            own = stored[stored["n"] // ROWS == thread]
            for partition in range(PARTITIONS):
                in_order = own["n"][own["place"] % PARTITIONS == partition]
                assert np.all(np.diff(in_order) > 0)
            assert np.array_equal(np.sort(np.array(places)), np.sort(own["place"]))
            places.clear()


STORED = np.dtype([("n", np.int64), ("place", np.int64)])


def _columns(messages: Iterable[Message]) -> np.ndarray:
    """Return number and place of each record, those of a partition in order.

    A place is a position and a partition in one number: position * PARTITIONS + partition.
    """
    parts = []
    for message in messages:
        assert message.error() is None
        headers: Any = message.headers()
        assert is_segment(headers)
        numbers = pq.read_table(pa.BufferReader(message.value()), columns=["n"])["n"].to_numpy()
        part = np.empty(len(numbers), dtype=STORED)
        part["n"] = numbers
        positions = pack(message.offset() or 0, 0, len(part)) + np.arange(len(part))
        part["place"] = positions * PARTITIONS + message.partition()
        parts.append(part)
    return np.concatenate(parts)


Record = Callable[[str, Any], None]


def note(record_property: Record, runs: list[Run]) -> None:
    """Keep the figures of one test's runs."""
    record_property("runs", len(runs))
    record_property("records each", THREADS * ROWS)
    record_property("BufferErrors", sum(run.refused for run in runs))
    record_property("seconds each", [round(run.seconds, 1) for run in runs])


@pytest.mark.parametrize("first", range(0, RUNS, A_TEST))
def test_threads_in_memory(record_property: Record, first: int) -> None:
    runs: list[Run] = []
    for number in range(first, first + A_TEST):
        with FakeKafka(auto_create_topics=False) as kafka:
            kafka.create_topic("t", PARTITIONS)
            producer = kafka.Producer({"bootstrap.servers": "memory", **CONFIG})
            producer.set_schema("t", SCHEMA)
            runs.append(Run(producer, "t", number))
            runs[-1].run()
            assert (
                pipeline_of(producer).queue.used_bytes,
                pipeline_of(producer).queue.records,
            ) == (0, 0)
            producer.close()
            runs[-1].check(kafka.arrived("t"))
    note(record_property, runs)


@pytest.mark.kafka
def test_threads_on_a_broker(record_property: Record, kafka, topic) -> None:
    name = topic(PARTITIONS)
    with Producer({"bootstrap.servers": kafka.bootstrap_servers, **CONFIG}) as producer:
        producer.set_schema(name, SCHEMA)
        run = Run(producer, name, 0)
        run.run()
        run.check(everything(kafka.bootstrap_servers, name, cls=Consumer))
    note(record_property, [run])
