"""What does a record cost that is consumed: as a dict, in an Arrow table?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import WALL, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import FASTAVRO, ORJSON, OURS, PYRUHVRO
from benchmarks.reading import CONSUME, POLL, TABLES, Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Consuming, a record"
IS_LONG = False
ABOUT = """From the assignment until the last record, so all fetching counts: `poll` and its
value, `consume` of 1,000 messages and their values, and `consume_arrow` against `consume` and
pyruhvro. Each round reads again with the same consumer; `fetch.wait.max.ms` is 10, or it would wait
for the end of the fetch before."""

POLLED: Final = {"flights": 1.5, "nested": 1.0}
CONSUMED: Final = {"flights": 3.0, "nested": 1.0}
AGAINST_FASTAVRO: Final = 8.0
AGAINST_PYRUHVRO: Final = {"flights": 8.0}
SENT_BY: Final = {OURS: OURS, ORJSON: ORJSON, FASTAVRO: FASTAVRO, PYRUHVRO: FASTAVRO}


def answer(bench: Bench) -> Answer:
    """Read every set in three ways."""
    results = Answer()
    for name in data.NAMES:
        rows = bench.rows(data.load(name).rows)
        topics = _fill(bench, name, rows)
        start = {who: Child(Reading, who, name, bench.servers, rows) for who in SENT_BY}
        read = {who: topics[by] for who, by in SENT_BY.items()}
        with Children(start) as children:
            for way, who in (
                (POLL, (OURS, ORJSON)),
                (CONSUME, (OURS, ORJSON, FASTAVRO)),
                (TABLES, (OURS, PYRUHVRO)),
            ):
                case = f"{name}, {_NAMES[way]}"
                bench.say(case)
                readers = children.only(who)
                readers.together("check", way, first=read)
                results.add_costs(case, readers.rounds(bench.rounds, "read", way, first=read), rows)
        _compare(results, name)
        bench.drop(*topics.values())
    return results


_NAMES: Final = {POLL: "poll", CONSUME: "consume", TABLES: "consume_arrow"}


def _compare(results: Answer, name: str) -> None:
    results.compare(f"{name}, poll", ORJSON, at_least=POLLED.get(name))
    results.compare(f"{name}, consume", ORJSON, at_least=CONSUMED.get(name))
    against = AGAINST_FASTAVRO if name == "flights" else None
    results.compare(f"{name}, consume", FASTAVRO, at_least=against)
    against = AGAINST_PYRUHVRO.get(name)
    results.compare(f"{name}, consume_arrow", PYRUHVRO, at_least=against)
    results.compare(f"{name}, consume_arrow", PYRUHVRO, WALL)


def _fill(bench: Bench, name: str, rows: int) -> dict[str, str]:
    """Send the rows once in each format."""
    topics = {who: bench.topic() for who in set(SENT_BY.values())}
    start = {who: Child(Sending, who, name, bench.servers, rows) for who in topics}
    with Children(start) as children:
        children.each("send", False, False, first=topics)
        children.together("check", False, first=topics)
    return topics
