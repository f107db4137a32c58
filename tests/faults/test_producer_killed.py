"""A producing process killed with SIGKILL: what was acknowledged is stored."""

from __future__ import annotations

import random
import signal
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import producing
import pytest
from reading import everything
from support import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

TOTAL = 1_000_000
KILLS = 20


def test_a_producer_killed_twenty_times_loses_nothing_that_it_saw_acknowledged(
    kafka, topic, tmp_path: Path, record_property
) -> None:
    """Nor is a number that one process produced stored twice, or out of order."""
    began = time.monotonic()
    name, progress, out = topic(6), tmp_path / "produced", tmp_path / "acknowledged"
    produce_and_kill(kafka.bootstrap_servers, name, progress, out)
    seconds = time.monotonic() - began

    stored: dict[tuple[int, int], tuple[int, int]] = {}  # process and number, by place
    lists: dict[tuple[int, int], list[int]] = defaultdict(list)
    for message in everything(kafka.bootstrap_servers, name, retries=True):
        n, process = message.value()["n"], message.value()["process"]
        stored[message.partition(), message.offset()] = process, n
        lists[message.partition(), process].append(n)
    assert all(numbers == sorted(numbers) for numbers in lists.values())
    assert len(set(stored.values())) == len(stored)

    seen = list(producing.acknowledged(out))
    missing = [a for a in seen if stored.get((a.partition, a.position)) != (a.process, a.n)]
    record_property("kills", KILLS)
    record_property("produced", TOTAL)
    record_property("acknowledged", len(seen))
    record_property("stored", len(stored))
    record_property("acknowledged and missing", len(missing))
    record_property("seconds", round(seconds))
    assert missing == []
    assert len({(a.process, a.n) for a in seen}) == len(seen)
    assert {a.process for a in seen} == set(range(KILLS + 1))


def produce_and_kill(servers: str, topic: str, progress: Path, out: Path) -> None:
    """Let process after process produce, each but the last killed at a random number."""
    moments = random.Random(3)
    producing.forget(progress, out)
    for process in range(KILLS + 1):
        number = int((process + moments.random()) * TOTAL / (KILLS + 1))
        before = out.stat().st_size
        child = producing.start("numbers", servers, topic, process, TOTAL, progress, out)
        try:
            if process == KILLS:
                assert child.wait(300) == 0
                break
            eventually(
                lambda number=number, before=before: (
                    producing.produced(progress) >= number and out.stat().st_size > before
                ),
                seconds=120,
            )
        finally:
            child.kill()
            child.communicate()
        assert child.wait() == -signal.SIGKILL
    assert producing.produced(progress) == TOTAL
