"""What has changed since an earlier revision of this project?"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from confluent_kafka import TopicPartition

import columnar_kafka
from benchmarks import data
from benchmarks.answer import CPU, Answer
from benchmarks.child import Child, Children, Clock, Cost
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Compared with an earlier revision, a record"
IS_LONG = True
ABOUT = """Both revisions use a Kafka in memory, in one process each, without the native core, which
is not built for the earlier one: `python -m benchmarks --only revision --against REVISION`."""

ROOT: Final = Path(__file__).parents[2]
NOW: Final = "ours"
RECORDS: Final = 20_000
CONFIG: Final[dict[str, Any]] = {"columnar.encoding": "parquet", "columnar.segment.rows": 5_000}
PRODUCE, POLL, CONSUME, ARROW = "produce", "poll", "consume(500)", "consume_arrow(500)"


class Revision:
    """Produces and consumes in memory; lives in a child whose package may be another revision's."""

    def __init__(self, dataset: str, count: int, tree: str) -> None:
        if not Path(columnar_kafka.__file__).is_relative_to(tree):
            raise AssertionError(f"{columnar_kafka.__file__} is not in {tree}")
        self._data = data.load(dataset)
        self._rows = self._data.block(count, fresh=False)
        self._kafka = FakeKafka()
        self._topics = 0
        self._send(Clock())

    def run(self, way: str) -> Cost:
        """Measure one round."""
        if way == PRODUCE:
            return self._send(Clock())
        settings = {"group.id": "g", "columnar.encoding": "parquet", "enable.auto.commit": False}
        consumer = self._kafka.Consumer(settings)
        consumer.assign([TopicPartition("topic-1", 0, 0)])
        count = 0
        clock = Clock()
        while count < len(self._rows):
            left = min(500, len(self._rows) - count)
            if way == POLL:
                count += consumer.poll(1).value() is not None
            elif way == CONSUME:
                count += sum(message.value() is not None for message in consumer.consume(left, 1))
            else:
                count += consumer.consume_arrow(left, 1).num_rows
        cost = clock.stop()
        consumer.close()
        return cost

    def _send(self, clock: Clock) -> Cost:
        self._topics += 1
        topic = f"topic-{self._topics}"
        self._kafka.create_topic(topic, 1)
        with self._kafka.Producer(CONFIG) as producer:
            producer.set_schema(topic, json.dumps(self._data.avro))
            for row in self._rows:
                producer.produce(topic, row)
        return clock.stop()


def answer(bench: Bench) -> Answer:
    """Let the revisions take turns."""
    results = Answer()
    if not bench.against:
        return results
    count = bench.rows(RECORDS)
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, COLUMNAR_KAFKA_NATIVE="0"):
        tree = str(Path(folder, "tree"))
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", tree, bench.against], check=True)
        try:
            for name in "narrow", "flights", "nested":
                start = {
                    NOW: Child(Revision, name, count, str(ROOT)),
                    bench.against: Child(Revision, name, count, tree, tree=tree),
                }
                with Children(start) as children:
                    for way in PRODUCE, POLL, CONSUME, ARROW:
                        case = f"{name}, {way}"
                        bench.say(case)
                        results.add_costs(case, children.rounds(bench.rounds, "run", way), count)
                        results.compare(case, bench.against, CPU)
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)
    return results
