"""Calls from other threads on one event loop: in order, many to one wake-up, and few at a time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from columnar_kafka.aio.inbox import _TURN, Inbox, for_threads


class CountedLoop(asyncio.SelectorEventLoop):
    """Counts how often other code asked to be called."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes = 0

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        self.wakes += 1
        return super().call_soon_threadsafe(*args, **kwargs)


@pytest.fixture
def loop() -> Any:
    made = CountedLoop()
    yield made
    made.close()


def in_a_thread(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_many_calls_of_many_wakes_are_one_wake_up_and_are_made_in_order(loop: Any) -> None:
    made: list[tuple[int, int]] = []

    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())

        def leave() -> None:
            for n in range(_TURN):
                inbox.put(lambda n: made.append((n, threading.get_ident())), n)
                inbox.wake()

        in_a_thread(leave)
        assert len(inbox) == _TURN
        await inbox.emptied.wait()
        assert len(inbox) == 0
        assert inbox.made == _TURN

    loop.run_until_complete(main())
    assert made == [(n, threading.get_ident()) for n in range(_TURN)]
    assert loop.wakes == 1


def test_the_loop_gets_a_turn_between_so_many_calls(loop: Any) -> None:
    async def main() -> list[int]:
        inbox = Inbox(asyncio.get_running_loop())
        for _ in range(3 * _TURN + 1):
            inbox.put(int)
        inbox.wake()
        seen = []
        while inbox:
            await asyncio.sleep(0)
            seen.append(inbox.made)
        return seen

    assert set(loop.run_until_complete(main())) == {_TURN, 2 * _TURN, 3 * _TURN, 3 * _TURN + 1}


def test_settle_makes_what_is_there_when_it_is_called_and_no_more(loop: Any) -> None:
    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        again = 5

        def put_again() -> None:
            if inbox.made < 10 * _TURN:
                inbox.put(put_again)

        for _ in range(again):
            inbox.put(put_again)
        await inbox.settle()
        assert again <= inbox.made < 10 * _TURN

    loop.run_until_complete(main())


def test_what_is_left_for_a_closed_loop_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    inbox = Inbox(loop)
    loop.close()
    for _ in range(2):
        inbox.put(pytest.fail)
        inbox.wake()
        assert len(inbox) == 0


# --- the user's functions -------------------------------------------------------------------------


def test_a_wrapped_callback_sync_or_async_runs_on_the_loop(loop: Any) -> None:
    seen: list[Any] = []

    def plain(*args: Any) -> None:
        seen.append((args, threading.get_ident()))

    async def waits(*args: Any) -> None:
        await asyncio.sleep(0)
        plain(*args)

    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        in_a_thread(lambda: inbox.wrap(plain)(1, 2))
        in_a_thread(lambda: inbox.wrap(waits)(3))
        await inbox.settle()
        await inbox.callbacks_ended()

    loop.run_until_complete(main())
    assert seen == [((1, 2), threading.get_ident()), ((3,), threading.get_ident())]


def test_a_callback_that_fails_is_told_to_the_loops_handler_and_the_next_is_called(
    loop: Any,
) -> None:
    seen: list[Any] = []

    def fails(name: str) -> None:
        raise ValueError(name)

    async def fails_later(name: str) -> None:
        fails(name)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(str(context["exception"])))
        inbox = Inbox(loop)
        inbox.wrap(fails)("one")
        inbox.wrap(fails_later)("two")
        inbox.wrap(seen.append)("three")
        await inbox.settle()
        await inbox.callbacks_ended()

    loop.run_until_complete(main())
    assert sorted(seen) == ["one", "three", "two"]


def test_a_callback_may_wait_for_all_the_others(loop: Any) -> None:
    seen: list[str] = []

    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        gate = asyncio.Event()

        async def last() -> None:
            gate.set()
            await inbox.callbacks_ended()
            seen.append("last")

        async def other() -> None:
            await gate.wait()
            seen.append("other")

        inbox.run(other)
        inbox.run(last)
        await inbox.callbacks_ended()

    loop.run_until_complete(main())
    assert seen == ["other", "last"]


def test_a_logger_is_used_on_the_loop(loop: Any) -> None:
    seen: list[Any] = []

    class Logger:
        def log(self, *args: Any) -> None:
            seen.append((args, threading.get_ident()))

    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        conf = for_threads({"logger": Logger()}, inbox, (), inbox.wrap)
        in_a_thread(lambda: conf["logger"].log(20, "%s", "text"))
        await inbox.settle()

    loop.run_until_complete(main())
    assert seen == [((20, "%s", "text"), threading.get_ident())]
