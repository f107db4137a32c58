"""Landing by Spark, beyond `integration/test_spark.py`: a catalog, restores, transactions."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import confluent_kafka
import pyarrow.parquet as pq
import pytest
from landing import lander, numbers
from pyiceberg.catalog import load_catalog
from pyspark.errors import StreamingQueryException
from sending import send, send_in_transactions

if TYPE_CHECKING:
    from pathlib import Path

    from landing import Land
    from pyspark.sql import SparkSession
    from support import OnSpark

    from columnar_kafka.local import LocalKafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def land(spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, tmp_path: Path) -> Land:
    return lander(spark, kafka, on_spark, tmp_path)


def test_a_stream_lands_in_an_iceberg_table(kafka, land, topic, tmp_path) -> None:
    name = topic(2)
    catalog = {
        "name": "spark",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    options = {f"table.catalog.{key}": value for key, value in catalog.items()}
    send(kafka, name, range(50))
    land(name, **{"table.format": "iceberg", "path": "lake.t"}, **options)
    with closing(load_catalog(**catalog)) as opened:
        table = opened.load_table("lake.t").scan().to_arrow()
    assert sorted(table["n"].to_pylist()) == list(range(50))


def test_a_lost_checkpoint_neither_loses_nor_doubles_a_row(
    spark, kafka, land, topic, tmp_path
) -> None:
    name = topic(2)
    send(kafka, name, range(50))
    land(name)
    send(kafka, name, range(50, 60))
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    land(name)
    assert numbers(spark, tmp_path, name) == list(range(60))


def test_verbatim_files_are_the_bytes_that_were_sent(kafka, land, topic, tmp_path) -> None:
    name = topic()
    send(kafka, name, range(10))
    land(name, **{"table.layout": "verbatim"})
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "verbatim",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([name])
    sent = [consumer.poll(120).value() for _ in range(3)]
    consumer.close()
    files = sorted((tmp_path / "lake" / name).iterdir())
    assert [path.read_bytes() for path in files] == sent


@pytest.mark.parametrize("mode", ["segments", "ranges"])
def test_plain_messages_land_as_rows_beside_segments(
    spark, kafka, land, topic, tmp_path, mode
) -> None:
    name = topic()
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for n in range(3):
        plain.produce(name, b'{"n": %d, "text": "text %d"}' % (n, n), key=b"k")
    plain.flush()
    send(kafka, name, range(3, 6))
    fields = [{"name": "n", "type": "long"}, {"name": "text", "type": ["null", "string"]}]
    options = {
        "table.plain": "decode",
        "table.plain.format": "json",
        "table.plain.schema": json.dumps({"type": "record", "name": "r", "fields": fields}),
    }
    land(name, mode, **options)
    assert numbers(spark, tmp_path, name) == list(range(6))
    [file] = (tmp_path / "lake" / name).iterdir()
    keys = [row["key"] for row in pq.read_table(file)["_kafka"].to_pylist()]
    assert keys == [b"k", b"k", b"k", b"3", b"4", b"5"]


def test_aborted_records_do_not_land(spark, kafka, land, topic, tmp_path) -> None:
    name = topic()
    for n in send_in_transactions(kafka, name, range(6)):
        if n in (0, 3):
            # The next batch begins behind the markers, and behind what was aborted.
            land(name, **{"kafka.bootstrap.servers": kafka.bootstrap_servers})
    land(name, **{"kafka.bootstrap.servers": kafka.bootstrap_servers})
    assert numbers(spark, tmp_path, name) == [0, 2, 4]


def test_a_table_behind_its_checkpoint_is_noticed(spark, kafka, land, topic, tmp_path) -> None:
    """The table was restored, and the stream would go on after what it then lacked."""
    name = topic()
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    send(kafka, name, range(4))
    land(name)
    shutil.copytree(tmp_path / "lake", tmp_path / "backup")
    send(kafka, name, range(4, 8))
    land(name)
    shutil.rmtree(tmp_path / "lake")
    (tmp_path / "backup").rename(tmp_path / "lake")
    send(kafka, name, range(8, 12))
    match = "messages from offset 1 on, between the table's next offset 1 and the stream's first 2"
    with pytest.raises(StreamingQueryException, match=match):
        land(name, **servers)
    assert numbers(spark, tmp_path, name) == list(range(4))
    land(name, **servers, **{"table.gap": "allow"})
    assert numbers(spark, tmp_path, name) == [*range(4), *range(8, 12)]
