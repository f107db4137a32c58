"""`columnar-kafka demo`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer

from columnar_kafka.cli.outcome import INTERRUPTED, fail, failures

__all__ = ["demo"]


def demo(
    *,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Your Kafka. Without it, one is started here.")
    ] = None,
    broker: Annotated[
        Literal["kafka", "embedded"] | None,
        typer.Option(help="What to start. Without it: kafka, or embedded if there is no Java."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Send only this many flights, not all 336,776.")
    ] = None,
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path(
        "demo-report.html"
    ),
) -> None:
    """Send a year of flights from producer to lake, compare every record, and write a report.

    Ends with 0 when all comparisons are equal, with 1 when anything differs or fails.
    """
    try:  # not with the other commands: it brings pandas, Spark and matplotlib
        running = import_module("columnar_kafka.demo.run")
        screen = import_module("columnar_kafka.demo.screen").Screen()
    except ModuleNotFoundError as error:
        fail(f"{error}. The demo needs more packages: pip install 'columnar-kafka[demo]'")
    options = running.Options(
        bootstrap_servers=bootstrap_servers, broker=broker, rows=rows, report=report
    )
    try:
        with failures("The demo failed: "):
            results = running.run(options, screen)
    except KeyboardInterrupt:
        typer.echo("Interrupted; everything that was started has been ended.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    screen.verdict(results, report)
    if not results.equal:
        raise typer.Exit(1)
