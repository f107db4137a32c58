"""A process that is a Spark, and runs one stream until it has read what is in a topic.

    sparking.py SOURCE SINK

SOURCE and SINK are the options of its two sides as JSON; `format` is the classes' name in
`killing`. `KILL_RETRIES` is how often Spark tries a task.
"""

from __future__ import annotations

import json
import os
import sys

import killing

from columnar_kafka.local.spark import local_spark


def main(source: str, sink: str) -> None:
    reading, writing = json.loads(source), json.loads(sink)
    config = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    with local_spark(master=f"local[2,{os.environ['KILL_RETRIES']}]", config=config) as spark:
        for each in (killing.Source, killing.Sink):
            spark.dataSource.register(each)
        frame = spark.readStream.format("killed_kafka").options(**reading).load()
        if "_kafka" in frame.columns:
            frame = frame.drop("_kafka")
        query = frame.writeStream.format(writing.pop("format")).options(**writing)
        query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
