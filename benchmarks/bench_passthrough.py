"""How much does our class cost where it only passes messages on to confluent-kafka?

That is with encoding none, and on topics without a schema. `produce` and then the delivery reports
are timed: CPU time of the calling thread, without a broker, so that all use the same queue. The
producers alternate in every round, so a busy machine slows all of them down: only the ratios are
reliable.
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
PRODUCERS = {
    "confluent-kafka": lambda: confluent_kafka.Producer(CONFIG),
    "ours, columnar.encoding=none": lambda: columnar_kafka.Producer(CONFIG),
    "ours, a topic without a schema": lambda: columnar_kafka.Producer(
        CONFIG | {"columnar.encoding": "parquet"}
    ),
}


def cpu_seconds(producer: Any) -> tuple[float, float]:
    """Time one round of `produce`, and of the reports after its messages were purged."""
    produce = producer.produce
    began = time.thread_time()
    for _ in range(MESSAGES):
        produce("t", b"a value of some forty bytes, as they are", key=b"key", on_delivery=_report)
    produced = time.thread_time()
    producer.purge()
    producer.flush(10)
    return produced - began, time.thread_time() - produced


def _report(_: Any, __: Any) -> None:
    pass


def main() -> None:
    """Print two lines for each producer: medians, with the extremes in brackets."""
    producers = {name: make() for name, make in PRODUCERS.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in PRODUCERS}
    gc.disable()
    for _ in range(ROUNDS):
        for name, producer in producers.items():
            times[name].append(cpu_seconds(producer))
        gc.collect()
    stock = times["confluent-kafka"]
    for name, both in times.items():
        for part, what in enumerate(("produce", "report")):
            each = [seconds[part] / MESSAGES * 1e6 for seconds in both]
            ratios = sorted(
                ours[part] / theirs[part] for ours, theirs in zip(both, stock, strict=True)
            )
            print(
                f"{name:30} {statistics.median(each):.2f} µs a {what} [{min(each):.2f}, "
                f"{max(each):.2f}], {statistics.median(ratios):.2f} times stock "
                f"[{ratios[0]:.2f}, {ratios[-1]:.2f}]"
            )
    for producer in producers.values():
        producer.close()


if __name__ == "__main__":
    main()
