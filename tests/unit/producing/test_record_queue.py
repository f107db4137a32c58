"""The door: what is refused charges nothing, what is taken counts until it is given back, once."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from columnar_kafka.producing.accepting.record_queue import RecordQueue

if TYPE_CHECKING:
    from collections import deque

ITEM: Any = object()


def put(queue: RecordQueue, nbytes: int, records: int = 1) -> bool:
    return queue.put(ITEM, nbytes, 0.0, records)


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
    queue.charge_encoded(7)
    reported = held(30, 1, 7)
    for _ in range(2):
        queue.release_encoded(reported)
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
    assert queue.under_pressure is pressed


def test_a_quarter_is_for_what_is_encoded() -> None:
    queue = RecordQueue(limit_bytes=100)
    assert queue.may_encode
    queue.charge_encoded(25)
    assert queue.may_encode
    queue.charge_encoded(1)
    assert not queue.may_encode
    queue.release_encoded(held(encoded=1))
    assert queue.may_encode


def test_an_adjustment_makes_room() -> None:
    queue = RecordQueue(limit_bytes=100)
    put(queue, 60)
    queue.adjust_charge(-50)
    put(queue, 50)
    assert queue.used_bytes == 60


def test_an_adjustment_may_exceed_the_bound_and_then_nothing_is_taken() -> None:
    queue = RecordQueue(limit_bytes=100)
    put(queue, 60)
    queue.adjust_charge(50)
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
    assert not queue.put(ITEM, 1, 9.5)
    assert queue.put(ITEM, 1, 9.25)


def test_a_sender_sleeps_until_the_first_record_is_due() -> None:
    queue = RecordQueue(limit_bytes=100, linger=0.5)
    assert queue.sleep(0.0, float("inf")) == float("inf")
    assert queue.put(ITEM, 1, 7.0)
    assert queue.sleep(0.0, float("inf")) == 7.5
    assert not queue.put(ITEM, 1, 7.25)
    assert queue.sleep(0.0, float("inf")) == 7.5
    queue.drain()
    assert queue.sleep(0.0, float("inf")) == float("inf")


def test_a_sender_that_works_is_not_woken_but_does_not_sleep_either() -> None:
    queue = RecordQueue(limit_bytes=100)
    queue.drain()
    assert not queue.put(ITEM, 1, 7.0)
    assert queue.sleep(0.0, 8.0) == 7.0


NOW = float("-inf")


@pytest.mark.parametrize(
    "queue",
    [
        RecordQueue(limit_bytes=1000, linger=0.5, segment_rows=3),
        RecordQueue(limit_bytes=1000, linger=0.5, limit_records=12),
        RecordQueue(limit_bytes=12, linger=0.5),
    ],
    ids=["a full segment", "a quarter of the records", "a quarter of the bytes"],
)
def test_many_records_do_not_wait(queue: RecordQueue) -> None:
    queue.sleep(0.0, 0.0)
    assert [put(queue, 1) for _ in range(4)] == [False, False, True, True]
    assert queue.sleep(0.0, 0.0) == NOW
    queue.drain()
    queue.sleep(0.0, 0.0)
    assert not put(queue, 1)


def test_what_is_urgent_does_not_wait() -> None:
    queue = RecordQueue(limit_bytes=100, linger=0.5)
    queue.sleep(0.0, 0.0)
    assert not put(queue, 1)
    assert queue.put(ITEM, 1, 0.0, urgent=True)
    assert queue.sleep(0.0, 0.0) == NOW


def _placed(items: deque[Any]) -> bool:
    items.append(ITEM)
    return True


def test_a_batch_that_opens_wakes_a_sender_that_would_look_later() -> None:
    queue = RecordQueue(limit_bytes=100, linger=0.5)
    queue.sleep(0.0, 10.0)
    assert not queue.open(_placed, 9.5)
    assert queue.open(_placed, 9.25)
    assert queue.sleep(0.0, 10.0) == 9.75
    assert list(queue.drain()) == [ITEM, ITEM]


def test_a_batch_whose_place_is_gone_is_not_queued() -> None:
    queue = RecordQueue(limit_bytes=100)
    assert queue.open(lambda _: False, 0.0) is None
    assert list(queue.drain()) == []


def test_while_batches_become_full_none_wakes_the_sender_when_it_opens() -> None:
    queue = RecordQueue(limit_bytes=100, linger=0.5)
    queue.batch_filled("t", 1)
    queue.take_filled()
    queue.drain()
    assert queue.sleep(9.0, 100.0) == 9.5
    assert not queue.open(_placed, 9.25)
    queue.take_filled()
    queue.drain()
    assert queue.sleep(9.5, 100.0) == 100.0


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
            queue.adjust_charge(1)
            queue.charge_encoded(2)
            queue.release_encoded(held(encoded=2))
            queue.release_records(held(4, 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert repr(queue) == "<RecordQueue 0/1099511627776 bytes, 0 records>"
    assert len(queue.drain()) == 8000
