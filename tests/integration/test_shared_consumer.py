"""Threads that share one consumer, on a real Kafka: ours does what confluent-kafka's does."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

RECORDS = 6000
PARQUET = {"columnar.encoding": "parquet"}
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "confluent-kafka": (confluent_kafka, {}, lambda _: False),
    "plain messages": (columnar_kafka, PARQUET, lambda _: False),
    "segments": (columnar_kafka, PARQUET, lambda _: True),
    "both": (columnar_kafka, PARQUET, lambda n: n // 500 % 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_record_comes_once_whatever_threads_do(
    kafka: LocalKafka, topic: TopicFactory, kind: str
) -> None:
    """Four threads take records, another commits, pauses and resumes, until they have all."""
    package, settings, is_record = KINDS[kind]
    name, servers = topic(3), {"bootstrap.servers": kafka.bootstrap_servers}
    send(columnar_kafka.Producer({**servers, **PARQUET}), name, is_record)
    consumer = package.Consumer(
        {**servers, **settings, "group.id": name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([name])
    counts, lock, raised = Counter[int](), threading.Lock(), list[BaseException]()

    def until_all_are_found(work: Callable[[], list[Any]]) -> None:
        try:
            while counts.total() < RECORDS and not raised:
                messages = work()
                with lock:
                    counts.update(map(number, messages))
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            raised.append(error)

    turns = count()  # each makes librdkafka fetch anew

    def poll() -> list[Any]:
        message = consumer.poll(0.1)
        return [] if message is None else [message]

    def disturb() -> list[Any]:
        partitions = consumer.assignment()
        if partitions and next(turns) < 20:
            consumer.pause(partitions[:1])
            consumer.commit(asynchronous=True)
            consumer.position(partitions)
            consumer.resume(partitions[:1])
        return []

    works = [poll, poll, lambda: consumer.consume(10, 0.1), lambda: consumer.consume(700, 0.1)]
    threads = [
        threading.Thread(target=until_all_are_found, args=[work], daemon=True)
        for work in [*works, disturb]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert raised == []
    assert counts == Counter(range(RECORDS))
    assert consumer.consume(1, 0.5) == []
    consumer.close()


def send(producer: Any, topic: str, is_record: Callable[[int], bool]) -> None:
    producer.set_schema(topic, pa.schema([("n", pa.int64())]))
    for n in range(RECORDS):
        producer.produce(topic, {"n": n} if is_record(n) else b"%d" % n, key=b"%d" % n)
        if n % 500 == 0:
            producer.flush()
    producer.close()


def number(message: Any) -> int:
    assert message.error() is None, message.error()
    value = message.value()
    return int(value["n"] if isinstance(value, dict) else value)
