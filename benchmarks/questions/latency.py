"""How long does a record take from `produce` to `poll`?"""

from __future__ import annotations

import time
from itertools import cycle
from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS
from benchmarks.competitors import competitor as make_competitor
from benchmarks.competitors.base import SECONDS
from benchmarks.sending import FLUSH_SECONDS, end_of

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Latency from produce to poll, ms"
IS_LONG = False
ABOUT = """Log lines at a steady rate, from the call of `produce` until another process has the
value, on one machine with one clock. `linger` is `columnar.linger.ms` here and `linger.ms` there.
All other settings are defaults. One at a time is a record every 10 ms."""

CASES: Final = ((0, 100), (5, 1_000), (5, 10_000), (50, 1_000), (50, 10_000))
ROUND_SECONDS: Final = 1.0
P50_MORE, P99_MORE = 3.0, 15.0


class Producing:
    """Sends at a rate; lives in a child."""

    def __init__(self, competitor: str, servers: str, topic: str, linger_ms: float) -> None:
        log = data.load("log")
        self._rows = log.block(1_000, fresh=False)
        self._encode = make_competitor(competitor, log).encode
        self._topic = topic
        self._producer = make_competitor(competitor, log).producer(
            servers, [topic], linger_ms=linger_ms
        )

    def send(self, count: int, rate: float) -> None:
        """Send `count` records with the time in each; poll while the next one is not due."""
        produce, poll, encode = self._producer.produce, self._producer.poll, self._encode
        begin = time.monotonic()
        for place, row in zip(range(count), cycle(self._rows), strict=False):
            due = begin + place / rate
            while (left := due - time.monotonic()) > 0:
                poll(0)
                time.sleep(min(left, 0.001))
            produce(self._topic, encode({**row, "at": time.monotonic_ns()}))
        self._producer.flush(FLUSH_SECONDS)


class Receiving:
    """Polls one record after the other; lives in a child."""

    def __init__(self, competitor: str, servers: str, topic: str) -> None:
        competing = make_competitor(competitor, data.load("log"))
        self._decode = competing.decode
        self._consumer = competing.consumer(servers)
        competing.assign(self._consumer, topic, end_of(servers, topic))
        self._consumer.poll(0.1)

    def receive(self, count: int) -> tuple[float, float]:
        """Return the median and the 99th percentile in ms."""
        poll, decode = self._consumer.poll, self._decode
        took = []
        for _ in range(count):
            sent = decode(poll(SECONDS).value())["at"]
            took.append(time.monotonic_ns() - sent)
        took.sort()
        return took[count // 2] / 1e6, took[count * 99 // 100] / 1e6


def answer(bench: Bench) -> Answer:
    """Send at each rate, ours and stock's in turn."""
    found = Answer()
    for linger_ms, rate in CASES:
        _case(bench, found, linger_ms, rate)
    return found


def _case(bench: Bench, found: Answer, linger_ms: int, rate: int) -> None:
    case = f"{rate:,} a second, linger {linger_ms}" if linger_ms else "one at a time, linger 0"
    bench.say(case)
    count = int(rate * bench.seconds(ROUND_SECONDS))
    topics = {who: bench.topic() for who in (OURS, ORJSON)}
    sending = {who: Child(Producing, who, bench.servers, topics[who], linger_ms) for who in topics}
    receiving = {who: Child(Receiving, who, bench.servers, topics[who]) for who in topics}
    p50: dict[str, list[float]] = {who: [] for who in topics}
    p99: dict[str, list[float]] = {who: [] for who in topics}
    with Children(sending), Children(receiving):
        for number in range(1 + bench.rounds):  # the first one does not count
            for who in topics:
                receiving[who].start_call("receive", count)
                sending[who].call("send", count, rate)
                median, slow = receiving[who].result()
                if number:
                    p50[who].append(median)
                    p99[who].append(slow)
    for who in topics:
        found.add(case, who, "p50", p50[who])
        found.add(case, who, "p99", p99[who])
    more = [ours - stock for ours, stock in zip(p50[OURS], p50[ORJSON], strict=True)]
    found.limit(f"{case}: p50, ours - stock", more, P50_MORE, "ms")
    found.limit(f"{case}: p99", p99[OURS], linger_ms + P99_MORE, "ms")
