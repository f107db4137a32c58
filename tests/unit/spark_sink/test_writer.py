"""What the driver does with staged files, without a Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lakes import DirectoryLake, staged

from columnar_kafka.lake.model import MayHaveLandedError, NotLandedError
from columnar_kafka.lake.plan import Layout
from columnar_kafka.lake.rules import Rules
from spark_sink.sink import Settings, StreamWriter, TaskResult

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


def writer(table: Any) -> StreamWriter:
    return StreamWriter(Settings(table=table, layout=Layout(), rules=Rules(), config={}))


def files(lake: DirectoryLake) -> int:
    return len(list(lake.root.glob("_columnar/staged/*")))


def test_after_a_failed_task_the_staged_files_are_removed(lake: DirectoryLake) -> None:
    table = lake.table()
    writer(table).abort([TaskResult((staged(table, [0]),)), None], 0)
    assert files(lake) == 0


@pytest.mark.parametrize(("error", "left"), [(MayHaveLandedError, 1), (NotLandedError, 0)])
def test_after_a_commit_they_are_kept_unless_it_surely_did_not_land(
    lake: DirectoryLake, error: type[Exception], left: int
) -> None:
    table = lake.table()
    messages = [TaskResult((staged(table, [0]),))]

    def fails(_: object) -> None:
        raise error("no answer")

    table.commit = fails
    with pytest.raises(error):
        writer(table).commit(messages, 0)
    writer(table).abort(messages, 0)
    assert files(lake) == left
