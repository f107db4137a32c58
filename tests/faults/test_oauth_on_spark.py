"""Tokens that a function makes, where Spark imports it: in the driver, and in executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakes import DirectoryLake, rows
from reading import everything
from secured import LOGIN_BY_TOKEN, TOKENS, secured_kafka
from sending import send
from support import require_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCRIPT = Path(__file__).with_name("sparking.py")
TRIES = 12
"""A Spark is started so often if its workers are late, which ends it."""


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[LocalKafka, str]]:
    """A Kafka, and the address where it wants tokens."""
    require_java()
    with secured_kafka(TOKENS) as servers:
        yield servers


def run(address: str, name: str, folder: Path, mode: str, **sink: str) -> None:
    """Run a stream until it has read what is in a topic."""
    config = {"bootstrap.servers": address, **LOGIN_BY_TOKEN, "oauth_cb": "tokens_made:token"}
    kafka = {f"kafka.{key}": value for key, value in config.items()}
    source = {**kafka, "subscribe": name, "startingOffsets": "earliest", "mode": mode}
    options = {**kafka, "checkpointLocation": str(folder / "checkpoint"), **sink}
    line = [sys.executable, SCRIPT, "local[2,1]", json.dumps(source), json.dumps(options)]
    path = os.pathsep.join([str(SCRIPT.parent), *sys.path])
    for _ in range(TRIES):
        if subprocess.run(line, env=os.environ | {"PYTHONPATH": path}, check=False).returncode == 0:
            return
    pytest.fail(f"{TRIES} times: not at the end")


def test_source_and_sink_log_in(secured, tmp_path) -> None:
    kafka, address = secured
    kafka.create_topic("landed", 2, {"retention.ms": "-1"})
    send(kafka, "landed", range(40))
    lake = DirectoryLake(tmp_path / "lake")
    run(address, "landed", tmp_path, "ranges", format="killed_lake", path=str(lake.root))
    assert rows(lake) == list(range(40))


def test_source_and_writer_log_in(secured, tmp_path) -> None:
    """Which marks in Kafka what it has sent."""
    kafka, address = secured
    topic, other = "read", "sent"
    for name in topic, other:
        kafka.create_topic(name, 2, {"retention.ms": "-1"})
    send(kafka, topic, range(40))
    sink = {"format": "killed_kafka", "topic": other, "kafka.transactional.id": other}
    run(address, topic, tmp_path, "records", **sink)
    numbers = [message.value()["n"] for message in everything(kafka.bootstrap_servers, other)]
    assert sorted(numbers) == list(range(40))
