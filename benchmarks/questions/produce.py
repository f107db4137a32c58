"""What does a record cost that is produced?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import THREAD, WALL, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import FASTAVRO, ORJSON, OURS, READY
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Producing, a record"
ABOUT = """Rows as dicts, from the first `produce` until the last is reported. *Bare*: only a
value. *Full*: a key, a header, a time and a callback each. *Fresh*: no two rows share a string or
a container, and no hash is cached; they are made anew before each round's clock. The calling
thread's time is what `produce` and serializing take of it; encoding and sending go on in
others."""

IS_LONG = False
BARE: Final = {"flights": 4, "narrow": 6, "log": 4, "nested": 3, "wide": 2}
FULL: Final = {"flights": 4, "narrow": 6, "log": 4, "nested": 3, "wide": 2}
FLOOR: Final = {"flights": 2, "narrow": 2, "log": 2, "nested": 1}
THREE: Final = (OURS, ORJSON, READY)
FASTAVRO_TARGET, WALL_TARGET, THREAD_TARGET = 20.0, 3.0, 3.5


def answer(bench: Bench) -> Answer:
    """Produce every set in four ways; fresh bare flights also by fastavro."""
    results = Answer()
    for name in data.NAMES:
        rows = bench.rows(data.load(name).rows)
        who = (*THREE, FASTAVRO) if name == "flights" else THREE
        start = {
            competitor: Child(Sending, competitor, name, bench.servers, rows) for competitor in who
        }
        with Children(start) as children:
            for full in (False, True):
                for fresh in (False, True):
                    taking = children if not full and fresh else children.only(THREE)
                    _case(bench, results, name, taking, rows, full=full, fresh=fresh)
    return results


def _case(
    bench: Bench,
    results: Answer,
    name: str,
    children: Children,
    rows: int,
    *,
    full: bool,
    fresh: bool,
) -> None:
    case = f"{name}, {'full' if full else 'bare'}{', fresh' if fresh else ''}"
    bench.say(case)
    topics = {who: bench.topic() for who, _ in children}
    costs = children.rounds(bench.rounds, "send", fresh, full, first=topics)
    children.together("check", full, first=topics)
    bench.drop(*topics.values())
    results.add_costs(case, costs, rows)
    results.compare(case, ORJSON, at_least=(FULL if full else BARE)[name])
    results.compare(case, READY, at_least=None if full else FLOOR.get(name))
    is_bare_flights = name == "flights" and not full
    results.compare(case, ORJSON, WALL, at_least=WALL_TARGET if is_bare_flights else None)
    results.compare(case, ORJSON, THREAD, at_least=THREAD_TARGET if is_bare_flights else None)
    if FASTAVRO in costs:
        results.compare(case, FASTAVRO, at_least=FASTAVRO_TARGET)
