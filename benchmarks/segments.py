"""Segments as producers send them, without Kafka: flights, of the size that a question asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.columns import kafka_column
from columnar_kafka.demo import flights
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader, with_checksum

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC: Final = "flights"
_PROBE_ROWS: Final = 20_000
_BASE_MS: Final = 1_700_000_000_000
_MEMBERS: Final = ("id", "timestamp")


def table_of(rows: int) -> pa.Table:
    """Return so many flights; after the last one they begin again."""
    table = flights.load()
    return pa.concat_tables([table] * -(-rows // len(table))).slice(0, rows).combine_chunks()


def rows_of(nbytes: int) -> int:
    """Return how many flights a segment of about so many bytes has."""
    rows, encoder = _PROBE_ROWS, ParquetEncoder("zstd")
    for _ in range(3):  # the bytes of a row depend on the rows
        rows = rows * nbytes // len(segment(table_of(rows), 0, encoder).value or b"")
    return rows


def segments(rows: int, segment_rows: int) -> Iterator[SourceMessage]:
    """Yield the segments of a topic's only partition, in 22 leaf columns."""
    table, encoder = table_of(rows), ParquetEncoder("zstd")
    for number, start in enumerate(range(0, rows, segment_rows)):
        yield segment(table.slice(start, segment_rows), number, encoder)


def segment(
    table: pa.Table, number: int, encoder: ParquetEncoder, *, partition: int = 0
) -> SourceMessage:
    """Return a segment with these rows, the one at the offset `number` of a partition."""
    rows, name = table.num_rows, f"3fa0c1{partition:04x}-{number}"
    times = range(_BASE_MS + number * rows, _BASE_MS + (number + 1) * rows)
    batch = kafka_column.KafkaColumn(_MEMBERS).append_to(
        table.combine_chunks().to_batches()[0],
        segment=name,
        timestamps=kafka_column.timestamp_array(times),
        keys=kafka_column.key_array([None] * rows),
        headers=kafka_column.header_array([None] * rows),
    )
    header = SegmentHeader(
        rows=rows,
        segment=name,
        schema=fingerprint(batch.schema),
        timestamp_min=times[0],
        timestamp_max=times[-1],
    )
    value = encoder.encode(batch, header.footer()).to_pybytes()
    return SourceMessage(
        topic=TOPIC,
        partition=partition,
        offset=number,
        headers=with_checksum(header.footer(), value),
        value=value,
    )
