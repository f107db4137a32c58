"""`columnar-kafka replay`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from columnar_kafka import LakeError
from columnar_kafka.cli.options import (
    PLACE,
    AfterRestore,
    AsJson,
    Catalog,
    DeadLettersPlace,
    Growth,
    PartitionBy,
    Plain,
    PlainFormat,
    PlainSchema,
    PlainSchemaId,
    Storage,
    TableFormat,
    Verify,
    landed,
    landing_options,
    read_decoding,
    read_place,
    rules,
)
from columnar_kafka.cli.outcome import failures
from columnar_kafka.ingest import open_dead_letters, open_table
from columnar_kafka.ingest import replay as replay_letters

__all__ = ["replay"]

_Place = Annotated[
    str,
    typer.Argument(parser=read_place, metavar="PLACE", help="The directory of dead letters."),
]
_To = Annotated[
    str, typer.Option(help="The table: a path, a URL, or the name of an Iceberg table.", **PLACE)
]


def replay(
    *,
    place: _Place,
    to: _To,
    table_format: TableFormat = "parquet",
    catalog: Catalog = None,
    storage: Storage = None,
    verify: Verify = "pages",
    dead_letters: DeadLettersPlace = None,
    plain: Plain = "stop",
    plain_format: PlainFormat = None,
    plain_schema: PlainSchema = None,
    plain_schema_id: PlainSchemaId = None,
    after_restore: AfterRestore = "stop",
    growth: Growth = None,
    partition_by: PartitionBy = None,
    as_json: AsJson = False,
) -> None:
    """Land dead letters that can land now, each once.

    What still cannot land goes to another place (--dead-letters), or ends the command with 1.
    """
    opening = landing_options(
        table_format,
        catalog,
        storage,
        after_restore=after_restore,
        growth=growth,
        partition_by=partition_by,
    )
    decoding = read_decoding(plain_format, plain_schema, plain_schema_id)
    with failures():
        letters = open_dead_letters(place, storage=opening["storage"])
        if letters.table.id is None:
            raise LakeError(f"{letters.table.place}: there are no dead letters")
        chosen = rules(
            verify,
            plain,
            dead_letters,
            table_format=table_format,
            opening=opening,
            decoding=decoding,
        )
        table = open_table(table_format, to, **opening)
        found = replay_letters(letters, table, rules=chosen)
    if as_json:
        counts = {
            "rows": found.landed.rows,
            "files": len(found.files),
            "decoded": found.decoded,
            "dead_letters": found.dead_letters,
            "plain_messages": found.plain_messages,
            "skipped": found.skipped,
        }
        typer.echo(json.dumps(counts))
    else:
        typer.echo(landed(found.landed.rows, len(found.files), found))
