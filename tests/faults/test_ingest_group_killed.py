"""Two ingesting processes of one group, of which one is killed every few seconds."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any

import pytest
from commands import table_place
from confluent_kafka.admin import AdminClient
from lakes import DeltaLake, DirectoryLake, IcebergLake
from sending import check_numbered, numbered
from support import by_profile, eventually, is_long

from columnar_kafka import Producer
from columnar_kafka.ingest import verify_topic
from columnar_kafka.ingest.settings import SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = 4
KILLS = by_profile(5, 60)
EVERY = 3.0
"""One of them is killed so often, in seconds, or less often where a start takes longer."""
LOOK = 0.5
"""So often the test looks what has landed, in seconds."""
ROWS, SEGMENTS = 5_000, 20
"""So many come between two kills."""
SESSION_SECONDS = SESSION["session.timeout.ms"] / 1000
HEARTBEAT_SECONDS = SESSION["heartbeat.interval.ms"] / 1000
KINDS = by_profile([DeltaLake], [DirectoryLake, DeltaLake, IcebergLake])


@dataclass
class Group:
    """The processes, and what they have landed."""

    kafka: LocalKafka
    topic: str
    lake: Any
    folder: Path
    instances: bool
    rows: pa.Table
    producer: Producer
    processes: list[Popen[bytes]] = field(default_factory=list)
    sent: int = 0  # segments
    landed: int = 0
    waits_since: float = 0.0  # what was sent; or the last landing, if that is later
    pauses: list[float] = field(default_factory=list)

    def begin(self) -> float:
        """Start two processes; return how long it takes until what is sent has landed."""
        begun = time.monotonic()
        self.send()
        self.processes = [self.start(index) for index in range(2)]
        self.land()
        return time.monotonic() - begun

    def send(self) -> None:
        """Send the next rows, to all partitions."""
        first, size = self.sent // SEGMENTS * ROWS, ROWS // PARTITIONS
        for index in range(PARTITIONS):
            rows = self.rows.slice(first + index * size, size)
            self.producer.produce_arrow(self.topic, rows, partition=index)
        self.producer.flush()
        if self.landed == self.sent:
            self.waits_since = time.monotonic()
        self.sent += SEGMENTS

    def start(self, number: int) -> Popen[bytes]:
        """Start a process, or one that takes the place of another."""
        line = [
            *(sys.executable, "-m", "columnar_kafka.cli", "ingest"),
            *("--bootstrap-servers", self.kafka.bootstrap_servers, "--topic", self.topic),
            *("--roll-seconds", "0.5", "--to", *table_place(self.lake)),
            *("-X", f"group.id={self.topic}"),
        ]
        if self.instances:  # and a session that is longer than a start on a busy machine
            line += ["-X", f"group.instance.id={number}", "-X", "session.timeout.ms=30000"]
        with (self.folder / f"{number}.log").open("ab") as log:
            return Popen(line, stdout=DEVNULL, stderr=log)

    def kill(self, number: int) -> None:
        """Kill a process."""
        self.processes[number].kill()
        self.processes[number].wait()

    def restart(self, number: int) -> None:
        """Start another in its place."""
        self.processes[number] = self.start(number)

    def watch(self, seconds: float) -> None:
        """Note for so long when something lands."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            again = time.monotonic() + LOOK
            eventually(lambda again=again: time.monotonic() > again)
            landed = sum(fence.next for fence in self.lake.table().fences().values())
            if landed > self.landed:
                now = time.monotonic()
                self.pauses.append(now - self.waits_since)
                self.landed, self.waits_since = landed, now

    def land(self) -> None:
        """Wait until all that is sent has landed."""
        while self.landed < self.sent:
            self.watch(LOOK)

    def share(self) -> None:
        """Wait until both have half of the partitions."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})

        def shares() -> list[int]:
            group = admin.describe_consumer_groups([self.topic])[self.topic].result(60)
            return [len(member.assignment.topic_partitions) for member in group.members]

        eventually(lambda: shares() == [PARTITIONS // 2] * 2)

    def check(self, record_property: Any) -> None:
        """Each row that was sent has landed, and once."""
        count = self.sent // SEGMENTS * ROWS
        check_numbered(self.lake.read(), count, record_property)
        config = {"bootstrap.servers": self.kafka.bootstrap_servers}
        report = verify_topic(config, self.topic, self.lake.table())
        assert (report.findings, report.rows) == ([], count)


@contextmanager
def group_of_two(
    kafka: LocalKafka, topic: str, lake: Any, folder: Path, *, instances: bool
) -> Iterator[Group]:
    """Processes that are not yet started, and are ended at the end."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": ROWS // SEGMENTS,
    }
    rows = numbered((KILLS + 1) * ROWS)
    with Producer(config) as producer:
        producer.set_schema(topic, rows.schema)
        group = Group(kafka, topic, lake, folder, instances, rows, producer)
        try:
            yield group
        finally:
            for process in group.processes:
                process.terminate()
                process.wait()


def test_the_others_go_on_when_the_session_of_one_that_was_killed_ends(
    kafka, topic, tmp_path, record_property
) -> None:
    """Within 10 s: a session, a heartbeat by which they learn it, and 3 s for a start.

    How long a start takes on this machine is measured: they ask Kafka the same, read and land.
    """
    lake, took = DirectoryLake(tmp_path / "lake"), []
    with group_of_two(kafka, topic(PARTITIONS), lake, tmp_path, instances=False) as group:
        start = group.begin()
        for kill in range(by_profile(1, 4)):
            group.share()
            at = time.monotonic()
            group.kill(kill % 2)
            group.send()
            group.land()
            took.append(time.monotonic() - at)
            group.restart(kill % 2)
    record_property("seconds of a start", round(start, 1))
    record_property("seconds until all has landed", [round(seconds, 1) for seconds in took])
    group.check(record_property)
    assert max(took) <= SESSION_SECONDS + HEARTBEAT_SECONDS + start


@pytest.mark.parametrize("instances", [True, False], ids=["instances", "members"])
@pytest.mark.parametrize("kind", KINDS)
def test_landing_goes_on_while_members_are_killed(
    kafka, topic, tmp_path, record_property, kind: Any, *, instances: bool
) -> None:
    """Each row lands, and once.

    With `group.instance.id` both are killed in turn, as a restarted process goes on at once: when
    it has started, for which a noisy machine may take longer than at first. Without it one is
    killed again and again, and the other goes on: after the session of the one, and after that of
    the next, if it has joined before the group knew, and has partitions or was elected leader.
    """
    lake, both = kind(tmp_path / "lake"), instances and is_long()
    with group_of_two(kafka, topic(PARTITIONS), lake, tmp_path, instances=instances) as group:
        start = group.begin()
        group.pauses.clear()
        for kill in range(1, KILLS + 1):
            group.send()
            group.kill(kill % 2 if both else 1)
            group.restart(kill % 2 if both else 1)
            group.watch(max(EVERY, start))
        group.land()
    record_property("kills", KILLS)
    record_property("seconds of a start", round(start, 1))
    longest = [round(pause, 1) for pause in sorted(group.pauses)[-5:]]
    record_property("seconds of the longest pauses", longest)
    group.check(record_property)
    sessions = 2 * (SESSION_SECONDS + HEARTBEAT_SECONDS)
    assert max(group.pauses) <= (3 * start if instances else sessions + start)
