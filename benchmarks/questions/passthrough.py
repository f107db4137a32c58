"""What does our class cost where it only passes messages on to confluent-kafka?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka

import columnar_kafka
from benchmarks.answer import Answer
from benchmarks.child import Child, Children

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Messages that are passed on"
IS_LONG = True
ABOUT = """With encoding none, and on topics without a schema: CPU of the calling thread in
`produce`, and then in the reports of the messages, which were purged. There is no broker, so all
use the same queue."""

MESSAGES: Final = 20_000
STOCK: Final = "confluent-kafka"
CONFIGS: Final[dict[str, dict[str, Any]]] = {
    STOCK: {},
    "ours, columnar.encoding=none": {},
    "ours, a topic without a schema": {"columnar.encoding": "parquet"},
}


class Passing:
    """Sends messages that never leave; lives in a child."""

    def __init__(self, who: str, count: int) -> None:
        cls: Any = confluent_kafka.Producer if who == STOCK else columnar_kafka.Producer
        own = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
        self._producer = cls({**own, **CONFIGS[who], "queue.buffering.max.messages": 10 * count})
        self._count = count
        self._reported = 0

    def run(self) -> tuple[float, float]:
        """Return the µs of a `produce` and of a report."""
        produce = self._producer.produce
        self._reported = 0
        began = time.thread_time()
        for _ in range(self._count):
            produce(
                "t", b"a value of some forty bytes, as they are", key=b"k", on_delivery=self._take
            )
        produced = time.thread_time()
        self._producer.purge()
        self._producer.flush(10)
        reported = time.thread_time()
        if self._reported != self._count:
            raise AssertionError(f"{self._reported:,} reports of {self._count:,}")
        return tuple(each * 1e6 / self._count for each in (produced - began, reported - produced))  # type: ignore[return-value]

    def _take(self, _: Any, __: Any) -> None:
        self._reported += 1


def answer(bench: Bench) -> Answer:
    """Let the three take turns."""
    found = Answer()
    count = bench.rows(MESSAGES)
    with Children({who: Child(Passing, who, count) for who in CONFIGS}) as children:
        for who, rounds in children.rounds(bench.rounds, "run").items():
            for metric, values in zip(
                ("produce, µs", "report, µs"), zip(*rounds, strict=True), strict=True
            ):
                found.add("", who, metric, values)
    for us in list(CONFIGS)[1:]:
        for metric in "produce, µs", "report, µs":
            found.compare("", STOCK, metric, us=us)
    return found
