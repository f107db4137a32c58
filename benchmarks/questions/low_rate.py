"""What does a record cost where few come: many partitions, with keys, at a low rate?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition

from benchmarks import data
from benchmarks.answer import CPU, Answer
from benchmarks.child import Child, Children, Clock, Cost
from benchmarks.competitors import FASTAVRO, ORJSON, OURS
from benchmarks.competitors import competitor as make_competitor
from benchmarks.measured import Digest, UnequalError
from benchmarks.sending import FLUSH_SECONDS

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "A low rate, a record"
IS_LONG = False
ABOUT = """One producer sends flights to a topic of 12 partitions, keyed by the plane, so many a
second for 20 s: a record is as old as the linger when it goes, and shares its segment, or its
batch, with those of its partition that came meanwhile. The competitors send at the same time, each
in a process of its own. Bytes are those of the broker's log."""

WHO: Final = (OURS, FASTAVRO, ORJSON)
RATES: Final = (100, 300, 1_000)
LINGERS_MS: Final = (100.0, 1_000.0, 5_000.0)
PARTITIONS: Final = 12
SECONDS: Final = 20.0
TICK: Final = 0.01
BYTES: Final = "bytes"
MOST: Final = {300: 1.5, 1_000: 1.0}
DEFAULT_LINGER_MS: Final = 1_000.0


class Steady:
    """Sends rows at a rate; lives in a child."""

    def __init__(self, competitor: str, servers: str) -> None:
        self._data = data.load("flights")
        self._competitor = make_competitor(competitor, self._data)
        self._servers = servers

    def send(self, topic: str, rate: int, seconds: float, linger_ms: float) -> Cost:
        """Measure from the first record until all are delivered. Raises UnequalError."""
        rows = self._data.block(int(rate * seconds), fresh=False)
        producer = self._competitor.producer(self._servers, [topic], linger_ms=linger_ms)
        clock, began, sent = Clock(), time.monotonic(), 0
        while sent < len(rows):
            due = min(len(rows), int((time.monotonic() - began) * rate))
            for row in rows[sent:due]:
                value = self._competitor.encode(row)
                producer.produce(topic, value, key=self._data.key(row))
            sent = due
            producer.poll(0)
            time.sleep(TICK)
        left = producer.flush(FLUSH_SECONDS)
        cost = clock.stop()
        producer.close()
        if left:
            raise UnequalError(f"{topic}: {left} records left")
        return cost

    def check(self, topic: str, rate: int, seconds: float) -> None:
        """Compare what a topic has with the rows and their keys. Raises UnequalError."""
        rows = self._data.block(int(rate * seconds), fresh=False)
        keys = [self._data.key(row) for row in rows]
        consumer = self._competitor.consumer(self._servers)
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        received = self._competitor.records(consumer, len(rows))
        sent = ((row, key and key.encode()) for row, key in zip(rows, keys, strict=True))
        Digest(sent).compare(Digest((value, key) for value, key, *_ in received), topic)
        consumer.close()


def answer(bench: Bench) -> Answer:
    """Send at each rate with each linger."""
    results = Answer()
    seconds = bench.seconds(SECONDS)
    with Children({who: Child(Steady, who, bench.servers) for who in WHO}) as children:
        for rate in RATES:
            for linger_ms in LINGERS_MS:
                _case(bench, results, children, rate, seconds, linger_ms)
    return results


def _case(
    bench: Bench,
    results: Answer,
    children: Children,
    rate: int,
    seconds: float,
    linger_ms: float,
) -> None:
    case = f"{rate:,} a second, linger {linger_ms:,.0f} ms"
    bench.say(case)
    costs: dict[str, list[Cost]] = {who: [] for who in WHO}
    nbytes: dict[str, list[float]] = {who: [] for who in WHO}
    for number in range(bench.rounds):
        topics = {who: bench.topic(PARTITIONS) for who in WHO}
        sent = children.together("send", rate, seconds, linger_ms, first=topics)
        if not number:
            children.together("check", rate, seconds, first=topics)
        for who, cost in sent.items():
            costs[who].append(cost)
            nbytes[who].append(bench.log_bytes(topics[who]) / (rate * seconds))
        bench.drop(*topics.values())
    results.add_costs(case, costs, int(rate * seconds))
    for who in WHO:
        results.add(case, who, BYTES, nbytes[who])
    is_default = linger_ms == DEFAULT_LINGER_MS and rate in MOST
    results.compare(case, FASTAVRO, CPU, at_least=1.0 if is_default else None)
    results.compare(case, FASTAVRO, BYTES, at_least=1 / MOST[rate] if is_default else None)
    results.compare(case, ORJSON, CPU)
    results.compare(case, ORJSON, BYTES)
