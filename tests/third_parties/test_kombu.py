"""kombu's transport for Kafka does with our clients what it does with confluent-kafka's."""

from __future__ import annotations

from typing import Any

import child
import pytest
import traffic


def exchange(variant: str, topic: str, servers: str) -> dict[str, Any]:
    """Send to a queue and receive; one message is requeued and comes again."""
    if variant != "stock":
        # Bytes from a framework are plain messages, on a topic with a schema too.
        traffic.put_ours_in_place(variant, {topic: traffic.schema()}, decode=False)
    from kombu import Connection

    with Connection(
        f"confluentkafka://{servers}", transport_options={"wait_time_seconds": 0.2}
    ) as connection:
        queue = connection.SimpleQueue(topic)
        for n in range(traffic.COUNT):
            queue.put({"n": n}, headers={"x": str(n)})
        received = []
        for _ in range(traffic.COUNT):
            message = queue.get(timeout=30)
            received.append([message.payload, message.headers])
            message.ack()
        for n in range(3):
            queue.put({"n": n})
        size = queue.qsize()
        for _ in range(3):
            queue.get(timeout=30).ack()
        queue.put({"n": -1})
        rejected = queue.get(timeout=30)
        rejected.requeue()
        again = queue.get(timeout=30)
        again.ack()
        with pytest.raises(queue.Empty):
            queue.get(timeout=1)
        queue.close()
    return {"received": received, "again": [rejected.payload, again.payload], "size": size}


@pytest.fixture(scope="module")
def stock(stock_topic: str, servers: str) -> dict[str, Any]:
    return child.run(exchange, "stock", stock_topic, servers)


def test_stock_sends_and_receives(stock: dict[str, Any]) -> None:
    """The others are compared with stock, so they would prove nothing if this failed."""
    assert stock == {
        "received": [[{"n": n}, {"x": str(n)}] for n in range(traffic.COUNT)],
        "again": [{"n": -1}, {"n": -1}],
        "size": 3,
    }


@pytest.mark.parametrize("variant", traffic.VARIANTS)
def test_a_queue_gives_what_it_gives_with_stock(
    stock: dict[str, Any], variant: str, topic: str, servers: str
) -> None:
    size = stock["size"] if variant == "none" else stock["size"] << 20  # in positions
    assert child.run(exchange, variant, topic, servers) == stock | {"size": size}
