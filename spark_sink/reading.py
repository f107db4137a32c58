"""Reads a range of offsets from Kafka. In Spark's workers, which keep their consumers."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka.broker.client_classes import StockConsumer
from spark_sink.planning import lost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Message

    from spark_sink.planning import OffsetRange

__all__ = ["message_batch", "read"]

_BATCH_BYTES: Final = 8 << 20
"""Values move from Python to Spark fastest in batches of about this size."""
_AT_ONCE: Final = 100
"""The most messages that are taken from librdkafka's queue at once, which bounds their bytes."""
_KEPT: Final = 4
"""The most consumers that a worker keeps, one for each configuration: queries come and go."""
_TIMEOUT: Final = 30.0

_kept: OrderedDict[frozenset[tuple[str, Any]], StockConsumer] = OrderedDict()


def read(
    offsets: OffsetRange, config: Mapping[str, Any], *, poll_timeout: float, fail_on_data_loss: bool
) -> Iterator[list[Message]]:
    """Yield the messages of a range, in lists of about 8 MiB. Blocks for Kafka.

    Transactions and compaction leave gaps in the offsets: a range ends at its last offset or at the
    partition's end.

    Raises:
        KafkaException: Kafka cannot be read, or `poll_timeout` seconds passed without a message.
        ColumnarError: messages of the range are gone, unless `fail_on_data_loss` is off.
    """
    with _consumer(config) as consumer:
        batch: list[Message] = []
        nbytes = 0
        for message in _messages(consumer, offsets, poll_timeout, fail_on_data_loss):
            batch.append(message)
            nbytes += len(message.value() or b"")
            if nbytes >= _BATCH_BYTES:
                yield batch
                batch, nbytes = [], 0
        if batch:
            yield batch


def _messages(
    consumer: StockConsumer, offsets: OffsetRange, poll_timeout: float, fail: bool
) -> Iterator[Message]:
    topic, partition, start, end, *_ = offsets
    consumer.assign([TopicPartition(topic, partition, start)])
    following = start
    while following < end:
        first = consumer.poll(poll_timeout)
        if first is None:
            reason = f"{offsets}: no message for {poll_timeout} s"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
        for message in (first, *consumer.consume(_AT_ONCE, 0)):
            error, at = message.error(), message.offset()
            if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                following = _skip(consumer, offsets, following, fail=fail)
                break  # what else was taken is of before
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            assert at is not None
            if error is None and at < end:
                yield message
            following = max(following, at + (error is None))


def _skip(consumer: StockConsumer, offsets: OffsetRange, following: int, *, fail: bool) -> int:
    """Go on where the partition begins now; return that offset, or the range's end."""
    topic, partition, _, end, *_ = offsets
    place = TopicPartition(topic, partition)
    first, last = consumer.get_watermark_offsets(place, _TIMEOUT)
    lost(
        f"{offsets}: offset {following} is not there: Kafka has {first} to {last - 1} "
        "(deleted by retention? then consider a longer retention.ms)",
        fail=fail,
    )
    if not following < first < end:
        return end
    place.offset = first
    consumer.assign([place])
    return first


@contextmanager
def _consumer(config: Mapping[str, Any]) -> Iterator[StockConsumer]:
    """Lend this process's consumer with this configuration; it is kept unless an error occurs."""
    key = frozenset(config.items())
    consumer = _kept.pop(key, None) or StockConsumer(
        {
            "isolation.level": "read_committed",
            # What a range has is there already. A request that waits for more at the partition's
            # end would hold up the next range: 0.5 s by default. A full queue is emptied at once,
            # and by default librdkafka looks again after a second.
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 50,
            **config,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        yield consumer
        consumer.unassign()
    except BaseException:  # also where the task needs no more rows
        consumer.close()
        raise
    _kept[key] = consumer
    while len(_kept) > _KEPT:
        _kept.popitem(last=False)[1].close()


def message_batch(
    messages: list[Message], offsets: OffsetRange, schema: pa.Schema
) -> pa.RecordBatch:
    """Return messages as rows with the columns of Spark's own source, and the topic's ids."""
    columns: dict[str, list[Any]] = {
        "key": [each.key() for each in messages],
        "value": [each.value() for each in messages],
        "topic": [each.topic() for each in messages],
        "partition": [each.partition() for each in messages],
        "offset": [each.offset() for each in messages],
        "timestamp": [each.timestamp()[1] * 1000 for each in messages],
        # Spark counts from 0 what librdkafka counts from 1.
        "timestampType": [each.timestamp()[0] - 1 for each in messages],
        "headers": [_headers(each) for each in messages],
        "cluster_id": [offsets.cluster_id] * len(messages),
        "topic_id": [offsets.topic_id] * len(messages),
    }
    arrays = [pa.array(columns[each.name], type=each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(message: Message) -> list[dict[str, Any]] | None:
    headers = message.headers()
    if headers is None:
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [{"key": key, "value": value} for key, value in pairs]
