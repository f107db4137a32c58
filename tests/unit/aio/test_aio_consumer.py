"""`AIOConsumer` on a Kafka in memory: turns, callbacks, what is cancelled, and how it ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import random
import threading
from typing import TYPE_CHECKING, Any

import confluent_kafka
import confluent_kafka.aio
import pytest
from aio_consumers import number, place, send
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from inside import ending_of, inbox_of, turn_of, wrapped_consumer
from support import run_coroutine

from columnar_kafka import Consumer
from columnar_kafka.aio import AIOConsumer
from columnar_kafka.aio.callback import CallbackRun
from columnar_kafka.aio.inbox import LoopLogger
from columnar_kafka.errors import ConfigError, SegmentError
from columnar_kafka.position import pack, start

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from columnar_kafka.testing import FakeKafka

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
ENCODINGS = ["parquet", "none"]


# --- the surface ----------------------------------------------------------------------------------


def public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


NEW_IN_2_16 = {"cluster_id"}
IS_2_16 = public(confluent_kafka.aio.AIOConsumer) >= NEW_IN_2_16


def test_it_has_the_methods_of_confluent_kafkas_and_those_for_segments() -> None:
    stock = confluent_kafka.aio.AIOConsumer
    assert public(AIOConsumer) - public(stock) == {
        "arrow_reader",
        "consume_arrow",
        "lag",
        "poll_segment",
        "pollBuffer",
        *NEW_IN_2_16 - public(stock),
    }
    assert public(stock) <= public(AIOConsumer)
    assert all(
        inspect.iscoroutinefunction(getattr(AIOConsumer, name)) for name in public(AIOConsumer)
    )
    assert AIOConsumer.pollBuffer is AIOConsumer.poll_segment


@pytest.mark.parametrize("name", ["poll", "consume", "poll_segment", "subscribe"])
def test_a_method_has_the_arguments_of_consumers(name: str) -> None:
    ours, wrapped = (
        inspect.signature(getattr(cls, name)).parameters for cls in (AIOConsumer, Consumer)
    )
    assert list(ours) == list(wrapped)
    if name != "subscribe":  # what stands for "not given" is each module's own
        assert [our.default for our in ours.values()] == [
            parameter.default for parameter in wrapped.values()
        ]


def test_its_constructor_has_the_arguments_of_confluent_kafkas() -> None:
    ours, stock = (
        inspect.signature(cls).parameters for cls in (AIOConsumer, confluent_kafka.aio.AIOConsumer)
    )
    changed = {"max_workers": 100} if not IS_2_16 else {}  # it was 2 in confluent-kafka's
    assert [(our.name, our.default) for our in ours.values()] == [
        (parameter.name, changed.get(parameter.name, parameter.default))
        for parameter in stock.values()
    ]


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "confluent": (confluent_kafka.aio.AIOConsumer, {}),
    "ours, none": (AIOConsumer, {}),
    "ours": (AIOConsumer, {"columnar.encoding": "parquet"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_refuses_it_refuses_as_confluent_kafkas(kind: str) -> None:
    cls, own = KINDS[kind]
    own_class = cls is AIOConsumer

    async def refused(call: Any) -> tuple[type, str]:
        try:
            await call()
        except Exception as error:  # noqa: BLE001 - any is what this is about
            return type(error), str(error)
        pytest.fail("it was not refused")

    async def main() -> list[Any]:
        with pytest.raises(ValueError, match="max_workers must be at least 1"):
            cls(dict(NOWHERE), max_workers=0)
        consumer = cls({**NOWHERE, **own}, max_workers=1)
        errors = [
            await refused(call)
            for call in (
                lambda: consumer.poll("x"),
                lambda: consumer.consume(-1, 0),
                lambda: consumer.consume(1_000_001, 0),
                lambda: consumer.consume(1, None),
                lambda: consumer.subscribe("t"),
                lambda: consumer.subscribe(["t"], on_asign=print),
                lambda: consumer.seek(place(7)),
                lambda: consumer.commit(message=None, offsets=[], asynchronous=False),
                lambda: consumer.assign("t"),
                consumer.store_offsets,
            )
        ]
        await consumer.close()
        return [
            *[error[0] for error in errors],
            await refused(lambda: consumer.poll(0)),
            await refused(consumer.assignment),
            # Before 2.16 confluent-kafka's may be closed again.
            await refused(consumer.close if IS_2_16 or own_class else consumer.assignment),
        ]

    assert run_coroutine(main) == [
        *[TypeError, ValueError, ValueError, TypeError, TypeError, TypeError],
        *[KafkaException, KafkaException, TypeError, ValueError],
        *[(RuntimeError, "Consumer closed")] * 3,
    ]


FORWARDED = [
    *["assign", "assignment", "cluster_id", "commit", "committed", "consumer_group_metadata"],
    *["get_watermark_offsets", "incremental_assign", "incremental_unassign", "lag", "list_topics"],
    *["offsets_for_times", "pause", "position", "resume", "seek", "set_sasl_credentials"],
    *["store_offsets", "unassign", "unsubscribe"],
]
WITHOUT_RESULT = {"assign", "incremental_assign", "incremental_unassign", "pause", "resume"} | {
    *("seek", "set_sasl_credentials", "store_offsets", "unassign", "unsubscribe")
}
WITHOUT_ARGUMENTS = {"assignment", "consumer_group_metadata", "unassign", "unsubscribe"}


@pytest.mark.parametrize("name", FORWARDED)
async def test_a_call_returns_what_the_consumers_own_returns(make: Any, name: str) -> None:
    """Each of these only passes its arguments on; most tests look at one or two of them."""
    result = object()
    calls = []

    def method(_: Any, *args: Any, **kwargs: Any) -> object:
        calls.append((args, kwargs))
        return result

    consumer = make({name: method})
    args, kwargs = ((), {}) if name in WITHOUT_ARGUMENTS else ((1, "two"), {"three": 3})
    returned = await getattr(consumer, name)(*args, **kwargs)
    assert returned is (None if name in WITHOUT_RESULT else result)
    assert calls == [(args, kwargs)]
    await consumer.close()


async def test_a_timeout_that_is_no_number_is_refused_without_waiting_for_a_turn(make: Any) -> None:
    async with make() as consumer, turn_of(consumer):
        with pytest.raises(TypeError, match="must be real number"):
            await asyncio.wait_for(consumer.poll("1"), 10)


def test_another_loop_is_told_so(make: Any) -> None:
    consumer = run_and_return(make)
    with pytest.raises(RuntimeError, match="belongs to another event loop"):
        asyncio.run(consumer.poll(0))
    wrapped_consumer(consumer).close()


def run_and_return(made: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return made()

    return asyncio.run(main())


# --- taking records -------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 0], ids=["segments", "plain"])
async def test_records_come_as_the_consumers_do(kafka: FakeKafka, make: Any, rows: int) -> None:
    send(kafka, *range(7), rows=rows)

    async with make() as consumer:
        await consumer.subscribe(["t"])
        one = await consumer.poll(60)
        six = await consumer.consume(10, timeout=0.3)
        assert [number(message) for message in [one, *six]] == list(range(7))
        assert one.offset() == (pack(0, 0, 3) if rows else pack(0))
        assert await consumer.poll(0) is None
        [at] = await consumer.position([place()])
        assert at.offset == six[-1].offset() + 1
        assert await consumer.get_watermark_offsets(place()) == (0, at.offset)


async def test_with_encoding_none_a_segment_is_a_message(kafka: FakeKafka, make: Any) -> None:
    send(kafka, 1, 2, 3)

    async with make(columnar__encoding="none") as consumer:
        await consumer.subscribe(["t"])
        message = await consumer.poll(60)
        assert message.value()[:4] == b"PAR1"
        assert message.offset() == 0
        with pytest.raises(ConfigError):
            await consumer.poll_segment(0)


async def test_segments_come_whole(kafka: FakeKafka, make: Any) -> None:
    send(kafka, 1, 2, 3)

    async with make() as consumer:
        await consumer.subscribe(["t"])
        segment = await consumer.poll_segment(10)
        assert segment is not None
        assert segment.to_table().column("n").to_pylist() == [1, 2, 3]
        assert await consumer.pollBuffer(0) is None


async def test_a_bad_segment_is_an_error_and_the_next_call_goes_on(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, 1)
    [good] = kafka.messages("t")
    kafka.append("t", 0, b"PAR1", headers=good.headers())
    send(kafka, 2)

    async with make() as consumer:
        await consumer.subscribe(["t"])
        assert await consumer.poll_segment(10) is not None
        with pytest.raises(SegmentError):
            await consumer.poll_segment(10)
        assert number(await consumer.poll(60)) == 2
        await consumer.seek(place(start(1)))
        bad, after = await consumer.consume(2, 60)
        assert bad.error().code() == KafkaError._BAD_MSG
        assert number(after) == 2


async def test_calls_made_at_once_run_in_their_order(kafka: FakeKafka, make: Any) -> None:
    """A record each, in order; what is called behind a `poll` that waits waits for it."""

    async with make() as consumer:
        await consumer.subscribe(["t"])
        polls = [asyncio.create_task(consumer.poll()) for _ in range(5)]
        position = asyncio.create_task(consumer.position([place()]))
        assert await asyncio.wait([*polls, position], timeout=0.2) == (
            set(),
            {*polls, position},
        )
        await asyncio.to_thread(send, kafka, *range(5))
        messages = await asyncio.gather(*polls)
        assert [number(message) for message in messages] == list(range(5))
        assert (await position)[0].offset == messages[-1].offset() + 1


# --- cancelled calls ------------------------------------------------------------------------------


class Gate:
    """Lets a call of the inner consumer take something only when nobody waits for it any more."""

    def __init__(self, name: str) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self.shut = False

        def gated(consumer: Any, *args: Any) -> Any:
            method = getattr(super(type(consumer), consumer), name)
            if not self.shut:
                return method(*args)
            self.entered.set()
            assert self.go.wait(60)
            self.shut = False
            return method(*args)

        self.over = {name: gated}

    async def cancel(self, call: Coroutine[Any, Any, Any]) -> None:
        """Cancel a call while it is in its thread; then let it take what there is."""
        self.shut = True
        task = asyncio.create_task(call)
        assert await asyncio.to_thread(self.entered.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        self.go.set()


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_what_a_cancelled_poll_had_taken_comes_again(
    kafka: FakeKafka, make: Any, encoding: str
) -> None:
    send(kafka, *range(5), rows=0 if encoding == "none" else 3)

    gate = Gate("poll")
    async with make(gate.over, columnar__encoding=encoding) as consumer:
        await consumer.subscribe(["t"])
        assert number(await consumer.poll()) == 0
        await gate.cancel(consumer.poll())
        assert [number(await consumer.poll()) for _ in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("rows", [3, 0], ids=["segments", "plain"])
async def test_what_a_cancelled_consume_had_taken_is_not_committed(
    kafka: FakeKafka, make: Any, rows: int
) -> None:
    """Two topics; neither by `commit` nor by `close`."""
    for topic in ("t", "u"):
        send(kafka, *range(4), topic=topic, rows=rows)

    gate = Gate("consume")
    async with make(gate.over, auto__commit__interval__ms=0) as consumer:
        await consumer.subscribe(["t", "u"])
        one = await consumer.poll()
        await gate.cancel(consumer.consume(7, 60))
        await consumer.commit(asynchronous=False)
        other = {"t": "u", "u": "t"}[one.topic()]
        places = await consumer.committed([place(topic=one.topic()), place(topic=other)])
        assert places[0].offset == one.offset() + 1
        assert places[1].offset <= start(0)
    async with make() as consumer:
        await consumer.subscribe(["t", "u"])
        again = await consumer.consume(7, 60)
        assert {(message.topic(), number(message)) for message in again} == {
            (topic, n) for topic in ("t", "u") for n in range(4)
        } - {(one.topic(), 0)}


async def test_what_was_taken_of_a_partition_that_is_gone_comes_all_the_same(
    kafka: FakeKafka, make: Any
) -> None:
    """It may have been committed when it was given back: another member would not get it."""
    send(kafka, *range(5))

    gate = Gate("consume")
    gated = gate.over["consume"]

    def taken_away(consumer: Any, *args: Any) -> Any:
        shut, messages = gate.shut, gated(consumer, *args)
        if shut:
            consumer.unassign()
        return messages

    async with make({"consume": taken_away}) as consumer:
        await consumer.assign([place()])
        await gate.cancel(consumer.consume(4, 60))
        assert [at.offset for at in await consumer.committed([place()])] == [pack(1, 1, 2)]
        messages = [*await consumer.consume(3, 60), await consumer.poll()]
        assert [number(message) for message in messages] == [0, 1, 2, 3]
        assert await consumer.consume(1, 0) == []


async def test_what_a_cancelled_poll_segment_had_taken_comes_again(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, *range(6))

    gate = Gate("poll_segment")
    async with make(gate.over) as consumer:
        await consumer.subscribe(["t"])
        await gate.cancel(consumer.poll_segment())
        segments = [await consumer.poll_segment() for _ in range(2)]
        assert [segment.kafka_offset for segment in segments] == [0, 1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_whenever_a_call_is_cancelled_nothing_is_lost_and_nothing_comes_twice(
    kafka: FakeKafka, make: Any, encoding: str
) -> None:
    send(kafka, *range(300), rows=0 if encoding == "none" else 7)
    chance = random.Random(1)

    async def take(consumer: AIOConsumer) -> list[Any]:
        call = chance.randrange(3)
        if call == 0:
            return await consumer.consume(chance.randint(1, 9), 0.01)
        message = await (consumer.poll(0.01) if call == 1 else anext(consumer))
        return [] if message is None else [message]

    async def main() -> list[int]:
        messages: list[Any] = []
        async with make(columnar__encoding=encoding) as consumer:
            await consumer.subscribe(["t"])
            while len(messages) < 300:
                task = asyncio.create_task(take(consumer))
                for _ in range(chance.randint(0, 40)):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    messages += task.result()
                if chance.random() < 0.2:  # so that some are not cancelled
                    messages += await consumer.consume(1, 1)
        return [number(message) for message in messages]

    assert run_coroutine(main) == list(range(300))


async def test_what_a_cancelled_consume_had_taken_is_not_committed_while_it_waits(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, *range(3))

    async with make(auto__commit__interval__ms=20) as consumer:
        await consumer.subscribe(["t"])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.consume(1000), 0.5)
    async with make() as another:
        await another.subscribe(["t"])
        assert [number(message) for message in await another.consume(3, 60)] == [0, 1, 2]


async def test_a_timeout_around_poll_is_one(kafka: FakeKafka, make: Any) -> None:
    async with make() as consumer:
        await consumer.subscribe(["t"])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.poll(), 0.05)
        await asyncio.to_thread(send, kafka, 1)
        assert number(await consumer.poll()) == 1


# --- callbacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_rebalance_callbacks_run_on_the_loop_with_this_consumer(
    kafka: FakeKafka, make: Any, kind: str
) -> None:
    send(kafka, 1)
    told: list[Any] = []

    def note(name: str) -> Any:
        def sync(*args: Any) -> None:
            told.append((name, *args, threading.get_ident()))

        async def later(*args: Any) -> None:
            await asyncio.sleep(0)
            sync(*args)

        return later if kind == "async" else sync

    async with make() as consumer:
        await consumer.subscribe(["t"], on_assign=note("assign"), on_revoke=note("revoke"))
        assert number(await consumer.poll()) == 1
    assert [call[0] for call in told] == ["assign", "revoke"]
    assert all(call[1] is consumer for call in told)
    assert [[at.topic for at in call[2]] for call in told] == [["t"], ["t"]]
    assert {call[3] for call in told} == {threading.get_ident()}


async def test_a_callback_may_call_its_consumer_with_one_worker_only(
    kafka: FakeKafka, make: Any
) -> None:
    """Also several methods at once; the rebalance goes on when it has ended."""
    send(kafka, *range(5))

    async def assigned(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = pack(1, 0, 2)
        await consumer.assign(partitions)
        _, assignment = await asyncio.gather(consumer.pause(partitions), consumer.assignment())
        assert assignment == partitions
        await consumer.resume(partitions)

    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        async with make(executor=executor) as consumer:
            await consumer.subscribe(["t"], on_assign=assigned)
            assert number(await consumer.poll()) == 3
        assert executor.submit(int).result() == 0  # it is not this consumer's to shut down


async def test_positions_can_be_committed_while_partitions_are_given_back(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, *range(3))

    async def revoked(consumer: AIOConsumer, _: Any) -> None:
        await consumer.commit(asynchronous=False)

    async with make(enable__auto__commit=False) as consumer:
        await consumer.subscribe(["t"], on_revoke=revoked)
        assert number(await consumer.poll()) == 0
    async with make() as consumer:
        await consumer.subscribe(["t"])
        assert number(await consumer.poll()) == 1


async def test_a_task_that_a_callback_left_behind_waits_for_its_turn(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, 1, 2)
    left: list[asyncio.Task[Any]] = []

    async def assigned(consumer: AIOConsumer, _: Any) -> None:
        async def later() -> Any:
            await ended.wait()
            return await consumer.poll()

        left.append(asyncio.create_task(later()))

    ended = asyncio.Event()

    async with make() as consumer:
        await consumer.subscribe(["t"], on_assign=assigned)
        assert number(await consumer.poll()) == 1
        ended.set()
        assert number(await left[0]) == 2


async def test_what_a_callback_raises_a_later_poll_raises(kafka: FakeKafka, make: Any) -> None:
    send(kafka, 1)

    async def assigned(*_: Any) -> None:
        raise LookupError("mine")

    async with make() as consumer:
        await consumer.subscribe(["t"], on_assign=assigned)
        with pytest.raises(LookupError, match="mine"):
            await consumer.poll()
        assert number(await consumer.poll()) == 1


async def test_what_is_raised_when_records_were_taken_comes_with_the_next_call(make: Any) -> None:
    taken = iter([["a"], LookupError("mine"), ["b", "c"]])

    def consume(*_: Any) -> Any:
        outcome = next(taken)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with make({"consume": consume}) as consumer:
        assert await consumer.consume(3) == ["a"]
        with pytest.raises(LookupError, match="mine"):
            await consumer.consume(3)
        assert await consumer.consume(2) == ["b", "c"]


async def test_on_commit_is_told_on_the_loop(kafka: FakeKafka, make: Any) -> None:
    send(kafka, *range(3))
    told: list[Any] = []

    async def committed(error: Any, partitions: Any) -> None:
        told.append((error, partitions[0].offset, threading.get_ident()))

    async with make(on_commit=committed, enable__auto__commit=False) as consumer:
        await consumer.subscribe(["t"])
        message = await consumer.poll()
        await consumer.commit(message)
        assert len(await consumer.consume(3, 0.3)) == 2
        assert told == [(None, message.offset() + 1, threading.get_ident())]


@pytest.mark.parametrize(("name", "arguments"), [("poll", (0,)), ("assignment", ())])
async def test_the_logger_is_used_on_the_loop(
    make: Any, name: str, arguments: tuple[int, ...]
) -> None:
    class Logger:
        def log(self, *args: Any) -> None:
            told.append((args, threading.get_ident()))

    told: list[Any] = []

    async with make(logger=Logger()) as consumer:
        logger = LoopLogger(inbox_of(consumer), Logger())
        await asyncio.to_thread(logger.log, 4, "text")
        await getattr(consumer, name)(*arguments)
        await asyncio.sleep(0)
        assert told == [((4, "text"), threading.get_ident())]


async def test_a_line_is_logged_while_a_poll_waits(make: Any) -> None:
    """The poll's thread wakes the loop: librdkafka's own threads only leave the line."""

    logged = asyncio.Event()

    class Logger:
        def log(self, *_: Any) -> None:
            logged.set()

    async with make() as consumer:
        waiting = asyncio.create_task(consumer.poll())
        logger = LoopLogger(inbox_of(consumer), Logger())
        await asyncio.to_thread(logger.log, 4, "text")
        await asyncio.wait_for(logged.wait(), 10)
        assert not waiting.done()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        await waiting


async def test_a_callback_that_is_cancelled_is_no_cancelled_poll(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, 1)

    async def assigned(*_: Any) -> None:
        raise asyncio.CancelledError

    async with make() as consumer:
        await consumer.subscribe(["t"], on_assign=assigned)
        with pytest.raises(RuntimeError, match="was cancelled"):
            await consumer.poll()


def test_a_thread_does_not_wait_for_a_loop_that_is_closed() -> None:
    loop = asyncio.new_event_loop()
    never = loop.create_future()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(CallbackRun(loop, None).run, lambda: never)
        while not asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.sleep(0))
        for task in asyncio.all_tasks(loop):
            task.get_coro().close()  # type: ignore[union-attr]
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio's, for tasks that are left
        loop.close()
        with pytest.raises(RuntimeError, match="event loop is closed"):
            waiting.result(20)
        with pytest.raises(RuntimeError, match="closed"):
            pool.submit(CallbackRun(loop, None).run, print).result(20)


# --- the end --------------------------------------------------------------------------------------


async def test_close_commits_what_was_handed_out(kafka: FakeKafka, make: Any) -> None:
    send(kafka, *range(5))

    for expected in ([0, 1], [2, 3, 4]):
        async with make() as consumer:
            await consumer.subscribe(["t"])
            messages = await consumer.consume(len(expected), 10)
            assert [number(message) for message in messages] == expected


async def test_close_ends_who_waits(make: Any) -> None:
    consumer = make()
    await consumer.subscribe(["t"])
    waiting = [asyncio.create_task(consumer.poll()) for _ in range(2)]
    await asyncio.sleep(0)
    await consumer.close()
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(error) for error in errors] == ["Consumer closed"] * 2


async def test_close_waits_for_nobody_elses_work_in_its_threads(make: Any) -> None:
    """The loop would stand still meanwhile."""

    consumer = make()
    closed = threading.Event()
    running = consumer.executor.submit(closed.wait, 10)
    await consumer.close()
    closed.set()
    assert running.result()


async def test_a_cancelled_close_goes_on(kafka: FakeKafka, make: Any) -> None:
    send(kafka, *range(3))

    gate = Gate("close")
    consumer = make(gate.over)
    await consumer.subscribe(["t"])
    assert number(await consumer.poll()) == 0
    await gate.cancel(consumer.close())
    await ending_of(consumer)
    async with make() as other:
        await other.subscribe(["t"])
        assert number(await other.poll()) == 1


async def test_close_raises_what_a_callback_raised_and_is_closed(
    kafka: FakeKafka, make: Any
) -> None:
    send(kafka, 1)

    async def revoked(*_: Any) -> None:
        raise LookupError("mine")

    consumer = make()
    await consumer.subscribe(["t"], on_revoke=revoked)
    await consumer.poll()
    with pytest.raises(LookupError, match="mine"):
        await consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        await consumer.poll(0)


def test_a_program_may_end_while_a_poll_waits(make: Any) -> None:
    """Its loop cancels the poll; the thread is not waited for longer than a step."""

    async def main() -> Any:
        loop, waits = asyncio.get_running_loop(), asyncio.Event()

        def poll(inner: Any, *args: Any) -> Any:
            loop.call_soon_threadsafe(waits.set)
            return super(type(inner), inner).poll(*args)

        consumer = make({"poll": poll})
        await consumer.subscribe(["t"])
        left.append(asyncio.create_task(consumer.poll()))
        await waits.wait()
        return consumer

    left: list[asyncio.Task[Any]] = []
    consumer = run_coroutine(main)
    assert left[0].cancelled()
    consumer.executor.shutdown()
    wrapped_consumer(consumer).close()


# --- values as bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize("value_format", ["json", "avro"])
async def test_values_are_bytes_if_they_are_to_be(
    kafka: FakeKafka, make: Any, value_format: str
) -> None:
    avro = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    given = {
        "json": [b'{"n":%d}' % n for n in range(3)],
        "avro": [b"\0\0\0\0\7" + bytes([2 * n]) for n in range(3)],
    }
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", avro, value_format=value_format)
        for value in given[value_format]:
            producer.produce("t", value)
    async with make(columnar__value__format=value_format) as consumer:
        await consumer.subscribe(["t"])
        messages = [await consumer.poll(), *await consumer.consume(1), await anext(consumer)]
        assert [message.value() for message in messages] == given[value_format]
    assert len(kafka.messages("t")) == 1
