"""Kafka → lake with Spark: one structured stream, from our source into our sink."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import spark_sink
from columnar_kafka.demo.landing import lake
from columnar_kafka.local.spark import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from columnar_kafka.demo.story import Story

_TRIGGER = "500 milliseconds"


@contextmanager
def running(story: Story, root: Path) -> Iterator[lake.Lander]:
    """A Spark with a stream that lands the story's topic; both end with the block."""
    with ExitStack() as stack:
        with story.screen.progress("starting Spark"), _signals_later():
            spark = stack.enter_context(local_spark())
        story.results.environment["Spark"] = str(spark.version)
        servers = story.cluster.bootstrap_servers
        query = stack.enter_context(_stream(spark, servers, story.topic, root))
        folder = root / "lake" / story.topic
        yield lake.Lander(
            how="by the Spark stream",
            folder=folder,
            land=partial(lake.wait_for_rows, folder, check=partial(check, query)),
            readers={
                "spark.read.parquet": partial(lake.by_spark, spark),
                "polars": lake.by_polars,
            },
        )


@contextmanager
def _signals_later() -> Iterator[None]:
    """Let Ctrl-C and TERM wait until the end of the block, and then take effect as before it.

    Interrupted while it starts its Java, pyspark removes a folder that Java then fails without,
    and Java stays for ever. Once started, pyspark replaces the handler of Ctrl-C by its own, which
    cancels jobs that are about to end anyway, and fails at that.
    """
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda caught, _: waiting.append(caught))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in waiting:
            signal.raise_signal(caught)


@contextmanager
def _stream(
    spark: SparkSession, bootstrap_servers: str, topic: str, root: Path
) -> Iterator[StreamingQuery]:
    """A running query that lands the topic in `root`/lake; stopped at the end of the block."""
    spark_sink.register(spark)
    servers = {"kafka.bootstrap.servers": bootstrap_servers}
    source = (
        spark.readStream.format("columnar_kafka")
        .options(**servers, mode="ranges")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    sink = (
        source.writeStream.format("columnar_lake")
        .options(**servers)
        .option("path", str(root / "lake"))
        .option("checkpointLocation", str(root / "checkpoint"))
        # This topic was made for this run. Named so, because not every broker knows topic ids.
        .option("table.topic.generation", topic)
        .trigger(processingTime=_TRIGGER)
    )
    query = sink.start()
    try:
        yield query
    finally:
        query.stop()


def check(query: StreamingQuery) -> None:
    """Raise what stopped the query, if anything did."""
    if (error := query.exception()) is not None:
        raise error
    if not query.isActive:
        raise RuntimeError("the Spark stream stopped by itself")
