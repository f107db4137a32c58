"""What does a record cost that is consumed as the bytes of a JSON object?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import CPU, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS, OURS_AS_JSON
from benchmarks.measured import ratios
from benchmarks.reading import CONSUME, CONSUME_BYTES, POLL, POLL_BYTES, Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Consuming JSON bytes, a record"
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
SENT_BY: Final = {OURS_AS_JSON: OURS, ORJSON: ORJSON}


def answer(bench: Bench) -> Answer:
    """Read each set in both ways, with and without `loads`."""
    results = Answer()
    for name in NAMES:
        rows = bench.rows(data.load(name).rows)
        sent = {by: bench.topic() for by in SENT_BY.values()}
        start = {by: Child(Sending, by, name, bench.servers, rows) for by in sent}
        with Children(start) as children:
            children.each("send", False, False, first=sent)
        read = {who: sent[by] for who, by in SENT_BY.items()}
        start = {who: Child(Reading, who, name, bench.servers, rows) for who in SENT_BY}
        with Children(start) as children:
            for way, what in CASES.items():
                case = f"{name}, {what}"
                bench.say(case)
                children.together("check", way, first=read)
                costs = children.rounds(bench.rounds, "read", way, first=read)
                results.add_costs(case, costs, rows)
                ours, stock = (results.values(case, who) for who in SENT_BY)
                claim = f"{case}: {CPU}, {OURS_AS_JSON} / {ORJSON}"
                results.limit(claim, ratios(ours, stock), MOST[way], "×")
        bench.drop(*sent.values())
    return results
