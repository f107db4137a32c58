"""What a signal handler raises while a value is tried.

A value may be of any class, and raise anything. So may a handler that runs meanwhile; its exception
says nothing of the value, and is the caller's.
"""

from __future__ import annotations

import signal
from traceback import walk_tb
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["raise_if_once"]


_TRIES: Final = 8


def raise_if_once(error: Exception, call: Callable[[], object]) -> None:
    """Repeat a call that has raised an error, and raise the newest that it does not repeat, if any.

    The caller is still handling the error. Handlers may raise in every try: the newest of their
    exceptions has the earlier ones as its context. What the call raises twice is the value's. If it
    raises something else each time, the traceback tells: it goes through a handler or does not.
    """
    newest = _handlers([error], call)
    if newest is error:
        raise error


def _handlers(errors: list[Exception], call: Callable[[], object]) -> Exception | None:
    """Raise the newest that is a handler's if this try has raised it; else return it."""
    try:
        call()
    except Exception as again:
        handlers = [error for error in errors if not _are_alike(error, again)]
        if len(handlers) < len(errors):
            return handlers[-1] if handlers else None
        if len(errors) < _TRIES:
            newest = _handlers([*errors, again], call)
        else:
            newest = again if _is_from_handler(again) else None
        if newest is again:
            raise  # as it was raised, so that its context stays
        return newest
    return errors[-1]


def _is_from_handler(error: Exception) -> bool:
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = {getattr(handler, "__code__", None) for handler in handlers}
    return any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))


def _are_alike(one: Exception, other: Exception) -> bool:
    return type(one) is type(other) and one.args == other.args
