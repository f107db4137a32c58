"""Random schemas and rows, sent as segments and read with every reader.

As a program it prints the outcomes of trials: `nesting.py TRIALS SEED`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import random
import string
import sys
import time
import traceback
import zoneinfo
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from arrow_types import storable
from confluent_kafka import TopicPartition
from segments import headers_of

from columnar_kafka import Segment
from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_arrow.arrow_input import conform
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.lake.stitching.stitch import stitch
from columnar_kafka.schema import RecordSchema, fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DEPTH = 4
CLIENTS = 0.1
"""The share of trials that also send the rows through a producer."""
ROWS = 250
"""Enough for the encoder to write dictionaries, which are read differently."""

TEXTS = ["carrier", "flight", "origin", "", "ü"]
CONFIG = {"group.id": "g", "columnar.encoding": "parquet", "auto.offset.reset": "earliest"}

Row = dict[str, Any]
Make = Callable[[], Any]

# --- schemas and rows -----------------------------------------------------------------------------


class RandomRows:
    """A random schema and rows that fit it, from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        fields = [self._field(name, DEPTH) for name in "abc"[: self.rng.randint(1, 3)]]
        fields.append((pa.field("text", pa.string()), lambda: self.rng.choice(TEXTS)))
        self.schema = pa.schema([field for field, _ in fields])
        pool = [{field.name: make() for field, make in fields} for _ in range(40)]
        self.rows: list[Row] = self.rng.choices(pool, k=ROWS)

    def _field(self, name: str, depth: int, *, in_record: bool = False) -> tuple[pa.Field, Make]:
        kinds = ["leaf", *["list", "large_list", "fixed", "map", "struct", "struct"] * (depth > 1)]
        kind = self.rng.choice(kinds)
        arrow, make = getattr(self, f"_{kind}")(depth - 1)
        # A fixed-size list in a record has to be nullable.
        nullable = (kind == "fixed" and in_record) or self.rng.random() < 0.5
        if not nullable:
            return pa.field(name, arrow, nullable=False), make
        return pa.field(name, arrow), lambda: None if self.rng.random() < 0.3 else make()

    def _leaf(self, _: int) -> tuple[pa.DataType, Make]:
        arrow, values = self.rng.choice(LEAVES)
        return arrow, lambda: self.rng.choice(values)

    def _list(self, depth: int) -> tuple[pa.DataType, Make]:
        item, make = self._field("item", depth)
        arrow = self.rng.choice([pa.list_, pa.list_, pa.list_view])(item)
        return arrow, lambda: [make() for _ in range(self.rng.randint(0, 3))]

    def _large_list(self, depth: int) -> tuple[pa.DataType, Make]:
        item, make = self._field("item", depth)
        arrow = self.rng.choice([pa.large_list, pa.large_list, pa.large_list_view])(item)
        return arrow, lambda: [make() for _ in range(self.rng.randint(0, 3))]

    def _fixed(self, depth: int) -> tuple[pa.DataType, Make]:
        item, make = self._field("item", depth)
        size = self.rng.randint(1, 3)
        return pa.list_(item, size), lambda: [make() for _ in range(size)]

    def _map(self, depth: int) -> tuple[pa.DataType, Make]:
        arrow, keys = self.rng.choice(
            [leaf for leaf in LEAVES if not pa.types.is_floating(leaf[0])]
        )
        item, make = self._field("value", depth)
        some = lambda: self.rng.sample(keys, self.rng.randint(0, min(3, len(keys))))  # noqa: E731
        return pa.map_(arrow, item), lambda: {key: make() for key in some()}

    def _struct(self, depth: int) -> tuple[pa.DataType, Make]:
        names = "rst"[: self.rng.randint(1, 3)]
        fields = [self._field(name, depth, in_record=True) for name in names]
        arrow = pa.struct([field for field, _ in fields])
        return arrow, lambda: {field.name: make() for field, make in fields}


def _times(*, micros: int, tz: dt.tzinfo | None = None) -> list[dt.datetime]:
    start = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=tz)
    return [start + dt.timedelta(days=n, microseconds=n * micros) for n in range(-400, 400, 37)]


def _leaves() -> Iterator[tuple[pa.DataType, Sequence[Any]]]:
    yield pa.bool_(), [True, False]
    for bits in (8, 16, 32, 64):
        half = 1 << bits - 1
        yield getattr(pa, f"int{bits}")(), [-half, -1, 0, 1, 2, half - 1]
        yield getattr(pa, f"uint{bits}")(), [0, 1, 2, half, 2 * half - 1]
    for floating in (pa.float16(), pa.float32(), pa.float64()):
        yield floating, [0.0, -1.5, 0.25, 1024.0, float("inf")]
    texts = [*TEXTS, *string.ascii_letters, "x" * 70]
    for text in (pa.string(), pa.large_string(), pa.string_view()):
        yield text, texts
    for binary in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield binary, [text.encode() for text in texts]
    yield pa.dictionary(pa.int32(), pa.string()), TEXTS
    yield pa.dictionary(pa.int8(), pa.int64()), [1, 2, 3]
    yield pa.binary(3), [b"abc", b"\0\0\0", b"xyz"]
    yield pa.date32(), [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(-50, 50)]
    yield pa.time32("ms"), [dt.time(n, n, n, 1000 * n) for n in range(24)]
    yield pa.time64("us"), [dt.time(n, n, n, n) for n in range(24)]
    yield pa.time64("ns"), [1 + 1_000_000 * n for n in range(24)]
    for zone in (None, "UTC", "Europe/Berlin", "+02:00"):
        tz = _zone(zone)
        yield pa.timestamp("ms", zone), _times(micros=1000, tz=tz)
        yield pa.timestamp("us", zone), _times(micros=1, tz=tz)
        yield pa.timestamp("ns", zone), [1 + 1_000_000_000 * n for n in range(-20, 20)]
    for unit, tick in (("s", 10**6), ("ms", 1000), ("us", 1)):
        yield pa.duration(unit), [dt.timedelta(microseconds=tick * n) for n in range(-10, 10)]
    yield pa.duration("ns"), [1 + 1_000_000 * n for n in range(-10, 10)]
    for bits, digits in ((32, 9), (64, 18), (128, 38), (256, 76)):
        for kind in storable(f"decimal{bits}", digits, 2):
            yield kind, [decimal.Decimal(n).scaleb(-2) for n in range(-90, 90, 7)]


def _zone(name: str | None) -> dt.tzinfo | None:
    if name is None or name.startswith("+"):
        return name and dt.timezone(dt.timedelta(hours=2))  # type: ignore[return-value]
    return dt.timezone.utc if name == "UTC" else zoneinfo.ZoneInfo(name)


LEAVES = list(_leaves())
"""Every type that is not nested and that a producer accepts, with values."""


# --- segments -------------------------------------------------------------------------------------


READS_ALL = VERSION >= (26, 0)
"""Whether pyarrow writes and reads all these types by itself."""
WAYS = ["rows", "rows", "arrow", *(["arrow again", "foreign"] if READS_ALL else [])]


class SentSegment:
    """A segment with these rows, as our producer or as another writer encodes it.

    Its footer has more keys: those of `footer`.
    """

    def __init__(self, data: RandomRows, footer: dict[str, bytes] | None = None) -> None:
        self.rows, self.schema = data.rows, data.schema
        parsed = RecordSchema.parse(data.schema)
        self.way = data.rng.choice(WAYS)
        batch = self._from_rows(parsed)
        if self.way.startswith("arrow"):
            table = pa.Table.from_batches([batch])
            if self.way == "arrow again":  # in the layout that Parquet's reader returns
                out = io.BytesIO()
                pq.write_table(table, out)
                table = pq.read_table(out)
            columns = conform(table, parsed, now_ms=0).columns.combine_chunks()
            [batch] = columns.to_batches()
        count = len(self.rows)
        whole = kafka_column.KafkaColumn(METADATA_MEMBERS).append_to(
            batch,
            segment="p-0",
            timestamps=kafka_column.timestamp_array(range(count)),
            keys=kafka_column.key_array([row["text"].encode() for row in self.rows]),
            headers=kafka_column.header_array([[("h", b"x")], None] * (count // 2)),
        )
        header = SegmentHeader(
            rows=count,
            segment="p-0",
            schema=fingerprint(whole.schema),
            timestamp_min=0,
            timestamp_max=count - 1,
        )
        self.value = self._encode(whole, header.footer() | (footer or {}), data.rng)
        self.headers = headers_of(header, self.value)

    def _from_rows(self, parsed: RecordSchema) -> pa.RecordBatch:
        columns = RowColumns(parsed)
        builder = columns.builder()
        values = {id(row): columns.take(row)[0] for row in self.rows}
        for row in self.rows:
            builder.append(values[id(row)])
        batch, refused = builder.finish()
        assert not refused
        return batch

    def _encode(self, batch: pa.RecordBatch, footer: dict[str, bytes], rng: random.Random) -> bytes:
        if self.way != "foreign":
            return ParquetEncoder("zstd").encode(batch, footer).to_pybytes()
        out = io.BytesIO()
        with pq.ParquetWriter(
            out,
            batch.schema,
            compression=rng.choice(["none", "snappy"]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            write_page_checksum=True,
        ) as writer:
            writer.write_table(pa.Table.from_batches([batch]), rng.choice([100, None]))
            writer.add_key_value_metadata(footer)
        return out.getvalue()


# --- readers --------------------------------------------------------------------------------------


def read(sent: SentSegment, rng: random.Random) -> Iterator[tuple[str, bool]]:
    """Yield the name of every reader, and whether it returned the rows that were produced."""
    segment = Segment(topic="t", partition=0, offset=0, headers=sent.headers, value=sent.value)
    names = [name for name in segment.schema.names if name != "_kafka"]
    some, text = rng.sample(names, rng.randint(1, len(names))), rng.choice(TEXTS)
    yield "records", sent.rows == [record.value for record in segment.records()]
    messages = _consumer(sent).consume(2 * ROWS, 0)
    yield "poll", sent.rows == [message.error() or message.value() for message in messages]
    table = segment.to_table()
    rows = [row for batch in table.select(names).to_batches() for row in to_rows(batch)]
    yield "to_table", sent.rows == rows and _is_sound(table)
    table = table.select(names)  # the other readers return this, or a part of it
    end = rng.choice(_ends(segment.schema))
    result = segment.to_table([*some, "_kafka.key", end])
    others = [name for name in some if name != end.partition(".")[0]]
    is_same = result.select(others).equals(table.select(others))
    yield f"to_table of {end} and columns", is_same and _is_sound(result)
    result = _consumer(sent).consume_arrow(ROWS, 0)
    yield "consume_arrow", result.select(names).equals(table) and _is_sound(result)
    condition = pc.field("text") == text
    result = _consumer(sent).consume_arrow(ROWS, 0, columns=some, filter=condition)
    chosen = table.filter(condition).select(some)
    is_same = result.equals(chosen) and _is_sound(result) if result else not len(chosen)
    yield "consume_arrow with a filter", is_same
    result = _consumer(sent).arrow_reader(some, timeout=0, num_records=ROWS // 2).read_all()
    yield "arrow_reader", result.equals(table.select(some)) and _is_sound(result)
    if READS_ALL:
        result = _stitched([sent.value, sent.value]).select(names)
        yield "stitched", result.equals(pa.concat_tables([table, table]))
    if rng.random() < CLIENTS:
        yield "clients, rows", _sent(sent, None) == list(enumerate(sent.rows))
        yield "clients, Arrow", _sent(sent, table) == list(enumerate(sent.rows))


def _ends(schema: pa.Schema) -> list[str]:
    """Return the paths of the members of top-level records, which select columns."""
    return [
        f"{field.name}.{inner.name}"
        for field in schema
        if pa.types.is_struct(field.type)
        for inner in field.type
    ]


def _is_sound(table: pa.Table) -> bool:
    """Say whether a table is valid, and can be cast as users do."""
    table.validate(full=True)
    return bool(table.cast(table.schema).equals(table))


def _consumer(sent: SentSegment) -> Any:
    topic = FakeKafka()
    topic.create_topic("t")
    topic.append("t", 0, sent.value, headers=sent.headers)
    consumer = topic.Consumer(CONFIG)
    consumer.assign([TopicPartition("t", 0, 0)])
    return consumer


def _sent(sent: SentSegment, table: pa.Table | None) -> list[tuple[int, Row]]:
    """Send rows, or a table of them, through a producer; return what arrived, by row."""
    topic = FakeKafka()
    topic.create_topic("t", 3)
    with topic.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", sent.schema)
        if table is None:
            for number, row in enumerate(sent.rows):
                producer.produce("t", row, key=str(number))
        else:
            keys = pa.array(map(str, range(ROWS)))
            table = table.append_column("number", keys)
            producer.produce_arrow("t", table, key="number")
    records = [
        (int(record.key()), record.error() or record.value()) for record in topic.records("t")
    ]
    return sorted(records, key=lambda record: record[0])


def _stitched(values: Iterable[bytes]) -> pa.Table:
    out = io.BytesIO()
    stitch(values, out, metadata={})
    return pq.read_table(out)


# --- trials ---------------------------------------------------------------------------------------


def trial(seed: int) -> str:
    """Send and read rows; return the failure, or empty text."""
    data = RandomRows(seed)
    place = "nothing"
    try:
        sent = SentSegment(data)
        place = f"{sent.way}, encoded"
        for reader, is_right in read(sent, data.rng):
            place = f"{sent.way}, {reader}"
            if not is_right:
                return f"different: {seed} ({place})"
    except Exception as error:  # noqa: BLE001 - any failure is counted
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"unreadable: {seed} (after {place}): {error!r:.300} in {last.name}"
    return ""


def main(trials: int, seed: int) -> dict[str, Any]:
    """Run trials; return their number, the failures and the seconds."""
    start = time.perf_counter()
    wrong = [failure for number in range(seed, seed + trials) if (failure := trial(number))]
    seconds = round(time.perf_counter() - start)
    return {"trials": trials, "wrong": wrong, "seconds": seconds}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*map(int, sys.argv[1:]))))
