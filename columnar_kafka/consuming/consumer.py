"""A drop-in `confluent_kafka.Consumer` that unwraps segments into records, in positions."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import pyarrow as pa
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from columnar_kafka import lifecycle, position
from columnar_kafka.broker.client_classes import StockConsumer, traced
from columnar_kafka.broker.confluent import ConfluentConsumer
from columnar_kafka.config import merge_arguments
from columnar_kafka.consuming.arrow.batch_reader import deadline_after, seconds_left, stream
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.consuming.arrow.table_feed import TableFeed, TableRequest
from columnar_kafka.consuming.feed import Feed, never
from columnar_kafka.consuming.lag import Lag, lag_of
from columnar_kafka.consuming.offset_store import OffsetStore
from columnar_kafka.consuming.settings import ConsumerConfig
from columnar_kafka.consuming.time_lookup import first_records
from columnar_kafka.errors import ConfigError, ForkError, SegmentError
from columnar_kafka.message import Message
from columnar_kafka.offsets import GroupMetadata, Partition, key_of, to_positions
from columnar_kafka.plain.base import Formats
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.isolated import IsolatedDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.compute as pc

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.consuming.arrow.batch_reader import OnError, OnSchemaChange
    from columnar_kafka.consuming.arrow.table_feed import FoundTable
    from columnar_kafka.consuming.feed import Stops
    from columnar_kafka.errors import SchemaError
    from columnar_kafka.plain import Format, TableFormat
    from columnar_kafka.segment.decoder import Decoder, Segment

__all__ = ["Consumer"]

_log = logging.getLogger(__name__)

_MAX_CONSUME: Final = 1_000_000
_MAX_RAISED: Final = 100
_COMMIT_AGAIN: Final = 5.0  # seconds
_COMMIT_PAUSE: Final = 0.05
_UNANSWERED: Final = 60.0
_LEAVE: Final = 1.0
_LEAVE_POLL: Final = 0.01
_GROUP_WENT_ON: Final = frozenset(
    {
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
_CALLBACKS: Final = ("error_cb", "stats_cb", "throttle_cb")
_Told = Callable[[str, list[TopicPartition]], None]
_NOT_GIVEN: Final[Any] = object()  # confluent-kafka refuses None where a callback is expected


def _nothing() -> None: ...


class Consumer(StockConsumer):
    """`confluent_kafka.Consumer`, whose messages are records when ``columnar.encoding=parquet``.

    With ``columnar.encoding=none`` (the default) or ``fetch.raw.bytes=true`` every call is
    confluent-kafka's own: a segment is a message whose value is a Parquet file.

    With ``parquet`` every offset that goes in or comes out is a position: a record's place, at
    which the consumer can seek, commit and resume.

    Thread-safe: any method may be called from any thread. One that waits for records lets others
    go first, within 0.1 s, or some 10 ms where that happens often. Threads that take records share
    them: each record is handed out once.
    Source: KIP-1008, and confluent-kafka 2.16.
    """

    # What a subclass that does not call __init__ has: confluent-kafka's own errors.
    _settings = ConsumerConfig.parse({})[0]
    _cooperative = False  # nor is there anything to be answered at its end
    _stock: ClassVar[type] = StockConsumer
    _above_tracer: ClassVar[tuple[type, ...]] = ()
    _stops: Stops = staticmethod(never)  # ends a `consume` early

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make a client that is traced if confluent-kafka's would be."""
        client: Self = super().__new__(traced(cls))
        return client

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take confluent-kafka's configuration, ``fetch.raw.bytes`` and the ``columnar.`` keys.

        Raises:
            ConfigError: an unknown ``columnar.`` key or a value that is not allowed.
            KafkaException, TypeError, ValueError: as confluent-kafka.
        """
        settings, inner = ConsumerConfig.parse(merge_arguments(args, kwargs))
        self._settings = settings
        self._raised: deque[BaseException] = deque(maxlen=_MAX_RAISED)
        if settings.unwraps:
            called = [key for key in _CALLBACKS if callable(inner.get(key))]
            inner |= {key: self._guarded(inner[key]) for key in called}
            if settings.on_commit is None or callable(settings.on_commit):
                inner["on_commit"] = self._guarded(self._answered)
        super().__init__(inner)
        self._cooperative = _is_cooperative(inner)
        lifecycle.abandon_in_children(self)
        if not settings.unwraps:
            # Off means off: the base method bound here costs what stock's does.
            if type(self).poll is Consumer.poll:
                self.poll = super().poll  # type: ignore[method-assign]
            return
        if settings.unread is not None:
            raise settings.unread
        self._closed = self._closing = self._subscribed = False
        self._revoking = False  # what gives partitions back meanwhile commits before it does
        self._losing = False  # and then it does not
        self._answers = False  # to a rebalance, in the user's callback
        self._selection = Projection()
        self._tells_ends = str(inner.get("enable.partition.eof")).lower() in ("true", "1")
        self._granted: set[Partition] = set()  # by the group: given back before the end
        self._static = "group.instance.id" in inner
        self._poll_interval = int(inner.get("max.poll.interval.ms", 300_000)) / 1000
        self._broker: ConsumerBroker = self._connect(inner)
        self._decoder = _decoder(settings)
        self._feed = Feed(
            self._broker,
            OffsetStore(auto_store=settings.auto_store),
            decoder=self._decoder,
            tells_ends=self._tells_ends,
            before_serving=self._guarded(self._commit_if_due),
            after_serving=self._raise_pending,
        )
        self._tables = TableFeed(self._feed)
        self._lock = self._feed.lock
        self._buffer, self._poller = self._feed.buffer, self._feed.poller  # for `poll` alone
        self._commits_every = settings.auto_commit_interval or math.inf
        self._last_commit = time.monotonic()
        self._next_commit = self._last_commit + self._commits_every

    def _connect(self, inner: dict[str, Any]) -> ConsumerBroker:
        """Return the Kafka that messages come from."""
        return ConfluentConsumer(super(), inner)

    # --- taking records -------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Any:
        """Return the next record, plain message or error event, or None after `timeout` seconds.

        Without a timeout it waits for ever. Serves callbacks, also when the record was held
        already, and raises what one of them raised. A segment that cannot be read is one message
        whose `error()` is set; the next call goes on after it.

        Raises:
            RuntimeError: the consumer is closed.
            TypeError: `timeout` is not a number.
            ColumnarError: no process could be started to decode in; the record stays.
        """
        if not self._settings.unwraps:
            return super().poll(timeout)
        math.isfinite(timeout)  # or a TypeError, in confluent-kafka's words
        if not self._raised and time.monotonic() < self._poller.due:
            for message in self._buffer.ready.left:  # in one step: see `handout`
                return message
        self._check_open()
        return self._feed.next(timeout)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Return up to `num_messages` records, plain messages and error events.

        Fewer only when `timeout` seconds have passed, or the next call has something to raise: then
        it waits for no more.

        Raises:
            ValueError: `num_messages` is not from 0 to 1,000,000.
            RuntimeError, TypeError, ColumnarError: as `poll`.
        """
        if not self._settings.unwraps:
            return super().consume(num_messages, timeout)
        count = index(num_messages)
        math.isfinite(timeout)
        self._check_open()
        if not 0 <= count <= _MAX_CONSUME:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        return self._feed.take(count, timeout, self._is_stopped)

    def _is_stopped(self) -> bool:
        return self._stops() or bool(self._raised)

    def poll_segment(self, timeout: float = -1) -> Segment | None:
        """Return the next segment, verified and not decoded, or None after `timeout` seconds.

        It is whole, also where some of its records were handed out or committed before. To go on
        inside it `seek` to ``segment.offset + row``.

        Raises:
            SegmentError: the next message claims to be a segment and cannot be trusted; the next
                call goes on after it.
            KafkaException: the next message is a plain one (`poll` takes it), or an error event.
            ConfigError: ``columnar.encoding`` is ``none``, or ``fetch.raw.bytes`` is set.
        """
        self._check_unwraps("poll_segment")
        math.isfinite(timeout)
        self._check_open()
        return self._feed.segment(timeout)

    pollBuffer = poll_segment  # noqa: N815 - the KIP's name

    def consume_arrow(
        self,
        num_records: int,
        timeout: float = -1,
        columns: Sequence[str] | None = None,
        *,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        promote: bool = False,
        key: Format | Mapping[str, Format] | None = None,
        value: Format | TableFormat | Mapping[str, Format | TableFormat] | None = None,
    ) -> pa.Table | None:
        """Return up to `num_records` records as one table, or None after `timeout` seconds.

        They are the next ones, as `consume` would return them, of one topic and one schema: fewer
        when a record of another topic or schema, or something to be raised comes next; when
        `timeout` seconds have passed; or when they take ``columnar.max.decoded.bytes`` or 32 MiB of
        messages. With a filter, as soon as there is one. `position`, `commit` and all others go on
        after the last record looked at. Serves callbacks; returns when all is decoded.
        Messages that are tables themselves (`plain.Ipc`) stay whole: the last may be too long.

        The column ``_kafka`` has what the segment's has (of plain messages key, timestamp and
        headers), and `topic`, `partition` and `offset`, the position. The table's metadata has the
        keys ``columnar.topic`` and ``columnar.schema``.

        Args:
            num_records: from 1 to 1,000,000.
            timeout: in seconds; without, it waits for ever.
            columns: the only ones to be decoded, in this order; a member of ``_kafka`` is called
                ``_kafka.offset``.
            filter: rows for which it is true; it may use columns that are not in `columns`. Of a
                segment without such rows only what the filter uses is decoded.
            promote: go on over a schema that grew (see `Producer.set_schema`): the table has the
                grown one, and null where a column is missing.
            key: how keys of plain messages are encoded, also by topic; by default they are bytes.
            value: how values are; records become columns, anything else the column ``value``.

        Raises:
            SegmentError: the next record is in a segment that cannot be trusted; the next call goes
                on after it.
            RowError: it is a plain message that cannot be decoded; the next call goes on after it.
            KafkaException: it is an error event, or the end of a partition.
            SchemaError: it lacks a column, or the filter does not fit; it stays, for another call.
            ConfigError: ``columnar.encoding`` is ``none``, or ``fetch.raw.bytes`` is set.
            RuntimeError, TypeError, ValueError: as `consume`.
        """
        deadline = deadline_after(timeout)
        while True:
            found = self._find_arrow(
                num_records, timeout, columns, filter=filter, promote=promote, key=key, value=value
            )
            if found is None:
                return None
            table = found.take()
            if table is not None:
                return table
            # Another thread has used the consumer at the last moment.
            timeout = seconds_left(deadline)

    def _find_arrow(
        self,
        num_records: int,
        timeout: float = -1,
        columns: Sequence[str] | None = None,
        *,
        stops: Stops = never,
        **given: Any,
    ) -> FoundTable | None:
        """Return what `consume_arrow` hands out, as yet not handed out; None when it `stops`."""
        self._check_unwraps("consume_arrow")
        math.isfinite(timeout)
        self._check_open()
        count = _count(num_records)
        least = count if given.get("filter") is None else 1
        request = self._request(columns, least=least, most=count, **given)
        return self._tables.find(request, timeout, stops)

    def _request(
        self,
        columns: Sequence[str] | None,
        *,
        filter: pc.Expression | None = None,  # noqa: A002 - as consume_arrow
        promote: bool = False,
        key: Any = None,
        value: Any = None,
        **more: Any,
    ) -> TableRequest:
        selection = Projection(columns, filter, promote=promote)
        if not selection.is_like(self._selection):  # planning a filter takes milliseconds
            self._selection = selection
        return TableRequest(
            selection=self._selection,
            formats=Formats(key, value),
            limits=self._settings.limits,
            **more,
        )

    def arrow_reader(
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        promote: bool = False,
        key: Format | Mapping[str, Format] | None = None,
        value: Format | TableFormat | Mapping[str, Format | TableFormat] | None = None,
        schema: pa.Schema | None = None,
        num_records: int = 100_000,
        timeout: float = -1,
        until_end: bool = False,
        on_error: Callable[[KafkaException], object] | None = None,
        on_schema_change: Callable[[SchemaError], object] | None = None,
    ) -> pa.RecordBatchReader:
        """Return a stream of record batches, which reads on as it is read: for duckdb, polars, ….

        A batch is out of one segment, or of plain messages, and counts as handed out when the
        reader is asked for it; until then it is not fetched. All that happens in the thread that
        reads, which is the only one that may use the consumer meanwhile.

        It ends after `timeout` seconds without a record, and when the consumer is closed; with
        `until_end` only when each assigned partition has been read to its end. A record of any
        topic whose columns fit the stream's schema is in it: `_kafka` says of which. One that does
        not fit is raised as `SchemaError` and stays: another reader can begin with it. `on_error`
        is called for what `consume_arrow` would raise and go on after, and the stream goes on;
        without it the stream raises that exception.

        Args:
            columns: as `consume_arrow`'s.
            filter: as `consume_arrow`'s.
            promote: records of a schema that the stream's has grown from fit. Those of a schema
                that has grown beyond it never do: give that one as `schema`.
            key: as `consume_arrow`'s.
            value: as `consume_arrow`'s.
            schema: of the stream, ``_kafka`` included unless `columns` leave it out. By default
                that of the next record, which this call waits for, `timeout` seconds.
            num_records: the most in a batch.
            timeout: in seconds; without, it waits for ever.
            until_end: needs ``enable.partition.eof=true``.
            on_error: called as ``on_error(exception)``.
            on_schema_change: called as ``on_schema_change(exception)`` instead of raising the
                `SchemaError`; the stream ends there.

        Raises:
            KafkaException: ``_TIMED_OUT``, with `until_end` ``_PARTITION_EOF``: there is no record,
                and no `schema`; or as `consume_arrow`. By the batches: as `consume_arrow`, but for
                ends of partitions; ``_TIMED_OUT``, with `until_end`: it waited `timeout` seconds
                for a record, and not every partition is at its end.
            SchemaError: by the batches: a record does not fit the stream's schema, and there is no
                `on_schema_change`, or it is the first one and a `schema` is given. The text says
                where the record is and how the two schemas differ.
            RuntimeError: by the batches, with `until_end`: the consumer was closed before the end.
            ConfigError: as `consume_arrow`; or `until_end` without the setting it needs.
        """
        found = self._arrow_stream(
            columns,
            filter=filter,
            promote=promote,
            key=key,
            value=value,
            schema=schema,
            num_records=num_records,
            timeout=timeout,
            until_end=until_end,
            on_error=on_error,
            on_schema_change=on_schema_change,
        )
        return pa.RecordBatchReader.from_batches(*found)

    def _arrow_stream(
        self,
        columns: Sequence[str] | None = None,
        *,
        schema: pa.Schema | None = None,
        num_records: int = 100_000,
        timeout: float = -1,
        until_end: bool = False,
        on_error: OnError = None,
        on_schema_change: OnSchemaChange = None,
        stops: Stops = never,
        **given: Any,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return what `arrow_reader` reads, which also ends when it `stops`."""
        self._check_unwraps("arrow_reader")
        math.isfinite(timeout)
        self._check_open()
        if until_end and not self._tells_ends:
            raise ConfigError("arrow_reader: until_end needs enable.partition.eof=true")

        def ends(reached: set[Partition]) -> bool:
            if not until_end:
                return self._closed
            self._check_open()
            assigned = set(map(key_of, self._feed.run_alone(self._broker.assignment)))
            return bool(assigned) and assigned <= reached

        if until_end:
            self._feed.forget_ends()
        most = _count(num_records)
        request = self._request(columns, schema=schema, least=1, most=most, single=True, **given)
        found = stream(
            self._tables,
            request,
            timeout=timeout,
            ends=ends,
            until_end=until_end,
            on_error=on_error,
            on_schema_change=on_schema_change,
            stops=stops,
        )
        if found is None:
            reason = f"arrow_reader: no record in {timeout:g} s to take the schema from"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
        return found

    # --- the assignment -------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callable[..., Any] | None = _NOT_GIVEN,
        on_revoke: Callable[..., Any] | None = _NOT_GIVEN,
        on_lost: Callable[..., Any] | None = _NOT_GIVEN,
    ) -> None:
        """Subscribe to topics, or to patterns that begin with ``^``; see confluent-kafka.

        Callbacks are called as ``callback(consumer, partitions)`` inside `poll`, `consume` and
        `close`. With auto-commit, what is stored is committed after `on_revoke`, not in `on_lost`.

        Raises:
            TypeError, KafkaException: as confluent-kafka.
        """
        callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        given: Any = {name: each for name, each in callbacks.items() if each is not _NOT_GIVEN}
        if not self._settings.unwraps:
            super().subscribe(topics, **given)
            return
        for name, each in given.items():
            if not callable(each):
                raise TypeError(f"{name} expects a callable")

        def told(name: str, partitions: list[TopicPartition]) -> None:
            if name == "on_lost" and name not in given:
                name = "on_revoke"
            if name in given:
                given[name](self, to_positions(partitions))

        calls = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._lost}
        guarded = {
            name: self._guarded(partial(call, told), self._feed.interrupted)
            for name, call in calls.items()
        }
        self._feed.run_alone(partial(super().subscribe, topics, **guarded))
        self._subscribed = True
        self._feed.serve_soon()

    def _assigned(self, told: _Told, _: Any, partitions: list[TopicPartition]) -> None:
        self._granted |= set(map(key_of, partitions))
        self._feed.assign(partitions)
        self._answers = False
        granted = [TopicPartition(each.topic, each.partition) for each in partitions]
        try:
            told("on_assign", partitions)
        finally:
            if not (self._answers or self._closing or self._closed):
                self._take_up(granted)

    def _take_up(self, granted: list[TopicPartition]) -> None:
        """Do what confluent-kafka would after the callback, in time to `begin` them."""
        if self._cooperative:
            super().incremental_assign(granted)
        else:
            with suppress(KafkaException):  # as confluent-kafka
                super().assign(granted)
        self._feed.begin(map(key_of, granted))

    def _revoked(self, told: _Told, _: Any, partitions: list[TopicPartition]) -> None:
        keys = list(map(key_of, partitions))
        self._revoking = True
        try:
            self._feed.withhold(keys)
            told("on_revoke", partitions)
        finally:
            self._revoking = False
            self._commit_stored(keys)
            self._give_up(keys)

    def _lost(self, told: _Told, _: Any, partitions: list[TopicPartition]) -> None:
        self._losing = True
        try:
            told("on_lost", partitions)
        finally:
            self._losing = False
            self._give_up(map(key_of, partitions))

    def _give_up(self, keys: Iterable[Partition]) -> None:
        gone = list(keys)
        self._granted -= set(gone)
        self._feed.revoke(gone)

    def unsubscribe(self) -> None:
        """Leave the subscription; the next `poll` gives the partitions back."""
        if not self._settings.unwraps:
            super().unsubscribe()
            return
        self._feed.run_alone(super().unsubscribe)
        self._feed.serve_soon()

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are assigned, with the positions they were assigned with."""
        if not self._settings.unwraps:
            return super().assignment()
        found = self._feed.run_alone(super().assignment)
        for each in found:
            begun = self._feed.begun_at(key_of(each))
            each.offset = position.start(each.offset) if begun is None else begun
        return found

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions and no others, from positions where they have one."""
        if not self._settings.unwraps:
            super().assign(partitions)
            return
        self._feed.run_alone(partial(self._assign, partitions))

    def _assign(self, partitions: list[TopicPartition]) -> None:
        self._answers = True
        if self._closing:  # librdkafka takes no assignment any more, whatever it is
            self._unassign()
            return
        before = list(map(key_of, self._broker.assignment()))
        assign = partial(super().assign, _all_at_broker(partitions))

        def follow() -> None:
            self._feed.revoke(before)
            self._feed.assign(partitions)

        try:
            self._feed.withhold(before)
            self._commit_stored(before, asynchronous=not self._revoking)
            self._do(assign, follow)
        except KafkaException:
            self._feed.revoke(before)  # as librdkafka, which reads nothing any more
            raise
        finally:
            self._feed.release(before)
        self._feed.begin(map(key_of, partitions))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions too, from positions where they have one."""
        if not self._settings.unwraps:
            super().incremental_assign(partitions)
            return
        self._feed.run_alone(partial(self._incremental_assign, partitions))

    def _incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._answers = True
        assign = partial(super().incremental_assign, _all_at_broker(partitions))
        self._do(assign, partial(self._feed.assign, partitions))
        self._feed.begin(map(key_of, partitions))

    def unassign(self) -> None:
        """Read nothing; see confluent-kafka."""
        if not self._settings.unwraps:
            super().unassign()
            return
        self._feed.run_alone(self._unassign)

    def _unassign(self) -> None:
        self._answers = True
        before = list(map(key_of, self._broker.assignment()))
        # While it closes the callback's end gives them back.
        unassign = _nothing if self._closing else super().unassign
        try:
            self._feed.withhold(before)
            self._commit_stored(before, asynchronous=not self._revoking)
            self._do(unassign, partial(self._feed.revoke, before))
        finally:
            self._feed.release(before)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no more; see confluent-kafka."""
        if not self._settings.unwraps:
            super().incremental_unassign(partitions)
            return
        self._feed.run_alone(partial(self._incremental_unassign, partitions))

    def _incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._answers = True
        before = {key_of(each) for each in self._broker.assignment()}
        if self._revoking:  # the group goes on once they are given back
            self._commit_stored(before)

        def follow() -> None:
            gone = [key for key in map(key_of, partitions) if key in before]
            self._feed.withhold(gone)
            self._commit_stored(gone, asynchronous=True)
            self._feed.revoke(gone)

        unassign = partial(super().incremental_unassign, partitions)
        self._do(_nothing if self._closing else unassign, follow)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Hand out nothing of these partitions, not even what is held, until `resume`."""
        if not self._settings.unwraps:
            super().pause(partitions)
            return
        pause = partial(super().pause, partitions)
        self._move(pause, lambda: self._feed.pause(map(key_of, partitions)))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Hand these partitions out again, from where they were paused."""
        if not self._settings.unwraps:
            super().resume(partitions)
            return
        resume = partial(super().resume, partitions)
        self._move(resume, lambda: self._feed.resume(map(key_of, partitions)))

    def _move(self, at_broker: Callable[[], object], follow: Callable[[], None]) -> None:
        """Have librdkafka do something and the feed what follows: both, or none.

        A signal's handler may raise in between.
        """
        self._feed.run_alone(partial(self._do, at_broker, follow))

    def _do(self, at_broker: Callable[[], object], follow: Callable[[], None]) -> None:
        try:
            at_broker()
            follow()
        except (KafkaException, TypeError, ValueError, RuntimeError):  # librdkafka has refused it
            raise
        except BaseException:
            follow()
            raise

    def seek(self, partition: TopicPartition) -> None:
        """Go on with the record at a position, or the first one after it."""
        if not self._settings.unwraps:
            super().seek(partition)
            return
        seek = partial(super().seek, _at_broker(partition))
        self._move(seek, partial(self._feed.seek, partition))

    # --- positions ------------------------------------------------------------------------------

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the position after the last record handed out of each partition.

        As in confluent-kafka, the end of a transaction and aborted records are passed with a `poll`
        that returns nothing, so that the high watermark is reached behind them too.
        """
        if not self._settings.unwraps:
            return super().position(partitions)
        return self._feed.run_alone(partial(self._position, super().position, partitions))

    def _position(
        self,
        ask: Callable[[list[TopicPartition]], list[TopicPartition]],
        partitions: list[TopicPartition],
    ) -> list[TopicPartition]:
        found = ask(partitions)
        with self._lock:
            self._feed.catch_up(map(key_of, found))
            delivered = self._feed.ledger.delivered
            for each in found:
                each.offset = delivered.get(key_of(each), -1001)
        return found

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the committed position of each partition; see confluent-kafka."""
        if not self._settings.unwraps:
            return super().committed(partitions, timeout)
        return to_positions(self._feed.run_alone(partial(super().committed, partitions, timeout)))

    def commit(  # type: ignore[override]
        self,
        message: Any = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
        **legacy: Any,
    ) -> list[TopicPartition] | None:
        """Commit after `message`, or positions, or what is stored.

        At the broker the Kafka offset is committed, and the row inside its segment as metadata.
        Returns what was committed when synchronous; else `on_commit` is told.

        Raises:
            KafkaException: when synchronous, nothing is stored, or as confluent-kafka.
            ValueError: both `message` and `offsets`.
            TypeError: `message` is no message of this package.
        """
        given = {"message": message, "offsets": offsets}
        chosen = {name: each for name, each in given.items() if each is not None}
        waits = not legacy.pop("async", asynchronous)  # the name that was a keyword
        if not self._settings.unwraps or legacy:
            return super().commit(asynchronous=not waits, **chosen, **legacy)  # type: ignore[call-overload, no-any-return]
        self._check_open()
        commit = partial(self._commit_places, _places(chosen, "commit"), asynchronous=not waits)
        done = self._feed.run_alone(commit)
        if not waits:
            return None
        with self._lock:
            self._feed.ledger.mark_committed(done or ())
        return to_positions(done)

    def _commit_places(
        self, places: list[TopicPartition] | None, *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        with self._lock:
            wanted = self._stored() if places is None else self._feed.ledger.committables(places)
        return self._broker.commit(wanted, asynchronous=asynchronous)

    def store_offsets(
        self, message: Any = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Store positions for the next commit that names none; see confluent-kafka.

        Raises:
            KafkaException: they are stored automatically (``enable.auto.offset.store=true``), or
                no partition of them is assigned.
            ValueError: neither or both `message` and `offsets`.
            TypeError: `message` is no message of this package.
        """
        given = {"message": message, "offsets": offsets}
        chosen = {name: each for name, each in given.items() if each is not None}
        if not self._settings.unwraps:
            super().store_offsets(**chosen)
            return
        self._check_open()
        places = _places(chosen, "store")
        if places is None:
            raise ValueError("expected either message or offsets")
        # librdkafka knows what may be stored; what it stores it never commits.
        self._feed.run_alone(partial(super().store_offsets, offsets=_all_at_broker(places)))
        if self._settings.auto_store:
            error = KafkaError(KafkaError._INVALID_ARG)
            raise KafkaException(KafkaError(error.code(), f"StoreOffsets failed: {error.str()}"))
        with self._lock:
            for each in places:
                self._feed.ledger.store(each)

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float = -1,
        cached: bool = False,
    ) -> tuple[int, int]:
        """Return the positions of the partition's first record and after its last."""
        ask = partial(super().get_watermark_offsets, partition, timeout, cached)
        if not self._settings.unwraps:
            return ask()
        found: Any = self._feed.run_alone(ask)
        return found and (position.start(found[0]), position.start(found[1]))  # or None

    def lag(self, partitions: list[TopicPartition] | None = None, timeout: float = -1) -> list[Lag]:
        """Return how much is still to be read of these partitions, or of all that are assigned.

        Kafka is asked for each one's high watermark. A partition of which nothing was handed out is
        counted from where it was assigned or sought, else from what the group has committed, else
        from its beginning. Serves no callbacks.

        Raises:
            KafkaException: as confluent-kafka; ``_TIMED_OUT`` when `timeout` seconds, for all of
                them together, are not enough.
            ConfigError: ``columnar.encoding`` is ``none``, or ``fetch.raw.bytes`` is set.
            RuntimeError: the consumer is closed.
        """
        self._check_unwraps("lag")
        math.isfinite(timeout)
        self._check_open()
        deadline = deadline_after(timeout)
        return self._feed.run_alone(partial(self._lags, partitions, deadline))

    def _lags(self, partitions: list[TopicPartition] | None, deadline: float) -> list[Lag]:
        keys = list(map(key_of, self._broker.assignment() if partitions is None else partitions))
        with self._lock:
            self._feed.catch_up(keys)
            starts = {key: at for key in keys if (at := self._feed.next_at(key)) is not None}
        if unknown := [TopicPartition(*key) for key in keys if key not in starts]:
            found = to_positions(self._broker.committed(unknown, seconds_left(deadline)))
            starts |= {key_of(each): each.offset for each in found if each.offset >= 0}
        return [self._lag(key, starts.get(key, 0), seconds_left(deadline)) for key in keys]

    def _lag(self, key: Partition, at: int, timeout: float) -> Lag:
        found = super().get_watermark_offsets(TopicPartition(*key), timeout)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        low, high = found
        with self._lock:
            fetched, fetched_to = self._feed.fetched(key)
            ledger = self._feed.ledger
            return lag_of(
                key,
                max(at, position.start(low)),
                high,
                is_known=at == ledger.delivered.get(key),
                fetched=fetched,
                fetched_to=fetched_to,
                ratio=ledger.rows_per_offset(*key),
            )

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the position of each partition's first record of a time or later; -1 for none.

        The times, in ms, are given as offsets. The messages that hold the records are fetched
        aside, by a consumer of its own, which is closed again; the place of this one stays. Of a
        topic that takes the broker's time it is the first record of a segment.

        Raises:
            KafkaException: as confluent-kafka; ``_TIMED_OUT`` when `timeout` seconds are not enough
                to fetch them.
        """
        if not self._settings.unwraps:
            return super().offsets_for_times(partitions, timeout)
        deadline = deadline_after(timeout)
        found = self._feed.run_alone(partial(super().offsets_for_times, partitions, timeout))
        times = {key_of(each): each.offset for each in partitions}
        first_records(self._broker, found, times, self._feed.read, deadline)
        return found

    def consumer_group_metadata(self) -> Any:
        """Return what `send_offsets_to_transaction` of this package's producer takes."""
        if not self._settings.unwraps:
            return super().consumer_group_metadata()
        inner = self._feed.run_alone(super().consumer_group_metadata)
        with self._lock:
            return GroupMetadata(inner, self._feed.ledger.committables)

    def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        """Return what is known of the cluster; see confluent-kafka."""
        return self._ask(partial(super().list_topics, *args, **kwargs))

    def cluster_id(self, *args: Any, **kwargs: Any) -> Any:
        """Return the cluster's id; see confluent-kafka."""
        return self._ask(partial(super().cluster_id, *args, **kwargs))

    def memberid(self) -> Any:
        """Return what the group calls this consumer; see confluent-kafka."""
        return self._ask(super().memberid)

    def set_sasl_credentials(self, *args: Any, **kwargs: Any) -> Any:
        """Set new credentials; see confluent-kafka."""
        return self._ask(partial(super().set_sasl_credentials, *args, **kwargs))

    def _ask(self, function: Callable[[], Any]) -> Any:
        return self._feed.run_alone(function) if self._settings.unwraps else function()

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is stored (with auto-commit), leave the group, and close.

        Callbacks are served, `on_revoke` among them; what one of them raised is raised at the end.
        Called by one of them it does nothing. A commit, as confluent-kafka's, waits for a broker
        that is gone, and for members that keep a rebalance waiting: up to
        ``max.poll.interval.ms``. Interrupted (Ctrl-C) it closes without the commits that are left.
        """
        if not self._settings.unwraps or self._closed:
            super().close()
            return
        self._feed.run_alone(self._close)

    def _close(self) -> None:
        if self._closing or self._closed:
            return
        self._closing = True
        try:
            assigned_by_hand = {*map(key_of, self._broker.assignment())} - self._granted
            self._feed.withhold(assigned_by_hand)
            self._commit_stored(assigned_by_hand)
            if self._subscribed:
                self._leave()
        except BaseException:  # of a signal handler: who interrupts does not wait for a commit
            self._losing = True
            raise
        finally:
            super().close()
            self._closing = False
            self._closed = True
            self._feed.clear()
            self._decoder.close()
        self._raise_pending()

    def _leave(self) -> None:
        """Give partitions back while this is a member of its group, and then leave that.

        With a rebalance under way librdkafka's own close leaves the group before on_revoke is
        called: too late for any commit. And it may never return, nor let go of the GIL, when it
        answers a rebalance that began before it (librdkafka #4041, #4884).
        """
        if self._static:  # stays a member: only what waits already is answered
            self._broker.poll(0)
            return
        was_granted, member = bool(self._granted), super().consumer_group_metadata()
        try:
            super().unsubscribe()
        except KafkaException:  # a fatal error: librdkafka closes without
            return
        self._broker.pause(self._broker.assignment())
        # Members that keep a rebalance waiting are worth waiting for where there is a commit.
        commits = self._settings.auto_commit and self._uncommitted(self._granted)
        for _ in range(round((self._poll_interval if commits else _LEAVE) / _LEAVE_POLL)):
            if self._broker.poll(_LEAVE_POLL) is None and not self._granted:
                break
        # Closed while partitions given back still stop, librdkafka would not leave: the others
        # would wait for ``session.timeout.ms``.
        for _ in range(round(_LEAVE / _LEAVE_POLL)):
            if not was_granted or super().consumer_group_metadata() != member:
                break
            self._broker.poll(_LEAVE_POLL)

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        if self._settings.unwraps:
            self.close()
        else:
            super().__exit__(*exc)

    def __del__(
        self,
        # Bound here: at the end of the interpreter a module's names may be None.
        _is_finalizing: Callable[[], bool] = sys.is_finalizing,
        _keep_for_ever: Callable[[object], None] = lifecycle.keep_for_ever,
    ) -> None:
        """Keep librdkafka from waiting for ever when nobody has closed this consumer.

        Without a close, librdkafka 2.16 is not destroyed while an assignment of a cooperative group
        is unanswered, and no callback runs any more that would answer it. So this ends the
        subscription and answers. A rebalance that is under way may assign partitions once more
        before the destruction begins. Here it begins at once; at the end of the interpreter it
        would not, so the consumer is never destroyed then: it ends with the process.
        """
        if not self._cooperative:
            return
        if _is_finalizing():
            _keep_for_ever(self)
            return
        for answer in (super().unsubscribe, partial(super().incremental_assign, [])):
            with suppress(KafkaException, RuntimeError):  # a fatal error; it is closed
                answer()

    def _check_unwraps(self, method: str) -> None:
        if not self._settings.unwraps:
            raise ConfigError(f"{method} needs columnar.encoding=parquet, without raw bytes")

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")

    def _abandon(self) -> None:
        """Refuse everything: this is a forked child's copy. Without unwrapping it is stock's."""
        if not self._settings.unwraps:
            return
        error = ForkError("this consumer was made before os.fork(); make one in the child process")

        def refuse(*_: Any, **__: Any) -> None:
            raise error

        vars(self).update({name: refuse for name in dir(self) if not name.startswith("_")})

    # --- commits and callbacks ------------------------------------------------------------------

    def _uncommitted(self, keys: Iterable[Partition] | None = None) -> list[TopicPartition]:
        with self._lock:
            self._feed.catch_up()
            return self._feed.ledger.uncommitted(keys)

    def _stored(self) -> list[TopicPartition]:
        """Return all partitions, those without anything to commit as librdkafka has them."""
        wanted = {key_of(each): each for each in self._uncommitted()}
        assigned = self._broker.assignment()
        return [
            wanted.get(key_of(each), TopicPartition(each.topic, each.partition))
            for each in assigned
        ]

    def _commit_if_due(self) -> None:
        now = time.monotonic()
        if not self._settings.auto_commit or now < self._next_commit:
            return
        self._last_commit, self._next_commit = now, now + self._commits_every
        if self._uncommitted():
            self._broker.commit(self._stored(), asynchronous=True)
            # Or they would pile up, and one that is sent again would come after later ones.
            self._next_commit = now + max(self._commits_every, _UNANSWERED)

    def _answered(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Note the result of an asynchronous commit."""
        self._next_commit = min(self._next_commit, self._last_commit + self._commits_every)
        self._committed(error, offsets)

    def _commit_stored(self, keys: Iterable[Partition], *, asynchronous: bool = False) -> None:
        """Commit before partitions go. What cannot be committed will be read again."""
        commits = self._settings.auto_commit and not self._losing
        wanted = self._uncommitted(keys) if commits else []
        if not wanted:
            return
        try:
            done = self._commit(wanted, asynchronous=asynchronous)
        except KafkaException as error:
            _log.warning("the last records' positions could not be committed: %s", error)
            self._guarded(self._committed)(error.args[0], wanted)
        else:
            if done is not None:
                self._guarded(self._committed)(None, done)

    def _commit(
        self, wanted: list[TopicPartition], *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        """Commit, again for a while if the group has gone on: librdkafka learns of it meanwhile."""
        deadline = None
        while True:
            try:
                return self._broker.commit(wanted, asynchronous=asynchronous)
            except KafkaException as error:
                # The first answer may take as long as the group takes to go on.
                deadline = deadline or time.monotonic() + _COMMIT_AGAIN
                if error.args[0].code() not in _GROUP_WENT_ON or time.monotonic() > deadline:
                    raise
            time.sleep(_COMMIT_PAUSE)

    def _committed(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Note the result of a commit, and tell the user's `on_commit`."""
        if error is None:
            with self._lock:
                self._feed.ledger.mark_committed(offsets)
        if self._settings.on_commit is not None:
            self._settings.on_commit(error, to_positions(offsets))

    def _guarded(
        self, callback: Callable[..., Any], cut_short: Callable[[], None] = _nothing
    ) -> Callable[..., Any]:
        """Keep a callback's exception until it is safe to raise, and say that it was `cut_short`.

        Raised inside librdkafka's poll it would destroy the message that poll has fetched.
        """

        def run(*args: Any) -> Any:
            try:
                return callback(*args)
            except BaseException as error:  # noqa: BLE001 - raised again by _raise_pending
                cut_short()
                with self._lock:
                    self._raised.append(error)
                return None

        return run

    def _raise_pending(self) -> None:
        if not self._raised:
            return
        none: deque[BaseException] = deque(maxlen=_MAX_RAISED)
        with self._lock:
            raised, self._raised = self._raised, none
        if raised:  # no other thread was faster
            raise _last_of(raised)


def _last_of(raised: Iterable[BaseException]) -> BaseException:
    """Return the last exception, as confluent-kafka raises it, those before it as its context.

    One that is to end the program comes last: whoever handles errors must not handle it.
    """
    found, *others = sorted(raised, key=lambda each: isinstance(each, Exception), reverse=True)
    for each in others:
        chain = _chain(each)
        if not any(known is link for known in _chain(found) for link in chain):
            chain[-1].__context__ = found
        found = each
    return found


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception and what was being handled when it was raised, and so on."""
    found = [error]
    while (before := found[-1].__context__) is not None:
        found.append(before)
    return found


def _is_cooperative(inner: Mapping[str, Any]) -> bool:
    """Say whether the group gives and takes partitions bit by bit."""
    strategy = str(inner.get("partition.assignment.strategy"))
    return "cooperative" in strategy or str(inner.get("group.protocol")).lower() == "consumer"


def _decoder(settings: ConsumerConfig) -> Decoder:
    return (IsolatedDecoder if settings.isolated else InlineDecoder)(settings.limits)


def _count(num_records: int) -> int:
    count = index(num_records)
    if not 0 < count <= _MAX_CONSUME:
        raise ValueError("num_records must be between 1 and 1000000 (1M)")
    return count


def _at_broker(partition: TopicPartition) -> TopicPartition:
    """Return where librdkafka has to go for a position; what is none it will refuse itself."""
    if not isinstance(partition, TopicPartition) or partition.offset < 0:
        return partition
    offset = position.unpack(partition.offset).offset
    epoch = -1 if partition.leader_epoch is None else partition.leader_epoch
    return TopicPartition(partition.topic, partition.partition, offset, leader_epoch=epoch)


def _all_at_broker(partitions: list[TopicPartition]) -> list[TopicPartition]:
    return list(map(_at_broker, partitions)) if isinstance(partitions, list) else partitions


def _places(chosen: dict[str, Any], what: str) -> list[TopicPartition] | None:
    """Return the positions that a commit or store names; None for none.

    Raises:
        ValueError: both a message and offsets.
        TypeError: not a message of this package, or not a list of TopicPartition.
        KafkaException: the message is an error event.
    """
    if len(chosen) > 1:
        raise ValueError("message and offsets are mutually exclusive")
    if "message" in chosen:
        return [_after(chosen["message"], what)]
    offsets: list[TopicPartition] | None = chosen.get("offsets")
    if offsets is not None and not isinstance(offsets, list):
        raise TypeError("requires list of TopicPartition")
    if not all(isinstance(each, TopicPartition) for each in offsets or ()):
        raise TypeError("expected cimpl.TopicPartition")
    return offsets


def _after(message: Any, what: str) -> TopicPartition:
    """Return the position after a record, or after a segment that could not be read."""
    if not isinstance(message, Message):
        raise TypeError(
            f"expected a message of this consumer, not {type(message).__module__}."
            f"{type(message).__name__}: its offset would not be a position"
        )
    error = message.error()
    if error is not None and error.code() != SegmentError.code:
        raise KafkaException(
            KafkaError(
                KafkaError._INVALID_ARG,
                f"Cannot {what} offsets for message with error: '{error.str()}'",
            )
        )
    topic, partition = message.topic(), message.partition()
    if topic is None or partition is None:
        raise ValueError("the message has no partition, and so no position")
    offset = OFFSET_INVALID if (at := message.offset()) is None else at
    epoch = -1 if (of := message.leader_epoch()) is None else of
    return TopicPartition(topic, partition, offset + 1, leader_epoch=epoch)
