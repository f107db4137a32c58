"""No segment is sent that a consumer refuses for its size by default."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from columnar_kafka import native
from columnar_kafka.columns import decoded_size, native_format
from columnar_kafka.config import ReadOptions
from columnar_kafka.producing.engine import record_block
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

MOST = decoded_size.MOST_DECODED >> 8
LIMITS = ReadOptions(
    max_decoded_bytes=ReadOptions().max_decoded_bytes >> 8, max_values=ReadOptions().max_values >> 8
)
ROWS = 3000
PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "a few long texts": (pa.string(), lambda n: "x" * 2000 + str(n % 3)),
    "texts that begin alike": (pa.string(), lambda n: f"{'y' * 500}{n:05}"),
    "null texts": (pa.struct([(f"c{k}", pa.string()) for k in range(50)]), lambda _: None),
    "booleans": (pa.list_(pa.bool_()), lambda n: [n % 2 == 0] * (n % 50)),
    "lists of one length": (pa.list_(pa.bool_(), 40), lambda n: [n > 5] * 40 if n % 9 else None),
    "records in lists": (pa.list_(PAIR), lambda n: [{"a": n, "b": None}] * (n % 7)),
    "lists in lists": (pa.list_(pa.list_(pa.int8())), lambda n: [[n % 5] * 4, [], None] * (n % 4)),
    "maps": (pa.map_(pa.string(), pa.float64()), lambda n: {f"k{k}": 0.5 for k in range(n % 9)}),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("way", [*["native"] * native.enabled, "pure", "arrow"])
def test_every_segment_is_within_the_limits(
    way: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "enabled", way == "native")
    monkeypatch.setattr(native_format, "MOST_DECODED", MOST)
    monkeypatch.setattr(record_block, "MOST_DECODED", MOST)
    arrow, value = COLUMNS[name]
    schema = pa.schema([("n", pa.int64()), ("column", arrow)])
    rows = [{"n": n, "column": value(n)} for n in range(ROWS)]
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
    with kafka.Producer(config) as producer:
        producer.set_schema("t", schema)
        if way == "arrow":
            lists = {key: [row[key] for row in rows] for key in ("n", "column")}
            producer.produce_arrow("t", pa.table(lists, schema=schema))
        else:
            for row in rows:
                producer.produce("t", row, key="k", headers=[("h", b"1")])
    monkeypatch.setattr(native, "enabled", False)
    decoder = InlineDecoder(LIMITS)
    segments = [
        Segment(
            topic="t",
            partition=0,
            offset=message.offset(),
            headers=message.headers(),
            value=message.value(),
            decoder=decoder,
        )
        for message in kafka.messages("t")
    ]
    assert [n for segment in segments for n in segment.to_table()["n"].to_pylist()] == [
        *range(ROWS)
    ]
