"""A Delta table that stays open between commits: what others did meanwhile is seen."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from lakes import FENCE, GENERATIONS, DeltaLake, put, rows, staged
from segments import numbers, segments

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
    monkeypatch.setattr(DeltaLakeTable, "_open", lambda self: found.append(self) or open_(self))
    return found


def test_a_table_is_opened_anew_for_a_checkpoint_only(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open it takes time for each of its files and commits."""
    put(lake.table(), [0])
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "10"})
    found, table = opened(monkeypatch), lake.table()
    for offset in range(1, 31):
        land(segments([offset]), table=table, generations=GENERATIONS)
    # Three times for a commit that follows another program's, once after it, and three checkpoints.
    assert len(found) == 3 + 1 + 3
    assert rows(lake) == numbers(range(31))


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
