"""Avro that was produced as columns lands as it lands of plain messages."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from lakes import GENERATIONS, DirectoryLake, audit
from plain_values import avro_values, fields

from columnar_kafka.ingest import Decoding, Rules
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.plain.avro_rows import AvroRows
from columnar_kafka.segment.headers import is_segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from columnar_kafka.lake.model import SourceMessage

SCHEMA = {"type": "record", "name": "R", "fields": fields()}
HEADER = b"\0\0\0\0\7"
DECODING = Decoding("avro", SCHEMA, schema_id=7)
CONFIG = {"columnar.encoding": "parquet", "columnar.segment.rows": 40, "columnar.linger.ms": 60_000}


def messages(values: Sequence[bytes], value_format: str | None) -> list[SourceMessage]:
    """Return what a topic has of values: None for the format: as they are."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer(CONFIG) as producer:
        if value_format is not None:
            producer.set_schema("t", SCHEMA, value_format=value_format)
        for number, value in enumerate(values):
            producer.produce("t", value, key=b"%04d" % number, timestamp=1000 + number)
    return list(map(source_message, kafka.messages("t")))


def landed(lake: DirectoryLake, sent: Sequence[SourceMessage], verify: Any) -> pa.Table:
    """Return the rows that land of messages, in the order in which they were produced."""
    rules = Rules(plain="decode", decoding=DECODING, verify=verify)
    land(sent, table=lake.table(), generations=GENERATIONS, rules=rules)
    assert audit(lake, sent, decoding=DECODING).findings == []
    table = lake.read()
    kafka = table["_kafka"].combine_chunks()
    table = table.append_column("key", kafka.field("key")).drop_columns(["_kafka"])
    return table.append_column("time", kafka.field("timestamp")).sort_by("key").combine_chunks()


def test_columns_and_misfits_land_as_plain_messages_do(tmp_path: Path) -> None:
    rng = random.Random(7)
    some = [value for value in avro_values(SCHEMA, rng, 600) if value is not None]
    errors = AvroRows(SCHEMA).decode(some)[1]
    values = [HEADER + value for index, value in enumerate(some) if index not in errors]
    as_columns, as_they_are = messages(values, "avro"), messages(values, None)
    kinds = [is_segment(message.headers) for message in as_columns]
    assert 0 < sum(kinds) < len(kinds) < len(as_they_are)
    expected = landed(DirectoryLake(tmp_path / "plain"), as_they_are, "headers")
    assert expected.num_rows == len(values)
    for verify in ("headers", "decode"):
        assert landed(DirectoryLake(tmp_path / verify), as_columns, verify).equals(expected)
