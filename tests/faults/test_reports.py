"""One report for each record: 100,000 records whatever becomes of them, every report looked at."""

from __future__ import annotations

import copy
import dataclasses
import random
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from reading import everything

from columnar_kafka import Producer
from columnar_kafka.local import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import Message
    from support import TopicFactory

pytestmark = pytest.mark.kafka

ROWS = 100_000
PARTITIONS = 4
FIRST_TIME = 1_700_000_000_000
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        ("small", pa.int32()),
        ("text", pa.string()),
        ("blob", pa.binary()),
        ("code", pa.binary(1)),
    ]
)
PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


class Record(NamedTuple):
    """A record as it was produced, as its report shows it, or as a consumer finds it."""

    value: Any
    key: bytes | None
    headers: Any
    timestamp: int
    partition: int | None


def record_of(message: Message) -> Record:
    return Record(
        message.value(),
        message.key(),
        message.headers(),
        message.timestamp()[1],
        message.partition(),
    )


class Reported(NamedTuple):
    """What one report said, all of it read while its callback ran."""

    n: int
    code: int | None
    record: Record
    offset: int | None

    def tells(self, record: Record) -> bool:
        """Whether it is this record's; confluent-kafka's reports of messages have no headers."""
        if isinstance(record.value, bytes) and self.record.headers is None:
            record = record._replace(headers=None)
        return self.record == record


class Book:
    """What was accepted, and what was reported of it; a check's figures are kept by `figure`."""

    def __init__(self, figure: Callable[[str, Any], None]) -> None:
        self._figure = figure
        self._since = time.monotonic()
        self.accepted: dict[int, Record] = {}
        self.reported: list[Reported] = []
        self.refused = 0  # by BufferError
        self.raises_every = 0

    def produce(self, producer: Producer, topic: str, numbers: range) -> None:
        """Produce good rows with these numbers."""
        for n in numbers:
            self.produce_one(producer, topic, n, row(n))

    def produce_one(self, producer: Producer, topic: str, n: int, value: Any) -> None:
        """Produce record `n`, again and again while there is no room for it."""
        key, headers = b"key %d" % n, [("h", b"%d" % n), ("same", None)]
        chosen = confluent_kafka.consistent(key, PARTITIONS) if given(n) < 0 else given(n)
        record = Record(value, key, headers, FIRST_TIME + n, chosen)
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    key=key,
                    partition=given(n),
                    headers=headers,
                    timestamp=record.timestamp,
                    on_delivery=partial(self.note, n),
                )
            except BufferError:
                self.refused += 1
                producer.poll(0.01)
            else:
                break
        self.accepted[n] = record

    def note(self, n: int, error: KafkaError | None, message: Message) -> None:
        """Be the callback of record `n`."""
        assert message.error() == error
        code = None if error is None else error.code()
        self.reported.append(Reported(n, code, record_of(message), message.offset()))
        if self.raises_every and n % self.raises_every == 0:
            raise ZeroDivisionError(n)

    def note_any(self, error: KafkaError | None, message: Message) -> None:
        """Be the callback of all records."""
        self.note(number_of(message.value()), error, message)

    @property
    def codes(self) -> Counter[int | None]:
        return Counter(report.code for report in self.reported)

    def check(self, stored: dict[tuple[int, int], Record], *, placed: bool = True) -> None:
        """Each accepted record was reported once, as itself; those that succeeded were `stored`.

        Whether a record purged in flight was stored, nobody knows. Not `placed`: a record whose
        partition was never chosen is reported without one.
        """
        times = Counter(report.n for report in self.reported)
        wrong = [n for n in self.accepted.keys() | times.keys() if times[n] != 1]
        assert not wrong[:5], f"{len(wrong)} records, first with {times[wrong[0]]} reports"
        assert times.keys() == self.accepted.keys()
        expected = self.accepted
        if not placed:
            expected = {
                n: record._replace(partition=None if given(n) < 0 else given(n))
                for n, record in expected.items()
            }
        assert not [report for report in self.reported if not report.tells(expected[report.n])][:5]
        successes = {
            (report.record.partition, report.offset): self.accepted[report.n]
            for report in self.reported
            if report.code is None
        }
        assert len(successes) == self.codes[None]
        assert not [at for at in successes if successes[at] != stored.get(at)][:5]
        others = [number_of(stored[at].value) for at in stored.keys() - successes.keys()]
        assert len(set(others)) == len(others)
        unsure = {report.n for report in self.reported if report.code == KafkaError._PURGE_INFLIGHT}
        assert set(others) <= unsure
        self._figure("accepted", len(self.accepted))
        for code, count in self.codes.items():
            self._figure("delivered" if code is None else KafkaError(code).name(), count)
        self._figure("BufferErrors", self.refused)
        self._figure("seconds", round(time.monotonic() - self._since, 1))


def given(n: int) -> int:
    """Return the partition that record `n` is produced to; -1: its key's."""
    return n % PARTITIONS if n % 3 == 0 else -1


def row(n: int, **values: Any) -> dict[str, Any]:
    return {"n": n, "small": n % 1000, "text": f"text {n}", "blob": None, "code": None, **values}


def number_of(value: Any) -> int:
    return value["n"] if isinstance(value, dict) else int(value)


def read(servers: str, topic: str, **settings: Any) -> dict[tuple[int, int], Record]:
    """Return all that a consumer finds in a topic, by partition and position."""
    return {
        (message.partition(), message.offset()): record_of(message)
        for message in everything(servers, topic, **settings)
    }


@pytest.fixture
def book(record_property: Callable[[str, Any], None]) -> Book:
    return Book(record_property)


@pytest.fixture
def name(topic: TopicFactory) -> str:
    return topic(PARTITIONS)


@pytest.fixture
def make(kafka: LocalKafka, name: str) -> Iterator[Callable[..., Producer]]:
    """A factory of producers with a schema for the test's topic."""
    made: list[Producer] = []

    def factory(**config: Any) -> Producer:
        servers = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
        made.append(Producer(servers | config))
        made[-1].set_schema(name, SCHEMA)
        return made[-1]

    yield factory
    for producer in made:
        producer.close()


# --- delivered ----------------------------------------------------------------------------------


def test_delivered_plain_messages_among_them(make, name, kafka, book) -> None:
    producer = make()
    for n in range(ROWS):
        value = b"%d" % n if n % 1_000 == 0 else row(n)
        book.produce_one(producer, name, n, value)
        producer.poll(0)
    assert producer.flush() == 0
    assert len(producer) == 0
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes == {None: ROWS}


def test_delivered_with_one_callback_for_all(make, name, kafka, book) -> None:
    producer = make(on_delivery=book.note_any)
    for n in range(ROWS):
        key, headers = b"key %d" % n, [("h", b"%d" % n)]
        chosen = confluent_kafka.consistent(key, PARTITIONS)
        book.accepted[n] = Record(row(n), key, headers, FIRST_TIME + n, chosen)
        producer.produce(name, row(n), key=key, headers=headers, timestamp=FIRST_TIME + n)
    producer.flush()
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes == {None: ROWS}


def test_closed_without_a_flush(make, name, kafka, book) -> None:
    producer = make(**{"columnar.linger.ms": 60_000})
    book.produce(producer, name, range(ROWS))
    producer.close()
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes == {None: ROWS}


def test_callbacks_that_raise(make, name, kafka, book) -> None:
    """Each exception passes through one poll or flush, and takes no other report along."""
    producer = make()
    book.raises_every = 7
    raised: list[int] = []

    def serve(call: Callable[[], int]) -> int:
        try:
            return call()
        except ZeroDivisionError as error:
            raised.append(error.args[0])
            return -1

    for n in range(ROWS):
        book.produce_one(producer, name, n, row(n))
        if n % 50 == 0:
            serve(partial(producer.poll, 0))
    while len(producer):
        serve(producer.flush if len(raised) % 100 == 0 else partial(producer.poll, 0.1))
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes == {None: ROWS}
    assert sorted(raised) == list(range(0, ROWS, 7))


@pytest.mark.parametrize(
    ("limit", "value", "most_records"),
    [
        ("queue.buffering.max.messages", 3_000, 3_000),
        # Five eighths are for records, and each has more than 40 bytes even in columns.
        ("queue.buffering.max.kbytes", 2_000, 2_000 * 1024 * 5 // 8 // 40),
    ],
    ids=["queue.buffering.max.messages", "queue.buffering.max.kbytes"],
)
def test_the_queue_is_full_again_and_again(
    make, name, kafka, book, limit, value, most_records
) -> None:
    """Reports run only once it is full, so between two times it accepts no more than it holds."""
    producer = make(**{limit: value})
    book.produce(producer, name, range(ROWS))
    producer.flush()
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes == {None: ROWS}
    assert book.refused >= ROWS // most_records


# --- some fail, and their neighbours ship -------------------------------------------------------


def test_some_are_too_large(make, name, kafka, book) -> None:
    producer = make()
    rng = random.Random(1)
    large = set(rng.sample(range(ROWS), 20))
    for n in range(ROWS):
        blob = rng.randbytes(1_100_000) if n in large else None
        book.produce_one(producer, name, n, row(n, blob=blob))
        producer.poll(0)
    producer.flush()
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes == {None: ROWS - 20, KafkaError.MSG_SIZE_TOO_LARGE: 20}
    assert {report.n for report in book.reported if report.code is not None} == large


def test_some_have_values_that_only_conversion_finds_to_be_too_long(
    make, name, kafka, book
) -> None:
    producer = make()
    bad = set(random.Random(2).sample(range(ROWS), 300))
    for n in range(ROWS):
        book.produce_one(producer, name, n, row(n, code=b"long" if n in bad else b"c"))
        producer.poll(0)
    producer.flush()
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes == {None: ROWS - 300, KafkaError._VALUE_SERIALIZATION: 300}
    assert {report.n for report in book.reported if report.code is not None} == bad


def test_purged_mid_way(make, name, kafka, book) -> None:
    """What was acknowledged before is delivered, what was not is given up."""
    producer = make(**{"columnar.segment.rows": 5_000, "columnar.linger.ms": 60_000})
    book.produce(producer, name, range(10_000))
    producer.flush()
    for start in range(10_000, ROWS, 30_000):
        book.produce(producer, name, range(start, start + 30_000))
        producer.purge()
    assert producer.flush() == 0
    book.check(read(kafka.bootstrap_servers, name))
    assert book.codes.keys() - PURGED == {None}
    assert book.codes[None] >= 10_000
    assert book.codes[KafkaError._PURGE_QUEUE] > 0


# --- all fail -----------------------------------------------------------------------------------


def test_no_broker_answers(book) -> None:
    config = {
        "bootstrap.servers": "127.0.0.1:1",
        "log_level": 0,
        "columnar.encoding": "parquet",
        "columnar.linger.ms": 500,
        "message.timeout.ms": 2_000,
    }
    with Producer(config) as producer:
        producer.set_schema("t", SCHEMA)
        book.produce(producer, "t", range(ROWS))
        producer.flush()
    book.check({}, placed=False)
    assert book.codes == {KafkaError._MSG_TIMED_OUT: ROWS}


def test_the_broker_is_suspended(book) -> None:
    config = {"columnar.encoding": "parquet", "message.timeout.ms": 4_000, "log_level": 0}
    with LocalKafka() as kafka:
        kafka.create_topic("t", PARTITIONS)
        with Producer(config | {"bootstrap.servers": kafka.bootstrap_servers}) as producer:
            producer.set_schema("t", SCHEMA)
            kafka.nodes[0].suspend()
            book.produce(producer, "t", range(ROWS))
            producer.flush()
    book.check({})
    assert book.codes == {KafkaError._MSG_TIMED_OUT: ROWS}


def test_aborted(make, name, kafka, book) -> None:
    """Some were acknowledged before: they are reported so, and are not to be seen."""
    producer = make(**{"transactional.id": name, "columnar.segment.rows": 5_000})
    producer.init_transactions()
    producer.begin_transaction()
    book.produce(producer, name, range(10_000))
    producer.flush()
    for n in range(10_000, ROWS):
        book.produce_one(producer, name, n, row(n))
        producer.poll(0)
    producer.abort_transaction()
    assert len(book.reported) == ROWS
    assert len(producer) == 0
    assert read(kafka.bootstrap_servers, name, **{"isolation.level": "read_committed"}) == {}
    book.check(read(kafka.bootstrap_servers, name, **{"isolation.level": "read_uncommitted"}))
    assert book.codes.keys() - PURGED == {None}
    assert book.codes.keys() & PURGED


# --- by value -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]


@dataclasses.dataclass
class Row:
    """All that can change after `produce`: the row, and what is nested in it."""

    n: int
    struct: dict[str, Any]
    structs: list[dict[str, Any]]
    map: dict[str, list[int]]
    point: Point
    points: list[Point]
    raw: bytearray
    raws: list[bytearray]
    view: memoryview
    array: np.ndarray

    @classmethod
    def make(cls, n: int) -> Row:
        return cls(
            n=n,
            struct={"a": n, "deep": {"b": [n, n + 1]}},
            structs=[{"x": n}, {"x": n + 1}],
            map={"one": [n], "two": [n, n]},
            point=Point(n, [str(n)]),
            points=[Point(n, []), Point(n + 1, ["t"])],
            raw=bytearray(b"%08d" % n),
            raws=[bytearray(b"%08d" % n), bytearray(b"same")],
            view=memoryview(bytearray(b"%08d" % n)),
            array=np.array([n, n / 2], dtype=np.float64),
        )

    def expected(self) -> dict[str, Any]:
        """Return what a consumer finds: made before anything is changed."""
        values = dataclasses.asdict(dataclasses.replace(self, view=self.raw))
        values |= {"view": bytes(self.view), "array": self.array.tolist(), "raw": bytes(self.raw)}
        return copy.deepcopy(values | {"raws": [bytes(raw) for raw in self.raws]})

    def spoil(self) -> None:
        """Change everything that can be changed in place."""
        self.n = -1
        self.struct["deep"]["b"][0] = -1
        self.struct["deep"]["b"].append(-1)
        self.struct["a"] = "no number"
        self.structs[0]["x"] = -1
        self.structs.clear()
        self.map["one"].append(-1)
        self.map["three"] = [-1]
        self.point.tags[:] = ["spoilt", "more"]
        self.point.x = -1
        self.points[0].tags.append("spoilt")
        del self.points[1]
        self.raw[:] = b"\xff" * 20
        self.raws[0][:] = b""
        self.view[:] = b"\xff" * 8
        self.array[:] = -1.0


DEEP = pa.struct([("b", pa.list_(pa.int64()))])
POINT = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])
ROW_SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("struct", pa.struct([("a", pa.int64()), ("deep", DEEP)])),
        ("structs", pa.list_(pa.struct([("x", pa.int64())]))),
        ("map", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("point", POINT),
        ("points", pa.list_(POINT)),
        ("raw", pa.binary()),
        ("raws", pa.list_(pa.binary())),
        ("view", pa.binary()),
        ("array", pa.list_(pa.float64())),
    ]
)  # fmt: skip


@pytest.mark.parametrize("kind", ["object", "dict"])
def test_a_row_changed_right_after_produce_is_sent_as_it_was(name, kafka, kind) -> None:
    servers = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    expected: dict[int, dict[str, Any]] = {}
    reported: dict[int, Any] = {}
    with Producer(servers) as producer:
        producer.set_schema(name, ROW_SCHEMA)
        for n in range(2_000):
            changing = Row.make(n)
            expected[n] = changing.expected()
            value: Any = changing if kind == "object" else vars(changing)
            producer.produce(
                name,
                value,
                key=b"%d" % n,
                on_delivery=lambda _, m: reported.update({int(m.key()): m.value()}),
            )
            changing.spoil()
    records = read(kafka.bootstrap_servers, name).values()
    assert {int(record.key): record.value for record in records if record.key} == expected
    assert reported == expected
