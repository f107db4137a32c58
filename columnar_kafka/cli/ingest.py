"""`columnar-kafka ingest`."""

from __future__ import annotations

import json
import logging
import signal
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from columnar_kafka.cli.options import (
    Catalog,
    ClientConfig,
    ClientKeys,
    Json,
    Servers,
    TableFormat,
    catalog_options,
    client_config,
)
from columnar_kafka.cli.outcome import end, failures
from columnar_kafka.ingest import Ingestor, IngestSettings, Layout, Mode, open_table

if TYPE_CHECKING:
    from columnar_kafka.ingest import IngestStats

__all__ = ["ingest"]

_DEFAULTS = IngestSettings()

_Topic = Annotated[str, typer.Option(help="The topic whose segments land.")]
_To = Annotated[str, typer.Option(help="The table: a path, or the name of an Iceberg table.")]
_Layout = Annotated[
    Literal["stitched", "verbatim"],
    typer.Option(help="Segments as few big files, or each as it came."),
]
_FileBytes = Annotated[int, typer.Option(min=1, help="The size of a stitched file.")]
_Partitions = Annotated[
    list[int] | None,
    typer.Option(help="Land this partition; repeats. Without it a consumer group shares them."),
]
_Start = Annotated[
    Literal["earliest", "latest"],
    typer.Option(help="Where a partition begins of which the table has nothing."),
]
_RollBytes = Annotated[int, typer.Option(min=1, help="Commit when so many bytes are staged.")]
_RollSeconds = Annotated[
    float, typer.Option(min=0.001, help="Commit so long after the first staged segment.")
]
_StopAtEnd = Annotated[bool, typer.Option("--stop-at-end", help="End where the topic ends now.")]
_Gap = Annotated[
    Literal["refuse", "allow"],
    typer.Option(help="Whether to go on where messages were deleted before they landed."),
]
_AfterRestore = Annotated[
    Literal["stop", "reland"],
    typer.Option(help="Whether to land again what a restore of the table has undone."),
]
_Generation = Annotated[
    str | None, typer.Option(help="A text in place of the topic's id; change it with the topic.")
]


def ingest(
    *,
    bootstrap_servers: Servers,
    topic: _Topic,
    to: _To,
    table_format: TableFormat = "parquet",
    catalog: Catalog = None,
    layout: _Layout = "stitched",
    file_bytes: _FileBytes = _DEFAULTS.layout.file_bytes,
    partition: _Partitions = None,
    start: _Start = "earliest",
    roll_bytes: _RollBytes = _DEFAULTS.roll_bytes,
    roll_seconds: _RollSeconds = _DEFAULTS.roll_seconds,
    stop_at_end: _StopAtEnd = False,
    gap: _Gap = "refuse",
    after_restore: _AfterRestore = "stop",
    topic_generation: _Generation = None,
    client_file: ClientConfig = None,
    client: ClientKeys = None,
    as_json: Json = False,
) -> None:
    """Land a topic's segments in a table, each once, until TERM or Ctrl-C.

    What was read lands before it ends. Ends with 1 if something cannot land; the next run goes on
    from where the table ends.
    """
    options = {
        **catalog_options(table_format, catalog),
        **_restore_options(table_format, after_restore),
        "allow_gaps": gap == "allow",
    }
    config = client_config(bootstrap_servers, client_file, client)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with failures():
        settings = IngestSettings(
            partitions=None if partition is None else tuple(partition),
            start=start,
            roll_bytes=roll_bytes,
            roll_seconds=roll_seconds,
            stop_at_end=stop_at_end,
            allow_gaps=gap == "allow",
            topic_generation=topic_generation,
            layout=Layout(mode=Mode(layout), file_bytes=file_bytes),
        )
        stats = _run(Ingestor(config, topic, open_table(table_format, to, **options), settings))
    text = f"{stats.rows:,} rows landed in {stats.files:,} files"
    typer.echo(json.dumps(asdict(stats)) if as_json else text)


def _restore_options(table_format: str, after_restore: str) -> dict[str, Any]:
    if table_format != "parquet":
        return {"reland": after_restore == "reland"}
    if after_restore != "stop":
        raise typer.BadParameter("only for delta and iceberg", param_hint="--after-restore")
    return {}


def _run(service: Ingestor) -> IngestStats:
    """Let the first signal stop the service, and the second one end the process."""

    def stop(number: int, _: object) -> None:
        signal.signal(number, end)
        service.stop()

    for each in signal.SIGINT, signal.SIGTERM:
        signal.signal(each, stop)
    return service.run()
