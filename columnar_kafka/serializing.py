"""`confluent_kafka.SerializingProducer` and `DeserializingConsumer`, on this package's clients.

The segment format is itself the serialization of records' values. So serializers and deserializers
of values are called for plain messages only; those of keys are called for records too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import deserializing_consumer, serializing_producer
from confluent_kafka.error import KeyDeserializationError, KeySerializationError
from confluent_kafka.serialization import MessageField, SerializationContext

from columnar_kafka.consuming.consumer import Consumer
from columnar_kafka.producing.producer import Producer
from columnar_kafka.segment.headers import is_segment

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DeserializingConsumer", "SerializingProducer"]


class SerializingProducer(  # type: ignore[misc]  # confluent-kafka's produce has its own order
    serializing_producer.SerializingProducer[serializing_producer.K, serializing_producer.V],
    Producer,
):
    """`confluent_kafka.SerializingProducer`, and `set_schema`.

    On a topic with a schema ``value.serializer`` is not called: a value is a row, or it is bytes,
    str or None for a plain message. ``key.serializer`` is called on every topic.
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
        """Serialize the key, and the value of a topic without a schema; see `Producer.produce`.

        Raises:
            KeySerializationError, ValueSerializationError: a serializer raised an exception.
            RuntimeError, TypeError: as confluent-kafka, before a serializer is called.
            RowError, BufferError, KafkaException: as `Producer.produce`.
        """
        if self._closed or topic not in self._buffer.formats:
            super().produce(topic, key, value, partition, on_delivery, timestamp, headers)
            return
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
    deserializing_consumer.DeserializingConsumer[
        deserializing_consumer.K, deserializing_consumer.V
    ],
    Consumer,
):
    """`confluent_kafka.DeserializingConsumer`, on a `Consumer`.

    ``value.deserializer`` is called for plain messages only: not for records, and not for segments
    (with ``fetch.raw.bytes=true``). ``key.deserializer`` is called for every message.
    `consume` is not implemented, as in confluent-kafka.
    """

    _stock = deserializing_consumer.DeserializingConsumer

    def _deserialize(self, msg: confluent_kafka.Message[Any, Any]) -> Any:
        raw = self._settings.raw and is_segment(msg.headers())
        if not raw and not isinstance(msg.value(), dict):
            return super()._deserialize(msg)
        if self._key_deserializer is not None:
            topic = msg.topic() or ""
            try:
                key = self._key_deserializer(
                    msg.key(), SerializationContext(topic, MessageField.KEY, msg.headers())
                )
            except Exception as error:
                raise KeyDeserializationError(exception=error, kafka_message=msg) from error
            msg.set_key(key)
        return msg
