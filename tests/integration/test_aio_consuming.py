"""`AIOConsumer` on a real Kafka: a group, transactions, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from columnar_kafka import Producer
from columnar_kafka.aio import AIOConsumer, AIOProducer

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
COUNT = 3000
_groups = itertools.count(1)


def send(kafka: LocalKafka, topic: str, count: int = COUNT) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer({**settings, "columnar.segment.rows": 100}) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in range(count):
            producer.produce(topic, {"n": n}, key=f"k{n}")


def make(kafka: LocalKafka, group: str, **config: Any) -> AIOConsumer:
    return AIOConsumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "columnar.encoding": "parquet",
            **config,
        }
    )


def group() -> str:
    return f"aio-{next(_groups)}"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_come_and_go_and_each_record_comes_once(
    kafka: LocalKafka, topic: TopicFactory, protocol: str
) -> None:
    """Each commits in its own callback what it has handed out."""
    name, members = topic(4), group()
    send(kafka, name)
    numbers: list[int] = []

    async def revoked(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        places = [place for place in await consumer.position(partitions) if place.offset >= 0]
        if places:
            await consumer.commit(offsets=places, asynchronous=False)

    async def read(most: int) -> None:
        settings = {"enable.auto.commit": False, "group.protocol": protocol}
        async with make(kafka, members, **settings) as consumer:
            await consumer.subscribe([name], on_revoke=revoked)
            mine = 0
            while len(numbers) < COUNT and mine < most:
                messages = await consumer.consume(50, 0.2)
                assert [message.error() for message in messages] == [None] * len(messages)
                numbers.extend(message.value()["n"] for message in messages)
                mine += len(messages)

    await asyncio.wait_for(asyncio.gather(read(COUNT), read(400), read(700)), 240)
    assert sorted(numbers) == list(range(COUNT))


@pytest.mark.parametrize("encoding", ["parquet", "none"])
async def test_cancelled_calls_lose_nothing(
    kafka: LocalKafka, topic: TopicFactory, encoding: str
) -> None:
    name, count = topic(), 400

    def write() -> None:
        if encoding == "parquet":
            send(kafka, name, count)
            return
        with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
            for n in range(count):
                producer.produce(name, b"%d" % n)

    chance = random.Random(2)
    numbers: list[int] = []

    async with make(kafka, group(), **{"columnar.encoding": encoding}) as consumer:
        await consumer.assign([TopicPartition(name, 0, 0)])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.consume(3), 0.05)
        await asyncio.to_thread(write)
        while len(numbers) < count:
            call = consumer.consume(chance.randint(1, 40), 0.3)
            try:
                messages = await asyncio.wait_for(call, chance.random() * 0.02)
            except asyncio.TimeoutError:
                messages = await consumer.consume(1, 120)
            values = [message.value() for message in messages]
            numbers.extend(value["n"] if encoding == "parquet" else int(value) for value in values)
    assert numbers == list(range(count))


def test_a_copy_in_transactions_is_exact_though_some_are_aborted(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    source, target, members = topic(), topic(), group()
    send(kafka, source, 500)
    chance = random.Random(3)

    place = TopicPartition(source, 0)

    async def copy(producer: AIOProducer) -> bool:
        """Copy what there is; whether a transaction was aborted, and it has to begin anew."""
        settings = {"enable.auto.commit": False, "isolation.level": "read_committed"}
        async with make(kafka, members, **settings) as consumer:
            await consumer.subscribe([source])
            _, end = await consumer.get_watermark_offsets(place)
            while (await consumer.committed([place]))[0].offset < end:
                messages = await consumer.consume(chance.randint(1, 120), 0.5)
                if not messages:
                    continue
                await producer.begin_transaction()
                for message in messages:
                    await producer.produce(target, message.value(), message.key())
                places = await consumer.position([place])
                metadata = await consumer.consumer_group_metadata()
                await producer.send_offsets_to_transaction(places, metadata)
                if chance.random() < 0.3:
                    await producer.abort_transaction()
                    return True
                await producer.commit_transaction()
        return False

    async def main() -> list[Any]:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
        async with AIOProducer({**settings, "transactional.id": target}) as producer:
            await producer.set_schema(target, SCHEMA)
            await producer.init_transactions()
            while await copy(producer):
                pass
        async with make(kafka, group(), **{"isolation.level": "read_committed"}) as consumer:
            await consumer.subscribe([target])
            return [*await consumer.consume(500, 120), *await consumer.consume(1, 0.5)]

    returned = asyncio.run(asyncio.wait_for(main(), 200))
    assert [message.value()["n"] for message in returned] == list(range(500))
    assert [message.key() for message in returned] == [b"k%d" % n for n in range(500)]
