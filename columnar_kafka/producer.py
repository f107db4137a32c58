"""A drop-in `confluent_kafka.Producer` that sends batches of records as Parquet segments."""

from __future__ import annotations

import atexit
import logging
import operator
import os
import time
import weakref
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka import config, record
from columnar_kafka.accumulator import Accumulator
from columnar_kafka.batch import Callback, Format, Others, Plain
from columnar_kafka.broker.confluent import ConfluentProducer
from columnar_kafka.budget import Budget
from columnar_kafka.columns.kafka import KafkaColumn
from columnar_kafka.columns.pure import PureColumns
from columnar_kafka.delivery import Delivery
from columnar_kafka.encoder import ParquetEncoder
from columnar_kafka.errors import ConfigError, ForkError, RowError, SchemaError
from columnar_kafka.ledger import GroupMetadata
from columnar_kafka.partitioner import Partitioner
from columnar_kafka.schema import RecordSchema, fingerprint
from columnar_kafka.sender import Sender
from columnar_kafka.wire import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.broker.base import ProducerBroker, TopicLimits

__all__ = ["Producer"]

_LIMITS_TIMEOUT: Final = 5.0
_STEP: Final = 0.1
"""How long one wait inside librdkafka is, so that reports it knows nothing of are not late."""
_INT32: Final = 1 << 31
_INT64: Final = 1 << 63
_PLAIN_BYTES: Final = 200  # what a message's objects cost beside their bytes

_log = logging.getLogger(__name__)
_live: weakref.WeakSet[Producer] = weakref.WeakSet()


class Producer(confluent_kafka.Producer):
    """`confluent_kafka.Producer`, and `set_schema`.

    With ``columnar.encoding=none`` (the default), and for topics without a schema, every call is
    confluent-kafka's own. For a topic with a schema, records (dicts) are collected and sent as
    segments by a background thread; `poll` and `flush` run one delivery report for each record.

    Any number of threads may produce and poll. Source: KIP-1008, and confluent-kafka 2.16.
    """

    # What a subclass that does not call __init__ has: confluent-kafka's own errors.
    _settings = config.ProducerConfig.parse({})[0]
    _formats: Mapping[str, Format] = MappingProxyType({})
    _unusable: Exception | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take confluent-kafka's configuration and the ``columnar.`` keys.

        The keys are listed in ``docs/design.md``.

        Raises:
            ConfigError: an unknown ``columnar.`` key or a value that is not allowed.
            KafkaException, TypeError: as confluent-kafka.
        """
        settings, inner = config.ProducerConfig.parse(config.merge(args, kwargs))
        super().__init__(inner)
        self._settings = settings
        self._transactional = settings.transactional
        self._in_transaction = False
        self._failures_before = 0
        if settings.encoding == "none":
            # Off means off: the base method bound here costs 6 % over stock, an override 100 %.
            if type(self).produce is Producer.produce:
                self.produce = super().produce  # type: ignore[method-assign]
            return
        self._broker = self._connect(inner)
        self._budget = Budget(
            limit_bytes=settings.queue_bytes, limit_records=settings.queue_records
        )
        self._delivery = Delivery(self._budget)
        self._accumulator = Accumulator(
            partitioner=Partitioner(settings.partitioner),
            linger=settings.linger,
            segment_rows=settings.segment_rows,
            message_timeout=settings.message_timeout,
            refresh=settings.metadata_refresh,
        )
        self._sender = Sender(
            accumulator=self._accumulator,
            broker=self._broker,
            delivery=self._delivery,
            budget=self._budget,
            message_timeout=settings.message_timeout,
        )
        self._sender.start()
        _live.add(self)

    def _connect(self, inner: dict[str, Any]) -> ProducerBroker:
        """Return the Kafka that segments go to."""
        return ConfluentProducer(super(), inner)

    # --- schemas --------------------------------------------------------------------------------

    def set_schema(self, topic: str, schema: Any) -> None:
        """Send the dicts produced to `topic` as segments with this schema, from now on.

        Blocks for at most 5 s while the topic's configuration is asked for; a cluster that does
        not answer, or does not tell, is no obstacle.

        Args:
            topic: the topic; it need not exist yet.
            schema: a `pyarrow.Schema`, or an Avro record schema as a dict or JSON text.

        Raises:
            SchemaError: a field cannot be stored, is repeated or reserved, or is nested more than
                100 levels; or the topic is compacted, and a segment has no key.
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
        limits = self._broker.limits(topic, _LIMITS_TIMEOUT)
        if limits.compacted:
            raise SchemaError(
                f"topic {topic!r} has cleanup.policy=compact, and a segment has no key to compact "
                "by: use a topic with cleanup.policy=delete, or send plain messages"
            )
        form = self._format(topic, parsed, limits)
        self._accumulator.set_format(form, partitions=limits.partitions, now=time.monotonic())
        self._formats = {**self._formats, topic: form}
        self._sender.wake()

    setSchema = set_schema  # noqa: N815 - the KIP's name

    def _format(self, topic: str, parsed: RecordSchema, limits: TopicLimits) -> Format:
        accepted = [self._settings.message_max_bytes]
        if limits.max_message_bytes is not None:
            accepted.append(limits.max_message_bytes)
        limit = min(accepted) - HEADER_BYTES
        column = KafkaColumn(self._settings.metadata)
        schema = column.schema(parsed.arrow)
        return Format(
            topic=topic,
            columns=PureColumns(parsed),
            kafka=column,
            schema=schema,
            fingerprint=fingerprint(schema),
            encoder=ParquetEncoder(self._settings.compression),
            target_bytes=min(self._settings.segment_bytes, limit),
            limit_bytes=limit,
        )

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

        For a topic with a schema `value` is a dict with its fields, taken by value: changing it
        afterwards changes nothing sent. bytes, str or None is a plain message.

        Raises:
            RowError: a field is missing, unknown, or of a type that is known here to be wrong;
                what is only found later is in that record's own report.
            TypeError: a value of another type.
            BufferError: the producer's memory bound (``queue.buffering.max.kbytes``) is reached;
                the record was not taken.
            KafkaException: no such partition; outside a transaction; as confluent-kafka.
        """
        if self._unusable is not None:
            raise self._unusable
        form = self._formats.get(topic)
        if form is None:
            given = {"partition": partition, "timestamp": timestamp, "headers": headers}
            given |= _callback(callback, on_delivery)
            super().produce(topic, value=value, key=key, **given)
            return
        if self._transactional and not self._in_transaction:
            raise KafkaException(
                KafkaError(KafkaError._STATE, "records are produced inside a transaction")
            )
        key = record.encode_key(key)
        pairs, nbytes = record.encode_headers(headers)
        report = callback or on_delivery or self._settings.on_delivery
        timestamp = _checked(timestamp, partition)
        others = (key, timestamp or time.time_ns() // 1_000_000, pairs, report)
        if key is not None:
            nbytes += len(key)
        if value is None or isinstance(value, bytes | str):
            self._accept_plain(topic, partition, value, others, nbytes)
            return
        if not form.kafka.has_all:
            self._check_metadata(form, key, pairs)
        values, more = form.columns.take(value)
        nbytes += more
        pressed = self._charge(nbytes)
        try:
            wake = self._accumulator.append(
                form, partition, values, others, nbytes, now=time.monotonic(), pressed=pressed
            )
        except BaseException:
            self._budget.release(nbytes, 1)
            raise
        if wake:
            self._sender.wake()

    def _accept_plain(
        self, topic: str, partition: int, value: str | bytes | None, others: Others, nbytes: int
    ) -> None:
        data = value.encode() if isinstance(value, str) else value
        nbytes += len(data or b"") + _PLAIN_BYTES
        key, timestamp, headers, callback = others
        plain = Plain(
            topic=topic,
            partition=partition,
            value=data,
            key=key,
            timestamp=timestamp,
            headers=headers,
            callback=callback,
            since=time.monotonic(),
            charge=nbytes,
        )
        self._charge(nbytes)
        try:
            self._accumulator.append_plain(plain)
        except BaseException:
            self._budget.release(nbytes, 1)
            raise
        self._sender.wake()

    def _charge(self, nbytes: int) -> bool:
        try:
            return self._budget.take(nbytes)
        except BufferError:
            self._accumulator.seal_all()
            self._sender.wake()
            raise

    def _check_metadata(self, form: Format, key: bytes | None, headers: Any) -> None:
        members = form.kafka.members
        for name, given in (("key", key), ("headers", headers)):
            if given is not None and name not in members:
                raise RowError(
                    f"columnar.metadata={','.join(members) or 'none'} has no place for a record's "
                    f"{name}: add {name!r} to it, or produce without"
                )

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
            given = _callback(callback, on_delivery)
            return super().produce_batch(topic, messages, partition, **given)
        taken = 0
        for message in messages:
            arguments: dict[str, Any] = {
                "partition": partition,
                "callback": callback or on_delivery,
                **{name: each for name, each in message.items() if name != "_error"},
            }
            try:
                self.produce(topic, **arguments)
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as error:
                message["_error"] = error.args[0]
            else:
                taken += 1
        return taken

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
            before = self._delivery.acknowledgements
            reported = self._delivery.run()
            left = 0.0 if reported else max(0.0, deadline - time.monotonic())
            served = super().poll(min(left, _STEP))
            served -= self._delivery.acknowledgements - before
            total = max(0, served) + reported + self._delivery.run()
            if total or time.monotonic() >= deadline:
                return total

    def flush(self, timeout: float = -1) -> int:
        """Seal and send all that is buffered, and serve reports until none is outstanding.

        Blocks for at most `timeout` seconds, for ever when negative.

        Returns:
            How many records and messages are still outstanding.
        """
        if not self._buffers:
            return super().flush(timeout)
        deadline = _deadline(timeout)
        while True:
            self._accumulator.seal_all()
            self._sender.wake()
            left = max(0.0, min(_STEP, deadline - time.monotonic()))
            if not super().flush(left):
                self._sender.wait_progress(0.0 if not len(self) else min(left, 0.01))
            self._delivery.run()
            remaining = len(self)
            # Inside a report there is no end to wait for: the record it reports is outstanding.
            if not remaining or self._delivery.reporting or time.monotonic() >= deadline:
                return remaining

    def __len__(self) -> int:
        """Return the number of records and messages that are not yet reported."""
        inner = super().__len__()
        if not self._buffers:
            return inner
        return self._budget.records + max(0, inner - self._delivery.in_librdkafka)

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

        An exception of a report is raised when all of that is done.

        Raises:
            RuntimeError: called inside a delivery report.
        """
        if not self._buffers:
            return super().close()
        if self._delivery.reporting:
            raise RuntimeError("a producer cannot be closed inside a delivery report")
        self._accumulator.close()
        raised = self._flush_fully()
        self._sender.stop()
        self._unusable = RuntimeError("Producer has been closed")
        _live.discard(self)
        closed = super().close()
        if raised is not None:
            raise raised
        return closed

    def _flush_fully(self) -> Exception | None:
        """Flush until every report has run; return the first exception of a report."""
        raised: Exception | None = None
        while True:
            try:
                self.flush()
            except Exception as error:  # noqa: BLE001 - the reports after it have to run too
                raised = raised or error
            else:
                return raised

    def __enter__(self) -> Self:
        """Return this producer."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

    # --- transactions ---------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        """Begin a transaction; see confluent-kafka."""
        super().begin_transaction()
        self._in_transaction = True
        if self._buffers:
            self._failures_before = self._delivery.failures

    def commit_transaction(self, timeout: float = -1) -> None:
        """Send all that is buffered and commit; raise if any accepted record has failed.

        Raises:
            KafkaException: as confluent-kafka; with ``txn_requires_abort`` when a record failed,
                for what was consumed must not be committed without its output.
        """
        if self._buffers:
            deadline = _deadline(timeout)
            if self.flush(timeout):
                raise KafkaException(
                    KafkaError(
                        KafkaError._TIMED_OUT,
                        "records are still outstanding",
                        retriable=True,
                    )
                )
            failed = self._delivery.failures - self._failures_before
            if failed:
                raise KafkaException(
                    KafkaError(
                        KafkaError._FAIL,
                        f"{failed} of the transaction's records failed: see their reports",
                        txn_requires_abort=True,
                    )
                )
            timeout = -1 if timeout < 0 else max(0.0, deadline - time.monotonic())
        super().commit_transaction(timeout)
        self._in_transaction = False

    def abort_transaction(self, timeout: float = -1) -> None:
        """Give up what is buffered and abort; see confluent-kafka."""
        if self._buffers:
            self._sender.purge()
        super().abort_transaction(timeout)
        self._in_transaction = False
        if self._buffers:
            self._delivery.run()

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Commit what was consumed with the transaction; see confluent-kafka.

        With the group metadata of this package's `Consumer` these are positions; with a stock
        consumer's they are Kafka's own offsets.
        """
        if isinstance(group_metadata, GroupMetadata):
            positions = group_metadata.offsets(positions)
            group_metadata = group_metadata.inner
        super().send_offsets_to_transaction(positions, group_metadata, timeout)

    # --- guards ---------------------------------------------------------------------------------

    @property
    def _buffers(self) -> bool:
        """Whether there is a buffer of ours in front of librdkafka, and it may be used."""
        if isinstance(self._unusable, ForkError):
            raise self._unusable
        return self._settings.encoding != "none" and self._unusable is None

    def _check_usable(self) -> None:
        if self._unusable is not None:
            raise self._unusable

    def _abandon(self) -> None:
        """Drop the copy of the buffer that a forked child has: its parent sends it."""
        self._unusable = ForkError(
            "this producer was made before os.fork(); make one in the child process"
        )


def _callback(callback: Callback, on_delivery: Callback) -> dict[str, Any]:
    """Return the one that is given: beside a None confluent-kafka calls neither."""
    given = callback or on_delivery
    return {} if given is None else {"on_delivery": given}


def _checked(timestamp: Any, partition: int) -> int:
    """Return a timestamp that a column and a message can hold; later it would harm others."""
    number = operator.index(timestamp)
    if not (-_INT64 <= number < _INT64 and -_INT32 <= partition < _INT32):
        raise OverflowError(f"timestamp {timestamp} or partition {partition} is too large")
    if partition < -1:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
    return number


def _deadline(timeout: float) -> float:
    return float("inf") if timeout < 0 else time.monotonic() + timeout


def _flush_all() -> None:
    for producer in list(_live):
        error = producer._flush_fully()
        if error is not None:
            _log.error("a delivery report failed at exit", exc_info=error)


def _abandon_all() -> None:
    for producer in list(_live):
        producer._abandon()
    _live.clear()


atexit.register(_flush_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
