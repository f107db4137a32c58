"""`columnar-kafka compact`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from columnar_kafka.cli.options import AsJson, TablePlace, takes
from columnar_kafka.cli.outcome import failures
from columnar_kafka.ingest import Layout
from columnar_kafka.lake.options import TableOptions

__all__ = ["compact"]


@takes
def compact(
    *,
    table: TablePlace,
    options: TableOptions,
    file_bytes: Annotated[
        int, typer.Option(min=1, help="Merge up to this size.")
    ] = Layout().file_bytes,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="Nobody reads the directory meanwhile; a parquet table needs it."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Merge the small files of a table into larger ones; others may land in it meanwhile.

    Readers of a Delta or Iceberg table see the old files or the new ones. Readers of a directory
    list its files, and would miss some: it needs --offline.
    """
    with failures():
        opened = options.open(table)
        if opened.is_listed and not offline:
            raise typer.BadParameter(
                "readers that list the directory meanwhile would miss rows: stop them, and set it",
                param_hint="--offline",
            )
        result = opened.compact(file_bytes)
    text = f"{result.files_before:,} files before, {result.files:,} now"
    typer.echo(json.dumps(asdict(result)) if as_json else text)
