"""How much memory does a producer take that is given rows as fast as a loop makes them?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import psutil

from benchmarks import data
from benchmarks.answer import Answer, Plot
from benchmarks.child import Child
from benchmarks.competitors import ORJSON, OURS
from benchmarks.competitors import competitor as make_competitor
from benchmarks.competitors.base import when_room
from benchmarks.measured import UnequalError
from benchmarks.sending import FLUSH_SECONDS, count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench

TITLE = "Memory while narrow rows are produced, MB"
IS_LONG = True
ABOUT = """Resident memory of the whole process, every 20 ms: 3,000,000 rows that the loop makes
one by one, and that nothing else holds. Each round has a process of its own. The growth is that
of the peak after the first second over the peak within it."""

RECORDS: Final = 3_000_000
PEAK_MB, GROWTH = 400.0, 1.1
FIRST_SECOND: Final = 1.0
_EVERY: Final = 0.02


class Growing:
    """Produces rows that nobody else holds; lives in a child."""

    def __init__(self, competitor: str, servers: str, topic: str) -> None:
        competing = make_competitor(competitor, data.load("narrow"))
        self._encode, self._topic = competing.encode, topic
        self._producer = competing.producer(servers, [topic])

    def send(self, count: int) -> None:
        """Produce as fast as the loop goes."""
        produce, encode, topic = self._producer.produce, self._encode, self._topic
        for row in _rows(count):
            try:
                produce(topic, encode(row))
            except BufferError:
                when_room(self._producer, topic, encode(row))
        if left := self._producer.flush(FLUSH_SECONDS):
            raise UnequalError(f"{left} records left")


def _rows(count: int) -> Iterator[dict[str, Any]]:
    for place in range(count):
        yield {"id": place, "name": f"sensor-{place % 500}", "value": place * 0.37}


def answer(bench: Bench) -> Answer:
    """Watch both in turn, in a new process each time."""
    found = Answer()
    count = bench.rows(RECORDS)
    samples: dict[str, list[list[tuple[float, float]]]] = {OURS: [], ORJSON: []}
    for _ in range(bench.rounds):
        for who, rounds in samples.items():
            bench.say(who)
            rounds.append(_watch(bench, who, count))
    for who, rounds in samples.items():
        found.add("", who, "before the first row", [each[0][1] for each in rounds])
        found.add("", who, "peak", [max(size for _, size in each) for each in rounds])
        found.add("", who, "growth after a second", [_growth(each) for each in rounds])
    found.limit("peak, ours", found.values("", OURS, "peak"), PEAK_MB, "MB")
    growth = found.values("", OURS, "growth after a second")
    found.limit("growth after the first second, ours", growth, GROWTH, "×")
    found.compare("", ORJSON, "peak")
    lines = {who: rounds[-1] for who, rounds in samples.items()}
    found.plots.append(Plot("one round", "seconds", "MB", lines, log=False))
    return found


def _growth(samples: list[tuple[float, float]]) -> float:
    early = max(size for when, size in samples if when <= FIRST_SECOND)
    return max((size for when, size in samples if when > FIRST_SECOND), default=early) / early


def _watch(bench: Bench, who: str, count: int) -> list[tuple[float, float]]:
    """Return the resident MB by the seconds since the first `produce`."""
    topic = bench.topic()
    child = Child(Growing, who, bench.servers, topic)
    try:
        child.start_call("send", count)
        process, began = psutil.Process(child.pid), time.monotonic()
        samples = [(0.0, process.memory_info().rss / 1e6)]
        while not child.is_done(_EVERY):
            samples.append((time.monotonic() - began, process.memory_info().rss / 1e6))
        child.result()
    finally:
        child.close()
    if count_of(bench.servers, topic) != count:
        raise UnequalError(f"{topic}: not all of {count:,} records have arrived")
    bench.drop(topic)
    return samples
