"""A disk that is full while landing: the error says what was being written; nothing is lost."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Any

import pytest
from lakes import (
    FENCE,
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    QuickFiles,
    put,
    rows,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from segments import numbers, staged_file

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.dead_letters import DeadLetters
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import NotLandedError, SourceMessage
from columnar_kafka.lake.tables.bounds import WrongFile, repair
from columnar_kafka.lake.tables.directory.table import ParquetDirectory

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {"directory": DirectoryLake, "delta": DeltaLake, "iceberg": IcebergLake}
FULL = r"\[Errno 28\] No space left on device"


class FullFiles(QuickFiles):
    """Opens files on a disk that is full, and takes what the `room` is for."""

    def __init__(self, room: int = 0, where: str = "") -> None:
        self._room = room
        self._where = where

    def _take(self, file: Any, nbytes: int) -> None:
        if self._where in str(file.name):
            self._room -= nbytes
            if self._room < 0:
                raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, file: Any, data: Any) -> int:
        self._take(file, memoryview(data).nbytes)
        return super().write(file, data)

    def sync(self, file: Any) -> None:
        self._take(file, 1 << 60)
        super().sync(file)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("room", [0, 4, 1 << 60])  # no byte, no segment, none to make it durable
def test_a_staged_file_is_named_with_its_table_and_partition(
    tmp_path: Path, kind: str, room: int
) -> None:
    lake = KINDS[kind](tmp_path / "lake")
    put(lake.table(), [0])
    table = lake.table(files=FullFiles(room))
    with pytest.raises(OSError, match=FULL) as raised:
        put(table, [1, 2])
    assert raised.value.errno == errno.ENOSPC
    assert f"{table}: t[0] from offset 1, file " in str(raised.value)
    assert str(raised.value).rstrip("'").endswith((".segment", ".parquet"))
    assert rows(lake) == numbers([0])
    assert len(lake.data_files()) == 1
    put(lake.table(), range(3))
    assert rows(lake) == numbers(range(3))


def test_the_partition_of_the_table_is_named_too(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    table = lake.table(files=FullFiles(), partition_by=["_kafka_topic"])
    with pytest.raises(OSError, match=r"t\[0\] from offset 0, partition _kafka_topic=t, file "):
        put(table, [0])


class NoFile(QuickFiles):
    """A disk without room for another file's entry."""

    def create(self, path: Path) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))


def test_a_file_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    table = ParquetDirectory(tmp_path, files=NoFile())
    with pytest.raises(OSError, match=rf"{FULL}: .*t\[0\] from offset 0: '{tmp_path}/_columnar/"):
        put(table, [0])


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("directory", f"_columnar/log/{3:020}.json"),
        ("delta", f"_delta_log/{3:020}.json"),
    ],
)
@pytest.mark.parametrize("merges", [False, True])
def test_an_entry_of_the_log_is_named(
    tmp_path: Path, kind: str, entry: str, *, merges: bool
) -> None:
    lake = KINDS[kind](tmp_path / "lake")
    put(lake.table(), [0])
    put(lake.table(), range(2))
    table = lake.table(files=FullFiles(where=".draft"))
    with pytest.raises(NotLandedError, match=FULL) as raised:
        table.compact(1 << 20) if merges else put(table, range(3))
    assert f"'{tmp_path}/lake/{entry}'" in str(raised.value)
    assert str(table) in str(raised.value)
    assert rows(lake) == numbers(range(2))


def test_a_dead_letter_is_named(tmp_path: Path) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    place = DeadLetters(ParquetDirectory(tmp_path / "dead", files=FullFiles()))
    plain = SourceMessage(topic="t", partition=0, offset=7, headers=None, value=b"x", timestamp=0)
    rules = Rules(dead_letters=place, plain="dead-letter")
    with pytest.raises(OSError, match=FULL) as raised:
        land([plain], table=lake.table(), generations=GENERATIONS, rules=rules)
    assert f"{place.table}: t[0] from offset 7, file _columnar/staged/" in str(raised.value)


def test_the_metadata_of_an_iceberg_table_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = IcebergLake(tmp_path / "lake")
    put(lake.table(), [0])

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PyArrowFileIO, "new_output", full)
        with pytest.raises(NotLandedError, match=FULL) as raised:
            put(lake.table(), [1])
    assert "lake.t: nothing has landed: [Errno 28]" in str(raised.value)
    assert f"(metadata of file://{lake.root})" in str(raised.value)
    assert rows(lake) == numbers([0])
    put(lake.table(), range(2))
    assert rows(lake) == numbers(range(2))


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_that_are_merged_are_named_with_their_table(tmp_path: Path, kind: str) -> None:
    lake = KINDS[kind](tmp_path / "lake")
    for count in (1, 2):
        put(lake.table(), range(count))
    table = lake.table(files=FullFiles())
    with pytest.raises(LakeError, match=FULL) as raised:
        table.compact(1 << 20)
    assert str(raised.value).startswith(f"{table}: ")
    assert len(re.findall(r"t/p0-0\S*\.parquet", str(raised.value))) == 2
    assert rows(lake) == numbers(range(2))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_the_file_that_is_repaired_is_named_with_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    lake = KINDS[kind](tmp_path / "lake")
    put(lake.table(), [0])
    table = lake.table(files=FullFiles())
    [path] = table.paths(table.head())
    wrong = WrongFile(staged_file(FENCE, 0, 0, path=path), ("n",), frozenset({0}))
    monkeypatch.setattr(type(table), "checks", lambda *_: [(path, lambda: wrong)])
    with pytest.raises(OSError, match=FULL) as raised:
        repair(table)
    assert f"{table}: {path}" in str(raised.value)


def test_an_error_without_a_number_keeps_its_text(tmp_path: Path) -> None:
    """As a store's are."""

    class Lost(QuickFiles):
        def write(self, file: Any, data: Any) -> int:
            raise OSError("reset by peer")

    with pytest.raises(OSError, match=r"t\[0\] from offset 0, file .*: reset by peer"):
        put(ParquetDirectory(tmp_path, files=Lost()), [0])
