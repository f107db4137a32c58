"""A program that lands a topic, with Spark's executors or a server elsewhere.

    shipped_package.py SERVERS TOPIC LAKE [PACKAGE]

PACKAGE is shipped to executors. The last line says where tasks have found what they import.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

import spark_sink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def main(servers: str, topic: str, lake: str, package: str | None = None) -> None:
    spark = SparkSession.builder.config("spark.log.level", "ERROR").getOrCreate()
    try:
        if package:
            spark.sparkContext.addPyFile(package)
        land(spark, servers, topic, f"{lake}-checkpoint", {"path": lake})
        rows = spark.range(2, numPartitions=2).mapInArrow(places, "place string").collect()
        sys.stdout.write(f"{[row.place for row in rows]}\n")
    finally:
        spark.stop()


def land(
    spark: Any,
    servers: str,
    topic: str,
    checkpoint: str,
    table: Mapping[str, str],
    *,
    attempts: int = 12,
) -> None:
    """Land what is in a topic in a table, which is the sink's options.

    A query does it that is started again if a worker is late.
    """
    spark_sink.register(spark)
    options = {"kafka.bootstrap.servers": servers, "mode": "ranges", "subscribe": topic}
    source = spark.readStream.format("columnar_kafka").options(**options)
    rows = source.option("startingOffsets", "earliest").load()
    writer = rows.writeStream.format("columnar_lake").options(**table)
    writer = writer.option("kafka.bootstrap.servers", servers)
    writer = writer.option("checkpointLocation", checkpoint)
    writer = writer.trigger(availableNow=True)
    spark_sink.start(writer, attempts=attempts).awaitTermination()


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    place = import_module("spark_sink").__file__
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"place": [place] * batch.num_rows})


if __name__ == "__main__":
    main(*sys.argv[1:])
