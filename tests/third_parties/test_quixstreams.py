"""A Quix Streams application does with our clients what it does with confluent-kafka's."""

from __future__ import annotations

import json
import shutil
import tempfile
from typing import Any

import child
import pytest
import traffic

GUARANTEES = ["at-least-once", "exactly-once"]


def totals(guarantee: str, variant: str, topic: str, servers: str) -> dict[str, Any]:
    """Sum numbers by key in an application that loses its state half way; return all results."""
    import confluent_kafka

    stock = confluent_kafka.Consumer
    if variant != "stock":
        schemas = {topic: traffic.schema(), f"{topic}-out": traffic.schema()}
        traffic.put_ours_in_place(variant, schemas)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    directory = tempfile.mkdtemp()
    seen: list[int] = []
    for start in (0, traffic.COUNT):
        for n in range(start, start + traffic.COUNT):
            row = {"n": n}
            producer.produce(
                topic, value=row if variant == "rows" else json.dumps(row), key=f"k{n % 3}"
            )
        assert producer.flush(60) == 0
        # Without local state the second application reads the changelog.
        shutil.rmtree(directory)
        seen += application(guarantee, variant, topic, servers, directory)
    shutil.rmtree(directory)
    sums = all_of(confluent_kafka.Consumer, f"{topic}-out", servers)
    topics = producer.list_topics().topics
    changelog = [name for name in topics if topic in name and "changelog" in name]
    states = all_of(stock, changelog[0], servers)
    return {
        "seen": sorted(seen),
        "totals": sorted([message.key().decode(), value_of(message)["n"]] for message in sums),
        "changelogs": len(changelog),
        # Only the last state of a key: how many are saved depends on timing.
        "state": {state.key().hex(): json.loads(state.value()) for state in states},
    }


def all_of(consumer_class: Any, topic: str, servers: str) -> list[Any]:
    """Return the committed messages of a topic with one partition."""
    import confluent_kafka

    reader = consumer_class(
        {"bootstrap.servers": servers, "group.id": "reader", "enable.partition.eof": True}
    )
    reader.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    messages: list[Any] = []
    while (message := reader.poll(30)).error() is None:
        messages.append(message)
    reader.close()
    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
    return messages


def value_of(message: Any) -> Any:
    assert message.error() is None, message.error()
    value = message.value()
    return value if isinstance(value, dict) else json.loads(value)


def application(
    guarantee: str, variant: str, topic: str, servers: str, directory: str
) -> list[int]:
    """Run an application until it has read all records; return their numbers."""
    from quixstreams import Application
    from quixstreams.models import Deserializer, Serializer

    class RowDeserializer(Deserializer):
        def __call__(self, value: Any, ctx: Any) -> Any:
            return value

    class RowSerializer(Serializer):
        def __call__(self, value: Any, ctx: Any) -> Any:
            return value

    app = Application(
        broker_address=servers,
        consumer_group=topic,
        auto_offset_reset="earliest",
        processing_guarantee=guarantee,
        state_dir=directory,
        commit_interval=0.2,
        loglevel="WARNING",
    )
    rows = variant == "rows"
    source = app.topic(topic, value_deserializer=RowDeserializer() if rows else "json")
    target = app.topic(f"{topic}-out", value_serializer=RowSerializer() if rows else "json")
    seen = []

    def add(value: dict[str, int], state: Any) -> dict[str, int]:
        seen.append(value["n"])
        total = state.get("total", 0) + value["n"]
        state.set("total", total)
        return {"n": total}

    frame = app.dataframe(source).apply(add, stateful=True).to_topic(target)
    app.run(frame, count=traffic.COUNT, timeout=30)
    return seen


@pytest.fixture(scope="module", params=GUARANTEES)
def stock(
    request: pytest.FixtureRequest, stock_topic: str, servers: str
) -> tuple[str, dict[str, Any]]:
    guarantee = request.param
    return guarantee, child.run(totals, guarantee, "stock", f"{stock_topic}-{guarantee}", servers)


def test_stock_sums(stock: tuple[str, dict[str, Any]]) -> None:
    """The others are compared with stock, so they would prove nothing if this failed."""
    sums = [
        [f"k{key}", sum(range(key, n + 1, 3))]
        for key in range(3)
        for n in range(key, 2 * traffic.COUNT, 3)
    ]
    assert stock[1]["totals"] == sorted(sums)
    assert stock[1]["seen"] == list(range(2 * traffic.COUNT))


@pytest.mark.parametrize("variant", traffic.VARIANTS)
def test_an_application_does_what_it_does_with_stock(
    stock: tuple[str, dict[str, Any]], variant: str, topic: str, servers: str
) -> None:
    guarantee, expected = stock
    assert child.run(totals, guarantee, variant, topic, servers) == expected
    for each in (topic, f"{topic}-out"):
        traffic.check_messages(variant, each, servers)
