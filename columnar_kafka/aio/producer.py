"""`confluent_kafka.aio.AIOProducer`, on a `columnar_kafka.Producer`."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from confluent_kafka import KafkaException

from columnar_kafka.aio.calls import Turn
from columnar_kafka.aio.delivery_future import DeliveryFuture
from columnar_kafka.aio.inbox import Inbox, for_threads
from columnar_kafka.aio.poller import STEP, ProducerPoller
from columnar_kafka.aio.threads import Threads, check_loop
from columnar_kafka.config import Arguments, Hidden, hidden
from columnar_kafka.errors import ConfigError
from columnar_kafka.producing.accepting.arguments import first_given
from columnar_kafka.producing.producer import Producer
from columnar_kafka.runtime import lifecycle

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from confluent_kafka import Message, TopicPartition
    from typing_extensions import Self

    from columnar_kafka.producing.reporting.report import ArrowReport

__all__ = ["AIOProducer"]

_SLICE: Final = 1.0
"""How long, in seconds, a cancelled flush may go on in its thread."""
_PAUSE: Final = 100
"""After so many records the loop does something else, though there was nothing to wait for."""
_CALLBACKS: Final = ("error_cb", "throttle_cb", "stats_cb")


class AIOProducer:
    """`confluent_kafka.aio.AIOProducer`; and `set_schema`, `produce_arrow`, headers, timestamps.

    `columnar_kafka.Producer` collects the records, so there is one buffer and one memory bound;
    ``columnar.linger.ms`` and ``columnar.segment.rows`` are what `buffer_timeout` and
    `batch_size` are. A thread of its own polls as long as the producer is open; what blocks
    runs in `executor`. Every method belongs to the event loop that the producer was made in.
    """

    _producer_class: ClassVar[type[Producer]] = Producer

    def __init__(
        self,
        producer_conf: Mapping[str, Any],
        max_workers: int = 4,
        executor: concurrent.futures.Executor | None = None,
        batch_size: int | None = None,
        buffer_timeout: float | None = None,
    ) -> None:
        """Make the producer, inside a running event loop.

        ``on_delivery``, ``error_cb``, ``throttle_cb`` and ``stats_cb`` are called on the loop, as
        ``logger`` is; the callbacks may be `async`. What they raise goes to the loop's exception
        handler. ``oauth_cb`` is called in a thread of librdkafka.

        Args:
            producer_conf: the configuration, as for `Producer`; it is not changed.
            max_workers: how many blocking calls may run at a time.
            executor: where they run instead; it is not shut down by `close`.
            batch_size: ``columnar.segment.rows``, where that is not configured.
            buffer_timeout: ``columnar.linger.ms``, here in seconds, where that is not configured.

        Raises:
            RuntimeError: there is no running event loop.
            ValueError: `max_workers` is less than 1.
            ConfigError, KafkaException, TypeError: as `Producer`; and ConfigError for an async
                ``oauth_cb``, and ``delivery.report.only.error=true``.
        """
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(self._loop)
        arguments, producer_conf = Arguments((producer_conf,), {}), {}  # which shows passwords
        conf = arguments.passed_to(Hidden)
        if conf.get("delivery.report.only.error") is True:  # confluent-kafka takes nothing else
            raise ConfigError(
                "delivery.report.only.error=true: not possible with an AIOProducer: a record's "
                "future is done with its report"
            )
        if batch_size is not None:
            conf.setdefault("columnar.segment.rows", batch_size)
        if buffer_timeout is not None:
            conf.setdefault("columnar.linger.ms", buffer_timeout * 1000)
        self._on_delivery = conf.pop("on_delivery", None)
        self._threads = Threads(executor, max_workers)
        self.executor = self._threads.executor
        self._producer = self._producer_class(
            for_threads(conf, self._inbox, _CALLBACKS, self._inbox.wrap)
        )
        self._turn = Turn()  # who waits for room, and behind it who came later
        self._unpaused = 0
        self._polled = 0
        self._closing = False
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._poller = ProducerPoller(self._producer, self._inbox, self._loop.create_future())

    async def __aenter__(self) -> Self:
        """Return this producer."""
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close it."""
        await self.close()

    def __del__(self) -> None:
        """Let the thread send what is outstanding, and end."""
        if "_poller" in self.__dict__:
            self._poller.end()

    def __len__(self) -> int:
        """Return the number of records and messages whose future is not done yet."""
        return len(self._producer) + len(self._inbox)

    # --- schemas --------------------------------------------------------------------------------

    async def set_schema(
        self,
        topic: str,
        schema: Any = None,
        *,
        value_format: str | None = None,
        registry: Any = None,
        subject: str | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """Send the rows produced to `topic` as segments; see `Producer.set_schema`."""
        registry = hidden(registry)
        of_registry = {"registry": registry, "subject": subject, "conf": conf}
        call = partial(self._producer.set_schema, value_format=value_format, **of_registry)
        await self._call(call, topic, schema)

    setSchema = set_schema  # noqa: N815 - the KIP's name

    # --- producing ------------------------------------------------------------------------------

    async def produce(
        self,
        topic: str,
        value: Any = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Callable[..., Any] | None = None,
        on_delivery: Callable[..., Any] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> asyncio.Future[Message]:
        """Accept one record; the arguments are those of `Producer.produce`.

        Waits, after whoever waits already, while the memory bound is reached. Cancelled there, the
        record is not taken; cancelling the future changes nothing sent.

        Returns:
            A future of the record's `Message`. It raises KafkaException when the record is not
            stored, RowError when it does not fit the schema. `on_delivery(error, message)` is
            called on the loop before the future is done, except for a record that was refused at
            once; it may be async.

        Raises:
            TypeError, OverflowError: as `Producer.produce`.
            RuntimeError: the producer is closed.
        """
        self._check_open()
        future = DeliveryFuture.make(
            self._inbox, first_given(callback, on_delivery, self._on_delivery)
        )
        # Not the method that a tracer sees: confluent-kafka's AIOProducer calls none either.
        produce = self._producer_class.produce
        arguments = self._producer, topic, value, key, partition, None, future, timestamp, headers
        try:
            if self._goes_first():
                produce(*arguments)
                return future
        except BufferError:
            pass  # it waits for room, in its turn
        except KafkaException as error:  # where confluent-kafka's are, too
            future.set_exception(error)
            return future
        return await self._in_turn(partial(produce, *arguments), future)

    def _goes_first(self) -> bool:
        """Say whether nobody waits, and the loop need not do something else for once."""
        self._unpaused += 1
        return not self._turn.calls and self._unpaused < _PAUSE

    async def produce_arrow(
        self,
        topic: str,
        data: Any,
        *,
        partition: int = -1,
        on_delivery: Callable[..., Any] | None = None,
        key: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
        extra: str = "error",
    ) -> asyncio.Future[ArrowReport]:
        """Accept all rows of Arrow data; the arguments are those of `Producer.produce_arrow`.

        Waits as `produce` does. The data is read and cast in `executor`. Cancelled there, all of
        the rows may have been taken.

        Returns:
            A future of the call's one report; see `produce`.

        Raises:
            TypeError: no Arrow data.
            RuntimeError: the producer is closed.
        """
        # A stream can be read once only, and there may be no room for it at first.
        data = await self._call(_read, data)
        self._check_open()
        future = DeliveryFuture.make(self._inbox, first_given(on_delivery, self._on_delivery))
        produce = partial(
            self._call,
            self._producer.produce_arrow,
            topic,
            data,
            partition=partition,
            on_delivery=future,
            key=key,
            timestamp=timestamp,
            headers=headers,
            extra=extra,
        )
        return await self._in_turn(produce, future)

    async def _in_turn(
        self, produce: Callable[[], Awaitable[None] | None], future: DeliveryFuture
    ) -> DeliveryFuture:
        """Call `produce` until there is room for what it brings; return its future."""
        async with self._turn:
            await self._pause()
            while True:
                self._check_open()
                try:
                    pending = produce()
                    if pending is not None:
                        await pending
                except BufferError:
                    await self._room()
                except KafkaException as error:
                    future.set_exception(error)
                    return future
                else:
                    return future

    async def _pause(self) -> None:
        if self._unpaused >= _PAUSE:
            self._unpaused = 0
            await asyncio.sleep(0)

    async def _room(self) -> None:
        """Return when some records were reported, or soon: their memory may be given back later."""
        await _wait_for(self._inbox.emptied.wait(), STEP)

    # --- reports --------------------------------------------------------------------------------

    async def poll(self, timeout: float = 0) -> int:
        """Wait for at most `timeout` seconds, for ever when negative, until there was a report.

        Nobody has to call it: futures and callbacks are served all the time.

        Returns:
            How many reports and callbacks were served since the last call.
        """
        self._check_open()
        await self._inbox.settle()
        if self._inbox.made == self._polled:
            await _wait_for(self._reported(), None if timeout < 0 else timeout)
        served = self._inbox.made - self._polled
        self._polled = self._inbox.made
        return served

    async def _reported(self) -> None:
        while self._inbox.made == self._polled:
            await self._inbox.emptied.wait()

    async def flush(self, timeout: float = -1) -> int:
        """Send all that is buffered; wait for at most `timeout` seconds, for ever when negative.

        Returns:
            How many records and messages are still outstanding; the futures of the others are done.
        """
        deadline = float("inf") if timeout < 0 else time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            remaining: int = await self._call(self._producer.flush, min(left, _SLICE))
            if not remaining or time.monotonic() >= deadline:
                return remaining
            if self._closing:
                await asyncio.shield(self._poller.ended)
                return 0

    async def purge(self, *args: Any, **kwargs: Any) -> None:
        """Give up what is buffered or in flight, as `Producer.purge`: its futures say so."""
        await self._call(self._producer.purge, *args, **kwargs)

    # --- transactions ---------------------------------------------------------------------------

    async def init_transactions(self, *args: Any, **kwargs: Any) -> None:
        """See confluent-kafka."""
        await self._call(self._producer.init_transactions, *args, **kwargs)

    async def begin_transaction(self) -> None:
        """See confluent-kafka."""
        await self._call(self._producer.begin_transaction)

    async def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Commit what was consumed; see `Producer.send_offsets_to_transaction`."""
        call = self._producer.send_offsets_to_transaction
        await self._call(call, positions, group_metadata, *args, **kwargs)

    async def commit_transaction(self, *args: Any, **kwargs: Any) -> None:
        """Send all that is buffered and commit; see `Producer.commit_transaction`."""
        await self._call(self._producer.commit_transaction, *args, **kwargs)

    async def abort_transaction(self, *args: Any, **kwargs: Any) -> None:
        """Give up what is buffered and abort; see `Producer.abort_transaction`."""
        await self._call(self._producer.abort_transaction, *args, **kwargs)

    # --- the cluster ----------------------------------------------------------------------------

    async def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        """See confluent-kafka."""
        return await self._call(self._producer.list_topics, *args, **kwargs)

    async def cluster_id(self, *args: Any, **kwargs: Any) -> str:
        """See confluent-kafka."""
        cluster_id: str = await self._call(self._producer.cluster_id, *args, **kwargs)
        return cluster_id

    async def set_sasl_credentials(self, *args: Any, **kwargs: Any) -> None:
        """See confluent-kafka."""
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show a password
        await self._call(arguments.passed_to, self._producer.set_sasl_credentials)

    # --- the end --------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush, and end the producer with its threads; called again it waits for the same end.

        All futures are done and all async callbacks have ended when it returns. To give up what
        cannot be sent, `purge` before. What it waits for is logged. Cancelled, as Ctrl-C does with
        the main task, it goes on in the background, and at exit for as long as Kafka takes some.

        Raises:
            RuntimeError: called on another event loop.
            Exception: what `Producer.close` raised; all has ended then too.
        """
        check_loop("AIOProducer", self._loop)
        self._closing = True
        self._poller.close(self._calls)
        ended = self._poller.ended
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError:
            lifecycle.flush_interrupted(self._producer)
            raise
        await self._inbox.callbacks_ended()
        # Both have nothing left to do.
        self._poller.join()
        self._threads.end(wait=True)
        ended.result()

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run what blocks in the executor; what it reported has reached the loop on return."""
        self._check_open()
        call = self.executor.submit(partial(function, *args, **kwargs))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await asyncio.wrap_future(call)
        finally:
            await self._inbox.settle()

    def _check_open(self) -> None:
        check_loop("AIOProducer", self._loop)
        if self._closing:
            raise RuntimeError("Producer has been closed")


async def _wait_for(waiting: Coroutine[Any, Any, Any], seconds: float | None) -> None:
    """Await a coroutine for at most `seconds`, for ever when None.

    Not by `asyncio.wait_for`: up to Python 3.11 it may lose a cancellation.
    """
    task = asyncio.ensure_future(waiting)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()


def _read(data: Any) -> Any:
    """Return Arrow data that can be read again."""
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.Table):
        return pa.table(data)
    return data
