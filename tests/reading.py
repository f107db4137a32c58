"""Reads topics to their ends, for tests that check the stored records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, TopicPartition

from columnar_kafka import Consumer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def everything(
    servers: str,
    topic: str,
    *,
    cls: Any = Consumer,
    partitions: Collection[int] | None = None,
    retries: bool = False,
    **settings: Any,
) -> Iterator[Any]:
    """Yield all messages of a topic, or of some of its partitions, up to their ends.

    Messages of one partition come in the order of their offsets. This package's consumer yields
    records. An error other than a partition's end fails the test; with `retries` only an error that
    librdkafka does not retry.
    """
    config = {
        "bootstrap.servers": servers,
        "group.id": "reads everything",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    own = {"columnar.encoding": "parquet"} if issubclass(cls, Consumer) else {}
    with cls(config | own | settings) as consumer:
        if partitions is None:
            partitions = consumer.list_topics(topic, 60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        last: dict[int, int] = {}
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(200)
            assert message is not None, f"nothing more of {topic} within 200 s"
            error = message.error()
            if error is None:
                partition, offset = message.partition(), message.offset()
                assert offset > last.get(partition, -1), "the consumer went back"
                last[partition] = offset
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                assert retries, error
                assert error.retriable(), error


def numbers(servers: str, topic: str) -> list[int]:
    """Return the values of a topic's column `n`, sorted."""
    return sorted(message.value()["n"] for message in everything(servers, topic))
