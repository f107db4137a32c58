"""Tables that have grown or have partitions, as Spark reads them: a release with Delta and Iceberg.

Their runtimes for the Spark of the other tests do not exist. So an older one is kept in the cache.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from lakes import (
    FIRST,
    GENERATIONS,
    GROWN,
    NARROW,
    WIDE,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    audit,
    put,
    rows,
)
from questions import questions, spark_condition
from segments import numbers, segment, segments
from support import require_java

from columnar_kafka.lake.landing.stage import land
from columnar_kafka.local.java import jars, once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.timeout(1200)

PYSPARK = "pyspark==4.0.1"
JARS = """
<dependency org="io.delta" name="delta-spark_2.13" rev="4.0.1" conf="default"/>
<dependency org="org.apache.iceberg" name="iceberg-spark-runtime-4.0_2.13" rev="1.10.1"
 transitive="false" conf="default"/>
"""
SQLITE = '<dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0" conf="default"/>'


class Case(NamedTuple):
    """The segments of a topic, what the new table is partitioned by, and a filter.

    If it `is_compacted`, the files are merged when all have landed.
    """

    tables: list[pa.Table]
    partition_by: Sequence[str] = ()
    condition: str = "true"
    matches: Callable[[dict[str, Any]], bool] = bool
    is_compacted: bool = False


def texts(n: list[int], c: list[str | None]) -> pa.Table:
    return pa.table({"n": n, "c": pa.array(c, pa.string())})


TEXTS: list[str | None] = ["DE /%=", "ü", "a#b?c", "x y", "a:b", None, "null", "../..", "."]
TYPES = pa.table(
    {
        "n": [1, 2, 3],
        "flag": [True, False, None],
        "short": pa.array([1, -2, None], pa.int16()),
        "long": [1 << 40, -(1 << 40), None],
        "day": [datetime.date(2024, 1, 2), datetime.date(1969, 12, 31), None],
    }
)
NIGHT = datetime.datetime(2023, 12, 31, 23, 59, 59)  # noqa: DTZ001 - the column has the zone
TIMES = pa.table(
    {
        "n": [1, 2],
        "ts": pa.array([NIGHT, NIGHT + datetime.timedelta(seconds=1)], pa.timestamp("ms", "UTC")),
    }
)
MOMENT = pa.table(
    {
        "n": list(range(3, 53)),
        "ts": pa.array([NIGHT + datetime.timedelta(seconds=9)] * 50, pa.timestamp("ms", "UTC")),
    }
)
FILLED = {"_kafka_topic": "t", "_kafka_partition": 0}
CASES = {
    "grown": Case([FIRST, GROWN, FIRST]),
    "texts": Case([texts(list(range(9)), TEXTS)], ["c"], "c = 'x y'", lambda row: row["n"] == 3),
    "whole": Case(
        [texts([1, 2], ["a", "a"]), texts([3], ["b"])], ["c"], "c = 'a'", lambda row: row["n"] < 3
    ),
    "filled": Case([texts([1, 2], ["a", "b"])], list(FILLED), "_kafka_partition = 0"),
    "types": Case([TYPES], ["flag", "short", "long", "day"], "long < 0", lambda row: row["n"] == 2),
}
TABLES: dict[str, tuple[Any, Case]] = {
    "narrow then wide, IcebergLake": (IcebergLake, Case([NARROW, WIDE, NARROW])),
    "wide then narrow, DeltaLake": (DeltaLake, Case([WIDE, NARROW])),
    "days, IcebergLake": (
        IcebergLake,
        Case([TIMES], ["day(ts)"], "ts >= '2024-01-01T00:00:00Z'", lambda row: row["n"] == 2),
    ),
    "a filter by milliseconds, IcebergLake": (
        IcebergLake,
        Case([TIMES, MOMENT], [], "ts >= '2024-01-01T00:00:00Z'", lambda row: row["n"] > 1),
    ),
    "a filter by one millisecond, IcebergLake": (
        IcebergLake,
        Case([TIMES, MOMENT], [], "ts = '2024-01-01T00:00:08Z'", lambda row: row["n"] > 2),
    ),
    "a filter by the times of records, IcebergLake": (
        IcebergLake,
        Case([TIMES], [], "_kafka.timestamp = '1970-01-01T00:00:00.001Z'", lambda r: r["n"] == 2),
    ),
    "a filter by milliseconds of merged files, IcebergLake": (
        IcebergLake,
        Case([TIMES, MOMENT], (), "ts = '2024-01-01T00:00:08Z'", lambda row: row["n"] > 2, True),
    ),
    "merged partitions, IcebergLake": (
        IcebergLake,
        Case(
            [texts([1, 2], ["a", "b"]), texts([3, 4], ["a", "b"])],
            ["c"],
            "c = 'a'",
            lambda row: row["c"] == "a",
            True,
        ),
    ),
    "truncated, IcebergLake": (
        IcebergLake,
        Case([texts([1, 9, 11], ["ab", "abc", "x"])], ["truncate(2, c)", "truncate(10, n)"]),
    ),
    "grown, DirectoryLake": (DirectoryLake, CASES["grown"]),
    **{
        f"{name}, {kind.__name__}": (kind, case)
        for name, case in CASES.items()
        for kind in (DeltaLake, IcebergLake)
    },
}


def landed(root: Path, kind: Any, case: Case) -> tuple[str, str]:
    """Land the segments in a table; return its format and its place for Spark."""
    lake = kind(root)
    options = {"partition_by": case.partition_by} if case.partition_by else {}
    for offset, data in enumerate(case.tables):
        message = segment(data, offset=offset, number=offset)
        land([message], table=lake.table(**options), generations=GENERATIONS)
    if case.is_compacted:
        lake.table().compact(1 << 20)
    if kind is IcebergLake:
        return "iceberg", lake.load().metadata_location.removeprefix("file://")
    return ("delta", f"{root}") if kind is DeltaLake else ("parquet", f"{root}/t")


def spark(root: Path, script: str, asked: Any) -> Any:
    """Return what a script on Spark answers."""
    packages = once(PYSPARK.replace("==", "-"), install)
    folders = [jars("spark-4.0-tables", JARS), jars("sqlite-jdbc-3.50.3.0", SQLITE)]
    joined = ",".join(sorted(str(path) for folder in folders for path in folder.glob("*.jar")))
    question, answer = root / "asked.json", root / "answers.json"
    question.write_text(json.dumps(asked))
    script = str(Path(__file__).with_name(script))
    variables = {"PYTHONPATH": str(packages), "TZ": "UTC", "SPARK_HOME": str(packages / "pyspark")}
    command = [sys.executable, script, str(question), str(answer), joined]
    subprocess.run(command, env={**os.environ, **variables}, check=True, timeout=900)
    return json.loads(answer.read_text())


def install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    subprocess.run([*pip, PYSPARK], check=True)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What Spark reads from all tables."""
    require_java()
    root = tmp_path_factory.mktemp("tables")
    asked = {
        name: (*landed(root / f"table{number}", kind, case), case.condition)
        for number, (name, (kind, case)) in enumerate(TABLES.items())
    }
    return spark(root, "read_on_spark.py", asked)


def plain(value: Any) -> Any:
    """Return a value as the other process does."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    return str(value)


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_what_was_sent(answers: Any, name: str) -> None:
    _, case = TABLES[name]
    table = pa.concat_tables(case.tables, promote_options="permissive")
    rows = table.to_pylist(maps_as_pydicts="strict")
    filled = {key: value for key, value in FILLED.items() if key in case.partition_by}
    sent = json.dumps([{**row, **filled} for row in rows if case.matches(row)], default=plain)
    assert sorted(answers[name], key=str_of) == sorted(json.loads(sent), key=str_of)


def str_of(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


LATER = NIGHT + datetime.timedelta(microseconds=1)
FILTERED = [
    pa.table(
        {
            "text": ["alpha", None],
            "x": [1.0, -math.inf],
            "f": pa.array([1.5, None], pa.float32()),
            "money": [Decimal("1.25"), Decimal("-999.99")],
            "at": pa.array([NIGHT, None], pa.timestamp("us", "UTC")),
            "flag": [True, False],
        }
    ),
    pa.table(
        {
            "text": ["x" * 100, "\U00020bb7", "a" * 15 + "\ud7ffb"],
            "x": [math.nan, 50.0, math.inf],
            "f": pa.array([2.5, math.inf, -1.0], pa.float32()),
            "money": [Decimal("0.01"), None, Decimal("999.99")],
            "at": pa.array(
                [NIGHT + datetime.timedelta(microseconds=1)] * 3, pa.timestamp("us", "UTC")
            ),
            "flag": [None, True, True],
        }
    ),
]


def test_filters_find_exactly_their_rows_on_spark(tmp_path: Path) -> None:
    require_java()
    asked, counts = {}, {}
    for kind in DeltaLake, IcebergLake:
        for is_compacted in False, True:
            case = Case(FILTERED, is_compacted=is_compacted)
            place = landed(tmp_path / f"{kind.__name__}{is_compacted}", kind, case)
            for question, values in questions(pa.concat_tables(FILTERED), values=3):
                name = f"{kind.__name__}, {is_compacted=}: {question}"
                asked[name] = (*place, spark_condition(question))
                counts[name] = question.count(values, ordered=True)
    results = spark(tmp_path, "read_on_spark.py", asked)
    assert {name: len(table) for name, table in results.items()} == counts


def test_an_iceberg_table_that_spark_maintains_keeps_its_fence(tmp_path: Path) -> None:
    """Its compaction is a snapshot without a fence, and then all of ours expire."""
    require_java()
    lake = IcebergLake(tmp_path / "lake")
    for offset in range(3):
        put(lake.table(), [offset])
    fences = lake.table().fences()
    later = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    compacted, *_ = spark(
        tmp_path,
        "maintain_on_spark.py",
        {
            "catalog": {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": lake.catalog["uri"].replace("sqlite:///", "jdbc:sqlite:"),
                "warehouse": lake.catalog["warehouse"],
                "jdbc.init-catalog-tables": "false",
            },
            "calls": [
                "rewrite_data_files(table => 'lake.t', options => map('min-input-files', '2'))",
                "rewrite_manifests('lake.t')",
                f"expire_snapshots(table => 'lake.t', {later})",
            ],
        },
    )
    assert (compacted[0]["rewritten_data_files_count"], len(lake.data_files())) == (3, 1)
    assert len(lake.load().snapshots()) == 1
    assert lake.table().fences() == fences
    result = put(lake.table(), range(4))
    assert (result.landed_before.messages, result.landed.messages) == (3, 1)
    assert rows(lake) == numbers(range(4))
    assert audit(lake, segments(range(4))).findings == []
