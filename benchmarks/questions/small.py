"""What does a record cost in a small segment?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.answer import CPU, Answer, Plot
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS
from benchmarks.measured import Spread
from benchmarks.questions.size import crossing
from benchmarks.reading import CONSUME, Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Small segments, a record"
IS_LONG = False
ABOUT = """Flights in segments of so many rows, bare, and read with `consume` and their values.
orjson's batches are as librdkafka makes them with its defaults, which is better for it."""

SIZES: Final = (1, 3, 10, 30, 100, 300, 1_000)
RECORDS: Final = 3_000
LINGER_MS: Final = 60_000.0
ONE_PRODUCED, ONE_CONSUMED, CROSSING_ROWS = 60.0, 100.0, 50.0


def answer(bench: Bench) -> Answer:
    """Produce and consume with each size; orjson takes its turn in every round."""
    found = Answer()
    lines: dict[str, list[tuple[float, float]]] = {}
    for size in SIZES:
        rows = bench.rows(RECORDS)
        bench.say(f"{size} rows")
        topics, once = ({who: bench.topic() for who in (OURS, ORJSON)} for _ in range(2))
        batches = {OURS: (size, LINGER_MS), ORJSON: (None, None)}
        start = {
            who: Child(Sending, who, "flights", bench.servers, rows, *batches[who])
            for who in topics
        }
        with Children(start) as children:
            costs = children.rounds(bench.rounds, "send", False, False, first=topics)
            children.together("check", False, first=topics)
            children.each("send", False, False, first=once)
        found.add_costs(f"produce, {size:,} rows", costs, rows)
        start = {
            who: Child(Reading, who, "flights", bench.servers, once[who], rows) for who in once
        }
        with Children(start) as children:
            children.together("check", CONSUME)
            costs = children.rounds(bench.rounds, "read", CONSUME)
        found.add_costs(f"consume, {size:,} rows", costs, rows)
        for what in "produce", "consume":
            for who in topics:
                median = Spread.of(found.values(f"{what}, {size:,} rows", who)).median
                lines.setdefault(f"{what}, {who}", []).append((size, median))
            found.compare(f"{what}, {size:,} rows", ORJSON)
        bench.drop(*topics.values(), *once.values())
    found.plots.append(Plot("flights", "rows of a segment", "CPU µs a record", lines))
    one = found.values("produce, 1 rows", OURS, CPU)
    found.limit("one record produced as a segment", one, ONE_PRODUCED, "µs")
    one = found.values("consume, 1 rows", OURS, CPU)
    found.limit("one record consumed as a segment", one, ONE_CONSUMED, "µs")
    rows_needed = crossing(lines[f"produce, {OURS}"], lines[f"produce, {ORJSON}"])
    found.limit("cheaper to produce than orjson from", [rows_needed], CROSSING_ROWS, "rows")
    return found
