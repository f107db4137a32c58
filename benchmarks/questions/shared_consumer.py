"""How long does a consumer's method wait while another thread polls?"""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition

import columnar_kafka
from benchmarks.answer import Answer
from benchmarks.child import Child, Children

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench

TITLE = "One consumer, two threads: ms that a call waits"
IS_LONG = True
ABOUT = """One thread polls with a timeout of half a second, again and again, and another one
calls a method. Without a broker, the wall time of a call is its wait for the first thread."""

CALLS: Final = 20
MOST_SECONDS: Final = 3.0
PLACE: Final = TopicPartition("t", 0, 5 << 20)
CONFIG: Final = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
STOCK, OURS = "confluent-kafka", "ours"
METHODS: Final[dict[str, Callable[[Any], Any]]] = {
    "position": lambda consumer: consumer.position([PLACE]),
    "commit, asynchronous": lambda consumer: consumer.commit(offsets=[PLACE]),
    "pause": lambda consumer: consumer.pause([PLACE]),
}


class Shared:
    """A consumer that is polled in a thread; lives in a child."""

    def __init__(self, who: str) -> None:
        own = {"columnar.encoding": "parquet"} if who == OURS else {}
        cls: Any = columnar_kafka.Consumer if who == OURS else confluent_kafka.Consumer
        self._consumer = cls({**CONFIG, **own})
        self._consumer.assign([PLACE])

    def waits(self, method: str, seconds: float) -> tuple[float, float]:
        """Return the median and the longest wait in ms of the calls of so many seconds."""
        is_over = threading.Event()

        def poll() -> None:
            while not is_over.is_set():
                self._consumer.poll(0.5)

        thread = threading.Thread(target=poll)
        timer = threading.Timer(seconds, is_over.set)  # or a call could wait for ever
        thread.start()
        timer.start()
        took: list[float] = []
        while not took or (len(took) < CALLS and not is_over.is_set()):
            time.sleep(0.01)  # the work between two calls
            began = time.perf_counter()
            METHODS[method](self._consumer)
            took.append(1e3 * (time.perf_counter() - began))
        is_over.set()
        timer.cancel()
        thread.join()
        return statistics.median(took), max(took)


def answer(bench: Bench) -> Answer:
    """Call each method of both."""
    found = Answer()
    with Children({who: Child(Shared, who) for who in (OURS, STOCK)}) as children:
        for method in METHODS:
            bench.say(method)
            limit = bench.seconds(MOST_SECONDS)
            for who, rounds in children.rounds(bench.rounds, "waits", method, limit).items():
                found.add(method, who, "median", [median for median, _ in rounds])
                found.add(method, who, "longest", [longest for _, longest in rounds])
            found.compare(method, STOCK, "median")
    return found
