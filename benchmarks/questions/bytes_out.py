"""What does a record cost that is consumed as the bytes of a JSON object?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import CPU, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS_JSON
from benchmarks.measured import ratios
from benchmarks.reading import CONSUME, CONSUME_BYTES, POLL, POLL_BYTES, Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Bytes of columns, a record"
IS_LONG = False
ABOUT = """From the assignment until the last record, as above, but that records' values are JSON,
made of columns (`columnar.value.format=json`), against confluent-kafka with the same objects as
plain messages: the bytes alone, and what `orjson.loads` makes of them on both sides."""

NAMES: Final = ("flights", "narrow", "log", "nested")
MOST: Final = {POLL_BYTES: 1.3, CONSUME_BYTES: 1.3, POLL: 1.15, CONSUME: 1.15}
CASES: Final = {
    POLL_BYTES: "poll",
    CONSUME_BYTES: "consume",
    POLL: "poll and loads",
    CONSUME: "consume and loads",
}
WHO: Final = (OURS_JSON, ORJSON)


def answer(bench: Bench) -> Answer:
    """Read each set in both ways, with and without `loads`."""
    results = Answer()
    for name in NAMES:
        rows = bench.rows(data.load(name).rows)
        topics = {who: bench.topic() for who in WHO}
        start = {who: Child(Sending, who, name, bench.servers, rows) for who in WHO}
        with Children(start) as children:
            children.each("send", False, False, first=topics)
        start = {who: Child(Reading, who, name, bench.servers, rows) for who in WHO}
        with Children(start) as children:
            for way, what in CASES.items():
                case = f"{name}, {what}"
                bench.say(case)
                children.together("check", way, first=topics)
                costs = children.rounds(bench.rounds, "read", way, first=topics)
                results.add_costs(case, costs, rows)
                ours, stock = (results.values(case, who) for who in WHO)
                claim = f"{case}: {CPU}, {OURS_JSON} / {ORJSON}"
                results.limit(claim, ratios(ours, stock), MOST[way], "×")
        bench.drop(*topics.values())
    return results
