"""The door: what is refused charges nothing, what is taken counts until it is given back, once."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from interrupting import Interrupted, Interrupter

from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.producing import shared
from columnar_kafka.producing.accepting import memory_bound, open_batches, record_queue
from columnar_kafka.producing.accepting.item import Item
from columnar_kafka.producing.accepting.record import NewFormat, Record
from columnar_kafka.producing.accepting.record_queue import RecordQueue
from columnar_kafka.producing.engine import base, pure
from columnar_kafka.producing.engine import native as engine_native
from columnar_kafka.producing.segment_limits import SegmentLimits
from columnar_kafka.producing.topic_formats import make_format
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Callable


class Message(Item):
    """Stands for a message, which ends no batch."""

    def end_batches(self, open_batches: Any) -> None: ...


ITEM = Message()


def put(
    queue: RecordQueue, nbytes: int, records: int = 1, now: float = 0.0, *, urgent: bool = False
) -> bool:
    """Put an item; return whether that wakes the sender."""
    return wakes(queue, lambda: queue.put(ITEM, nbytes, now, records, urgent=urgent))


def wakes(queue: RecordQueue, step: Callable[[], None]) -> bool:
    woken: list[bool] = []
    queue.wake = lambda: woken.append(True)
    step()
    return bool(woken)


class Topic:
    """A topic with a schema, and a queue for its records."""

    def __init__(self, **settings: Any) -> None:
        self.queue = RecordQueue(limit_bytes=1 << 30, **settings)
        limits = SegmentLimits(900_000, 999_000, 1000, partitions=2)
        schema = RecordSchema.parse(pa.schema([("n", pa.int64())]))
        self._format = make_format(
            "t", schema, limits, members=METADATA_MEMBERS, compression="zstd"
        )
        self.queue.put(NewFormat(self._format), 0, 0.0, 0, urgent=True)
        self.queue.drain()

    def accept(self, now: float, partition: int = 0) -> bool:
        """Accept a record; return whether that wakes the sender."""
        return wakes(self.queue, lambda: self.queue.accept(*self.record(now, partition)))

    def record(self, now: float, partition: int = 0) -> Any:
        """Return the arguments of `RecordQueue.accept`."""
        values, nbytes = self._format.columns.take({"n": 1})
        return self._format, partition, values, (None, 1, None, None, None), nbytes, now


@dataclass(eq=False)
class Held:
    """Stands for records that are being reported, or a message that is encoded."""

    charged_bytes: int
    records: int
    encoded_bytes: int
    reported_records: int = 0


def held(charge: int = 0, records: int = 0, encoded: int = 0) -> Any:
    return Held(charge, records, encoded)


def state(queue: RecordQueue) -> tuple[int, int, int]:
    return queue.used_bytes, queue.records, len(queue.drain())


def test_what_is_taken_counts_until_it_is_released() -> None:
    queue = RecordQueue(limit_bytes=100)
    put(queue, 30)
    put(queue, 12, 5)
    assert state(queue) == (42, 6, 2)
    queue.release_records(held(42, 6))
    assert state(queue) == (0, 0, 0)


def test_what_is_given_back_twice_counts_once() -> None:
    queue = RecordQueue(limit_bytes=100)
    put(queue, 30)
    put(queue, 12)
    queue.usage.encode(7)
    reported = held(30, 1, 7)
    for _ in range(2):
        queue.usage.release_encoded(reported)
        assert queue.used_bytes == 42
    for _ in range(2):
        queue.release_records(reported)
        assert (queue.used_bytes, queue.records) == (12, 1)


def test_five_eighths_are_for_records_and_may_be_filled_exactly() -> None:
    queue = RecordQueue(limit_bytes=800)
    put(queue, 400)
    put(queue, 100)
    assert state(queue) == (500, 2, 2)


def test_one_byte_more_is_refused_and_charges_nothing() -> None:
    queue = RecordQueue(limit_bytes=2048)
    put(queue, 1250)
    with pytest.raises(BufferError) as raised:
        put(queue, 31)
    assert str(raised.value) == (
        "Local: Queue full: 1250 bytes are buffered, this needs 31, "
        "queue.buffering.max.kbytes allows 2048 bytes, five eighths of it for records; "
        "poll() to serve delivery reports, or raise it"
    )
    assert state(queue) == (1250, 1, 1)


def test_one_record_more_than_the_user_allows_is_refused() -> None:
    queue = RecordQueue(limit_bytes=1024, limit_records=3)
    put(queue, 1, 2)
    with pytest.raises(BufferError) as raised:
        put(queue, 1, 2)
    assert str(raised.value) == (
        "Local: Queue full: 2 records are buffered, this is 2 more, "
        "queue.buffering.max.messages allows 3; "
        "poll() to serve delivery reports, or raise it"
    )
    assert state(queue) == (1, 2, 1)


def test_a_record_that_is_reported_makes_room_for_the_next_before_its_segment_does() -> None:
    queue = RecordQueue(limit_bytes=1024, limit_records=2)
    put(queue, 1, 2)
    segment = held(records=2)
    queue.begin_reporting(segment)
    segment.reported_records = 1
    put(queue, 1)
    assert state(queue) == (2, 2, 2)


def test_without_a_count_any_number_of_records_fits() -> None:
    queue = RecordQueue(limit_bytes=10)
    for _ in range(1000):
        put(queue, 0)
    assert queue.records == 1000


def test_a_record_larger_than_the_bound_passes_alone() -> None:
    queue = RecordQueue(limit_bytes=10)
    put(queue, 11)
    with pytest.raises(BufferError):
        put(queue, 0)


def test_what_is_no_record_is_never_refused() -> None:
    queue = RecordQueue(limit_bytes=10, limit_records=1)
    put(queue, 11)
    put(queue, 0, 0)
    assert state(queue) == (11, 1, 2)


@pytest.mark.parametrize(("nbytes", "pressed"), [(31, False), (32, True)])
def test_half_of_the_bound_presses(nbytes: int, *, pressed: bool) -> None:
    queue = RecordQueue(limit_bytes=100)
    put(queue, nbytes)
    assert queue.usage.is_half_used is pressed


def test_a_quarter_is_for_what_is_encoded() -> None:
    queue = RecordQueue(limit_bytes=100)
    assert queue.may_encode
    queue.usage.encode(25)
    assert queue.may_encode
    queue.usage.encode(1)
    assert not queue.may_encode
    queue.usage.release_encoded(held(encoded=1))
    assert queue.may_encode


def test_an_adjustment_makes_room() -> None:
    queue = RecordQueue(limit_bytes=100)
    put(queue, 60)
    queue.usage.charge(-50)
    put(queue, 50)
    assert queue.used_bytes == 60


def test_an_adjustment_may_exceed_the_bound_and_then_nothing_is_taken() -> None:
    queue = RecordQueue(limit_bytes=100)
    put(queue, 60)
    queue.usage.charge(50)
    with pytest.raises(BufferError, match="110 bytes are buffered"):
        put(queue, 0)


def test_after_close_nothing_is_taken() -> None:
    queue = RecordQueue(limit_bytes=100)
    queue.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        put(queue, 1)
    assert state(queue) == (0, 0, 0)


def test_one_thread_may_be_let_in_still() -> None:
    queue = RecordQueue(limit_bytes=100)
    queue.close(allowed_threads=(threading.get_ident(),))
    put(queue, 1)
    queue.close(allowed_threads=(threading.get_ident() + 1,))
    with pytest.raises(RuntimeError):
        put(queue, 1)
    assert state(queue) == (1, 1, 1)


# --- when the sender should look ----------------------------------------------------------------


def test_a_sender_that_sleeps_is_woken_by_what_is_due_earlier_than_it_would_look() -> None:
    queue = RecordQueue(limit_bytes=100, linger=0.5)
    assert queue.sleep(0.0, 10.0) == 10.0
    assert not put(queue, 1, now=9.5)
    assert put(queue, 1, now=9.25)


def test_a_sender_sleeps_until_the_first_record_is_due() -> None:
    queue = RecordQueue(limit_bytes=100, linger=0.5)
    assert queue.sleep(0.0, float("inf")) == float("inf")
    assert put(queue, 1, now=7.0)
    assert queue.sleep(0.0, float("inf")) == 7.5
    assert not put(queue, 1, now=7.25)
    assert queue.sleep(0.0, float("inf")) == 7.5
    queue.drain()
    assert queue.sleep(0.0, float("inf")) == float("inf")


def test_a_sender_that_works_is_not_woken_but_does_not_sleep_either() -> None:
    queue = RecordQueue(limit_bytes=100)
    queue.drain()
    assert not put(queue, 1, now=7.0)
    assert queue.sleep(0.0, 8.0) == 7.0


NOW = float("-inf")


def test_what_is_urgent_does_not_wait() -> None:
    queue = RecordQueue(limit_bytes=100, linger=0.5)
    queue.sleep(0.0, 0.0)
    assert not put(queue, 1)
    assert put(queue, 1, now=0.0, urgent=True)
    assert queue.sleep(0.0, 0.0) == NOW


def test_a_batch_that_opens_wakes_a_sender_that_would_look_later() -> None:
    topic = Topic(linger=0.5)
    topic.queue.sleep(0.0, 10.0)
    assert [topic.accept(9.5), topic.accept(9.25, 1), topic.accept(9.0, 1)] == [False, True, False]
    assert topic.queue.sleep(0.0, 10.0) == 9.75
    assert [(batch.partition, batch.rows) for batch in batches(topic.queue)] == [(0, 1), (1, 2)]


def batches(queue: RecordQueue) -> list[Any]:
    return list(queue.drain())


def test_a_record_of_a_partition_that_is_gone_waits_in_the_queue() -> None:
    topic = Topic()
    topic.queue.set_partitions("t", 0)
    topic.accept(1.0)
    topic.queue.set_partitions("t", 1)
    topic.accept(2.0)
    record, batch = batches(topic.queue)
    assert (record.values, batch.rows, topic.queue.records) == ((1,), 1, 2)


def test_while_batches_become_full_none_wakes_the_sender_when_it_opens() -> None:
    topic = Topic(linger=0.5)
    queue = topic.queue
    queue.batch_filled("t", 1)
    queue.take_filled()
    queue.drain()
    assert queue.sleep(9.0, 100.0) == 9.5
    assert not topic.accept(9.25)
    queue.take_filled()
    queue.drain()
    assert queue.sleep(9.5, 100.0) == 100.0


def test_a_batch_that_is_sealed_is_let_go() -> None:
    topic = Topic()
    topic.accept(1.0)
    [batch] = batches(topic.queue)
    gone = weakref.ref(batch)
    topic.queue.seal(batch)
    del batch
    gc.collect()
    assert gone() is None
    topic.accept(1.0)
    assert [batch.rows for batch in batches(topic.queue)] == [1]


def test_filled_batches_are_named_once() -> None:
    queue = RecordQueue(limit_bytes=100)
    queue.batch_filled("t", 1)
    queue.batch_filled("t", 2)
    assert queue.take_filled() == [("t", 1), ("t", 2)]
    assert queue.take_filled() == []


def test_threads_do_not_lose_each_others_counts() -> None:
    queue = RecordQueue(limit_bytes=1 << 40)

    def work() -> None:
        for _ in range(2000):
            put(queue, 3)
            queue.usage.charge(1)
            queue.usage.encode(2)
            queue.usage.release_encoded(held(encoded=2))
            queue.release_records(held(4, 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert repr(queue) == "<RecordQueue 0/1099511627776 bytes, 0 records>"
    assert len(queue.drain()) == 8000


# --- what a signal may interrupt ------------------------------------------------------------------

STAGES = (record_queue, memory_bound, open_batches, shared, base, pure, engine_native)


class Converting:
    """Stands for the segmenter, which charges chunks anew."""

    def convert(self, chunk: Any) -> None:
        assert chunk.convert() == []


def content(queue: RecordQueue) -> tuple[int, int]:
    """Return the bytes and the number of the records that the queue has."""
    nbytes = count = 0
    for item in batches(queue):
        if isinstance(item, Record):
            nbytes, count = nbytes + item.charged_bytes, count + 1
            continue
        queue.seal(item)
        for block, charged_bytes in item.blocks(Converting()):
            nbytes, count = nbytes + charged_bytes, count + len(block)
    return nbytes, count


@pytest.mark.parametrize("partitions", [2, 0], ids=["batch", "no batch"])
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_a_record_whose_acceptance_is_interrupted_is_wholly_in_or_out(
    partitions: int, before: int
) -> None:
    def accept(places: set[int]) -> tuple[Interrupter, Topic]:
        topic = Topic()
        topic.queue.set_partitions("t", partitions)
        for _ in range(before):
            topic.accept(1.0)
        interrupter = Interrupter(*STAGES, places=places)
        woken: list[bool] = []
        topic.queue.wake = lambda: woken.append(True)
        with suppress(Interrupted):
            interrupter.run(lambda: topic.queue.accept(*topic.record(2.0)))
        assert woken or topic.queue.usage.records == before or not places
        return interrupter, topic

    every, _ = accept(set())
    assert every.count > 3
    seen = set()
    for place in range(every.count):
        _, topic = accept({place})
        usage = topic.queue.usage
        seen.add(usage.records - before)
        topic.accept(3.0)
        assert content(topic.queue) == (usage.bytes, usage.records)
    assert 0 in seen
