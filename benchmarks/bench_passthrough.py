"""What does our class cost where it is not used: encoding none, and topics without a schema?

`produce` is timed in the calling thread (CPU), with no broker there: the same queue for all. The
kinds take turns in every round, so that a busy machine disturbs all: believe the ratio only.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

import confluent_kafka

import columnar_kafka

ROUNDS = 41
MESSAGES = 20_000
CONFIG = {
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": 0,
    "queue.buffering.max.messages": 10 * MESSAGES,
}
KINDS = {
    "confluent-kafka": lambda: confluent_kafka.Producer(CONFIG),
    "ours, columnar.encoding=none": lambda: columnar_kafka.Producer(CONFIG),
    "ours, a topic without a schema": lambda: columnar_kafka.Producer(
        CONFIG | {"columnar.encoding": "parquet"}
    ),
}


def cpu_seconds(producer: Any) -> float:
    """Time one round of `produce`; what it queued is thrown away."""
    produce = producer.produce
    began = time.thread_time()
    for _ in range(MESSAGES):
        produce("t", b"a value of some forty bytes, as they are", key=b"key", on_delivery=_report)
    seconds = time.thread_time() - began
    producer.purge()
    producer.flush(10)
    return seconds


def _report(_: Any, __: Any) -> None:
    pass


def main() -> None:
    """Print a line for each kind: medians, and in brackets the fastest and slowest."""
    producers = {name: make() for name, make in KINDS.items()}
    times: dict[str, list[float]] = {name: [] for name in KINDS}
    gc.disable()
    for _ in range(ROUNDS):
        for name, producer in producers.items():
            times[name].append(cpu_seconds(producer) / MESSAGES * 1e6)
        gc.collect()
    stock = times["confluent-kafka"]
    for name, each in times.items():
        ratios = sorted(ours / theirs for ours, theirs in zip(each, stock, strict=True))
        print(
            f"{name:30} {statistics.median(each):.2f} µs a produce [{min(each):.2f}, "
            f"{max(each):.2f}], {statistics.median(ratios):.2f} times stock "
            f"[{ratios[0]:.2f}, {ratios[-1]:.2f}]"
        )
    for producer in producers.values():
        producer.close()


if __name__ == "__main__":
    main()
