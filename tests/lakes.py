"""Tables of every kind for the tests of the lake, each with a reader that is not ours."""

from __future__ import annotations

import datetime
import os
import uuid
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSelector, LocalFileSystem, SubTreeFileSystem
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from questions import (
    arrow_engine,
    ask,
    datafusion_engine,
    duckdb_engine,
    iceberg_engine,
    polars_engine,
)
from segments import segments
from support import is_long

from columnar_kafka.lake.aside.dead_letters import DeadLetters
from columnar_kafka.lake.audit.audit import TopicAudit
from columnar_kafka.lake.landing.stage import land, stage
from columnar_kafka.lake.model import MayHaveLandedError, StageResult, TopicGeneration
from columnar_kafka.lake.plan import Layout, Planner
from columnar_kafka.lake.tables.bounds import wrong_files
from columnar_kafka.lake.tables.delta.table import DeltaLakeTable
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.lake.tables.iceberg.files import file_io_properties
from columnar_kafka.lake.tables.iceberg.table import IcebergTable
from columnar_kafka.lake.tables.local_files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from minio import Bucket
    from questions import Engines

    from columnar_kafka.lake.audit.audit import AuditReport
    from columnar_kafka.lake.model import CommitResult, Fence

os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # or polars warns

GENERATIONS = {"t": TopicGeneration("cluster", "id")}
FENCE = "kafka:cluster:id:0"

FIRST = pa.table({"n": [1], "s": [{"a": 1}], "list": [[{"x": 1}]]})
GROWN = pa.table(
    {
        "more": ["text"],
        "n": [2],
        "s": [{"b": [True], "a": 2}],
        "list": [[{"x": 2, "y": 2.5}]],
    }
)
"""Segments before and after columns were added to the schema."""
NARROW = pa.table(
    {
        "n": pa.array([1], pa.int32()),
        "f": pa.array([1.5], pa.float32()),
        "d": pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
        "s": pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
        "list": pa.array([[1]], pa.list_(pa.int32())),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
    }
)
WIDE = pa.table(
    {
        "n": [2],
        "f": [1e300],
        "d": pa.array([Decimal("123456789.25")], pa.decimal128(20, 2)),
        "s": [{"a": 1 << 40}],
        "list": [[1 << 40]],
        "map": pa.array([[("k", 1 << 40)]], pa.map_(pa.string(), pa.int64())),
    }
)
"""Segments before and after types became wider."""


def every_type(**more: pa.Array) -> pa.Table:
    """Return two rows, the second of nulls, with the types of every table, and more columns."""
    when = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
    columns = {
        "flag": pa.array([True, None]),
        "small": pa.array([1, None], pa.int8()),
        "int": pa.array([1, None], pa.int32()),
        "float": pa.array([1.5, None], pa.float32()),
        "double": pa.array([1.5, None]),
        "text": pa.array(["a", None], pa.large_string()),
        "bytes": pa.array([b"a", None]),
        "day": pa.array([when.date(), None]),
        "time": pa.array([when, None], pa.timestamp("us", "UTC")),
        "local": pa.array([when, None], pa.timestamp("us")),
        "money": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)),
        "list": pa.array([[1], None], pa.list_(pa.int64())),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "nested": pa.array([{"a": {"b": [{"c": 1}]}}, None]),
    }
    return pa.table(columns | more)


def targets() -> list[Any]:
    """Return parameters of a fixture for `lake_at`: each kind, and in long tests on servers too."""
    kinds = {"directory": DirectoryLake, "delta": DeltaLake, "iceberg": IcebergLake}
    params = [pytest.param((kind, ""), id=name) for name, kind in kinds.items()]
    if is_long():
        params += [
            pytest.param((kind, server), id=f"{name}-{server}", marks=pytest.mark.long)
            for name, kind in kinds.items()
            for server in ("minio", "iceberg_rest")
            if server == "minio" or kind is IcebergLake
        ]
    return params


def lake_at(request: pytest.FixtureRequest, root: Path) -> Any:
    """Return the lake of a fixture's parameter, in a folder or on a server."""
    kind, server = request.param
    bucket = request.getfixturevalue(server).place(uuid.uuid4().hex) if server else None
    return kind(root, bucket)


class QuickFiles(LocalFiles):
    """Does not wait for the disk: the machine does not crash in these tests."""

    def sync(self, file: Any) -> None:
        file.flush()

    def sync_folder(self, folder: Path) -> None:
        assert folder.is_dir()


class Lake:
    """A table in a folder of this machine, or of a bucket."""

    def __init__(self, root: Path, bucket: Bucket | None = None) -> None:
        self.root = root
        self.bucket = bucket

    def options(self) -> dict[str, Any]:
        return {"files": self.bucket.files() if self.bucket else QuickFiles()}

    def filesystem(self) -> SubTreeFileSystem:
        """Return the files of the table, by paths relative to it."""
        if self.bucket:
            return self.bucket.filesystem()
        return SubTreeFileSystem(str(self.root), LocalFileSystem())

    def data_files(self) -> list[str]:
        """Return the paths of all data files, landed or not."""
        infos = self.filesystem().get_file_info(
            FileSelector("", allow_not_found=True, recursive=True)
        )
        return [info.path for info in infos if info.path.endswith((".parquet", ".segment"))]


class DirectoryLake(Lake):
    """A directory of Parquet files."""

    def spark_options(self) -> dict[str, str]:
        """Return the options by which Spark's sink finds the table."""
        return {"path": str(self.bucket or self.root), "table.format": "parquet"}

    def table(self, **options: Any) -> Any:
        return ParquetDirectory(self.bucket or self.root, **{**self.options(), **options})

    def read(self) -> pa.Table:
        files = self.filesystem()
        landed = [file for file in self.data_files() if not file.startswith("_")]
        return pa.concat_tables(pq.read_table(path, filesystem=files) for path in sorted(landed))

    def engines(self) -> Engines:
        """Return what answers questions about the table; nothing does in a bucket."""
        if self.bucket:
            return {}
        paths = [str(path) for path in self.root.glob("[!_]*/*.parquet")]
        schemas = [pq.read_schema(path).remove_metadata() for path in paths]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        dataset = pads.dataset(paths, schema=schema)
        places = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        return {
            "pyarrow": (arrow_engine(dataset), False),
            "duckdb": (duckdb_engine(f"read_parquet([{places}], union_by_name=true)"), True),
            "polars": (polars_engine(partial(_scan_parquet, paths)), True),
        }


class DeltaLake(Lake):
    """A Delta table, read with deltalake."""

    def spark_options(self) -> dict[str, str]:
        """Return the options by which Spark's sink finds the table."""
        return {"path": str(self.bucket or self.root), "table.format": "delta"}

    def table(self, **options: Any) -> Any:
        return DeltaLakeTable(self.bucket or self.root, **{**self.options(), **options})

    def load(self) -> DeltaTable:
        """Return deltalake's own table."""
        storage = self.bucket.storage if self.bucket else {}
        return DeltaTable(str(self.bucket or self.root), storage_options=storage)

    def read(self) -> pa.Table:
        return self.load().to_pyarrow_table()

    def engines(self) -> Engines:
        """Return what answers questions about the table."""
        table = self.load()
        dataset = table.to_pyarrow_dataset()
        engines: Engines = {
            "deltalake": (arrow_engine(dataset), False),
            "duckdb": (duckdb_engine(dataset), True),
            "DataFusion": (datafusion_engine(table), True),
        }
        if POLARS_READS_ALL and not self.bucket:
            engines["polars"] = polars_engine(partial(pl.scan_delta, table)), True
        return engines

    def files(self) -> list[str]:
        return sorted(self.load().file_uris())


class IcebergLake(Lake):
    """An Iceberg table in a catalog on SQLite, or a REST catalog, read with pyiceberg."""

    def __init__(self, root: Path, bucket: Bucket | None = None) -> None:
        root.mkdir(exist_ok=True)
        self.catalog = {"name": "tests", "type": "sql", "uri": f"sqlite:///{root}/catalog.db"}
        self.name = "lake.t"
        if bucket and bucket.catalog:
            self.catalog = {"name": "tests", "type": "rest", "uri": bucket.catalog}
            self.name = f"{bucket.path.rpartition('/')[2]}.t"
            bucket = bucket / "t"
        elif bucket:
            self.catalog["warehouse"] = str(bucket)
            bucket = bucket / "lake" / "t"
        else:
            self.catalog["warehouse"] = f"file://{root}"
        super().__init__(root / "lake" / "t", bucket)

    def spark_options(self) -> dict[str, str]:
        """Return the options by which Spark's sink finds the table."""
        catalog = {f"table.catalog.{key}": value for key, value in self.catalog.items()}
        return {"path": self.name, "table.format": "iceberg", **catalog}

    def options(self) -> dict[str, Any]:
        if self.bucket:
            return {"catalog": self.catalog, "storage": self.bucket.storage}
        return {"catalog": self.catalog, **super().options()}

    def table(self, **options: Any) -> Any:
        return IcebergTable(self.name, **{**self.options(), **options})

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Yield pyiceberg's own table, and keep its catalog open, which a change needs."""
        storage = file_io_properties(self.bucket.storage if self.bucket else {})
        with closing(load_catalog(**self.catalog, **storage)) as catalog:
            yield catalog.load_table(self.name)

    def load(self) -> Any:
        """Return pyiceberg's own table to be read."""
        with self.opened() as table:
            return table

    def read(self) -> pa.Table:
        return self.load().scan().to_arrow()

    def engines(self) -> Engines:
        """Return what answers questions about the table."""
        table = self.load()
        engines: Engines = {"pyiceberg": (iceberg_engine(table), False)}
        if POLARS_READS_ALL and not self.bucket:
            engines["polars"] = polars_engine(partial(pl.scan_iceberg, table)), True
        return engines


def _scan_parquet(paths: list[str]) -> pl.LazyFrame:
    """Scan files whose columns may differ."""
    return pl.concat([pl.scan_parquet(path) for path in paths], how="diagonal_relaxed")


POLARS_READS_ALL = tuple(map(int, pl.__version__.split(".")[:2])) >= (2, 1)
"""Before 2.1, which Python 3.10 cannot have, polars refuses the milliseconds of Delta and Iceberg
tables, as in `_kafka.timestamp`."""

needs_polars = pytest.mark.skipif(
    not POLARS_READS_ALL, reason="polars before 2.1 has no such casts"
)
needs_added_fields = pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 19,
    reason="pyarrow's datasets before 19 add no fields to structs",
)


def by_polars(frame: pl.LazyFrame) -> pl.DataFrame:
    """Return what polars reads of a Delta or Iceberg table."""
    return (frame if POLARS_READS_ALL else frame.drop("_kafka")).collect()


QUICKLY: dict[str, Any] = {"values": 1, "comparisons": ["="]}
"""How tests ask for what has landed; `test_filters` asks for more."""


def rows(lake: Any) -> list[int]:
    """Return the values of n in a table of `segments`, ascending; engines find each by a filter."""
    table = lake.read().select(["n"])
    try:
        ask(lake, table, **QUICKLY)
    except AssertionError:
        if lake.read().num_rows == table.num_rows:  # or others have landed more meanwhile
            raise
    return sorted(table["n"].to_pylist())


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


def wrong(lake: Any) -> list[tuple[str, ...]]:
    """Return the columns in which each wrong file of a table hides rows."""
    table = lake.table()
    return [file.columns for file in wrong_files(table, table.head())]


def audit(
    lake: Any, messages: Any, *, low: int = 0, letters: Any = None, decoding: Any = None
) -> AuditReport:
    """Do as `compared`; of a table in order, also ask each engine for its rows."""
    report = compared(lake, messages, low=low, letters=letters, decoding=decoding)
    if not report.findings and report.files and not isinstance(lake, DirectoryLake):
        table = lake.read()
        ask(lake, table.drop([name for name in table.column_names if name == "_kafka"]), **QUICKLY)
    return report


def compared(
    lake: Any, messages: Any, *, low: int = 0, letters: Any = None, decoding: Any = None
) -> AuditReport:
    """Compare a table with the messages of its only partition; `low` is Kafka's first offset."""
    table = lake.table(**({} if isinstance(lake, DirectoryLake) else {"reland": True}))
    head = table.head()
    audit = TopicAudit("t", table.landed_files(head), head.fences, decoding)
    fences = [fence for fence in head.fences.values() if fence.topic == "t"]
    for fence in fences:
        inside = [
            message for message in messages if max(low, fence.first) <= message.offset < fence.next
        ]
        audit.compare(fence, low, inside, letters)
    return audit.finish([fence.partition for fence in fences])


class Dies:
    """A table whose process dies at its next commit."""

    def __init__(self, table: Any, error: BaseException) -> None:
        self._table = table
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, staged: Any) -> Any:
        raise self._error


def place_at(path: Path) -> DeadLetters:
    """Return a place of dead letters."""
    return DeadLetters(ParquetDirectory(path, files=QuickFiles()))


def letters(place: DeadLetters) -> list[dict[str, Any]]:
    """Read a place as anybody may."""
    files = sorted(place.table.root.glob("*/*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def lose_an_answer(monkeypatch: pytest.MonkeyPatch, after: Callable[[], object]) -> None:
    """Let the next commit of an Iceberg table land, then `after` happen, and tell of a conflict."""
    commit_table = SqlCatalog.commit_table

    def lost(self: Any, *arguments: Any) -> Any:
        commit_table(self, *arguments)
        monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
        after()
        raise CommitFailedException("the table has changed")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)


@contextmanager
def catalog_gone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commits of Iceberg tables fail before they land, in a way that does not say so."""

    def fails(*_: Any) -> Any:
        raise ConnectionError("reset by peer")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", fails)
        with pytest.raises(MayHaveLandedError, match="may still arrive: reset by peer"):
            yield
