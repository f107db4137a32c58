"""Sparks that are killed in a stream's first batch: it goes on from where it began."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from killing import Orders
from lakes import DirectoryLake, rows
from sending import send
from spark_classes_killed import MEANWHILE
from support import by_profile, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCRIPT = Path(__file__).with_name("sparking.py")
TRIES = 12
"""A Spark is started so often if its workers are late, which ends it."""


@dataclass(frozen=True)
class Stream:
    """A stream from a topic into a folder."""

    kafka: LocalKafka
    topic: str
    folder: Path
    mode: str
    starting: str

    def start(self, environment: Mapping[str, str] | None = None, **sink: Any) -> int:
        """Start a Spark, and return its exit code."""
        servers = {"kafka.bootstrap.servers": self.kafka.bootstrap_servers}
        source = {**servers, "subscribe": self.topic, "mode": self.mode}
        source |= {"startingOffsets": self.starting}
        # What lands messages asks for the source's gaps; Spark's own sink takes any rows.
        kind = "parquet" if self.mode == "records" else "killed_lake"
        options = {"path": str(self.folder / "lake"), "format": kind, **servers, **sink}
        options |= {"checkpointLocation": str(self.folder / "checkpoint")}
        paths = {"PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), *sys.path])}
        return subprocess.run(
            [sys.executable, SCRIPT, "local[2,1]", json.dumps(source), json.dumps(options)],
            env=os.environ | paths | dict(environment or {}),
            start_new_session=True,
            check=False,
        ).returncode

    def be_killed(self, **sink: Any) -> bool:
        """Have a Spark that is killed when it has logged its first batch; say whether it was.

        Rows come, and a partition, between the questions where it starts and where it ends.
        """
        self.folder.mkdir()
        orders = Orders(points=("after the log",), at=(1,), folder=str(self.folder), whom="driver")
        environment = {**orders.environment(), MEANWHILE: str(self.folder)}
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(self.start, environment, **sink)
            eventually(lambda: ended.done() or (self.folder / "asked").exists())
            self.grow(2, range(8, 24))
            (self.folder / "sent").touch()
            assert ended.result() != 0
        return orders.killed() == ["after the log"]

    def grow(self, partitions: int, numbers: range) -> None:
        """Add partitions to the topic; send rows to all of them."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(60)
        eventually(
            lambda: (
                len(admin.list_topics(self.topic, 60).topics[self.topic].partitions) == partitions
            )
        )
        send(self.kafka, self.topic, numbers)

    def read(self) -> list[int]:
        """Return the numbers that have landed."""
        if self.mode != "records":
            return rows(DirectoryLake(self.folder / "lake"))
        return sorted(pl.read_parquet(self.folder / "lake" / "*.parquet")["n"].to_list())


CASES = [
    ("segments", "latest", True),
    ("records", "latest", True),
    ("ranges", "latest", True),
    # With availableNow.
    ("segments", "latest", False),
    ("records", "latest", False),
    # These ask where they end before they ask where they start.
    ("ranges", "latest", False),
    ("ranges", "earliest", False),
]


@pytest.mark.parametrize(("mode", "starting", "goes_on"), by_profile(CASES[:1], CASES))
def test_a_driver_is_killed_between_the_log_and_the_commit_of_a_first_batch(
    kafka: LocalKafka,
    topic: TopicFactory,
    tmp_path: Path,
    mode: str,
    starting: str,
    goes_on: bool,
) -> None:
    """Rows that came after the start, and those of new partitions, land once."""
    for number in range(TRIES):
        name = topic()
        send(kafka, name, range(8))
        stream = Stream(kafka, name, tmp_path / f"{number}", mode, starting)
        if stream.be_killed(goes_on=goes_on):
            break
    stream.grow(3, range(24, 48))
    assert any(stream.start() == 0 for _ in range(TRIES))
    assert stream.read() == list(range(0 if starting == "earliest" else 8, 48))
