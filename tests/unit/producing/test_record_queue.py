"""The door: what is refused charges nothing, what is taken counts until it is given back, once."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from columnar_kafka.producing.record_queue import RecordQueue

ITEM: Any = object()


def put(intake: RecordQueue, nbytes: int, records: int = 1) -> bool:
    return intake.put(ITEM, nbytes, 0.0, records)


def held(charge: int = 0, records: int = 0, encoded: int = 0) -> Any:
    return SimpleNamespace(charge=charge, records=records, encoded=encoded)


def state(intake: RecordQueue) -> tuple[int, int, int]:
    return intake.used_bytes, intake.records, len(intake.drain())


def test_what_is_taken_counts_until_it_is_released() -> None:
    intake = RecordQueue(limit_bytes=100)
    put(intake, 30)
    put(intake, 12, 5)
    assert state(intake) == (42, 6, 2)
    intake.release(held(42, 6))
    assert state(intake) == (0, 0, 0)


def test_what_is_given_back_twice_counts_once() -> None:
    intake = RecordQueue(limit_bytes=100)
    put(intake, 30)
    put(intake, 12)
    intake.encoded(7)
    reported = held(30, 1, 7)
    for _ in range(2):
        intake.free(reported)
        assert intake.used_bytes == 42
    for _ in range(2):
        intake.release(reported)
        assert (intake.used_bytes, intake.records) == (12, 1)


def test_five_eighths_are_for_records_and_may_be_filled_exactly() -> None:
    intake = RecordQueue(limit_bytes=800)
    put(intake, 400)
    put(intake, 100)
    assert state(intake) == (500, 2, 2)


def test_one_byte_more_is_refused_and_charges_nothing() -> None:
    intake = RecordQueue(limit_bytes=2048)
    put(intake, 1250)
    with pytest.raises(BufferError) as raised:
        put(intake, 31)
    assert str(raised.value) == (
        "Local: Queue full: 1250 bytes are buffered, this needs 31, "
        "queue.buffering.max.kbytes allows 2048 bytes, five eighths of it for records; "
        "poll() to serve delivery reports, or raise it"
    )
    assert state(intake) == (1250, 1, 1)


def test_one_record_more_than_the_user_allows_is_refused() -> None:
    intake = RecordQueue(limit_bytes=1024, limit_records=3)
    put(intake, 1, 2)
    with pytest.raises(BufferError) as raised:
        put(intake, 1, 2)
    assert str(raised.value) == (
        "Local: Queue full: 2 records are buffered, this is 2 more, "
        "queue.buffering.max.messages allows 3; "
        "poll() to serve delivery reports, or raise it"
    )
    assert state(intake) == (1, 2, 1)


def test_a_record_that_is_reported_makes_room_for_the_next_before_its_segment_does() -> None:
    intake = RecordQueue(limit_bytes=1024, limit_records=2)
    put(intake, 1, 2)
    intake.reported_early = lambda: 1
    put(intake, 1)
    assert state(intake) == (2, 2, 2)


def test_without_a_count_any_number_of_records_fits() -> None:
    intake = RecordQueue(limit_bytes=10)
    for _ in range(1000):
        put(intake, 0)
    assert intake.records == 1000


def test_a_record_larger_than_the_bound_passes_alone() -> None:
    intake = RecordQueue(limit_bytes=10)
    put(intake, 11)
    with pytest.raises(BufferError):
        put(intake, 0)


def test_what_is_no_record_is_never_refused() -> None:
    intake = RecordQueue(limit_bytes=10, limit_records=1)
    put(intake, 11)
    put(intake, 0, 0)
    assert state(intake) == (11, 1, 2)


@pytest.mark.parametrize(("nbytes", "pressed"), [(31, False), (32, True)])
def test_half_of_the_bound_presses(nbytes: int, *, pressed: bool) -> None:
    intake = RecordQueue(limit_bytes=100)
    put(intake, nbytes)
    assert intake.pressed is pressed


def test_a_quarter_is_for_what_is_encoded() -> None:
    intake = RecordQueue(limit_bytes=100)
    assert intake.may_encode
    intake.encoded(25)
    assert intake.may_encode
    intake.encoded(1)
    assert not intake.may_encode
    intake.free(held(encoded=1))
    assert intake.may_encode


def test_an_adjustment_makes_room() -> None:
    intake = RecordQueue(limit_bytes=100)
    put(intake, 60)
    intake.adjust(-50)
    put(intake, 50)
    assert intake.used_bytes == 60


def test_an_adjustment_may_exceed_the_bound_and_then_nothing_is_taken() -> None:
    intake = RecordQueue(limit_bytes=100)
    put(intake, 60)
    intake.adjust(50)
    with pytest.raises(BufferError, match="110 bytes are buffered"):
        put(intake, 0)


def test_after_close_nothing_is_taken() -> None:
    intake = RecordQueue(limit_bytes=100)
    intake.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        put(intake, 1)
    assert state(intake) == (0, 0, 0)


def test_one_thread_may_be_let_in_still() -> None:
    intake = RecordQueue(limit_bytes=100)
    intake.close(allowed_threads=(threading.get_ident(),))
    put(intake, 1)
    intake.close(allowed_threads=(threading.get_ident() + 1,))
    with pytest.raises(RuntimeError):
        put(intake, 1)
    assert state(intake) == (1, 1, 1)


# --- when the sender should look ----------------------------------------------------------------


def test_the_first_record_and_each_that_makes_a_handful_wake() -> None:
    intake = RecordQueue(limit_bytes=100, segment_rows=3)
    assert [put(intake, 1) for _ in range(4)] == [True, False, True, True]
    intake.drain()
    assert put(intake, 1)


def test_records_are_gathered_for_a_while_from_the_first_on() -> None:
    intake = RecordQueue(limit_bytes=100, gather_seconds=0.5)
    assert intake.due(7.0) == float("inf")
    intake.put(ITEM, 1, 7.0)
    intake.put(ITEM, 1, 7.4)
    assert intake.due(7.25) == 0.25
    assert intake.due(8.0) == 0.0
    intake.drain()
    assert intake.due(8.0) == float("inf")


def test_a_full_segment_is_not_gathered_for() -> None:
    intake = RecordQueue(limit_bytes=100, segment_rows=2, gather_seconds=0.5)
    put(intake, 1)
    assert intake.due(0.0) == 0.5
    put(intake, 1)
    assert intake.due(0.0) == 0.0


def test_what_is_urgent_is_not_gathered() -> None:
    intake = RecordQueue(limit_bytes=100, gather_seconds=0.5)
    put(intake, 1)
    assert intake.put(ITEM, 1, 0.0, urgent=True)
    assert intake.due(0.0) == 0.0


def test_threads_do_not_lose_each_others_counts() -> None:
    intake = RecordQueue(limit_bytes=1 << 40)

    def work() -> None:
        for _ in range(2000):
            put(intake, 3)
            intake.adjust(1)
            intake.encoded(2)
            intake.free(held(encoded=2))
            intake.release(held(4, 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert repr(intake) == "<RecordQueue 0/1099511627776 bytes, 0 records>"
    assert len(intake.drain()) == 8000
