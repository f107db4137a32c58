"""What a signal handler raises while a value is tried.

A value may be of any class, and raise anything. So may a handler that runs meanwhile; its exception
says nothing of the value, and is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["raise_if_once"]


_TRIES: Final = 8


def raise_if_once(error: Exception, call: Callable[[], object]) -> None:
    """Repeat a call that has raised an error, and raise the newest that it does not repeat, if any.

    Handlers may raise in every try. What the call raises twice is the value's; so is all of it, if
    that is something else each time.
    """
    found = [error]
    for _ in range(_TRIES):
        again = _error(call)
        if again is None:
            raise found[-1]
        handlers = [each for each in found if not _are_alike(each, again)]
        if len(handlers) < len(found):
            if handlers:
                raise handlers[-1]
            return
        again.__context__ = found[-1]  # as if it had been raised while that one was handled
        found.append(again)


def _error(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - that is the question
        return error
    return None


def _are_alike(one: Exception, other: Exception) -> bool:
    return type(one) is type(other) and one.args == other.args
