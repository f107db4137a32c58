"""Queries start on a busy machine, where Spark's workers may be late."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lakes import DirectoryLake, rows
from sending import send
from support import by_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

SCRIPT = Path(__file__).with_name("starting_query.py")
STARTS = by_profile(2, 20)
BUSY = 8
# It ends with the test, however that ends.
WORK = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Have so many processes that never wait."""
    working = [subprocess.Popen([sys.executable, "-c", WORK]) for _ in range(count)]
    try:
        yield
        assert [process.poll() for process in working] == [None] * count
    finally:
        for process in working:
            process.kill()
            process.wait()


def start(kafka: LocalKafka, topic: str, lakes: list[Path]) -> subprocess.CompletedProcess[str]:
    """Start queries in turn that land what is in a topic, one in each lake."""
    return subprocess.run(
        [sys.executable, SCRIPT, kafka.bootstrap_servers, topic, *lakes],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_query_starts_beside_busy_processes(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, record_property: Any
) -> None:
    """Each starts the workers it needs. It may be late with them twice, which is counted."""
    name = topic(2)
    send(kafka, name, range(8))
    lakes = [tmp_path / f"{number}" for number in range(STARTS)]
    since = time.monotonic()
    with busy(BUSY):
        ended = start(kafka, name, lakes)
    figures = {
        "queries": STARTS,
        "that began a table": sum(lake.exists() for lake in lakes),
        "started again": ended.stderr.count("starting the query again"),
        "seconds for each, a share of Spark's own start too": round(
            (time.monotonic() - since) / STARTS
        ),
    }
    for what, figure in figures.items():
        record_property(what, figure)
    assert ended.returncode == 0, ended.stderr[-10_000:]
    assert [rows(DirectoryLake(lake)) for lake in lakes] == [list(range(8))] * STARTS
