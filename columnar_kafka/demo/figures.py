"""The demo's figures: plain values, measured by the stages, shown by the screen and the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from columnar_kafka.demo.compare import Comparison


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the pipeline: what went through it, how long it took, and was it equal.

    `comparison` is None for a stage that has nothing to compare yet.
    """

    name: str
    rows: int
    seconds: float
    detail: str = ""
    comparison: Comparison | None = None

    @property
    def equal(self) -> bool:
        """Whether nothing was found to differ."""
        return self.comparison is None or self.comparison.equal


@dataclass(frozen=True, slots=True)
class Run:
    """One format sending its share of the rows. `cpu_seconds` are the process's, all threads."""

    format: str
    rows: int
    wire_bytes: int
    cpu_seconds: float
    seconds: float

    @property
    def cpu_micros(self) -> float:
        """Microseconds of CPU for one record."""
        return 1e6 * self.cpu_seconds / self.rows


@dataclass(frozen=True, slots=True)
class Rival:
    """One format's runs, which together sent all rows once."""

    name: str
    runs: tuple[Run, ...]

    @property
    def rows(self) -> int:
        """Records sent."""
        return sum(run.rows for run in self.runs)

    @property
    def wire_bytes(self) -> int:
        """Bytes that went to the broker."""
        return sum(run.wire_bytes for run in self.runs)

    @property
    def bytes_per_record(self) -> float:
        """The same for one record."""
        return self.wire_bytes / self.rows

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the sending process, all its threads."""
        return sum(run.cpu_seconds for run in self.runs)

    @property
    def cpu_micros(self) -> float:
        """Microseconds of CPU for one record: the median of the runs."""
        return median(run.cpu_micros for run in self.runs)

    @property
    def cpu_spread(self) -> tuple[float, float]:
        """The same in the cheapest and in the dearest run."""
        micros = [run.cpu_micros for run in self.runs]
        return min(micros), max(micros)

    @property
    def records_per_second(self) -> float:
        """Records acknowledged in a second of wall time."""
        return self.rows / sum(run.seconds for run in self.runs)


@dataclass(frozen=True, slots=True)
class Point:
    """One format at one batch size, and its measured bytes on the wire."""

    format: str
    batch_rows: int
    rows: int
    batches: int
    wire_bytes: int

    @property
    def bytes_per_record(self) -> float:
        """Bytes on the wire for one record, the protocol's included."""
        return self.wire_bytes / self.rows

    @property
    def reached_rows(self) -> float:
        """The records in an average batch as it was really sent."""
        return self.rows / self.batches


@dataclass(slots=True)
class Results:
    """All of one run, in the order of the story."""

    broker: str
    environment: dict[str, str]
    stages: list[Stage] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    sweep: list[Point] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether every comparison of the run was equal."""
        return all(stage.equal for stage in self.stages)
