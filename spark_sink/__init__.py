"""For Spark: the source ``columnar_kafka`` and the sink ``columnar_lake``.

>>> import spark_sink
>>> spark_sink.register(spark)  # doctest: +SKIP

Spark gives a worker ten seconds to start. One that writes does not import the source, and one that
reads does not import the sink.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from columnar_kafka.errors import ConfigError
from spark_sink.starting import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_sink.hadoop_keys import storage_options
    from spark_sink.sink import LakeSink
    from spark_sink.source import KafkaSource

__all__ = ["KafkaSource", "LakeSink", "register", "start", "storage_options"]

_OLDEST = (4, 0)
_SOURCES = {"KafkaSource": "spark_sink.source", "LakeSink": "spark_sink.sink"}
_MODULE_OF = {**_SOURCES, "storage_options": "spark_sink.hadoop_keys"}


def register(spark: SparkSession) -> None:
    """Register the formats ``columnar_kafka`` and ``columnar_lake`` with a session.

    This package and `columnar_kafka` must also be installed where the executors run.

    Raises:
        ConfigError: Spark is older than 4.0, which was the first to have data sources in Python.
    """
    if tuple(map(int, spark.version.split(".")[:2])) < _OLDEST:
        raise ConfigError(
            "spark_sink needs Spark 4.0 or later, the first with data sources in Python; "
            f"this is {spark.version}"
        )
    source, sink = map(__getattr__, _SOURCES)
    # Spark sends a class to the workers that plan, where nobody knows the session.
    spark.dataSource.register(type(source.__name__, (source,), {"cores": _cores(spark)}))
    spark.dataSource.register(sink)


def _cores(spark: SparkSession) -> int | None:
    """Return how many tasks run at a time; None if that is not known, or changes."""
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is None or spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return None
    cores: int = context.defaultParallelism
    return cores


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'spark_sink' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
