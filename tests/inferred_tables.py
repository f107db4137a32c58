"""Tables that land plain messages of a topic whose schema nobody has written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from lakes import DirectoryLake

from columnar_kafka.ingest import Decoding, Ingestor, IngestSettings, Rules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.ingest import DeadLetters
    from columnar_kafka.testing import FakeKafka

__all__ = ["CONFIG", "ingest", "landed", "send"]

CONFIG = {"bootstrap.servers": "memory", "group.id": "g"}


def send(kafka: FakeKafka, rows: Iterable[Any], partition: int = 0) -> None:
    """Send rows as JSON; a text is sent as it is."""
    with kafka.Producer({}) as producer:
        for row in rows:
            text = row if isinstance(row, str) else json.dumps(row)
            producer.produce("t", text, partition=partition)


def ingest(
    table: Any,
    schema: Any = None,
    *,
    partitions: tuple[int, ...] = (0, 1),
    dead_letters: DeadLetters | None = None,
    **options: Any,
) -> int:
    """Land the topic to its end, decoding by a schema if there is one; return how many rows."""
    decoding = Decoding("json", schema, **options) if schema else None
    plain: Any = "decode" if schema else "stop"
    rules = Rules(plain=plain, decoding=decoding, dead_letters=dead_letters)
    settings = IngestSettings(
        partitions=partitions, stop_at_end=True, topic_generation="g", rules=rules
    )
    return Ingestor(CONFIG, "t", table, settings).run().rows


def landed(lake: Any) -> list[dict[str, Any]]:
    """Return the rows of a table by their column `n`, if it has one, without `_kafka`."""
    if isinstance(lake, DirectoryLake):  # whose files differ
        files = [pq.read_table(file, filesystem=lake.filesystem()) for file in lake.data_files()]
        table = pa.concat_tables(files, promote_options="permissive")
    else:
        table = lake.read()
    rows: list[dict[str, Any]] = table.drop_columns("_kafka").to_pylist()
    return sorted(rows, key=lambda row: row.get("n") or 0)
