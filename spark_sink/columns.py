"""The columns of Kafka's messages, as Spark's own ``kafka`` source has them, and of ranges."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import ArrayType, StructType

HEADER: Final = StructType().add("key", "string").add("value", "binary")

MESSAGE: Final = (
    StructType()
    .add("key", "binary")
    .add("value", "binary")
    .add("topic", "string")
    .add("partition", "integer")
    .add("offset", "long")
    .add("timestamp", "timestamp")
    .add("timestampType", "integer")
    .add("headers", ArrayType(HEADER))
    # Ours alone: by these a sink notices that a topic was deleted and created again.
    .add("cluster_id", "string")
    .add("topic_id", "string")
)

RANGE: Final = (
    StructType()
    .add("topic", "string")
    .add("partition", "integer")
    .add("start", "long")
    .add("end", "long")
    .add("cluster_id", "string")
    .add("topic_id", "string")
    .add("latest", "long")
)
