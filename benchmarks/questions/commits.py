"""What does a commit cost when there have been ten thousand?"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable

from benchmarks.answer import Answer
from benchmarks.child import Child, Clock
from benchmarks.lakes import FORMAT_NAMES, GENERATIONS, table_in
from benchmarks.segments import segments
from columnar_kafka.lake.landing.stage import land

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "A table that lands for long, a commit"
IS_LONG = True
ABOUT = """A segment of four flights a commit, on this machine's disk, with the properties of new
tables; the Delta table lets its log expire after a minute (`delta.logRetentionDuration`). CPU of
all that landing takes, on average over a hundred commits: the second hundred, and the last. The
bytes are those of logs and metadata, beside the data."""

COMMITS: Final = 10_000
WINDOW: Final = 100
ROWS: Final = 4
AT_MOST: Final = 1.5
EARLY, LATE = f"after {WINDOW}", "at the end"
_LOGS: Final = ("_delta_log", "_columnar", "metadata")


class Committing:
    """Lands one segment after the other; lives in a child."""

    def __init__(self, table_format: str, count: int) -> None:
        self._format, self._count = table_format, count

    def run(self) -> list[tuple[int, float, int]]:
        """Return commits so far, ms of CPU for each of the last, and bytes of metadata."""
        with TemporaryDirectory() as folder:
            return self._run(folder)

    def _run(self, folder: str) -> list[tuple[int, float, int]]:
        table = table_in(folder, self._format)
        points = []
        clock = Clock()
        for number, segment in enumerate(segments(self._count * ROWS, ROWS), 1):
            land([segment], table=table, generations=GENERATIONS)
            if number == 1 and self._format == "delta":
                lake = DeltaTable(f"{folder}/lake")
                lake.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 minute"})
            if number % WINDOW == 0:
                points.append((number, clock.stop().cpu / WINDOW * 1e3, _nbytes(folder)))
                clock = Clock()
        return points


def _nbytes(folder: str) -> int:
    paths = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return sum(path.stat().st_size for path in paths if set(path.parts).intersection(_LOGS))


def answer(bench: Bench) -> Answer:
    """Land in a table of each format, one after the other."""
    results = Answer()
    for name in FORMAT_NAMES:
        bench.say(name)
        child = Child(Committing, name, bench.rows(COMMITS, 3 * WINDOW))
        try:
            points = child.call("run")
        finally:
            child.close()
        early, late = points[1], points[-1]
        for when, (_, cpu, nbytes) in ((EARLY, early), (LATE, late)):
            results.add(name, when, "CPU ms", cpu)
            results.add(name, when, "metadata MB", nbytes / 1e6)
        results.limit(f"{name}: CPU, {LATE} / {EARLY}", [late[1] / early[1]], AT_MOST, "×")
    return results
