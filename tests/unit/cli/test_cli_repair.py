"""`columnar-kafka repair`: what it says, and its exit codes; `verify` says when it is needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from commands import invoke, table_place
from lakes import DeltaLake, DirectoryLake, IcebergLake, put

from columnar_kafka.lake.tables.delta import actions as delta_actions

if TYPE_CHECKING:
    from pathlib import Path

KAFKA = ("--bootstrap-servers", "h:1", "--topic", "t")


@pytest.mark.usefixtures("topic")
def test_verify_finds_wrong_bounds_and_repair_puts_them_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = DeltaLake(tmp_path / "lake")
    place = [str(lake.root), "--format", "delta"]
    ingest = ["ingest", *KAFKA, "--to", *place, "--stop-at-end", "--roll-bytes", "1"]
    bounds = {"n": 7, "_kafka": {}}
    stated = json.dumps({"numRecords": 2, "minValues": bounds, "maxValues": bounds})
    with monkeypatch.context() as patch:
        patch.setattr(delta_actions, "file_statistics", lambda *_: stated)
        assert invoke(*ingest).exit_code == 0
    result = invoke("verify", *place, *KAFKA)
    assert result.exit_code == 1
    assert "filters on n may miss rows: columnar-kafka repair puts that right" in result.stderr
    assert result.stderr.endswith("3 findings: the table differs from the topic\n")
    result = invoke("repair", *place)
    told = "3 of 3 files had filters miss rows, and no longer do\n"
    assert (result.exit_code, result.stdout) == (0, told)
    result = invoke("repair", *place, "--json")
    assert json.loads(result.stdout) == {"files": 3, "repaired": 0, "left": 0, "reasons": []}
    assert invoke("verify", *place, *KAFKA).exit_code == 0


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_a_place_without_a_table_is_named(tmp_path: Path, kind: Any) -> None:
    lake = kind(tmp_path)
    result = invoke("repair", *table_place(lake))
    told = f"LakeError: {lake.table()!r}: there is no table\n"
    assert (result.exit_code, result.stderr) == (1, told)


def test_a_file_that_is_left_is_named(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(2))
    place = lake.root / lake.data_files()[0]
    place.write_bytes(b"no Parquet")
    result = invoke("repair", *table_place(lake))
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        ["0 of 1 files had filters miss rows, and no longer do"],
    )
    first, last = result.stderr.splitlines()
    assert first.startswith(f"{lake.data_files()[0]}: ")
    assert last.startswith("1 files stay as they are: ")


def test_a_directory_has_no_bounds_to_repair(tmp_path: Path) -> None:
    result = invoke("repair", *table_place(DirectoryLake(tmp_path)))
    assert (result.exit_code, "a directory states nothing" in result.stderr) == (1, True)
