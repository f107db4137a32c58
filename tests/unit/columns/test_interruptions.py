"""An exception of a signal handler is told from one of a value: it comes once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from columnar_kafka.columns.interruptions import raise_if_once

if TYPE_CHECKING:
    from collections.abc import Callable

VALUES = ValueError("the value's")
HANDLERS = ValueError("a handler's")


def raising(*errors: Exception | None) -> Callable[[], None]:
    """Return what raises these, one after the other; None: nothing."""
    left = iter(errors)

    def call() -> None:
        if (error := next(left)) is not None:
            raise error

    return call


def test_an_error_that_comes_again_is_the_values() -> None:
    raise_if_once(VALUES, raising(ValueError("the value's")))


def test_an_error_that_does_not_come_again_is_a_handlers() -> None:
    with pytest.raises(ValueError, match="a handler's"):
        raise_if_once(HANDLERS, raising(None))


def test_a_handler_may_raise_in_front_of_an_error_of_the_value() -> None:
    with pytest.raises(ValueError, match="a handler's"):
        raise_if_once(HANDLERS, raising(VALUES, VALUES))


def test_a_handler_may_raise_when_the_call_is_repeated() -> None:
    with pytest.raises(ValueError, match="a handler's"):
        raise_if_once(VALUES, raising(HANDLERS, VALUES))


def test_several_of_a_handler_are_no_error_of_the_value() -> None:
    with pytest.raises(ValueError, match="the second") as found:
        raise_if_once(HANDLERS, raising(ValueError("the second"), None))
    assert found.value.__context__ is HANDLERS
    with pytest.raises(ValueError, match="the third"):
        raise_if_once(HANDLERS, raising(ValueError("2"), VALUES, ValueError("the third"), VALUES))


def test_errors_that_always_differ_are_the_values() -> None:
    numbers = itertools.count()

    def call() -> None:
        raise KeyError(next(numbers))

    raise_if_once(KeyError(), call)
