"""`consume_arrow` and `arrow_reader` of `AIOConsumer`: turns, threads, and what is cancelled."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, TopicPartition
from inside import fail_next_call, is_closing
from tables import CONFIG, numbers, put

from columnar_kafka import ConfigError, SchemaError, SegmentError
from columnar_kafka.aio import AIOConsumer
from columnar_kafka.aio.cancellable_consumer import CancellableConsumer
from columnar_kafka.plain import Json
from columnar_kafka.position import start
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def kafka() -> FakeKafka:
    fake = FakeKafka()
    fake.create_topic("t")
    return fake


@asynccontextmanager
async def consuming(
    kafka: FakeKafka, over: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[AIOConsumer]:
    """Yield a consumer of topic t; `over` replaces inner methods."""
    inner = type("Inner", (CancellableConsumer, kafka.Consumer), over or {})
    on_memory = type("OnMemory", (AIOConsumer,), {"_consumer_class": inner})
    consumer = on_memory({**CONFIG, **config})
    try:
        await consumer.assign([TopicPartition("t", 0, 0)])
        yield consumer
    finally:
        if not is_closing(consumer):
            await consumer.close()


async def after(consumer: AIOConsumer) -> int:
    [place] = await consumer.position([TopicPartition("t", 0)])
    return int(place.offset)


# --- tables ---------------------------------------------------------------------------------------


async def test_tables_come_as_the_consumers_do(kafka) -> None:
    put(kafka, numbers(0))
    kafka.append("t", 0, b'{"n": 3}')

    async with consuming(kafka) as consumer:
        table = await consumer.consume_arrow(9, 0, ["n"])
        assert table.to_pylist() == [{"n": n} for n in range(3)]
        assert await after(consumer) == start(1)
        table = await consumer.consume_arrow(9, timeout=0, value=Json())
        assert table["n"].to_pylist() == [3]
        assert await consumer.consume_arrow(9, 0) is None


async def test_what_is_wrong_is_raised(kafka) -> None:
    put(kafka, numbers(0), damage=True)
    put(kafka, numbers(3))

    async with consuming(kafka) as consumer:
        with pytest.raises(ValueError, match="num_records"):
            await consumer.consume_arrow(0)
        with pytest.raises(SegmentError):
            await consumer.consume_arrow(9, 0)
        with pytest.raises(SchemaError):
            await consumer.consume_arrow(9, 0, ["x"])
        assert (await consumer.consume_arrow(9, 0)).num_rows == 3


async def test_cancelled_while_it_waits_it_has_taken_nothing(kafka) -> None:
    put(kafka, numbers(0))

    async with consuming(kafka) as consumer:
        waiting = asyncio.create_task(consumer.consume_arrow(4))
        position = asyncio.create_task(after(consumer))  # whose turn comes behind it
        await asyncio.sleep(0)
        waiting.cancel()
        assert await position == -1001
        assert (await consumer.consume_arrow(4, 0)).num_rows == 3


async def test_cancelled_with_its_rows_there_it_has_taken_nothing(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, numbers(3), damage=True)
    calls: list[asyncio.Task[Any]] = []

    def cancelled(self: Any, *args: Any, **kwargs: Any) -> Any:
        found_table = CancellableConsumer.find_table(self, *args, **kwargs)
        if calls:
            task = calls.pop()
            task.get_loop().call_soon_threadsafe(task.cancel)
        return found_table

    async with consuming(kafka, {"find_table": cancelled}) as consumer:
        for expected in (3, SegmentError):
            calls.append(asyncio.create_task(consumer.consume_arrow(9, 0)))
            with pytest.raises(asyncio.CancelledError):
                await calls[0]
            if expected is SegmentError:
                with pytest.raises(SegmentError):
                    await consumer.consume_arrow(9, 0)
            else:
                assert (await consumer.consume_arrow(9, 0)).num_rows == expected


async def test_closed_while_it_waits_it_says_so(kafka) -> None:
    async with consuming(kafka) as consumer:
        table = asyncio.create_task(consumer.consume_arrow(9))
        reader = asyncio.create_task(consumer.arrow_reader())
        await asyncio.sleep(0)
        await consumer.close()
        for task in (table, reader):
            with pytest.raises(RuntimeError, match="closed"):
                await task


async def test_what_a_callback_raised_comes_first(kafka) -> None:
    put(kafka, numbers(0))

    async with consuming(kafka) as consumer:
        fail_next_call(consumer, KeyError("of a callback"))
        with pytest.raises(KeyError):
            await consumer.consume_arrow(9, 0)
        assert (await consumer.consume_arrow(9, 0)).num_rows == 3


# --- the reader -----------------------------------------------------------------------------------


async def test_a_reader_is_read_in_another_thread_and_others_have_their_turns(kafka) -> None:
    for n in range(3):
        put(kafka, numbers(n, 1))

    async with consuming(kafka) as consumer:
        reader = await consumer.arrow_reader(["n"], timeout=0)
        assert await after(consumer) == -1001
        first = await asyncio.to_thread(reader.read_next_batch)
        assert first["n"].to_pylist() == [0]
        assert await after(consumer) == start(1)
        frame = await asyncio.to_thread(polars.from_arrow, reader)
        assert frame["n"].to_list() == [1, 2]


async def test_on_the_loop_it_would_wait_for_itself(kafka) -> None:
    put(kafka, numbers(0))

    async with consuming(kafka) as consumer:
        reader = await consumer.arrow_reader(timeout=0)
        with pytest.raises(RuntimeError, match="in another thread"):
            reader.read_next_batch()


def test_it_says_that_the_loop_is_closed(kafka) -> None:
    put(kafka, numbers(0))

    async def made() -> Any:
        async with consuming(kafka) as consumer:
            return await consumer.arrow_reader(timeout=0)

    reader = asyncio.run(made())
    with pytest.raises(RuntimeError, match="closed"):
        reader.read_next_batch()


async def test_it_ends_when_the_consumer_is_closed_even_while_it_waits(kafka) -> None:
    put(kafka, numbers(0))

    async with consuming(kafka) as consumer:
        reader = await consumer.arrow_reader(["n"])
        reading = asyncio.create_task(asyncio.to_thread(reader.read_all))
        while await after(consumer) != start(1):
            pass
        await consumer.close()
        assert (await reading).num_rows == 3


async def test_an_end_to_read_to_needs_ends_to_be_told(kafka) -> None:
    put(kafka, numbers(0))

    async with consuming(kafka) as consumer:
        with pytest.raises(ConfigError, match=r"until_end needs enable\.partition\.eof=true"):
            await consumer.arrow_reader(["n"], until_end=True)


async def test_closed_before_the_end_it_was_to_reach_it_says_so(kafka) -> None:
    put(kafka, numbers(0))

    async with consuming(kafka, **{"enable.partition.eof": True}) as consumer:
        reader = await consumer.arrow_reader(["n"], until_end=True)
        await consumer.close()
        with pytest.raises(RuntimeError, match="Consumer closed"):
            await asyncio.to_thread(reader.read_all)


async def test_closed_while_it_waits_for_the_end_it_says_so(kafka) -> None:
    """What is paused has none."""
    put(kafka, numbers(0))

    kafka.create_topic("t", 2)
    async with consuming(kafka, **{"enable.partition.eof": True}) as consumer:
        await consumer.assign([TopicPartition("t", 0, 0), TopicPartition("t", 1)])
        await consumer.pause([TopicPartition("t", 1)])
        reader = await consumer.arrow_reader(["n"], until_end=True)
        reading = asyncio.create_task(asyncio.to_thread(reader.read_all))
        while await after(consumer) != start(1):
            pass
        await consumer.close()
        with pytest.raises(RuntimeError, match="Consumer closed"):
            await reading


async def test_a_schema_that_grows_is_raised_by_the_reader(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [3], "s": ["x"]}))

    async with consuming(kafka) as consumer:
        reader = await consumer.arrow_reader(timeout=0)
        with pytest.raises(SchemaError, match=r"t\[0\]@1 .*: s is missing in the stream"):
            await asyncio.to_thread(reader.read_all)
        assert await after(consumer) == start(1)


async def test_where_a_schema_that_grows_ends_it_that_is_told_on_the_loop(kafka) -> None:
    put(kafka, numbers(0))
    put(kafka, pa.table({"n": [3], "s": ["x"]}))
    told: list[tuple[str, threading.Thread]] = []

    async def tell(error: SchemaError) -> None:
        await asyncio.sleep(0)
        told.append((str(error)[:17], threading.current_thread()))

    async with consuming(kafka) as consumer:
        reader = await consumer.arrow_reader(timeout=0, on_schema_change=tell)
        assert (await asyncio.to_thread(reader.read_all)).num_rows == 3
        assert told == [("segment at t[0]@1", threading.current_thread())]


async def test_what_is_bad_is_told_on_the_loop(kafka) -> None:
    put(kafka, numbers(0), damage=True)
    put(kafka, numbers(3))
    told: list[tuple[type, threading.Thread]] = []

    async def tell(error: KafkaException) -> None:
        await asyncio.sleep(0)
        told.append((type(error), threading.current_thread()))

    async with consuming(kafka) as consumer:
        reader = await consumer.arrow_reader(["n"], schema=SCHEMA, timeout=0, on_error=tell)
        assert (await asyncio.to_thread(reader.read_all)).num_rows == 3
        assert told == [(SegmentError, threading.current_thread())]


async def test_without_a_record_there_is_no_schema_to_take(kafka) -> None:
    async with consuming(kafka) as consumer:
        with pytest.raises(KafkaException, match="no record in 0 s"):
            await consumer.arrow_reader(timeout=0)
