"""Records that an `AIOConsumer` has ready: they cost no thread, and come in the order of calls."""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aio_consumers import number, place, send
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.error import ConsumeError
from inside import callback_errors_of, fail_next_call, feed_of, is_closing, wrapped_consumer

from columnar_kafka.aio import calls as calls_module
from columnar_kafka.consuming.feed import poller as poller_module

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from columnar_kafka.aio import AIOConsumer
    from columnar_kafka.testing import FakeKafka

COUNT = 9


class Counting(concurrent.futures.ThreadPoolExecutor):
    """Counts the calls that needed a thread."""

    def __init__(self) -> None:
        super().__init__(1)
        self.calls = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return super().submit(*args, **kwargs)


@pytest.fixture
def threads() -> Iterator[Counting]:
    with Counting() as executor:
        yield executor


@pytest.fixture
def begun(
    kafka: FakeKafka, make: Any, threads: Counting, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """A factory of consumers that have handed out record 0 of nine; the others are ready.

    On a slow machine, too, it is neither the loop's turn nor librdkafka's.
    """
    monkeypatch.setattr(calls_module, "_SLICE", 3600)
    monkeypatch.setattr(poller_module, "SERVE_EVERY", 3600)
    send(kafka, *range(COUNT), rows=COUNT)

    @asynccontextmanager
    async def consuming(over: Any = None) -> AsyncIterator[AIOConsumer]:
        consumer = make(over, executor=threads)
        try:
            await consumer.subscribe(["t"])
            assert number(await consumer.poll()) == 0
            threads.calls = 0
            yield consumer
        finally:
            if not is_closing(consumer):
                await consumer.close()

    return consuming


# --- without a thread -----------------------------------------------------------------------------


async def test_a_record_that_is_ready_needs_no_thread(begun: Any, threads: Counting) -> None:
    async with begun() as consumer:
        messages = [await consumer.poll(), *await consumer.consume(2), await anext(consumer)]
        messages += [message async for message in taking(consumer, COUNT - 5)]
        assert threads.calls == 0
        assert [number(message) for message in messages] == list(range(1, COUNT))
        [at] = await consumer.position([place()])
        assert at.offset == messages[-1].offset() + 1


async def taking(consumer: AIOConsumer, count: int) -> AsyncIterator[Any]:
    """Yield so many messages of an ``async for``."""
    left = iter(range(count - 1))
    async for message in consumer:
        yield message
        if next(left, None) is None:
            return


async def test_a_consume_leaves_records_ready_for_the_next(
    kafka: FakeKafka, begun: Any, threads: Counting
) -> None:
    async with begun() as consumer:
        send(kafka, *range(COUNT, 30), rows=30)
        numbers = [number(message) for message in await consumer.consume(COUNT - 1)]
        numbers += [number(message) for message in await consumer.consume(3)]
        assert threads.calls == 1
        numbers += [number(message) for message in await consumer.consume(4)]
        numbers += [number(await consumer.poll())]
        assert threads.calls == 1
        assert numbers == list(range(1, COUNT + 8))


async def test_what_is_refused_is_refused_though_records_are_ready(begun: Any) -> None:
    async with begun() as consumer:
        with pytest.raises(TypeError, match="must be real number"):
            await consumer.poll("1")
        with pytest.raises(TypeError, match="must be real number"):
            await consumer.consume(1, None)
        with pytest.raises(TypeError, match="integer"):
            await consumer.consume(1.5)
        with pytest.raises(ValueError, match="between 0 and 1000000"):
            await consumer.consume(-1)
        assert await consumer.consume(0) == []
        assert number(await consumer.poll()) == 1
    with pytest.raises(RuntimeError, match="Consumer closed"):
        await consumer.poll()


# --- with a thread --------------------------------------------------------------------------------


async def test_more_than_is_ready_comes_from_a_thread(begun: Any, threads: Counting) -> None:
    async with begun() as consumer:
        messages = await consumer.consume(COUNT, 0.1)
        assert [number(message) for message in messages] == list(range(1, COUNT))
        assert threads.calls == 1


@pytest.mark.parametrize("call", ["poll", "consume"])
async def test_librdkafka_is_served_when_it_is_due(
    begun: Any, threads: Counting, call: str
) -> None:
    """Or the group would take the consumer for dead."""
    async with begun() as consumer:
        feed_of(wrapped_consumer(consumer)).serve_soon()
        await getattr(consumer, call)()
        assert threads.calls == 1


async def test_other_tasks_run_though_there_is_always_a_record_ready(
    begun: Any, threads: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice of the loop's time ends at once here."""
    monkeypatch.setattr(calls_module, "_SLICE", 0)
    turns: list[int] = []
    async with begun() as consumer:
        for n in range(1, 4):
            asyncio.get_running_loop().call_soon(turns.append, n)
            assert number(await consumer.poll()) == n
            assert turns == list(range(1, n + 1))
        assert threads.calls == 3


async def test_what_a_callback_has_raised_comes_first(begun: Any) -> None:
    async with begun() as consumer:
        callback_errors_of(wrapped_consumer(consumer)).append(LookupError("mine"))
        with pytest.raises(LookupError, match="mine"):
            await consumer.poll()
        fail_next_call(consumer, LookupError("mine too"))
        with pytest.raises(LookupError, match="mine too"):
            await anext(consumer)
        assert number(await consumer.poll()) == 1


async def test_a_ready_record_waits_for_the_calls_before_its_own(begun: Any) -> None:
    async with begun() as consumer:
        [[before], one, [between], two] = await asyncio.gather(
            consumer.position([place()]),
            consumer.poll(),
            consumer.position([place()]),
            consumer.consume(1),
        )
        assert [number(one), number(two[0])] == [1, 2]
        assert [before.offset, between.offset] == [one.offset(), two[0].offset()]


async def test_a_cancelled_call_leaves_its_records_to_the_next_one(begun: Any) -> None:
    """Three more were ready behind them."""
    async with begun() as consumer:
        feed_of(wrapped_consumer(consumer)).serve_soon()  # so that it goes to a thread
        task = asyncio.create_task(consumer.consume(3))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [number(await consumer.poll()) for _ in range(COUNT - 1)] == list(range(1, COUNT))


@pytest.mark.parametrize("method", ["poll", "consume"])
async def test_what_replaces_a_method_sees_every_call(begun: Any, method: str) -> None:
    """A tracer does that."""
    seen = []

    def watched(consumer: Any, *args: Any) -> Any:
        seen.append(args)
        return getattr(super(type(consumer), consumer), method)(*args)

    async with begun({method: watched}) as consumer:
        before = len(seen)
        for _ in range(3):
            await getattr(consumer, method)()
        assert len(seen) == before + 3


# --- async for ------------------------------------------------------------------------------------


async def test_close_ends_a_loop(kafka: FakeKafka, make: Any) -> None:
    send(kafka, *range(3))
    numbers = []

    async def read() -> None:
        async for message in consumer:
            numbers.append(number(message))
            if len(numbers) == 3:
                all_read.set()

    all_read = asyncio.Event()
    consumer = make()
    await consumer.subscribe(["t"])
    reading = asyncio.create_task(read())
    await all_read.wait()
    await asyncio.sleep(0)  # it waits for more
    await consumer.close()
    await reading
    assert numbers == [0, 1, 2]


async def test_a_loop_that_closes_its_consumer_ends_with_that_round(begun: Any) -> None:
    numbers = []
    async with begun() as consumer:
        async for message in consumer:
            numbers.append(number(message))
            await consumer.close()
        assert numbers == [1]
        with pytest.raises(RuntimeError, match="Consumer closed"):
            aiter(consumer)


async def test_a_loop_raises_an_unreadable_segment_and_the_next_goes_on_after_it(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, 1)
    [good] = kafka.messages("t")
    kafka.append("t", 0, b"PAR1", headers=good.headers())
    send(kafka, 2)

    async with make() as consumer:
        await consumer.subscribe(["t"])
        assert number(await anext(consumer)) == 1
        with pytest.raises(ConsumeError) as raised:
            await anext(consumer)
        assert raised.value.args[0].code() == KafkaError._BAD_MSG
        assert raised.value.kafka_message.value() == b"PAR1"
        assert isinstance(raised.value, KafkaException)
        assert number(await anext(consumer)) == 2


async def test_a_loop_gets_the_end_of_a_partition_where_that_is_wanted(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, 1, 2)
    seen: list[Any] = []
    async with make(enable__partition__eof=True) as consumer:
        await consumer.subscribe(["t"])
        async for message in consumer:
            if message.error() is not None:
                seen.append(message.error().code())
                break
            seen.append(number(message))
    assert seen == [1, 2, KafkaError._PARTITION_EOF]


async def test_a_loop_raises_what_a_callback_raised(kafka: FakeKafka, make: Any) -> None:
    """Also a RuntimeError, which is none of the consumer's end."""
    send(kafka, 1)

    async def assigned(*_: Any) -> None:
        raise RuntimeError("mine")

    async with make() as consumer:
        await consumer.subscribe(["t"], on_assign=assigned)
        with pytest.raises(RuntimeError, match="mine"):
            await anext(consumer)
        assert number(await anext(consumer)) == 1
