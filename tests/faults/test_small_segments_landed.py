"""Small segments land once, in full row groups and little memory, however often that is killed."""

from __future__ import annotations

import itertools
import sys
import time
import uuid
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from ingesting import POINTS, Job
from killing import times
from lakes import DeltaLake, DirectoryLake, IcebergLake
from support import by_profile

from columnar_kafka import Producer
from columnar_kafka.ingest import verify_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from columnar_kafka.local import LocalKafka

    Send = Callable[[int, int], str]

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Size:
    """How many segments a topic has, and how often the processes that ingest it are killed."""

    segments: int
    kills: int
    commits: int


KINDS = [DirectoryLake, DeltaLake, IcebergLake]
SIZE = by_profile(
    Size(segments=400, kills=2, commits=10), Size(segments=100_000, kills=10, commits=40)
)
ALONE = by_profile(5_000, 100_000)  # segments of one row that land without a kill
LEAST = {1: 1_000, 10: 1_500, 100: 3_000}  # bytes of a segment of so many flights
MOST_BYTES = 1.1  # of the files, over those of one large segment
MOST_WAITING = 200_000  # records that are produced and have no report yet
MOST_MEMORY = 400e6  # with the interpreter and all libraries


@pytest.fixture(scope="module")
def send(kafka: LocalKafka, flights: pa.Table) -> Send:
    """Return what sends flights in segments of so many rows, and returns the name of the topic.

    Topics are shared: each table has all of its messages.
    """
    rows = flights.slice(0, 100_000).to_pylist()

    @cache
    def send(segments: int, of: int) -> str:
        topic = uuid.uuid4().hex
        kafka.create_topic(topic, 1, {"retention.ms": "-1"})
        failed: list[Any] = []
        config = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "columnar.encoding": "parquet",
            "columnar.segment.rows": of,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failed.append(error),
        }
        with Producer(config) as producer:
            producer.set_schema(topic, flights.schema)
            for row in itertools.islice(itertools.cycle(rows), segments * of):
                while len(producer) > MOST_WAITING:
                    producer.poll(0.1)
                producer.produce(topic, row, partition=0)
        assert failed == []
        return topic

    return send


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", LEAST)
def test_processes_are_killed(
    kafka: LocalKafka, send: Send, tmp_path: Path, record_property, kind: Any, of: int
) -> None:
    topic, lake = send(SIZE.segments, of), kind(tmp_path / "lake")
    roll_bytes = LEAST[of] * SIZE.segments // SIZE.commits
    job = Job(lake=lake, servers=kafka.bootstrap_servers, topic=topic, roll_bytes=roll_bytes)
    points = [POINTS[number % len(POINTS)] for number in range(SIZE.kills)]
    killed = [
        job.be_killed(point, times(point, 1)[0], tmp_path / f"{number}")
        for number, point in enumerate(points)
    ]
    record_property("killed", killed)
    job.run()
    report = verify_topic({"bootstrap.servers": kafka.bootstrap_servers}, topic, lake.table())
    assert report.findings == []
    assert (report.messages, report.rows) == (SIZE.segments, SIZE.segments * of)
    assert len(lake.read()) == SIZE.segments * of


@pytest.mark.parametrize("kind", KINDS)
def test_they_take_little_more_than_one_large_segment(
    kafka: LocalKafka, send: Send, tmp_path: Path, record_property, kind: Any
) -> None:
    lakes = [kind(tmp_path / name) for name in ("small", "large")]
    topics = [send(ALONE, 1), send(1, ALONE)]
    memory, _ = [ingest(kafka, topic, lake) for topic, lake in zip(topics, lakes, strict=True)]
    small, large = map(nbytes_of, lakes)
    record_property("MB of memory", round(memory / 1e6))
    record_property("bytes, over one large segment's", round(small / large, 3))
    record_property("seconds to read", [timed(partial(read, lake)) for lake in lakes])
    table = lakes[0].table()
    report = verify_topic({"bootstrap.servers": kafka.bootstrap_servers}, topics[0], table)
    assert (report.findings, report.messages) == ([], ALONE)
    assert small <= MOST_BYTES * large
    assert memory <= MOST_MEMORY


def ingest(kafka: LocalKafka, topic: str, lake: Any) -> int:
    """Land a topic by the command, and return the most that this took of memory."""
    line = [sys.executable, "-m", "columnar_kafka.cli", "ingest", "--stop-at-end"]
    line += ["--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic]
    line += place(lake)
    peak = 0
    with Popen(line) as process:
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid))
            time.sleep(0.02)
    assert process.returncode == 0
    return peak


def memory_of(process: int) -> int:
    """Return the most resident bytes so far of a process that runs; 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024 if "VmHWM" in lines else 0


def place(lake: Any) -> list[str]:
    options = lake.spark_options()
    line = ["--to", options["path"], "--format", options["table.format"]]
    for key, value in options.items():
        if key.startswith("table.catalog."):
            line += ["--catalog", f"{key.removeprefix('table.catalog.')}={value}"]
    return line


def nbytes_of(lake: Any) -> int:
    return sum((lake.root / file).stat().st_size for file in lake.data_files())


def read(lake: Any) -> None:
    for file in lake.data_files():
        pq.read_table(lake.root / file)


def timed(call: Callable[[], None]) -> float:
    """Return how many seconds a call takes, at best."""
    took = []
    for _ in range(5):
        began = time.monotonic()
        call()
        took.append(time.monotonic() - began)
    return round(min(took), 4)
