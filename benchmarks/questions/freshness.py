"""How long does a record take from `produce` until it is in the table?"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.answer import OURS, Answer
from benchmarks.child import Child, Children, Clock, tree_cpu
from benchmarks.competitors.base import connection
from benchmarks.measured import UnequalError
from benchmarks.watching import (
    EVERY_SECONDS,
    METRICS,
    P99,
    PARTITIONS,
    PATIENCE_SECONDS,
    SHARE,
    records,
    watched,
)
from columnar_kafka.ingest import Ingestor, IngestSettings, open_table

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "From produce to the table, s"
IS_LONG = True
ABOUT = """20,000 log lines a second to ten partitions, a `columnar.linger.ms` of 1,000, and
`ingest` with `--roll-seconds 5`, whose process is kept on one core where the system can. From the
call of `produce` until another process, which lists the table every 20 ms, has found the file that
has the row; each row counts. `%` is the CPU of `ingest` in percent of a core."""

ROLL_SECONDS: Final = 5.0
MORE_SECONDS: Final = 2.0
FORMATS: Final = ("parquet", "delta")


class Ingesting:
    """Lands a topic until it is stopped; lives in a child."""

    def __init__(self, table_format: str, servers: str, topic: str, place: str) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        settings = IngestSettings(roll_seconds=ROLL_SECONDS)
        table = open_table(table_format, place)
        self._ingestor = Ingestor(connection(servers), topic, table, settings)
        self._thread = threading.Thread(target=self._ingestor.run, name="ingest")
        self._clock: Clock

    def start(self) -> None:
        """Begin to land; return when the partitions are assigned."""
        self._thread.start()
        end = time.monotonic() + PATIENCE_SECONDS
        while not self._ingestor.is_assigned:
            if time.monotonic() > end or not self._thread.is_alive():
                raise TimeoutError("no partitions were assigned")
            time.sleep(EVERY_SECONDS)
        self._clock = Clock(tree_cpu)

    def stop(self) -> tuple[int, float]:
        """End; return the rows that have landed, and the CPU in percent of a core."""
        cost = self._clock.stop()
        self._ingestor.stop()
        self._thread.join()
        return self._ingestor.stats.rows, 100 * cost.cpu / cost.wall


def answer(bench: Bench) -> Answer:
    """Land in each format in turn, each round in a new table from a new topic."""
    results = Answer()
    rounds: dict[str, list[dict[str, float]]] = {table_format: [] for table_format in FORMATS}
    for number in range(bench.rounds):
        for table_format, values in rounds.items():
            bench.say(f"{table_format}, round {number + 1}")
            values.append(_round(bench, table_format))
    for table_format, values in rounds.items():
        for metric in METRICS:
            results.add(table_format, OURS, metric, [value[metric] for value in values])
        p99 = results.values(table_format, OURS, P99)
        results.limit(f"{table_format}: p99", p99, ROLL_SECONDS + MORE_SECONDS, "s")
    return results


def _round(bench: Bench, table_format: str) -> dict[str, float]:
    topic, count = bench.topic(PARTITIONS), records(bench)
    with tempfile.TemporaryDirectory() as root:
        place = f"{root}/lake"
        ingest = Child(Ingesting, table_format, bench.servers, topic, place)
        with Children({"ingest": ingest}):
            start = partial(ingest.call, "start")
            ages = watched(bench, topic, (table_format, place), start)
            landed, share = ingest.call("stop")
    bench.drop(topic)
    if landed != count:
        raise UnequalError(f"{topic}: {count:,} records sent, {landed:,} landed")
    return ages | {SHARE: share}
