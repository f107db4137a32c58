"""A program that is a small cluster, and lands one topic in several tables by streams.

    storing.py SERVERS TOPIC TABLES CONFIG CHECKPOINTS

TABLES are the sinks' options, one after the other, and CONFIG is Spark's: both as JSON. A table
with the option `of spark` gets the keys of Spark's configuration.
"""

from __future__ import annotations

import json
import sys

import spark_sink
from columnar_kafka.local.spark import local_spark


def main(servers: str, topic: str, tables: str, config: str, checkpoints: str) -> None:
    source = {"kafka.bootstrap.servers": servers, "subscribe": topic, "mode": "ranges"}
    with local_spark(master="local-cluster[2,1,1024]", config=json.loads(config)) as spark:
        spark_sink.register(spark)
        for number, options in enumerate(json.loads(tables)):
            keys = spark_sink.storage_options(spark) if options.pop("of spark", "") else {}
            frame = spark.readStream.format("columnar_kafka").options(**source)
            rows = frame.option("startingOffsets", "earliest").load()
            writer = rows.writeStream.format("columnar_lake").options(**options, **keys)
            writer = writer.option("kafka.bootstrap.servers", servers)
            writer = writer.option("checkpointLocation", f"{checkpoints}/{number}")
            query = spark_sink.start(writer.trigger(availableNow=True), attempts=12)
            query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
