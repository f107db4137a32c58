"""Merging the files of an Iceberg table; `test_compact` has what all tables share."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import (
    FENCE,
    GENERATIONS,
    IcebergLake,
    audit,
    by_polars,
    catalog_gone,
    lose_an_answer,
    put,
    rows,
    staged,
)
from pyiceberg.expressions.visitors import _ManifestEvalVisitor
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType
from segments import numbers, segment, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import CompactResult, NotLandedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGE = 1 << 20


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "warehouse")


def land_tables(lake: IcebergLake, *tables: pa.Table, first: int = 0, **options: Any) -> Any:
    """Land each as a segment, in a commit of its own; return the messages."""
    messages = [
        segment(table, offset=first + n, number=first + n) for n, table in enumerate(tables)
    ]
    for message in messages:
        land([message], table=lake.table(**options), generations=GENERATIONS)
    return messages


def landed(lake: IcebergLake) -> dict[str, Any]:
    """Return the data files of the table, by the path from which pyarrow reads them."""
    tasks = lake.load().scan().plan_files()
    return {task.file.file_path.removeprefix("file://"): task.file for task in tasks}


def summary(lake: IcebergLake) -> Any:
    return lake.load().current_snapshot().summary


def overtaken(table: Any, others: Callable[[], object]) -> Any:
    """Have others commit while a table is about to do so."""
    swap = table.swap

    def late(*arguments: Any) -> str:
        table.swap = swap
        others()
        return str(swap(*arguments))

    table.swap = late
    return table


def test_the_snapshot_says_that_no_row_has_changed_and_has_the_fences(lake: IcebergLake) -> None:
    put(lake.table(), range(3))
    put(lake.table(), range(3, 5))
    before = summary(lake)
    lake.table().compact(LARGE)
    after = summary(lake)
    assert (before.operation, after.operation) == (Operation.APPEND, Operation.REPLACE)
    for key in "columnar.fences", "columnar.sequence", "total-records":
        assert after[key] == before[key]
    counts = ("added-data-files", "deleted-data-files", "total-data-files")
    assert [after[key] for key in counts] == ["1", "2", "1"]
    put(lake.table(), range(5, 6))
    assert summary(lake)["total-data-files"] == "2"


def test_readers_that_are_not_ours_agree(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    put(lake.table(), range(4), file_row_groups=1, small_bytes=0)
    lake.table().compact(LARGE)
    assert rows(lake) == numbers(range(4))
    assert sorted(by_polars(pl.scan_iceberg(lake.load()))["n"]) == numbers(range(4))


def test_a_merged_file_has_the_tables_field_ids_and_no_bounds_of_milliseconds(
    lake: IcebergLake,
) -> None:
    times = pa.array([1, 2], pa.timestamp("ms"))
    land_tables(lake, *[pa.table({"n": [1, 2], "time": times, "list": [[1], [2]]})] * 2)
    lake.table().compact(LARGE)
    [(path, file)] = landed(lake).items()
    columns = pq.ParquetFile(path).schema_arrow
    fields = [columns.field("n"), columns.field("list").type.value_field]
    fields.append(columns.field("_kafka").type.field("row"))
    schema = lake.load().schema()
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in fields] == [
        schema.find_field(name).field_id for name in ("n", "list.element", "_kafka.row")
    ]
    assert list(file.lower_bounds) == [schema.find_field("n").field_id]
    group = pq.read_metadata(path).row_group(0)
    leaves = [group.column(number) for number in range(group.num_columns)]
    unstated = {leaf.path_in_schema for leaf in leaves if not leaf.is_stats_set}
    plain = {leaf.path_in_schema for leaf in leaves if not leaf.has_dictionary_page}
    assert unstated == plain == {"time", "_kafka.timestamp"}


def test_a_landing_in_between_stays(lake: IcebergLake) -> None:
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    result = overtaken(lake.table(), lambda: put(lake.table(), range(4, 6))).compact(LARGE)
    assert result == CompactResult(files_before=2, files=1)
    assert rows(lake) == numbers(range(6))
    assert (len(landed(lake)), lake.table().fences()[FENCE].next) == (2, 6)
    assert audit(lake, segments(range(6))).findings == []


def test_a_landing_goes_on_over_a_merge_in_between(lake: IcebergLake) -> None:
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    table = lake.table()
    late = staged(table, [4, 5])
    overtaken(table, lambda: lake.table().compact(LARGE)).commit([late])
    assert rows(lake) == numbers(range(6))
    assert len(landed(lake)) == 2


def test_of_two_at_once_one_is_told_and_leaves_nothing(lake: IcebergLake) -> None:
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))
    table = overtaken(lake.table(), lambda: lake.table().compact(LARGE))
    with pytest.raises(NotLandedError, match="another process has merged file:///"):
        table.compact(LARGE)
    assert rows(lake) == numbers(range(4))
    assert len(lake.data_files()) == 3  # the two old ones, and one merged


def test_rows_that_another_program_deletes_meanwhile_stay_deleted(lake: IcebergLake) -> None:
    put(lake.table(), range(2))
    put(lake.table(), range(2, 4))

    def delete() -> None:
        with lake.opened() as opened:
            opened.delete("n = 11")

    table = overtaken(lake.table(), delete)
    with pytest.raises(NotLandedError, match="another process has merged"):
        table.compact(LARGE)
    assert rows(lake) == [n for n in numbers(range(4)) if n != 11]


@pytest.mark.parametrize("on_top", [False, True])
def test_a_merge_whose_answer_is_lost_has_happened(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, *, on_top: bool
) -> None:
    put(lake.table(), range(2), file_row_groups=1, small_bytes=0)
    lose_an_answer(monkeypatch, lambda: on_top and put(lake.table(), [5]))
    assert lake.table().compact(LARGE) == CompactResult(files_before=2, files=1)
    assert rows(lake) == numbers([0, 1, 5] if on_top else [0, 1])


def test_a_merge_that_may_still_happen_keeps_its_file(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake.table(), range(2), file_row_groups=1, small_bytes=0)

    with catalog_gone(monkeypatch):
        lake.table().compact(LARGE)
    assert len(lake.data_files()) == 3
    lake.table().compact(LARGE)
    assert rows(lake) == numbers(range(2))


def test_a_rollback_of_a_merge_undoes_nothing_and_one_of_a_landing_stops(lake: IcebergLake) -> None:
    put(lake.table(), [0])
    first = lake.load().metadata.current_snapshot_id
    put(lake.table(), [1])
    second = lake.load().metadata.current_snapshot_id
    lake.table().compact(LARGE)
    with lake.opened() as opened:
        opened.manage_snapshots().rollback_to_snapshot(second).commit()
    put(lake.table(), range(3))
    assert rows(lake) == numbers(range(3))
    with lake.opened() as opened:
        opened.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(LakeError, match="3 commits had landed, and 1 are left"):
        lake.table().compact(LARGE)


def test_the_fences_survive_the_snapshots_before_it(lake: IcebergLake) -> None:
    put(lake.table(), [0])
    put(lake.table(), [1])
    lake.table().compact(LARGE)
    with lake.opened() as opened:
        older = [snapshot.snapshot_id for snapshot in opened.metadata.snapshots[:-1]]
        opened.maintenance.expire_snapshots().by_ids(older).commit()
    assert lake.table().fences()[FENCE].next == 2
    put(lake.table(), range(3))
    assert rows(lake) == numbers(range(3))


def test_files_of_other_programs_stay_as_they_are(lake: IcebergLake) -> None:
    put(lake.table(), [0])
    with lake.opened() as opened:
        opened.append(lake.read().slice(0, 1))
    put(lake.table(), [1])
    before = set(landed(lake))
    assert lake.table().compact(LARGE) == CompactResult(files_before=3, files=2)
    assert len(before & set(landed(lake))) == 1
    assert rows(lake) == sorted([*numbers([0, 1]), 0])


def test_files_of_other_field_ids_stay_apart(lake: IcebergLake) -> None:
    """The second column c is another one than the first."""
    data = pa.table({"n": [1], "c": [2]})
    land_tables(lake, data)
    with lake.opened() as opened, opened.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("c")
    with lake.opened() as opened, opened.update_schema() as update:
        update.add_column("c", LongType())
    land_tables(lake, data, data, first=1)
    assert lake.table().compact(LARGE) == CompactResult(files_before=3, files=2)
    assert sorted(lake.read()["c"].to_pylist(), key=str) == [2, 2, None]


def test_files_of_other_names_stay_as_they_are(lake: IcebergLake) -> None:
    """Columns were renamed, and n is another one now: field ids tell, names do not."""
    land_tables(lake, *[pa.table({"n": [1], "m": [2]})] * 2)
    for old, new in ("n", "x"), ("m", "n"):
        with lake.opened() as opened, opened.update_schema() as update:
            update.rename_column(old, new)
    land_tables(lake, *[pa.table({"x": [3], "n": [4]})] * 2, first=2)
    assert lake.table().compact(LARGE) == CompactResult(files_before=4, files=3)
    records = lake.read().select(["x", "n"]).sort_by("x").to_pylist()
    assert records == [{"x": 1, "n": 2}] * 2 + [{"x": 3, "n": 4}] * 2


def test_rows_under_delete_files_are_refused(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg writes none: the table's scan tells of one."""
    put(lake.table(), [0])
    put(lake.table(), [1])
    table = lake.table()
    load = table.load

    class Deleted:
        content = DataFileContent.POSITION_DELETES

    def with_deletes() -> Any:
        loaded = load()
        [task, *others] = loaded.scan().plan_files()
        task.delete_files.add(Deleted())

        class Scan:
            def plan_files(self) -> Any:
                return [task, *others]

        loaded.scan = Scan
        return loaded

    monkeypatch.setattr(table, "load", with_deletes)
    with pytest.raises(LakeError, match=r"lake\.t: delete files have deleted rows"):
        table.compact(LARGE)


DAY = datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)
PARTITIONS = {
    "text": (["c"], 3),
    "known": (["_kafka_topic", "_ingest_date"], 1),
    "day": (["day(time)", "truncate(1, c)"], 4),
}


NEXT_DAY = DAY + datetime.timedelta(days=1)
TABLES = [
    pa.table({"n": n, "c": pa.array(c, pa.string()), "time": pa.array(times)})
    for n, c, times in (
        ([1, 2], ["DE", "US"], [DAY, DAY]),
        ([3], ["US"], [DAY]),
        ([4, 5], ["DE", None], [NEXT_DAY, DAY]),
        ([6], ["DE"], [NEXT_DAY]),
    )
]


@pytest.mark.parametrize("name", PARTITIONS)
def test_files_are_merged_within_a_partition_of_the_table(lake: IcebergLake, name: str) -> None:
    by, files = PARTITIONS[name]
    sent = land_tables(lake, *TABLES, partition_by=by)
    assert lake.table().compact(LARGE).files == files
    report = audit(lake, sent)
    assert (report.findings, report.messages, report.files) == ([], 4, files)
    [more] = land_tables(lake, TABLES[0], first=4)
    assert sorted(lake.read()["n"].to_pylist()) == [1, 1, 2, 2, 3, 4, 5, 6]
    assert audit(lake, [*sent, more]).findings == []
    assert lake.load().scan(row_filter="c = 'US'").to_arrow()["n"].to_pylist().count(2) == 2


def test_pyiceberg_looks_for_the_merged_files_in_every_manifest(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads share what compares a manifest's partitions, and would overlook some."""
    by, files = PARTITIONS["day"]
    other = pa.table({"n": [7], "c": ["FR"], "time": [DAY - datetime.timedelta(days=1)]})
    land_tables(lake, other, *TABLES, partition_by=by)

    def set_late(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "partition_fields":
            # Another thread comes in between. If none does, the test finds less, and passes.
            time.sleep(0.01)

    monkeypatch.setattr(_ManifestEvalVisitor, "__setattr__", set_late)
    assert lake.table().compact(LARGE).files == files + 1
