"""How long does reading the same rows take, as records, as Arrow tables and as raw segments?

A real broker has all flights of 2013 as segments and, row by row, as Avro (in zstd batches). A
reader first reads one message that does not count: then it is connected. The readers alternate in
every round, so a busy machine slows all of them down: only the ratios are reliable. Times are wall
clock times, which include the work of librdkafka's own threads.
"""

from __future__ import annotations

import datetime as dt
import gc
import io
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import fastavro
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro
from confluent_kafka import TopicPartition

import columnar_kafka
from columnar_kafka.demo import flights, records
from columnar_kafka.local import LocalKafka
from columnar_kafka.plain import Avro, Json

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 7
BATCH = 10_000
SMALL_MESSAGES = 100_000
COPIES = 32  # of the flights, where only bytes are read
PARTS = 10  # segments of the flights sorted by time
LATE = pa.scalar(dt.datetime(2013, 12, 31, 12, tzinfo=dt.timezone.utc), pa.timestamp("ms", "UTC"))
ROWS, SEGMENTS, MANY, SMALL, SORTED = "rows", "segments", "many-segments", "small", "sorted"
AVRO = json.loads(records.avro_schema())
PARQUET = {"columnar.encoding": "parquet"}
SMALL_SCHEMA = {
    "type": "record",
    "name": "Small",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}

Read = tuple[int, int]  # rows and bytes


def fill(servers: str, table: pa.Table) -> None:
    """Write one message that does not count and then the rows to every topic."""
    ours = columnar_kafka.Producer({"bootstrap.servers": servers, **PARQUET})
    for topic, copies in ((SEGMENTS, 1), (MANY, COPIES)):
        ours.produce(topic, b"-", partition=0)
        ours.set_schema(topic, records.avro_schema())
        ours.flush()
        for _ in range(copies):
            ours.produce_arrow(topic, table, partition=0)
            ours.flush()
    ours.produce(SORTED, b"-", partition=0)
    ours.set_schema(SORTED, records.avro_schema())
    for part in in_parts(table):
        ours.flush()
        ours.produce_arrow(SORTED, part, partition=0)
    ours.close()
    config = {"bootstrap.servers": servers, "compression.type": "zstd", "linger.ms": 100}
    stock = confluent_kafka.Producer({**config, "queue.buffering.max.messages": 10_000_000})
    schema = fastavro.parse_schema(AVRO)
    stock.produce(ROWS, b"-", partition=0)
    for row in table.to_pylist():
        stock.produce(ROWS, avro(schema, row), partition=0)
    for encoding in ("avro", "json"):
        stock.produce(f"{SMALL}-{encoding}", b"-", partition=0)
    small = fastavro.parse_schema(SMALL_SCHEMA)
    ours = columnar_kafka.Producer({"bootstrap.servers": servers, **PARQUET})
    ours.produce(f"{SMALL}-segments", b"-", partition=0)
    ours.flush()
    ours.set_schema(f"{SMALL}-segments", json.dumps(SMALL_SCHEMA))
    for n in range(SMALL_MESSAGES):
        row = {"id": n, "text": f"text {n}"}
        options = {"key": b"%d" % n, "headers": [("trace", b"%d" % n)], "partition": 0}
        stock.produce(f"{SMALL}-avro", avro(small, row), **options)
        stock.produce(f"{SMALL}-json", orjson.dumps(row), **options)
        ours.produce(f"{SMALL}-segments", row, **options)
    ours.close()
    stock.flush()


def in_parts(table: pa.Table) -> list[pa.Table]:
    """Return the rows sorted by time, in ten tables."""
    table = table.sort_by("time_hour")
    rows = -(-table.num_rows // PARTS)
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def avro(schema: Any, row: dict[str, Any]) -> bytes:
    """Encode one row."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


# --- the readers ----------------------------------------------------------------------------------


def fastavro_dicts(consumer: Any, left: int) -> Read:
    """Read as most programs do: one dict per message."""
    schema = fastavro.parse_schema(AVRO)
    messages = consumer.consume(min(BATCH, left), 10)
    rows = [fastavro.schemaless_reader(io.BytesIO(each.value()), schema, None) for each in messages]
    return len(rows), 0


def pyruhvro_table(consumer: Any, left: int) -> Read:
    """Read Avro messages into Arrow."""
    values = [message.value() for message in consumer.consume(min(BATCH, left), 10)]
    return pyruhvro.deserialize_array(values, json.dumps(AVRO)).num_rows, 0


def our_dicts(consumer: Any, left: int) -> Read:
    """Read segments as messages with a dict each."""
    return sum(1 for each in consumer.consume(min(BATCH, left), 10) if each.value()), 0


def our_table(consumer: Any, left: int) -> Read:
    """Read segments as tables."""
    table = consumer.consume_arrow(min(100_000, left), 10)
    return (0 if table is None else table.num_rows), 0


def two_columns(consumer: Any, left: int) -> Read:
    """Read two of the 19 columns."""
    table = consumer.consume_arrow(min(100_000, left), 10, ["carrier", "arr_delay"])
    return (0 if table is None else table.num_rows), 0


def late_rows(*, by_statistics: bool) -> Callable[[Any, int], Read]:
    """Filter rows of the last of ten segments; only `by_statistics` the other nine are skipped."""
    hour: Any = pc.field("time_hour")
    condition = (hour if by_statistics else hour.cast(LATE.type)) > LATE

    def run(consumer: Any, _: int) -> Read:
        table = consumer.consume_arrow(100_000, 10, filter=condition)
        return (0 if table is None else table.num_rows), 0

    return run


def messages(consumer: Any, left: int) -> Read:
    """Read messages and use none."""
    return len(consumer.consume(min(BATCH, left), 10)), 0


def raw_values(consumer: Any, _: int) -> Read:
    """Read messages undecoded, as the stock client does."""
    messages = consumer.consume(1, 10)
    return len(messages), sum(len(message.value()) for message in messages)


def our_segments(consumer: Any, _: int) -> Read:
    """Read verified segments."""
    segment = consumer.poll_segment(10)
    return 1, len(segment.bytes)


def small_messages(value: Any) -> Callable[[Any, int], Read]:
    """Read small plain messages, with their keys and headers, as one table."""

    def run(consumer: Any, left: int) -> Read:
        table = consumer.consume_arrow(left, 10, value=value)
        return table.num_rows, 0

    return run


STOCK, OURS = confluent_kafka.Consumer, columnar_kafka.Consumer
RAW = {**PARQUET, "fetch.raw.bytes": True}
READERS: dict[str, tuple[Any, dict[str, Any], str, Callable[[Any, int], Read]]] = {
    "confluent-kafka + fastavro → dicts": (STOCK, {}, ROWS, fastavro_dicts),
    "ours → dicts": (OURS, PARQUET, SEGMENTS, our_dicts),
    "confluent-kafka + pyruhvro → Arrow": (STOCK, {}, ROWS, pyruhvro_table),
    "ours → Arrow": (OURS, PARQUET, SEGMENTS, our_table),
    "ours → Arrow, 2 of 19 columns": (OURS, PARQUET, SEGMENTS, two_columns),
    "ours → Arrow, 1 of 10 segments": (OURS, PARQUET, SORTED, late_rows(by_statistics=True)),
    "the same, no segment skipped": (OURS, PARQUET, SORTED, late_rows(by_statistics=False)),
    "confluent-kafka, segments' bytes": (STOCK, {}, MANY, raw_values),
    "ours, fetch.raw.bytes": (OURS, RAW, MANY, raw_values),
    "ours, poll_segment": (OURS, PARQUET, MANY, our_segments),
    "confluent-kafka, 100,000 messages": (STOCK, {}, f"{SMALL}-avro", messages),
    "100,000 messages → Arrow, bytes": (OURS, PARQUET, f"{SMALL}-avro", small_messages(None)),
    "100,000 messages → Arrow, Avro": (
        OURS,
        PARQUET,
        f"{SMALL}-avro",
        small_messages(Avro(SMALL_SCHEMA)),
    ),
    "100,000 records of segments → Arrow": (
        OURS,
        PARQUET,
        f"{SMALL}-segments",
        small_messages(None),
    ),
    "100,000 messages → Arrow, JSON": (OURS, PARQUET, f"{SMALL}-json", small_messages(Json())),
}


def seconds(reader: str, servers: str, wanted: int) -> tuple[float, Read]:
    """Read a topic with a new consumer; return the time, and the rows and bytes."""
    cls, own, topic, run = READERS[reader]
    config = {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    consumer = cls({**config, **own})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while (first := consumer.poll(10)) is None or first.error() is not None:
        pass
    assert first.value() == b"-"
    rows = nbytes = 0
    began = time.perf_counter()
    while rows < wanted:
        some, size = run(consumer, wanted - rows)
        rows += some
        nbytes += size
    took = time.perf_counter() - began
    consumer.close()
    assert rows == wanted, reader
    return took, (rows, nbytes)


def main() -> None:
    """Print a line for each reader, then ratios: medians, with the extremes in brackets."""
    table = flights.load()
    times: dict[str, list[float]] = {name: [] for name in READERS}
    results: dict[str, Read] = {}
    with LocalKafka() as kafka:
        servers = kafka.bootstrap_servers
        for topic in (
            ROWS,
            SEGMENTS,
            MANY,
            SORTED,
            f"{SMALL}-avro",
            f"{SMALL}-json",
            f"{SMALL}-segments",
        ):
            kafka.create_topic(topic, 1, {"retention.ms": "-1"})
        fill(servers, table)
        wanted = {ROWS: table.num_rows, SEGMENTS: table.num_rows, MANY: segments_of(servers)}
        wanted[SORTED] = pc.sum(pc.greater(table["time_hour"], LATE)).as_py()
        gc.disable()
        for _ in range(ROUNDS):
            for name, (_, _, topic, _) in READERS.items():
                took, results[name] = seconds(name, servers, wanted.get(topic, SMALL_MESSAGES))
                times[name].append(took)
                gc.collect()
    for name, took in times.items():
        rows, nbytes = results[name]
        speed = f"{nbytes / 1e6 / statistics.median(took):.0f} MB/s" if nbytes else ""
        speed = speed or f"{rows / statistics.median(took):,.0f} records/s"
        print(f"{name:36} {summary([1000 * each for each in took], '.0f')} ms, {speed}")
    ratio(times, "ours → dicts", "confluent-kafka + fastavro → dicts")
    ratio(times, "ours → Arrow", "confluent-kafka + fastavro → dicts")
    ratio(times, "ours → Arrow", "confluent-kafka + pyruhvro → Arrow")
    ratio(times, "100,000 records of segments → Arrow", "100,000 messages → Arrow, Avro")
    ratio(times, "ours → Arrow, 1 of 10 segments", "the same, no segment skipped")
    ratio(times, "ours → Arrow, 1 of 10 segments", "ours → Arrow")
    ratio(times, "ours, fetch.raw.bytes", "confluent-kafka, segments' bytes")
    ratio(times, "ours, poll_segment", "confluent-kafka, segments' bytes")


def segments_of(servers: str) -> int:
    """Return how many segments are read as bytes."""
    consumer = STOCK({"bootstrap.servers": servers, "group.id": "bench"})
    _, high = consumer.get_watermark_offsets(TopicPartition(MANY, 0), 10)
    consumer.close()
    return int(high) - 1


def ratio(times: dict[str, list[float]], ours: str, theirs: str) -> None:
    """Print how many times faster one reader is than another."""
    ratios = [slow / fast for fast, slow in zip(times[ours], times[theirs], strict=True)]
    print(f"{ours} is {summary(ratios, '.2f')} times as fast as {theirs}")


def summary(values: list[float], form: str) -> str:
    """Format the median, the minimum and the maximum."""
    return f"{statistics.median(values):{form}} [{min(values):{form}}, {max(values):{form}}]"


if __name__ == "__main__":
    main()
