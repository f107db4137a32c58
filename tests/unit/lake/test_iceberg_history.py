"""The history of an Iceberg table that lands for long: what expires, and what stays."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakes import FENCE, GENERATIONS, IcebergLake, audit, put, rows
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from segments import numbers, segment, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.tables.iceberg import history as iceberg_history
from columnar_kafka.lake.tables.iceberg import table as iceberg
from columnar_kafka.lake.tables.iceberg.history import retained

if TYPE_CHECKING:
    from pathlib import Path

DAY = 24 * 3600 * 1000
LARGE = 1 << 20


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "warehouse")


def land_each(lake: IcebergLake, offsets: range, **options: Any) -> None:
    """Land a segment at a time, a commit for each."""
    table = lake.table(**options)
    for offset in offsets:
        land(segments([offset]), table=table, generations=GENERATIONS)


def set_properties(lake: IcebergLake, properties: dict[str, str], *gone: str) -> None:
    with lake.opened() as table, table.transaction() as transaction:
        transaction.set_properties(properties)
        transaction.remove_properties(*gone)


def theirs(lake: IcebergLake, properties: dict[str, str]) -> None:
    """Make a table as another program does."""
    put(lake.table(), [0])
    columns = lake.load().schema()
    with closing(load_catalog(**lake.catalog)) as catalog:
        catalog.purge_table(lake.name)
        catalog.create_table(lake.name, columns, properties=properties)


def days_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more days pass than Iceberg keeps snapshots unless it is told otherwise."""
    later = time.time() + 5.1 * 24 * 3600
    monkeypatch.setattr(iceberg.time, "time", lambda: later)


def snapshots(lake: IcebergLake) -> list[int]:
    """Return the offsets that the snapshots have reached, oldest first; -1 if it was not ours."""
    records = [
        iceberg_history.CommitRecord.from_properties(snapshot.summary.additional_properties)
        for snapshot in lake.load().metadata.snapshots
    ]
    return [record.fences[FENCE].next if record else -1 for record in records]


def named(lake: IcebergLake, pattern: str) -> set[str]:
    return {path.name for path in lake.root.glob(f"metadata/{pattern}")}


def referenced(lake: IcebergLake) -> tuple[set[str], set[str]]:
    """Return the names of the metadata files and data files that snapshots of the table have."""
    table = lake.load()
    metadata, data = set(), set()
    for snapshot in table.metadata.snapshots:
        metadata.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            metadata.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io)
            data |= {entry.data_file.file_path for entry in entries}
    return {path.rpartition("/")[2] for path in metadata}, {
        path.rpartition("/")[2] for path in data
    }


def check_files(lake: IcebergLake) -> None:
    """Check that a table has the files of its snapshots, all of them, and no others."""
    metadata, data = referenced(lake)
    names = named(lake, "*.avro")
    # A manifest that pyiceberg has written and merged at once goes when its snapshot does.
    merged = {name.replace("-m1.avro", "-m0.avro") for name in metadata if "-m1.avro" in name}
    assert metadata <= names <= metadata | merged
    assert {path.rpartition("/")[2] for path in lake.data_files()} == data


def test_a_table_that_is_created_here_is_bounded(lake: IcebergLake) -> None:
    put(lake.table(), [0])
    properties = lake.load().properties
    assert {name: properties[name] for name in iceberg_history.BOUNDED} == {
        "columnar.keep-snapshots": "100",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "100",
        "commit.manifest-merge.enabled": "true",
        "commit.manifest.target-size-bytes": "1048576",
    }


def test_old_snapshots_expire_and_their_files_go(lake: IcebergLake) -> None:
    land_each(lake, range(1))
    set_properties(
        lake,
        {
            "columnar.keep-snapshots": "4",
            "write.metadata.previous-versions-max": "3",
            "commit.manifest.min-count-to-merge": "3",
        },
    )
    land_each(lake, range(1, 20))
    assert snapshots(lake) == [17, 18, 19, 20]
    assert rows(lake) == numbers(range(20))
    check_files(lake)
    assert len(named(lake, "*.metadata.json")) == 4  # and the current one
    assert lake.table().fences()[FENCE].next == 20
    assert audit(lake, segments(range(20))).findings == []


def test_without_the_property_it_grows(lake: IcebergLake) -> None:
    theirs(lake, {})
    land_each(lake, range(8))
    assert len(snapshots(lake)) == 8
    assert len(named(lake, "*.metadata.json")) == 9


def test_the_users_own_number_goes_before_the_tables(lake: IcebergLake) -> None:
    theirs(lake, {"history.expire.min-snapshots-to-keep": "1000"})
    land_each(lake, range(8), keep_snapshots=2)
    assert snapshots(lake) == [7, 8]
    check_files(lake)


@pytest.mark.parametrize(
    ("properties", "days", "kept"),
    [
        ({"history.expire.min-snapshots-to-keep": "2"}, 4, 6),
        ({"history.expire.min-snapshots-to-keep": "2"}, 6, 2),
        ({"history.expire.max-snapshot-age-ms": f"{DAY}"}, 0.9, 6),
        ({"history.expire.max-snapshot-age-ms": f"{DAY}"}, 1.1, 1),
        ({"columnar.keep-snapshots": "3"}, 0, 3),
        ({"columnar.keep-snapshots": "3", "history.expire.min-snapshots-to-keep": "5"}, 9, 5),
        ({"columnar.keep-snapshots": "3", "gc.enabled": "false"}, 9, None),
        ({}, 9, None),
    ],
)
def test_what_the_properties_say(
    lake: IcebergLake, properties: dict[str, str], days: float, kept: int | None
) -> None:
    theirs(lake, {})
    land_each(lake, range(6))
    set_properties(lake, properties)
    metadata = lake.load().metadata
    ids = retained(metadata, None, metadata.last_updated_ms + int(days * DAY))
    assert (None if ids is None else len(ids)) == kept


def test_tags_and_branches_stay(lake: IcebergLake) -> None:
    theirs(lake, {})
    land_each(lake, range(4))
    ids = [snapshot.snapshot_id for snapshot in lake.load().metadata.snapshots]
    with lake.opened() as table:
        table.manage_snapshots().create_tag(ids[0], "tag").create_branch(
            ids[2], "branch", min_snapshots_to_keep=2
        ).commit()
    land_each(lake, range(4, 12), keep_snapshots=3)
    assert snapshots(lake) == [1, 2, 3, 10, 11, 12]
    table = lake.load()
    assert table.scan(snapshot_id=ids[0]).to_arrow().num_rows == 3
    assert {*table.metadata.refs} == {"main", "tag", "branch"}
    check_files(lake)


def append_nothing(lake: IcebergLake) -> None:
    """Commit as another writer."""
    with lake.opened() as table:
        table.append(lake.read().slice(0, 0))


def test_a_rollback_to_any_snapshot_that_is_left_finds_its_fences(lake: IcebergLake) -> None:
    """Without them ``reland`` would land what is there again."""
    land_each(lake, range(3))
    for _ in range(4):
        append_nothing(lake)
    land_each(lake, range(3, 5), keep_snapshots=4)
    assert snapshots(lake) == [3, -1, -1, -1, -1, 4, 5]
    for snapshot in lake.load().metadata.snapshots[:-1]:
        with lake.opened() as table:
            table.manage_snapshots().set_current_snapshot(snapshot.snapshot_id).commit()
        with pytest.raises(LakeError, match="the table was restored: 5 commits had landed"):
            lake.table().fences()
        assert lake.table(reland=True).fences()[FENCE].next in (3, 4)


def test_what_was_rolled_back_stays_for_days_and_then_goes(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    land_each(lake, range(3))
    first = lake.load().metadata.snapshots[0].snapshot_id
    with lake.opened() as table:
        table.manage_snapshots().rollback_to_snapshot(first).commit()
    land_each(lake, range(1, 9), keep_snapshots=2, reland=True)
    assert snapshots(lake) == [2, 3, 8, 9]
    undone = lake.load().metadata.snapshots[1].snapshot_id
    assert lake.load().scan(snapshot_id=undone).to_arrow().num_rows == 9
    check_files(lake)
    assert len(lake.data_files()) == 11
    days_pass(monkeypatch)
    land_each(lake, range(9, 10), keep_snapshots=2)
    assert snapshots(lake) == [9, 10]
    assert rows(lake) == numbers(range(10))
    check_files(lake)


def test_merged_files_stay_as_long_as_the_table_says_and_then_go(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that began before the merge reads them; 5 days are Iceberg's own default."""
    land_each(lake, range(6))
    old = set(lake.data_files())
    lake.table(keep_snapshots=2).compact(LARGE)
    before = lake.load().scan(snapshot_id=lake.load().metadata.snapshots[-2].snapshot_id)
    land_each(lake, range(6, 12), keep_snapshots=2)
    assert snapshots(lake) == [6, 6, 11, 12]  # before the merge and the merge
    assert old < set(lake.data_files())
    assert sorted(before.to_arrow()["n"].to_pylist()) == numbers(range(6))
    check_files(lake)
    days_pass(monkeypatch)
    land_each(lake, range(12, 15), keep_snapshots=2)
    assert not old & set(lake.data_files())
    assert rows(lake) == numbers(range(15))
    check_files(lake)


def test_a_merged_file_that_a_tag_has_stays(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    land_each(lake, range(4))
    old = set(lake.data_files())
    with lake.opened() as table:
        third = table.metadata.snapshots[2].snapshot_id
        table.manage_snapshots().create_tag(third, "tag").commit()
    lake.table(keep_snapshots=1).compact(LARGE)
    days_pass(monkeypatch)
    land_each(lake, range(4, 8), keep_snapshots=1)
    assert len(old & set(lake.data_files())) == 3
    assert lake.load().scan(snapshot_id=third).to_arrow().num_rows == 9
    check_files(lake)


def test_an_external_expiry_at_the_same_time_does_no_harm(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Both have chosen the same snapshots."""
    land_each(lake, range(4))
    expire = iceberg_history.expire_snapshots

    def late(table: Any, ends: Any) -> None:
        monkeypatch.setattr(iceberg_history, "expire_snapshots", expire)
        with lake.opened() as opened:
            opened.maintenance.expire_snapshots().by_ids([e.snapshot_id for e in ends]).commit()
        expire(table, ends)

    monkeypatch.setattr(iceberg_history, "expire_snapshots", late)
    land_each(lake, range(4, 5), keep_snapshots=2)
    assert "lake.t: old snapshots stay" in caplog.text
    land_each(lake, range(5, 9), keep_snapshots=2)
    assert snapshots(lake) == [8, 9]
    assert rows(lake) == numbers(range(9))


def test_a_tag_that_is_set_meanwhile_stays(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that becomes a tag's while it expires would take the tag with it."""
    land_each(lake, range(4))
    with lake.opened() as table:
        newest = table.metadata.current_snapshot_id
        table.manage_snapshots().create_tag(newest, "tag").commit()
    expire = iceberg_history.expire_snapshots

    def late(table: Any, ends: Any) -> None:
        monkeypatch.setattr(iceberg_history, "expire_snapshots", expire)
        with lake.opened() as opened:
            opened.manage_snapshots().remove_tag("tag").commit()
        with lake.opened() as opened:
            opened.manage_snapshots().create_tag(ends[0].snapshot_id, "tag").commit()
        expire(table, ends)

    monkeypatch.setattr(iceberg_history, "expire_snapshots", late)
    land_each(lake, range(4, 5), keep_snapshots=2)
    assert len(snapshots(lake)) == 5  # not now
    land_each(lake, range(5, 8), keep_snapshots=2)
    assert snapshots(lake) == [1, 7, 8]
    assert "tag" in lake.load().metadata.refs
    check_files(lake)


class Killed(BaseException):
    """The process dies."""


@pytest.mark.parametrize("step", ["commit_table", "_remove"])
@pytest.mark.parametrize("after", [False, True])
def test_killed_while_snapshots_expire(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool
) -> None:
    """Files may be left over; all that the table has is there, and landing goes on."""
    land_each(lake, range(4))
    place: Any = SqlCatalog if step == "commit_table" else iceberg_history
    real = getattr(place, step)
    calls = []

    def killed(*arguments: Any) -> Any:
        calls.append(step)
        if step == "commit_table" and len(calls) == 1:
            return real(*arguments)  # the landing's own
        if after:
            real(*arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place, step, killed)
        with pytest.raises(Killed):
            land_each(lake, range(4, 5), keep_snapshots=2)
    land_each(lake, range(5, 8), keep_snapshots=2)
    assert snapshots(lake) == [7, 8]
    assert rows(lake) == numbers(range(8))
    metadata, data = referenced(lake)
    assert metadata <= named(lake, "*.avro")
    assert data == {path.rpartition("/")[2] for path in lake.data_files()}


def test_an_expiry_that_fails_fails_no_landing(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    land_each(lake, range(4))
    commit_table, calls = SqlCatalog.commit_table, []

    def fails(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) % 2:
            return commit_table(*arguments)
        raise CommitFailedException("another") if len(calls) == 2 else PermissionError("no")

    monkeypatch.setattr(SqlCatalog, "commit_table", fails)
    land_each(lake, range(4, 5), keep_snapshots=2)
    assert caplog.text == ""  # whoever has committed will do it
    land_each(lake, range(5, 6), keep_snapshots=2)
    assert "lake.t: old snapshots stay: PermissionError('no')" in caplog.text
    assert rows(lake) == numbers(range(6))
    assert len(snapshots(lake)) == 6


def test_wrong_values_of_properties_fail_no_landing(lake: IcebergLake, caplog: Any) -> None:
    land_each(lake, range(2))
    set_properties(lake, {"columnar.keep-snapshots": "many"})
    land_each(lake, range(2, 4))
    assert rows(lake) == numbers(range(4))
    assert "old snapshots stay: ValueError(" in caplog.text


def test_a_commit_hands_pyiceberg_no_old_snapshots(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would copy them a score of times."""
    land_each(lake, range(5))
    seen = []
    add_data_files = iceberg.add_data_files

    def watched(transaction: Any, *arguments: Any) -> None:
        seen.append(len(transaction.table_metadata.snapshots))
        add_data_files(transaction, *arguments)

    monkeypatch.setattr(iceberg, "add_data_files", watched)
    land_each(lake, range(5, 6))
    assert seen == [1]
    assert len(snapshots(lake)) == 6


def test_a_table_with_partitions_and_growth_expires(lake: IcebergLake) -> None:
    table = lake.table(partition_by=["c"], keep_snapshots=2)
    for offset in range(6):
        columns: dict[str, Any] = {"n": [offset, offset], "c": ["x", "y"]}
        if offset > 3:
            columns["more"] = ["a", None]
        message = segment(pa.table(columns), offset=offset, number=offset)
        land([message], table=table, generations=GENERATIONS)
    assert snapshots(lake) == [5, 6]
    assert lake.read().num_rows == 12
    check_files(lake)


@pytest.mark.parametrize("merged_first", [False, True])
def test_every_snapshot_that_stays_can_be_read_after_a_rollback_and_a_merge(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, *, merged_first: bool
) -> None:
    """What was rolled back shares files with what a merge has taken out of the head."""
    rows_of: dict[int, int] = {}

    def noted() -> int:
        table = lake.load()
        at = table.metadata.current_snapshot_id
        rows_of[at] = table.scan().to_arrow().num_rows
        return at

    land_each(lake, range(1), keep_snapshots=1000)
    noted()
    for offset in (1, 2):
        put(lake.table(keep_snapshots=1000), range(offset + 1))
        kept = noted()
    if merged_first:
        lake.table(keep_snapshots=1000).compact(LARGE)
    else:
        put(lake.table(keep_snapshots=1000), range(4))
    noted()
    with lake.opened() as table:
        table.manage_snapshots().rollback_to_snapshot(kept).commit()
    put(lake.table(keep_snapshots=1000, reland=True), range(5))
    noted()
    days_pass(monkeypatch)
    lake.table(keep_snapshots=1000).compact(LARGE)
    noted()
    put(lake.table(keep_snapshots=1000), range(6))
    noted()
    table = lake.load()
    left = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    assert len(left) == len(rows_of) - 1  # what was rolled back has expired
    for snapshot_id in left:
        assert table.scan(snapshot_id=snapshot_id).to_arrow().num_rows == rows_of[snapshot_id]
    check_files(lake)
