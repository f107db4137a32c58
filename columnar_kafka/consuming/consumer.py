"""A drop-in `confluent_kafka.Consumer` that unwraps segments into records, in positions."""

from __future__ import annotations

import math
import time
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pyarrow as pa

from columnar_kafka.broker.confluent import ConfluentConsumer
from columnar_kafka.broker.traced_classes import StockConsumer, traced
from columnar_kafka.config import Arguments
from columnar_kafka.consuming import lazy_assembly as lazy
from columnar_kafka.consuming.group.callback_errors import CallbackErrors
from columnar_kafka.consuming.group.membership import end_unclosed
from columnar_kafka.consuming.settings import ClientSettings, ConsumerConfig
from columnar_kafka.errors import ConfigError, ForkError
from columnar_kafka.runtime import lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow.compute as pc
    from confluent_kafka import KafkaException, TopicPartition
    from typing_extensions import Self

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.consuming.arrow_output import ArrowOutput
    from columnar_kafka.consuming.feed.feed import Feed
    from columnar_kafka.consuming.group.commits import Commits
    from columnar_kafka.consuming.group.membership import GroupMembership
    from columnar_kafka.consuming.lag import Lag
    from columnar_kafka.consuming.positions import Positions
    from columnar_kafka.errors import SchemaError
    from columnar_kafka.plain import Format, TableFormat
    from columnar_kafka.segment.segment import Segment

__all__ = ["Consumer"]

_MAX_CONSUME: Final = 1_000_000
_NOT_GIVEN: Final[Any] = object()  # confluent-kafka refuses None where a callback is expected

T = TypeVar("T")


class Consumer(StockConsumer):
    """`confluent_kafka.Consumer`, whose messages are records when ``columnar.encoding=parquet``.

    Every offset that goes in or comes out is a position then: a record's place, where the consumer
    can seek, commit and resume. With ``columnar.encoding=none`` (the default), or
    ``fetch.raw.bytes=true``, every call is confluent-kafka's own, and a segment is a message whose
    value is a Parquet file.

    Thread-safe. A thread that waits for records lets other threads' calls go first, within 0.2 s,
    or about 10 ms where that happens often. Each record is handed out once, to one thread. Source:
    KIP-1008, and confluent-kafka 2.16.
    """

    _stock: ClassVar[type] = StockConsumer
    _above_tracer: ClassVar[tuple[type, ...]] = ()
    # What a subclass that does not call __init__ has: confluent-kafka's own errors.
    _settings = ConsumerConfig.parse({})[0]
    _cooperative = False
    # None where segments are not unwrapped.
    _feed: Feed | None = None
    _group: GroupMembership | None = None
    _commits: Commits | None = None
    _positions: Positions | None = None
    _arrow: ArrowOutput | None = None

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make a client that is traced if confluent-kafka's would be."""
        return super().__new__(traced(cls))  # type: ignore[no-any-return]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take confluent-kafka's configuration, ``fetch.raw.bytes`` and the ``columnar.`` keys.

        Raises:
            ConfigError: an unknown ``columnar.`` key or a value that is not allowed.
            KafkaException, TypeError, ValueError: as confluent-kafka.
        """
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show passwords
        settings, inner = ConsumerConfig.parse(arguments.merged())
        self._settings, self._errors = settings, CallbackErrors()
        if settings.unwraps:
            inner |= lazy.guarded_callbacks(self._errors, inner, settings, self._commit_answered)
        super().__init__(inner)
        client = ClientSettings.parse(inner)
        self._cooperative = client.is_cooperative
        lifecycle.abandon_in_children(self, Consumer._abandon)
        if settings.unwraps:
            self._broker = self._connect(inner)
            parts = lazy.assemble(self._base, self._broker, settings, client, self._errors)
            self._decoder, self._feed, self._commits = parts.decoder, parts.feed, parts.commits
            self._group, self._positions, self._arrow = parts.group, parts.positions, parts.arrow
        elif type(self).poll is Consumer.poll:
            # Off means off: the base method bound here costs what stock's does.
            self.poll = super().poll  # type: ignore[method-assign]

    def _commit_answered(self, *result: Any) -> None:
        self._needed(self._commits, "on_commit").answered(*result)

    def _connect(self, inner: dict[str, Any]) -> ConsumerBroker:
        """Return the Kafka that messages come from."""
        return ConfluentConsumer(super(), inner)

    @property
    def _base(self) -> StockConsumer:
        """This consumer with the methods of the next class: confluent-kafka's."""
        return super()  # type: ignore[return-value]

    # --- taking records -------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Any:
        """Return the next record, plain message or error event, or None after `timeout` seconds.

        Without a timeout it waits for ever. Serves callbacks, and raises what one of them raised. A
        segment that cannot be read is one message whose `error()` is set; the next call continues
        after it.

        Raises:
            RuntimeError: the consumer is closed.
            TypeError: `timeout` is not a number.
            ColumnarError: no process could be started to decode in; the record stays.
        """
        feed = self._feed
        if feed is None:
            return super().poll(timeout)
        math.isfinite(timeout)  # or a TypeError, in confluent-kafka's words
        if not self._errors and time.monotonic() < feed.poller.due:
            for message in feed.buffer.ready.left:  # in one step: see `handout`
                return message
        self._check_open()
        return feed.next(timeout, self._returns_early)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Return up to `num_messages` records, plain messages and error events.

        Returns fewer only after `timeout` seconds, or when the next call has something to raise.

        Raises:
            ValueError: `num_messages` is not from 0 to 1,000,000.
            RuntimeError, TypeError, ColumnarError: as `poll`.
        """
        if self._feed is None:
            return super().consume(num_messages, timeout)
        count = index(num_messages)
        math.isfinite(timeout)
        self._check_open()
        if not 0 <= count <= _MAX_CONSUME:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        return self._feed.take(count, timeout, self._returns_early)

    def _returns_early(self) -> bool:
        return bool(self._errors)

    def poll_segment(self, timeout: float = -1) -> Segment | None:
        """Return the next segment, verified and not decoded, or None after `timeout` seconds.

        It is whole, even if some of its records were handed out before. To continue inside it
        `seek` to ``segment.offset + row``.

        Raises:
            SegmentError: the next message claims to be a segment and cannot be trusted; the next
                call continues after it.
            KafkaException: the next message is a plain one (`poll` takes it), or an error event.
            ConfigError: ``columnar.encoding`` is ``none``, or ``fetch.raw.bytes`` is set.
            RuntimeError: the consumer is closed.
        """
        feed = self._needed(self._feed, "poll_segment")
        math.isfinite(timeout)
        self._check_open()
        return feed.segment(timeout, self._returns_early)

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
        """Return the next records, as `consume` would, as one table; None after `timeout` seconds.

        There are fewer than `num_records` when the next one has another topic or schema, or raises;
        after `timeout` seconds; or when they take ``columnar.max.decoded.bytes`` or 32 MiB of
        messages. With a filter, the first rows that match are returned at once. A message that is
        itself a table (`plain.Ipc`) stays whole, so there may be more. `position` and `commit`
        continue after the last record examined. Serves callbacks; returns when all is decoded.

        The column ``_kafka`` has a segment's own members (for plain messages key, timestamp,
        headers), and `topic`, `partition` and `offset`, the position. The table's metadata has
        ``columnar.topic`` and ``columnar.schema``.

        Args:
            num_records: from 1 to 1,000,000.
            timeout: in seconds; without one it waits for ever.
            columns: the only columns to decode, in this order; members as ``_kafka.offset``.
            filter: only rows for which it is true. It may use columns that are not in `columns`; in
                segments without such rows, only these are decoded.
            promote: continue when the schema grows (`Producer.set_schema`), with null for missing
                data.
            key: the format of plain messages' keys, or one by topic; by default they are bytes.
            value: the format of their values; values that are no records are the column ``value``.

        Raises:
            SegmentError: the next segment cannot be trusted; the next call continues after it.
            RowError: the next plain message cannot be decoded; the next call continues after it.
            KafkaException: an error event, or the end of a partition, is next.
            SchemaError: the next record lacks a column, or does not fit the filter; it stays.
            ConfigError, RuntimeError, TypeError, ValueError: as `consume` and `poll_segment`.
        """
        return self._needed(self._arrow, "consume_arrow").take(
            num_records, timeout, columns, filter=filter, promote=promote, key=key, value=value
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
        """Return a stream of record batches, fetched as it is read: for duckdb, polars, ….

        A batch comes from one segment, or from plain messages; it counts as handed out when the
        reader asks for it. Only the thread that reads may use the consumer.

        Records of every topic that fit the stream's schema are in it. One that does not is raised
        as `SchemaError` and stays: another reader can begin with it. The stream ends after
        `timeout` seconds without a record, and when the consumer is closed; with `until_end`, when
        every assigned partition has been read to its end.

        Args:
            columns: as in `consume_arrow`.
            filter: as in `consume_arrow`.
            promote: records of older schemas fit, if the stream's has grown from them.
            key: as in `consume_arrow`.
            value: as in `consume_arrow`.
            schema: the stream's, with ``_kafka`` unless `columns` omit it. By default it is the
                next record's, for which this call waits `timeout` seconds.
            num_records: the largest size of a batch.
            timeout: in seconds; without one it waits for ever.
            until_end: needs ``enable.partition.eof=true``.
            on_error: called with what `consume_arrow` raises and continues after; so does the
                stream.
            on_schema_change: called with the `SchemaError`, in place of raising it, at the end.

        Raises:
            KafkaException: as `consume_arrow`; ``_TIMED_OUT``, with `until_end` ``_PARTITION_EOF``:
                no record to take the schema from. The batches raise it as `consume_arrow`, but for
                ends of partitions; with `until_end` ``_TIMED_OUT`` too, before all ends are
                reached.
            SchemaError: by the batches: a record does not fit, and there is no `on_schema_change`,
                or it is the first and a `schema` is given. It says where the record is and what
                differs.
            RuntimeError: by the batches, with `until_end`: the consumer was closed before the end.
            ConfigError: as `consume_arrow`; or `until_end` without the setting it needs.
        """
        options: dict[str, Any] = {"filter": filter, "promote": promote, "key": key, "value": value}
        options |= {"schema": schema, "num_records": num_records, "timeout": timeout}
        options |= {"on_error": on_error, "on_schema_change": on_schema_change}
        stream = self._needed(self._arrow, "arrow_reader").stream
        schema_and_batches = stream(columns, until_end=until_end, **options)
        return pa.RecordBatchReader.from_batches(*schema_and_batches)

    # --- the assignment -------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callable[..., Any] | None = _NOT_GIVEN,
        on_revoke: Callable[..., Any] | None = _NOT_GIVEN,
        on_lost: Callable[..., Any] | None = _NOT_GIVEN,
    ) -> None:
        """Subscribe to topics, or to patterns that begin with ``^``; see confluent-kafka.

        `poll`, `consume` and `close` call callbacks as ``callback(consumer, partitions)``. With
        auto-commit, what is stored is committed after `on_revoke`, not in `on_lost`.

        Raises:
            TypeError, KafkaException: as confluent-kafka.
        """
        callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        given: Any = {name: value for name, value in callbacks.items() if value is not _NOT_GIVEN}
        if self._group is None:
            super().subscribe(topics, **given)
        else:
            self._group.subscribe(self, topics, given)

    def unsubscribe(self) -> None:
        """End the subscription; the next `poll` gives the partitions back."""
        (self._group or self._base).unsubscribe()

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are assigned, with the positions they were assigned with."""
        return (self._group or self._base).assignment()

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions and no others, from positions where they have one."""
        (self._group or self._base).assign(partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions too, from positions where they have one."""
        (self._group or self._base).incremental_assign(partitions)

    def unassign(self) -> None:
        """Read nothing; see confluent-kafka."""
        (self._group or self._base).unassign()

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no more; see confluent-kafka."""
        (self._group or self._base).incremental_unassign(partitions)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Hand out nothing from these partitions, nor what is fetched already, until `resume`."""
        (self._group or self._base).pause(partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Hand these partitions out again, from where they were paused."""
        (self._group or self._base).resume(partitions)

    def seek(self, partition: TopicPartition) -> None:
        """Continue with the record at a position, or the first one after it."""
        (self._group or self._base).seek(partition)

    # --- positions ------------------------------------------------------------------------------

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the position after the last record handed out, for each partition.

        A `poll` that returns nothing passes the ends of transactions and aborted records, as in
        confluent-kafka, so a consumer reaches the high watermark behind them.
        """
        return (self._positions or self._base).position(partitions)

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the committed position of each partition; see confluent-kafka."""
        return (self._positions or self._base).committed(partitions, timeout)

    def commit(  # type: ignore[override]
        self,
        message: Any = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
        **legacy: Any,
    ) -> list[TopicPartition] | None:
        """Commit after `message`, or these positions, or those that are stored.

        The broker gets the Kafka offset, with the row inside its segment as metadata. A synchronous
        commit returns what was committed; an asynchronous one calls `on_commit`.

        Raises:
            KafkaException: when synchronous, nothing is stored, or as confluent-kafka.
            ValueError, TypeError: both `message` and `offsets`; `message` is none of this
                package's.
        """
        chosen = _chosen(message, offsets)
        chosen["asynchronous"] = bool(legacy.pop("async", asynchronous))  # it was a keyword once
        if self._commits is None or legacy:
            return self._base.commit(**chosen, **legacy)  # type: ignore[no-any-return]
        self._check_open()
        return self._commits.commit(**chosen)

    def store_offsets(
        self, message: Any = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Store positions for the next commit that names none; see confluent-kafka.

        Raises:
            KafkaException: they are stored automatically (``enable.auto.offset.store=true``), or
                none of these partitions is assigned.
            ValueError, TypeError: as `commit`; or neither `message` nor `offsets`.
        """
        self._check_open()
        (self._commits or self._base).store_offsets(**_chosen(message, offsets))

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """Return the positions of a partition's first record and after its last."""
        return (self._positions or self._base).get_watermark_offsets(partition, timeout, cached)

    def lag(self, partitions: list[TopicPartition] | None = None, timeout: float = -1) -> list[Lag]:
        """Return how much is still to be read of these partitions, by default of all assigned.

        A second consumer asks Kafka (an ``oauth_cb`` may take 10 s more): other threads may poll
        meanwhile. Before a partition's first record it is from the assignment, the commit, or 0.

        Raises:
            KafkaException: as confluent-kafka; ``_TIMED_OUT`` after `timeout` seconds in all.
            ConfigError, RuntimeError: as `poll_segment`.
        """
        return self._needed(self._positions, "lag").lag(partitions, timeout)

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the position of each partition's first record at or after a time; -1 for none.

        The times, in ms, are passed as offsets. A second consumer, closed at the end, fetches the
        messages with these records: segments' first ones if the topic has the broker's time.

        Raises:
            KafkaException: as confluent-kafka; ``_TIMED_OUT`` after `timeout` seconds.
        """
        return (self._positions or self._base).offsets_for_times(partitions, timeout)

    def consumer_group_metadata(self) -> Any:
        """Return what `send_offsets_to_transaction` of this package's producer takes."""
        return (self._positions or self._base).consumer_group_metadata()

    def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        """Return the metadata of the cluster; see confluent-kafka."""
        return self._ask(partial(super().list_topics, *args, **kwargs))

    def cluster_id(self, *args: Any, **kwargs: Any) -> Any:
        """Return the cluster's id; see confluent-kafka."""
        return self._ask(partial(super().cluster_id, *args, **kwargs))

    def memberid(self) -> Any:
        """Return this consumer's id in its group; see confluent-kafka."""
        return self._ask(super().memberid)

    def set_sasl_credentials(self, *args: Any, **kwargs: Any) -> Any:
        """Set new credentials; see confluent-kafka."""
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show a password
        return self._ask(partial(arguments.passed_to, super().set_sasl_credentials))

    def _ask(self, function: Callable[[], Any]) -> Any:
        return function() if self._feed is None else self._feed.run_alone(function)

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is stored (with auto-commit), leave the group, and close.

        Serves callbacks, `on_revoke` among them, and raises at the end what they raised; called by
        one of them it does nothing. As in confluent-kafka, a commit waits for a broker that is
        gone, and for members that delay a rebalance: up to ``max.poll.interval.ms``. Interrupted
        (Ctrl-C), it closes without the commits that are left.
        """
        if self._group is None:
            super().close()
        else:
            self._group.close(close_decoder=self._decoder.close)

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        super().__exit__(*exc) if self._group is None else self.close()

    def __del__(self, _end: Callable[..., None] = end_unclosed) -> None:
        """Keep librdkafka from waiting for ever when nobody has closed this consumer."""
        if self._cooperative:
            # Bound, and asked later: at the interpreter's end modules' names and builtins are None.
            _end(self, lambda: self._base)

    @staticmethod
    def _needed(part: T | None, method: str) -> T:
        if part is None:
            raise ConfigError(f"{method} needs columnar.encoding=parquet, without raw bytes")
        return part

    def _check_open(self) -> None:
        if self._group is not None:
            self._group.check_open()

    def _abandon(self) -> None:
        """Refuse everything: this is a forked child's copy. Without unwrapping it is stock's."""
        if not self._settings.unwraps:
            return
        error = ForkError.of("consumer")

        def refuse(*_: Any, **__: Any) -> None:
            raise error

        vars(self).update({name: refuse for name in dir(self) if not name.startswith("_")})


def _chosen(message: Any, offsets: Any) -> dict[str, Any]:
    given = {"message": message, "offsets": offsets}
    return {name: value for name, value in given.items() if value is not None}
