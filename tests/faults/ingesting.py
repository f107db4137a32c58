"""A process that ingests what is in a topic, and kills itself at a point of its work.

    ingesting.py KIND ROOT BUCKET SERVERS TOPIC POINT [PLACE]

KIND and ROOT are a class of `lakes` and its folder; BUCKET is a `Bucket` as JSON, or null. Plain
messages go to a PLACE of dead letters.
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

from columnar_kafka.ingest import Ingestor, IngestSettings, Rules, open_dead_letters
from columnar_kafka.ingest.reader import TopicReader
from columnar_kafka.lake.local_files import LocalFiles

POINTS = (
    *("before a file", "in a file", "before the commit", "before the swap", "after the swap"),
    *("before Kafka's commit", "between batches"),
)

LETTER_POINTS = ("before the letters", "in the letters", "after the letters", *POINTS[2:5])
"""Points of a process that has dead letters: their commit comes before the table's."""
AFTER = {"in a file", "after the swap", "between batches", "in the letters", "after the letters"}
"""The points at which the call is over."""


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half(writer: Any, write: Any, data: Any) -> None:
    write(memoryview(data)[: len(data) // 2])
    writer._file.flush()
    kill()


def arm(point: str, table: Any, letters: Any = None) -> None:
    """Have the process killed when it comes to a point for the second time."""
    owner, name = {
        "before a file": (table, "create"),
        "in a file": (table, "create"),
        "before the commit": (table, "commit"),
        "before the swap": (table, "swap"),
        "after the swap": (table, "swap"),
        "before Kafka's commit": (TopicReader, "commit"),
        "between batches": (TopicReader, "commit"),
        "before the letters": (letters, "commit"),
        "in the letters": (letters, "swap"),
        "after the letters": (letters, "commit"),
    }[point]
    method, calls = getattr(owner, name), 0

    def armed(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        is_after = point in AFTER
        if calls == 2 and not is_after:
            kill()
        result = method(*arguments, **keywords)
        if calls == 2 and name == "create":
            result.write = partial(half, result, result.write)
        elif calls == 2 and is_after:
            kill()
        return result

    setattr(owner, name, armed)


def rules_for(place: str | None) -> Rules:
    """Return rules by which plain messages are dead letters, if there is a place for them."""
    if place is None:
        return Rules()
    return Rules(dead_letters=open_dead_letters(place), plain="dead-letter")


def main(
    kind: str,
    root: str,
    bucket: str,
    servers: str,
    topic: str,
    point: str,
    place: str | None = None,
) -> None:
    store = json.loads(bucket)
    lake = getattr(lakes, kind)(Path(root), store and Bucket(*store))
    table = lake.table() if store else lake.table(files=LocalFiles())
    rules = rules_for(place)
    arm(point, table, rules.dead_letters and rules.dead_letters.table)
    config = {"bootstrap.servers": servers, "group.id": topic}
    settings = IngestSettings(partitions=(0,), stop_at_end=True, roll_bytes=4000, rules=rules)
    Ingestor(config, topic, table, settings).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
