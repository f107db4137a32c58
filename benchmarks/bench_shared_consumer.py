"""How long does a call wait for a thread that waits for records, in confluent-kafka's and in ours?

One thread polls with a timeout of half a second, again and again; another calls a method, for ten
seconds at most. There is no broker: what is measured is the wait for the first thread (wall time).
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
    """Return the seconds that calls of a method took while another thread polled."""
    consumer.assign([PLACE])
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            consumer.poll(0.5)

    thread = threading.Thread(target=poll)
    timer = threading.Timer(SECONDS, is_over.set)  # lets a call end that waits until then
    thread.start()
    timer.start()
    found: list[float] = []
    while not is_over.is_set() and len(found) < CALLS:
        time.sleep(0.01)  # work of its own
        began = time.perf_counter()
        method(consumer)
        found.append(1000 * (time.perf_counter() - began))
    is_over.set()
    timer.cancel()
    thread.join()
    return found


def main() -> None:
    """Print a line for each class and method."""
    print(f"confluent-kafka {confluent_kafka.__version__}; ms a call waits")
    for name, make in CLASSES.items():
        for called, method in METHODS.items():
            found = waits(make(), method)
            print(
                f"{name:16} {called:21} {len(found):3} calls: first {found[0]:8.1f}, "
                f"median {statistics.median(found):8.1f}, largest {max(found):8.1f}"
            )


if __name__ == "__main__":
    main()
