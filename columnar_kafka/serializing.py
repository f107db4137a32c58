"""`confluent_kafka.SerializingProducer` and `DeserializingConsumer`, on this package's clients.

The segment format is itself the serialization of records' values. So serializers and deserializers
of values are called for plain messages only, and where records' values are bytes
(``columnar.value.format=json`` or ``avro``); those of keys are called for records too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from confluent_kafka import deserializing_consumer, serializing_producer
from confluent_kafka.error import (
    ConsumeError,
    KeyDeserializationError,
    KeySerializationError,
    ValueDeserializationError,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from columnar_kafka.consuming.consumer import Consumer
from columnar_kafka.producing.producer import Producer
from columnar_kafka.segment.headers import is_segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")  # confluent-kafka has its own from 2.16 on
    V = TypeVar("V")

__all__ = ["DeserializingConsumer", "SerializingProducer"]


class SerializingProducer(  # type: ignore[misc]  # confluent-kafka's produce has its own order
    serializing_producer.SerializingProducer,
    Producer,
    Generic[K, V],
):
    """`confluent_kafka.SerializingProducer`, and `set_schema`.

    On a topic with a schema ``value.serializer`` is not called: a value is a row, or it is bytes,
    str or None for a plain message. If the topic's values are JSON or Avro, it is called, for it
    makes them. ``key.serializer`` is called on every topic.
    """

    _stock = serializing_producer.SerializingProducer

    def produce(  # type: ignore[override]  # as above
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: Callable[..., Any] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Serialize the key, and a value that is no row for its topic; see `Producer.produce`.

        Raises:
            KeySerializationError, ValueSerializationError: a serializer raised an exception.
            RuntimeError, TypeError: as confluent-kafka, before a serializer is called.
            RowError, BufferError, KafkaException: as `Producer.produce`.
        """
        topic_format = self._pipeline.formats.get(topic)
        if topic_format is None or topic_format.values is not None:
            super().produce(topic, key, value, partition, on_delivery, timestamp, headers)
            return
        self._check_usable()
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(
                    key, SerializationContext(topic, MessageField.KEY, headers)
                )
            except Exception as error:
                raise KeySerializationError(error) from error
        super(serializing_producer.SerializingProducer, self).produce(
            topic,
            value=value,
            key=key,
            partition=partition,
            on_delivery=on_delivery,
            timestamp=timestamp,
            headers=headers,
        )


class DeserializingConsumer(  # type: ignore[misc]  # confluent-kafka has no `consume` here
    deserializing_consumer.DeserializingConsumer,
    Consumer,
    Generic[K, V],
):
    """`confluent_kafka.DeserializingConsumer`, on a `Consumer`.

    ``value.deserializer`` is called for plain messages, and for records whose values are bytes
    (``columnar.value.format=json`` or ``avro``): not for rows, and not for segments (with
    ``fetch.raw.bytes=true``). ``key.deserializer`` is called for every message.
    `consume` is not implemented, as in confluent-kafka.
    """

    _stock = deserializing_consumer.DeserializingConsumer

    def poll(self, timeout: float = -1) -> Message[K, V] | None:  # type: ignore[override]
        """Return the next message or record, deserialized; None if `timeout` seconds have passed.

        Raises:
            KeyDeserializationError, ValueDeserializationError: a deserializer has failed.
            ConsumeError: an error event, or a segment that cannot be read.
            KafkaException, RuntimeError: as `Consumer.poll`.
        """
        message: Any = super(deserializing_consumer.DeserializingConsumer, self).poll(timeout)
        if message is None:
            return None
        if (error := message.error()) is not None:
            raise ConsumeError(error, kafka_message=message)
        self._deserialize_in_place(message)
        return message  # type: ignore[no-any-return]

    def _deserialize_in_place(self, message: Message[Any, Any]) -> None:
        is_segment_or_record = isinstance(message.value(), dict) or (
            self._settings.raw and is_segment(message.headers())
        )
        value_deserializer = None if is_segment_or_record else self._value_deserializer
        if self._key_deserializer is None and value_deserializer is None:
            return
        key, value = message.key(), message.value()
        context = SerializationContext(message.topic() or "", MessageField.KEY, message.headers())
        if self._key_deserializer is not None:
            try:
                key = self._key_deserializer(key, context)
            except Exception as error:
                raise KeyDeserializationError(exception=error, kafka_message=message) from error
        if value_deserializer is not None:
            context.field = MessageField.VALUE
            try:
                value = value_deserializer(value, context)
            except Exception as error:
                raise ValueDeserializationError(exception=error, kafka_message=message) from error
            message.set_value(value)
        message.set_key(key)
