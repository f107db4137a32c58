"""A process that is a Spark, and runs one stream until it has read what is in a topic.

    sparking.py MASTER SOURCE SINK

SOURCE and SINK are the options of its two sides as JSON; `format` is the classes' name in
`spark_classes_killed`, or one of Spark's. With the sink's option `goes_on` it does not end.
"""

from __future__ import annotations

import json
import sys

import spark_classes_killed

from columnar_kafka.local.spark import local_spark

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONFIG = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    # For a cluster: executors are killed often.
    "spark.task.maxFailures": "100",
    "spark.deploy.maxExecutorRetries": "-1",
}


def main(master: str, source: str, sink: str) -> None:
    reading, writing = json.loads(source), json.loads(sink)
    with local_spark(master=master, config=CONFIG) as spark:
        for cls in (spark_classes_killed.Source, spark_classes_killed.Sink):
            spark.dataSource.register(cls)
        frame = spark.readStream.format("killed_kafka").options(**reading).load()
        if "_kafka" in frame.columns:
            frame = frame.drop("_kafka")
        goes_on = writing.pop("goes_on", False)
        query = frame.writeStream.format(writing.pop("format")).options(**writing)
        if not goes_on:
            query = query.trigger(availableNow=True)
        query.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
