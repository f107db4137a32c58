"""`confluent_kafka.aio.AIOConsumer`, on a `columnar_kafka.Consumer`."""

from __future__ import annotations

import asyncio
import math
import threading
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.error import ConsumeError

from columnar_kafka.aio.callback import CallbackRun
from columnar_kafka.aio.calls import Calls
from columnar_kafka.aio.cancellable_consumer import STEP, CancellableConsumer
from columnar_kafka.aio.inbox import Inbox, for_threads
from columnar_kafka.aio.threads import Threads, check_loop
from columnar_kafka.aio.undelivered import Undelivered
from columnar_kafka.config import Arguments, Hidden

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Self

    from columnar_kafka.aio.undelivered import Take
    from columnar_kafka.consuming.arrow.table_feed import FoundTable
    from columnar_kafka.consuming.feed.feed import Cancelled
    from columnar_kafka.consuming.lag import Lag
    from columnar_kafka.errors import SchemaError
    from columnar_kafka.segment.segment import Segment

__all__ = ["AIOConsumer"]

_CALLBACKS: Final = ("error_cb", "throttle_cb", "stats_cb", "on_commit")
_NOT_GIVEN: Final[Any] = object()  # confluent-kafka refuses None where a callback is expected


class AIOConsumer:
    """`confluent_kafka.aio.AIOConsumer`, with `poll_segment`, `consume_arrow` and `arrow_reader`.

    ``async for message in consumer`` takes records until the consumer is closed.

    Calls run in `executor`, one after the other in their order; a callback's calls run at once.
    `poll` and `consume` need no thread for records that are decoded already. All methods must be
    called on the event loop in which the consumer was made.

    A cancelled `poll`, `consume`, `poll_segment` or `consume_arrow` loses nothing: the next call
    returns the records that it had taken.
    """

    _consumer_class: ClassVar[type[CancellableConsumer]] = CancellableConsumer

    def __init__(
        self,
        consumer_conf: Mapping[str, Any],
        max_workers: int = 100,
        executor: concurrent.futures.Executor | None = None,
    ) -> None:
        """Make the consumer, inside a running event loop.

        ``error_cb``, ``throttle_cb``, ``stats_cb``, ``on_commit`` and ``logger`` are called on the
        loop. The callbacks may be `async`: the call that runs them continues when they have ended.
        A later `poll` or `consume` raises their exceptions. ``oauth_cb`` is called in a thread.

        Args:
            consumer_conf: the configuration, as for `Consumer`; it is not changed.
            max_workers: the number of threads; more than one is never used at a time.
            executor: runs the calls instead; `close` does not shut it down.

        Raises:
            RuntimeError: there is no running event loop.
            ValueError: `max_workers` is less than 1.
            ConfigError, KafkaException, TypeError: as `Consumer`; and ConfigError for an async
                ``oauth_cb``.
        """
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(self._loop)
        if executor is None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")
        arguments, consumer_conf = Arguments((consumer_conf,), {}), {}  # which shows passwords
        conf = arguments.passed_to(Hidden)
        conf = for_threads(conf, self._inbox, _CALLBACKS, self._on_loop)
        self._consumer = self._consumer_class(conf)
        self._threads = Threads(executor, max_workers)
        self.executor = self._threads.executor
        self._undelivered = Undelivered(self._consumer)
        self._calls = Calls(self, self.executor, self._inbox, self._undelivered)
        self._closing = False
        self._ending: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Return this consumer."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.close()

    # --- taking records -------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        """Take records with ``async for``; a later loop goes on where this one ended.

        Raises:
            RuntimeError: the consumer is closed.
        """
        self._check_open()
        return self

    async def __anext__(self) -> Any:
        """Return the next record or plain message, or the end of a partition.

        That is an event, and comes only with ``enable.partition.eof=true``. `close` ends the loop.

        Raises:
            KafkaException: a `ConsumeError` for every other error event and for a segment that
                cannot be read, which is its `kafka_message`; the next call goes on after it.
            Exception: as `poll`.
        """
        messages = None if self._closing else await self._poll(-1)
        if messages is None:
            raise StopAsyncIteration
        # Where a signal's handler raises in a call from here on, the next call takes it again.
        self._undelivered.taken = messages
        [message] = messages
        error = message.error()
        fails = error is not None and error.code() != KafkaError._PARTITION_EOF
        self._undelivered.taken = []
        if not fails:
            return message
        raise ConsumeError(error, kafka_message=message)

    async def poll(self, timeout: float = -1) -> Any:
        """Return the next record, plain message or error event; see `Consumer.poll`.

        Raises:
            RuntimeError: the consumer is closed, or was while this waited.
            TypeError, Exception: as `Consumer.poll`.
        """
        messages = await self._poll(timeout)
        if messages is None:
            raise RuntimeError("Consumer closed")
        return messages[0] if messages else None

    async def _poll(self, timeout: float) -> list[Any] | None:
        """Return a list of what `poll` returns; None where the consumer was closed meanwhile."""
        math.isfinite(timeout)  # or a TypeError, in confluent-kafka's words
        for message in self._ready():  # in one step: see `handout`
            return [message]

        def poll(_: int, timeout: float, cancelled: Cancelled) -> list[Any]:
            return self._consumer.poll_until(cancelled, timeout)

        take = partial(self._undelivered.take_kept_first, poll)
        return await self._take_until_closed(take, 1, timeout)

    async def consume(
        self,
        num_messages: int = 1,
        timeout: float = -1,
    ) -> list[Any]:
        """Return up to `num_messages` records, plain messages and error events.

        Returns fewer only after `timeout` seconds, or when a callback has raised; the next call
        raises its exception.

        Raises:
            ValueError, RuntimeError, TypeError: as `Consumer.consume`, and `poll`.
        """
        math.isfinite(timeout)
        messages = self._undelivered.take_ready(self._ready(), index(num_messages))
        if messages:
            self._undelivered.delivered()
            return messages

        def consume(count: int, timeout: float, cancelled: Cancelled) -> list[Any]:
            return self._consumer.consume_until(cancelled, count, timeout)

        return await self._take(
            partial(self._undelivered.take_kept_first, consume), num_messages, timeout
        )

    def _ready(self) -> Iterator[Any]:
        """Return the records that are ready, and that this call may take without a thread."""
        if not self._calls.can_be_spared():
            return iter(())
        self._check_open()
        return self._consumer.ready()

    async def poll_segment(
        self,
        timeout: float = -1,
    ) -> Segment | None:
        """Return the next segment, verified and not decoded; see `Consumer.poll_segment`."""

        def poll(_: int, timeout: float, __: Cancelled) -> list[Segment]:
            segment = self._consumer.poll_segment(min(timeout, STEP))
            return [] if segment is None else [segment]

        math.isfinite(timeout)
        segments = await self._take(poll, 1, timeout)
        return segments[0] if segments else None

    pollBuffer = poll_segment  # noqa: N815 - the KIP's name

    async def consume_arrow(self, *args: Any, **kwargs: Any) -> pa.Table | None:
        """Return the next records as one table; see `Consumer.consume_arrow`.

        Cancelled, it has taken nothing.

        Raises:
            RuntimeError: the consumer is closed, or was while this waited.
            KafkaException, TypeError, ValueError: as `Consumer.consume_arrow`.
        """
        find = partial(self._consumer.find_table, *args, **kwargs)
        table: FoundTable | None = await self._wait(find)
        return None if table is None else table.take()  # nobody else had a turn since

    async def arrow_reader(
        self,
        *args: Any,
        until_end: bool = False,
        on_error: Callable[[KafkaException], Any] | None = None,
        on_schema_change: Callable[[SchemaError], Any] | None = None,
        **kwargs: Any,
    ) -> pa.RecordBatchReader:
        """Return a stream of record batches; see `Consumer.arrow_reader`.

        Read it in another thread (`asyncio.to_thread`), as it waits: each batch is a call of this
        consumer, which waits for its turn. `on_error` and `on_schema_change` are called on the
        loop, and may be `async`.

        Raises:
            RuntimeError: the consumer is closed, or was while this waited. By the reader: it is
                read on the loop.
            KafkaException, TypeError, ValueError: as `Consumer.arrow_reader`.
        """
        if on_error is not None:
            kwargs["on_error"] = self._on_loop(on_error)
        if on_schema_change is not None:
            kwargs["on_schema_change"] = self._on_loop(on_schema_change)
        stream = partial(self._consumer.open_stream, *args, until_end=until_end, **kwargs)
        schema, batches = await self._wait(stream)
        reading = self._read(batches, until_end=until_end)
        return pa.RecordBatchReader.from_batches(schema, reading)

    async def _wait(self, function: Callable[..., Any]) -> Any:
        """Call a function that waits, until this call is cancelled or the consumer is closed."""
        cancelled = threading.Event()

        def wait() -> Any:
            self._undelivered.raise_pending()
            try:
                result = function(cancelled=partial(self._is_cancelled, cancelled))
            except KafkaException:
                if not self._closing:
                    raise
                result = None
            if result is None and self._closing:
                raise RuntimeError("Consumer closed")
            return result

        try:
            return await self._call(wait)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _is_cancelled(self, cancelled: threading.Event) -> bool:
        return self._is_closing() or cancelled.is_set()

    def _is_closing(self) -> bool:
        """Say whether the consumer is closed or closing; wake the loop for its callbacks."""
        self._inbox.wake()
        return self._closing

    def _read(
        self, batches: Iterator[pa.RecordBatch], *, until_end: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches to another thread; each is a call that waits for its turn."""
        while True:
            if _is_on_a_loop():
                raise RuntimeError("read it in another thread (asyncio.to_thread): it waits")
            call = self._next(batches, until_end=until_end)
            try:
                taking = asyncio.run_coroutine_threadsafe(call, self._loop)
            except RuntimeError:  # the loop is closed
                call.close()
                raise
            batch = taking.result()
            if batch is None:
                return
            yield batch

    async def _next(
        self, batches: Iterator[pa.RecordBatch], *, until_end: bool
    ) -> pa.RecordBatch | None:
        try:
            return await self._call(next, batches, None)
        except RuntimeError:  # closed: the end of a stream without `until_end`
            if until_end or not self._closing:
                raise
            return None

    async def _take(self, take: Take, count: int, timeout: float) -> list[Any]:
        messages = await self._take_until_closed(take, count, timeout)
        if messages is None:
            raise RuntimeError("Consumer closed")
        return messages

    async def _take_until_closed(self, take: Take, count: int, timeout: float) -> list[Any] | None:
        cancelled = threading.Event()
        take_now = partial(
            self._undelivered.take, cancelled=cancelled.is_set, closing=self._is_closing
        )
        try:
            messages: list[Any] | None = await self._call(take_now, take, count, timeout)
        finally:
            cancelled.set()
        return messages

    # --- the assignment -------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: list[str],
        on_assign: Callable[..., Any] | None = _NOT_GIVEN,
        on_revoke: Callable[..., Any] | None = _NOT_GIVEN,
        on_lost: Callable[..., Any] | None = _NOT_GIVEN,
    ) -> None:
        """Subscribe to topics; see `Consumer.subscribe`.

        Callbacks get this consumer and the partitions. They run on the loop and may be `async`; the
        rebalance continues when they have ended.
        """
        callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        wrapped = {
            name: self._rebalancing(callback) if callable(callback) else callback
            for name, callback in callbacks.items()
            if callback is not _NOT_GIVEN
        }
        await self._call(self._consumer.subscribe, topics, **wrapped)

    def _rebalancing(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        waited_for = self._on_loop(callback)
        return lambda _, partitions: waited_for(self, partitions)

    async def unsubscribe(self) -> None:
        """See `Consumer.unsubscribe`."""
        await self._call(self._consumer.unsubscribe)

    async def assign(self, *args: Any, **kwargs: Any) -> None:
        """See `Consumer.assign`."""
        await self._call(self._consumer.assign, *args, **kwargs)

    async def unassign(self) -> None:
        """See `Consumer.unassign`."""
        await self._call(self._consumer.unassign)

    async def incremental_assign(self, *args: Any, **kwargs: Any) -> None:
        """See `Consumer.incremental_assign`."""
        await self._call(self._consumer.incremental_assign, *args, **kwargs)

    async def incremental_unassign(self, *args: Any, **kwargs: Any) -> None:
        """See `Consumer.incremental_unassign`."""
        await self._call(self._consumer.incremental_unassign, *args, **kwargs)

    async def assignment(self) -> list[TopicPartition]:
        """See `Consumer.assignment`."""
        partitions: list[TopicPartition] = await self._call(self._consumer.assignment)
        return partitions

    async def pause(self, *args: Any, **kwargs: Any) -> None:
        """See `Consumer.pause`."""
        await self._call(self._consumer.pause, *args, **kwargs)

    async def resume(self, *args: Any, **kwargs: Any) -> None:
        """See `Consumer.resume`."""
        await self._call(self._consumer.resume, *args, **kwargs)

    async def seek(self, *args: Any, **kwargs: Any) -> None:
        """See `Consumer.seek`."""
        await self._call(self._consumer.seek, *args, **kwargs)

    # --- positions ------------------------------------------------------------------------------

    async def commit(self, *args: Any, **kwargs: Any) -> list[TopicPartition] | None:
        """See `Consumer.commit`: with ``asynchronous=False`` it returns what was committed."""
        offsets: list[TopicPartition] | None = await self._call(
            self._consumer.commit, *args, **kwargs
        )
        return offsets

    async def store_offsets(self, *args: Any, **kwargs: Any) -> None:
        """See `Consumer.store_offsets`."""
        await self._call(self._consumer.store_offsets, *args, **kwargs)

    async def committed(self, *args: Any, **kwargs: Any) -> list[TopicPartition]:
        """See `Consumer.committed`."""
        offsets: list[TopicPartition] = await self._call(self._consumer.committed, *args, **kwargs)
        return offsets

    async def position(self, *args: Any, **kwargs: Any) -> list[TopicPartition]:
        """See `Consumer.position`."""
        positions: list[TopicPartition] = await self._call(self._consumer.position, *args, **kwargs)
        return positions

    async def get_watermark_offsets(self, *args: Any, **kwargs: Any) -> Any:
        """See `Consumer.get_watermark_offsets`."""
        return await self._call(self._consumer.get_watermark_offsets, *args, **kwargs)

    async def lag(self, *args: Any, **kwargs: Any) -> list[Lag]:
        """See `Consumer.lag`."""
        lags: list[Lag] = await self._call(self._consumer.lag, *args, **kwargs)
        return lags

    async def offsets_for_times(self, *args: Any, **kwargs: Any) -> list[TopicPartition]:
        """See `Consumer.offsets_for_times`."""
        offsets: list[TopicPartition] = await self._call(
            self._consumer.offsets_for_times, *args, **kwargs
        )
        return offsets

    async def consumer_group_metadata(self) -> Any:
        """See `Consumer.consumer_group_metadata`."""
        return await self._call(self._consumer.consumer_group_metadata)

    # --- the cluster ----------------------------------------------------------------------------

    async def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        """See confluent-kafka."""
        return await self._call(self._consumer.list_topics, *args, **kwargs)

    async def cluster_id(self, *args: Any, **kwargs: Any) -> str:
        """See confluent-kafka."""
        cluster_id: str = await self._call(self._consumer.cluster_id, *args, **kwargs)
        return cluster_id

    async def set_sasl_credentials(self, *args: Any, **kwargs: Any) -> None:
        """See confluent-kafka."""
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show a password
        await self._call(arguments.passed_to, self._consumer.set_sasl_credentials)

    # --- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Commit what is stored (with auto-commit), leave the group, and close.

        A `poll` or `consume` that waits returns the records that it has, or raises RuntimeError.
        If it is cancelled, it continues in the background.

        Raises:
            RuntimeError: it is closed already.
            Exception: what a callback raised.
        """
        if CallbackRun.of(self) is None:
            self._check_open()
        self._closing = True
        self._ending = asyncio.ensure_future(self._close())
        await asyncio.shield(self._ending)

    async def _close(self) -> None:
        try:
            await self._calls.make(self._consumer.close)
        finally:
            self._threads.end(wait=False)

    # --- calls ----------------------------------------------------------------------------------

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function that may block in the executor, when it is its turn."""
        if CallbackRun.of(self) is None:  # a callback of `close` may still commit
            self._check_open()
        return await self._calls.make(partial(function, *args, **kwargs))

    def _check_open(self) -> None:
        check_loop("AIOConsumer", self._loop)
        if self._closing:
            raise RuntimeError("Consumer closed")

    # --- callbacks ------------------------------------------------------------------------------

    def _on_loop(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function for librdkafka's thread that waits for `callback` on the loop."""
        return lambda *args: CallbackRun(self._loop, self).run(callback, *args)


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
