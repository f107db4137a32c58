"""`AIOProducer` on a real Kafka: what it accepted is there, also when something goes wrong."""

from __future__ import annotations

import asyncio
import random
import string
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from reading import everything

from columnar_kafka import Consumer
from columnar_kafka.aio import AIOProducer

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])
COUNT = 5_000
PROGRAM = """
import asyncio, sys
import pyarrow as pa
from columnar_kafka.aio import AIOProducer
kept = []
async def main():
    producer = AIOProducer({"bootstrap.servers": sys.argv[1], "columnar.encoding": "parquet"})
    await producer.set_schema(sys.argv[2], pa.schema([("n", pa.int64())]))
    await producer.produce(sys.argv[2], {"n": 1})
    if sys.argv[3] == "kept":
        kept.append(producer)
asyncio.run(main())
"""


def make(kafka: LocalKafka, **config: Any) -> AIOProducer:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    return AIOProducer(settings | {key.replace("__", "."): value for key, value in config.items()})


def row(n: int) -> dict[str, Any]:
    return {"n": n, "text": None if n % 3 == 0 else f"text {n}"}


def read(servers: str, topic: str, **config: Any) -> list[Any]:
    """Return all records of a topic, each as n, row, key, headers, time, partition, position."""
    return sorted(map(record, everything(servers, topic, **config)), key=lambda entry: entry[5:])


def record(message: Any) -> tuple[Any, ...]:
    value = message.value()
    return (
        value["n"] if isinstance(value, dict) else None,
        value,
        message.key(),
        message.headers(),
        message.timestamp()[1],
        message.partition(),
        message.offset(),
    )


@pytest.mark.kafka
@pytest.mark.parametrize("encoding", ["parquet", "none"])
async def test_many_records_arrive_as_their_futures_say(
    kafka: LocalKafka, topic: TopicFactory, encoding: str
) -> None:
    name = topic(3)
    # Without it librdkafka may change the order where it sends something again.
    settings = {"columnar.encoding": encoding, "enable.idempotence": True}
    settings |= {"columnar.segment.rows": 500}  # so there are several in each partition

    async with make(kafka, **settings) as producer:
        if encoding == "parquet":
            await producer.set_schema(name, SCHEMA)
        futures = [
            await producer.produce(
                name,
                row(n) if encoding == "parquet" else b"%d" % n,
                f"key {n % 100}",
                headers=[("h", b"%d" % n), ("h", None)],
                timestamp=1000 + n,
            )
            for n in range(COUNT)
        ]
        messages = await asyncio.gather(*futures)
    if encoding == "parquet":
        stored = read(kafka.bootstrap_servers, name)
        assert stored == sorted(
            (record(message) for message in messages), key=lambda entry: entry[5:]
        )
        assert sorted(entry[0] for entry in stored) == list(range(COUNT))
        assert all(entry[1] == row(entry[0]) for entry in stored)
    else:
        stored = read(kafka.bootstrap_servers, name, **{"columnar.encoding": "none"})
        assert sorted(int(entry[1]) for entry in stored) == list(range(COUNT))
    for n, message in enumerate(messages):
        assert message.key() == b"key %d" % (n % 100)
    assert [entry[3] for entry in stored] == [[("h", b"%d" % (entry[4] - 1000)), ("h", None)]
                                              for entry in stored]  # fmt: skip
    in_partition: dict[tuple[Any, int], int] = {}
    for entry in stored:  # records of a key are in the order in which they were produced
        assert in_partition.get((entry[2], entry[5]), -1) < entry[4]
        in_partition[entry[2], entry[5]] = entry[4]


@pytest.mark.kafka
async def test_arrow_data_arrives(kafka: LocalKafka, topic: TopicFactory) -> None:
    name = topic()

    async with make(kafka) as producer:
        await producer.set_schema(name, SCHEMA)
        table = pa.Table.from_pylist([row(n) for n in range(COUNT)], SCHEMA)
        report = await (await producer.produce_arrow(name, table))
    assert report.records == COUNT
    assert [entry[1] for entry in read(kafka.bootstrap_servers, name)] == list(
        map(row, range(COUNT))
    )


@pytest.mark.kafka
async def test_what_fails_fails_alone(kafka: LocalKafka, topic: TopicFactory) -> None:
    """A row that does not fit, one that no broker would take, and a cancelled future."""
    name = topic()

    async with make(kafka) as producer:
        await producer.set_schema(name, SCHEMA)
        rows = [row(1), {"n": "x", "text": ""}, {"n": 2, "text": noise(2_000_000)}, row(3)]
        futures = [await producer.produce(name, value) for value in rows]
        futures[0].cancel()
        cancelled, unfit, large, stored = await asyncio.gather(*futures, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert isinstance(unfit, KafkaException)
    assert unfit.args[0].code() == KafkaError._VALUE_SERIALIZATION
    assert isinstance(large, KafkaException)
    assert large.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert stored.value() == row(3)
    assert [entry[0] for entry in read(kafka.bootstrap_servers, name)] == [1, 3]


def noise(length: int) -> str:
    """Return text that no compression makes small."""
    return "".join(random.Random(1).choices(string.ascii_letters, k=length))


@pytest.mark.kafka
async def test_a_broker_that_does_not_answer_is_waited_for(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    """produce waits for room, close for the broker; then all records are there, in order."""
    name, count = topic(), 500

    producer = make(kafka, queue__buffering__max__messages=100, columnar__linger__ms=50)
    await producer.set_schema(name, SCHEMA)
    kafka.nodes[0].suspend()
    try:
        tasks = [asyncio.create_task(producer.produce(name, row(n))) for n in range(count)]
        await asyncio.wait(tasks[:100])
        done, _ = await asyncio.wait(tasks, timeout=0.5)
    finally:
        kafka.nodes[0].resume()
    assert len(done) == 100
    futures = await asyncio.gather(*tasks)
    await producer.close()
    messages = [future.result() for future in futures]
    assert [message.value() for message in messages] == list(map(row, range(count)))
    assert [entry[0] for entry in read(kafka.bootstrap_servers, name)] == list(range(count))


@pytest.mark.kafka
def test_a_second_loop_goes_on_where_the_first_has_ended(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    name = topic()

    async def main(first: int) -> None:
        async with make(kafka) as producer:
            await producer.set_schema(name, SCHEMA)
            for n in range(first, first + 10):
                await producer.produce(name, row(n))

    for first in (0, 10):
        asyncio.run(main(first))
    assert [entry[0] for entry in read(kafka.bootstrap_servers, name)] == list(range(20))


@pytest.mark.kafka
async def test_consumed_offsets_are_committed_with_their_output(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    source, target = topic(), topic()
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": f"copy-{source}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "columnar.encoding": "parquet",
    }

    async with make(kafka) as producer:
        await producer.set_schema(source, SCHEMA)
        for n in range(4):
            await producer.produce(source, row(n))
    consumer = Consumer(settings)
    consumer.subscribe([source])
    async with make(kafka, **{"transactional.id": f"copy-{source}"}) as producer:
        await producer.set_schema(target, SCHEMA)
        await producer.init_transactions()
        for commits in (False, True):
            await producer.begin_transaction()
            message = await asyncio.to_thread(consumer.poll, 120)
            assert message is not None
            future = await producer.produce(target, message.value())
            at = confluent_kafka.TopicPartition(source, 0, message.offset() + 1)
            group = consumer.consumer_group_metadata()
            await producer.send_offsets_to_transaction([at], group)
            if commits:
                await producer.commit_transaction()
                assert future.result().value() == row(1)
            else:
                await producer.abort_transaction()
                assert isinstance(future.exception(), KafkaException)
    committed = consumer.committed([confluent_kafka.TopicPartition(source, 0)], 120)
    assert committed[0].offset == at.offset
    consumer.close()
    assert [entry[0] for entry in read(kafka.bootstrap_servers, target)] == [1]


@pytest.mark.parametrize("end", ["kept", "dropped"])
def test_a_program_that_forgets_to_close_has_sent_its_records(embedded, end: str) -> None:
    servers, topic = embedded.bootstrap_servers, f"aio-{end}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, servers, topic, end],
        check=False,
        timeout=240,
        capture_output=True,
        text=True,
    )
    waits = [line for line in done.stderr.splitlines() if line.startswith("waiting until Kafka")]
    assert (done.returncode, done.stderr.splitlines()) == (0, waits)  # on a busy machine
    assert [entry[1] for entry in read(servers, topic)] == [{"n": 1}]
