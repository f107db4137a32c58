"""What is known of a Delta table between commits: what others did meanwhile is seen."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from lakes import (
    FENCE,
    FIRST,
    GENERATIONS,
    GROWN,
    DeltaLake,
    QuickFiles,
    needs_added_fields,
    put,
    rows,
    staged,
)
from segments import numbers, segment, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import Count, MayHaveLandedError, NotLandedError
from columnar_kafka.lake.tables.delta.table import DeltaLakeTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path / "lake")


class PanicException(BaseException):
    """As Rust's libraries raise, of the same name: deltalake in a forked child."""


def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which each opening of a table adds."""
    versions: list[Any] = []
    open_ = DeltaLakeTable.open_version

    def noted(self: DeltaLakeTable, version: int | None = None) -> Any:
        versions.append(version)
        return open_(self, version)

    monkeypatch.setattr(DeltaLakeTable, "open_version", noted)
    return versions


def checkpoints(lake: DeltaLake) -> list[int]:
    """Return the versions of a table's checkpoints."""
    return sorted(int(path.name[:20]) for path in lake.root.glob("_delta_log/*.checkpoint.parquet"))


def test_a_table_is_opened_once_and_for_its_checkpoints(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open it takes time for each of its files."""
    put(lake.table(), [0])
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "10"})
    versions, table = opened(monkeypatch), lake.table()
    for offset in range(1, 31):
        land(segments([offset]), table=table, generations=GENERATIONS)
    assert versions == [None, 9, 19, 29]
    assert checkpoints(lake) == versions[1:]
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


@pytest.mark.parametrize("error", [DeltaError, PanicException])
def test_a_checkpoint_that_cannot_be_made_is_logged_and_the_commit_has_landed(
    lake: DeltaLake,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
) -> None:
    put(lake.table(), [0])
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "1"})

    def fails(_: DeltaTable) -> None:
        raise error("no disk")

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
    versions = opened(monkeypatch)
    for commits in (100, 101):
        for offset in range(commits):
            other.commit([staged(other, [offset], partition=commits)])
        versions.clear()
        assert len(table.fences()) == commits - 98
        assert versions == [None] * (commits - 100)


@pytest.mark.parametrize(
    "written",
    [
        "[1]",
        "{",
        '"commitInfo"',
        '{"commitInfo":"x"}',
        '{"commitInfo":{"operationParameters":"x"}}',
        '{"commitInfo":{"x":NaN}}',
        '{"txn":{"appId":"columnar-kafka"}}',
        '\ufeff{"commitInfo":{}}',
    ],
)
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


def test_odd_commits_that_readers_take_are_passed_over(lake: DeltaLake) -> None:
    known = lake.table()
    put(known, [0])
    for number, written in enumerate(
        [
            "",
            "\n",
            '{"commitInfo":{"timestamp":1}}\n   \n',
            '\r\n{"commitInfo":{"timestamp":1}}\r\n',
            '{"commitInfo":null}',
            '{"commitInfo":{"operation":"WRITE","operationParameters":null}}',
            '{"txn":null}',
            '{"txn":{"appId":"x","version":1}}',
        ]
    ):
        version = lake.load().version() + 1
        (lake.root / f"_delta_log/{version:020}.json").write_text(written)
        assert lake.load().version() == version
        assert known.fences()[FENCE].next == lake.table().fences()[FENCE].next == number + 1
        put(known, range(number + 2))
    assert rows(lake) == numbers(range(9))


@pytest.mark.parametrize("interval", ["0", "-1", "many"])
def test_a_checkpoint_interval_that_is_none_is_the_default(lake: DeltaLake, interval: str) -> None:
    put(lake.table(), [0])
    log = lake.root / f"_delta_log/{0:020}.json"
    written = log.read_text().replace(
        '"columnar.growth":"allow"',
        f'"delta.checkpointInterval":"{interval}","delta.dataSkippingNumIndexedCols":"{interval}"',
    )
    assert interval in written
    log.write_text(written)
    put(lake.table(), range(2))
    assert (rows(lake), checkpoints(lake)) == (numbers(range(2)), [])


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


# --- a log that nobody reads ----------------------------------------------------------------------


class Overtaken(QuickFiles):
    """Others do something just before a commit is written, or just after; once."""

    def __init__(self, others: Callable[[], object], *, after: bool = False) -> None:
        self.others: list[Callable[[], object]] = [others]
        self.after = after

    def put(self, path: Path, data: bytes) -> None:
        others = self.others.pop() if self.others and path.parent.name == "_delta_log" else None
        if others and not self.after:
            others()
        super().put(path, data)
        if others and self.after:
            others()


def cleaned_up(lake: DeltaLake, *, landings: int = 12, retention: str = "0 seconds") -> None:
    """Land in another partition, with checkpoints, which leave only the newest part of the log."""
    settings = {
        "delta.checkpointInterval": "5",
        "delta.logRetentionDuration": f"interval {retention}",
    }
    lake.load().alter.set_table_properties(settings)
    for offset in range(landings):
        lake.table().commit([staged(lake.table(), [offset], partition=1)])


def test_a_log_that_was_cleaned_up_past_a_commit_takes_it_at_its_end(lake: DeltaLake) -> None:
    put(lake.table(), [0])
    table = lake.table(files=Overtaken(lambda: cleaned_up(lake)))
    put(table, range(2))
    assert not (lake.root / f"_delta_log/{2:020}.json").exists()
    expected = sorted(numbers(range(2)) + numbers(range(12)))
    assert rows(lake) == expected
    put(table, range(3))
    assert rows(lake) == sorted(expected + numbers([2]))


def test_a_gap_in_a_log_takes_no_commit(lake: DeltaLake) -> None:
    """A process that was killed while it cleaned the log up leaves one."""
    table = lake.table()
    put(table, [0])
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "6"})
    for offset in range(8):
        lake.table().commit([staged(lake.table(), [offset], partition=1)])
    for version in range(2, 6):
        (lake.root / f"_delta_log/{version:020}.json").unlink()
    put(table, range(2))
    assert not (lake.root / f"_delta_log/{2:020}.json").exists()
    assert rows(lake) == sorted(numbers(range(2)) + numbers(range(8)))


@pytest.mark.parametrize("retention", ["0 seconds", "30 days"])
def test_a_commit_that_is_in_a_checkpoint_at_once_has_landed(
    lake: DeltaLake, retention: str
) -> None:
    def others() -> None:
        cleaned_up(lake, landings=3, retention=retention)

    put(lake.table(), [0])
    table = lake.table(files=Overtaken(others, after=True))
    assert table.commit([staged(table, [1])]).landed == Count(1, 3)
    assert (lake.root / f"_delta_log/{2:020}.json").exists() == (retention == "30 days")
    assert rows(lake) == sorted(numbers(range(2)) + numbers(range(3)))


@pytest.mark.parametrize("removed", ["", "_delta_log"])
@pytest.mark.parametrize("commits", [0, 1, 5])
def test_a_table_that_was_deleted_or_made_anew_gets_no_commit_of_the_old_one(
    lake: DeltaLake, removed: str, commits: int
) -> None:
    """Beyond its end it would be a gap, which nobody reads past."""

    def others() -> None:
        shutil.rmtree(lake.root / removed)
        for number in range(commits):
            put(lake.table(), range(20, 21 + number))

    for offset in range(3):
        put(lake.table(), range(offset + 1))
    table = lake.table(files=Overtaken(others))
    attempt = staged(table, [3])
    with suppress(NotLandedError):
        table.commit([attempt])
    if commits:
        put(lake.table(), range(20, 30))
        assert rows(lake) == numbers(range(20, 30))
    else:
        landed = rows(lake) if removed else []
        assert landed == (numbers([3]) if removed else [])
        put(lake.table(), range(3, 6))
        assert rows(lake) == numbers(range(3, 6))


def test_a_commit_in_a_table_that_was_made_anew_just_so_long_may_have_landed(
    lake: DeltaLake,
) -> None:
    def others() -> None:
        shutil.rmtree(lake.root / "_delta_log")
        put(lake.table(), [20])

    put(lake.table(), [0])
    table = lake.table(files=Overtaken(others))
    attempt = staged(table, [1])
    with pytest.raises(MayHaveLandedError, match="was made anew while version 2 was written"):
        table.commit([attempt])


def test_a_commit_whose_answer_is_lost_may_have_landed_where_the_log_does_not_tell(
    lake: DeltaLake,
) -> None:
    def others() -> None:
        for version in range(2):
            (lake.root / f"_delta_log/{version:020}.json").unlink()
        raise OSError("reset by peer")

    put(lake.table(), [0])
    table = lake.table(files=Overtaken(others, after=True))
    attempt = staged(table, [1])
    with pytest.raises(MayHaveLandedError, match="its log was cleaned up, or is another one"):
        table.commit([attempt])


@needs_added_fields
def test_what_is_said_of_files_before_columns_are_added_is_not_said_to_nobody(
    lake: DeltaLake,
) -> None:
    def grow(number: int, data: pa.Table, **options: Any) -> None:
        message = segment(data, offset=number, number=number)
        land([message], table=lake.table(**options), generations=GENERATIONS)

    grow(0, FIRST)
    grow(1, GROWN, files=Overtaken(lambda: shutil.rmtree(lake.root / "_delta_log")))
    assert lake.read().drop_columns("_kafka").to_pylist() == GROWN.to_pylist()
    assert lake.load().version() == 1


def test_drafts_of_commits_are_removed_with_the_log_before_a_checkpoint(lake: DeltaLake) -> None:
    put(lake.table(), [0])
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "1"})
    old, new = (lake.root / f"_delta_log/{name}.draft" for name in ("0a", "f1"))
    for draft in (old, new):
        draft.write_text("{")
    os.utime(old, (0, 0))
    put(lake.table(), [0, 1])
    assert (old.exists(), new.exists()) == (False, True)


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
