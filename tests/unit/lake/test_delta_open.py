"""What is known of a Delta table between commits: what others did meanwhile is seen."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from lakes import FENCE, GENERATIONS, DeltaLake, put, rows, staged
from segments import numbers, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.delta import DeltaLakeTable
from columnar_kafka.lake.model import NotLandedError
from columnar_kafka.lake.stage import land

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path / "lake")


def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which each opening of a table adds."""
    found: list[Any] = []
    open_ = DeltaLakeTable._open

    def noted(self: DeltaLakeTable, version: int | None = None) -> Any:
        found.append(version)
        return open_(self, version)

    monkeypatch.setattr(DeltaLakeTable, "_open", noted)
    return found


def checkpoints(lake: DeltaLake) -> list[int]:
    """Return the versions of a table's checkpoints."""
    return sorted(int(each.name[:20]) for each in lake.root.glob("_delta_log/*.checkpoint.parquet"))


def test_a_table_is_opened_once_and_for_its_checkpoints(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open it takes time for each of its files."""
    put(lake.table(), [0])
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "10"})
    found, table = opened(monkeypatch), lake.table()
    for offset in range(1, 31):
        land(segments([offset]), table=table, generations=GENERATIONS)
    assert found == [None, 9, 19, 29]
    assert checkpoints(lake) == found[1:]
    assert rows(lake) == numbers(range(31))


def test_the_log_before_a_checkpoint_is_removed_after_its_retention(lake: DeltaLake) -> None:
    for cleans in ("false", "true"):
        put(lake.table(), [0])
        settings = {
            "delta.checkpointInterval": "10",
            "delta.logRetentionDuration": "interval 0 seconds",
            "delta.enableExpiredLogCleanup": cleans,
        }
        lake.load().alter.set_table_properties(settings)
        for offset in range(1, 12):
            put(lake.table(), range(offset + 1))
        kept = len([*lake.root.glob("_delta_log/*.json")])
        assert kept == lake.load().version() + 1 if cleans == "false" else kept < 11
        assert rows(lake) == numbers(range(12))
        shutil.rmtree(lake.root)


def test_a_checkpoint_that_cannot_be_made_is_logged_and_the_commit_has_landed(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(lake.table(), [0])
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "1"})

    def fails(_: DeltaTable) -> None:
        raise DeltaError("no disk")

    monkeypatch.setattr(DeltaTable, "create_checkpoint", fails)
    put(lake.table(), range(2))
    assert f"{lake.table()}: no checkpoint was made: no disk" in caplog.text
    assert rows(lake) == numbers(range(2))


def test_a_commit_follows_a_hundred_of_others_without_opening_the_table(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For more, opening it is cheaper: it begins at a checkpoint."""
    table, other = lake.table(), lake.table()
    land(segments([0]), table=table, generations=GENERATIONS)
    found = opened(monkeypatch)
    for commits in (100, 101):
        for offset in range(commits):
            other.commit([staged(other, [offset], partition=commits)])
        found.clear()
        assert len(table.fences()) == commits - 98
        assert found == [None] * (commits - 100)


@pytest.mark.parametrize("written", ["[1]", "{", '"commitInfo"'])
def test_a_malformed_commit_is_named(lake: DeltaLake, written: str) -> None:
    table = lake.table()
    put(table, [0])
    path = lake.root / f"_delta_log/{2:020}.json"
    path.write_text(written)
    with pytest.raises(LakeError, match=f"{re.escape(str(lake.root))} cannot be read"):
        table.fences()
    path.unlink()
    put(table, range(2))
    assert rows(lake) == numbers(range(2))


def test_an_open_table_sees_what_others_commit(lake: DeltaLake) -> None:
    table = lake.table()
    for offset in range(0, 12, 3):
        put(table, [offset])
        put(lake.table(), range(offset + 1, offset + 2))
        lake.load().optimize.compact()
        put(table, range(offset + 3))
        assert table.fences()[FENCE].next == offset + 3
    assert rows(lake) == numbers(range(12))


@pytest.mark.parametrize("commits", [0, 1, 2, 5])
def test_a_table_that_was_made_again_is_not_taken_for_the_one_that_is_open(
    lake: DeltaLake, commits: int
) -> None:
    table = lake.table()
    put(table, [0])
    put(table, [0, 1])
    shutil.rmtree(lake.root)
    for offset in range(commits):
        put(lake.table(), range(10, 11 + offset))
    fences = table.fences()
    assert {fence.next for fence in fences.values()} == ({10 + commits} if commits else set())
    put(table, range(10, 17))
    assert rows(lake) == numbers(range(10, 17))
    assert lake.table().fences()[FENCE].first == 10


def test_threads_share_no_open_table(lake: DeltaLake) -> None:
    """One may not move on what another commits on."""
    table = lake.table()
    put(table, [0])

    def land_one(partition: int) -> None:
        for offset in range(10):
            while True:
                with suppress(NotLandedError):
                    table.commit([staged(table, [offset], partition=partition)])
                    break

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(land_one, range(1, 5)))
    expected = sorted(numbers([0]) + 4 * numbers(range(10)))
    assert rows(lake) == expected
