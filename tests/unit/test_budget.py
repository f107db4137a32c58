"""The one memory bound: what is taken is given back, and what does not fit is not taken."""

from __future__ import annotations

import threading

import pytest

from columnar_kafka.budget import Budget


def test_what_is_taken_counts_until_it_is_released() -> None:
    budget = Budget(limit_bytes=100)
    budget.take(30)
    budget.take(12)
    assert (budget.used_bytes, budget.records) == (42, 2)
    budget.release(42, 2)
    assert (budget.used_bytes, budget.records) == (0, 0)


def test_a_record_that_fills_the_bound_exactly_is_taken() -> None:
    budget = Budget(limit_bytes=100)
    budget.take(60)
    budget.take(40)
    assert budget.used_bytes == 100


def test_one_byte_more_is_refused_and_charges_nothing() -> None:
    budget = Budget(limit_bytes=1024)
    budget.take(1000)
    with pytest.raises(BufferError) as raised:
        budget.take(25)
    assert str(raised.value) == (
        "Local: Queue full: 1000 bytes are buffered, this needs 25, "
        "queue.buffering.max.kbytes allows 1024 bytes; "
        "poll() to serve delivery reports, or raise it"
    )
    assert (budget.used_bytes, budget.records) == (1000, 1)


def test_one_record_more_than_the_user_allows_is_refused() -> None:
    budget = Budget(limit_bytes=1024, limit_records=2)
    budget.take(1)
    budget.take(1)
    with pytest.raises(BufferError) as raised:
        budget.take(1)
    assert str(raised.value) == (
        "Local: Queue full: 2 records are buffered, queue.buffering.max.messages allows 2; "
        "poll() to serve delivery reports, or raise it"
    )
    assert (budget.used_bytes, budget.records) == (2, 2)


def test_without_a_count_any_number_of_records_fits() -> None:
    budget = Budget(limit_bytes=10)
    for _ in range(1000):
        budget.take(0)
    assert budget.records == 1000


def test_a_record_larger_than_the_bound_passes_alone() -> None:
    budget = Budget(limit_bytes=10)
    budget.take(11)
    with pytest.raises(BufferError):
        budget.take(0)


@pytest.mark.parametrize(("nbytes", "pressed"), [(49, False), (50, True)])
def test_half_of_the_bound_presses(nbytes: int, *, pressed: bool) -> None:
    assert Budget(limit_bytes=100).take(nbytes) is pressed


def test_an_adjustment_makes_room() -> None:
    budget = Budget(limit_bytes=100)
    budget.take(90)
    budget.adjust(-80)
    budget.take(90)
    assert (budget.used_bytes, budget.records) == (100, 2)


def test_an_adjustment_may_exceed_the_bound_and_then_nothing_is_taken() -> None:
    budget = Budget(limit_bytes=100)
    budget.take(90)
    budget.adjust(50)
    with pytest.raises(BufferError, match="140 bytes are buffered"):
        budget.take(0)


def test_threads_do_not_lose_each_others_counts() -> None:
    budget = Budget(limit_bytes=1 << 40)

    def work() -> None:
        for _ in range(2000):
            budget.take(3)
            budget.adjust(1)
            budget.release(4, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert repr(budget) == "<Budget 0/1099511627776 bytes, 0 records>"
