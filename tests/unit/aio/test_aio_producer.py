"""`AIOProducer` on a Kafka in memory: futures, room, callbacks, threads, and how it ends."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import confluent_kafka.aio
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from inside import pipeline_of, poller_of, settings_of, wrapped_producer
from pipeline import CODES
from support import Reports, run_coroutine

from columnar_kafka.aio import AIOProducer
from columnar_kafka.aio.producer import _PAUSE
from columnar_kafka.errors import RowError, SchemaError
from columnar_kafka.position import pack

if TYPE_CHECKING:
    from columnar_kafka.testing import FakeKafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def make(kafka: FakeKafka) -> Any:
    """A factory of producers on `kafka`; `**over` replaces methods of the one they wrap."""

    def factory(over: dict[str, Any] | None = None, /, **config: Any) -> AIOProducer:
        inner = type("Inner", (kafka.Producer,), over or {})
        on_memory = type("OnMemory", (AIOProducer,), {"_producer_class": inner})
        settings = {"columnar.encoding": "parquet", "columnar.linger.ms": 20}
        made: AIOProducer = on_memory(
            settings | {key.replace("__", "."): value for key, value in config.items()}
        )
        return made

    return factory


def numbers(kafka: FakeKafka, topic: str = "t") -> list[Any]:
    return [record.value()["n"] for record in kafka.records(topic)]


def code(future: asyncio.Future[Any]) -> int:
    error = future.exception()
    assert isinstance(error, KafkaException)
    number: int = error.args[0].code()
    return number


# --- the surface ----------------------------------------------------------------------------------


def public(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_it_has_the_methods_of_confluent_kafkas_and_three_more() -> None:
    stock = confluent_kafka.aio.AIOProducer
    newer = {"cluster_id"} - public(stock)  # since 2.16
    assert public(AIOProducer) - public(stock) == newer | {
        *("set_schema", "setSchema", "produce_arrow")
    }
    assert public(stock) <= public(AIOProducer)
    assert all(
        inspect.iscoroutinefunction(getattr(AIOProducer, name)) for name in public(AIOProducer)
    )
    assert AIOProducer.setSchema is AIOProducer.set_schema


def test_it_has_the_arguments_of_producers_produce_arrow() -> None:
    wrapped = AIOProducer._producer_class.produce_arrow  # noqa: SLF001 - its subclasses'
    ours = inspect.signature(AIOProducer.produce_arrow).parameters
    assert [(our.name, our.default) for our in ours.values()] == [
        (parameter.name, parameter.default)
        for parameter in inspect.signature(wrapped).parameters.values()
    ]


# --- futures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "rows", "linger"),
    [({}, 7, 2.0), ({"columnar.segment.rows": 9, "columnar.linger.ms": 1000}, 9, 1.0)],
)
def test_confluent_kafkas_buffer_arguments_are_settings_here(
    kafka: FakeKafka, config: dict[str, Any], rows: int, linger: float
) -> None:
    on_memory = type("OnMemory", (AIOProducer,), {"_producer_class": kafka.Producer})

    async def main() -> Any:
        conf = {"columnar.encoding": "parquet", "linger.ms": 0} | config
        async with on_memory(conf, batch_size=7, buffer_timeout=2.0) as producer:
            return settings_of(wrapped_producer(producer))

    settings = run_coroutine(main)
    assert (settings.segment_rows, settings.linger) == (rows, linger)


async def test_a_future_is_the_records_message(kafka: FakeKafka, make: Any) -> None:
    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        futures = [
            await producer.produce(
                "t", {"n": n}, f"k{n}", headers=[("h", str(n))], timestamp=100 + n
            )
            for n in range(3)
        ]
        for n, message in enumerate(await asyncio.gather(*futures)):
            assert message.error() is None
            assert message.value() == {"n": n}
            assert message.key() == f"k{n}".encode()
            assert message.headers() == [("h", b"%d" % n)]
            assert message.timestamp()[1] == 100 + n
            assert (message.topic(), message.partition()) == ("t", 0)
            assert message.offset() == pack(0, n, 3)
    assert numbers(kafka) == [0, 1, 2]


async def test_values_in_json_are_records(kafka: FakeKafka, make: Any) -> None:
    async with make() as producer:
        await producer.set_schema("t", SCHEMA, value_format="json")
        values = [b'{"n":1}', b"[]", bytearray(b'{"n":2}')]
        futures = [await producer.produce("t", value) for value in values]
        messages = await asyncio.gather(*futures)
        assert [(message.value(), len(message)) for message in messages] == [
            (bytes(value), len(value)) for value in values
        ]
    [first, plain, second] = [record.value() for record in kafka.records("t")]
    assert [first["n"], plain, second["n"]] == [1, b"[]", 2]


async def test_values_in_avro_are_records(kafka: FakeKafka, make: Any) -> None:
    avro = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    values = [b"\0\0\0\0\7\2", b"\2\2", b"\0\0\0\0\7\4"]  # the second has a byte too many
    async with make(columnar__value__format="avro") as producer:
        await producer.set_schema("t", avro)
        futures = [await producer.produce("t", value) for value in values]
        messages = await asyncio.gather(*futures)
        assert [message.value() for message in messages] == values
    [first, plain, second] = [record.value() for record in kafka.records("t")]
    assert [first["n"], plain, second["n"]] == [1, values[1], 2]


@pytest.mark.parametrize("encoding", ["none", "parquet"])
async def test_plain_messages_have_futures_too(kafka: FakeKafka, make: Any, encoding: str) -> None:
    async with make(columnar__encoding=encoding) as producer:
        future = await producer.produce("t", b"v", b"k", headers={"h": "1"}, timestamp=7)
        message = await future
        assert (message.value(), message.key()) == (b"v", b"k")
        assert message.headers() == [("h", b"1")]
        assert message.timestamp()[1] == 7
    assert [record.value() for record in kafka.records("t")] == [b"v"]


async def test_a_row_that_does_not_fit_fails_its_future_alone(kafka: FakeKafka, make: Any) -> None:
    """Found at once or when its chunk is converted: it is the future that raises."""

    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        rows = [{"n": 1}, {"m": 1}, {"n": 1 << 70}, {"n": 2}]
        futures = [await producer.produce("t", row) for row in rows]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert [message.value() for message in (outcomes[0], outcomes[3])] == [{"n": 1}, {"n": 2}]
        assert isinstance(outcomes[1], RowError)
        assert code(futures[2]) == KafkaError._VALUE_SERIALIZATION
        with pytest.raises(TypeError):
            await producer.produce("t", object())
    assert numbers(kafka) == [1, 2]


async def test_what_the_broker_refuses_fails_the_futures(kafka: FakeKafka, make: Any) -> None:
    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        kafka.fail_next(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
        futures = [await producer.produce("t", {"n": n}) for n in range(2)]
        await producer.flush()
        assert {code(future) for future in futures} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
        unknown = await producer.produce("t", {"n": 1}, partition=7)
        await producer.flush()
        assert code(unknown) == KafkaError._UNKNOWN_PARTITION
    assert numbers(kafka) == []


async def test_a_cancelled_future_changes_nothing_sent(kafka: FakeKafka, make: Any) -> None:
    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        futures = [await producer.produce("t", {"n": n}) for n in range(3)]
        futures[1].cancel()
        await producer.flush()
        assert [future.cancelled() for future in futures] == [False, True, False]
        assert futures[2].result().value() == {"n": 2}
    assert numbers(kafka) == [0, 1, 2]


async def test_arrow_data_has_one_future(kafka: FakeKafka, make: Any) -> None:
    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        future = await producer.produce_arrow("t", pa.table({"n": [1, 2, 3]}))
        message = await future
        assert (message.records, message.failed) == (3, 0)
        assert isinstance(
            (await producer.produce_arrow("unknown", pa.table({"n": [1]}))).exception(),
            SchemaError,
        )
        with pytest.raises(TypeError):
            await producer.produce_arrow("t", [1, 2])
    assert numbers(kafka) == [1, 2, 3]


async def test_a_stream_is_read_once_though_there_was_no_room_at_first(make: Any) -> None:
    tried: list[int] = []

    def produce_arrow(_: Any, __: str, data: Any, *, on_delivery: Any, **___: Any) -> None:
        tried.append(pa.table(data).num_rows)
        if len(tried) < 3:
            raise BufferError
        on_delivery(None, "report")

    table = pa.table({"n": [1, 2]})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    async with make({"produce_arrow": produce_arrow}) as producer:
        assert await (await producer.produce_arrow("t", stream)) == "report"
    assert tried == [2, 2, 2]


# --- room -----------------------------------------------------------------------------------------


async def test_produce_waits_for_room_and_who_waits_is_served_in_order(
    kafka: FakeKafka, make: Any
) -> None:
    async with make(queue__buffering__max__messages=2) as producer:
        await producer.set_schema("t", SCHEMA)
        kafka.hold()
        tasks = [asyncio.create_task(producer.produce("t", {"n": n})) for n in range(10)]
        done, waiting = await asyncio.wait(tasks, timeout=0.3)
        assert done == set(tasks[:2])
        assert waiting == set(tasks[2:])
        kafka.release()
        futures = await asyncio.gather(*tasks)
        messages = await asyncio.gather(*futures)
        assert [message.value()["n"] for message in messages] == list(range(10))
    assert numbers(kafka) == list(range(10))


async def test_who_comes_when_there_is_room_again_comes_after_who_waited(
    kafka: FakeKafka, make: Any
) -> None:
    async with make(queue__buffering__max__messages=1) as producer:
        await producer.set_schema("t", SCHEMA)
        kafka.hold()
        await producer.produce("t", {"n": 0})
        waiting = asyncio.create_task(producer.produce("t", {"n": 1}))
        await asyncio.sleep(0)
        kafka.release()
        wrapped_producer(producer).flush()  # there is room now, and the loop had no turn to say so
        assert len(wrapped_producer(producer)) == 0
        await producer.produce("t", {"n": 2})
        assert waiting.done()
    assert numbers(kafka) == [0, 1, 2]


async def test_who_is_cancelled_while_it_waits_for_room_is_not_taken(
    kafka: FakeKafka, make: Any
) -> None:
    async with make(queue__buffering__max__messages=1) as producer:
        await producer.set_schema("t", SCHEMA)
        kafka.hold()
        tasks = [asyncio.create_task(producer.produce("t", {"n": n})) for n in range(4)]
        await tasks[0]
        tasks[1].cancel()
        tasks[2].cancel()
        kafka.release()
        await (await tasks[3])
        assert [task.cancelled() for task in tasks] == [False, True, True, False]
    assert numbers(kafka) == [0, 3]


async def test_the_queue_of_librdkafka_is_waited_for_too(kafka: FakeKafka, make: Any) -> None:
    async with make(columnar__encoding="none") as producer:
        kafka.refuse_next(count=2)
        await (await producer.produce("t", b"v"))
    assert [record.value() for record in kafka.records("t")] == [b"v"]


async def test_an_accepted_record_costs_no_task_and_no_thread(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    async with make(columnar__linger__ms=60_000) as producer:
        await producer.set_schema("t", SCHEMA)
        with monkeypatch.context() as forbidden:
            for owner, name in (
                (loop, "create_task"),
                (loop, "call_soon"),
                (loop, "call_soon_threadsafe"),
                (producer.executor, "submit"),
            ):
                forbidden.setattr(owner, name, pytest.fail)
            futures = [await producer.produce("t", {"n": n}) for n in range(_PAUSE - 1)]
        assert all(isinstance(future, asyncio.Future) for future in futures)
        await producer.flush()
        assert [future.result().value()["n"] for future in futures] == list(range(_PAUSE - 1))


async def test_a_loop_that_produces_all_the_time_lets_others_run(make: Any) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with make(columnar__linger__ms=60_000) as producer:
        await producer.set_schema("t", SCHEMA)
        task = asyncio.create_task(other())
        for n in range(10 * _PAUSE):
            await producer.produce("t", {"n": n})
        task.cancel()
        assert turns >= 10


def test_reports_of_many_records_are_few_wake_ups(kafka: FakeKafka, make: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with make(columnar__linger__ms=60_000) as producer:
            await producer.set_schema("t", SCHEMA)
            futures = [await producer.produce("t", {"n": n}) for n in range(20_000)]
            wakes: Counter[Any] = Counter()
            stock = loop.call_soon_threadsafe

            def counted(function: Any, *args: Any, **kwargs: Any) -> Any:
                wakes[function] += 1
                return stock(function, *args, **kwargs)

            loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
            await producer.flush()
            assert all(future.done() for future in futures)
            assert sum(wakes.values()) < 500

    run_coroutine(main)
    assert len(kafka.messages("t")) == 1


# --- callbacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["on_delivery", "callback", "configuration"])
async def test_a_delivery_callback_runs_on_the_loop_before_the_future_is_done(
    make: Any, where: str
) -> None:
    seen: list[Any] = []

    future: asyncio.Future[Any] | None = None

    def report(error: Any, message: Any) -> None:
        assert future is not None
        seen.append((error, message.value(), threading.get_ident(), future.done()))

    config = {"on_delivery": report} if where == "configuration" else {"on_delivery": None}
    given = {} if where == "configuration" else {where: report}
    async with make(**config) as producer:
        await producer.set_schema("t", SCHEMA)
        future = await producer.produce("t", {"n": 1}, **given)
        await future
    assert seen == [(None, {"n": 1}, threading.get_ident(), False)]


@pytest.mark.parametrize("where", ["on_delivery", "callback", "configuration"])
async def test_a_delivery_callback_may_be_false(make: Any, where: str) -> None:
    reports = Reports()

    given = {} if where == "configuration" else {where: reports}
    async with make(**({} if given else {"on_delivery": reports})) as producer:
        await producer.set_schema("t", SCHEMA)
        await (await producer.produce("t", {"n": 1}, **given))
    assert [(error, message.value()) for error, message in reports] == [(None, {"n": 1})]


async def test_an_async_delivery_callback_has_ended_when_close_returns(make: Any) -> None:
    seen: list[Any] = []

    async def report(error: Any, message: Any) -> None:
        await asyncio.wait({poller_of(producer).ended})
        for _ in range(100):  # turns of the loop; a `close` that waits for nobody takes a few
            await asyncio.sleep(0)
        seen.append((error, message.value()))

    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        await producer.produce("t", {"n": 1}, on_delivery=report)
    assert seen == [(None, {"n": 1})]


async def test_a_delivery_callback_that_raises_harms_no_future(make: Any) -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        futures = [
            await producer.produce("t", {"n": n}, on_delivery=lambda *_: 1 / 0) for n in range(3)
        ]
        await asyncio.gather(*futures)
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError] * 3


async def test_an_async_delivery_callback_may_produce_flush_and_close(
    kafka: FakeKafka, make: Any
) -> None:
    closed = asyncio.Event()
    producer = make()

    async def report(_: Any, message: Any) -> None:
        n = message.value()["n"]
        if n < 3:
            await producer.produce("t", {"n": n + 1}, on_delivery=report)
            await producer.flush()
        else:
            await producer.close()
            closed.set()

    await producer.set_schema("t", SCHEMA)
    await producer.produce("t", {"n": 0}, on_delivery=report)
    await closed.wait()
    await producer.close()
    assert numbers(kafka) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("name", "setting"), [("stats_cb", {"statistics.interval.ms": 1}), ("error_cb", {})]
)
async def test_librdkafkas_callbacks_run_on_the_loop(
    name: str, setting: dict[str, Any], kind: str
) -> None:
    """No broker is needed: there are statistics without one, and an error that there is none."""
    called: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def callback(_: Any) -> None:
        if not called.done():
            called.set_result(threading.get_ident())

    async def async_callback(given: Any) -> None:
        await asyncio.sleep(0)
        callback(given)

    chosen = callback if kind == "sync" else async_callback
    async with AIOProducer({"log_level": 0, name: chosen} | setting | NOWHERE):
        assert await called == threading.get_ident()


async def test_a_logger_is_called_on_the_loop() -> None:
    class Logger(logging.Logger):
        def log(self, *args: Any, **kwargs: Any) -> None:
            if not called.done():
                called.set_result(threading.get_ident())

    called: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with AIOProducer({"logger": Logger("aio")} | NOWHERE):
        assert await called == threading.get_ident()


async def test_a_callback_that_cannot_be_called_is_confluent_kafkas_error() -> None:
    with pytest.raises(TypeError, match="callable"):
        AIOProducer({"error_cb": 1} | NOWHERE)


# --- threads --------------------------------------------------------------------------------------

BLOCKING: dict[str, tuple[Any, ...]] = {
    "set_schema": ("t", SCHEMA),
    "setSchema": ("t", SCHEMA),
    "flush": (),
    "purge": (),
    "list_topics": (),
    "cluster_id": (),
    "set_sasl_credentials": ("user", "password"),
    "init_transactions": (),
    "begin_transaction": (),
    "commit_transaction": (),
    "abort_transaction": (),
    "send_offsets_to_transaction": ([], b""),
    "produce_arrow": ("t", pa.table({"n": [1]})),
}


def test_all_that_blocks_is_known() -> None:
    assert set(BLOCKING) == public(AIOProducer) - {"produce", "poll", "close"}


@pytest.mark.parametrize("name", BLOCKING)
async def test_what_blocks_runs_in_the_executor(make: Any, name: str) -> None:
    called: list[Any] = []
    wrapped = "set_schema" if name == "setSchema" else name

    def method(_: Any, *args: Any, **__: Any) -> None:
        called.append((threading.current_thread().name, args))

    with concurrent.futures.ThreadPoolExecutor(1, "mine") as executor:
        producer = make({wrapped: method})
        producer.executor, executors = executor, producer.executor
        executors.shutdown()
        await getattr(producer, name)(*BLOCKING[name])
        await producer.close()
        assert executor.submit(int).result() == 0
    thread, args = called[0]
    assert thread == "mine_0"
    if name != "flush":
        assert args == BLOCKING[name]


def test_produce_runs_on_the_loop_reports_do_not_and_the_end_does_not(make: Any) -> None:
    """What may take long, however many records there are, is another thread's work."""
    threads: dict[str, set[int]] = {"produce": set(), "poll": set(), "close": set()}
    over: dict[str, Any] = {}
    for name, seen in threads.items():

        def method(self: Any, *args: Any, name: str = name, seen: Any = seen, **given: Any) -> Any:
            seen.add(threading.get_ident())
            return getattr(super(type(self), self), name)(*args, **given)

        over[name] = method

    async def main() -> int:
        async with make(over) as producer:
            await producer.set_schema("t", SCHEMA)
            future = await producer.produce("t", {"n": 1})
            await future
            poller = poller_of(producer).thread.ident
        assert isinstance(poller, int)
        return poller

    poller = run_coroutine(main)
    assert threads == {"produce": {threading.get_ident()}, "poll": {poller}, "close": {poller}}


async def test_a_poll_that_fails_is_logged_and_the_next_one_is_made(
    make: Any, kafka: FakeKafka, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([ZeroDivisionError("once"), ZeroDivisionError("twice")])

    def poll(self: Any, timeout: float) -> int:
        for failure in failures:
            raise failure
        return kafka.Producer.poll(self, timeout)

    async with make({"poll": poll}) as producer:
        await producer.set_schema("t", SCHEMA)
        await (await producer.produce("t", {"n": 1}))
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "once",
        "twice",
    ]


# --- poll, flush, purge, transactions -------------------------------------------------------------


async def test_poll_returns_how_many_were_served_since_the_last(make: Any) -> None:
    async with make() as producer:
        assert await producer.poll(0) == 0
        assert await producer.poll(0.01) == 0
        await producer.set_schema("t", SCHEMA)
        for n in range(3):
            await producer.produce("t", {"n": n})
        assert await producer.poll(-1) == 3
        assert await producer.poll() == 0


async def test_flush_sends_and_waits_no_longer_than_it_may(kafka: FakeKafka, make: Any) -> None:
    async with make(columnar__linger__ms=60_000) as producer:
        await producer.set_schema("t", SCHEMA)
        kafka.hold()
        futures = [await producer.produce("t", {"n": n}) for n in range(3)]
        assert await producer.flush(0.01) == 3
        assert len(producer) == 3
        kafka.release()
        assert await producer.flush() == 0
        assert all(future.done() for future in futures)
        assert len(producer) == 0


async def test_a_record_is_outstanding_until_its_future_is_done(make: Any) -> None:
    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        future = await producer.produce("t", {"n": 1})
        wrapped_producer(producer).flush()  # its report has run, and the loop had no turn since
        assert not future.done()
        assert len(producer) == 1
        await future
        assert len(producer) == 0


async def test_what_is_purged_fails_its_futures(kafka: FakeKafka, make: Any) -> None:
    async with make(columnar__linger__ms=60_000) as producer:
        await producer.set_schema("t", SCHEMA)
        kafka.hold()
        futures = [await producer.produce("t", {"n": n}) for n in range(3)]
        await producer.purge()
        await asyncio.wait(futures)
        assert {code(future) for future in futures} == {KafkaError._PURGE_QUEUE}
    assert numbers(kafka) == []


async def test_transactions_commit_and_abort(kafka: FakeKafka, make: Any) -> None:
    async with make(transactional__id="x") as producer:
        await producer.set_schema("t", SCHEMA)
        await producer.init_transactions()
        outside = await producer.produce("t", {"n": 0})
        assert code(outside) == KafkaError._STATE
        await producer.begin_transaction()
        stored = await producer.produce("t", {"n": 1})
        await producer.commit_transaction()
        assert stored.result().value() == {"n": 1}
        await producer.begin_transaction()
        aborted = await producer.produce("t", {"n": 2})
        await producer.abort_transaction()
        assert code(aborted) == KafkaError._PURGE_QUEUE
    assert numbers(kafka) == [1]


async def test_a_transaction_with_a_failed_record_does_not_commit(make: Any) -> None:
    async with make(transactional__id="x") as producer:
        await producer.set_schema("t", CODES)
        await producer.init_transactions()
        await producer.begin_transaction()
        bad = await producer.produce("t", {"n": 1, "code": b"long"})
        with pytest.raises(KafkaException) as caught:
            await producer.commit_transaction()
        assert caught.value.args[0].txn_requires_abort()
        assert code(bad) == KafkaError._VALUE_SERIALIZATION
        await producer.abort_transaction()


# --- the end --------------------------------------------------------------------------------------


async def test_close_sends_what_is_outstanding_and_its_futures_are_done(
    kafka: FakeKafka, make: Any
) -> None:
    producer = make(columnar__linger__ms=60_000)
    await producer.set_schema("t", SCHEMA)
    kafka.hold()
    futures = [await producer.produce("t", {"n": n}) for n in range(3)]
    closing = [asyncio.create_task(producer.close()) for _ in range(2)]
    flushing = asyncio.create_task(producer.flush(0))
    done, _ = await asyncio.wait(closing, timeout=0.05)
    assert not done
    kafka.release()
    await asyncio.gather(*closing)
    assert [future.result().value() for future in futures] == [{"n": n} for n in range(3)]
    with pytest.raises(RuntimeError, match="closed"):
        await flushing
    assert numbers(kafka) == [0, 1, 2]


async def test_a_closed_producer_refuses_everything_but_close(make: Any) -> None:
    producer = make()
    await producer.close()
    await producer.close()
    assert len(producer) == 0
    calls = {name: getattr(producer, name)(*args) for name, args in BLOCKING.items()}
    calls |= {"produce": producer.produce("t", {"n": 1}), "poll": producer.poll()}
    for call in calls.values():
        with pytest.raises(RuntimeError, match="Producer has been closed"):
            await call


async def test_a_flush_that_is_under_way_ends_with_close(
    kafka: FakeKafka, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("columnar_kafka.aio.producer._SLICE", 0.01)

    producer = make()
    await producer.set_schema("t", SCHEMA)
    kafka.hold()
    future = await producer.produce("t", {"n": 1})
    flushing = asyncio.create_task(producer.flush())
    await asyncio.sleep(0)
    closing = asyncio.create_task(producer.close())
    done, _ = await asyncio.wait([flushing], timeout=0.2)  # longer than one slice of it
    assert not done
    kafka.release()
    assert await flushing == 0
    assert future.result().value() == {"n": 1}
    await closing


async def test_a_flush_lasts_until_all_is_sent(
    kafka: FakeKafka, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks anew, a slice of its time after the other."""
    asked: list[float] = []

    def flush(self: Any, timeout: float) -> int:
        asked.append(timeout)
        if len(asked) == 3:
            kafka.release()
        return int(type(self).__mro__[1].flush(self, timeout))

    monkeypatch.setattr("columnar_kafka.aio.producer._SLICE", 0.01)

    async with make({"flush": flush}) as producer:
        await producer.set_schema("t", SCHEMA)
        kafka.hold()
        future = await producer.produce("t", {"n": 1})
        assert await producer.flush() == 0
        assert len(asked) >= 3
        assert future.result().value() == {"n": 1}


async def test_a_poll_counts_the_reports_that_came_before_it(make: Any) -> None:
    async with make() as producer:
        await producer.set_schema("t", SCHEMA)
        await (await producer.produce("t", {"n": 1}))
        await (await producer.produce("t", {"n": 2}))
        assert [await producer.poll(60), await producer.poll(0)] == [2, 0]


async def test_who_waits_for_room_when_it_is_closed_is_told(kafka: FakeKafka, make: Any) -> None:
    producer = make(queue__buffering__max__messages=1)
    await producer.set_schema("t", SCHEMA)
    kafka.hold()
    await producer.produce("t", {"n": 0})
    waiting = asyncio.create_task(producer.produce("t", {"n": 1}))
    await asyncio.sleep(0)
    closing = asyncio.create_task(producer.close())
    with pytest.raises(RuntimeError, match="closed"):
        await waiting
    kafka.release()
    await closing
    assert numbers(kafka) == [0]


async def test_close_waits_for_calls_that_use_the_producer(make: Any) -> None:
    started, go_on = threading.Event(), threading.Event()
    closed: list[bool] = []

    def list_topics(self: Any) -> None:
        started.set()
        go_on.wait(30)
        closed.append(pipeline_of(self).unusable is not None)

    producer = make({"list_topics": list_topics})
    call = asyncio.create_task(producer.list_topics())
    await asyncio.to_thread(started.wait, 30)
    call.cancel()
    closing = asyncio.create_task(producer.close())
    done, _ = await asyncio.wait([closing], timeout=0.3)
    assert not done
    go_on.set()
    await closing
    assert closed == [False]


async def test_a_cancelled_close_goes_on_and_can_be_waited_for_again(
    kafka: FakeKafka, make: Any
) -> None:
    producer = make()
    await producer.set_schema("t", SCHEMA)
    kafka.hold()
    future = await producer.produce("t", {"n": 1})
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(producer.close(), 0.01)
    kafka.release()
    await producer.close()
    assert future.result().value() == {"n": 1}


async def test_an_error_while_closing_is_raised_and_leaves_no_threads(make: Any) -> None:
    def close(self: Any) -> bool:
        super(type(self), self).close()
        raise ZeroDivisionError

    producer = make({"close": close})
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await producer.close()
    with pytest.raises(RuntimeError, match="after shutdown"):
        producer.executor.submit(print)


async def test_the_names_of_its_threads_tell_whose_they_are(make: Any) -> None:
    async with make() as producer:
        running = producer.executor.submit(threading.current_thread)
        thread = await asyncio.wrap_future(running)
        assert thread.name.startswith("columnar-kafka-aio")


def test_an_executor_that_was_given_is_not_shut_down(kafka: FakeKafka) -> None:
    class OnMemory(AIOProducer):
        _producer_class = kafka.Producer

    async def main(executor: concurrent.futures.Executor) -> None:
        async with OnMemory({}, executor=executor) as producer:
            await producer.flush()

    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        asyncio.run(main(executor))
        assert executor.submit(int).result() == 0


async def test_a_dropped_producer_sends_what_it_has_and_ends(kafka: FakeKafka, make: Any) -> None:
    producer = make(columnar__linger__ms=60_000)
    await producer.set_schema("t", SCHEMA)
    future = await producer.produce("t", {"n": 1})
    poller = poller_of(producer).thread
    del producer
    assert (await future).value() == {"n": 1}
    await asyncio.to_thread(poller.join, 10)
    assert not poller.is_alive()
    assert numbers(kafka) == [1]


def test_a_loop_that_is_closed_loses_no_record(kafka: FakeKafka, make: Any) -> None:
    async def main() -> AIOProducer:
        producer: AIOProducer = make(columnar__linger__ms=60_000)
        await producer.set_schema("t", SCHEMA)
        await producer.produce("t", {"n": 1})
        return producer

    producer = run_coroutine(main)
    poller = poller_of(producer).thread
    del producer
    poller.join(60)
    assert numbers(kafka) == [1]


def test_each_loop_has_its_own_producer(kafka: FakeKafka, make: Any) -> None:
    async def one(n: int) -> AIOProducer:
        producer: AIOProducer
        async with make() as producer:
            await producer.set_schema("t", SCHEMA)
            await (await producer.produce("t", {"n": n}))
        return producer

    async def other(producer: AIOProducer) -> None:
        for call in (producer.produce("t", {"n": 9}), producer.flush(), producer.close()):
            with pytest.raises(RuntimeError, match="another event loop"):
                await call

    producers = [asyncio.run(one(n)) for n in range(2)]
    asyncio.run(other(producers[0]))
    assert numbers(kafka) == [0, 1]
