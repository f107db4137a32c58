"""What does a row cost that a stream of Spark's lands as Parquet?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.answer import CPU, WALL, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import FASTAVRO, ORJSON, OURS
from benchmarks.measured import UnequalError
from benchmarks.sending import send_repeatedly
from benchmarks.streaming import Streaming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bench import Bench
    from benchmarks.child import Cost
    from benchmarks.landing import Landed

TITLE = "Landing by Spark, a row"
IS_LONG = True
ABOUT = """The same flights in three topics of one partition: our segments of 10,000 rows, and a
message a row of orjson's JSON and of fastavro's Avro, all with zstd. Each process is a Spark with
two threads, where streams with the trigger `availableNow` land messages in one micro-batch: ours
with the source's mode `ranges` and the sink `columnar_lake`, the others with Spark's `kafka`
source, `from_json` or `from_avro`, and its sink of Parquet files with zstd. What lands is read and
compared with what was sent; all of it has landed twice before the first round, and the last
1,000,000 once before each measurement, so that Java and Python are warm. The CPU is that of
Java, of Spark's Python workers and of the process that starts the query; a µs a row is a second a
million rows. It is that of a *further* row: what landing all 10,000,000 takes, less what landing
the last 1,000,000 takes. The other columns are whole queries of 1,000,000, from start to end: that
stream, and a batch query. *headers* and *pages* are `table.verify`."""

ROWS: Final = 100_000
FEW_TIMES: Final = 10
TIMES: Final = 100
CASE: Final = "flights"
HEADERS, PAGES = "ours, headers", "ours, pages"
FROM_JSON, FROM_AVRO = "Spark from_json", "Spark from_avro"
PLACES: Final = {
    HEADERS: ("headers", OURS),
    PAGES: ("pages", OURS),
    FROM_JSON: ("json", ORJSON),
    FROM_AVRO: ("avro", FASTAVRO),
}
TARGETS: Final = {HEADERS: (0.08, 80), PAGES: (0.25, 25)}
STREAM, STREAM_WALL = "a stream, CPU s", "a stream, wall s"
BATCH, BATCH_WALL = "a batch query, CPU s", "a batch query, wall s"
WHOLE_TARGET: Final = 20


def answer(bench: Bench) -> Answer:
    """Send the rows once in each format, and land each topic in turn."""
    results = Answer()
    rows, few, times = bench.rows(ROWS), *((1, 2) if bench.short else (FEW_TIMES, TIMES))
    topics = {who: bench.topic() for who in (OURS, ORJSON, FASTAVRO)}
    ends = {
        who: send_repeatedly(bench, who, CASE, topic, rows, times) for who, topic in topics.items()
    }
    start = {
        who: Child(Streaming, encoding, bench.servers, topics[sender])
        for who, (encoding, sender) in PLACES.items()
    }
    with Children(start) as children:
        for who, child in children:
            bench.say(f"{who}, the rows that land")
            child.call("check", ends[PLACES[who][1]], rows, times)
        counts = {who: ends[sender] for who, (_, sender) in PLACES.items()}
        first = {who: (count * few // times, count) for who, count in counts.items()}
        bench.say("landing")
        costs = children.rounds(bench.rounds, "measure", first=first)
        bench.say("landing in batch queries")
        few_first = {who: count for who, (count, _) in first.items()}
        queries = children.rounds(bench.rounds, "batch", first=few_first)
    for who, rounds in queries.items():
        for _, landed in rounds:
            if landed != rows * few:
                raise UnequalError(f"{who}: {rows * few:,} records sent, {landed:,} landed")
    for who, rounds in costs.items():
        _add(results, who, rounds, queries[who])
    _claim(results)
    bench.drop(*topics.values())
    return results


def _claim(results: Answer) -> None:
    for us, (at_most, at_least) in TARGETS.items():
        results.limit(f"{CASE}: {CPU}, {us}", results.values(CASE, us, CPU), at_most, "µs")
        results.compare(CASE, FROM_JSON, CPU, at_least=at_least, us=us)
        results.compare(CASE, FROM_AVRO, CPU, us=us)
        for whole in STREAM, BATCH:
            results.compare(CASE, FROM_JSON, whole, at_least=WHOLE_TARGET, us=us)
            results.compare(CASE, FROM_AVRO, whole, us=us)


def _add(
    results: Answer, who: str, rounds: Sequence[Landed], queries: Sequence[tuple[Cost, int]]
) -> None:
    results.add(CASE, who, CPU, [landed.cpu for landed in rounds])
    results.add(CASE, who, WALL, [landed.wall for landed in rounds])
    results.add(CASE, who, STREAM, [landed.few.cpu for landed in rounds])
    results.add(CASE, who, STREAM_WALL, [landed.few.wall for landed in rounds])
    results.add(CASE, who, BATCH, [cost.cpu for cost, _ in queries])
    results.add(CASE, who, BATCH_WALL, [cost.wall for cost, _ in queries])
