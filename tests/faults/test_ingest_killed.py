"""Ingesting processes that are killed: every row lands, and once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any

import pytest
from ingesting import POINTS
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows
from sending import send
from support import eventually

from columnar_kafka.ingest import Ingestor, IngestSettings, verify_topic

if TYPE_CHECKING:
    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

SCRIPT = Path(__file__).with_name("ingesting.py")


@pytest.mark.parametrize(
    ("kind", "server"),
    [
        *(
            (kind, server)
            for kind in (DirectoryLake, DeltaLake, IcebergLake)
            for server in ("", "minio")
        ),
        (IcebergLake, "iceberg_rest"),
    ],
)
def test_killed_at_every_point(kafka, topic, tmp_path, request, kind: Any, server: str) -> None:
    name, root, sent = topic(), tmp_path / "lake", 0
    bucket = request.getfixturevalue(server).place(uuid.uuid4().hex) if server else None
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for point in POINTS:
        send(kafka, name, range(sent, sent + 100))
        sent += 100
        place = [kind.__name__, str(root), json.dumps(bucket)]
        line = [*place, kafka.bootstrap_servers, name, point]
        done = subprocess.run([sys.executable, SCRIPT, *line], env=env, check=False)
        assert done.returncode == -signal.SIGKILL, point
    lake = kind(root, bucket)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": name}
    settings = IngestSettings(partitions=(0,), stop_at_end=True)
    Ingestor(config, name, lake.table(), settings).run()
    assert rows(lake) == list(range(sent))
    report = verify_topic(config, name, lake.table())
    assert (report.findings, report.rows) == ([], sent)


def start(kafka: LocalKafka, topic: str, root: Path, log: Path) -> Popen[bytes]:
    """Start a process of the topic's own group; what it logs goes to a file."""
    line = [
        *(sys.executable, "-m", "columnar_kafka.cli", "ingest"),
        *("--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic),
        *("--to", str(root), "--format", "delta", "--roll-seconds", "0.2"),
        *("-X", f"group.id={topic}", "-X", "session.timeout.ms=6000"),
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
        return "rows landed" in log.read_text()

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
