"""Filters over landed tables find exactly their rows, in every engine."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.transaction import AddAction
from lakes import (
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    every_type,
    needs_added_fields,
    wrong,
)
from questions import ask as ask_engines
from questions import read_by
from segments import produced, segment

from columnar_kafka import native
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.plan import Layout, Mode
from columnar_kafka.lake.tables.delta.log import DeltaLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from columnar_kafka.lake.model import SourceMessage
    from columnar_kafka.lake.tables.delta.log import Snapshot

LONG = "x" * 100
RARE = "\U00020bb7"


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake], ids=["parquet", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture(params=["core", "python"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have segments encoded with the native core, and without it."""
    if request.param == "python":
        monkeypatch.setattr(native, "enabled", False)
    elif not native.enabled:
        pytest.skip("there is no native core")


def segments_of(tables: Sequence[pa.Table]) -> list[SourceMessage]:
    """Return a segment of each table, which may have what a row of Python cannot have."""
    return [segment(table, offset=number, number=number) for number, table in enumerate(tables)]


def put(
    lake: Any, messages: list[SourceMessage], mode: Mode = Mode.STITCHED, **options: Any
) -> None:
    """Land segments."""
    table, layout = lake.table(**options), Layout(mode=mode)
    land(messages, table=table, generations=GENERATIONS, layout=layout)


def ask(lake: Any, expected: pa.Table) -> None:
    """Ask for all rows; of a table whose answers are right, no file is said to be wrong."""
    ask_engines(lake, expected)
    assert wrong(lake) == []


def landed(lake: Any, *tables: pa.Table, **options: Any) -> pa.Table:
    """Land a segment of each table, and return the rows."""
    put(lake, segments_of(tables), **options)
    return pa.concat_tables(tables, promote_options="permissive")


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("mode", Mode)
def test_bounds_that_segments_state_in_part_hide_nothing(lake: Any, mode: Mode) -> None:
    tables = [
        pa.table({"text": ["alpha"], "x": [1.0], "n": [1]}),
        pa.table({"text": [LONG, "zeta"], "x": [math.nan, 50.0], "n": [2, 3]}),
    ]
    put(lake, produced(tables), mode)
    ask(lake, pa.concat_tables(tables))


def test_values_of_every_type_are_found(lake: Any) -> None:
    more = {"ms": pa.array([5, None], pa.timestamp("ms", "UTC")), "rare": [RARE, "\uffff"]}
    ask(lake, landed(lake, every_type(**more), every_type(**more).slice(0, 1)))


def test_the_first_and_last_times_are_found(lake: Any) -> None:
    ends = [-62_135_596_800_000_000, 253_402_300_799_999_999, None]
    days = pa.array([-719_162, 2_932_896, None], pa.date32())
    for zone in "UTC", None:
        times = pa.array(ends, pa.timestamp("us", zone))
        ask(lake, landed(lake, pa.table({"time": times, "day": days})))
        lake = type(lake)(lake.root.parent / "local")


@pytest.mark.parametrize("microseconds", [-(1 << 61), 1 << 61])
def test_beside_times_that_python_lacks_rows_are_found(lake: Any, microseconds: int) -> None:
    data = pa.table({"time": pa.array([0, microseconds], pa.timestamp("us")), "n": [1, 2]})
    landed(lake, data)
    ask(lake, data.select(["n"]))


def test_infinities_are_found(lake: Any) -> None:
    x = pa.array([math.inf, -math.inf, 1.0, None])
    ask(lake, landed(lake, pa.table({"x": x, "n": range(4)})))


def test_texts_beyond_the_basic_plane_are_found(lake: Any) -> None:
    ask(lake, landed(lake, pa.table({"text": [RARE + "a", "\ue000", "\uffff" + RARE]})))


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff"])
def test_texts_whose_cut_ends_before_what_is_no_character_land(lake: Any, last: str) -> None:
    texts = {"t16": "a" * 15 + last + "b", "t32": "a" * 31 + last + "b", "bare": last * 16}
    ask(lake, landed(lake, pa.table({name: ["", text, None] for name, text in texts.items()})))


def test_bytes_whose_cut_nothing_follows_land(lake: Any) -> None:
    data = [b"\xff" * 40, b"a" * 15 + b"\xff" * 20, b"", None]
    ask(lake, landed(lake, pa.table({"data": data})))


@pytest.mark.parametrize("x", [math.nan, math.inf])
def test_nan_in_what_is_encoded_anew_is_found(lake: Any, x: float) -> None:
    if isinstance(lake, DirectoryLake):
        pytest.skip("it has no partitions")
    data = pa.table({"x": [1.0, x, 2.0, None], "part": ["a", "a", "b", "b"]})
    ask(lake, landed(lake, data, partition_by=["part"]))


def test_what_was_merged_is_found(lake: Any) -> None:
    tables = [
        pa.table({"x": [1.0, None], "text": ["a", None], "flag": [True, None]}),
        pa.table({"x": [math.nan, 50.0], "text": [LONG, RARE], "flag": [False, None]}),
        pa.table({"x": [math.inf, 2.0], "text": ["", "b"], "flag": pa.nulls(2, pa.bool_())}),
    ]
    messages = segments_of(tables)
    for number in range(len(messages)):
        put(lake, messages[: number + 1])
    assert lake.table().compact(1 << 20).files == 1
    ask(lake, pa.concat_tables(tables))


def test_rows_without_a_column_that_came_later_are_found(lake: Any) -> None:
    """deltalake's datasets take it that a column has values if the log says nothing of it."""
    tables = [
        pa.table({"n": [1, 2]}),
        pa.table({"n": [3], "more": ["a"], "s": [{"x": 1, "flag": True}], "list": [[1]]}),
        pa.table({"n": [4, 5]}),
    ]
    for number in range(len(tables)):
        put(lake, segments_of(tables)[: number + 1])
    ask(lake, pa.concat_tables(tables, promote_options="permissive"))


def test_what_lands_while_columns_are_added_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says of each file in the table that it has no values in them, in a commit before."""
    lake = DeltaLake(tmp_path / "lake")
    tables = [pa.table({"n": [1, 2]}), pa.table({"n": [5], "more": ["m"]})]
    other = pa.table({"n": [3, 4]})
    put(lake, segments_of(tables[:1]))
    commit, entries = DeltaLog.commit, []

    def between(self: DeltaLog, snapshot: Snapshot, entry: Any, *files: Any) -> str:
        conflict = commit(self, snapshot, entry, *files)
        entries.append(entry)
        if len(entries) == 1:
            put(lake, [segment(other, partition=1)])
        return conflict

    monkeypatch.setattr(DeltaLog, "commit", between)
    put(lake, segments_of(tables))
    monkeypatch.undo()
    assert [("txn" in entry[-1]) for entry in entries] == [False, True, False, True]
    ask(lake, pa.concat_tables([*tables, other], promote_options="permissive"))


def test_a_nan_among_the_bounds_of_another_program_is_not_stated_again(tmp_path: Path) -> None:
    """It is no JSON, at which readers would fail; and beside it filters miss rows."""
    lake = DeltaLake(tmp_path / "lake")
    tables = [pa.table({"x": [1.0]}), pa.table({"x": [3.0], "more": ["m"]})]
    put(lake, segments_of(tables[:1]))
    pq.write_table(tables[0], lake.root / "other.parquet")
    size = (lake.root / "other.parquet").stat().st_size
    bounds = {"minValues": {"x": 1.0}, "maxValues": {"x": "NaN"}, "nullCount": {"x": 0}}
    stated = json.dumps({"numRecords": 1, **bounds})
    add = AddAction("other.parquet", size, {}, 0, data_change=True, stats=stated)
    table = lake.load()
    table.create_write_transaction([add], "append", table.schema())
    put(lake, segments_of(tables))  # the log is to say that the file has no values in the new one
    ask(lake, pa.concat_tables([tables[0], *tables], promote_options="permissive"))


@needs_added_fields
@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_rows_without_a_member_that_came_later_are_found(tmp_path: Path, kind: Any) -> None:
    lake = kind(tmp_path / "lake")
    tables = [
        pa.table({"n": [1, 2], "s": [{"a": {"p": 1}}, None]}),
        pa.table({"n": [3], "s": [{"a": {"p": 2, "q": True}, "b": "x", "c": {"d": 1.5}}]}),
    ]
    for number in range(len(tables)):
        put(lake, segments_of(tables)[: number + 1])
    ask(lake, pa.concat_tables(tables, promote_options="permissive"))


@pytest.mark.parametrize("more", [{"b": "x"}, {"b": {"x": 1}}, {"b": b"x"}, {"b": [1]}], ids=str)
@pytest.mark.parametrize(
    "member", [{"a": [1]}, {"a": b"1"}, {"a": [1], "c": b"1"}, {"a": {"d": [1]}}], ids=str
)
def test_rows_without_a_member_beside_those_that_have_no_bounds_are_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    member: dict[str, Any],
    more: dict[str, Any],
) -> None:
    """polars refuses to filter by such a struct, also in tables of deltalake's own."""
    monkeypatch.setattr("lakes.POLARS_READS_ALL", False)
    lake = DeltaLake(tmp_path / "lake")
    tables = [
        pa.table({"n": [1, 2], "s": [member, None]}),
        pa.table({"n": [3], "s": [member | more]}),
    ]
    for number in range(len(tables)):
        put(lake, segments_of(tables)[: number + 1])
    ask(lake, pa.concat_tables(tables, promote_options="permissive"))


def test_columns_after_the_first_32_are_found(tmp_path: Path) -> None:
    """Delta has no statistics of these, and it counts a map as one column."""
    pairs = pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))
    columns = {f"m{n}": pairs for n in range(3)} | {f"c{n}": [n, None] for n in range(26, 32)}
    few = {f"f{n}": pa.array([True, None]) for n in range(26)}
    lake = DeltaLake(tmp_path / "lake")
    ask(lake, landed(lake, pa.table(few | columns)).select(list(columns)))


@pytest.mark.skipif(not native.enabled, reason="there is no native core")
@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_a_file_that_its_bounds_rule_out_is_not_read(tmp_path: Path, kind: Any) -> None:
    """Beside infinities, and long texts, whose bounds are cut."""
    lake = kind(tmp_path / "lake")
    tables = [
        pa.table({"n": [n], "text": [f"{n}" * 100], "x": [math.inf], "flag": [True]})
        for n in range(3)
    ]
    messages = produced(tables)
    for number in range(len(messages)):
        put(lake, messages[: number + 1])
    assert read_by(lake, "n", 1) == read_by(lake, "text", "1" * 100) == 1
    assert read_by(lake, "x", math.inf) == 3
