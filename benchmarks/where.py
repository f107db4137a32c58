"""Where the CPU of a case goes: `python -m benchmarks.where produce flights --fresh`.

Linux's `perf` samples the measured process while it repeats the case on a real broker. The table
has the CPU of each thread, and of what runs there: modules of the native core, other libraries.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import data
from benchmarks.bench import Bench
from benchmarks.child import Child
from benchmarks.competitors import OURS
from benchmarks.reading import CONSUME, POLL, TABLES, Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.child import Cost

SECONDS: Final = 3.0  # of CPU: 12,000 samples
HERTZ: Final = 4_000
LEAST_SHARE: Final = 0.01
LINGER_MS: Final = 60_000.0  # a segment is full before that

_LINE: Final = re.compile(r"\s*(.+?)\s+(\d+)/(\d+)\s+([\d.]+):\s+[0-9a-f]+ (.*) \((.*)\)")
_ZSTD: Final = re.compile(r"ZSTD_|HUF_|FSE_|HIST_|XXH")


class Case(str, Enum):
    """What is measured: a method of the clients."""

    PRODUCE = "produce"
    POLL = "poll"
    CONSUME = "consume"
    CONSUME_ARROW = "consume_arrow"


WAYS: Final = {Case.POLL: POLL, Case.CONSUME: CONSUME, Case.CONSUME_ARROW: TABLES}


class Sample(NamedTuple):
    """Where a thread was: `at` in seconds of the monotonic clock."""

    thread: str
    place: str
    at: float


def main(
    case: Case,
    dataset: Annotated[str, typer.Argument(help=", ".join(data.NAMES))],
    *,
    fresh: Annotated[bool, typer.Option("--fresh", help="Rows whose objects are new.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With key, headers, time and a callback.")
    ] = False,
    rows: Annotated[int | None, typer.Option(help="Of a segment; the default without it.")] = None,
    who: Annotated[str, typer.Option(help="A competitor.")] = OURS,
) -> None:
    """Print where the CPU of a record goes."""
    if shutil.which("perf") is None:
        raise typer.BadParameter("there is no `perf` here")
    count = data.load(dataset).rows if rows is None else 3_000
    with Bench(rounds=1, short=False, say=lambda _: None) as bench:
        topic = bench.topic()
        child = Child(Sending, who, dataset, bench.servers, count)
        settings = () if rows is None else (rows, LINGER_MS)
        child.call("connect", topic, *settings)
        call: tuple[object, ...] = ("send", topic, fresh, full)
        try:
            child.call(*call)
            if case in WAYS:
                child.close()
                child = Child(Reading, who, dataset, bench.servers, count)
                call = ("read", topic, WAYS[case])
            counts, costs = measure(child, call)
        finally:
            child.close()
    show(counts, sum(cost.cpu for cost in costs) / len(costs) / count * 1e6)


def measure(child: Child, call: tuple[object, ...]) -> tuple[Counter[tuple[str, str]], list[Cost]]:
    """Call a method again and again; return where the CPU went meanwhile, and what each took."""
    child.call(*call)
    windows: list[tuple[float, float]] = []
    costs: list[Cost] = []
    with TemporaryDirectory() as folder:
        file = Path(folder, "perf.data")
        with recording(child.pid, file):
            while sum(cost.cpu for cost in costs) < SECONDS:
                cost = child.call(*call)
                windows.append((cost.began, cost.began + cost.wall))
                costs.append(cost)
        counts = Counter(
            (sample.thread, sample.place)
            for sample in samples(file)
            if any(begin <= sample.at <= end for begin, end in windows)
        )
    return counts, costs


@contextmanager
def recording(pid: int, file: Path) -> Iterator[None]:
    """Have `perf` sample all threads of a process, also those that start."""
    command = ["perf", "record", "--quiet", "--clockid", "CLOCK_MONOTONIC", "--inherit"]
    command += ["--freq", str(HERTZ), "--pid", str(pid), "--output", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as perf:
        time.sleep(1)
        yield
        perf.send_signal(signal.SIGINT)
        _, said = perf.communicate()
    if not file.exists():
        raise RuntimeError(said)


def samples(file: Path) -> Iterator[Sample]:
    """Yield what `perf` has recorded."""
    fields = "comm,pid,tid,time,ip,sym,dso"
    command = ["perf", "script", "--ns", "--input", str(file), "--fields", fields]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    yield from filter(None, map(parsed, printed.splitlines()))


def parsed(line: str) -> Sample | None:
    """Return what a line of `perf script` says; None if that is no sample."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name, pid, tid, at, symbol, library = match.groups()
    thread = "the calling thread" if tid == pid else name
    return Sample(thread, place(symbol, Path(library).name), float(at))


def place(symbol: str, library: str) -> str:
    """Return what a function belongs to: a module of the core, or a library."""
    if _ZSTD.match(symbol):
        return "zstd"
    if library.startswith("_core"):
        modules = re.search(r"_core::((?:[a-z_0-9]+::)*)", symbol)
        path = modules[1].strip(":") if modules else ""
        return f"core: {path}" if path else "core: libraries"
    return "kernel" if library.startswith("[") else library.split(".", 1)[0]


def show(counts: Counter[tuple[str, str]], micros: float) -> None:
    """Print what each place takes of so many µs a record."""
    total = counts.total()
    table = Table(title=f"{micros:.3g} µs of CPU a record, {total:,} samples")
    for name in ("thread", "where"):
        table.add_column(name)
    for name in ("µs", "%"):
        table.add_column(name, justify="right")
    threads: Counter[str] = Counter()
    for (thread, _), count in counts.items():
        threads[thread] += count
    for thread, all_of_it in threads.most_common():
        places = {where: count for (who, where), count in counts.items() if who == thread}
        rows = [("", all_of_it), *sorted(places.items(), key=lambda item: -item[1])]
        for where, count in rows:
            if count >= LEAST_SHARE * total:
                share = count / total
                name = thread if not where else ""
                table.add_row(name, where, f"{share * micros:.3g}", f"{share:.1%}")
    Console(width=100, highlight=False).print(table)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    typer.run(main)
