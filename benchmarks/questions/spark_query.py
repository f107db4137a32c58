"""What does a stream of Spark's cost that has next to nothing to land?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS
from benchmarks.sending import send_repeatedly
from benchmarks.streaming import Empty, Streaming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bench import Bench
    from benchmarks.child import Cost

TITLE = "A query of Spark's, without the rows"
IS_LONG = True
ABOUT = """Streams with the trigger `availableNow`, whose micro-batches have 100 flights each: ours,
from a segment each into `columnar_lake`, and Spark's from its `kafka` source, with `from_json`,
into Parquet files. Java is warm. A *micro-batch* is a further one: what a query of 21 takes, less
what a query of one takes, divided by 20. The *start* is what is left of the latter: from the start
of the query to its end, without the micro-batch. The CPU is that of all processes, as in the
question before.

A query with a source and a sink in Python starts more Python workers. *Python, nothing* is one that
does nothing in them, and *Java, nothing* reads small files of text and writes to Spark's sink
`noop`. The difference of their starts is the bare start of the workers: ours should take no more
than `from_json` and this."""

ROWS: Final = 100
BATCHES: Final = 20
WARM_UPS: Final = 3  # besides the round that is dropped
CASE: Final = "flights"
FROM_JSON: Final = "Spark from_json"
JAVA, PYTHON = "Java, nothing", "Python, nothing"
BATCH_CPU, BATCH_WALL = "micro-batch, CPU ms", "micro-batch, wall ms"
START_CPU, START_WALL = "start, CPU ms", "start, wall ms"


def answer(bench: Bench) -> Answer:
    """Send micro-batches' rows, and measure a query of one and a query of all in turn."""
    found = Answer()
    batches = 2 if bench.short else BATCHES
    topics = {who: bench.topic() for who in (OURS, ORJSON)}
    for who, topic in topics.items():
        send_repeatedly(bench, who, CASE, topic, ROWS, 1 + batches)
    start = {
        OURS: Child(Streaming, "pages", bench.servers, topics[OURS], 1),
        FROM_JSON: Child(Streaming, "json", bench.servers, topics[ORJSON], ROWS),
        JAVA: Child(Empty, "Java"),
        PYTHON: Child(Empty, "Python"),
    }
    a_batch = {OURS: 1, FROM_JSON: ROWS, JAVA: 1, PYTHON: 1}
    counts = {who: (count, count * (1 + batches)) for who, count in a_batch.items()}
    with Children(start) as children:
        for who in (OURS, FROM_JSON):
            bench.say(f"{who}, the rows that land")
            start[who].call("check", counts[who][1], ROWS, 1 + batches)
        for number in range(WARM_UPS):
            bench.say(f"warming up, {number + 1}")
            children.each("costs", first=counts)
        bench.say("queries")
        rounds = children.rounds(bench.rounds, "costs", first=counts)
    for who, costs in rounds.items():
        _add(found, who, costs, batches)
    _claim(found)
    bench.drop(*topics.values())
    return found


def _add(found: Answer, who: str, rounds: Sequence[tuple[Cost, Cost]], batches: int) -> None:
    """Add what a further micro-batch takes, and what is left of a query of one."""
    for batch, start, name in (BATCH_CPU, START_CPU, "cpu"), (BATCH_WALL, START_WALL, "wall"):
        one = [1e3 * getattr(each, name) for each, _ in rounds]
        many = [1e3 * getattr(each, name) for _, each in rounds]
        further = [(b - a) / batches for a, b in zip(one, many, strict=True)]
        found.add(CASE, who, batch, further)
        found.add(CASE, who, start, [a - b for a, b in zip(one, further, strict=True)])


def _claim(found: Answer) -> None:
    found.compare(CASE, FROM_JSON, BATCH_CPU, at_least=1)
    ours, theirs, java, python = (
        found.values(CASE, who, START_CPU) for who in (OURS, FROM_JSON, JAVA, PYTHON)
    )
    allowed = [a + c - b for a, b, c in zip(theirs, java, python, strict=True)]
    found.add(CASE, f"{FROM_JSON}, and bare workers", START_CPU, allowed)
    found.limit(
        f"{CASE}: {START_CPU}, ours / ({FROM_JSON} and bare workers)",
        [a / b for a, b in zip(ours, allowed, strict=True)],
        1,
        "×",
    )
