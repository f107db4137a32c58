"""The stages between `Producer` and librdkafka, wired; what is produced comes in here."""

from __future__ import annotations

import time
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.config import VALUE_FORMATS, choice
from columnar_kafka.errors import ConfigError, RowError, SchemaError
from columnar_kafka.producing import lazy_values
from columnar_kafka.producing.accepting.given_value import given_row
from columnar_kafka.producing.accepting.record import NewFormat
from columnar_kafka.producing.accepting.record_queue import RecordQueue
from columnar_kafka.producing.inferring import SAMPLE, Inferring
from columnar_kafka.producing.reporting.arrow_call import ArrowCall
from columnar_kafka.producing.reporting.delivery import Delivery
from columnar_kafka.producing.reporting.stats import ProducerStats
from columnar_kafka.producing.sending.accumulator import Accumulator
from columnar_kafka.producing.sending.arrow_batch import ArrowBatch
from columnar_kafka.producing.sending.messages import PlainMessage
from columnar_kafka.producing.sending.sender import Sender
from columnar_kafka.producing.sending.unsettled import UNSETTLED_BYTES, UnsettledValue
from columnar_kafka.producing.topic_formats import TopicFormats
from columnar_kafka.producing.transaction import Transaction
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.columns.from_arrow.arrow_input import ArrowRows
    from columnar_kafka.plain.registering import Registration
    from columnar_kafka.producing.accepting.item import Item
    from columnar_kafka.producing.engine.base import Metadata, TopicFormat
    from columnar_kafka.producing.partitioner import Partitioner
    from columnar_kafka.producing.reporting.report import Callback
    from columnar_kafka.producing.settings import ProducerConfig

__all__ = ["NoPipeline", "Pipeline"]

_TOPIC_CONFIG_TIMEOUT: Final = 5.0
_PLAIN_BYTES: Final = 200
"""The memory of a plain message's objects, in addition to its bytes."""


class NoPipeline:
    """Stands for the `Pipeline` of a producer that is confluent-kafka's own."""

    unusable: Exception | None = None
    formats: Mapping[str, TopicFormat] = MappingProxyType({})

    def format_of(self, topic: str) -> None:
        """Return None: it has no schemas."""

    def set_schema(self, *_: Any, **__: Any) -> None:
        """Refuse it. Raises ConfigError."""
        reason = "columnar.encoding=none: a schema would have no effect; "
        raise ConfigError(reason + "configure columnar.encoding=parquet")

    def close(self) -> None:
        """Do nothing: there is no thread."""

    def end(self, error: Exception) -> None:
        """Do nothing: confluent-kafka's producer refuses nothing."""


class Pipeline:
    """Wires the stages. Any thread may call it, but for `connect` and the transaction's methods.

    Nothing here refers to the producer or to its callback: `lifecycle` keeps it.
    """

    def __init__(self, settings: ProducerConfig, partitioner: Partitioner) -> None:
        self.unusable: Exception | None = None
        """What every use of the producer raises, once it is closed or a forked child's copy."""
        self.queue = RecordQueue(
            limit_bytes=settings.queue_bytes,
            limit_records=settings.queue_records,
            linger=settings.linger,
            partitioner=partitioner,
            on_delivery=settings.on_delivery,
        )
        self._partitioner = partitioner
        self.delivery = Delivery(
            self.queue,
            sends_again=not settings.transactional,
            errors_only=settings.errors_only,
        )
        self.transaction = Transaction(self.delivery, required=settings.transactional)
        settings = settings._replace(on_delivery=None)
        self.formats = TopicFormats(settings, self.queue.lock)
        self.inferring = Inferring(self.formats, settings, self._announce)

    def connect(self, settings: ProducerConfig, broker: ProducerBroker) -> None:
        """Make the thread that sends what is buffered to `broker`; it is yet to be started.

        Raises:
            SchemaError, TypeError: a schema of the settings cannot be its topic's.
        """
        self._broker = broker
        accumulator = Accumulator(
            queue=self.queue,
            partitioner=self._partitioner,
            linger=settings.linger,
            message_timeout=settings.message_timeout,
            refresh=settings.metadata_refresh,
            propagation=settings.metadata_propagation,
            memory=settings.queue_bytes,
            records=settings.queue_records,
            sample=SAMPLE,
        )
        self.sender = Sender(
            queue=self.queue,
            accumulator=accumulator,
            broker=broker,
            delivery=self.delivery,
            message_timeout=settings.message_timeout,
            inferring=self.inferring,
        )
        for topic, schema in settings.schemas.items():
            self.set_schema(topic, schema, None)

    def format_of(self, topic: Any) -> TopicFormat | None:
        """Return a topic's format; None: its messages are confluent-kafka's."""
        if not isinstance(topic, str):
            return None  # what is no text is confluent-kafka's to refuse
        return self.formats.get(topic) or self.inferring.begun(topic)

    def stats(self) -> ProducerStats:
        """Return what has been sent, and what waits. For any thread; takes no lock."""
        segments, segment_records, segment_nbytes = self.delivery.stored
        return ProducerStats(
            records=self.queue.records,
            nbytes=self.queue.used_bytes,
            max_nbytes=self.queue.limit_bytes,
            in_flight=self.delivery.in_librdkafka,
            segments=segments,
            segment_records=segment_records,
            segment_nbytes=segment_nbytes,
            failed_records=self.delivery.failures,
            misfits=self.formats.misfits.count,
        )

    def close(self) -> None:
        """Stop the sender's thread. Records that are still buffered are lost."""
        self.sender.stop()
        self.end(RuntimeError("Producer has been closed"))

    def end(self, error: Exception) -> None:
        """Raise `error` at every use from now on."""
        self.unusable = error
        self.queue.usage.stop()

    def set_schema(
        self,
        topic: str,
        schema: Any,
        value_format: str | None,
        registry: Any = None,
        subject: str | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """See `Producer.set_schema`."""
        if not isinstance(topic, str):
            raise TypeError(f"a topic's name is a str, not {type(topic).__name__}")
        if value_format is not None:
            choice(*VALUE_FORMATS)("value_format", value_format)
        if registry is not None:
            registration = self._registries.registration(registry, topic, schema, subject, conf)
            self._set_registered(topic, registration, value_format)
            return
        for name, value in ("subject", subject), ("conf", conf):
            if value is not None:
                raise ConfigError(f"{name} is for a schema in a registry: pass registry")
        records = RecordSchema.parse(schema)
        config = self._broker.limits(topic, _TOPIC_CONFIG_TIMEOUT)
        self.formats.set_schema(topic, records, config, self._announce, value_format, schema)

    @cached_property
    def _registries(self) -> lazy_values.Registries:
        return lazy_values.Registries()

    def _set_registered(
        self, topic: str, registration: Registration, value_format: str | None
    ) -> None:
        """Set a schema that a registry has; what we would refuse is not registered."""
        given = registration.described()
        config = self._broker.limits(topic, _TOPIC_CONFIG_TIMEOUT)
        if given is not None:
            try:
                self.formats.check(topic, given.records, config, value_format, given.avro)
            except SchemaError as error:
                raise SchemaError(f"{error.reason} (the registry was not asked)") from error
        records, avro, number = registration.registered()
        self.formats.set_schema(
            topic, records, config, self._announce, value_format, avro, schema_id=number
        )

    def _announce(self, topic_format: TopicFormat) -> None:
        self._accept(NewFormat(topic_format), 0, 0)

    def accept_row(
        self,
        topic_format: TopicFormat,
        partition: int,
        values: tuple[Any, ...],
        metadata: Metadata,
        nbytes: int,
    ) -> None:
        """Accept a record, whose `values` `RowColumns.take` has returned.

        Raises:
            BufferError, KafkaException, RuntimeError: as `RecordQueue.put`.
        """
        queue = self.queue
        queue.accept(topic_format, partition, values, metadata, nbytes, time.monotonic())
        if not queue.usage.accepts:
            self._accept_unchecked()

    def _accept_unchecked(self) -> None:
        """Let records be accepted unchecked again, unless a transaction or the end forbids it."""
        stops = self.queue.usage.stops
        if self.unusable is None and self.queue.accepts and self.transaction.accepts:
            self.queue.usage.resume(stops)  # unless something has changed meanwhile

    def accept_value(
        self, topic_format: TopicFormat, partition: int, value: Any, metadata: Metadata, nbytes: int
    ) -> None:
        """Accept a value that is no row: one in the topic's format as a record, others as they are.

        Args:
            topic_format: the topic's.
            partition: where to, or -1.
            value: of one of its `texts`, or None.
            metadata: the record's.
            nbytes: those of key and headers.

        Raises:
            RowError: it does not fit the schema, and is not to be sent as it is.
            BufferError, KafkaException, RuntimeError: as `RecordQueue.put`.
        """
        if isinstance(value, bytearray | memoryview):
            value = bytes(value)
        data = value.encode() if isinstance(value, str) else value
        misfits = topic_format.misfits
        if topic_format.awaits_schema:
            self._accept_unsettled(topic_format, partition, data, metadata, nbytes)
            return
        if data is None or topic_format.values is None or misfits is None:
            self._accept_plain(topic_format, partition, data, metadata, nbytes)
            return
        read = partial(given_row, topic_format, data, metadata)
        try:
            values, metadata, more = read()
        except RowError as error:
            raise_if_once(error, read)  # or it is a handler's that has interrupted the reader
            if not misfits.are_sent:
                raise
            self._accept_plain(topic_format, partition, data, metadata, nbytes)
            if (log := misfits.add(topic_format.topic, error.reason)) is not None:
                log()
            return
        self.accept_row(topic_format, partition, values, metadata, nbytes + more)

    def _accept_plain(
        self,
        topic_format: TopicFormat,
        partition: int,
        data: bytes | None,
        metadata: Metadata,
        nbytes: int,
    ) -> None:
        """Accept a plain message to a topic with a schema."""
        nbytes += len(data or b"") + _PLAIN_BYTES
        now = time.monotonic()
        plain = PlainMessage.of(topic_format, partition, data, metadata, nbytes, now)
        self._accept(plain, nbytes, 1)

    def _accept_unsettled(
        self,
        topic_format: TopicFormat,
        partition: int,
        data: bytes | None,
        metadata: Metadata,
        nbytes: int,
    ) -> None:
        """Accept a value whose topic's schema is not known yet."""
        nbytes += len(data or b"") + UNSETTLED_BYTES
        now = time.monotonic()
        value = UnsettledValue(topic_format, partition, data, metadata, nbytes, now)
        self.queue.put(value, nbytes, now)
        if self.inferring.counts(topic_format) or self.queue.usage.is_half_used:
            self.queue.wake()

    def accept_arrow(
        self, topic_format: TopicFormat, partition: int, rows: ArrowRows, callback: Callback
    ) -> None:
        """Accept the rows of one `produce_arrow`; without any, its report is due at once.

        Raises:
            BufferError, KafkaException, RuntimeError: as `RecordQueue.put`.
        """
        count = rows.columns.num_rows
        call = ArrowCall(topic_format.topic, count, callback)
        if not count:
            self.delivery.empty_call(call)
            return
        if topic_format.has_rest:
            rest = topic_format.records.arrow.field(-1)
            columns = rows.columns.append_column(rest, pa.nulls(count, rest.type))
            rows = rows._replace(columns=columns)
        nbytes = sum(column.nbytes for column in rows)
        now, pinned = time.monotonic(), partition >= 0
        batch = ArrowBatch(topic_format, partition, rows, call, now, nbytes, pinned)
        self._accept(batch, nbytes, count)

    def _accept(self, item: Item, nbytes: int, records: int) -> None:
        """Queue what is no row; the sender takes it over at once."""
        self.queue.put(item, nbytes, 0.0, records, urgent=True)

    # --- transactions ---------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        """Note that a transaction has begun, and accept records."""
        self.sender.collect()  # what failed until now was not this transaction's
        self.transaction.began()
        self.queue.resume()

    def give_up(self) -> None:
        """Refuse records until the next transaction, and give up those of this one."""
        self.queue.suspend()
        self.sender.purge()
