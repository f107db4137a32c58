"""The first messages of a topic, from which a schema is guessed."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.config import Hidden
from columnar_kafka.errors import LakeError
from columnar_kafka.ingest.reader import source_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from columnar_kafka.lake.model import SourceMessage

__all__ = ["sampled_messages", "sampled_values"]

_TIMEOUT: Final = 60.0
_SETTINGS: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
}


def sampled_values(config: Mapping[str, Any], topic: str, count: int) -> Iterator[bytes]:
    """Yield the values of the first `count` plain messages of each partition, one after another.

    Segments and tombstones are passed over, however many. Otherwise as `sampled_messages`.
    """
    for message in _sampled(config, topic, count, _has_plain_value):
        assert message.value is not None
        yield bytes(message.value)


def sampled_messages(config: Mapping[str, Any], topic: str, count: int) -> Iterator[SourceMessage]:
    """Yield the first `count` messages of each partition, one partition after another.

    Nothing is committed. Blocks while it reads.

    Raises:
        LakeError: there is no such topic, or no message comes for a minute.
        KafkaException: Kafka cannot be read.
    """
    return _sampled(config, topic, count, lambda _: True)


def _has_plain_value(message: SourceMessage) -> bool:
    return message.is_plain and message.value is not None


def _sampled(
    config: Mapping[str, Any], topic: str, count: int, counts: Callable[[SourceMessage], bool]
) -> Iterator[SourceMessage]:
    group = {"group.id": f"columnar-kafka-infer-{topic}"}  # which librdkafka wants, and nobody uses
    with closing(StockConsumer(Hidden({**group, **config, **_SETTINGS}))) as consumer:
        described = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        if described.error is not None:
            raise LakeError(f"topic {topic!r}: {described.error.str()}")
        for number in sorted(described.partitions):
            messages = filter(counts, _messages(consumer, TopicPartition(topic, number, 0)))
            yield from itertools.islice(messages, count)


def _messages(consumer: StockConsumer, start: TopicPartition) -> Iterator[SourceMessage]:
    consumer.assign([start])
    while True:
        polled = consumer.poll(_TIMEOUT)
        if polled is None:
            raise LakeError(f"{start.topic}[{start.partition}]: no message came for {_TIMEOUT:g} s")
        if (error := polled.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return
            raise KafkaException(error)
        yield source_message(polled)
