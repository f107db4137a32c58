"""Processes killed with SIGKILL in the middle of their work: nothing lost, nothing doubled."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import eventually

from columnar_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

ROWS = 100_000
KILLS = 15
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])

READER = """
    import sys
    from confluent_kafka import TopicPartition
    from columnar_kafka import Consumer
    servers, topic, out, ends = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "killed",
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "columnar.encoding": "parquet", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0)])  # where the group left off
    last = None
    with open(out, "a", buffering=1) as seen:
        for count in range(1, sys.maxsize):
            message = consumer.poll(3600)
            if message.error() is not None:
                if ends == "ends" and message.error().name() == "_PARTITION_EOF":
                    break
                continue  # or the group's coordinator is not there yet: librdkafka asks again
            seen.write(f"{message.value()['n']}\\n")
            if count % 37 == 0:
                consumer.commit(message=message, asynchronous=False)
            last = message
    if last is not None:
        consumer.commit(message=last, asynchronous=False)
"""

LANDER = """
    import sys
    from confluent_kafka import Consumer, TopicPartition
    from columnar_kafka.lake.model import TopicGeneration, SourceMessage
    from columnar_kafka.lake.tables.directory.table import ParquetDirectory
    from columnar_kafka.lake.landing.stage import land
    servers, topic, out, ends = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "lander",
        "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    partition = TopicPartition(topic, 0, 0)  # from the beginning: the table knows what it has
    consumer.assign([partition])
    held, table = [], ParquetDirectory(out)
    while True:
        message = consumer.poll(3600)
        end = message.error() is not None
        if not end:
            held.append(SourceMessage(topic=topic, partition=0, offset=message.offset(),
                headers=message.headers(), value=message.value()))
        if held and (end or len(held) == 7):
            land(held, table=table, generations={topic: TopicGeneration("c", "t")})
            held = []
        if end and ends == "ends":
            break
"""


@dataclass
class Victim:
    """A script that is killed again and again, and has enough to do until each kill."""

    code: str
    kafka: LocalKafka
    topic: str
    segment_rows: int
    out: Path
    sent: int = 0

    def run_and_kill(self, progress: Callable[[], int], *, most: int, seed: int) -> None:
        """Kill it each time after some progress, and then let it run to the end.

        Before each start comes its share of the rows, which is more than `most`: however fast it
        is, and however late it is killed, it can make that progress, and it does not end before.
        """
        random_number = random.Random(seed)
        for _ in range(KILLS):
            self.send(ROWS // (KILLS + 1))
            enough = progress() + random_number.randint(1, most)
            process = self.start("goes on")
            try:
                eventually(lambda enough=enough: progress() >= enough)
            finally:
                process.kill()
            assert process.wait() == -signal.SIGKILL
        self.send(ROWS - self.sent)
        last = self.start("ends")
        assert last.wait(120) == 0

    def send(self, rows: int) -> None:
        """Produce the next rows."""
        config = {
            "bootstrap.servers": self.kafka.bootstrap_servers,
            "columnar.encoding": "parquet",
            "columnar.segment.rows": self.segment_rows,
        }
        with Producer(config) as producer:
            producer.set_schema(self.topic, SCHEMA)
            for n in range(self.sent, self.sent + rows):
                producer.produce(self.topic, {"n": n, "text": f"text {n}"})
                producer.poll(0)
        self.sent += rows

    def start(self, ends: str) -> subprocess.Popen[bytes]:
        """Start it; with "ends" it ends where the topic does."""
        arguments = (self.kafka.bootstrap_servers, self.topic, str(self.out), ends)
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(self.code), *arguments])


def test_a_killed_reader_loses_nothing_and_repeats_no_more_than_it_had_not_committed(
    kafka, topic, tmp_path: Path
) -> None:
    out = tmp_path / "seen"
    out.touch()
    reader = Victim(READER, kafka, topic(), 4_000, out)
    reader.run_and_kill(lambda: out.stat().st_size, most=20_000, seed=1)
    seen = Counter(int(line) for line in out.read_text().split())
    assert sorted(seen) == list(range(ROWS))
    assert seen.total() - ROWS <= 37 * KILLS


def test_a_killed_landing_neither_loses_nor_doubles_a_row(kafka, topic, tmp_path: Path) -> None:
    lander = Victim(LANDER, kafka, topic(), 100, tmp_path)
    log = tmp_path / "_columnar/log"
    lander.run_and_kill(lambda: len(list(log.glob("*.json"))), most=4, seed=2)
    files = sorted((tmp_path / lander.topic).glob("*.parquet"))
    numbers = [n for path in files for n in pq.read_table(path, columns=["n"])["n"].to_pylist()]
    assert sorted(numbers) == list(range(ROWS))
