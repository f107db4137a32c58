"""What a signal handler raises while a value is tried.

A value may be of any class, and raise anything. So may a handler that runs meanwhile; its exception
says nothing of the value, and is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["raise_if_once"]


def raise_if_once(error: Exception, call: Callable[[], object]) -> None:
    """Repeat a call that has raised an error, and raise the one that it does not repeat, if any."""
    again = _error(call)
    if again is None:
        raise error
    if _are_alike(error, again):
        return
    third = _error(call)  # says which one of both is the value's
    if _are_alike(again, third):
        raise error
    if third is None or _are_alike(error, third):
        raise again


def _error(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - that is the question
        return error
    return None


def _are_alike(one: Exception, other: Exception | None) -> bool:
    return type(one) is type(other) and one.args == other.args
