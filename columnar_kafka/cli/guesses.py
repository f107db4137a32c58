"""Schemas that were guessed, as the commands show them: on standard error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.lake.aside.schema_source import Guess
    from columnar_kafka.schema.inference import FieldReport

__all__ = ["show_fields", "show_guess"]

_MOST_WITHOUT: Final = 500
"""So many fields that have no column are shown."""


def show_guess(guess: Guess) -> None:
    """Show a schema that is kept with its table, and of what it was guessed."""
    typer.echo(guess.kept, err=True)
    show_fields(guess.reports, guess.objects, guess.passed_over)
    if not guess.is_kept:
        typer.echo(
            "another process was faster: the schema is the one that it has guessed", err=True
        )


def show_fields(reports: Iterable[FieldReport], objects: int, passed_over: int) -> None:
    """Show what was seen of each field of so many objects."""
    console = Console(stderr=True, highlight=False)
    table = Table("field", "column", "seen", "missing", "", box=box.SIMPLE_HEAD)
    left = _MOST_WITHOUT
    for report in reports:
        left -= not report.column
        if not report.column and left < 0:
            continue
        seen = ", ".join(f"{count:,} {kind}" for kind, count in report.types.items())
        note = "" if report.note == report.column else report.note
        path, column = Text(_printable(report.path)), report.column or "none"
        table.add_row(path, Text(column), seen, f"{report.missing:,}", note)
    console.print(table)
    if left < 0:
        console.print(f"other fields without a column: {-left:,}")
    others = f"; values that are not a JSON object: {passed_over:,}" if passed_over else ""
    console.print(f"objects: {objects:,}{others}")


def _printable(name: str) -> str:
    """Return a name as a terminal can show it."""
    return name if name.isprintable() else json.dumps(name)[1:-1]
