"""OpenTelemetry's automatic instrumentation sees our clients as it sees confluent-kafka's."""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from typing import Any

import child
import pytest
import traffic

ORDERS = ["instrumented first", "imported first"]
IN_PLACE = "instrumented, then put in place"
IN_PLACE_KINDS = ["polled", "consumed"]


def observe(order: str, variant: str, topic: str, servers: str) -> dict[str, Any]:
    """Send and read, instrumented before or after the clients are imported; return the spans."""
    from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument = functools.partial(
        ConfluentKafkaInstrumentor().instrument, tracer_provider=provider
    )
    if order.startswith("instrumented"):
        instrument()
    if order == IN_PLACE:
        traffic.put_ours_in_place(variant, {})
    is_ours = variant != "stock" and order != IN_PLACE
    module = importlib.import_module("columnar_kafka" if is_ours else "confluent_kafka")
    if not order.startswith("instrumented"):
        instrument()
    observed = {}
    for kind, exchange in traffic.KINDS.items():
        if order == IN_PLACE and kind not in IN_PLACE_KINDS:
            continue
        exporter.clear()
        name = f"{topic}-{kind}"
        records = exchange(name, variant, servers, module)
        observed[kind] = summary(exporter.get_finished_spans(), records, name)
    return observed


def summary(spans: Any, records: traffic.Records, topic: str) -> dict[str, Any]:
    sent = sorted((span for span in spans if span.name == f"{topic} send"), key=start)
    place = {f"{span.context.span_id:016x}": at for at, span in enumerate(sent)}
    processed = sorted((span for span in spans if span.name == f"{topic} process"), key=start)
    return {
        "spans": Counter(span.name.replace(topic, "TOPIC") for span in spans),
        # Only where one thread polls: OpenTelemetry leaves the last span of every thread open.
        "roots": Counter(
            span.name.replace(topic, "TOPIC")
            for span in spans
            if not span.parent and "asynchronous" not in topic
        ),
        # The number of each record, and the index of the span that its header names.
        "records": [
            [number, place.get(headers.get("traceparent", "--").split("-")[2])]
            for number, headers in records
        ],
        "links": [
            [place.get(f"{link.context.span_id:016x}") for link in span.links] for span in processed
        ],
        "attributes": sorted(
            {
                f"{span.name} {name}={value}".replace(topic, "TOPIC")
                for span in spans
                for name, value in span.attributes.items()
                if name != "messaging.message.id"
            }
        ),
    }


def start(span: Any) -> int:
    return span.start_time


@pytest.fixture(scope="module")
def stock(stock_topic: str, servers: str) -> dict[str, Any]:
    return child.run(observe, "instrumented first", "stock", stock_topic, servers)


def test_stock_is_traced(stock: dict[str, Any]) -> None:
    """The others are compared with stock, so they would prove nothing if this failed."""
    assert stock["polled"]["records"] == [[index, index] for index in range(traffic.COUNT)]
    assert stock["polled"]["links"] == [[index] for index in range(traffic.COUNT)]


@pytest.mark.parametrize("variant", traffic.VARIANTS)
@pytest.mark.parametrize("order", ORDERS)
def test_records_and_spans_are_those_of_stock(
    stock: dict[str, Any], order: str, variant: str, topic: str, servers: str
) -> None:
    assert child.run(observe, order, variant, topic, servers) == stock
    for kind in traffic.KINDS:
        traffic.check_messages(variant, f"{topic}-{kind}", servers)


def test_our_classes_put_in_the_place_of_stocks_are_traced_as_stock(
    stock: dict[str, Any], topic: str, servers: str
) -> None:
    observed = child.run(observe, IN_PLACE, "json", topic, servers)
    assert observed == {kind: stock[kind] for kind in IN_PLACE_KINDS}


def exchange_by_proxy(topic: str, servers: str) -> traffic.Records:
    """Send with a producer that was instrumented by hand; return the records."""
    from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
    from opentelemetry.sdk.trace import TracerProvider

    import columnar_kafka

    producer = columnar_kafka.Producer(traffic.producer_config(servers, "rows"))
    producer.set_schema(topic, traffic.schema())
    traced = ConfluentKafkaInstrumentor.instrument_producer(producer, TracerProvider())
    for n in range(traffic.COUNT):
        traced.produce(topic, value={"n": n})
    assert traced.flush(60) == 0
    assert traced.original_producer() is producer
    return traffic.read(
        columnar_kafka.Consumer(traffic.consumer_config(servers, "rows", topic)), topic
    )


def test_a_producer_instrumented_by_hand_adds_a_header_to_each_record(
    topic: str, servers: str
) -> None:
    records = child.run(exchange_by_proxy, topic, servers)
    assert [number for number, _ in records] == list(range(traffic.COUNT))
    assert len({headers["traceparent"] for _, headers in records}) == traffic.COUNT
