"""The options that several commands have, and how their texts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

__all__ = [
    "Catalog",
    "ClientConfig",
    "ClientKeys",
    "Json",
    "Servers",
    "TableFormat",
    "TablePlace",
    "catalog_options",
    "client_config",
    "offsets",
    "pairs",
]

Servers = Annotated[str, typer.Option(help="Your Kafka.")]
ClientConfig = Annotated[
    Path | None,
    typer.Option(
        "--client-config", help="A file of key=value lines for the Kafka client.", exists=True
    ),
]
ClientKeys = Annotated[
    list[str] | None,
    typer.Option("--client", "-X", help="key=value for the Kafka client; repeats."),
]
TableFormat = Annotated[
    Literal["parquet", "delta", "iceberg"], typer.Option("--format", help="The table's format.")
]
TablePlace = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="The table: a path, or the name of an Iceberg table."),
]
Catalog = Annotated[
    list[str] | None, typer.Option(help="key=value of an Iceberg table's catalog; repeats.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def client_config(servers: str, path: Path | None, keys: list[str] | None) -> dict[str, str]:
    """Return the Kafka client's configuration; an option goes before the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    from_file = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
    given = pairs(from_file, "--client-config") | pairs(keys, "-X")
    return given | {"bootstrap.servers": servers}


def catalog_options(table_format: str, catalog: list[str] | None) -> dict[str, Any]:
    """Return what opens an Iceberg table; nothing for the other formats."""
    if table_format == "iceberg":
        return {"catalog": pairs(catalog, "--catalog")}
    if catalog:
        raise typer.BadParameter("only for iceberg", param_hint="--catalog")
    return {}


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """Parse key=value texts."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{text!r} is not key=value", param_hint=option)
        found[key.strip()] = value.strip()
    return found


def offsets(text: str, option: str) -> dict[int, int]:
    """Parse partitions and offsets, as ``0:100,1:250``."""
    found = {}
    for part in text.split(","):
        partition, _, offset = part.partition(":")
        if not (partition.strip().isdecimal() and offset.strip().isdecimal()):
            raise typer.BadParameter(
                f"{part!r} is not PARTITION:OFFSET, as in 0:100,1:250", param_hint=option
            )
        found[int(partition)] = int(offset)
    return found
