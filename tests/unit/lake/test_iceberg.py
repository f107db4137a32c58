"""Iceberg tables: field ids, rollbacks, lost answers; `test_every_table` has the rest."""

from __future__ import annotations

import datetime
from contextlib import closing
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import (
    FENCE,
    GENERATIONS,
    POLARS_READS_ALL,
    IcebergLake,
    audit,
    by_polars,
    catalog_gone,
    every_type,
    lose_an_answer,
    put,
    rows,
    staged,
)
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ForbiddenError
from pyiceberg.types import IntegerType, LongType, StringType
from segments import ROWS, numbers, segment
from sqlalchemy.exc import OperationalError

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import NotLandedError, SourcePartition
from columnar_kafka.lake.plan import Layout, Mode
from columnar_kafka.lake.tables.iceberg import table as iceberg
from columnar_kafka.lake.tables.iceberg.table import IcebergTable
from columnar_kafka.schema.kept import to_kept
from columnar_kafka.schema.leading import of_columns

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "warehouse")


def land_table(lake: IcebergLake, data: pa.Table, *, offset: int = 0, **layout: Any) -> None:
    message = segment(data, offset=offset, number=offset)
    table = lake.table()
    land([message], table=table, generations=GENERATIONS, layout=Layout(**layout))


def existing(lake: IcebergLake, schema: pa.Schema) -> Any:
    """Make a table with these columns, and `_kafka` as `segments` have it."""
    kafka = segment(pa.table({"n": [1]})).value
    column = pq.read_schema(pa.BufferReader(kafka)).field("_kafka").with_nullable(nullable=True)
    with closing(load_catalog(**lake.catalog)) as catalog:
        catalog.create_namespace("lake")
        return catalog.create_table("lake.t", schema.append(column))


def parquet_paths(lake: IcebergLake) -> list[Path]:
    return sorted(lake.root.rglob("*.parquet"))


def test_readers_that_are_not_ours_agree(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    put(lake.table(), range(4), file_row_groups=2, small_bytes=0)
    put(lake.table(), range(7))
    staged(lake.table(), [7, 8])  # not landed
    assert rows(lake) == numbers(range(7))
    assert sorted(by_polars(pl.scan_iceberg(lake.load()))["n"]) == numbers(range(7))


def test_filters_see_times_as_they_are(lake: IcebergLake) -> None:
    """Segments have milliseconds and Iceberg has microseconds: the bounds must not be mistaken."""
    put(lake.table(), [0])
    scan = lake.load().scan
    after = "_kafka.timestamp > '1970-01-01T00:00:00.001+00:00'"
    assert scan(row_filter=after).to_arrow().num_rows == 1
    later = "_kafka.timestamp > '1970-01-01T00:00:00.002+00:00'"
    assert scan(row_filter=later).to_arrow().num_rows == 0


def test_milliseconds_have_no_bounds_in_stitched_files(lake: IcebergLake) -> None:
    """Iceberg's Java library takes them for microseconds, and leaves out rows."""
    times = pa.array([1, 2], pa.timestamp("ms"))
    data = {
        "n": [1, 2],
        "at": times,
        "us": times.cast(pa.timestamp("us")),
        "list": [[times[0]]] * 2,
    }
    land_table(lake, pa.table(data))
    [path] = parquet_paths(lake)
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    bare = [column.path_in_schema for column in columns if column.statistics is None]
    assert [name for name in bare if "_kafka" not in name] == ["at", "list.list.element"]
    assert "_kafka.timestamp" in bare
    assert (
        lake.read().select(["n", "at", "list"]).to_pylist()
        == pa.table(data).select(["n", "at", "list"]).to_pylist()
    )
    late = lake.load().scan(row_filter="at > '1970-01-01T00:00:00.001'").to_arrow()
    assert late["n"].to_pylist() == [2]


def test_times_that_python_does_not_have_land_without_bounds(lake: IcebergLake) -> None:
    late, day = 253_402_300_800_000_000, 2_932_897  # the first of the year 10000
    data = pa.table(
        {
            "n": [1, 2],
            "late": pa.array([0, late], pa.timestamp("us", "UTC")),
            "early": pa.array([-(1 << 63), 0], pa.timestamp("us")),
            "day": pa.array([day, None], pa.date32()),
            "good": pa.array([0, 1], pa.timestamp("us")),
        }
    )
    land_table(lake, data)
    landed = lake.read()
    assert landed.select(data.column_names).cast(data.schema) == data
    table = lake.load()
    [task] = table.scan().plan_files()
    ids = {field.name: field.field_id for field in table.schema().fields}
    assert {name for name in data.column_names if ids[name] in task.file.lower_bounds} == {
        "n",
        "good",
    }
    assert task.file.null_value_counts[ids["day"]] == 1


def test_milliseconds_that_python_does_not_have_land_verbatim(lake: IcebergLake) -> None:
    data = pa.table({"at": pa.array([253_402_300_800_000], pa.timestamp("ms", "UTC"))})
    land_table(lake, data, mode=Mode.VERBATIM)
    assert lake.read()["at"].cast(pa.int64()).to_pylist() == [253_402_300_800_000_000]


def test_the_commit_says_what_it_is(lake: IcebergLake) -> None:
    put(lake.table(), [3, 4])
    table = lake.load()
    summary = table.current_snapshot().summary.additional_properties
    assert summary["columnar.sequence"] == "1"
    assert '"first": 3, "next": 5' in summary["columnar.fences"]
    assert summary["columnar.fences"] == table.properties["columnar.fences"]
    assert table.properties["read.parquet.vectorization.enabled"] == "false"


# --- field ids ------------------------------------------------------------------------------------


def ids_of(field: pa.Field) -> dict[str, int]:
    """Return the field ids of a column of a file, by name."""
    ids = {field.name: int((field.metadata or {}).get(b"PARQUET:field_id", -1))}
    children = [field.type.field(i) for i in range(field.type.num_fields)]
    for child in children:
        ids |= {f"{field.name}.{name}": number for name, number in ids_of(child).items()}
    return ids


def test_stitched_files_have_the_tables_own_field_ids(lake: IcebergLake) -> None:
    data = pa.table(
        {
            "n": [1],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "list": pa.array([[{"x": 1}]]),
        }
    )
    land_table(lake, data)
    [path] = parquet_paths(lake)
    ids = {}
    for field in pq.ParquetFile(path).schema_arrow:
        ids |= ids_of(field)
    table = lake.load().schema()
    assert ids.pop("map.map") == -1  # the repeated group
    assert ids["n"] == table.find_field("n").field_id
    assert ids["list.element.x"] == table.find_field("list.element.x").field_id
    assert ids["map.map.value"] == table.find_field("map.value").field_id
    assert ids["_kafka.row"] == table.find_field("_kafka.row").field_id
    assert sorted(ids.values()) == sorted(table.field_ids)


def rename(lake: IcebergLake) -> None:
    """Rename n to x and m to n, after which old files are wrong by their names."""
    with lake.opened() as table, table.update_schema() as update:
        update.rename_column("n", "x")
    with lake.opened() as table, table.update_schema() as update:
        update.rename_column("m", "n")


def test_old_files_stay_right_when_columns_are_renamed(lake: IcebergLake) -> None:
    land_table(lake, pa.table({"n": [1], "m": [2]}))
    rename(lake)
    assert lake.read().select(["x", "n"]).to_pylist() == [{"x": 1, "n": 2}]


def test_verbatim_files_are_refused_where_names_were_reused(lake: IcebergLake) -> None:
    land_table(lake, pa.table({"n": [1], "m": [2]}))
    rename(lake)
    later = pa.table({"x": [3], "n": [4]})
    with pytest.raises(NotLandedError, match=r"no field ids.*land with table\.layout=stitched"):
        land_table(lake, later, offset=1, mode=Mode.VERBATIM)
    land_table(lake, later, offset=1)
    assert sorted(lake.read()["x"].to_pylist()) == [1, 3]
    assert len(parquet_paths(lake)) == 2


def test_foreign_field_ids_are_refused(lake: IcebergLake) -> None:
    foreign = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "7"})
    message = segment(pa.table([pa.array([1])], schema=pa.schema([foreign])))
    with pytest.raises(LakeError, match="column 'n' has a field id of another table"):
        land([message], table=lake.table(), generations=GENERATIONS)
    assert not lake.root.exists()


# --- schemas --------------------------------------------------------------------------------------


def test_every_type_of_iceberg_lands_and_reads_equal(lake: IcebergLake) -> None:
    data = every_type(
        fixed=pa.array([b"ab", None], pa.binary(2)),
        clock=pa.array([datetime.time(3, 4, 5, 678901), None], pa.time64("us")),
    )
    land_table(lake, data)
    assert lake.read().drop_columns("_kafka").to_pylist() == data.to_pylist()


@pytest.mark.parametrize("mode", list(Mode))
def test_times_in_any_zone_are_instants(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """Readers refuse a file that says of another zone than UTC, so it says of none."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    when = datetime.datetime(2024, 7, 2, 3, 4, 5, 678000, tzinfo=datetime.timezone.utc)
    lists = pa.list_(pa.timestamp("us", "America/New_York"))
    data = pa.table(
        {
            "n": [1, 2],
            "at": pa.array([when, None], pa.timestamp("us", "Europe/Berlin")),
            "ms": pa.array([when, None], pa.timestamp("ms", "+05:30")),
            "nested": pa.array([{"list": [when]}, None], pa.struct([("list", lists)])),
        }
    )
    messages = [segment(data, offset=offset, number=offset) for offset in range(3)]
    land(messages[:2], table=lake.table(), generations=GENERATIONS, layout=Layout(mode=mode))
    land(messages, table=lake.table(), generations=GENERATIONS, layout=Layout(mode=mode))
    assert str(lake.load().schema().find_field("at").field_type) == "timestamptz"

    def check() -> None:
        landed = lake.read().drop_columns("_kafka")
        assert landed.to_pylist() == 3 * data.to_pylist()
        later = lake.load().scan(row_filter="at > '2024-07-02T03:04:05.600+00:00'").to_arrow()
        assert later["n"].to_pylist() == [1, 1, 1]
        assert lake.load().scan(row_filter="at > '2024-07-02T03:04:06+00:00'").count() == 0
        if POLARS_READS_ALL:
            assert by_polars(pl.scan_iceberg(lake.load()))["at"].to_list() == 3 * [when, None]
        assert audit(lake, messages).findings == []

    check()
    lake.table().compact(1 << 20)
    check()


def test_a_zone_is_no_hindrance_to_growth_and_partitions(lake: IcebergLake) -> None:
    when = datetime.datetime(2024, 7, 1, 23, 30, tzinfo=datetime.timezone.utc)
    table = lake.table(partition_by=["day(at)"])
    for offset, zone in enumerate(["UTC", "Europe/Berlin"]):
        columns = {"at": pa.array([when], pa.timestamp("us", zone))}
        columns |= {"more": pa.array([when], pa.timestamp("us", zone))} if offset else {}
        message = segment(pa.table(columns), offset=offset, number=offset)
        land([message], table=table, generations=GENERATIONS)
    assert lake.read().select(["at", "more"]).sort_by("more").to_pylist() == [
        {"at": when, "more": when},
        {"at": when, "more": None},
    ]
    assert {str(task.file.partition) for task in lake.load().scan().plan_files()} == {
        "Record[19905]"
    }


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([1], pa.timestamp("ns", "Europe/Berlin")), "Iceberg has no type for timestamp"),
        (pa.array([1], pa.uint32()), "column 'x': Iceberg has no type for uint32"),
        (pa.array([1], pa.timestamp("ns")), r"column 'x': Iceberg has no type for timestamp\[ns\]"),
        (pa.array([{"y": [1]}], pa.struct([("y", pa.list_(pa.uint8()))])), r"column 'x\.y\[\]'"),
    ],
)
def test_a_type_that_iceberg_lacks_is_refused_before_anything_is_written(
    lake: IcebergLake, column: pa.Array, match: str
) -> None:
    with pytest.raises(LakeError, match=match):
        land_table(lake, pa.table({"x": column}))
    assert not lake.root.exists()


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ([("n", pa.string())], "column 'n': int64 in Kafka, string in the table"),
        ([("n", pa.int32())], "column 'n': int64 in Kafka, int in the table"),
        ([("m", pa.int64())], "column 'n' is not in the table. Add it"),
        ([pa.field("n", pa.int64(), nullable=False)], "column 'n' may be null in Kafka"),
        (
            [("n", pa.int64()), pa.field("m", pa.int64(), nullable=False)],
            "column 'm' is missing in Kafka, but is required",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    lake: IcebergLake, columns: list[Any], match: str
) -> None:
    existing(lake, pa.schema(columns))
    with pytest.raises(LakeError, match=match):
        put(lake.table(), [0])
    assert parquet_paths(lake) == []


def test_a_table_that_stood_before_takes_what_fits(lake: IcebergLake) -> None:
    existing(lake, pa.schema([("n", pa.int64()), ("more", pa.string())]))
    put(lake.table(), [0, 1])
    assert rows(lake) == numbers([0, 1])
    assert lake.read()["more"].null_count == 2 * ROWS


@pytest.mark.parametrize(("merges", "manifests"), [("false", 3), ("true", 1)])
def test_manifests_are_merged_if_the_table_says_so(
    lake: IcebergLake, merges: str, manifests: int
) -> None:
    existing(lake, pa.schema([("n", pa.int64())]))
    with lake.opened() as table, table.transaction() as change:
        change.set_properties(
            {"commit.manifest-merge.enabled": merges, "commit.manifest.min-count-to-merge": "2"}
        )
    for offset in range(3):
        put(lake.table(), range(offset + 1))
    table = lake.load()
    assert len(table.current_snapshot().manifests(table.io)) == manifests
    assert rows(lake) == numbers(range(3))


def test_a_table_that_others_create_at_the_same_time_is_theirs(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come after we have asked for the table, and before ours is committed."""
    real, theirs = iceberg.add_terms, []
    schema = pa.schema([("n", pa.int64())])

    def create_first(*arguments: Any) -> None:
        monkeypatch.undo()
        lake.table().fit(schema)
        theirs.append(lake.load().metadata.table_uuid)
        real(*arguments)

    monkeypatch.setattr(iceberg, "add_terms", create_first)
    lake.table().fit(schema)
    assert theirs == [lake.load().metadata.table_uuid]


def test_a_promoted_column_takes_narrow_files(lake: IcebergLake) -> None:
    land_table(lake, pa.table({"n": pa.array([1], pa.int32())}))
    with lake.opened() as table, table.update_schema() as update:
        update.update_column("n", LongType())
    land_table(lake, pa.table({"n": pa.array([2], pa.int32())}), offset=1)
    land_table(lake, pa.table({"n": [1 << 40]}), offset=2)
    assert rows(lake) == [1, 2, 1 << 40]


def test_a_column_that_the_table_lacks_can_be_added(lake: IcebergLake) -> None:
    put(lake.table(), [0])
    grown = pa.table({"n": [10], "more": ["a"]})
    message = segment(grown, offset=1, number=1)
    fixed = lake.table(growth=False)
    with pytest.raises(LakeError, match="column 'more' is not in the table"):
        land([message], table=fixed, generations=GENERATIONS)
    with lake.opened() as table, table.update_schema() as update:
        update.add_column("more", StringType())
    land([message], table=fixed, generations=GENERATIONS)
    assert sorted(lake.read()["more"].to_pylist(), key=str) == [None, None, None, "a"]


def test_a_table_that_changed_since_it_was_staged_is_refused(lake: IcebergLake) -> None:
    land_table(lake, pa.table({"n": [1]}))
    attempt = staged(lake.table(), [1])
    with lake.opened() as table, table.update_schema() as update:
        update.delete_column("n")
        update.add_column("m", IntegerType())
    with pytest.raises(NotLandedError, match="column 'n' is not in the table"):
        lake.table().commit([attempt])


def test_field_ids_that_changed_since_a_file_was_staged_are_refused(lake: IcebergLake) -> None:
    """The column was dropped and made again: the file's would read as null."""
    land_table(lake, pa.table({"n": [1]}))
    attempt = staged(lake.table(), [1])
    with lake.opened() as table, table.update_schema() as update:
        update.delete_column("n")
    with lake.opened() as table, table.update_schema() as update:
        update.add_column("n", LongType())
    with pytest.raises(
        NotLandedError, match=r"column 'n' .* field id 1, but the table's is now \d+: stage"
    ):
        lake.table().commit([attempt])
    put(lake.table(), [1])
    assert sorted(lake.read()["n"].to_pylist(), key=str) == [10, 11, 12, None]


def test_files_are_created_without_asking_the_catalog_unless_the_fences_were_asked_for_since(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another thread: any may call all methods at the same time."""
    table, loads = lake.table(), []
    schema = pa.schema([("n", pa.int64())])
    table.fit(schema)
    load = IcebergTable.load
    monkeypatch.setattr(IcebergTable, "load", lambda self: loads.append(self) or load(self))

    def check(expected: int) -> None:
        loads.clear()
        writer = table.create(SourcePartition(GENERATIONS["t"], "t", 0), 0, schema, ())
        assert writer.field_ids == {("n",): 1}
        assert len(loads) == expected
        writer.discard()

    check(0)
    table.fences()
    check(1)


def test_missing_statistics_are_not_logged(lake: IcebergLake, caplog: Any) -> None:
    put(lake.table(), [0])
    assert caplog.text == ""


def test_a_table_without_a_namespace_is_refused() -> None:
    with pytest.raises(LakeError, match="table 't': name it with its namespace"):
        IcebergTable("t", catalog={})


def test_a_catalog_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/gone/catalog.db"}
    with pytest.raises(LakeError, match=r"lake\.t cannot be loaded: .*unable to open database"):
        IcebergTable("lake.t", catalog=catalog).fences()


def test_a_table_that_the_catalog_cannot_create_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "warehouse").write_bytes(b"a file")
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    with pytest.raises(LakeError, match=r"lake\.t cannot be created: .*warehouse"):
        put(IcebergTable("lake.t", catalog=catalog), [0])


def test_a_table_is_changed_by_catalogs_that_are_not_closed(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was closed may answer, and keep a connection for ever."""
    closed, used = [], []
    close, commit_table = SqlCatalog.close, SqlCatalog.commit_table
    monkeypatch.setattr(SqlCatalog, "close", lambda self: closed.append(self) or close(self))

    def watched(self: Any, *arguments: Any) -> Any:
        used.append(any(catalog is self for catalog in closed))
        return commit_table(self, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", watched)
    land_table(lake, pa.table({"n": [0]}))
    land_table(lake, pa.table({"n": [1], "more": ["x"]}), offset=1)
    assert used == [False] * 4  # created, landed, grown, landed


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            CommitFailedException("the table has changed"),
            r"lake\.t: columns cannot be added, because others keep",
        ),
        (ForbiddenError("no"), r"^lake\.t cannot be changed: ForbiddenError\('no'\)"),
    ],
)
def test_a_table_that_cannot_be_changed_does_not_grow(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    land_table(lake, pa.table({"n": [0]}))

    def refused(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(SqlCatalog, "commit_table", refused)
    with pytest.raises(LakeError, match=says):
        land_table(lake, pa.table({"n": [1], "more": ["x"]}), offset=1)


# --- history --------------------------------------------------------------------------------------


def rolled_back(lake: IcebergLake) -> None:
    """Land two commits, and roll the table back to the first one."""
    put(lake.table(), [0, 1])
    first = lake.load().metadata.current_snapshot_id
    put(lake.table(), [2, 3])
    with lake.opened() as table:
        table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert rows(lake) == numbers([0, 1])


def test_a_table_that_was_rolled_back_stops_the_landing(lake: IcebergLake) -> None:
    rolled_back(lake)
    with pytest.raises(LakeError, match="2 commits had landed, and 1 are left"):
        lake.table().fences()


def test_a_table_that_was_rolled_back_brings_its_fence_back(lake: IcebergLake) -> None:
    rolled_back(lake)
    table = lake.table(reland=True)
    assert table.fences()[FENCE].next == 2
    put(table, range(5))
    assert rows(lake) == numbers(range(5))
    assert lake.table().fences()[FENCE].next == 5  # both witnesses agree again


def append_nothing(lake: IcebergLake) -> None:
    """Commit as another writer."""
    with lake.opened() as table:
        table.append(lake.read().slice(0, 0))


def test_the_commits_of_other_writers_are_passed_over(lake: IcebergLake) -> None:
    put(lake.table(), [0, 1])
    append_nothing(lake)
    assert lake.table().fences()[FENCE].next == 2
    put(lake.table(), range(4))
    assert rows(lake) == numbers(range(4))


def test_where_the_snapshots_were_expired_the_property_says_it(lake: IcebergLake) -> None:
    put(lake.table(), [0, 1])
    append_nothing(lake)
    with lake.opened() as table:
        first = table.metadata.snapshots[0].snapshot_id
        table.maintenance.expire_snapshots().by_id(first).commit()
    assert lake.table().fences()[FENCE].next == 2
    put(lake.table(), range(4))
    assert rows(lake) == numbers(range(4))


# --- answers --------------------------------------------------------------------------------------


def test_a_rollback_to_before_the_first_commit_is_noticed(lake: IcebergLake) -> None:
    existing(lake, pa.schema([("n", pa.int64())]))
    append_nothing(lake)
    before = lake.load().metadata.current_snapshot_id
    put(lake.table(), [0, 1])
    with lake.opened() as table:
        table.manage_snapshots().rollback_to_snapshot(before).commit()
    with pytest.raises(LakeError, match="1 commits had landed, and 0 are left"):
        lake.table().fences()
    put(lake.table(reland=True), range(3))
    assert rows(lake) == numbers(range(3))


@pytest.mark.parametrize("on_top", [False, True])
def test_a_conflict_with_its_own_commit_deletes_nothing(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, *, on_top: bool
) -> None:
    """Told of a conflict, pyiceberg would delete the manifests, which the table refers to."""
    put(lake.table(), [0])
    lose_an_answer(monkeypatch, lambda: on_top and put(lake.table(), [5]))
    assert put(lake.table(), [1, 2]).landed.messages == 2
    assert rows(lake) == numbers([0, 1, 2, 5] if on_top else [0, 1, 2])


def test_what_fails_before_the_catalog_is_told_has_not_landed(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no space for a manifest")

    monkeypatch.setattr(iceberg, "add_data_files", fails)
    with pytest.raises(NotLandedError, match="nothing has landed: no space for a manifest"):
        put(lake.table(), [0])
    assert parquet_paths(lake) == []


def test_a_catalog_that_fails_may_have_landed_it(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(lake.table(), [0])
    with catalog_gone(monkeypatch):
        put(lake.table(), [1])
    assert len(parquet_paths(lake)) == 2  # no file was removed
    put(lake.table(), [1])
    assert rows(lake) == numbers([0, 1])


def test_what_cannot_be_looked_up_is_not_removed_and_raises_nothing(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path / "lake")
    table = lake.table()
    attempt = staged(table, [0])

    class Unreadable:
        @property
        def inspect(self) -> Any:
            raise ValueError("no manifest")

    table.load = Unreadable
    table.discard([attempt])
    assert len(lake.data_files()) == 1


def test_a_namespace_that_another_has_just_created_is_no_error(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks of one Spark job begin a table together."""
    create = SqlCatalog.create_namespace

    def create_second(self: SqlCatalog, *arguments: Any) -> None:
        create(self, *arguments)
        raise RuntimeError("UNIQUE constraint failed")  # of SQLite's, after pyiceberg's look

    monkeypatch.setattr(SqlCatalog, "create_namespace", create_second)
    put(lake.table(), range(1))
    assert lake.read().num_rows == ROWS


def test_a_catalog_that_another_has_just_begun_is_no_error(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = SqlCatalog.create_tables

    def create_second(self: SqlCatalog) -> None:
        monkeypatch.undo()
        create(self)
        self.engine.dispose()  # or its connection is never closed
        raise OperationalError("CREATE TABLE iceberg_tables", None, ValueError("already exists"))

    monkeypatch.setattr(SqlCatalog, "create_tables", create_second)
    put(lake.table(), range(1))
    assert lake.read().num_rows == ROWS


def test_a_namespace_that_cannot_be_created_is_an_error(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ForbiddenError("no")

    monkeypatch.setattr(SqlCatalog, "create_namespace", refuse)
    with pytest.raises(LakeError, match="cannot be created: ForbiddenError"):
        put(lake.table(), range(1))


COLUMNS = pa.schema([("n", pa.int64()), ("f", pa.string())])
MORE = COLUMNS.append(pa.field("more", pa.string()))
TEXTS, JSON = (to_kept(of_columns(COLUMNS, json_texts)) for json_texts in ((), ("f",)))


@pytest.mark.parametrize(("there", "other"), [(None, COLUMNS), (COLUMNS, MORE)])
def test_of_two_that_keep_the_first_schema_at_once_one_does(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch, there: pa.Schema | None, other: pa.Schema
) -> None:
    """The column is the same for both, and what is in it is not."""
    if there is not None:
        existing(lake, there)
    step_name = "_create_table" if there is None else "_has_to_grow"
    step = getattr(IcebergTable, step_name)
    kept = []

    def beaten(table: IcebergTable, *arguments: Any) -> Any:
        monkeypatch.setattr(IcebergTable, step_name, step)
        made = step(table, *arguments)
        kept.append(lake.table(growth=True).keep_schema(TEXTS, other))
        return made

    monkeypatch.setattr(IcebergTable, step_name, beaten)
    kept.append(lake.table().keep_schema(JSON, COLUMNS))
    assert set(kept) == {lake.table().kept_schema()}
    assert len(kept) == 2
