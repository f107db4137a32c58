"""A disk that is full while landing: the error says what was being written; nothing is lost."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from lakes import (
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    QuickFiles,
    put,
    rows,
)
from pyiceberg.io.pyarrow import PyArrowFileIO
from segments import numbers, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.dead_letters import DeadLetters
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import NotLandedError, SourceMessage
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


def test_an_entry_of_the_log_is_named(tmp_path: Path) -> None:
    table = ParquetDirectory(tmp_path, files=FullFiles(where=".draft"))
    with pytest.raises(NotLandedError, match=FULL) as raised:
        put(table, [0])
    assert f"'{tmp_path}/_columnar/log/{1:020}.json'" in str(raised.value)
    assert str(table) in str(raised.value)


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


def test_the_files_that_are_merged_are_named(tmp_path: Path) -> None:
    lake = DirectoryLake(tmp_path)
    land(segments([0]), table=lake.table(), generations=GENERATIONS)
    land(segments([1]), table=lake.table(), generations=GENERATIONS)
    with pytest.raises(LakeError, match=rf"^t/p0-0.* to t/p0-0.*1\.parquet: {FULL}"):
        lake.table(files=FullFiles()).compact(1 << 20)


def test_an_error_without_a_number_keeps_its_text(tmp_path: Path) -> None:
    """As a store's are."""

    class Lost(QuickFiles):
        def write(self, file: Any, data: Any) -> int:
            raise OSError("reset by peer")

    with pytest.raises(OSError, match=r"t\[0\] from offset 0, file .*: reset by peer"):
        put(ParquetDirectory(tmp_path, files=Lost()), [0])
