"""Records of any schema are read by every reader; the long form of this is in tests/faults."""

from __future__ import annotations

import nesting

TRIALS = 30


def test_every_reader_reads_what_was_produced() -> None:
    outcome = nesting.main(TRIALS, 1_000_000)
    assert (outcome["trials"], outcome["wrong"]) == (TRIALS, [])
