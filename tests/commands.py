"""Runs the commands of `columnar-kafka` in the process of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakes import DeltaLake, IcebergLake
from typer.testing import CliRunner

from columnar_kafka.cli.commands import app

if TYPE_CHECKING:
    from click.testing import Result

INGEST = ("ingest", "--bootstrap-servers", "h:1", "--topic", "t", "--to")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def table_place(lake: Any) -> list[str]:
    """Return the arguments that name a lake's table."""
    if isinstance(lake, IcebergLake):
        catalog = [
            text for key, value in lake.catalog.items() for text in ("--catalog", f"{key}={value}")
        ]
        return ["lake.t", "--format", "iceberg", *catalog]
    return [str(lake.root), "--format", "delta" if isinstance(lake, DeltaLake) else "parquet"]
