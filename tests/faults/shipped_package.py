"""A program for `spark-submit`, on machines that do not have this package: it lands a topic.

    shipped_package.py SERVERS TOPIC LAKE [PACKAGE]

Without PACKAGE it is with `--py-files`. The last line says where each executor's task found it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession


def main(servers: str, topic: str, lake: str, package: str | None = None) -> None:
    spark = SparkSession.builder.getOrCreate()
    if package:
        spark.sparkContext.addPyFile(package)
    # After `addPyFile`, as in a notebook.
    spark_sink = import_module("spark_sink")
    spark_sink.register(spark)
    options = {"kafka.bootstrap.servers": servers, "mode": "ranges", "subscribe": topic}
    source = spark.readStream.format("columnar_kafka").options(**options)
    rows = source.option("startingOffsets", "earliest").load()
    writer = rows.writeStream.format("columnar_lake").options(path=lake)
    writer = writer.option("kafka.bootstrap.servers", servers)
    writer = writer.option("checkpointLocation", f"{lake}-checkpoint")
    spark_sink.start(writer.trigger(availableNow=True), attempts=12).awaitTermination()
    found = spark.sparkContext.parallelize(range(2), 2).map(place).collect()
    sys.stdout.write(f"{found}\n")


def place(_: int) -> Any:
    return import_module("spark_sink").__file__


if __name__ == "__main__":
    main(*sys.argv[1:])
