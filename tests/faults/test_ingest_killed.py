"""Ingesting processes that are killed: every row lands, and once."""

from __future__ import annotations

import signal
import sys
import uuid
from dataclasses import dataclass
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any

import pytest
from ingesting import POINTS, Job
from killing import times
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows
from sending import check_numbered, send, send_numbered
from support import by_profile, eventually

from columnar_kafka.ingest import verify_topic

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = (0, 1, 2, 3)
SEGMENTS = 200


@dataclass(frozen=True)
class Size:
    """What a topic has, and how often the processes that ingest it are killed."""

    rows: int
    kills: int
    roll_bytes: int  # of about five segments


SIZE = by_profile(
    Size(rows=4_000, kills=1, roll_bytes=6_000), Size(rows=500_000, kills=10, roll_bytes=90_000)
)


@pytest.fixture(scope="module")
def filled(kafka: LocalKafka) -> str:
    """Return the name of a topic with all rows."""
    name = "killed-while-ingesting"
    send_numbered(kafka, name, SIZE.rows, partitions=len(PARTITIONS), segments=SEGMENTS)
    return name


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("kind", "server"),
    [
        *((kind, "") for kind in (DirectoryLake, DeltaLake, IcebergLake)),
        *((kind, "minio") for kind in (DirectoryLake, DeltaLake, IcebergLake)),
        (IcebergLake, "iceberg_rest"),
    ],
)
def test_processes_are_killed_at_a_point(
    kafka, filled, tmp_path, request, record_property, kind: Any, server: str, point: str
) -> None:
    """Every row lands, and once. The run is repeated if too many kills came after the point."""
    config, hits = {"bootstrap.servers": kafka.bootstrap_servers}, 0
    while hits < 0.8 * SIZE.kills:
        name = uuid.uuid4().hex
        bucket = request.getfixturevalue(server).place(name) if server else None
        lake = kind(tmp_path / name, bucket)
        job = Job(
            lake=lake,
            servers=kafka.bootstrap_servers,
            topic=filled,
            partitions=PARTITIONS,
            roll_bytes=SIZE.roll_bytes,
        )
        killed = [
            job.be_killed(point, at, tmp_path / f"{name}-{number}")
            for number, at in enumerate(times(point, SIZE.kills))
        ]
        hits = killed.count(point)
        record_property("killed", f"{hits} of {SIZE.kills} {point}")
        job.run()
        check_numbered(lake.read(), SIZE.rows, record_property)
        report = verify_topic(config, filled, lake.table())
        assert (report.findings, report.rows) == ([], SIZE.rows)


def start(kafka: LocalKafka, topic: str, root: Path, log: Path) -> Popen[bytes]:
    """Start a process of the topic's own group; what it logs goes to a file."""
    line = [
        *(sys.executable, "-m", "columnar_kafka.cli", "ingest"),
        *("--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic),
        *("--to", str(root), "--format", "delta", "--roll-seconds", "0.2"),
        *("-X", f"group.id={topic}"),
    ]
    with log.open("wb") as file:
        return Popen(line, stdout=DEVNULL, stderr=file)


def test_processes_of_a_group_share_a_table(kafka, topic, tmp_path) -> None:
    """One is killed and one joins while records come."""
    name, lake = topic(4), DeltaLake(tmp_path / "lake")
    logs = [tmp_path / f"{n}.log" for n in range(3)]
    sent = 0

    def has_landed(log: Path) -> bool:
        nonlocal sent
        send(kafka, name, range(sent, sent + 40))
        sent += 40
        return " landed in " in log.read_text()

    processes = [start(kafka, name, lake.root, log) for log in logs[:2]]
    try:
        eventually(lambda: has_landed(logs[0]))
        eventually(lambda: has_landed(logs[1]))
        processes[0].kill()
        processes.append(start(kafka, name, lake.root, logs[2]))
        eventually(lambda: has_landed(logs[2]))
        eventually(lambda: len(rows(lake)) >= sent)
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    assert rows(lake) == list(range(sent))
    assert [process.returncode for process in processes] == [-signal.SIGKILL, 0, 0]
