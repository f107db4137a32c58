"""Arrow data of every type in plain messages, honest and with lies, read in child processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hostile_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

TRIALS = 20_000


def test_arrow_data_is_read_as_it_was_sent_or_refused_by_its_place(
    record_property: Callable[[str, object], None],
) -> None:
    """Each message lies between two honest ones, which are read whole.

    No trial ends its process, takes long, hands out what is not valid, or raises anything but the
    package's error of the message's place; an honest message is read as it was sent.
    """
    found, wrong = hostile_arrow.run(0, TRIALS)
    record_property("trials", dict(found))
    print(dict(found))  # noqa: T201 - how many trials came to what
    assert wrong == []
    assert found.total() == TRIALS
    assert min(found["honest"], found["reported"], found["read"]) > TRIALS // 20
