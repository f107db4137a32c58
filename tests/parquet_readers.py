"""Readers of Parquet that are not ours, each in a process of its own: they may crash.

`parquet_readers.py READER PATH…` prints a line for each file: the number of its rows, or `refused`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REFUSED = "refused"


def _with_pyarrow(path: str) -> int:
    table = pq.read_table(path)
    table.validate(full=True)
    return int(table.num_rows)


def _with_duckdb(path: str) -> int:
    with duckdb.connect() as connection:
        return len(connection.execute("from read_parquet(?)", [path]).fetchall())


def _with_polars(path: str) -> int:
    return pl.read_parquet(path).height


READERS: dict[str, Callable[[str], int]] = {
    "pyarrow": _with_pyarrow,
    "duckdb": _with_duckdb,
    "polars": _with_polars,
}


def read(reader: str, paths: Sequence[str]) -> dict[str, str]:
    """Read files with one reader; return the number of rows of each, or why there is none."""
    outcomes: dict[str, str] = {}
    while left := [path for path in paths if path not in outcomes]:
        done = subprocess.run(
            [sys.executable, __file__, reader, *left],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        outcomes |= dict(zip(left, done.stdout.split(), strict=False))
        for path in left[len(done.stdout.split()) :][:1]:
            outcomes[path] = f"crashed with {done.returncode}"
    return outcomes


def main(reader: str, paths: list[str]) -> None:
    for path in paths:
        try:
            outcome = str(READERS[reader](path))
        except BaseException:  # noqa: BLE001 - polars panics with one
            outcome = REFUSED
        sys.stdout.write(f"{outcome}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
