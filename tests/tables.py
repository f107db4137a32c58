"""What the tests of `consume_arrow` and `arrow_reader` begin with: topics of segments in memory."""

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
) -> Any:
    """Append a segment; return it as Kafka has it."""
    offset = kafka.end(topic, partition)
    made = segment(
        table, topic=topic, partition=partition, offset=offset, number=offset + 100 * partition
    )
    value = made.value[:-1] + b"?" if damage else made.value
    kafka.append(topic, partition, value, headers=list(made.headers))
    return made


def begin(kafka: FakeKafka, *topics: str, at: int = 0, **config: Any) -> Any:
    """A consumer of partition 0 of these topics."""
    consumer = kafka.Consumer({**CONFIG, **config})
    consumer.assign([TopicPartition(each, 0, at) for each in topics or ("t",)])
    return consumer


def after(consumer: Any, topic: str = "t") -> int:
    """The position after what was handed out."""
    [place] = consumer.position([TopicPartition(topic, 0)])
    return int(place.offset)


def watch(monkeypatch: pytest.MonkeyPatch) -> list[list[str] | None]:
    """The columns that are decoded, of one segment after the other."""
    asked: list[list[str] | None] = []
    read = decoder._InlineFile.read

    def watched(self: Any, columns: Any, **options: Any) -> pa.Table:
        asked.append(columns)
        return read(self, columns, **options)

    monkeypatch.setattr(decoder._InlineFile, "read", watched)
    return asked
