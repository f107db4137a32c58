"""Two ingesting processes of one group, of which one is killed every few seconds."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any

import pytest
from commands import table_place
from lakes import DeltaLake, DirectoryLake, IcebergLake
from sending import check_numbered, numbered
from support import by_profile, eventually, is_long

from columnar_kafka import Producer
from columnar_kafka.ingest import verify_topic

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = 4
EVERY = 3.0
"""One of them is killed so often, in seconds."""
KILLS = by_profile(5, 60)
MOST = 8
"""So many times of those nothing may land at most; 30 it was with sessions of 45 s."""
ROWS, SEGMENTS = 5_000, 20
"""So many come between two kills."""
KINDS = by_profile([DeltaLake], [DirectoryLake, DeltaLake, IcebergLake])


@dataclass
class Group:
    """The processes, and what they have landed."""

    kafka: LocalKafka
    topic: str
    lake: Any
    folder: Path
    instances: bool
    processes: list[Popen[bytes]] = field(default_factory=list)

    def start(self, number: int) -> Popen[bytes]:
        """Start a process, or one that takes the place of another."""
        line = [
            *(sys.executable, "-m", "columnar_kafka.cli", "ingest"),
            *("--bootstrap-servers", self.kafka.bootstrap_servers, "--topic", self.topic),
            *("--roll-seconds", "0.5", "--to", *table_place(self.lake)),
        ]
        if self.instances:  # and a session that is longer than a start on a busy machine
            line += ["-X", f"group.instance.id={number}", "-X", "session.timeout.ms=30000"]
        with (self.folder / f"{number}.log").open("ab") as log:
            return Popen(line, stdout=DEVNULL, stderr=log)

    def kill(self, number: int) -> None:
        """Kill a process, and start another in its place."""
        self.processes[number].kill()
        self.processes[number].wait()
        self.processes[number] = self.start(number)

    def lands(self) -> bool:
        """Wait until the next is killed; return whether something has landed."""
        before, at = self.landed(), time.monotonic() + EVERY
        eventually(lambda: time.monotonic() > at)
        return self.landed() > before

    def landed(self) -> int:
        """Return how many messages have."""
        return sum(each.next for each in self.lake.table().fences().values())


def send(producer: Producer, topic: str, rows: pa.Table) -> None:
    """Send rows to all partitions."""
    size = -(-rows.num_rows // PARTITIONS)
    for each in range(PARTITIONS):
        producer.produce_arrow(topic, rows.slice(each * size, size), partition=each)
    producer.flush()


@pytest.mark.parametrize("instances", [True, False], ids=["instances", "members"])
@pytest.mark.parametrize("kind", KINDS)
def test_landing_goes_on_while_members_are_killed(
    kafka, topic, tmp_path, record_property, kind: Any, *, instances: bool
) -> None:
    """Each row lands, and once.

    With `group.instance.id` both are killed in turn, as a restarted process goes on at once.
    Without it one is killed again and again, and the other goes on.
    """
    name, lake = topic(PARTITIONS), kind(tmp_path / "lake")
    group = Group(kafka, name, lake, tmp_path, instances)
    count = (KILLS + 1) * ROWS
    rows, pauses = numbered(count), [0]
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": ROWS // SEGMENTS,
    }
    group.processes = [group.start(each) for each in range(2)]
    try:
        with Producer(config) as producer:
            producer.set_schema(name, rows.schema)
            send(producer, name, rows.slice(0, ROWS))
            eventually(lambda: group.landed() == SEGMENTS)
            for kill in range(1, KILLS + 1):
                send(producer, name, rows.slice(kill * ROWS, ROWS))
                group.kill(kill % 2 if instances and is_long() else 1)
                pauses.append(0 if group.lands() else pauses[-1] + 1)
        while group.landed() < (KILLS + 1) * SEGMENTS:
            pauses.append(0 if group.lands() else pauses[-1] + 1)
    finally:
        for process in group.processes:
            process.terminate()
            process.wait()
    record_property("kills", KILLS)
    record_property(f"longest pause, in times of {EVERY} s", max(pauses))
    check_numbered(lake.read(), count, record_property)
    report = verify_topic({"bootstrap.servers": kafka.bootstrap_servers}, name, lake.table())
    assert (report.findings, report.rows) == ([], count)
    assert max(pauses) <= MOST
