"""A process that is a Spark, and lands a topic by queries that are started up to three times each.

    starting_query.py SERVERS TOPIC LAKE…

Each query lands in a directory of its own, and starts the Python processes it needs: Spark has none
left of the last one.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import psutil
from inside import java_of
from shipped_package import land

from columnar_kafka.local.spark import local_spark

# Or Spark would expect that workers which have ended still wait for tasks.
CONFIG = {"spark.python.worker.reuse": "false"}


def main(servers: str, topic: str, *lakes: str) -> None:
    with local_spark(config=CONFIG) as spark:
        for lake in lakes:
            land(spark, servers, topic, f"{lake}-checkpoint", {"path": lake}, attempts=3)
            end_workers(java_of(spark))


def end_workers(java: int) -> None:
    """End the Python processes that a Spark has started."""
    python = []
    for child in psutil.Process(java).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.name().lower().startswith("python"):
                python.append(child)
                child.kill()
    psutil.wait_procs(python)


if __name__ == "__main__":
    main(*sys.argv[1:])
