"""Records as Arrow on a real Kafka: topics, groups that change, and who reads the stream."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import KafkaError, KafkaException

from columnar_kafka import Consumer, Producer
from columnar_kafka.plain import Json

if TYPE_CHECKING:
    from collections.abc import Callable

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("deep", pa.struct([("x", pa.list_(pa.string()))])),
    ]
)
_groups = itertools.count(1)


def send(kafka: LocalKafka, topic: str, start: int, count: int, *, plain: bool = False) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer({**settings, "columnar.segment.rows": 100}) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in range(start, start + count):
            value = b'{"n": %d}' % n if plain else {"n": n, "deep": {"x": [str(n), None]}}
            producer.produce(topic, value, key=f"k{n}", headers=[("n", b"%d" % n)])


def make(kafka: LocalKafka, group: str | None = None, **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group or f"arrow-{next(_groups)}",
            "auto.offset.reset": "earliest",
            "columnar.encoding": "parquet",
            "enable.partition.eof": True,
            **config,
        }
    )


def until_ends(ends: int, take: Callable[[], pa.Table | None]) -> list[pa.Table]:
    """All tables until so many partitions' ends were told."""
    tables = []
    while ends:
        try:
            table = take()
        except KafkaException as error:
            if error.args[0].code() != KafkaError._PARTITION_EOF:
                raise
            ends -= 1
        else:
            assert table is not None
            tables.append(table)
    return tables


def test_segments_and_plain_messages_of_several_topics(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    names = [topic(2), topic(1)]
    for name in names:
        send(kafka, name, 0, 1000)
        send(kafka, name, 1000, 500, plain=True)
    with make(kafka) as consumer:
        consumer.subscribe(names)
        columns = ["n", "_kafka"]
        tables = until_ends(3, lambda: consumer.consume_arrow(700, 120, columns, value=Json()))
        for name in names:
            rows = [
                row
                for table in tables
                if table.schema.metadata[b"columnar.topic"] == name.encode()
                for row in table.to_pylist()
            ]
            assert sorted(row["n"] for row in rows) == list(range(1500))
            for row in rows:
                assert row["_kafka"]["key"] == b"k%d" % row["n"]
                assert row["_kafka"]["headers"] == [{"key": "n", "value": b"%d" % row["n"]}]
        committed = consumer.commit(asynchronous=False)
        assert committed is not None
        ends = [consumer.get_watermark_offsets(place, 120)[1] for place in committed]
        assert [place.offset for place in committed] == ends


def test_members_come_and_go_and_each_row_comes_once(
    kafka: LocalKafka, topic: TopicFactory
) -> None:
    """Each is closed in the middle of a segment, having committed what it has handed out."""
    name, group = topic(2), f"arrow-{next(_groups)}"
    send(kafka, name, 0, 2000)
    numbers: list[int] = []
    for _ in range(4):
        with make(kafka, group, **{"enable.partition.eof": False}) as consumer:
            consumer.subscribe([name])
            for count in (130, 1, 369):
                table = consumer.consume_arrow(count, 120, ["n"])
                assert table is not None
                numbers += table["n"].to_pylist()
                consumer.commit(asynchronous=False)
    assert sorted(numbers) == list(range(2000))


def test_duckdb_and_polars_read_the_stream(kafka: LocalKafka, topic: TopicFactory) -> None:
    name = topic(2)
    send(kafka, name, 0, 1000)
    with make(kafka) as consumer:
        consumer.subscribe([name])
        reader = consumer.arrow_reader(["n", "deep"], until_end=True)
        query = "select count(*), sum(n), max(deep.x[1]) from reader where n >= 10"
        assert duckdb.sql(query).fetchall() == [(990, sum(range(10, 1000)), "999")]
        assert reader.schema.names == ["n", "deep"]
    with make(kafka) as consumer:
        consumer.subscribe([name])
        reader = consumer.arrow_reader(["n"], filter=pc.field("n") < 10, until_end=True)
        frame = polars.from_arrow(reader)
        assert isinstance(frame, polars.DataFrame)
        assert sorted(frame["n"].to_list()) == list(range(10))
