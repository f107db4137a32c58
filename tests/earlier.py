"""Produce or consume records by whichever release of the package is on the path.

    PYTHONPATH=… python tests/earlier.py < job.json

It is run by `faults/test_earlier_release.py`, and uses what every release has. It prints the folder
that the package comes from, and what it has read as JSON.
"""

from __future__ import annotations

import datetime
import json
import sys
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

import columnar_kafka
from columnar_kafka import Consumer, Producer

UTC = datetime.timezone.utc
AT = datetime.datetime(2026, 3, 4, 5, 6, 7, 890_000, UTC)
SCHEMAS = {
    # pyarrow finds these types in the Parquet schema alone …
    "plain": pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False),
            ("small", pa.int16()),
            ("real", pa.float64()),
            ("text", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("texts", pa.list_(pa.field("element", pa.string()))),
            ("inner", pa.struct([("ok", pa.bool_()), ("bytes", pa.binary())])),
            ("money", pa.decimal128(12, 2)),
            ("day", pa.date32()),
        ]
    ),
    # … and these in the Arrow schema that is stored beside it.
    "declared": pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False),
            ("took", pa.duration("ms")),
            ("there", pa.timestamp("ms", "Europe/Berlin")),
            ("pair", pa.list_(pa.int32(), 2)),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("wide", pa.large_string()),
        ]
    ),
}


def row(kind: str, n: int) -> dict[str, Any]:
    """Return the n-th row of a schema; every fifth has nulls only."""
    if n % 5 == 4:
        return {"n": n} | dict.fromkeys(SCHEMAS[kind].names[1:])
    if kind == "declared":
        return {
            "n": n,
            "took": datetime.timedelta(milliseconds=n),
            "there": (AT + datetime.timedelta(hours=n)).astimezone(ZoneInfo("Europe/Berlin")),
            "pair": [n, None],
            "counts": {"a": n, "b": None},
            "wide": f"wide {n}",
        }
    return {
        "n": n,
        "small": -n,
        "real": n / 3,
        "text": f"text {n % 3}",
        "at": AT + datetime.timedelta(microseconds=n),
        "texts": [None, "", f"{n}"][: n % 4],
        "inner": {"ok": n % 2 == 0, "bytes": bytes([n % 256])},
        "money": Decimal(n).scaleb(-2),
        "day": AT.date(),
    }


def record(kind: str, n: int) -> list[str]:
    """Return what is read of the n-th record: its row, key, headers and time."""
    return [str(row(kind, n)), str(b"k%d" % n), str([("h", b"%d" % n)]), str(1_000 + n)]


def produce(servers: str, topic: str, kind: str, numbers: list[int]) -> None:
    """Send records, four a segment, to partition 0."""
    config = {
        "bootstrap.servers": servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": 4,
        "columnar.metadata": "id,key,timestamp,headers",
    }
    with Producer(config) as producer:
        producer.set_schema(topic, SCHEMAS[kind])
        for n in numbers:
            producer.produce(
                topic,
                row(kind, n),
                key=b"k%d" % n,
                partition=0,
                timestamp=1_000 + n,
                headers=[("h", b"%d" % n)],
            )


def consume(servers: str, topic: str, group: str, count: int) -> list[list[str]]:
    """Read the next records of the group, and commit each."""
    config = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "columnar.encoding": "parquet",
    }
    records = []
    with Consumer(config) as consumer:
        consumer.subscribe([topic])
        while len(records) < count:
            message = consumer.poll(120)
            assert message is not None, "nothing came any more"
            assert message.error() is None, message.error()
            parts = (message.value(), message.key(), message.headers(), message.timestamp()[1])
            records.append([str(part) for part in parts])
            consumer.commit(message=message, asynchronous=False)
    return records


if __name__ == "__main__":
    job = json.load(sys.stdin)
    result = {"produce": produce, "consume": consume}[job.pop("do")](**job)
    json.dump({"package": columnar_kafka.__file__, "result": result}, sys.stdout)
