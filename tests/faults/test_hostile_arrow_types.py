"""Arrow data of every type, honest and forged, read in child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hostile_arrow
import hostile_schema

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

TRIALS, SEGMENTS = 20_000, 5_000


def test_arrow_data_is_read_as_it_was_sent_or_refused_with_its_address(
    record_property: Callable[[str, object], None],
) -> None:
    """Every message lies between two honest ones, which are read completely.

    No trial aborts its process, takes too long, returns invalid data, or raises anything but the
    package's error with the message's address. An honest message is read as it was sent.
    """
    _check(*hostile_arrow.run(0, TRIALS), TRIALS, record_property)


def test_a_segment_with_false_types_in_its_footer_is_read_or_refused_with_its_address(
    record_property: Callable[[str, object], None],
) -> None:
    outcomes, wrong = hostile_arrow.run(0, SEGMENTS, hostile_schema.__file__)
    _check(outcomes, wrong, SEGMENTS, record_property)


def _check(
    outcomes: Counter[str],
    wrong: list[str],
    trials: int,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("trials", dict(outcomes))
    assert wrong == []
    assert outcomes.total() == trials
    assert min(outcomes["honest"], outcomes["reported"], outcomes["read"]) > trials // 20
