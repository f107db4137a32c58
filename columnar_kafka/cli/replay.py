"""`columnar-kafka replay`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from columnar_kafka import LakeError
from columnar_kafka.cli.options import PLACE, AsJson, landed, read_place, rules, takes
from columnar_kafka.cli.outcome import failures
from columnar_kafka.ingest import open_dead_letters
from columnar_kafka.ingest import replay as replay_letters
from columnar_kafka.lake.options import LandingOptions

__all__ = ["replay"]

_Place = Annotated[
    str,
    typer.Argument(parser=read_place, metavar="PLACE", help="The directory of dead letters."),
]
_To = Annotated[
    str, typer.Option(help="The table: a path, a URL, or the name of an Iceberg table.", **PLACE)
]


@takes
def replay(
    *,
    place: _Place,
    to: _To,
    options: LandingOptions,
    as_json: AsJson = False,
) -> None:
    """Land dead letters that can land now, each once.

    What still cannot land goes to another place (--dead-letters), or ends the command with 1.
    """
    with failures():
        letters = open_dead_letters(place, storage=options.storage)
        if letters.table.id is None:
            raise LakeError(f"{letters.table.place}: there are no dead letters")
        chosen = rules(options)
        result = replay_letters(letters, options.open(to), rules=chosen)
    if as_json:
        counts = {
            "rows": result.landed.rows,
            "files": len(result.files),
            "decoded": result.decoded,
            "dead_letters": result.dead_letters,
            "plain_messages": result.plain_messages,
            "skipped": result.skipped,
        }
        typer.echo(json.dumps(counts))
    else:
        typer.echo(landed(result.landed.rows, len(result.files), result))
