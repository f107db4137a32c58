"""Tables that land for long: a commit reads no more than it once did, and the metadata stays small.

Its CPU is what the benchmarks measure (`growing`, `commits`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from lakes import GENERATIONS, DeltaLake, DirectoryLake, IcebergLake, QuickFiles, put, rows
from pyiceberg.io.pyarrow import PyArrowFileIO
from segments import numbers, segments

from columnar_kafka.lake.landing.stage import land

if TYPE_CHECKING:
    from pathlib import Path

EARLY, LATE, WINDOW = 200, 400, 100
"""Commits, and how many of the last ones are looked at; at both ends there is a checkpoint."""
AN_ENTRY = 1_000
"""Bytes of metadata that name a file and its bounds."""
METADATA = {"_columnar", "_delta_log", "metadata"}


@dataclass
class Counted(QuickFiles):
    """Counts the files that are read."""

    reads: int = 0

    def read(self, path: Path) -> bytes:
        self.reads += 1
        return super().read(path)


def metadata(root: Path) -> list[int]:
    """Return the size of each file of metadata."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return [path.stat().st_size for path in files if METADATA.intersection(path.parts)]


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_after_hundreds_of_commits_one_costs_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    """A directory keeps its log, whose entries name its files; the others drop what is old."""
    lake, files = kind(tmp_path / "lake"), Counted()
    put(lake.table(), [0])
    if kind is DeltaLake:
        expires = {"delta.logRetentionDuration": "interval 0 seconds"}
        lake.load().alter.set_table_properties(expires)
    new_input = PyArrowFileIO.new_input

    def counted(self: Any, location: str) -> Any:
        files.reads += 1
        return new_input(self, location)

    monkeypatch.setattr(PyArrowFileIO, "new_input", counted)
    table, seen = lake.table(files=files), {}
    for commits in range(1, LATE + 1):
        land(segments([commits]), table=table, generations=GENERATIONS)
        if commits in (EARLY, LATE):
            seen[commits] = files.reads, metadata(tmp_path)
        if commits % WINDOW == 0:
            files.reads = 0
    monkeypatch.undo()
    (reads, early), (more_reads, late) = seen.values()
    assert 0 < more_reads <= 1.1 * reads
    assert sum(late) - sum(early) <= AN_ENTRY * (LATE - EARLY)
    assert len(late) <= len(early) + (LATE - EARLY if kind is DirectoryLake else 3)
    assert rows(lake) == numbers(range(LATE + 1))
