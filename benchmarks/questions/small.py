"""What does a record cost in a small segment?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS
from benchmarks.measured import Spread
from benchmarks.questions.size import crossing
from benchmarks.reading import CONSUME as CONSUMED
from benchmarks.reading import Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Small segments, a record"
IS_LONG = False
ABOUT = """Flights in segments of so many rows, bare, and read with `consume` and their values.
orjson's batches are as librdkafka makes them with its defaults, which is better for it."""

PRODUCE, CONSUME = "produce", "consume"
WHATS: Final = (PRODUCE, CONSUME)
SIZES: Final = (1, 3, 10, 30, 100, 300, 1_000)
RECORDS: Final = 3_000
LINGER_MS: Final = 60_000.0
ONE_PRODUCED, ONE_CONSUMED, CROSSING_ROWS = 60.0, 100.0, 50.0


def answer(bench: Bench) -> Answer:
    """Produce and consume with each size; orjson takes its turn in every round."""
    results = Answer()
    who, rows = (OURS, ORJSON), bench.rows(RECORDS)
    writers = {
        competitor: Child(Sending, competitor, "flights", bench.servers, rows) for competitor in who
    }
    readers = {
        competitor: Child(Reading, competitor, "flights", bench.servers, rows) for competitor in who
    }
    with Children(writers) as writing, Children(readers) as reading:
        for size in SIZES:
            _case(bench, results, writing, reading, size, rows)
    lines = {
        f"{what}, {competitor}": _line(results, what, competitor)
        for what in WHATS
        for competitor in who
    }
    for what, most in zip(WHATS, (ONE_PRODUCED, ONE_CONSUMED), strict=True):
        results.limit(
            f"{what} one record as a segment", results.values(f"{what}, 1 rows", OURS), most, "µs"
        )
    least = crossing(lines[f"{PRODUCE}, {OURS}"], lines[f"{PRODUCE}, {ORJSON}"])
    results.limit("cheaper to produce than orjson from", [least], CROSSING_ROWS, "rows")
    return results


def _line(results: Answer, what: str, who: str) -> list[tuple[float, float]]:
    return [
        (size, Spread.of(results.values(f"{what}, {size:,} rows", who)).median) for size in SIZES
    ]


def _case(
    bench: Bench, results: Answer, writing: Children, reading: Children, size: int, rows: int
) -> None:
    bench.say(f"{size:,} rows")
    topics, once = ({who: bench.topic() for who in (OURS, ORJSON)} for _ in range(2))
    produced, consumed = f"{PRODUCE}, {size:,} rows", f"{CONSUME}, {size:,} rows"
    _connect(writing, topics, size)
    costs = writing.rounds(bench.rounds, "send", False, False, first=topics)
    results.add_costs(produced, costs, rows)
    writing.together("check", False, first=topics)
    _connect(writing, once, size)
    writing.each("send", False, False, first=once)
    reading.together("check", CONSUMED, first=once)
    costs = reading.rounds(bench.rounds, "read", CONSUMED, first=once)
    results.add_costs(consumed, costs, rows)
    for case in produced, consumed:
        results.compare(case, ORJSON)
    bench.drop(*topics.values(), *once.values())


def _connect(writing: Children, topics: dict[str, str], size: int) -> None:
    for who, child in writing:
        settings = (size, LINGER_MS) if who == OURS else ()
        child.call("connect", topics[who], *settings)
