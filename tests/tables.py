"""Topics of segments in memory, for the tests of `consume_arrow` and `arrow_reader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import TopicPartition
from segments import segment

from columnar_kafka.segment import decoder

if TYPE_CHECKING:
    import pytest

    from columnar_kafka.testing import FakeKafka

CONFIG = {"group.id": "g", "columnar.encoding": "parquet", "auto.offset.reset": "earliest"}


def numbers(start: int, count: int = 3) -> pa.Table:
    return pa.table({"n": pa.array(range(start, start + count), pa.int64())})


def put(
    kafka: FakeKafka,
    table: pa.Table,
    *,
    topic: str = "t",
    partition: int = 0,
    damage: bool = False,
    **options: Any,
) -> Any:
    """Append a segment to a topic, with `options` of `segment`; return it as a `SourceMessage`."""
    offset = kafka.end(topic, partition)
    number = offset + 100 * partition
    appended = segment(
        table, topic=topic, partition=partition, offset=offset, number=number, **options
    )
    value = appended.value[:-1] + b"?" if damage else appended.value
    kafka.append(topic, partition, value, headers=list(appended.headers))
    return appended


def assigned_consumer(kafka: FakeKafka, *topics: str, at: int = 0, **config: Any) -> Any:
    """Return a consumer with partition 0 of these topics assigned, from position `at` on."""
    consumer = kafka.Consumer({**CONFIG, **config})
    consumer.assign([TopicPartition(topic, 0, at) for topic in topics or ("t",)])
    return consumer


def next_position(consumer: Any, topic: str = "t") -> int:
    """Return the position after the last record handed out."""
    [place] = consumer.position([TopicPartition(topic, 0)])
    return int(place.offset)


def record_decoded_columns(monkeypatch: pytest.MonkeyPatch) -> list[list[str] | None]:
    """Return a list to which every decoded segment adds the columns that are decoded."""
    decoded: list[list[str] | None] = []
    read, read_records = decoder.InlineFile.read, decoder.InlineDecoder.read_records

    def watched(self: Any, columns: Any, **options: Any) -> pa.Table:
        decoded.append(columns)
        return read(self, columns, **options)

    def watched_records(self: Any, *arguments: Any) -> Any:
        if (records := read_records(self, *arguments)) is not None:
            decoded.append(None)
        return records

    monkeypatch.setattr(decoder.InlineFile, "read", watched)
    monkeypatch.setattr(decoder.InlineDecoder, "read_records", watched_records)
    return decoded
