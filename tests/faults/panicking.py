"""A program that uses every entry of a native core that panics when it is told to.

    panicking.py SERVERS TOPIC LAKE [ENTRY [TIMES [AFTER]]]

SERVERS is "fake" for a Kafka in memory. The core panics in some calls of ENTRY: so many TIMES, once
by default, AFTER so many others. The last line says what became of the records, as JSON.
"""

from __future__ import annotations

import collections
import dataclasses
import decimal
import json
import logging
import sys
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from columnar_kafka import Consumer, Producer, native
from columnar_kafka.errors import LakeError, SchemaError
from columnar_kafka.ingest import Decoding, Ingestor, IngestSettings, Rules
from columnar_kafka.lake.formats import open_table
from columnar_kafka.plain import Json, Lenient
from columnar_kafka.testing import FakeKafka

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        ("price", pa.decimal128(20, 2)),
        ("text", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
RECORDS = 3000


@dataclasses.dataclass
class Row:
    n: int
    price: decimal.Decimal
    text: str
    tags: list[str]


@dataclasses.dataclass
class Grown(Row):
    more: int


VALUES = 400
"""Records that are given as JSON, behind the others, and as many as Avro."""
PLAIN = 250
"""The plain one among 500 messages."""


PLAIN_SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}


def datum(n: int) -> bytes:
    """Return a value of `PLAIN_SCHEMA`, or of none."""
    if n % 50 == 0:
        return b""
    return bytes([2 * n]) if n < 64 else bytes([2 * n & 0x7F | 0x80, n >> 6])


def row(n: int) -> Any:
    parts = {"n": n, "price": decimal.Decimal(n), "text": f"text {n % 50}", "tags": ["a", str(n)]}
    return Row(**parts) if n % 7 == 0 else parts  # type: ignore[arg-type]


class Log(logging.Handler):
    """Keeps what is logged of the core."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Producing:
    """Produces records, and keeps what was accepted and reported, and how often the core raised."""

    def __init__(self, producer: Any, topic: str) -> None:
        self.accepted: list[int] = []
        self.reports: list[tuple[int, bool]] = []
        self.raised = 0
        self._producer = producer
        self._topic = topic

    def _attempt(self, call: Any, *args: Any, **kwargs: Any) -> bool:
        try:
            call(*args, **kwargs)
        except native.core.PanicError:
            self.raised += 1
            return False
        return True

    def _until_it_works(self, call: Any, *args: Any) -> None:
        while not self._attempt(call, *args):
            pass

    def _report(self, error: Any, message: Any) -> None:
        for ask in (message.value, message.headers, message.timestamp, message.key):
            self._until_it_works(ask)
        self.reports.append((int(message.key()), error is None))

    def run(self) -> None:
        """Produce all records, with two schemas."""
        grown = SCHEMA.append(pa.field("more", pa.int32()))
        self._until_it_works(self._producer.set_schema, self._topic, SCHEMA)
        for n in range(RECORDS):
            if n == RECORDS // 2:
                self._until_it_works(self._producer.set_schema, self._topic, grown)
            self._produce(n, row(n))
            if n % 200 == 0:
                self._attempt(self._producer.poll, 0)
            if n % 700 == 699:
                self._until_it_works(self._producer.flush)
        table = pa.Table.from_pylist([{"n": RECORDS}], schema=grown)
        self._until_it_works(self._producer.produce_arrow, self._topic, table)
        self._until_it_works(self._producer.flush)

    def run_values(self) -> None:
        """Produce values in JSON, of which some are left to Python, and some have no row."""
        set_schema = partial(self._producer.set_schema, value_format="json")
        timed = SCHEMA.append(pa.field("at", pa.timestamp("ms", "UTC")))
        self._until_it_works(set_schema, self._topic, timed)
        for n in range(VALUES):
            fields = {"n": n, "price": n / 4, "text": None, "tags": ["a"]}
            fields["at"] = f"2026-01-31T12:00:00.{n:03}Z"
            if n % 3 == 0:
                del fields["text"]
            value = b"[]" if n % 50 == 0 else json.dumps(fields).encode()
            if n % 20 == 0:
                value = bytearray(value)  # type: ignore[assignment]
            if self._attempt(
                self._producer.produce, self._topic, value, key=str(n), on_delivery=self._report
            ):
                self.accepted.append(n)
        self._until_it_works(self._producer.flush)

    def run_datums(self) -> None:
        """Produce values in Avro, of which some are left to Python, and some have no row."""
        set_schema = partial(self._producer.set_schema, value_format="avro")
        self._until_it_works(set_schema, self._topic, PLAIN_SCHEMA)
        for n in range(VALUES):
            value = bytearray(datum(n)) if n % 20 == 0 else datum(n)
            if self._attempt(
                self._producer.produce, self._topic, value, key=str(n), on_delivery=self._report
            ):
                self.accepted.append(n)
        self._until_it_works(self._producer.flush)

    def _produce(self, n: int, value: Any) -> None:
        if n >= RECORDS // 2:
            fields = value if isinstance(value, dict) else dataclasses.asdict(value)
            value = Grown(**fields, more=n) if n % 7 == 0 else {**fields, "more": n}
        if n % 500 == PLAIN:
            value = f"plain {n}".encode()
        parts = {"key": str(n), "headers": [("h", b"%d" % n)], "on_delivery": self._report}
        if self._attempt(self._producer.produce, self._topic, value, **parts):
            self.accepted.append(n)


def consume(consumer: Any, topic: str, partitions: int) -> list[Any]:
    """Return the keys of all records, read one by one."""
    consumer.subscribe([topic])
    keys: list[Any] = []
    ends: set[int] = set()
    while len(ends) < partitions:
        message = consumer.poll(30)
        assert message is not None, "no message"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ends.add(message.partition())
        else:
            keys.append(message.key())
    consumer.close()
    return [None if key is None else int(key) for key in keys]


def consume_json(consumer: Any, topic: str, expected: int) -> int:
    """Return how many values are JSON, those of the plain ones left out."""
    consumer.subscribe([topic])
    values: list[bytes] = []
    for _ in range(100):
        values += [message.value() for message in consumer.consume(expected - len(values), 1)]
        if len(values) == expected:
            break
    consumer.close()
    return sum(type(json.loads(value)) is dict for value in values if value[:1] == b"{")


def consume_avro(consumer: Any, topic: str, expected: int) -> int:
    """Return how many values are the datums that their keys say."""
    consumer.subscribe([topic])
    messages: list[Any] = []
    for _ in range(100):
        messages += consumer.consume(expected - len(messages), 1)
        if len(messages) == expected:
            break
    consumer.close()
    return sum(message.value() == datum(int(message.key())) for message in messages)


def consume_arrow(consumer: Any, topic: str, expected: int) -> int:
    """Return the number of all records, read as tables."""
    consumer.subscribe([topic])
    rows = 0
    for _ in range(100):
        table = consumer.consume_arrow(expected - rows, 1)
        rows += 0 if table is None else table.num_rows
        if rows == expected:
            break
    consumer.close()
    return rows


def land(servers: str, topic: str, lake: str) -> int:
    config = {"bootstrap.servers": servers, "group.id": f"{topic}-lake"}
    rules = Rules(plain="skip", verify="decode")
    settings = IngestSettings(stop_at_end=True, rules=rules)
    return Ingestor(config, topic, open_table("parquet", lake), settings).run().rows


DEFAULT = 7
"""The one of ten that lacks a field with a default, which is Python's to add."""


def land_plain(servers: str, topic: str, lake: str) -> int:
    """Return how many plain messages have landed as rows, of those produced here."""
    landed = 0
    for kind, lenient in (("json", None), ("lenient", Lenient()), ("avro", None)):
        name, form = f"{topic}-{kind}", "avro" if kind == "avro" else "json"
        with Producer({"bootstrap.servers": servers}) as producer:
            for n in range(20):
                value = {"json": b'{"n": %d}' % n, "avro": bytes([2 * n])}[form]
                producer.produce(name, b"{}" if n % 10 == DEFAULT and form == "json" else value)
        fields = [{**PLAIN_SCHEMA["fields"][0], "default": 5}]  # type: ignore[index,dict-item]
        decoding = Decoding(form, {**PLAIN_SCHEMA, "fields": fields}, lenient=lenient)
        settings = IngestSettings(stop_at_end=True, rules=Rules(plain="decode", decoding=decoding))
        config = {"bootstrap.servers": servers, "group.id": name}
        for _ in range(2):
            table = open_table("parquet", f"{lake}-{kind}")
            try:
                landed += Ingestor(config, name, table, settings).run().rows
            except LakeError:  # once, where no row can be told
                continue
            break
    return landed


def read_plain(servers: str, topic: str) -> int:
    """Return how many plain messages are read, one alone and the others as a table."""
    config = {
        "bootstrap.servers": servers,
        "group.id": f"{topic}-3",
        "columnar.encoding": "parquet",
    }
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe([f"{topic}-json"])
    rows = _read_table(consumer, 10)
    while True:
        try:
            consumer.consume_arrow(10, 2, columns=["none"])
        except SchemaError:  # they stay, and are kept together
            break
    while rows == 10:
        with suppress(native.core.PanicError):
            rows += consumer.poll(30) is not None
    rows += _read_table(consumer, 9)
    consumer.close()
    return rows


def _read_table(consumer: Any, count: int) -> int:
    rows = 0
    while rows < count:
        table = consumer.consume_arrow(count - rows, 30, key=Json(), value=Json())
        assert table is not None, "no message"
        rows += table.num_rows
    return rows


def main(
    servers: str, topic: str, lake: str, entry: str = "", times: str = "1", after: str = ""
) -> None:
    log = Log()
    logging.getLogger("columnar_kafka.native").addHandler(log)
    core: Any = native.core
    if entry:
        core.panic_at(entry, int(times), after=int(after or AFTER.get(entry, 0)))
    settings = {"bootstrap.servers": servers, "columnar.encoding": "parquet"}
    make, read = Producer, Consumer
    kafka = None
    if servers == "fake":
        kafka = FakeKafka()
        kafka.create_topic(topic, 2)
        kafka.create_topic(f"{topic}-values", 1)
        kafka.create_topic(f"{topic}-datums", 1)
        make, read = kafka.Producer, kafka.Consumer  # type: ignore[misc]
    with make(settings | {"columnar.linger.ms": 10}) as producer:
        producing = Producing(producer, topic)
        producing.run()
        given = Producing(producer, f"{topic}-values")
        given.run_values()
        datums = Producing(producer, f"{topic}-datums")
        datums.run_datums()
    reader = settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    ends = {"enable.partition.eof": True}
    keys = consume(read(reader | ends | {"group.id": f"{topic}-1"}), topic, 2)
    in_segments = len([n for n in keys if n is None or n % 500 != PLAIN])
    rows = consume_arrow(read(reader | {"group.id": f"{topic}-2"}), topic, len(keys))
    as_json = {"group.id": f"{topic}-4", "columnar.value.format": "json"}
    objects = consume_json(read(reader | as_json), topic, len(keys))
    kept = sum(stored for _, stored in given.reports)
    values = consume_arrow(read(reader | {"group.id": f"{topic}-5"}), f"{topic}-values", kept)
    as_avro = {"group.id": f"{topic}-6", "columnar.value.format": "avro"}
    stored = sum(stored for _, stored in datums.reports)
    same = consume_avro(read(reader | as_avro), f"{topic}-datums", stored) == stored
    landed = land(servers, topic, lake) if kafka is None else None
    decoded = land_plain(servers, topic, lake) if kafka is None else None
    read_rows = read_plain(servers, topic) if kafka is None else None
    result = {
        "accepted": len(producing.accepted),
        "reported": sorted(n for n, _ in producing.reports) == producing.accepted,
        "values": sorted(n for n, _ in given.reports) == given.accepted and values == kept,
        "datums": sorted(n for n, _ in datums.reports) == datums.accepted and same,
        "failed": sum(
            not stored for _, stored in producing.reports + given.reports + datums.reports
        ),
        "stored": collections.Counter(n for n, stored in producing.reports if stored)
        == collections.Counter(n for n in keys if n is not None),
        "rows": rows == len(keys) and objects == in_segments,
        "landed": landed is None or landed == in_segments,
        "decoded": decoded in (None, 60) and read_rows in (None, 20),
        "raised": producing.raised + given.raised + datums.raised,
        "panicked": bool(entry) and core.has_panicked(entry),
        "log": log.lines,
        "called": core.called_entries(),
    }
    print(json.dumps(result))  # noqa: T201


AFTER = {"produce": 1000, "Encoder.encode": 2, "Reports.run": 1}
"""How many calls of an entry are in order first: it is to happen in the middle."""


if __name__ == "__main__":
    main(*sys.argv[1:])
