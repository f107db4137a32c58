"""A FastStream service does with our clients what it does with confluent-kafka's."""

from __future__ import annotations

import asyncio
from typing import Any

import child
import pytest
import traffic

ORDERS = [{"id": n, "items": ["tea"], "gift": None} for n in range(traffic.COUNT)]


def served(variant: str, topic: str, servers: str) -> dict[str, Any]:
    """Publish to a service that answers on a second topic; return what both topics received."""
    return asyncio.run(_served(variant, topic, servers))


async def _served(variant: str, topic: str, servers: str) -> dict[str, Any]:
    if variant != "stock":
        schemas = {topic: traffic.schema(), f"{topic}-out": traffic.schema()}
        traffic.put_ours_in_place(variant, schemas)
    from faststream.confluent import KafkaBroker, KafkaMessage

    broker = KafkaBroker(servers)
    received: list[Any] = []
    answers: list[Any] = []
    done = asyncio.Event()

    @broker.subscriber(topic, group_id=topic, auto_offset_reset="earliest")
    @broker.publisher(f"{topic}-out")
    async def double(body: dict[str, int], message: KafkaMessage) -> dict[str, int]:
        received.append([body["n"], message.raw_message.key().decode(), message.headers["x"]])
        return {"n": 2 * body["n"]}

    @broker.subscriber(
        f"{topic}-out", group_id=f"{topic}-out", auto_offset_reset="earliest", batch=True
    )
    async def collect(bodies: list[dict[str, int]]) -> None:
        answers.extend(body["n"] for body in bodies)
        if len(answers) >= traffic.COUNT:
            done.set()

    async with broker:
        await broker.start()
        sent = [
            await broker.publish({"n": n}, topic, key=b"k", headers={"x": str(n)})
            for n in range(traffic.COUNT)
        ]
        async with asyncio.timeout(60):
            await done.wait()
    return {
        "sent": [[message.topic() == topic, message.error()] for message in sent],
        "received": received,
        "answers": sorted(answers),
    }


@pytest.fixture(scope="module")
def stock(stock_topic: str, servers: str) -> dict[str, Any]:
    return child.run(served, "stock", stock_topic, servers)


def test_stock_serves(stock: dict[str, Any]) -> None:
    """The others are compared with stock, so they would prove nothing if this failed."""
    assert stock == {
        "sent": [[True, None]] * traffic.COUNT,
        "received": [[n, "k", str(n)] for n in range(traffic.COUNT)],
        "answers": [2 * n for n in range(traffic.COUNT)],
    }


@pytest.mark.parametrize("variant", traffic.FOR_FRAMEWORKS)
def test_a_service_does_what_it_does_with_stock(
    stock: dict[str, Any], variant: str, topic: str, servers: str
) -> None:
    assert child.run(served, variant, topic, servers) == stock
    for each in (topic, f"{topic}-out"):
        traffic.check_messages(variant, each, servers)


def run_example(topic: str, servers: str) -> list[dict[str, Any]]:
    """Run the page's application; return what its subscriber was called with."""
    names = {"localhost:9092": servers, '"orders"': repr(topic), '"billing"': repr(topic)}
    namespace: dict[str, Any] = {}
    exec(traffic.snippet("FastStream", names), namespace)
    return asyncio.run(_billed(namespace["broker"], namespace["billed"], topic))


async def _billed(broker: Any, billed: Any, topic: str) -> list[dict[str, Any]]:
    async with broker:
        await broker.start()
        await asyncio.gather(*(broker.publish(order, topic) for order in ORDERS))
        async with asyncio.timeout(60):
            return [await billed.get() for _ in ORDERS]


def test_the_page_shows_how(topic: str, servers: str) -> None:
    billed = child.run(run_example, topic, servers)
    assert sorted(billed, key=lambda order: order["id"]) == ORDERS
    traffic.check_messages("json", topic, servers)
