"""Sparks whose driver or workers are killed: every row lands, or is sent, and once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from killing import LANDING, SENDING
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows

from columnar_kafka import Consumer, Producer

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
SCRIPT = Path(__file__).with_name("sparking.py")
PARTITIONS = 2
TRIES = 12
"""A Spark is started so often if its workers are late, which ends it."""


def send(kafka: LocalKafka, topic: str, numbers: range) -> None:
    """Send rows of {n}, four a segment, to all partitions of a topic."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": 4,
    }
    with Producer(config) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in numbers:
            producer.produce(topic, {"n": n}, key=f"{n}")


class Stream:
    """A stream from a topic, in a process of its own that may be killed."""

    def __init__(self, kafka: LocalKafka, topic: str, folder: Path, **sink: str) -> None:
        self._servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        self._topic = topic
        self._count = folder / "count"
        self._sink = {**self._servers, "checkpointLocation": str(folder / "checkpoint"), **sink}

    def run(
        self, point: str = "", *, driver: bool = True, mode: str = "ranges", offsets: int = 10
    ) -> None:
        """Run until the driver is killed at a point, or to the end if a worker is killed."""
        options = {
            **self._servers,
            "subscribe": self._topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(offsets),
            "mode": mode,
        }
        line = [sys.executable, str(SCRIPT), json.dumps(options), json.dumps(self._sink)]
        path = os.pathsep.join([str(SCRIPT.parent), *sys.path])
        for _ in range(TRIES):
            self._count.unlink(missing_ok=True)
            code = self._start(line, {"PYTHONPATH": path, "KILL_POINT": point}, driver=driver)
            is_killed = self._count.exists() and self._count.stat().st_size >= 2
            if is_killed == bool(point) and code == (-signal.SIGKILL if point and driver else 0):
                return
        pytest.fail(f"{TRIES} times: not {point or 'done'}")

    def _start(self, line: list[str], environment: dict[str, str], *, driver: bool) -> int:
        environment |= {"KILL_COUNT": str(self._count), "KILL_RETRIES": "1" if driver else "4"}
        # A group of its own, which has the process's own number: the driver and its Java.
        start = 'import os, sys; os.setsid(); os.environ["KILL_DRIVER"] = sys.argv[1] and '
        start += "str(os.getpid()); os.execv(sys.argv[2], sys.argv[2:])"
        command = [sys.executable, "-c", start, "yes" if driver else "", *line]
        return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


def landing(kafka: LocalKafka, topic: str, folder: Path, lake: Any) -> Stream:
    options = {"format": "killed_lake", "path": str(lake.root), "table.format": "parquet"}
    if isinstance(lake, DeltaLake):
        options["table.format"] = "delta"
    elif isinstance(lake, IcebergLake):
        options |= {f"table.catalog.{key}": value for key, value in lake.catalog.items()}
        options |= {"table.format": "iceberg", "path": "lake.t"}
    return Stream(kafka, topic, folder, **options)


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_a_driver_that_lands_is_killed_at_every_point(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, kind: Any
) -> None:
    name, lake, sent = topic(PARTITIONS), kind(tmp_path / "lake"), 0
    stream = landing(kafka, name, tmp_path, lake)
    for point in LANDING:
        send(kafka, name, range(sent, sent + 100))
        sent += 100
        stream.run(point)
    stream.run()
    assert rows(lake) == list(range(sent))


def test_workers_that_land_are_killed_and_their_tasks_run_again(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name, lake, sent = topic(PARTITIONS), DirectoryLake(tmp_path / "lake"), 0
    stream = landing(kafka, name, tmp_path, lake)
    for point in LANDING[:2]:
        send(kafka, name, range(sent, sent + 100))
        sent += 100
        stream.run(point, driver=False)
        assert rows(lake) == list(range(sent))


def test_a_checkpoint_is_lost_and_the_batches_are_others(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name, lake = topic(PARTITIONS), DeltaLake(tmp_path / "lake")
    send(kafka, name, range(200))
    stream = landing(kafka, name, tmp_path, lake)
    stream.run("after the swap")
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    stream.run(offsets=17)
    assert rows(lake) == list(range(200))


def sent_rows(kafka: LocalKafka, topic: str) -> list[int]:
    """Return the committed rows of a topic, ascending."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": topic,
        "columnar.encoding": "parquet",
        "enable.partition.eof": True,
    }
    found: list[int] = []
    with Consumer(config) as consumer:
        for partition in range(PARTITIONS):
            consumer.assign([TopicPartition(topic, partition, 0)])
            messages = takewhile(
                lambda each: not each.error(), iter(lambda: consumer.poll(60), None)
            )
            found += [message.value()["n"] for message in messages]
    return sorted(found)


@pytest.mark.parametrize("driver", [True, False])
def test_rows_of_a_transaction_are_sent_once_whatever_is_killed(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, driver: bool
) -> None:
    name, other, sent = topic(PARTITIONS), topic(PARTITIONS), 0
    options = {"format": "killed_kafka", "topic": other, "kafka.transactional.id": other}
    stream = Stream(kafka, name, tmp_path, **options)
    for point in SENDING:
        send(kafka, name, range(sent, sent + 100))
        sent += 100
        stream.run(point, mode="records", driver=driver)
    stream.run(mode="records")
    assert sent_rows(kafka, other) == list(range(sent))


def test_without_a_transaction_no_row_is_lost(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, record_property: Any
) -> None:
    name, other = topic(PARTITIONS), topic(PARTITIONS)
    send(kafka, name, range(100))
    stream = Stream(kafka, name, tmp_path, format="killed_kafka", topic=other)
    stream.run("while sending", mode="records")
    stream.run(mode="records")
    found = Counter(sent_rows(kafka, other))
    assert set(found) == set(range(100))
    record_property("rows sent again", found.total() - 100)
