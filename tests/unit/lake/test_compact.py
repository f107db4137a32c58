"""Small files merged into larger ones: every row stays, once, and landing goes on."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from lakes import (
    FENCE,
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    QuickFiles,
    audit,
    every_type,
    lake_at,
    put,
    rows,
    staged,
    targets,
)
from proportion import in_proportion
from segments import ROWS, numbers, segment, segments, staged_file

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import CompactResult, NotLandedError
from columnar_kafka.lake.plan import Mode
from columnar_kafka.lake.tables import merging
from columnar_kafka.lake.tables.merging import runs_to_merge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGE = 1 << 20


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


@pytest.fixture(params=targets())
def every_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lake_at(request, tmp_path / "lake")


def names(lake: DirectoryLake) -> list[str]:
    return sorted(path.name for path in lake.root.glob("t/*.parquet"))


@pytest.mark.parametrize("mode", list(Mode))
def test_many_files_become_one_and_landing_goes_on(every_lake: Any, mode: Mode) -> None:
    put(every_lake.table(), range(3), mode=mode)
    put(every_lake.table(), range(3, 5), mode=mode)
    result = every_lake.table().compact(LARGE)
    assert result == CompactResult(files_before=2 if mode is Mode.STITCHED else 5, files=1)
    put(every_lake.table(), range(8))
    assert rows(every_lake) == numbers(range(8))
    report = audit(every_lake, segments(range(8)))
    assert (report.findings, report.messages, report.files) == ([], 8, 2)


def test_the_fences_stay_and_what_is_read_again_has_landed(every_lake: Any) -> None:
    put(every_lake.table(), range(3))
    put(every_lake.table(), range(3, 5))
    before = every_lake.table().fences()
    every_lake.table().compact(LARGE)
    assert every_lake.table().fences() == before
    assert put(every_lake.table(), range(5)).landed_before.messages == 5
    assert rows(every_lake) == numbers(range(5))


def test_what_was_staged_before_it_lands_after_it(every_lake: Any) -> None:
    put(every_lake.table(), range(2))
    put(every_lake.table(), range(2, 4))
    table = every_lake.table()
    late = staged(table, [4, 5])
    every_lake.table().compact(LARGE)
    table.commit([late])
    assert rows(every_lake) == numbers(range(6))


def test_a_table_is_merged_while_others_land(every_lake: Any) -> None:
    """Whoever comes second is told, and tries again."""
    offsets = range(0, 16, 2)

    def land_all() -> None:
        for offset in offsets:
            while True:
                with suppress(LakeError):
                    put(every_lake.table(), range(offset, offset + 2))
                    break

    put(every_lake.table(), [0, 1], file_row_groups=1, small_bytes=0)
    with ThreadPoolExecutor(1) as pool:
        landing = pool.submit(land_all)
        while not landing.done():
            with suppress(LakeError):
                every_lake.table().compact(LARGE)
        landing.result()
    assert rows(every_lake) == numbers(range(16))
    report = audit(every_lake, segments(range(16)))
    assert (report.findings, report.messages) == ([], 16)


def test_a_landing_in_between_stays(lake: DirectoryLake) -> None:
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    table = lake.table()
    swap = table.swap

    def overtaken(*arguments: Any) -> str:
        table.swap = swap
        put(lake.table(), range(4, 6))
        return str(swap(*arguments))

    table.swap = overtaken
    table.compact(LARGE)
    assert rows(lake) == numbers(range(6))
    assert len(names(lake)) == 2
    assert audit(lake, segments(range(6))).findings == []


def test_of_two_at_once_one_is_told(lake: DirectoryLake) -> None:
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    table = lake.table()
    swap = table.swap

    def overtaken(*arguments: Any) -> str:
        table.swap = swap
        lake.table().compact(LARGE)
        return str(swap(*arguments))

    table.swap = overtaken
    with pytest.raises(NotLandedError, match="another process has merged"):
        table.compact(LARGE)
    assert rows(lake) == numbers(range(4))
    assert list(lake.root.glob("_columnar/staged/*")) == []


def test_ctrl_c_while_the_merged_file_appears_loses_no_row(lake: DirectoryLake) -> None:
    class Interrupted(QuickFiles):
        def link(self, old: Path, new: Path) -> None:
            if new.suffix == ".parquet" and not new.exists():  # the old files are gone
                raise KeyboardInterrupt
            super().link(old, new)

    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    with pytest.raises(KeyboardInterrupt):
        lake.table(files=Interrupted()).compact(LARGE)
    put(lake.table(), range(4, 6))
    assert rows(lake) == numbers(range(6))


def test_ctrl_c_while_files_are_merged_leaves_nothing(lake: DirectoryLake) -> None:
    class Interrupted(QuickFiles):
        def sync(self, file: Any) -> None:
            super().sync(file)
            raise KeyboardInterrupt

    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    with pytest.raises(KeyboardInterrupt):
        lake.table(files=Interrupted()).compact(LARGE)
    assert list(lake.root.glob("_columnar/staged/*")) == []
    assert rows(lake) == numbers(range(4))


class Killed(BaseException):
    """The process dies."""


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_its_commit_and_started_again(tmp_path: Path, kind: Any, *, after: bool) -> None:
    lake = kind(tmp_path / "lake")
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    table = lake.table()
    swap = table.swap

    def killed(*arguments: Any) -> str:
        if after:
            swap(*arguments)
        raise Killed

    table.swap = killed
    with pytest.raises(Killed):
        table.compact(LARGE)
    put(lake.table(), range(6))
    assert rows(lake) == numbers(range(6))
    assert lake.table().compact(LARGE).files == 1
    assert rows(lake) == numbers(range(6))
    assert audit(lake, segments(range(6))).findings == []


def test_files_are_merged_up_to_a_size_and_within_a_partition(lake: DirectoryLake) -> None:
    table = lake.table()
    put(table, range(5), file_row_groups=1, small_bytes=0)
    table.commit([staged(table, [0, 1], partition=1, file_row_groups=1, small_bytes=0)])
    size = max(path.stat().st_size for path in lake.root.glob("t/*.parquet"))
    assert lake.table().compact(2 * size).files == 4
    assert names(lake) == [
        f"p{partition}-{first:020}-{last:020}.parquet"
        for partition, first, last in [(0, 0, 1), (0, 2, 3), (0, 4, 4), (1, 0, 1)]
    ]
    assert lake.table().compact(size) == CompactResult(files_before=4, files=4)


def test_a_name_that_is_taken_is_left_alone(lake: DirectoryLake, tmp_path: Path) -> None:
    """Dead letters that were replayed may have it."""
    put(lake.table(), range(2), file_row_groups=1, small_bytes=0)
    other = DirectoryLake(tmp_path / "other")
    put(other.table(), range(2), file_row_groups=1, small_bytes=0)
    other.table().compact(LARGE)
    [merged] = names(other)
    taken = lake.root / "t" / merged
    taken.write_bytes(b"theirs")
    before = names(lake)
    assert lake.table().compact(LARGE) == CompactResult(files_before=2, files=2)
    assert names(lake) == before
    assert taken.read_bytes() == b"theirs"


def test_a_log_that_lacks_a_file_that_was_merged_is_an_error(lake: DirectoryLake) -> None:
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    lake.table().compact(LARGE)
    first = lake.root / "_columnar/log" / f"{1:020}.json"
    first.write_text(json.dumps({**json.loads(first.read_text()), "files": {}}))
    with pytest.raises(LakeError, match=r"0003\.json replaces t/p0-0.*, which no entry landed"):
        lake.table().compact(LARGE)


def test_files_of_other_schemas_stay_apart(lake: DirectoryLake) -> None:
    put(lake.table(), range(2), file_row_groups=1, small_bytes=0)
    wide = segment(pa.table({"n": [20], "more": [1]}), offset=2, number=2)
    land([wide], table=lake.table(), generations=GENERATIONS)
    assert lake.table().compact(LARGE).files == 2


def test_a_merged_file_has_few_row_groups_and_says_what_it_is(lake: DirectoryLake) -> None:
    put(lake.table(), range(3))
    put(lake.table(), range(3, 5))
    lake.table().compact(LARGE)
    [file] = lake.root.glob("t/*.parquet")
    metadata = pq.read_metadata(file)
    assert (metadata.num_row_groups, metadata.num_rows) == (1, 5 * ROWS)
    pairs = {key.decode(): value.decode() for key, value in metadata.metadata.items()}
    del pairs["ARROW:schema"], pairs["columnar.schema"]
    assert pairs == {
        "columnar.version": "1",
        "columnar.rows": str(5 * ROWS),
        "columnar.segments": "5",
        "columnar.cluster": "cluster",
        "columnar.topic.id": "id",
        "columnar.topic": "t",
        "columnar.partition": "0",
        "columnar.offset.first": "0",
        "columnar.offset.last": "4",
    }
    assert pq.read_table(file, page_checksum_verification=True).num_rows == 5 * ROWS


def test_it_can_be_merged_again(lake: DirectoryLake) -> None:
    put(lake.table(), range(2), file_row_groups=1, small_bytes=0)
    lake.table().compact(LARGE)
    put(lake.table(), range(2, 4), file_row_groups=1, small_bytes=0)
    assert lake.table().compact(LARGE) == CompactResult(files_before=3, files=1)
    assert rows(lake) == numbers(range(4))
    assert lake.table().fences()[FENCE].next == 4


def test_values_of_every_type_stay_equal(every_lake: Any) -> None:
    data = every_type(nan=pa.array([float("nan"), None], pa.float32()))
    messages = [segment(data, offset=at, number=at) for at in range(3)]
    for message in messages:
        land([message], table=every_lake.table(), generations=GENERATIONS)
    assert every_lake.table().compact(LARGE).files == 1
    report = audit(every_lake, messages)
    assert (report.findings, report.rows) == ([], 6)


def test_a_file_that_cannot_be_read_stops_it_and_nothing_changes(lake: DirectoryLake) -> None:
    put(lake.table(), range(2), file_row_groups=1, small_bytes=0)
    put(lake.table(), range(2, 4), file_row_groups=1, small_bytes=0)
    min(lake.root.glob("t/*.parquet")).write_bytes(b"nothing")
    before = names(lake)
    with pytest.raises(LakeError, match=r"p0-0{20}-0{20}\.parquet to "):
        lake.table().compact(LARGE)
    assert names(lake) == before
    assert list(lake.root.glob("_columnar/staged/*")) == []


def test_delta_and_its_readers_keep_the_old_files_until_vacuum(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    reader = DeltaTable(str(lake.root))
    lake.table().compact(LARGE)
    assert sorted(reader.to_pyarrow_table()["n"].to_pylist()) == numbers(range(4))


def test_delta_restored_to_before_it_goes_on(tmp_path: Path) -> None:
    """No row was undone."""
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(2))
    put(lake.table(), range(4))
    version = lake.load().version()
    lake.table().compact(LARGE)
    lake.load().restore(version)
    put(lake.table(), range(6))
    assert rows(lake) == numbers(range(6))
    assert lake.table().compact(LARGE).files == 1
    assert rows(lake) == numbers(range(6))


def test_files_of_delta_are_merged_up_to_a_size(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    for offsets in (range(1), range(2), range(3)):
        put(lake.table(), offsets)
    nbytes = sum(path.stat().st_size for path in lake.root.rglob("p0-*.parquet"))
    assert lake.table().compact(nbytes // 4) == CompactResult(files_before=3, files=3)
    assert lake.table().compact(nbytes) == CompactResult(files_before=3, files=1)


def test_no_table_is_an_error(tmp_path: Path) -> None:
    for lake in DeltaLake(tmp_path / "delta"), IcebergLake(tmp_path / "iceberg"):
        with pytest.raises(LakeError, match="there is no table"):
            lake.table().compact(LARGE)


# --- in proportion --------------------------------------------------------------------------------


def test_many_row_groups_are_merged_in_proportion(tmp_path: Path) -> None:
    def work(groups: int) -> Callable[[], object]:
        lake = DirectoryLake(tmp_path / f"{groups}")
        put(lake.table(), range(groups))
        put(lake.table(), range(groups, 2 * groups))
        return lambda: lake.table().compact(LARGE)

    in_proportion(merging, work, 20)


def test_many_files_are_put_together_in_proportion() -> None:
    def work(count: int) -> Callable[[], object]:
        files = {f"{n}": staged_file(FENCE, n, n, nbytes=1) for n in range(count)}
        return lambda: [len(run) for run in runs_to_merge(files, 1000)]

    assert work(1500)() == [1000, 500]
    in_proportion(merging, work, 100)


def test_what_waits_for_its_row_group_is_bounded(lake: DirectoryLake) -> None:
    """Many small row groups become one, up to a number of rows and bytes."""
    put(lake.table(), range(40))
    put(lake.table(), range(40, 80))
    with mock.patch.multiple(merging, _GROUP_ROWS=10 * ROWS, _GROUP_BYTES=1 << 20):
        lake.table().compact(LARGE)
    [file] = lake.root.glob("t/*.parquet")
    assert pq.read_metadata(file).num_row_groups == 8
    assert rows(lake) == numbers(range(80))
