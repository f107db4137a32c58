"""Unions land as a record with a member for each branch, of segments and of plain messages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from lakes import GENERATIONS, DirectoryLake, compared, lake_at, targets

from columnar_kafka.ingest import Decoding, Rules
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.lake.model import SourceMessage


def record(name: str, **types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": avro} for name, avro in types.items()]
    return {"type": "record", "name": name, "fields": fields}


LONGS = {"type": "array", "items": "long"}
SCHEMA = [
    record("Order", id="long", lines={"type": "array", "items": ["null", "int", "string"]}),
    record("Paid", id="long", by=["string", LONGS]),
    record("Shipped", at=["null", "string"]),
]
GROWN = [*SCHEMA, record("Returned", why="string")]
ROWS: list[Any] = [
    {"id": 1, "lines": [None, 5, "x"]},
    {"id": 1, "by": "card"},
    {"at": None},
    ("Paid", {"id": 2, "by": [1, 2]}),
    {"at": "Berlin"},
]


def datum(row: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(SCHEMA), row)
    return sink.getvalue()


def messages(last: Any) -> list[SourceMessage]:
    """Segments, plain messages among them, and segments of the `last` schema."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.segment.rows": 3}
    with kafka.Producer(config) as producer:
        producer.set_schema("t", SCHEMA)
        for row in ROWS:
            producer.produce("t", row)
        for row in ROWS:
            producer.produce("t", datum(row))
        producer.set_schema("t", last)
        producer.produce("t", {"at": "last"})
    return list(map(source_message, kafka.messages("t")))


def value_of(stored: Any) -> Any:
    """Return what a union's members stand for, and what is inside other values."""
    if isinstance(stored, list):
        return list(map(value_of, stored))
    if not isinstance(stored, dict):
        return stored
    if "member0" not in stored:
        return {name: value_of(inner) for name, inner in stored.items()}
    [value] = [inner for inner in stored.values() if inner is not None]
    return value_of(value)


@pytest.fixture(params=targets())
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lake_at(request, tmp_path)


def test_one_table_has_a_record_for_each_branch(lake: Any) -> None:
    decoding = Decoding("avro", SCHEMA)
    grows = not isinstance(lake, DirectoryLake)  # whose readers put the files' columns together
    sent = messages(GROWN if grows else SCHEMA)
    rules = Rules(plain="decode", decoding=decoding)
    land(sent, table=lake.table(), generations=GENERATIONS, rules=rules)
    # pyiceberg takes a required field for one that is there, also in a record that is null.
    assert compared(lake, sent, decoding=decoding).findings == []
    plain = [row[1] if isinstance(row, tuple) else row for row in ROWS]
    table = lake.read().drop_columns(["_kafka"])
    assert table.column_names == [f"member{place}" for place in range(3 + grows)]
    found = map(value_of, table.to_pylist())
    assert sorted(map(repr, found)) == sorted(map(repr, [*plain, *plain, {"at": "last"}]))
