"""`columnar-kafka ingest`."""

from __future__ import annotations

import json
import logging
import re
import signal
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from columnar_kafka import ConfigError
from columnar_kafka.cli.options import (
    PLACE,
    AsJson,
    ClientConfig,
    ClientKeys,
    ConfigFile,
    Servers,
    landed,
    offsets,
    read_client_config,
    rules,
    takes,
)
from columnar_kafka.cli.outcome import end, failures
from columnar_kafka.ingest import HealthServer, Ingestor, IngestService, IngestSettings
from columnar_kafka.lake.options import LakeOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from columnar_kafka.ingest import IngestStats, Rules
    from columnar_kafka.ingest.settings import Start

__all__ = ["IngestOptions", "ingest"]

_DEFAULTS: Final = IngestSettings()
_ENDS: Final[Mapping[str, Start]] = {"earliest": "earliest", "latest": "latest"}
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
    lake: LakeOptions = field(default_factory=LakeOptions)
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


@takes
def ingest(options: IngestOptions) -> None:
    """Land the segments of topics in tables, each once, until TERM or Ctrl-C.

    What was read lands before it ends. Ends with 1 if something cannot land; the next run goes on
    from where the table ends.
    """
    keys = read_client_config(options.bootstrap_servers, options.client_file, options.client)
    _check_several(options)
    settings = _settings(options)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with failures(), ExitStack() as stack:
        service = _service(
            [
                Ingestor(
                    keys,
                    topic,
                    options.lake.open(options.to.replace("{topic}", topic)),
                    replace(settings, rules=_rules(options.lake, topic)),
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
        typer.echo(json.dumps({topic: asdict(stat) for topic, stat in stats.items()}))
        return
    for topic, stat in stats.items():
        typer.echo(f"{topic}: {landed(stat.rows, stat.files, stat)}")


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
            allow_gaps=options.lake.gap == "allow",
            topic_generation=options.lake.topic_generation,
            layout=options.lake.files(),
        )
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


def _rules(options: LakeOptions, topic: str) -> Rules:
    def named(place: str | None) -> str | None:
        return None if place is None else place.replace("{topic}", topic)

    return rules(
        replace(
            options,
            plain=options.plain.replace("{topic}", topic),
            dead_letters=named(options.dead_letters),
            plain_schema=named(options.plain_schema),
        )
    )


def _check_several(options: IngestOptions) -> None:
    """Refuse for several topics what is one topic's, or one table's."""
    if len(options.topic) == 1:
        return
    if "{topic}" not in options.to:
        raise typer.BadParameter(
            "several topics need a table each: put {topic} in its name", param_hint="--to"
        )
    if options.lake.dead_letters is not None and "{topic}" not in options.lake.dead_letters:
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
    if text in _ENDS:
        return _ENDS[text]
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

    for signal_number in signal.SIGINT, signal.SIGTERM:
        signal.signal(signal_number, stop)
    return service.run()
