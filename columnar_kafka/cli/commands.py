"""All commands, as one application of typer."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

import columnar_kafka
from columnar_kafka.cli import compact, demo, fence, infer, ingest, repair, replay, verify
from columnar_kafka.cli.outcome import end

__all__ = ["app", "run"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Kafka batches as Parquet: encoded once in the producer, landed unchanged in the lake.",
)


def run() -> None:
    """Run the command that the command line names, with its signals handled, and exit."""
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, end)
    app()


def _version(value: bool) -> None:
    if value:
        typer.echo(f"columnar-kafka {columnar_kafka.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


for _command in (
    demo.demo,
    infer.infer,
    ingest.ingest,
    verify.verify,
    replay.replay,
    compact.compact,
    repair.repair,
):
    app.command()(_command)
app.add_typer(fence.app, name="fence")
