"""What does a client cost that has nothing to do?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from benchmarks import data
from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS
from benchmarks.competitors import competitor as make_competitor

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Idle clients, ms of CPU a second"
IS_LONG = False
ABOUT = """A producer that has sent a record, and a consumer at the end of its topic, each in a
process that polls with a timeout of half a second. All wait at the same time."""

ROUND_SECONDS: Final = 3.0
METRIC: Final = "CPU ms a second"


class Idle:
    """A connected client; lives in a child."""

    def __init__(self, competitor: str, servers: str, topic: str, is_producer: bool) -> None:
        narrow = data.load("narrow")
        competing = make_competitor(competitor, narrow)
        producer = competing.producer(servers, [topic])
        self._client: Any = producer
        competing.send(producer, topic, narrow.block(1, fresh=False))
        producer.flush()
        if not is_producer:
            self._client = competing.consumer(servers)
            competing.assign(self._client, topic)
            self._client.poll(10)

    def wait(self, seconds: float) -> float:
        """Return the CPU seconds a second."""
        cpu, wall = time.process_time(), time.perf_counter()
        while time.perf_counter() - wall < seconds:
            self._client.poll(0.5)
        return (time.process_time() - cpu) / (time.perf_counter() - wall)


def answer(bench: Bench) -> Answer:
    """Let all of them wait."""
    found = Answer()
    cases = {"producer": True, "consumer": False}
    start = {
        f"{case}/{who}": Child(Idle, who, bench.servers, bench.topic(), is_producer)
        for case, is_producer in cases.items()
        for who in (OURS, ORJSON)
    }
    values: dict[str, list[float]] = {name: [] for name in start}
    with Children(start) as children:
        for _ in range(bench.rounds):
            for name, used in children.together("wait", bench.seconds(ROUND_SECONDS)).items():
                values[name].append(used * 1e3)
    for case in cases:
        for who, name in ((OURS, OURS), (ORJSON, "confluent-kafka")):
            found.add(case, name, METRIC, values[f"{case}/{who}"])
        found.compare(case, "confluent-kafka", METRIC)
    return found
