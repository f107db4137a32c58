"""`columnar-kafka compact`: what it says, and its exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from commands import invoke, table_place
from lakes import DeltaLake, DirectoryLake, IcebergLake, put

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_is_compacted_while_nobody_reads_it(tmp_path: Path) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    put(lake.table(), range(3), file_row_groups=1, small_bytes=0)
    result = invoke("compact", str(lake.root))
    assert (result.exit_code, "stop them" in result.output) == (2, True)
    result = invoke("compact", str(lake.root), "--offline", "--json")
    assert json.loads(result.stdout) == {"files_before": 3, "files": 1}
    assert invoke("compact", str(lake.root), "--offline").stdout == "1 files before, 1 now\n"


def test_an_iceberg_table_is_compacted(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path / "lake")
    put(lake.table(), range(3), file_row_groups=1, small_bytes=0)
    result = invoke("compact", *table_place(lake))
    assert (result.exit_code, result.stdout) == (0, "3 files before, 1 now\n")


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_a_place_without_a_table_is_named(tmp_path: Path, kind: Any) -> None:
    lake = kind(tmp_path)
    offline = ["--offline"] if kind is DirectoryLake else []
    result = invoke("compact", *table_place(lake), *offline)
    told = f"LakeError: {lake.table()!r}: there is no table\n"
    assert (result.exit_code, result.stderr) == (1, told)
