"""`columnar-kafka replay`: what it lands, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from commands import INGEST, invoke

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.testing import FakeKafka


def test_dead_letters_are_replayed(topic: FakeKafka, tmp_path: Path) -> None:
    """Plain messages, which another rule sends to another table."""
    with topic.Producer({}) as sender:
        sender.produce("t", b"plain")
    lake, dead = str(tmp_path / "lake"), str(tmp_path / "dead")
    rules = ("--plain", "dead-letter", "--dead-letters", dead)
    assert invoke(*INGEST, lake, "--stop-at-end", *rules).exit_code == 0
    replay = ("replay", dead, "--to", lake)
    stopped = invoke(*replay)
    assert stopped.exit_code == 1
    assert "t[0]@3 is a plain message" in stopped.output
    assert invoke(*replay, "--plain", "skip").stdout == (
        "0 rows landed in 0 files, 1 plain messages skipped\n"
    )
    again = invoke(*replay, "--plain", "skip", "--json")
    assert json.loads(again.stdout) == {
        "rows": 0,
        "files": 0,
        "decoded": 0,
        "dead_letters": 0,
        "plain_messages": 0,
        "skipped": 0,
    }
    assert invoke(*replay, "--dead-letters", dead).exit_code == 1
