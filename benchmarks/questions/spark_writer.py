"""What does a row cost that Spark writes to Kafka, and how large does it become?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.answer import CPU, WALL, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import OURS
from benchmarks.landing import Ingesting, InOneProcess
from benchmarks.sending import end_of
from benchmarks.spark import unless_late
from benchmarks.writing import Writing
from columnar_kafka.ingest import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.bench import Bench
    from benchmarks.child import Cost

TITLE = "Writing by Spark, a row"
IS_LONG = True
ABOUT = """Batch queries write 1,000,000 flights, from a Parquet file to a topic of one partition,
with zstd: ours with the writer `columnar_kafka` in segments of 10,000 rows, the others with
`to_json` or `to_avro` and Spark's `kafka` sink. Its `batch.size` is 1,000,000 and its `linger.ms`
100: by default its batches are smaller, and cost more CPU and bytes. Each process is a Spark with
two threads, and has written all rows four times before the first round. A round has a new topic,
which is read and compared with what was sent. The CPU is that of Java, of Spark's Python workers
and of the process that starts the query, and a whole query's, divided by its rows: what reading the
file takes is in it, and shown apart. So is what a writer in Python takes that drops its rows, which
Spark has read and sent to it as Arrow's columns: no such writer can take less. The bytes are those
of the broker's log."""

ROWS: Final = 100_000
TIMES: Final = 10
WARM_UPS: Final = 4
CASE: Final = "flights"
TO_JSON, TO_AVRO = "Spark to_json", "Spark to_avro"
DROPPING, READING = "Python drops the rows", "reading the file"
ENCODINGS: Final = {
    OURS: "segments",
    TO_JSON: "json",
    TO_AVRO: "avro",
    DROPPING: "bare",
    READING: "",
}
CHECKS: Final = {
    OURS: (Ingesting, Rules(verify="decode")),
    TO_JSON: (InOneProcess, "pyarrow.json"),
    TO_AVRO: (InOneProcess, "pyruhvro"),
}
BYTES: Final = "bytes in the log"
LESS_CPU: Final = 5
BYTES_TARGETS: Final = {TO_JSON: 0.5, TO_AVRO: 0.68}


def answer(bench: Bench) -> Answer:
    """Write the rows in each format in turn, each round to new topics."""
    results = Answer()
    rows, times = bench.rows(ROWS), 2 if bench.short else TIMES
    start = {
        who: Child(Writing, encoding, bench.servers, rows, times)
        for who, encoding in ENCODINGS.items()
    }
    costs: dict[str, list[Cost]] = {who: [] for who in start}
    sizes: dict[str, list[float]] = {who: [] for who in CHECKS}
    with Children(start) as children:
        for number in range(WARM_UPS + bench.rounds):
            bench.say(f"round {number + 1 - WARM_UPS}")
            for who, child in children:
                cost, topic = unless_late(partial(_written, bench, child))
                if number < WARM_UPS:
                    bench.drop(topic)
                    continue
                costs[who].append(cost)
                if who in CHECKS:
                    sizes[who].append(bench.log_bytes(topic) / (rows * times))
                    _check(bench, who, topic, rows, times)
                bench.drop(topic)
    _add(results, costs, sizes, rows * times)
    return results


def _written(bench: Bench, child: Child) -> tuple[Cost, str]:
    """Write a round's rows to a new topic: a query that failed may have left some in an old one."""
    topic = bench.topic()
    return child.call("write", topic), topic


def _check(bench: Bench, who: str, topic: str, rows: int, times: int) -> None:
    make, how = CHECKS[who]
    child = Child(make, how, bench.servers, topic)
    try:
        child.call("check", end_of(bench.servers, topic), rows, times)
    finally:
        child.close()


def _add(
    results: Answer,
    costs: Mapping[str, list[Cost]],
    sizes: Mapping[str, list[float]],
    rows: int,
) -> None:
    for who, rounds in costs.items():
        results.add(CASE, who, CPU, [cost.cpu * 1e6 / rows for cost in rounds])
        results.add(CASE, who, WALL, [cost.wall * 1e6 / rows for cost in rounds])
        if who in sizes:
            results.add(CASE, who, BYTES, sizes[who])
    for them, at_most in BYTES_TARGETS.items():
        results.compare(CASE, them, CPU, at_least=LESS_CPU)
        share = [a / b for a, b in zip(sizes[OURS], sizes[them], strict=True)]
        results.limit(f"{CASE}: {BYTES}, ours / {them}", share, at_most, "×")
