"""What does a record cost that is consumed as the bytes of a JSON object, or of an Avro datum?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import CPU, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS_AVRO, OURS_JSON, READY_AVRO
from benchmarks.measured import ratios
from benchmarks.reading import CONSUME, CONSUME_BYTES, POLL, POLL_BYTES, Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Bytes of columns, a record"
IS_LONG = False
ABOUT = """From the assignment until the last record, as above, but that records' values are bytes,
made of columns (`columnar.value.format`), against confluent-kafka with the same as plain messages:
the bytes alone, and what `orjson.loads` or fastavro makes of them on both sides. The Avro has a
registry's five bytes in front."""

NAMES: Final = ("flights", "narrow", "log", "nested")
CASES: Final = {
    POLL_BYTES: "poll",
    CONSUME_BYTES: "consume",
    POLL: "poll and parse",
    CONSUME: "consume and parse",
}
ALONE: Final = (POLL_BYTES, CONSUME_BYTES)
PAIRS: Final = (((OURS_JSON, ORJSON), 1.3, 1.15), ((OURS_AVRO, READY_AVRO), 1.0, 1.2))
"""Ours and stock, and the most of the bytes alone, and of what is parsed."""


def answer(bench: Bench) -> Answer:
    """Read each set in both formats, in both ways, parsed and not."""
    results = Answer()
    for name in NAMES:
        for who, alone, parsed in PAIRS:
            _read(bench, results, name, who, {True: alone, False: parsed})
    return results


def _read(
    bench: Bench, results: Answer, name: str, who: tuple[str, str], most: dict[bool, float]
) -> None:
    rows = bench.rows(data.load(name).rows)
    topics = {one: bench.topic() for one in who}
    start = {one: Child(Sending, one, name, bench.servers, rows) for one in who}
    with Children(start) as children:
        children.each("send", False, False, first=topics)
    start = {one: Child(Reading, one, name, bench.servers, rows) for one in who}
    with Children(start) as children:
        for way, what in CASES.items():
            case = f"{name}, {what}"
            bench.say(f"{case}, {who[0]}")
            children.together("check", way, first=topics)
            costs = children.rounds(bench.rounds, "read", way, first=topics)
            results.add_costs(case, costs, rows)
            ours, stock = (results.values(case, one) for one in who)
            claim = f"{case}: {CPU}, {who[0]} / {who[1]}"
            results.limit(claim, ratios(ours, stock), most[way in ALONE], "×")
    bench.drop(*topics.values())
