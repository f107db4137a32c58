"""For Spark: the source ``columnar_kafka`` and the sink ``columnar_lake``.

>>> import spark_sink
>>> spark_sink.register(spark)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_sink.sink import LakeSink
from spark_sink.source import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KafkaSource", "LakeSink", "register"]


def register(spark: SparkSession) -> None:
    """Register the formats ``columnar_kafka`` and ``columnar_lake`` with a session.

    This package and `columnar_kafka` must also be installed where the executors run.
    """
    spark.dataSource.register(KafkaSource)
    spark.dataSource.register(LakeSink)
