"""How fresh a table is: processes that send at a rate, and that look for what was sent in it."""

from __future__ import annotations

import time
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks import data
from benchmarks.child import Child, Children
from benchmarks.competitors import OURS
from benchmarks.competitors import competitor as make_competitor
from benchmarks.measured import UnequalError
from benchmarks.sending import FLUSH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.bench import Bench

P50, P99, LAST, SHARE, SENT = METRICS = "p50", "p99", "the last", "%", "records a second"
_RATE: Final = 20_000
PARTITIONS: Final = 10
_ROUND_SECONDS: Final = 20.0
EVERY_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 120.0
_BURST: Final = 20  # records a millisecond


class Producing:
    """Sends at a rate; lives in a child."""

    def __init__(self, servers: str, topic: str) -> None:
        log = data.load("log")
        self._rows, self._topic = log.block(1_000, fresh=False), topic
        ours = make_competitor(OURS, log)
        self._encode = ours.encode
        self._producer = ours.producer(servers, [topic])

    def send(self, count: int) -> float:
        """Send `count` records with the time in each, and return how many it were a second."""
        produce, poll, encode = self._producer.produce, self._producer.poll, self._encode
        begin = time.monotonic()
        for place, row in zip(range(count), cycle(self._rows), strict=False):
            if place % _BURST == 0:
                while (left := begin + place / _RATE - time.monotonic()) > 0:
                    poll(0)
                    time.sleep(left)
            at = time.monotonic_ns()
            produce(self._topic, encode({**row, "at": at}), partition=place % PARTITIONS)
        took = time.monotonic() - begin
        if left := self._producer.flush(FLUSH_SECONDS):
            raise UnequalError(f"{self._topic}: {left} records left")
        return count / took


class Watching:
    """Looks into a table until all rows are there; lives in a child."""

    def watch(self, table_format: str, place: str, count: int) -> tuple[float, float, float]:
        """Return the ages in s of the rows when they were found: median, 99th percentile, largest.

        Raises:
            TimeoutError: nothing new is found for two minutes, and rows are missing.
            UnequalError: there are more rows.
        """
        files, took, known = _FILES[table_format], [], set[str]()
        end = time.monotonic() + PATIENCE_SECONDS
        while len(took) < count:
            paths = set(files(place)) - known
            now = time.monotonic_ns()
            for path in paths:
                sent = pq.read_table(path, columns=["at"], partitioning=None)["at"]
                took += [now - at for at in sent.to_pylist()]
            known |= paths
            if paths:
                end = time.monotonic() + PATIENCE_SECONDS
            elif time.monotonic() > end:
                raise TimeoutError(f"{place}: {len(took):,} rows of {count:,}")
            time.sleep(EVERY_SECONDS)
        if len(took) != count:
            raise UnequalError(f"{place}: {count:,} records sent, {len(took):,} read")
        took.sort()
        return took[count // 2] / 1e9, took[count * 99 // 100] / 1e9, took[-1] / 1e9


def _directory_files(place: str) -> Iterable[str]:
    return map(str, Path(place).rglob("[!._]*.parquet"))


def _delta_files(place: str) -> Iterable[str]:
    return DeltaTable(place).file_uris() if DeltaTable.is_deltatable(place) else ()


_FILES: Final[dict[str, Any]] = {"parquet": _directory_files, "delta": _delta_files}


def records(bench: Bench) -> int:
    """Return how many records a round sends."""
    return int(_RATE * bench.seconds(_ROUND_SECONDS))


def watched(
    bench: Bench,
    topic: str,
    table: tuple[str, str],
    land: Callable[[], object],
) -> dict[str, float]:
    """Send a round's records to a topic, and watch a table; return all metrics but `SHARE`.

    Args:
        bench: the place.
        topic: it has `PARTITIONS`.
        table: its format, and where it is.
        land: called before the first record is sent; returns while records land.
    """
    count = records(bench)
    start = {"send": Child(Producing, bench.servers, topic), "watch": Child(Watching)}
    with Children(start):
        start["send"].wait()
        land()
        start["watch"].start_call("watch", *table, count)
        sent = start["send"].call("send", count)
        p50, p99, last = start["watch"].result()
    return {P50: p50, P99: p99, LAST: last, SENT: sent}
