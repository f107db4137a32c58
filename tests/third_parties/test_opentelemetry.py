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
    """Send and read, instrumented before or after the clients are imported; return what is seen."""
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
    seen = {}
    for kind, exchange in traffic.KINDS.items():
        if order == IN_PLACE and kind not in IN_PLACE_KINDS:
            continue
        exporter.clear()
        name = f"{topic}-{kind}"
        records = exchange(name, variant, servers, module)
        seen[kind] = seen_of(exporter.get_finished_spans(), records, name)
    return seen


def seen_of(spans: Any, records: traffic.Records, topic: str) -> dict[str, Any]:
    sent = sorted((each for each in spans if each.name == f"{topic} send"), key=start)
    place = {f"{each.context.span_id:016x}": at for at, each in enumerate(sent)}
    processed = sorted((each for each in spans if each.name == f"{topic} process"), key=start)
    return {
        "spans": Counter(each.name.replace(topic, "TOPIC") for each in spans),
        # Of what polls in one thread only: OpenTelemetry leaves the last span open in each.
        "roots": Counter(
            each.name.replace(topic, "TOPIC")
            for each in spans
            if not each.parent and "asynchronous" not in topic
        ),
        # The number of a record, and the place of the span that its header names.
        "records": [
            [number, place.get(headers.get("traceparent", "--").split("-")[2])]
            for number, headers in records
        ],
        "links": [
            [place.get(f"{link.context.span_id:016x}") for link in each.links] for each in processed
        ],
        "attributes": sorted(
            {
                f"{each.name} {name}={value}".replace(topic, "TOPIC")
                for each in spans
                for name, value in each.attributes.items()
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
    """Or the others, which are compared with it, would show nothing."""
    assert stock["polled"]["records"] == [[each, each] for each in range(traffic.COUNT)]
    assert stock["polled"]["links"] == [[each] for each in range(traffic.COUNT)]


@pytest.mark.parametrize("variant", traffic.VARIANTS)
@pytest.mark.parametrize("order", ORDERS)
def test_records_and_spans_are_those_of_stock(
    stock: dict[str, Any], order: str, variant: str, topic: str, servers: str
) -> None:
    assert child.run(observe, order, variant, topic, servers) == stock


def test_what_is_put_in_the_place_of_stock_is_traced_as_stock(
    stock: dict[str, Any], topic: str, servers: str
) -> None:
    found = child.run(observe, IN_PLACE, "rows", topic, servers)
    assert found == {kind: stock[kind] for kind in IN_PLACE_KINDS}


def exchange_by_proxy(topic: str, servers: str) -> traffic.Records:
    """Send by a producer that was instrumented by hand."""
    from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
    from opentelemetry.sdk.trace import TracerProvider

    import columnar_kafka

    made = columnar_kafka.Producer(traffic.producer_config(servers, "rows"))
    made.set_schema(topic, traffic.schema())
    traced = ConfluentKafkaInstrumentor.instrument_producer(made, TracerProvider())
    for n in range(traffic.COUNT):
        traced.produce(topic, value={"n": n})
    assert traced.flush(60) == 0
    assert traced.original_producer() is made
    return traffic.read(
        columnar_kafka.Consumer(traffic.consumer_config(servers, "rows", topic)), topic
    )


def test_a_producer_instrumented_by_hand_adds_a_header_to_each_record(
    topic: str, servers: str
) -> None:
    found = child.run(exchange_by_proxy, topic, servers)
    assert [number for number, _ in found] == list(range(traffic.COUNT))
    assert len({headers["traceparent"] for _, headers in found}) == traffic.COUNT
