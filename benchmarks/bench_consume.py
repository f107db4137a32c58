"""What does it take to read the same rows back: records, Arrow tables, raw segments?

All flights of 2013 lie on a real broker as segments and, row by row, as Avro (zstd batches). Each
kind reads its topic from the second message on, when it is connected; the kinds take turns in every
round, so that a busy machine disturbs all: believe the ratios only. Times are wall clock, what
librdkafka fetches in its own threads included.
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
SMALL = 100_000
COPIES = 32  # of the flights, where only bytes are moved
TENTHS = 10  # segments of the flights in their order of time
LATE = pa.scalar(dt.datetime(2013, 12, 31, 12, tzinfo=dt.timezone.utc), pa.timestamp("ms", "UTC"))
ROWS, SEGMENTS, MANY, LITTLE, IN_TIME = "rows", "segments", "many-segments", "little", "in-time"
AVRO = json.loads(records.avro_schema())
PARQUET = {"columnar.encoding": "parquet"}
LITTLE_SCHEMA = {
    "type": "record",
    "name": "Little",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}

Taken = tuple[int, int]  # rows and bytes


def fill(servers: str, table: pa.Table) -> None:
    """Put one message that nobody counts and then the rows on each topic."""
    ours = columnar_kafka.Producer({"bootstrap.servers": servers, **PARQUET})
    for topic, copies in ((SEGMENTS, 1), (MANY, COPIES)):
        ours.produce(topic, b"-", partition=0)
        ours.set_schema(topic, records.avro_schema())
        ours.flush()
        for _ in range(copies):
            ours.produce_arrow(topic, table, partition=0)
            ours.flush()
    ours.produce(IN_TIME, b"-", partition=0)
    ours.set_schema(IN_TIME, records.avro_schema())
    for tenth in tenths(table):
        ours.flush()
        ours.produce_arrow(IN_TIME, tenth, partition=0)
    ours.close()
    config = {"bootstrap.servers": servers, "compression.type": "zstd", "linger.ms": 100}
    stock = confluent_kafka.Producer({**config, "queue.buffering.max.messages": 10_000_000})
    schema = fastavro.parse_schema(AVRO)
    stock.produce(ROWS, b"-", partition=0)
    for row in table.to_pylist():
        stock.produce(ROWS, avro(schema, row), partition=0)
    for kind in ("avro", "json"):
        stock.produce(f"{LITTLE}-{kind}", b"-", partition=0)
    little = fastavro.parse_schema(LITTLE_SCHEMA)
    ours = columnar_kafka.Producer({"bootstrap.servers": servers, **PARQUET})
    ours.produce(f"{LITTLE}-segments", b"-", partition=0)
    ours.flush()
    ours.set_schema(f"{LITTLE}-segments", json.dumps(LITTLE_SCHEMA))
    for n in range(SMALL):
        row = {"id": n, "text": f"text {n}"}
        given = {"key": b"%d" % n, "headers": [("trace", b"%d" % n)], "partition": 0}
        stock.produce(f"{LITTLE}-avro", avro(little, row), **given)
        stock.produce(f"{LITTLE}-json", orjson.dumps(row), **given)
        ours.produce(f"{LITTLE}-segments", row, **given)
    ours.close()
    stock.flush()


def tenths(table: pa.Table) -> list[pa.Table]:
    """Return the rows in their order of time, in ten parts."""
    table = table.sort_by("time_hour")
    rows = -(-table.num_rows // TENTHS)
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]


def avro(schema: Any, row: dict[str, Any]) -> bytes:
    """Encode one row."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


# --- the kinds ------------------------------------------------------------------------------------


def fastavro_dicts(consumer: Any, left: int) -> Taken:
    """Read as most do: a dict for each message."""
    schema = fastavro.parse_schema(AVRO)
    found = consumer.consume(min(BATCH, left), 10)
    rows = [fastavro.schemaless_reader(io.BytesIO(each.value()), schema, None) for each in found]
    return len(rows), 0


def pyruhvro_table(consumer: Any, left: int) -> Taken:
    """Read Avro messages into Arrow."""
    found = consumer.consume(min(BATCH, left), 10)
    text = json.dumps(AVRO)
    return pyruhvro.deserialize_array([each.value() for each in found], text).num_rows, 0


def our_dicts(consumer: Any, left: int) -> Taken:
    """Read segments as messages, each with its dict."""
    return sum(1 for each in consumer.consume(min(BATCH, left), 10) if each.value()), 0


def our_table(consumer: Any, left: int) -> Taken:
    """Read segments as tables."""
    table = consumer.consume_arrow(min(100_000, left), 10)
    return (0 if table is None else table.num_rows), 0


def two_columns(consumer: Any, left: int) -> Taken:
    """Read two of the 19 columns."""
    table = consumer.consume_arrow(min(100_000, left), 10, ["carrier", "arr_delay"])
    return (0 if table is None else table.num_rows), 0


def late_rows(*, told: bool) -> Callable[[Any, int], Taken]:
    """Read rows of the last of ten segments; `told` if statistics can tell that it is that one."""
    hour: Any = pc.field("time_hour")
    condition = (hour if told else hour.cast(LATE.type)) > LATE

    def run(consumer: Any, _: int) -> Taken:
        table = consumer.consume_arrow(100_000, 10, filter=condition)
        return (0 if table is None else table.num_rows), 0

    return run


def messages(consumer: Any, left: int) -> Taken:
    """Read messages and look at none."""
    return len(consumer.consume(min(BATCH, left), 10)), 0


def raw_values(consumer: Any, _: int) -> Taken:
    """Read messages as they are, the way of the stock client."""
    found = consumer.consume(1, 10)
    return len(found), sum(len(each.value()) for each in found)


def our_segments(consumer: Any, _: int) -> Taken:
    """Read verified segments."""
    segment = consumer.poll_segment(10)
    return 1, len(segment.bytes)


def little(value: Any) -> Callable[[Any, int], Taken]:
    """Read small plain messages, with their keys and headers, as one table."""

    def run(consumer: Any, left: int) -> Taken:
        table = consumer.consume_arrow(left, 10, value=value)
        return table.num_rows, 0

    return run


STOCK, OURS = confluent_kafka.Consumer, columnar_kafka.Consumer
RAW = {**PARQUET, "fetch.raw.bytes": True}
KINDS: dict[str, tuple[Any, dict[str, Any], str, Callable[[Any, int], Taken]]] = {
    "confluent-kafka + fastavro → dicts": (STOCK, {}, ROWS, fastavro_dicts),
    "ours → dicts": (OURS, PARQUET, SEGMENTS, our_dicts),
    "confluent-kafka + pyruhvro → Arrow": (STOCK, {}, ROWS, pyruhvro_table),
    "ours → Arrow": (OURS, PARQUET, SEGMENTS, our_table),
    "ours → Arrow, 2 of 19 columns": (OURS, PARQUET, SEGMENTS, two_columns),
    "ours → Arrow, 1 of 10 segments": (OURS, PARQUET, IN_TIME, late_rows(told=True)),
    "the same, looked at": (OURS, PARQUET, IN_TIME, late_rows(told=False)),
    "confluent-kafka, segments' bytes": (STOCK, {}, MANY, raw_values),
    "ours, fetch.raw.bytes": (OURS, RAW, MANY, raw_values),
    "ours, poll_segment": (OURS, PARQUET, MANY, our_segments),
    "confluent-kafka, 100,000 messages": (STOCK, {}, f"{LITTLE}-avro", messages),
    "100,000 messages → Arrow, bytes": (OURS, PARQUET, f"{LITTLE}-avro", little(None)),
    "100,000 messages → Arrow, Avro": (
        OURS,
        PARQUET,
        f"{LITTLE}-avro",
        little(Avro(LITTLE_SCHEMA)),
    ),
    "100,000 records of segments → Arrow": (OURS, PARQUET, f"{LITTLE}-segments", little(None)),
    "100,000 messages → Arrow, JSON": (OURS, PARQUET, f"{LITTLE}-json", little(Json())),
}


def seconds(kind: str, servers: str, wanted: int) -> tuple[float, Taken]:
    """Read a topic with a new consumer; return the time, and the rows and bytes."""
    cls, own, topic, run = KINDS[kind]
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
    assert rows == wanted, kind
    return took, (rows, nbytes)


def main() -> None:
    """Print a line for each kind, and the ratios: medians, and in brackets the extremes."""
    table = flights.load()
    times: dict[str, list[float]] = {name: [] for name in KINDS}
    taken: dict[str, Taken] = {}
    with LocalKafka() as kafka:
        servers = kafka.bootstrap_servers
        for topic in (
            ROWS,
            SEGMENTS,
            MANY,
            IN_TIME,
            f"{LITTLE}-avro",
            f"{LITTLE}-json",
            f"{LITTLE}-segments",
        ):
            kafka.create_topic(topic, 1, {"retention.ms": "-1"})
        fill(servers, table)
        wanted = {ROWS: table.num_rows, SEGMENTS: table.num_rows, MANY: segments_of(servers)}
        wanted[IN_TIME] = pc.sum(pc.greater(table["time_hour"], LATE)).as_py()
        gc.disable()
        for _ in range(ROUNDS):
            for name, (_, _, topic, _) in KINDS.items():
                took, taken[name] = seconds(name, servers, wanted.get(topic, SMALL))
                times[name].append(took)
                gc.collect()
    for name, each in times.items():
        rows, nbytes = taken[name]
        speed = f"{nbytes / 1e6 / statistics.median(each):.0f} MB/s" if nbytes else ""
        speed = speed or f"{rows / statistics.median(each):,.0f} records/s"
        print(f"{name:36} {shown([1000 * took for took in each], '.0f')} ms, {speed}")
    ratio(times, "ours → dicts", "confluent-kafka + fastavro → dicts")
    ratio(times, "ours → Arrow", "confluent-kafka + fastavro → dicts")
    ratio(times, "ours → Arrow", "confluent-kafka + pyruhvro → Arrow")
    ratio(times, "100,000 records of segments → Arrow", "100,000 messages → Arrow, Avro")
    ratio(times, "ours → Arrow, 1 of 10 segments", "the same, looked at")
    ratio(times, "ours → Arrow, 1 of 10 segments", "ours → Arrow")
    ratio(times, "ours, fetch.raw.bytes", "confluent-kafka, segments' bytes")
    ratio(times, "ours, poll_segment", "confluent-kafka, segments' bytes")


def segments_of(servers: str) -> int:
    """Count the segments that are read as bytes."""
    consumer = STOCK({"bootstrap.servers": servers, "group.id": "bench"})
    _, high = consumer.get_watermark_offsets(TopicPartition(MANY, 0), 10)
    consumer.close()
    return int(high) - 1


def ratio(times: dict[str, list[float]], ours: str, theirs: str) -> None:
    """Print how many times faster one is than the other."""
    found = [slow / fast for fast, slow in zip(times[ours], times[theirs], strict=True)]
    print(f"{ours} is {shown(found, '.2f')} times as fast as {theirs}")


def shown(found: list[float], form: str) -> str:
    """Show the median, the least and the greatest."""
    return f"{statistics.median(found):{form}} [{min(found):{form}}, {max(found):{form}}]"


if __name__ == "__main__":
    main()
