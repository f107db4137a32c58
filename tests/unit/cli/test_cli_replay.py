"""`columnar-kafka replay`: what it lands, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import INGEST, invoke
from deltalake import DeltaTable

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


def test_a_place_without_letters_is_named(tmp_path: Path) -> None:
    """Where the table is none yet, it is made."""
    result = invoke("replay", str(tmp_path / "daed"), "--to", str(tmp_path / "lake"))
    told = f"LakeError: {tmp_path}/daed: there are no dead letters\n"
    assert (result.exit_code, result.stderr) == (1, told)


@pytest.mark.usefixtures("topic")
def test_a_replay_that_makes_the_table_partitions_it(tmp_path: Path) -> None:
    dead, place = str(tmp_path / "dead"), (str(tmp_path / "lake"), "--format", "delta")
    ingest = (*INGEST, *place, "--partition", "0", "--partition-by", "n")
    rules = ("--straddle", "dead-letter", "--dead-letters", dead, "--end-offsets", "0:2")
    told = invoke(*ingest, *rules).stdout
    assert told == "t: 0 rows landed in 0 files, 2 dead letters\n"
    replayed = invoke("replay", dead, "--to", *place, "--partition-by", "n").stdout
    assert replayed == "4 rows landed in 4 files, 2 segments encoded anew\n"
    assert DeltaTable(place[0]).metadata().partition_columns == ["n"]
    told = invoke(*ingest, *rules[:4], "--stop-at-end").stdout
    assert told == "t: 1 rows landed in 1 files\n"


@pytest.fixture
def grown(topic: FakeKafka, tmp_path: Path) -> tuple[str, ...]:
    """A replay of a dead letter that has a field more than its Delta table, made in two commits."""
    with topic.Producer({}) as sender:
        sender.produce("t", b'{"n": 5}')
    lake, dead, schema = (str(tmp_path / name) for name in ("lake", "dead", "schema"))
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in ("n", "more")]
    Path(schema).write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    rules = ("--plain", "dead-letter", "--dead-letters", dead)
    ingest = (*INGEST, lake, "--format", "delta", *rules)
    assert invoke(*ingest, "--partition", "0", "--end-offsets", "0:1").exit_code == 0
    assert invoke(*ingest, "--stop-at-end").exit_code == 0
    decode = ("--plain", "decode", "--plain-format", "json", "--plain-schema", schema)
    return ("replay", dead, "--to", lake, "--format", "delta", *decode)


def test_a_replay_adds_no_columns_if_it_must_not(grown: tuple[str, ...]) -> None:
    refused = invoke(*grown, "--growth", "refuse")
    assert (refused.exit_code, "'more' is not in the table" in refused.output) == (1, True)
    assert invoke(*grown).exit_code == 0


def test_a_replay_into_a_restored_table_goes_on_if_it_is_told_to(grown: tuple[str, ...]) -> None:
    DeltaTable(grown[3]).restore(1)
    stopped = invoke(*grown)
    assert (stopped.exit_code, "the table was restored" in stopped.output) == (1, True)
    told = invoke(*grown, "--after-restore", "reland").stdout
    assert told == "1 rows landed in 1 files, 1 plain messages decoded\n"


def test_what_is_for_other_formats_is_a_usage_error(tmp_path: Path) -> None:
    result = invoke("replay", str(tmp_path), "--to", str(tmp_path / "lake"), "--partition-by", "n")
    assert (result.exit_code, "only for delta and iceberg" in result.output) == (2, True)


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


@pytest.mark.parametrize("schema", ["{root}/schema", "table"])
def test_dead_letters_land_once_they_may_differ(
    topic: FakeKafka, tmp_path: Path, schema: str
) -> None:
    with topic.Producer({}) as sender:
        for row in ({"n": 5, "new": {"x": 1}}, {"n": 7.0}, {}, {"n": "8"}, [9]):
            sender.produce("t", json.dumps(row))
    lake, dead = str(tmp_path / "lake"), str(tmp_path / "dead")
    fields = [{"name": "n", "type": ["null", "long"]}]
    avro = {"type": "record", "name": "r", "fields": fields}
    (tmp_path / "schema").write_text(json.dumps(avro))
    delta = ("--format", "delta", "--plain", "decode", "--plain-format", "json")
    exact = (*delta, "--plain-schema", str(tmp_path / "schema"), "--dead-letters", dead)
    landed = invoke(*INGEST, lake, "--stop-at-end", *exact).stdout
    assert landed == "t: 5 rows landed in 1 files, 5 dead letters\n"
    lenient = ("--plain-fields", "lenient", "--plain-unknown", "grow", "--dead-letters")
    chosen = (*delta, "--plain-schema", schema.replace("{root}", str(tmp_path)), *lenient)
    told = invoke("replay", dead, "--to", lake, *chosen, str(tmp_path / "still")).stdout
    assert "4 plain messages decoded, 1 dead letters" in told
    rows = DeltaTable(lake).to_pyarrow_table().sort_by("n").to_pylist()[5:]
    assert [row["n"] for row in rows] == [5, 7, None, None]
    assert rows[0]["new"] == {"x": 1}
    assert sorted(row["_rest"] or "" for row in rows) == ["", "", "", '{"n":"8"}']
