"""confluent-kafka's clients produce and consume, on any of the local servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from support import eventually

if TYPE_CHECKING:
    from columnar_kafka.local.base import KafkaServers


def send(servers: KafkaServers, topic: str, value: bytes) -> None:
    """Produce one value with acks=all; an AssertionError tells why it was not stored."""
    errors: list[object] = []
    with Producer({"bootstrap.servers": servers.bootstrap_servers, "log_level": 0}) as producer:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        producer.flush(120)
    assert errors == [None]


def receive(servers: KafkaServers, topic: str, count: int) -> list[bytes | None]:
    """The values of the topic's first messages."""
    config = {
        "bootstrap.servers": servers.bootstrap_servers,
        "group.id": "test",
        "log_level": 0,
    }
    messages: list[Message] = []

    def all_there() -> bool:
        messages.extend(consumer.consume(count, 0.2))
        return len(messages) >= count

    with Consumer(config) as consumer:
        partitions = consumer.list_topics(topic, timeout=120).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        eventually(all_there)
    return [message.value() for message in messages]
