"""A measured process's Spark, and the columns that decode and encode messages there."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import col, from_json, struct, to_json

import spark_sink
from columnar_kafka.local.java import jars, spark_kafka_jars
from columnar_kafka.local.spark import local_spark
from spark_sink.starting import is_late

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

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

    def __init__(self, avro: dict[str, Any], encoding: str) -> None:
        """Start it.

        Args:
            avro: the schema of the rows.
            encoding: "json", "avro", or else segments.
        """
        avro_jars = jars(f"spark-avro-{_AVRO_VERSION}", _AVRO).glob("*.jar")
        config = {
            "spark.jars": ",".join(map(str, [*spark_kafka_jars(), *avro_jars])),
            "spark.sql.parquet.compression.codec": "zstd",
        }
        path = [
            str(Path(__file__).parent / "worker_site"),
            *filter(None, [os.getenv("PYTHONPATH")]),
        ]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
        self._kept = ExitStack()
        self.session: SparkSession = self._kept.enter_context(local_spark(config=config))
        self._avro, self._encoding = avro, encoding
        self._is_ours = encoding not in ("json", "avro")
        if self._is_ours:
            spark_sink.register(self.session)

    def stream(self, source: dict[str, str], verify: str) -> DataStreamWriter:
        """Return a stream that lands messages; segments are verified so."""
        frame = self._frame(self.session.readStream, source)
        return frame.writeStream.format(self._sink).options(**self._landing(source, verify))

    def batch(self, source: dict[str, str], verify: str) -> DataFrameWriter:
        """Return a batch query that lands messages; segments are verified so."""
        frame = self._frame(self.session.read, source)
        writer = frame.write.format(self._sink).options(**self._landing(source, verify))
        return writer.mode("append")

    def messages(self, rows: DataFrame) -> DataFrame:
        """Return messages of rows, which are not segments."""
        row = struct("*")
        value = to_json(row) if self._encoding == "json" else to_avro(row, json.dumps(self._avro))
        return rows.select(value.alias("value"))

    @property
    def _sink(self) -> str:
        return "columnar_lake" if self._is_ours else "parquet"

    def _landing(self, source: dict[str, str], verify: str) -> dict[str, str]:
        key = "kafka.bootstrap.servers"
        return {key: source[key], "table.verify": verify} if self._is_ours else {}

    def _frame(
        self, reader: DataFrameReader | DataStreamReader, source: dict[str, str]
    ) -> DataFrame:
        """Return what is landed: ranges, or the rows of messages."""
        if self._is_ours:
            return reader.format("columnar_kafka").options(**source, mode="ranges").load()
        messages = reader.format("kafka").options(**source).load()
        return messages.select(self._decoded().alias("row")).select("row.*")

    def _decoded(self) -> Column:
        if self._encoding == "avro":
            return from_avro("value", json.dumps(self._avro))
        fields = [f"{field['name']} {_KINDS[field['type'][1]]}" for field in self._avro["fields"]]
        return from_json(col("value").cast("string"), ", ".join(fields))


def source_options(servers: str, topic: str, start: int | None = None) -> dict[str, str]:
    """Return the options of a source, from an offset of its one partition or from the beginning."""
    starting = "earliest" if start is None else json.dumps({topic: {"0": start}})
    return {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": starting,
    }


def unless_late(run: Callable[[], T]) -> T:
    """Run a query, and again if it ended because one of Spark's Python workers was late."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            return run()
        except Exception as error:
            if not left or not is_late(error):
                raise
    raise AssertionError
