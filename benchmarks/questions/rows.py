"""Does a record cost the same when there are many?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.answer import Answer
from benchmarks.child import Child, Children, Clock, Cost
from benchmarks.competitors import ORJSON, OURS
from benchmarks.measured import UnequalError, ratios
from benchmarks.sending import FLUSH_SECONDS, Sending, count_of, end_of

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "From ten thousand records to ten million, a record"
IS_LONG = True
ABOUT = """The same block of narrow rows, sent again and again without a pause but for a full
buffer."""

COUNTS: Final = (10_000, 100_000, 1_000_000, 10_000_000)
BASE: Final = 100_000
LOW, HIGH = 0.9, 1.1


class Repeating(Sending):
    """Sends its rows several times in a round; lives in a child."""

    def send_all(self, topic: str, count: int) -> Cost:
        """Measure one round of `count` records."""
        producer = self.topic(topic).producer
        first = end_of(self.servers, topic)
        clock = Clock()
        for start in range(0, count, self.rows):
            self.competitor.send(producer, topic, self.shared[: count - start])
        clock.calls_end()
        left = producer.flush(FLUSH_SECONDS)
        cost = clock.stop()
        if left or count_of(self.servers, topic, first) != count:
            raise UnequalError(f"{topic}: not all of {count:,} records have arrived")
        return cost


def answer(bench: Bench) -> Answer:
    """Send each number of records."""
    found = Answer()
    start = {
        who: Child(Repeating, who, "narrow", bench.servers, bench.rows(BASE))
        for who in (OURS, ORJSON)
    }
    cases = [bench.rows(count) for count in COUNTS]
    with Children(start) as children:
        for count in cases:
            bench.say(f"{count:,} records")
            topics = {who: bench.topic() for who in start}
            costs = children.rounds(bench.rounds, "send_all", count, first=topics)
            bench.drop(*topics.values())
            found.add_costs(f"{count:,} records", costs, count)
            found.compare(f"{count:,} records", ORJSON)
    base, most = (found.values(f"{count:,} records", OURS) for count in (cases[1], cases[-1]))
    found.limit(f"{cases[-1]:,} records / {cases[1]:,}", ratios(most, base), HIGH, "×", LOW)
    return found
