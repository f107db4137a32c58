"""The log of a directory's commits when it is long; `test_directory` has the rest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from lakes import GENERATIONS, QuickFiles
from segments import segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.tables.directory import commit_log
from columnar_kafka.lake.tables.directory.commit_log import LOG_FOLDER, CommitLog, LogEntry
from columnar_kafka.lake.tables.directory.table import ParquetDirectory

if TYPE_CHECKING:
    from pathlib import Path


class StoreFiles(QuickFiles):
    """Lists only what comes after a name, as a store does, and remembers what was asked for."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.after = ""

    def older(self, folder: Path, when: float, *, suffix: str, after: str = "") -> list[str]:
        self.after = after
        return super().older(folder, when, suffix=suffix, after=after)

    def names(self, folder: Path, after: str = "") -> list[str]:
        names = [name for name in super().names(folder) if name > after]
        self.listed += names
        return names


@pytest.fixture(autouse=True)
def short_leaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "_LEAP", 4)


def grown(root: Path, length: int) -> None:
    folder = root / LOG_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, length + 1):
        (folder / f"{number:020}.json").write_bytes(LogEntry(sequence=number).to_json())


def test_of_a_long_log_only_the_end_is_listed(tmp_path: Path) -> None:
    for length in range(70):
        grown(tmp_path, length)
        files = StoreFiles()
        log = CommitLog(tmp_path, files)
        assert log.newest().sequence == length
        assert len(files.listed) < 4
        grown(tmp_path, length + 1)
        assert log.newest().sequence == length + 1
        (tmp_path / LOG_FOLDER / f"{length + 1:020}.json").unlink()


@pytest.mark.parametrize("gone", [range(1, 30), range(8, 9), range(33, 60)])
def test_the_newest_entry_is_found_though_older_ones_are_gone(tmp_path: Path, gone: range) -> None:
    grown(tmp_path, 60)
    for number in gone:
        (tmp_path / LOG_FOLDER / f"{number:020}.json").unlink()
    assert CommitLog(tmp_path, StoreFiles()).newest().sequence == 60


def test_a_log_that_has_become_shorter_is_an_older_copy(tmp_path: Path) -> None:
    grown(tmp_path, 60)
    log = CommitLog(tmp_path, StoreFiles())
    assert log.newest().sequence == 60
    for number in range(31, 61):
        (tmp_path / LOG_FOLDER / f"{number:020}.json").unlink()
    assert log.newest().sequence == 30


def test_a_table_whose_log_has_a_gap_has_no_files(tmp_path: Path) -> None:
    grown(tmp_path, 3)
    (tmp_path / LOG_FOLDER / f"{2:020}.json").unlink()
    with pytest.raises(LakeError, match=rf"{2:020}\.json is gone"):
        CommitLog(tmp_path, StoreFiles()).files(3)


def test_drafts_are_looked_for_behind_the_newest_entry(tmp_path: Path) -> None:
    grown(tmp_path, 20)
    draft = tmp_path / LOG_FOLDER / "killed.draft"
    draft.write_bytes(b"{")
    os.utime(draft, (1, 1))
    files = StoreFiles()
    log = CommitLog(tmp_path, files)
    log.newest()
    newest = tmp_path / LOG_FOLDER / f"{20:020}.json"
    os.utime(newest, (1, 1))
    assert log.old_drafts(2) == ["killed.draft"]
    assert log.old_drafts(1) == []
    assert files.after == newest.name
    assert files.older(newest.parent, 2, suffix="", after=newest.name) == ["killed.draft"]
    assert sorted(files.older(newest.parent, 2, suffix="")) == [newest.name, "killed.draft"]
    assert files.older(newest.parent, 2, suffix=".json") == [newest.name]


def test_who_has_seen_the_end_lists_nothing_to_find_the_next_entries(tmp_path: Path) -> None:
    """A disk lists the whole log: each commit would cost more than the one before it."""
    grown(tmp_path, 20)
    files = StoreFiles()
    log = CommitLog(tmp_path, files)
    log.newest()
    files.listed.clear()
    for length in (20, 21, 24, 27):
        grown(tmp_path, length)
        assert log.newest().sequence == length
    assert files.listed == []
    grown(tmp_path, 60)
    assert log.newest().sequence == 60
    assert len(files.listed) == 60 - 27 - 8


def test_a_directory_looks_for_leftovers_once_in_a_hundred_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    old_drafts = CommitLog.old_drafts
    monkeypatch.setattr(
        CommitLog, "old_drafts", lambda *args: looks.append(args) or old_drafts(*args)
    )
    table = ParquetDirectory(tmp_path, files=QuickFiles())
    for offset in range(101):
        land(segments([offset]), table=table, generations=GENERATIONS)
    assert len(looks) == 2
