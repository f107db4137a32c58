"""What does reading a stitched file cost, against one with large row groups?"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import polars
import pyarrow.parquet as pq

from benchmarks.answer import CPU, WALL, Answer
from benchmarks.child import Child, Children, Clock, Cost, tree_cpu
from benchmarks.measured import Claim, compare_tables, ratios
from benchmarks.segments import TOPIC, rows_of, segments, table_of
from columnar_kafka.ingest import Layout, open_table
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import TopicGeneration
from columnar_kafka.local.spark import local_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench

TITLE = "Reading what has landed, a row"
IS_LONG = True
ABOUT = """The same 2,097,152 flights with their column `_kafka` in three files: *written* by
pyarrow with zstd and row groups of 1,048,576 rows; *stitched* of segments, which are a row group
each; *compacted* of four stitched files, as `columnar-kafka compact` does it. All columns, or one
(`arr_delay`), are read into Arrow's format; Spark reads them and writes nothing (`noop`). CPU is
that of the process with all its threads, and of Spark's Java."""

ROWS: Final = 1 << 21
GROUP_ROWS: Final = 1 << 20
LARGE, SMALL = "1 MB segments", "64 KB segments"
SIZES: Final = {1_000_000: LARGE, 64_000: SMALL}
FILES_BEFORE: Final = 4
WRITTEN, STITCHED, COMPACTED = "written", "stitched", "compacted"
COLUMNS: Final[dict[str, list[str] | None]] = {"all columns": None, "one column": ["arr_delay"]}
MORE: Final = {(LARGE, "all columns"): 10.0, (LARGE, "one column"): 35.0}
MORE_COMPACTED: Final = 5.0
SPARK: Final = "Spark"
_FILE_BYTES: Final = 1 << 30


class Writing:
    """Makes the files; lives in a child."""

    def write(self, root: str, nbytes: int, rows: int) -> dict[str, str]:
        """Return the path of each file. Raises UnequalError if one has not all rows once."""
        segment_rows = min(rows, rows_of(nbytes))
        stitched = _landed(f"{root}/{STITCHED}", rows, segment_rows, files=1)
        compacted = _landed(f"{root}/{COMPACTED}", rows, segment_rows, files=FILES_BEFORE)
        table, written = pq.read_table(stitched, partitioning=None), f"{root}/{WRITTEN}.parquet"
        pq.write_table(table, written, GROUP_ROWS, compression="zstd", write_page_checksum=True)
        compare_tables(table_of(rows), table, STITCHED)
        read = pq.read_table(compacted, partitioning=None)
        compare_tables(table.flatten(), read.flatten(), COMPACTED)  # a struct cannot be sorted
        return {WRITTEN: written, STITCHED: stitched, COMPACTED: compacted}


def _landed(root: str, rows: int, segment_rows: int, *, files: int) -> str:
    """Land segments, compact several files, and return the path of the only one."""
    table = open_table("parquet", root)
    count = -(-rows // segment_rows)
    layout = Layout(file_bytes=_FILE_BYTES, file_segments=-(-count // files))
    generations = {TOPIC: TopicGeneration("cluster", "id")}
    land(segments(rows, segment_rows), table=table, generations=generations, layout=layout)
    if files > 1:
        table.compact(_FILE_BYTES)
    (path,) = Path(root).rglob("[!._]*.parquet")
    return str(path)


class Reading:
    """Reads files with one engine; lives in a child."""

    def __init__(self, engine: str) -> None:
        self._kept = ExitStack()  # until the process ends
        self._read = self._spark() if engine == SPARK else _READERS[engine]

    def read(self, path: str, columns: list[str] | None) -> Cost:
        """Measure one round: all columns once, or some columns several times."""
        clock = Clock(tree_cpu)
        for _ in range(_repeats(columns)):
            self._read(path, columns)
        return clock.stop()

    def _spark(self) -> Callable[[str, list[str] | None], Any]:
        spark = self._kept.enter_context(local_spark())

        def read(path: str, columns: list[str] | None) -> None:
            rows = spark.read.parquet(path).select(columns or ["*"])
            rows.write.format("noop").mode("overwrite").save()

        return read


def _repeats(columns: list[str] | None) -> int:
    return 1 if columns is None else 5  # one column takes milliseconds


def _by_pyarrow(path: str, columns: list[str] | None) -> Any:
    return pq.read_table(path, columns=columns, partitioning=None)


def _by_duckdb(path: str, columns: list[str] | None) -> Any:
    rows = duckdb.read_parquet(path)
    return (rows.select(*columns) if columns else rows).to_arrow_table()


def _by_polars(path: str, columns: list[str] | None) -> Any:
    return polars.read_parquet(path, columns=columns)


_READERS: Final[dict[str, Callable[[str, list[str] | None], Any]]] = {
    "pyarrow": _by_pyarrow,
    "duckdb": _by_duckdb,
    "polars": _by_polars,
}


def answer(bench: Bench) -> Answer:
    """Read the files of each size with all engines in turn."""
    found = Answer()
    engines = (*_READERS, SPARK)
    with (
        tempfile.TemporaryDirectory() as root,
        Children({engine: Child(Reading, engine) for engine in engines}) as readers,
    ):
        for nbytes, size in SIZES.items():
            bench.say(f"{size}: writing")
            writer = Child(Writing)
            try:
                paths = writer.call("write", f"{root}/{nbytes}", nbytes, bench.rows(ROWS))
            finally:
                writer.close()
            for what, columns in COLUMNS.items():
                _case(bench, found, readers, paths, what, columns, size)
    return found


def _case(
    bench: Bench,
    found: Answer,
    readers: Children,
    paths: dict[str, str],
    what: str,
    columns: list[str] | None,
    size: str,
) -> None:
    costs: dict[tuple[str, str], list[Cost]] = {}
    for number in range(1 + bench.rounds):  # the first one does not count
        for engine, reader in readers:
            bench.say(f"{size}, {what}, {engine}")
            order = 1 if number % 2 else -1  # an engine that is still warming up favours no file
            for file, path in list(paths.items())[::order]:
                cost = reader.call("read", path, columns)
                if number:
                    costs.setdefault((engine, file), []).append(cost)
    rows = bench.rows(ROWS) * _repeats(columns)
    for (engine, file), rounds in costs.items():
        case = f"{size}, {what}, {engine}"
        found.add(case, file, CPU, [each.cpu * 1e6 / rows for each in rounds])
        found.add(case, file, WALL, [each.wall * 1e6 / rows for each in rounds])
    for engine, _ in readers:
        case = f"{size}, {what}, {engine}"
        written = found.values(case, WRITTEN)
        for file, limit in ((STITCHED, MORE.get((size, what))), (COMPACTED, MORE_COMPACTED)):
            over = ratios(found.values(case, file), written)
            more = tuple((each - 1) * 100 for each in over)
            name = f"{case}: CPU, {file} - written"
            found.claims.append(Claim(name, more, at_most=limit, unit="%"))
