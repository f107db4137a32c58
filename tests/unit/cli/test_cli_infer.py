"""`columnar-kafka infer`: the schema it prints, what it passes over, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from commands import invoke

from columnar_kafka.ingest import sampling
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.testing import FakeKafka

COLUMNS = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "x": pa.float64()})
LINES = b"""{"id": 1, "at": "2026-01-31T12:00:00Z"}

{"id": 2, "x": 1.5, "@x": null}
[1]
NaN
{"x": 1
"""


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(LINES)
    result = invoke("infer", str(file), "--infer-times")
    assert result.exit_code == 0
    assert RecordSchema.parse(result.stdout).arrow.equals(COLUMNS)
    shown = [line.split() for line in result.stderr.splitlines()]
    assert ["id", "int64", "2", "integer", "0"] in shown
    assert ["x", "double", "1", "fraction", "1"] in shown
    assert "objects: 2; values that are not a JSON object: 3" in result.stderr
    result = invoke("infer", str(file), "--infer-messages", "1", "--max-columns", "1")
    assert [field["name"] for field in json.loads(result.stdout)["fields"]] == ["id"]
    assert "objects: 1\n" in result.stderr


def test_a_topic(topic: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its segments and tombstones are passed over."""
    monkeypatch.setattr(sampling, "StockConsumer", topic.Consumer)
    topic.create_topic("u", 3)
    with topic.Producer({}) as sender:
        for value in *LINES.splitlines(), None:
            for partition in 0, 2:
                sender.produce("u", value or None, partition=partition)
        sender.produce("t", b'{"n": 1}')
    place = ("--bootstrap-servers", "h:1")
    result = invoke("infer", "u", *place, "--infer-times")
    assert RecordSchema.parse(result.stdout).arrow.equals(COLUMNS)
    assert "objects: 4; values that are not a JSON object: 6" in result.stderr
    result = invoke("infer", "u", *place, "--infer-messages", "1")
    assert "objects: 2\n" in result.stderr
    assert "objects: 1\n" in invoke("infer", "t", *place).stderr


@pytest.mark.usefixtures("topic")
def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    result = invoke("infer", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "to read a topic, add --bootstrap-servers" in " ".join(result.stderr.split())
    empty = tmp_path / "empty"
    empty.write_bytes(b'[]\n{"a": null}')
    result = invoke("infer", str(empty))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "SchemaError: 1 rows have no field of a known type" in result.stderr


def test_any_name_is_shown_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"n": 1, "filter[name]": 2, "[/x]": 3, "\x1b[2J\ud800": 4}))
    result = invoke("infer", str(file))
    assert result.exit_code == 0
    shown = [line.split()[:2] for line in result.stderr.splitlines() if line.strip()]
    for name in "filter[name]", "[/x]", "\\u001b[2J\\ud800":
        assert [name, "none"] in shown


def test_of_very_many_names_most_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({f"n{number}": 1 for number in range(2000)}))
    result = invoke("infer", str(file), "--max-columns", "10")
    assert result.exit_code == 0
    assert "\nother fields without a column: 1,490\nobjects: 1\n" in result.stderr
    assert len(result.stderr.splitlines()) < 1100
