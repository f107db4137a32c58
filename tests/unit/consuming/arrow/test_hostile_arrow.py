"""Arrow data in plain messages that has been the end of a process, or was read wrong."""

from __future__ import annotations

import hostile_arrow
from arrow_types import optional


def test_what_is_known_to_be_bad_is_read_as_it_was_sent_or_refused() -> None:
    """In a child: what pyarrow does with some of it ends the process."""
    outcomes, wrong = hostile_arrow.run_known()
    assert wrong == []
    cases = 8 + len(optional("bool8"))
    assert outcomes == {"honest": 4 * cases, "reported": len(hostile_arrow.BOMBS)}
