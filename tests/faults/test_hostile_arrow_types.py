"""Arrow data of every type, honest and with lies, read in child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hostile_arrow
import hostile_schema

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

TRIALS, SEGMENTS = 20_000, 5_000


def test_arrow_data_is_read_as_it_was_sent_or_refused_by_its_place(
    record_property: Callable[[str, object], None],
) -> None:
    """Each message lies between two honest ones, which are read whole.

    No trial ends its process, takes long, hands out what is not valid, or raises anything but the
    package's error of the message's place; an honest message is read as it was sent.
    """
    _check(*hostile_arrow.run(0, TRIALS), TRIALS, record_property)


def test_a_segment_whose_footer_lies_of_its_types_is_read_or_refused_by_its_place(
    record_property: Callable[[str, object], None],
) -> None:
    found, wrong = hostile_arrow.run(0, SEGMENTS, hostile_schema.__file__)
    _check(found, wrong, SEGMENTS, record_property)


def _check(
    found: Counter[str],
    wrong: list[str],
    trials: int,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("trials", dict(found))
    print(dict(found))  # noqa: T201 - how many trials came to what
    assert wrong == []
    assert found.total() == trials
    assert min(found["honest"], found["reported"], found["read"]) > trials // 20
