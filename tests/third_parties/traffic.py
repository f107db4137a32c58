"""Sends and reads records, with confluent-kafka's clients or with this package's."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/frameworks.md"
COUNT = 20
VARIANTS = ("none", "plain", "rows", "json")
"""`columnar.encoding=none`; `parquet` on a topic without a schema, and on one with a schema.

The values of the last are bytes on both sides, by `columnar.value.format`.
"""
FOR_FRAMEWORKS = ("none", "plain", "json")
"""Those with the values that a framework passes and expects."""
HAVE_SEGMENTS = ("rows", "json")
LINGER = {"columnar.linger.ms": 20}

Records = list[tuple[int, dict[str, str]]]
"""The number and headers of every record."""


def keys(variant: str) -> dict[str, Any]:
    """Return the keys that make a client of this package what the variant says."""
    if variant == "stock":
        return {}
    value = {"columnar.value.format": "json"} if variant == "json" else {}
    return {"columnar.encoding": "none" if variant == "none" else "parquet", **value}


def producer_config(servers: str, variant: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers, **keys(variant)}


def consumer_config(servers: str, variant: str, topic: str) -> dict[str, Any]:
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    return producer_config(servers, variant) | group


def value(number: int, variant: str) -> Any:
    row = {"n": number}
    return row if variant == "rows" else json.dumps(row).encode()


def number(message: Any) -> int:
    assert message.error() is None, message.error()
    content = message.value()
    return (content if isinstance(content, dict) else json.loads(content))["n"]


def headers(message: Any) -> dict[str, str]:
    return {name: data.decode() for name, data in message.headers() or ()}


def put_ours_in_place(variant: str, schemas: dict[str, Any]) -> None:
    """Make a framework that is imported later use our clients."""
    import columnar_kafka

    known = {"columnar.schema.topics": schemas} if variant in HAVE_SEGMENTS else {}
    columnar_kafka.patch_confluent_kafka(
        producer=keys(variant) | known | LINGER, consumer=keys(variant)
    )


def snippet(heading: str, replaced: dict[str, str]) -> str:
    """Return the code under a heading of the page for users, with other names in it."""
    _, _, section = PAGE.read_text().partition(f"\n### {heading}\n")
    section = section.partition("\n##")[0]
    [code] = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for shown, used in replaced.items():
        assert shown in code
        code = code.replace(shown, used)
    return code


def check_messages(variant: str, topic: str, servers: str) -> None:
    """Check that the values have gone through Kafka as they should: all in segments, or plain."""
    expected = "segment" if variant in HAVE_SEGMENTS else "plain"
    assert set(kinds_of_messages(topic, servers)) == {expected}


def kinds_of_messages(topic: str, servers: str) -> list[str]:
    """Return what Kafka's messages of a topic are, each "segment" or "plain"; how many varies."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    config = {"bootstrap.servers": servers, "group.id": "kinds", "enable.partition.eof": True}
    found = []
    with Consumer(config) as consumer:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        ends = 0
        while ends < len(partitions):
            message = consumer.poll(30)
            if message.error() is None:
                found.append("segment" if "columnar.rows" in headers(message) else "plain")
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ends += 1
    return found


def send(producer: Any, topic: str, variant: str) -> None:
    if variant in HAVE_SEGMENTS:
        producer.set_schema(topic, schema())
    for index in range(COUNT):
        producer.produce(topic, value=value(index, variant))
    assert producer.flush(60) == 0


def schema() -> Any:
    import pyarrow as pa

    return pa.schema([pa.field("n", pa.int64(), nullable=False)])


def read(consumer: Any, topic: str) -> Records:
    consumer.subscribe([topic])
    records: Records = []
    while len(records) < COUNT:
        message = consumer.poll(0.2)
        if message is not None:
            records.append((number(message), headers(message)))
    consumer.commit(message)
    consumer.close()
    return records


def polled(topic: str, variant: str, servers: str, module: Any) -> Records:
    send(module.Producer(producer_config(servers, variant)), topic, variant)
    return read(module.Consumer(consumer_config(servers, variant, topic)), topic)


def consumed(topic: str, variant: str, servers: str, module: Any) -> Records:
    send(module.Producer(producer_config(servers, variant)), topic, variant)
    consumer = module.Consumer(consumer_config(servers, variant, topic))
    consumer.subscribe([topic])
    messages = consumer.consume(COUNT, 60)
    consumer.close()
    return [(number(message), headers(message)) for message in messages]


def serialized(topic: str, variant: str, servers: str, module: Any) -> Records:
    serializing = {
        "key.serializer": lambda key, _: None if key is None else str(key).encode(),
        "value.serializer": lambda value, _: value,
    }
    deserializing = {
        "key.deserializer": lambda key, _: None if key is None else key.decode(),
        "value.deserializer": lambda value, _: value,
    }
    send(
        module.SerializingProducer(producer_config(servers, variant) | serializing), topic, variant
    )
    config = consumer_config(servers, variant, topic) | deserializing
    return read(module.DeserializingConsumer(config), topic)


def asynchronous(topic: str, variant: str, servers: str, module: Any) -> Records:
    return asyncio.run(_asynchronous(topic, variant, servers, module))


async def _asynchronous(topic: str, variant: str, servers: str, module: Any) -> Records:
    aio = importlib.import_module(f"{module.__name__}.aio")
    producer = aio.AIOProducer(producer_config(servers, variant))
    if variant in HAVE_SEGMENTS:
        await producer.set_schema(topic, schema())
    for index in range(COUNT):
        await producer.produce(topic, value=value(index, variant))
    await producer.flush()
    await producer.close()
    consumer = aio.AIOConsumer(consumer_config(servers, variant, topic))
    await consumer.subscribe([topic])
    first = await consumer.poll(60)
    messages = [first, *await consumer.consume(COUNT - 1, 60)]
    await consumer.close()
    return [(number(message), headers(message)) for message in messages]


KINDS = {
    "polled": polled,
    "consumed": consumed,
    "serialized": serialized,
    "asynchronous": asynchronous,
}
