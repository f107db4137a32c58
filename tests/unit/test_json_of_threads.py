"""Threads that produce values in JSON: each is reported once, as it was given, and comes back."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from typing import Any

from drifting import Drifting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka.testing import FakeKafka

PARQUET = {"columnar.encoding": "parquet", "columnar.value.format": "json"}
THREADS, VALUES, PARTITIONS = 4, 50, 3
BAD = ["[]", "{", "", f'{{"x":"{"q" * 3000}"}}']
"""Some that do not fit, and one whose segment is too large where messages are small."""


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**64))
def test_values_of_threads_are_reported_once_and_come_back_in_order(seed: int) -> None:
    rng = random.Random(seed)
    drifting = Drifting(rng)
    texts = [drifting.message() for _ in range(60)] + BAD
    given_texts = {n: rng.choices(texts, k=VALUES) for n in range(THREADS)}
    kafka = FakeKafka()
    kafka.create_topic("t", PARTITIONS)
    config = {
        "columnar.linger.ms": rng.choice([0, 5, 1000]),
        "columnar.segment.rows": rng.choice([3, 50, 100_000]),
        "message.max.bytes": rng.choice([4000, 1_000_000]),
        "columnar.value.fields": rng.choice(["lenient", "exact"]),
    }
    reports: dict[int, list[Any]] = defaultdict(list)

    def produce(n: int) -> None:
        forms = random.Random(seed + n)
        for text in given_texts[n]:
            form = forms.choice([bytes, bytearray, memoryview, bytes.decode])
            producer.produce(
                "t",
                form(text.encode()),  # type: ignore[operator]
                key=str(n),
                on_delivery=lambda _, message: reports[n].append(
                    (message.error(), message.value(), message.offset())
                ),
            )

    with kafka.Producer(PARQUET | config) as producer:
        producer.set_schema("t", drifting.schema)
        threads = [threading.Thread(target=produce, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        producer.set_schema("t", drifting.schema)
        for thread in threads:
            thread.join()
    came_back = consumed(kafka)
    for n in range(THREADS):
        values = [text.encode() for text in given_texts[n]]
        assert [report[:2] for report in reports[n]] == [(None, value) for value in values]
        positions = [position for *_, position in reports[n]]
        assert positions == sorted(set(positions))
        for value, found in zip(values, came_back[n], strict=True):
            assert found == value or json.loads(found) == json.loads(value)


def consumed(kafka: FakeKafka) -> dict[int, list[bytes]]:
    """Return the values by their keys, in their order."""
    found: dict[int, list[bytes]] = defaultdict(list)
    config = {"group.id": "g", "auto.offset.reset": "earliest", "enable.partition.eof": True}
    with kafka.Consumer(PARQUET | config) as consumer:
        consumer.subscribe(["t"])
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(30)
            assert message is not None, "no message"
            if message.error() is not None:
                ends += 1
            else:
                found[int(message.key())].append(message.value())
    return found
