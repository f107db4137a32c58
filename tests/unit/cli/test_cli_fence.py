"""`columnar-kafka fence`: what it shows and moves, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commands import invoke, table_place
from deltalake import DeltaTable
from lakes import FENCE, DeltaLake, DirectoryLake, IcebergLake, put, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_fences_are_shown_and_moved(tmp_path: Path, kind: Any) -> None:
    lake = kind(tmp_path / "lake")
    put(lake.table(), range(3))
    place = table_place(lake)
    [shown] = json.loads(invoke("fence", "show", *place, "--json").stdout)["fences"]
    assert shown == {
        "topic": "t",
        "partition": 0,
        "first": 0,
        "next": 3,
        "segment": "p-2",
        "topic_id": "id",
        "cluster": "cluster",
    }
    result = invoke("fence", "reset", *place, "--to", "0:7", "--yes")
    assert result.exit_code == 0
    assert "t[0]  3 -> 7: gives up offsets 3 to 6" in result.stderr
    assert lake.table().fences()[FENCE].next == 7
    text = invoke("fence", "show", *place).stdout
    assert "t[0]  from 0, next 7, last segment ?, topic id id, cluster cluster" in text


def test_where_nothing_has_landed_it_is_said(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), pa.schema([("n", pa.int64())]))
    shown = invoke("fence", "show", str(tmp_path), "--format", "delta")
    assert (shown.exit_code, shown.stdout) == (0, "nothing has landed\n")


@pytest.mark.parametrize("command", [("show",), ("reset", "--yes"), ("reset", "--to", "0:1")])
@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_a_place_without_a_table_is_named(
    tmp_path: Path, kind: Any, command: tuple[str, ...]
) -> None:
    lake = kind(tmp_path)
    result = invoke("fence", *command, *table_place(lake))
    told = f"LakeError: {lake.table()!r}: there is no table\n"
    assert (result.exit_code, result.stderr) == (1, told)


def test_a_fence_moves_back_only_by_force_and_only_if_one_agrees(tmp_path: Path) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(3))
    back = ("fence", "reset", str(lake.root), "--to", "0:1")
    result = invoke(*back, "--yes")
    assert (result.exit_code, "twice" in result.output) == (1, True)
    result = invoke(*back, "--force")
    assert (result.exit_code, "lands offsets 1 to 2 again" in result.output) == (1, True)
    assert lake.table().fences()[FENCE].next == 3
    assert invoke(*back, "--force", "--yes").exit_code == 0
    assert lake.table().fences()[FENCE].next == 1


def test_a_restored_table_is_shown_with_its_problem_and_reset(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(2))
    put(lake.table(), range(4))
    DeltaTable(str(lake.root)).restore(1)
    result = invoke("fence", "show", *table_place(lake), "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["fences"][0]["next"]) == (1, 2)
    assert "the table was restored: 2 commits had landed, and 1 are left" in shown["problem"]
    assert invoke("fence", "reset", *table_place(lake), "--yes").exit_code == 0
    put(lake.table(), range(4))
    assert len(rows(lake)) == 4 * 3


def test_a_topic_is_only_named_for_offsets_to_move_to(tmp_path: Path) -> None:
    """Without them landing goes on in the whole table."""
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(2))
    result = invoke("fence", "reset", str(lake.root), "--yes", "--topic", "t")
    assert (result.exit_code, "only with --to" in result.output) == (2, True)
    assert (
        invoke("fence", "reset", str(lake.root), "--yes", "--topic", "t", "--to", "0:3").exit_code
        == 0
    )


@pytest.mark.parametrize("text", ["0", "0:x", "t:1", "-1:5", ""])
def test_offsets_that_are_none_are_a_usage_error(tmp_path: Path, text: str) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(2))
    result = invoke("fence", "reset", str(lake.root), "--yes", "--to", text)
    assert (result.exit_code, "is not PARTITION:OFFSET" in result.output) == (2, True)
