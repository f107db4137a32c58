"""What does four times as much cost to land, verify, compact and replay?"""

from __future__ import annotations

import json
import pickle
import resource
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from benchmarks.answer import Answer
from benchmarks.child import Child, Clock
from benchmarks.lakes import FORMAT_NAMES, GENERATIONS, table_in, verified
from benchmarks.segments import TOPIC, segment, table_of
from columnar_kafka.lake.aside.decoding import Decoding
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.formats import open_dead_letters
from columnar_kafka.lake.landing.replay import replay
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.segment.encoder import ParquetEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench

TITLE = "Four times as much in a table"
IS_LONG = True
ABOUT = """Small segments of flights, on this machine's disk: landed, compared with their messages,
merged, and compared again; and plain messages that become dead letters and are replayed. Each step
has a process of its own, which reads the messages from a file. What grows to four times as much is
named. CPU and the peak of resident memory are those with four times as much, over the others'. Of
cases that take seconds they are the medians of five. The cases begin where a table has more commits
than its history keeps, or than there are between two of Delta's checkpoints: until then a commit
costs more with each one before it."""

ROWS: Final = 8
TIMES: Final = 4
QUICK: Final = 10.0
"""Seconds of CPU below which a case is measured some times more."""
MORE_ROUNDS: Final = 4
CPU_AT_MOST, MEMORY_AT_MOST = 5.0, 1.5
STEPS: Final = ("land", "verify", "compact", "verify_again")
LETTERS: Final = "dead letters"
SCHEMA: Final = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'


class Case(NamedTuple):
    """What grows: numbers with which a case begins."""

    segments: int = 1  # of a partition, a commit and a schema
    commits: int = 1
    partitions: int = 1
    schemas: int = 1

    def times(self, name: str, count: int) -> Case:
        """Return a case with so many times as much of one thing."""
        return self._replace(**{name: count * getattr(self, name)})


CASES: Final = {
    "segments": Case(segments=500, commits=2),
    "commits": Case(commits=300),
    "partitions": Case(segments=4, commits=2, partitions=50),
    "schemas": Case(segments=50, commits=2, schemas=3),
}
LETTERS_COUNT: Final = 6_000
LETTERS_A_COMMIT: Final = 20


def _messages(case: Case, commit: int) -> Iterator[SourceMessage]:
    """Yield the messages of a commit, each partition's in order; schemas grow by a column each."""
    encoder = ParquetEncoder("zstd")
    for partition in range(case.partitions):
        offset = commit * case.segments * case.schemas
        rows = table_of(ROWS)
        for version in range(case.schemas):
            if version:
                rows = rows.append_column(f"more_{version}", pa.array([version] * ROWS))
            for _ in range(case.segments):
                yield segment(rows, offset, encoder, partition=partition)
                offset += 1


class Step:
    """One step; lives in a child."""

    def __init__(self, folder: str, table_format: str, case: Case) -> None:
        self._folder = folder
        self._table = table_in(folder, table_format)
        self._sent = Path(folder, "sent")
        if not self._sent.exists():
            with self._sent.open("wb") as file:
                for commit in range(case.commits):
                    for message in _messages(case, commit):
                        pickle.dump((commit, message), file)

    def _messages(self) -> Iterator[tuple[int, SourceMessage]]:
        """Yield all messages, and which commit each belongs to."""
        with self._sent.open("rb") as file, suppress(EOFError):
            while True:
                yield pickle.load(file)  # noqa: S301 - it is our own

    def run(self, step: str) -> tuple[float, float]:
        """Return seconds of CPU and the peak of memory in MB."""
        clock = Clock()
        getattr(self, step)()
        cpu = clock.stop().cpu
        return cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3

    def land(self) -> None:
        """Land each commit."""
        for _, messages in groupby(self._messages(), key=itemgetter(0)):
            commit = (message for _, message in messages)
            land(commit, table=self._table, generations=GENERATIONS)

    def verify(self) -> None:
        """Compare."""
        verified(self._table, lambda: (message for _, message in self._messages()))

    verify_again = verify

    def compact(self) -> None:
        """Merge."""
        self._table.compact(128 << 20)


class Letters:
    """A step with dead letters; lives in a child."""

    def __init__(self, folder: str, table_format: str, count: int) -> None:
        self._table = table_in(folder, table_format)
        self._place = open_dead_letters(f"{folder}/dead")
        self._count = count
        table = pa.table({"n": [0]})
        self._first = segment(table, 0, ParquetEncoder("zstd"))

    run = Step.run

    def land(self) -> None:
        """Set messages aside, a few a commit."""
        rules = Rules(dead_letters=self._place, plain="dead-letter")
        for start in range(0, self._count, LETTERS_A_COMMIT):
            letters = [self._message(start + n) for n in range(LETTERS_A_COMMIT)]
            messages = letters if start else [self._first, *letters]
            land(messages, table=self._table, generations=GENERATIONS, rules=rules)

    def replay(self) -> None:
        """Land them."""
        rules = Rules(plain="decode", decoding=Decoding("json", SCHEMA))
        result = replay(self._place, self._table, rules=rules)
        if result.landed.messages != self._count:
            raise AssertionError(f"{result}")

    @staticmethod
    def _message(number: int) -> SourceMessage:
        value = json.dumps({"n": number}).encode()
        return SourceMessage(
            topic=TOPIC, partition=0, offset=number + 1, headers=None, value=value, timestamp=0
        )


def answer(bench: Bench) -> Answer:
    """Take each step with as much, and with four times as much."""
    results = Answer()
    for table_format in FORMAT_NAMES:
        for name, case in CASES.items():
            small = case.times(name, 1) if not bench.short else case._replace(**{name: 2})
            sizes = [small, small.times(name, TIMES)]
            bench.say(f"{table_format}, {name}")
            _compare(results, f"{table_format}, {name}", STEPS, Step, table_format, sizes)
        bench.say(f"{table_format}, {LETTERS}")
        count = 100 if bench.short else LETTERS_COUNT
        counts = [count, TIMES * count]
        _compare(
            results, f"{table_format}, {LETTERS}", ("land", "replay"), Letters, table_format, counts
        )
    return results


def _compare(
    results: Answer,
    case: str,
    steps: tuple[str, ...],
    make: type[Step | Letters],
    table_format: str,
    sizes: list[Case] | list[int],
) -> None:
    costs: dict[str, list[tuple[float, float]]] = {step: [] for step in steps}
    for size in sizes:
        rounds = [_costs(steps, make, table_format, size)]
        if sum(cpu for cpu, _ in rounds[0].values()) < QUICK:
            rounds += [_costs(steps, make, table_format, size) for _ in range(MORE_ROUNDS)]
        for step in steps:
            measured = zip(*(round_costs[step] for round_costs in rounds), strict=True)
            cpu, peak = (median(values) for values in measured)
            costs[step].append((cpu, peak))
    for step, ((cpu, peak), (more_cpu, more_peak)) in costs.items():
        what = step.replace("_", " ")
        for who, (seconds, megabytes) in (
            ("1 ×", (cpu, peak)),
            (f"{TIMES} ×", (more_cpu, more_peak)),
        ):
            results.add(f"{case}: {what}", who, "CPU s", seconds)
            results.add(f"{case}: {what}", who, "peak MB", megabytes)
        results.limit(f"{case}: {what}, CPU", [more_cpu / cpu], CPU_AT_MOST, "×")
        results.limit(f"{case}: {what}, memory", [more_peak / peak], MEMORY_AT_MOST, "×")


def _costs(
    steps: tuple[str, ...],
    make: type[Step | Letters],
    table_format: str,
    size: Case | int,
) -> dict[str, tuple[float, float]]:
    """Take the steps in a table of their own; return the costs of each."""
    costs = {}
    with TemporaryDirectory() as folder:
        for step in steps:
            child = Child(make, folder, table_format, size)
            try:
                costs[step] = child.call("run", step)
            finally:
                child.close()
    return costs
