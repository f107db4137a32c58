"""What a competitor is: rows to Kafka and back, through the public API of its packages.

`Stock` is confluent-kafka with one message a row; its subclasses say how a row becomes bytes and
back. The loops are as their users write them, and wait only when a buffer is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from benchmarks.data import Dataset, Record, Row

CHUNK = 1_000
READ_AGAIN: dict[str, Any] = {"fetch.wait.max.ms": 10}
"""Settings for reading a topic again: a fetch waits for the end of the one before."""
SECONDS = 30.0


class Stock:
    """confluent-kafka with its defaults, but for zstd."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Row]

    def __init__(self, data: Dataset) -> None:
        """Make `encode` and `decode` for the rows of a data set."""
        self.data = data

    # --- producing --------------------------------------------------------------------------------

    def producer(
        self,
        servers: str,
        topics: Sequence[str],
        *,
        rows: int | None = None,
        linger_ms: float | None = None,
    ) -> Any:
        """Return a producer that is connected.

        Args:
            servers: the `bootstrap.servers`.
            topics: where it will produce to.
            rows: the most in a batch or segment; by default stock's 10,000, and the data set's.
            linger_ms: how old a batch or segment may become; each side's default without it.
        """
        config: dict[str, Any] = {**connection(servers), "compression.type": "zstd"}
        if rows is not None:
            config["batch.num.messages"] = rows
        if linger_ms is not None:
            config["linger.ms"] = linger_ms
        producer = confluent_kafka.Producer(config)
        for topic in topics:
            producer.list_topics(topic, SECONDS)
        return producer

    def prepare(self, rows: list[Any]) -> list[Any]:
        """Return what is given to `send`; not measured."""
        return rows

    def send(self, producer: Any, topic: str, rows: Iterable[Any]) -> None:
        """Produce every row, with nothing but its value."""
        produce, encode = producer.produce, self.encode
        for row in rows:
            try:
                produce(topic, encode(row))
            except BufferError:
                when_room(producer, topic, encode(row))

    def send_full(
        self, producer: Any, topic: str, records: Iterable[Record], report: Callable[..., Any]
    ) -> None:
        """Produce every record with its key, headers and time, and a callback each."""
        produce, encode = producer.produce, self.encode
        for value, key, headers, timestamp in records:
            try:
                produce(
                    topic,
                    encode(value),
                    key=key,
                    headers=headers,
                    timestamp=timestamp,
                    on_delivery=report,
                )
            except BufferError:
                when_room(producer, topic, encode(value), key, headers, timestamp, report)

    # --- consuming --------------------------------------------------------------------------------

    def consumer(self, servers: str, config: dict[str, Any] | None = None) -> Any:
        """Return a consumer without an assignment."""
        return confluent_kafka.Consumer(consumer_config(servers) | (config or {}))

    def assign(self, consumer: Any, topic: str, offset: int = 0) -> None:
        """Read the only partition of a topic from a Kafka offset on."""
        consumer.assign([TopicPartition(topic, 0, offset)])

    def rows_by_poll(self, consumer: Any, count: int) -> Iterator[list[Row]]:
        """Yield rows, some at a time, with one `poll` each."""
        poll, decode = consumer.poll, self.decode
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            yield [decode(poll(SECONDS).value()) for _ in range(size)]

    def rows_by_consume(self, consumer: Any, count: int) -> Iterator[list[Row]]:
        """Yield rows with one `consume` for many."""
        decode = self.decode
        for messages in consume(consumer, count):
            yield [decode(message.value()) for message in messages]

    def bytes_by_poll(self, consumer: Any, count: int) -> Iterator[list[bytes]]:
        """Yield values as they are, some at a time, with one `poll` each."""
        poll = consumer.poll
        for start in range(0, count, CHUNK):
            yield [poll(SECONDS).value() for _ in range(min(CHUNK, count - start))]

    def bytes_by_consume(self, consumer: Any, count: int) -> Iterator[list[bytes]]:
        """Yield values as they are, with one `consume` for many."""
        for messages in consume(consumer, count):
            yield [message.value() for message in messages]

    def tables(self, consumer: Any, count: int) -> Iterator[pa.Table]:
        """Yield Arrow tables, where a competitor has a way to make them."""
        raise NotImplementedError

    def records(self, consumer: Any, count: int) -> Iterator[tuple[Any, ...]]:
        """Yield value, key, headers and time of each record: to compare, not to measure."""
        for messages in consume(consumer, count):
            for message in messages:
                yield (
                    self.decode(message.value()),
                    message.key(),
                    message.headers() or [],
                    message.timestamp()[1],
                )


class Direct:
    """Hands what it is given to `produce` as it is: no call for each row is measured."""

    def send(self, producer: Any, topic: str, rows: Iterable[Any]) -> None:
        """Produce every row, with nothing but its value."""
        produce = producer.produce
        for row in rows:
            try:
                produce(topic, row)
            except BufferError:
                when_room(producer, topic, row)

    def send_full(
        self, producer: Any, topic: str, records: Iterable[Record], report: Callable[..., Any]
    ) -> None:
        """Produce every record with its key, headers and time, and a callback each."""
        produce = producer.produce
        for value, key, headers, timestamp in records:
            try:
                produce(
                    topic, value, key=key, headers=headers, timestamp=timestamp, on_delivery=report
                )
            except BufferError:
                when_room(producer, topic, value, key, headers, timestamp, report)


def consume(consumer: Any, count: int) -> Iterator[list[Any]]:
    """Yield lists of messages until there were `count`. Raises TimeoutError if they stay away."""
    while count > 0:
        messages = consumer.consume(min(CHUNK, count), SECONDS)
        if not messages:
            raise TimeoutError(f"{count:,} messages are missing")
        yield messages
        count -= len(messages)


def consumer_config(servers: str) -> dict[str, Any]:
    """Return the settings that every consumer has."""
    return {**connection(servers), "group.id": "benchmarks", "enable.auto.commit": False}


def connection(servers: str) -> dict[str, Any]:
    """Return the settings that every client has; librdkafka logs only errors."""
    return {"bootstrap.servers": servers, "log_level": 3}


def when_room(
    producer: Any,
    topic: str,
    value: Any,
    key: bytes | None = None,
    headers: list[tuple[str, bytes]] | None = None,
    timestamp: int = 0,
    report: Callable[..., Any] | None = None,
) -> None:
    """Produce as soon as the buffer has room."""
    while True:
        producer.poll(0.05)
        try:
            producer.produce(
                topic, value, key=key, headers=headers, timestamp=timestamp, on_delivery=report
            )
        except BufferError:
            continue
        return
