"""`columnar-kafka ingest`."""

from __future__ import annotations

import json
import logging
import re
import signal
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import typer

from columnar_kafka import ConfigError
from columnar_kafka.cli.options import (
    PLACE,
    AfterRestore,
    AsJson,
    Catalog,
    ClientConfig,
    ClientKeys,
    ConfigFile,
    DeadLettersPlace,
    Growth,
    KeepSnapshots,
    PartitionBy,
    Plain,
    PlainFormat,
    PlainSchema,
    PlainSchemaId,
    Servers,
    Storage,
    TableFormat,
    Verify,
    landed,
    landing_options,
    offsets,
    read_client_config,
    read_decoding,
    rules,
    takes,
)
from columnar_kafka.cli.outcome import end, failures
from columnar_kafka.ingest import (
    HealthServer,
    Ingestor,
    IngestService,
    IngestSettings,
    Layout,
    Mode,
    open_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from columnar_kafka.ingest import IngestStats, Rules
    from columnar_kafka.ingest.settings import Start

__all__ = ["IngestOptions", "ingest"]

_DEFAULTS: Final = IngestSettings()
_OFFSETS: Final = re.compile(r"\d+:\d+(,\d+:\d+)*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """The options of `ingest`; their long names are the keys of its configuration file."""

    bootstrap_servers: Servers
    topic: Annotated[list[str], typer.Option(help="A topic to land; repeats.")]
    to: Annotated[
        str,
        typer.Option(
            help="The table: a path, a URL, or the name of an Iceberg table. {topic} stands for "
            "the topic, also in --dead-letters, --plain and --plain-schema; several topics need a "
            "table each.",
            **PLACE,
        ),
    ]
    table_format: TableFormat = "parquet"
    catalog: Catalog = field(default=None, repr=False)  # which have passwords
    storage: Storage = field(default=None, repr=False)
    layout: Annotated[
        Literal["stitched", "verbatim"],
        typer.Option(help="Many segments in a file, or a file for each one, byte for byte."),
    ] = "stitched"
    file_bytes: Annotated[
        int, typer.Option(min=1, help="The size at which the next stitched file begins.")
    ] = _DEFAULTS.layout.file_bytes
    verify: Verify = "pages"
    dead_letters: DeadLettersPlace = None
    plain: Plain = "stop"
    plain_format: PlainFormat = None
    plain_schema: PlainSchema = None
    plain_schema_id: PlainSchemaId = None
    partition: Annotated[
        list[int] | None,
        typer.Option(
            help="A partition to land; repeats. Without it, a consumer group shares all of them."
        ),
    ] = None
    start: Annotated[
        str,
        typer.Option(
            help="Where to begin with partitions that the table does not have yet: earliest, "
            "latest, a time such as 2026-01-31T12:00:00Z, or offsets such as 0:100,1:250."
        ),
    ] = "earliest"
    roll_bytes: Annotated[
        int, typer.Option(min=1, help="Commit when this many bytes are staged.")
    ] = _DEFAULTS.roll_bytes
    roll_seconds: Annotated[
        float, typer.Option(min=0.001, help="Commit this long after the first staged segment.")
    ] = _DEFAULTS.roll_seconds
    stop_at_end: Annotated[
        bool, typer.Option("--stop-at-end", help="End where the topic ends now.")
    ] = False
    end_offsets: Annotated[
        str | None, typer.Option(help="End before these offsets, such as 0:100,1:250.")
    ] = None
    gap: Annotated[
        Literal["refuse", "allow"],
        typer.Option(help="Whether to go on where messages were deleted before they landed."),
    ] = "refuse"
    after_restore: AfterRestore = "stop"
    growth: Growth = None
    partition_by: PartitionBy = None
    keep_snapshots: KeepSnapshots = None
    straddle: Annotated[
        Literal["split", "stop", "dead-letter"],
        typer.Option(help="What to do with a segment that has rows of several partitions."),
    ] = "split"
    topic_generation: Annotated[
        str | None,
        typer.Option(
            help="A text in place of the topic's id; change it when the topic is created again."
        ),
    ] = None
    client_file: ClientConfig = None
    client: ClientKeys = field(default=None, repr=False)
    health: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Answer GET /health and /ready; without HOST on all addresses.",
        ),
    ] = None
    health_seconds: Annotated[
        float,
        typer.Option(
            min=1, help="/health answers 503 when one message or commit takes longer than this."
        ),
    ] = 300.0
    config: ConfigFile = None
    as_json: AsJson = False


@takes(IngestOptions)
def ingest(options: IngestOptions) -> None:
    """Land the segments of topics in tables, each once, until TERM or Ctrl-C.

    What was read lands before it ends. Ends with 1 if something cannot land; the next run goes on
    from where the table ends.
    """
    keys = read_client_config(options.bootstrap_servers, options.client_file, options.client)
    _check_several(options)
    settings = _settings(options)
    opening = _table_options(options)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with failures(), ExitStack() as stack:
        service = _service(
            [
                Ingestor(
                    keys,
                    topic,
                    open_table(
                        options.table_format, options.to.replace("{topic}", topic), **opening
                    ),
                    replace(settings, rules=_rules(options, opening, topic)),
                )
                for topic in dict.fromkeys(options.topic)
            ]
        )
        if options.health is not None:
            host, port = _address(options.health)
            late = options.health_seconds
            stack.enter_context(HealthServer(service, port, host=host, late_seconds=late))
        stats = _run(service)
    if options.as_json:
        typer.echo(json.dumps({topic: asdict(each) for topic, each in stats.items()}))
        return
    for topic, each in stats.items():
        typer.echo(f"{topic}: {landed(each.rows, each.files, each)}")


def _service(ingestors: Sequence[Ingestor]) -> IngestService:
    try:
        return IngestService(ingestors)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="-X") from error


def _settings(options: IngestOptions) -> IngestSettings:
    ends = options.end_offsets
    try:
        return IngestSettings(
            partitions=None if options.partition is None else tuple(options.partition),
            start=_start(options.start),
            roll_bytes=options.roll_bytes,
            roll_seconds=options.roll_seconds,
            stop_at_end=options.stop_at_end,
            end_offsets=None if ends is None else offsets(ends, "--end-offsets"),
            allow_gaps=options.gap == "allow",
            topic_generation=options.topic_generation,
            layout=Layout(mode=Mode(options.layout), file_bytes=options.file_bytes),
        )
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


def _rules(options: IngestOptions, opening: Mapping[str, Any], topic: str) -> Rules:
    def named(place: str | None) -> str | None:
        return None if place is None else place.replace("{topic}", topic)

    schema = named(options.plain_schema)
    return rules(
        options.verify,
        options.plain.replace("{topic}", topic),
        named(options.dead_letters),
        table_format=options.table_format,
        opening=opening,
        straddle=options.straddle,
        decoding=read_decoding(options.plain_format, schema, options.plain_schema_id),
    )


def _table_options(options: IngestOptions) -> dict[str, Any]:
    found = landing_options(
        options.table_format,
        options.catalog,
        options.storage,
        after_restore=options.after_restore,
        growth=options.growth,
        partition_by=options.partition_by,
        keep_snapshots=options.keep_snapshots,
    )
    return {**found, "allow_gaps": options.gap == "allow"}


def _check_several(options: IngestOptions) -> None:
    """Refuse for several topics what is one topic's, or one table's."""
    if len(options.topic) == 1:
        return
    if "{topic}" not in options.to:
        raise typer.BadParameter(
            "several topics need a table each: put {topic} in its name", param_hint="--to"
        )
    if options.dead_letters is not None and "{topic}" not in options.dead_letters:
        raise typer.BadParameter(  # `replay` would land them all in one table
            "each table needs a place of its own: put {topic} in its name",
            param_hint="--dead-letters",
        )
    for value, option in (
        (options.partition, "--partition"),
        (options.end_offsets, "--end-offsets"),
        (_OFFSETS.fullmatch(options.start), "--start"),
    ):
        if value:
            raise typer.BadParameter("only for a single topic", param_hint=option)


def _start(text: str) -> Start:
    if text in ("earliest", "latest"):
        return cast("Start", text)
    if _OFFSETS.fullmatch(text):
        return offsets(text, "--start")
    try:
        return datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))  # Python 3.10 knows no Z
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, a time such as 2026-01-31T12:00:00Z, or offsets "
            "such as 0:100,1:250",
            param_hint="--start",
        ) from None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) >= 1 << 16:
        raise typer.BadParameter(f"{text!r} is not [HOST:]PORT", param_hint="--health")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _run(service: IngestService) -> dict[str, IngestStats]:
    """Let the first signal stop the service, and the second one end the process."""

    def stop(number: int, _: object) -> None:
        signal.signal(number, end)
        service.stop()

    for each in signal.SIGINT, signal.SIGTERM:
        signal.signal(each, stop)
    return service.run()
