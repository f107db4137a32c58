"""What does a record cost as partitions and topics grow?"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from benchmarks.answer import Answer
from benchmarks.child import Child, Children, Clock, Cost
from benchmarks.competitors import ORJSON, OURS
from benchmarks.measured import UnequalError, ratios
from benchmarks.sending import FLUSH_SECONDS, Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Partitions and topics, a record"
IS_LONG = False
ABOUT = """Narrow rows, in turn to all partitions of all topics, in segments of 100 rows whatever
their number. A linger of a minute keeps the segments full; orjson's batches are librdkafka's
own."""

CASES: Final = ((1, 1), (1, 100), (1, 1_000), (10, 1), (100, 1))
SHORT_CASES: Final = ((1, 1), (1, 10), (5, 1))
RECORDS: Final = 100_000
SEGMENT_ROWS: Final = 100
LINGER_MS: Final = 60_000.0
LOW, HIGH = 0.9, 1.1


class Spreading(Sending):
    """Sends to several places in turn; lives in a child."""

    def __init__(
        self, competitor: str, servers: str, topics: list[str], partitions: int, rows: int
    ) -> None:
        super().__init__(competitor, "narrow", servers, rows)
        batch: Any = {"rows": SEGMENT_ROWS, "linger_ms": LINGER_MS} if competitor == OURS else {}
        self._producer_of_all = self.competitor.producer(servers, topics, **batch)
        self._places = [(topic, number) for number in range(partitions) for topic in topics]

    def spread(self) -> Cost:
        """Measure one round."""
        produce, encode = self._producer_of_all.produce, self.competitor.encode
        clock = Clock()
        for row, (topic, partition) in zip(self.shared, cycle(self._places), strict=False):
            produce(topic, encode(row), partition=partition)
        clock.calls_end()
        left = self._producer_of_all.flush(FLUSH_SECONDS)
        cost = clock.stop()
        if left:
            raise UnequalError(f"{left} records left")
        return cost


def answer(bench: Bench) -> Answer:
    """Send the same rows to ever more places; all cases take turns."""
    found = Answer()
    rows = bench.rows(RECORDS)
    start: dict[str, Child] = {}
    topics: list[str] = []
    for count, partitions in SHORT_CASES if bench.short else CASES:
        case = _name(count, partitions)
        bench.say(case)
        made = [bench.topic(partitions) for _ in range(count)]
        topics += made
        for who in OURS, ORJSON:
            start[f"{case}/{who}"] = Child(Spreading, who, bench.servers, made, partitions, rows)
    with Children(start) as children:
        costs = children.rounds(bench.rounds, "spread")
    for case in dict.fromkeys(name.partition("/")[0] for name in start):
        found.add_costs(case, {who: costs[f"{case}/{who}"] for who in (OURS, ORJSON)}, rows)
        found.compare(case, ORJSON)
    one = found.values(_name(1, 1), OURS)
    for case in list(dict.fromkeys(each.case for each in found.figures))[1:]:
        found.limit(f"{case} / 1 partition", ratios(found.values(case, OURS), one), HIGH, "×", LOW)
    bench.drop(*topics)
    return found


def _name(topics: int, partitions: int) -> str:
    return f"{topics:,} topics" if topics > 1 else f"{partitions:,} partitions"
