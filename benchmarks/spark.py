"""A measured process's Spark, and the columns that decode and encode messages there."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import col, from_json, struct, to_json

from columnar_kafka.local.java import jars, spark_kafka_jars
from columnar_kafka.local.spark import local_spark
from spark_sink.starting import is_late

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from pyspark.sql import Column, DataFrame, SparkSession

    T = TypeVar("T")

# The newest that the registry has; it was run on pyspark 4.3.
_AVRO_VERSION: Final = "4.1.1"
_AVRO: Final = f"""
<dependency org="org.apache.spark" name="spark-avro_2.13" rev="{_AVRO_VERSION}"
            conf="default" transitive="false"/>
"""
_KINDS: Final = {"long": "bigint", "double": "double", "string": "string"}
_ATTEMPTS: Final = 5


class Spark:
    """A Spark with its Kafka source and Avro. Its Java stays warm as long as this object."""

    def __init__(self, avro: dict[str, Any]) -> None:
        """Start it. `avro` is the schema of the rows."""
        found = jars(f"spark-avro-{_AVRO_VERSION}", _AVRO).glob("*.jar")
        config = {
            "spark.jars": ",".join(map(str, [*spark_kafka_jars(), *found])),
            "spark.sql.parquet.compression.codec": "zstd",
        }
        self._kept = ExitStack()
        self.session: SparkSession = self._kept.enter_context(local_spark(config=config))
        self._avro = avro

    def rows(self, messages: DataFrame, encoding: str) -> DataFrame:
        """Return the rows of messages: `encoding` is "json" or "avro"."""
        return messages.select(self._decoded(encoding).alias("row")).select("row.*")

    def messages(self, rows: DataFrame, encoding: str) -> DataFrame:
        """Return messages of rows: `encoding` is "json" or "avro"."""
        row = struct("*")
        value = to_json(row) if encoding == "json" else to_avro(row, json.dumps(self._avro))
        return rows.select(value.alias("value"))

    def _decoded(self, encoding: str) -> Column:
        if encoding == "avro":
            return from_avro("value", json.dumps(self._avro))
        fields = [f"{each['name']} {_KINDS[each['type'][1]]}" for each in self._avro["fields"]]
        return from_json(col("value").cast("string"), ", ".join(fields))


def unless_late(run: Callable[[], T]) -> T:
    """Run a query, and again if it ended because one of Spark's Python workers was late."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            return run()
        except Exception as error:
            if not left or not is_late(error):
                raise
    raise AssertionError
