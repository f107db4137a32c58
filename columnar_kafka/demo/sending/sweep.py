"""Size against rows per batch: the benchmark that KIP-1008 asks for, measured on the wire.

Every format sends the same records, one batch after another of exactly n rows, to one partition:
a segment of n rows, or a row batch of n messages. Limits on the size of messages and batches are
lifted for all of them, or the larger row batches could not exist.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.demo import records
from columnar_kafka.demo.figures import Point
from columnar_kafka.demo.sending import formats, send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from columnar_kafka.demo.records import Record
    from columnar_kafka.demo.sending.formats import Format
    from columnar_kafka.demo.servers import Cluster

BATCH_ROWS: Final = (10, 100, 1_000, 10_000, 100_000)
_MOST_BATCHES: Final = 500  # tiny segments are slow to make, and enough of them say the same
_LARGE: Final = 90_000_000
_LONG_MS: Final = 200_000  # less than message.timeout.ms, as librdkafka demands

TOPIC_CONFIG: Final = {"max.message.bytes": str(_LARGE + 1_000_000)}


def sizes(rows: int) -> list[int]:
    """The batch sizes that so many rows can fill."""
    return [size for size in BATCH_ROWS if size <= rows]


def sweep(cluster: Cluster, table: pa.Table, *, advance: Callable[[int], None]) -> list[Point]:
    """Measure each format at each batch size; `advance` is called with 1 after each.

    Raises:
        DeliveryError: a record was not delivered.
    """
    most = min(table.num_rows, BATCH_ROWS[-1])
    prepared = list(chain.from_iterable(records.iterate(table.slice(0, most))))
    points = []
    for record_format in formats.ALL:
        topic = cluster.topic(f"sweep-{len(cluster.topics)}", 1, TOPIC_CONFIG)
        encode = record_format.encoder()
        encoded = [record._replace(value=encode(record.value)) for record in prepared]
        for batch_rows in sizes(most):
            rows = min(most, batch_rows * _MOST_BATCHES)
            rows -= rows % batch_rows
            points.append(
                _measure(
                    record_format, cluster.bootstrap_servers, topic, batch_rows, encoded[:rows]
                )
            )
            advance(1)
    return points


def _measure(
    record_format: Format,
    bootstrap_servers: str,
    topic: str,
    batch_rows: int,
    encoded: list[Record],
) -> Point:
    reports, wire = send.Reports(), send.Wire()
    config = (
        {"bootstrap.servers": bootstrap_servers} | wire.config | _batches(record_format, batch_rows)
    )
    producer = record_format.producer(config)
    if record_format.columnar:
        producer.set_schema(topic, records.avro_schema())  # type: ignore[attr-defined]
    for part in _batched(encoded, batch_rows):
        send.send(producer, topic, part, encode=lambda value: value, reports=reports, partition=0)
    send.flush(producer)
    sent, batches = wire.settle(producer)
    producer.close()
    reports.check(len(encoded))
    return Point(record_format.name, batch_rows, len(encoded), batches, sent)


def _batches(record_format: Format, batch_rows: int) -> dict[str, Any]:
    """The settings that make every batch one of `batch_rows`."""
    lifted = {"message.max.bytes": _LARGE, "batch.size": _LARGE}
    if record_format.columnar:
        own = {
            "columnar.segment.rows": batch_rows,
            "columnar.segment.bytes": _LARGE,
            "columnar.linger.ms": _LONG_MS,
            "batch.num.messages": 1,  # a segment is a batch
        }
        return lifted | own
    own = {"batch.num.messages": batch_rows, "linger.ms": _LONG_MS}
    return lifted | own | {"queue.buffering.max.messages": 2 * BATCH_ROWS[-1]}


def _batched(encoded: list[Record], size: int) -> Iterator[list[Record]]:
    remaining = iter(encoded)
    while part := list(islice(remaining, size)):
        yield part
