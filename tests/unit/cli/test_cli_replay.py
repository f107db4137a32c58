"""`columnar-kafka replay`: what it lands, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from commands import INGEST, invoke

if TYPE_CHECKING:
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


def test_a_plain_message_among_dead_letters_is_decoded(topic: FakeKafka, tmp_path: Path) -> None:
    with topic.Producer({}) as sender:
        sender.produce("t", b'{"n": 5}')
    lake, dead, schema = (str(tmp_path / name) for name in ("lake", "dead", "schema"))
    fields = [{"name": "n", "type": ["null", "long"]}]
    Path(schema).write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    rules = ("--plain", "dead-letter", "--dead-letters", dead)
    assert invoke(*INGEST, lake, "--stop-at-end", *rules).exit_code == 0
    decode = ("--plain-format", "json", "--plain-schema", schema)
    told = invoke("replay", dead, "--to", lake, "--plain", "decode", *decode).stdout
    assert told == "1 rows landed in 1 files, 1 plain messages decoded\n"
    verify = ("verify", lake, "--bootstrap-servers", "h:1", "--topic", "t", *decode)
    assert "5 rows and 1 plain messages are in the table" in invoke(*verify).stdout
