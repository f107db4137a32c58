"""Sends and reads records, with confluent-kafka's clients or with this package's."""

from __future__ import annotations

import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/frameworks.md"
COUNT = 20
VARIANTS = ("none", "plain", "rows")
"""`columnar.encoding=none`; `parquet` on a topic without a schema, and on one with a schema."""

Records = list[tuple[int, dict[str, str]]]
"""The number and headers of every record."""


def producer_config(servers: str, variant: str) -> dict[str, Any]:
    encoding = {"plain": "parquet", "rows": "parquet", "none": "none"}.get(variant)
    ours = {} if encoding is None else {"columnar.encoding": encoding}
    return {"bootstrap.servers": servers, **ours}


def consumer_config(servers: str, variant: str, topic: str) -> dict[str, Any]:
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    return producer_config(servers, variant) | group


def value(number: int, variant: str) -> Any:
    return {"n": number} if variant == "rows" else str(number).encode()


def number(message: Any) -> int:
    assert message.error() is None, message.error()
    content = message.value()
    return content["n"] if isinstance(content, dict) else int(content)


def headers(message: Any) -> dict[str, str]:
    return {name: data.decode() for name, data in message.headers() or ()}


def put_ours_in_place(variant: str, schemas: dict[str, Any], *, decode: bool = True) -> None:
    """Make a framework that is imported later use our clients, as docs/frameworks.md shows."""
    [example] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(example, namespace)
    encoding = {"columnar.encoding": "none" if variant == "none" else "parquet"}
    namespace["CONSUMER"] = encoding
    namespace["PRODUCER"] = encoding | {"columnar.linger.ms": 20}
    namespace["SCHEMAS"] = schemas if variant == "rows" else {}
    if not decode:
        del namespace["Producer"].produce


def send(producer: Any, topic: str, variant: str) -> None:
    if variant == "rows":
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
    if variant == "rows":
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
