"""A drop-in `confluent_kafka.Producer` that sends batches of records as Parquet segments."""

from __future__ import annotations

import math
import operator
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka import lifecycle
from columnar_kafka.broker.client_classes import StockProducer, traced
from columnar_kafka.broker.confluent import ConfluentProducer
from columnar_kafka.columns.arrow_input import conform
from columnar_kafka.columns.row_objects import is_row
from columnar_kafka.config import merge_arguments
from columnar_kafka.errors import ConfigError, ForkError, RowError, SchemaError, unable
from columnar_kafka.offsets import GroupMetadata
from columnar_kafka.producing.accumulator import Accumulator
from columnar_kafka.producing.arrow_batch import ArrowBatch
from columnar_kafka.producing.batch import ArrowCall, Others, PlainMessage
from columnar_kafka.producing.delivery import Delivery
from columnar_kafka.producing.partitioner import Partitioner
from columnar_kafka.producing.record_queue import RecordQueue
from columnar_kafka.producing.report import encode_headers, encode_key
from columnar_kafka.producing.sender import Sender
from columnar_kafka.producing.settings import ProducerConfig
from columnar_kafka.producing.topic_format import SegmentLimits, TopicFormat
from columnar_kafka.producing.transaction import Transaction
from columnar_kafka.schema import RecordSchema, check_growth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.producing.arrow_batch import Item
    from columnar_kafka.producing.record_block import Callback

__all__ = ["Producer"]

_LIMITS_TIMEOUT: Final = 5.0
_NAMED: Final = 5
"""How many topics a line in the log names."""
_STEP: Final = 0.1
"""How long one wait inside librdkafka is, so that reports it knows nothing of are not late."""
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_PLAIN_BYTES: Final = 200  # what a message's objects cost beside their bytes


class _AboveTracer:
    """Keeps a tracer from records that have no place for the headers it adds."""

    _formats: Mapping[str, TopicFormat]
    _below_tracer: Any

    def produce(self, topic: str, *args: Any, **kwargs: Any) -> None:
        form = self._formats.get(topic) if isinstance(topic, str) else None
        takes_headers = form is None or "headers" in form.kafka.members
        if takes_headers:
            super().produce(topic, *args, **kwargs)  # type: ignore[misc]
        else:
            self._below_tracer.produce(self, topic, *args, **kwargs)


class Producer(StockProducer):
    """`confluent_kafka.Producer`, and `set_schema`.

    With ``columnar.encoding=none`` (the default) every call is confluent-kafka's own. With
    ``parquet`` a topic without a schema gets the same messages, and its delivery reports run after
    librdkafka's poll and speak positions, as all others of that producer. For a topic with a
    schema, records (dicts) are collected and sent as segments by a background thread; `poll` and
    `flush` run one delivery report for each record.

    Any number of threads may produce and poll. Source: KIP-1008, and confluent-kafka 2.16.
    """

    # What a subclass that does not call __init__ has: confluent-kafka's own errors.
    _settings = ProducerConfig.parse({})[0]
    _formats: Mapping[str, TopicFormat] = MappingProxyType({})
    _unusable: Exception | None = None
    _relay: Callable[..., None] | None = None
    _flush_interrupted = False  # by Ctrl-C, and something has been outstanding ever since
    _passes = False  # whether there were messages of topics without a schema
    _plain = 0  # messages of topics without a schema that the last flush has left in librdkafka
    _stock: ClassVar[type] = StockProducer
    _above_tracer: ClassVar[tuple[type, ...]] = (_AboveTracer,)

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make a client that is traced if confluent-kafka's would be."""
        client: Self = super().__new__(traced(cls))
        return client

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take confluent-kafka's configuration and the ``columnar.`` keys.

        The keys are listed in ``docs/producer.md``.

        Raises:
            ConfigError: an unknown ``columnar.`` key or a value that is not allowed.
            KafkaException, TypeError: as confluent-kafka.
        """
        settings, inner = ProducerConfig.parse(merge_arguments(args, kwargs))
        if settings.encoding != "none":
            self._intake = RecordQueue(
                limit_bytes=settings.queue_bytes,
                limit_records=settings.queue_records,
                segment_rows=settings.segment_rows,
            )
            self._delivery = Delivery(
                self._intake,
                sends_again=not settings.transactional,
                errors_only=settings.errors_only,
            )
            self._relay = self._delivery.relay
            if callable(settings.on_delivery):
                inner["on_delivery"] = self._relayed(settings.on_delivery)
        super().__init__(inner)
        if settings.unread is not None and settings.encoding != "none":
            raise settings.unread
        self._settings = settings
        if settings.encoding == "none":
            # Off means off: the base method bound here costs 6 % over stock, an override 100 %.
            if type(self).produce is Producer.produce:
                self.produce = super().produce  # type: ignore[method-assign]
            return
        self._inner = inner
        self._broker = self._connect(inner)
        self._schemas = threading.Lock()  # one `set_schema` at a time
        self._transaction = Transaction(self._delivery, required=settings.transactional)
        self._sender = Sender(
            intake=self._intake,
            accumulator=Accumulator(
                partitioner=self._choose_partitions(settings.partitioner),
                linger=settings.linger,
                message_timeout=settings.message_timeout,
                refresh=settings.metadata_refresh,
                propagation=settings.metadata_propagation,
                memory=settings.queue_bytes,
                records=settings.queue_records,
            ),
            broker=self._broker,
            delivery=self._delivery,
            message_timeout=settings.message_timeout,
        )
        self._sender.start()
        lifecycle.started(self)

    def _connect(self, inner: dict[str, Any]) -> ProducerBroker:
        """Return the Kafka that segments go to."""
        return ConfluentProducer(Producer, self, inner)

    def _choose_partitions(self, name: str) -> Partitioner:
        """Return what chooses partitions as configured."""
        return Partitioner(name)

    # --- schemas --------------------------------------------------------------------------------

    def set_schema(self, topic: str, schema: Any) -> None:
        """Send the rows produced to `topic` as segments with this schema, from now on.

        Called again it may grow the schema: what was produced before keeps the one it had. Blocks
        for at most 5 s while the topic's configuration is asked for; a cluster that does not
        answer, or does not tell, is no obstacle.

        Args:
            topic: the topic; it need not exist yet.
            schema: a `pyarrow.Schema`, or an Avro record schema as a dict or JSON text.

        Raises:
            SchemaError: a field cannot be stored, is repeated or reserved, or is nested more than
                100 levels; the topic has a schema that this one is no growth of (new nullable
                fields, wider types, null allowed); or it is compacted, and a segment has no key.
            ConfigError: ``columnar.encoding`` is ``none``.
            TypeError: not a schema, or not a topic's name.
        """
        if not isinstance(topic, str):
            raise TypeError(f"a topic's name is a str, not {type(topic).__name__}")
        if self._settings.encoding == "none":
            raise ConfigError(
                "columnar.encoding=none: a schema would have no effect; "
                "configure columnar.encoding=parquet"
            )
        self._check_usable()
        parsed = RecordSchema.parse(schema)
        found = self._broker.limits(topic, _LIMITS_TIMEOUT)
        with self._schemas:
            known = self._formats.get(topic)
            if known is not None:
                check_growth(known.records, parsed)
            if found.compacted:
                raise SchemaError(
                    f"topic {topic!r} has cleanup.policy=compact, and a segment has no key to "
                    "compact by: use a topic with cleanup.policy=delete, or send plain messages"
                )
            limits = SegmentLimits.learn(
                self._settings,
                max_message_bytes=found.max_message_bytes,
                partitions=found.partitions,
            )
            if (
                known is not None
                and known.records == parsed
                and known.records.arrow.equals(parsed.arrow, check_metadata=True)
            ):
                form = replace(known, limits=limits)  # with what its encoder has learned
            else:
                form = TopicFormat.make(topic, parsed, self._settings, limits)
            self._accept(form, 0, 0)
            self._formats = {**self._formats, topic: form}

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
        (a dataclass, a named tuple, attrs, msgspec, pydantic). It is taken by value: changing it
        afterwards changes nothing sent. bytes, str or None is a plain message. A naive datetime
        for a field with a zone is UTC.

        Raises:
            RowError: a field is missing, unknown, or of a wrong type; what only its conversion
                finds (a number out of range) is in that record's own report.
            TypeError: a value of another type.
            BufferError: the producer's memory bound (``queue.buffering.max.kbytes``) is reached;
                the record was not taken.
            KafkaException: no such partition; outside a transaction; as confluent-kafka.
        """
        if self._unusable is not None:
            raise self._unusable
        try:
            form = self._formats.get(topic)
        except TypeError:
            form = None  # confluent-kafka says what a topic is
        if form is None:
            self._passes = True
            # Beside an argument that is None confluent-kafka calls no callback.
            report = callback or on_delivery
            given = {} if report is None else {"on_delivery": self._relayed(report)}
            super().produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                timestamp=timestamp,
                headers=headers,
                **given,
            )
            return
        self._transaction.check_open()
        key = encode_key(key)
        pairs, nbytes = encode_headers(headers)
        report = callback or on_delivery or self._settings.on_delivery
        partition, timestamp = _integers(form, partition, timestamp)
        others = (key, timestamp or time.time_ns() // 1_000_000, pairs, report)
        if key is not None:
            nbytes += len(key)
        if value is None or isinstance(value, bytes | str):
            self._accept_plain(form, partition, value, others, nbytes)
            return
        if not form.kafka.has_all:
            _check_metadata(form, key=key, headers=pairs)
        values, more = form.columns.take(value)
        nbytes += more
        now = time.monotonic()
        try:
            wake = self._intake.put((form, partition, values, others, nbytes, now), nbytes, now)
        except BufferError:
            self._sender.wake()  # to make room
            raise
        if wake:
            self._sender.wake()

    def _accept_plain(
        self,
        form: TopicFormat,
        partition: int,
        value: str | bytes | None,
        others: Others,
        nbytes: int,
    ) -> None:
        data = value.encode() if isinstance(value, str) else value
        nbytes += len(data or b"") + _PLAIN_BYTES
        key, timestamp, headers, callback = others
        plain = PlainMessage(
            topic=form.topic,
            partition=partition,
            value=data,
            key=key,
            timestamp=timestamp,
            headers=headers,
            callback=callback,
            since=time.monotonic(),
            charge=nbytes,
            limits=form.limits,
        )
        self._accept(plain, nbytes, 1)

    def _accept(self, item: Item, nbytes: int, records: int) -> None:
        """Have what is no row taken over at once."""
        try:
            self._intake.put(item, nbytes, 0.0, records, urgent=True)
        finally:
            self._sender.wake()  # if there is no room, to make some

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
        """Accept all rows of Arrow data at once; they become segments without being rows between.

        Never waits on the network. What is already in the schema's types is not copied; the data's
        memory is held until its report.

        Args:
            topic: a topic with a schema.
            data: a `pyarrow.RecordBatch`, `pyarrow.Table`, or anything that exports the Arrow C
                stream or array interface: pandas, polars, duckdb. A stream is read to its end.
            partition: all rows' partition; -1: each row's key's, without keys any one.
            on_delivery: one report for the call, `on_delivery(error, message)`: the first error
                that met any of the rows, or None, and an `ArrowReport`.
            key: the name of the column that holds the records' keys (binary or text).
            timestamp: the name of the column of their times; without it, all are now.
            headers: the name of the column of their headers (a map, or a list of pairs).
            extra: ``"ignore"`` leaves out columns that the schema does not have.

        Raises:
            RowError: a column is missing, extra, or cannot be cast without loss; nothing is taken.
            SchemaError: the topic has no schema.
            TypeError: no Arrow data.
            BufferError: as `produce`; data larger than the whole bound is taken when nothing else
                is buffered. A stream has been read then: keep its table to try again.
            KafkaException: as `produce`.
        """
        self._check_usable()
        form = self._formats.get(topic)
        if form is None:
            raise SchemaError(f"topic {topic!r} has no schema here: call set_schema() first")
        self._transaction.check_open()
        partition, _ = _integers(form, partition, 0)
        if not form.kafka.has_all:
            _check_metadata(form, key=key, headers=headers)

        now_ms = time.time_ns() // 1_000_000
        rows = conform(
            data,
            form.records,
            key=key,
            timestamp=timestamp,
            headers=headers,
            extra=extra,
            now_ms=now_ms,
        )
        count = rows.columns.num_rows
        call = ArrowCall(topic, count, on_delivery or self._settings.on_delivery)
        if not count:
            self._delivery.nothing(call)
            return
        nbytes = sum(each.nbytes for each in rows)
        bulk = ArrowBatch(form, partition, rows, call, time.monotonic(), nbytes)
        self._accept(bulk, nbytes, count)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callback = None,
        on_delivery: Callback = None,
    ) -> int:
        """Produce each of `messages`, dicts of `produce`'s arguments; return how many were taken.

        A message that was not has its error under ``_error``, as in confluent-kafka. For a topic
        with a schema headers and timestamps are honoured.
        """
        self._check_usable()
        if topic not in self._formats:
            return self._produce_batch_plain(topic, messages, partition, callback or on_delivery)
        operator.index(partition)
        _check_messages(messages)
        usual = callback or on_delivery or self._settings.on_delivery
        taken = 0
        for message in messages:
            try:
                Producer.produce(
                    self,
                    topic,
                    message.get("value"),
                    message.get("key"),
                    message.get("partition", partition),
                    callback=message.get("callback") or usual,
                    timestamp=message.get("timestamp", 0),
                    headers=message.get("headers"),
                )
            except BufferError:
                message["_error"] = _failed(KafkaError(KafkaError._QUEUE_FULL))
            except RowError as error:
                message["_error"] = error.kafka_error
            except KafkaException as error:
                message["_error"] = _failed(error.args[0])
            else:
                taken += 1
        return taken

    def _produce_batch_plain(
        self, topic: str, messages: Any, partition: int, report: Callback
    ) -> int:
        self._passes = True
        given = {} if report is None else {"on_delivery": self._relayed(report)}
        if self._relay is None or not _has_callbacks(messages):
            return super().produce_batch(topic, messages, partition, **given)
        copies = [
            each
            if each.get("callback") is None
            else {**each, "callback": self._relayed(each["callback"])}
            for each in messages
        ]
        try:
            return super().produce_batch(topic, copies, partition, **given)
        finally:
            for message, copy in zip(messages, copies, strict=True):
                if "_error" in copy:
                    message["_error"] = copy["_error"]

    # --- reports --------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks, one report for each record among them, until there was one.

        Blocks for at most `timeout` seconds, for ever when negative. Reports run in this thread,
        after librdkafka's own poll has returned: user code may call anything there. An exception
        of a report passes through; the reports after it run in the next call.

        Returns:
            How many events were served.
        """
        if not self._buffers:
            return super().poll(timeout)
        deadline = _deadline(timeout)
        while True:
            reported = self._delivery.run()
            relayed = self._delivery.relayed
            left = 0.0 if reported else max(0.0, deadline - time.monotonic())
            served = super().poll(min(left, _STEP))
            if served:
                served -= self._collect() + self._delivery.relayed - relayed
            total = max(0, served) + reported + self._delivery.run()
            if total or time.monotonic() >= deadline:
                return total

    def _collect(self) -> int:
        """Take note of what librdkafka has acknowledged; return how many messages that were."""
        count = self._delivery.collect()
        if count:
            self._sender.wake()  # there is room again
        return count

    def flush(self, timeout: float = -1) -> int:
        """Seal and send all that is buffered, and serve reports until none is outstanding.

        Blocks for at most `timeout` seconds, for ever when negative. Ctrl-C ends it at once; what
        is outstanding then is sent in the background, and at exit for as long as Kafka takes some.

        Returns:
            How many records and messages are still outstanding.
        """
        if not self._buffers:
            return super().flush(timeout)
        try:
            remaining = self._flush(_deadline(timeout))
        except KeyboardInterrupt:
            self._flush_interrupted = True
            raise
        self._flush_interrupted = self._flush_interrupted and remaining > 0
        return remaining

    def _flush(self, deadline: float) -> int:
        while True:
            self._sender.seal()
            left = max(0.0, min(_STEP, deadline - time.monotonic()))
            inside = super().flush(left)
            if not inside:
                self._sender.wait_progress(0.0 if not len(self) else min(left, 0.01))
            self._collect()
            # Here, for it has just served its own events, which count too.
            self._plain = max(0, inside - self._delivery.in_librdkafka)
            self._delivery.run()
            remaining = len(self)
            # Inside a report there is no end to wait for: the record it reports is outstanding.
            if not remaining or self._delivery.reporting or time.monotonic() >= deadline:
                return remaining

    def __len__(self) -> int:
        """Return the number of records and messages that are not yet reported."""
        if not self._buffers:
            return super().__len__()
        inner = super().__len__()
        if inner:  # some are ours
            self._collect()
            inner = max(0, inner - self._delivery.in_librdkafka)
        return self._intake.records + self._delivery.relayed + inner

    def __bool__(self) -> bool:
        """Be true, as confluent-kafka's is, however little is buffered."""
        return True

    def purge(
        self,
        in_queue: bool = True,
        in_flight: bool = True,
        blocking: bool = True,
    ) -> None:
        """Give up what is buffered or in flight; every record's report says so."""
        if self._buffers and in_queue:
            self._sender.purge()
        super().purge(in_queue, in_flight, blocking)

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> bool:
        """Flush, run all reports, and end the background thread.

        An exception of a report is raised when all of that is done. What it waits for is logged,
        in the main thread. Ctrl-C ends it at once: the producer takes no more records, and can be
        closed again.

        Raises:
            RuntimeError: called inside a delivery report.
        """
        if not self._buffers:
            return super().close()
        if self._delivery.reporting:
            raise RuntimeError("a producer cannot be closed inside a delivery report")
        self._accept_only()
        if self._transaction.open:
            Producer.purge(self)  # it is going to be aborted, and its records with it
        try:
            failures = self._flush_fully()
        except KeyboardInterrupt:  # also one that did not come in `flush`
            self._flush_interrupted = True
            raise
        self._sender.stop()
        self._unusable = RuntimeError("Producer has been closed")
        lifecycle.ended(self)
        closed = super().close()
        # Reports of what other threads have still produced without a schema.
        failures += filter(None, [self._delivery.run_all()])
        if failures:
            raise failures[0]
        return closed

    def _accept_only(self, *threads: int) -> None:
        """Take records from these threads only: the last flush must find all there are."""
        self._intake.close(but=threads)

    def _flush_fully(self) -> list[BaseException]:
        """Flush until every report has run; return the first exception of a report, if any."""
        failures: list[BaseException] = []

        def failed(error: BaseException) -> None:
            if not failures:  # each keeps its report in memory
                failures.append(error)

        told = threading.current_thread() is threading.main_thread()
        wait = lifecycle.Wait([self], tells=told)
        lifecycle.flush_fully(wait, failed)
        if len(self):  # a flush was interrupted before, and Kafka takes nothing any more
            wait.give_up()
            Producer.purge(self)
            lifecycle.flush_fully(lifecycle.Wait([self], tells=told), failed)
        return failures

    def _flush_for(self, seconds: float) -> BaseException | None:
        """Flush for so long at most; return the exception of a report."""
        try:
            Producer.flush(self, seconds)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the others have to run too
            if self._unusable is None:  # or another thread has closed it, and so flushed it
                return error
        return None

    @property
    def _longest_wait(self) -> float:
        """How long, in seconds, a record can be outstanding."""
        return self._settings.message_timeout

    def _describe_outstanding(self) -> str:
        """Say what a flush has left outstanding, for the log; "" when that is nothing."""
        records = self._intake.records
        relayed = self._delivery.relayed
        plain = relayed + min(self._plain, max(0, len(self) - records - relayed))
        parts = []
        if records:
            topics = sorted(self._sender.topics())
            more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
            named = f" of {', '.join(topics[:_NAMED])}{more}" if topics else ""
            parts.append(f"{records} records{named}")
        if plain:
            parts.append(f"{plain} messages of topics without a schema")
        servers = self._inner.get("bootstrap.servers") or self._inner.get("metadata.broker.list")
        return f"{' and '.join(parts)} ({servers or 'no bootstrap.servers'})" if parts else ""

    def __enter__(self) -> Self:
        """Return this producer."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        Producer.close(self)

    def __del__(self) -> None:
        """Send what is outstanding although nobody has this producer any more."""
        if "_sender" not in self.__dict__ or self._unusable is not None or sys.is_finalizing():
            return
        # Else there is nothing in librdkafka's length but its own events.
        outstanding = Producer.__len__(self) if self._passes else self._intake.records
        if not outstanding:
            self._sender.stop()
            return
        self._sender.use(self._connect(self._inner))  # its reference to this one may be gone
        lifecycle.hold_until_closed(self, outstanding)

    # --- transactions ---------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1, /) -> None:
        """Take over from producers with this `transactional.id`; see confluent-kafka."""
        self._check_not_forked()
        super().init_transactions(timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction; see confluent-kafka."""
        self._check_not_forked()
        super().begin_transaction()
        if self._buffers:
            self._collect()  # what failed until now was not this transaction's
            self._transaction.began()
            self._intake.open()

    def commit_transaction(self, timeout: float = -1) -> None:
        """Send all that is buffered and commit; raise if any accepted record has failed.

        Raises:
            KafkaException: as confluent-kafka; with ``txn_requires_abort`` when a record failed,
                for what was consumed must not be committed without its output.
        """
        if not self._buffers:
            super().commit_transaction(timeout)
            return
        deadline = _deadline(timeout)
        if self._transaction.open:
            self._intake.shut()
            self._transaction.check_flushed(Producer.flush(self, timeout))
        try:
            left = -1 if timeout < 0 else max(0.0, deadline - time.monotonic())
            super().commit_transaction(left)
        except KafkaException as error:
            self._transaction.failed(error.args[0])
            raise
        self._transaction.ended()

    def abort_transaction(self, timeout: float = -1) -> None:
        """Give up what is buffered and abort; see confluent-kafka."""
        if not self._buffers:
            super().abort_transaction(timeout)
            return
        self._intake.shut()
        self._sender.purge()
        try:
            super().abort_transaction(timeout)
        except KafkaException as error:
            self._transaction.failed(error.args[0])
            raise
        self._transaction.ended()
        self._collect()
        self._delivery.run()

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Commit what was consumed with the transaction; see confluent-kafka.

        With the group metadata of this package's `Consumer` these are positions; with a stock
        consumer's they are Kafka's own offsets.
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
        """Raise where librdkafka, whose threads a forked child has not, would wait for ever."""
        if isinstance(self._unusable, ForkError):
            raise self._unusable

    @property
    def _buffers(self) -> bool:
        """Whether there is a buffer of ours in front of librdkafka, and it may be used."""
        self._check_not_forked()
        return self._settings.encoding != "none" and self._unusable is None

    def _check_usable(self) -> None:
        if self._unusable is not None:
            raise self._unusable

    def _relayed(self, callback: Callback) -> Callback:
        """Return what librdkafka calls instead: the report runs after its poll, in positions."""
        return callback if self._relay is None else partial(self._relay, callback)

    def _pause(self) -> None:
        """Keep the background thread from working."""
        self._sender.step.acquire()

    def _resume(self) -> None:
        """Let it."""
        self._sender.step.release()

    def _abandon(self) -> None:
        """Drop the copy of the buffer that a forked child has: its parent sends it."""
        self._unusable = ForkError(
            "this producer was made before os.fork(); make one in the child process"
        )
        self._delivery.abandon(self._unusable)


def _has_callbacks(messages: Any) -> bool:
    """Whether these are messages for `produce_batch`, and some have their own callback."""
    return (
        isinstance(messages, list)
        and all(isinstance(each, dict) for each in messages)
        and any(each.get("callback") is not None for each in messages)
    )


def _check_messages(messages: Any) -> None:
    """Raise, as confluent-kafka does, for what can be no messages; before any of them is taken."""
    if not isinstance(messages, list):
        raise TypeError("messages must be a list")
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise TypeError(f"Message at index {i} must be a dict")
        value, key = message.get("value"), message.get("key")
        if not (isinstance(value, bytes | str | dict | None) or is_row(value)):
            raise TypeError(f"Message value at index {i} must be bytes or str")
        if not isinstance(key, bytes | str | None):
            raise TypeError(f"Message key at index {i} must be bytes or str")
        if not isinstance(message.get("partition", -1), int):
            raise TypeError(f"Message partition at index {i} must be int")


def _failed(error: KafkaError) -> KafkaError:
    """Return an error in the words in which confluent-kafka notes it in a message of a batch."""
    return KafkaError(error.code(), f"Message failed: {KafkaError(error.code()).str()}")


def _integers(form: TopicFormat, partition: Any, timestamp: Any) -> tuple[int, int]:
    """Return a partition and a time that can be, or raise as confluent-kafka does."""
    partition, timestamp = operator.index(partition), operator.index(timestamp)
    if not -_INT32 <= partition < _INT32:
        bound = "greater than maximum" if partition > 0 else "less than minimum"
        raise OverflowError(f"signed integer is {bound}")
    if not -_INT64 <= timestamp < _INT64:
        raise OverflowError("int too big to convert")
    if partition < -1 or partition >= (form.limits.partitions or _INT32):
        raise KafkaException(unable(KafkaError._UNKNOWN_PARTITION))
    return partition, timestamp


def _check_metadata(form: TopicFormat, **given: Any) -> None:
    """Refuse a key or headers where the segments have no place for them."""
    members = form.kafka.members
    for name, each in given.items():
        if each is not None and name not in members:
            raise RowError(
                f"columnar.metadata={','.join(members) or 'none'} has no place for a record's "
                f"{name}: add {name!r} to it, or produce without"
            )


def _deadline(timeout: float) -> float:
    math.isfinite(timeout)  # or a TypeError, in confluent-kafka's words
    return float("inf") if timeout < 0 else time.monotonic() + timeout
