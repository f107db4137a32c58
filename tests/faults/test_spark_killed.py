"""Sparks whose driver or workers are killed: every row lands, or is sent, and once."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from killing import LANDING, SENDING
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows
from reading import numbers
from spark_tasks import Query, send

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCRIPT = Path(__file__).with_name("sparking.py")
PARTITIONS = 2
ROWS = 80
TRIES = 12
"""A Spark is started so often if its workers are late, which ends it."""


class Stream:
    """A stream from a topic, in a process of its own that may be killed.

    Before each start `ROWS` more are sent: `sent` of {n}, n from 0.
    """

    def __init__(self, kafka: LocalKafka, topic: str, folder: Path, sink: dict[str, str]) -> None:
        self._kafka = kafka
        self._servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        self._topic = topic
        self.sent = 0
        # A new file each time: processes of the killed Spark before may count on for a moment.
        self._counts = (folder / f"count-{n}" for n in itertools.count())
        self._sink = {**self._servers, "checkpointLocation": str(folder / "checkpoint"), **sink}

    def run(
        self, point: str = "", *, driver: bool = True, mode: str = "ranges", offsets: int = 16
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
            send(self._kafka, self._topic, range(self.sent, self.sent + ROWS))
            self.sent += ROWS
            count = next(self._counts)
            environment = {"PYTHONPATH": path, "KILL_POINT": point, "KILL_COUNT": str(count)}
            code = self._start(line, environment, driver=driver)
            is_killed = count.exists() and count.stat().st_size >= 2
            if is_killed == bool(point) and code == (-signal.SIGKILL if point and driver else 0):
                return
        pytest.fail(f"{TRIES} times: not {point or 'done'}")

    def _start(self, line: list[str], environment: dict[str, str], *, driver: bool) -> int:
        environment["KILL_RETRIES"] = "1" if driver else "4"
        # A group of its own, which has the process's own number: the driver and its Java.
        start = 'import os, sys; os.setsid(); os.environ["KILL_DRIVER"] = sys.argv[1] and '
        start += "str(os.getpid()); os.execv(sys.argv[2], sys.argv[2:])"
        command = [sys.executable, "-c", start, "yes" if driver else "", *line]
        return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


class Landing(Stream):
    """A stream from a topic into a table."""

    def __init__(self, kafka: LocalKafka, topic: str, folder: Path, kind: Any) -> None:
        self._lake = kind(folder / "lake")
        options = self._lake.spark_options()
        super().__init__(kafka, topic, folder, {"format": "killed_lake", **options})
        self._without_spark = Query(kafka, topic, **options)

    def rest(self) -> list[int]:
        """Land what is left, without Spark; return what is in the table."""
        self._without_spark.land(self._without_spark.ranges())
        return rows(self._lake)


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_a_driver_that_lands_is_killed_at_every_point(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, kind: Any
) -> None:
    stream = Landing(kafka, topic(PARTITIONS), tmp_path, kind)
    for point in LANDING:
        stream.run(point)
    assert stream.rest() == list(range(stream.sent))


def test_workers_that_land_are_killed_and_their_tasks_run_again(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    stream = Landing(kafka, topic(PARTITIONS), tmp_path, DirectoryLake)
    for point in LANDING[:2]:
        stream.run(point, driver=False)
    assert stream.rest() == list(range(stream.sent))


def test_a_checkpoint_is_lost_and_the_batches_are_others(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    stream = Landing(kafka, topic(PARTITIONS), tmp_path, DeltaLake)
    stream.run("after the swap")
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    stream.run(offsets=17)
    assert stream.rest() == list(range(stream.sent))


@pytest.mark.parametrize("driver", [True, False])
def test_rows_of_a_transaction_are_sent_once_whatever_is_killed(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, driver: bool
) -> None:
    name, other = topic(PARTITIONS), topic(PARTITIONS)
    options = {"format": "killed_kafka", "topic": other, "kafka.transactional.id": other}
    stream = Stream(kafka, name, tmp_path, options)
    for point in SENDING:
        stream.run(point, mode="records", driver=driver)
    stream.run(mode="records")
    assert numbers(kafka.bootstrap_servers, other) == list(range(stream.sent))


def test_without_a_transaction_no_row_is_lost(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, record_property: Any
) -> None:
    name, other = topic(PARTITIONS), topic(PARTITIONS)
    stream = Stream(kafka, name, tmp_path, {"format": "killed_kafka", "topic": other})
    stream.run("while sending", mode="records")
    stream.run(mode="records")
    found = Counter(numbers(kafka.bootstrap_servers, other))
    assert set(found) == set(range(stream.sent))
    record_property("rows sent again", found.total() - stream.sent)
