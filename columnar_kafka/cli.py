"""The command line `columnar-kafka`: thin; what its commands do is in the packages they name."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

import columnar_kafka

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


def _fail(message: str) -> NoReturn:
    typer.secho(message, fg="red", err=True)
    raise typer.Exit(1)


def _shortened(text: str) -> str:
    """The first part of an error's text: Spark's go on with pages of Java."""
    text = text.partition("\n\nJVM stacktrace")[0].strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


if __name__ == "__main__":
    main()
