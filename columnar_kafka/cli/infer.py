"""`columnar-kafka infer`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from columnar_kafka.cli.guesses import show_fields
from columnar_kafka.cli.options import ClientConfig, ClientKeys, read_client_config, takes
from columnar_kafka.cli.outcome import failures
from columnar_kafka.ingest.sampling import sampled_values
from columnar_kafka.schema.inference import Inference
from columnar_kafka.schema.to_avro import to_avro

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["infer"]


@takes
def infer(
    *,
    source: Annotated[
        str, typer.Argument(metavar="TOPIC|FILE", help="A topic, a file of JSON lines, or -.")
    ],
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="The Kafka cluster of a topic, as HOST:PORT,HOST:PORT.")
    ] = None,
    infer_messages: Annotated[
        int, typer.Option(min=1, help="The most messages of each partition, or lines, to read.")
    ] = 10_000,
    infer_times: Annotated[
        bool, typer.Option("--infer-times", help="Take texts for times if all are in ISO 8601.")
    ] = False,
    max_columns: Annotated[
        int, typer.Option(min=1, help="The most columns, those inside others included.")
    ] = 1_000,
    client_file: ClientConfig = None,
    client: ClientKeys = None,
) -> None:
    """Guess the Avro schema of JSON objects that nobody has described.

    Prints it, and on standard error what was seen of each field. Nothing is written or committed.
    """
    if bootstrap_servers is None and source != "-" and not Path(source).is_file():
        raise typer.BadParameter(
            f"{source} is not a file; to read a topic, add --bootstrap-servers",
            param_hint="TOPIC|FILE",
        )
    inference = Inference(times=infer_times, avro_names=True, max_columns=max_columns)
    with failures():
        passed_over = 0
        if bootstrap_servers is None:
            values: Iterable[bytes] = _lines(source, infer_messages)
        else:
            config = read_client_config(bootstrap_servers, client_file, client)
            values = sampled_values(config, source, infer_messages)
        for value in values:
            passed_over += not inference.add_json(value)
        schema, reports = inference.result()
        avro = to_avro(schema)
    typer.echo(json.dumps(avro, indent=2))
    show_fields(reports, inference.rows, passed_over)


def _lines(source: str, count: int) -> Iterator[bytes]:
    """Yield the first lines of a file that are not empty."""
    with sys.stdin.buffer if source == "-" else Path(source).open("rb") as file:
        for line in file:
            if line.strip():
                yield line
                count -= 1
            if not count:
                return
