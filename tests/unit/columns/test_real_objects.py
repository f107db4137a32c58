"""Rows that are objects of the libraries themselves, produced and read again."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from columnar_kafka.testing import FakeKafka

SCHEMA = {
    "type": "record",
    "name": "reading",
    "fields": [{"name": "sensor", "type": "string"}, {"name": "value", "type": "double"}],
}


@attrs.define
class AttrsReading:
    sensor: str
    value: float


class MsgspecReading(msgspec.Struct):
    sensor: str
    value: float


class PydanticReading(pydantic.BaseModel):
    sensor: str
    value: float


@pytest.mark.parametrize("reading", [AttrsReading, MsgspecReading, PydanticReading])
def test_an_object_of_the_library_is_a_row(reading: Any) -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", SCHEMA)
        producer.produce("t", reading(sensor="a", value=20.5))
        producer.produce("t", {"sensor": "b", "value": -1.0})
    values = [record.value() for record in kafka.records("t")]
    assert values == [{"sensor": "a", "value": 20.5}, {"sensor": "b", "value": -1.0}]
