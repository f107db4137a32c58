"""The command line `columnar-kafka`: thin; what its commands do is in the packages they name."""

from __future__ import annotations

import json
import logging
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

import columnar_kafka
from columnar_kafka.ingest import (
    Ingestor,
    IngestSettings,
    IngestStats,
    Layout,
    Mode,
    open_table,
)

_missing: ModuleNotFoundError | None = None
try:
    from columnar_kafka.demo.run import Options, run
    from columnar_kafka.demo.screen import Screen
except ModuleNotFoundError as error:  # the demo's packages are an extra of their own
    _missing = error

_INTERRUPTED = 128 + signal.SIGINT
_LONGEST = 1_500

_caught: list[int] = []

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Kafka batches as Parquet: encoded once in the producer, landed unchanged in the lake.",
)


def main() -> None:
    """The entry point of the `columnar-kafka` command."""
    # TERM would end the process on the spot, and no `with` block would clean up.
    for each in signal.SIGINT, signal.SIGTERM:
        signal.signal(each, _end)
    app()


def _end(number: int, _: object) -> NoReturn:
    """Raise, and note the signal: confluent-kafka may turn the exception into a TypeError."""
    _caught.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"columnar-kafka {columnar_kafka.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    *,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Your Kafka. Without it one is started here.")
    ] = None,
    broker: Annotated[
        Literal["kafka", "embedded"] | None,
        typer.Option(help="What to start. Without it: kafka, or embedded if there is no Java."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Send only so many flights, not all 336,776.")
    ] = None,
    report: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("demo-report.html"),
) -> None:
    """Send a year of flights the whole way, compare every record, measure, and write a page.

    Ends with 0 when all comparisons are equal, with 1 when anything differs or fails.
    """
    if _missing is not None:
        _fail(f"{_missing}. The demo needs more packages: pip install 'columnar-kafka[demo]'")
    options = Options(bootstrap_servers=bootstrap_servers, broker=broker, rows=rows, report=report)
    screen = Screen()
    try:
        results = run(options, screen)
    except KeyboardInterrupt:
        typer.echo("Interrupted; everything that was started has been ended.", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 - one paragraph for a person, whatever it was
        if _caught:
            raise typer.Exit(128 + _caught[0]) from None
        _fail(f"The demo failed: {type(error).__name__}: {_shortened(str(error))}")
    screen.verdict(results, report)
    if not results.equal:
        raise typer.Exit(1)


_DEFAULTS = IngestSettings()

_Servers = Annotated[str, typer.Option(help="Your Kafka.")]
_Topic = Annotated[str, typer.Option(help="The topic whose segments land.")]
_To = Annotated[str, typer.Option(help="The table: a path, or the name of an Iceberg table.")]
_Format = Annotated[
    Literal["parquet", "delta", "iceberg"], typer.Option("--format", help="The table's format.")
]
_Catalog = Annotated[
    list[str] | None, typer.Option(help="key=value of an Iceberg table's catalog; repeats.")
]
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
_Growth = Annotated[
    Literal["allow", "refuse"] | None,
    typer.Option(help="Whether columns are added to a table; without it, to those created here."),
]
_PartitionBy = Annotated[
    list[str] | None,
    typer.Option(help="A column of a new table's partitioning, or as day(column); repeats."),
]
_Straddle = Annotated[
    Literal["split", "stop"],
    typer.Option(help="What to do with a segment that has rows of several partitions."),
]
_Generation = Annotated[
    str | None, typer.Option(help="A text in place of the topic's id; change it with the topic.")
]
_ClientConfig = Annotated[
    Path | None, typer.Option(help="A file of key=value lines for the Kafka client.", exists=True)
]
_ClientKeys = Annotated[
    list[str] | None, typer.Option("-X", help="key=value for the Kafka client; repeats.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")]


@app.command()
def ingest(
    *,
    bootstrap_servers: _Servers,
    topic: _Topic,
    to: _To,
    table_format: _Format = "parquet",
    catalog: _Catalog = None,
    layout: _Layout = "stitched",
    file_bytes: _FileBytes = _DEFAULTS.layout.file_bytes,
    partition: _Partitions = None,
    start: _Start = "earliest",
    roll_bytes: _RollBytes = _DEFAULTS.roll_bytes,
    roll_seconds: _RollSeconds = _DEFAULTS.roll_seconds,
    stop_at_end: _StopAtEnd = False,
    gap: _Gap = "refuse",
    after_restore: _AfterRestore = "stop",
    growth: _Growth = None,
    partition_by: _PartitionBy = None,
    straddle: _Straddle = "split",
    topic_generation: _Generation = None,
    client_config: _ClientConfig = None,
    x: _ClientKeys = None,
    as_json: _Json = False,
) -> None:
    """Land a topic's segments in a table, each once, until TERM or Ctrl-C.

    What was read lands before it ends. Ends with 1 if something cannot land; the next run goes on
    from where the table ends.
    """
    options = {
        **_table_options(table_format, catalog, after_restore, growth, partition_by),
        "allow_gaps": gap == "allow",
    }
    config = _client_config(client_config, x) | {"bootstrap.servers": bootstrap_servers}
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = IngestSettings(
            partitions=None if partition is None else tuple(partition),
            start=start,
            roll_bytes=roll_bytes,
            roll_seconds=roll_seconds,
            stop_at_end=stop_at_end,
            allow_gaps=gap == "allow",
            topic_generation=topic_generation,
            layout=Layout(mode=Mode(layout), file_bytes=file_bytes, may_split=straddle == "split"),
        )
        stats = _run(Ingestor(config, topic, open_table(table_format, to, **options), settings))
    except Exception as error:  # noqa: BLE001 - one paragraph for a person, whatever it was
        if _caught:
            raise typer.Exit(128 + _caught[0]) from None
        _fail(f"{type(error).__name__}: {error}")
    text = f"{stats.rows:,} rows landed in {stats.files:,} files"
    typer.echo(json.dumps(asdict(stats)) if as_json else text)


def _table_options(
    table_format: str,
    catalog: list[str] | None,
    after_restore: str,
    growth: str | None,
    partition_by: list[str] | None,
) -> dict[str, Any]:
    """Return the options that only some formats have."""
    options: dict[str, Any] = {}
    if table_format != "parquet":
        options["reland"] = after_restore == "reland"
        options["growth"] = None if growth is None else growth == "allow"
        options["partition_by"] = partition_by or ()
    elif after_restore != "stop":
        raise typer.BadParameter("only for delta and iceberg", param_hint="--after-restore")
    elif growth is not None:
        raise typer.BadParameter("only for delta and iceberg", param_hint="--growth")
    elif partition_by:
        raise typer.BadParameter("only for delta and iceberg", param_hint="--partition-by")
    if table_format == "iceberg":
        options["catalog"] = _pairs(catalog, "--catalog")
    elif catalog:
        raise typer.BadParameter("only for iceberg", param_hint="--catalog")
    return options


def _run(service: Ingestor) -> IngestStats:
    """Let the first signal stop the service, and the second one end the process."""

    def stop(number: int, _: object) -> None:
        signal.signal(number, _end)
        service.stop()

    for each in signal.SIGINT, signal.SIGTERM:
        signal.signal(each, stop)
    return service.run()


def _client_config(path: Path | None, keys: list[str] | None) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    from_file = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
    return _pairs(from_file, "--client-config") | _pairs(keys, "-X")


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """Parse key=value texts."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{text!r} is not key=value", param_hint=option)
        found[key.strip()] = value.strip()
    return found


def _fail(message: str) -> NoReturn:
    typer.secho(message, fg="red", err=True)
    raise typer.Exit(1)


def _shortened(text: str) -> str:
    """The first part of an error's text: Spark's go on with pages of Java."""
    text = text.partition("\n\nJVM stacktrace")[0].strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


if __name__ == "__main__":
    main()
