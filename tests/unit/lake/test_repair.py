"""Tables that landed with bounds that hide rows: they are found, and put right."""

from __future__ import annotations

import datetime
import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType, StructType
from deltalake.transaction import AddAction
from lakes import (
    FENCE,
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    audit,
    compared,
    lake_at,
    targets,
    wrong,
)
from pyarrow import orc
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from questions import ask
from segments import produced, segment

from columnar_kafka import native
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import CompactResult, NotLandedError
from columnar_kafka.lake.plan import Layout, Mode
from columnar_kafka.lake.stitching.row_groups import StitchError
from columnar_kafka.lake.stitching.stitch import Stitcher
from columnar_kafka.lake.tables import bounds
from columnar_kafka.lake.tables.bounds import RepairResult, repair
from columnar_kafka.lake.tables.commit_record import CREATED
from columnar_kafka.lake.tables.delta import actions as delta_actions
from columnar_kafka.lake.tables.delta.merging import logged_files
from columnar_kafka.lake.tables.iceberg import commit as iceberg_commit
from columnar_kafka.segment import encoder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from columnar_kafka.lake.model import SourceMessage

RARE = "\U00020bb7"
TABLES = [
    pa.table({"text": ["alpha", None], "x": [1.0, None], "n": [1, 2]}),
    pa.table({"text": ["x" * 100, RARE], "x": [math.nan, 50.0], "n": [3, 4]}),
]
ROWS = pa.concat_tables(TABLES)


@pytest.fixture(params=[target for target in targets() if target.values[0][0] is not DirectoryLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lake_at(request, tmp_path / "lake")


@pytest.fixture
def messages(lake: Any) -> list[SourceMessage]:
    if isinstance(lake, IcebergLake) and not native.enabled:
        pytest.skip("without the core a segment states no part of such bounds, nor did a table")
    return produced(TABLES)


def earlier_statistics(footer: Any, _: Any) -> str:
    """Return what was stated before these mends: of a part of the columns, and in escapes."""
    bounds = {"n": footer.num_rows, "text": RARE}
    stated = {"minValues": bounds | {"n": 1}, "maxValues": bounds, "nullCount": {"n": 0}}
    return json.dumps({"numRecords": footer.num_rows} | stated)


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Have files land as they did before these mends, until that is undone."""
    with monkeypatch.context() as patch:
        patch.setattr(delta_actions, "file_statistics", earlier_statistics)
        patch.setattr(iceberg_commit, "_greatest", lambda *_: 0)
        patch.setattr(encoder, "_has_nan", lambda _: False)
        yield patch


def put(lake: Any, messages: list[SourceMessage], mode: Mode = Mode.STITCHED) -> Any:
    layout = Layout(mode=mode, small_bytes=0)  # as they all were before
    return land(messages, table=lake.table(), generations=GENERATIONS, layout=layout)


def test_a_table_from_before_is_put_right_and_nothing_lands_twice(
    lake: Any, messages: list[SourceMessage], earlier: pytest.MonkeyPatch
) -> None:
    put(lake, messages)
    earlier.undo()
    with pytest.raises(AssertionError, match="answers are wrong"):
        ask(lake, ROWS)
    fences = lake.table().fences()
    assert len(wrong(lake)) == 1
    assert repair(lake.table()) == RepairResult(files=1, repaired=1, left=0)
    assert wrong(lake) == []
    ask(lake, ROWS)
    assert lake.table().fences() == fences
    assert put(lake, messages).landed_before.messages == 2
    assert sorted(filter(None, lake.read()["n"].to_pylist())) == [1, 2, 3, 4]
    assert audit(lake, messages).findings == []


@pytest.mark.parametrize("mode", Mode)
def test_bounds_that_leave_out_a_nan_are_put_right_in_the_file_too(
    lake: Any, earlier: pytest.MonkeyPatch, mode: Mode
) -> None:
    """Engines also pass over row groups by what the file says of them."""
    tables = [pa.table({"n": [1, 2], "x": [math.nan, 5.0], "s": [{"y": math.nan}, {"y": 1.0}]})]
    messages = [segment(table, offset=n, number=n) for n, table in enumerate(tables)]
    put(lake, messages, mode)
    earlier.undo()
    assert [set(columns) >= {"s.y", "x"} for columns in wrong(lake)] == [True]
    assert repair(lake.table()) == RepairResult(files=1, repaired=1, left=0)
    assert wrong(lake) == []
    ask(lake, pa.concat_tables(tables))
    assert audit(lake, messages).findings == []


def test_a_right_table_stays_as_it_is(lake: Any, messages: list[SourceMessage]) -> None:
    put(lake, messages)
    version = lake.table().head().version
    assert repair(lake.table()) == RepairResult(files=1, repaired=0, left=0)
    assert lake.table().head().version == version


def test_merged_files_are_right(
    lake: Any, messages: list[SourceMessage], earlier: pytest.MonkeyPatch
) -> None:
    put(lake, messages[:1])
    put(lake, messages)
    earlier.undo()
    lake.table().compact(1 << 20)
    assert wrong(lake) == []
    ask(lake, ROWS)


def test_landing_in_between_stays(lake: Any, earlier: pytest.MonkeyPatch) -> None:
    more = produced([*TABLES, pa.table({"text": ["more"], "x": [7.0], "n": [5]})])
    put(lake, more[:2])
    earlier.undo()
    table = lake.table()
    swap = table.swap

    def overtaken(*arguments: Any) -> str:
        table.swap = swap
        put(lake, more)
        return str(swap(*arguments))

    table.swap = overtaken
    assert repair(table).repaired == 1
    assert sorted(lake.read()["n"].to_pylist()) == [1, 2, 3, 4, 5]
    assert lake.table().fences()[FENCE].next == 3
    assert (wrong(lake), audit(lake, more).findings) == ([], [])


def test_a_commit_that_fails_removes_no_file_of_the_table(
    lake: Any, messages: list[SourceMessage], earlier: pytest.MonkeyPatch
) -> None:
    put(lake, messages)
    earlier.undo()
    table = lake.table()

    def fails(*_: Any) -> str:
        raise NotLandedError("refused")

    table.swap = fails
    table.remove = lambda files: removed.extend(file.path for file in files)
    removed: list[str] = []
    before = set(table.paths(table.head()))
    with pytest.raises(NotLandedError, match="refused"):
        repair(table)
    assert (before & set(removed), len(removed)) == (set(), int(isinstance(lake, IcebergLake)))


def test_what_delta_has_optimized_is_put_right(tmp_path: Path) -> None:
    """Its own writer states nothing of infinities beside others, and bounds that leave out NaN."""
    lake = DeltaLake(tmp_path / "lake")
    tables = [
        pa.table({"n": [1], "x": [math.nan], "y": [math.inf]}),
        pa.table({"n": [2], "x": [2.5], "y": [1.0]}),
    ]
    messages = produced(tables)
    for message in messages:
        put(lake, [message])
    DeltaTable(str(lake.root)).optimize.compact()
    with pytest.raises(AssertionError, match="answers are wrong"):
        ask(lake, pa.concat_tables(tables))
    assert repair(lake.table()) == RepairResult(files=1, repaired=1, left=0)
    ask(lake, pa.concat_tables(tables))
    assert audit(lake, messages).findings == []


MEMBERS = [Field("x", PrimitiveType("long")), Field("y", PrimitiveType("boolean"))]


@pytest.mark.parametrize(
    ("added", "kind"),
    [
        (PrimitiveType("string"), pa.string()),
        (StructType(MEMBERS), pa.struct({"x": pa.int64(), "y": pa.bool_()})),
    ],
    ids=["text", "struct"],
)
def test_a_delta_table_to_which_others_add_a_column_is_put_right(
    tmp_path: Path, added: Any, kind: pa.DataType
) -> None:
    """deltalake's datasets take it that the column has values in the files before."""
    lake = DeltaLake(tmp_path / "lake")
    data = pa.table({"n": [1, 2]})
    put(lake, [segment(data)])
    lake.load().alter.add_columns([Field("more", added)])
    expected = data.append_column("more", pa.nulls(2, kind))
    with pytest.raises(AssertionError, match="more null"):
        ask(lake, expected)
    assert wrong(lake) == [("more",)]
    repair(lake.table())
    assert wrong(lake) == []
    ask(lake, expected)


def test_the_old_bounds_of_a_file_in_a_partition_are_stated_anew(
    tmp_path: Path, earlier: pytest.MonkeyPatch
) -> None:
    lake = DeltaLake(tmp_path / "lake")
    data = pa.table({"part": ["ä b", "c%"], "flag": [True, False], "n": [1, 2]})
    table = lake.table(partition_by=["part"])
    land([segment(data)], table=table, generations=GENERATIONS)
    earlier.undo()
    assert repair(lake.table()) == RepairResult(files=2, repaired=2, left=0)
    assert lake.read().num_rows == 2
    ask(lake, data)


def add_file(
    lake: DeltaLake,
    data: pa.Table,
    bounds: dict[str, Any],
    *,
    path: str = "other.parquet",
    **how: Any,
) -> None:
    """Have another program add a file with these bounds, both lower and upper."""
    place = lake.root / path
    pq.write_table(data, str(place), **how)
    nulls = dict.fromkeys(data.column_names, 0)
    stated = {"minValues": bounds, "maxValues": bounds, "nullCount": nulls}
    text = json.dumps({"numRecords": data.num_rows} | stated)
    action = AddAction(place.name, place.stat().st_size, {}, 0, True, text)
    table = lake.load()
    table.create_write_transaction([action], "append", table.schema())


WHEN = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize("fault", ["types", "nulls", "columns", "a copy"])
def test_a_file_that_could_not_land_is_put_right_and_changes_no_schema(
    tmp_path: Path, fault: str
) -> None:
    """Readers read it, so it is the table's: Spark writes such times and columns."""
    lake = DeltaLake(tmp_path / "lake")
    names = {"n": "long", "flag": "boolean", "when": "timestamp", "x": "double"}
    columns = [
        Field(name, PrimitiveType(kind), nullable=(fault, name) != ("nulls", "n"))
        for name, kind in names.items()
    ]
    DeltaTable.create(
        str(lake.root), Schema(columns), configuration=CREATED, raise_if_key_not_exists=False
    )
    data = pa.table({"n": [2], "flag": [True], "when": pa.array([WHEN], pa.timestamp("us", "UTC"))})
    written = data.append_column("x", pa.array([math.nan if fault == "a copy" else 1.0]))
    more = written.append_column("extra", pa.array(["hidden"]))
    stored = more if fault in ("columns", "a copy") else written
    stated = {"n": 2, "when": "2024-01-01T00:00:00.000Z", "x": 1.0}  # none of the flag
    add_file(lake, stored, stated, use_deprecated_int96_timestamps=fault == "types")
    schema = lake.load().schema().to_json()
    assert len(wrong(lake)) == 1
    assert repair(lake.table()) == RepairResult(files=1, repaired=1, left=0)
    assert wrong(lake) == []
    assert lake.load().schema().to_json() == schema
    ask(lake, written)


def test_a_file_that_cannot_be_read_or_copied_is_left(
    tmp_path: Path, earlier: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are put right."""
    lake = DeltaLake(tmp_path / "lake")
    data = pa.table({"n": [1, 2], "x": [1.0, math.nan], "flag": [True, False]})
    put(lake, [segment(data.drop(["x"]))])
    earlier.undo()
    put(lake, [segment(data.drop(["x"])), segment(data, offset=1, number=1)])
    for name in "copied.parquet", "unreadable.parquet":
        add_file(lake, data, {"n": 2, "x": 1.0}, path=name)
    (lake.root / "unreadable.parquet").write_bytes(b"PAR1 and no more PAR1")
    monkeypatch.setattr(Stitcher, "append", refuses)
    result = repair(lake.table())
    assert result == RepairResult(files=4, repaired=1, left=2)
    assert [reason.partition(": ")[0] for reason in sorted(result.reasons)] == [
        "copied.parquet",
        "unreadable.parquet",
    ]
    assert wrong(lake) == [("_kafka", "flag", "n", "x")]
    assert len(list(lake.root.glob("*/*.parquet"))) == 2


def refuses(*_: Any) -> None:
    raise StitchError("an encrypted column")


@pytest.mark.parametrize("fault", ["bounds", "a copy"])
def test_a_path_that_the_log_has_in_another_form_stays_the_same_file(
    tmp_path: Path, fault: str
) -> None:
    lake = DeltaLake(tmp_path / "lake")
    data = pa.table({"n": [1], "x": [math.nan if fault == "a copy" else 1.0], "flag": [True]})
    put(lake, [segment(data)])
    add_file(lake, data, {"n": 1, "x": 1.0})
    path = lake.root / f"_delta_log/{lake.load().version():020}.json"
    path.write_text(path.read_text().replace('"other.parquet"', '"%6Fther.parquet"'))
    assert lake.read().num_rows == 2
    assert repair(lake.table()) == RepairResult(files=2, repaired=1, left=0)
    assert wrong(lake) == []
    assert lake.read().num_rows == 2
    ask(lake, pa.concat_tables([data, data]))


@pytest.mark.parametrize(
    ("kind", "values", "bound"),
    [
        ("timestamp", pa.array([WHEN.replace(tzinfo=None)], pa.timestamp("us")), WHEN.isoformat()),
        ("timestamp_ntz", pa.array([WHEN], pa.timestamp("us", "UTC")), WHEN.isoformat()[:19]),
        ("date", pa.array([WHEN], pa.timestamp("us", "UTC")), "2024-01-01"),
        ("string", pa.array([5, 17]), "5"),
        ("long", pa.array(["5", "17"]), 5),
        ("long", pa.array([5.0, 7.0]), 5),
    ],
    ids=str,
)
def test_bounds_of_values_of_another_type_are_never_right(
    tmp_path: Path, kind: str, values: pa.Array, bound: Any
) -> None:
    """They cannot be compared: none are stated anew."""
    lake = DeltaLake(tmp_path / "lake")
    columns = [Field("n", PrimitiveType("long")), Field("x", PrimitiveType(kind))]
    DeltaTable.create(str(lake.root), Schema(columns))
    data = pa.table({"n": [1] * len(values), "x": values})
    add_file(lake, data, {"n": 1, "x": bound})
    assert wrong(lake) == [("x",)]
    assert repair(lake.table()) == RepairResult(files=1, repaired=1, left=0)
    assert wrong(lake) == []
    assert not logged_files(lake.load())["other.parquet"].has_bounds
    assert lake.read()["x"].cast(values.type) == pa.chunked_array([values])


@pytest.mark.skipif(not native.enabled, reason="there is no native core")
@pytest.mark.parametrize("mode", ["none", "counts", "truncate(4)", "full"])
def test_right_bounds_stay_right_whatever_metrics_an_iceberg_table_has_later(
    tmp_path: Path, earlier: pytest.MonkeyPatch, mode: str
) -> None:
    lake = IcebergLake(tmp_path / "lake")
    right = pa.table({"n": [1, 2], "text": ["a" * 40, "b" * 40], "bytes": [b"a" * 40, b"b" * 40]})
    put(lake, [segment(right)])
    other = IcebergLake(tmp_path / "other")
    put(other, produced(TABLES))
    earlier.undo()
    for target in lake, other:
        with target.opened() as table, table.transaction() as change:
            change.set_properties({"write.metadata.metrics.default": mode})
    assert wrong(lake) == []
    assert repair(lake.table()) == RepairResult(files=1, repaired=0, left=0)
    assert wrong(other) == [("x",)]
    assert repair(other.table()) == RepairResult(files=1, repaired=1, left=0)
    assert wrong(other) == []
    ask(other, ROWS)


@pytest.mark.parametrize("renamed", [True, False])
def test_files_from_before_a_column_was_renamed_or_dropped_are_looked_at(
    tmp_path: Path, earlier: pytest.MonkeyPatch, *, renamed: bool
) -> None:
    """They stay as they are: nothing lands under names that have changed."""
    lake = IcebergLake(tmp_path / "lake")
    tables = [pa.table({"n": [1.0], "m": [1.0]}), pa.table({"n": [math.nan], "m": [math.nan]})]
    messages = [segment(table, offset=n, number=n) for n, table in enumerate(tables)]
    put(lake, messages)
    earlier.undo()
    with lake.opened() as table, table.update_schema() as update:
        if renamed:
            update.rename_column("n", "other")
        else:
            update.delete_column("n")
    assert repair(lake.table()) == RepairResult(files=1, repaired=0, left=1)
    right = IcebergLake(tmp_path / "right")
    put(right, messages[:1])
    with right.opened() as table, table.update_schema() as update:
        update.delete_column("n")
    assert repair(right.table()) == RepairResult(files=1, repaired=0, left=0)


def test_files_of_other_programs_in_an_iceberg_table_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither ORC, which is not opened, nor the values of Parquet."""
    lake = IcebergLake(tmp_path / "lake")
    data = pa.table({"n": [1], "x": [math.nan]})
    messages = [segment(data), segment(data, offset=1, number=1)]
    put(lake, messages[:1])
    put(lake, messages)
    place = lake.root / "data" / "other.orc"
    orc.write_table(data, str(place))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{place}",
        file_format=FileFormat.ORC,
        partition=Record(),
        file_size_in_bytes=place.stat().st_size,
        spec_id=0,
        record_count=1,
    )
    with lake.opened() as table:
        table.append(data)
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            append.append_data_file(file)
    monkeypatch.setattr(bounds, "columns_with_nan", lambda batch: looked_at.append(batch) or [])
    looked_at: list[pa.RecordBatch] = []
    assert repair(lake.table()) == RepairResult(files=4, repaired=0, left=0)
    assert (wrong(lake), looked_at) == ([], [])
    assert lake.table().compact(1 << 20) == CompactResult(files_before=4, files=3)
    findings = [(finding.kind, finding.reason) for finding in compared(lake, messages).findings]
    assert ("not committed", "rows of no message: another program has written them") in findings
    assert [kind for kind, _ in findings] == ["not provable", "not committed"]


def test_a_place_without_a_table_and_a_directory_are_errors(tmp_path: Path) -> None:
    for lake in DeltaLake(tmp_path / "delta"), IcebergLake(tmp_path / "iceberg"):
        with pytest.raises(LakeError, match="there is no table"):
            repair(lake.table())
    with pytest.raises(LakeError, match="a directory states nothing"):
        repair(DirectoryLake(tmp_path / "parquet").table())
