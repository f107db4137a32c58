"""Sparks whose driver or executors are killed: every row lands, or is sent, and once."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest
from killing import Orders, times
from lakes import DeltaLake, DirectoryLake, IcebergLake
from reading import everything
from sending import check_numbered, numbered, send_numbered
from spark_classes_killed import SENDING
from spark_tasks import Query
from support import by_profile, spark_home

if TYPE_CHECKING:
    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCRIPT = Path(__file__).with_name("sparking.py")
PARTITIONS = 2
SEGMENTS = 200
OFFSETS = 5
"""A batch has so many segments."""
ROWS, KILLS = by_profile((4_000, 1), (500_000, 10))
TRIES = 12
"""A Spark is started so often if its workers are late, which ends it."""
TASKS = ("before a file", "in a file")
POINTS = (*TASKS, "before the commit", "in the swap", "before the checkpoint", "between batches")
KINDS = [DirectoryLake, DeltaLake, IcebergLake]


@pytest.fixture(scope="module")
def filled(kafka: LocalKafka) -> str:
    """Return the name of a topic with all rows."""
    name = "killed-on-spark"
    send_numbered(kafka, name, ROWS, partitions=PARTITIONS, segments=SEGMENTS)
    return name


class Stream:
    """A stream from a topic, in processes that are killed at points of their work."""

    def __init__(
        self, kafka: LocalKafka, topic: str, folder: Path, sink: dict[str, str], mode: str
    ) -> None:
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        self._source = {
            **servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "mode": mode,
        }
        self._sink = {**servers, "checkpointLocation": str(folder / "checkpoint"), **sink}
        self._folder = folder
        self._numbers = itertools.count()

    def kill_drivers(self, points: list[tuple[str, int]]) -> list[str]:
        """Start a driver for each point, to be killed at an arrival there; return the log."""
        return [self._kill_driver(*point) for point in points]

    def kill_executors(self, points: tuple[str, ...], kills: int) -> list[str]:
        """Run to the end while executors are killed at the points; return the log."""
        # Seven have no factor in common with the points, or the files of a batch.
        orders = self._orders(points, tuple(range(2, 2 + 7 * kills, 7)), "executor")
        self.run(orders=orders)
        return orders.killed()

    def run(self, *, offsets: int = OFFSETS, orders: Orders | None = None) -> None:
        """Run to the end."""
        for _ in range(TRIES):
            if self._start(offsets, orders) == 0:
                return
        pytest.fail(f"{TRIES} times: not at the end")

    def _kill_driver(self, point: str, at: int) -> str:
        for _ in range(TRIES):
            # New ones each time: processes of a killed Spark may count on for a moment.
            orders = self._orders((point,), (at,), "driver")
            assert self._start(OFFSETS, orders) != 0, f"the stream came to its end before {point}"
            for line in orders.killed():
                return line
        return pytest.fail(f"{TRIES} times: not {point}")

    def _orders(self, points: tuple[str, ...], at: tuple[int, ...], whom: str) -> Orders:
        folder = self._folder / f"orders-{next(self._numbers)}"
        folder.mkdir()
        return Orders(points=points, at=at, folder=str(folder), whom=whom)

    def _start(self, offsets: int, orders: Orders | None) -> int:
        """Start a Spark, and return its exit code; a killed one leaves its files in the folder."""
        temporary = self._folder / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {
            "PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), *sys.path]),
            "TMPDIR": str(temporary),
        }
        environment |= orders.environment() if orders else {}
        master = "local[2,1]"
        if orders and orders.whom == "executor":
            master = "local-cluster[2,1,1024]"
            home = self._folder / f"spark-{next(self._numbers)}"
            environment["SPARK_HOME"] = str(spark_home(home, Path(pyspark.__file__).parent))
        source = {**self._source, "maxOffsetsPerTrigger": str(offsets)}
        command = [sys.executable, SCRIPT, master, json.dumps(source), json.dumps(self._sink)]
        return subprocess.run(
            command, env=os.environ | environment, start_new_session=True, check=False
        ).returncode


class Landing(Stream):
    """A stream from a topic into a table."""

    def __init__(self, kafka: LocalKafka, topic: str, folder: Path, kind: Any) -> None:
        folder.mkdir()
        self._lake = kind(folder / "lake")
        options = self._lake.spark_options()
        super().__init__(kafka, topic, folder, {"format": "killed_lake", **options}, "ranges")
        self._without_spark = Query(kafka, topic, **options)

    def check(self, record_property: Any) -> None:
        """Land what is left, without Spark; compare the table with what was sent."""
        self._without_spark.land(self._without_spark.ranges())
        check_numbered(self._lake.read(), ROWS, record_property)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", POINTS)
def test_drivers_that_land_are_killed(
    kafka: LocalKafka, filled: str, tmp_path: Path, record_property: Any, kind: Any, point: str
) -> None:
    """Every row lands, and once. The run is repeated if too many kills came after the point."""
    hits = 0
    for run in itertools.count():
        stream = Landing(kafka, filled, tmp_path / f"{run}", kind)
        hits = stream.kill_drivers([(point, at) for at in times(point, KILLS)]).count(point)
        record_property("drivers killed", f"{hits} of {KILLS} {point}")
        stream.check(record_property)
        if hits >= 0.8 * KILLS:
            break


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", TASKS)
def test_executors_that_land_are_killed(
    kafka: LocalKafka, filled: str, tmp_path: Path, record_property: Any, kind: Any, point: str
) -> None:
    """Their tasks run again, on others. What comes after the tasks is the driver's work."""
    stream = Landing(kafka, filled, tmp_path / "run", kind)
    killed = stream.kill_executors((point,), KILLS)
    record_property("executors killed", f"{len(killed)} of {KILLS} {point}")
    stream.check(record_property)
    assert killed == [point] * KILLS


def test_a_checkpoint_is_lost_and_the_batches_are_others(
    kafka: LocalKafka, filled: str, tmp_path: Path, record_property: Any
) -> None:
    stream = Landing(kafka, filled, tmp_path / "run", DeltaLake)
    stream.kill_drivers([("after the swap", 2)])
    (tmp_path / "run" / "checkpoint").rename(tmp_path / "lost")
    stream.run(offsets=OFFSETS + 1)
    stream.check(record_property)


# --- the writer -----------------------------------------------------------------------------------


def send_and_kill(stream: Stream, whom: str, points: tuple[str, ...]) -> Counter[str]:
    """Send all rows while drivers or executors are killed; return how often at which point."""
    if whom == "executor":
        return Counter(stream.kill_executors(points, KILLS))
    killed = stream.kill_drivers(
        [(point, 2) for point in itertools.islice(itertools.cycle(points), KILLS)]
    )
    stream.run()
    return Counter(killed)


def read_back(kafka: LocalKafka, topic: str) -> pa.Table:
    records = everything(kafka.bootstrap_servers, topic)
    return pa.Table.from_pylist([record.value() for record in records], numbered(0).schema)


@pytest.mark.parametrize("whom", ["driver", "executor"])
def test_rows_of_a_transaction_are_sent_once_whatever_is_killed(
    kafka: LocalKafka,
    filled: str,
    topic: TopicFactory,
    tmp_path: Path,
    record_property: Any,
    whom: str,
) -> None:
    other = topic(PARTITIONS)
    options = {"format": "killed_kafka", "topic": other, "kafka.transactional.id": other}
    killed = send_and_kill(Stream(kafka, filled, tmp_path, options, "records"), whom, SENDING)
    record_property("killed", dict(killed))
    check_numbered(read_back(kafka, other), ROWS, record_property)
    assert killed.total() == KILLS


@pytest.mark.parametrize("whom", ["driver", "executor"])
def test_without_a_transaction_no_row_is_lost(
    kafka: LocalKafka,
    filled: str,
    topic: TopicFactory,
    tmp_path: Path,
    record_property: Any,
    whom: str,
) -> None:
    other = topic(PARTITIONS)
    options = {"format": "killed_kafka", "topic": other}
    stream = Stream(kafka, filled, tmp_path, options, "records")
    killed = send_and_kill(stream, whom, ("while sending",))
    counts = Counter(read_back(kafka, other)["n"].to_pylist())
    record_property("killed", dict(killed))
    record_property("rows sent again", counts.total() - ROWS)
    assert set(counts) == set(range(ROWS))
    assert killed.total() == KILLS
