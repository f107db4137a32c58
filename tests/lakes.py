"""Tables of every kind for the tests of the lake, each with a reader that is not ours."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from segments import segments

from columnar_kafka.lake.audit import TopicAudit
from columnar_kafka.lake.delta import DeltaLakeTable
from columnar_kafka.lake.directory import ParquetDirectory
from columnar_kafka.lake.iceberg import IcebergTable
from columnar_kafka.lake.local_files import LocalFiles
from columnar_kafka.lake.model import StageResult, TopicGeneration
from columnar_kafka.lake.plan import Layout, Planner
from columnar_kafka.lake.stage import land, stage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from columnar_kafka.lake.audit import AuditReport
    from columnar_kafka.lake.model import CommitResult, Fence

GENERATIONS = {"t": TopicGeneration("cluster", "id")}
FENCE = "kafka:cluster:id:0"


class QuickFiles(LocalFiles):
    """Does not wait for the disk: the machine does not crash in these tests."""

    def sync(self, file: Any) -> int:
        file.flush()
        return int(file.tell())

    def sync_folder(self, folder: Path) -> None:
        assert folder.is_dir()


class DirectoryLake:
    """A directory of Parquet files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def table(self, **options: Any) -> Any:
        return ParquetDirectory(self.root, **{"files": QuickFiles(), **options})

    def read(self) -> pa.Table:
        return pa.concat_tables(map(pq.read_table, sorted(self.root.glob("*/*.parquet"))))


class DeltaLake:
    """A Delta table, read with deltalake."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def table(self, **options: Any) -> Any:
        return DeltaLakeTable(self.root, **{"files": QuickFiles(), **options})

    def read(self) -> pa.Table:
        return DeltaTable(str(self.root)).to_pyarrow_table()

    def files(self) -> list[str]:
        return sorted(DeltaTable(str(self.root)).file_uris())


class IcebergLake:
    """An Iceberg table in a catalog on SQLite, read with pyiceberg."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        self.catalog = {
            "name": "tests",
            "type": "sql",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"file://{root}",
        }
        self.root = root / "lake" / "t"

    def table(self, **options: Any) -> Any:
        return IcebergTable("lake.t", **{"catalog": self.catalog, "files": QuickFiles(), **options})

    def load(self) -> Any:
        """Return pyiceberg's own table."""
        with closing(load_catalog(**self.catalog)) as catalog:
            return catalog.load_table("lake.t")

    def read(self) -> pa.Table:
        return self.load().scan().to_arrow()


def by_polars(frame: pl.LazyFrame) -> pl.DataFrame:
    """Return what polars reads of a Delta or Iceberg table.

    Before 2.1, which Python 3.10 cannot have, it refuses the milliseconds of `_kafka.timestamp`.
    """
    reads_all = tuple(map(int, pl.__version__.split(".")[:2])) >= (2, 1)
    return (frame if reads_all else frame.drop("_kafka")).collect()


def rows(lake: Any) -> list[int]:
    """Return the values of n in a table of `segments`, ascending."""
    return sorted(lake.read()["n"].to_pylist())


def staged(
    table: Any,
    offsets: Iterable[int],
    *,
    fences: dict[str, Fence] | None = None,
    generation: TopicGeneration | None = None,
    partition: int = 0,
    **layout: Any,
) -> StageResult:
    """Stage segments, for a table that has its own fences unless others are given."""
    planner = Planner(
        fences=table.fences() if fences is None else fences,
        generations={"t": generation} if generation else GENERATIONS,
        layout=Layout(**layout),
    )
    return stage(segments(offsets, partition=partition), table=table, planner=planner)


def put(table: Any, offsets: Iterable[int], **layout: Any) -> CommitResult:
    """Land segments."""
    return land(segments(offsets), table=table, generations=GENERATIONS, layout=Layout(**layout))


def audit(lake: Any, messages: Any, *, low: int = 0, letters: Any = None) -> AuditReport:
    """Compare a table with the messages of its only partition; `low` is Kafka's first offset."""
    table = lake.table(**({} if isinstance(lake, DirectoryLake) else {"reland": True}))
    head = table.head()
    audit = TopicAudit("t", table.landed_files(head))
    fences = [each for each in head.fences.values() if each.topic == "t"]
    for fence in fences:
        inside = [each for each in messages if max(low, fence.first) <= each.offset < fence.next]
        audit.compare(fence, low, inside, letters)
    return audit.finish([fence.partition for fence in fences])
