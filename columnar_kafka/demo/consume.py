"""Kafka → reader: every record through the drop-in consumer, as any service would read it."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from columnar_kafka import Consumer
from columnar_kafka.demo import records

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka import Message

_BATCH = 10_000
_POLL_SECONDS = 0.2
_SILENCE_SECONDS = 30.0


def read_back(
    bootstrap_servers: str, topic: str, partitions: int, *, advance: Callable[[int], None]
) -> pa.Table:
    """Every record from the topic's beginning to the end of all its partitions.

    Raises:
        KafkaException: an error event, a bad segment among them.
        UnexpectedError: a message is no record of the demo.
        TimeoutError: nothing came for 30 s, and the ends were not reached.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"columnar-kafka-demo-{uuid.uuid4().hex[:8]}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "columnar.encoding": "parquet",
        }
    )
    try:
        consumer.subscribe([topic])
        return _read(consumer, partitions, advance)
    finally:
        consumer.close()


def _read(consumer: Consumer, partitions: int, advance: Callable[[int], None]) -> pa.Table:
    tables, ended = [records.SCHEMA.empty_table()], set[int | None]()
    last = time.monotonic()
    while len(ended) < partitions:
        messages = []
        for message in consumer.consume(_BATCH, _POLL_SECONDS):
            if _is_end(message):
                ended.add(message.partition())
            else:
                messages.append(message)
        if messages:
            tables.append(records.from_messages(messages))
            advance(len(messages))
            last = time.monotonic()
        elif time.monotonic() > last + _SILENCE_SECONDS:
            raise TimeoutError(
                f"nothing came for {_SILENCE_SECONDS:.0f} s; {len(ended)} of {partitions} "
                "partitions were read to their end"
            )
    return pa.concat_tables(tables)


def _is_end(message: Message) -> bool:
    """Whether it is a partition's end; KafkaException if it is an error, False for a record."""
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return True
