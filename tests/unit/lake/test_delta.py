"""Delta tables: restores, other writers, schemas, statistics; `test_every_table` has the rest."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from lakes import FENCE, GENERATIONS, DeltaLake, by_polars, every_type, put, rows, staged
from segments import numbers, segment, segments

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import NotLandedError, TopicGeneration
from columnar_kafka.lake.tables.bounds import repair
from columnar_kafka.lake.tables.commit_record import CommitRecord, check_witness
from columnar_kafka.lake.tables.delta.schema import delta_schema, refuse_features
from columnar_kafka.lake.tables.delta.statistics import file_statistics, indexed_columns
from columnar_kafka.lake.tables.delta.table import DeltaLakeTable
from columnar_kafka.lake.tables.object_files import ObjectFiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LAST = "\U0010ffff"
END = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
EPOCH = "1970-01-01T00:00:00.000"


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path / "lake")


def log(lake: DeltaLake) -> list[list[dict[str, Any]]]:
    """Return the actions of each commit."""
    paths = sorted((lake.root / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]


def replayed(lake: DeltaLake) -> list[str]:
    """Return the files of the table by its log alone, as the protocol says."""
    files: set[str] = set()
    for action in (action for commit in log(lake) for action in commit):
        files |= {action["add"]["path"]} if "add" in action else set()
        files -= {action["remove"]["path"]} if "remove" in action else set()
    return [str(lake.root / file) for file in sorted(files)]


def test_readers_that_are_not_ours_agree(lake: DeltaLake) -> None:
    put(lake.table(), range(4), file_row_groups=2, small_bytes=0)
    put(lake.table(), range(7))
    staged(lake.table(), [7, 8])  # not landed
    assert rows(lake) == numbers(range(7))
    assert sorted(by_polars(pl.scan_delta(str(lake.root)))["n"]) == numbers(range(7))
    by_duckdb = (
        duckdb.read_parquet(replayed(lake)).project("n, epoch_ms(_kafka.timestamp)").fetchall()
    )
    assert sorted(by_duckdb) == [(n, n % 10) for n in numbers(range(7))]


def test_the_commit_says_what_it_is(lake: DeltaLake) -> None:
    put(lake.table(), [3, 4])
    created, commit = log(lake)
    assert [key for action in created for key in action][-1] == "metaData"
    actions = {key: value for action in commit for key, value in action.items()}
    assert actions["txn"] == {"appId": "columnar-kafka", "version": 1}
    assert json.loads(actions["commitInfo"]["columnar.fences"]) == {
        "version": 1,
        "fences": {
            FENCE: {"topic": "t", "partition": 0, "first": 3, "next": 5, "segment": "p-4"},
        },
    }
    assert json.loads(actions["add"]["stats"])["minValues"]["n"] == 30


def test_a_folder_that_readers_would_skip_is_escaped(lake: DeltaLake) -> None:
    messages = [replace(message, topic="_schemas") for message in segments([0])]
    ids = {"_schemas": TopicGeneration("c", "i")}
    land(messages, table=lake.table(), generations=ids)
    assert rows(lake) == numbers([0])
    assert [path.startswith(f"{lake.root}/@_schemas/p0-") for path in replayed(lake)] == [True]
    messages = [replace(message, topic="_schemas") for message in segments([0, 1])]
    land(messages, table=lake.table(), generations=ids)
    assert lake.load().optimize.compact()["numFilesRemoved"] == 2
    assert rows(lake) == numbers([0, 1])


# --- history --------------------------------------------------------------------------------------


def restored(lake: DeltaLake) -> None:
    """Land two commits, and restore the table to the first one."""
    put(lake.table(), [0, 1])
    put(lake.table(), [2, 3])
    DeltaTable(str(lake.root)).restore(1)
    assert rows(lake) == numbers([0, 1])


def test_a_restored_table_stops_the_landing(lake: DeltaLake) -> None:
    attempt = staged(lake.table(), [9], fences={})
    restored(lake)
    match = "the table was restored: 2 commits had landed, and 1 are left.*table.after.restore"
    with pytest.raises(LakeError, match=match):
        lake.table().fences()
    with pytest.raises(NotLandedError, match=match):
        lake.table().commit([attempt])


def test_a_table_that_is_restored_before_a_commit_is_written_takes_none(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On top of the restore, the fence would count what is gone as landed."""
    swap = DeltaLakeTable.swap

    def overtaken(*arguments: Any) -> str:
        monkeypatch.setattr(DeltaLakeTable, "swap", swap)
        DeltaTable(str(lake.root)).restore(1)
        return swap(*arguments)

    put(lake.table(), [0, 1])
    put(lake.table(), [2, 3])
    attempt = staged(lake.table(), [4])
    monkeypatch.setattr(DeltaLakeTable, "swap", overtaken)
    with pytest.raises(NotLandedError, match="the table was restored"):
        lake.table().commit([attempt])
    assert rows(lake) == numbers([0, 1])


def test_a_restored_table_brings_its_fence_back(lake: DeltaLake) -> None:
    restored(lake)
    table = lake.table(reland=True)
    assert table.fences()[FENCE].next == 2
    put(table, range(5))
    assert rows(lake) == numbers(range(5))
    assert lake.table().fences()[FENCE].next == 5  # both witnesses agree again


def test_a_table_restored_to_before_the_first_commit_lands_all_again(lake: DeltaLake) -> None:
    put(lake.table(), [0, 1])
    DeltaTable(str(lake.root)).restore(0)
    put(lake.table(reland=True), [0, 1, 2])
    assert rows(lake) == numbers(range(3))


def test_a_restore_of_a_restore_is_followed(lake: DeltaLake) -> None:
    restored(lake)
    DeltaTable(str(lake.root)).restore(2)
    assert lake.table().fences()[FENCE].next == 4
    put(lake.table(), range(5))
    assert rows(lake) == numbers(range(5))


def test_a_restore_to_a_time_cannot_be_followed(lake: DeltaLake) -> None:
    put(lake.table(), [0, 1])
    landed = DeltaTable(str(lake.root)).history(1)[0]["timestamp"]
    put(lake.table(), [2])
    at = datetime.datetime.fromtimestamp(landed / 1000, datetime.timezone.utc)
    DeltaTable(str(lake.root)).restore(at)
    with pytest.raises(LakeError, match=r"version 3 restores a point in time.*to a version number"):
        lake.table(reland=True).fences()


def test_the_commits_of_other_writers_are_passed_over(lake: DeltaLake) -> None:
    put(lake.table(), [0, 1], file_row_groups=1, small_bytes=0)
    DeltaTable(str(lake.root)).optimize.compact()
    put(lake.table(), range(4))
    assert rows(lake) == numbers(range(4))


def test_on_top_of_another_writers_commit_nothing_lands_before_that_was_looked_at(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its own deltalake would commit there: what was admitted holds for one version."""
    put(lake.table(), [0])
    swap, outcomes = DeltaLakeTable.swap, []

    def overtaken(*arguments: Any) -> str:
        if not outcomes:
            write_deltalake(str(lake.root), lake.read(), mode="append")
        outcomes.append(swap(*arguments))
        return str(outcomes[-1])

    monkeypatch.setattr(DeltaLakeTable, "swap", overtaken)
    put(lake.table(), [1])
    assert [bool(outcome) for outcome in outcomes] == [True, False]
    assert rows(lake) == sorted(numbers([0, 0, 1]))


def test_commits_that_come_while_the_history_is_read_change_nothing(lake: DeltaLake) -> None:
    restored(lake)
    DeltaTable(str(lake.root)).restore(2)
    opened, table = DeltaTable(str(lake.root)), lake.table()
    put(lake.table(), range(5))
    put(lake.table(), range(6))
    table.open_version = lambda: opened
    head = table.head()
    assert (head.version, head.fences[FENCE].next) == (4, 4)


def test_an_expired_history_is_noticed(lake: DeltaLake) -> None:
    put(lake.table(), [0, 1])
    write_deltalake(str(lake.root), lake.read().slice(0, 0), mode="append")
    DeltaTable(str(lake.root)).create_checkpoint()
    for path in sorted((lake.root / "_delta_log").glob("*.json"))[:2]:
        path.unlink()
    with pytest.raises(LakeError, match=r"1 commits have landed, but the history .* has expired"):
        lake.table().fences()


def test_a_record_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(LakeError, match=r"columnar\.fences of a commit cannot be read"):
        CommitRecord.from_properties({"columnar.fences": "{"})
    newer = CommitRecord(sequence=1).to_properties() | {"columnar.fences": '{"version": 2}'}
    with pytest.raises(LakeError, match="have version 2; upgrade columnar-kafka"):
        CommitRecord.from_properties(newer)


def test_a_witness_behind_the_history_is_an_error() -> None:
    with pytest.raises(
        LakeError, match="has commit 3, but the table's own record says that 2 is the newest"
    ):
        check_witness(CommitRecord(sequence=3), 2, is_whole=True, reland=True)


# --- schemas --------------------------------------------------------------------------------------


def land_table(lake: DeltaLake, data: pa.Table, *, offset: int = 0, **options: Any) -> None:
    message = segment(data, offset=offset, number=offset)
    land([message], table=lake.table(**options), generations=GENERATIONS)


def test_every_type_of_delta_lands_and_reads_equal(lake: DeltaLake) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
    data = every_type(
        short=pa.array([1, None], pa.int16()),
        zone=pa.array([moment, None], pa.timestamp("us", "Europe/Berlin")),
    )
    land_table(lake, data)
    landed = lake.read().drop_columns("_kafka")
    assert landed.to_pylist() == data.to_pylist()


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([1], pa.uint32()), "column 'x': Delta has no type for uint32"),
        (pa.array([1], pa.timestamp("ns")), r"column 'x': Delta has no type for timestamp\[ns\]"),
        (pa.array([{"y": [1]}], pa.struct([("y", pa.list_(pa.uint8()))])), r"column 'x\.y\[\]'"),
    ],
)
def test_a_type_that_delta_lacks_is_refused_before_anything_is_written(
    lake: DeltaLake, column: pa.Array, match: str
) -> None:
    with pytest.raises(LakeError, match=match):
        land_table(lake, pa.table({"x": column}))
    assert not lake.root.exists()


@pytest.mark.parametrize(("first", "second"), [("a b", "c"), ("ab", "AB")])
def test_a_name_that_delta_lacks_is_refused(first: str, second: str) -> None:
    with pytest.raises(
        LakeError, match=r"Delta column names must not be empty, nor|in more than case"
    ):
        delta_schema(pa.schema([(first, pa.int64()), (second, pa.int64())]))


N: dict[str, Any] = {"name": "n", "type": "long", "nullable": True, "metadata": {}}


def existing(lake: DeltaLake, **changed: Any) -> None:
    """Make a table for `segments`, with column n changed; or with another one, if it has a name."""
    put(lake.table(), [0])
    schema = json.loads(DeltaTable(str(lake.root)).schema().to_json())
    for path in sorted(lake.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if "name" in changed:
        schema["fields"].append(N | changed)
    else:
        schema["fields"][0] |= changed
    DeltaTable.create(str(lake.root), Schema.from_json(json.dumps(schema)))


def test_a_table_that_stood_before_takes_what_fits(lake: DeltaLake) -> None:
    existing(lake, name="more")
    put(lake.table(), [0, 1])
    assert rows(lake) == numbers([0, 1])
    assert lake.read()["more"].null_count == len(numbers([0, 1]))


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"type": "integer"}, "column 'n': long in Kafka, integer in the table"),
        ({"name": "more", "nullable": False}, "column 'more' is missing in Kafka, but is NOT NULL"),
        ({"nullable": False}, "column 'n' may be null in Kafka, but is NOT NULL"),
        ({"metadata": {"delta.invariants": "{}"}}, r"delta\.invariants of column 'n'"),
        (
            {"metadata": {"delta.generationExpression": "1"}},
            r"delta\.generationExpression of column 'n'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    lake: DeltaLake, changed: dict[str, Any], match: str
) -> None:
    existing(lake, **changed)
    with pytest.raises(LakeError, match=match):
        put(lake.table(), [0])
    assert not list(lake.root.glob("t/*"))


def test_a_column_that_the_table_lacks_is_refused(lake: DeltaLake) -> None:
    put(lake.table(), [0])
    grown = pa.table({"n": [10], "more": pa.array([1], pa.int32())})
    with pytest.raises(LakeError, match=r"column 'more' is not in the table\. Add it as integer"):
        land_table(lake, grown, offset=1, growth=False)
    DeltaTable(str(lake.root)).alter.add_columns(
        Field.from_json(json.dumps(N | {"name": "more", "type": "integer"}))
    )
    land_table(lake, grown, offset=1, growth=False)
    assert sorted(lake.read()["more"].to_pylist(), key=str) == [1, None, None, None]


def test_a_table_that_changed_since_it_was_staged_is_refused(lake: DeltaLake) -> None:
    attempt = staged(DeltaLakeTable(lake.root.parent / "other"), [0])
    existing(lake, type="string")
    (lake.root / "t").mkdir()
    for file in attempt.files:
        (lake.root.parent / "other" / file.path).rename(lake.root / file.path)
    with pytest.raises(NotLandedError, match="column 'n': long in Kafka, string in the table"):
        lake.table().commit([attempt])


@pytest.mark.parametrize(
    ("features", "configuration", "match"),
    [
        (["rowTracking"], {}, "with rowTracking"),
        (["icebergCompatV2", "clustering"], {}, "with clustering, icebergCompatV2"),
        ([], {"delta.columnMapping.mode": "name"}, "with columnMapping"),
        ([], {"delta.constraints.c": "n > 0"}, r"with delta\.constraints\.c"),
        ([], {"delta.enableInCommitTimestamps": "true"}, "enableInCommitTimestamps"),
    ],
)
def test_a_table_that_a_plain_append_would_spoil_is_refused(
    features: list[str], configuration: dict[str, str], match: str
) -> None:
    with pytest.raises(LakeError, match=match):
        refuse_features(features, configuration, {"type": "struct", "fields": [N]})


def test_a_real_table_with_a_constraint_is_refused(lake: DeltaLake) -> None:
    existing(lake)
    DeltaTable(str(lake.root)).alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(
        LakeError, match=r"delta\.constraints\.positive: land in a table without them"
    ):
        put(lake.table(), [0])


def test_features_that_change_no_append_are_taken(lake: DeltaLake) -> None:
    existing(lake)
    properties = {"delta.enableChangeDataFeed": "true", "delta.appendOnly": "true"}
    DeltaTable(str(lake.root)).alter.set_table_properties(properties)
    put(lake.table(), [0])
    assert rows(lake) == numbers([0])


VECTOR = {
    "storageType": "i",
    "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 40,
    "cardinality": 6,
}


def test_a_vector_of_deleted_rows_outlasts_landing_growth_and_checkpoints(lake: DeltaLake) -> None:
    """What states the file anew would bring the rows back."""
    feature = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **feature}
    known = lake.table()
    put(known, [0])
    landed = (lake.root / f"_delta_log/{1:020}.json").read_text().splitlines()
    [add] = [json.loads(line)["add"] for line in landed if line.startswith('{"add"')]
    lake.load().alter.set_table_properties({"delta.checkpointInterval": "1"})
    removed = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
    deletes: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1, "operation": "DELETE"}},
        {"protocol": protocol},
        {"remove": removed},
        {"add": {**add, "deletionVector": VECTOR}},
    ]
    lines = "".join(f"{json.dumps(delete)}\n" for delete in deletes)
    (lake.root / f"_delta_log/{3:020}.json").write_text(lines)
    put(known, range(2))
    grown = segment(pa.table({"n": [5], "more": ["x"]}), offset=2, number=2)
    assert land([grown], table=known, generations=GENERATIONS).landed.messages == 1
    for change in (lambda: known.compact(1 << 20), lambda: repair(known)):
        with pytest.raises(LakeError, match="deletion vectors may have deleted rows"):
            change()
    newest = max(lake.root.glob("_delta_log/*.checkpoint.parquet"))
    files = [value for value in pq.read_table(newest)["add"].to_pylist() if value]
    assert len(files) == 3
    [vector] = [file["deletionVector"] for file in files if file["path"] == add["path"]]
    assert {**vector, **VECTOR} == vector


def test_a_protocol_that_is_not_known_is_refused(lake: DeltaLake) -> None:
    existing(lake)
    path = lake.root / f"_delta_log/{0:020}.json"
    text = path.read_text()
    assert '"minWriterVersion":2' in text
    path.write_text(text.replace('"minWriterVersion":2', '"minWriterVersion":8'))
    with pytest.raises(LakeError, match="writer version 8"):
        put(lake.table(), [0])


def test_a_table_whose_writers_take_turns_by_a_lock_is_refused(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would overwrite a commit that was written on condition that there is none."""
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    files = ObjectFiles("s3://bucket/t", {"aws_region": "eu-central-1"})
    with pytest.raises(ConfigError, match="AWS_S3_LOCKING_PROVIDER=dynamodb: s3://bucket/t is"):
        DeltaLakeTable("s3://bucket/t", files=files)
    put(lake.table(), [0])


# --- statistics -----------------------------------------------------------------------------------


def statistics(
    data: pa.Table, tmp_path: Path, partition: Sequence[str] = (), **properties: str
) -> dict[str, Any]:
    """Return the statistics of a table with these properties of data skipping."""
    pq.write_table(data, tmp_path / "file.parquet", row_group_size=2)
    known = {f"delta.dataSkipping{name}": value for name, value in properties.items()}
    indexed = indexed_columns(delta_schema(data.schema), partition, known)
    footer = pq.read_metadata(tmp_path / "file.parquet")
    stats: dict[str, Any] = json.loads(file_statistics(footer, indexed), parse_float=Decimal)
    return stats


def test_statistics_come_from_all_row_groups(tmp_path: Path) -> None:
    data = pa.table({"n": [5, None, 3, 9], "a.b": [1, 1, 1, 1], "s": [{"x": 1}] * 4})
    assert statistics(data, tmp_path) == {
        "numRecords": 4,
        "minValues": {"n": 3, "a.b": 1, "s": {"x": 1}},
        "maxValues": {"n": 9, "a.b": 1, "s": {"x": 1}},
        "nullCount": {"n": 1, "a.b": 0, "s": {"x": 0}},
    }


@pytest.mark.parametrize(
    ("column", "least", "most"),
    [
        (
            pa.array([1500, -1], pa.timestamp("us", "UTC")),
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:00:00.002Z",
        ),
        (
            pa.array([5, 7], pa.timestamp("ms")),
            "1970-01-01T00:00:00.005",
            "1970-01-01T00:00:00.007",
        ),
        (pa.array([0, 1], pa.date32()), "1970-01-01", "1970-01-02"),
        (
            pa.array([END], pa.timestamp("us")),
            "9999-12-31T23:59:59.999",
            "9999-12-31T23:59:59.999",
        ),
        (pa.array([Decimal("1.20"), Decimal("3.40")]), Decimal("1.20"), Decimal("3.40")),
        (pa.array([Decimal("0.0000001")]), Decimal("0.0000001"), Decimal("0.0000001")),
        (
            pa.array([Decimal(-(10**38 - 1)), Decimal(10**38 - 1)]),
            -(10**38 - 1),
            10**38 - 1,
        ),
        (pa.array(["b" * 40, "a"]), "a", "b" * 31 + "c"),
        (pa.array(["b" * 40, "b" * 41]), "b" * 32, "b" * 31 + "c"),
        (pa.array(["b" * 31 + "\ud7ffb"]), "b" * 31 + "\ud7ff", "b" * 31 + "\ue000"),
        (pa.array(["b" + LAST * 40]), "b" + LAST * 31, "c"),
        (pa.array([LAST * 40]), LAST * 32, LAST * 40),
        (pa.array([float("inf"), 1.0]), 1, "Infinity"),
        (pa.array([float("-inf"), 0.5]), "-Infinity", Decimal("0.5")),
        (pa.array([True, False]), False, True),
    ],
)
def test_bounds_are_rounded_outwards(
    column: pa.Array, least: Any, most: Any, tmp_path: Path
) -> None:
    stats = statistics(pa.table({"x": column}), tmp_path)
    assert stats["minValues"] == {"x": least}
    assert stats["maxValues"] == {"x": most}


@pytest.mark.parametrize(
    ("column", "least", "most"),
    [
        (pa.array([2**62, 0], pa.timestamp("us")), {"x": EPOCH, "n": 1}, None),
        (pa.array([-(2**62), 0], pa.timestamp("us")), None, {"x": EPOCH, "n": 2}),
        (pa.array(["b" * 5000, "a"]), {"x": "", "n": 1}, None),
        (pa.array([b"a", b"b"]), {"n": 1}, {"n": 2}),
        (pa.array([None, None], pa.int64()), {"n": 1}, {"n": 2}),
        (pa.array([{"a": None}, None], pa.struct({"a": pa.int64()})), {"x": {}, "n": 1},
         {"x": {}, "n": 2}),
    ],
)  # fmt: skip
def test_a_bound_is_stated_of_each_column_or_of_none(
    column: pa.Array, least: Any, most: Any, tmp_path: Path
) -> None:
    stats = statistics(pa.table({"x": column, "n": [1, 2]}), tmp_path)
    assert (stats.get("minValues"), stats.get("maxValues")) == (least, most)


def test_beside_a_column_without_statistics_none_has_bounds(tmp_path: Path) -> None:
    """deltalake takes it that a column has no nulls if it has a bound and no count of them."""
    data = pa.table({"x": ["a", None], "s": [{"y": 2.5}] * 2, "n": [1, 2]})
    path = tmp_path / "file.parquet"
    indexed = indexed_columns(delta_schema(data.schema), (), {})
    for stated, expected in (
        (["n", "s.y"], {"nullCount": {"s": {"y": 0}, "n": 0}}),
        (
            ["n", "x"],
            {
                "nullCount": {"x": 1, "n": 0},
                "minValues": {"x": "a", "s": {}, "n": 1},
                "maxValues": {"x": "a", "s": {}, "n": 2},
            },
        ),
    ):
        pq.write_table(data, path, write_statistics=stated)
        statistics = json.loads(file_statistics(pq.read_metadata(path), indexed))
        assert statistics == {"numRecords": 2, **expected}


def test_lists_and_maps_have_none_and_shift_nothing(tmp_path: Path) -> None:
    data = pa.table(
        {
            "list": pa.array([[{"a": 1, "b": [2]}]]),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "n": [7],
        }
    )
    assert statistics(data, tmp_path)["minValues"] == {"n": 7}


@pytest.mark.parametrize(
    ("properties", "stated"),
    [
        ({"NumIndexedCols": "3"}, {"s": {"x": 1}}),
        ({"NumIndexedCols": "4"}, {"s": {"x": 1, "y": 2}}),
        ({"NumIndexedCols": "0"}, {}),
        ({"NumIndexedCols": "-1"}, {"s": {"x": 1, "y": 2}, "a.b": 3}),
        ({"StatsColumns": "`a.b`, s.y", "NumIndexedCols": "1"}, {"s": {"y": 2}, "a.b": 3}),
        ({"StatsColumns": "s"}, {"s": {"x": 1, "y": 2}}),
    ],
)
def test_the_columns_are_stated_that_readers_expect(
    properties: dict[str, str], stated: dict[str, Any], tmp_path: Path
) -> None:
    """They count a map as one column, and no partition."""
    pairs = pa.array([[("k", {"v": 1})]], pa.map_(pa.string(), pa.struct({"v": pa.int64()})))
    data = pa.table({"part": ["p"], "map": pairs, "b": [b"b"], "s": [{"x": 1, "y": 2}]})
    data = data.append_column("a.b", [[3]])
    stats = statistics(data, tmp_path, ["part"], **properties)
    assert stats.get("minValues", {}) == stated


def test_the_log_is_in_utf_8(lake: DeltaLake) -> None:
    land_table(lake, pa.table({"text": ["\U00020bb7"]}))
    assert "\U00020bb7" in (lake.root / "_delta_log/00000000000000000001.json").read_text("utf-8")
