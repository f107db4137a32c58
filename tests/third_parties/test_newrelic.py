"""New Relic's instrumentation sees our clients as it sees confluent-kafka's."""

from __future__ import annotations

import gc
import importlib
from collections import Counter
from typing import Any

import child
import pytest
import traffic

ORDERS = ["agent first"]
"""New Relic sees nothing of modules that were imported before its agent, stock ones included."""
ENVIRONMENT = {
    "NEW_RELIC_DEVELOPER_MODE": "true",
    "NEW_RELIC_LICENSE_KEY": "developer-mode-sends-nothing",
    "NEW_RELIC_APP_NAME": "test",
    "NEW_RELIC_TRANSACTION_TRACER_TRANSACTION_THRESHOLD": "0",
}


def observe(order: str, variant: str, topic: str, servers: str) -> dict[str, Any]:
    """Send and read, with the agent started before the import; return the transactions."""
    assert order == "agent first"
    import newrelic.agent

    newrelic.agent.initialize()
    application = newrelic.agent.register_application(timeout=30)
    transactions: list[Any] = []
    from newrelic.core.application import Application

    Application.record_transaction = lambda _, data, __=None: transactions.append(data)
    package = "confluent_kafka" if variant == "stock" else "columnar_kafka"
    module = importlib.import_module(package)
    sends = traffic.send

    def send(*args: Any) -> None:
        with newrelic.agent.BackgroundTask(application, "send"):
            sends(*args)

    traffic.send = send
    observed = {}
    for kind, exchange in traffic.KINDS.items():
        transactions.clear()
        name = f"{topic}-{kind}"
        records = exchange(name, variant, servers, module)
        gc.collect()  # a consumer's last transaction ends with the consumer
        observed[kind] = summary(transactions, records, name)
    return observed


def summary(transactions: list[Any], records: traffic.Records, topic: str) -> dict[str, Any]:
    from newrelic.core.function_node import FunctionNode
    from newrelic.core.message_node import MessageNode

    nodes = [
        (transaction.path, node)
        for transaction in transactions
        for node in transaction.root.children
    ]
    sent = [node for _, node in nodes if isinstance(node, MessageNode)]
    place = {node.guid: at for at, node in enumerate(sent)}
    traced = [
        [number, place.get(headers.get("traceparent", "--").split("-")[2])]
        for number, headers in records
    ]
    if "asynchronous" in topic:  # its threads end their transactions at any time
        return {"records": traced}
    return {
        "records": traced,  # their numbers, and the index of the trace that a record's header names
        "transactions": Counter(
            transaction.path.replace(topic, "TOPIC") for transaction in transactions
        ),
        "nodes": Counter(
            f"{path}: {node.group if isinstance(node, FunctionNode) else ''} {node.name}".replace(
                topic, "TOPIC"
            )
            for path, node in nodes
            if "erialization/Value" not in node.name  # rows are not serialized
        ),
        "metrics": Counter(
            name.replace(topic, "TOPIC")
            for transaction in transactions
            for name, *_ in transaction.custom_metrics.metrics()
        ),
    }


@pytest.fixture(scope="module")
def stock(stock_topic: str, servers: str) -> dict[str, Any]:
    return child.run(observe, "agent first", "stock", stock_topic, servers, **ENVIRONMENT)


def test_stock_is_traced(stock: dict[str, Any]) -> None:
    """The others are compared with stock, so they would prove nothing if this failed."""
    assert stock["polled"]["records"] == [[index, index] for index in range(traffic.COUNT)]


@pytest.mark.parametrize("variant", traffic.VARIANTS)
@pytest.mark.parametrize("order", ORDERS)
def test_records_and_traces_are_those_of_stock(
    stock: dict[str, Any], order: str, variant: str, topic: str, servers: str
) -> None:
    assert child.run(observe, order, variant, topic, servers, **ENVIRONMENT) == stock
    for kind in traffic.KINDS:
        traffic.check_messages(variant, f"{topic}-{kind}", servers)


def without_headers(kind: str, topic: str, servers: str) -> list[int]:
    """Send records whose segments store no headers; return the numbers that arrive."""
    import newrelic.agent

    newrelic.agent.initialize()
    application = newrelic.agent.register_application(timeout=30)
    import columnar_kafka

    config = traffic.producer_config(servers, "rows") | {"columnar.metadata": "id"}
    with newrelic.agent.BackgroundTask(application, "send"):
        traffic.send(getattr(columnar_kafka, kind)(config), topic, "rows")
    reader = columnar_kafka.Consumer(traffic.consumer_config(servers, "rows", topic))
    return [number for number, _ in traffic.read(reader, topic)]


@pytest.mark.parametrize("kind", ["Producer", "SerializingProducer"])
def test_records_of_segments_without_headers_are_sent(kind: str, topic: str, servers: str) -> None:
    """New Relic's class is among the bases of confluent-kafka's SerializingProducer."""
    numbers = child.run(without_headers, kind, topic, servers, **ENVIRONMENT)
    assert numbers == list(range(traffic.COUNT))
