"""Segments through Spark into a Parquet directory, from our source and from Spark's own."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any

import confluent_kafka
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.errors import StreamingQueryException

import spark_sink
from columnar_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from support import OnSpark

    from columnar_kafka.local import LocalKafka

    Land = Callable[..., None]

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])


def send(kafka: LocalKafka, topic: str, numbers: range, **settings: Any) -> None:
    """Send rows of {n, text}, four a segment, to all partitions of a topic."""
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": 4,
    }
    with Producer(config | settings) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in numbers:
            producer.produce(topic, {"n": n, "text": f"text {n}"}, key=f"{n}")


@pytest.fixture
def land(spark: SparkSession, kafka: LocalKafka, on_spark: OnSpark, tmp_path: Path) -> Land:
    """Land what is in the topic and not yet in the directory, through our own source."""

    def land(topic: str, mode: str = "segments", **options: str) -> None:
        source = spark.readStream.format("columnar_kafka").option("mode", mode)
        source = source.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        source = source.option("subscribe", topic).option("startingOffsets", "earliest")
        if mode == "ranges":
            options["kafka.bootstrap.servers"] = kafka.bootstrap_servers
        on_spark(lambda: run(source.load(), tmp_path, **options))

    spark_sink.register(spark)
    return land


def run(rows: Any, root: Path, **options: str) -> None:
    """Write a stream to the directory until all that is there now has landed."""
    query = (
        rows.writeStream.format("columnar_lake")
        .option("path", str(root / "lake"))
        .option("checkpointLocation", str(root / "checkpoint"))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def numbers(spark: SparkSession, root: Path, topic: str) -> list[int]:
    """Return what a plain Spark read and polars see, which is the same, sorted."""
    place = str(root / "lake" / topic)
    seen = sorted(row.n for row in spark.read.parquet(place).select("n").collect())
    assert seen == sorted(polars.read_parquet(f"{place}/*.parquet")["n"].to_list())
    return seen


def test_ranges_land_each_row_once_and_go_on_without_their_checkpoint(
    spark, kafka, land, topic, tmp_path
) -> None:
    name = topic(2)
    send(kafka, name, range(50))
    land(name, "ranges")
    assert numbers(spark, tmp_path, name) == list(range(50))
    send(kafka, name, range(50, 60))
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    land(name, "ranges")
    assert numbers(spark, tmp_path, name) == list(range(60))


def test_batch_queries_and_batches_of_a_stream_land_as_a_stream_does(
    spark, kafka, on_spark, topic, tmp_path
) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    spark_sink.register(spark)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": name,
        "startingOffsets": "earliest",
    }
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}

    def write(frame: Any, _: int = 0) -> None:
        writer = frame.write.format("columnar_lake").mode("append").options(**servers)
        writer.save(str(tmp_path / "lake"))

    ranges = spark.read.format("columnar_kafka").options(**options, mode="ranges")
    on_spark(lambda: write(ranges.load()))
    send(kafka, name, range(20, 30))
    stream = spark.readStream.format("columnar_kafka").options(**options).load().writeStream
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    on_spark(
        lambda: stream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
    )
    assert numbers(spark, tmp_path, name) == list(range(30))


def test_a_stream_lands_in_a_delta_table(kafka, land, topic, tmp_path) -> None:
    name = topic(2)
    send(kafka, name, range(50))
    land(name, **{"table.format": "delta"})
    assert sorted(polars.read_delta(str(tmp_path / "lake"))["n"]) == list(range(50))


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
    with closing(load_catalog(**catalog)) as found:
        table = found.load_table("lake.t").scan().to_arrow()
    assert sorted(table["n"].to_pylist()) == list(range(50))


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


def test_sparks_own_source_feeds_the_sink(spark, kafka, land, on_spark, topic, tmp_path) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "table.source.isolation": "read_committed",
    }
    on_spark(lambda: run(rows, tmp_path, **options))
    send(kafka, name, range(20, 25))
    # The same table goes on with our own source: both name the topic's generation alike.
    (tmp_path / "checkpoint").rename(tmp_path / "sparks")
    land(name)
    assert numbers(spark, tmp_path, name) == list(range(25))


def test_aborted_records_do_not_land(spark, kafka, land, topic, tmp_path) -> None:
    name = topic()
    config = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "columnar.encoding": "parquet",
        "transactional.id": name,
    }
    with Producer(config) as producer:
        producer.set_schema(name, SCHEMA)
        producer.init_transactions()
        for n in range(6):
            producer.begin_transaction()
            producer.produce(name, {"n": n, "text": None})
            producer.flush()
            if n % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
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


def test_what_lands_keeps_key_time_headers_and_identity(
    spark, kafka, land, topic, tmp_path
) -> None:
    name = topic()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(name, SCHEMA)
        producer.produce(
            name,
            {"n": 1, "text": "a"},
            key=b"k",
            timestamp=5000,
            headers=[("h", b"v"), ("h", None)],
        )
    land(name)
    [row] = spark.read.parquet(str(tmp_path / "lake" / name)).collect()
    assert (row.n, row.text, bytes(row._kafka.key), row._kafka.row) == (1, "a", b"k", 0)
    assert row._kafka.timestamp.timestamp() == 5
    assert [(h.key, h.value and bytes(h.value)) for h in row._kafka.headers] == [
        ("h", b"v"),
        ("h", None),
    ]


def test_a_plain_message_stops_the_stream_and_says_where(kafka, land, topic, tmp_path) -> None:
    name = topic()
    send(kafka, name, range(3))
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(name, b"plain")
    plain.flush()
    with pytest.raises(StreamingQueryException, match=rf"{name}\[0\]@1"):
        land(name)
    assert not list((tmp_path / "lake").glob("*/*.parquet"))


def test_segments_of_two_schemas_land_side_by_side(kafka, land, topic, tmp_path) -> None:
    name = topic()
    send(kafka, name, range(4))
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer(config) as producer:
        producer.set_schema(name, SCHEMA.append(pa.field("more", pa.int32())))
        producer.produce(name, {"n": 4, "text": None, "more": 7})
    land(name)
    files = sorted((tmp_path / "lake" / name).iterdir())
    assert [pq.read_metadata(path).num_rows for path in files] == [4, 1]
