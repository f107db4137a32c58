"""A drop-in `confluent_kafka.Producer` that sends batches of records as Parquet segments."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from columnar_kafka import native
from columnar_kafka.broker.confluent import ConfluentProducer
from columnar_kafka.broker.traced_classes import StockProducer, traced
from columnar_kafka.columns.from_arrow.arrow_input import conform
from columnar_kafka.config import Arguments, hidden
from columnar_kafka.errors import ForkError, SchemaError
from columnar_kafka.offsets import GroupMetadata
from columnar_kafka.producing.above_tracer import AboveTracer
from columnar_kafka.producing.accepting.arguments import (
    check_metadata,
    encode_headers,
    encode_key,
    first_given,
    partition_and_timestamp,
)
from columnar_kafka.producing.accepting.message_list import pass_messages_on, produce_messages
from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.producing.pipeline import NoPipeline, Pipeline
from columnar_kafka.producing.settings import ProducerConfig
from columnar_kafka.producing.shutdown import LONGEST_STEP, Shutdown
from columnar_kafka.runtime import lifecycle
from columnar_kafka.runtime.deadline import deadline_after, next_step, seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import TopicPartition
    from typing_extensions import Self

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.native._core import OpenBatches
    from columnar_kafka.producing.reporting.report import Callback

__all__ = ["Producer"]


class Producer(StockProducer):
    """`confluent_kafka.Producer`, and `set_schema`.

    With ``columnar.encoding=none`` (the default) every call is confluent-kafka's own. With
    ``parquet`` a background thread collects the records (dicts) of topics with a schema and sends
    them as segments; `poll` and `flush` run one delivery report for each record. A topic without a
    schema gets the same messages as from confluent-kafka. All delivery reports run after
    librdkafka's poll, and their offsets are positions.

    Any number of threads may produce and poll. Source: KIP-1008, and confluent-kafka 2.16.
    """

    __slots__ = ("__dict__", "__weakref__", "_open_batches")  # which the native core looks up
    _open_batches: OpenBatches
    _flushes_at_exit: ClassVar[bool] = True

    # What a subclass that does not call __init__ has: confluent-kafka's own errors.
    _settings = ProducerConfig.parse({})[0]
    _pipeline: Pipeline = NoPipeline()  # type: ignore[assignment]
    _relay: Callable[..., None] | None = None
    _has_plain = False  # whether messages were produced to topics without a schema
    _stock: ClassVar[type] = StockProducer
    _above_tracer: ClassVar[tuple[type, ...]] = (AboveTracer,)

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make a client that a tracer sees if it would see confluent-kafka's."""
        return super().__new__(traced(cls))  # type: ignore[no-any-return]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take confluent-kafka's configuration and the ``columnar.`` keys: ``docs/producer.md``.

        Raises:
            ConfigError: an unknown ``columnar.`` key or a value that is not allowed.
            KafkaException, TypeError: as confluent-kafka, and as `set_schema` for given schemas.
        """
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show passwords
        settings, inner = ProducerConfig.parse(arguments.merged())
        pipeline = None
        if settings.encoding != "none":
            pipeline = Pipeline(settings, self._choose_partitions(settings.partitioner))
            self._relay = pipeline.delivery.relay
            if callable(settings.on_delivery):
                inner["on_delivery"] = self._relayed(settings.on_delivery)
        super().__init__(inner)
        if pipeline is not None and settings.deferred_error is not None:
            raise settings.deferred_error
        self._settings = settings
        if pipeline is not None:
            self._start(pipeline, inner)
        elif type(self).produce is Producer.produce:
            # Off means off: the base method bound here costs 6 % over stock, an override 100 %.
            self.produce = super().produce  # type: ignore[method-assign]

    def _start(self, pipeline: Pipeline, inner: dict[str, Any]) -> None:
        pipeline.connect(self._settings, self._connect(inner))
        self._inner, self._pipeline = inner, pipeline
        self._open_batches = pipeline.queue.open_batches
        self._shutdown = Shutdown(self, Producer, pipeline, self._settings, inner)
        pipeline.sender.start()
        if self._flushes_at_exit:
            lifecycle.started(self, self._shutdown)

    def _connect(self, inner: dict[str, Any]) -> ProducerBroker:
        """Return the Kafka that segments are sent to."""
        return ConfluentProducer(Producer, self, inner)

    def _choose_partitions(self, name: str) -> Partitioner:
        """Return the configured partitioner."""
        return Partitioner(name)

    # --- schemas --------------------------------------------------------------------------------

    def set_schema(
        self,
        topic: str,
        schema: Any = None,
        *,
        value_format: str | None = None,
        registry: Any = None,
        subject: str | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """Send the rows produced to `topic` as segments with this schema, from now on.

        Called again it may grow the schema; records produced before keep the earlier one. Blocks
        for 5 s at most for the topic's configuration, without which it goes on, and for 30 s for a
        registry's answers, without which it fails, and the topic keeps the schema that it has.

        Args:
            topic: the topic; it need not exist yet.
            schema: a `pyarrow.Schema`, or an Avro record schema as a dict or JSON text; with a
                registry also its `Schema`, or None: the latest one that it has.
            value_format: ``"json"``, ``"avro"``: values that are bytes or text become records, too.
                None: as before, or ``columnar.value.format``.
            registry: a `SchemaRegistryClient`, or its settings; segments have the id in it.
            subject: the schema's name there, in place of a strategy.
            conf: options of `AvroSerializer`, by which it is registered or looked up.

        Raises:
            SchemaError: a field cannot be stored, is repeated or reserved, or nested in more than
                100 levels; the schema is none of Avro's, where it must be, or no growth of the last
                (new nullable fields, wider types, null allowed); or the topic is compacted.
            RegistryError: the registry refuses the schema, does not have it, or does not answer.
            ConfigError: ``columnar.encoding`` is ``none``, or an argument is not allowed.
            TypeError, ValueError: not a schema, not a topic's name; as `AvroSerializer` for `conf`.
        """
        registry = hidden(registry)
        self._check_usable()
        self._pipeline.set_schema(topic, schema, value_format, registry, subject, conf)

    setSchema = set_schema  # noqa: N815 - the KIP's name

    # --- producing ------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Callback = None,
        on_delivery: Callback = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Accept one record; never waits on the network. The arguments are confluent-kafka's.

        For a topic with a schema `value` is a row: a dict, or an object that declares its fields
        (dataclass, named tuple, attrs, msgspec, pydantic). The row is copied: changing it later
        has no effect. A naive datetime for a field with a time zone is UTC. A value that is bytes
        or str is a plain message, or of the topic's value format; None is a plain message.

        Raises:
            RowError, TypeError: a field is missing, unknown, or of a wrong type or range. An error
                that only conversion can find (a list of a wrong length) is in the record's report.
            BufferError: the memory bound (``queue.buffering.max.kbytes``) is reached.
            KafkaException: no such partition; outside a transaction; as confluent-kafka.
        """
        pipeline = self._pipeline
        self._check_usable()
        topic_format = pipeline.format_of(topic)
        if topic_format is None:
            self._has_plain = True
            stock: dict[str, Any] = {"timestamp": timestamp, "headers": headers}
            if (report := first_given(callback, on_delivery)) is not None:  # stock minds None
                stock["on_delivery"] = self._relayed(report)
            super().produce(topic, value=value, key=key, partition=partition, **stock)
            return
        pipeline.transaction.check_open()
        key = encode_key(key)
        pairs, nbytes = encode_headers(headers)
        report = first_given(callback, on_delivery, self._settings.on_delivery)
        partition, timestamp = partition_and_timestamp(topic_format, partition, timestamp)
        metadata = (key, timestamp or time.time_ns() // 1_000_000, pairs, report, None)
        nbytes += 0 if key is None else len(key)
        if value is None or isinstance(value, topic_format.texts):
            pipeline.accept_value(topic_format, partition, value, metadata, nbytes)
            return
        if not topic_format.kafka.has_all:
            check_metadata(topic_format, key=key, headers=pairs)
        values, more = topic_format.rows.take(value)
        pipeline.accept_row(topic_format, partition, values, metadata, nbytes + more)

    def produce_arrow(
        self,
        topic: str,
        data: Any,
        *,
        partition: int = -1,
        on_delivery: Callback = None,
        key: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
        extra: str = "error",
    ) -> None:
        """Accept all rows of Arrow data, which become segments without becoming Python objects.

        Never waits on the network. Columns that have the schema's types are not copied; the data's
        memory is held until its report.

        Args:
            topic: a topic with a schema.
            data: a `pyarrow.RecordBatch`, `pyarrow.Table`, or anything that exports the Arrow C
                stream or array interface: pandas, polars, duckdb. A stream is read to its end.
            partition: the partition of all rows; -1: chosen by each row's key, or any one.
            on_delivery: called once, as `on_delivery(error, message)`, with the first error of any
                row or None, and an `ArrowReport`.
            key: the column that holds the records' keys (binary or text).
            timestamp: the column that holds their times; without it, all are now.
            headers: the column that holds their headers (a map, or a list of pairs).
            extra: ``"ignore"`` drops columns that the schema does not have.

        Raises:
            RowError: a column is missing, extra, or cannot be cast without loss. No row is sent.
            SchemaError, TypeError: the topic has no schema, or these are no Arrow data.
            BufferError, KafkaException: as `produce`. Data larger than the whole bound is accepted
                when nothing else is buffered. A stream is read then: to try again, keep its table.
        """
        self._check_usable()
        topic_format = self._pipeline.formats.get(topic)
        if topic_format is None:
            raise SchemaError(f"topic {topic!r} has no schema here: call set_schema() first")
        self._pipeline.transaction.check_open()
        partition, _ = partition_and_timestamp(topic_format, partition, 0)
        if not topic_format.kafka.has_all:
            check_metadata(topic_format, key=key, headers=headers)
        columns, now = {"key": key, "timestamp": timestamp, "headers": headers}, time.time_ns()
        rows = conform(
            data, topic_format.users_records, **columns, extra=extra, now_ms=now // 1_000_000
        )
        callback = first_given(on_delivery, self._settings.on_delivery)
        self._pipeline.accept_arrow(topic_format, partition, rows, callback)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callback = None,
        on_delivery: Callback = None,
    ) -> int:
        """Produce each of `messages`, dicts of `produce`'s arguments; return how many it accepted.

        As in confluent-kafka, a rejected message has its error under ``_error``, and none is taken
        if one is a TypeError or ValueError. With a schema, headers and timestamps are honoured.
        """
        self._check_usable()
        report = first_given(callback, on_delivery)
        if self._pipeline.format_of(topic) is not None:
            produce = partial(Producer.produce, self, topic)
            return produce_messages(produce, messages, partition, report)
        self._has_plain = True
        stock = {} if report is None else {"on_delivery": self._relayed(report)}
        produce_batch = super().produce_batch
        if self._relay is None:
            return produce_batch(topic, messages, partition, **stock)
        return pass_messages_on(
            lambda passed: produce_batch(topic, passed, partition, **stock), messages, self._relayed
        )

    # --- reports --------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks, one report for each record among them, until any ran; return how many.

        Blocks for at most `timeout` seconds, for ever when negative. Reports run in this thread,
        after librdkafka's own poll has returned, so user code may call all but `close`. A report's
        exception passes through; the reports after it run in the next call.
        """
        if not self._has_pipeline:
            return super().poll(timeout)
        deadline = deadline_after(timeout)
        sender, delivery = self._pipeline.sender, self._pipeline.delivery
        if sender.interrupted:
            return 0
        reported = delivery.run()
        while True:
            relayed = delivery.relayed
            left = 0.0 if reported else deadline - time.monotonic()
            served = delivery.serve(super().poll, next_step(left, LONGEST_STEP))
            if served:
                served = max(0, served - sender.collect() - (delivery.relayed - relayed))
            total = served + reported + delivery.run()
            if total or time.monotonic() >= deadline:
                return total

    def flush(self, timeout: float = -1) -> int:
        """Seal and send all that is buffered, and run reports until no record is outstanding.

        Blocks for at most `timeout` seconds, for ever when negative; returns how many records and
        messages are left. Inside a report, and in a signal handler or finalizer that has
        interrupted another call, it does not wait. Ctrl-C ends it at once; the rest is then sent in
        the background, and at exit for as long as Kafka accepts any of it.
        """
        if not self._has_pipeline:
            return super().flush(timeout)
        return self._shutdown.flush(super().flush, deadline_after(timeout))

    def __len__(self) -> int:
        """Return how many records and messages are not reported yet."""
        if not self._has_pipeline:
            return super().__len__()
        pipeline, inner = self._pipeline, super().__len__()
        if inner:  # it counts our segments too
            pipeline.sender.collect()
            inner = max(0, inner - pipeline.delivery.in_librdkafka)
        return pipeline.queue.records + pipeline.delivery.relayed + inner

    def __bool__(self) -> bool:
        """Be true, as confluent-kafka's is, however little is buffered."""
        return True

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Give up records that are buffered or in flight; every record's report says so."""
        if self._has_pipeline and in_queue:
            self._pipeline.sender.purge()
        # librdkafka purges later, and takes what is produced until then: not without need.
        if not self._has_pipeline or super().__len__():
            super().purge(in_queue, in_flight, blocking)

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> bool:
        """Flush, run all reports, and end the background thread.

        A report's exception is raised when all of that is done. In the main thread, a long wait is
        logged. Ctrl-C ends it at once: the producer accepts no more records, and can be closed
        again. A signal handler or finalizer that has interrupted a call has a thread close it.

        Raises:
            RuntimeError: called inside a delivery report.
        """
        if not self._has_pipeline:
            return super().close()
        pipeline = self._pipeline
        if pipeline.delivery.reporting:
            raise RuntimeError("a producer cannot be closed inside a delivery report")
        if pipeline.sender.interrupted:
            self._shutdown.accept_only()
            lifecycle.close_in_background(self, self._shutdown)
            return False
        self._shutdown.accept_only()
        if pipeline.transaction.open:
            Producer.purge(self)  # closing aborts it, and its records with it
        failures = self._shutdown.flush_fully()
        pipeline.close()
        lifecycle.ended(self)
        closed = super().close()
        # Reports of messages that other threads have meanwhile produced without a schema.
        failures += filter(None, [pipeline.delivery.run_all()])
        if failures:
            raise failures[0]
        return closed

    def __enter__(self) -> Self:
        """Return this producer."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        Producer.close(self)

    def __del__(self) -> None:
        """Send the records that are outstanding although nobody has this producer any more."""
        lifecycle.notice_fork()
        pipeline = self._pipeline
        if "_shutdown" not in self.__dict__ or pipeline.unusable or sys.is_finalizing():
            return
        # Without plain messages librdkafka's length counts nothing but its own events.
        outstanding = Producer.__len__(self) if self._has_plain else pipeline.queue.records
        if not outstanding:
            pipeline.sender.stop()
            return
        pipeline.sender.use(self._connect(self._inner))  # its weak reference may be dead
        self._shutdown.dropped(self, outstanding)

    # --- transactions ---------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1, /) -> None:
        """Take over from producers with this `transactional.id`; see confluent-kafka."""
        self._check_not_forked()
        super().init_transactions(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction; see confluent-kafka."""
        self._check_not_forked()
        super().begin_transaction()
        if self._has_pipeline:
            self._pipeline.begin_transaction()

    def commit_transaction(self, timeout: float = -1) -> None:
        """Send all that is buffered and commit; raise if any accepted record has failed.

        Raises:
            KafkaException: as confluent-kafka; with ``txn_requires_abort`` when a record failed:
                consumed offsets must not be committed without their output.
        """
        if not self._has_pipeline:
            super().commit_transaction(timeout)
            return
        deadline = deadline_after(timeout)
        transaction = self._pipeline.transaction
        if transaction.open:
            self._pipeline.queue.suspend()
            transaction.check_flushed(self._shutdown.flush(super().flush, deadline, commits=True))
        with transaction.ending():
            super().commit_transaction(seconds_left(deadline))

    def abort_transaction(self, timeout: float = -1) -> None:
        """Give up all that is buffered and abort; see confluent-kafka."""
        if not self._has_pipeline:
            super().abort_transaction(timeout)
            return
        pipeline = self._pipeline
        pipeline.give_up()
        with pipeline.transaction.ending():
            super().abort_transaction(timeout)
        pipeline.sender.collect()
        pipeline.delivery.run()

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Commit consumed offsets with the transaction; see confluent-kafka.

        With the group metadata of this package's `Consumer`, `positions` are positions; with that
        of a stock consumer they are Kafka's own offsets.
        """
        self._check_not_forked()
        if isinstance(group_metadata, GroupMetadata):
            positions = group_metadata.offsets(positions)
            group_metadata = group_metadata.inner
        super().send_offsets_to_transaction(positions, group_metadata, timeout)

    # --- the cluster ----------------------------------------------------------------------------

    def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the cluster for its topics; see confluent-kafka."""
        self._check_not_forked()
        return super().list_topics(*args, **kwargs)

    def cluster_id(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the cluster for its name; see confluent-kafka."""
        self._check_not_forked()
        return super().cluster_id(*args, **kwargs)

    # --- guards ---------------------------------------------------------------------------------

    def _check_not_forked(self) -> None:
        """Raise in a forked child, where librdkafka would wait for its parent's threads."""
        lifecycle.notice_fork()
        if isinstance(self._pipeline.unusable, ForkError):
            raise self._pipeline.unusable

    @property
    def _has_pipeline(self) -> bool:
        """Whether records go through a pipeline of ours, which may be used."""
        self._check_not_forked()
        return self._settings.encoding != "none" and self._pipeline.unusable is None

    def _check_usable(self) -> None:
        lifecycle.notice_fork()
        if self._pipeline.unusable is not None:
            raise self._pipeline.unusable

    def _relayed(self, callback: Callback) -> Callback:
        """Return a callback for librdkafka by which the report runs later, in positions."""
        return callback if self._relay is None else partial(self._relay, callback)


if native.enabled:
    # Appends a row in one native call; whatever is not the common case it leaves to `produce`.
    Producer.produce = native.core.produce_method(  # type: ignore[method-assign]
        Producer, "_open_batches", Producer.produce
    )
