"""Kafka batches as Parquet: encoded once in the producer, landed unchanged in the lake.

>>> from columnar_kafka import Consumer, Producer
"""

from columnar_kafka.consuming.consumer import Consumer
from columnar_kafka.consuming.lag import Lag
from columnar_kafka.errors import (
    ColumnarError,
    ConfigError,
    ForkError,
    LakeError,
    RowError,
    SchemaError,
    SegmentError,
)
from columnar_kafka.message import Message
from columnar_kafka.producing.producer import Producer
from columnar_kafka.producing.report import ArrowReport
from columnar_kafka.segment.segment import Segment
from columnar_kafka.serializing import DeserializingConsumer, SerializingProducer
from columnar_kafka.share import ShareConsumer

__all__ = [
    "ArrowReport",
    "ColumnarError",
    "ConfigError",
    "Consumer",
    "DeserializingConsumer",
    "ForkError",
    "Lag",
    "LakeError",
    "Message",
    "Producer",
    "RowError",
    "SchemaError",
    "Segment",
    "SegmentError",
    "SerializingProducer",
    "ShareConsumer",
]
__version__ = "0.1.0"
