"""The stages between `Producer` and librdkafka, wired; what is produced comes in here."""

from __future__ import annotations

import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.producing.accumulator import Accumulator
from columnar_kafka.producing.arrow_batch import ArrowBatch
from columnar_kafka.producing.delivery import Delivery
from columnar_kafka.producing.in_flight import ArrowCall, PlainMessage
from columnar_kafka.producing.record_queue import RecordQueue
from columnar_kafka.producing.sender import Sender
from columnar_kafka.producing.topic_format import TopicFormat, TopicFormats
from columnar_kafka.producing.transaction import Transaction
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.columns.arrow_input import ArrowRows
    from columnar_kafka.producing.arrow_batch import Item
    from columnar_kafka.producing.batch import Metadata
    from columnar_kafka.producing.partitioner import Partitioner
    from columnar_kafka.producing.record_block import Callback
    from columnar_kafka.producing.settings import ProducerConfig

__all__ = ["Buffer", "Unbuffered"]

_TOPIC_CONFIG_TIMEOUT: Final = 5.0
_PLAIN_BYTES: Final = 200
"""The memory of a plain message's objects, in addition to its bytes."""


class Unbuffered:
    """Stands for the `Buffer` of a producer that is confluent-kafka's own."""

    unusable: Exception | None = None
    formats: Mapping[str, TopicFormat] = MappingProxyType({})


class Buffer:
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
        )
        self.delivery = Delivery(
            self.queue,
            sends_again=not settings.transactional,
            errors_only=settings.errors_only,
        )
        self.transaction = Transaction(self.delivery, required=settings.transactional)
        self.formats = TopicFormats(replace(settings, on_delivery=None))

    def connect(
        self, settings: ProducerConfig, broker: ProducerBroker, partitioner: Partitioner
    ) -> None:
        """Make the thread that sends what is buffered to `broker`; it is yet to be started."""
        self._broker = broker
        self.sender = Sender(
            queue=self.queue,
            accumulator=Accumulator(
                partitioner=partitioner,
                linger=settings.linger,
                message_timeout=settings.message_timeout,
                refresh=settings.metadata_refresh,
                propagation=settings.metadata_propagation,
                memory=settings.queue_bytes,
                records=settings.queue_records,
            ),
            broker=broker,
            delivery=self.delivery,
            message_timeout=settings.message_timeout,
        )

    def close(self) -> None:
        """Stop the sender's thread. Records that are still buffered are lost."""
        self.sender.stop()
        self.unusable = RuntimeError("Producer has been closed")

    def set_schema(self, topic: str, schema: Any) -> None:
        """See `Producer.set_schema`."""
        records = RecordSchema.parse(schema)
        config = self._broker.limits(topic, _TOPIC_CONFIG_TIMEOUT)
        self.formats.set_schema(topic, records, config, self._announce)

    def _announce(self, topic_format: TopicFormat) -> None:
        self._accept(topic_format, 0, 0)

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
        nbytes = sum(column.nbytes for column in rows)
        batch = ArrowBatch(topic_format, partition, rows, call, time.monotonic(), nbytes)
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
