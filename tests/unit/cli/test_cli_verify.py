"""`columnar-kafka verify`: what it finds, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from commands import INGEST, invoke

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.testing import FakeKafka


@pytest.mark.usefixtures("topic")
def test_what_landed_is_verified(tmp_path: Path) -> None:
    place = ("--bootstrap-servers", "h:1", "--topic", "t")
    assert invoke(*INGEST, str(tmp_path), "--stop-at-end", "--roll-bytes", "1").exit_code == 0
    result = invoke("verify", str(tmp_path), *place)
    assert result.stdout == (
        "3 segments with 5 rows are in the table, once and with equal values, in 3 files\n"
    )
    assert result.exit_code == 0
    file = min(tmp_path.glob("t/*.parquet"))
    file.unlink()
    result = invoke("verify", str(tmp_path), *place, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["messages"]) == (1, 2)
    [gone, missing] = report["findings"]
    assert (gone["kind"], gone["file"]) == ("not provable", f"t/{file.name}")
    assert missing == {
        "kind": "missing",
        "reason": "it is in no file",
        "partition": 0,
        "first": 0,
        "last": 0,
        "file": "",
    }
    result = invoke("verify", str(tmp_path), *place)
    assert "missing: partition 0 offsets 0 to 0 : it is in no file" in result.stderr


def test_what_was_not_to_land_is_listed(topic: FakeKafka, tmp_path: Path) -> None:
    topic.create_topic("u", 3)
    with topic.Producer({"columnar.encoding": "parquet"}) as sender:
        sender.set_schema("u", pa.schema([("n", pa.int64())]))
        for n, partition in enumerate((0, 0, 2)):
            sender.produce("u", {"n": n}, partition=partition)
            sender.flush()
    place = ("--bootstrap-servers", "h:1", "--topic", "u")
    start = ("--partition", "0", "--start", "0:1", "--stop-at-end")
    assert invoke("ingest", *place, "--to", str(tmp_path), *start).exit_code == 0
    result = invoke("verify", str(tmp_path), *place)
    assert result.exit_code == 0
    assert [line.partition(" were")[0] for line in result.stdout.splitlines()[1:]] == [
        "partition 0: offsets 0 to 0",
        "partition 2: offsets 0 to 0",
    ]


@pytest.mark.usefixtures("topic")
def test_what_cannot_be_verified_is_said(tmp_path: Path) -> None:
    place = ("--bootstrap-servers", "h:1", "--topic", "t")
    result = invoke("verify", str(tmp_path), *place)
    assert (result.exit_code, "has nothing of topic 't'" in result.output) == (1, True)
    assert invoke(*INGEST, str(tmp_path), "--stop-at-end").exit_code == 0
    result = invoke("verify", str(tmp_path), *place, "--topic-generation", "g")
    assert (result.exit_code, "deleted and created again" in result.output) == (1, True)
