"""Runs Spark's maintenance of Iceberg tables in a catalog on SQLite, in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(asked: Path, answers: Path, jars: str) -> None:
    question = json.loads(asked.read_text())
    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        # Java's own class loader looks for the driver of a database.
        .config("spark.driver.extraClassPath", jars.replace(",", ":"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.catalog.tests", "org.apache.iceberg.spark.SparkCatalog")
    )
    for key, value in question["catalog"].items():
        builder = builder.config(f"spark.sql.catalog.tests.{key}", value)
    session = builder.getOrCreate()
    results = [
        [row.asDict() for row in session.sql(f"CALL tests.system.{call}").collect()]
        for call in question["calls"]
    ]
    answers.write_text(json.dumps(results))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
