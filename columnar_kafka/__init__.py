"""Kafka batches as Parquet: encoded once in the producer, landed unchanged in the lake.

>>> from columnar_kafka import Consumer, Producer

Each name is imported when it is first used: a process that only lands segments, such as a worker of
Spark, loads no client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from columnar_kafka.consuming.consumer import Consumer
    from columnar_kafka.consuming.lag import Lag
    from columnar_kafka.consuming.share import ShareConsumer
    from columnar_kafka.errors import (
        ColumnarError,
        ConfigError,
        ForkError,
        LakeError,
        RegistryError,
        RowError,
        SchemaError,
        SegmentError,
    )
    from columnar_kafka.message import Message
    from columnar_kafka.patching import patch_confluent_kafka
    from columnar_kafka.producing.producer import Producer
    from columnar_kafka.producing.reporting.report import ArrowReport
    from columnar_kafka.schema.inference import schema_of
    from columnar_kafka.segment.segment import Segment
    from columnar_kafka.serializing import DeserializingConsumer, SerializingProducer

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
    "RegistryError",
    "RowError",
    "SchemaError",
    "Segment",
    "SegmentError",
    "SerializingProducer",
    "ShareConsumer",
    "patch_confluent_kafka",
    "schema_of",
]
__version__ = "0.1.0"

_MODULES = {
    "columnar_kafka.consuming.consumer": ["Consumer"],
    "columnar_kafka.consuming.lag": ["Lag"],
    "columnar_kafka.consuming.share": ["ShareConsumer"],
    "columnar_kafka.errors": [name for name in __all__ if name.endswith("Error")],
    "columnar_kafka.message": ["Message"],
    "columnar_kafka.patching": ["patch_confluent_kafka"],
    "columnar_kafka.producing.producer": ["Producer"],
    "columnar_kafka.producing.reporting.report": ["ArrowReport"],
    "columnar_kafka.schema.inference": ["schema_of"],
    "columnar_kafka.segment.segment": ["Segment"],
    "columnar_kafka.serializing": ["DeserializingConsumer", "SerializingProducer"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_PUBLIC_MODULES = {
    "errors": "columnar_kafka.errors",
    "plain": "columnar_kafka.plain",
    "position": "columnar_kafka.position",
}


def __getattr__(name: str) -> object:
    if name in _PUBLIC_MODULES:
        return import_module(_PUBLIC_MODULES[name])
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'columnar_kafka' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PUBLIC_MODULES, "__version__"])
