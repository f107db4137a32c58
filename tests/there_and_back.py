"""Values that are produced and consumed, each with the native core or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from columnar_kafka import RowError, native
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Sequence


def there_and_back(
    avro: Any, values: Sequence[Any], form: str = "avro", *, produced: bool, consumed: bool
) -> tuple[list[Any], list[bool]]:
    """Return what is consumed, None for what is refused, and of each whether it was a record.

    `produced` and `consumed` say where the core is on.
    """
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.value.format": form}
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", produced)
        with kafka.Producer({**config, "columnar.linger.ms": 60_000}) as producer:
            producer.set_schema("t", avro)
            for value in values:
                try:
                    producer.produce("t", value)
                except RowError:
                    kept.append(False)
                else:
                    kept.append(True)
        patch.setattr(native, "enabled", consumed)
        consumer = kafka.Consumer({**config, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        messages = consumer.consume(len(values) + 1, 0)
    assert all(message.error() is None for message in messages)
    segments = {
        offset
        for offset, message in enumerate(kafka.messages("t"))
        if is_segment(message.headers())
    }
    found = iter([message.value() for message in messages])
    assert len(messages) == sum(kept)
    return [next(found) if is_kept else None for is_kept in kept], [
        message.kafka_offset() in segments for message in messages
    ]
