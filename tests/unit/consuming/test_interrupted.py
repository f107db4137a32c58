"""A signal's handler that raises anywhere in a call loses no record, and none comes twice."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import tables
from confluent_kafka import OFFSET_STORED, KafkaError, KafkaException, TopicPartition
from inside import callback_errors_of
from interrupting import Interrupted, Interrupter
from segments import segment
from support import examples, is_long, places

from columnar_kafka import SegmentError, position
from columnar_kafka.config import ReadOptions
from columnar_kafka.consuming import arrow_output
from columnar_kafka.consuming.arrow import batch_reader, rows_ahead, table_feed
from columnar_kafka.consuming.arrow.batch_reader import stream
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.consuming.arrow.table_feed import TableFeed, TableRequest
from columnar_kafka.consuming.feed import (
    feed,
    fetch_buffer,
    handout,
    offset_store,
    open_segment,
    poller,
    start_positions,
    turn,
)
from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.consuming.group import callback_errors, commits
from columnar_kafka.consuming.group import membership as group_membership
from columnar_kafka.plain.base import Formats
from columnar_kafka.segment import segment as segment_module
from columnar_kafka.segment.decoder import InlineDecoder, RawSegment
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka
from columnar_kafka.testing.memory import MemoryConsumer, MemoryKafka

if TYPE_CHECKING:
    from confluent_kafka import Message

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11),
    reason="Python 3.10 runs signal handlers when a function returns, too: something may be lost",
)
P0, P1 = ("t", 0), ("t", 1)
MODULES = (
    open_segment,
    handout,
    start_positions,
    fetch_buffer,
    poller,
    feed,
    turn,
    rows_ahead,
    table_feed,
    batch_reader,
    offset_store,
    sys.modules[__name__],
)
FIRST = position.pack(0, 1, 3)
Script = list[tuple[Any, ...]]


def put(kafka: MemoryKafka, partition: int, rows: int, *, damage: bool = False) -> None:
    offset = kafka.end("t", partition)
    numbers = [100 * offset + n for n in range(rows)]
    made = segment(pa.table({"n": numbers}), partition=partition, offset=offset, number=offset)
    value = made.value[:-1] + b"?" if damage else made.value
    kafka.append("t", partition, value, headers=list(made.headers))


@pytest.fixture(scope="module")
def kafka() -> MemoryKafka:
    """Segments, plain messages and a bad segment; row 2 of 3 is committed of the second."""
    memory = MemoryKafka()
    memory.create_topic("t", 2)
    for partition in (0, 1):
        put(memory, partition, 3)
        put(memory, partition, 2, damage=partition == 1)
        memory.append("t", partition, b"a")
        memory.append("t", partition, b"b")
        put(memory, partition, 2)
    memory.commit("group", [TopicPartition("t", 1, 0, "1:2:p-0")])
    return memory


class Broker(MemoryConsumer):
    """On a clock of its own; an exception at the end of `poll` destroys what it fetched."""

    _now = 0.0

    def clock(self) -> float:
        self._now += 0.01
        return self._now

    def poll(self, timeout: float) -> Message | None:
        message = super().poll(0)
        self._now = sum((self._now, timeout))  # a call, after which signals are heard
        return message


class Decoded:
    """Decodes each segment once for all readers, which takes most of the time."""

    def __init__(self) -> None:
        self._tables: dict[tuple[bytes, Any, bool], pa.Table] = {}
        self._decoder = InlineDecoder()

    def open(self, raw: RawSegment) -> Any:
        value, opened = bytes(raw.value), self._decoder.open(raw)

        def read(columns: Any, *, encoded: bool = False) -> pa.Table:
            key = value, columns and tuple(columns), encoded
            if key not in self._tables:
                self._tables[key] = opened.read(columns, encoded=encoded)
            return self._tables[key]

        return SimpleNamespace(schema=opened.schema, statistics=opened.statistics, read=read)

    def read_records(self, *arguments: Any) -> Any:
        return self._decoder.read_records(*arguments)

    def close(self) -> None: ...


DECODED = Decoded()


class Reader:
    """A feed, interrupted at some places, and what it has handed out of each partition."""

    def __init__(self, kafka: MemoryKafka, places: set[int]) -> None:
        self.broker = Broker(kafka, end_events=True)
        self.feed = Feed(
            self.broker,
            OffsetStore(auto_store=True),
            clock=self.broker.clock,
            decoder=DECODED,
            partition_eof=True,
        )
        self.tables = TableFeed(self.feed)
        self.interrupter = Interrupter(*MODULES, places=places)
        self.found: dict[tuple[str, int], list[tuple[int, Any]]] = {P0: [], P1: []}
        self.feed.assign([TopicPartition(*P0, FIRST),
                          TopicPartition(*P1, OFFSET_STORED)])  # fmt: skip
        self.broker.assign([TopicPartition(*P0, 0), TopicPartition(*P1, OFFSET_STORED)])

    def play(self, script: Script) -> None:
        """Make calls, and go on after one that was interrupted; then take all that is left."""
        for name, *arguments in script:
            with suppress(Interrupted):
                getattr(self, name)(*arguments)
            self.check()
        left = 1
        while left:
            with suppress(Interrupted):
                left = self.take(100)
            self.check()

    def check(self) -> None:
        """What counts as handed out, and so may be committed, is what was handed out."""
        self.feed.skip_gaps()
        after = {key: records[-1][0] + 1 for key, records in self.found.items() if records}
        assert self.feed.offsets.delivered == after

    def take(self, count: int) -> int:
        messages = self.interrupter.run(partial(self.feed.take, count, 0.2))
        for message in messages:
            error = message.error()
            if error is None or error.code() != KafkaError._PARTITION_EOF:
                value = message.value() if error is None else error.name()
                value = value["n"] if isinstance(value, dict) else value
                self.found["t", message.partition()].append((message.offset(), value))
        return len(messages)

    def skip_gaps(self) -> None:
        self.interrupter.run(self.feed.skip_gaps)

    def segment(self) -> None:
        try:
            whole = self.interrupter.run(partial(self.feed.segment, 0.2))
        except KafkaException as error:
            if not self.note(error):
                self.take(1)  # a plain message
            return
        if whole is not None:
            at = self.found["t", whole.partition]
            done = at[-1][0] if at else FIRST - 1
            records = enumerate(whole.to_table(["n"])["n"].to_pylist(), whole.offset)
            at.extend(record for record in records if record[0] > done)

    def table(self, count: int) -> None:
        try:
            rows = self.interrupter.run(partial(self._table, count))
        except KafkaException as error:
            self.note(error)
        else:
            self.note_rows(rows)

    def _table(self, count: int) -> pa.Table | None:
        found_table = self.tables.find(request(count), 0.2)
        return None if found_table is None else found_table.take()

    def stream(self, count: int) -> None:
        """Read batches, as many; of each stream the first waits until the schema is known."""
        try:
            schema = pa.schema([("n", pa.int64())])
            made = stream(
                self.tables,
                request(100, schema=schema, single=True),
                timeout=0.2,
                is_finished=lambda _: False,
                until_end=False,
                on_error=self.note,
                on_schema_change=None,
                cancelled=lambda: False,
            )
            assert made is not None
            for _ in range(count):
                self.note_rows(self.interrupter.run(partial(next, made[1], None)))
        except KafkaException as error:
            self.note(error)

    def note(self, error: KafkaException) -> bool:
        """Note a bad segment, or the end of a partition."""
        if error.args[0].code() == KafkaError._PARTITION_EOF:
            return True
        for partition, offset in re.findall(r"t\[(\d)\]@(\d)", str(error)):
            if isinstance(error, SegmentError):
                place = position.pack(int(offset))
                self.found["t", int(partition)].append((place, "_BAD_MSG"))
                return True
        return False

    def note_rows(self, rows: pa.Table | pa.RecordBatch | None) -> None:
        for row in [] if rows is None else rows.to_pylist():
            value = row["n"] if "n" in row else row["value"]
            place = row["_kafka"]
            self.found["t", place["partition"]].append((place["offset"], value))

    def pause(self, key: tuple[str, int]) -> None:
        self.broker.pause([TopicPartition(*key)])
        self.feed.pause([key])

    def resume(self, key: tuple[str, int]) -> None:
        self.broker.resume([TopicPartition(*key)])
        self.feed.resume([key])


def request(count: int, **more: Any) -> TableRequest:
    least = 1 if more else count
    return TableRequest(
        projection=Projection(),
        formats=Formats(),
        options=ReadOptions(),
        least=least,
        most=count,
        **more,
    )


SCRIPTS: dict[str, Script] = {
    "one by one": [("take", 1)] * 15,
    "some at once": [("take", 4)] * 4,
    "all at once": [("take", 100)],
    "caught up with": [("take", 2), ("skip_gaps",)] * 6,
    "segments": [("segment",)] * 10,
    "a segment that was begun": [("take", 1), ("segment",), ("take", 1), ("segment",)],
    "tables": [("table", 2)] * 8,
    "large tables": [("table", 100)] * 6,
    "streams": [("stream", 3), ("take", 1)] * 3,
    "paused": [("take", 2), ("pause", P0), ("take", 3), ("table", 2), ("resume", P0)],
    "fetched again": [("take", 4), ("pause", P0), ("pause", P1), ("resume", P0), ("table", 2),
                      ("take", 1), ("pause", P0), ("resume", P1), ("resume", P0), ("table", 9)],
}  # fmt: skip
PLACES = examples(25)  # of hundreds


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_wherever_it_is_interrupted_each_record_comes_once(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    """It is interrupted at a place, and a second time so many places later; then at another."""
    monkeypatch.setattr(poller, "SERVE_EVERY", 0.02)  # so that much is held
    monkeypatch.setattr(fetch_buffer, "MOST_MESSAGES", 3)  # and held back
    if script is SCRIPTS["fetched again"]:
        monkeypatch.setattr(fetch_buffer, "MOST_BYTES", 1500)  # a segment
    monkeypatch.setattr(segment_module, "_SLICE_ROWS", 2)
    expected = Reader(kafka, set())
    expected.play(script)
    assert [[value for _, value in records] for records in expected.found.values()] == [
        [1, 2, 100, 101, b"a", b"b", 400, 401],
        [1, 2, "_BAD_MSG", b"a", b"b", 400, 401],
    ]
    count = expected.interrupter.count
    pairs = [
        (place, place + again)
        for again in (0, 1, 3, 17)
        for place in range(again, count, count // PLACES)
    ]
    for pair in pairs[:: 1 if is_long() else 2]:
        one = Reader(kafka, {*pair})
        one.play(script)
        assert one.found == expected.found, pair
        assert one.feed.at_end() == {P0, P1}, pair


# --- what moves a consumer ------------------------------------------------------------------------

T0 = TopicPartition("t", 0)
TO_7 = TopicPartition("t", 0, position.pack(2, 1, 3))
MOVES: dict[str, tuple[Any, list[int], list[int]]] = {  # read next: when it is done, and when not
    "seek": (lambda it: it.seek(TO_7), [7, 8], [4, 5, 6, 7, 8]),
    "assign": (lambda it: it.assign([TO_7]), [7, 8], [4, 5, 6, 7, 8]),
    "unassign": (lambda it: it.unassign(), [], [4, 5, 6, 7, 8]),
    "incremental_unassign": (lambda it: it.incremental_unassign([T0]), [], [4, 5, 6, 7, 8]),
    "pause": (lambda it: it.pause([T0]), [], [4, 5, 6, 7, 8]),
    "resume": (lambda it: it.resume([T0]), [4, 5, 6, 7, 8], []),
}


def three_segments() -> FakeKafka:
    """Return a cluster with the numbers 0 to 8."""
    fake = FakeKafka()
    fake.create_topic("t", 1)
    for start in (0, 3, 6):
        tables.put(fake, tables.numbers(start))
    return fake


@pytest.mark.long
@pytest.mark.parametrize("name", MOVES)
def test_wherever_it_is_interrupted_a_consumer_has_moved_or_not(name: str) -> None:
    move, done, not_done = MOVES[name]
    fake = three_segments()

    def moved(at: set[int]) -> int:
        consumer = tables.assigned_consumer(fake, **{"enable.auto.commit": False})
        assert [message.value()["n"] for message in consumer.consume(4, 60)] == [0, 1, 2, 3]
        if name == "resume":
            consumer.pause([T0])
        interrupter = Interrupter(
            *MODULES,
            sys.modules["columnar_kafka.consuming.consumer"],
            commits,
            group_membership,
            places=at,
        )
        with suppress(Interrupted):
            interrupter.run(lambda: move(consumer))
        left = [message.value()["n"] for message in consumer.consume(9, 0.02)]
        assert left in ((done, not_done) if at else (done,)), at
        consumer.close()
        return interrupter.count

    count = moved(set())
    assert count > 3
    for place in places(count):
        moved({place})


TAKES: dict[str, Any] = {
    "poll": lambda it: it.poll(1),
    "consume": lambda it: it.consume(4, 1),
    "consume_arrow": lambda it: it.consume_arrow(4, 1),
    "poll_segment": lambda it: it.poll_segment(1),
}


def values_of(taken: Any) -> list[int]:
    if taken is None:
        return []
    if isinstance(taken, pa.Table | Segment):
        table = taken if isinstance(taken, pa.Table) else taken.to_table()
        return [int(value) for value in table["n"].to_pylist()]
    messages = taken if isinstance(taken, list) else [taken]
    return [message.value()["n"] for message in messages]


@pytest.mark.long
@pytest.mark.parametrize("name", TAKES)
def test_wherever_a_consumers_call_is_interrupted_it_loses_nothing(name: str) -> None:
    """A callback has raised before: that is raised, or kept, and costs no record either."""
    fake = three_segments()

    def took(at: set[int]) -> int:
        consumer = tables.assigned_consumer(fake, **{"enable.auto.commit": False})
        callback_errors_of(consumer).append(ZeroDivisionError("of a callback"))
        interrupter = Interrupter(
            *MODULES,
            sys.modules["columnar_kafka.consuming.consumer"],
            arrow_output,
            callback_errors,
            places=at,
        )
        taken = []
        for _ in range(2):
            with suppress(Interrupted, ZeroDivisionError):
                taken += values_of(interrupter.run(lambda: TAKES[name](consumer)))
        callback_errors_of(consumer).clear()
        left = [message.value()["n"] for message in consumer.consume(99, 0.02)]
        assert taken + left == list(range(9)), at
        consumer.close()
        return interrupter.count

    count = took(set())
    assert count > 3
    for place in places(count):
        took({place})
