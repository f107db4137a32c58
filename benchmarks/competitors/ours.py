"""columnar-kafka: a segment is one message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from confluent_kafka import TopicPartition

import columnar_kafka
from benchmarks.competitors.base import (
    CHUNK,
    SECONDS,
    Direct,
    Stock,
    connection,
    consume,
    consumer_config,
)
from columnar_kafka import position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from benchmarks.data import Row

_PARQUET = {"columnar.encoding": "parquet"}
_TABLE_ROWS = 100_000


class Ours(Direct, Stock):
    """The defaults, but for the rows of a segment: those of the data set."""

    settings: ClassVar[dict[str, Any]] = {}

    def producer(
        self,
        servers: str,
        topics: Sequence[str],
        *,
        rows: int | None = None,
        linger_ms: float | None = None,
    ) -> Any:
        """Return a producer that is connected and has the topics' schema."""
        config = {
            **connection(servers),
            **_PARQUET,
            **self.settings,
            "columnar.segment.rows": rows or self.data.segment_rows,
        }
        if linger_ms is not None:
            config["columnar.linger.ms"] = linger_ms
        producer = columnar_kafka.Producer(config)
        for topic in topics:
            producer.set_schema(topic, json.dumps(self.data.avro))
            producer.list_topics(topic, SECONDS)
        return producer

    def consumer(self, servers: str, config: dict[str, Any] | None = None) -> Any:
        """Return a consumer without an assignment."""
        return columnar_kafka.Consumer(consumer_config(servers) | _PARQUET | (config or {}))

    def assign(self, consumer: Any, topic: str, offset: int = 0) -> None:
        """Read the only partition of a topic from a Kafka offset on."""
        consumer.assign([TopicPartition(topic, 0, position.start(offset))])

    def rows_by_poll(self, consumer: Any, count: int) -> Iterator[list[Row]]:
        """Yield rows, some at a time, with one `poll` each."""
        poll = consumer.poll
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            yield [poll(SECONDS).value() for _ in range(size)]

    def rows_by_consume(self, consumer: Any, count: int) -> Iterator[list[Row]]:
        """Yield rows with one `consume` for many."""
        for messages in consume(consumer, count):
            yield [message.value() for message in messages]

    def tables(self, consumer: Any, count: int) -> Iterator[pa.Table]:
        """Yield tables of the rows' own columns."""
        while count > 0:
            table = consumer.consume_arrow(min(_TABLE_ROWS, count), SECONDS)
            if table is None or not table.num_rows:
                raise TimeoutError(f"{count:,} records are missing")
            yield table
            count -= table.num_rows

    @staticmethod
    def encode(row: Any) -> Any:
        """Return what `produce` takes: the row."""
        return row

    @staticmethod
    def decode(value: Any) -> Row:
        """Return a record's value, which is a row."""
        return value  # type: ignore[no-any-return]


class OursAsItIs(Ours):
    """librdkafka sends segments as they are, and compresses nothing."""

    settings: ClassVar[dict[str, Any]] = {"compression.type": "none"}
