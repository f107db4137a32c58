"""kombu's transport for Kafka, and Celery on it, do with our clients what they do with stock."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import child
import pytest
import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = [{"id": n, "items": ["tea"], "gift": None} for n in range(traffic.COUNT)]


def envelope() -> Any:
    """Return a schema of what kombu puts around a message; the rest has its headers and tags."""
    import pyarrow as pa

    names = ("body", "content-encoding", "content-type")
    return pa.schema([pa.field(name, pa.string(), nullable=False) for name in names])


def exchange(variant: str, topic: str, servers: str) -> dict[str, Any]:
    """Send to a queue and receive; one message is requeued and comes again."""
    if variant != "stock":
        traffic.put_ours_in_place(variant, {topic: envelope()})
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


@pytest.mark.parametrize("variant", traffic.FOR_FRAMEWORKS)
def test_a_queue_gives_what_it_gives_with_stock(
    stock: dict[str, Any], variant: str, topic: str, servers: str
) -> None:
    size = stock["size"] if variant == "none" else stock["size"] << 20  # in positions
    assert child.run(exchange, variant, topic, servers) == stock | {"size": size}
    traffic.check_messages(variant, topic, servers)


# --- Celery ---------------------------------------------------------------------------------------


def run_tasks(variant: str, topic: str, servers: str) -> list[Any]:
    """Have a worker do what a client asks of it; return the results."""
    if variant != "stock":
        traffic.put_ours_in_place(variant, {topic: envelope()})
    from celery import Celery

    app = Celery("orders", broker=f"confluentkafka://{servers}")
    app.conf.task_default_queue = topic

    @app.task
    def bill(order: dict[str, Any], discount: float | None = None) -> Any:
        return [order, discount]

    return results(app, bill)


def run_example(topic: str, servers: str) -> list[Any]:
    """Run the page's application; return the results."""
    names = {"localhost:9092": servers, '"billing"': repr(topic)}
    namespace: dict[str, Any] = {}
    exec(traffic.snippet("Celery and kombu", names), namespace)
    return results(namespace["app"], namespace["bill"])


def results(app: Any, task: Any) -> list[Any]:
    """Ask for a task for each order, and run a worker until it has done them all."""
    from celery import signals

    done: list[Any] = []
    signals.task_success.connect(lambda result, **_: done.append(result), weak=False)
    app.conf.broker_transport_options = {"wait_time_seconds": 0.2}
    for order in ORDERS:
        task.delay(order, discount=0.5)
    with worker(app):
        eventually(lambda: len(done) >= len(ORDERS))
    return done


@contextmanager
def worker(app: Any) -> Iterator[None]:
    """Run a worker in a thread, without what needs exchanges that the transport does not have."""
    from celery.contrib.testing.worker import start_worker

    app.conf.worker_enable_remote_control = False
    with start_worker(app, pool="solo", perform_ping_check=False):
        yield


def eventually(condition: Any) -> None:
    """Wait until something is the case."""
    import time

    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.parametrize("variant", ["stock", *traffic.FOR_FRAMEWORKS])
def test_a_worker_does_each_task_once(variant: str, topic: str, servers: str) -> None:
    done = child.run(run_tasks, variant, topic, servers)
    assert sorted(done, key=lambda result: result[0]["id"]) == [[order, 0.5] for order in ORDERS]
    traffic.check_messages(variant, topic, servers)


def test_the_page_shows_how(topic: str, servers: str) -> None:
    done = child.run(run_example, topic, servers)
    assert sorted(done) == [[order["id"], 0.5] for order in ORDERS]
    traffic.check_messages("json", topic, servers)
