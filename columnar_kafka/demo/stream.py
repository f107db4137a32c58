"""Kafka → lake with Spark: one structured stream, from our source into our sink."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import spark_sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_TRIGGER = "500 milliseconds"


@contextmanager
def landing(
    spark: SparkSession, bootstrap_servers: str, topic: str, root: Path
) -> Iterator[StreamingQuery]:
    """A running query that lands the topic in `root`/lake; stopped at the end of the block."""
    spark_sink.register(spark)
    source = (
        spark.readStream.format("columnar_kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    sink = (
        source.writeStream.format("columnar_lake")
        .option("path", str(root / "lake"))
        .option("checkpointLocation", str(root / "checkpoint"))
        # This topic was made for this run. Named so, because not every broker knows topic ids.
        .option("table.topic.generation", topic)
        .trigger(processingTime=_TRIGGER)
    )
    query = sink.start()
    try:
        yield query
    finally:
        query.stop()


def check(query: StreamingQuery) -> None:
    """Raise what stopped the query, if anything did."""
    if (error := query.exception()) is not None:
        raise error
    if not query.isActive:
        raise RuntimeError("the Spark stream stopped by itself")
