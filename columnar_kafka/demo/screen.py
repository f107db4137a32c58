"""The terminal's output: a progress bar while a stage runs, then one line that stays."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from columnar_kafka.demo.figures import Results, Rival, Stage


class Screen:
    """Prints to standard output."""

    def __init__(self) -> None:
        self._out = Console(highlight=False)

    def say(self, line: str) -> None:
        """One line, as it is."""
        self._out.print(Text(line))

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """A bar (or a spinner, without a total) for the block; call what it gives to advance it."""
        counts = () if total is None else (BarColumn(), MofNCompleteColumn())
        columns = (SpinnerColumn(), TextColumn("{task.description}"), *counts, TimeElapsedColumn())
        live = self._out.is_terminal  # into a file go only the lines that stay
        with Progress(*columns, console=self._out, transient=True, disable=not live) as bars:
            task = bars.add_task(what, total=total)
            yield lambda count: bars.advance(task, count)

    def stage(self, stage: Stage) -> None:
        """A finished stage, and what differs, if anything does."""
        compared = "" if stage.comparison is None else f" · {stage.comparison}"
        mark = Text("✓ ", style="green") if stage.equal else Text("✗ ", style="red")
        line = f"{stage.name}: {stage.rows:,} records in {stage.seconds:.1f} s"
        detail = f" ({stage.detail})" if stage.detail else ""
        self._out.print(mark + Text(line + detail + compared), soft_wrap=True)
        for example in () if stage.comparison is None else stage.comparison.examples:
            self._out.print(Text(f"    {example}", style="red"), soft_wrap=True)

    def rivals(self, rivals: Sequence[Rival]) -> None:
        """The one table."""
        table = Table(
            title=f"The same {rivals[0].rows:,} records, three ways", title_justify="left"
        )
        table.add_column("format", no_wrap=True)
        for name in (
            "MB on\nthe wire",
            "bytes/\nrecord",
            "CPU s",
            "CPU µs/record",
            "records/s",
        ):
            table.add_column(name, justify="right", no_wrap=True)
        for rival in rivals:
            low, high = rival.cpu_spread
            table.add_row(
                rival.name,
                f"{rival.wire_bytes / 1e6:,.2f}",
                f"{rival.bytes_per_record:.1f}",
                f"{rival.cpu_seconds:.2f}",
                f"{rival.cpu_micros:.1f} ({low:.1f}-{high:.1f})",
                f"{rival.records_per_second:,.0f}",
            )
        self._out.print(table)

    def verdict(self, results: Results, report: Path) -> None:
        """How it went, and where the page is."""
        different = [stage.name for stage in results.stages if not stage.equal]
        if different:
            self._out.print(Text(f"Different: {', '.join(different)}.", style="bold red"))
        else:
            self._out.print(Text("Every comparison was equal.", style="bold green"))
        self._out.print(Text(f"The page: {report.absolute()}"), soft_wrap=True)


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self) -> float:
        """Tell them."""
        return time.perf_counter() - self._start
