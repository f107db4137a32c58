"""Reads ranges of offsets from Kafka. In Spark's workers, which keep their consumers."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.config import Hidden
from spark_sink.client_cache import cached_client

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping

    from confluent_kafka import Message

    from spark_sink.reading.planning import OffsetRange

__all__ = ["gathered", "message_batch", "read"]

_BATCH_BYTES: Final = 8 << 20
"""Values move from Python to Spark fastest in batches of about this size."""
_AT_ONCE: Final = 100
"""The most messages that are taken from librdkafka's queue at once, which bounds their bytes."""
_TIMEOUT: Final = 30.0
_EVENTS: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError._PARTITION_EOF)

consumers: OrderedDict[Hashable, StockConsumer] = OrderedDict()


def read(
    ranges: Iterable[OffsetRange],
    config: Mapping[str, Any],
    *,
    poll_timeout: float,
    lost: Callable[[str], None],
) -> Generator[Message, None, None]:
    """Yield the messages of ranges, which are read together. Blocks for Kafka.

    Those of one partition come in order. Transactions and compaction leave gaps in the offsets: a
    range ends at its last offset or at the partition's end.

    Args:
        ranges: the ranges, of different partitions.
        config: the consumer's.
        poll_timeout: the seconds after which Kafka counts as silent.
        lost: is told of messages that are gone; raises, or they are skipped.

    Raises:
        KafkaException: Kafka cannot be read, or `poll_timeout` seconds passed without a message.
        Exception: whatever `lost` raises.
    """
    with _consumer(config) as consumer:
        yield from _Assignment(consumer, ranges, lost).messages(poll_timeout)


def gathered(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield messages in lists of about 8 MiB."""
    batch: list[Message] = []
    nbytes = 0
    for message in messages:
        batch.append(message)
        nbytes += len(message.value() or b"")
        if nbytes >= _BATCH_BYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


class _Assignment:
    """Ranges of different partitions, and the next offset of each."""

    def __init__(
        self,
        consumer: StockConsumer,
        ranges: Iterable[OffsetRange],
        lost: Callable[[str], None],
    ) -> None:
        self._consumer = consumer
        self._left = {offsets[:2]: offsets for offsets in ranges if offsets.start < offsets.end}
        self._next = {place: offsets.start for place, offsets in self._left.items()}
        self._lost = lost

    def messages(self, poll_timeout: float) -> Iterator[Message]:
        """Yield the messages."""
        self._assign()
        while self._left:
            first = self._consumer.poll(poll_timeout)
            if first is None:
                places = ", ".join(map(str, self._left.values()))
                reason = f"{places}: no message for {poll_timeout} s"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
            for message in (first, *self._consumer.consume(_AT_ONCE, 0)):
                error, at = message.error(), message.offset()
                if error is not None and error.code() not in _EVENTS:
                    raise KafkaException(error)
                place: Any = message.topic(), message.partition()
                if (offsets := self._left.get(place)) is None:
                    continue
                if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self._skip(offsets)
                    break  # what else was taken is read again
                assert at is not None
                if error is None and at < offsets.end:
                    yield message
                self._next[place] = max(self._next[place], at + (error is None))
                if self._next[place] >= offsets.end:
                    self._finish(offsets)

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(*place, self._next[place]) for place in self._left])

    def _finish(self, offsets: OffsetRange) -> None:
        """Fetch no more of a partition while others are read on."""
        del self._left[offsets[:2]]
        if self._left:
            self._consumer.incremental_unassign([TopicPartition(*offsets[:2])])

    def _skip(self, offsets: OffsetRange) -> None:
        """Go on where the partition begins now."""
        place, following = offsets[:2], self._next[offsets[:2]]
        first, last = self._consumer.get_watermark_offsets(TopicPartition(*place), _TIMEOUT)
        self._lost(
            f"{offsets}: offset {following} does not exist: Kafka has {first} to {last - 1} "
            "(deleted by retention? Then consider a longer retention.ms)"
        )
        if following < first < offsets.end:
            self._next[place] = first
        else:
            del self._left[place]
        self._assign()


@contextmanager
def _consumer(config: Mapping[str, Any]) -> Iterator[StockConsumer]:
    """Lend this process's consumer with this configuration; it is kept unless an error occurs."""
    client = Hidden(
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
    key = Hidden(config).key()
    with cached_client(consumers, key, lambda: StockConsumer(client)) as consumer:
        yield consumer
        consumer.unassign()


def message_batch(
    messages: list[Message], offsets: OffsetRange, schema: pa.Schema
) -> pa.RecordBatch:
    """Return messages as rows with the columns of Spark's own source, and the topic's ids."""
    columns: dict[str, list[Any]] = {
        "key": [message.key() for message in messages],
        "value": [message.value() for message in messages],
        "topic": [message.topic() for message in messages],
        "partition": [message.partition() for message in messages],
        "offset": [message.offset() for message in messages],
        "timestamp": [message.timestamp()[1] * 1000 for message in messages],
        # Spark counts from 0 what librdkafka counts from 1.
        "timestampType": [message.timestamp()[0] - 1 for message in messages],
        "headers": [_headers(message) for message in messages],
        "cluster_id": [offsets.cluster_id] * len(messages),
        "topic_id": [offsets.topic_id] * len(messages),
    }
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(message: Message) -> list[dict[str, Any]] | None:
    headers = message.headers()
    if headers is None:
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [{"key": key, "value": value} for key, value in pairs]
