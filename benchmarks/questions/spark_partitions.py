"""What does it cost Spark that a topic has many partitions?"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import TYPE_CHECKING, Final

import polars

from benchmarks import data
from benchmarks.answer import OURS, Answer
from benchmarks.child import Child, Children, Clock, Cost, tree_cpu
from benchmarks.competitors import competitor
from benchmarks.measured import Digest
from benchmarks.sending import FLUSH_SECONDS
from benchmarks.spark import Spark, source_options, unless_late
from benchmarks.streaming import run

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Many partitions on Spark"
IS_LONG = True
ABOUT = """The same 50,000 flights, in segments of 100 rows, in a topic of so many partitions: a
Spark with two threads lands them in a Delta table, by a stream with the trigger `availableNow`, the
source's mode `ranges` and the sink `columnar_lake`. What lands is read and compared with what was
sent. A case is a whole query, from its start to its end, whose Java and Python are warm."""

ROWS: Final = 50_000
SEGMENT_ROWS: Final = 100
FEW, MANY = 10, 500
MOST: Final = 1.5
CASE: Final = "flights"


class Landing:
    """Lands topics; lives in a child."""

    def __init__(self, servers: str) -> None:
        self._servers, self._data = servers, data.load(CASE)
        self._spark = Spark(self._data.avro, "pages")

    def send(self, topic: str, partitions: int, rows: int) -> None:
        """Send the rows, so that all partitions have as many segments."""
        sender = competitor(OURS, self._data)
        producer = sender.producer(self._servers, [topic], rows=SEGMENT_ROWS)
        for number, row in enumerate(self._data.block(rows, fresh=False)):
            producer.produce(topic, row, partition=number // SEGMENT_ROWS % partitions)
        producer.flush(FLUSH_SECONDS)
        producer.close()

    def check(self, topic: str, rows: int) -> None:
        """Compare what lands with the rows. Raises UnequalError."""
        sent = self._data.block(rows, fresh=False)
        with tempfile.TemporaryDirectory() as root:
            self._land(topic, f"{root}/lake")
            landed = polars.read_delta(f"{root}/lake").select(list(sent[0]))
        Digest(sent).compare(Digest(landed.iter_rows(named=True)), topic)

    def measure(self, topic: str) -> Cost:
        """Measure one query."""
        return unless_late(partial(self._measured, topic))

    def _measured(self, topic: str) -> Cost:
        with tempfile.TemporaryDirectory() as root:
            clock = Clock(tree_cpu)
            self._land(topic, f"{root}/lake")
            return clock.stop()

    def _land(self, topic: str, folder: str) -> None:
        stream = self._spark.stream(source_options(self._servers, topic), "pages")
        run(stream.option("table.format", "delta"), folder)


def answer(bench: Bench) -> Answer:
    """Land a topic with few partitions and one with many, in turn."""
    results = Answer()
    rows = bench.rows(ROWS)
    topics = {count: bench.topic(count) for count in (FEW, MANY)}
    names = {f"{count} partitions": topic for count, topic in topics.items()}
    with Children({name: Child(Landing, bench.servers) for name in names}) as children:
        for (name, child), (count, topic) in zip(children, topics.items(), strict=True):
            bench.say(name)
            child.call("send", topic, count, rows)
            child.call("check", topic, rows)
        costs = children.rounds(bench.rounds, "measure", first=names)
    for name, rounds in costs.items():
        results.add(CASE, name, "CPU s", [cost.cpu for cost in rounds])
        results.add(CASE, name, "wall s", [cost.wall for cost in rounds])
    few, many = (results.values(CASE, name, "wall s") for name in names)
    more = [theirs / ours for ours, theirs in zip(few, many, strict=True)]
    results.limit(f"wall, {MANY} partitions / {FEW}", more, MOST, "×")
    bench.drop(*topics.values())
    return results
