"""The options that several commands have, and how their texts are read."""

from __future__ import annotations

import inspect
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast

import typer

from columnar_kafka import ConfigError
from columnar_kafka.config import Hidden, HiddenText
from columnar_kafka.ingest import Decoding, parse_rules
from columnar_kafka.ingest.oauth import named_oauth_cb
from columnar_kafka.lake.tables.files import hide_password, refuse_password

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from columnar_kafka.ingest import Rules

__all__ = [
    "PLACE",
    "AfterRestore",
    "AsJson",
    "Catalog",
    "ClientConfig",
    "ClientKeys",
    "ConfigFile",
    "DeadLettersPlace",
    "Growth",
    "KeepSnapshots",
    "PartitionBy",
    "Plain",
    "PlainFormat",
    "PlainSchema",
    "PlainSchemaId",
    "Servers",
    "Storage",
    "TableFormat",
    "TablePlace",
    "Verify",
    "landed",
    "landing_options",
    "offsets",
    "pairs",
    "read_client_config",
    "read_decoding",
    "read_place",
    "rules",
    "table_options",
    "takes",
]

Options = TypeVar("Options")
T = TypeVar("T")


_TABLES: Final = "columnar_kafka.tables of the configuration file"


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make a file's values the defaults of the command's options."""
    if path is None:
        return None
    values = _parsed(path, "--config", lambda text: Hidden(tomllib.loads(text)))
    named = {
        option.removeprefix("--"): parameter
        for parameter in context.command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--config"
    }
    if unknown := sorted(values.keys() - named.keys()):
        raise typer.BadParameter(
            f"{path}: {unknown[0]!r} is not an option; the options are {', '.join(sorted(named))}",
            param_hint="--config",
        )
    context.default_map = {
        named[key].name: _as_option(value, repeats=cast("Any", named[key]).multiple)
        for key, value in values.items()
    }
    tables = [named[key].name for key, value in values.items() if isinstance(value, dict)]
    context.meta[_TABLES] = {name: context.default_map[name] for name in tables}
    return path


def _parsed(path: Path, option: str, parse: Callable[[str], T]) -> T:
    """Return what a file says; an error of the option has nothing of it but a place."""
    wrong = ""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        wrong = f"line {1 + error.object.count(10, 0, error.start)} is not UTF-8"
    except (OSError, ValueError) as error:
        wrong = str(error)
    # Not from the error, which holds the file: there may be passwords in it.
    raise typer.BadParameter(f"{path}: {wrong}", param_hint=option)


def _as_option(value: Any, *, repeats: bool) -> Any:
    """Return a value of TOML as an option has it; a table is for options of key=value."""
    if isinstance(value, dict):
        return [HiddenText(f"{key}={_as_text(each)}") for key, each in _flat(value)]
    return [value] if repeats and not isinstance(value, list) else value


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys and values: TOML takes a dotted key without quotes for a table in the table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", each) for inner, each in _flat(value))
        else:
            yield key, value


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_read_config,
        is_eager=True,
        help="A TOML file of these options, by their long names; the command line overrides it.",
    ),
]
Servers = Annotated[str, typer.Option(help="The Kafka cluster, as HOST:PORT,HOST:PORT.")]
ClientConfig = Annotated[
    Path | None,
    typer.Option(
        "--client-config",
        help="A file with a line key=value for each key of the Kafka client (librdkafka).",
        exists=True,
    ),
]
_HIDDEN: Final[dict[str, Any]] = {"parser": HiddenText, "metavar": "TEXT"}
"""How options are read in which there may be passwords."""
ClientKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        "-X",
        help="key=value for the Kafka client; repeats, and overrides the file.",
        **_HIDDEN,
    ),
]
TableFormat = Annotated[
    Literal["parquet", "delta", "iceberg"], typer.Option("--format", help="The table's format.")
]


def read_place(text: str) -> str:
    """Return an option's text with a place in it, if it has no password."""
    text = hide_password(text)
    try:
        refuse_password(text)
    except ConfigError as error:
        raise typer.BadParameter(error.reason) from error
    return text


PLACE: Final[dict[str, Any]] = {"parser": read_place, "metavar": "PLACE"}
"""How options are read in which there are places."""
TablePlace = Annotated[
    str,
    typer.Argument(
        parser=read_place,
        metavar="TABLE",
        help="The table: a path, a URL, or the name of an Iceberg table.",
    ),
]
Catalog = Annotated[
    list[str] | None,
    typer.Option(help="A property of the Iceberg catalog, key=value; repeats.", **_HIDDEN),
]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        help="A key of the object store, such as aws_region=eu-central-1; repeats.", **_HIDDEN
    ),
]
AfterRestore = Annotated[
    Literal["stop", "reland"],
    typer.Option(help="Whether to land again what a restore of the table has undone."),
]
Growth = Annotated[
    Literal["allow", "refuse"] | None,
    typer.Option(
        help="Whether to add columns to the table; by default only if a landing created it."
    ),
]
KeepSnapshots = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many snapshots of an Iceberg table stay; by default its properties say it.",
    ),
]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option(
        help="A partition column of a new table, or a transform such as day(column); repeats."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


Verify = Annotated[
    Literal["headers", "pages", "decode"],
    typer.Option(help="How closely to check a segment: decode if you do not trust its producer."),
]
DeadLettersPlace = Annotated[
    str | None,
    typer.Option(
        "--dead-letters",
        help="A directory for messages that cannot land; without it the first one is an error.",
        **PLACE,
    ),
]
Plain = Annotated[
    str,
    typer.Option(
        parser=read_place,
        metavar="stop|skip|dead-letter|table:PLACE|decode",
        help="What to do with messages that are not segments. PLACE: a table of their own, of the "
        "same format. decode: they land as rows, see --plain-format and --plain-schema.",
    ),
]
PlainFormat = Annotated[
    Literal["avro", "json"] | None,
    typer.Option(help="Format of the values of plain messages that land as rows."),
]
PlainSchema = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="File with the Avro schema (JSON) of plain messages."),
]
PlainSchemaId = Annotated[
    int | None,
    typer.Option(
        help="Registry id of --plain-schema, for Avro values with Confluent's five-byte prefix."
    ),
]


def takes(options: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a command of a function: its options are the fields of a dataclass, which it takes.

    A function with so many parameters would be a page of them, and hand them on one by one.
    """

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(command)
        def call(context: typer.Context, **values: Any) -> None:
            for name, pairs_of_file in context.meta.get(_TABLES, {}).items():
                if values[name] != pairs_of_file:  # the command line has some; the later one counts
                    values[name] = [*pairs_of_file, *values[name]]
            command(options(**values))

        shown = inspect.signature(options, eval_str=True)
        first = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        call.__signature__ = shown.replace(  # type: ignore[attr-defined]
            parameters=[first, *shown.parameters.values()]
        )
        call.__annotations__ = {
            "context": typer.Context,
            **inspect.get_annotations(options, eval_str=True),
        }
        return call

    return decorate


def read_client_config(servers: str, path: Path | None, keys: list[str] | None) -> Hidden:
    """Return the Kafka client's configuration; an option overrides the file.

    ``oauth_cb`` is imported by its name.
    """
    lines = _parsed(path, "--client-config", _lines) if path else []
    given = pairs(lines, "--client-config")
    given |= pairs(keys, "-X")
    if "oauth_cb" in given:
        try:
            given["oauth_cb"] = named_oauth_cb(given["oauth_cb"])
        except ConfigError as error:
            raise typer.BadParameter(str(error), param_hint="-X") from error
    given["bootstrap.servers"] = servers
    return given


def _lines(text: str) -> list[str]:
    """Return a text's lines without comments."""
    lines = map(str.strip, text.splitlines())
    return [HiddenText(line) for line in lines if line and not line.startswith("#")]


def table_options(
    table_format: str, catalog: list[str] | None, storage: list[str] | None
) -> dict[str, Any]:
    """Return what opens a table."""
    found: dict[str, Any] = {"storage": pairs(storage, "--storage")}
    if table_format == "iceberg":
        found["catalog"] = pairs(catalog, "--catalog")
    elif catalog:
        raise typer.BadParameter("only for iceberg", param_hint="--catalog")
    return found


def landing_options(
    table_format: str,
    catalog: list[str] | None,
    storage: list[str] | None,
    *,
    after_restore: str,
    growth: str | None,
    partition_by: list[str] | None,
    keep_snapshots: int | None = None,
) -> dict[str, Any]:
    """Return what opens a table to land in it; some formats have options of their own."""
    found = table_options(table_format, catalog, storage)
    if table_format == "iceberg":
        found["keep_snapshots"] = keep_snapshots
    elif keep_snapshots is not None:
        raise typer.BadParameter("only for iceberg", param_hint="--keep-snapshots")
    if table_format != "parquet":
        found["reland"] = after_restore == "reland"
        found["growth"] = None if growth is None else growth == "allow"
        found["partition_by"] = partition_by or ()
        return found
    for value, option in (
        (after_restore == "reland", "--after-restore"),
        (growth, "--growth"),
        (partition_by, "--partition-by"),
    ):
        if value:
            raise typer.BadParameter("only for delta and iceberg", param_hint=option)
    return found


def read_decoding(
    plain_format: str | None, schema: str | None, schema_id: int | None
) -> Decoding | None:
    """Return how plain messages become rows; None if no option says so."""
    if plain_format is None or schema is None:
        if (plain_format, schema, schema_id) == (None, None, None):
            return None
        missing = "--plain-format" if plain_format is None else "--plain-schema"
        raise typer.BadParameter(
            "plain messages need a format and a schema to be decoded", param_hint=missing
        )
    try:
        text = Path(schema).read_text(encoding="utf-8")
        return Decoding(cast("Any", plain_format), text, schema_id)
    except (OSError, ValueError, ConfigError) as error:
        raise typer.BadParameter(f"{schema}: {error}", param_hint="--plain-schema") from error


def rules(
    verify: str,
    plain: str,
    dead_letters: str | None,
    *,
    table_format: str,
    opening: Mapping[str, Any],
    straddle: str = "split",
    decoding: Decoding | None = None,
) -> Rules:
    """Return the rules that the options state; `opening` is what opens the table.

    Raises:
        LakeError: a place is none for its format.
    """
    try:
        return parse_rules(
            verify=verify,
            plain=plain,
            dead_letters=dead_letters,
            table_format=table_format,
            straddle=straddle,
            decoding=decoding,
            **opening,
        )
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error


def landed(rows: int, files: int, counts: Any) -> str:
    """Return what a command says at its end; `counts` has what was set aside or encoded anew."""
    others = {
        "segments encoded anew": counts.rewritten,
        "plain messages decoded": counts.decoded,
        "dead letters": counts.dead_letters,
        "plain messages set aside": counts.plain_messages,
        "plain messages skipped": counts.skipped,
    }
    told = "".join(f", {count:,} {what}" for what, count in others.items() if count)
    return f"{rows:,} rows landed in {files:,} files{told}"


def pairs(texts: list[str] | None, option: str) -> Hidden:
    """Parse key=value texts."""
    for number, text in enumerate(texts or (), start=1):
        if not text.partition("=")[0].strip() or "=" not in text:  # the text may be a password
            raise typer.BadParameter(
                f"number {number} of {len(texts or ())} is not key=value", param_hint=option
            )
    parts = (text.partition("=") for text in texts or ())
    return Hidden({key.strip(): value.strip() for key, _, value in parts})


def offsets(text: str, option: str) -> dict[int, int]:
    """Parse partitions and offsets, as ``0:100,1:250``."""
    found = {}
    for part in text.split(","):
        partition, _, offset = part.partition(":")
        if not (partition.strip().isdecimal() and offset.strip().isdecimal()):
            raise typer.BadParameter(
                f"{part!r} is not PARTITION:OFFSET, such as 0:100,1:250", param_hint=option
            )
        found[int(partition)] = int(offset)
    return found
