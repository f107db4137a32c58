"""The native core is on, and usual records never leave it."""

from __future__ import annotations

import datetime as dt
import gc
import os
import subprocess
import sys
import time
import zoneinfo
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from both_paths import CONFIG
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from inside import pipeline_of
from support import eventually

from columnar_kafka import Consumer, Producer, Segment, native
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.demo import flights as flights_data
from columnar_kafka.errors import RowError
from columnar_kafka.producing.accepting.record_queue import RecordQueue
from columnar_kafka.producing.engine.native import NativeBlock
from columnar_kafka.producing.pipeline import Pipeline
from columnar_kafka.schema import RecordSchema
from columnar_kafka.segment import decoder
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from columnar_kafka.local import EmbeddedKafka

ROWS = 1000
START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
REQUIRED = {"nullable": False}
LINE = pa.struct(
    [pa.field("sku", pa.string(), **REQUIRED), ("count", pa.int64()), ("price", pa.float64())]
)
SCHEMAS = {
    "narrow": pa.schema(
        [pa.field("id", pa.int64(), **REQUIRED), ("name", pa.string()), ("v", pa.float64())]
    ),
    "log": pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("host", pa.string()),
            ("trace", pa.string()),
            ("level", pa.string()),
            ("status", pa.int32()),
            ("ms", pa.float64()),
            ("ok", pa.bool_()),
        ]
    ),
    "nested": pa.schema(
        [
            ("customer", LINE),
            ("lines", pa.list_(LINE)),
            ("tags", pa.list_(pa.string())),
            ("attributes", pa.map_(pa.string(), pa.string())),
        ]
    ),
    "wide": pa.schema(
        [(f"c{n}", (pa.int64(), pa.float64(), pa.string())[n % 3]) for n in range(200)]
    ),
}


def value(arrow: pa.DataType, n: int) -> Any:
    """Return the n-th value of a column."""
    if pa.types.is_struct(arrow):
        return {field.name: value(field.type, n + i) for i, field in enumerate(arrow)}
    if pa.types.is_map(arrow):
        return {f"key {i}": value(arrow.item_type, n + i) for i in range(n % 3)}
    if pa.types.is_list(arrow):
        return [value(arrow.value_type, n + i) for i in range(n % 4)]
    return {
        pa.timestamp("us", "UTC"): START + dt.timedelta(milliseconds=n),
        pa.string(): f"text {n % 97}",
        pa.bool_(): n % 2 == 0,
        pa.float64(): n / 8,
    }.get(arrow, n)


def rows_of(name: str) -> tuple[pa.Schema, list[dict[str, Any]]]:
    if name == "flights":
        return flights_data.SCHEMA, flights_data.records(flights_data.load().slice(0, ROWS))
    schema = SCHEMAS[name]
    rows = [
        {field.name: None if field.nullable and n % 50 == i else value(field.type, n + i)
         for i, field in enumerate(schema)}
        for n in range(ROWS)
    ]  # fmt: skip
    return schema, rows


@pytest.mark.parametrize(
    ("name", "has_parts"),
    [("flights", False), *((name, True) for name in ("flights", *SCHEMAS))],
    ids=["flights, bare", "flights", *SCHEMAS],
)
def test_usual_records_never_leave_the_core(
    name: str, has_parts: bool, embedded: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python opens one batch, encodes nothing, and decodes nothing."""
    slow: list[Any] = []
    monkeypatch.delattr(Segment, "_slices_of_table")
    monkeypatch.delattr(decoder.ArrowFile, "read")
    accept_row = Pipeline.accept_row

    def accept(*arguments: Any) -> None:
        slow.append(arguments)
        accept_row(*arguments)

    monkeypatch.setattr(Pipeline, "accept_row", accept)
    blocks = []
    encode = NativeBlock.encode
    monkeypatch.setattr(
        NativeBlock, "encode", lambda *args: blocks.append(args[0]) or encode(*args)
    )
    schema, rows = rows_of(name)
    topic = f"native-{name}-{has_parts}"
    embedded.create_topic(topic, 1)
    servers = {"bootstrap.servers": embedded.bootstrap_servers, "columnar.encoding": "parquet"}
    reports = []
    with Producer(servers | {"columnar.linger.ms": 60_000}) as producer:
        producer.set_schema(topic, schema)
        for n, row in enumerate(rows):
            if has_parts:
                parts = {"key": f"k{n % 10}", "timestamp": 1000 + n, "headers": [("h", b"%d" % n)]}
                producer.produce(topic, row, **parts, on_delivery=lambda e, _: reports.append(e))
            else:
                producer.produce(topic, value=row)
    assert (len(slow), [len(block) for block in blocks]) == (1, [ROWS])
    assert reports == [None] * (ROWS if has_parts else 0)
    with Consumer(servers | {"group.id": topic}) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        messages: list[Any] = []
        eventually(lambda: messages.extend(consumer.consume(ROWS, 0.1)) or len(messages) >= ROWS)
        consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
        assert consumer.consume_arrow(ROWS, 10).num_rows == ROWS
    assert [message.value() for message in messages] == rows
    if has_parts:
        assert [message.key() for message in messages] == [b"k%d" % (n % 10) for n in range(ROWS)]
        assert [message.timestamp()[1] for message in messages] == [1000 + n for n in range(ROWS)]
        assert [message.headers() for message in messages] == [
            [("h", b"%d" % n)] for n in range(ROWS)
        ]


def test_the_first_record_of_a_batch_does_not_leave_the_core_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow: list[Any] = []
    accept_row = Pipeline.accept_row

    def accept(*arguments: Any) -> None:
        slow.append(arguments)
        accept_row(*arguments)

    monkeypatch.setattr(Pipeline, "accept_row", accept)
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.segment.rows": 2}
    with kafka.Producer(config | {"columnar.linger.ms": 60_000}) as producer:
        producer.set_schema("t", pa.schema([("n", pa.int64())]))
        for n in range(6):
            producer.produce("t", {"n": n})
        with pytest.raises(RowError):
            producer.produce("t", {"n": "no number"})
    headers = [dict(message.headers())["columnar.rows"] for message in kafka.messages("t")]
    assert (len(slow), headers) == (1, [b"2", b"2", b"2"])


def test_a_segment_of_one_record_is_sent_at_once() -> None:
    """The record that opens a batch may fill it, whether Python or the core has opened it."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.segment.rows": 1}
    with kafka.Producer(config | {"columnar.linger.ms": 60_000}) as producer:
        producer.set_schema("t", pa.schema([("n", pa.int64())]))
        for n in range(3):
            producer.produce("t", {"n": n})
        eventually(lambda: len(kafka.messages("t")) == 3)


def test_values_of_other_classes_begin_no_segment() -> None:
    """Such as numpy's and pandas's, enums of text, and times of zones that are none of Python's."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    schema = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC")})
    name, data = np.str_("text"), np.bytes_(b"data")
    with kafka.Producer(CONFIG) as producer:
        producer.set_schema("t", schema)
        for n in range(3):
            producer.produce("t", {"n": np.int64(n), "at": pd.Timestamp(START)})
            producer.produce("t", {"n": n, "at": START}, key=data, headers=[(name, data)])
    headers = [dict(message.headers())["columnar.rows"] for message in kafka.messages("t")]
    assert headers == [b"6"]
    assert [record.value()["n"] for record in kafka.records("t")] == [0, 0, 1, 1, 2, 2]


def test_a_batch_that_begins_with_a_value_of_another_class_is_sent_in_time() -> None:
    """Who opens it may be the core, which leaves its first record to Python."""
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer(CONFIG | {"columnar.linger.ms": 1}) as producer:
        producer.set_schema("t", pa.schema({"n": pa.int64()}))
        for n in range(3):
            producer.produce("t", {"n": np.int64(n)})
            eventually(lambda n=n: len(kafka.messages("t")) == n + 1)


def test_the_records_after_a_refused_one_that_opened_a_batch_do_not_wait() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer({"columnar.encoding": "parquet", "columnar.linger.ms": 1}) as producer:
        producer.set_schema("t", pa.schema([("n", pa.int64())]))
        producer.produce("t", {"n": 0})  # after it the core opens batches
        queue = pipeline_of(producer).queue
        eventually(lambda: len(kafka.messages("t")) == 1)
        eventually(lambda: queue.sleeps_until > time.monotonic() + 60)
        with pytest.raises(RowError):
            producer.produce("t", {"n": "no number"})
        producer.produce("t", {"n": 1})
        eventually(lambda: len(kafka.messages("t")) == 2)


def test_ctrl_c_while_a_batch_is_opened_takes_no_record_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_batch, interrupted = RecordQueue.open_batch, []

    def interrupt(self: RecordQueue, *arguments: Any) -> Any:
        opened = open_batch(self, *arguments)
        if producer_has_begun and not interrupted:
            interrupted.append(opened)
            raise KeyboardInterrupt
        return opened

    monkeypatch.setattr(RecordQueue, "open_batch", interrupt)
    producer_has_begun = False
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.segment.rows": 2}
    with kafka.Producer(config | {"columnar.linger.ms": 60_000}) as producer:
        producer.set_schema("t", pa.schema([("n", pa.int64())]))
        for n in range(2):
            producer.produce("t", {"n": n})
        producer_has_begun = True
        with pytest.raises(KeyboardInterrupt):
            producer.produce("t", {"n": 2})
        for n in range(3, 6):
            producer.produce("t", {"n": n})
    assert len(interrupted) == 1
    assert [record.value()["n"] for record in kafka.records("t")] == [0, 1, 3, 4, 5]


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_it_says_whether_it_is_on_and_why_not() -> None:
    assert (native.enabled, native.reason) == (True, None)
    code = "from columnar_kafka import native; print(native.enabled, native.reason)"
    assert run(code, COLUMNAR_KAFKA_NATIVE="0") == "False COLUMNAR_KAFKA_NATIVE=0"
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run("from columnar_kafka import native; native.core", COLUMNAR_KAFKA_NATIVE="0")
    assert "AttributeError: the native core is off: COLUMNAR_KAFKA_NATIVE=0" in raised.value.stderr
    missing = "import sys; sys.modules['columnar_kafka.native._core'] = None; "
    output = run(missing + code, COLUMNAR_KAFKA_NATIVE="")
    assert output.startswith("False this installation has no native core for this platform (")


def test_produce_looks_the_same_with_the_core() -> None:
    """Its signature, its documentation, and that it is a method that can be replaced."""
    code = """
import inspect
from columnar_kafka import Producer
produce = Producer.produce
_, *parameters = inspect.signature(produce).parameters.values()
print([(each.name, each.kind, each.default) for each in parameters])
print(produce.__name__, produce.__qualname__, inspect.getdoc(produce))
"""
    assert run(code, COLUMNAR_KAFKA_NATIVE="") == run(code, COLUMNAR_KAFKA_NATIVE="0")


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TIMES = [
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
    dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    dt.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo("UTC")),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.timezone.utc),
    dt.datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=dt.timezone(dt.timedelta(hours=-2, microseconds=-1))),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.timezone.utc),
    dt.datetime(2026, 1, 1, 12),  # noqa: DTZ001 - naive is UTC
]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("time", TIMES, ids=str)
def test_a_time_is_what_pyarrow_makes_of_it(time: dt.datetime, unit: str) -> None:
    schema = RecordSchema.parse(pa.schema([("t", pa.timestamp(unit, "UTC"))]))
    core = row_format(schema)
    batch = native.core.Batch(core, 9, 1 << 20)
    taken = batch.append((time,), None, 1, None, None, native.core.Usage(1 << 20))
    try:
        values, _ = RowColumns(schema).take({"t": time})
    except RowError:
        assert not taken
    else:
        expected = RowColumns(schema).convert([values]).batch
        assert taken
        assert batch.seal().values(0, 1) == to_rows(expected)


def test_pytz_has_one_utc_and_no_row_looks_for_it() -> None:
    """Other zones in Python are left to Python; looking for a module may wait for a thread."""
    code = """
import datetime as dt, sys, types
import pyarrow as pa
from columnar_kafka import native
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.schema import RecordSchema

class UTC(dt.tzinfo):
    def utcoffset(self, _):
        return dt.timedelta(0)

class Pytz(types.ModuleType):
    def __getattr__(self, name):
        print("asked for", name)
        raise AttributeError(name)

def is_taken(zone):
    batch = native.core.Batch(core, 9, 1 << 20)
    time = dt.datetime(2026, 1, 1, tzinfo=zone)
    taken = batch.append((time,), None, 1, None, None, native.core.Usage(1 << 20))
    assert not taken or batch.seal().values(0, 1) == [{"t": time.replace(tzinfo=dt.timezone.utc)}]
    return taken

schema = RecordSchema.parse(pa.schema([("t", pa.timestamp("us", "UTC"))]))
pytz = sys.modules["pytz"] = Pytz("pytz")
core = row_format(schema)
print(is_taken(UTC()))
pytz.utc = UTC()
print(is_taken(pytz.utc))
core = row_format(schema)
print(is_taken(pytz.utc), is_taken(UTC()))
"""
    assert run(code).split("\n") == ["asked for utc", "False", "False", "True False"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="it runs between instructions only")
@pytest.mark.parametrize("zone", [dt.timezone.utc, dt.timezone(dt.timedelta(hours=1)), BERLIN])
def test_the_garbage_collector_waits_until_a_row_is_appended(zone: dt.tzinfo) -> None:
    """It may run code of the user's, which may change the row."""
    core = row_format(RecordSchema.parse(pa.schema([("t", pa.timestamp("us", "UTC"))])))
    batch, usage = native.core.Batch(core, 9, 1 << 20), native.core.Usage(1 << 20)
    row = (dt.datetime(2026, 1, 1, tzinfo=zone),)
    collections: list[str] = []

    def collect(phase: str, _: dict[str, int]) -> None:
        collections.append(phase)

    threshold = gc.get_threshold()
    gc.disable()
    gc.callbacks.append(collect)
    try:
        gc.set_threshold(1)
        due: list[list[int]] = [[] for _ in range(9)]
        gc.enable()
        batch.append(row, None, 1, None, None, usage)
        gc.disable()
    finally:
        gc.callbacks.remove(collect)
        gc.set_threshold(*threshold)
        gc.enable()
    assert (len(batch), len(due), collections) == (1, 9, [])


@pytest.mark.parametrize(
    ("arrow", "value", "held"),
    [
        (pa.string(), None, 4),
        (pa.bool_(), None, 4),
        (pa.string(), "a text that repeats", 4),
        (pa.list_(pa.binary(1024)), [bytes(1024)] * 10, 10 * (1024 + 2)),
        (pa.list_(LINE), [{"sku": "s", "count": None, "price": None}] * 10, 10 * (3 * 2 + 4)),
        (pa.list_(LINE), [{"sku": "s", "count": 1, "price": 0.5}] * 10, 10 * (3 * 2 + 4 + 8 + 8)),
        (pa.map_(pa.int64(), pa.binary(100)), {k: bytes(100) for k in range(9)}, 9 * (108 + 4)),
    ],
    ids=str,
)
def test_a_row_is_charged_at_least_what_it_holds(arrow: pa.DataType, value: Any, held: int) -> None:
    schema = RecordSchema.parse(pa.schema([("column", arrow)]))
    core = row_format(schema)
    batch, usage = native.core.Batch(core, 99, 1 << 30), native.core.Usage(1 << 30)
    row, _ = RowColumns(schema).take({"column": value})
    charged = []
    for _ in range(2):  # the second adds no text
        before = usage.bytes
        assert batch.append(row, None, 1, None, None, usage)
        charged.append(usage.bytes - before)
    assert charged[0] >= charged[1] >= held + 8  # its time


def test_texts_of_refused_rows_are_forgotten() -> None:
    schema = RecordSchema.parse(pa.schema([("text", pa.string()), ("n", pa.int64())]))
    core = row_format(schema)
    batch, usage = native.core.Batch(core, 999, 1 << 30), native.core.Usage(1 << 30)
    texts = [f"text {n}" for n in range(60)]  # by their objects, too
    for text in texts:
        batch.append((texts[0], 0), None, 1, None, None, usage)
        assert not batch.append((text, "no number"), None, 1, None, None, usage)
    for n, text in enumerate(texts):
        assert batch.append((text, n), None, 1, None, None, usage)
    values = batch.seal().values(60, 120)
    assert values == [{"text": text, "n": n} for n, text in enumerate(texts)]


def test_an_encoding_is_chosen_when_a_column_has_its_first_values() -> None:
    encodings = []
    for has_nulls in (False, True):
        kafka = FakeKafka()
        kafka.create_topic("t", 1)
        with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
            producer.set_schema("t", pa.schema([("id", pa.int64()), ("at", pa.int64())]))
            for n in range(2000):
                at = None if has_nulls and n < 1000 else 1_700_000_000_000 + 1000 * n
                producer.produce("t", {"id": n, "at": at})
                if n == 999:
                    producer.flush()
        last = kafka.messages("t")[-1].value()
        encodings.append(pq.read_metadata(pa.BufferReader(last)).row_group(0).column(1).encodings)
    assert encodings[0] == encodings[1]
    assert "DELTA_BINARY_PACKED" in encodings[0]


@pytest.mark.parametrize(
    ("headers", "stored"),
    [
        ([(None, b"v")], [("None", b"v")]),
        ([(1, b"v"), ("b", b"w")], [("1", b"v"), ("b", b"w")]),
        ([["a", b"v"]], None),
        ([("a", b"v"), ["b", b"w"]], None),
        ([("a", b"v", b"w")], None),
    ],
)
def test_headers_of_other_forms_are_what_confluent_kafka_makes_of_them(
    headers: Any, stored: list[tuple[str, bytes]] | None
) -> None:
    """Also where a batch is open already."""
    kafka, reports = FakeKafka(), []
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", pa.schema([("n", pa.int64())]))
        for _ in range(2):
            if stored is None:
                with pytest.raises(TypeError, match=r"a list of \(key, value\) tuples"):
                    producer.produce("t", {"n": 1}, headers=headers)
            else:
                producer.produce(
                    "t",
                    {"n": 1},
                    headers=headers,
                    on_delivery=lambda _, message: reports.append(message.headers()),
                )
            producer.produce("t", {"n": 2})
    assert reports == ([] if stored is None else [stored] * 2)


def test_headers_are_read_for_many_reports_at_once() -> None:
    reads: list[tuple[int, int]] = []

    class Records:
        is_silent = False
        has_given = False

        def __len__(self) -> int:
            return 150

        def values(self, start: int, stop: int) -> Any: ...

        def headers(self, start: int, stop: int) -> list[Any]:
            reads.append((start, stop))
            return [[("h", b"%d" % row)] for row in range(start, stop)]

    block = NativeBlock(Records(), None)  # type: ignore[arg-type]
    assert [block.headers(row) for row in range(150)] == [[("h", b"%d" % n)] for n in range(150)]
    assert reads == [(0, 64), (64, 128), (128, 150)]


@pytest.mark.parametrize("name", ["partition", "timestamp"])
def test_none_is_no_number(name: str) -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", pa.schema([("n", pa.int64())]))
        producer.produce("t", {"n": 0})  # after it the core takes records
        with pytest.raises(TypeError, match="'NoneType' object cannot be interpreted as an int"):
            producer.produce("t", {"n": 1}, **{name: None})  # type: ignore[arg-type]
    assert [record.value() for record in kafka.records("t")] == [{"n": 0}]


FORMAT = object()


def test_records_without_key_stay_in_the_core_when_a_topic_has_fewer_partitions() -> None:
    usage = native.core.Usage(1 << 20)
    opened = native.core.OpenBatches(usage, "consistent_random", lambda *_: None, lambda *_: False)
    places = set()
    for topic in map(str, range(50)):
        opened.set_format(topic, FORMAT, stores_keys=True, stores_headers=True)
        for partitions in (1000, 1):
            opened.set_partitions(topic, partitions)
            place = opened.find(topic, -1, None, FORMAT)
        places.add(place)
    assert places == {(0, None)}


def test_batches_that_use_the_memory_of_reported_ones_have_only_their_own_rows() -> None:
    item = pa.struct([("sku", pa.string()), ("n", pa.int32())])
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("items", pa.list_(item))])
    rounds: list[list[dict[str, Any]]] = [
        [
            {
                "id": None if n % 7 == 0 else n * scale,
                "name": None if n % 5 == 0 else f"{n % distinct} of {scale}",
                "items": [{"sku": f"s{k}", "n": None} for k in range(n % 3)],
            }
            for n in range(rows)
        ]
        for rows, distinct, scale in [(500, 10, 1), (3, 3, 2), (600, 600, 3), (90, 2, 4), (1, 1, 5)]
    ]
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    config = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
    with kafka.Producer(config) as producer:
        producer.set_schema("t", schema)
        for rows in rounds:
            for n, row in enumerate(rows):
                headers = [("h", b"%d" % n)] if n % 4 == 3 else None
                producer.produce("t", row, key=str(n) if n % 2 else None, headers=headers)
            assert producer.flush(10) == 0
    for rows, message in zip(rounds, kafka.messages("t"), strict=True):
        records = [*segment_of(message).records()]
        assert [record.value for record in records] == rows
        keys = [b"%d" % n if n % 2 else None for n in range(len(rows))]
        assert [record.key for record in records] == keys
        headers = [[("h", b"%d" % n)] if n % 4 == 3 else None for n in range(len(rows))]
        assert [record.headers for record in records] == headers


def test_records_stay_behind_one_that_only_python_can_judge() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 1)
    reports: list[tuple[Any, str | None]] = []
    config = {"columnar.encoding": "parquet", "columnar.linger.ms": 60_000}
    with kafka.Producer(config) as producer:
        producer.set_schema("t", pa.schema([("pair", pa.list_(pa.int64(), 2))]))
        for pair in ([1, 2], [3], [4, 5]):

            def report(error: Any, record: Any) -> None:
                reports.append((record.value()["pair"], error and error.name()))

            producer.produce("t", {"pair": pair}, on_delivery=report)
    failed = ([3], "_VALUE_SERIALIZATION")
    assert sorted(reports, key=str) == [([1, 2], None), failed, ([4, 5], None)]
    segments = [segment_of(message) for message in kafka.messages("t")]
    values = [[record.value["pair"] for record in segment.records()] for segment in segments]
    assert values == [[[1, 2]], [[4, 5]]]


def segment_of(message: Any) -> Segment:
    return Segment(
        topic="t",
        partition=message.partition(),
        offset=message.offset(),
        headers=message.headers(),
        value=message.value(),
    )
