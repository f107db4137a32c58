"""Segments as Kafka would deliver them, created without Kafka."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.columns import kafka_column
from columnar_kafka.lake.model import SourceMessage, StagedFile
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader, with_checksum
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROWS = 3
"""The number of records in a segment of `segments`; row `r` at offset `o` has n = o * 10 + r."""

_encoder = ParquetEncoder("zstd")


def header_of(table: pa.Table, **changed: Any) -> SegmentHeader:
    """Return the header of a segment that has these columns only, unless it is to be wrong."""
    header = SegmentHeader(
        rows=table.num_rows,
        segment="p-0",
        schema=fingerprint(table.schema),
        timestamp_min=0,
        timestamp_max=9,
    )
    return header._replace(**changed)


def headers_of(header: SegmentHeader, value: Any) -> list[tuple[str, bytes]]:
    """Return the headers of the message that has this encoded segment, as Kafka has them."""
    return list(with_checksum(header.footer(), value).items())


def segment(
    table: pa.Table,
    *,
    topic: str = "t",
    partition: int = 0,
    offset: int = 0,
    number: int = 0,
    encoder: ParquetEncoder = _encoder,
    members: Sequence[str] = ("id", "timestamp"),
    footer: Mapping[str, bytes] | None = None,
) -> SourceMessage:
    """Return a segment with the columns of `table` and the id "p-<number>".

    Its footer has more keys: those of `footer`.
    """
    column = kafka_column.KafkaColumn(members)
    rows, name = table.num_rows, f"p-{number}"
    batch = column.append_to(
        table.combine_chunks().to_batches()[0],
        segment=name,
        timestamps=kafka_column.timestamp_array(range(rows)),
        keys=kafka_column.key_array([None] * rows),
        headers=kafka_column.header_array([None] * rows),
    )
    header = SegmentHeader(
        rows=rows,
        segment=name,
        schema=fingerprint(batch.schema),
        timestamp_min=0,
        timestamp_max=rows - 1,
    )
    value = encoder.encode(batch, {**header.footer(), **(footer or {})}).to_pybytes()
    return SourceMessage(
        topic=topic,
        partition=partition,
        offset=offset,
        headers=headers_of(header, value),
        value=value,
    )


def staged_file(fence: str, first: int, last: int, /, **changed: Any) -> StagedFile:
    """Return what is known of a file that has these offsets of partition 0 of "t"."""
    file = StagedFile(
        fence=fence,
        topic="t",
        partition=0,
        first=first,
        last=last,
        messages=last - first + 1,
        rows=10,
        nbytes=100,
        segment=f"p-{last}",
        schema="s",
        digest="d",
        path=f"{first}-{last}",
    )
    return replace(file, **changed)


@cache
def numbered(offset: int, *, topic: str = "t", partition: int = 0) -> SourceMessage:
    """Return the segment at an offset, always with the same bytes."""
    numbers = pa.array([offset * 10 + row for row in range(ROWS)], pa.int64())
    table = pa.table({"n": numbers})
    return segment(table, topic=topic, partition=partition, offset=offset, number=offset)


def segments(offsets: Iterable[int], **place: Any) -> list[SourceMessage]:
    """Return the segments at these offsets."""
    return [numbered(offset, **place) for offset in offsets]


def numbers(offsets: Iterable[int]) -> list[int]:
    """Return the values of n in the segments at these offsets, ascending."""
    return sorted(offset * 10 + row for offset in offsets for row in range(ROWS))


def produced(tables: Iterable[pa.Table], *, topic: str = "t") -> list[SourceMessage]:
    """Return a segment of each table, or a few of a large one, as a producer encodes rows.

    Small ones have statistics, since the messages are not compressed.
    """
    kafka = FakeKafka()
    kafka.create_topic(topic, 1)
    config = {
        "columnar.encoding": "parquet",
        "columnar.linger.ms": 60_000,
        "compression.type": "none",
    }
    with kafka.Producer(config) as producer:
        for table in tables:
            producer.set_schema(topic, table.schema)
            for row in table.to_pylist():
                producer.produce(topic, row, timestamp=1)
            producer.flush()
    return [
        SourceMessage(
            topic=topic,
            partition=0,
            offset=message.offset(),
            headers=message.headers(),
            value=message.value(),
        )
        for message in kafka.messages(topic, 0)
    ]
