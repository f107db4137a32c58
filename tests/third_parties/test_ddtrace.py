"""Datadog's instrumentation sees our clients as it sees confluent-kafka's."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from typing import Any

import child
import pytest
import traffic

ORDERS = ["instrumented first", "imported first", "ddtrace-run"]
ENVIRONMENT = {
    "DD_KAFKA_PROPAGATION_ENABLED": "true",
    "DD_KAFKA_EMPTY_POLL_ENABLED": "false",  # their number is random, with stock clients too
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_CRASHTRACKING_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_STARTUP_LOGS": "false",
}


def observe(order: str, variant: str, topic: str, servers: str) -> dict[str, Any]:
    """Send and read, instrumented before or after the clients are imported; return the spans."""
    if order == "ddtrace-run":
        importlib.import_module("ddtrace.auto")  # the command does nothing else
    from ddtrace import patch
    from ddtrace.trace import TraceFilter, tracer

    spans: list[Any] = []

    class Keep(TraceFilter):
        def process_trace(self, trace: list[Any]) -> None:
            spans.extend(trace)

    tracer.configure(trace_processors=[Keep()])
    if order == "instrumented first":
        patch(kafka=True)
    package = "confluent_kafka" if variant == "stock" else "columnar_kafka"
    module = importlib.import_module(package)
    if order == "imported first":
        patch(kafka=True)
    observed = {}
    for kind, exchange in traffic.KINDS.items():
        spans.clear()
        name = f"{topic}-{kind}"
        records = exchange(name, variant, servers, module)
        observed[kind] = summary(spans, records, name)
    return observed


def summary(spans: list[Any], records: traffic.Records, topic: str) -> dict[str, Any]:
    mine = [span for span in spans if span.get_tag("kafka.topic") == topic]
    sent = [span for span in mine if span.name == "kafka.produce"]
    place = {span.span_id: at for at, span in enumerate(sent)}
    tags = Counter(
        f"{span.name} {name}={json.dumps(value)}".replace(topic, "TOPIC")
        for span in mine
        for name, value in span.get_tags().items()
        if name not in {"_dd.p.tid", "kafka.cluster_id", "runtime-id"}
    )
    return {
        "spans": Counter(span.name for span in spans),
        # The number of each record, and the index of the span that its header names.
        "records": [
            [number, place.get(int(headers.get("x-datadog-parent-id", 0)))]
            for number, headers in records
        ],
        "parents": [place.get(span.parent_id) for span in mine if span.name == "kafka.consume"],
        "tags": tags,
    }


@pytest.fixture(scope="module")
def stock(stock_topic: str, servers: str) -> dict[str, Any]:
    return child.run(observe, "instrumented first", "stock", stock_topic, servers, **ENVIRONMENT)


def test_stock_is_traced(stock: dict[str, Any]) -> None:
    """The others are compared with stock, so they would prove nothing if this failed."""
    assert stock["polled"]["records"] == [[index, index] for index in range(traffic.COUNT)]
    assert stock["polled"]["parents"] == list(range(traffic.COUNT))


@pytest.mark.parametrize("variant", traffic.VARIANTS)
@pytest.mark.parametrize("order", ORDERS)
def test_records_and_spans_are_those_of_stock(
    stock: dict[str, Any], order: str, variant: str, topic: str, servers: str
) -> None:
    assert child.run(observe, order, variant, topic, servers, **ENVIRONMENT) == stock
    for kind in traffic.KINDS:
        traffic.check_messages(variant, f"{topic}-{kind}", servers)
