"""How a command ends: its exit code, its last words, and what a signal does to it.

0    done
1    it failed, or what it compared is different; standard error says why
2    the command line or its file cannot be understood; nothing was begun
130, 143    ended by Ctrl-C or TERM
"""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["INTERRUPTED", "end", "fail", "failures", "one_paragraph"]

INTERRUPTED: Final = 128 + signal.SIGINT
_LONGEST: Final = 1_500

_caught: list[int] = []


def end(number: int, _: object) -> NoReturn:
    """Handle a signal: raise, and note it, as confluent-kafka may raise a TypeError in its place.

    TERM would end the process on the spot, and no `with` block would clean up.
    """
    _caught.append(number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


@contextmanager
def failures(what: str = "") -> Iterator[None]:
    """End the command with 1 and one paragraph, whatever is raised; or with a signal's code."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort, typer.BadParameter, typer.Exit):
        raise
    except Exception as error:  # noqa: BLE001 - one paragraph for a person, whatever it was
        if _caught:
            raise typer.Exit(128 + _caught[0]) from None
        fail(f"{what}{type(error).__name__}: {one_paragraph(str(error))}")


def fail(message: str) -> NoReturn:
    """Say why, and end with 1."""
    typer.secho(message, fg="red", err=True)
    raise typer.Exit(1)


def one_paragraph(text: str) -> str:
    """Return the first part of an error's text: Spark's go on with pages of Java."""
    text = text.partition("\n\nJVM stacktrace")[0].strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
