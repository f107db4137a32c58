"""An exception of a signal handler is told from one of a value: it comes once."""

from __future__ import annotations

import itertools
import signal
from typing import TYPE_CHECKING

import pytest

from columnar_kafka.runtime.interruptions import raise_if_once

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


def repeat(error: Exception, call: Callable[[], object]) -> None:
    try:
        raising(error)()
    except Exception as raised:  # noqa: BLE001 - of any kind
        raise_if_once(raised, call)


def contexts(error: BaseException | None) -> list[BaseException]:
    """Return an exception and those that it has interrupted, from the newest on."""
    return [] if error is None else [error, *contexts(error.__context__)]


def test_an_error_that_comes_again_is_the_values() -> None:
    repeat(VALUES, raising(ValueError("the value's")))


def test_an_error_that_does_not_come_again_is_a_handlers() -> None:
    with pytest.raises(ValueError, match="a handler's"):
        repeat(HANDLERS, raising(None))


def test_a_handler_may_raise_in_front_of_an_error_of_the_value() -> None:
    with pytest.raises(ValueError, match="a handler's"):
        repeat(HANDLERS, raising(VALUES, VALUES))


def test_a_handler_may_raise_when_the_call_is_repeated() -> None:
    with pytest.raises(ValueError, match="a handler's"):
        repeat(VALUES, raising(HANDLERS, VALUES))


@pytest.mark.parametrize("end", [None, VALUES])
@pytest.mark.parametrize("before", [[], [VALUES]])
def test_several_of_a_handler_reach_the_caller(
    before: list[Exception], end: Exception | None
) -> None:
    handlers = [ValueError(number) for number in range(3)]
    first, *others = [*before, *handlers, *([end] if before else [end, end])]
    assert first is not None
    with pytest.raises(ValueError, match="2") as raised:
        repeat(first, raising(*others))
    assert [context for context in contexts(raised.value) if context in handlers] == handlers[::-1]


def test_what_a_handler_has_interrupted_stays_its_context() -> None:
    inner = ValueError("inside")

    def call() -> None:
        if not calls.pop():
            try:
                raise inner
            except ValueError:
                raise HANDLERS from None

    calls = [True, False]
    with pytest.raises(ValueError, match="a handler's") as raised:
        repeat(VALUES, call)
    assert inner in contexts(raised.value)
    assert VALUES in contexts(raised.value)


def test_errors_that_always_differ_are_the_values() -> None:
    numbers = itertools.count()

    def call() -> None:
        raise KeyError(next(numbers))

    repeat(KeyError(), call)


def test_one_that_a_handler_raises_each_time_is_the_handlers() -> None:
    numbers = itertools.count()

    def handler(*_: object) -> None:
        raise KeyError(next(numbers))

    def call() -> None:
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(KeyError) as raised:
            repeat(KeyError(), call)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert raised.value.args == (next(numbers) - 1,)
