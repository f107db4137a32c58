"""How long does a record take from `produce` until a stream of Spark's has it in the table?"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import ORJSON, OURS
from benchmarks.streaming import Triggered
from benchmarks.watching import METRICS, P99, PARTITIONS, SHARE, watched

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "From produce to the table by Spark, s"
IS_LONG = True
ABOUT = """20,000 log lines a second to ten partitions, and a Spark with two threads that lands them
with a `processingTime` of 5 seconds: segments in `columnar_lake`, orjson's JSON with `from_json` in
Spark's sink of Parquet files. From the call of `produce` until another process, which lists the
table every 20 ms, has found the file that has the row; each row counts. A table of Spark's sink is
what its `_spark_metadata` lists. Segments are sent with a `columnar.linger.ms` of 1,000, the
default, and with 100. `%` is the CPU of Spark and its workers in percent of a core."""

TRIGGER: Final = "5 seconds"
FROM_JSON: Final = "Spark from_json"
QUICK: Final = "ours, linger 100 ms"
WAYS: Final = {
    OURS: ("pages", OURS, None, "parquet"),
    QUICK: ("pages", OURS, 100, "parquet"),
    FROM_JSON: ("json", ORJSON, None, "spark"),
}
CASE: Final = "log"


def answer(bench: Bench) -> Answer:
    """Land in each way in turn, each round in a new table from a new topic."""
    found = Answer()
    sparks = {
        encoding: Child(Triggered, encoding, bench.servers)
        for encoding in dict.fromkeys(encoding for encoding, *_ in WAYS.values())
    }
    rounds: dict[str, list[dict[str, float]]] = {who: [] for who in WAYS}
    with Children(sparks):
        for number in range(1 + bench.rounds):
            for who, values in rounds.items():
                bench.say(f"{who}, round {number}")
                values.append(_round(bench, who, sparks[WAYS[who][0]]))
    for who, values in rounds.items():
        for metric in METRICS:
            found.add(CASE, who, metric, [each[metric] for each in values[1:]])
    found.compare(CASE, FROM_JSON, P99, at_least=1)
    found.compare(CASE, FROM_JSON, P99, at_least=1, us=QUICK)
    return found


def _round(bench: Bench, who: str, spark: Child) -> dict[str, float]:
    _, sender, linger_ms, table = WAYS[who]
    topic = bench.topic(PARTITIONS)
    with tempfile.TemporaryDirectory() as root:
        place = f"{root}/lake"
        start = partial(spark.call, "start", topic, place, TRIGGER)
        found = watched(bench, topic, (table, place), start, sender, linger_ms)
        share = spark.call("stop")
    bench.drop(topic)
    return found | {SHARE: share}
