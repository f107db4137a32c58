"""Lands topics by Spark: for `integration/test_spark.py` and `faults/test_landing_on_spark.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars

import spark_sink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from support import OnSpark

    from columnar_kafka.local import LocalKafka

    Land = Callable[..., None]


def lander(spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, root: Path) -> Land:
    """Return a function that lands what is in a topic and not yet in `root`, by our own source."""

    def land(topic: str, mode: str = "segments", **options: str) -> None:
        source = spark.readStream.format("columnar_kafka").option("mode", mode)
        source = source.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        source = source.option("subscribe", topic).option("startingOffsets", "earliest")
        if mode == "ranges":
            options["kafka.bootstrap.servers"] = kafka.bootstrap_servers
        on_spark(partial(run, source.load(), root, **options))

    spark_sink.register(spark)
    return land


def run(rows: Any, root: Path, **options: str) -> None:
    """Write a stream to the directory until all that is there now has landed."""
    query = (
        rows.writeStream.format("columnar_lake")
        .option("path", str(root / "lake"))
        .option("checkpointLocation", str(root / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def numbers(spark: SparkSession, root: Path, topic: str) -> list[int]:
    """Return what a plain Spark read and polars see, which is the same, sorted."""
    place = str(root / "lake" / topic)
    seen = sorted(row.n for row in spark.read.parquet(place).select("n").collect())
    assert seen == sorted(polars.read_parquet(f"{place}/*.parquet")["n"].to_list())
    return seen
