"""Reads tables with Spark, in a process of its own: the rows of each table as JSON, by its name."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def plain(value: Any) -> Any:
    """Return a value as JSON has it; times are in UTC."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    return str(value)


def main(asked: Path, answers: Path, jars: str) -> None:
    session: SparkSession = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .getOrCreate()
    )
    tables = {}
    for name, (table_format, path, condition) in json.loads(asked.read_text()).items():
        reader = session.read.format(table_format).option("mergeSchema", "true")
        rows = reader.load(path).where(condition).drop("_kafka").collect()
        tables[name] = [row.asDict(recursive=True) for row in rows]
    answers.write_text(json.dumps(tables, default=plain))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
