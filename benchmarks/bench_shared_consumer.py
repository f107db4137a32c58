"""How long does a consumer's method wait while another thread polls, in both packages?

One thread polls with a timeout of half a second, again and again. Another thread calls a method,
for ten seconds at most. Without a broker the wall time of a call is the wait for the first thread.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS: Final = 40
SECONDS: Final = 10.0
PLACE: Final = TopicPartition("t", 0, 5 << 20)
CONFIG: Final = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
CLASSES: Final = {
    "confluent-kafka": lambda: confluent_kafka.Consumer(CONFIG),
    "ours": lambda: columnar_kafka.Consumer({**CONFIG, "columnar.encoding": "parquet"}),
}
METHODS: Final[dict[str, Callable[[Any], Any]]] = {
    "position": lambda it: it.position([PLACE]),
    "commit, asynchronous": lambda it: it.commit(offsets=[PLACE]),
    "pause": lambda it: it.pause([PLACE]),
}


def waits(consumer: Any, method: Callable[[Any], Any]) -> list[float]:
    """Return how many milliseconds calls of a method took while another thread polled."""
    consumer.assign([PLACE])
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            consumer.poll(0.5)

    thread = threading.Thread(target=poll)
    timer = threading.Timer(SECONDS, is_over.set)  # or a call could wait for ever
    thread.start()
    timer.start()
    took: list[float] = []
    while not is_over.is_set() and len(took) < CALLS:
        time.sleep(0.01)  # the work between two calls
        began = time.perf_counter()
        method(consumer)
        took.append(1000 * (time.perf_counter() - began))
    is_over.set()
    timer.cancel()
    thread.join()
    return took


def main() -> None:
    """Print a line for each class and method."""
    print(f"confluent-kafka {confluent_kafka.__version__}; ms a call waits")
    for name, make in CLASSES.items():
        for called, method in METHODS.items():
            took = waits(make(), method)
            print(
                f"{name:16} {called:21} {len(took):3} calls: first {took[0]:8.1f}, "
                f"median {statistics.median(took):8.1f}, largest {max(took):8.1f}"
            )


if __name__ == "__main__":
    main()
