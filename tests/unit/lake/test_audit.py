"""What is in a table compared with the topic: what is wrong is found, and named by its offset."""

from __future__ import annotations

import json
import shutil
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures
from lakes import FENCE, DeltaLake, DirectoryLake, IcebergLake, audit, put
from segments import ROWS, numbered, segment, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.dead_letters import Taken
from columnar_kafka.lake.audit.landed_rows import equal
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import TopicGeneration
from columnar_kafka.lake.plan import Mode
from columnar_kafka.lake.tables.base import commit_fences
from columnar_kafka.lake.tables.fence_reset import moved_fences

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.lake.audit.audit import AuditReport


@pytest.fixture(
    params=[DirectoryLake, DeltaLake, IcebergLake], ids=["directory", "delta", "iceberg"]
)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture
def directory(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


def findings(report: AuditReport) -> list[tuple[Any, ...]]:
    return [(finding.kind, finding.first, finding.last) for finding in report.findings]


@pytest.mark.parametrize("mode", list(Mode))
def test_what_landed_is_proven(lake: Any, mode: Mode) -> None:
    put(lake.table(), range(3), mode=mode)
    put(lake.table(), [3, 7, 8], mode=mode)
    report = audit(lake, segments([0, 1, 2, 3, 7, 8, 9]))
    assert (report.findings, report.messages, report.rows) == ([], 6, 6 * ROWS)
    assert report.files == (2 if mode is Mode.STITCHED else 6)


def test_a_message_that_is_not_there_is_missing(directory: DirectoryLake) -> None:
    put(directory.table(), [0, 1, 6], file_row_groups=1, small_bytes=0)
    report = audit(directory, segments([0, 1, 2, 3, 5, 6]))
    assert findings(report) == [("missing", 2, 5)]
    assert report.messages == 3


def test_one_that_is_left_out_within_a_file_is_named(directory: DirectoryLake) -> None:
    put(directory.table(), [0, 1, 3, 4])
    assert findings(audit(directory, segments(range(5)))) == [("missing", 2, 2)]


def test_messages_that_are_there_part_those_that_are_missing(directory: DirectoryLake) -> None:
    put(directory.table(), [0, 3, 5, 9], file_row_groups=2, small_bytes=0)
    report = audit(directory, segments([0, 1, 2, 3, 4, 5, 6, 8, 9]))
    assert findings(report) == [("missing", 1, 2), ("missing", 4, 4), ("missing", 6, 8)]


def test_one_that_was_not_committed_is_named(directory: DirectoryLake) -> None:
    put(directory.table(), [0, 1, 2])
    report = audit(directory, segments([0, 2]))
    assert findings(report) == [("not committed", 0, 2)]
    assert "3 rows of segment p-1, which is not a committed message" in report.findings[0].reason


def test_a_verbatim_file_of_an_aborted_message_is_named(directory: DirectoryLake) -> None:
    put(directory.table(), [0, 1, 2], mode=Mode.VERBATIM)
    report = audit(directory, segments([0, 2]))
    assert (findings(report), report.messages) == ([("not committed", 1, 1)], 2)


@pytest.mark.parametrize("mode", list(Mode))
def test_other_values_are_found(directory: DirectoryLake, mode: Mode) -> None:
    put(directory.table(), range(3), mode=mode)
    other = segment(pa.table({"n": pa.array([10, 11, 13])}), offset=1, number=1)
    report = audit(directory, [numbered(0), other, numbered(2)])
    [(kind, first, _)] = findings(report)
    assert (kind, first) == ("different", 1)


def test_a_file_that_is_there_twice_is_found(directory: DirectoryLake) -> None:
    put(directory.table(), range(3))
    [file] = directory.root.glob("t/*.parquet")
    shutil.copy(file, file.with_name("copy.parquet"))
    report = audit(directory, segments(range(3)))
    assert findings(report) == [("twice", 0, 2)]
    assert report.messages == 3


def test_a_file_that_is_gone_or_no_file_is_found(directory: DirectoryLake) -> None:
    put(directory.table(), range(2))
    put(directory.table(), range(2, 4))
    first, second = sorted(directory.root.glob("t/*.parquet"))
    first.unlink()
    second.write_bytes(b"nothing")
    report = audit(directory, segments(range(4)))
    assert [finding.kind for finding in report.findings] == [
        "not provable",
        "not provable",
        "missing",
    ]
    assert (report.findings[2].first, report.findings[2].last) == (0, 3)


def test_a_row_that_was_changed_in_place_is_found(directory: DirectoryLake) -> None:
    put(directory.table(), range(3))
    [file] = directory.root.glob("t/*.parquet")
    table = pq.read_table(file)
    changed = pa.table([[*table["n"].to_pylist()[:-1], 99], table["_kafka"]], schema=table.schema)
    pairs = pq.read_metadata(file).metadata
    groups = pq.ParquetWriter(file, changed.schema)
    for at in range(0, len(changed), ROWS):
        groups.write_table(changed.slice(at, ROWS))
    groups.add_key_value_metadata(
        {key.decode(): pair.decode() for key, pair in pairs.items() if key != b"ARROW:schema"}
    )
    groups.close()
    assert findings(audit(directory, segments(range(3)))) == [("different", 2, 2)]


def test_what_kafka_has_deleted_since_cannot_be_compared(directory: DirectoryLake) -> None:
    """But the rest of its file is."""
    put(directory.table(), range(2))
    put(directory.table(), range(2, 6))
    report = audit(directory, segments(range(4, 6)), low=4)
    assert (report.findings, report.messages, report.expired) == ([], 2, {0: (0, 3)})
    other = segment(pa.table({"n": pa.array([50, 51, 53])}), offset=5, number=5)
    assert findings(audit(directory, [numbered(4), other], low=4)) == [("different", 5, 5)]


def test_files_past_a_fence_that_was_moved_back_would_land_again(directory: DirectoryLake) -> None:
    put(directory.table(), range(2))
    put(directory.table(), range(2, 4))
    commit_fences(directory.table(), lambda fences: moved_fences(fences, {("t", 0): 2}, force=True))
    assert findings(audit(directory, segments(range(4)))) == [("past the fence", 2, 3)]


def test_plain_messages_are_counted(directory: DirectoryLake) -> None:
    put(directory.table(), [0, 2])
    plain = replace(numbered(1), headers=None, value=b"text")
    report = audit(directory, [numbered(0), plain, numbered(2)])
    assert (report.findings, report.messages, report.plain) == ([], 2, 1)


def test_dead_letters_need_not_be_there(directory: DirectoryLake) -> None:
    """Whole segments and damaged ones; of others they explain nothing."""
    put(directory.table(), [0, 3])
    damaged = replace(numbered(2), headers=[("columnar.encoding", b"?")])
    messages = [numbered(0), numbered(1), damaged, numbered(3)]
    report = audit(directory, messages, letters=Taken(array("q", [1, 2]), 4))
    assert (report.findings, report.messages, report.dead_letters) == ([], 2, 2)
    report = audit(directory, messages, letters=Taken(array("q", [1]), 4))
    assert (findings(report), report.dead_letters) == ([("missing", 2, 2)], 1)


def test_a_letter_that_was_replayed_lies_between_the_offsets_of_others(
    directory: DirectoryLake,
) -> None:
    put(directory.table(), [0, 1, 3, 4])
    source = TopicGeneration("dead-letters", "place/t")
    [late] = segments([2])
    land([late], table=directory.table(), generations={"t": source})
    report = audit(directory, segments(range(5)))
    assert (report.findings, report.messages, report.files) == ([], 5, 2)


# --- files of another program ---------------------------------------------------------------------


def test_a_compacted_table_is_proven_by_the_ids_of_its_rows(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(3))
    put(lake.table(), range(3, 5))
    DeltaTable(str(lake.root)).optimize.compact()
    put(lake.table(), range(5, 7))
    report = audit(lake, segments(range(7)))
    assert (report.findings, report.messages, report.files) == ([], 7, 2)
    other = segment(pa.table({"n": pa.array([10, 11, 13])}), offset=1, number=1)
    report = audit(lake, [numbered(0), other, *segments(range(3, 7))])
    assert findings(report) == [("different", 1, 1), ("not committed", None, None)]
    assert "segment p-2 is not a message of the topic" in report.findings[1].reason


def test_rows_that_another_program_has_deleted_are_found(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), range(3))
    table = DeltaTable(str(lake.root))
    table.delete("n = 11")
    report = audit(lake, segments(range(3)))
    assert findings(report) == [("different", 1, 1)]
    assert "2 rows, but the message has 3" in report.findings[0].reason


def test_nothing_is_proven_where_rows_may_be_deleted_by_deletion_vectors(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    put(lake.table(), [0])
    DeltaTable(str(lake.root)).alter.add_feature(
        TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
    )
    with pytest.raises(LakeError, match="deletion vectors"):
        audit(lake, segments([0]))


def test_rows_without_ids_are_not_provable(directory: DirectoryLake) -> None:
    put(directory.table(), range(2))
    pq.write_table(pa.table({"n": [1]}), directory.root / "t" / "other.parquet")
    [finding] = audit(directory, segments(range(2))).findings
    assert (finding.kind, finding.file) == ("not provable", "t/other.parquet")
    assert "its rows have no ids" in finding.reason


def test_files_of_a_partition_without_a_fence_are_found(directory: DirectoryLake) -> None:
    put(directory.table(), range(2))
    [entry] = directory.root.glob("_columnar/log/*.json")
    values = json.loads(entry.read_text())
    values["fences"][FENCE]["partition"] = 1
    entry.write_text(json.dumps(values))
    report = audit(directory, [])
    assert findings(report) == [("past the fence", 0, 1)]


# --- values ---------------------------------------------------------------------------------------


def test_values_are_equal_as_values() -> None:
    nan = pa.table({"x": [float("nan"), None], "n": pa.array([1, 2], pa.int32())})
    wider = pa.table({"x": [float("nan"), None], "n": pa.array([1, 2], pa.int64()), "y": [0, 0]})
    assert equal(wider, nan)
    assert not equal(nan, wider)  # a column is missing
    assert not equal(wider, nan.slice(1))
    assert not equal(wider, nan.set_column(0, "x", [[None, float("nan")]]))
