"""The readers of the lake: plain Spark, and polars, which knows nothing of this package."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars
import pyarrow.parquet as pq

from columnar_kafka.demo import compare, records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.1
_LAND_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lander:
    """Something that lands a topic in `folder`.

    `land` blocks until the folder has that many rows, and calls back with the number of new ones.
    `readers` maps a reader's name to a function that reads the whole folder.
    """

    how: str
    folder: Path
    land: Callable[[int, Callable[[int], None]], None]
    readers: dict[str, Callable[[Path], pa.Table]]


class NotLandedError(Exception):
    """The lake did not get its rows in time; the message says how many it has."""


def rows(folder: Path) -> int:
    """The rows of the Parquet files in a folder, by their footers; 0 if it is not there yet."""
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def describe(folder: Path) -> str:
    """The number of files, and their total size."""
    sizes = [file.stat().st_size for file in folder.glob("*.parquet")]
    return f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"


def wait_for_rows(
    folder: Path, wanted: int, advance: Callable[[int], None], *, check: Callable[[], None]
) -> None:
    """Block until `folder` has that many rows or more; `check` may raise a failure.

    Raises:
        NotLandedError: not within two minutes.
    """
    deadline, shown = time.monotonic() + _LAND_SECONDS, 0
    while True:
        landed = rows(folder)
        advance(landed - shown)
        shown = landed
        if landed >= wanted:
            return
        check()
        if time.monotonic() > deadline:
            raise NotLandedError(
                f"after {_LAND_SECONDS:.0f} s {landed:,} of {wanted:,} rows are in the lake"
            )
        time.sleep(_POLL_SECONDS)


def by_spark(spark: SparkSession, folder: Path) -> pa.Table:
    """The table that `spark.read.parquet` reads."""
    return spark.read.parquet(str(folder)).toArrow()


def by_polars(folder: Path) -> pa.Table:
    """The table that polars reads."""
    return polars.read_parquet(folder / "*.parquet").to_arrow()


def check(expected: pa.Table, seen: pa.Table) -> compare.Comparison:
    """Compare the table that a reader saw with the produced records."""
    try:
        converted = records.from_lake(seen)
    except records.UnexpectedError as error:
        return compare.refused(expected, seen.num_rows, str(error))
    return compare.compare(expected, converted)
