"""The stages between `Producer` and librdkafka, wired; what is produced comes in here."""

from __future__ import annotations

import time
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka import native
from columnar_kafka.producing.accepting.record_queue import RecordQueue
from columnar_kafka.producing.engine.native import NativeBatch
from columnar_kafka.producing.reporting.arrow_call import ArrowCall
from columnar_kafka.producing.reporting.delivery import Delivery
from columnar_kafka.producing.reporting.stats import ProducerStats
from columnar_kafka.producing.sending.accumulator import Accumulator
from columnar_kafka.producing.sending.arrow_batch import ArrowBatch
from columnar_kafka.producing.sending.messages import PlainMessage
from columnar_kafka.producing.sending.sender import Sender
from columnar_kafka.producing.topic_formats import TopicFormat, TopicFormats
from columnar_kafka.producing.transaction import Transaction
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.columns.from_arrow.arrow_input import ArrowRows
    from columnar_kafka.native import _core as core
    from columnar_kafka.native._core import OpenBatches
    from columnar_kafka.producing.engine.pure import AcceptedRecord, Metadata
    from columnar_kafka.producing.partitioner import Partitioner
    from columnar_kafka.producing.reporting.report import Callback
    from columnar_kafka.producing.sending.arrow_batch import Item
    from columnar_kafka.producing.settings import ProducerConfig

__all__ = ["NoPipeline", "Pipeline"]

_TOPIC_CONFIG_TIMEOUT: Final = 5.0
_PLAIN_BYTES: Final = 200
"""The memory of a plain message's objects, in addition to its bytes."""


class NoPipeline:
    """Stands for the `Pipeline` of a producer that is confluent-kafka's own."""

    unusable: Exception | None = None
    formats: Mapping[str, TopicFormat] = MappingProxyType({})

    def close(self) -> None:
        """Do nothing: there is no thread."""

    def end(self, error: Exception) -> None:
        """Do nothing: confluent-kafka's producer refuses nothing."""


class Pipeline:
    """Wires the stages. Any thread may call it, but for `connect` and the transaction's methods.

    Nothing here refers to the producer or to its callback: `lifecycle` keeps it.
    """

    def __init__(self, settings: ProducerConfig) -> None:
        self.unusable: Exception | None = None
        """What every use of the producer raises, once it is closed or a forked child's copy."""
        self.queue = RecordQueue(
            limit_bytes=settings.queue_bytes,
            limit_records=settings.queue_records,
            segment_rows=settings.segment_rows,
            linger=settings.linger,
        )
        self.open_batches: OpenBatches | None = None
        self.delivery = Delivery(
            self.queue,
            sends_again=not settings.transactional,
            errors_only=settings.errors_only,
        )
        self.transaction = Transaction(self.delivery, required=settings.transactional)
        self.formats = TopicFormats(settings._replace(on_delivery=None), self.queue.lock)

    def connect(
        self, settings: ProducerConfig, broker: ProducerBroker, partitioner: Partitioner
    ) -> None:
        """Make the thread that sends what is buffered to `broker`; it is yet to be started."""
        self._broker = broker
        self._accumulator = Accumulator(
            partitioner=partitioner,
            linger=settings.linger,
            message_timeout=settings.message_timeout,
            refresh=settings.metadata_refresh,
            propagation=settings.metadata_propagation,
            memory=settings.queue_bytes,
            records=settings.queue_records,
        )
        self.sender = Sender(
            queue=self.queue,
            accumulator=self._accumulator,
            broker=broker,
            delivery=self.delivery,
            message_timeout=settings.message_timeout,
            partitions_known=self._partitions_known,
        )
        if native.enabled:
            self.open_batches = native.core.OpenBatches(
                self.queue.usage,
                settings.partitioner,
                self._filled,
                self._open,
                settings.on_delivery,
            )

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
        )

    def close(self) -> None:
        """Stop the sender's thread. Records that are still buffered are lost."""
        self.sender.stop()
        self.end(RuntimeError("Producer has been closed"))

    def end(self, error: Exception) -> None:
        """Raise `error` at every use from now on."""
        self.unusable = error
        self.queue.usage.stop()

    def set_schema(self, topic: str, schema: Any) -> None:
        """See `Producer.set_schema`."""
        records = RecordSchema.parse(schema)
        config = self._broker.limits(topic, _TOPIC_CONFIG_TIMEOUT)
        self.formats.set_schema(topic, records, config, self._announce)
        if config.partitions is not None:
            self._partitions_known(topic, config.partitions)

    def _announce(self, topic_format: TopicFormat) -> None:
        self._accept(topic_format, 0, 0)

    def _partitions_known(self, topic: str, partitions: int) -> None:
        """Let the native core append a topic's records."""
        topic_format = self.formats.get(topic)
        if self.open_batches is None or topic_format is None or topic_format.row_format is None:
            return
        members = topic_format.kafka.members
        self.open_batches.set_topic(
            topic,
            partitions,
            row_format=topic_format.row_format,
            stores_keys="key" in members,
            stores_headers="headers" in members,
        )

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
        now = time.monotonic()
        record = (topic_format, partition, values, metadata, nbytes, now)
        try:
            appended = self.open_batches is not None and self._append(self.open_batches, record)
            if not appended and self.queue.put(record, nbytes, now):
                self.sender.wake()
        except BaseException:  # there is no room; or a signal's, and the record may be in already
            self.sender.wake()
            raise
        if self.open_batches is not None and not self.queue.usage.accepts:
            self._accept_natively()

    def _accept_natively(self) -> None:
        """Let the native core accept records itself, if nothing speaks against it now."""
        stops = self.queue.usage.stops
        if self.unusable is None and self.queue.accepts and self.transaction.accepts:
            self.queue.usage.resume(stops)  # unless something has changed meanwhile

    def _append(self, opened: OpenBatches, record: AcceptedRecord) -> bool:
        """Append a record to an open batch of the native core's; False: it is to be queued."""
        topic_format, partition, values, (key, *_), *_ = record
        topic, row_format = topic_format.topic, topic_format.row_format
        if row_format is None:
            return False
        place = opened.place(topic, partition, key, row_format)
        if place is None:
            return False
        if self._append_at(opened, place, record, values):
            return True
        # The queue's lock is not held here: it may be the user's code.
        builtin = topic_format.columns.builtin(values)
        if self._append_at(opened, place, record, builtin):
            return True
        opened.close(topic, place, None)  # the records after it stay behind it
        return False

    def _append_at(
        self, opened: OpenBatches, place: int, record: AcceptedRecord, values: tuple[Any, ...]
    ) -> bool:
        """Append a record with these values to a partition's open batch, if the core takes them.

        Raises:
            BufferError, KafkaException, RuntimeError: as `RecordQueue.put`.
        """
        topic_format, partition, _, (key, timestamp, headers, callback), nbytes, now = record
        with self.queue.lock:
            self.queue.check(nbytes, 1)
            batch = self._open_batch(opened, topic_format, place, now)
            if batch is None:
                return False
            taken = batch.append(
                values, key, timestamp, headers, callback, self.queue.usage, partition >= 0
            )
        if taken and batch.is_full:
            self._filled(topic_format.topic, place)
        return taken

    def _open_batch(
        self, opened: OpenBatches, topic_format: TopicFormat, partition: int, now: float
    ) -> core.Batch | None:
        """Return the open batch of a partition; a new one wakes a sender that would sleep too long.

        It wakes before the first record is in: that one may be refused, and later ones wake nobody.
        The result is None if the topic has another schema or fewer partitions by now. The caller
        holds the queue's lock.
        """
        topic = topic_format.topic
        batch = opened.batch(topic, partition)
        if batch is not None:
            return batch
        max_bytes = self._accumulator.max_bytes(topic_format)
        item = NativeBatch(topic_format, partition, now, max_bytes=max_bytes)
        place = partial(opened.open, topic, partition, item.records, item)
        try:
            wakes = self.queue.open(place, now)
            if wakes:
                self.sender.wake()
        except BaseException:  # a signal's: the batch may be open already
            self.sender.wake()
            raise
        return None if wakes is None else item.records

    def _open(self, topic: str, partition: int) -> bool:
        """Open a batch for the native core; False if a record has to be looked at by Python."""
        opened, topic_format = self.open_batches, self.formats[topic]
        if opened is None or topic_format.row_format is None:
            return False
        with self.queue.lock:
            place = opened.place(topic, partition, None, topic_format.row_format)
            if place is None or not self.queue.accepts:
                return False
            return self._open_batch(opened, topic_format, place, time.monotonic()) is not None

    def _filled(self, topic: str, partition: int) -> None:
        """Have the sender look: a native batch is full, or half of a bound is used."""
        self.queue.batch_filled(topic, partition)
        self.sender.wake()

    def accept_plain(
        self,
        topic_format: TopicFormat,
        partition: int,
        value: str | bytes | None,
        metadata: Metadata,
        nbytes: int,
    ) -> None:
        """Accept a plain message to a topic with a schema; `nbytes` are those of key and headers.

        Raises:
            BufferError, KafkaException, RuntimeError: as `RecordQueue.put`.
        """
        data = value.encode() if isinstance(value, str) else value
        pinned = partition >= 0
        if self.open_batches is not None:
            # The records after it go to another batch.
            partition = self.open_batches.close(topic_format.topic, partition, metadata[0])
        nbytes += len(data or b"") + _PLAIN_BYTES
        key, timestamp, headers, callback = metadata
        plain = PlainMessage(
            topic=topic_format.topic,
            partition=partition,
            value=data,
            key=key,
            timestamp=timestamp,
            headers=headers,
            callback=callback,
            accepted_at=time.monotonic(),
            charged_bytes=nbytes,
            limits=topic_format.limits,
            pinned=pinned,
        )
        self._accept(plain, nbytes, 1)

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
        if self.open_batches is not None:
            self.open_batches.close_all(topic_format.topic)
        nbytes = sum(column.nbytes for column in rows)
        now, pinned = time.monotonic(), partition >= 0
        batch = ArrowBatch(topic_format, partition, rows, call, now, nbytes, pinned)
        self._accept(batch, nbytes, count)

    def _accept(self, item: Item, nbytes: int, records: int) -> None:
        """Queue what is no row; the sender takes it over at once."""
        try:
            self.queue.put(item, nbytes, 0.0, records, urgent=True)
        finally:
            self.sender.wake()  # if there is no room, to make some

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
