"""A Spark of this process's own, with its Kafka source, whose Java ends for certain."""

# ruff: noqa: SLF001 - PySpark has no other way to its Java

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from columnar_kafka.local.java import find_java, spark_kafka_jars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IMPORT_ROOT = Path(__file__).parents[2]
_END_SECONDS = 15.0


@contextmanager
def local_spark(
    *, master: str = "local[2]", config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A small SparkSession for a `with` block; about 5 s to start, and gone with its Java after it.

    No UI, 1 GiB of driver memory, 2 shuffle partitions, UTC; `config` adds to that or overrides it.
    Its Python workers are this interpreter and import this package and `spark_sink`. One at a time
    in a process. When this process is killed, Spark's Java ends by itself.

    Raises:
        JavaMissingError: no usable Java.
        JarsMissingError: the jars of Spark's Kafka source could not be fetched.
        RuntimeError: this process has a Spark already.
    """
    find_java()
    if SparkContext._gateway is not None:
        raise RuntimeError("this process has a Spark already; its settings could not be changed")
    with tempfile.TemporaryDirectory(prefix="columnar-kafka-spark-") as scratch:
        try:
            with _environment(_java_environment(scratch)):
                session = _session(master, _small(scratch) | dict(config or {}))
            session.sparkContext.setLogLevel("ERROR")
            yield session
        finally:
            _end_java()


def _small(scratch: str) -> dict[str, str]:
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.jars": ",".join(map(str, spark_kafka_jars())),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _session(master: str, config: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("columnar-kafka")
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _java_environment(scratch: str) -> dict[str, str]:
    path = [str(_IMPORT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path),
        "SPARK_LOCAL_DIRS": scratch,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change the environment for processes that are started inside the block."""
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _end_java() -> None:
    """Stop Spark; `stop()` alone leaves its Java running until this process ends."""
    if session := SparkSession.getActiveSession():
        session.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    java: subprocess.Popen[bytes] = gateway.proc
    if java.stdin is not None:
        java.stdin.close()  # Spark's Java ends at the end of its stdin
    try:
        java.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()
    SparkContext._gateway = SparkContext._jvm = None
