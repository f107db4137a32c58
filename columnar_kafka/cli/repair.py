"""`columnar-kafka repair`."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from columnar_kafka.cli.options import AsJson, TablePlace, takes
from columnar_kafka.cli.outcome import fail, failures
from columnar_kafka.ingest import repair as repair_table
from columnar_kafka.lake.options import TableOptions

__all__ = ["repair"]


@takes
def repair(
    *,
    table: TablePlace,
    options: TableOptions,
    as_json: AsJson = False,
) -> None:
    """Put bounds of a Delta or Iceberg table's files right, which have filters miss rows.

    Reads the footers of all files, and floating-point columns. No row and no fence changes; others
    may land and read meanwhile. Ends with 1 if a file stays as it is.
    """
    with failures():
        result = repair_table(options.open(table))
    text = f"{result.repaired:,} of {result.files:,} files had filters miss rows, and no longer do"
    typer.echo(json.dumps(asdict(result)) if as_json else text)
    if result.left:
        for reason in result.reasons:
            typer.echo(reason, err=True)
        fail(
            f"{result.left:,} files stay as they are: have the program that wrote them rewrite them"
        )
