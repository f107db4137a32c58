"""The schema of a topic's records, from pyarrow or Avro: checked once, in `set_schema`."""

from __future__ import annotations

from columnar_kafka.schema.arrow import FILLED, KAFKA_COLUMN, MAX_NESTING, is_kafka_member
from columnar_kafka.schema.canonical import canonical, fingerprint
from columnar_kafka.schema.growth import check_growth
from columnar_kafka.schema.record_schema import RecordSchema

__all__ = [
    "FILLED",
    "KAFKA_COLUMN",
    "MAX_NESTING",
    "RecordSchema",
    "canonical",
    "check_growth",
    "fingerprint",
    "is_kafka_member",
]
