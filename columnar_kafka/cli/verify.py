"""`columnar-kafka verify`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from columnar_kafka.cli.options import (
    PLACE,
    AsJson,
    ClientConfig,
    ClientKeys,
    Servers,
    TablePlace,
    read_client_config,
    read_decoding,
    takes,
)
from columnar_kafka.cli.outcome import fail, failures
from columnar_kafka.ingest import open_dead_letters, verify_topic
from columnar_kafka.lake.options import DecodingOptions, TableOptions

if TYPE_CHECKING:
    from columnar_kafka.ingest import AuditReport

__all__ = ["verify"]

_SHOWN = 20


@takes
def verify(
    *,
    table: TablePlace,
    bootstrap_servers: Servers,
    topic: Annotated[str, typer.Option(help="The topic that has landed.")],
    options: TableOptions,
    topic_generation: Annotated[str | None, typer.Option(help="As when it landed.")] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(help="Where its dead letters are: these need not be in the table.", **PLACE),
    ] = None,
    plain: DecodingOptions,
    client_file: ClientConfig = None,
    client: ClientKeys = None,
    as_json: AsJson = False,
) -> None:
    """Prove that each committed message of a topic is in a table once, with equal values.

    Reads the whole table, and the topic from where it began to land to the table's fences. Ends
    with 1 if anything is missing, twice or different, and names it.
    """
    config = read_client_config(bootstrap_servers, client_file, client)
    decoding = read_decoding(plain)
    with failures():
        # After a restore: up to the fences that it brought back.
        opened = options.open(table).relanding()
        letters = None
        if dead_letters is not None:
            letters = open_dead_letters(dead_letters, storage=options.storage)
        report = verify_topic(
            config,
            topic,
            opened,
            topic_generation=topic_generation,
            dead_letters=letters,
            decoding=decoding,
        )
    if as_json:
        typer.echo(json.dumps(asdict(report)))
    else:
        _show(report)
    if report.findings:
        fail(f"{len(report.findings)} findings: the table differs from the topic")


def _show(report: AuditReport) -> None:
    decoded = f" and {report.decoded:,} plain messages" if report.decoded else ""
    typer.echo(
        f"{report.messages:,} segments with {report.rows:,} rows{decoded} are in the table, once "
        f"and with equal values, in {report.files:,} files"
    )
    if report.plain:
        typer.echo(f"{report.plain:,} messages are not segments, and were not looked for")
    if report.dead_letters:
        typer.echo(f"{report.dead_letters:,} messages are dead letters")
    for partition, (first, last) in report.expired.items():
        typer.echo(f"partition {partition}: Kafka no longer has offsets {first} to {last}")
    for partition, (first, last) in sorted(report.outside.items()):
        typer.echo(
            f"partition {partition}: offsets {first} to {last} were not compared: the table's "
            "fences do not cover them"
        )
    for finding in report.findings[:_SHOWN]:
        place = "" if finding.partition is None else f" partition {finding.partition}"
        offsets = "" if finding.first is None else f" offsets {finding.first} to {finding.last}"
        typer.echo(f"{finding.kind}:{place}{offsets} {finding.file}: {finding.reason}", err=True)
    if len(report.findings) > _SHOWN:
        typer.echo("… (--json lists all)", err=True)
