"""A process that ingests what is in a topic, and kills itself at a point of its work.

    ingesting.py KIND ROOT BUCKET SERVERS TOPIC POINT

KIND and ROOT are a class of `lakes` and its folder; BUCKET is a `Bucket` as JSON, or null.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import lakes
from minio import Bucket

from columnar_kafka.ingest import Ingestor, IngestSettings
from columnar_kafka.ingest.reader import TopicReader
from columnar_kafka.lake.local_files import LocalFiles

POINTS = (
    *("before a file", "in a file", "before the commit", "before the swap", "after the swap"),
    *("before Kafka's commit", "between batches"),
)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half(writer: Any, write: Any, data: Any) -> None:
    write(memoryview(data)[: len(data) // 2])
    writer._file.flush()
    kill()


def arm(point: str, table: Any) -> None:
    """Have the process killed when it comes to a point for the second time."""
    owner, name = {
        "before a file": (table, "create"),
        "in a file": (table, "create"),
        "before the commit": (table, "commit"),
        "before the swap": (table, "swap"),
        "after the swap": (table, "swap"),
        "before Kafka's commit": (TopicReader, "commit"),
        "between batches": (TopicReader, "commit"),
    }[point]
    method, calls = getattr(owner, name), 0

    def armed(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        is_after = point in {"in a file", "after the swap", "between batches"}
        if calls == 2 and not is_after:
            kill()
        result = method(*arguments, **keywords)
        if calls == 2 and name == "create":
            result.write = partial(half, result, result.write)
        elif calls == 2 and is_after:
            kill()
        return result

    setattr(owner, name, armed)


def main(kind: str, root: str, bucket: str, servers: str, topic: str, point: str) -> None:
    place = json.loads(bucket)
    lake = getattr(lakes, kind)(Path(root), place and Bucket(*place))
    table = lake.table() if place else lake.table(files=LocalFiles())
    arm(point, table)
    config = {"bootstrap.servers": servers, "group.id": topic}
    settings = IngestSettings(partitions=(0,), stop_at_end=True, roll_bytes=4000)
    Ingestor(config, topic, table, settings).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
