"""Tables whose topic's schema grows: new columns, and wider types."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from lakes import (
    FIRST,
    GENERATIONS,
    GROWN,
    NARROW,
    WIDE,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    needs_added_fields,
    needs_polars,
)
from segments import segment

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land, stage
from columnar_kafka.lake.model import Count, NotLandedError
from columnar_kafka.lake.plan import Layout, Mode, Planner
from columnar_kafka.segment.decoder import fingerprint_of

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.lake.model import CommitResult


@pytest.fixture(
    params=[
        pytest.param(DeltaLake, id="delta", marks=needs_added_fields),
        pytest.param(IcebergLake, id="iceberg"),
    ]
)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture
def delta(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path / "lake")


@pytest.fixture
def iceberg(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path / "lake")


def put(lake: Any, offset: int, data: pa.Table, **options: Any) -> CommitResult:
    layout = Layout(mode=options.pop("mode", Mode.STITCHED))
    message = segment(data, offset=offset, number=offset)
    return land([message], table=lake.table(**options), generations=GENERATIONS, layout=layout)


def read(lake: Any) -> list[dict[str, Any]]:
    """Return the rows, by n."""
    rows = lake.read().drop_columns("_kafka").to_pylist()
    return sorted(rows, key=lambda row: row["n"])


BOTH = [
    {"n": 1, "s": {"a": 1, "b": None}, "list": [{"x": 1, "y": None}], "more": None},
    {"n": 2, "s": {"a": 2, "b": [True]}, "list": [{"x": 2, "y": 2.5}], "more": "text"},
]


def test_columns_are_added_to_a_table_that_was_created_here(lake: Any) -> None:
    put(lake, 0, FIRST)
    put(lake, 1, GROWN)
    assert read(lake) == BOTH
    put(lake, 2, FIRST.set_column(0, "n", pa.array([3])))  # a producer that is older
    assert read(lake)[2] == {**BOTH[0], "n": 3}


def test_verbatim_files_are_added_to_a_table_that_grows(lake: Any) -> None:
    put(lake, 0, FIRST, mode=Mode.VERBATIM)
    put(lake, 1, GROWN, mode=Mode.VERBATIM)
    assert read(lake) == BOTH


@needs_polars
def test_polars_reads_a_table_that_has_grown(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    put(lake, 0, FIRST)
    put(lake, 1, GROWN)
    frame = (
        pl.read_delta(str(lake.root))
        if isinstance(lake, DeltaLake)
        else pl.scan_iceberg(lake.load()).collect()
    )
    assert frame.drop("_kafka").sort("n").to_dicts() == BOTH


def test_a_growth_in_the_middle_of_a_batch_lands(lake: Any) -> None:
    messages = [
        segment(FIRST, offset=0, number=0),
        segment(GROWN, offset=1, number=1),
        segment(FIRST.set_column(0, "n", pa.array([3])), offset=2, number=2),
    ]
    land(messages[:1], table=lake.table(), generations=GENERATIONS)
    result = land(messages, table=lake.table(), generations=GENERATIONS)
    assert (result.landed, result.rewritten) == (Count(2, 2), 0)
    assert read(lake) == [*BOTH, {**BOTH[0], "n": 3}]


def own(lake: Any) -> None:
    """Make a table as somebody else would, for files like `FIRST`."""
    put(lake, 0, FIRST)
    if isinstance(lake, DeltaLake):
        DeltaTable(str(lake.root)).alter.set_table_properties(
            {"columnar.growth": "refuse"}, raise_if_not_exists=False
        )
    else:
        with lake.opened() as table, table.transaction() as change:
            change.remove_properties("columnar.growth")


def test_the_table_of_another_grows_only_if_the_user_says_so(lake: Any) -> None:
    own(lake)
    with pytest.raises(LakeError, match=r"'more' is not in the table.*table\.growth=allow"):
        put(lake, 1, GROWN)
    put(lake, 1, GROWN, growth=True)
    assert read(lake) == BOTH


def test_a_table_that_was_created_here_can_be_kept_as_it_is(lake: Any) -> None:
    put(lake, 0, FIRST)
    with pytest.raises(LakeError, match="column 'more' is not in the table"):
        put(lake, 1, GROWN, growth=False)


def test_two_that_grow_at_once_both_land(lake: Any) -> None:
    put(lake, 0, FIRST)
    others = {
        1: pa.table({"n": [2], "one": [1]}),
        2: pa.table({"n": [3], "one": [1], "other": ["x"]}),
    }
    barrier = threading.Barrier(2, timeout=60)
    errors: list[BaseException] = []

    def grow(partition: int) -> None:
        table = lake.table()
        planner = Planner(fences={}, generations=GENERATIONS)
        message = segment(others[partition], partition=partition, number=partition)
        try:
            barrier.wait()
            attempt = stage([message], table=table, planner=planner)
            barrier.wait()
            table.commit([attempt])
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            errors.append(error)

    threads = [threading.Thread(target=grow, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [(row["n"], row["one"], row["other"]) for row in read(lake)] == [
        (1, None, None),
        (2, 1, None),
        (3, 1, "x"),
    ]


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array(["text"]), "column 'n': "),
        (pa.array([{"x": 1}]), "column 'n': "),
    ],
)
def test_what_is_no_growth_is_refused(lake: Any, column: pa.Array, match: str) -> None:
    put(lake, 0, FIRST)
    with pytest.raises(LakeError, match=match):
        put(lake, 1, pa.table({"n": column}))


# --- wider types ----------------------------------------------------------------------------------


def test_iceberg_widens_its_columns_and_takes_narrow_files(iceberg: IcebergLake) -> None:
    put(iceberg, 0, NARROW)
    put(iceberg, 1, WIDE)
    again = put(iceberg, 2, NARROW.set_column(0, "n", pa.array([3], pa.int32())))
    assert again.rewritten == 0
    expected = [*NARROW.to_pylist(), *WIDE.to_pylist(), {**NARROW.to_pylist()[0], "n": 3}]
    assert read(iceberg) == expected


@needs_polars
def test_polars_reads_a_table_that_was_widened(
    iceberg: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    put(iceberg, 0, NARROW)
    put(iceberg, 1, WIDE)
    frame = pl.scan_iceberg(iceberg.load()).drop("_kafka").sort("n").collect()
    assert frame.to_dicts() == [
        {**row, "map": dict(row["map"])} for row in [*NARROW.to_pylist(), *WIDE.to_pylist()]
    ]


def test_iceberg_widens_no_table_that_is_to_stay_as_it_is(iceberg: IcebergLake) -> None:
    put(iceberg, 0, NARROW)
    with pytest.raises(LakeError, match="column 'n': int64 in Kafka, int in the table"):
        put(iceberg, 1, WIDE, growth=False)


def test_delta_does_not_widen_its_columns(delta: DeltaLake) -> None:
    put(delta, 0, NARROW)
    with pytest.raises(LakeError, match="column 'n': long in Kafka, integer in the table"):
        put(delta, 1, WIDE)


@pytest.mark.parametrize("mode", Mode)
def test_narrow_segments_are_cast_to_the_wider_columns_of_delta(
    delta: DeltaLake, mode: Mode
) -> None:
    put(delta, 0, WIDE)
    result = put(delta, 1, NARROW, mode=mode)
    assert (result.landed, result.rewritten) == (Count(1, 1), 1)
    expected = [*NARROW.to_pylist(), *WIDE.to_pylist()]
    assert read(delta) == expected
    schemas = {pq.read_schema(path).remove_metadata() for path in delta.root.rglob("*.parquet")}
    assert len(schemas) == 1
    [cast] = delta.root.rglob(f"*p0-{1:020}-*.parquet")
    said = pq.read_metadata(cast).metadata[b"columnar.schema"]
    assert said.decode() == fingerprint_of(cast.read_bytes())
    files = [str(path) for path in delta.root.rglob("*.parquet")]
    by_duckdb = duckdb.read_parquet(files).project("n, f, s.a, list[1]").fetchall()
    assert sorted(by_duckdb) == [(1, 1.5, 1, 1), (2, 1e300, 1 << 40, 1 << 40)]


def test_delta_goes_on_when_its_owner_has_widened_the_table(delta: DeltaLake) -> None:
    """As docs/lake.md says."""
    put(delta, 0, NARROW)
    landed = delta.read()
    columns = WIDE.schema.append(landed.schema.field("_kafka"))
    write_deltalake(
        str(delta.root), landed.select(columns.names).cast(columns),
        mode="overwrite", schema_mode="overwrite",
    )  # fmt: skip
    put(delta, 1, WIDE)
    assert read(delta) == [*NARROW.to_pylist(), *WIDE.to_pylist()]


def test_a_column_that_was_widened_since_a_file_was_staged_is_refused(delta: DeltaLake) -> None:
    put(delta, 0, NARROW)
    message = segment(NARROW, offset=1, number=1)
    planner = Planner(fences=delta.table().fences(), generations=GENERATIONS)
    attempt = stage([message], table=delta.table(), planner=planner)
    schema = json.loads(DeltaTable(str(delta.root)).schema().to_json())
    schema["fields"][0]["type"] = "long"
    DeltaTable.create(str(delta.root), Schema.from_json(json.dumps(schema)), mode="overwrite")
    with pytest.raises(NotLandedError, match="column 'n': integer in Kafka, long in the table"):
        delta.table(reland=True).commit([attempt])


def test_names_that_differ_in_upper_case_are_no_growth_of_delta(delta: DeltaLake) -> None:
    put(delta, 0, pa.table({"n": [1]}))
    with pytest.raises(
        LakeError, match="column 'N': the table has 'n', and Delta column names must differ in more"
    ):
        put(delta, 1, pa.table({"N": [1]}))


def test_a_column_of_local_times_can_be_added(lake: Any) -> None:
    """In Delta it needs a feature of the table, too."""
    put(lake, 0, pa.table({"n": [1]}))
    put(lake, 1, pa.table({"n": [2], "at": pa.array([0], pa.timestamp("us"))}))
    assert [row["at"] is None for row in read(lake)] == [True, False]


# --- directories ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [pytest.param(FIRST, GROWN, marks=needs_added_fields), (NARROW, WIDE)],
)
def test_readers_see_a_directory_that_has_grown_as_the_page_says(
    tmp_path: Path, first: pa.Table, second: pa.Table
) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    put(lake, 0, first)
    put(lake, 1, second)
    paths = sorted(map(str, lake.root.glob("t/*.parquet")))
    schemas = [first.schema, second.schema]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    expected = pa.concat_tables([first, second], promote_options="permissive").to_pylist()
    files = ds.dataset(paths, schema=schema).to_table().sort_by("n")
    assert files.to_pylist() == expected
    names = ", ".join(f'"{name}"' for name in schema.names)
    relation = duckdb.read_parquet(paths, union_by_name=True).project(names).order("n")
    assert relation.to_arrow_table().to_pylist() == expected
    frame = pl.concat(map(pl.scan_parquet, paths), how="diagonal_relaxed").sort("n")
    assert frame.select(pl.exclude("_kafka", "map")).collect().to_dicts() == [
        {
            name: row[name]
            for name in frame.collect_schema().names()
            if name in row and name != "map"
        }
        for row in expected
    ]
