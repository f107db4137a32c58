"""The service as it is deployed: a configuration file, two topics, probes, TERM; then verified."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from subprocess import PIPE
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pyarrow as pa
import pytest
from lakes import DeltaLake, rows
from support import eventually, running

from columnar_kafka import Producer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
COMMAND = (sys.executable, "-m", "columnar_kafka.cli")


def run(*arguments: str) -> Any:
    """Run a command to its end; return what it printed as JSON."""
    return json.loads(
        subprocess.run([*COMMAND, *arguments, "--json"], stdout=PIPE, check=True).stdout
    )


def listening(pid: int) -> int:
    """Return the port on which a process listens, or 0."""
    connections = psutil.Process(pid).net_connections("tcp")
    return next((conn.laddr.port for conn in connections if conn.status == psutil.CONN_LISTEN), 0)


def answer(port: int, path: str) -> Any:
    """Return what a probe gets; nothing if it is an error."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}") as response:
            return json.load(response)["topics"]
    except URLError:
        return {}


def test_two_topics_from_start_to_term(kafka, topic, tmp_path: Path) -> None:
    names = [topic(2), topic(1)]
    config = tmp_path / "ingest.toml"
    config.write_text(
        f"""
        bootstrap-servers = "{kafka.bootstrap_servers}"
        topic = {json.dumps(names)}
        to = "{tmp_path}/{{topic}}"
        format = "delta"
        roll-seconds = 0.2
        health = "127.0.0.1:0"
        json = true
        """
    )
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with running([*COMMAND, "ingest", "--config", str(config)], stdout=PIPE) as process:
        port = eventually(lambda: listening(process.pid))
        eventually(lambda: answer(port, "/ready"))
        with Producer(settings) as producer:
            for name in names:
                producer.set_schema(name, SCHEMA)
            for n in range(40):
                for name in names:
                    producer.produce(name, {"n": n}, key=f"{n}")
                if n % 10 == 9:
                    producer.flush()
        eventually(lambda: [answer(port, "/health")[name]["rows"] for name in names] == [40, 40])
        process.send_signal(signal.SIGTERM)
        counts = json.loads(process.communicate()[0])
    assert process.returncode == 0
    assert [counts[name]["rows"] for name in names] == [40, 40]
    for name in names:
        lake = DeltaLake(tmp_path / name)
        place = (str(lake.root), "--format", "delta")
        assert run("compact", *place)["files"] <= len(lake.files())
        assert rows(lake) == list(range(40))
        where = ("--bootstrap-servers", kafka.bootstrap_servers, "--topic", name)
        assert run("verify", *place, *where)["rows"] == 40
        assert run("fence", "show", *place)["problem"] is None
