"""The options that several commands have, and how their texts are read."""

from __future__ import annotations

import inspect
import sys
from dataclasses import is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from columnar_kafka import ConfigError
from columnar_kafka.cli.guesses import show_guess
from columnar_kafka.config import Hidden, HiddenText
from columnar_kafka.ingest.oauth import named_oauth_cb
from columnar_kafka.lake.formats import formats_with
from columnar_kafka.lake.options import SCHEMA_SOURCES, TableOptions, options_of
from columnar_kafka.lake.tables.files import hide_password, refuse_password

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from columnar_kafka.ingest import Decoding, Rules
    from columnar_kafka.lake.options import DecodingOptions, LandingOptions, Option

__all__ = [
    "PLACE",
    "AsJson",
    "ClientConfig",
    "ClientKeys",
    "ConfigFile",
    "Servers",
    "TablePlace",
    "flag",
    "landed",
    "offsets",
    "pairs",
    "read_client_config",
    "read_decoding",
    "read_place",
    "rules",
    "takes",
]

T = TypeVar("T")


_TABLES: Final = "columnar_kafka.tables of the configuration file"


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make a file's values the defaults of the command's options."""
    if path is None:
        return None
    values = _parsed(path, "--config", lambda text: Hidden(tomllib.loads(text)))
    named: dict[str, Any] = {
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
        named[key].name: _as_option(value, repeats=named[key].multiple)
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
        return [HiddenText(f"{key}={_as_text(setting)}") for key, setting in _flat(value)]
    return [value] if repeats and not isinstance(value, list) else value


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys and values: TOML takes a dotted key without quotes for a table in the table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", setting) for inner, setting in _flat(value))
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


def flag(name: str) -> str:
    """Return how the command line spells an option."""
    return f"--{name.replace('_', '-')}"


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
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


def takes(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: a parameter that is a dataclass stands for its fields.

    A function with so many parameters would be a page of them, and hand them on one by one.
    """
    context_parameter = inspect.Parameter(
        "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
    )
    parameters = [context_parameter, *_parameters(command)]

    @wraps(command)
    def call(context: typer.Context, **values: Any) -> None:
        for name, pairs_of_file in context.meta.get(_TABLES, {}).items():
            if values[name] != pairs_of_file:  # the command line has some; the later one counts
                values[name] = [*pairs_of_file, *values[name]]
        command(**_arguments(command, values))

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameters(of: Any) -> Iterator[inspect.Parameter]:
    """Yield the options of a function or a dataclass."""
    for parameter in inspect.signature(of, eval_str=True).parameters.values():
        kind: Any = parameter.annotation
        if not is_dataclass(parameter.annotation):
            yield parameter
        elif stated := tuple(options_of(kind)):
            for name, option in stated:
                yield _parameter(name, option, getattr(kind(), name))
        else:
            yield from _parameters(kind)


def _parameter(name: str, option: Option, default: Any) -> inspect.Parameter:
    """Return an option of landing as typer takes it."""
    kind: Any = str if option.least is None else int
    stated: dict[str, Any] = {"help": option.help, "min": option.least}
    names = []
    if isinstance(default, bool):
        kind, names = bool, [flag(name)]
    if option.choices:
        kind = Literal[option.choices]
    if option.is_place:
        stated |= PLACE
    if isinstance(default, Hidden) or option.may_hide:
        stated |= _HIDDEN
    if option.metavar:
        stated["metavar"] = option.metavar
    if isinstance(default, Hidden | tuple):
        kind, default = list[kind], None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[
            kind if default is not None else kind | None, typer.Option(*names, **stated)
        ],
    )


def _arguments(of: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a function or a dataclass is called with: its own values, and its dataclasses."""
    return {
        name: _made(parameter.annotation, values)
        if is_dataclass(parameter.annotation)
        else values[name]
        for name, parameter in inspect.signature(of, eval_str=True).parameters.items()
    }


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    names = [name for name, _ in options_of(kind)]
    if not names:
        return kind(**_arguments(kind, values))
    unset, given = kind(), {}
    for name in names:
        given[name] = values[name]
        if isinstance(getattr(unset, name), Hidden):
            given[name] = pairs(values[name], flag(name))
        elif isinstance(getattr(unset, name), tuple):
            given[name] = tuple(values[name] or ())
    made = kind(**given)
    for name in made.misplaced() if isinstance(made, TableOptions) else ():
        raise typer.BadParameter(
            f"only for {' and '.join(formats_with(name))}", param_hint=flag(name)
        )
    return made


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


def read_decoding(options: DecodingOptions) -> Decoding | None:
    """Return how plain messages become rows, by the schema in a file; None if no option says so."""
    if missing := options.missing():
        raise typer.BadParameter(
            "plain messages need a format and a schema to be decoded", param_hint=flag(missing)
        )
    if options.registry is not None:
        try:
            return options.decoding()
        except ConfigError as error:
            raise typer.BadParameter(str(error), param_hint="--registry") from error
    if (path := options.plain_schema) is None:
        return None
    try:
        options.lenient()
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        text = path if path in SCHEMA_SOURCES else Path(path).read_text(encoding="utf-8")
        return replace(options, plain_schema=text).decoding(show_guess)
    except (OSError, ValueError, ConfigError) as error:
        raise typer.BadParameter(f"{path}: {error}", param_hint="--plain-schema") from error


def rules(options: LandingOptions) -> Rules:
    """Return the rules that the options state.

    Raises:
        LakeError: a place is none for its format.
    """
    decoding = read_decoding(options)
    try:
        return options.rules(decoding)
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
    by_partition = {}
    for part in text.split(","):
        partition, _, offset = part.partition(":")
        if not (partition.strip().isdecimal() and offset.strip().isdecimal()):
            raise typer.BadParameter(
                f"{part!r} is not PARTITION:OFFSET, such as 0:100,1:250", param_hint=option
            )
        by_partition[int(partition)] = int(offset)
    return by_partition
