"""Brokers that die, freeze and come back while a producer goes on."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import producing
import psutil
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from reading import everything
from support import eventually

from columnar_kafka.local import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import Node

pytestmark = pytest.mark.kafka

FAULTS = 10
"""How many of each kind."""
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])
QUEUE_KBYTES = 65_536
STOPPED_SECONDS = 60


def test_brokers_killed_and_frozen_lose_nothing_and_double_nothing(
    kafka_cluster, record_property
) -> None:
    """With idempotence; without it nothing is lost.

    Both kinds of producers live through the same faults: three nodes, three replicas, two in sync.
    """
    began = time.monotonic()
    servers = kafka_cluster.bootstrap_servers
    senders = {}
    for idempotent in (True, False):
        name = f"brokers-fail-{idempotent}"
        kafka_cluster.create_topic(name, 6)
        senders[idempotent] = producing.Numbered(
            servers,
            name,
            SCHEMA,
            **{"enable.idempotence": idempotent, "acks": "all", "columnar.linger.ms": 200},
        )
    with ThreadPoolExecutor(1) as other:
        faults = other.submit(
            break_nodes, kafka_cluster, [sender.topic for sender in senders.values()]
        )
        while not faults.done():
            for sender in senders.values():
                for _ in range(40):
                    sender.produce(text=f"text {sender.accepted}")
                sender.producer.poll(0.01)
        figures = faults.result()
    left = [sender.producer.flush(180) for sender in senders.values()]
    for sender in senders.values():
        sender.producer.close()
    seconds = time.monotonic() - began
    figures |= {"seconds": round(seconds)}
    for idempotent, sender in senders.items():
        figures |= counts(sender, servers, "idempotent" if idempotent else "not idempotent")
    for name, figure in figures.items():
        record_property(name, figure)
    assert left == [0, 0]
    for kind in ("idempotent", "not idempotent"):
        assert figures[f"{kind}: accepted"] == figures[f"{kind}: acknowledged"]
        assert figures[f"{kind}: acknowledged and missing"] == 0
    assert figures["idempotent: doubled"] == 0
    assert figures["idempotent: out of order"] == 0


def counts(sender: producing.Numbered, servers: str, kind: str) -> dict[str, Any]:
    """Compare what a producer was told with what is there."""
    places: dict[tuple[int, int], int] = {}
    by_partition: dict[int, list[int]] = defaultdict(list)
    for message in everything(servers, sender.topic, retries=True):
        places[message.partition(), message.offset()] = message.value()["n"]
        by_partition[message.partition()].append(message.value()["n"])
    times = Counter(places.values())
    return {
        f"{kind}: accepted": sender.accepted,
        f"{kind}: acknowledged": len(sender.stored),
        f"{kind}: failed": len(sender.failed),
        f"{kind}: stored": times.total(),
        f"{kind}: doubled": times.total() - len(times),
        f"{kind}: acknowledged and missing": sum(
            places.get(place) != n for n, place in sender.stored.items()
        ),
        f"{kind}: out of order": sum(
            numbers != sorted(numbers) for numbers in by_partition.values()
        ),
    }


def break_nodes(kafka: LocalKafka, topics: list[str]) -> dict[str, Any]:
    """Kill and freeze one node at a time; it is in sync again before the next."""
    random_number = random.Random(4)
    kinds = ["kill", "freeze"] * FAULTS
    random_number.shuffle(kinds)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for kind in kinds:
        node = random_number.choice(kafka.nodes)
        if kind == "kill":
            node.kill()
            node.start()
        else:
            freeze(node, random_number.uniform(0.2, 6))  # the cluster gives one up after 3 s
        eventually(lambda: all(in_sync(admin, topic) for topic in topics))
    return {"kills": kinds.count("kill"), "freezes": kinds.count("freeze")}


def freeze(node: Node, seconds: float) -> None:
    node.suspend()
    try:
        time.sleep(seconds)
    finally:
        node.resume()


def in_sync(admin: AdminClient, topic: str) -> bool:
    partitions = admin.list_topics(topic, timeout=120).topics[topic].partitions.values()
    return all(len(partition.isrs) == 3 for partition in partitions)


def test_a_producer_of_a_stopped_broker_keeps_its_memory_bound_and_its_records(
    record_property,
) -> None:
    """One process for each shape of records produces flat out while the broker is frozen."""
    with LocalKafka() as kafka:
        servers = kafka.bootstrap_servers
        for shape in producing.SHAPES:
            kafka.create_topic(shape, 4, {"retention.ms": "-1"})
        children = {
            shape: producing.start("flat-out", servers, shape, shape, QUEUE_KBYTES)
            for shape in producing.SHAPES
        }
        try:
            grown = stop_broker(kafka, children)
            results = {
                shape: json.loads(child.stdout.readline()) for shape, child in children.items()
            }
        finally:
            for child in children.values():
                child.kill()
                child.communicate()
        bound = QUEUE_KBYTES * 1024
        for shape, result in results.items():
            record_property(shape, result | {"grown": f"{grown[shape] / bound:.2f} of the bound"})
        assert {shape: growth for shape, growth in grown.items() if growth > 1.2 * bound} == {}
        for result in results.values():
            assert result["failed"] == result["left"] == 0
            assert result["stored"] == result["accepted"]
        for shape, result in results.items():
            there = Counter(
                producing.number(shape, message)
                for message in everything(servers, shape, retries=True)
            )
            assert there == Counter(range(result["accepted"]))


def stop_broker(kafka: LocalKafka, children: dict[str, producing.Child]) -> dict[str, int]:
    """Freeze the broker for 60 s while all produce; return by how many bytes each has grown."""
    for child in children.values():
        assert child.stdout.readline() == "ready\n"
    before = {shape: memory(child) for shape, child in children.items()}
    most = dict(before)
    [node] = kafka.nodes
    node.suspend()
    for child in children.values():
        child.stdin.write("go\n")
        child.stdin.flush()
    for _ in ticks(STOPPED_SECONDS):
        sample(children, most)
    for child in children.values():  # a slow machine may take longer to get there
        assert child.stdout.readline() == "full\n"
    node.resume()
    for _ in ticks(5):  # they go on, and what they have kept is sent
        sample(children, most)
    for child in children.values():
        child.send_signal(signal.SIGTERM)
    for _ in ticks(300):
        sample(children, most)
        if all(child.poll() is not None for child in children.values()):
            break
    assert [child.returncode for child in children.values()] == [0] * len(children)
    return {shape: most[shape] - before[shape] for shape in most}


def ticks(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)


def sample(children: dict[str, producing.Child], most: dict[str, int]) -> None:
    for shape, child in children.items():
        if child.poll() is None:
            most[shape] = max(most[shape], memory(child))


def memory(child: producing.Child) -> int:
    return int(psutil.Process(child.pid).memory_info().rss)
