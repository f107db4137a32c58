"""A program that is a small cluster, and lands one topic in several tables by streams.

    storing.py SERVERS TOPIC TABLES CONFIG CHECKPOINTS

TABLES are the sinks' options, one after the other, and CONFIG is Spark's: both as JSON. A table
with the option `of spark` gets the keys of Spark's configuration.
"""

from __future__ import annotations

import json
import sys

from shipped_package import land

import spark_sink
from columnar_kafka.local.spark import local_spark


def main(servers: str, topic: str, tables: str, config: str, checkpoints: str) -> None:
    with local_spark(master="local-cluster[2,1,1024]", config=json.loads(config)) as spark:
        for number, options in enumerate(json.loads(tables)):
            keys = spark_sink.storage_options(spark) if options.pop("of spark", "") else {}
            land(spark, servers, topic, f"{checkpoints}/{number}", options | keys)


if __name__ == "__main__":
    main(*sys.argv[1:])
