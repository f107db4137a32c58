"""Processes killed with SIGKILL in the middle of their work: nothing lost, nothing doubled."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
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
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])

READER = """
    import sys
    from confluent_kafka import TopicPartition
    from columnar_kafka import Consumer
    servers, topic, out = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "killed",
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "columnar.encoding": "parquet", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0)])  # where the group left off
    last = None
    with open(out, "a", buffering=1) as seen:
        for count in range(1, sys.maxsize):
            message = consumer.poll(120)
            if message.error() is not None:
                if message.error().name() == "_PARTITION_EOF":
                    break
                continue  # the group's coordinator is not there yet: librdkafka asks again
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
    from columnar_kafka.lake.directory import ParquetDirectory
    from columnar_kafka.lake.stage import land
    servers, topic, out = sys.argv[1:]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "lander",
        "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    partition = TopicPartition(topic, 0, 0)  # from the beginning: the table knows what it has
    consumer.assign([partition])
    held, table = [], ParquetDirectory(out)
    while True:
        message = consumer.poll(120)
        end = message.error() is not None
        if not end:
            held.append(SourceMessage(topic=topic, partition=0, offset=message.offset(),
                headers=message.headers(), value=message.value()))
        if held and (end or len(held) == 7):
            land(held, table=table, generations={topic: TopicGeneration("c", "t")})
            held = []
        if end:
            break
"""


def produce(kafka: LocalKafka, topic: str, segment_rows: int) -> None:
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": segment_rows,
    }
    with Producer(config) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in range(ROWS):
            producer.produce(topic, {"n": n, "text": f"text {n}"})
            producer.poll(0)


def run_and_kill(
    code: str, *arguments: str, progress: Callable[[], int], most: int, kills: int, seed: int
) -> None:
    """Run a script again and again, killed each time but the last, always after some progress."""
    random_number = random.Random(seed)
    for _ in range(kills):
        enough = progress() + random_number.randint(1, most)
        process = start(code, *arguments)
        try:
            eventually(lambda enough=enough: progress() >= enough)
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL
    last = start(code, *arguments)
    assert last.wait(120) == 0


def start(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *arguments])


def test_a_killed_reader_loses_nothing_and_repeats_no_more_than_it_had_not_committed(
    kafka, topic, tmp_path: Path
) -> None:
    name, out, kills = topic(), tmp_path / "seen", 15
    produce(kafka, name, 9_000)
    out.touch()
    run_and_kill(
        READER,
        kafka.bootstrap_servers,
        name,
        str(out),
        progress=lambda: out.stat().st_size,
        most=20_000,
        kills=kills,
        seed=1,
    )
    seen = Counter(int(line) for line in out.read_text().split())
    assert sorted(seen) == list(range(ROWS))
    assert seen.total() - ROWS <= 37 * kills


def test_a_killed_landing_neither_loses_nor_doubles_a_row(kafka, topic, tmp_path: Path) -> None:
    name = topic()
    produce(kafka, name, 200)
    run_and_kill(
        LANDER,
        kafka.bootstrap_servers,
        name,
        str(tmp_path),
        progress=lambda: len(list(tmp_path.glob("_columnar/log/*.json"))),
        most=4,
        kills=15,
        seed=2,
    )
    files = sorted((tmp_path / name).glob("*.parquet"))
    numbers = [n for path in files for n in pq.read_table(path, columns=["n"])["n"].to_pylist()]
    assert sorted(numbers) == list(range(ROWS))
